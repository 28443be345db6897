"""Which of what was found comes first: places are given one by one, so the first k never depend on how many are asked for.

The best takes the first place. What was matched exactly (a ticker, a rule id, an error code, a phrase that hardly any other
passage has) has up to two of the first three reserved for it, if it is not there anyway: somebody who names a thing wants it.
Where nothing else was asked, it comes first. A text from outside may hold 40 % of any first places and not more; transcripts
and the pages of decisions, of which there are many, give way to other documents while there are any.

>>> [each.path for each in placed([Seat(path, "note", 3) for path in "abcd"], 4, reserved=[Seat("d", "note", 3)])]
['a', 'b', 'd', 'c']
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol, TypeVar

from memtape.core.recall.ranking import may_hold

OUTSIDE = 4  # the tier of texts from outside
FIRST, RESERVED = 1, 2
MANY = ("trace", "transcript")  # types that are written with every decision and run


class Placed(Protocol):
    """What must be known of a passage where places are given."""

    @property
    def path(self) -> str: ...
    @property
    def type(self) -> str: ...
    @property
    def tier(self) -> int: ...


class Seat(NamedTuple):
    """The least of it."""

    path: str
    type: str
    tier: int
    chunk: int = 0


P = TypeVar("P", bound=Placed)


@dataclass(frozen=True, slots=True)
class Caps:
    """The share of any first places that one document of a tier may hold, and that a type may hold while others are left."""

    document: dict[int, float] = field(default_factory=lambda: {OUTSIDE: 0.4})
    type: dict[str, float] = field(default_factory=lambda: dict.fromkeys(MANY, 0.4))

    def leave_free(self, seat: Placed) -> bool:
        """Whether a passage may stand anywhere, whatever stands before it."""
        return self.document.get(seat.tier, 1.0) >= 1 and self.type.get(seat.type, 1.0) >= 1


def placed(
    ranked: Sequence[P], limit: int, *, reserved: Sequence[P] = (), caps: Caps | None = None, named: bool = False
) -> list[P]:
    """The first places. `ranked` is best first; `reserved` what was matched exactly, best first; `named` if no more was asked."""
    caps = caps or Caps()
    ahead = [seat for seat in reserved[:RESERVED] if seat not in ranked[: FIRST + RESERVED]]
    wanted = list(reserved) if named else [*ranked[: FIRST + RESERVED - len(ahead)], *ahead]
    taken = set(wanted)
    waiting = [*wanted, *(seat for seat in ranked if seat not in taken)]
    if all(caps.leave_free(seat) for seat in waiting[:limit]):
        return waiting[:limit]
    held: Counter[str] = Counter()
    chosen: list[P] = []
    while waiting and len(chosen) < limit:
        at = _next(waiting, held, len(chosen) + 1, caps)
        if at is None:
            break
        seat = waiting.pop(at)
        held.update((f"document {seat.path}", f"type {seat.type}"))
        chosen.append(seat)
    return chosen


def _next(waiting: Sequence[Placed], held: Counter[str], places: int, caps: Caps) -> int | None:
    """The first that may have this place: at best one whose type still has room, else one whose document has."""
    giving_way: int | None = None
    for at, seat in enumerate(waiting):
        if held[f"document {seat.path}"] >= may_hold(caps.document.get(seat.tier, 1.0), places):
            continue
        if held[f"type {seat.type}"] < may_hold(caps.type.get(seat.type, 1.0), places):
            return at
        giving_way = at if giving_way is None else giving_way
    return giving_way
