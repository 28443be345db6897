"""Decides when a reflection is due: after every N closed trades, daily at an hour of UTC, or never.

The decision depends only on what is stored: how many trades are closed, and how many the last reflection counted. So two closes
in one tick cause one reflection, a restart loses nothing, and every process decides the same. A failed reflection is tried again
after a wait that grows with each failure.

>>> from datetime import UTC
>>> at = datetime(2026, 6, 4, 9, 30, tzinfo=UTC)
>>> due_trigger(ReflectionConfig(everyNTrades=10), closed=21, counted=9, last_at=None, at=at)
ReflectionTrigger(key='per-10-trades:2', why='21 trades closed, 9 when it last ran; due after every 10')
>>> due_trigger(ReflectionConfig(everyNTrades=10), closed=19, counted=11, last_at=None, at=at) is None
True
>>> due_trigger(ReflectionConfig(cadence="daily", dailyHourUtc=8), closed=3, counted=2, last_at=at - timedelta(days=1), at=at).key
'daily:2026-06-04'
"""

from __future__ import annotations

from datetime import datetime, timedelta

from memtape.core.skills import ReflectionConfig
from memtape.core.value_class import dataclass

FIRST_WAIT, LONGEST_WAIT = timedelta(minutes=1), timedelta(hours=6)


@dataclass(frozen=True, slots=True)
class ReflectionTrigger:
    """The reason why a reflection is due. There is at most one reflection per key."""

    key: str
    why: str


def due_trigger(
    config: ReflectionConfig, *, closed: int, counted: int, last_at: datetime | None, at: datetime
) -> ReflectionTrigger | None:
    """Returns the trigger if a reflection is due, else None.

    `closed` trades are closed now; the last reflection, made at `last_at`, counted `counted`.
    """
    if config.cadence == "off" or not closed:
        return None
    if config.cadence == "per_n_trades":
        every = config.everyNTrades
        # If fewer trades are closed than were counted, some were taken back. Lessons may rest on them, so a reflection is due.
        if closed // every <= counted // every and closed >= counted:
            return None
        why = f"{closed} trades closed, {counted} when it last ran; due after every {every}"
        return ReflectionTrigger(f"per-{every}-trades:{closed // every}", why)
    hour = at.replace(hour=config.dailyHourUtc, minute=0, second=0, microsecond=0)
    passed = hour if hour <= at else hour - timedelta(days=1)
    # A last reflection in the future is a clock error and does not count.
    if (last_at is not None and passed <= last_at <= at) or closed == counted:
        return None
    return ReflectionTrigger(
        f"daily:{passed:%Y-%m-%d}", f"{config.dailyHourUtc:02d}:00 UTC has passed; {closed - counted:+d} trades since"
    )


def next_attempt_at(failures: int, last: datetime) -> datetime:
    """Returns when to retry after this many failures in a row: a minute later, two, four, at most six hours.

    >>> from datetime import UTC
    >>> noon = datetime(2026, 6, 4, 12, tzinfo=UTC)
    >>> [(next_attempt_at(n, noon) - noon).total_seconds() / 60 for n in (1, 2, 3, 20)]
    [1.0, 2.0, 4.0, 360.0]
    """
    doubled = FIRST_WAIT * 2.0 ** min(failures - 1, 20)
    return last + min(doubled, LONGEST_WAIT)
