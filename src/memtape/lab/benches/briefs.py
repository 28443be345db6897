"""What a brief costs beside one recall: everything it gathers, fits and renders, from a store of many trades."""

from __future__ import annotations

from memtape.lab.benches.desk import Bench, desk
from memtape.lab.benches.timing import Result, cpu, in_turn, judged

OFTEN = 3


def measure_brief(bench: Bench) -> dict[str, Result]:
    """`brief`."""
    n = bench.scale.large
    with desk(bench.store(n)) as (_, agent):
        symbol = agent.ledger.trades(limit=1)[0].symbol
        made = agent.briefs.make(symbol=symbol)
        assert {"recent_trades", "memory"} <= {segment.name for segment in made.brief.segments}, "the brief tells nothing"

        def whole() -> None:
            for _ in range(OFTEN):
                agent.briefs.make(symbol=symbol)

        def recall() -> None:
            for _ in range(OFTEN):
                agent.memories.recall(symbol=symbol)

        (sides,) = in_turn([(recall, whole)] * bench.scale.rounds, cpu)
    return {"brief": judged(f"A brief of an agent with {n} trades stored, against one whole recall.", n, sides, 5.0)}
