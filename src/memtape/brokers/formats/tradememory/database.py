"""The SQLite file of a journal, opened read-only. Rows are read one by one: a damaged row is a problem, the others are read.

The file may come from anyone: its views and triggers are not run, its cells are limited in length, and only known columns are
read. Its own agent may write at the same time; one read transaction shows one state.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from urllib.parse import quote

import apsw

from memtape.brokers.files import MAX_ROWS, ImportFile
from memtape.brokers.importer import ImportProblem
from memtape.errors import Invalid

JournalRow = Mapping[str, Any]
FIX_FILE = "Give a file of tradememory-protocol, like ~/.tradememory/tradememory.db"
FIX_ROW = "Correct the row in the file, or leave it; the other rows are imported"
WAIT_MS = 5000
MAX_CELL_BYTES = 16 * 2**20
TABLES: Mapping[str, tuple[str, ...]] = {
    "trade_records": ("id", "timestamp", "symbol", "direction", "lot_size", "strategy", "confidence", "reasoning",
                      "market_context", "exit_timestamp", "exit_price", "pnl", "pnl_r", "hold_duration", "exit_reasoning",
                      "lessons", "tags"),
    "episodic_memory": ("id", "timestamp", "context_json", "context_regime", "context_volatility_regime", "context_session",
                        "context_atr_d1", "context_atr_h1", "strategy", "direction", "entry_price", "lot_size", "exit_price",
                        "pnl", "pnl_r", "hold_duration_seconds", "max_adverse_excursion", "reflection", "confidence", "tags"),
    "patterns": ("pattern_id", "description", "confidence", "sample_size", "strategy", "symbol", "metrics"),
    "semantic_memory": ("id", "proposition", "alpha", "beta", "strategy", "symbol", "regime", "volatility_regime",
                        "validity_conditions", "source"),
    "prospective_memory": ("id", "trigger_condition", "planned_action", "action_type", "status", "priority", "expiry",
                           "reasoning"),
}  # fmt: skip
# The columns that the two tables of trades must have. Older versions wrote fewer columns and fewer tables.
REQUIRED_COLUMNS = {
    "trade_records": {"id", "timestamp", "symbol", "direction"},
    "episodic_memory": {"id", "timestamp", "direction"},
}


class JournalFile:
    """One read transaction on the file."""

    def __init__(self, file: ImportFile) -> None:
        if file.path is None:
            raise Invalid(file.name, "is not a file on disk", FIX_FILE)
        self.path, self.name = str(file.path.absolute()), file.name

    def __enter__(self) -> JournalFile:
        with self._translated_errors():
            try:
                self.connection = self._open(self.path, apsw.SQLITE_OPEN_READONLY)
            except apsw.CantOpenError:
                # The write-ahead log cannot be used in a read-only folder: read the file without it.
                flags = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI
                self.connection = self._open(f"file:{quote(self.path)}?immutable=1", flags)
        return self

    def __exit__(self, *error: object) -> None:
        self.connection.close()

    def _open(self, where: str, flags: int) -> apsw.Connection:
        connection = apsw.Connection(where, flags=flags)
        connection.set_busy_timeout(WAIT_MS)
        connection.limit(apsw.SQLITE_LIMIT_LENGTH, MAX_CELL_BYTES)
        connection.execute("PRAGMA trusted_schema = OFF; PRAGMA cell_size_check = ON; BEGIN")
        self.tables = sorted(str(name) for (name,) in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'"))
        self.columns = {name: _known_columns(connection, name) for name in TABLES if name in self.tables}
        return connection

    @property
    def has_trades(self) -> bool:
        """True if the file has one of the two tables of trades."""
        return any(needed <= set(self.columns.get(name, ())) for name, needed in REQUIRED_COLUMNS.items())

    def check(self) -> None:
        """Raises Invalid for another kind of database."""
        if not self.has_trades:
            listed = ", ".join(self.tables)[:200] or "none"
            problem = f"has neither trade_records nor episodic_memory as tradememory writes them (its tables: {listed})"
            raise Invalid(self.name, problem, FIX_FILE)

    def count(self, table: str) -> int:
        """Returns the number of rows of a table; 0 if there is no such table."""
        if table not in self.tables:
            return 0
        with self._translated_errors():
            return int(self.connection.execute(f"SELECT count(*) FROM {table}").fetchall()[0][0])  # type: ignore[arg-type]

    def rows(self, table: str, problems: list[ImportProblem]) -> Iterator[tuple[int, JournalRow]]:
        """Yields each row with its number."""
        names = self.columns.get(table, ())
        if not names or not REQUIRED_COLUMNS.get(table, set()) <= set(names):
            return
        with self._translated_errors():
            lines = [int(n) for (n,) in self.connection.execute(f"SELECT rowid FROM {table} ORDER BY rowid")]
        if len(lines) > MAX_ROWS:
            raise Invalid(self.name, f"has more than {MAX_ROWS:,} rows in {table}", "Split it by year and import the parts")
        select = f"SELECT {', '.join(names)} FROM {table} WHERE rowid = ?"
        for line in lines:
            try:
                found = self.connection.execute(select, (line,)).fetchall()[0]
            except (UnicodeDecodeError, apsw.CorruptError, apsw.TooBigError) as error:
                problems.append(ImportProblem(line, table, f"cannot be read ({error})", FIX_ROW, blocks=False))
            else:
                yield line, dict(zip(names, found, strict=True))

    @contextmanager
    def _translated_errors(self) -> Iterator[None]:
        try:
            yield
        except apsw.NotADBError:
            raise Invalid(self.name, "is not an SQLite database", FIX_FILE) from None
        except (apsw.BusyError, apsw.LockedError):
            raise Invalid(self.name, "is locked by another program", "Try again, or stop the program that writes it") from None
        except apsw.CorruptError as error:
            raise Invalid(self.name, f"is damaged ({error})", "Take a backup of it, or repair it with sqlite3 .recover") from None
        except apsw.Error as error:
            raise Invalid(self.name, f"cannot be read ({error})", FIX_FILE) from None


def _known_columns(connection: apsw.Connection, table: str) -> tuple[str, ...]:
    """Returns the known columns that a table has."""
    existing = {str(row[1]) for row in connection.execute(f"PRAGMA table_info({table})")}
    return tuple(name for name in TABLES[table] if name in existing)
