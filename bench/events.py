"""The cost of the exposure of open positions to an event ahead, compared with reading their bars."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from decimal import Decimal
from functools import partial
from pathlib import Path

from bench.desk import BATCH_ROWS, LIVE_START, STORE_SOURCES, BenchRun, desk
from bench.timing import Result, cpu, judge, time_in_turn
from memtape.core.calendar import CalendarEvent
from memtape.core.observed import Bar, Bars
from memtape.engine import AgentMemory
from memtape.store.cutoff import EVERYTHING
from memtape.store.database import in_batches

HELD = ("XAUUSD", "EURUSD", "GBPUSD", "AUDUSD", "NZDUSD", "USDJPY", "USDCHF", "USDCAD", "BTCUSDT", "US500")
HOUR = timedelta(hours=1)
EVENT_EVERY = timedelta(days=30)
BAR_BUDGET = 3.0


def measure_exposure(bench: BenchRun) -> dict[str, Result]:
    """Measure `event_exposure`: ten positions, five years of hourly bars each, a release every month."""
    hours = 5 * 365 * 24 if bench.scale.rounds > 1 else 60 * 24
    path = bench.cached(f"events-{hours}", (*STORE_SOURCES, Path(__file__)), partial(_make_market, hours=hours))
    with desk(path) as (memory, agent):
        [ahead] = memory.calendar.between(LIVE_START, LIVE_START + 2 * HOUR)
        rows = agent.events.exposures([ahead])
        assert [row.exposure.symbol for row in rows] == sorted(HELD), "not every position is exposed"
        assert all(row.exposure.similar_events for row in rows), "no past event was measured"
        (sides,) = time_in_turn([(partial(_read_bars, agent), partial(_read_exposure, agent, ahead))] * bench.scale.rounds, cpu)
    what = f"The exposure of {len(HELD)} positions over {hours} hourly bars each, compared with reading the bars."
    return {"event_exposure": judge(what, hours * len(HELD), sides, BAR_BUDGET)}


def _read_bars(agent: AgentMemory) -> None:
    with agent.view() as view:
        for symbol in HELD:
            assert view.tables.bars(symbol, EVERYTHING)


def _read_exposure(agent: AgentMemory, ahead: CalendarEvent) -> None:
    assert len(agent.events.exposures([ahead])) == len(HELD)


def _make_market(path: Path, hours: int) -> None:
    with desk(path) as (memory, agent):
        for symbol in HELD:
            for some in in_batches(_hourly_bars(symbol, hours), BATCH_ROWS):
                agent.observe(Bars(bars=tuple(some)), backfill=True)
            bought = {"id": f"f-{symbol}", "t": LIVE_START - HOUR, "symbol": symbol, "side": "buy", "qty": 1, "px": 100}
            agent.observe(bought, kind="fill")
        times = [LIVE_START - n * EVENT_EVERY for n in range(1, hours * HOUR // EVENT_EVERY)]
        listed = [{"id": f"cpi{n}", "t": t - HOUR / 2, "title": "CPI m/m", "currencies": ["USD"]} for n, t in enumerate(times)]
        ahead = {"id": "ahead", "t": LIVE_START + HOUR, "title": "CPI m/m", "currencies": ["USD"]}
        memory.calendar.record([*listed, ahead], backfill=True)


def _hourly_bars(symbol: str, hours: int) -> Iterator[Bar]:
    for n in range(hours, 0, -1):
        t0, price = LIVE_START - n * HOUR, Decimal(100) + Decimal(n % 97) / 50
        yield Bar(symbol=symbol, t0=t0, t1=t0 + HOUR, o=price, h=price + 1, l=price - 1, c=price + Decimal("0.2"), v=Decimal(10))
