"""Operations on the outcomes of decisions: what became of one, and what the owner states about it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field

from memtape.core.decisions.decision_outcomes import DecisionOutcome, StatedStatus
from memtape.core.decisions.outcomes import Outcome
from memtape.core.ledger.trades import money_text
from memtape.core.values import Key, Label, Line, Number, Time
from memtape.surfaces.answer_models import Answer, Real
from memtape.surfaces.answers import optional_time_text, rounded_figure
from memtape.surfaces.questions import AsOf, OfAgent, agent_of
from memtape.surfaces.registry import operation

if TYPE_CHECKING:
    from memtape.engine import Memory
    from memtape.surfaces.caller import Caller


class NameDecision(AsOf):
    """Which decision."""

    decision: Annotated[Key, Field(description="an id from get_decisions")]


class RecordOutcome(OfAgent):
    """The outcome of a decision, as its owner states it."""

    decision: Annotated[Key, Field(description="an id from get_decisions")]
    status: Annotated[StatedStatus, Field(description="resolved: it was traded and ended; expired: it ran out of time")]
    r: Annotated[Number | None, Field(description="in units of the planned risk; absent: unknown, or never filled")] = None
    cause: Annotated[Label | None, Field(description="stop, target, closed, expiry, unfilled; default: by status and r")] = None
    exit_price: Annotated[Number | None, Field(description="where it ended")] = None
    exit_at: Annotated[Time | None, Field(description="when it ended")] = None
    note: Annotated[Line | None, Field(description="why it differs from what memtape computed")] = None


class OutcomeRow(Answer):
    """What became of a decision."""

    status: Annotated[str, Field(description="pending: not filled yet; open; resolved: stop, target or closed; expired")]
    cause: Annotated[str | None, Field(description="stop, target, expiry, unfilled; of a trade its exit trigger, or closed")]
    r: Annotated[Real | None, Field(description="result in units of the real risk")]
    entry_price: Annotated[str | None, Field(description="the real fill")]
    entry_at: Annotated[str | None, Field(description="UTC")]
    exit_price: Annotated[str | None, Field(description="where it ended")]
    exit_at: Annotated[str | None, Field(description="UTC")]
    shadow: Annotated[bool, Field(description="a decision not to trade: what would have become of the trade")]
    risk_too_small: Annotated[bool, Field(description="a gap left under a fifth of the planned risk: r enters no figure")]


class OutcomeAnswer(Answer):
    """What became of a decision, who says so, and what the bars show."""

    agent: Annotated[str, Field(description="the agent")]
    decision: Annotated[str, Field(description="the decision")]
    source: Annotated[str | None, Field(description="stated by the owner, trade of the ledger, or bars; null: no outcome")]
    outcome: Annotated[OutcomeRow | None, Field(description="null: it states too little to be followed, and entered no trade")]
    auto: Annotated[OutcomeRow | None, Field(description="what the bars show, whatever counts; null: it is not followed")]
    note: Annotated[str | None, Field(description="the owner's")]
    trades: Annotated[list[str], Field(description="the trades that it entered")]


def outcome_row(outcome: Outcome) -> OutcomeRow:
    """The answer row of an outcome."""
    return OutcomeRow(
        status=outcome.status, cause=outcome.cause, r=rounded_figure(outcome.r), entry_price=money_text(outcome.entry_price),
        entry_at=optional_time_text(outcome.entry_at), exit_price=money_text(outcome.exit_price),
        exit_at=optional_time_text(outcome.exit_at), shadow=outcome.shadow, risk_too_small=outcome.risk_too_small,
    )  # fmt: skip


def _answer(agent: str, decision: str, found: DecisionOutcome | None) -> OutcomeAnswer:
    if found is None:
        return OutcomeAnswer(agent=agent, decision=decision, source=None, outcome=None, auto=None, note=None, trades=[])
    return OutcomeAnswer(
        agent=agent, decision=decision, source=found.source, outcome=outcome_row(found.outcome),
        auto=None if found.auto is None else outcome_row(found.auto), note=found.note, trades=list(found.trades),
    )  # fmt: skip


@operation(writes=False)
def get_outcome(memory: Memory, ask: NameDecision, caller: Caller) -> OutcomeAnswer:
    """What became of a decision: as the owner states it, else by the trade that it entered, else on later bars."""
    handle = agent_of(memory, ask)
    return _answer(handle.agent.id, ask.decision, handle.outcomes.of(ask.decision, as_of=ask.as_of, head=ask.head))


@operation(writes=True)
def record_outcome(memory: Memory, ask: RecordOutcome, caller: Caller) -> OutcomeAnswer:
    """State the outcome of a decision; it takes precedence, and what memtape computed is kept beside it. Owner only."""
    handle = agent_of(memory, ask)
    stated: dict[str, Any] = {name: value for name, value in ask if name != "agent" and value is not None}
    handle.outcomes.record(stated)
    return _answer(handle.agent.id, ask.decision, handle.outcomes.of(ask.decision))
