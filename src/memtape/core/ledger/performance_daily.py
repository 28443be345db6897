"""Figures of daily equity: annualised Sharpe and Sortino, volatility, growth, drawdown.

The equity at the end of each UTC day gives one return per day. An account with any record on a weekend is counted by calendar
days, 365 a year; any other by weekdays, 252 a year. Where nobody stated an equity there are no returns: then the daily profits in
money are used, and everything that is a share of the equity stays unknown.

>>> from datetime import UTC
>>> noon = [datetime(2026, 6, 1, 12, tzinfo=UTC) + timedelta(days=n) for n in range(5)]
>>> daily = daily_equity([(t, Decimal(nav)) for t, nav in zip(noon, (100, 110, 99, 99, 132), strict=True)])
>>> daily.clock, [round(r, 4) for r in daily.changes]
('weekdays, 252 a year', [0.1, -0.1, 0.0, 0.3333])
>>> worst = deepest_fall(daily)
>>> round(worst.depth, 6), worst.days_to_trough, worst.recovered_on, worst.days_under_water
(0.1, 1, '2026-06-05', 3)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal, localcontext
from functools import cached_property
from math import isfinite, sqrt
from typing import NamedTuple, cast

from memtape.core.codec import MICROSECOND
from memtape.core.ledger.performance import Curve
from memtape.core.value_class import dataclass
from memtape.core.values import MONEY, ZERO

CALENDAR_DAYS, WEEKDAYS = 365, 252
DAY = timedelta(days=1)
MIDNIGHT = time()
MIN_DAYS = 2
SAME_RETURN = 1e-12  # a spread of returns below this share of them is rounding
NO_EQUITY = "nobody stated an equity to take a share of"
RUINED = "equity fell to zero or below"

Points = Sequence[tuple[datetime, Decimal]]


@dataclass(frozen=True, slots=True)
class ClockedFigure:
    """A figure with its sample size and the clock by which the sample was counted; None with the reason why."""

    value: float | None
    n: int
    clock: str
    why: str = ""


@dataclass(frozen=True, slots=True)
class ClockedMoney:
    """An amount in the account currency, with its sample size and clock; None with the reason why."""

    value: Decimal | None
    n: int
    clock: str
    why: str = ""


@dataclass(frozen=True)
class DailyEquity:
    """The equity at the end of each day; in money, the sum of the profits so far."""

    start: Decimal  # before the first day
    days: tuple[date, ...]
    values: tuple[Decimal, ...]
    days_per_year: int
    in_money: bool
    start_on: date | None = None  # the day of the first record, if it is its only one
    navs: tuple[Decimal, ...] = ()  # the same days in money, where deposits and withdrawals make that another series
    start_nav: Decimal | None = None

    @property
    def clock(self) -> str:
        """By which days it is counted."""
        return f"{'calendar days' if self.days_per_year == CALENDAR_DAYS else 'weekdays'}, {self.days_per_year} a year"

    @property
    def is_ruined(self) -> bool:
        """True if returns have no meaning, because the equity was not always above zero."""
        return not self.in_money and min(self.start, *self.values) <= 0

    @cached_property
    def changes(self) -> tuple[float, ...]:
        """The return of each day; in money, its profit."""
        values = [float(value) for value in self.values]
        before = [float(self.start), *values[:-1]]
        if self.in_money:
            return tuple(value - last for value, last in zip(values, before, strict=True))
        return tuple(value / last - 1.0 if last else 0.0 for value, last in zip(values, before, strict=True))

    def figure(self, value: float | None, why: str = "") -> ClockedFigure:
        """Returns a figure of this series. A number that is no number is none."""
        known = value if value is not None and isfinite(value) else None
        return ClockedFigure(known, len(self.days), self.clock, why if known is None else "")


@dataclass(frozen=True, slots=True, kw_only=True)
class FallFromPeak:
    """A fall of daily equity from a peak: how deep, and for how long."""

    depth: float | None  # a share of the peak; None if no equity is stated
    depth_usd: Decimal
    peak_on: str | None  # None: the equity before the first day
    trough_on: str
    recovered_on: str | None  # None: not yet
    days_to_trough: int  # calendar days
    days_under_water: int  # calendar days until it recovered, or until the last day
    n: int  # days looked at
    clock: str


def daily_growth(curve: Curve) -> DailyEquity | None:
    """Returns the equity at the end of each UTC day as it would have grown without deposits and withdrawals."""
    before_entry = curve.source != "marks"
    daily = daily_equity(curve.growth, in_money=curve.assumed, before_entry=before_entry)
    if daily is None or curve.growth is curve.points:
        return daily
    in_money = daily_equity(curve.points, before_entry=before_entry)
    assert in_money is not None
    return replace(daily, navs=in_money.values, start_nav=in_money.start)


def daily_equity(points: Points, *, in_money: bool = False, before_entry: bool = False) -> DailyEquity | None:
    """Returns the equity at the end of each UTC day, from points in order of time; None if they span no day.

    With `before_entry` the first point is the equity before the first trade, not a record: the day of the entry counts.
    """
    if len(points) < MIN_DAYS:
        return None
    start = points[0][1]
    # The first record is what the first return starts from. Its own day has a return only if there is a later record in it.
    first, start_on = ended_day(points[0][0]), None
    # At midnight the day before ends: who begins then has seen nothing of it.
    at_midnight = points[0][0].astimezone(UTC).time() == MIDNIGHT
    if ended_day(points[1][0]) > first and (at_midnight or not before_entry):
        start_on = None if at_midnight else first
        points, first = points[1:], first + DAY
    last_of_day: dict[date, Decimal] = {ended_day(at): nav for at, nav in points}
    on_weekends = any(day.weekday() >= 5 for day in last_of_day)
    last = max(last_of_day)
    days: list[date] = []
    values: list[Decimal] = []
    nav, ground = start, start if in_money else ZERO
    with localcontext(MONEY):
        for day in (first + n * DAY for n in range((last - first).days + 1)):
            nav = last_of_day.get(day, nav)
            if on_weekends or day.weekday() < 5:
                days.append(day)
                values.append(nav - ground)
    per_year = CALENDAR_DAYS if on_weekends else WEEKDAYS
    return DailyEquity(ZERO if in_money else start, tuple(days), tuple(values), per_year, in_money, start_on)


def ended_day(at: datetime) -> date:
    """Returns the UTC day in which something happened; what happens at midnight ends the day before.

    >>> [ended_day(datetime(2026, 6, 6, hour, tzinfo=UTC)).isoformat() for hour in (0, 1)]
    ['2026-06-05', '2026-06-06']
    """
    return (at.astimezone(UTC) - MICROSECOND).date()


def sharpe(daily: DailyEquity) -> ClockedFigure:
    """Returns mean over standard deviation of the daily returns, annualised, without a risk-free rate."""
    if why := _no_returns(daily):
        return daily.figure(None, why)
    mean, spread = _mean(daily.changes), _deviation(daily.changes)
    # Equal returns differ by the rounding of floats.
    varies = spread > SAME_RETURN * max(map(abs, daily.changes))
    return daily.figure(mean / spread * sqrt(daily.days_per_year) if varies else None, "all days are alike")


def sortino(daily: DailyEquity) -> ClockedFigure:
    """Returns mean over downside deviation of the daily returns, annualised; days without a loss count as zero."""
    if why := _no_returns(daily):
        return daily.figure(None, why)
    downside = sqrt(sum(min(change, 0.0) ** 2 for change in daily.changes) / len(daily.changes))
    return daily.figure(_mean(daily.changes) / downside * sqrt(daily.days_per_year) if downside else None, "no losing day")


def volatility(daily: DailyEquity) -> ClockedFigure:
    """Returns the standard deviation of the daily returns, annualised, as a share of equity."""
    if why := _no_shares(daily):
        return daily.figure(None, why)
    return daily.figure(_deviation(daily.changes) * sqrt(daily.days_per_year))


def total_return(daily: DailyEquity) -> ClockedFigure:
    """Returns the growth over the whole time, as a share of the equity at its start."""
    return daily.figure(None, NO_EQUITY) if daily.in_money else daily.figure(_growth(daily), RUINED)


def growth_rate(daily: DailyEquity) -> ClockedFigure:
    """Returns the compound annual growth rate (CAGR)."""
    if why := _no_shares(daily):
        return daily.figure(None, why)
    grown = _growth(daily)
    try:
        rate = None if grown is None else (1.0 + grown) ** (daily.days_per_year / len(daily.days)) - 1.0
    except OverflowError:
        rate = None
    return daily.figure(rate, "too few days to grow by the year")


def calmar(daily: DailyEquity) -> ClockedFigure:
    """Returns the annual growth rate over the deepest fall of daily equity."""
    rate = growth_rate(daily)
    if rate.value is None:
        return rate
    fall = deepest_fall(daily)
    return daily.figure(rate.value / fall.depth if fall and fall.depth else None, "equity never fell")


def deepest_fall(daily: DailyEquity) -> FallFromPeak | None:
    """Returns the deepest fall from a peak; None if the equity never fell."""
    falls = _falls(daily)
    return max(falls, key=lambda fall: float(fall.depth_usd) if fall.depth is None else fall.depth) if falls else None


def longest_fall(daily: DailyEquity) -> FallFromPeak | None:
    """Returns the fall that lasted longest, from its peak until it recovered or until the last day."""
    falls = _falls(daily)
    return max(falls, key=lambda fall: fall.days_under_water) if falls else None


def _falls(daily: DailyEquity) -> list[FallFromPeak]:
    """Returns every fall from a peak, in order. The last one may go on."""
    found: list[FallFromPeak] = []
    peak = _Day(daily.start_on, daily.start, daily.start if daily.start_nav is None else daily.start_nav)
    under: list[_Day] = []
    for day in map(_Day, daily.days, daily.values, daily.navs or daily.values):
        if day.value < peak.value:
            under.append(day)
            continue
        if under:
            found.append(_fall(daily, peak, under, day.on))
            under = []
        peak = day
    if under:
        found.append(_fall(daily, peak, under, None))
    return found


class _Day(NamedTuple):
    """The end of a day."""

    on: date | None  # None: before the first day
    value: Decimal
    nav: Decimal  # in money


def _fall(daily: DailyEquity, peak: _Day, under: Sequence[_Day], recovered_on: date | None) -> FallFromPeak:
    lowest = min(under, key=lambda day: (day.value, day.on))
    began, trough_on, last = peak.on or daily.days[0] - DAY, cast(date, lowest.on), cast(date, under[-1].on)
    with localcontext(MONEY):
        share = float((peak.value - lowest.value) / peak.value) if peak.value > 0 and not daily.in_money else None
        # What was lost on more money than there was at the peak, or on less.
        fallen = max(peak.nav - lowest.nav, ZERO)
    return FallFromPeak(
        depth=share, depth_usd=fallen, peak_on=peak.on.isoformat() if peak.on else None, trough_on=trough_on.isoformat(),
        recovered_on=recovered_on.isoformat() if recovered_on else None, days_to_trough=(trough_on - began).days,
        days_under_water=((recovered_on or last) - began).days, n=len(daily.days), clock="end of the UTC day",
    )  # fmt: skip


def _no_returns(daily: DailyEquity) -> str:
    """Returns why there is no ratio of returns; empty if there is one."""
    if daily.is_ruined:
        return RUINED
    return "" if len(daily.days) >= MIN_DAYS else f"needs {MIN_DAYS} days"


def _no_shares(daily: DailyEquity) -> str:
    return NO_EQUITY if daily.in_money else _no_returns(daily)


def _growth(daily: DailyEquity) -> float | None:
    return float(daily.values[-1]) / float(daily.start) - 1.0 if daily.start > 0 else None


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def _deviation(values: Sequence[float]) -> float:
    mean = _mean(values)
    return sqrt(sum((value - mean) ** 2 for value in values) / (len(values) - 1))
