"""The trading desk that is measured: its live ticks, its past, and cached stores of any size.

A past of n trades is mostly reported trades in twelve symbols. One trade in fifty comes from ticks, each with a fill, the
decision that it names and a bar; half of these are on a net account, half under tickets of their own. The symbol that is
traded live has a stored bar for every second trade. So every lookup of a live tick has many rows to search.
"""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import apsw

import memtape
from memtape.core.fills import Fill
from memtape.core.observed import Bar, Bars, Claim, ClosedTrade, Decision, HeldPosition, Situation, Tick
from memtape.engine import AgentMemory, Memory
from memtape.plugs.clock import FixedClock
from memtape.store.database import in_batches
from memtape.store.sqlite import SqliteDatabase

AGENT = "bench"
LIVE_SYMBOL = "BTC"  # of the ticks that are measured
SYMBOLS = (LIVE_SYMBOL, *(f"S{n}" for n in range(1, 12)))
FIRST_TRADE = datetime(2019, 1, 1, tzinfo=UTC)  # then a reported trade every half hour
FIRST_BAR = datetime(2025, 5, 1, tzinfo=UTC)  # of the live symbol
FIRST_PAST_TICK = datetime(2025, 9, 1, tzinfo=UTC)
LIVE_START = datetime(2025, 12, 1, tzinfo=UTC)  # of the ticks that are measured
MINUTE = timedelta(minutes=1)
TRADES_PER_TICKED_TRADE = 50  # one past trade in so many comes from ticks
BATCH_ROWS = 5000
BATCH_TICKS = 500
PACKAGE = Path(memtape.__file__).parent
# The code that decides the bytes of a store. A cached store made by other code is deleted.
STORE_SOURCES = (*(PACKAGE / name for name in ("errors.py", "core", "store", "plugs", "engine")), Path(__file__))


@dataclass(frozen=True, slots=True)
class Scale:
    """The sizes of a run and how often each work is repeated."""

    ticks: int  # timed one by one
    small: int  # trades in the small store
    large: int  # trades in the large store
    imported: int
    rounds: int  # repetitions of works that take about a second
    starts: int  # of processes
    pages: int  # queries of one page or one search
    few: int  # trades of a short history, for costs that must not grow
    many: int  # trades of a long one
    paged: int  # trades of the agent whose page is timed
    bars: int  # simulated
    walked: int  # trades of a history that is walked forward
    huge: int  # passages of the largest library


FULL = Scale(
    ticks=300, small=1000, large=100_000, imported=10_000, rounds=3, starts=7, pages=200, few=500, many=50_000, paged=4_000,
    bars=4_000, walked=16_656, huge=1_000_000,
)
QUICK = Scale(
    ticks=20, small=200, large=2000, imported=500, rounds=1, starts=1, pages=20, few=100, many=1000, paged=200, bars=300,
    walked=100, huge=1000,
)


@dataclass(slots=True)
class BenchRun:
    """One run of benchmarks: its sizes, its folders, and where progress is reported."""

    scale: Scale
    folder: Path  # for files that are deleted at the end of the run
    cache: Path  # for files that the next run can use
    say: Callable[[str], None]

    def store(self, trades: int) -> Path:
        """Returns a file with a past of so many trades. It must not be written to."""
        return self.cached(f"past-{trades}", STORE_SOURCES, lambda path: _make_store(path, trades, add_desk_past))

    def diary(self, trades: int) -> Path:
        """Returns a file of an agent that reported so many trades itself. It must not be written to."""
        return self.cached(f"diary-{trades}", STORE_SOURCES, lambda path: _make_store(path, trades, add_own_reports))

    def cached(self, name: str, sources: Iterable[Path], make: Callable[[Path], None]) -> Path:
        """Returns a file as `make` writes it: from the cache if it was made by the same sources, else made now."""
        version = _source_digest(sources)
        path = self.cache / f"{name}-{version}.db"
        if not path.exists():
            self.say(f"Making {path}")
            for outdated in self.cache.glob(f"{name.partition('-')[0]}-*"):
                if version not in outdated.name:
                    outdated.unlink()
            # A run that is killed leaves only the unfinished file behind.
            unfinished = path.with_suffix(".unfinished")
            _discard(unfinished)
            make(unfinished)
            unfinished.replace(path)
        return path

    def copy(self, path: Path, name: str) -> Path:
        """Returns a copy of a store that may be written to."""
        return Path(shutil.copyfile(path, self.folder / name))


