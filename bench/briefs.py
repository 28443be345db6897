"""The cost of a brief (gathering, fitting and rendering) from a store of many trades, compared with one recall."""

from __future__ import annotations

from bench.desk import BenchRun, desk
from bench.timing import Result, cpu, judge, time_in_turn

REPEATS = 3


def measure_brief(bench: BenchRun) -> dict[str, Result]:
    """Measure `brief`."""
    n = bench.scale.large
    with desk(bench.store(n)) as (_, agent):
        symbol = agent.ledger.trades(limit=1)[0].symbol
        sections = {segment.name for segment in agent.briefs.make(symbol=symbol).brief.segments}
        assert {"recent_trades", "memory"} <= sections, "the brief lacks its main sections"

        def whole() -> None:
            for _ in range(REPEATS):
                agent.briefs.make(symbol=symbol)

        def recall() -> None:
            for _ in range(REPEATS):
                agent.memories.recall(symbol=symbol)

        (sides,) = time_in_turn([(recall, whole)] * bench.scale.rounds, cpu)
    return {"brief": judge(f"A brief of an agent with {n} stored trades, compared with one whole recall.", n, sides, 3.0)}
