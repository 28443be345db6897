"""How the book of a position is compared with the snapshots of its ticks.

A snapshot that shows another quantity than the book is late, if the book had that quantity within the settling time; or the fills
are, if those that follow within the settling time lead to it. Neither changes anything. Otherwise `reconcile` says what happened,
and the book follows the broker by executions that are marked `inferred`.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from decimal import Decimal
from itertools import takewhile

from memtape.core.events import Discrepancy, DiscrepancyReason
from memtape.core.fills import Fill
from memtape.core.ledger.position_book import Execution, PositionBook
from memtape.core.ledger.position_events import CorrectionEvent, FillEvent, PositionEvent, SnapshotView, SplitEvent
from memtape.core.ledger.reconcile import Interval, Reopened, explain_difference, is_entry_moved, opens_position
from memtape.core.ledger.rounds import KnownBar
from memtape.core.observed import Decision
from memtape.core.values import ZERO


class LastBar:
    """The last bar completed by a moment."""

    def __init__(self, bars: Iterable[KnownBar]) -> None:
        self._bars = sorted(bars, key=lambda known: (known.bar.t1, -known.bar.frame))
        self._ends = [known.bar.t1 for known in self._bars]

    def at(self, moment: datetime) -> KnownBar | None:
        """The last bar that ended by a moment, or None."""
        found = bisect_right(self._ends, moment)
        return self._bars[found - 1] if found else None

    def ending_within(self, after: datetime, until: datetime) -> list[KnownBar]:
        """The bars that ended after one moment and by another."""
        return self._bars[bisect_right(self._ends, after) : bisect_right(self._ends, until)]


class Snapshots:
    """Compares a book with snapshots, tick by tick.

    Without history (`has_history` False) a snapshot that contradicts the book is not judged: `needs_history` says so.
    """

    def __init__(self, book: PositionBook, last_bar: LastBar, filled: bool, has_history: bool) -> None:
        self.book, self._last_bar = book, last_bar
        self._dust, self._settling = book.terms.dust_qty, timedelta(seconds=book.terms.settle_seconds)
        self._filled = filled  # there were fills of this position
        self._has_history, self.needs_history = has_history, False
        self._corrections: list[CorrectionEvent] = []
        self._ticks: list[SnapshotView] = []
        self._previous: SnapshotView | None = None  # the last tick with a snapshot
        self._fills: list[Fill] = []  # since the last snapshot

    def note_fill(self, fill: Fill) -> None:
        """Take note of a fill: two equal ones may be one that was reported twice."""
        self._filled = True
        self._fills.append(fill)

    def note_correction(self, correction: CorrectionEvent) -> None:
        """Take note of a correction: the snapshots before it showed the uncorrected account."""
        self._corrections.append(correction)

    def fills_ahead(self, tick: SnapshotView, ordered: Sequence[PositionEvent], place: int, taken: set[int]) -> list[int]:
        """The events after a tick up to the fill, within the settling time, that leads to what its snapshot shows."""
        shown, held = self._shown(tick), self.book.held
        if not self._settling or self._agrees(shown, held) or self._is_suppressed(tick) or self._was_held(tick, shown):
            return []
        found: list[int] = []
        for n in range(place + 1, len(ordered)):
            event = ordered[n]
            if event.order[0] > tick.t + self._settling:
                break
            if isinstance(event, SnapshotView) or n in taken or event.order[0] <= tick.t:
                continue
            found.append(n)
            if isinstance(event, SplitEvent):
                held *= event.split.ratio
            elif isinstance(event, FillEvent):
                held += event.fill.qty if event.fill.side == "buy" else -event.fill.qty
                held = ZERO if abs(held) <= self._dust else held
                if self._agrees(shown, held):
                    self._report(tick, "snapshot_lag", self.book.held, None)
                    return found
        return []

    def look(self, tick: SnapshotView, explained: bool) -> None:
        """Compare the book with a tick, and take the rate, stop and target that it states.

        `explained` says that fills after the tick lead to what its snapshot shows; they have been taken.
        """
        self._ticks.append(tick)
        if tick.snapshot:
            if not explained and not self._is_suppressed(tick):
                self._reconcile(tick)
            if self.needs_history:
                return
            self._previous, self._fills = tick, []
            if (round_ := self.book.round) is not None:
                held = tick.held if tick.held is not None and tick.held.qty * round_.side > 0 else None
                round_.shown_entry = held.entry_px if held is not None else None
        contract = self.book.contract_at(tick.t)
        rate = tick.stated_rate or contract.rate_from(tick.stated_mark, self.book.terms.currency)
        if rate is not None:
            self.book.rates.add(tick.t, rate)
        self._move_stop(tick)

    def _move_stop(self, tick: SnapshotView) -> None:
        """Take the stop and target of a decision that entered nothing: they hold from this tick on."""
        decision, round_ = tick.decision, self.book.round
        if decision is None or round_ is None or tick.id in self.book.entered:
            return
        if round_.adopted and round_.entry_at == tick.t:
            # What the first tick shows was there before its decision.
            return
        if decision.stop is not None:
            round_.stop = decision.stop
        if decision.target is not None:
            round_.target = decision.target

    # ---- does it agree? ----------------------------------------------------------------------------------------------

    def _shown(self, tick: SnapshotView) -> Decimal:
        return tick.held.qty if tick.held and abs(tick.held.qty) > self._dust else ZERO

    def _agrees(self, shown: Decimal, held: Decimal) -> bool:
        return abs(shown - held) <= self._dust

    def _is_suppressed(self, tick: SnapshotView) -> bool:
        """True if an earlier fill was corrected after this snapshot: it showed the uncorrected account."""
        return any(correction.since <= tick.t < correction.until for correction in self._corrections)

    def _was_held(self, tick: SnapshotView, shown: Decimal) -> bool:
        """True if the book had the quantity of a snapshot at some moment of the settling time before it."""
        for at, qty in reversed(self.book.quantities):
            if at <= tick.t and self._agrees(shown, qty):
                return True
            if at <= tick.t - self._settling:
                return False
        # Before all of these the position was flat.
        return not shown

    # ---- it does not -------------------------------------------------------------------------------------------------

    def _reconcile(self, tick: SnapshotView) -> None:
        """Make the book agree with what the broker shows."""
        book = self.book
        shown, held = self._shown(tick), book.held
        agrees = self._agrees(shown, held)
        if agrees and not (book.round and is_entry_moved(book.round, tick, self._dust)):
            return
        if not self._has_history:
            self.needs_history = True
            return
        if not agrees and self._was_held(tick, shown):
            self._report(tick, "snapshot_lag", held, None)
            return
        interval = self._interval(tick)
        found = explain_difference(book.terms, book.round, tick, shown, interval, book.changed_at, self._previous)
        if book.round is not None and agrees:
            book.round.entry_moved |= not isinstance(found, Reopened)
        if found is None:
            return
        adopted = tick.first and not held and not self._filled and not opens_position(tick.decision, 1 if shown > 0 else -1)
        book.last = tick.order
        if book.round is not None:
            book.round.learn(interval.known_at)
        self._suspect_twice(tick, held, shown)
        price = found.entry if isinstance(found, Reopened) else found.price
        self._report(tick, "adopted" if adopted else "snapshot", held, price)
        if isinstance(found, Reopened):
            book.apply(self._inferred(tick, -held, found.exit, None, interval, trigger=found.trigger))
            book.apply(self._inferred(tick, shown, found.entry, tick.decision, interval))
        else:
            decision = None if adopted else tick.decision
            book.apply(self._inferred(tick, shown - held, found.price, decision, interval, found.trigger, adopted))

    def _interval(self, tick: SnapshotView) -> Interval:
        """The prices between the last snapshot, or the entry if that was later, and this tick.

        A position that was flat has none: what opened it is priced by the broker, or by the mark.
        """
        round_ = self.book.round
        start = tick.t if round_ is None else max(self._previous.t, round_.entry_at) if self._previous else round_.entry_at
        bars = self._last_bar.ending_within(start, tick.t)
        marks = [each.stated_mark for each in takewhile(lambda each: each.t >= start, reversed(self._ticks))]
        mark, known_at = self._mark(tick)
        known_at = max([tick.known_at, known_at, *(bar.known_at for bar in bars)])
        return Interval(tuple(bar.bar for bar in bars), tuple(each for each in marks if each is not None), mark, known_at)

    def _mark(self, tick: SnapshotView) -> tuple[Decimal | None, datetime]:
        """The best price of the moment, and when it was known: the position's mark, else the tick's, else the last close."""
        if tick.stated_mark is not None:
            return tick.stated_mark, tick.known_at
        last = self._last_bar.at(tick.t)
        return (last.bar.c, last.known_at) if last else (None, tick.known_at)

    def _inferred(
        self, tick: SnapshotView, signed: Decimal, price: Decimal | None, decision: Decision | None, interval: Interval,
        trigger: str | None = None, adopted: bool = False,
    ) -> Execution:  # fmt: skip
        """The execution that a snapshot implies, at the rate that its tick states, else the one that is known."""
        book = self.book
        contract = book.contract_at(tick.t)
        rate = tick.stated_rate or contract.rate_from(price, book.terms.currency) or book.rates.at(tick.t)
        return Execution(
            key=f"tick:{tick.id}", at=tick.t, way=1 if signed > 0 else -1, qty=abs(signed), price=price,
            known_at=interval.known_at, skill_version=tick.skill_version, tick=tick, decision=decision, rate=rate,
            trigger=trigger, inferred=True, adopted=adopted,
        )  # fmt: skip

    def _report(self, tick: SnapshotView, why: DiscrepancyReason, held: Decimal, price: Decimal | None) -> None:
        stated = tick.held.qty if tick.held else ZERO
        self.book.discrepancies.append(Discrepancy(self.book.symbol, self.book.leg, tick.t, why, held, stated, price))

    def _suspect_twice(self, tick: SnapshotView, held: Decimal, shown: Decimal) -> None:
        """Report two fills that are equal but for their ids, if the snapshot shows one of them only."""
        seen: dict[tuple[object, ...], Fill] = {}
        for fill in self._fills:
            first = seen.setdefault((fill.t, fill.px, fill.qty, fill.side), fill)
            signed = fill.qty if fill.side == "buy" else -fill.qty
            if first is not fill and self._agrees(shown, held - signed):
                found = Discrepancy(
                    self.book.symbol, self.book.leg, tick.t, "fill_twice", held, shown, fill.px, fill_id=first.id, other=fill.id
                )
                self.book.discrepancies.append(found)
                return
