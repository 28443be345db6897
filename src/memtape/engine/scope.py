"""One agent of one owner: the streams it reads and writes, its clock, and its views. Every capability of an agent holds one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from datetime import datetime
from typing import TYPE_CHECKING

from memtape.core.codec import EPOCH
from memtape.core.skills import Agent
from memtape.core.value_class import dataclass
from memtape.engine.present import present_of
from memtape.engine.resources import Resources
from memtape.store.rows import Head
from memtape.store.tables import Tables

if TYPE_CHECKING:
    from memtape.engine.view.view import View
    from memtape.engine.write.quiet_writer import QuietWriter
    from memtape.engine.write.writer import Writer


@dataclass(frozen=True, slots=True)
class AgentScope:
    """An agent and the resources of its owner."""

    resources: Resources
    agent: Agent

    def reading(self) -> AbstractContextManager[Tables]:
        """Open a transaction that reads the agent's stream."""
        return self.resources.reading(self.agent.id)

    def writing(self) -> AbstractContextManager[Tables]:
        """Open a transaction that writes the agent's stream."""
        return self.resources.writing(self.agent.id)

    @contextmanager
    def view(self, as_of: datetime | None = None, head: int | None = None, owner_head: int | None = None) -> Iterator[View]:
        """Open one read transaction with one cutoff; without `as_of` it is the present."""
        # Imported when it is needed: listing agents starts without the code that reads trades.
        from memtape.engine.view import open_view

        with self.reading() as tables, open_view(self.resources, tables, self.agent, as_of, head, owner_head) as view:
            yield view

    def writer(self, tables: Tables) -> Writer:
        """The writer of a transaction on the agent's stream, or on the owner's."""
        from memtape.engine.write.writer import Writer

        return Writer(tables, self.agent, self.resources.clock.now(), self.resources.author)

    def quiet_writer(self, tables: Tables) -> QuietWriter:
        """The writer of the ticks of a transaction on which nothing happens."""
        from memtape.engine.write.quiet_writer import QuietWriter

        return QuietWriter(tables, self.agent, self.resources.clock.now(), self.resources.author)

    def stated_at(self, tables: Tables) -> datetime:
        """When a statement counts as made: by the clock, or in a simulation at the last moment observed."""
        return (tables.head().known_at or EPOCH) if self.agent.mode == "sim" else self.resources.clock.now()

    def head(self) -> Head:
        """The head of the agent's stream."""
        with self.reading() as tables:
            return tables.head()

    def now(self) -> datetime:
        """The moment that a question without one is about: in a simulation the last one observed, else the clock's."""
        return present_of(self.agent, self.head(), self.resources.clock.now())
