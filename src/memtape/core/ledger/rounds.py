"""A round trip while it is being folded, and the trade that it becomes.

A `Round` holds the sums of one position from flat to flat (or of one lot): quantities entered and exited, cost, reasons, and the
states it went through, by which bars show how far it ran. `trade_from_round` turns it into a row of the ledger, open or closed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import field, replace
from datetime import datetime, timedelta
from decimal import Decimal, localcontext

from memtape.core.codec import canonical, make_id
from memtape.core.ids import MemoryId, TradeId
from memtape.core.ledger.excursions import MfeMode, State, observations
from memtape.core.ledger.position_events import Order
from memtape.core.ledger.rates import RatePoint, Rates
from memtape.core.ledger.terms import DEFAULT_TERMS, AccountTerms, ContractTerms
from memtape.core.ledger.trades import Quality, Trade
from memtape.core.observed import Bar, Decision
from memtape.core.value_class import dataclass
from memtape.core.values import MONEY, ONE, ZERO

STORED_STATES = 16  # of an open round: enough to judge the next bar without its whole history
HUNDRED = Decimal(100)


@dataclass(frozen=True, slots=True)
class KnownBar:
    """A bar, and when the agent could have known it."""

    bar: Bar
    known_at: datetime


@dataclass(slots=True)
class Round:
    """A round trip while it is being folded: the sums from which its trade is computed.

    A weight is price times quantity, or quantity over price of an inverse contract (`ContractTerms.weight`).
    """

    opened_by: str
    seq: int
    side: int
    entry_at: datetime
    skill_version: int
    known_at: datetime
    terms: ContractTerms = DEFAULT_TERMS
    entry_tick_at: datetime | None = None
    leverage: Decimal | None = None
    entry: Decision | None = None
    adopted: bool = False
    group: str | None = None
    venue: str | None = None  # whose reader delivered a fill of it
    other_reporter: bool = False  # a fill came from somewhere else
    is_lot: bool = False  # its states, mfe and mae are those of one unit at entry: they are the same for every piece of the lot
    closed_by: str | None = None  # the fill or tick that closed it
    exit_seq: int | None = None
    exit_at: datetime | None = None
    exit_tick_at: datetime | None = None
    exit: Decision | None = None
    exit_reason: str | None = None
    close_cause: str | None = None
    exit_trigger: str | None = None
    qty: Decimal = ZERO
    entered: Decimal = ZERO
    exited: Decimal = ZERO
    paid: Decimal = ZERO  # sum of the weights of entries
    got: Decimal = ZERO  # the same of exits
    cost: Decimal = ZERO  # the weight of what is open, at its average cost
    size_usd: Decimal = ZERO  # sum of |notional| of entries, in the account currency at their rates
    paid_usd: Decimal = ZERO  # of an instrument paid in full: notionals in the account currency, signed
    got_usd: Decimal = ZERO
    cost_usd: Decimal = ZERO
    realized: Decimal = ZERO
    exit_rate: Decimal | None = None  # of the exits so far, while they all have the same
    rates_differ: bool = False  # the exits have different rates
    fees: Decimal = ZERO
    fee_unknown: bool = False
    funding: Decimal = ZERO
    stop: Decimal | None = None  # in force for the next entry
    target: Decimal | None = None
    first_stop: Decimal | None = None
    first_target: Decimal | None = None
    first_partial: Decimal | None = None  # price at which a part was first taken off
    risk: Decimal = ZERO
    stopped: bool = True  # every entry so far had a stop
    mfe: Decimal = ZERO
    mae: Decimal = ZERO
    liquidation_fills: int = 0
    inferred: bool = False
    unpriced: bool = False
    cost_unknown: bool = False  # an entry has no price, so the average cost is not known
    exit_unknown: bool = False  # an exit has no price
    shown_entry: Decimal | None = None  # the entry price in the last snapshot, if it showed this side
    entry_moved: bool = False  # a snapshot showed another entry price that no bar so far makes a new position
    rate: Decimal = ONE  # the last one known: of a closed round, at its exit
    pruned: bool = False
    exit_order: Order | None = None
    settled_at: datetime | None = None  # when all up to its exit was known, if that was before anything after it
    states: list[State] = field(default_factory=list)
    rates: list[RatePoint] = field(default_factory=list)
    lots: list[Round] = field(default_factory=list)  # of an account that counts by lots: what is left of each entry

    @property
    def quality(self) -> Quality:
        """How sure the figures are."""
        return "unpriced" if self.unpriced else "inferred" if self.inferred else "fills"

    @property
    def avg_cost(self) -> Decimal | None:
        """The average price of what is open."""
        return self.terms.average(self.cost, self.qty) if self.qty else None

    # ---- what happens to it ------------------------------------------------------------------------------------------

    def enter(self, qty: Decimal, price: Decimal | None, fee: Decimal, rate: Decimal, inferred: bool) -> None:
        """Add a quantity. The stop in force counts as the risk of this entry."""
        self.qty += qty
        self.entered += qty
        self.fees += fee
        self.inferred |= inferred
        if price is None:
            self.unpriced, self.stopped, self.cost_unknown = True, False, True
            return
        weight = self.terms.weight(price, qty)
        self.paid += weight
        self.cost += weight
        self.size_usd += abs(weight) * self.terms.multiplier * rate
        if self.terms.is_cash:
            self.paid_usd += weight * rate
            self.cost_usd += weight * rate
        if self.stop is None or not self.terms.admits(self.stop):
            self.stopped = False
        else:
            self.risk += max(-self.terms.gain(self.side, weight, self.terms.weight(self.stop, qty)) * rate, ZERO)

    def leave(self, qty: Decimal, price: Decimal | None, fee: Decimal, rate: Decimal, inferred: bool) -> None:
        """Take a quantity off, at the average cost of what is open."""
        self.fees += fee
        self.exited += qty
        self.inferred |= inferred
        cost, cost_usd = self.cost * qty / self.qty, self.cost_usd * qty / self.qty
        self.qty -= qty
        self.cost -= cost
        self.cost_usd -= cost_usd
        if price is None:
            self.unpriced, self.exit_unknown = True, True
            return
        weight = self.terms.weight(price, qty)
        self.got += weight
        if self.terms.is_cash:
            self.got_usd += weight * rate
            self.realized += self.side * (weight * rate - cost_usd) * self.terms.multiplier
        else:
            self.realized += self.terms.gain(self.side, cost, weight) * rate
        self.rates_differ |= self.exit_rate is not None and self.exit_rate != rate
        self.exit_rate = rate

    def settle_sums(self) -> None:
        """Compute the PnL of a closed round from its sums, where that is exact: it has no division in it.

        Dust that is left behind counts at its average cost.
        """
        if self.unpriced or self.exit_rate is None:
            return
        if self.terms.is_cash:
            self.realized = self.side * (self.got_usd - self.paid_usd + self.cost_usd) * self.terms.multiplier
        elif not self.rates_differ and not self.terms.is_inverse:
            self.realized = self.terms.gain(self.side, self.paid - self.cost, self.got) * self.exit_rate

    def split(self, at: datetime, ratio: Decimal) -> None:
        """Count in new units: `ratio` of them for one old. Amounts of money stay."""
        self.qty, self.entered, self.exited = self.qty * ratio, self.entered * ratio, self.exited * ratio
        if self.terms.is_inverse:
            self.paid, self.got, self.cost = (weight * ratio * ratio for weight in (self.paid, self.got, self.cost))
        for name in ("stop", "target", "first_stop", "first_target", "first_partial", "shown_entry"):
            if (price := getattr(self, name)) is not None:
                setattr(self, name, price / ratio)
        self.remember(at, ratio)

    def take_piece(self, qty: Decimal, whole: bool) -> Round:
        """Split a quantity off a lot as a round of its own, with its share of everything; `whole` takes the rest of the lot."""
        names = ("qty", "entered", "paid", "cost", "size_usd", "paid_usd", "cost_usd", "fees", "funding", "risk")
        # The piece that ends a lot takes what is left, so that the pieces of a lot add up to the lot. Multiplied before it is
        # divided, a share that comes out even stays exact.
        taken = {name: amount if whole else amount * qty / self.qty for name in names for amount in [getattr(self, name)]}
        piece = replace(self, **taken, states=list(self.states), rates=[], lots=[])
        for name, amount in taken.items():
            setattr(self, name, getattr(self, name) - amount)
        return piece

    # ---- what was seen -----------------------------------------------------------------------------------------------

    def value(self, state: State, price: Decimal, rate: Decimal) -> Decimal:
        """V(price) in a state, at a rate."""
        if state.cost_usd is not None:
            gain = self.side * (price * state.qty * rate - state.cost_usd) * self.terms.multiplier
        else:
            gain = self.terms.gain(self.side, state.cost, self.terms.weight(price, state.qty)) * rate
        return state.realized + gain

    def witness(self, value: Decimal) -> None:
        """Take a value of the trade's path that certainly occurred."""
        self.mfe, self.mae = max(self.mfe, value), min(self.mae, value)

    def remember(self, at: datetime, ratio: Decimal = ONE) -> None:
        """Note the state after an event; `ratio` is that of a split."""
        cost_usd = self.cost_usd if self.terms.is_cash else None
        if self.is_lot and self.states:
            # Only a split changes the state of a unit: it is worth more units now.
            self.states.append(replace(self.states[-1], at=at, qty=self.states[-1].qty * ratio))
            return
        self.states.append(State(at, self.realized, self.cost, self.qty, not self.unpriced, cost_usd))

    def remember_unit(self, at: datetime, price: Decimal | None, rate: Decimal) -> None:
        """Note the state of one unit of a lot, as it was entered."""
        cost = ZERO if price is None else self.terms.weight(price, ONE)
        self.states.append(State(at, ZERO, cost, ONE, price is not None, cost * rate if self.terms.is_cash else None))

    def covers(self, moment: datetime) -> bool:
        """Returns True if the stored states and rates reach back to a moment."""
        return not self.pruned or (self.states[0].at <= moment and (not self.rates or self.rates[0][0] <= moment))

    def learn(self, known_at: datetime) -> None:
        """Move `known_at` to when the latest news about it became known."""
        self.known_at = max(self.known_at, known_at)

    def watch(self, bars: Iterable[KnownBar], mode: MfeMode, rates: Rates) -> None:
        """Take from bars how far the trade ran."""

        def value_at(state: State, price: Decimal, at: datetime) -> Decimal:
            return self.value(state, price, rates.at(at))

        with localcontext(MONEY):
            for known in self._watch_unchanged([*bars], mode, rates):
                if not self.terms.admits(known.bar.l):
                    continue
                for value in observations(self.side, self.entry_at, self.states, self.exit_at, known.bar, mode, value_at):
                    self.witness(value)
                    self.learn(known.known_at)

    def _watch_unchanged(self, bars: Sequence[KnownBar], mode: MfeMode, rates: Rates) -> Sequence[KnownBar]:
        """Take from the bars since the last change of an open trade how far it ran. Returns the bars that are left.

        As long as quantity and rate stay, its value only depends on the price, so the highest and the lowest of all of them tell.
        """
        if len(bars) < 2 or mode != "hl_strict" or self.exit_at is not None or self.terms.is_inverse or not self.states:
            return bars
        last, since = self.states[-1], max(self.states[-1].at, self.entry_at)
        unchanged = [known for known in bars if known.bar.t0 >= since and rates.is_last_at(known.bar.t0)]
        if not unchanged or not all(state.priced for state in self.states):
            return bars
        rate = rates.at(unchanged[0].bar.t0)
        if last.qty <= 0 or rate <= 0 or self.terms.multiplier <= 0:
            return bars
        high, low = max([known.bar.h for known in unchanged]), min([known.bar.l for known in unchanged])
        self.witness(self.value(last, high, rate))
        self.witness(self.value(last, low, rate))
        self.learn(max([known.known_at for known in unchanged]))
        return [known for known in bars if known.bar.t0 < since or not rates.is_last_at(known.bar.t0)]

    def with_last_states(self) -> Round:
        """The round with only its last states and rates: what the store carries from one tick to the next."""
        lots = [lot.with_last_states() for lot in self.lots]
        if len(self.states) <= STORED_STATES and len(self.rates) <= STORED_STATES:
            return replace(self, lots=lots) if lots else self
        return replace(self, states=self.states[-STORED_STATES:], rates=self.rates[-STORED_STATES:], pruned=True, lots=lots)


