"""The only place where memtape reads the time."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    """A source of the present time, aware and in UTC."""

    def now(self) -> datetime:
        """The present moment."""
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
