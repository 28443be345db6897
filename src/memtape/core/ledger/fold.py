"""The ledger: snapshots and fills of one position -> its trades. One pure fold, the same live, imported and replayed.

Events come in one order (`position_events`). Fills say what was done; a snapshot says what is held. Where the two disagree,
`reconcile` decides what happened: the snapshot is late, or the fills are; a quantity was added or taken off; the position was closed
and reopened. What it adds is marked `inferred` and priced from what the broker and the bars show, never from an invented price.

Long and short are +1 and -1 (`side`); quantities are positive. Where an account counts by lots (`fifo_lots`), the round trip of the
whole position is folded all the same, because snapshots are compared with it; its lots are split along with it (`lots`).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal, localcontext
from itertools import accumulate, takewhile

from memtape.core.events import Discrepancy
from memtape.core.ledger.lots import close_lots, open_lot, share_payment
from memtape.core.ledger.position_events import (
    CorrectionEvent,
    FillEvent,
    FundingEvent,
    Order,
    PositionEvent,
    SnapshotView,
    SplitEvent,
    TermsEvent,
)
from memtape.core.ledger.rates import Rates
from memtape.core.ledger.reconcile import Interval, Reopened, explain_difference, is_entry_moved, opens_position
from memtape.core.ledger.rounds import KnownBar, Round
from memtape.core.ledger.terms import DEFAULT_TERMS, AccountTerms, ContractTerms
from memtape.core.ledger.trades import round_money
from memtape.core.observed import Decision, Fill
from memtape.core.values import MONEY, ONE, ZERO

AFTER_FILLS = 2**31  # where an entry inferred from a snapshot stands among the entries of its moment


@dataclass(frozen=True, slots=True)
class Earlier:
    """What the fold of a position needs to know from before its first event: a moment at which it was flat."""

    filled: bool = False  # there were fills before: what a snapshot shows first was not adopted
    rate: Decimal | None = None  # the last one known


NOTHING_EARLIER = Earlier()


@dataclass(slots=True)
class FoldResult:
    """The result of a fold."""

    closed: list[Round]  # round trips of the position, flat to flat
    open: Round | None
    pieces: list[Round]  # of an account that counts by lots: what its reductions closed
    discrepancies: list[Discrepancy]
    last: Order | None  # the last fill, payment, split or inferred fill

    def closed_trades(self, terms: AccountTerms) -> list[Round]:
        """The rounds that are closed trades, in the unit in which the account counts."""
        return self.pieces if terms.trade_unit == "fifo_lots" else self.closed


class LastBar:
    """The last bar completed by a moment."""

    def __init__(self, bars: Iterable[KnownBar]) -> None:
        self.bars = sorted(bars, key=lambda known: (known.bar.t1, -known.bar.frame))
        self.ends = [known.bar.t1 for known in self.bars]

    def at(self, moment: datetime) -> KnownBar | None:
        """The last bar that ended by a moment, or None."""
        found = bisect_right(self.ends, moment)
        return self.bars[found - 1] if found else None

    def ending_within(self, after: datetime, until: datetime) -> list[KnownBar]:
        """The bars that ended after one moment and by another."""
        return self.bars[bisect_right(self.ends, after) : bisect_right(self.ends, until)]


def fold_events(
    terms: AccountTerms,
    symbol: str,
    leg: str,
    events: Iterable[PositionEvent],
    bars: Sequence[KnownBar] = (),
    earlier: Earlier = NOTHING_EARLIER,
) -> FoldResult:
    """Carry a position from flat through its events, in order, and then over the bars, which show how far each trade ran."""
    book = _Book(terms, symbol, leg, None, LastBar(bars), earlier)
    ordered = sorted(events, key=lambda event: event.order)
    book.run(ordered)
    mark_settled(book.closed, book.pieces, ordered)
    return book.result(bars)


def fold_onto(
    terms: AccountTerms, symbol: str, leg: str, open_: Round | None, events: Iterable[PositionEvent], bars: Sequence[KnownBar],
    splits: Sequence[datetime] = (),
) -> FoldResult | None:  # fmt: skip
    """Carry an open or flat position on (`open_` is changed in place), or return None if that needs its history.

    A snapshot that contradicts the ledger is judged by what happened before it, which a stored round no longer tells.
    """
    book = _Book(terms, symbol, leg, open_, LastBar(bars), Earlier(filled=True), splits)
    book.has_history = False
    ordered = sorted(events, key=lambda event: event.order)
    book.run(ordered)
    if book.needs_history:
        return None
    mark_settled(book.closed, book.pieces, ordered)
    return book.result(bars)


def _ticks_after(ordered: Sequence[PositionEvent]) -> list[SnapshotView | None]:
    """For each event the first tick at or after it, whenever it was delivered: the decision of that run explains the event.

    No run observed what came from a file. Its reasons come only from decisions that it names.
    """
    ticks: list[SnapshotView | None] = [None] * len(ordered)
    following: SnapshotView | None = None
    for n in range(len(ordered) - 1, -1, -1):
        event = ordered[n]
        if isinstance(event, SnapshotView):
            following = event
        if not (isinstance(event, FillEvent) and event.imported):
            ticks[n] = following
    return ticks


def mark_settled(closed: Sequence[Round], pieces: Sequence[Round], ordered: Sequence[PositionEvent]) -> None:
    """Set `settled_at` of the rounds, and of their last pieces, that no event so far has changed after something later was known.

    Such an exit is a place from which a position can be derived again, without what lies before it.
    """
    if not closed:
        return
    # An event that was taken back counts as news until then.
    learned = [max(h.known_at, h.gone_at or h.known_at) for h in ordered]
    known_by = list(accumulate(learned, max))
    known_from = list(accumulate(reversed(learned), min))[::-1]
    places = [h.order for h in ordered]
    for round_ in closed:
        assert round_.exit_order is not None
        after = bisect_right(places, round_.exit_order)
        known = max(known_by[after - 1], round_.known_at)
        round_.settled_at = known if after == len(ordered) or known <= known_from[after] else None
    ended = {round_.exit_order: round_.settled_at for round_ in closed}
    for piece in pieces:
        # Only the pieces that end the position leave it flat.
        piece.settled_at = ended.get(piece.exit_order)


class _Book:
    """The state of the position during the fold."""

    def __init__(
        self, terms: AccountTerms, symbol: str, leg: str, open_: Round | None, last_bar: LastBar, earlier: Earlier,
        splits: Sequence[datetime] = (),
    ) -> None:  # fmt: skip
        self.terms, self.symbol, self.leg = terms, symbol, leg
        self.round = open_
        self.last_bar = last_bar
        self.closed: list[Round] = []
        self.pieces: list[Round] = []
        self.discrepancies: list[Discrepancy] = []
        self.last: Order | None = None
        self.filled = earlier.filled
        self.statements: list[tuple[datetime, ContractTerms]] = []  # terms, by the moment from which they hold
        self.rates = Rates(open_.rates if open_ else (), earlier.rate)
        self.corrections: list[CorrectionEvent] = []
        self.splits = list(splits)
        self.has_history, self.needs_history = True, False
        # What snapshots are compared with: quantities held, ticks seen, fills since the last snapshot.
        self.quantities: list[tuple[datetime, Decimal]] = []
        self.ticks: list[SnapshotView] = []
        self.previous: SnapshotView | None = None  # the last tick with a snapshot
        self.changed_at: datetime | None = None  # the last fill or split
        self.fills: list[Fill] = []  # since the last snapshot
        self.entered: set[str] = set()  # the ticks whose decision went to an entry

    def contract_at(self, moment: datetime) -> ContractTerms:
        """The terms in force for what is entered at a moment."""
        place = bisect_right(self.statements, moment, key=lambda stated: stated[0])
        return self.statements[place - 1][1] if place else DEFAULT_TERMS

    @property
    def held(self) -> Decimal:
        """The signed quantity of the ledger."""
        return self.round.qty * self.round.side if self.round else ZERO

    def run(self, ordered: Sequence[PositionEvent]) -> None:
        """Take the events in order. A tick may take fills with it that follow within the settling time."""
        explaining = _ticks_after(ordered)
        self.statements = [(e.order[0], ContractTerms.of(e.instrument)) for e in ordered if isinstance(e, TermsEvent)]
        taken: set[int] = set()
        with localcontext(MONEY):
            for n, event in enumerate(ordered):
                if n in taken or self.needs_history:
                    continue
                if isinstance(event, SnapshotView):
                    ahead = self._fills_ahead(event, ordered, n, taken) if event.snapshot else []
                    for place in ahead:
                        following = ordered[place]
                        is_imported = isinstance(following, FillEvent) and following.imported
                        self.take(following, None if is_imported else event)
                        taken.add(place)
                    self.look(event, explained=bool(ahead))
                else:
                    self.take(event, explaining[n])

    def take(self, event: PositionEvent, tick: SnapshotView | None) -> None:
        """Take anything but a tick; `tick` is the one whose decision explains it."""
        match event:
            case FillEvent():
                self.execute(event, tick)
            case FundingEvent():
                self.pay(event)
            case SplitEvent():
                self.split(event)
            case CorrectionEvent():
                self.corrections.append(event)

    def result(self, bars: Sequence[KnownBar]) -> FoldResult:
        """What came out, after the bars have shown how far each trade ran."""
        # A bar with a split inside shows prices in two units and proves nothing.
        whole = [known for known in bars if not any(known.bar.t0 < at < known.bar.t1 for at in self.splits)]
        by_end = sorted(whole, key=lambda known: known.bar.t1)
        ends = [known.bar.t1 for known in by_end]
        longest = max((known.bar.t1 - known.bar.t0 for known in by_end), default=timedelta(0))
        open_ = [self.round, *self.round.lots] if self.round else []
        for round_ in [*self.closed, *self.pieces, *open_]:
            first = bisect_right(ends, round_.entry_at)
            last = len(ends) if round_.exit_at is None else bisect_right(ends, round_.exit_at + longest)
            round_.watch(by_end[first:last], self.terms.mfe_mode, self.rates)
            round_.rate = self.rates.at(round_.exit_at) if round_.exit_at else self.rates.latest
        if self.round is not None:
            self.round.rates = self.rates.since(self.round.entry_at)
        return FoldResult(self.closed, self.round, self.pieces, self.discrepancies, self.last)

    # ---- payments and splits -----------------------------------------------------------------------------------------

    def pay(self, event: FundingEvent) -> None:
        """Add funding or a dividend to the round that is open; without one it belongs to none."""
        self.last = event.order
        if self.round is not None:
            self.round.learn(event.known_at)
            self.round.funding += event.funding.amount
            share_payment(self.round.lots, event.funding.amount, event.known_at)

    def split(self, event: SplitEvent) -> None:
        """Count what is open in new units."""
        self.changed_at = event.split.t
        self.splits.append(event.split.t)
        if self.round is not None:
            self.last = event.order
            for round_ in (self.round, *self.round.lots):
                round_.learn(event.known_at)
                round_.split(event.split.t, event.split.ratio)
            self.quantities.append((event.split.t, self.held))

    # ---- fills -------------------------------------------------------------------------------------------------------

    def execute(self, event: FillEvent, tick: SnapshotView | None) -> None:
        """Apply a fill that the broker reported; `tick` is the one whose decision explains it."""
        fill = event.fill
        self.last, self.filled, self.changed_at = event.order, True, fill.t
        self.fills.append(fill)
        contract = self.round.terms if self.round else self.contract_at(fill.t)
        decision = event.decision or (tick.decision if tick else None)
        known_at = max(event.known_at, event.decided_at or event.known_at)
        fee, unknown = self._fee(fill)
        self._apply(
            1 if fill.side == "buy" else -1, fill.qty, fill.px if contract.admits(fill.px) else None, fill.t, f"fill:{fill.id}",
            decision, tick, known_at, event.skill_version,
            seq=fill.seq, fee=fee, fee_unknown=unknown, rate=fill.rate, liquidated=fill.liq, trigger=fill.trigger, group=fill.group,
        )  # fmt: skip
        self.rates.add(fill.t, fill.rate)

    def _fee(self, fill: Fill) -> tuple[Decimal, bool]:
        """The fee in the account currency, and True if it is unknown: in another currency, at a rate that nobody stated."""
        if fill.fee_rate is not None:
            return fill.fee * fill.fee_rate, False
        if fill.fee_currency in (None, self.terms.currency) or not fill.fee:
            return fill.fee, False
        self.discrepancies.append(
            Discrepancy(self.symbol, self.leg, fill.t, "fee_unknown", fill_id=fill.id, fee=fill.fee, fee_currency=fill.fee_currency)
        )
        return ZERO, True

    # ---- ticks -------------------------------------------------------------------------------------------------------

    def _fills_ahead(self, tick: SnapshotView, ordered: Sequence[PositionEvent], place: int, taken: set[int]) -> list[int]:
        """The events after a tick up to the fill, within the settling time, that leads to what its snapshot shows."""
        shown, held = self._shown(tick), self.held
        if self._agrees(shown, held) or self._is_suppressed(tick) or self._was_held(tick, shown):
            return []
        until = tick.t + timedelta(seconds=self.terms.settle_seconds)
        found: list[int] = []
        for n in range(place + 1, len(ordered)):
            event = ordered[n]
            if event.order[0] > until:
                break
            if isinstance(event, SnapshotView) or n in taken or event.order[0] <= tick.t:
                continue
            found.append(n)
            if isinstance(event, SplitEvent):
                held *= event.split.ratio
            elif isinstance(event, FillEvent):
                held += event.fill.qty if event.fill.side == "buy" else -event.fill.qty
                held = ZERO if abs(held) <= self.terms.dust_qty else held
                if self._agrees(shown, held):
                    self._report(tick, "snapshot_lag", self.held, shown, None)
                    return found
        return []

    def _shown(self, tick: SnapshotView) -> Decimal:
        return tick.held.qty if tick.held and abs(tick.held.qty) > self.terms.dust_qty else ZERO

    def _agrees(self, shown: Decimal, held: Decimal) -> bool:
        return abs(shown - held) <= self.terms.dust_qty

    def _is_suppressed(self, tick: SnapshotView) -> bool:
        """True if a fill of before was corrected after this snapshot: it showed the uncorrected account."""
        return any(correction.since <= tick.t < correction.until for correction in self.corrections)

    def _was_held(self, tick: SnapshotView, shown: Decimal) -> bool:
        """True if the ledger had the quantity of a snapshot at some moment of the settling time before it."""
        since = tick.t - timedelta(seconds=self.terms.settle_seconds)
        for at, qty in reversed(self.quantities):
            if at <= tick.t and self._agrees(shown, qty):
                return True
            if at <= since:
                return False
        # Before all of these the position was flat.
        return not shown

    def look(self, tick: SnapshotView, explained: bool) -> None:
        """Compare the ledger with a tick, and take the rate, stop and target that it states."""
        self.ticks.append(tick)
        if tick.snapshot:
            if not explained and not self._is_suppressed(tick):
                self.reconcile(tick)
            if self.needs_history:
                return
            self.previous, self.fills = tick, []
            if self.round is not None:
                held = tick.held
                same_side = held is not None and held.qty * self.round.side > 0
                self.round.shown_entry = held.entry_px if held is not None and same_side else None
        contract = self.round.terms if self.round else self.contract_at(tick.t)
        rate = tick.stated_rate or contract.rate_from(tick.stated_mark, self.terms.currency)
        if rate is not None:
            self.rates.add(tick.t, rate)
        self._move_stop(tick)

    def _move_stop(self, tick: SnapshotView) -> None:
        """Take the stop and target of a decision that entered nothing: they hold from this tick on."""
        decision, round_ = tick.decision, self.round
        if decision is None or round_ is None or tick.id in self.entered or (round_.adopted and round_.entry_at == tick.t):
            return
        if decision.stop is not None:
            round_.stop = decision.stop
        if decision.target is not None:
            round_.target = decision.target

    def reconcile(self, tick: SnapshotView) -> None:
        """Make the ledger agree with what the broker shows."""
        shown, held = self._shown(tick), self.held
        if self._agrees(shown, held) and not (self.round and is_entry_moved(self.round, tick, self.terms.dust_qty)):
            return
        if not self.has_history:
            self.needs_history = True
            return
        if not self._agrees(shown, held) and self._was_held(tick, shown):
            self._report(tick, "snapshot_lag", held, shown, None)
            return
        interval = self._interval(tick)
        found = explain_difference(self.terms, self.round, tick, shown, interval, self.changed_at, self.previous)
        if self.round is not None and self._agrees(shown, held):
            self.round.entry_moved |= not isinstance(found, Reopened)
        if found is None:
            return
        adopted = tick.first and not held and not self.filled and not opens_position(tick.decision, 1 if shown > 0 else -1)
        self.last = tick.order
        known_at = max(interval.known_at, tick.known_at)
        if self.round is not None:
            self.round.learn(known_at)
        self._suspect_twice(tick, held, shown)
        price = found.entry if isinstance(found, Reopened) else found.price
        self._report(tick, "adopted" if adopted else "snapshot", held, shown, price)
        if isinstance(found, Reopened):
            assert self.round is not None
            self._infer(tick, -held, found.exit, None, known_at, trigger=found.trigger)
            self._infer(tick, shown, found.entry, tick.decision, known_at)
        else:
            decision = None if adopted else tick.decision
            self._infer(tick, shown - held, found.price, decision, known_at, trigger=found.trigger, adopted=adopted)

    def _interval(self, tick: SnapshotView) -> Interval:
        """The prices between the last snapshot, or the entry if that was later, and this tick."""
        starts = [self.previous.t] if self.previous else []
        if self.round is not None:
            starts.append(self.round.entry_at)
        start = max(starts, default=tick.t)
        bars = self.last_bar.ending_within(start, tick.t)
        seen = takewhile(lambda each: each.t >= start, reversed(self.ticks))
        marks = [each.stated_mark for each in seen]
        mark, known_at = self._mark(tick)
        known = max([known_at, *(bar.known_at for bar in bars)])
        return Interval(tuple(bar.bar for bar in bars), tuple(each for each in marks if each is not None), mark, known)

    def _mark(self, tick: SnapshotView) -> tuple[Decimal | None, datetime]:
        """The best price of the moment, and when it was known: the position's mark, else the tick's, else the last close."""
        if tick.stated_mark is not None:
            return tick.stated_mark, tick.known_at
        last = self.last_bar.at(tick.t)
        return (last.bar.c, max(last.known_at, tick.known_at)) if last else (None, tick.known_at)

    def _infer(
        self, tick: SnapshotView, signed: Decimal, price: Decimal | None, decision: Decision | None, known_at: datetime,
        trigger: str | None = None, adopted: bool = False,
    ) -> None:  # fmt: skip
        """Apply the fill that a snapshot implies."""
        contract = self.round.terms if self.round else self.contract_at(tick.t)
        if price is not None and not contract.admits(price):
            price = None
        rate = tick.stated_rate or contract.rate_from(price, self.terms.currency) or self.rates.at(tick.t)
        self._apply(
            1 if signed > 0 else -1, abs(signed), price, tick.t, f"tick:{tick.id}", decision, tick, known_at, tick.skill_version,
            seq=AFTER_FILLS, rate=rate, inferred=True, adopted=adopted, trigger=trigger,
        )  # fmt: skip
        self.rates.add(tick.t, rate)

    def _report(
        self, tick: SnapshotView, why: str, held: Decimal, shown: Decimal, price: Decimal | None
    ) -> None:
        stated = tick.held.qty if tick.held else shown
        self.discrepancies.append(Discrepancy(self.symbol, self.leg, tick.t, why, held, stated, price))  # type: ignore[arg-type]

    def _suspect_twice(self, tick: SnapshotView, held: Decimal, shown: Decimal) -> None:
        """Report two fills that are equal but for their ids, if the snapshot shows one of them only."""
        seen: dict[tuple[object, ...], Fill] = {}
        for fill in self.fills:
            content = (fill.t, fill.px, fill.qty, fill.side)
            first = seen.setdefault(content, fill)
            signed = fill.qty if fill.side == "buy" else -fill.qty
            if first is not fill and self._agrees(shown, held - signed):
                self.discrepancies.append(
                    Discrepancy(self.symbol, self.leg, tick.t, "fill_twice", held, shown, fill.px, fill_id=first.id, other=fill.id)
                )
                return

    # ---- the round ---------------------------------------------------------------------------------------------------

    def _apply(
        self,
        way: int,
        qty: Decimal,
        price: Decimal | None,
        at: datetime,
        key: str,
        decision: Decision | None,
        tick: SnapshotView | None,
        known_at: datetime,
        skill_version: int,
        *,
        seq: int = 0,
        fee: Decimal = ZERO,
        fee_unknown: bool = False,
        rate: Decimal = ONE,
        liquidated: bool = False,
        trigger: str | None = None,
        inferred: bool = False,
        adopted: bool = False,
        group: str | None = None,
    ) -> None:
        """Apply a fill, reported or inferred: it leaves the open round, enters one, or both."""
        round_ = self.round
        if tick is not None:
            known_at = max(known_at, tick.known_at)
        if round_ is not None and way != round_.side:
            flips = qty - round_.qty > self.terms.dust_qty
            # A fill that exceeds the quantity held by no more than dust closes the round. It does not flip it.
            leaving = round_.qty if flips else qty
            share = fee * leaving / qty
            exit_ = _Exit(key, seq, at, leaving, price, share, fee_unknown, rate, inferred, decision, tick, flips, liquidated, trigger)
            round_.learn(known_at)
            ends = flips or round_.qty - leaving <= self.terms.dust_qty
            if self.terms.trade_unit == "fifo_lots":
                self._close_pieces(round_, exit_, ends, known_at)
            self._leave(round_, exit_, ends)
            if not flips:
                self.quantities.append((at, self.held))
                return
            qty, fee = qty - leaving, fee - share
        if self.round is None:
            self.round = Round(
                opened_by=key, seq=seq, side=way, entry_at=at, skill_version=skill_version, known_at=known_at, entry=decision,
                adopted=adopted, entry_tick_at=tick.t if tick else None, terms=self.contract_at(at),
                leverage=tick.held.leverage if tick and tick.held else None, group=group,
            )  # fmt: skip
        self.round.learn(known_at)
        self._enter(self.round, qty, price, fee, fee_unknown, rate, decision, tick, inferred, at, key)
        if self.terms.trade_unit == "fifo_lots":
            lot = open_lot(self.round, self.contract_at(at), key, seq, at, skill_version, known_at, decision, tick, adopted, group)
            lot.enter(qty, price, fee, rate, inferred)
            lot.fee_unknown = fee_unknown
            lot.remember_unit(at, price, rate)
        self.quantities.append((at, self.held))

    def _enter(
        self, round_: Round, qty: Decimal, price: Decimal | None, fee: Decimal, fee_unknown: bool, rate: Decimal,
        decision: Decision | None, tick: SnapshotView | None, inferred: bool, at: datetime, key: str,
    ) -> None:  # fmt: skip
        first = not round_.entered
        if tick is not None:
            self.entered.add(tick.id)
        if decision is not None and decision.stop is not None:
            if price is not None and round_.side * (price - decision.stop) <= 0:
                self._report_stop(decision.stop, price, tick.t if tick is not None else at, at, key.partition(":")[2])
            else:
                round_.stop = decision.stop
        if decision is not None and decision.target is not None:
            round_.target = decision.target
        if first:
            round_.first_stop, round_.first_target = round_.stop, round_.target
        round_.fee_unknown |= fee_unknown
        round_.enter(qty, price, fee, rate, inferred)
        round_.remember(at)
        if price is not None and not round_.unpriced:
            round_.witness(round_.value(round_.states[-1], price, rate))

    def _report_stop(self, stop: Decimal, price: Decimal, at: datetime, entry_at: datetime, entry: str) -> None:
        """Report a stop on the wrong side of an entry; several entries of one tick at one price are one report."""
        found = Discrepancy(self.symbol, self.leg, at, "stop_wrong_side", price=price, stop=stop, fill_id=entry, entry_at=entry_at)
        same = [each for each in self.discrepancies if (each.why, each.at, each.stop) == (found.why, at, stop)]
        if not any(each.price is not None and round_money(each.price) == round_money(price) for each in same):
            self.discrepancies.append(found)

    def _leave(self, round_: Round, exit_: _Exit, ends: bool) -> None:
        round_.fee_unknown |= exit_.fee_unknown
        round_.leave(exit_.qty, exit_.price, exit_.fee, exit_.rate, exit_.inferred)
        if exit_.liquidated:
            round_.liquidation_fills += 1
        if ends:
            self._close(round_, exit_)
            round_.exit_order = self.last
            self.closed.append(round_)
            self.round = None
            return
        round_.remember(exit_.at)
        if exit_.price is not None:
            if round_.first_partial is None:
                round_.first_partial = exit_.price
            if not round_.unpriced:
                round_.witness(round_.value(round_.states[-1], exit_.price, exit_.rate))

    def _close(self, round_: Round, exit_: _Exit) -> None:
        round_.settle_sums()
        if not round_.unpriced and not round_.is_lot:
            round_.witness(round_.realized)
        exit_.explain(round_)
        round_.qty = ZERO

    def _close_pieces(self, round_: Round, exit_: _Exit, ends: bool, known_at: datetime) -> None:
        """Close the oldest lots, each piece a trade of its own."""
        for piece, part in close_lots(round_.lots, exit_.qty, ends):
            piece.exit_order = self.last
            piece.learn(known_at)
            piece.fee_unknown |= exit_.fee_unknown
            piece.leave(part, exit_.price, exit_.fee * part / exit_.qty, exit_.rate, exit_.inferred)
            piece.liquidation_fills += exit_.liquidated
            self._close(piece, exit_)
            self.pieces.append(piece)


@dataclass(frozen=True, slots=True)
class _Exit:
    """A fill, or the part of one, that leaves a round."""

    key: str
    seq: int
    at: datetime
    qty: Decimal
    price: Decimal | None
    fee: Decimal
    fee_unknown: bool
    rate: Decimal
    inferred: bool
    decision: Decision | None
    tick: SnapshotView | None
    flips: bool
    liquidated: bool
    trigger: str | None

    def explain(self, round_: Round) -> None:
        """Say when and why a round ended: liquidation, flip, its stop or target, a decision, or something outside."""
        round_.exit_at, round_.exit_tick_at = self.at, self.tick.t if self.tick else None
        round_.exit_trigger, round_.closed_by, round_.exit_seq = self.trigger, self.key, self.seq
        if self.liquidated:
            round_.close_cause, round_.exit_reason = "liquidation", "liquidation"
        elif self.trigger in ("stop", "target") and not self.flips:
            round_.close_cause, round_.exit_reason = "external", self.trigger
        else:
            round_.exit, round_.exit_reason = self.decision, self.decision.reason if self.decision else None
            round_.close_cause = "flip" if self.flips else "close" if self.decision else "external"
