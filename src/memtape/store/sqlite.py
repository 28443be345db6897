"""Embedded SQLite, through apsw, which brings a current SQLite of its own (before 3.51.3, WAL could corrupt a file).

WAL with synchronous=FULL: a commit that returned survives power loss. SQLite's own write lock is the only lock, so
`serve`, `memtape mcp` and the CLI work on one file at once.

Deleted content is overwritten (secure_delete; measured: no slower). After payloads of the log were destroyed, `scrub` empties
the WAL, which would still hold them. After those of a whole stream were destroyed, it rewrites the file, because pages that
were split keep copies that no deletion overwrites.
"""

from __future__ import annotations

import itertools
import os
import random
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import apsw

from memtape.core.ids import OwnerId
from memtape.errors import Conflict, MemtapeError, NewerSchema, NoStore, OlderSchema, StoreFailure
from memtape.store.database import Params, Row, expand, insertion, unstorable
from memtape.store.private_files import make_private_file, make_private_folder
from memtape.store.schema import LATEST, MIGRATIONS
from memtape.store.sqlite_errors import memtape_error
from memtape.store.tables import outdated_owners

MAX_IDLE_READERS = 4  # connections that wait for the next read; more are opened when more read at once
WAIT_SECONDS = 5
PAUSE_SECONDS = (0.0005, 0.005)  # between two attempts to get the lock
_TYPES = {"money": "TEXT", "text": "TEXT", "int": "INTEGER", "real": "REAL", "options": " STRICT"}


class _Patience:
    """What a connection does while another one holds the lock: it tries again after a short random pause, until a deadline.

    SQLite's own handler waits longer each time, up to a tenth of a second. Among several writers the one that has waited longest
    then tries least often, and may starve. Short random pauses give each the same chance.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds, self._deadline = seconds, 0.0

    def __call__(self, attempts: int) -> bool:
        """Returns True if the connection should try again."""
        if attempts == 0:
            self._deadline = time.monotonic() + self._seconds
        if time.monotonic() >= self._deadline:
            return False
        time.sleep(random.uniform(*PAUSE_SECONDS))
        return True


class SqliteSession:
    """A transaction on the one connection."""

    def __init__(self, connection: apsw.Connection) -> None:
        self._connection = connection

    def run(self, sql: str, params: Params) -> None:
        """Execute a statement."""
        self._execute(*expand(sql, params))

    def insert(self, table: str, columns: Sequence[str], rows: Sequence[Row], on_conflict: str = "") -> None:
        """Add rows, their values in the order of the columns."""
        if rows:
            self._connection.executemany(insertion(table, tuple(columns), "?", on_conflict), rows)

    def all(self, sql: str, params: Params) -> list[Row]:
        """Execute a query and fetch everything."""
        return self._execute(*expand(sql, params)).fetchall()

    def _execute(self, sql: str, params: Params) -> apsw.Cursor:
        try:
            return self._connection.execute(sql, params)
        except (TypeError, OverflowError, UnicodeEncodeError):
            # Python code may ask for anything. The parameter has the name of what was asked for.
            if (problem := unstorable(params)) is None:
                raise
            raise problem from None

    def lock(self, owner: OwnerId, stream: str) -> None:
        """Nothing to do: BEGIN IMMEDIATE already holds the file's write lock."""


def _schema_objects(connection: apsw.Connection) -> set[Row]:
    """The tables and indexes of a file, as they were stated, without SQLite's own and the record of migrations."""
    found: list[Any] = connection.execute(
        "SELECT type, name, sql FROM sqlite_schema WHERE name NOT LIKE 'sqlite_%' AND name != 'migrations'"
    ).fetchall()
    return set(found)


