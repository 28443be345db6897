"""The cost of settling many decisions, with all their rows written, compared with reading the bars that each is followed on."""

from __future__ import annotations

from datetime import datetime, timedelta
from decimal import Decimal

from bench.desk import LIVE_START, BenchRun, desk
from bench.timing import Result, cpu, judge, time_in_turn
from memtape.core.ids import DecisionId
from memtape.core.observed import Bar, Bars, Decision, Side
from memtape.engine.scope import AgentScope
from memtape.engine.write.arrivals import Arrival
from memtape.engine.write.outcomes import follow_again
from memtape.store.cutoff import EVERYTHING

SETTLE_BAR = 3.0
HOUR = timedelta(hours=1)
WINDOW = 24 * HOUR  # of a decision that does not say how long it is followed
SYMBOL = "SETTLE"
BARS_PER_DELIVERY = 2_000


def measure_settling(bench: BenchRun) -> dict[str, Result]:
    """Measure `settle_10k`: one decision an hour, each with stop and target, on hourly bars."""
    n = bench.scale.imported
    start = LIVE_START - (n + 48) * HOUR
    decisions = [_decision(start + k * HOUR, k) for k in range(n)]
    ids = [f"d{k}" for k in range(n)]
    with desk(bench.folder / "outcomes.db") as (memory, agent):
        bars = [_bar(start + k * HOUR, k) for k in range(n + 24)]
        for first in range(0, len(bars), BARS_PER_DELIVERY):
            agent.observe(Bars(bars=tuple(bars[first : first + BARS_PER_DELIVERY])), backfill=True)
        scope = AgentScope(memory.resources, agent.agent)
        with scope.writing() as tables:
            scope.writer(tables).many([Arrival(decision, decision.t or start) for decision in decisions])

        def read_bars() -> None:
            with scope.reading() as tables:
                for decision in decisions:
                    assert decision.t is not None
                    tables.bars_within(SYMBOL, decision.t, decision.t + WINDOW, HOUR, EVERYTHING)

        def settle() -> None:
            with scope.writing() as tables:
                found = follow_again(tables, ids)
            ended = sum(row.known_to is None and row.outcome.is_final for each in found for row in each.rows())
            assert ended == n, f"{ended} of {n} decisions are settled"

        (sides,) = time_in_turn([(read_bars, settle)] * bench.scale.rounds, cpu)
    what = f"{n} decisions followed to their outcome and stored, compared with reading the bars of each."
    return {"settle_10k": judge(what, n, sides, SETTLE_BAR)}


def _price(k: int) -> Decimal:
    # A wave with a period of 40 hours: some decisions reach their target, some their stop, some neither.
    return Decimal(100) + Decimal(abs(k % 40 - 20)) / 4


def _bar(t0: datetime, k: int) -> Bar:
    o, c = _price(k), _price(k + 1)
    return Bar(symbol=SYMBOL, t0=t0, t1=t0 + HOUR, o=o, h=max(o, c) + 1, l=min(o, c) - 1, c=c)


def _decision(t: datetime, k: int) -> Decision:
    price = _price(k)
    side: Side = "long" if k % 3 else "short"
    away = Decimal(3) if side == "long" else Decimal(-3)
    return Decision(
        id=DecisionId(f"d{k}"), t=t, symbol=SYMBOL, action="buy" if side == "long" else "sell", side=side, stop=price - away,
        target=price + 2 * away, entry_price=None if k % 2 else price,
    )  # fmt: skip
