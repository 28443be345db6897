"""The operation that answers "how did it do?"."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from memtape.core.values import Label, Symbol
from memtape.surfaces.performance_answers import PerformanceAnswer, habits_row, performance_answer
from memtape.surfaces.questions import AsOf, agent_of
from memtape.surfaces.registry import operation

if TYPE_CHECKING:
    from memtape.engine import Memory
    from memtape.surfaces.caller import Caller

GROUP_TABLE = ("name", "n", "net_pnl_usd", "win_rate", "profit_factor", "mean_r")


class GetPerformance(AsOf):
    """Which trades to count."""

    strategy: Annotated[Label | None, Field(description="only this strategy")] = None
    symbol: Annotated[Symbol | None, Field(description="only this symbol")] = None
    detail: Annotated[
        bool, Field(description="also Sharpe, Sortino, CAGR, drawdown in days, exposure, R, streaks, groups, months")
    ] = False


@operation(
    writes=False,
    # The habits have an operation of their own.
    columns={"habits": ("drift_detected",), **dict.fromkeys(("by_weekday", "by_hour", "by_symbol", "by_side"), GROUP_TABLE)},
)  # fmt: skip
def get_strategy_performance(memory: Memory, ask: GetPerformance, caller: Caller) -> PerformanceAnswer:  # type: ignore[valid-type]
    """Get performance over closed trades, of the agent or of one strategy or symbol, with n for every figure.

    What open trades realised so far stands beside it.
    """
    handle = agent_of(memory, ask)
    found = handle.ledger.performance(symbol=ask.symbol, strategy=ask.strategy, as_of=ask.as_of, head=ask.head)
    outcomes = handle.ledger.outcome_figures(symbol=ask.symbol, strategy=ask.strategy, as_of=ask.as_of, head=ask.head)
    habits, basis = handle.memories.behaviour(strategy=ask.strategy, symbol=ask.symbol, as_of=ask.as_of, head=ask.head)
    record = None
    if ask.detail:
        record = handle.ledger.track_record(symbol=ask.symbol, strategy=ask.strategy, as_of=ask.as_of, head=ask.head)
    row = habits_row(habits, handle.agent.settings.currency)
    return performance_answer(
        handle.agent.id, handle.agent.skill, found, outcomes, row, ask.strategy, ask.symbol, record, basis.notes
    )
