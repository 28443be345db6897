"""The episodes of agents in memory, as columns: a bounded cache that follows the store by its revisions.

Whoever changes episodes, in this process or another, records which in the same transaction (table `changes`). A view compares
revisions inside its own transaction, reads again what changed, and scores; the rows of the winners come from that same
transaction. When the cache grows beyond its limit, the agents asked about longest ago leave it.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING

from memtape.core.memory.beliefs import Belief, StatedBelief
from memtape.store.memories import EVERY_ONE, MemoryTables

if TYPE_CHECKING:
    from memtape.columns import Columns

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
    """The columns of one agent, and the revision of the store that they show."""

    columns: Columns
    revision: int = -1
    lock: threading.RLock = field(default_factory=threading.RLock)
    users: int = 0  # views of the thread that holds the lock
    beliefs: CachedBeliefs | None = None


class ColumnCache:
    """The columns of the agents that this process was asked about last, within a limit of memory."""

    def __init__(self, limit_mb: float = MAX_COLUMNS_MB) -> None:
        self._limit_bytes = limit_mb * 1024 * 1024
        self._agents: OrderedDict[tuple[str, str], CachedColumns] = OrderedDict()
        self._sizes: dict[tuple[str, str], int] = {}
        self._lock = threading.Lock()

    @contextmanager
    def columns(self, owner: str, agent: str, tables: MemoryTables) -> Iterator[CachedColumns]:
        """The columns of an agent at the revision of a transaction; nobody else changes them meanwhile."""
        from memtape.columns import Columns  # numpy is slow to import: only those who recall wait for it

        key = (owner, agent)
        with self._lock:
            cached = self._agents.setdefault(key, CachedColumns(Columns()))
            self._agents.move_to_end(key)
        with cached.lock:
            revision = tables.revision()
            if revision < cached.revision or (cached.users and revision != cached.revision):
                # A later transaction has been here, or an earlier one of this very thread still uses these columns: this one
                # gets columns of its own.
                cached = CachedColumns(Columns())
            _catch_up(cached, revision, tables)
            self._measure(key, cached)
            cached.users += 1
            try:
                yield cached
            finally:
                cached.users -= 1

    def nbytes(self) -> int:
        """The memory that the cached columns take, in bytes."""
        with self._lock:
            return sum(self._sizes.values())

    def _measure(self, key: tuple[str, str], cached: CachedColumns) -> None:
        """Note the size of an agent's columns and let the least recently used agents leave while the cache is too large."""
        with self._lock:
            if self._agents.get(key) is cached:
                self._sizes[key] = cached.columns.nbytes
            while sum(self._sizes.values()) > self._limit_bytes and len(self._agents) > 1:
                oldest = next(iter(self._agents))
                if oldest == key:
                    break
                del self._agents[oldest]
                self._sizes.pop(oldest, None)


def _catch_up(cached: CachedColumns, revision: int, tables: MemoryTables) -> None:
    """Bring columns to a revision of the store."""
    from memtape.columns import Columns

    if revision == cached.revision:
        return
    changed = tables.changed_since(cached.revision) if 0 <= cached.revision < revision else {EVERY_ONE}
    if EVERY_ONE in changed:
        cached.columns = Columns()
        cached.columns.put(tables.episode_rows())
    else:
        for id_ in sorted(changed):
            cached.columns.drop(id_)
        cached.columns.put(tables.episode_rows(changed))
    cached.revision = revision
