"""The SQLite file that holds documents ready for search. It is a cache: everything in it can be rebuilt from the files.

Each agent of each owner has its own scope, and so do the documents that an owner shares with all agents (agent `''`). Each scope
has its own full-text tables, so how common a word is never depends on what another agent wrote. Chunks are indexed one by one,
and documents of several chunks as a whole beside them: a passage counts for more when the document around it is about the same
thing. Vectors are stored by (model, hash of the text): the same words are embedded once, wherever they are or move.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import apsw

from memtape.documents.bm25 import passage_score
from memtape.errors import Damaged, NoStore
from memtape.store.private_files import make_private_file, make_private_folder
from memtape.store.sqlite_errors import memtape_error

CACHE_VERSION = 8
BUSY_TIMEOUT_SECONDS = 30  # long, because a whole index may be written in one transaction
TOKENIZER = "porter unicode61"
SHARED_SCOPE = ""  # in place of an agent: the documents that all agents of an owner share
_TABLES = """
CREATE TABLE scopes (id INTEGER PRIMARY KEY AUTOINCREMENT, owner TEXT NOT NULL, agent TEXT NOT NULL, revision INTEGER NOT NULL,
  synced_at INTEGER, UNIQUE (owner, agent)) STRICT;
CREATE TABLE sources (scope INTEGER NOT NULL, root TEXT NOT NULL, prefix TEXT NOT NULL, type TEXT NOT NULL, tier INTEGER,
  PRIMARY KEY (scope, prefix)) STRICT, WITHOUT ROWID;
CREATE TABLE documents (id INTEGER PRIMARY KEY, scope INTEGER NOT NULL, path TEXT NOT NULL, file TEXT NOT NULL,
  type TEXT NOT NULL, tier INTEGER NOT NULL,
  size INTEGER NOT NULL, mtime_ns INTEGER NOT NULL, ctime_ns INTEGER NOT NULL, inode INTEGER NOT NULL,
  given TEXT NOT NULL, hash TEXT NOT NULL, dated INTEGER NOT NULL,
  figures TEXT, chunks INTEGER NOT NULL DEFAULT 1, UNIQUE (scope, path)) STRICT;
CREATE TABLE parts (scope INTEGER NOT NULL, document INTEGER NOT NULL, part INTEGER NOT NULL, hash TEXT NOT NULL,
  PRIMARY KEY (document, part)) STRICT, WITHOUT ROWID;  -- of large files: what is unchanged is not cut and indexed again
CREATE TABLE chunks (id INTEGER PRIMARY KEY, scope INTEGER NOT NULL, document INTEGER NOT NULL, start_line INTEGER NOT NULL,
  end_line INTEGER NOT NULL, start INTEGER NOT NULL, end INTEGER NOT NULL, headings TEXT NOT NULL, hash TEXT NOT NULL,
  content_hash TEXT NOT NULL, text TEXT NOT NULL) STRICT;
CREATE INDEX chunks_in_short ON chunks (id, document, scope, start);  -- what ranking asks of 200 at a time, side by side
CREATE INDEX documents_of_a_type ON documents (scope, type);
CREATE INDEX documents_in_short ON documents (id, path, type, tier, dated);
CREATE INDEX chunks_of_a_document ON chunks (document);
CREATE INDEX chunks_by_hash ON chunks (hash, scope, document);
CREATE TABLE vectors (id INTEGER PRIMARY KEY, model TEXT NOT NULL, hash TEXT NOT NULL, vector BLOB NOT NULL,
  UNIQUE (model, hash)) STRICT;  -- with rows by number: three vectors to a page, where a table without would need a page for each
CREATE TABLE models (scope INTEGER NOT NULL, model TEXT NOT NULL, dim INTEGER NOT NULL,
  revision INTEGER NOT NULL, PRIMARY KEY (scope, model)) STRICT, WITHOUT ROWID;
CREATE TABLE problems (scope INTEGER NOT NULL, path TEXT NOT NULL, problem TEXT NOT NULL,
  PRIMARY KEY (scope, path)) STRICT, WITHOUT ROWID;
CREATE TABLE unread (scope INTEGER NOT NULL, path TEXT NOT NULL, look TEXT NOT NULL, problem TEXT NOT NULL,
  PRIMARY KEY (scope, path)) STRICT, WITHOUT ROWID;
CREATE TABLE left_out (scope INTEGER NOT NULL, reason TEXT NOT NULL, files INTEGER NOT NULL,
  PRIMARY KEY (scope, reason)) STRICT, WITHOUT ROWID;
