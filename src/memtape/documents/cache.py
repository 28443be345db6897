"""The SQLite file in which documents are kept ready to be searched. A cache: whatever is in it can be made anew.

One scope for each agent of each owner, and one for what an owner shares with all agents (agent `''`). Each scope has its own
full-text tables, so that how common a word is depends on nothing that another agent wrote. Chunks are indexed as they are, and
documents whole beside them: a passage counts for more when the document around it is about the same thing. Vectors are kept by
(model, hash of the text): the same words are embedded once, wherever they stand and wherever they move.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import apsw

from memtape.documents.bm25 import bm25_score
from memtape.errors import Damaged, NoStore
from memtape.store.sqlite_errors import memtape_error

VERSION = 2
WAIT_SECONDS = 30  # a whole index may be written in one transaction
TOKENIZER = "porter unicode61"
GLOBAL = ""
_TABLES = """
CREATE TABLE scopes (id INTEGER PRIMARY KEY AUTOINCREMENT, owner TEXT NOT NULL, agent TEXT NOT NULL, revision INTEGER NOT NULL,
  synced_at INTEGER, UNIQUE (owner, agent)) STRICT;
CREATE TABLE sources (scope INTEGER NOT NULL, root TEXT NOT NULL, prefix TEXT NOT NULL, type TEXT NOT NULL, tier INTEGER,
  PRIMARY KEY (scope, prefix)) STRICT, WITHOUT ROWID;
CREATE TABLE documents (id INTEGER PRIMARY KEY, scope INTEGER NOT NULL, path TEXT NOT NULL, file TEXT NOT NULL,
  type TEXT NOT NULL, tier INTEGER NOT NULL,
  size INTEGER NOT NULL, mtime_ns INTEGER NOT NULL, ctime_ns INTEGER NOT NULL, inode INTEGER NOT NULL,
  given TEXT NOT NULL, hash TEXT NOT NULL, figures TEXT, chunks INTEGER NOT NULL DEFAULT 1, UNIQUE (scope, path)) STRICT;
CREATE TABLE chunks (id INTEGER PRIMARY KEY, scope INTEGER NOT NULL, document INTEGER NOT NULL, start_line INTEGER NOT NULL,
  end_line INTEGER NOT NULL, start INTEGER NOT NULL, end INTEGER NOT NULL, headings TEXT NOT NULL, hash TEXT NOT NULL,
  content_hash TEXT NOT NULL, alone INTEGER NOT NULL, text TEXT NOT NULL) STRICT;
