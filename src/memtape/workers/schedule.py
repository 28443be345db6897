"""The schedule of `memtape serve`: every minute, lessons are drawn for the agents that are due.

The store says who is due, and a lease keeps other processes from drawing the same lessons, so any number of servers may run this.
A problem of one agent goes to the log and does not delay the others.
"""

from __future__ import annotations

import logging
from contextlib import AbstractContextManager

from memtape.engine import Memory
from memtape.engine.reflection import ReflectionResult
from memtape.errors import MemtapeError
from memtape.workers.repeat import repeating

SCHEDULE_SECONDS = 60.0
log = logging.getLogger(__name__)


def reflect_due(memory: Memory) -> dict[str, ReflectionResult]:
    """Draw the lessons that are due. Returns the result of each agent that was due."""
    results: dict[str, ReflectionResult] = {}
    for agent in memory.agents():
        try:
            found = memory.agent(agent.id).lessons.reflect_if_due()
        except MemtapeError as problem:
            log.warning("no lessons for %s: %s", agent.id, problem)
            continue
        if found.note is not None or found.failed is not None:
            results[agent.id] = found
        if found.failed is not None and not found.waits:
            log.warning("no lessons for %s: %s; next attempt at %s", agent.id, found.failed.why, found.failed.retry_at)
    return results


def running_schedule(memory: Memory, every_seconds: float = SCHEDULE_SECONDS) -> AbstractContextManager[None]:
    """Run the schedule during the block, in a thread of its own."""
    return repeating(lambda: reflect_due(memory), "drawing lessons", every_seconds)