def _make_store(path: Path, trades: int, add_past: Callable[[Memory, AgentMemory, int], None]) -> None:
    with desk(path) as (memory, agent):
        add_past(memory, agent, trades)


def _source_digest(sources: Iterable[Path]) -> str:
    hashed = hashlib.sha256()
    for source in sources:
        for file in [source] if source.is_file() else sorted(source.rglob("*.py")):
            hashed.update(file.read_bytes())
    return hashed.hexdigest()[:16]


def _discard(path: Path) -> None:
    for name in (path.name, f"{path.name}-wal", f"{path.name}-shm"):
        path.with_name(name).unlink(missing_ok=True)


@contextmanager
def desk(path: Path | str) -> Iterator[tuple[Memory, AgentMemory]]:
    """Open the desk's memory in a file, with the clock at the first measured tick."""
    with Memory(SqliteDatabase(str(path)), clock=FixedClock(LIVE_START)) as memory:
        memory.create_skill(AGENT, strategy="Buy strength.")
        memory.create_agent(AGENT, skill=AGENT, mode="paper")
        yield memory, memory.agent(AGENT)


@contextmanager
def tracing_connections(listen: Callable[[apsw.Connection], None]) -> Iterator[None]:
    """Call `listen` with every database connection that is opened inside the block."""
    apsw.connection_hooks.append(listen)
    try:
        yield
    finally:
        apsw.connection_hooks.remove(listen)


def set_clock(memory: Memory, now: datetime) -> None:
    """Set the desk's clock."""
    memory.resources.clock = FixedClock(now)


