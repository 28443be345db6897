"""The end of the affect history and of the episodes, kept in memory while many values are recorded in one transaction.

Every value continues affect from its last step. `MemoryTables` asks here first; what is not known here is read from the store.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from memtape.core.memory.affect import AffectStep
from memtape.core.memory.episodes import Episode

MAX_OUTCOMES_KEPT = 100  # as many as a step of affect looks at


class KeptMemories:
    """The last step of affect, the last outcomes, and the last entry of an episode."""

    def __init__(self) -> None:
        self.last_step: AffectStep | None = None  # None: not known here
        self.outcomes: list[float] | None = None  # in R, of the last closes; None: not known here
        self.last_entry: datetime | None = None  # of all episodes; meaningful if `entries_known`
        self.entries_known = False

    def add_steps(self, steps: Sequence[AffectStep]) -> None:
        """Steps were added."""
        if not steps or self.last_step is None:
            return
        newest = max(steps, key=_step_order)
        if min(map(_step_order, steps)) <= _step_order(self.last_step):
            self.last_step = self.outcomes = None
            return
        self.last_step = newest
        if self.outcomes is not None:
            closes = sorted((step for step in steps if step.rank == 1 and step.pnl_r is not None), key=_step_order)
            self.outcomes = [*self.outcomes, *(step.pnl_r for step in closes if step.pnl_r is not None)][-MAX_OUTCOMES_KEPT:]

    def add_episodes(self, episodes: Sequence[Episode]) -> None:
        """Episodes were added."""
        if episodes and self.entries_known:
            entries = [episode.entry_at for episode in episodes]
            self.last_entry = max(entries if self.last_entry is None else [self.last_entry, *entries])

    def forget(self, tables: frozenset[str]) -> None:
        """Rows of some tables were changed or deleted."""
        if "affect" in tables:
            self.last_step = self.outcomes = None
        if "episodes" in tables:
            self.entries_known, self.last_entry = False, None


def _step_order(step: AffectStep) -> tuple[datetime, int, str]:
    return step.at, step.rank, step.id
