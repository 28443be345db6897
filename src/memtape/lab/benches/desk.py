"""The desk that is measured: its ticks, its past, and stores that hold as much of that past as a bench asks for.

A past of n trades is mostly reported trades over twelve symbols; one in fifty comes from ticks, each with a fill,
the decision it names and a bar, half of them on a net account and half under tickets of their own. The symbol that is
traded now has a bar stored for every second trade. So whatever a tick looks up, there is much of it to be found.
"""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import apsw

from memtape.core.ids import DecisionId, TickId
from memtape.core.observed import Bar, Bars, Claim, ClosedTrade, Decision, Fill, HeldPosition, Situation, Tick
from memtape.engine import AgentMemory, Memory
from memtape.plugs.clock import FixedClock
from memtape.store.database import in_batches
from memtape.store.sqlite import SqliteDatabase

AGENT = "bench"
NOW = "BTC"  # the symbol of the ticks that are measured
SYMBOLS = (NOW, *(f"S{n}" for n in range(1, 12)))
PAST = datetime(2019, 1, 1, tzinfo=UTC)  # reported trades from here on, every half hour
CHARTED = datetime(2025, 5, 1, tzinfo=UTC)  # bars of the symbol that is traded now
TICKED = datetime(2025, 9, 1, tzinfo=UTC)  # trades from ticks
LIVE = datetime(2025, 12, 1, tzinfo=UTC)  # the ticks that are measured
MINUTE = timedelta(minutes=1)
TICK_SHARE = 50  # every so manieth trade of the past comes from ticks
BATCH = 5000
TICKS_AT_ONCE = 500
# What the bytes of a store depend on: a store that was made by other code is made anew.
MAKERS = ("errors.py", "core", "store", "plugs", "engine", "lab/benches/desk.py")


@dataclass(frozen=True, slots=True)
class Scale:
    """How much is measured, how often."""

    ticks: int  # timed one by one
    small: int  # trades in the small store
    large: int  # trades in the large store
    imported: int
    rounds: int  # of things that take a second
    starts: int  # of processes
    pages: int


FULL = Scale(ticks=300, small=1000, large=100_000, imported=10_000, rounds=3, starts=7, pages=200)
QUICK = Scale(ticks=20, small=200, large=2000, imported=500, rounds=1, starts=1, pages=20)


@dataclass(slots=True)
class Bench:
    """A run of benches: how much, where to work, where to keep, whom to tell."""

    scale: Scale
    folder: Path  # for files that go when the run is over
    kept: Path  # for stores that the next run may use
    say: Callable[[str], None]

    def store(self, trades: int) -> Path:
        """A file with a past of so many trades; not to be written to."""
        return self._kept("past", trades, remember)

    def diary(self, trades: int) -> Path:
        """A file of an agent that reported so many trades itself; not to be written to."""
        return self._kept("diary", trades, tell)

    def _kept(self, kind: str, trades: int, fill: Callable[[Memory, AgentMemory, int], None]) -> Path:
        made_by = _digest_of_makers()
        path = self.kept / f"{kind}-{trades}-{made_by}.db"
        if not path.exists():
            self.say(f"Making a store of {trades} trades: {path}")
            for other in self.kept.glob(f"{kind}-*"):
                if not other.stem.endswith(made_by):
                    other.unlink()
            growing = path.with_suffix(".growing")
            _discard(growing)
            with desk(growing) as (memory, agent):
                fill(memory, agent, trades)
            growing.replace(path)
        return path

    def copy(self, path: Path, name: str) -> Path:
        """A copy of a store, to be written to."""
        return Path(shutil.copyfile(path, self.folder / name))


def _digest_of_makers() -> str:
    package = Path(__file__).parents[2]
    found = hashlib.sha256()
    for maker in MAKERS:
        place = package / maker
        for file in [place] if place.is_file() else sorted(place.rglob("*.py")):
            found.update(file.read_bytes())
    return found.hexdigest()[:16]


def _discard(path: Path) -> None:
    for name in (path.name, f"{path.name}-wal", f"{path.name}-shm"):
        path.with_name(name).unlink(missing_ok=True)


@contextmanager
def desk(path: Path | str) -> Iterator[tuple[Memory, AgentMemory]]:
    """The desk's memory in a file, with its clock at the first tick that is measured."""
    with Memory(SqliteDatabase(str(path)), clock=FixedClock(LIVE)) as memory:
        memory.create_skill(AGENT, strategy="Buy strength.")
        memory.create_agent(AGENT, skill=AGENT, mode="paper")
        yield memory, memory.agent(AGENT)


@contextmanager
def heard(listen: Callable[[apsw.Connection], None]) -> Iterator[None]:
    """Every database that is opened meanwhile is first handed to `listen`."""
    apsw.connection_hooks.append(listen)
    try:
        yield
    finally:
        apsw.connection_hooks.remove(listen)


def at(memory: Memory, now: datetime) -> None:
    """Set the desk's clock."""
    memory.resources.clock = FixedClock(now)


