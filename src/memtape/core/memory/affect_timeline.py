"""The affect state of an agent at any moment, as far as it was known at that moment.

The stored steps fold everything that is believed now. The state of a past moment is usually one of them. After an undo, a
correction or a late record it is not: then what was believed at that moment is folded, and the fold is carried from one moment to
the next, because a batch asks for the states of thousands of moments.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from itertools import islice

from memtape.core.memory.affect import AccountChange, AffectFold, AffectStep, affect_steps, event_order
from memtape.core.value_class import dataclass

STEPS_LOOKED_AT = 16  # before a moment, to find the last one that was known then
OUTCOMES_LOOKED_AT = 100  # the window of the spread of outcomes
_Order = tuple[datetime, int, str, int]


@dataclass(frozen=True, slots=True)
class AccountEvent:
    """A change of the account and until when it was believed. A claim counts only while there is no record of a broker."""

    event: AccountChange
    known_to: datetime | None = None
    claimed: bool = False


class AffectTimeline:
    """The agent's affect at any moment, as far as it was known at that moment."""

    def __init__(
        self, steps: Callable[[datetime], Sequence[AffectStep]], replaced: Callable[[datetime], bool],
        account_events: Callable[[], Sequence[AccountEvent]], starting: float, verified_from: datetime | None,
        has_claims: bool,
    ) -> None:  # fmt: skip
        """A timeline over the fold of what is believed now.

        `steps` gives the last steps by a moment. `replaced` says whether something was believed at a moment that is no
        longer believed. `account_events` gives everything that ever happened to the account, for the rare case in which a
        past belief must be folded. `has_claims` says whether the agent ever claimed a trade.
        """
        self._steps, self._replaced, self._account_events, self._starting = steps, replaced, account_events, starting
        self._verified_from, self._has_claims = verified_from, has_claims
        self._past: PastBelief | None = None

    def at(self, moment: datetime) -> AffectStep | None:
        """Returns the state at a moment, from what was known then; None before the first step.

        The stored steps fold everything that is believed now, in the order in which it happened. The state of a past moment
        is the last step of the fold of what was known then. In most cases that fold is a beginning of the stored one, and its
        last step can be looked up. Where it is not, the past belief is folded.
        """
        if self._has_claims and self._verified_from is not None and moment < self._verified_from:
            # At that time no broker had reported and claims counted. The stored steps leave them out.
            return self._believed_at(moment)
        steps = self._steps(moment)
        # `known_by` is when a step and all before it were known. Steps at the end that were not yet known are left out.
        place = len(steps) - 1
        while place >= 0 and steps[place].known_by > moment:
            if steps[place].known_at <= moment:
                # This event was known although an earlier one was not: what was known then is no beginning of the fold.
                return self._believed_at(moment)
            place -= 1
        if (place < 0 and len(steps) == STEPS_LOOKED_AT) or self._replaced(moment):
            # Either the last known step lies further back than we looked, or a version that was believed then has been
            # replaced since, and the stored steps contain the new version.
            return self._believed_at(moment)
        return steps[place] if place >= 0 else None

    def steps_known_at(self, moment: datetime) -> list[AffectStep]:
        """Returns all steps by a moment, from what was known then."""
        return affect_steps(believed_changes(self._account_events(), moment, self._verified_from), self._starting)

    def _believed_at(self, moment: datetime) -> AffectStep | None:
        if self._past is None:
            self._past = PastBelief(self._account_events(), self._starting, self._verified_from)
        return self._past.at(moment)


