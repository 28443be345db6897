"""The ledger: snapshots and fills of one position -> its trades. One pure fold, the same live, imported and replayed.

A position is (agent, symbol, leg). What happens to it comes in one order: by time, funding before fills before the
snapshot of the same moment, then by sequence number and id. Fills say what was done; a snapshot says what is held. Where
the two disagree, `_Book.reconcile` adds the one fill that explains the difference, marks it `inferred`, prices it from what
the broker shows (never from an invented price) and reports a `Discrepancy`.

Long and short are +1 and -1 (`side`); quantities are positive. A trade's realised PnL is summed from its notionals when
it closes; only an open trade uses the running average cost.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal, localcontext
from itertools import accumulate

from memtape.core.events import Discrepancy
from memtape.core.ledger.rounds import AccountTerms, KnownBar, Order, Round
from memtape.core.observed import Decision, Fill, Funding, HeldPosition
from memtape.core.values import MONEY, ONE, ZERO

AFTER_FILLS = 2**31  # where an entry inferred from a snapshot stands among the entries of its moment


@dataclass(frozen=True, slots=True)
class SnapshotView:
    """A tick as one position sees it."""

    id: str
    t: datetime
    known_at: datetime
    skill_version: int = 1
    first: bool = False  # the agent's very first tick: what is held then was there before us
    snapshot: bool = True
    held: HeldPosition | None = None
    mark: Decimal | None = None
    decision: Decision | None = None  # only if it names the symbol
    gone_at: datetime | None = None

    @property
    def order(self) -> Order:
        """Its place: after everything else of its moment."""
        return (self.t, 2, 0, self.id)


@dataclass(frozen=True, slots=True)
class FillEvent:
    """A fill, with the decision it names (or whose order it names)."""

    fill: Fill
    known_at: datetime
    skill_version: int = 1
    decision: Decision | None = None
    decided_at: datetime | None = None  # when that decision was known
    imported: bool = False  # came from a file: no run saw it, so no tick's decision explains it
    gone_at: datetime | None = None  # when it was taken back, with its import

    @property
    def order(self) -> Order:
        """Its place among what happened to the position."""
        return (self.fill.t, 1, self.fill.seq, self.fill.id)


@dataclass(frozen=True, slots=True)
class FundingEvent:
    """Funding received or paid."""

    funding: Funding
    known_at: datetime
    gone_at: datetime | None = None

    @property
    def order(self) -> Order:
        """Its place: before the fills of its moment."""
        return (self.funding.t, 0, 0, self.funding.id)


PositionEvent = SnapshotView | FillEvent | FundingEvent


@dataclass(slots=True)
class FoldResult:
    """The result of a fold."""

    closed: list[Round]
    open: Round | None
    discrepancies: list[Discrepancy]
    last: Order | None  # the last fill, payment or inferred fill


class LastBar:
    """The last bar completed by a moment."""

    def __init__(self, bars: Iterable[KnownBar]) -> None:
        self._bars = sorted(bars, key=lambda known: (known.bar.t1, -known.bar.frame))
        self._ends = [known.bar.t1 for known in self._bars]

    def at(self, moment: datetime) -> KnownBar | None:
        """The last bar that ended by a moment, or None."""
        found = bisect_right(self._ends, moment)
        return self._bars[found - 1] if found else None


def fold_events(
    terms: AccountTerms,
    symbol: str,
    leg: str,
    open_: Round | None,
    events: Iterable[PositionEvent],
    bars: Sequence[KnownBar] = (),
    earlier: KnownBar | None = None,
    before: Fill | None = None,
) -> FoldResult:
    """Carry a position through its events, in order, and then over the bars, which show how far each trade ran.

    `open_` is the round trip it was in (changed in place), or None if it was flat; `earlier` is the last bar before
    these, which may price a snapshot without a mark; `before` is the last fill before these.
    """
    book = _Book(terms, symbol, leg, open_, LastBar([*bars, earlier] if earlier else bars), before)
    ordered = sorted(events, key=lambda h: h.order)
    explaining = _ticks_after(ordered)
    with localcontext(MONEY):
        for event, tick in zip(ordered, explaining, strict=True):
            if isinstance(event, FillEvent):
                book.execute(event, tick)
            elif isinstance(event, FundingEvent):
                book.pay(event)
            elif event.snapshot:
                book.reconcile(event)
    mark_settled(book.closed, ordered)
    by_end = sorted(bars, key=lambda known: known.bar.t1)
    ends = [known.bar.t1 for known in by_end]
    longest = max((known.bar.t1 - known.bar.t0 for known in by_end), default=timedelta(0))
    for round_ in [*book.closed, *([book.round] if book.round else [])]:
        first = bisect_right(ends, round_.entry_at)
        last = len(ends) if round_.exit_at is None else bisect_right(ends, round_.exit_at + longest)
        round_.watch(by_end[first:last], terms.mfe_mode)
    return FoldResult(book.closed, book.round, book.discrepancies, book.last)


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


def mark_settled(closed: Sequence[Round], ordered: Sequence[PositionEvent]) -> None:
    """Set `settled_at` of the rounds that no event so far has changed after something later was known.

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