def tick(n: int, symbol: str = LIVE_SYMBOL, start: datetime = LIVE_START, leg: str = "") -> Tick:
    """Returns the n-th minute: a bar, a decision and its fill, which opens a position if n is even and closes it if n is odd."""
    t, price = start + n * MINUTE, Decimal(65_000 + n // 2 % 50)
    buys = n % 2 == 0
    name = f"{symbol}-{start:%y%m}-{n}"
    held: dict[str, tuple[HeldPosition, ...]] = (
        {symbol: (HeldPosition(qty=Decimal("0.5"), entry_px=price, leg=leg),)} if buys else {}
    )
    decision = Decision(
        id=name, symbol=symbol, action="buy" if buys else "close", reason="a new high of the hour", strategy="breakout",
        stop=price - 100 if buys else None, confidence=Decimal("0.6"), tags=("trend",),
    )  # fmt: skip
    fill = Fill(
        id=name, t=t - timedelta(seconds=5), symbol=symbol, side="buy" if buys else "sell", qty=Decimal("0.5"),
        px=price if buys else price + n % 7 - 3, fee=Decimal("0.35"), leg=leg, decision=name,
    )  # fmt: skip
    return Tick(
        id=name, t=t, positions=held, marks={symbol: price}, fills=(fill,), bars=(bar(symbol, t),), decision=(decision,),
        equity=Decimal(10_000 + n),
    )  # fmt: skip


def bar(symbol: str, t: datetime) -> Bar:
    """Returns the bar of the minute before t."""
    price = Decimal(65_000 + t.minute)
    return Bar(symbol=symbol, t0=t - MINUTE, t1=t, o=price, h=price + 5, l=price - 5, c=price + 1, v=Decimal(12))


def closed_trade(n: int) -> ClosedTrade:
    """Returns the n-th past trade that a source reports with entry and exit."""
    entered, price = FIRST_TRADE + 30 * n * MINUTE, Decimal(100 + n % 37)
    return ClosedTrade(
        trade_id=f"r{n}", symbol=SYMBOLS[n % len(SYMBOLS)], side="short" if n % 3 == 0 else "long", entry_at=entered,
        exit_at=entered + 25 * MINUTE, entry_price=price, exit_price=price + Decimal(n % 7 - 3) / 4, qty=Decimal(3),
        fees=Decimal("0.2"), stop=price + 2 if n % 3 == 0 else price - 2, entry_reason="a new high of the hour",
        exit_reason="the target was reached", strategy="breakout", tags=("news", "trend") if n % 3 == 0 else ("trend",),
        situation=Situation(regime=REGIMES[n % 3], volatility_regime=VOLATILITIES[n % 4], session=SESSIONS[n // 3 % 3]),
    )  # fmt: skip


REGIMES, SESSIONS = ("trending_up", "ranging", "volatile"), ("asia", "london", "newyork")
VOLATILITIES = ("low", "normal", "high", "extreme")


def claim(n: int, start: datetime) -> Claim:
    """Returns the n-th trade that the agent reports with entry and exit."""
    entered, price = start + 30 * n * MINUTE, Decimal(100 + n % 37)
    return Claim(
        trade_id=f"c{start:%y%m}-{n}", symbol=SYMBOLS[n % len(SYMBOLS)], side="short" if n % 3 == 0 else "long",
        entry_at=entered, exit_at=entered + 25 * MINUTE, entry_price=price, exit_price=price + Decimal(n % 7 - 3) / 4,
        pnl=Decimal(n % 7 - 3) * 10, pnl_r=(n % 7 - 3) / 4, strategy="breakout", note="a new high of the hour",
        situation=Situation(regime=REGIMES[n % 3], session=SESSIONS[n // 3 % 3], atr_d1=2.0 + n % 11 / 10, atr_h1=0.5),
        confidence=Decimal("0.6"), reflection="the target was reached",
    )  # fmt: skip


def add_own_reports(memory: Memory, agent: AgentMemory, trades: int) -> None:
    """Give an agent a past of trades that it reported itself."""
    for past in in_batches((claim(n, FIRST_TRADE) for n in range(trades)), BATCH_ROWS):
        assert past[-1].exit_at is not None
        set_clock(memory, past[-1].exit_at)
        agent.imports.commit(past, {"file": "diary.jsonl", "from": past[0].trade_id})
    set_clock(memory, LIVE_START)


def add_desk_past(memory: Memory, agent: AgentMemory, trades: int) -> None:
    """Give a desk its past, in order of time."""
    from_ticks = max(trades // TRADES_PER_TICKED_TRADE, 2)
    for past in in_batches((closed_trade(n) for n in range(trades - from_ticks)), BATCH_ROWS):
        set_clock(memory, past[-1].exit_at)
        agent.imports.commit(past, {"file": "reported.csv", "from": past[0].trade_id})
    for chart in in_batches((bar(LIVE_SYMBOL, FIRST_BAR + n * MINUTE) for n in range(1, trades // 2 + 1)), BATCH_ROWS):
        set_clock(memory, chart[-1].t1)
        agent.observe(Bars(bars=tuple(chart)))
    for ticks in in_batches(_past_ticks(from_ticks), BATCH_TICKS):
        set_clock(memory, ticks[-1].t)
        agent.imports.commit(ticks, {"file": "ticks.jsonl", "from": ticks[0].id})
    set_clock(memory, LIVE_START)


def _past_ticks(trades: int) -> Iterator[Tick]:
    others = SYMBOLS[1:]
    for n in range(2 * trades):
        number = n // 2
        symbol = others[number % len(others)]
        yield tick(n, symbol, FIRST_PAST_TICK, leg="" if number % 2 else f"ticket-{number}")


def read_tables(connection: apsw.Connection, tables: tuple[str, ...]) -> dict[str, list[tuple[Any, ...]]]:
    """Returns all rows of these tables."""
    return {table: connection.execute(f"SELECT * FROM {table}").fetchall() for table in tables}