class SqliteDatabase:
    """One file."""

    dialect = "sqlite"

    def __init__(self, path: str, *, wait_seconds: float = WAIT_SECONDS, vfs: str | None = None) -> None:
        self.url = self.address = path if path == ":memory:" else f"sqlite:///{path}"
        self.path = path
        self._wait = wait_seconds
        self._turn = threading.RLock()
        self._vfs = vfs
        # A view may last as long as an embedder takes to answer. Readers have connections of their own, so that none of them
        # keeps a writer of this process waiting; in memory, or where nothing can be written, there is only one.
        self._idle_readers: list[apsw.Connection] = []
        self._pool, self._closed = threading.Lock(), False
        self._is_copied = False  # whether a copy was made beside the file since it was opened
        self._is_read = False  # whether the one connection has a read open; changed only by who has the turn
        with self._translated():
            self._connection = self._open()
            try:
                if self.schema() < LATEST and not self.read_only and self._has_latest_schema():
                    # Rows of the record of migrations are gone, while the tables are there.
                    self.restore_migration_records()
                found = self.schema()
                if found > LATEST:
                    raise NewerSchema(url=self.url, found=found, known=LATEST)
                if found < LATEST and not self.read_only:
                    self.migrate()
                elif found < LATEST:
                    raise OlderSchema(url=self.url, found=found, known=LATEST)
            except BaseException:
                # A file that cannot be used is closed at once, not when Python collects the object.
                self._connection.close()
                raise

    def _open(self) -> apsw.Connection:
        if self.path != ":memory:":
            folder = Path(self.path).parent
            try:
                make_private_folder(folder)
            except OSError as error:
                raise NoStore(url=self.url, problem=f"the folder {folder} cannot be made ({error.strerror})") from None
            # SQLite gives the files beside the database the mode of the database.
            make_private_file(Path(self.path))
        connection = apsw.Connection(self.path, vfs=self._vfs)
        connection.set_busy_handler(_Patience(self._wait))
        self.read_only = connection.readonly("main")
        folder = Path(self.path).parent
        if self.read_only and not os.access(folder, os.W_OK) and not Path(f"{self.path}-wal").exists():
            # WAL needs files beside the database that cannot be created here: open it as immutable.
            connection.close()
            flags = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI
            connection = apsw.Connection(f"file:{quote(self.path)}?immutable=1", flags=flags, vfs=self._vfs)
        if not self.read_only:
            self._write_ahead(connection)
        connection.execute("PRAGMA synchronous=FULL; PRAGMA temp_store=MEMORY; PRAGMA cache_size=-32000")
        connection.execute("PRAGMA secure_delete=ON")
        # apsw's SQLite has STAT4: without this guarantee it plans a query again whenever its parameters change.
        connection.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)
        return connection

    def _write_ahead(self, connection: apsw.Connection) -> None:
        """Put a file into WAL mode. SQLite does not wait for the lock that this takes, so this retries until the deadline."""
        deadline = time.monotonic() + self._wait
        while True:
            try:
                if connection.pragma("journal_mode", "wal") not in ("wal", "memory"):
                    raise StoreFailure(url=self.url, problem="it cannot be put into WAL mode")
                return
            except apsw.BusyError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.02)

    @contextmanager
    def writing(self, owner: OwnerId) -> Iterator[SqliteSession]:
        """A transaction that holds the write lock: BEGIN IMMEDIATE to COMMIT, or ROLLBACK."""
        with self._turn, self._translated():
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield SqliteSession(self._connection)
                self._connection.execute("COMMIT")
            finally:
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")

    def scrub(self, *, whole: bool) -> None:
        """Remove copies of destroyed payloads from the files.

        Does nothing if another process reads or writes for too long, or if the disk has no room for a copy. The payloads
        themselves are overwritten in any case.
        """
        with self._turn, self._translated():
            try:
                if whole:
                    self._connection.execute("PRAGMA temp_store=FILE; VACUUM")  # the copy goes to a file, not to memory
                self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
            except (apsw.BusyError, apsw.FullError):
                return
            finally:
                self._connection.execute("PRAGMA temp_store=MEMORY")

    @contextmanager
    def reading(self, owner: OwnerId) -> Iterator[SqliteSession]:
        """Open a transaction that sees one unchanging state."""
        with self._reader() as connection, self._translated():
            if connection is self._connection and self._is_read:
                # The only connection is reading already, in this thread: a read inside a read sees the same state.
                yield SqliteSession(connection)
                return
            connection.execute("BEGIN")
            self._is_read = connection is self._connection or self._is_read
            try:
                yield SqliteSession(connection)
            finally:
                self._is_read = connection is not self._connection and self._is_read
                if connection.in_transaction:
                    connection.execute("ROLLBACK")

    @contextmanager
    def _reader(self) -> Iterator[apsw.Connection]:
        """A connection that nobody else uses meanwhile: an idle one, or a new one; a nested view never waits for itself."""
        if self.path == ":memory:" or self.read_only:
            with self._turn:
                yield self._connection
            return
        with self._pool:
            connection = self._idle_readers.pop() if self._idle_readers else None
        if connection is None:
            with self._translated():
                connection = self._open()
        try:
            yield connection
        finally:
            with self._pool:
                keep = len(self._idle_readers) < MAX_IDLE_READERS and not self._closed
                if keep:
                    self._idle_readers.append(connection)
            if not keep:
                connection.close()

    def schema(self) -> int:
        """The number of the last migration that was applied."""
        with self._turn, self._translated():
            known = list(self._connection.execute("SELECT 1 FROM sqlite_schema WHERE name = 'migrations'"))
            if not known:
                return 0
            found: Any = self._connection.execute("SELECT coalesce(max(number), 0) FROM migrations").fetchall()
            return int(found[0][0])

    def migrations(self) -> dict[int, str]:
        """The record of applied migrations: number and name."""
        with self._turn, self._translated():
            found: list[Any] = self._connection.execute("SELECT number, name FROM migrations").fetchall()
            return {int(number): str(name) for number, name in found}

    def _has_latest_schema(self) -> bool:
        """Returns True if the tables and indexes are exactly those that all migrations make."""
        fresh = apsw.Connection(":memory:")
        try:
            for step in MIGRATIONS:
                for statement in step.statements:
                    fresh.execute(statement.format(**_TYPES))
            return _schema_objects(fresh) == _schema_objects(self._connection)
        finally:
            fresh.close()

    def restore_migration_records(self) -> None:
        """Restore the record of migrations where it was altered, if the schema is that of this version."""
        if self.read_only or not self._has_latest_schema():
            return
        true = {step.number: step.name for step in MIGRATIONS}
        with self.writing(OwnerId("")) as session:
            session.run("CREATE TABLE IF NOT EXISTS migrations (number INTEGER PRIMARY KEY, name TEXT NOT NULL)", {})
            found = {int(number): str(name) for number, name in session.all("SELECT number, name FROM migrations", {})}
            if found != true:
                session.run("DELETE FROM migrations", {})
                session.insert("migrations", ("number", "name"), list(true.items()))

    def migrate(self, *, upto: int | None = None) -> list[str]:
        """Apply each step with its record in one transaction. A file that is not empty is copied beside itself first."""
        done = []
        start = self.schema()
        if 0 < start < (upto or LATEST):
            self._copy_aside(f"{self.path}.before-{start + 1}")
        if start == LATEST and self.migrations() != {step.number: step.name for step in MIGRATIONS}:
            # Its tables are those of this version: nothing can be applied again, and only the record is to be restored.
            self.restore_migration_records()
        for step in MIGRATIONS:
            if step.number > (upto or LATEST):
                break
            with self.writing(OwnerId("")) as session:
                session.run("CREATE TABLE IF NOT EXISTS migrations (number INTEGER PRIMARY KEY, name TEXT NOT NULL)", {})
                if session.all("SELECT 1 FROM migrations WHERE number = :number", {"number": step.number}):
                    continue  # another process has applied it
                for statement in step.statements:
                    session.run(statement.format(**_TYPES), {})
                session.run("INSERT INTO migrations VALUES (:number, :name)", {"number": step.number, "name": step.name})
            done.append(f"{step.number}: {step.name}")
        return done

    def owners_with_rules_before(self, version: int) -> list[OwnerId]:
        """The owners with projections that were made by older rules; of a file that cannot be written, none."""
        if self.read_only:
            return []
        with self.reading(OwnerId("")) as session:
            return outdated_owners(session, version)

    def copy_before(self, what: str) -> None:
        """Copy the file beside itself, unless its migration made a copy already."""
        if self.path != ":memory:" and not self._is_copied:
            self._copy_aside(f"{self.path}.before-{what}")

    def _copy_aside(self, path: str) -> None:
        """Copy the file under this name, or under a numbered one if an earlier attempt or another process left a copy."""
        mine = f"{path}.{os.getpid()}"
        self.backup(mine)
        self._is_copied = True
        for n in itertools.count():
            try:
                os.link(mine, f"{path}.{n}" if n else path)
                break
            except FileExistsError:
                continue
        Path(mine).unlink()

    def facts(self) -> dict[str, object]:
        """What `memtape doctor` reports about it."""
        return {"engine": f"SQLite {apsw.sqlite_lib_version()} (apsw {apsw.apsw_version()})", "path": self.path,
                "read_only": self.read_only}  # fmt: skip

    def backup(self, path: str) -> None:
        """A consistent copy of everything in a new file."""
        if Path(path).exists():
            raise Conflict("path", f"{path} is already there", "Name a new file")
        with self._turn, self._translated():
            make_private_file(Path(path))
            self._connection.execute("VACUUM INTO :path", {"path": path})

    def close(self) -> None:
        """Close the file."""
        with self._turn:
            self._connection.close()
        with self._pool:
            self._closed, idle = True, self._idle_readers
            self._idle_readers = []
        for connection in idle:
            connection.close()

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except MemtapeError:
            raise
        except apsw.Error as error:
            raise memtape_error(error, self.url, self._wait) from error