class PastBelief:
    """The fold of what was believed at a moment, carried forward from moment to moment.

    What became known at the end of the fold is appended. What became known before its end, or was taken back, is folded again
    from there. So ascending moments cost little more than one fold. An earlier moment starts over.
    """

    def __init__(self, events: Sequence[AccountEvent], starting: float, verified_from: datetime | None) -> None:
        self._starting = starting
        # The number in the order keeps events that are equal in everything else apart.
        begins: list[tuple[datetime, _Order, AccountChange]] = []
        ends: list[tuple[datetime, _Order]] = []
        for number, each in enumerate(events):
            order = (*event_order(each.event), number)
            begin, end = max(each.event.at, each.event.known_at), each.known_to
            if each.claimed and verified_from is not None:
                end = verified_from if end is None else min(end, verified_from)
            if end is None or begin < end:
                begins.append((begin, order, each.event))
                ends += [(end, order)] if end is not None else []
        self._begins = sorted(begins, key=lambda begin: begin[:2])
        self._ends = sorted(ends)
        self._restart()

    def _restart(self) -> None:
        self._moment: datetime | None = None
        self._begun = 0  # how many beginnings lie behind
        self._over: set[_Order] = set()  # the ends that lie behind
        self._orders: list[_Order] = []  # of the believed events
        self._changes: list[AccountChange] = []
        self._steps: list[AffectStep] = []
        self._fold = AffectFold(self._starting)

    def at(self, moment: datetime) -> AffectStep | None:
        """Returns the last step of what was believed at a moment; None if nothing was."""
        if self._moment is not None and moment < self._moment:
            self._restart()
        self._moment = moment
        unchanged = min(self._take_back(moment), self._take_in(moment))
        if unchanged < len(self._steps):
            del self._steps[unchanged:]
            newest_first = (step.pnl_r for step in reversed(self._steps) if step.pnl_r is not None)
            outcomes = list(islice(newest_first, OUTCOMES_LOOKED_AT))[::-1]
            self._fold = AffectFold(self._starting, self._steps[-1] if self._steps else None, outcomes)
        self._steps += [self._fold.add(change) for change in self._changes[len(self._steps) :]]
        return self._steps[-1] if self._steps else None

    def _take_back(self, moment: datetime) -> int:
        """Remove what is no longer believed. Returns the length of the unchanged beginning."""
        unchanged = len(self._orders)
        while len(self._over) < len(self._ends) and self._ends[len(self._over)][0] <= moment:
            order = self._ends[len(self._over)][1]
            self._over.add(order)
            place = bisect_left(self._orders, order)
            # What began and ended since the last moment was never taken in.
            if place < len(self._orders) and self._orders[place] == order:
                del self._orders[place], self._changes[place]
                unchanged = min(unchanged, place)
        return unchanged

    def _take_in(self, moment: datetime) -> int:
        """Add what became known and is still believed. Returns the length of the unchanged beginning."""
        unchanged = len(self._orders)
        while self._begun < len(self._begins) and self._begins[self._begun][0] <= moment:
            _, order, change = self._begins[self._begun]
            self._begun += 1
            if order not in self._over:
                place = bisect_left(self._orders, order)
                self._orders.insert(place, order)
                self._changes.insert(place, change)
                unchanged = min(unchanged, place)
        return unchanged


def steps_until(steps: Sequence[AffectStep]) -> Callable[[datetime], Sequence[AffectStep]]:
    """Returns a function that gives the last steps by a moment, from steps in memory."""
    ats = [step.at for step in steps]

    def until(moment: datetime) -> Sequence[AffectStep]:
        place = bisect_right(ats, moment)
        return steps[max(0, place - STEPS_LOOKED_AT) : place]

    return until


def timeline_of(
    events: Sequence[AccountEvent], steps: Sequence[AffectStep], starting: float, verified_from: datetime | None
) -> AffectTimeline:
    """Returns the timeline of all account events in memory."""
    replaced = within_spans((event.event.known_at, event.known_to) for event in events if event.known_to is not None)
    has_claims = any(event.claimed for event in events)
    return AffectTimeline(steps_until(steps), replaced, lambda: events, starting, verified_from, has_claims)


def within_spans(spans: Iterable[tuple[datetime, datetime]]) -> Callable[[datetime], bool]:
    """Returns a function that says whether a moment lies within any of these spans. A span does not contain its end.

    >>> from datetime import UTC
    >>> day = [datetime(2026, 1, n, tzinfo=UTC) for n in range(1, 9)]
    >>> within = within_spans([(day[3], day[5]), (day[0], day[2]), (day[1], day[4])])
    >>> [within(each) for each in day]
    [True, True, True, True, True, False, False, False]
    """
    starts: list[datetime] = []
    ends: list[datetime] = []
    for start, end in sorted(spans):
        if end <= start:
            continue
        if ends and start <= ends[-1]:
            ends[-1] = max(ends[-1], end)
        else:
            starts.append(start)
            ends.append(end)

    def within(moment: datetime) -> bool:
        place = bisect_right(starts, moment) - 1
        return place >= 0 and moment < ends[place]

    return within


def believed_changes(
    events: Iterable[AccountEvent], moment: datetime | None, verified_from: datetime | None
) -> list[AccountChange]:
    """Returns the changes of the account as believed at a moment (None: now)."""
    if moment is None:
        return [e.event for e in events if e.known_to is None and not (e.claimed and verified_from is not None)]
    claims_count = claims_count_at(moment, verified_from)
    return [
        e.event for e in events
        if e.event.at <= moment and e.event.known_at <= moment and (e.known_to is None or e.known_to > moment)
        and (claims_count or not e.claimed)
    ]  # fmt: skip


def claims_count_at(moment: datetime, verified_from: datetime | None) -> bool:
    """Returns True if the agent's own claims count at a moment: before the first record of a broker."""
    return verified_from is None or moment < verified_from
