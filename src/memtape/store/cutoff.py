"""The limits of queries: what a reader may know, and a moment at which a position was flat."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal

from memtape.core.codec import micros
from memtape.core.value_class import dataclass

FOREVER = 2**62
NEVER = -(2**62)
MINE = "owner = :owner AND stream = :stream"


@dataclass(frozen=True, slots=True)
class Cutoff:
    """What a reader may know: what was known by a moment (`as_of`), and recorded by a log row (`head`).

    `owner_head` is the same for the owner's own stream: skills, agents, the calendar.
    """

    as_of: datetime | None = None
    head: int | None = None
    owner_head: int | None = None

    def limits(self) -> dict[str, int]:
        """The cutoff as parameters of a query."""
        return {
            "as_of": FOREVER if self.as_of is None else micros(self.as_of),
            "upto": FOREVER if self.head is None else self.head,
        }

    def owners(self) -> Cutoff:
        """The limits for the owner's own stream."""
        return Cutoff(self.as_of, self.owner_head)

    @property
    def all(self) -> bool:
        """True if nothing is left out."""
        return self.as_of is None and self.head is None


EVERYTHING = Cutoff()


@dataclass(frozen=True, slots=True)
class FlatPoint:
    """A moment at which a position was flat, and when this was settled: nothing known later has changed it."""

    at: datetime
    known_at: datetime
    rate: Decimal | None = None  # the last one known then
