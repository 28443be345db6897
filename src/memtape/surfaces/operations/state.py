"""The operation that reports an agent's affect state: confidence, risk appetite, drawdown."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from memtape.core.memory.affect import Affect, AffectStep, risk_appetite_gz
from memtape.core.original.memories import AffectInput, affect_path
from memtape.core.statistics import mean
from memtape.surfaces.answer_models import Answer
from memtape.surfaces.answers import account_figure, optional_time_text, rounded_figure
from memtape.surfaces.questions import AsOf, agent_of
from memtape.surfaces.registry import operation

if TYPE_CHECKING:
    from memtape.engine import Memory
    from memtape.surfaces.caller import Caller


class GetState(AsOf):
    """How much history."""

    history: Annotated[int, Field(ge=0, le=5000, description="past steps to include")] = 0


class OriginalConfidence(Answer):
    """Confidence by the original formula."""

    confidence: Annotated[float | None, Field(description="0 to 1; null without trades")]
    n: Annotated[int, Field(description="trades")]


class StateStep(Answer):
    """One past step of the affect state."""

    at: Annotated[str | None, Field(description="UTC")]
    what: Annotated[str, Field(description="flow, close or mark")]
    confidence: Annotated[float | None, Field(description="after the step")]
    equity: Annotated[float | None, Field(description="of the account, after the step")]
    equity_without_flows: Annotated[float | None, Field(description="without deposits and withdrawals")] = None
    drawdown_pct: Annotated[float | None, Field(description="a fraction of the money that was there")]
    risk_appetite: Annotated[float | None, Field(description="after the step")]
    pnl_r: Annotated[float | None, Field(description="outcome of a close in R")]


class StateAnswer(Answer):
    """An agent's affect state, computed from outcomes and equity adjusted for flows."""

    agent: Annotated[str, Field(description="the agent")]
    as_of: Annotated[str, Field(description="UTC")]
    n: Annotated[int, Field(description="steps it is computed from: closes, equity marks, flows")]
    confidence_level: Annotated[float, Field(description="slow average of outcomes in R, 0 to 1; 0.5 while no trade has an R")]
    risk_appetite: Annotated[float, Field(description="1 at the equity peak, 0.1 at the drawdown limit")]
    risk_appetite_grossman_zhou: Annotated[float, Field(description="stricter: 0 at the limit")]
    momentum_bias: Annotated[
        float | None, Field(description="contrarian (-1) to trend-following (+1); null if the sample is too small")
    ]
    drawdown_pct: Annotated[
        float,
        Field(description="fall from the peak, a fraction of the money that was there: 0.05 is 5 %; no flow changes it"),
    ]
    assumed_equity: Annotated[
        float | None, Field(description="equity and drawdown assume that the account began with this; null: its equity is known")
    ] = None
    drawdown_state: Annotated[float, Field(description="0 at the peak, 1 at the limit")]
    max_acceptable_drawdown: Annotated[float, Field(description="the limit, a fraction")]
    equity: Annotated[float, Field(description="of the account, in its currency")]
    equity_without_flows: Annotated[
        float | None,
        Field(description="without deposits and withdrawals, since a deposit is no profit; lost money is measured by it"),
    ] = None
    peak_equity: Annotated[float, Field(description="highest equity_without_flows")]
    consecutive_wins: Annotated[int, Field(description="in a row")]
    consecutive_losses: Annotated[int, Field(description="trades in a row that did not win: one that ended flat counts too")]
    original: Annotated[OriginalConfidence, Field(description="confidence by the original formula, for comparison only")]
    last_updated: Annotated[str | None, Field(description="UTC: the last step")]
    history: Annotated[list[StateStep], Field(description="past steps, oldest first")]


@operation(
    writes=False, tools={"coach"}, columns=("at", "what", "confidence", "equity", "drawdown_pct", "risk_appetite", "pnl_r")
)
def get_agent_state(memory: Memory, ask: GetState, caller: Caller) -> StateAnswer:
    """Get an agent's affect state: confidence, risk appetite, drawdown, streaks. It is computed from the record only."""
    handle = agent_of(memory, ask)
    at = ask.as_of or handle.now()
    step, affect = handle.memories.affect_step(as_of=at, head=ask.head), handle.memories.affect(as_of=at, head=ask.head)
    steps = handle.memories.affect_history(as_of=at, head=ask.head, limit=ask.history) if ask.history else []
    habits, _ = handle.memories.behaviour(as_of=at, head=ask.head)
    return StateAnswer(
        agent=handle.agent.id,
        as_of=optional_time_text(at) or "",
        n=handle.memories.affect_step_count(as_of=at, head=ask.head),
        confidence_level=rounded_figure(affect.confidence) or 0.0,
        risk_appetite=rounded_figure(affect.risk_appetite) or 0.0,
        risk_appetite_grossman_zhou=rounded_figure(risk_appetite_gz(affect.drawdown)) or 0.0,
        momentum_bias=rounded_figure(habits.momentum_bias.value),
        drawdown_pct=rounded_figure(affect.drawdown) or 0.0,
        assumed_equity=affect.assumed_equity,
        drawdown_state=rounded_figure(affect.drawdown_state) or 0.0,
        max_acceptable_drawdown=affect.limit,
        equity=account_figure(affect.equity),
        equity_without_flows=account_figure(affect.equity_without_flows),
        peak_equity=account_figure(affect.peak_equity),
        consecutive_wins=affect.consecutive_wins,
        consecutive_losses=affect.consecutive_losses,
        original=_original_state(handle.memories.affect_history(as_of=at, head=ask.head, limit=100)),
        last_updated=optional_time_text(step.at) if step else None,
        history=[
            StateStep(
                at=optional_time_text(s.at),
                what=("flow", "close", "mark")[s.rank],
                confidence=rounded_figure(s.confidence),
                equity=account_figure(s.equity),
                equity_without_flows=account_figure(s.nav),
                drawdown_pct=rounded_figure(s.state().drawdown),
                risk_appetite=rounded_figure(s.state().risk_appetite),
                pnl_r=rounded_figure(s.pnl_r),
            )
            for s in steps
        ],
    )


def _original_state(steps: Sequence[AffectStep]) -> OriginalConfidence:
    """The state by the original formula over the last closes: each outcome is compared with the mean of those before it."""
    outcomes = [step.pnl_r for step in steps if step.pnl_r is not None]
    if not outcomes or not steps:
        return OriginalConfidence(confidence=None, n=0)
    inputs = [AffectInput(pnl_r=r, expected_r=mean(outcomes[:n]) if n else None) for n, r in enumerate(outcomes)]
    calm = Affect(peak_equity=steps[0].peak, equity=steps[0].nav)
    return OriginalConfidence(confidence=rounded_figure(affect_path(calm, inputs).confidence), n=len(outcomes))
