"""Keeps document indexes in sync while memtape serves: at once when a file changes, and every few minutes in any case.

One thread does both. It watches the folders of every agent and the shared folders, and syncs the agents whose folders changed.
The timed sync finds changes that the system does not report: in network folders, new decisions, a folder that was just assigned
to an agent. A problem of one agent goes to the log and to the health of its index, and does not stop the others. If files are
not watched, the health says so too, until they are watched again.

Any number of processes may do this on one store: a sync without changes writes almost nothing.
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

from memtape.documents.cache import SHARED_SCOPE
from memtape.documents.file_watcher import FileWatcher
from memtape.documents.index import SyncResult
from memtape.documents.index_health import clear_problem, report_problem
from memtape.documents.sources import SYNC_PROBLEM, WATCH_PROBLEM
from memtape.engine import AgentMemory, Memory
from memtape.engine.documents.sync import forget_deleted, needs_sync
from memtape.errors import Damaged, MemtapeError, Unknown

SYNC_MINUTES = 5.0
FOLDER_CHECK_SECONDS = 60.0  # between two checks of the folders of agents
REST_FACTOR = 4  # a rest is this many times the length of a sync: a large tree that always changes uses a fifth of one core
MAX_REST_SECONDS = 30.0
STOP_TIMEOUT_SECONDS = 10.0
NEW_INDEX_PAUSE_SECONDS = 1.0  # before the first sync into a new index
log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class SyncOutcome:
    """The outcome of the sync of one agent, or of the shared folders ('')."""

    agent: str
    synced: SyncResult | None
    problem: str = ""


class DocumentSync:
    """Keeps the indexes of some agents, or of all, in sync."""

    def __init__(
        self, memory: Memory, every_minutes: float = SYNC_MINUTES, *, agents: Collection[str] | None = None,
        on_sync: Callable[[SyncOutcome], object] = lambda outcome: None,
        watcher: Callable[[Collection[Path]], FileWatcher] = FileWatcher, named_seconds: float = FOLDER_CHECK_SECONDS,
    ) -> None:  # fmt: skip
        self.memory, self.agents, self.on_sync = memory, agents, on_sync
        self._every = every_minutes * 60 if every_minutes > 0 else float("inf")
        self._named_seconds, self._make = named_seconds, watcher
        self._roots: Mapping[str, tuple[Path, ...]] = {}
        self._watcher: FileWatcher | None = None
        self._unwatched_since: datetime | None = None
        self._named_at = self._synced_at = float("-inf")

    def run(self, stop: Event) -> None:
        """Work until the stop signal."""
        try:
            while not stop.is_set():
                try:
                    self._turn_with_recovery(stop)
                # The outermost edge: a bug must be logged and must not end the work.
                except Exception:
                    if not stop.is_set():
                        log.exception("syncing documents failed")
                    stop.wait(MAX_REST_SECONDS)
        finally:
            if self._watcher is not None:
                self._watcher.close()

    def _turn_with_recovery(self, stop: Event) -> None:
        """Run one turn. A damaged index is set aside, and the next turn syncs all agents into a new one."""
        try:
            self._turn(stop)
        except Damaged as problem:
            log.warning("%s", problem)
            self.memory.resources.set_damaged_documents_aside()
            self._named_at = self._synced_at = float("-inf")
            stop.wait(NEW_INDEX_PAUSE_SECONDS)

    def _turn(self, stop: Event) -> None:
        """Sync what is due, then wait for changes and sync what they touched."""
        due = self._update_folders() if monotonic() - self._named_at >= self._named_seconds else set()
        if monotonic() - self._synced_at >= self._every or self._synced_at < 0:
            self._synced_at, due = monotonic(), set(self._roots)
        self._sync(due, stop)
        assert self._watcher is not None
        touched = self._watcher.wait(stop)
        rest = self._sync({agent for agent, roots in self._roots.items() if touched.intersection(roots)}, stop)
        stop.wait(min(REST_FACTOR * rest, MAX_REST_SECONDS))

    def _update_folders(self) -> set[str]:
        """Look up the folders of all agents and watch them. Returns the agents whose folders changed."""
        before, self._roots, self._named_at = self._roots, self._folders(), monotonic()
        roots = {root for several in self._roots.values() for root in several}
        if self._watcher is None or self._watcher.problem or set(self._watcher.roots) != roots:
            watcher = self._make(roots)
            if self._watcher is not None:
                self._watcher.close()
            self._watcher = watcher
            self._note_watching(watcher.problem)
        return {agent for agent, several in self._roots.items() if before.get(agent) != several}

    def _folders(self) -> dict[str, tuple[Path, ...]]:
        """Returns the folders of the agents that have documents."""
        chosen = [agent.id for agent in self.memory.agents() if self.agents is None or agent.id in self.agents]
        found: dict[str, tuple[Path, ...]] = {}
        for name in (SHARED_SCOPE, *chosen):
            handle = self._handle(name)
            if needs_sync(self.memory.resources, handle.agent.id, shared=name == SHARED_SCOPE):
                found[name] = tuple(place.root for place in handle.documents.folders(shared=name == SHARED_SCOPE))
        return found

    def _handle(self, agent: str) -> AgentMemory:
        if agent != SHARED_SCOPE:
            return self.memory.agent(agent)
        # The documents of all agents are the same by any of them.
        known = self.memory.agents()
        return self.memory.agent(known[0].id) if known else self.memory.default_agent()

    def _note_watching(self, problem: str) -> None:
        """Remember since when files are not watched."""
        if problem and self._unwatched_since is None:
            self._unwatched_since = self.memory.clock.now()
            log.warning("files are not watched: %s", problem)
        if not problem:
            self._unwatched_since = None

    def _sync(self, agents: Collection[str], stop: Event) -> float:
        """Sync some agents one after the other. Returns the seconds it took."""
        started = monotonic()
        for agent in sorted(agents):
            if stop.is_set():
                break
            self.on_sync(self._sync_one(agent))
        return monotonic() - started

    def _sync_one(self, agent: str) -> SyncOutcome:
        try:
            handle = self._handle(agent)
        # The agent was deleted after its folders were looked up. Nothing of it is stored, not even this.
        except Unknown as gone:
            return SyncOutcome(agent, None, str(gone))
        try:
            done = handle.documents.sync(shared=agent == SHARED_SCOPE)
            self._report_unwatched(agent)
            return SyncOutcome(agent, done)
        # The index of all agents is damaged: see `_turn_with_recovery`.
        except Damaged:
            raise
        except (MemtapeError, OSError) as problem:
            log.warning("documents of %s are not in sync: %s", agent or "all agents", problem)
            self._report_failure(agent, str(problem))
            return SyncOutcome(agent, None, str(problem))

    def _report_unwatched(self, agent: str) -> None:
        if self._unwatched_since is None or self._watcher is None or not self._roots.get(agent):
            clear_problem(self.memory.resources.documents, self.memory.owner, agent, WATCH_PROBLEM)
            return
        how = "a timed sync finds changes" if self._every < float("inf") else "run reindex_documents after changes"
        problem = f"files are not watched ({self._watcher.problem}): {how}"
        report_problem(self.memory.resources.documents, self.memory.owner, agent, WATCH_PROBLEM, problem, self._unwatched_since)

    def _report_failure(self, agent: str, problem: str) -> None:
        try:
            now = self.memory.clock.now()
            failure = f"the last sync failed: {problem}"
            report_problem(self.memory.resources.documents, self.memory.owner, agent, SYNC_PROBLEM, failure, now, make=True)
            forget_deleted(self.memory.resources, agent)
        # The index cannot be written, or the agent was deleted. The log already has the problem.
        except MemtapeError as error:
            log.warning("and the health of the index cannot be updated: %s", error)


@contextmanager
def syncing_documents(
    memory: Memory, every_minutes: float = SYNC_MINUTES, *, agents: Collection[str] | None = None,
    on_sync: Callable[[SyncOutcome], object] = lambda outcome: None, ends_seconds: float = STOP_TIMEOUT_SECONDS,
) -> Iterator[None]:  # fmt: skip
    """Keep documents in sync during the block, in a thread of its own. At the end it gets some time to stop."""
    end, ended = Event(), Event()
    sync = DocumentSync(memory, every_minutes, agents=agents, on_sync=on_sync)

    def work() -> None:
        try:
            sync.run(end)
        finally:
            ended.set()

    thread = Thread(target=work, name="memtape-documents", daemon=True)
    try:
        thread.start()
        yield
    # Also after ctrl-C during the start: the store must not be closed while the thread uses it.
    finally:
        end.set()
        if ended.wait(timeout=ends_seconds):
            thread.join()