def tick(n: int, symbol: str = NOW, start: datetime = LIVE, leg: str = "") -> Tick:
    """The n-th minute: a bar, a decision and its fill, which opens a position if n is even and closes it if odd."""
    t, price = start + n * MINUTE, Decimal(65_000 + n // 2 % 50)
    buys = n % 2 == 0
    name = f"{symbol}-{start:%y%m}-{n}"
    held: dict[str, tuple[HeldPosition, ...]] = (
        {symbol: (HeldPosition(qty=Decimal("0.5"), entry_px=price, leg=leg),)} if buys else {}
    )
    decision = Decision(
        id=DecisionId(name), symbol=symbol, action="buy" if buys else "close", reason="a new high of the hour",
        strategy="breakout", stop=price - 100 if buys else None, confidence=Decimal("0.6"), tags=("trend",),
    )  # fmt: skip
    fill = Fill(
        id=name, t=t - timedelta(seconds=5), symbol=symbol, side="buy" if buys else "sell", qty=Decimal("0.5"),
        px=price if buys else price + n % 7 - 3, fee=Decimal("0.35"), leg=leg, decision=name,
    )  # fmt: skip
    return Tick(
        id=TickId(name), t=t, positions=held, marks={symbol: price}, fills=(fill,), bars=(bar(symbol, t),), decision=(decision,),
        equity=Decimal(10_000 + n),
    )  # fmt: skip


def bar(symbol: str, t: datetime) -> Bar:
    """The minute up to t."""
    price = Decimal(65_000 + t.minute)
    return Bar(symbol=symbol, t0=t - MINUTE, t1=t, o=price, h=price + 5, l=price - 5, c=price + 1, v=Decimal(12))


def reported(n: int) -> ClosedTrade:
    """The n-th trade of the past that a source reports whole."""
    entered, price = PAST + 30 * n * MINUTE, Decimal(100 + n % 37)
    return ClosedTrade(
        trade_id=f"r{n}", symbol=SYMBOLS[n % len(SYMBOLS)], side="short" if n % 3 == 0 else "long", entry_at=entered,
        exit_at=entered + 25 * MINUTE, entry_price=price, exit_price=price + Decimal(n % 7 - 3) / 4, qty=Decimal(3),
        fees=Decimal("0.2"), stop=price + 2 if n % 3 == 0 else price - 2, entry_reason="a new high of the hour",
        exit_reason="the target was reached", strategy="breakout", tags=("trend",),
    )  # fmt: skip


REGIMES, SESSIONS = ("trending_up", "ranging", "volatile"), ("asia", "london", "newyork")


def claim(n: int, start: datetime) -> Claim:
    """The n-th trade that the agent reports, whole."""
    entered, price = start + 30 * n * MINUTE, Decimal(100 + n % 37)
    return Claim(
        trade_id=f"c{start:%y%m}-{n}", symbol=SYMBOLS[n % len(SYMBOLS)], side="short" if n % 3 == 0 else "long",
        entry_at=entered, exit_at=entered + 25 * MINUTE, entry_price=price, exit_price=price + Decimal(n % 7 - 3) / 4,
        pnl=Decimal(n % 7 - 3) * 10, pnl_r=(n % 7 - 3) / 4, strategy="breakout", note="a new high of the hour",
        situation=Situation(regime=REGIMES[n % 3], session=SESSIONS[n // 3 % 3], atr_d1=2.0 + n % 11 / 10, atr_h1=0.5),
        confidence=Decimal("0.6"), reflection="the target was reached",
    )  # fmt: skip


def tell(memory: Memory, agent: AgentMemory, trades: int) -> None:
    """Give an agent a past that it reported itself."""
    for past in in_batches((claim(n, PAST) for n in range(trades)), BATCH):
        assert past[-1].exit_at is not None
        at(memory, past[-1].exit_at)
        agent.imports.commit(past, {"file": "diary.jsonl", "from": past[0].trade_id})
    at(memory, LIVE)


def remember(memory: Memory, agent: AgentMemory, trades: int) -> None:
    """Give a desk its past, in the order in which it happened."""
    from_ticks = max(trades // TICK_SHARE, 2)
    for past in in_batches((reported(n) for n in range(trades - from_ticks)), BATCH):
        at(memory, past[-1].exit_at)
        agent.imports.commit(past, {"file": "reported.csv", "from": past[0].trade_id})
    for chart in in_batches((bar(NOW, CHARTED + n * MINUTE) for n in range(1, trades // 2 + 1)), BATCH):
        at(memory, chart[-1].t1)
        agent.observe(Bars(bars=tuple(chart)))
    for ticks in in_batches(_past_ticks(from_ticks), TICKS_AT_ONCE):
        at(memory, ticks[-1].t)
        agent.imports.commit(ticks, {"file": "ticks.jsonl", "from": ticks[0].id})
    at(memory, LIVE)


def _past_ticks(trades: int) -> Iterator[Tick]:
    others = SYMBOLS[1:]
    for n in range(2 * trades):
        number = n // 2
        symbol = others[number % len(others)]
        yield tick(n, symbol, TICKED, leg="" if number % 2 else f"ticket-{number}")


def everything(connection: apsw.Connection, tables: tuple[str, ...]) -> dict[str, list[tuple[Any, ...]]]:
    """All rows of these tables."""
    return {table: connection.execute(f"SELECT * FROM {table}").fetchall() for table in tables}
