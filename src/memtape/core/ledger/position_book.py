"""The book of one position: what executions, payments and splits make of it.

An `Execution` is a fill that the broker reported, or one that a snapshot implies. It leaves the open round trip, enters one, or
both. Where an account counts by lots, the lots of the round are opened and closed along with it (`lots`).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from decimal import Decimal

from memtape.core.events import Discrepancy
from memtape.core.fills import Fill
from memtape.core.ledger.lots import close_lots, share_payment
from memtape.core.ledger.position_events import FillEvent, FundingEvent, Order, SnapshotView, SplitEvent
from memtape.core.ledger.rates import Rates
from memtape.core.ledger.rounds import Round
from memtape.core.ledger.terms import DEFAULT_TERMS, AccountTerms, ContractTerms
from memtape.core.ledger.trades import round_money
from memtape.core.observed import Decision
from memtape.core.value_class import dataclass
from memtape.core.values import ONE, ZERO

AFTER_FILLS = 2**31  # where an entry inferred from a snapshot stands among the entries of its moment
PNL_TOLERANCE = Decimal("0.01")  # account currency, for each fill: brokers round
SHOWN_PRICE_TOLERANCE = Decimal("0.00005")  # of the cost: the entry price in a snapshot has about five digits


@dataclass(frozen=True, slots=True, kw_only=True)
class Execution:
    """A quantity that changed hands: reported by the broker, or inferred from a snapshot."""

    key: str  # fill:<id> or tick:<id>
    at: datetime
    way: int  # +1 bought, -1 sold
    qty: Decimal
    price: Decimal | None  # None: nobody knows it
    known_at: datetime
    skill_version: int
    tick: SnapshotView | None  # whose decision explains it
    decision: Decision | None
    rate: Decimal = ONE
    fee: Decimal = ZERO  # account currency
    fee_unknown: bool = False
    seq: int = AFTER_FILLS
    liquidated: bool = False
    trigger: str | None = None
    inferred: bool = False
    adopted: bool = False
    group: str | None = None
    venue: str | None = None  # whose reader delivered it
    flips: bool = False  # it closes the position and opens the opposite one

    def part(self, qty: Decimal) -> Execution:
        """A part of it, with its share of the fee."""
        return replace(self, qty=qty, fee=self.fee * qty / self.qty)

    def open_round(self, contract: ContractTerms) -> Round:
        """A round that begins with it, still empty."""
        return Round(
            opened_by=self.key, seq=self.seq, side=self.way, entry_at=self.at, skill_version=self.skill_version,
            known_at=self.known_at, terms=contract, entry=self.decision, adopted=self.adopted, group=self.group,
            entry_tick_at=self.tick.t if self.tick else None,
            leverage=self.tick.held.leverage if self.tick and self.tick.held else None,
        )  # fmt: skip

    def enter(self, round_: Round) -> None:
        """Add it to a round."""
        self._name_reporter(round_)
        round_.learn(self.known_at)
        round_.fee_unknown |= self.fee_unknown
        round_.enter(self.qty, self.price, self.fee, self.rate, self.inferred)

    def leave(self, round_: Round) -> None:
        """Take it off a round."""
        self._name_reporter(round_)
        round_.learn(self.known_at)
        round_.fee_unknown |= self.fee_unknown
        round_.leave(self.qty, self.price, self.fee, self.rate, self.inferred)
        round_.liquidation_fills += self.liquidated

    def _name_reporter(self, round_: Round) -> None:
        """Note who delivered it. What a snapshot implies names nobody: the fills beside it do."""
        if not self.inferred:
            round_.venue = self.venue or round_.venue
            round_.other_reporter |= self.venue is None

    def end(self, round_: Round) -> None:
        """Say when and why a round ended with it: liquidation, flip, its stop or target, a decision, or something outside."""
        round_.settle_sums()
        round_.qty = ZERO
        round_.exit_at, round_.exit_tick_at = self.at, self.tick.t if self.tick else None
        round_.exit_trigger, round_.closed_by, round_.exit_seq = self.trigger, self.key, self.seq
        if self.liquidated:
            round_.close_cause, round_.exit_reason = "liquidation", "liquidation"
        elif self.trigger in ("stop", "target") and not self.flips:
            round_.close_cause, round_.exit_reason = "external", self.trigger
        else:
            round_.exit, round_.exit_reason = self.decision, self.decision.reason if self.decision else None
            round_.close_cause = "flip" if self.flips else "close" if self.decision else "external"


class PositionBook:
    """The state of a position while its events are taken in order."""

    def __init__(
        self, terms: AccountTerms, symbol: str, leg: str, open_: Round | None, rates: Rates, splits: Sequence[datetime] = ()
    ) -> None:
        self.terms, self.symbol, self.leg = terms, symbol, leg
        self.round = open_
        self.closed: list[Round] = []
        self.pieces: list[Round] = []
        self.discrepancies: list[Discrepancy] = []
        self.last: Order | None = None
        self.rates = rates
        self.statements: list[tuple[datetime, ContractTerms]] = []  # terms, by the moment from which they hold
        self.quantities: list[tuple[datetime, Decimal]] = []  # held after each execution and split
        self.splits = list(splits)
        self.changed_at: datetime | None = None  # the last fill or split
        self.entered: set[str] = set()  # the ticks whose decision went to an entry

    @property
    def held(self) -> Decimal:
        """The signed quantity of the ledger."""
        return self.round.qty * self.round.side if self.round else ZERO

    def contract_at(self, moment: datetime) -> ContractTerms:
        """The terms that count at a moment: an open round keeps those of its entry."""
        return self.round.terms if self.round else self._stated_at(moment)

    def _stated_at(self, moment: datetime) -> ContractTerms:
        place = bisect_right(self.statements, moment, key=lambda stated: stated[0])
        return self.statements[place - 1][1] if place else DEFAULT_TERMS

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

    # ---- executions --------------------------------------------------------------------------------------------------

    def fill(self, event: FillEvent, tick: SnapshotView | None) -> None:
        """Apply a fill that the broker reported; `tick` is the one whose decision explains it."""
        fill = event.fill
        self.last, self.changed_at = event.order, fill.t
        fee, unknown = self._fee(fill)
        self._compare_pnl(fill)
        self.apply(
            Execution(
                key=f"fill:{fill.id}", at=fill.t, way=1 if fill.side == "buy" else -1, qty=fill.qty, price=fill.px,
                known_at=max(event.known_at, event.decided_at or event.known_at), skill_version=event.skill_version,
                tick=tick, decision=event.decision or (tick.decision if tick else None), rate=fill.rate, fee=fee,
                fee_unknown=unknown, seq=fill.seq, liquidated=fill.liq, trigger=fill.trigger, group=fill.group,
                venue=fill.venue,
            )
        )  # fmt: skip

    def _fee(self, fill: Fill) -> tuple[Decimal, bool]:
        """The fee in the account currency, and True if it is unknown: in another currency, at a rate that nobody stated."""
        if fill.fee_rate is not None:
            return fill.fee * fill.fee_rate, False
        if fill.fee_currency in (None, self.terms.currency) or not fill.fee:
            return fill.fee, False
        self._report(fill.t, "fee_unknown", fill_id=fill.id, fee=fill.fee, fee_currency=fill.fee_currency)
        return ZERO, True

    def _compare_pnl(self, fill: Fill) -> None:
        """Report a PnL of the broker that differs from what the fill realises here, at average cost and before fees."""
        terms = self.contract_at(fill.t)
        # Lots have another cost than the average; what was paid in full has a rate of its own for each notional.
        if fill.closed_pnl is None or self.terms.trade_unit == "fifo_lots" or terms.is_cash or not terms.admits(fill.px):
            return
        round_, realized, tolerance = self.round, ZERO, PNL_TOLERANCE
        if round_ is not None and (fill.side == "buy") != (round_.side > 0):
            if round_.cost_unknown:
                return
            qty = min(fill.qty, round_.qty)
            cost = round_.cost * qty / round_.qty
            realized = terms.gain(round_.side, cost, terms.weight(fill.px, qty)) * fill.rate
            if round_.adopted or round_.inferred:
                tolerance += abs(cost) * terms.multiplier * fill.rate * SHOWN_PRICE_TOLERANCE
        if abs(realized - fill.closed_pnl) > tolerance:
            self._report(fill.t, "pnl_differs", fill_id=fill.id, stated_pnl=fill.closed_pnl, ledger_pnl=round_money(realized))

    def apply(self, execution: Execution) -> None:
        """Apply an execution: it leaves the open round, enters one, or both."""
        if execution.price is not None and not self.contract_at(execution.at).admits(execution.price):
            execution = replace(execution, price=None)
        if execution.tick is not None:
            execution = replace(execution, known_at=max(execution.known_at, execution.tick.known_at))
        entering: Execution | None = execution
        if self.round is not None and execution.way != self.round.side:
            entering = self._reduce(self.round, execution)
        if entering is not None:
            self._enter(entering)
        self.quantities.append((execution.at, self.held))
        self.rates.add(execution.at, execution.rate)

    def _reduce(self, round_: Round, execution: Execution) -> Execution | None:
        """Take an execution off the round, and close it if nothing is left. Returns what opens the opposite side."""
        flips = execution.qty - round_.qty > self.terms.dust_qty
        # A fill that exceeds the quantity held by no more than dust closes the round. It does not flip it.
        leaving = replace(execution, flips=flips).part(round_.qty if flips else execution.qty)
        ends = flips or round_.qty - leaving.qty <= self.terms.dust_qty
        if self.terms.trade_unit == "fifo_lots":
            self._close_pieces(round_, leaving, ends)
        leaving.leave(round_)
        if ends:
            leaving.end(round_)
            round_.exit_order = self.last
            if not round_.unpriced:
                round_.witness(round_.realized)
            self.closed.append(round_)
            self.round = None
        else:
            round_.remember(leaving.at)
            if round_.first_partial is None:
                round_.first_partial = leaving.price
            if leaving.price is not None and not round_.unpriced:
                round_.witness(round_.value(round_.states[-1], leaving.price, leaving.rate))
        return replace(execution, qty=execution.qty - leaving.qty, fee=execution.fee - leaving.fee) if flips else None

    def _close_pieces(self, round_: Round, leaving: Execution, ends: bool) -> None:
        """Close the oldest lots, each piece a trade of its own."""
        for piece, part in close_lots(round_.lots, leaving.qty, ends):
            exit_ = leaving.part(part)
            exit_.leave(piece)
            exit_.end(piece)
            piece.exit_order = self.last
            self.pieces.append(piece)

    def _enter(self, execution: Execution) -> None:
        """Add an execution to the open round, or open one with it."""
        stated = self._stated_at(execution.at)
        if self.round is None:
            self.round = execution.open_round(stated)
        round_ = self.round
        self._take_levels(round_, execution)
        execution.enter(round_)
        round_.remember(execution.at)
        if execution.price is not None and not round_.unpriced:
            round_.witness(round_.value(round_.states[-1], execution.price, execution.rate))
        if self.terms.trade_unit == "fifo_lots":
            lot = execution.open_round(stated)
            lot.is_lot, lot.stop, lot.target = True, round_.stop, round_.target
            lot.first_stop, lot.first_target = round_.stop, round_.target
            execution.enter(lot)
            lot.remember_unit(execution.at, execution.price, execution.rate)
            round_.lots.append(lot)

    def _take_levels(self, round_: Round, execution: Execution) -> None:
        """Take the stop and target of the decision behind an entry. A stop on the wrong side of the price is not taken."""
        decision, price = execution.decision, execution.price
        if execution.tick is not None:
            self.entered.add(execution.tick.id)
        if decision is not None and decision.stop is not None:
            if price is not None and round_.side * (price - decision.stop) <= 0:
                self._report_stop(decision.stop, price, execution)
            else:
                round_.stop = decision.stop
        if decision is not None and decision.target is not None:
            round_.target = decision.target
        if not round_.entered:
            round_.first_stop, round_.first_target = round_.stop, round_.target

    def _report_stop(self, stop: Decimal, price: Decimal, entry: Execution) -> None:
        """Report a stop on the wrong side of an entry; several entries of one tick at one price are one report."""
        at = entry.tick.t if entry.tick is not None else entry.at
        same = [each for each in self.discrepancies if (each.why, each.at, each.stop) == ("stop_wrong_side", at, stop)]
        if not any(each.price is not None and round_money(each.price) == round_money(price) for each in same):
            fill = entry.key.partition(":")[2]
            self._report(at, "stop_wrong_side", price=price, stop=stop, fill_id=fill, entry_at=entry.at)

    def _report(self, at: datetime, why: str, **about: object) -> None:
        self.discrepancies.append(Discrepancy(self.symbol, self.leg, at, why, **about))  # type: ignore[arg-type]
