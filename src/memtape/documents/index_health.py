"""Problems that keep an index from being in step with its folders, stored where the health of the index is read.

A missing folder is not an empty one: a drive may not be mounted, a share may be down, or permissions may have changed. What was
indexed of it stays and is searched, the time of the last good sync stays, and the health says since when the folder is missing.
The other folders of the same agent, and its decisions, are kept in step meanwhile.

A failed sync is reported in the health until one succeeds. That the system reports no changes of files stays in the health until
the watcher clears it: a sync started by somebody else knows nothing of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

from memtape.core.codec import time_text
from memtape.documents.index import DocumentIndex, SyncResult
from memtape.documents.sources import DocumentFolder, FileEntry, SkippedFile, folder_problem
from memtape.errors import Invalid
from memtape.plugs.embedder import Embedder

_SINCE = "; since "


def sync_index(
    index: DocumentIndex,
    owner: str,
    agent: str,
    folders: Sequence[DocumentFolder],
    *,
    now: datetime,
    embedder: Embedder | None = None,
    rebuild: bool = False,
) -> SyncResult:
    """Syncs an index with those of its folders that exist. While one is missing, the time of the last good sync stays.

    Raises `Invalid` for a missing folder if every file is to be read again, or if there never was a sync: then nothing indexed
    could stand in for it.
    """
    missing = {folder: why for folder in folders if folder.list_entries is None and (why := folder_problem(folder.root))}
    if not missing:
        return index.sync(owner, agent, folders, now=now, embedder=embedder, rebuild=rebuild)
    before = index.health(owner, agent)
    if rebuild or before.last_sync is None:
        folder, why = next(iter(missing.items()))
        problem = f"{folder.root} {why if why.startswith('cannot') else 'is not a folder'}"
        raise Invalid("folder", problem, "Bring it back, or name another one")
    earlier = {each.path: each.problem for each in before.problems}
    problems = {
        folder: problem_since(f"this folder {why}{_SINCE}", earlier.get(str(folder.root), ""), now)
        for folder, why in missing.items()
    }
    present = [
        _last_known(index, owner, agent, folder, folders, problems[folder]) if folder in problems else folder
        for folder in folders
    ]
    return index.sync(owner, agent, present, now=before.last_sync, embedder=embedder)


def _last_known(
    index: DocumentIndex, owner: str, agent: str, missing: DocumentFolder, folders: Iterable[DocumentFolder], problem: str
) -> DocumentFolder:
    """Returns a source in place of a missing folder: it lists the documents that are indexed of it, and the problem.

    A sync finds all of them unchanged, so it neither reads nor drops any.
    """
    inner = [each.prefix for each in folders if each.prefix.startswith(missing.prefix) and each.prefix != missing.prefix]

    def list_entries() -> Iterator[FileEntry | SkippedFile]:
        yield SkippedFile(str(missing.root), problem)
        for entry in _indexed_entries(index, owner, agent):
            if entry.path.startswith(missing.prefix) and not entry.path.startswith(tuple(inner)):
                yield entry

    return replace(missing, list_entries=list_entries)


def _indexed_entries(index: DocumentIndex, owner: str, agent: str) -> list[FileEntry]:
    """Returns every document of an agent as its file was when it was read."""
    with index.cache.reading() as connection:
        scope = index.cache.scope(owner, agent)
        sql = "SELECT path, file, given, size, mtime_ns, ctime_ns, inode FROM documents WHERE scope = ? ORDER BY path"
        rows: list[Any] = connection.execute(sql, (scope,)).fetchall()
    entries = []
    for path, file, type_and_tier, *signature in rows:
        kind, tier = type_and_tier.rsplit(" ", 1)
        entries.append(FileEntry(path, Path(file), kind, int(tier), *signature))
    return entries


def problem_since(problem: str, before: str, now: datetime) -> str:
    """Returns a problem with the time of its first report; `before` is what is stored, if anything.

    >>> from datetime import UTC
    >>> noon = datetime(2026, 5, 12, 12, tzinfo=UTC)
    >>> first = problem_since("gone; since ", "", noon)
    >>> first, problem_since("gone; since ", first, noon.replace(hour=15)) == first
    ('gone; since 2026-05-12T12:00:00Z', True)
    """
    return before if before.startswith(problem) else f"{problem}{time_text(now.replace(microsecond=0))}"


def report_problem(
    index: DocumentIndex, owner: str, agent: str, name: str, problem: str, now: datetime, *, make: bool = False
) -> None:
    """Stores a problem of an agent's index under a name, with the time of its first report.

    Does nothing for an agent without an index, unless `make` creates one: a deleted agent must not get its index back.
    """
    with index.cache.writing() as connection:
        scope = index.cache.scope(owner, agent, make=make)
        if scope is None:
            return
        before = _stored_problem(index, scope, name)
        dated = problem_since(f"{problem}{_SINCE}", before, now)
        if before != dated:
            connection.execute("INSERT OR REPLACE INTO problems VALUES (?, ?, ?)", (scope, name, dated))


def clear_problem(index: DocumentIndex, owner: str, agent: str, name: str) -> None:
    """Removes the problem under a name. Writes nothing if there is none."""
    with index.cache.reading():
        scope = index.cache.scope(owner, agent)
        if scope is None or not _stored_problem(index, scope, name):
            return
    with index.cache.writing() as connection:
        connection.execute("DELETE FROM problems WHERE scope = ? AND path = ?", (scope, name))


def _stored_problem(index: DocumentIndex, scope: int, name: str) -> str:
    sql = "SELECT problem FROM problems WHERE scope = ? AND path = ?"
    rows: list[Any] = index.cache.connection.execute(sql, (scope, name)).fetchall()
    return str(rows[0][0]) if rows else ""
