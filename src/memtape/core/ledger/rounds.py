"""A round trip while it is being folded, and the trade that it becomes.

A `Round` holds the sums of one position from flat to flat: quantities entered and exited, cost, reasons, and the states it
went through, by which bars show how far it ran. `trade_from_round` turns it into a row of the ledger, open or closed.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from decimal import Decimal, localcontext

from memtape.core.codec import canonical, make_id
from memtape.core.ids import AgentId, MemoryId, SkillId, TradeId
from memtape.core.ledger.excursions import MfeMode, State, observations
from memtape.core.ledger.trades import Quality, Trade
from memtape.core.observed import Bar, Decision
from memtape.core.values import MONEY, ONE, ZERO

STORED_STATES = 16  # of an open round: enough to judge the next bar without its whole history
HUNDRED = Decimal(100)
Order = tuple[datetime, int, int, str]  # time, rank, sequence number, id: the one order of what happens to a position


@dataclass(frozen=True, slots=True)
class AccountTerms:
    """What an agent's account fixes for all its trades."""

    agent: AgentId
    skill_id: SkillId
    currency: str = "USD"
    dust_qty: Decimal = ZERO
    mfe_mode: MfeMode = "hl_strict"


@dataclass(frozen=True, slots=True)
class KnownBar:
    """A bar, and when the agent could have known it."""

    bar: Bar
    known_at: datetime


@dataclass(slots=True)
class Round:
    """A round trip while it is being folded: the sums from which its trade is computed."""

    opened_by: str
    seq: int
    side: int
    entry_at: datetime
    skill_version: int
    known_at: datetime
    entry_tick_at: datetime | None = None
    leverage: Decimal | None = None
    entry: Decision | None = None
    adopted: bool = False
    exit_at: datetime | None = None
    exit_tick_at: datetime | None = None
    exit: Decision | None = None
    exit_reason: str | None = None
    close_cause: str | None = None
    exit_trigger: str | None = None
    qty: Decimal = ZERO
    entered: Decimal = ZERO
    exited: Decimal = ZERO
    paid: Decimal = ZERO  # sum of price * quantity over entries, quote currency
    got: Decimal = ZERO  # the same over exits
    paid_usd: Decimal = ZERO  # both in the account currency
    got_usd: Decimal = ZERO
    cost: Decimal = ZERO  # what the open part cost, quote currency
    cost_usd: Decimal = ZERO
    realized: Decimal = ZERO
    fees: Decimal = ZERO
    funding: Decimal = ZERO
    stop: Decimal | None = None  # in force for the next entry
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
    rate: Decimal = ONE
    pruned: bool = False
    exit_order: Order | None = None
    settled_at: datetime | None = None  # when all up to its exit was known, if that was before anything after it
    states: list[State] = field(default_factory=list)

    @property
    def quality(self) -> Quality:
        """How sure the figures are."""
        return "unpriced" if self.unpriced else "inferred" if self.inferred else "fills"

    def witness(self, value: Decimal) -> None:
        """Take a value of the trade's path that certainly occurred."""
        self.mfe, self.mae = max(self.mfe, value), min(self.mae, value)

    def remember(self, at: datetime) -> None:
        """Note the state after an event."""
        self.states.append(State(at, self.realized, self.cost_usd, self.qty, self.rate, not self.unpriced))

    def covers(self, moment: datetime) -> bool:
        """Returns True if the stored states reach back to a moment."""
        return not self.pruned or self.states[0].at <= moment

    def learn(self, known_at: datetime) -> None:
        """Move `known_at` to when the latest news about it became known."""
        self.known_at = max(self.known_at, known_at)

    def watch(self, bars: Iterable[KnownBar], mode: MfeMode) -> None:
        """Take from bars how far the trade ran."""
        with localcontext(MONEY):
            for known in bars:
                for value in observations(self.side, self.entry_at, self.states, self.exit_at, known.bar, mode):
                    self.witness(value)
                    self.learn(known.known_at)

    def with_last_states(self) -> Round:
        """The round with only its last states: what the store carries from one tick to the next."""
        if len(self.states) <= STORED_STATES:
            return self
        return replace(self, states=self.states[-STORED_STATES:], pruned=True)


def trade_from_round(terms: AccountTerms, symbol: str, leg: str, round_: Round) -> Trade:
    """The trade of a round trip, open or closed."""
    with localcontext(MONEY):
        closed = round_.exit_at is not None
        realized = None if round_.unpriced else round_.realized
        net = None if realized is None else realized - round_.fees + round_.funding
        size = round_.paid_usd if round_.paid_usd or not round_.unpriced else None
        risk = round_.risk or None if round_.stopped else None
        entry, exit_ = round_.entry, round_.exit
        situation, left = entry.situation if entry else None, exit_.situation if exit_ else None
        return Trade(
            id=TradeId(MemoryId(make_id(terms.agent, round_.opened_by, symbol, leg))),
            agent=terms.agent, skill_id=terms.skill_id, skill_version=round_.skill_version,
            strategy=(entry.strategy if entry else None) or terms.skill_id,
            symbol=symbol, leg=leg, side="long" if round_.side > 0 else "short", currency=terms.currency,
            status="closed" if closed else "open",
            entry_tick_at=round_.entry_tick_at, entry_at=round_.entry_at,
            entry_item=round_.opened_by, entry_seq=round_.seq,
            entry_price=round_.paid / round_.entered if size is not None else None,
            entry_size_usd=size, entry_leverage=round_.leverage,
            entry_reason=entry.reason if entry else None, entry_decision=entry.id if entry else None,
            exit_tick_at=round_.exit_tick_at, exit_at=round_.exit_at,
            exit_price=round_.got / round_.exited if closed and not round_.unpriced else None,
            exit_reason=round_.exit_reason, exit_decision=exit_.id if exit_ else None,
            close_cause=round_.close_cause, exit_trigger=round_.exit_trigger,
            qty_entered=round_.entered, qty_exited=round_.exited, qty_open=round_.qty,
            avg_cost=None if closed or not round_.qty or size is None else round_.cost / round_.qty,
            stop_price=round_.first_stop, target_price=round_.first_target,
            initial_risk_usd=risk, r_source="stop" if risk else None,
            holding_minutes=minutes(round_.exit_at - round_.entry_at) if round_.exit_at else None,
            realized_pnl_usd=realized, fees_usd=round_.fees, funding_usd=round_.funding, net_pnl_usd=net,
            pnl_pct=None if net is None or not size else HUNDRED * net / size,
            pnl_r=None if net is None or risk is None else net / risk,
            mfe_usd=round_.mfe, mae_usd=round_.mae,
            mfe_r=round_.mfe / risk if risk else None, mae_r=round_.mae / risk if risk else None,
            excursion_method=terms.mfe_mode,
            entry_regime=situation.regime if situation else None,
            entry_volatility=situation.volatility_regime if situation else None,
            entry_session=situation.session if situation else None,
            exit_regime=left.regime if left else None,
            quality=round_.quality, adopted=round_.adopted, liquidation_fills=round_.liquidation_fills,
            tags=entry.tags if entry else (), teach="learn", confidence=entry.confidence if entry else None,
            entry_situation=canonical(situation) if situation else None, first_partial_price=round_.first_partial,
        )  # fmt: skip


def minutes(duration: timedelta) -> Decimal:
    """A duration in minutes, exactly as far as microseconds go.

    >>> minutes(timedelta(minutes=7, seconds=30))
    Decimal('7.5')
    """
    return MONEY.divide(Decimal(duration // timedelta(microseconds=1)), Decimal(60_000_000))
