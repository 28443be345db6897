"""What keeps an index from being in step with its folders, kept where its health is read.

A folder that is not there is not an empty one: a drive that is not mounted, a share that is down, one that is closed to us. What
was indexed of it is kept and served, the moment of the last good sync stands, and the health says since when the folder is
missing. Other folders of the same agent, and its decisions, are kept in step meanwhile.

A sync that failed is told in the health too, until one succeeds. That the system tells of no changes is told until whoever
watches takes it back: a sync that somebody else asked for knows nothing of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

from memtape.core.codec import time_text
from memtape.documents.index import TOLD, DocumentIndex, Synced
from memtape.documents.sources import DocumentFolder, FileEntry, SkippedFile, hindrance
from memtape.errors import Invalid
from memtape.plugs.embedder import Embedder

SYNC, WATCH = "@sync", TOLD  # under these names the health tells of them
_SINCE = "; since "


def sync_index(
    index: DocumentIndex,
    owner: str,
    agent: str,
    places: Sequence[DocumentFolder],
    *,
    now: datetime,
    embedder: Embedder | None = None,
    anew: bool = False,
) -> Synced:
    """Sync an index with those of its folders that are there. The time of the last good sync stands while one is missing.

    Where all is to be made anew, or there never was a sync, there is nothing to keep: a missing folder is then an error.
    """
    missing = {place: why for place in places if place.listed is None and (why := hindrance(place.root))}
    if not missing:
        return index.sync(owner, agent, places, now=now, embedder=embedder, anew=anew)
    before = index.health(owner, agent)
    if anew or before.last_sync is None:
        place, why = next(iter(missing.items()))
        problem = f"{place.root} {why if why.startswith('cannot') else 'is not a folder'}"
        raise Invalid("folder", problem, "Bring it back, or name another one")
    said = {each.path: each.problem for each in before.problems}
    told = {
        place: problem_since(f"this folder {why}{_SINCE}", said.get(str(place.root), ""), now) for place, why in missing.items()
    }
    kept = [_kept(index, owner, agent, place, places, told[place]) if place in told else place for place in places]
    return index.sync(owner, agent, kept, now=before.last_sync, embedder=embedder)


def _kept(
    index: DocumentIndex, owner: str, agent: str, place: DocumentFolder, places: Iterable[DocumentFolder], problem: str
) -> DocumentFolder:
    """A folder that is not there, as it was last seen."""
    others = [other.prefix for other in places if other.prefix.startswith(place.prefix) and other.prefix != place.prefix]

    def listed() -> Iterator[FileEntry | SkippedFile]:
        yield SkippedFile(str(place.root), problem)
        for seen in _indexed(index, owner, agent):
            if seen.path.startswith(place.prefix) and not seen.path.startswith(tuple(others)):
                yield seen

    return replace(place, listed=listed)


def _indexed(index: DocumentIndex, owner: str, agent: str) -> list[FileEntry]:
    """Every document of an agent as it was when it was read."""
    with index.cache.reading() as connection:
        scope = index.cache.scope(owner, agent)
        sql = "SELECT path, file, given, size, mtime_ns, ctime_ns, inode FROM documents WHERE scope = ? ORDER BY path"
        rows: list[Any] = connection.execute(sql, (scope,)).fetchall()
    parted = ((path, Path(file), *given.rsplit(" ", 1), looks) for path, file, given, *looks in rows)
    return [FileEntry(path, file, kind, int(tier), *looks) for path, file, kind, tier, looks in parted]


def problem_since(problem: str, before: str, now: datetime) -> str:
    """A problem with the moment at which it was first told.

    >>> from datetime import UTC
    >>> noon = datetime(2026, 5, 12, 12, tzinfo=UTC)
    >>> told = problem_since("gone; since ", "", noon)
    >>> told, problem_since("gone; since ", told, noon.replace(hour=15)) == told
    ('gone; since 2026-05-12T12:00:00Z', True)
    """
    return before if before.startswith(problem) else f"{problem}{time_text(now)}"


def report_problem(
    index: DocumentIndex, owner: str, agent: str, name: str, problem: str, now: datetime, *, make: bool = False
) -> None:
    """Let the health of an agent tell of something that is wrong with its index, and since when.

    Of one that has no index nothing is told, unless it is to be made for that: an agent that was deleted gets none back.
    """
    with index.cache.writing() as connection:
        scope = index.cache.scope(owner, agent, make=make)
        if scope is None:
            return
        before = _said(index, scope, name)
        told = problem_since(f"{problem}{_SINCE}", before, now)
        if before != told:
            connection.execute("INSERT OR REPLACE INTO problems VALUES (?, ?, ?)", (scope, name, told))


def clear_problem(index: DocumentIndex, owner: str, agent: str, name: str) -> None:
    """End what was told under a name; where nothing was, nothing is written."""
    with index.cache.reading():
        scope = index.cache.scope(owner, agent)
        if scope is None or not _said(index, scope, name):
            return
    with index.cache.writing() as connection:
        connection.execute("DELETE FROM problems WHERE scope = ? AND path = ?", (scope, name))


def _said(index: DocumentIndex, scope: int, name: str) -> str:
    sql = "SELECT problem FROM problems WHERE scope = ? AND path = ?"
    rows: list[Any] = index.cache.connection.execute(sql, (scope, name)).fetchall()
    return str(rows[0][0]) if rows else ""
