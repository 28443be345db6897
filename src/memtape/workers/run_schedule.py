"""The schedule of runs in `memtape serve`: agents that are due are run, each in a thread of its own.

The store says who is due, so any number of servers may do this, and a server that was off runs each agent once, not once for
every moment it missed. A run that a dead process left behind is ended as lost.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from threading import Lock, Thread
from typing import TypeVar

from memtape.core.decisions.schedules import parse_schedule, schedule_due
from memtape.engine import Memory
from memtape.errors import Conflict, MemtapeError
from memtape.workers.repeat import repeating

CHECK_SECONDS = 10.0
log = logging.getLogger(__name__)

Found = TypeVar("Found")
RunDue = Callable[[str, datetime], object]  # runs an agent for a moment of its schedule


def due_agents(memory: Memory) -> list[tuple[str, datetime]]:
    """The agents whose schedule is due now, each with the moment of the schedule."""
    return _of_each_agent(memory, lambda agent: _due_slot(memory, agent))


def end_lost_runs(memory: Memory) -> list[str]:
    """End the runs whose process died; returns their ids."""
    return [run.id for _, run in _of_each_agent(memory, lambda agent: memory.agent(agent).runs.end_lost())]


def _due_slot(memory: Memory, agent: str) -> datetime | None:
    configured = memory.agent_config(agent)
    if configured.config.schedule is None or configured.config.runner is None or configured.scheduled_since is None:
        return None
    last = memory.agent(agent).runs.last_scheduled()
    return schedule_due(parse_schedule(configured.config.schedule), memory.clock.now(), configured.scheduled_since, last).slot


def _of_each_agent(memory: Memory, look: Callable[[str], Found | None]) -> list[tuple[str, Found]]:
    """What a look at each agent finds. An agent whose record has a problem keeps no other from its schedule."""
    found: list[tuple[str, Found]] = []
    for agent in memory.agents():
        try:
            each = look(agent.id)
        except MemtapeError as problem:
            log.warning("the schedule of %s could not be read: %s", agent.id, problem)
            continue
        if each is not None:
            found.append((agent.id, each))
    return found


class RunSchedule:
    """Starts due runs, at most one per agent in this process."""

    def __init__(self, memory: Memory, run: RunDue) -> None:
        self._memory, self._run = memory, run
        self._at_work: dict[str, Thread] = {}
        self._lock = Lock()

    def start_due(self) -> list[str]:
        """Start a run of every agent that is due; returns which."""
        end_lost_runs(self._memory)
        started: list[str] = []
        for agent, slot in due_agents(self._memory):
            with self._lock:
                if agent in self._at_work:
                    continue
                thread = Thread(target=self._work, args=(agent, slot), name=f"memtape-scheduled-{agent}", daemon=True)
                self._at_work[agent] = thread
            thread.start()
            started.append(agent)
        return started

    def _work(self, agent: str, slot: datetime) -> None:
        try:
            self._run(agent, slot)
        except Conflict:
            # A chat or another server has the agent now; it is due again at the next look.
            log.info("%s is busy; its scheduled run waits", agent)
        except MemtapeError as problem:
            log.warning("the scheduled run of %s did not begin: %s", agent, problem)
        # The outermost edge: a bug must be logged and must not end the schedule.
        except Exception:
            log.exception("the scheduled run of %s failed", agent)
        finally:
            with self._lock:
                self._at_work.pop(agent, None)

    def join(self, seconds: float) -> None:
        """Wait a moment for the runs at work. A run that goes on is ended as lost by the next process."""
        with self._lock:
            threads = list(self._at_work.values())
        for thread in threads:
            thread.join(timeout=seconds)


@contextmanager
def running_agents(memory: Memory, run: RunDue, every_seconds: float = CHECK_SECONDS) -> Iterator[RunSchedule]:
    """Run due agents during the block."""
    schedule = RunSchedule(memory, run)
    with repeating(schedule.start_due, "starting due runs", every_seconds):
        yield schedule
    schedule.join(1)
