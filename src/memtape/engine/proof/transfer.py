"""Exports a store to files, and restores a store from them.

An export contains the log and the bars: everything else is derived from them. JSONL is one file. CSV and parquet are folders with
one file for each table, and one more with the trades for people to read. A restore writes log and bars into an empty store,
rebuilds it and verifies it. The digests are those of the exported store.

A single file that ends with .csv or .parquet holds only the trades, for a spreadsheet: it cannot be restored.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from memtape.core.codec import canonical_plain
from memtape.core.items import OWNER_STREAM
from memtape.core.ledger.trades import TRADE_FIELDS, entry_order, trade_json
from memtape.core.skills import Agent
from memtape.engine.memory import Memory
from memtape.engine.proof.audit import Audit, rebuild_projections, verify_session
from memtape.engine.proof.chain import checked_chain, deleted_streams, destroyed_in
from memtape.errors import Conflict, Invalid, MissingExtra, Tampered
from memtape.store.private_files import make_private_file, make_private_folder, open_private
from memtape.store.rows import COLUMNS, LogRow
from memtape.store.tables import Tables, streams

EXPORTED_TABLES = ("streams", "log", "bars")
FORMATS = ("jsonl", "csv", "parquet", "markdown")
_INTEGERS = {"seq", "occurred_at", "known_at", "recorded_at", "frame", "t0", "t1", "first_snapshot", "last_tick", "verified_from"}
# A spreadsheet may take a cell that begins with one of these for a formula. An apostrophe before it prevents that, so a text
# that begins with an apostrophe gets another one.
_FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r", "'")
Rows = Iterable[tuple[str, dict[str, Any]]]


# The format that the ending of a file means.
FORMAT_OF_ENDING = {".jsonl": "jsonl", ".csv": "csv", ".parquet": "parquet", ".md": "markdown", ".markdown": "markdown"}


def export_format(path: Path, form: str | None) -> str:
    """The format of an export: as stated, else by the ending of its file.

    >>> export_format(Path("x.csv"), None), export_format(Path("all"), "csv"), export_format(Path("log.txt"), "jsonl")
    ('csv', 'csv', 'jsonl')
    """
    if form is not None:
        return form
    if (found := FORMAT_OF_ENDING.get(path.suffix.lower())) is None:
        endings = ", ".join(FORMAT_OF_ENDING)
        raise Invalid("path", f"the ending of {path.name} names no format", f"End it with one of {endings}, or give the format")
    return found


def export_store(memory: Memory, path: Path, form: str, agent: str | None = None) -> dict[str, int]:
    """Write everything that the owner has to files. Returns how many rows of each table were written.

    With `agent` only its trades are written: to a file that holds nothing else, because a part of a log cannot be restored.
    """
    if form not in FORMATS:
        raise Invalid("format", f"there is no format '{form}'", f"Use one of {', '.join(FORMATS)}")
    if path.exists() and (path.is_file() or any(path.iterdir())):
        raise Conflict("path", f"{path} exists already", "Name a new file or an empty folder")
    if agent is not None and form != "markdown" and path.suffix.lower() not in (".csv", ".parquet"):
        raise Invalid("agent", "an export of everything holds every agent", "Name a .csv, .parquet or .md file, or leave it out")
    agents = [memory.agent(agent).agent] if agent is not None else memory.agents()
    make_private_folder(path.parent)
    counts: dict[str, int] = {}
    if form == "jsonl":
        with open_private(path) as out:
            for table, row in _rows(memory):
                counts[table] = counts.get(table, 0) + 1
                out.write(canonical_plain({"table": table, **row}) + "\n")
        return counts
    if form == "markdown":
        return _markdown(memory, agents, path)
    write = _write_csv if form == "csv" else _parquet_writer()
    trade_columns = ["agent", *(field for field in TRADE_FIELDS if field != "agent")]
    if path.suffix.lower() == f".{form}":
        trades = list(_trades(memory, agents))
        write(path, trade_columns, trades)
        return {"trades": len(trades)}
    make_private_folder(path)
    by_table: dict[str, list[dict[str, Any]]] = {table: [] for table in EXPORTED_TABLES}
    for table, row in _rows(memory):
        by_table[table].append(row)
    by_table["trades"] = list(_trades(memory, agents))
    for table, rows in by_table.items():
        columns = trade_columns if table == "trades" else list(COLUMNS[table])
        write(path / f"{table}.{form}", columns, rows)
        counts[table] = len(rows)
    return counts


def _rows(memory: Memory) -> Rows:
    with memory.database.reading(memory.owner) as session:
        for stream in streams(session, memory.owner):
            tables = Tables(session, memory.owner, stream)
            for table in EXPORTED_TABLES:
                for row in tables.each_row(table):
                    yield table, row


def _trades(memory: Memory, agents: Iterable[Agent]) -> Iterator[dict[str, Any]]:
    for agent in agents:
        for trade in sorted(memory.agent(agent.id).ledger.trades(newest=False), key=entry_order):
            row = trade_json(trade)
            yield {k: ";".join(v) if isinstance(v, list) else v for k, v in row.items()}


def _write_csv(file: Path, columns: list[str], rows: list[dict[str, Any]]) -> None:
    with open_private(file, newline="") as out:
        writer = csv.writer(out)
        writer.writerow(columns)
        writer.writerows([_escaped(row.get(column)) for column in columns] for row in rows)


def _escaped(value: Any) -> Any:
    """Returns a cell that no spreadsheet takes for a formula. `_unescaped` returns the original text."""
    if isinstance(value, str) and value.startswith(_FORMULA_STARTS) and not _is_number(value):
        return "'" + value
    return value


def _is_number(text: str) -> bool:
    return text[1:].replace(".", "", 1).isdigit() and text[:1] in "-+"


def _unescaped(text: str) -> str | None:
    return None if text == "" else text[1:] if text.startswith("'") else text


def _parquet_writer() -> Callable[[Path, list[str], list[dict[str, Any]]], None]:
    try:
        import pyarrow as arrow
        from pyarrow import parquet
    except ImportError:
        raise MissingExtra(what="The parquet format", extra="parquet") from None

    def write(file: Path, columns: list[str], rows: list[dict[str, Any]]) -> None:
        table = {
            column: arrow.array(
                [row.get(column) for row in rows],
                type=arrow.int64() if column in _INTEGERS else arrow.string() if column not in _OTHER else _OTHER[column](arrow),
            )
            for column in columns
        }
        make_private_file(file)
        parquet.write_table(arrow.table(table), file)

    return write


_OTHER: dict[str, Callable[[Any], Any]] = {
    "skill_version": lambda arrow: arrow.int64(),
    "entry_seq": lambda arrow: arrow.int64(),
    "exit_seq": lambda arrow: arrow.int64(),
    "fee_unknown": lambda arrow: arrow.bool_(),
    "rules": lambda arrow: arrow.int64(),
    "liquidation_fills": lambda arrow: arrow.int64(),
    "adopted": lambda arrow: arrow.bool_(),
}


def _markdown(memory: Memory, agents: Iterable[Agent], path: Path) -> dict[str, int]:
    columns = ("entry_at", "exit_at", "symbol", "side", "qty_entered", "entry_price", "exit_price", "net_pnl_usd", "pnl_r",
               "quality", "entry_reason", "exit_reason")  # fmt: skip
    lines = ["# Trades", ""]
    count = 0
    for agent in agents:
        rows = list(_trades(memory, [agent]))
        count += len(rows)
        lines += [f"## {agent.id} ({agent.mode}, {agent.settings.currency}, n = {len(rows)}, times in UTC)", ""]
        lines += ["| " + " | ".join(columns) + " |", "|" + "---|" * len(columns)]
        lines += ["| " + " | ".join(str(row[c] if row[c] is not None else "").replace("|", "\\|") for c in columns) + " |"
                  for row in rows]  # fmt: skip
        lines.append("")
    with open_private(path) as out:
        out.write("\n".join(lines))
    return {"trades": count}


def restore_store(memory: Memory, path: Path) -> Audit:
    """Restore an export into an empty store.

    Raises Conflict if the store is not empty, and Tampered if the export does not verify. Then the store stays empty.
    """
    with memory.database.reading(memory.owner) as session:
        if streams(session, memory.owner):
            raise Conflict("db", f"the store {memory.url} is not empty", "Restore into a new store")
    by_stream: dict[str, dict[str, list[dict[str, Any]]]] = {}
    for table, row in _read(path):
        if row["owner"] != memory.owner:
            row["owner"] = memory.owner
        by_stream.setdefault(str(row["stream"]), {}).setdefault(table, []).append(row)
    logs = {
        stream: [LogRow(**{c: row[c] for c in COLUMNS["log"][1:]}) for row in sorted(t.get("log", []), key=lambda r: r["seq"])]
        for stream, t in by_stream.items()
    }
    deleted = deleted_streams(logs.get(OWNER_STREAM, [])) - {OWNER_STREAM}
    # The chains are checked before anything is written: nothing of a forged log enters the store.
    for stream, rows in logs.items():
        for _ in checked_chain(rows, str(path), destroyed_in(rows, stream in deleted)):
            pass
    # One transaction from the first row to the verification: killed at any moment, the store is empty or whole.
    with memory.database.writing(memory.owner) as session:
        for stream, tables_ in by_stream.items():
            tables = Tables(session, memory.owner, stream)
            for table in EXPORTED_TABLES:
                tables.insert(table, tables_.get(table, []))
        rebuild_projections(memory.resources.in_transaction(session))
        audit = verify_session(session)
        if not audit.ok:
            first = audit.problems[0]
            raise Tampered(url=str(path), problem=f"{first.table} {first.key}: {first.problem}")
    return audit


def _read(path: Path) -> Rows:
    if path.is_file():
        yield from _read_jsonl(path)
    elif (path / "log.csv").is_file():
        for table in EXPORTED_TABLES:
            with (path / f"{table}.csv").open(encoding="utf-8", newline="") as lines:
                # A payload may be longer than the 128 kB that the csv module allows by default.
                csv.field_size_limit(2**31 - 1)
                for cells in csv.DictReader(lines):
                    row = {name: _unescaped(text) for name, text in cells.items()}
                    yield table, {n: int(v) if n in _INTEGERS and v is not None else v for n, v in row.items()}
    elif (path / "log.parquet").is_file():
        try:
            from pyarrow import parquet
        except ImportError:
            raise MissingExtra(what="The parquet format", extra="parquet") from None
        for table in EXPORTED_TABLES:
            for row in parquet.read_table(path / f"{table}.parquet").to_pylist():
                yield table, row
    else:
        raise Invalid("path", f"{path} is not an export of memtape", "Give a .jsonl file or a folder with log.csv or log.parquet")


def _read_jsonl(path: Path) -> Rows:
    with path.open(encoding="utf-8") as lines:
        for number, line in enumerate(lines, 1):
            try:
                row = json.loads(line)
                table = row.pop("table")
                if table not in EXPORTED_TABLES or set(row) != set(COLUMNS[table]):
                    raise ValueError("not a row of an export")
            except (ValueError, KeyError, AttributeError, TypeError):
                raise Invalid(
                    "path", f"line {number} of {path.name} is not a row of an export", "Export the store again"
                ) from None
            yield table, row
