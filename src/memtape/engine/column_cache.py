"""An agent's episodes in memory, as columns, kept in step with the store by its revisions.

Whoever changes episodes, in this process or another, notes which in the same transaction. A reader compares revisions inside
its own snapshot, reads again what changed, and scores; the winners' rows come from that same snapshot.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING

from memtape.store.memories import EVERY_ONE, MemoryTables
from memtape.store.tables import Tables

if TYPE_CHECKING:
    from memtape.columns import Columns
    from memtape.core.memory.beliefs import Belief, StatedBelief
    from memtape.engine.memory import Memory


@dataclass(frozen=True, slots=True)
class CachedBeliefs:
    """Beliefs as they were formed at a moment, and until when nothing but new trades could change them."""

    revision: int
    claims_count: bool
    stated: list[StatedBelief]
    at: datetime
    until: datetime | None
    beliefs: list[Belief]

    def holds(self, revision: int, claims_count: bool, stated: list[StatedBelief], at: datetime) -> bool:
        """Whether they are what would be formed at another moment."""
        same = (self.revision, self.claims_count, self.stated) == (revision, claims_count, stated)
        return same and self.at <= at and (self.until is None or at < self.until)


@dataclass(slots=True)
class CachedColumns:
    """The columns of one agent and the revision they are at."""

    columns: Columns
    revision: int = -1
    lock: threading.RLock = field(default_factory=threading.RLock)
    formed: CachedBeliefs | None = None


class ColumnCache:
    """The columns of every agent that this process has been asked about."""

    def __init__(self) -> None:
        self._agents: dict[tuple[str, str], CachedColumns] = {}
        self._turn = threading.Lock()

    @contextmanager
    def reading(self, memory: Memory, agent: str) -> Iterator[tuple[Tables, CachedColumns]]:
        """One snapshot of an agent's stream, with its columns at the revision of that snapshot."""
        from memtape.columns import Columns  # numpy: only those who recall wait for it

        with self._turn:
            followed = self._agents.setdefault((memory.owner, agent), CachedColumns(Columns()))
        with followed.lock, memory.reading(agent) as tables:
            _catch_up(followed, MemoryTables(tables))
            yield tables, followed


def _catch_up(followed: CachedColumns, learned: MemoryTables) -> None:
    """Bring columns to the revision of this snapshot."""
    from memtape.columns import Columns

    revision = learned.revision()
    if revision == followed.revision:
        return
    changed = learned.changed_since(followed.revision) if 0 <= followed.revision < revision else {EVERY_ONE}
    if EVERY_ONE in changed:
        followed.columns = Columns()
        followed.columns.put(learned.episode_rows())
    else:
        for id_ in sorted(changed):
            followed.columns.drop(id_)
        followed.columns.put(learned.episode_rows(changed))
    followed.revision = revision
