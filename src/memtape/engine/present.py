"""The moment that a question without one is about."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from memtape.core.codec import EPOCH

if TYPE_CHECKING:
    from memtape.core.skills import Agent
    from memtape.store.rows import Head


def present_of(agent: Agent, head: Head, now: datetime) -> datetime:
    """The last moment observed in a simulation, else the clock's."""
    last = head.known_at
    # Terms that hold from the beginning are known from then on; that is no moment that anybody observed.
    if last is None or last == EPOCH:
        return now
    return last if agent.mode == "sim" else max(now, last)
