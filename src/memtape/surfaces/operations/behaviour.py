"""The operation that reports an agent's habits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from pydantic import AliasChoices, Field

from memtape.core.values import Label, Symbol
from memtape.surfaces.answers import Basis, basis_of, behaviour_row
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


class BehaviourAnswer(Basis):
    """Habits of an agent."""

    strategy: Annotated[str | None, Field(description="null: several")]
    symbol: Annotated[str | None, Field(description="null: several")]
    window_trades: Annotated[int, Field(description="number of trades in the window; stable agents have longer windows")]
    window_of_the_original: Annotated[int, Field(description="the window of the original formula, for comparison")]
    figures: Annotated[
        dict[str, Any], Field(description="each with value (null if the sample is too small), n, and why it is null")
    ]
    drift: Annotated[list[dict[str, Any]], Field(description="whether outcomes, risk or holding times are changing")]
    drift_detected: Annotated[bool, Field(description="true: something is drifting now")]
    segments: Annotated[list[dict[str, Any]], Field(description="the same for each strategy and symbol")]
    patterns: Annotated[list[dict[str, Any]], Field(description="repeated behaviour: how often, and its outcome")]


@operation(
    writes=False,
    tools={"coach"},
    columns={
        "drift": ("of", "detected", "direction", "magnitude", "since", "n"),
        "patterns": ("kind", "sentence", "frequency", "outcome"),
        "segments": ("strategy", "symbol", "n", "window_trades", "drift_detected"),
    },
)
def get_behavioral_analysis(memory: Memory, ask: GetBehaviour, caller: Caller) -> BehaviourAnswer:
    """Get an agent's habits: timing, sizing against Kelly, disposition effect, reaction to losses, stability, drift."""
    handle = agent_of(memory, ask)
    found, moment = handle.memories.behaviour(strategy=ask.strategy_name, symbol=ask.symbol, as_of=ask.as_of, head=ask.head)
    parts = [] if found.strategy and found.symbol else handle.memories.behaviours(as_of=ask.as_of, head=ask.head)
    chosen = [b for b in parts if ask.strategy_name in (None, b.strategy) and ask.symbol in (None, b.symbol)]
    segments = [{"n": part.n, **behaviour_row(part)} for part in chosen]
    return BehaviourAnswer(**basis_of(handle.agent.id, moment), **behaviour_row(found), segments=segments)
