"""What everything in one owner's memory shares: the database, the clock, caches, models and the index of documents.

A capability of an agent (ledger, briefs, plans, ...) is handed the resources and opens its own transactions here. One transaction
concerns one stream: an agent's own, or the owner's (`@owner`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from memtape.core.authors import OWNER_AUTHOR, LogAuthor
from memtape.core.brief.token_estimate import ESTIMATE
from memtape.core.ids import OwnerId
from memtape.core.items import OWNER_STREAM
from memtape.core.values import Slug, read
from memtape.errors import Conflict, Damaged
from memtape.plugs.clock import Clock, SystemClock
from memtape.store.tables import Tables

if TYPE_CHECKING:
    from memtape.documents.answering_model import EmbedderById
    from memtape.documents.index import DocumentIndex
    from memtape.documents.slots import Slot
    from memtape.engine.column_cache import ColumnCache
    from memtape.plugs.embedder import Embedder
    from memtape.plugs.models import Model
    from memtape.store.batch_tables import BatchTables
    from memtape.store.database import Database, Session

Models = Callable[[str], "Model"]  # a model by its name, like anthropic/claude-haiku-4-5
TokenCounter = tuple[Callable[[str], int] | None, str]  # what counts tokens, and its name; None: an estimate
ESTIMATED: TokenCounter = (None, ESTIMATE)


def _default_model(name: str) -> Model:
    from memtape.plugs.models import model_of

    return model_of(name)


class Resources:
    """What all agents of one owner share in one process."""

    def __init__(
        self, database: Database, owner: str = "local", clock: Clock | None = None, *, models: Models = _default_model,
        embedder: Callable[[], Embedder | None] = lambda: None, tokens: TokenCounter = ESTIMATED, documents: str = ":memory:",
        workspaces: str | None = None, slot: Slot = "sqlite_fts",
        document_embedder: Callable[[Slot], Embedder | None] = lambda slot: None, embedder_by_id: EmbedderById = lambda id: None,
        columns_mb: float | None = None,
    ) -> None:  # fmt: skip
        self.database = database
        self.owner = OwnerId(read(Slug, owner, at="owner"))
        self.clock: Clock = clock or SystemClock()
        self._columns_mb = columns_mb
        self.models, self.tokens = models, tokens
        self._embedder, self._documents_file, self._workspaces = embedder, documents, workspaces
        self.on_documents: Callable[[int, int], object] = lambda done, total: None  # told how far a sync of documents is
        self.waiting: list[Callable[[], None]] = []  # what writes values that wait to be written together
        self.slot, self.document_embedder, self.embedder_by_id = slot, cache(document_embedder), embedder_by_id

    @property
    def author(self) -> LogAuthor:
        """Who writes through these resources: recorded in every row."""
        return OWNER_AUTHOR

    def said_by(self, author: LogAuthor) -> Resources:
        """The same resources for another author."""
        return _ResourcesOfAuthor(self, author)

    # ---- transactions ----------------------------------------------------------------------------------------------

    def write_waiting(self) -> None:
        """Write the values that wait in this process, so that a reader or another writer finds them."""
        for write in list(self.waiting):
            write()

    @contextmanager
    def reading(self, stream: str) -> Iterator[Tables]:
        """Open a transaction that reads one unchanging state of the store, positioned at one stream."""
        self.write_waiting()
        with self.database.reading(self.owner) as session:
            yield Tables(session, self.owner, stream)

    @contextmanager
    def at_one_state(self) -> Iterator[Resources]:
        """The same resources with one read transaction, in which all their reads take place."""
        self.write_waiting()
        with self.database.reading(self.owner) as session:
            yield _ResourcesAtOneState(self, session)

    def in_transaction(self, session: Session) -> Resources:
        """The same resources in a write transaction that is open already: what reads and repairs is part of it."""
        return _ResourcesInTransaction(self, session)

    @contextmanager
    def writing(self, stream: str) -> Iterator[Tables]:
        """Open a transaction that writes one stream; a deleted agent and an erased owner are refused."""
        self.write_waiting()
        with self.database.writing(self.owner) as session:
            session.lock(self.owner, stream)
            refuse_deleted(Tables(session, self.owner, OWNER_STREAM), stream)
            yield Tables(session, self.owner, stream)

    @contextmanager
    def writing_many(self, stream: str) -> Iterator[BatchTables]:
        """Open a transaction that writes many values to one stream; what one value left is kept in memory for the next."""
        from memtape.store.batch_tables import BatchTables

        with self.database.writing(self.owner) as session:
            session.lock(self.owner, stream)
            refuse_deleted(Tables(session, self.owner, OWNER_STREAM), stream)
            tables = BatchTables(session, self.owner, stream)
            yield tables
            tables.finish()

    @contextmanager
    def repairing(self, stream: str) -> Iterator[Tables]:
        """Open a transaction that changes projections or leases of one stream and adds nothing to its log."""
        self.write_waiting()
        with self.database.writing(self.owner) as session:
            session.lock(self.owner, stream)
            yield Tables(session, self.owner, stream)

    def check_writable(self) -> None:
        """Raise Locked, ReadOnly or another store error if a write transaction cannot begin now. Writes nothing."""
        with self.database.writing(self.owner):
            pass

    # ---- models and documents --------------------------------------------------------------------------------------

    @cached_property
    def columns(self) -> ColumnCache:
        """The episodes of agents in memory, as columns."""
        from memtape.engine.column_cache import MAX_COLUMNS_MB, ColumnCache

        return ColumnCache(MAX_COLUMNS_MB if self._columns_mb is None else self._columns_mb)

    @cached_property
    def embedder(self) -> Embedder | None:
        """The embedder that compares texts, if one is configured."""
        return self._embedder()

    @cached_property
    def documents(self) -> DocumentIndex:
        """The index of documents: a cache in a file of its own."""
        from memtape.documents.index import DocumentIndex

        return DocumentIndex(self._documents_file, lambda done, total: self.on_documents(done, total))

    def set_damaged_documents_aside(self) -> bool:
        """Set the index of documents aside if its file is damaged; the next sync rebuilds it. Returns True if it was damaged."""
        from memtape.documents.cache import move_damaged_cache

        # Another process may have set the damaged file aside already and made a good one: reopen before concluding.
        for _ in range(2):
            try:
                self.documents.check()
                return False
            except Damaged:
                if "documents" in self.__dict__:
                    self.documents.close()
                    del self.documents
        move_damaged_cache(self._documents_file)
        return True

    @property
    def has_documents(self) -> bool:
        """True if there is an index of documents; asking does not create one."""
        return "documents" in self.__dict__ or Path(self._documents_file).exists()

    @property
    def workspace_home(self) -> Path | None:
        """The folder in which agents without a workspace get one; None for a store that keeps nothing."""
        if self._workspaces is None:
            return None
        return Path(self._workspaces) / ("" if self.owner == "local" else f"@{self.owner}")

    def close(self) -> None:
        """Close the store and the index of documents."""
        self.database.close()
        if "documents" in self.__dict__:
            self.documents.close()


class _ResourcesAtOneState(Resources):
    """Resources that read in a transaction that is open already, and share everything else with those they come from."""

    __slots__ = ("_session",)
    _session: Session

    def __init__(self, origin: Resources, session: Session) -> None:
        # One dictionary for both: what either makes when it is first used, like the index of documents, is the other's too.
        self.__dict__ = origin.__dict__
        self._session = session

    @contextmanager
    def reading(self, stream: str) -> Iterator[Tables]:
        """Position the open transaction at one stream."""
        yield Tables(self._session, self.owner, stream)


class _ResourcesInTransaction(_ResourcesAtOneState):
    """Resources that read and repair in one write transaction."""

    __slots__ = ()

    @contextmanager
    def repairing(self, stream: str) -> Iterator[Tables]:
        """Position the open transaction at one stream, and lock the stream."""
        self._session.lock(self.owner, stream)
        yield Tables(self._session, self.owner, stream)


class _ResourcesOfAuthor(Resources):
    """Resources through which somebody else than the owner writes; they share everything with those they come from."""

    __slots__ = ("_author",)
    _author: LogAuthor

    def __init__(self, origin: Resources, author: LogAuthor) -> None:
        self.__dict__ = origin.__dict__
        self._author = author

    @property
    def author(self) -> LogAuthor:
        """Who writes through these resources."""
        return self._author


def refuse_deleted(owner: Tables, stream: str) -> None:
    """Raise Conflict if the owner was erased or the agent was deleted: neither accepts another write."""
    for kind in owner.stated(("erased", "agent_deleted"), (owner.owner, stream)):
        if kind == "erased":
            raise Conflict("owner", "everything of this owner was erased", "Use another owner, or another store")
        raise Conflict("agent", f"the agent '{stream}' was deleted", "Use another agent")
