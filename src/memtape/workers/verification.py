"""Verifies the store while `memtape serve` runs, so that the first page can say what was altered.

The first time is soon after the start, then once a day. Where something was found it looks again sooner, because it may have been
repaired.
"""

from __future__ import annotations

import logging
from contextlib import AbstractContextManager
from time import monotonic

from memtape.engine.proof.projection_health import StoreHealth
from memtape.workers.repeat import repeating

AFTER_START_SECONDS = 30.0
WHEN_WELL_SECONDS, WHEN_NOT_SECONDS = 86_400.0, 600.0
LOOK_SECONDS = 30.0  # between two looks at whether it is time
log = logging.getLogger(__name__)


class VerificationSchedule:
    """When the store is verified next."""

    def __init__(self, health: StoreHealth, after_seconds: float = AFTER_START_SECONDS) -> None:
        self._health, self._due = health, monotonic() + after_seconds

    def verify_if_due(self) -> None:
        """Verify the store if it is time."""
        if monotonic() < self._due:
            return
        self._due = monotonic() + WHEN_NOT_SECONDS
        if self._health.verify():
            self._due = monotonic() + WHEN_WELL_SECONDS
        else:
            log.warning("the store does not agree with its log: %s", "; ".join(self._health.problems()))


def verifying_store(health: StoreHealth) -> AbstractContextManager[None]:
    """Verify the store from time to time during the block, in a thread of its own."""
    return repeating(VerificationSchedule(health).verify_if_due, "verifying the store", LOOK_SECONDS)
