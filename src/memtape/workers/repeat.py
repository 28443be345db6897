"""Work that is repeated in the background while a block runs."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event, Thread

from memtape.errors import MemtapeError

STOP_TIMEOUT_SECONDS = 5.0
log = logging.getLogger(__name__)


@contextmanager
def repeating(work: Callable[[], object], what: str, every_seconds: float) -> Iterator[None]:
    """Do some work again and again during the block, in a thread of its own. A problem is logged, and the work goes on.

    `what` names the work in the log, like "drawing lessons".
    """
    ended = Event()

    def repeat() -> None:
        while not ended.is_set():
            try:
                work()
            except MemtapeError as problem:
                log.warning("%s: %s", what, problem)
            # The outermost edge: a bug must be logged and must not end the work.
            except Exception:
                log.exception("%s failed", what)
            ended.wait(every_seconds)

    thread = Thread(target=repeat, name=f"memtape-{what.replace(' ', '-')}", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join(timeout=STOP_TIMEOUT_SECONDS)
