"""What counts as the outcome of a decision: what its owner stated, else the trade that it entered, else what bars show.

A decision that became a trade has the ledger's own outcome: real prices, fees and partial exits. The owner may state another
one. What the bars show is always kept beside it (`auto`), so that a statement never hides it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from typing import Annotated, Any, ClassVar, Literal

from pydantic import ConfigDict, Field

from memtape.core.decisions.outcomes import NOT_TAKEN, Outcome, OutcomeStatus
from memtape.core.ledger.trades import Trade
from memtape.core.observed import Decision
from memtape.core.value_class import dataclass
from memtape.core.values import MONEY, STRICT, ZERO, Key, Label, Line, Number, Time, read
from memtape.errors import FieldProblem, Invalid

OutcomeSource = Literal["stated", "trade", "bars"]
StatedStatus = Literal["resolved", "expired"]


@dataclass(frozen=True, slots=True, kw_only=True)
class StatedOutcome:
    """The outcome of a decision as its owner states it."""

    __pydantic_config__: ClassVar[ConfigDict] = STRICT
    decision: Key
    status: StatedStatus
    cause: Annotated[Label | None, Field(description="stop, target, closed, expiry, unfilled, ...")] = None
    r: Annotated[Number | None, Field(ge=-1_000_000, le=1_000_000, description="in units of the planned risk")] = None
    exit_price: Number | None = None
    exit_at: Time | None = None
    note: Line | None = None

    @property
    def stated_cause(self) -> str:
        """Its cause; where none is given, what the status and R say."""
        if self.cause is not None:
            return self.cause
        return "closed" if self.status == "resolved" else "unfilled" if self.r is None else "expiry"


@dataclass(frozen=True, slots=True)
class DecisionOutcome:
    """What became of a decision, who says so, and what the bars show."""

    decision: str
    source: OutcomeSource
    outcome: Outcome
    auto: Outcome | None  # what the bars show; None: the decision states too little to be followed
    note: str | None = None  # the owner's
    trades: tuple[str, ...] = ()  # that it entered

    @property
    def status(self) -> OutcomeStatus:
        """pending, open, resolved or expired."""
        return self.outcome.status

    @property
    def cause(self) -> str | None:
        """What ended it."""
        return self.outcome.cause

    @property
    def r(self) -> Decimal | None:
        """The result in R, as the shortest decimal of the double that is stored."""
        return None if self.outcome.r is None else Decimal(str(self.outcome.r))

    @property
    def counts(self) -> bool:
        """False if it enters no figure: the fill left less than a fifth of the planned risk."""
        return not self.outcome.risk_too_small


def effective_outcome(
    decision: str, stated: Mapping[str, Any] | None, action: str | None, trades: Sequence[Trade], auto: Outcome | None
) -> DecisionOutcome | None:
    """Returns what counts as the outcome of a decision; None if nobody says anything.

    `stated` is the body of the owner's last statement, `action` the decision's own.
    """
    entered = tuple(trade.id for trade in trades)
    from_trades = trade_outcome(trades) if trades else None
    if stated is not None:
        said: StatedOutcome = read(StatedOutcome, stated)
        rests_on = from_trades or auto
        outcome = Outcome(
            said.status, rests_on.entry_price if rests_on else None, rests_on.entry_at if rests_on else None, said.exit_price,
            said.exit_at, said.stated_cause, None if said.r is None else float(said.r), (action or "").lower() in NOT_TAKEN,
        )  # fmt: skip
        return DecisionOutcome(decision, "stated", outcome, auto, said.note, entered)
    if from_trades is not None:
        return DecisionOutcome(decision, "trade", from_trades, auto, trades=entered)
    return None if auto is None else DecisionOutcome(decision, "bars", auto, auto)


def trade_outcome(trades: Sequence[Trade]) -> Outcome:
    """Returns the outcome of the trades that one decision entered: on an account by lots there may be several.

    It is open while one of them is. R is the net result of all of them divided by the risk of all of them.
    """
    in_order = sorted(trades, key=lambda trade: (trade.entry_at, trade.id))
    first = in_order[0]
    opened = Outcome("open", first.entry_price, first.entry_at)
    if any(trade.status != "closed" for trade in trades):
        return opened
    last = max(in_order, key=lambda trade: (trade.exit_at or trade.entry_at, trade.id))
    return opened._replace(
        status="resolved", exit_price=last.exit_price, exit_at=last.exit_at, cause=last.exit_trigger or "closed",
        r=_r_of(in_order),
    )  # fmt: skip


def _r_of(trades: Sequence[Trade]) -> float | None:
    if len(trades) == 1:
        return None if trades[0].pnl_r is None else float(trades[0].pnl_r)
    net = risk = ZERO
    for trade in trades:
        if trade.net_pnl_usd is None or trade.initial_risk_usd is None or trade.pnl_r is None:
            return None
        net, risk = MONEY.add(net, trade.net_pnl_usd), MONEY.add(risk, trade.initial_risk_usd)
    return float(MONEY.divide(net, risk)) if risk else None


def complete_statement(stated: StatedOutcome, decision: Decision) -> StatedOutcome:
    """Returns a statement with its cause filled in. Raises Invalid if it contradicts the decision."""
    problems = []
    if stated.exit_at is not None and decision.t is not None and stated.exit_at < decision.t:
        problems.append(FieldProblem("exit_at", "is before the decision", "Give the time at which it ended"))
    if stated.cause == "unfilled" and stated.r is not None:
        problems.append(FieldProblem("r", "is given although the entry was never filled", "Leave it out, or give another cause"))
    if problems:
        raise Invalid(*problems[0], *problems[1:])
    return replace(stated, cause=stated.stated_cause)
