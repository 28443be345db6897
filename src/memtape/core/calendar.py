"""Scheduled events as plans and decisions use them: the next one, the last one, and its surprise.

>>> from datetime import UTC, datetime, timedelta
>>> at = datetime(2026, 6, 5, 12, 0, tzinfo=UTC)
>>> nfp = CalendarEvent(id="nfp", t=at + timedelta(minutes=30), name="NFP", currency="USD", impact="high", forecast=180.0)
>>> calendar_fields([nfp], at)
{'event': 'NFP', 'event_impact': 'high', 'event_currency': 'USD', 'minutes_to_event': 30.0}
>>> from dataclasses import replace
>>> released = replace(nfp, actual=210.0)
>>> calendar_fields([released], at + timedelta(minutes=45))["event_surprise"]
30.0
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Annotated, ClassVar, Literal

from pydantic import ConfigDict, Field

from memtape.core.values import STRICT, Key, Label, Time

MINUTE = timedelta(minutes=1)
SCHEDULE_KNOWN_AHEAD = timedelta(days=30)  # how long before an event its schedule is known
EVENT_HORIZON = timedelta(days=1)  # events further away than this, before or after, are ignored
Impact = Literal["low", "medium", "high", "holiday"]
_Figure = Annotated[float, Field(allow_inf_nan=False)]


@dataclass(frozen=True, slots=True, kw_only=True)
class CalendarEvent:
    """A scheduled release or meeting. `actual` is known only after it."""

    __pydantic_config__: ClassVar[ConfigDict] = STRICT
    id: Key
    t: Time
    name: Label
    currency: Label | None = None
    impact: Impact | None = None
    actual: _Figure | None = None
    forecast: _Figure | None = None
    previous: _Figure | None = None

    @property
    def surprise(self) -> float | None:
        """Actual minus forecast, in the unit of the release."""
        return None if self.actual is None or self.forecast is None else self.actual - self.forecast


def calendar_fields(events: Iterable[CalendarEvent], at: datetime) -> dict[str, object]:
    """Returns the calendar fields that a trigger can use: the next event within a day, else the last one."""
    near = [e for e in events if abs(e.t - at) <= EVENT_HORIZON]
    ahead = sorted((e for e in near if e.t > at), key=lambda e: (e.t, _weight(e), e.id))
    behind = sorted((e for e in near if e.t <= at), key=lambda e: (e.t, -_weight(e), e.id))
    found: dict[str, object] = {}
    if ahead:
        found["minutes_to_event"] = (ahead[0].t - at) / MINUTE
    if behind:
        found["minutes_since_event"] = (at - behind[-1].t) / MINUTE
        if behind[-1].surprise is not None:
            found["event_surprise"] = behind[-1].surprise
    nearest: Sequence[CalendarEvent] = ahead[:1] or behind[-1:]
    for event in nearest:
        named = {"event": event.name, "event_impact": event.impact, "event_currency": event.currency}
        found = {**{name: value for name, value in named.items() if value is not None}, **found}
    return found


def _weight(event: CalendarEvent) -> int:
    """Returns the rank of an event among events at the same time: the highest impact first."""
    return ("high", "medium", "low", "holiday", None).index(event.impact)


def backfilled_versions(event: CalendarEvent) -> list[tuple[CalendarEvent, datetime]]:
    """Returns a past event as it became known: its schedule a month ahead, the actual value at its release."""
    schedule = [(replace(event, actual=None), event.t - SCHEDULE_KNOWN_AHEAD)]
    return schedule if event.actual is None else [*schedule, (event, event.t)]


def upcoming_events(events: Iterable[CalendarEvent], at: datetime, within: timedelta) -> list[CalendarEvent]:
    """Returns the events from a moment on, within a duration, in order."""
    return sorted((e for e in events if at <= e.t <= at + within), key=lambda e: (e.t, e.id))
