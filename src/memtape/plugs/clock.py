"""The only place where memtape reads the time, and the signal that ends waiting."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Protocol

from memtape.core.value_class import dataclass


class Clock(Protocol):
    """A source of the present time, aware and in UTC."""

    def now(self) -> datetime:
        """The present moment."""
        ...


class StopSignal(Protocol):
    """Says when to stop; a `threading.Event` is one."""

    def is_set(self) -> bool:
        """Returns True if it is time to stop."""
        ...

    def wait(self, timeout: float, /) -> bool:
        """Waits so many seconds, or less if it is time to stop. Returns True if it is."""
        ...


class SystemClock:
    """The machine's clock."""

    def now(self) -> datetime:
        """The present moment."""
        return datetime.now(UTC)


@dataclass(slots=True)
class FixedClock:
    """A clock that does not move, for tests and replays."""

    at: datetime

    def now(self) -> datetime:
        """The moment it was set to."""
        return self.at
