"""The documents that the index holds, by type: how many there are, and those written last.

>>> from datetime import UTC, datetime
>>> from memtape.documents.index import Document
>>> index = DocumentIndex(":memory:")
>>> pages = [Document("SOUL.md", "rules", 1, "Patience."), Document("journal/1.md", "journal", 3, "Waited.")]
>>> made = index.put("ann", "gold", pages, now=datetime(2026, 5, 12, tzinfo=UTC))
>>> [(shelf.type, shelf.n, shelf.latest[0].path) for shelf in shelved(index, "ann", "gold")]
[('rules', 1, 'SOUL.md'), ('journal', 1, 'journal/1.md')]
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from memtape.documents.cache import GLOBAL
from memtape.documents.index import DocumentIndex

LATEST, ALONE = 8, 500  # documents of a type that are named among others, and where it is looked at alone
_SQL = (
    "SELECT path, type, tier, size, chunks, shared, n FROM (SELECT d.path, d.type, d.tier, d.size, d.chunks, "
    "s.agent = ? shared, count(*) OVER (PARTITION BY d.type) n, "
    "row_number() OVER (PARTITION BY d.type ORDER BY d.mtime_ns DESC, d.path) place "
    "FROM documents d JOIN scopes s ON s.id = d.scope "
    "WHERE s.owner = ? AND s.agent IN (?, ?) AND d.path = coalesce(?, d.path)) "
    "WHERE place <= CASE type WHEN ? THEN ? ELSE ? END ORDER BY type, place"
)


@dataclass(frozen=True, slots=True)
class Shelved:
    """A document as the index knows it."""

    path: str
    type: str
    tier: int
    size: int
    passages: int
    shared: bool


@dataclass(frozen=True, slots=True)
class Shelf:
    """The documents of one type: how many, and those written last."""

    type: str
    n: int
    latest: tuple[Shelved, ...]


def shelved(index: DocumentIndex, owner: str, agent: str, alone: str = "", path: str | None = None) -> Iterator[Shelf]:
    """The documents of an agent and those shared with it, the owner's rules first; of the type `alone` more are named."""
    with index.cache.reading() as connection:
        rows: list[Any] = connection.execute(_SQL, (GLOBAL, owner, agent, GLOBAL, path, alone, ALONE, LATEST)).fetchall()
    for kind in dict.fromkeys(row[1] for row in sorted(rows, key=lambda row: (row[2], row[1]))):
        own = [row for row in rows if row[1] == kind]
        latest = tuple(Shelved(where, kind, tier, size, n, bool(shared)) for where, _, tier, size, n, shared, _ in own)
        yield Shelf(kind, own[0][-1], latest)
