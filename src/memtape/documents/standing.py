"""What keeps an index from being in step with its folders, kept where its health is read.

A folder that is not there is not an empty one: a drive that is not mounted, a share that is down. What was indexed of it is kept
and served, the moment of the last good sync stands, and the health says since when the folder is missing. Other folders of the
same agent, and its decisions, are kept in step meanwhile.

A sync that failed, or a system that tells of no changes, is told in the health too, until a sync succeeds.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

from memtape.core.codec import spell_time
from memtape.documents.index import DocumentIndex, Synced
from memtape.documents.sources import Seen, Skipped, Source, is_there
from memtape.errors import Invalid
from memtape.plugs.embedder import Embedder

SYNC, WATCH = "@sync", "@watch"  # under these names the health tells of them
_SINCE = "; since "


def brought_in_step(
    index: DocumentIndex, owner: str, agent: str, places: Sequence[Source], *, now: datetime, embedder: Embedder | None = None,
    anew: bool = False,
) -> Synced:  # fmt: skip
    """Sync an index with those of its folders that are there. The time of the last good sync stands while one is missing.

    Where all is to be made anew, or there never was a sync, there is nothing to keep: a missing folder is then an error.
    """
    missing = [place for place in places if place.listed is None and not is_there(place.root)]
    if not missing:
        return index.sync(owner, agent, places, now=now, embedder=embedder, anew=anew)
    before = index.health(owner, agent)
    if anew or before.last_sync is None:
        raise Invalid("folder", f"{missing[0].root} is not a folder", "Bring it back, or name another one")
    said = {each.path: each.problem for each in before.problems}
    kept = [_kept(index, owner, agent, place, places, said, now) if place in missing else place for place in places]
    return index.sync(owner, agent, kept, now=before.last_sync, embedder=embedder)


def _kept(
    index: DocumentIndex, owner: str, agent: str, place: Source, places: Iterable[Source], said: dict[str, str], now: datetime
) -> Source:
    """A folder that is not there, as it was last seen."""
    others = [other.prefix for other in places if other.prefix.startswith(place.prefix) and other.prefix != place.prefix]

    def listed() -> Iterator[Seen | Skipped]:
        problem = f"this folder is not there, or is a link to another now{_SINCE}"
        yield Skipped(str(place.root), since(problem, said.get(str(place.root), ""), now))
        for seen in _indexed(index, owner, agent):
            if seen.path.startswith(place.prefix) and not seen.path.startswith(tuple(others)):
                yield seen

    return replace(place, listed=listed)


def _indexed(index: DocumentIndex, owner: str, agent: str) -> list[Seen]:
    """Every document of an agent as it was when it was read."""
    with index.cache.reading() as connection:
        scope = index.cache.scope(owner, agent)
        sql = "SELECT path, file, given, size, mtime_ns, ctime_ns, inode FROM documents WHERE scope = ? ORDER BY path"
        rows: list[Any] = connection.execute(sql, (scope,)).fetchall()
    parted = ((path, Path(file), *given.rsplit(" ", 1), looks) for path, file, given, *looks in rows)
    return [Seen(path, file, kind, int(tier), *looks) for path, file, kind, tier, looks in parted]


def since(problem: str, before: str, now: datetime) -> str:
    """A problem with the moment at which it was first told.

    >>> from datetime import UTC
    >>> noon = datetime(2026, 5, 12, 12, tzinfo=UTC)
    >>> told = since("gone; since ", "", noon)
    >>> told, since("gone; since ", told, noon.replace(hour=15)) == told
    ('gone; since 2026-05-12T12:00:00Z', True)
    """
    return before if before.startswith(problem) else f"{problem}{spell_time(now)}"


def tell(index: DocumentIndex, owner: str, agent: str, name: str, problem: str, now: datetime) -> None:
    """Let the health of an agent tell of something that is wrong with its index, and since when; a good sync ends it."""
    with index.cache.writing() as connection:
        scope = index.cache.scope(owner, agent, make=True)
        sql = "SELECT problem FROM problems WHERE scope = ? AND path = ?"
        rows: list[Any] = connection.execute(sql, (scope, name)).fetchall()
        told = since(f"{problem}{_SINCE}", rows[0][0] if rows else "", now)
        if not rows or rows[0][0] != told:
            connection.execute("INSERT OR REPLACE INTO problems VALUES (?, ?, ?)", (scope, name, told))
