"""The cost of work on the whole record: import, verify, rebuild, and reading one page."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

import apsw

from bench.desk import AGENT, BenchRun, closed_trade, desk, read_tables
from bench.timing import Result, Sides, Work, cpu, judge, milliseconds, time_in_turn, time_work, wall
from memtape.core.ids import DecisionId, TickId
from memtape.core.observed import Decision, EquityMark, HeldPosition, Observed, Tick
from memtape.engine import AgentMemory, Memory
from memtape.engine.proof.audit import rebuild_store, verify_store
from memtape.store.rows import COLUMNS
from memtape.store.schema import PROJECTIONS, TABLES
from memtape.store.sqlite import SqliteDatabase

PAGE_ROWS = 50
Rows = dict[str, list[tuple[Any, ...]]]


def empty_store(path: Path) -> apsw.Connection:
    """Returns a connection to an empty store of memtape's schema, as durable as memtape's own."""
    SqliteDatabase(str(path)).close()
    connection = apsw.Connection(str(path))
    connection.execute("PRAGMA synchronous=FULL; PRAGMA temp_store=MEMORY; PRAGMA cache_size=-32000")
    return connection


def insert_rows(connection: apsw.Connection, rows: Rows) -> None:
    """Insert rows as they are, in one durable transaction."""
    connection.execute("BEGIN IMMEDIATE")
    for table, several in rows.items():
        connection.executemany(f"INSERT INTO {table} VALUES ({', '.join('?' * len(COLUMNS[table]))})", several)
    connection.execute("COMMIT")


def read_rows(path: Path, tables: tuple[str, ...]) -> Rows:
    """Returns the rows of these tables in a file."""
    connection = apsw.Connection(str(path))
    rows = read_tables(connection, tables)
    connection.close()
    return rows


def measure_import(bench: BenchRun) -> dict[str, Result]:
    """Measure `import_10k`."""
    trades = [closed_trade(n) for n in range(bench.scale.imported)]
    with desk(bench.folder / "import-model.db") as (_, agent):
        import_trades(agent, trades)
    rows = read_rows(bench.folder / "import-model.db", TABLES)

    def rounds() -> Iterator[tuple[Work, Work]]:
        for n in range(bench.scale.rounds):
            raw = empty_store(bench.folder / f"import-raw-{n}.db")
            with desk(bench.folder / f"import-{n}.db") as (_, agent):
                yield partial(insert_rows, raw, rows), partial(import_trades, agent, trades)
            raw.close()

    walls, cpus = time_in_turn(rounds(), wall, cpu)
    result = judge(
        f"An import of {len(trades)} closed trades, compared with an executemany of the rows it writes.", len(trades), walls,
        6.0, cpu_ratio=round(cpus.ratio, 3), trades_per_s=round(len(trades) * 1000 / milliseconds(walls.subject)),
    )  # fmt: skip
    return {"import_10k": result}


def measure_import_records(bench: BenchRun) -> dict[str, Result]:
    """Measure `import_records_10k`: rows of decisions, equity and positions, compared with as many trades. The worst counts."""
    size = bench.scale.imported
    trades = [closed_trade(n) for n in range(size)]
    results: dict[str, Result] = {}
    for kind, values in account_records(size).items():
        sides = Sides()
        for n in range(bench.scale.rounds):
            with desk(bench.folder / f"records-{kind}-trades-{n}.db") as (_, agent):
                sides.baseline += time_work(partial(import_trades, agent, trades), wall)
            with desk(bench.folder / f"records-{kind}-{n}.db") as (_, agent):
                sides.subject += time_work(partial(import_trades, agent, values), wall)
        what = f"An import of {size} rows of {kind}, compared with one of as many closed trades."
        results[kind] = judge(what, size, sides, 2.0)
    worst = max(results.values(), key=lambda result: result["ratio"])
    return {"import_records_10k": {**worst, "ratios": {kind: result["ratio"] for kind, result in results.items()}}}


def account_records(size: int) -> dict[str, list[Observed]]:
    """Returns decisions that are followed, equity marks, and snapshots of four positions, as many rows of a file each."""
    start = datetime(2024, 1, 1, tzinfo=UTC)
    times = [start + timedelta(minutes=30 * n) for n in range(size)]
    price = Decimal(100)
    return {
        "decisions": [
            Decision(id=DecisionId(f"d{n}"), t=t, symbol=f"S{n % 5}", action="buy", side="long", stop=price - 2, target=price + 4,
                     reason=f"setup {n}") for n, t in enumerate(times)
        ],
        "equity marks": [EquityMark(t=t, equity=Decimal(10_000 + n % 500)) for n, t in enumerate(times)],
        "snapshots": [
            Tick(id=TickId(f"t{n}"), t=t, equity=Decimal(10_000), marks={f"S{m}": price + n % 3 for m in range(4)},
                 positions={f"S{m}": (HeldPosition(qty=Decimal(1 + n // 100 % 3), entry_px=price),) for m in range(4)})
            for n, t in enumerate(times[: size // 4])
        ],
    }  # fmt: skip


def measure_undo(bench: BenchRun) -> dict[str, Result]:
    """Measure `undo_import`: a short and a long import, each compared with its undo. The worse of the two counts."""
    results: list[Result] = []
    for size in (max(bench.scale.imported // 10, 1), bench.scale.imported):
        trades = [closed_trade(n) for n in range(size)]
        sides = Sides()
        for n in range(bench.scale.rounds):
            with desk(bench.folder / f"undo-{size}-{n}.db") as (_, agent):
                sides.baseline += time_work(partial(import_trades, agent, trades), wall)
                batch = agent.imports.all()[0][0].key
                sides.subject += time_work(partial(agent.imports.undo, batch), wall)
        what = f"The undo of an import of {size} closed trades, compared with the import."
        results.append(judge(what, size, sides, 3.0))
    worse = max(results, key=lambda result: result["ratio"])
    return {"undo_import": {**worse, "ratios": {str(result["n"]): result["ratio"] for result in results}}}


def import_trades(agent: AgentMemory, trades: Sequence[Observed]) -> None:
    """Import trades, or other values, that are all new."""
    imported = agent.imports.commit(trades, {"file": "reported.csv"})
    assert imported.new == len(trades)


def measure_verify(bench: BenchRun) -> dict[str, Result]:
    """Measure `verify_100k`."""
    path = bench.store(bench.scale.large)
    raw = apsw.Connection(str(path))
    log_rows = 0
    with desk(path) as (memory, _):

        def verify() -> None:
            nonlocal log_rows
            report = verify_store(memory)
            assert report.ok, report.problems[:1]
            log_rows = report.log_rows

        (sides,) = time_in_turn([(partial(read_tables, raw, TABLES), verify)], cpu)
        sides.baseline += time_in_turn([(partial(read_tables, raw, TABLES), list)] * 2, cpu)[0].baseline
    raw.close()
    return {"verify_100k": _judge_per_row("A verify of every link and every projection, compared with reading the same rows raw.",
                                    log_rows, sides, 72.0)}  # fmt: skip


def measure_rebuild(bench: BenchRun) -> dict[str, Result]:
    """Measure `rebuild_100k`."""
    path = bench.copy(bench.store(bench.scale.large), "rebuild.db")
    rows = read_rows(path, PROJECTIONS)
    raw = [empty_store(bench.folder / f"rebuild-raw-{n}.db") for n in range(3)]
    log_rows = 0
    with desk(path) as (memory, _):

        def rebuild() -> None:
            nonlocal log_rows
            report = rebuild_store(memory)
            written = {table: n for table, n in report.rows.items() if n}
            assert written == {table: len(several) for table, several in rows.items() if several}
            log_rows = report.log_rows

        (sides,) = time_in_turn([(partial(insert_rows, raw[0], rows), rebuild)], wall)
        sides.baseline += time_in_turn([(partial(insert_rows, connection, rows), list) for connection in raw[1:]], wall)[
            0
        ].baseline
    for connection in raw:
        connection.close()
    return {"rebuild_100k": _judge_per_row("A rebuild of every projection, compared with an executemany of all their rows.",
                                     log_rows, sides, 42.0)}  # fmt: skip


def _judge_per_row(what: str, log_rows: int, sides: Sides, bar: float) -> Result:
    seconds = milliseconds(sides.subject) / 1000
    return judge(what, log_rows, sides, bar, rows_per_s=round(log_rows / seconds),
                  subject_s_per_100k=round(seconds * 100_000 / log_rows, 3))  # fmt: skip


def measure_page(bench: BenchRun) -> dict[str, Result]:
    """Measure `read_trades`."""
    from memtape.surfaces.registry import execute

    path = bench.store(bench.scale.large)
    raw = apsw.Connection(str(path))
    columns = ", ".join(COLUMNS["trades"][5:])
    sql = (
        f"SELECT {columns} FROM trades WHERE owner = 'local' AND stream = ? AND known_to IS NULL "
        f"ORDER BY entry_at DESC, id LIMIT {PAGE_ROWS}"
    )

    def query_rows() -> list[Any]:
        return raw.execute(sql, (AGENT,)).fetchall()

    with desk(path) as (memory, _):

        def get_trades(memory: Memory = memory) -> list[Any]:
            return list(execute(memory, "get_trades", {"agent": AGENT, "status": "closed", "limit": PAGE_ROWS})["trades"])

        assert [row["id"] for row in get_trades()] == [row[0] for row in query_rows()]
        (sides,) = time_in_turn([(query_rows, get_trades)] * bench.scale.pages, cpu)
    raw.close()
    result = judge(f"{PAGE_ROWS} of {bench.scale.large} trades by get_trades, compared with the bare query of those rows.",
                   bench.scale.pages, sides, 16.0)  # fmt: skip
    return {"read_trades": result}
