"""The operation that reports an agent's habits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from pydantic import AliasChoices, Field, create_model

from memtape.core.values import Label, Symbol
from memtape.surfaces.answer_models import Answer
from memtape.surfaces.answers import Basis, basis_of
from memtape.surfaces.performance_answers import DriftRow, HabitFigures, HabitsRow, PatternRow, habits_row
from memtape.surfaces.questions import AsOf, agent_of
from memtape.surfaces.registry import operation

if TYPE_CHECKING:
    from memtape.engine import Memory
    from memtape.surfaces.caller import Caller


class GetBehaviour(AsOf):
    """Which trades to look at."""

    strategy_name: Annotated[Label | None, Field(validation_alias=AliasChoices("strategy_name", "strategy"),
                             description="only this strategy")] = None  # fmt: skip
    symbol: Annotated[Symbol | None, Field(description="only this symbol")] = None


SegmentHabits = create_model("SegmentHabits", __base__=Answer, __doc__="Habits of one strategy and symbol.",
                             n=(Annotated[int, Field(description="trades")], ...),
                             **{name: (field.rebuild_annotation(), ...) for name, field in HabitsRow.model_fields.items()})  # type: ignore[call-overload] # fmt: skip


class BehaviourAnswer(Basis):
    """Habits of an agent."""

    strategy: Annotated[str | None, Field(description="null: several")]
    symbol: Annotated[str | None, Field(description="null: several")]
    window_trades: Annotated[int, Field(description="number of trades in the window; stable agents have longer windows")]
    window_of_the_original: Annotated[int, Field(description="the window of the original formula, for comparison")]
    unit: Annotated[str, Field(description="of outcomes: R (by stops), R by ATR, or typical losses in money")]
    figures: Annotated[HabitFigures, Field(description="each with value, n, and why it is null")]
    drift: Annotated[list[DriftRow], Field(description="whether outcomes, risk or holding are changing")]  # type: ignore[valid-type]
    drift_detected: Annotated[bool, Field(description="true: something is drifting now")]
    segments: Annotated[list[SegmentHabits], Field(description="the same for each strategy and symbol")]  # type: ignore[valid-type]
    patterns: Annotated[list[PatternRow], Field(description="repeated behaviour: how often, and its outcome")]  # type: ignore[valid-type]


@operation(
    writes=False,
    tools={"coach"},
    columns={
        "drift": ("of", "detected", "direction", "magnitude", "since", "n"),
        "patterns": ("kind", "sentence"),
        "segments": ("strategy", "symbol", "n", "window_trades", "drift_detected"),
    },
)
def get_behavioral_analysis(memory: Memory, ask: GetBehaviour, caller: Caller) -> BehaviourAnswer:
    """Get an agent's habits: timing, sizing against Kelly, disposition effect, reaction to losses, stability, drift."""
    handle = agent_of(memory, ask)
    found, moment = handle.memories.behaviour(strategy=ask.strategy_name, symbol=ask.symbol, as_of=ask.as_of, head=ask.head)
    parts = [] if found.strategy and found.symbol else handle.memories.behaviours(as_of=ask.as_of, head=ask.head)
    chosen = [b for b in parts if ask.strategy_name in (None, b.strategy) and ask.symbol in (None, b.symbol)]
    currency = handle.agent.settings.currency
    segments = [SegmentHabits(n=part.n, **dict(habits_row(part, currency))) for part in chosen]
    return BehaviourAnswer(**basis_of(handle.agent.id, moment), **dict(habits_row(found, currency)), segments=segments)
