"""What runs on a schedule while memtape serves: each minute, lessons are drawn for the agents that are due.

Whether they are due is read from the store, and a lease keeps other processes from drawing them too, so any number of servers may
run this. One agent's trouble is told in the log and does not keep the others waiting.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event, Thread

from memtape.engine import Memory
from memtape.engine.lessons import ReflectionResult
from memtape.errors import MemtapeError

SCHEDULE_SECONDS = 60.0
log = logging.getLogger(__name__)


def reflect_due(memory: Memory) -> dict[str, ReflectionResult]:
    """Draw the lessons that are due, agent by agent; what came of each that was."""
    done: dict[str, ReflectionResult] = {}
    for agent in memory.agents():
        try:
            found = memory.agent(agent.id).lessons.reflect_if_due()
        except MemtapeError as problem:
            log.warning("no lessons for %s: %s", agent.id, problem)
            continue
        if found.note is not None or found.failed is not None:
            done[agent.id] = found
        if found.failed is not None and not found.waits:
            log.warning("no lessons for %s: %s; tried again at %s", agent.id, found.failed.why, found.failed.retry_at)
    return done


@contextmanager
def running_schedule(memory: Memory, every_seconds: float = SCHEDULE_SECONDS) -> Iterator[None]:
    """The schedule, in a thread of its own for as long as the block lasts."""
    ended = Event()

    def work() -> None:
        while not ended.is_set():
            try:
                reflect_due(memory)
            except Exception:  # the outermost edge: a bug of ours must neither hide nor end the schedule
                log.exception("the schedule failed")
            ended.wait(every_seconds)

    thread = Thread(target=work, name="memtape-schedule", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join(timeout=5)
