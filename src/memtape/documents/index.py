"""The index of documents, kept in step with their files: changed files are read, deleted ones dropped, the rest left alone.

A sync looks at every file (size, times, inode) and reads only those that look different. Of these only the ones whose hash
differs are cut and indexed again, and of these only texts that have no vector yet are embedded. The texts are staged first; then
one transaction writes them. A process that dies before that leaves the index as it was, and readers never see half a sync. If
another sync wrote between the look at the files and the transaction, the files are looked at again: an older look never undoes a
newer one.

Vectors follow in transactions of their own, so that the work of a slow model is not lost. Those of a new model are built beside
the old ones: the old model answers until the new one has them all, then its vectors are dropped.

>>> from datetime import UTC, datetime
>>> index = DocumentIndex(":memory:")
>>> note = Document("journal/1.md", "journal", 3, "# Gold\\nStopped out by noise.", name="journal 1")
>>> index.put("ann", "gold", [note], now=datetime(2026, 5, 12, tzinfo=UTC)).chunks
1
>>> index.health("ann", "gold", now=datetime(2026, 5, 12, 0, 1, tzinfo=UTC)).stale_seconds
60.0
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import field, replace
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

from memtape.core.codec import moment
from memtape.core.value_class import dataclass
from memtape.documents.cache import SHARED_SCOPE, DocumentCache
from memtape.documents.file_changes import (
    IndexedFile,
    StagedFiles,
    UnreadableFile,
    certainly_gone,
    changed_entries,
    walk_all,
)
from memtape.documents.filters import EVERYTHING, DocumentFilter
from memtape.documents.index_writer import Document, IndexWriter, StagedDocument, WriteCounts, look_text
from memtape.documents.sources import DocumentFolder, SkippedFile
from memtape.documents.text_files import LASTING_PROBLEMS
from memtape.documents.vector_matrix import MatrixCache
from memtape.documents.vectors import FillResult, count_missing, drop_other_models, fill_vectors, is_ready, stored_models
from memtape.errors import Conflict, Invalid
from memtape.plugs.embedder import Embedder

MAX_SYNC_ATTEMPTS = 8  # looks at the files while others keep writing to the same index


@dataclass(frozen=True, slots=True)
class SyncResult:
    """What a sync found and did."""

    documents: int = 0
    chunks: int = 0
    read: int = 0  # files whose text was read
    added: int = 0
    changed: int = 0
    removed: int = 0
    vectors: FillResult = field(default_factory=FillResult)
    problems: tuple[SkippedFile, ...] = ()
    left_out: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True, slots=True)
class PendingFiles:
    """Files that look different from what is indexed: what a sync would read or drop."""

    added: int = 0
    changed: int = 0
    removed: int = 0

    @property
    def total(self) -> int:
        return self.added + self.changed + self.removed


@dataclass(frozen=True, slots=True)
class ModelCoverage:
    """How many passages have a vector of a model, and whether it may answer yet."""

    model: str
    have: int
    of: int
    answers: bool


@dataclass(frozen=True, slots=True)
class IndexHealth:
    """The state of an agent's index. Shared documents are not counted."""

    last_sync: datetime | None
    documents: int
    chunks: int
    problems: tuple[SkippedFile, ...]
    stale_seconds: float | None
    models: tuple[str, ...]  # that may answer: whose vectors were complete once
    roots: tuple[str, ...]
    coverage: tuple[ModelCoverage, ...] = ()
    left_out: tuple[tuple[str, int], ...] = ()  # why files are not indexed, and how many for each reason


class ScopeRevision(NamedTuple):
    """A state of a scope. Every sync that changes anything gives it another revision."""

    scope: int
    revision: int


class _IndexState(NamedTuple):
    """What is indexed for an agent."""

    revision: ScopeRevision | None  # None if nothing was ever indexed
    files: dict[str, IndexedFile]
    unreadable: dict[str, UnreadableFile]


