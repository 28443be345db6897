"""The ledger: snapshots and fills of one position -> its trades. One pure fold, the same live, imported and replayed.

A position is (agent, symbol, leg). What happens to it comes in one order: by time, funding before fills before the
snapshot of the same moment, then by sequence number and id. Fills say what was done; a snapshot says what is held. Where
the two disagree, `_reconcile` adds the one fill that explains the difference, marked `inferred`, priced from what the
broker shows and never from thin air, and reports a `Discrepancy`.

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
    """What a fold came to."""

    closed: list[Round]
    open: Round | None
    discrepancies: list[Discrepancy]
    last: Order | None  # the last fill, payment or inferred fill


class LastBar:
    """The last bar completed by a moment."""

    def __init__(self, bars: Iterable[KnownBar]) -> None:
        self._bars = sorted(bars, key=lambda seen: (seen.bar.t1, -seen.bar.frame))
        self._ends = [seen.bar.t1 for seen in self._bars]

    def at(self, moment: datetime) -> KnownBar | None:
        """It, if there is one."""
        found = bisect_right(self._ends, moment)
        return self._bars[found - 1] if found else None


def fold_events(
    terms: AccountTerms,
    symbol: str,
    leg: str,
    open_: Round | None,
    happenings: Iterable[PositionEvent],
    bars: Sequence[KnownBar] = (),
    earlier: KnownBar | None = None,
    before: Fill | None = None,
) -> FoldResult:
    """Carry a position through what happened to it, in order, and then past the bars that watched it.

    `open_` is the round trip it was in (changed in place), or None when it was flat; `earlier` is the last bar before
    these, which may price what has no mark; `before` is the last fill before these.
    """
    book = _Book(terms, symbol, leg, open_, LastBar([*bars, earlier] if earlier else bars), before)
    ordered = sorted(happenings, key=lambda h: h.order)
    seen_by = _ticks_after(ordered)
    with localcontext(MONEY):
        for happening, glance in zip(ordered, seen_by, strict=True):
            if isinstance(happening, FillEvent):
                book.execute(happening, glance)
            elif isinstance(happening, FundingEvent):
                book.pay(happening)
            elif happening.snapshot:
                book.reconcile(happening)
    mark_settled(book.closed, ordered)
    by_end = sorted(bars, key=lambda seen: seen.bar.t1)
    ends = [seen.bar.t1 for seen in by_end]
    longest = max((seen.bar.t1 - seen.bar.t0 for seen in by_end), default=timedelta(0))
    for round_ in [*book.closed, *([book.round] if book.round else [])]:
        first = bisect_right(ends, round_.entry_at)
        last = len(ends) if round_.exit_at is None else bisect_right(ends, round_.exit_at + longest)
        round_.watch(by_end[first:last], terms.mfe_mode)
    return FoldResult(book.closed, book.round, book.discrepancies, book.last)


def _ticks_after(ordered: Sequence[PositionEvent]) -> list[SnapshotView | None]:
    """For each happening the first tick at or after it: the run that saw it, whenever it was delivered.

    What came from a file was seen by no run; its reasons come only from decisions that it names.
    """
    ticks: list[SnapshotView | None] = [None] * len(ordered)
    following: SnapshotView | None = None
    for n in range(len(ordered) - 1, -1, -1):
        happening = ordered[n]
        if isinstance(happening, SnapshotView):
            following = happening
        if not (isinstance(happening, FillEvent) and happening.imported):
            ticks[n] = following
    return ticks


def mark_settled(closed: Sequence[Round], ordered: Sequence[PositionEvent]) -> None:
    """Mark the trades after which nothing was learned late about what lay before, so that later work may start there."""
    if not closed:
        return
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
    """The position while it is being folded."""

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

    def pay(self, happening: FundingEvent) -> None:
        """Funding belongs to the round that is open, or to none."""
        self.last = happening.order
        if self.round is not None:
            self.round.learn(happening.known_at)
            self.round.funding += happening.funding.usd

    def execute(self, happening: FillEvent, glance: SnapshotView | None) -> None:
        """Apply a fill the broker reported."""
        fill = happening.fill
        self.last, self.filled, self.rate = happening.order, True, fill.rate
        decision = happening.decision or (glance.decision if glance else None)
        known_at = max(happening.known_at, happening.decided_at or happening.known_at)
        self._apply(
            1 if fill.side == "buy" else -1, fill.qty, fill.px, fill.t, f"fill:{fill.id}", decision, glance,
            known_at, happening.skill_version,
            seq=fill.seq, fee=fill.fee, rate=fill.rate, liquidated=fill.liq, trigger=fill.trigger,
        )  # fmt: skip

    def reconcile(self, glance: SnapshotView) -> None:
        """Make the ledger agree with what the broker says is held, by one inferred fill if it must."""
        held = glance.held
        seen = held.qty if held and abs(held.qty) > self.terms.dust_qty else ZERO
        have = self.round.qty * self.round.side if self.round else ZERO
        if abs(seen - have) <= self.terms.dust_qty:
            return
        mark, known_at = self._mark(glance)
        stated = held.entry_px if held else None
        if have * seen < 0:
            price = stated if stated is not None else mark
        elif abs(seen) > abs(have):
            price = self._implied_price(stated, abs(seen), mark)
        else:
            price = mark
        adopted = glance.first and not have and not self.filled
        self.last = glance.order
        if self.round is not None:
            self.round.learn(known_at)
        self.discrepancies.append(
            Discrepancy(self.symbol, self.leg, glance.t, "adopted" if adopted else "snapshot", have, seen, price)
        )
        self._apply(
            1 if seen > have else -1, abs(seen - have), price, glance.t, f"tick:{glance.id}",
            None if adopted else glance.decision, glance, known_at, glance.skill_version,
            seq=AFTER_FILLS, rate=self.rate, inferred=True, adopted=adopted,
        )  # fmt: skip

    def _mark(self, glance: SnapshotView) -> tuple[Decimal | None, datetime]:
        """The best price of the moment: the position's mark, the tick's, the last bar's close; and when it was known."""
        for mark in (glance.held.mark if glance.held else None, glance.mark):
            if mark is not None:
                return mark, glance.known_at
        seen = self.last_bar.at(glance.t)
        return (seen.bar.c, max(seen.known_at, glance.known_at)) if seen else (None, glance.known_at)

    def _implied_price(self, stated: Decimal | None, seen: Decimal, mark: Decimal | None) -> Decimal | None:
        """The price of what was added, from the broker's average before and after."""
        if stated is None:
            return mark
        if self.round is None:
            return stated
        return (seen * stated - self.round.cost) / (seen - self.round.qty)

    def _apply(
        self,
        way: int,
        qty: Decimal,
        price: Decimal | None,
        at: datetime,
        key: str,
        decision: Decision | None,
        glance: SnapshotView | None,
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
        if glance is not None:
            known_at = max(known_at, glance.known_at)
        if round_ is not None and way != round_.side:
            flips = qty - round_.qty > self.terms.dust_qty
            leaving = round_.qty if flips else qty  # a crumb more than was held closes it, it does not flip
            share = fee * leaving / qty
            self._exit(round_, leaving, price, share, rate, inferred)
            if liquidated:
                round_.liquidation_fills += 1
            round_.learn(known_at)
            if round_.qty <= self.terms.dust_qty:
                self._close(round_, at, decision, glance, flips, liquidated, trigger)
            else:
                round_.remember(at)
            if not flips:
                return
            qty, fee = qty - leaving, fee - share
        if self.round is None:
            self.round = Round(
                opened_by=key, seq=seq, side=way, entry_at=at, skill_version=skill_version, known_at=known_at, entry=decision,
                adopted=adopted, entry_tick_at=glance.t if glance else None,
                leverage=glance.held.leverage if glance and glance.held else None,
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
        self, round_: Round, at: datetime, decision: Decision | None, glance: SnapshotView | None, flips: bool,
        liquidated: bool, trigger: str | None,
    ) -> None:  # fmt: skip
        if not round_.unpriced:
            round_.realized = round_.side * (round_.got_usd - round_.paid_usd + round_.cost_usd)
            round_.witness(round_.realized)
        round_.exit_at, round_.exit_tick_at = at, glance.t if glance else None
        round_.exit_order, round_.exit_trigger = self.last, trigger
        if liquidated:
            round_.close_cause, round_.exit_reason = "liquidation", "liquidation"
        else:
            round_.exit, round_.exit_reason = decision, decision.reason if decision else None
            round_.close_cause = "flip" if flips else "close" if decision else "external"
        round_.qty = ZERO
        self.closed.append(round_)
        self.round = None
