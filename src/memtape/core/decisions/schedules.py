"""Schedules: when an agent is to run. Either `every 15m` (m, h, d) or a cron of five fields; all times are UTC.

A schedule is a series of moments, its slots. An agent is due when the latest slot lies after its last scheduled run and after the
moment at which the schedule was configured. However many slots were missed, one run makes up for them.

>>> from datetime import UTC, datetime
>>> monday = datetime(2026, 3, 2, 10, 20, tzinfo=UTC)
>>> configured, last_run = monday.replace(hour=0), monday.replace(hour=9, minute=59)
>>> due = schedule_due(parse_schedule("every 15m"), monday, configured, last_run)
>>> due.due, f"{due.slot:%H:%M}", f"{due.next:%H:%M}"
(True, '10:15', '10:30')
>>> schedule_due(parse_schedule("0 0 29 2 *"), monday, configured, None).next.isoformat()
'2028-02-29T00:00:00+00:00'
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from typing import Final

from memtape.core.codec import EPOCH
from memtape.errors import Invalid

MAX_PERIOD_DAYS = 1_000_000  # a longer period has no slot that a calendar can name
DAY: Final = timedelta(days=1)
_FIX = "Write `every 15m` (m, h or d), or a cron of five fields in UTC, like `30 7 * * mon-fri`"
_EVERY = re.compile(r"every ([0-9]{1,12})([mhd])")
_UNITS = {"m": timedelta(minutes=1), "h": timedelta(hours=1), "d": DAY}
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_WEEKDAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_LONGEST = {2: 29, 4: 30, 6: 30, 9: 30, 11: 30}  # days of the shorter months


@dataclass(frozen=True, slots=True)
class PeriodSchedule:
    """Slots at all multiples of a period since 1970, so that `every 15m` means :00, :15, :30 and :45."""

    text: str
    period: timedelta

    def latest(self, now: datetime) -> datetime:
        """Returns the last slot at or before a moment."""
        return EPOCH + (now - EPOCH) // self.period * self.period

    def following(self, now: datetime) -> datetime:
        """Returns the first slot after a moment."""
        return self.latest(now) + self.period


@dataclass(frozen=True, slots=True)
class CronSchedule:
    """Slots at certain minutes of the days that fit. `either_day`: a fitting day of the month or weekday is enough."""

    text: str
    minutes_of_day: tuple[int, ...]  # ascending
    days: frozenset[int]
    months: frozenset[int]
    weekdays: frozenset[int]  # 0 is Sunday
    either_day: bool

    def latest(self, now: datetime) -> datetime:
        """Returns the last slot at or before a moment."""
        days, passed = self._days(now.date(), -1), bisect_right(self.minutes_of_day, _minute_of_day(now))
        day = next(days)
        if day == now.date() and passed:
            return _moment(day, self.minutes_of_day[passed - 1])
        return _moment(next(days) if day == now.date() else day, self.minutes_of_day[-1])

    def following(self, now: datetime) -> datetime:
        """Returns the first slot after a moment."""
        days, passed = self._days(now.date(), 1), bisect_right(self.minutes_of_day, _minute_of_day(now))
        day = next(days)
        if day == now.date() and passed < len(self.minutes_of_day):
            return _moment(day, self.minutes_of_day[passed])
        return _moment(next(days) if day == now.date() else day, self.minutes_of_day[0])

    def _days(self, day: date, step: int) -> Iterator[date]:
        """Yields the days that fit, from a day on, forwards or backwards. A month that does not fit is skipped as a whole."""
        while True:
            if day.month not in self.months:
                first = day.replace(day=1)
                day = first - DAY if step < 0 else (first + 31 * DAY).replace(day=1)
                continue
            by_day, by_weekday = day.day in self.days, day.isoweekday() % 7 in self.weekdays
            if (by_day or by_weekday) if self.either_day else (by_day and by_weekday):
                yield day
            day += step * DAY


Schedule = PeriodSchedule | CronSchedule


@dataclass(frozen=True, slots=True)
class DueSlot:
    """Whether a run is due, for which slot, and when the next one comes."""

    due: bool
    slot: datetime | None  # the latest slot; None: not due
    next: datetime


def schedule_due(schedule: Schedule, now: datetime, configured_at: datetime, last_run: datetime | None) -> DueSlot:
    """Returns whether a run is due now. `last_run` is the start of the last scheduled run, however it ended."""
    now = now.astimezone(UTC)
    slot = schedule.latest(now)
    due = slot > configured_at and (last_run is None or slot > last_run)
    return DueSlot(due, slot if due else None, schedule.following(now))


def parse_schedule(text: str) -> Schedule:
    """Returns the schedule of a text; raises Invalid if it is none, or if no date ever fits it.

    >>> parse_schedule("every 90m").period, parse_schedule("0,30 */12 * * *").minutes_of_day
    (datetime.timedelta(seconds=5400), (0, 30, 720, 750))
    >>> parse_schedule("0 0 30 2 *")
    Traceback (most recent call last):
    memtape.errors.Invalid: schedule: '0 0 30 2 *' never fires: none of its months has such a day. Choose a day that exists
    """
    if found := _EVERY.fullmatch(text):
        count = int(found[1])
        if count == 0 or count > MAX_PERIOD_DAYS * DAY // _UNITS[found[2]]:
            raise Invalid("schedule", f"'{text}' is no period", f"Give a number from 1 to {MAX_PERIOD_DAYS:,} days")
        return PeriodSchedule(text, count * _UNITS[found[2]])
    fields = text.split()
    if len(fields) != 5:
        raise Invalid("schedule", f"'{text}' is neither a period nor a cron of five fields", _FIX)
    minutes = _read_field("minute", fields[0], 0, 59)
    hours = _read_field("hour", fields[1], 0, 23)
    days = _read_field("day of month", fields[2], 1, 31)
    months = _read_field("month", fields[3], 1, 12, _MONTHS)
    weekdays = {value % 7 for value in _read_field("day of week", fields[4], 0, 7, _WEEKDAYS)}
    either_day = not fields[2].startswith("*") and not fields[4].startswith("*")
    # A weekday alone always comes. A day of the month comes, on every weekday, if the month is ever that long.
    if not either_day and min(days) > max(_LONGEST.get(month, 31) for month in months):
        raise Invalid("schedule", f"'{text}' never fires: none of its months has such a day", "Choose a day that exists")
    of_day = tuple(sorted(60 * hour + minute for hour in hours for minute in minutes))
    return CronSchedule(text, of_day, frozenset(days), frozenset(months), frozenset(weekdays), either_day)


def _read_field(name: str, text: str, low: int, high: int, names: tuple[str, ...] = ()) -> set[int]:
    """Returns the values of one field of a cron: a list of *, a, a-b, */n and a-b/n."""
    values: set[int] = set()
    for part in text.split(","):
        span, slash, step_text = part.partition("/")
        first_text, dash, last_text = span.partition("-")
        if span == "*":
            first, last = low, high
        else:
            first = _read_value(name, first_text, low, high, names)
            last = _read_value(name, last_text, low, high, names) if dash else first
        if first > last:
            raise Invalid("schedule", f"{name} '{part}' runs backwards", "Write the smaller value first, or a list")
        # Cron programs disagree on a/n: from a on, or a alone.
        if slash and not (dash or span == "*"):
            raise Invalid("schedule", f"{name} '{part}' has a step but no range", f"Write {first}-{high}/{step_text} or {first}")
        if slash and not (re.fullmatch("[0-9]{1,4}", step_text) and int(step_text)):
            raise Invalid("schedule", f"{name} '{part}' has no step", "Write a whole number from 1 after the slash")
        values.update(range(first, last + 1, int(step_text) if slash else 1))
    return values


def _read_value(name: str, text: str, low: int, high: int, names: tuple[str, ...]) -> int:
    if text.lower() in names:
        return names.index(text.lower()) + low
    if not re.fullmatch("[0-9]{1,4}", text):
        raise Invalid("schedule", f"{name} '{text}' is not a number" + (" or a name like " + names[0] if names else ""), _FIX)
    if not low <= int(text) <= high:
        raise Invalid("schedule", f"{name} {int(text)} lies outside {low}-{high}", f"Give a {name} from {low} to {high}")
    return int(text)


def _minute_of_day(now: datetime) -> int:
    return 60 * now.hour + now.minute


def _moment(day: date, minute: int) -> datetime:
    return datetime.combine(day, time(*divmod(minute, 60)), tzinfo=UTC)
