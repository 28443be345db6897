"""The cost of one tick, and of one trade that an agent reports.

Each is compared with its own statements replayed raw, with a bare commit, and with itself on a shorter past.

The statements are recorded from an engine on a copy of the same store, so the replay reads and writes the same rows. At the
end both files must hold the same rows.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Any

import apsw

from bench.desk import LIVE_START, BenchRun, claim, desk, read_tables, set_clock, tick, tracing_connections
from bench.timing import Result, Sides, cpu, judge, milliseconds, time_in_turn, time_works, wall
from memtape.core.observed import Observed, occurred_at
from memtape.engine import AgentMemory, Memory
from memtape.store.schema import TABLES

Statement = tuple[str, Any]
WARM_UP_TICKS = 20  # before the first tick that is timed
WARM_UP_COMMITS = 1200  # before the first bare commit that is timed: more than a write-ahead log holds
COUNTED_TICKS = 6  # the steps of these are counted
# The design sets no bar for a tick. Every other tick closes a trade, which reads the market at its entry.
TICK_COMMITS_BAR = 16.0
MIN_COMMIT_SECONDS = 0.0002  # a disk that commits faster does not wait for durable storage


def observe(memory: Memory, agent: AgentMemory, observed: Observed) -> object:
    """Observe one value at its own time, as if it arrived live."""
    set_clock(memory, occurred_at(observed) or LIVE_START)
    return agent.observe(observed)


def measure_ticks(bench: BenchRun) -> dict[str, Result]:
    """Measure `tick` and `tick_vs_commit`."""
    ticks: list[Observed] = [tick(n) for n in range(WARM_UP_TICKS + bench.scale.ticks)]
    return _measure(bench, "tick", ticks, "tick with a bar, a decision and a fill", TICK_COMMITS_BAR)


def measure_reports(bench: BenchRun) -> dict[str, Result]:
    """Measure `remember_trade` and `remember_trade_vs_commit`."""
    claims: list[Observed] = [claim(n, LIVE_START) for n in range(WARM_UP_TICKS + bench.scale.ticks)]
    return _measure(bench, "remember_trade", claims, "trade that the agent reports, all memories learned", 8.0)


def _measure(bench: BenchRun, name: str, values: list[Observed], words: str, commits_bar: float) -> dict[str, Result]:
    with desk(bench.folder / f"{name}.db") as (memory, agent):
        for observed in values[:WARM_UP_TICKS]:
            observe(memory, agent, observed)
    start, later = bench.folder / f"{name}.db", values[WARM_UP_TICKS:]
    setup, recorded = record(bench.copy(start, f"{name}-recorded.db"), later)
    raw = connect_like_engine(bench.copy(start, f"{name}-raw.db"), setup)
    bare = warm_up(connect_like_engine(bench.folder / f"{name}-bare.db", setup))
    with desk(bench.copy(start, f"{name}-subject.db")) as (memory, agent):
        by_wall, by_cpu = time_works(
            (
                (partial(commit_one, bare, n), partial(replay, raw, statements), partial(observe, memory, agent, observed))
                for n, (observed, statements) in enumerate(zip(later, recorded, strict=True))
            ),
            wall, cpu,
        )  # fmt: skip
    done = apsw.Connection(str(bench.folder / f"{name}-subject.db"))
    assert read_tables(raw, TABLES) == read_tables(done, TABLES), "the replay and the engine wrote different rows"
    for connection in (raw, bare, done):
        connection.close()
    commits, *in_full = by_wall
    walls, cpus, against_commit = Sides(*in_full), Sides(*by_cpu[1:]), Sides(commits, in_full[1])
    result = judge(
        f"A durable {words}, compared with its own statements replayed raw in one durable transaction.",
        len(later), walls, 3.0, cpu_ratio=round(cpus.ratio, 3), baseline_cpu_ms=milliseconds(cpus.baseline),
        subject_cpu_ms=milliseconds(cpus.subject), statements=sum(len(s) for s in recorded) // len(recorded),
    )  # fmt: skip
    bare_result = judge("The same, compared with a bare durable commit of one row.", len(later), against_commit, commits_bar)
    if milliseconds(commits) < MIN_COMMIT_SECONDS * 1000:
        bare_result |= {"ok": True, "note": f"not judged: the bare commit took less than {MIN_COMMIT_SECONDS * 1000} ms"}
    return {name: result, f"{name}_vs_commit": bare_result}


@dataclass(frozen=True, slots=True)
class ConnectionSetup:
    """How the engine sets up a connection."""

    pragmas: tuple[str, ...]
    stable_plans: int  # 1: SQLite does not choose a plan by the bound values


def record(path: Path, ticks: list[Observed]) -> tuple[ConnectionSetup, list[list[Statement]]]:
    """Returns how the engine sets up its connection, and the statements of each tick."""
    statements: list[Statement] = []
    connections: list[apsw.Connection] = []

    def note(_: apsw.Cursor, sql: str, bindings: Any) -> bool:
        statements.append((sql, bindings))
        return True

    def listen(connection: apsw.Connection) -> None:
        connection.exec_trace = note
        connections.append(connection)

    with tracing_connections(listen), desk(path) as (memory, agent):
        pragmas = tuple(sql for sql, _ in statements if sql.lower().startswith("pragma"))
        setup = ConnectionSetup(pragmas, connections[-1].config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, -1))
        recorded: list[list[Statement]] = []
        for observed in ticks:
            statements.clear()
            observe(memory, agent, observed)
            recorded.append(list(statements))
    return setup, recorded


def connect_like_engine(path: Path, setup: ConnectionSetup) -> apsw.Connection:
    """Returns a connection set up as the engine sets up its own."""
    connection = apsw.Connection(str(path))
    for sql in setup.pragmas:
        connection.execute(sql).fetchall()
    connection.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, setup.stable_plans)
    return connection


def replay(connection: apsw.Connection, statements: list[Statement]) -> None:
    """Execute the same statements with the same values; repetitions of one statement go in one call, as the engine sends them."""
    for sql, several in groupby(statements, key=lambda statement: statement[0]):
        values = [bindings for _, bindings in several]
        if len(values) > 1:
            connection.executemany(sql, values)
        else:
            connection.execute(sql, values[0]).fetchall()


def warm_up(connection: apsw.Connection) -> apsw.Connection:
    """Bring the write-ahead log to its full length, so that a commit does not have to lengthen the file."""
    connection.execute("PRAGMA journal_mode=WAL").fetchall()
    connection.execute("CREATE TABLE one (n INTEGER PRIMARY KEY, text TEXT); PRAGMA synchronous=OFF")
    for n in range(WARM_UP_COMMITS):
        commit_one(connection, -n)
    connection.execute("DELETE FROM one; PRAGMA synchronous=FULL")
    return connection


def commit_one(connection: apsw.Connection, n: int) -> None:
    """Insert one row in one durable transaction."""
    connection.execute("BEGIN IMMEDIATE")
    connection.execute("INSERT INTO one VALUES (?, ?)", (n, "a row"))
    connection.execute("COMMIT")


def measure_flatness(bench: BenchRun) -> dict[str, Result]:
    """Measure `tick_flat`."""
    ticks: list[Observed] = [tick(n) for n in range(WARM_UP_TICKS + bench.scale.ticks + COUNTED_TICKS)]
    return _flatness(bench, "tick_flat", bench.store, ticks, "a tick with one fill")


def measure_reports_flatness(bench: BenchRun) -> dict[str, Result]:
    """Measure `remember_trade_flat`."""
    claims: list[Observed] = [claim(n, LIVE_START) for n in range(WARM_UP_TICKS + bench.scale.ticks + COUNTED_TICKS)]
    return _flatness(bench, "remember_trade_flat", bench.diary, claims, "a trade that the agent reports")


def _flatness(bench: BenchRun, name: str, store: Callable[[int], Path], values: list[Observed], words: str) -> dict[str, Result]:
    scale = bench.scale
    paths = [bench.copy(store(trades), f"{name}-{trades}.db") for trades in (scale.small, scale.large)]
    with ExitStack() as stack:
        small, large = (stack.enter_context(desk(path)) for path in paths)
        for observed in values[:WARM_UP_TICKS]:
            observe(*small, observed)
            observe(*large, observed)
        (sides,) = time_in_turn(
            (
                (partial(observe, *small, observed), partial(observe, *large, observed))
                for observed in values[WARM_UP_TICKS:-COUNTED_TICKS]
            ),
            cpu,
        )
    steps = [count_steps(path, values[-COUNTED_TICKS:]) for path in paths]
    result = judge(
        f"CPU of {words} at {scale.large} stored trades, compared with {scale.small}.", scale.ticks, sides, 1.3,
        baseline_steps=steps[0], subject_steps=steps[1], steps_ratio=round(steps[1] / steps[0], 3),
    )  # fmt: skip
    return {name: result}


def count_steps(path: Path, ticks: list[Observed]) -> int:
    """Returns the steps of SQLite's virtual machine per tick. Unlike time, they are the same on every run."""
    steps: list[int] = []

    def note(event: dict[str, Any]) -> None:
        steps.append(event["stmt_status"]["SQLITE_STMTSTATUS_VM_STEP"])

    def listen(connection: apsw.Connection) -> None:
        connection.trace_v2(apsw.SQLITE_TRACE_PROFILE, note)

    with tracing_connections(listen), desk(path) as (memory, agent):
        steps.clear()
        for observed in ticks:
            observe(memory, agent, observed)
        return sum(steps) // len(ticks)
