"""Ticks of a simulation that wait to be written together: one transaction for many.

No transaction is open while ticks wait, so a strategy or a model may take its time. A reader or writer that uses the same
`Memory` in between finds everything: the waiting ticks are written first (`Resources.write_waiting`). Another process sees
them once they are written. If the process ends without warning, waiting ticks are lost, and the same run records them again.
"""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import Protocol

from memtape.core.observed import Tick
from memtape.engine.resources import Resources
from memtape.engine.write.log_writer import Receipt


class TickRecorder(Protocol):
    """An agent that records several ticks at once."""

    @property
    def resources(self) -> Resources: ...

    def observe_ticks(
        self, ticks: Sequence[Tick], *, until_lessons_due: bool = False, simulated: bool = False
    ) -> list[Receipt]:  # fmt: skip
        """Record ticks."""
        ...


class WaitingTicks:
    """Gathers ticks, and writes them `size` at a time.

    `on_receipt` is called with each tick that was written, in order. If a tick makes lessons due, it is called before any later
    tick is written, so that it can draw them.
    """

    def __init__(self, agent: TickRecorder, on_receipt: Callable[[Tick, Receipt], object] | None, size: int) -> None:
        self._agent, self._on_receipt, self._size = agent, on_receipt, size
        self._ticks: list[Tick] = []
        self._turn = threading.RLock()
        self._is_writing = False

    def __enter__(self) -> WaitingTicks:
        self._agent.resources.waiting.append(self.write)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        # What was decided before an error is recorded, as it would have been one by one.
        try:
            self.write()
        finally:
            self._agent.resources.waiting.remove(self.write)

    def add(self, tick: Tick) -> None:
        """Add a tick, and write all of them if they are enough."""
        self._ticks.append(tick)
        if len(self._ticks) >= self._size:
            self.write()

    def write(self) -> None:
        """Write the ticks that wait. Does nothing while they are being written."""
        with self._turn:
            if self._is_writing:
                return
            self._is_writing = True
            try:
                while self._ticks:
                    until_due = self._on_receipt is not None
                    with _collector_paused():
                        receipts = self._agent.observe_ticks(self._ticks, until_lessons_due=until_due, simulated=True)
                    written, self._ticks = self._ticks[: len(receipts)], self._ticks[len(receipts) :]
                    for tick, receipt in zip(written, receipts, strict=True):
                        if self._on_receipt is not None:
                            self._on_receipt(tick, receipt)
            finally:
                self._is_writing = False


@contextmanager
def _collector_paused() -> Iterator[None]:
    """Pause the search for objects that refer to each other in circles.

    Writing a batch makes a hundred thousand objects that live until its end and hardly a circle among them. Without the pause a
    tenth of the time of a simulation goes into looking through them again and again.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
