"""Documents kept in step while memtape serves: at once when a file changes, and every few minutes whatever happens.

One thread does both. It watches the folders of every agent and those that all share, and syncs whose folder was touched. The
timed sync takes what no system tells of: network folders, decisions that were recorded, a folder that was named for an agent
meanwhile. One agent's trouble is told in the log and in the health of its index, and keeps no other from its sync. That files
are not watched is told there as well, and taken back by whoever watches them again.

Any number of processes may do this on one store: a sync that finds nothing new writes next to nothing.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from threading import Event, Thread
from time import monotonic

from memtape.documents.cache import GLOBAL
from memtape.documents.file_watcher import FileWatcher
from memtape.documents.index import SyncResult
from memtape.documents.index_health import clear_problem, report_problem
from memtape.documents.sources import SYNC_PROBLEM, WATCH_PROBLEM
from memtape.engine import AgentMemory, Memory
from memtape.engine.documents.sync import forget_deleted, needs_sync
from memtape.errors import Damaged, MemtapeError, Unknown

SYNC_MINUTES = 5.0
FOLDER_CHECK_SECONDS = 60.0  # between two looks at which folders are named for whom
REST_FACTOR = 4  # times as long as a sync took, before the next: a large tree that changes all the time takes a fifth of one core
MAX_REST_SECONDS = 30.0
STOP_TIMEOUT_SECONDS = 10.0
NEW_INDEX_PAUSE_SECONDS = 1.0  # before what is synced into a new index
log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class SyncOutcome:
    """What a sync of an agent (of what all share: '') came to."""

    agent: str
    synced: SyncResult | None
    problem: str = ""


class DocumentSync:
    """Keeps the indexes of some agents, or of all, in step."""

    def __init__(
        self, memory: Memory, every_minutes: float = SYNC_MINUTES, *, agents: Collection[str] | None = None,
        told: Callable[[SyncOutcome], object] = lambda each: None,
        watcher: Callable[[Collection[Path]], FileWatcher] = FileWatcher, named_seconds: float = FOLDER_CHECK_SECONDS,
    ) -> None:  # fmt: skip
        self.memory, self.agents, self.told = memory, agents, told
        self._every = every_minutes * 60 if every_minutes > 0 else float("inf")
        self._named_seconds, self._make = named_seconds, watcher
        self._roots: Mapping[str, tuple[Path, ...]] = {}
        self._watcher: FileWatcher | None = None
        self._unwatched_since: datetime | None = None
        self._named_at = self._synced_at = float("-inf")

    def run(self, stop: Event) -> None:
        """Work until told to stop."""
        try:
            while not stop.is_set():
                try:
                    self._turn_mending(stop)
                except Exception:  # the outermost edge: a bug of ours must neither hide nor end the work
                    if not stop.is_set():
                        log.exception("keeping documents in step failed")
                    stop.wait(MAX_REST_SECONDS)
        finally:
            if self._watcher is not None:
                self._watcher.close()

    def _turn_mending(self, stop: Event) -> None:
        """A turn; if the index turns out to be damaged, another is made, and all are synced into it with the next turn."""
        try:
            self._turn(stop)
        except Damaged as problem:
            log.warning("%s", problem)
            self.memory.resources.set_damaged_documents_aside()
            self._named_at = self._synced_at = float("-inf")
            stop.wait(NEW_INDEX_PAUSE_SECONDS)

    def _turn(self, stop: Event) -> None:
        """Sync what is due, then wait for changes and sync what they touched."""
        due = self._named() if monotonic() - self._named_at >= self._named_seconds else set()
        if monotonic() - self._synced_at >= self._every or self._synced_at < 0:
            self._synced_at, due = monotonic(), set(self._roots)
        self._sync(due, stop)
        assert self._watcher is not None
        touched = self._watcher.wait(stop)
        rest = self._sync({agent for agent, roots in self._roots.items() if touched.intersection(roots)}, stop)
        stop.wait(min(REST_FACTOR * rest, MAX_REST_SECONDS))

    def _named(self) -> set[str]:
        """Look which folders are named for whom, and watch them; those for whom it is another now."""
        before, self._roots, self._named_at = self._roots, self._look(), monotonic()
        roots = {root for several in self._roots.values() for root in several}
        if self._watcher is None or self._watcher.problem or set(self._watcher.roots) != roots:
            watcher = self._make(roots)
            if self._watcher is not None:
                self._watcher.close()
            self._watcher = watcher
            self._note(watcher.problem)
        return {agent for agent, several in self._roots.items() if before.get(agent) != several}

    def _look(self) -> dict[str, tuple[Path, ...]]:
        """The agents that have documents, and their folders."""
        chosen = [agent.id for agent in self.memory.agents() if self.agents is None or agent.id in self.agents]
        found: dict[str, tuple[Path, ...]] = {}
        for name in (GLOBAL, *chosen):
            handle = self._handle(name)
            if needs_sync(self.memory.resources, handle.agent.id, shared=name == GLOBAL):
                found[name] = tuple(place.root for place in handle.documents.folders(shared=name == GLOBAL))
        return found

    def _handle(self, agent: str) -> AgentMemory:
        return self.memory.default_agent() if agent == GLOBAL else self.memory.agent(agent)

    def _note(self, problem: str) -> None:
        """Remember since when changes are not told of."""
        if problem and self._unwatched_since is None:
            self._unwatched_since = self.memory.clock.now()
            log.warning("files are not watched: %s", problem)
        if not problem:
            self._unwatched_since = None

    def _sync(self, agents: Collection[str], stop: Event) -> float:
        """Sync some agents, one after the other; how many seconds it took."""
        started = monotonic()
        for agent in sorted(agents):
            if stop.is_set():
                break
            self.told(self._sync_one(agent))
        return monotonic() - started

    def _sync_one(self, agent: str) -> SyncOutcome:
        try:
            handle = self._handle(agent)
        except Unknown as gone:  # deleted since its folders were looked up: nothing of it is kept, not even that
            return SyncOutcome(agent, None, str(gone))
        try:
            done = handle.documents.sync(shared=agent == GLOBAL)
            self._tell_unwatched(agent)
            return SyncOutcome(agent, done)
        except Damaged:  # of all agents: see `_turn_mending`
            raise
        except (MemtapeError, OSError) as problem:
            log.warning("documents of %s are not in step: %s", agent or "all agents", problem)
            self._tell_failed(agent, str(problem))
            return SyncOutcome(agent, None, str(problem))

    def _tell_unwatched(self, agent: str) -> None:
        if self._unwatched_since is None or self._watcher is None or not self._roots.get(agent):
            clear_problem(self.memory.resources.documents, self.memory.owner, agent, WATCH_PROBLEM)
            return
        how = "a timed sync finds changes" if self._every < float("inf") else "run reindex_documents after changes"
        problem = f"files are not watched ({self._watcher.problem}): {how}"
        report_problem(self.memory.resources.documents, self.memory.owner, agent, WATCH_PROBLEM, problem, self._unwatched_since)

    def _tell_failed(self, agent: str, problem: str) -> None:
        try:
            now = self.memory.clock.now()
            said = f"the last sync failed: {problem}"
            report_problem(self.memory.resources.documents, self.memory.owner, agent, SYNC_PROBLEM, said, now, make=True)
            forget_deleted(self.memory.resources, agent)
        except MemtapeError as error:  # the index itself cannot be written, or the agent was deleted: the log above has said so
            log.warning("nor can that be told in their health: %s", error)


@contextmanager
def syncing_documents(
    memory: Memory, every_minutes: float = SYNC_MINUTES, *, agents: Collection[str] | None = None,
    told: Callable[[SyncOutcome], object] = lambda each: None, ends_seconds: float = STOP_TIMEOUT_SECONDS,
) -> Iterator[None]:  # fmt: skip
    """Documents are in step for as long as the block lasts, by a thread of its own, which is given some time to end."""
    end, ended = Event(), Event()
    keeper = DocumentSync(memory, every_minutes, agents=agents, told=told)

    def keep() -> None:
        try:
            keeper.run(end)
        finally:
            ended.set()

    thread = Thread(target=keep, name="memtape-documents", daemon=True)
    try:
        thread.start()
        yield
    finally:  # also if ctrl-C comes while it starts: the store must not be closed under it
        end.set()
        if ended.wait(timeout=ends_seconds):
            thread.join()