class _Book:
    """The state of the position during the fold."""

    def __init__(
        self, terms: AccountTerms, symbol: str, leg: str, open_: Round | None, last_bar: LastBar, before: Fill | None
    ) -> None:
        self.terms, self.symbol, self.leg = terms, symbol, leg
        self.round = open_
        self.last_bar = last_bar
        self.closed: list[Round] = []
        self.discrepancies: list[Discrepancy] = []
        self.last: Order | None = None
        self.filled = before is not None
        self.rate = before.rate if before else open_.rate if open_ else ONE

    def pay(self, event: FundingEvent) -> None:
        """Add funding to the round that is open; without one it belongs to none."""
        self.last = event.order
        if self.round is not None:
            self.round.learn(event.known_at)
            self.round.funding += event.funding.usd

    def execute(self, event: FillEvent, tick: SnapshotView | None) -> None:
        """Apply a fill that the broker reported; `tick` is the one whose decision explains it."""
        fill = event.fill
        self.last, self.filled, self.rate = event.order, True, fill.rate
        decision = event.decision or (tick.decision if tick else None)
        known_at = max(event.known_at, event.decided_at or event.known_at)
        self._apply(
            1 if fill.side == "buy" else -1, fill.qty, fill.px, fill.t, f"fill:{fill.id}", decision, tick,
            known_at, event.skill_version,
            seq=fill.seq, fee=fill.fee, rate=fill.rate, liquidated=fill.liq, trigger=fill.trigger,
        )  # fmt: skip

    def reconcile(self, tick: SnapshotView) -> None:
        """Make the ledger agree with what the broker shows, by one inferred fill if they differ."""
        held = tick.held
        shown = held.qty if held and abs(held.qty) > self.terms.dust_qty else ZERO
        booked = self.round.qty * self.round.side if self.round else ZERO
        if abs(shown - booked) <= self.terms.dust_qty:
            return
        mark, known_at = self._mark(tick)
        stated = held.entry_px if held else None
        if booked * shown < 0:
            price = stated if stated is not None else mark
        elif abs(shown) > abs(booked):
            price = self._implied_price(stated, abs(shown), mark)
        else:
            price = mark
        adopted = tick.first and not booked and not self.filled
        self.last = tick.order
        if self.round is not None:
            self.round.learn(known_at)
        self.discrepancies.append(
            Discrepancy(self.symbol, self.leg, tick.t, "adopted" if adopted else "snapshot", booked, shown, price)
        )
        self._apply(
            1 if shown > booked else -1, abs(shown - booked), price, tick.t, f"tick:{tick.id}",
            None if adopted else tick.decision, tick, known_at, tick.skill_version,
            seq=AFTER_FILLS, rate=self.rate, inferred=True, adopted=adopted,
        )  # fmt: skip

    def _mark(self, tick: SnapshotView) -> tuple[Decimal | None, datetime]:
        """The best price of the moment, and when it was known: the position's mark, else the tick's, else the last close."""
        for mark in (tick.held.mark if tick.held else None, tick.mark):
            if mark is not None:
                return mark, tick.known_at
        last = self.last_bar.at(tick.t)
        return (last.bar.c, max(last.known_at, tick.known_at)) if last else (None, tick.known_at)

    def _implied_price(self, stated: Decimal | None, shown: Decimal, mark: Decimal | None) -> Decimal | None:
        """The price of the quantity that was added, from the broker's average before and after."""
        if stated is None:
            return mark
        if self.round is None:
            return stated
        return (shown * stated - self.round.cost) / (shown - self.round.qty)

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
        rate: Decimal = ONE,
        liquidated: bool = False,
        trigger: str | None = None,
        inferred: bool = False,
        adopted: bool = False,
    ) -> None:
        round_ = self.round
        if tick is not None:
            known_at = max(known_at, tick.known_at)
        if round_ is not None and way != round_.side:
            flips = qty - round_.qty > self.terms.dust_qty
            # A fill that exceeds the quantity held by no more than dust closes the round. It does not flip it.
            leaving = round_.qty if flips else qty
            share = fee * leaving / qty
            self._exit(round_, leaving, price, share, rate, inferred)
            if liquidated:
                round_.liquidation_fills += 1
            round_.learn(known_at)
            if round_.qty <= self.terms.dust_qty:
                self._close(round_, at, decision, tick, flips, liquidated, trigger)
            else:
                round_.remember(at)
            if not flips:
                return
            qty, fee = qty - leaving, fee - share
        if self.round is None:
            self.round = Round(
                opened_by=key, seq=seq, side=way, entry_at=at, skill_version=skill_version, known_at=known_at, entry=decision,
                adopted=adopted, entry_tick_at=tick.t if tick else None,
                leverage=tick.held.leverage if tick and tick.held else None,
            )  # fmt: skip
        self.round.learn(known_at)
        self._enter(self.round, qty, price, fee, rate, decision, inferred)
        self.round.remember(at)
        if price is not None and not self.round.unpriced:
            self.round.witness(self.round.states[-1].value(self.round.side, price))

    def _enter(
        self, round_: Round, qty: Decimal, price: Decimal | None, fee: Decimal, rate: Decimal,
        decision: Decision | None, inferred: bool,
    ) -> None:  # fmt: skip
        first = not round_.entered
        round_.qty += qty
        round_.entered += qty
        round_.fees += fee
        round_.rate = rate
        round_.inferred |= inferred
        if decision is not None and decision.stop is not None:
            round_.stop = decision.stop
        if first:
            round_.first_stop = round_.stop
            round_.first_target = decision.target if decision else None
        if price is None:
            round_.unpriced, round_.stopped = True, False
            return
        notional = price * qty
        round_.paid += notional
        round_.cost += notional
        round_.paid_usd += notional * rate
        round_.cost_usd += notional * rate
        if round_.stop is None:
            round_.stopped = False
        else:
            round_.risk += abs(price - round_.stop) * qty * rate

    def _exit(self, round_: Round, qty: Decimal, price: Decimal | None, fee: Decimal, rate: Decimal, inferred: bool) -> None:
        round_.fees += fee
        round_.exited += qty
        round_.inferred |= inferred
        round_.rate = rate
        cost, cost_usd = round_.cost * qty / round_.qty, round_.cost_usd * qty / round_.qty
        round_.qty -= qty
        round_.cost -= cost
        round_.cost_usd -= cost_usd
        if price is None:
            round_.unpriced = True
            return
        round_.got += price * qty
        round_.got_usd += price * qty * rate
        round_.realized += round_.side * (price * qty * rate - cost_usd)
        if round_.qty > self.terms.dust_qty and round_.first_partial is None:
            round_.first_partial = price
        if round_.qty > self.terms.dust_qty and not round_.unpriced:
            round_.witness(round_.realized + round_.side * (price * rate * round_.qty - round_.cost_usd))

    def _close(
        self, round_: Round, at: datetime, decision: Decision | None, tick: SnapshotView | None, flips: bool,
        liquidated: bool, trigger: str | None,
    ) -> None:  # fmt: skip
        if not round_.unpriced:
            round_.realized = round_.side * (round_.got_usd - round_.paid_usd + round_.cost_usd)
            round_.witness(round_.realized)
        round_.exit_at, round_.exit_tick_at = at, tick.t if tick else None
        round_.exit_order, round_.exit_trigger = self.last, trigger
        if liquidated:
            round_.close_cause, round_.exit_reason = "liquidation", "liquidation"
        else:
            round_.exit, round_.exit_reason = decision, decision.reason if decision else None
            round_.close_cause = "flip" if flips else "close" if decision else "external"
        round_.qty = ZERO
        self.closed.append(round_)
        self.round = None
