"""The indexed documents by type: how many there are, and the latest ones.

>>> from datetime import UTC, datetime
>>> from memtape.documents.index_writer import Document
>>> index = DocumentIndex(":memory:")
>>> pages = [Document("SOUL.md", "rules", 1, "Patience."), Document("journal/1.md", "journal", 3, "Waited.")]
>>> _ = index.put("ann", "gold", pages, now=datetime(2026, 5, 12, tzinfo=UTC))
>>> [(group.type, group.n, group.latest[0].path) for group in list_by_type(index, "ann", "gold")]
[('rules', 1, 'SOUL.md'), ('journal', 1, 'journal/1.md')]
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from memtape.core.value_class import dataclass
from memtape.documents.cache import SHARED_SCOPE
from memtape.documents.index import DocumentIndex

# How many documents of each type are listed, and how many of the one type that was asked for.
LISTED_PER_TYPE, LISTED_ALONE = 8, 500
_SQL = (
    "SELECT path, type, tier, size, chunks, shared, n FROM (SELECT d.path, d.type, d.tier, d.size, d.chunks, "
    "s.agent = ? shared, count(*) OVER (PARTITION BY d.type) n, "
    "row_number() OVER (PARTITION BY d.type ORDER BY d.mtime_ns DESC, d.path) place "
    "FROM documents d JOIN scopes s ON s.id = d.scope "
    "WHERE s.owner = ? AND s.agent IN (?, ?) AND d.path = coalesce(?, d.path)) "
    "WHERE place <= CASE type WHEN ? THEN ? ELSE ? END ORDER BY type, place"
)


class _Row(NamedTuple):
    """A row of the query, column by column."""

    path: str
    type: str
    tier: int
    size: int
    chunks: int
    shared: int
    of_type: int


@dataclass(frozen=True, slots=True)
class ListedDocument:
    """An indexed document."""

    path: str
    type: str
    tier: int
    size: int
    passages: int
    shared: bool


@dataclass(frozen=True, slots=True)
class DocumentGroup:
    """The documents of one type: how many there are, and the latest ones."""

    type: str
    n: int  # of all documents of this type, listed or not
    latest: tuple[ListedDocument, ...]


def list_by_type(
    index: DocumentIndex, owner: str, agent: str, alone: str = "", path: str | None = None
) -> Iterator[DocumentGroup]:
    """Yields the documents of an agent and those shared with it by type, the owner's rules first.

    Lists more documents of the type `alone` than of the others; with `path`, only that document.
    """
    with index.cache.reading() as connection:
        values = (SHARED_SCOPE, owner, agent, SHARED_SCOPE, path, alone, LISTED_ALONE, LISTED_PER_TYPE)
        rows = [_Row._make(row) for row in connection.execute(_SQL, values).fetchall()]
    for kind in dict.fromkeys(row.type for row in sorted(rows, key=lambda row: (row.tier, row.type))):
        own = [row for row in rows if row.type == kind]
        latest = tuple(ListedDocument(row.path, kind, row.tier, row.size, row.chunks, bool(row.shared)) for row in own)
        yield DocumentGroup(kind, own[0].of_type, latest)
