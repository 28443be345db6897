"""What one tick costs, and one trade that an agent reports.

Each is timed against its own statements replayed raw, against a bare commit, and with a long past against a short.

The statements are recorded from an engine on a copy of the same store, so the replay reads and writes the very same rows;
at the end both files must hold the same.
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

from memtape.core.observed import Observed, occurred_at
from memtape.engine import AgentMemory, Memory
from memtape.lab.benches.desk import LIVE, Bench, at, claim, desk, everything, heard, tick
from memtape.lab.benches.timing import Result, Sides, all_in_turn, cpu, in_turn, judged, milliseconds, wall
from memtape.store.schema import TABLES

Statement = tuple[str, Any]
WARM = 20  # ticks before the first that counts
BEFORE = 1200  # bare commits before the first that counts: more than a write-ahead log holds
COUNTED = 6  # ticks of which the steps are counted
TICK_COMMITS = 16.0  # a bar of our own: every other tick closes a trade, and the market at its entry is looked at
QUICK_COMMIT = 0.0002  # a disk that commits faster than this does not wait for the platter


def observe(memory: Memory, agent: AgentMemory, seen: Observed) -> object:
    """One value as it arrives live."""
    at(memory, occurred_at(seen) or LIVE)
    return agent.observe(seen)


def measure_ticks(bench: Bench) -> dict[str, Result]:
    """`tick` and `tick_vs_commit`."""
    ticks: list[Observed] = [tick(n) for n in range(WARM + bench.scale.ticks)]
    return _measure(bench, "tick", ticks, "tick with a bar, a decision and a fill", TICK_COMMITS)


def measure_reports(bench: Bench) -> dict[str, Result]:
    """`remember_trade` and `remember_trade_vs_commit`."""
    claims: list[Observed] = [claim(n, LIVE) for n in range(WARM + bench.scale.ticks)]
    return _measure(bench, "remember_trade", claims, "trade that the agent reports, all memories learned", 8.0)


def _measure(bench: Bench, name: str, values: list[Observed], words: str, commits_bar: float) -> dict[str, Result]:
    with desk(bench.folder / f"{name}.db") as (memory, agent):
        for seen in values[:WARM]:
            observe(memory, agent, seen)
    start, later = bench.folder / f"{name}.db", values[WARM:]
    opening, recorded = record(bench.copy(start, f"{name}-recorded.db"), later)
    raw = opened(bench.copy(start, f"{name}-raw.db"), opening)
    bare = running(opened(bench.folder / f"{name}-bare.db", opening))
    with desk(bench.copy(start, f"{name}-subject.db")) as (memory, agent):
        by_wall, by_cpu = all_in_turn(
            (
                (partial(commit_one, bare, n), partial(replay, raw, statements), partial(observe, memory, agent, seen))
                for n, (seen, statements) in enumerate(zip(later, recorded, strict=True))
            ),
            wall, cpu,
        )  # fmt: skip
    done = apsw.Connection(str(bench.folder / f"{name}-subject.db"))
    assert everything(raw, TABLES) == everything(done, TABLES), "the replay wrote other rows than the engine"
    for connection in (raw, bare, done):
        connection.close()
    commits, *in_full = by_wall
    walls, cpus, against_commit = Sides(*in_full), Sides(*by_cpu[1:]), Sides(commits, in_full[1])
    found = judged(
        f"A durable {words}, against its own statements replayed raw in one durable transaction.",
        len(later), walls, 3.0, cpu_ratio=round(cpus.ratio, 3), baseline_cpu_ms=milliseconds(cpus.baseline),
        subject_cpu_ms=milliseconds(cpus.subject), statements=sum(len(s) for s in recorded) // len(recorded),
    )  # fmt: skip
    bare_found = judged("The same against a bare durable commit of one row.", len(later), against_commit, commits_bar)
    if milliseconds(commits) < QUICK_COMMIT * 1000:
        bare_found |= {"ok": True, "note": f"not judged: the bare commit took less than {QUICK_COMMIT * 1000} ms"}
    return {name: found, f"{name}_vs_commit": bare_found}


@dataclass(frozen=True, slots=True)
class Opening:
    """How the engine sets up a connection."""

    pragmas: tuple[str, ...]
    stable: int  # 1: SQLite keeps its plans whatever values are bound


def record(path: Path, ticks: list[Observed]) -> tuple[Opening, list[list[Statement]]]:
    """How the engine opens a store, and the statements of each tick."""
    told: list[Statement] = []
    connections: list[apsw.Connection] = []

    def note(_: apsw.Cursor, sql: str, bindings: Any) -> bool:
        told.append((sql, bindings))
        return True

    def listen(connection: apsw.Connection) -> None:
        connection.exec_trace = note
        connections.append(connection)

    with heard(listen), desk(path) as (memory, agent):
        pragmas = tuple(sql for sql, _ in told if sql.lower().startswith("pragma"))
        opening = Opening(pragmas, connections[-1].config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, -1))
        recorded: list[list[Statement]] = []
        for seen in ticks:
            told.clear()
            observe(memory, agent, seen)
            recorded.append(list(told))
    return opening, recorded


def opened(path: Path, opening: Opening) -> apsw.Connection:
    """A connection set up as the engine sets up its own."""
    connection = apsw.Connection(str(path))
    for sql in opening.pragmas:
        connection.execute(sql).fetchall()
    connection.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, opening.stable)
    return connection


def replay(connection: apsw.Connection, statements: list[Statement]) -> None:
    """The same statements with the same values, rows of one statement at once as the engine writes them."""
    for sql, several in groupby(statements, key=lambda statement: statement[0]):
        values = [bindings for _, bindings in several]
        if len(values) > 1:
            connection.executemany(sql, values)
        else:
            connection.execute(sql, values[0]).fetchall()


def running(connection: apsw.Connection) -> apsw.Connection:
    """A store that has been in use: its write-ahead log has its full length, so that a commit need not lengthen the file."""
    connection.execute("PRAGMA journal_mode=WAL").fetchall()
    connection.execute("CREATE TABLE one (n INTEGER PRIMARY KEY, text TEXT); PRAGMA synchronous=OFF")
    for n in range(BEFORE):
        commit_one(connection, -n)
    connection.execute("DELETE FROM one; PRAGMA synchronous=FULL")
    return connection


def commit_one(connection: apsw.Connection, n: int) -> None:
    """One row, durably."""
    connection.execute("BEGIN IMMEDIATE")
    connection.execute("INSERT INTO one VALUES (?, ?)", (n, "a row"))
    connection.execute("COMMIT")


def measure_flatness(bench: Bench) -> dict[str, Result]:
    """`tick_flat`."""
    ticks: list[Observed] = [tick(n) for n in range(WARM + bench.scale.ticks + COUNTED)]
    return _flatness(bench, "tick_flat", bench.store, ticks, "a tick with one fill")


def measure_reports_flatness(bench: Bench) -> dict[str, Result]:
    """`remember_trade_flat`."""
    claims: list[Observed] = [claim(n, LIVE) for n in range(WARM + bench.scale.ticks + COUNTED)]
    return _flatness(bench, "remember_trade_flat", bench.diary, claims, "a trade that the agent reports")


def _flatness(bench: Bench, name: str, store: Callable[[int], Path], values: list[Observed], words: str) -> dict[str, Result]:
    scale = bench.scale
    paths = [bench.copy(store(trades), f"{name}-{trades}.db") for trades in (scale.small, scale.large)]
    with ExitStack() as stack:
        small, large = (stack.enter_context(desk(path)) for path in paths)
        for seen in values[:WARM]:
            observe(*small, seen)
            observe(*large, seen)
        (sides,) = in_turn(
            ((partial(observe, *small, seen), partial(observe, *large, seen)) for seen in values[WARM:-COUNTED]), cpu
        )
    steps = [count_steps(path, values[-COUNTED:]) for path in paths]
    found = judged(
        f"CPU of {words} at {scale.large} stored trades against at {scale.small}.", scale.ticks, sides, 1.3,
        baseline_steps=steps[0], subject_steps=steps[1], steps_ratio=round(steps[1] / steps[0], 3),
    )  # fmt: skip
    return {name: found}


def count_steps(path: Path, ticks: list[Observed]) -> int:
    """The steps that SQLite's machine takes for a tick: unlike time, the same on every run."""
    steps: list[int] = []

    def note(event: dict[str, Any]) -> None:
        steps.append(event["stmt_status"]["SQLITE_STMTSTATUS_VM_STEP"])

    def listen(connection: apsw.Connection) -> None:
        connection.trace_v2(apsw.SQLITE_TRACE_PROFILE, note)

    with heard(listen), desk(path) as (memory, agent):
        steps.clear()
        for seen in ticks:
            observe(memory, agent, seen)
        return sum(steps) // len(ticks)
