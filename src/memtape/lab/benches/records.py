"""What the record as a whole costs: to import, to verify, to rebuild, to read a page of."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import apsw

from memtape.core.observed import ClosedTrade
from memtape.engine import AgentMemory, Memory
from memtape.engine.proof.audit import rebuild_store, verify_store
from memtape.lab.benches.desk import AGENT, Bench, desk, everything, reported
from memtape.lab.benches.timing import Result, Sides, Work, cpu, in_turn, judged, milliseconds, wall
from memtape.store.rows import COLUMNS
from memtape.store.schema import PROJECTIONS, TABLES
from memtape.store.sqlite import SqliteDatabase

PAGE = 50
Rows = dict[str, list[tuple[Any, ...]]]


def empty(path: Path) -> apsw.Connection:
    """A store of our schema with nothing in it, as durable as ours."""
    SqliteDatabase(str(path)).close()
    connection = apsw.Connection(str(path))
    connection.execute("PRAGMA synchronous=FULL; PRAGMA temp_store=MEMORY; PRAGMA cache_size=-32000")
    return connection


def put(connection: apsw.Connection, rows: Rows) -> None:
    """Rows as they are, in one durable transaction."""
    connection.execute("BEGIN IMMEDIATE")
    for table, several in rows.items():
        connection.executemany(f"INSERT INTO {table} VALUES ({', '.join('?' * len(COLUMNS[table]))})", several)
    connection.execute("COMMIT")


def read_rows(path: Path, tables: tuple[str, ...]) -> Rows:
    """The rows of a file."""
    connection = apsw.Connection(str(path))
    found = everything(connection, tables)
    connection.close()
    return found


def measure_import(bench: Bench) -> dict[str, Result]:
    """`import_10k`."""
    trades = [reported(n) for n in range(bench.scale.imported)]
    with desk(bench.folder / "import-model.db") as (_, agent):
        bring(agent, trades)
    rows = read_rows(bench.folder / "import-model.db", TABLES)

    def rounds() -> Iterator[tuple[Work, Work]]:
        for n in range(bench.scale.rounds):
            raw = empty(bench.folder / f"import-raw-{n}.db")
            with desk(bench.folder / f"import-{n}.db") as (_, agent):
                yield partial(put, raw, rows), partial(bring, agent, trades)
            raw.close()

    walls, cpus = in_turn(rounds(), wall, cpu)
    found = judged(
        f"An import of {len(trades)} closed trades, against an executemany of the very rows it writes.", len(trades), walls,
        6.0, cpu_ratio=round(cpus.ratio, 3), trades_per_s=round(len(trades) * 1000 / milliseconds(walls.subject)),
    )  # fmt: skip
    return {"import_10k": found}


def bring(agent: AgentMemory, trades: list[ClosedTrade]) -> None:
    """An import."""
    brought = agent.imports.commit(trades, {"file": "reported.csv"})
    assert brought.new == len(trades)


def measure_verify(bench: Bench) -> dict[str, Result]:
    """`verify_100k`."""
    path = bench.store(bench.scale.large)
    raw = apsw.Connection(str(path))
    log_rows = 0
    with desk(path) as (memory, _):

        def prove() -> None:
            nonlocal log_rows
            found = verify_store(memory)
            assert found.ok, found.problems[:1]
            log_rows = found.log_rows

        (sides,) = in_turn([(partial(everything, raw, TABLES), prove)], cpu)
        sides.baseline += in_turn([(partial(everything, raw, TABLES), list)] * 2, cpu)[0].baseline
    raw.close()
    return {"verify_100k": _per_row("A verify of every link and every projection, against reading the same rows raw.",
                                    log_rows, sides, 72.0)}  # fmt: skip


def measure_rebuild(bench: Bench) -> dict[str, Result]:
    """`rebuild_100k`."""
    path = bench.copy(bench.store(bench.scale.large), "rebuild.db")
    rows = read_rows(path, PROJECTIONS)
    raw = [empty(bench.folder / f"rebuild-raw-{n}.db") for n in range(3)]
    log_rows = 0
    with desk(path) as (memory, _):

        def make_anew() -> None:
            nonlocal log_rows
            found = rebuild_store(memory)
            made = {table: n for table, n in found.rows.items() if n}
            assert made == {table: len(several) for table, several in rows.items() if several}
            log_rows = found.log_rows

        (sides,) = in_turn([(partial(put, raw[0], rows), make_anew)], wall)
        sides.baseline += in_turn([(partial(put, connection, rows), list) for connection in raw[1:]], wall)[0].baseline
    for connection in raw:
        connection.close()
    return {"rebuild_100k": _per_row("A rebuild of every projection, against an executemany of the rows of them all.",
                                     log_rows, sides, 42.0)}  # fmt: skip


def _per_row(what: str, log_rows: int, sides: Sides, bar: float) -> Result:
    seconds = milliseconds(sides.subject) / 1000
    return judged(what, log_rows, sides, bar, rows_per_s=round(log_rows / seconds),
                  subject_s_per_100k=round(seconds * 100_000 / log_rows, 3))  # fmt: skip


def measure_page(bench: Bench) -> dict[str, Result]:
    """`read_trades`."""
    from memtape.surfaces.registry import execute

    path = bench.store(bench.scale.large)
    raw = apsw.Connection(str(path))
    columns = ", ".join(COLUMNS["trades"][5:])
    sql = (
        f"SELECT {columns} FROM trades WHERE owner = 'local' AND stream = ? AND known_to IS NULL "
        f"ORDER BY entry_at DESC, id LIMIT {PAGE}"
    )

    def plainly() -> list[Any]:
        return raw.execute(sql, (AGENT,)).fetchall()

    with desk(path) as (memory, _):

        def ask(memory: Memory = memory) -> list[Any]:
            return list(execute(memory, "get_trades", {"agent": AGENT, "status": "closed", "limit": PAGE})["trades"])

        assert [row["id"] for row in ask()] == [row[0] for row in plainly()]
        (sides,) = in_turn([(plainly, ask)] * bench.scale.pages, cpu)
    raw.close()
    found = judged(f"A page of {PAGE} trades out of {bench.scale.large} by get_trades, against the bare query of those rows.",
                   bench.scale.pages, sides, 16.0)  # fmt: skip
    return {"read_trades": found}