def trades_of_open_round(terms: AccountTerms, symbol: str, leg: str, round_: Round) -> list[Trade]:
    """The open trades of a position: one, or one for what is left of each lot. What was never more than dust is none."""
    if is_dust(terms, round_):
        return []
    if terms.trade_unit == "fifo_lots":
        return [trade_from_round(terms, symbol, leg, lot) for lot in round_.lots]
    return [trade_from_round(terms, symbol, leg, round_)]


def is_dust(terms: AccountTerms, round_: Round) -> bool:
    """Returns True if a round trip never held more than dust.

    A leftover that is sold after its trade has ended opens such a round. Its money counts, but it teaches nothing.
    """
    return round_.entered <= terms.dust_qty


def trade_from_round(terms: AccountTerms, symbol: str, leg: str, round_: Round) -> Trade:
    """The trade of a round trip or lot, open or closed."""
    with localcontext(MONEY):
        closed = round_.exit_at is not None
        realized = None if round_.unpriced else round_.realized
        net = None if realized is None else realized - round_.fees + round_.funding
        size = None if round_.cost_unknown else round_.size_usd
        risk = round_.risk if round_.stopped else None
        entry, exit_, contract = round_.entry, round_.exit, round_.terms
        situation, left = entry.situation if entry else None, exit_.situation if exit_ else None
        mfe, mae = round_.mfe, round_.mae
        if round_.is_lot:
            # So many units at entry; the end of the trade is what it realised.
            units, end = round_.entered / round_.states[-1].qty, realized or ZERO
            mfe, mae = max(mfe * units, end), min(mae * units, end)
        # A lot may be closed in several pieces: each has an id of its own.
        opened = (round_.opened_by, round_.closed_by or "") if round_.is_lot and closed else (round_.opened_by,)
        return Trade(
            id=TradeId(MemoryId(make_id(terms.agent, *opened, symbol, leg))),
            agent=terms.agent, skill_id=terms.skill_id, skill_version=round_.skill_version,
            strategy=(entry.strategy if entry else None) or terms.skill_id,
            symbol=symbol, leg=leg, side="long" if round_.side > 0 else "short", currency=terms.currency,
            status="closed" if closed else "open",
            entry_tick_at=round_.entry_tick_at, entry_at=round_.entry_at,
            entry_item=round_.opened_by, entry_seq=round_.seq,
            entry_price=contract.average(round_.paid, round_.entered) if size is not None else None,
            entry_size_usd=size, entry_leverage=round_.leverage,
            entry_reason=entry.reason if entry else None, entry_decision=entry.id if entry else None,
            exit_tick_at=round_.exit_tick_at, exit_at=round_.exit_at,
            exit_price=contract.average(round_.got, round_.exited) if closed and not round_.exit_unknown else None,
            exit_reason=round_.exit_reason, exit_decision=exit_.id if exit_ else None,
            close_cause=round_.close_cause, exit_trigger=round_.exit_trigger,
            qty_entered=round_.entered, qty_exited=round_.exited, qty_open=round_.qty,
            avg_cost=None if closed or size is None else round_.avg_cost,
            stop_price=round_.first_stop, target_price=round_.first_target,
            initial_risk_usd=risk, r_source="stop" if risk else None,
            holding_minutes=minutes(round_.exit_at - round_.entry_at) if round_.exit_at else None,
            realized_pnl_usd=realized, fees_usd=round_.fees, funding_usd=round_.funding, net_pnl_usd=net,
            pnl_pct=None if net is None or not size else HUNDRED * net / size,
            pnl_r=net / risk if net is not None and risk else None,
            mfe_usd=mfe, mae_usd=mae, mfe_r=mfe / risk if risk else None, mae_r=mae / risk if risk else None,
            excursion_method=terms.mfe_mode,
            entry_regime=situation.regime if situation else None,
            entry_volatility=situation.volatility_regime if situation else None,
            entry_session=situation.session if situation else None,
            exit_regime=left.regime if left else None,
            quality=round_.quality, adopted=round_.adopted, liquidation_fills=round_.liquidation_fills,
            tags=entry.tags if entry else (), teach="exclude" if is_dust(terms, round_) else "learn",
            confidence=entry.confidence if entry else None,
            entry_situation=canonical(situation) if situation else None, first_partial_price=round_.first_partial,
            exit_item=round_.closed_by, exit_seq=round_.exit_seq, fee_unknown=round_.fee_unknown, group_id=round_.group,
            accounting=contract.accounting, payoff=contract.payoff,
            multiplier=contract.multiplier, rate=round_.rate,
            source=None if round_.other_reporter else round_.venue,
            cost_usd=round_.cost_usd if contract.is_cash and not closed and not round_.unpriced else None,
        )  # fmt: skip


def minutes(duration: timedelta) -> Decimal:
    """A duration in minutes, exactly as far as microseconds go.

    >>> minutes(timedelta(minutes=7, seconds=30))
    Decimal('7.5')
    """
    return MONEY.divide(Decimal(duration // timedelta(microseconds=1)), Decimal(60_000_000))