class DocumentIndex:
    """The index of all owners and agents, in one file."""

    def __init__(self, path: str | Path, on_progress: Callable[[int, int], object] = lambda done, total: None) -> None:
        self.cache = DocumentCache(path)
        # Called while a sync reads and writes files: with how much is done, and of how much.
        self._on_progress = on_progress
        self._matrices = MatrixCache(self.cache)

    @property
    def path(self) -> str:
        """The path of the file."""
        return self.cache.path

    def close(self) -> None:
        """Closes the file."""
        self.cache.close()

    def check(self) -> None:
        """Checks every page of the file. Raises `Damaged` if one is damaged."""
        self.cache.check()

    def stem(self, word: str) -> str:
        """Returns a word in the form in which it is searched for."""
        return self.cache.stem(word)

    # --- following files ----------------------------------------------------------------------------------------------------

    def sync(
        self, owner: str, agent: str, folders: Sequence[DocumentFolder], *, now: datetime, embedder: Embedder | None = None,
        rebuild: bool = False,
    ) -> SyncResult:  # fmt: skip
        """Brings the index of an agent (of the shared documents: `SHARED_SCOPE`) in step with its folders.

        `rebuild` reads every file again, changed or not.
        """
        if len({folder.prefix for folder in folders}) < len(folders):
            raise Invalid("sources", "two of them have the same prefix", "Give each a prefix of its own")
        with closing(StagedFiles()) as staged:
            counts = self._sync_files(owner, agent, folders, staged, now=now, rebuild=rebuild)
        return replace(self._result(owner, agent, counts, embedder), read=staged.read)

    def refresh(self, owner: str, agent: str, folder: DocumentFolder) -> None:
        """Brings the documents of one source in step; leaves all others and the time of the last sync as they are.

        Does nothing if the agent has no index.
        """
        if self.has_scope(owner, agent):
            with closing(StagedFiles()) as staged:
                self._sync_files(owner, agent, [folder], staged, only_prefix=folder.prefix)

    def has_scope(self, owner: str, agent: str) -> bool:
        """Returns True if anything was ever indexed for an agent."""
        with self.cache.reading():
            return self.cache.scope(owner, agent) is not None

    def _sync_files(
        self,
        owner: str,
        agent: str,
        folders: Sequence[DocumentFolder],
        staged: StagedFiles,
        *,
        now: datetime | None = None,
        rebuild: bool = False,
        only_prefix: str = "",
    ) -> WriteCounts:
        """Syncs, and starts over while other processes write in between. What was read is not read twice."""
        for _ in range(MAX_SYNC_ATTEMPTS):
            counts = self._try_sync(owner, agent, folders, staged, now, rebuild, only_prefix)
            if counts is not None:
                return counts
        raise Conflict("documents", "others keep writing to this index", "Try again when they have finished")

    def _try_sync(
        self, owner: str, agent: str, folders: Sequence[DocumentFolder], staged: StagedFiles, now: datetime | None, rebuild: bool,
        only_prefix: str,
    ) -> WriteCounts | None:  # fmt: skip
        """Looks at the files, reads and writes. Returns None if another process wrote meanwhile."""
        # 1. Remember which state of the index this attempt starts from.
        state = self._state(owner, agent, only_prefix)
        indexed, unreadable = ({}, {}) if rebuild else (state.files, state.unreadable)
        # 2. Look at the files and read those that changed. This may take minutes; no lock is held.
        entries, problems = walk_all(folders)
        changed = changed_entries(entries, indexed)
        # What was no text or no transcript is not read again until it looks different. Other problems may end by themselves.
        not_text = {
            each.path: known.problem
            for each in changed
            if (known := unreadable.get(each.path)) and known.look == look_text(each) and known.problem in LASTING_PROBLEMS
        }
        changed = [each for each in changed if each.path not in not_text]
        problems += [SkippedFile(path, problem) for path, problem in not_text.items()] + staged.read_files(
            changed, lambda done: self._on_progress(done, 2 * len(changed))
        )
        # 3. Write, unless the index is no longer in that state: the process that wrote may have looked at the files later than
        #    this one, and its newer documents must not be replaced by older ones.
        with self.cache.writing():
            if self._revision(owner, agent) != state.revision:
                return None
            writer = IndexWriter(self.cache, owner, agent, rebuild=rebuild)
            gone = self._paths(writer.scope, only_prefix) - entries.keys()
            documents = self._reporting(staged.documents(changed, indexed), len(changed))
            counts = writer.apply(documents, certainly_gone(gone, problems))
            if not only_prefix:
                writer.record_sources(folders, problems, entries)
            writer.finish(now, counts)
        return counts

    def _reporting(self, documents: Iterable[StagedDocument], total: int) -> Iterator[StagedDocument]:
        """Yields the documents, and reports how many are written: reading them was the first half of the work."""
        for number, document in enumerate(documents):
            self._on_progress(total + number, 2 * total)
            yield document

    def put(
        self, owner: str, agent: str, documents: Iterable[Document], *, now: datetime, embedder: Embedder | None = None
    ) -> SyncResult:
        """Indexes texts that are not files and keeps the other documents. A later sync of the same agent drops them again."""
        with self.cache.writing():
            writer = IndexWriter(self.cache, owner, agent)
            counts = writer.apply(map(StagedDocument, documents), set())
            writer.finish(now, counts)
        return self._result(owner, agent, counts, embedder)

    def _result(self, owner: str, agent: str, counts: WriteCounts, embedder: Embedder | None) -> SyncResult:
        """Fills the missing vectors, if there is an embedder, and returns the result of a sync."""
        filled = self.fill(owner, agent, embedder) if embedder else FillResult()
        health = self.health(owner, agent)
        return SyncResult(health.documents, health.chunks, 0, *counts, filled, health.problems, health.left_out)

    def _state(self, owner: str, agent: str, only_prefix: str = "") -> _IndexState:
        with self.cache.reading() as connection:
            revision = self._revision(owner, agent)
            scope = revision.scope if revision else None
            sql = "SELECT path, size, mtime_ns, ctime_ns, inode, given, hash FROM documents WHERE scope = ?"
            documents: list[Any] = connection.execute(sql, (scope,)).fetchall()
            unread: list[Any] = connection.execute("SELECT path, look, problem FROM unread WHERE scope = ?", (scope,)).fetchall()
        files = {path: IndexedFile(tuple(look), hash) for path, *look, hash in documents if path.startswith(only_prefix)}
        return _IndexState(revision, files, {path: UnreadableFile(look, problem) for path, look, problem in unread})

    def _revision(self, owner: str, agent: str) -> ScopeRevision | None:
        """Returns the current revision of a scope. Call it inside a transaction."""
        sql = "SELECT id, revision FROM scopes WHERE owner = ? AND agent = ?"
        rows: list[Any] = self.cache.connection.execute(sql, (owner, agent)).fetchall()
        return ScopeRevision(*rows[0]) if rows else None

    def _paths(self, scope: int, prefix: str) -> set[str]:
        rows: list[Any] = self.cache.connection.execute("SELECT path FROM documents WHERE scope = ?", (scope,)).fetchall()
        return {path for (path,) in rows if path.startswith(prefix)}

    def pending(self, owner: str, agent: str, folders: Sequence[DocumentFolder]) -> PendingFiles:
        """Returns how many files differ from the index now, by the same look at the files as a sync; reads none of them."""
        state = self._state(owner, agent)
        entries, problems = walk_all(folders)
        changed = [
            each
            for each in changed_entries(entries, state.files)
            if each.path not in state.unreadable or state.unreadable[each.path].look != look_text(each)
        ]
        added = sum(each.path not in state.files for each in changed)
        gone = certainly_gone(state.files.keys() - entries.keys(), problems)
        return PendingFiles(added, len(changed) - added, len(gone))

    # --- vectors ------------------------------------------------------------------------------------------------------------

    def fill(self, owner: str, agent: str, embedder: Embedder) -> FillResult:
        """Embeds passages that have no vector of this model yet. Once all have one, drops other models that nothing needs."""
        result = fill_vectors(self.cache, owner, agent, embedder)
        if result.complete:
            drop_other_models(self.cache, owner, embedder.id)
        return result

    def nearest(
        self,
        scopes: Sequence[int],
        embedder: Embedder,
        vector: Any,
        pool: int,
        also: Collection[int],
        only: DocumentFilter = EVERYTHING,
    ) -> tuple[dict[int, float], int]:
        """Returns the similarity of the passages nearest to a vector and of the chunks `also`, and how many have no vector.

        Call it inside a transaction.
        """
        return self._matrices.nearest(scopes, embedder, vector, pool, also, only)

    @property
    def vector_bytes(self) -> int:
        """How much memory the vectors take."""
        return self._matrices.nbytes()

    # --- the state of an index ----------------------------------------------------------------------------------------------

    def health(self, owner: str, agent: str, *, now: datetime | None = None) -> IndexHealth:
        """Returns the state of an agent's index; with `now`, also how old it is."""
        with self.cache.reading() as connection:
            scope = self.cache.scope(owner, agent)
            if scope is None:
                return IndexHealth(None, 0, 0, (), None, (), ())

            def rows(sql: str) -> list[Any]:
                return connection.execute(sql, (scope,)).fetchall()

            synced_at = rows("SELECT synced_at FROM scopes WHERE id = ?")[0][0]
            last_sync = None if synced_at is None else moment(synced_at)
            documents, chunks = rows("SELECT count(*), coalesce(sum(chunks), 0) FROM documents WHERE scope = ?")[0]
            problems = rows("SELECT path, problem FROM problems WHERE scope = ? ORDER BY path")
            return IndexHealth(
                last_sync=last_sync,
                documents=documents,
                chunks=chunks,
                problems=tuple(SkippedFile(path, problem) for path, problem in problems),
                stale_seconds=None if now is None or last_sync is None else max((now - last_sync).total_seconds(), 0.0),
                models=tuple(model for (model,) in rows("SELECT model FROM models WHERE scope = ? ORDER BY model")),
                roots=tuple(root for (root,) in rows("SELECT root FROM sources WHERE scope = ? ORDER BY prefix")),
                coverage=self._coverage(scope, chunks),
                left_out=tuple(rows("SELECT reason, files FROM left_out WHERE scope = ? ORDER BY files DESC, reason")),
            )

    def _coverage(self, scope: int, chunks: int) -> tuple[ModelCoverage, ...]:
        """Returns how many passages of a scope each model covers; models without any vector there are left out."""
        coverage = []
        for model in stored_models(self.cache):
            have = chunks - count_missing(self.cache, [scope], model)
            if have:
                coverage.append(ModelCoverage(model, have, chunks, is_ready(self.cache, scope, model)))
        return tuple(coverage)

    def file_path(self, owner: str, agent: str, path: str) -> Path | None:
        """Returns the file of a document, the agent's own or a shared one; None if there is no such document."""
        with self.cache.reading() as connection:
            for whose in dict.fromkeys((agent, SHARED_SCOPE)):
                scope = self.cache.scope(owner, whose)
                rows = connection.execute("SELECT file FROM documents WHERE scope = ? AND path = ?", (scope, path)).fetchall()
                if rows:
                    return Path(str(rows[0][0]))
        return None

    def forget(self, owner: str, agent: str) -> None:
        """Drops the index of an agent and leaves none of its words in the cache file. The documents themselves stay."""
        with self.cache.writing() as connection:
            scope = self.cache.scope(owner, agent)
            if scope is None:
                return
            for table in ("vocabulary", "words", "whole"):
                connection.execute(f"DROP TABLE {table}_{scope}")
            for table in ("documents", "parts", "chunks", "problems", "unread", "left_out", "models", "sources"):
                connection.execute(f"DELETE FROM {table} WHERE scope = ?", (scope,))
            connection.execute("DELETE FROM scopes WHERE id = ?", (scope,))
            connection.execute("DELETE FROM vectors WHERE hash NOT IN (SELECT hash FROM chunks)")
        self.cache.scrub()
