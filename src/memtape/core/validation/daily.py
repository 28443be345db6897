"""Daily returns of an account on a grid of weeks, and the same weeks drawn again and again for every approach.

A return belongs to the UTC day on which its trades ended. Approaches are compared on the same draws of weeks, so their
differences are paired. An account with any entry or exit on a weekend has seven days a week and 365 a year; any other has five
and 252.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

import numpy as np
from numpy.typing import NDArray

from memtape.core.validation.account import AccountRun
from memtape.core.validation.decisions import MONDAY, WEEK, WalkedDecision
from memtape.core.validation.resampling import Floats

DAY = timedelta(days=1)
ROLLING_DAYS = 30


@dataclass(frozen=True, slots=True)
class WeekGrid:
    """The weeks of a validation period."""

    first_week: int
    weeks: int
    days_per_week: int
    first_day: int  # place of the first day on the grid
    last_day: int

    @property
    def days_per_year(self) -> int:
        """365 with weekends, else 252."""
        return 365 if self.days_per_week == 7 else 252

    @property
    def clock(self) -> str:
        """By which days it is counted."""
        return f"{'calendar days' if self.days_per_week == 7 else 'weekdays'}, {self.days_per_year} a year"

    @property
    def years(self) -> float:
        """The length of the period."""
        return (self.last_day - self.first_day + 1) / self.days_per_year

    def day(self, at: datetime) -> int:
        """The place of a moment's day on the grid; a weekend counts as the Friday before where weekends are left out."""
        since = at - MONDAY
        week, day = since // WEEK, (since % WEEK) // DAY
        return (week - self.first_week) * self.days_per_week + min(day, self.days_per_week - 1)

    def date(self, place: int) -> datetime:
        """The day at a place of the grid."""
        week, day = divmod(place, self.days_per_week)
        return MONDAY + (self.first_week + week) * WEEK + day * DAY


def week_grid(decisions: Sequence[WalkedDecision]) -> WeekGrid:
    """Returns the grid of some decisions."""
    times = [t for decision in decisions for t in (decision.entry_at, decision.exit_at)]
    first, last = min(times), max(times)
    days = 7 if any(t.weekday() >= 5 for t in times) else 5
    first_week, last_week = (first - MONDAY) // WEEK, (last - MONDAY) // WEEK
    grid = WeekGrid(first_week, last_week - first_week + 1, days, 0, 0)
    return WeekGrid(first_week, grid.weeks, days, grid.day(first), grid.day(last))


def daily_returns(grid: WeekGrid, run: AccountRun) -> Floats:
    """Returns the return of each day of the grid."""
    ends = np.full(grid.weeks * grid.days_per_week, np.nan)
    for at, equity in run.path:
        ends[grid.day(at)] = max(equity, 0.0)
    before, found = run.starting_equity, np.zeros(len(ends))
    for place, equity in enumerate(ends.tolist()):
        if equity == equity:
            found[place] = equity / before - 1.0 if before > 0 else 0.0
            before = equity
    return found


def draw_weeks(grid: WeekGrid, chance: np.random.Generator, resamples: int) -> NDArray[np.int64]:
    """Returns the weeks of each resample, drawn with replacement."""
    return chance.integers(0, grid.weeks, (resamples, grid.weeks))


def redrawn(grid: WeekGrid, returns: Floats, draws: NDArray[np.int64]) -> Floats:
    """Returns the daily returns of each draw, one row each."""
    by_week = returns.reshape(grid.weeks, grid.days_per_week)
    found: Floats = by_week[draws].reshape(len(draws), -1)
    return found


# --- figures of daily returns: one row per account --------------------------------------------------------------------------


def sharpe_of_rows(rows: Floats, days_per_year: int) -> Floats:
    """Returns the annualised Sharpe ratio of each row; NaN where returns never vary."""
    if rows.shape[1] < 2:
        return np.full(len(rows), np.nan)
    with np.errstate(divide="ignore", invalid="ignore"):
        spread = rows.std(axis=1, ddof=1)
        found: Floats = np.where(spread > 1e-15, rows.mean(axis=1) / spread * math.sqrt(days_per_year), np.nan)
    return found


def growth_of_rows(rows: Floats) -> Floats:
    """Returns what one unit of equity became."""
    found: Floats = np.prod(1.0 + rows, axis=1)
    return found


def drawdown_of_rows(rows: Floats) -> Floats:
    """Returns the deepest fall from a peak, as a share of it.

    >>> drawdown_of_rows(np.array([[0.1, -0.5, 0.2]])).round(6).tolist()
    [0.5]
    """
    path = np.concatenate([np.ones((len(rows), 1)), np.cumprod(1.0 + rows, axis=1)], axis=1)
    peak = np.maximum.accumulate(path, axis=1)
    found: Floats = (1.0 - path / peak).max(axis=1)
    return found


def calmar_of_rows(rows: Floats, years: float) -> Floats:
    """Returns annual growth over the deepest fall; NaN where equity never fell."""
    fall = drawdown_of_rows(rows)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        growth = np.maximum(growth_of_rows(rows), 0.0) ** (1.0 / max(years, 1e-9)) - 1.0
        found: Floats = np.where(fall > 1e-12, growth / fall, np.nan)
    return found


def rolling_sharpe(grid: WeekGrid, returns: Floats) -> list[tuple[int, float]]:
    """Returns the Sharpe ratio of the last 30 days at each day of the grid where returns varied."""
    window = round(ROLLING_DAYS * grid.days_per_week / 7)
    found = []
    for end in range(grid.first_day + window, grid.last_day + 2):
        part = returns[end - window : end]
        if (spread := float(part.std(ddof=1))) > 1e-12:
            found.append((end - 1, float(part.mean()) / spread * math.sqrt(grid.days_per_year)))
    return found
