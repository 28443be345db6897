"""The episodes of agents in memory, as columns: a bounded cache that follows the store by its revisions.

Whoever changes episodes, in this process or another, records which in the same transaction (table `changes`). A view compares
revisions inside its own transaction, reads again what changed, and scores; the rows of the winners come from that same
transaction. Columns that a view reads do not change until it ends: a later state goes into a copy, so that views never wait for
each other. When the cache grows beyond its limit, the agents asked about longest ago leave it.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import field
from datetime import datetime
from typing import TYPE_CHECKING

from memtape.core.memory.beliefs import Belief, StatedBelief
from memtape.core.value_class import dataclass
from memtape.store.memories import EVERY_ONE

if TYPE_CHECKING:
    from memtape.columns import Columns
    from memtape.store.memories import MemoryTables

MAX_COLUMNS_MB = 512.0


@dataclass(frozen=True, slots=True)
class CachedBeliefs:
    """The beliefs of one moment, and until when only new trades could change them."""

    revision: int
    claims_count: bool
    stated: list[StatedBelief]
    at: datetime
    until: datetime | None
    beliefs: list[Belief]

    def holds(self, revision: int, claims_count: bool, stated: list[StatedBelief], at: datetime) -> bool:
        """True if the same beliefs would be formed at another moment."""
        same = (self.revision, self.claims_count, self.stated) == (revision, claims_count, stated)
        return same and self.at <= at and (self.until is None or at < self.until)


@dataclass(slots=True)
class CachedColumns:
    """The columns of one agent at one revision of the store. While a view uses them, they do not change."""

    columns: Columns
    revision: int = -1
    users: int = 0  # views that read them now
    beliefs: CachedBeliefs | None = None


@dataclass(slots=True)
class _Agent:
    """One agent in the cache: its columns at the latest revision that anybody asked about."""

    latest: CachedColumns
    # Held while columns are brought up to date and while users are counted, never while a view reads.
    lock: threading.Lock = field(default_factory=threading.Lock)


class ColumnCache:
    """The columns of the agents that this process was asked about last, within a limit of memory."""

    def __init__(self, limit_mb: float = MAX_COLUMNS_MB) -> None:
        self._limit_bytes = limit_mb * 1024 * 1024
        self._agents: OrderedDict[tuple[str, str], _Agent] = OrderedDict()
        self._sizes: dict[tuple[str, str], int] = {}
        self._lock = threading.Lock()

    @contextmanager
    def columns(self, owner: str, agent: str, tables: MemoryTables) -> Iterator[CachedColumns]:
        """The columns of an agent at the revision of a transaction; they stay as they are, and nobody waits for their user."""
        from memtape.columns import Columns  # numpy is slow to import: only those who recall wait for it

        key = (owner, agent)
        with self._lock:
            cached = self._agents.setdefault(key, _Agent(CachedColumns(Columns())))
            self._agents.move_to_end(key)
        with cached.lock:
            own = _at_revision(cached, tables.revision(), tables)
            own.users += 1
            self._measure(key, cached)
        try:
            yield own
        finally:
            with cached.lock:
                own.users -= 1

    def nbytes(self) -> int:
        """The memory that the cached columns take, in bytes."""
        with self._lock:
            return sum(self._sizes.values())

    def _measure(self, key: tuple[str, str], cached: _Agent) -> None:
        """Note the size of an agent's columns and let the least recently used agents leave while the cache is too large."""
        with self._lock:
            if self._agents.get(key) is cached:
                self._sizes[key] = cached.latest.columns.nbytes
            while sum(self._sizes.values()) > self._limit_bytes and len(self._agents) > 1:
                oldest = next(iter(self._agents))
                if oldest == key:
                    break
                del self._agents[oldest]
                self._sizes.pop(oldest, None)


def _at_revision(cached: _Agent, revision: int, tables: MemoryTables) -> CachedColumns:
    """The columns of an agent at a revision: those of the cache, brought up to date if need be."""
    from memtape.columns import Columns

    if revision == cached.latest.revision:
        return cached.latest
    if revision < cached.latest.revision:
        # A later transaction has been here. Its columns stay in the cache; this one reads columns of its own.
        own = CachedColumns(Columns())
        _catch_up(own, revision, tables)
        return own
    if cached.latest.users:
        # A view that was opened earlier still reads the columns: the later state goes into a copy.
        cached.latest = CachedColumns(cached.latest.columns.copy(), cached.latest.revision)
    _catch_up(cached.latest, revision, tables)
    return cached.latest


def _catch_up(cached: CachedColumns, revision: int, tables: MemoryTables) -> None:
    """Bring columns to a revision of the store."""
    from memtape.columns import Columns

    changed = tables.changed_since(cached.revision) if 0 <= cached.revision < revision else {EVERY_ONE}
    # If reading or adding rows fails halfway, the next view must not take these columns for those of a revision.
    cached.revision = -1
    if EVERY_ONE in changed:
        cached.columns = Columns()
        cached.columns.put(tables.episode_rows())
    else:
        for id_ in sorted(changed):
            cached.columns.drop(id_)
        cached.columns.put(tables.episode_rows(changed))
    cached.revision = revision