"""
_SCOPE_TABLES = """
CREATE VIRTUAL TABLE words_{0} USING fts5(head, body, pairs, tokenize='{1}', content='', contentless_delete=1);
CREATE VIRTUAL TABLE whole_{0} USING fts5(head, body, pairs, tokenize='{1}', content='', contentless_delete=1);
CREATE VIRTUAL TABLE vocabulary_{0} USING fts5vocab(words_{0}, row);
"""


class DocumentCache:
    """The open cache file. Threads take turns on its one connection."""

    def __init__(self, path: str | Path) -> None:
        self.path = str(path)
        self._lock = threading.RLock()
        with self._translate_errors():
            self.connection = self._open()
        self._tokenize = self.connection.fts5_tokenizer("porter", ["unicode61"])

    def _open(self) -> apsw.Connection:
        if self.path != ":memory:":
            try:
                make_private_folder(Path(self.path).parent)
            except OSError as error:
                raise NoStore(url=self.path, problem=f"its folder cannot be created ({error.strerror})") from None
            make_private_file(Path(self.path))
        connection = apsw.Connection(self.path)
        try:
            connection.set_busy_timeout(BUSY_TIMEOUT_SECONDS * 1000)
            connection.execute("PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL; PRAGMA cache_size=-64000")
            connection.execute("PRAGMA secure_delete=ON")
            connection.register_fts5_function("weighed", passage_score)
            self._create_tables(connection)
        except BaseException:
            connection.close()
            raise
        return connection

    def _create_tables(self, connection: apsw.Connection) -> None:
        """Creates the tables. Drops those of another version first, because a cache is not worth a migration."""
        if connection.pragma("user_version") == CACHE_VERSION:
            return
        connection.execute("BEGIN IMMEDIATE")
        try:
            # Another process may have created them while this one waited for the lock.
            if connection.pragma("user_version") != CACHE_VERSION:
                # Virtual tables go first: dropping a full-text table also drops its own internal tables.
                for kind in ("fts5vocab", "fts5", ""):
                    tables = "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite%' AND sql LIKE ?"
                    for (name,) in connection.execute(tables, (f"%{kind}%",)).fetchall():
                        connection.execute(f'DROP TABLE IF EXISTS "{name}"')
                connection.execute(_TABLES)
                connection.pragma("user_version", CACHE_VERSION)
            connection.execute("COMMIT")
        finally:
            if connection.in_transaction:
                connection.execute("ROLLBACK")

    @contextmanager
    def writing(self) -> Iterator[apsw.Connection]:
        """Opens a write transaction: all of it is committed or nothing. Readers see the earlier state until then."""
        yield from self._transaction("BEGIN IMMEDIATE", "COMMIT")

    @contextmanager
    def reading(self) -> Iterator[apsw.Connection]:
        """Opens a read transaction: everything inside sees one unchanging state."""
        yield from self._transaction("BEGIN", "ROLLBACK")

    def _transaction(self, begin: str, end: str) -> Iterator[apsw.Connection]:
        with self._lock, self._translate_errors():
            self.connection.execute(begin)
            try:
                yield self.connection
                self.connection.execute(end)
            finally:
                if self.connection.in_transaction:
                    self.connection.execute("ROLLBACK")

    def scope(self, owner: str, agent: str, *, make: bool = False) -> int | None:
        """Returns the number of a scope, or None if there is none; `make` creates it. Call it inside a transaction."""
        rows = self.connection.execute("SELECT id FROM scopes WHERE owner = ? AND agent = ?", (owner, agent)).fetchall()
        if rows or not make:
            return int(rows[0][0]) if rows else None  # type: ignore[arg-type]
        sql = "INSERT INTO scopes (owner, agent, revision) VALUES (?, ?, 0) RETURNING id"
        scope = int(self.connection.execute(sql, (owner, agent)).fetchall()[0][0])  # type: ignore[arg-type]
        self.connection.execute(_SCOPE_TABLES.format(scope, TOKENIZER))
        return scope

    def searched_scopes(self, owner: str, agent: str) -> dict[int, str]:
        """Returns the scopes that are searched together, the agent's own and the shared one: number and agent of each."""
        return {scope: whose for whose in dict.fromkeys((agent, SHARED_SCOPE)) if (scope := self.scope(owner, whose)) is not None}

    def stem(self, word: str) -> str:
        """Returns a word in the form in which the full-text tables store it."""
        with self._lock:
            tokens: Any = self._tokenize(word.encode(), apsw.FTS5_TOKENIZE_QUERY, None)
        return " ".join(token[2] for token in tokens)

    def scrub(self) -> None:
        """Removes the last traces of deleted text from the file.

        `secure_delete` overwrites deleted rows, but a page that SQLite split may keep a copy that no deletion reaches; VACUUM
        rewrites those. If another process is writing for long, VACUUM is skipped and such copies stay.
        """
        with self._lock, self._translate_errors():
            try:
                self.connection.execute("VACUUM; PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
            except apsw.BusyError:
                return

    def check(self) -> None:
        """Checks every page of the file. Raises `Damaged` if one is damaged."""
        with self.reading() as connection:
            ((result,),) = connection.execute("PRAGMA quick_check(1)").fetchall()
            if result != "ok":
                raise Damaged(url=self.path, problem=str(result).splitlines()[-1])

    def close(self) -> None:
        """Closes the file."""
        with self._lock:
            self.connection.close()

    @contextmanager
    def _translate_errors(self) -> Iterator[None]:
        try:
            yield
        except (apsw.NotADBError, apsw.CorruptError) as error:
            raise Damaged(url=self.path, problem=str(error) or type(error).__name__) from error
        except apsw.Error as error:
            raise memtape_error(error, self.path, BUSY_TIMEOUT_SECONDS) from error


def move_damaged_cache(path: str | Path) -> None:
    """Renames a damaged cache file to `<path>.damaged` and deletes its journal, so that a new one can be created."""
    for ending in ("-wal", "-shm"):
        Path(f"{path}{ending}").unlink(missing_ok=True)
    # Another process may have renamed it already.
    with suppress(FileNotFoundError):
        Path(path).replace(f"{path}.damaged")
