"""The walk forward of `memtape validate`, compared with the recalls that it makes.

A walk goes through the later part of a history in parts of 100 decisions, each done by a process of its own if one likes. So
one part is what is timed, at the end of the history where memory is largest: it opens the store, reads its trades, asks, and
writes its decisions as JSON. The baseline asks the same questions of a memory that is open.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from bench.desk import AGENT, BenchRun
from bench.timing import Result, cpu, judge, time_in_turn
from memtape.compose import open_memory
from memtape.core.recall.query import Query
from memtape.core.recall.reference import Recalled
from memtape.lab.validate.history import HistorySource, opened_history
from memtape.lab.validate.parts import WalkPart, make_parts, walk_part
from memtape.lab.validate.study import split_moment
from memtape.lab.validate.walk import EngineMemory, Walker, WalkTerms, engine_memory

WALK_BAR = 3.0


@dataclass(slots=True)
class ListeningMemory:
    """A memory that writes down what it is asked."""

    memory: EngineMemory
    asked: list[Query] = field(default_factory=list)

    def recall(self, query: Query) -> Recalled:
        """Returns the answer of the memory."""
        self.asked.append(query)
        return self.memory.recall(query)

    def claims_count(self, as_of: datetime) -> bool:
        """Returns the answer of the memory."""
        return self.memory.claims_count(as_of)


def measure_walk(bench: BenchRun) -> dict[str, Result]:
    """Measure `validate_walk`."""
    part = _last_part(bench)
    with open_memory(part.store) as memory, engine_memory(memory.agent(AGENT)) as asked:
        listening = ListeningMemory(asked)
        walker = Walker(listening, WalkTerms.from_dict(part.terms))
        for trade in sorted(asked.view.memory_tables.episodes(list(part.trades)), key=lambda e: part.trades.index(e.id)):
            walker.decide(trade)

        def recall() -> None:
            for query in listening.asked:
                asked.recall(query)

        (sides,) = time_in_turn([(recall, lambda: walk_part(part))] * bench.scale.rounds, cpu)
    decisions, recalls = len(part.trades), len(listening.asked)
    what = (
        f"A walk forward over {bench.scale.walked:,} trades: {decisions} of its last decisions, compared with the {recalls:,} "
        "recalls that they make."
    )
    return {"validate_walk": judge(what, bench.scale.walked, sides, WALK_BAR, recalls=recalls)}


def _last_part(bench: BenchRun) -> WalkPart:
    store = str(bench.store(bench.scale.walked))
    with opened_history(HistorySource(agent=AGENT, store=store)) as history:
        split = split_moment(history.episodes, None)
        parts = make_parts(history, WalkTerms(split=split, embargo=timedelta(hours=1), source="stop"))
    full = [part for part in parts if len(part.trades) >= len(parts[0].trades)]
    return replace(full[-1], number=0)