CREATE INDEX chunks_in_short ON chunks (id, document, alone, scope, start);  -- what ranking asks of 200 at a time, side by side
CREATE INDEX documents_of_a_type ON documents (scope, type);
CREATE INDEX documents_in_short ON documents (id, path, type, tier);
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
"""
_WORDS = """
CREATE VIRTUAL TABLE words_{0} USING fts5(head, body, pairs, tokenize='{1}', content='', contentless_delete=1);
CREATE VIRTUAL TABLE whole_{0} USING fts5(head, body, pairs, tokenize='{1}', content='', contentless_delete=1);
CREATE VIRTUAL TABLE vocabulary_{0} USING fts5vocab(words_{0}, row);
"""


class Cache:
    """The open file."""

    def __init__(self, path: str | Path) -> None:
        self.path = str(path)
        self._turn = threading.RLock()
        with self._translated():
            self.connection = self._open()
        self._tokenize = self.connection.fts5_tokenizer("porter", ["unicode61"])

    def _open(self) -> apsw.Connection:
        if self.path != ":memory:":
            try:
                Path(self.path).parent.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise NoStore(url=self.path, problem=f"its folder cannot be made ({error.strerror})") from None
        connection = apsw.Connection(self.path)
        try:
            connection.set_busy_timeout(WAIT_SECONDS * 1000)
            connection.execute("PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL; PRAGMA cache_size=-64000")
            connection.execute("PRAGMA secure_delete=ON")
            connection.register_fts5_function("weighed", bm25_score)
            self._prepare(connection)
        except BaseException:
            connection.close()
            raise
        return connection

    def _prepare(self, connection: apsw.Connection) -> None:
        """Make the tables; those of another version are made anew, for a cache is not worth migrating."""
        if connection.pragma("user_version") == VERSION:
            return
        connection.execute("BEGIN IMMEDIATE")
        try:
            if connection.pragma("user_version") != VERSION:
                for kind in ("fts5vocab", "fts5", ""):  # a full-text table takes its own tables with it
                    found = "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite%' AND sql LIKE ?"
                    for (name,) in connection.execute(found, (f"%{kind}%",)).fetchall():
                        connection.execute(f'DROP TABLE IF EXISTS "{name}"')
                connection.execute(_TABLES)
                connection.pragma("user_version", VERSION)
            connection.execute("COMMIT")
        finally:
            if connection.in_transaction:
                connection.execute("ROLLBACK")

    @contextmanager
    def writing(self) -> Iterator[apsw.Connection]:
        """All of it or nothing: readers go on seeing what was there before."""
        yield from self._transaction("BEGIN IMMEDIATE", "COMMIT")

    @contextmanager
    def reading(self) -> Iterator[apsw.Connection]:
        """One unchanging state."""
        yield from self._transaction("BEGIN", "ROLLBACK")

    def _transaction(self, begin: str, end: str) -> Iterator[apsw.Connection]:
        with self._turn, self._translated():
            self.connection.execute(begin)
            try:
                yield self.connection
                self.connection.execute(end)
            finally:
                if self.connection.in_transaction:
                    self.connection.execute("ROLLBACK")

    def scope(self, owner: str, agent: str, *, make: bool = False) -> int | None:
        """The number of a scope, inside a transaction; made if it is asked for."""
        found = self.connection.execute("SELECT id FROM scopes WHERE owner = ? AND agent = ?", (owner, agent)).fetchall()
        if found or not make:
            return int(found[0][0]) if found else None  # type: ignore[arg-type]
        sql = "INSERT INTO scopes (owner, agent, revision) VALUES (?, ?, 0) RETURNING id"
        number = int(self.connection.execute(sql, (owner, agent)).fetchall()[0][0])  # type: ignore[arg-type]
        self.connection.execute(_WORDS.format(number, TOKENIZER))
        return number

    def stem(self, word: str) -> str:
        """A word as the full-text tables know it."""
        with self._turn:
            found: Any = self._tokenize(word.encode(), apsw.FTS5_TOKENIZE_QUERY, None)
        return " ".join(token[2] for token in found)

    def scrub(self) -> None:
        """Leave nothing in the file of what was deleted: pages that were split keep copies that no deletion overwrites.

        While another process writes for long this is left undone: what was deleted is overwritten but for such copies.
        """
        with self._turn, self._translated():
            try:
                self.connection.execute("VACUUM; PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
            except apsw.BusyError:
                return

    def check(self) -> None:
        """Look at every page; refused if one is damaged."""
        with self.reading() as connection:
            ((found,),) = connection.execute("PRAGMA quick_check(1)").fetchall()
            if found != "ok":
                raise Damaged(url=self.path, problem=str(found).splitlines()[-1])

    def close(self) -> None:
        """Let go of the file."""
        with self._turn:
            self.connection.close()

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except (apsw.NotADBError, apsw.CorruptError) as error:
            raise Damaged(url=self.path, problem=str(error) or type(error).__name__) from error
        except apsw.Error as error:
            raise memtape_error(error, self.path, WAIT_SECONDS) from error


def set_aside(path: str | Path) -> None:
    """Put the file of a cache out of the way, under a name of its own; what it had in its journal goes."""
    for ending in ("-wal", "-shm"):
        Path(f"{path}{ending}").unlink(missing_ok=True)
    with suppress(FileNotFoundError):  # another process was quicker
        Path(path).replace(f"{path}.damaged")
