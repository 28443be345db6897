"""Keeps a lease while a model works."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from threading import Event, Thread

from memtape.errors import MemtapeError

log = logging.getLogger(__name__)


@contextmanager
def holding_lease(extend: Callable[[], bool], lease_time: timedelta, what: str) -> Iterator[None]:
    """Extend a lease from a thread of its own until the block ends; `extend` returns False once it is lost."""
    ended = Event()

    def keep() -> None:
        while not ended.wait(lease_time.total_seconds() / 3):
            try:
                if not extend():
                    return
            except MemtapeError as problem:
                # A store that is locked for a moment: the lease lasts for two more attempts.
                log.warning("the lease of %s was not extended: %s", what, problem)

    thread = Thread(target=keep, name=f"memtape-lease-{what.replace(' ', '-')}", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join(timeout=5)
