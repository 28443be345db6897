"""The figures of a simulated run, each with its number of observations.

Figures of trades come from the ledger, figures of the account from its equity at each tick. The Sharpe ratio uses returns between
the last equities of UTC days with bars, and is annualised by the number of such days that the run had in a year.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import Decimal
from itertools import pairwise
from math import sqrt
from statistics import fmean, stdev
from typing import Protocol

from memtape.core.ledger.performance import Curve

YEAR_DAYS = 365.25
EquityPath = Sequence[tuple[datetime, Decimal]]


class TradeRow(Protocol):
    """The fields of a trade that a report uses."""

    @property
    def symbol(self) -> str: ...
    @property
    def side(self) -> str: ...
    @property
    def status(self) -> str: ...
    @property
    def entry_at(self) -> datetime: ...
    @property
    def exit_at(self) -> datetime | None: ...
    @property
    def entry_price(self) -> Decimal | None: ...
    @property
    def exit_price(self) -> Decimal | None: ...
    @property
    def net_pnl_usd(self) -> Decimal | None: ...
    @property
    def pnl_r(self) -> Decimal | float | None: ...
    @property
    def exit_trigger(self) -> str | None: ...
    @property
    def entry_reason(self) -> str | None: ...


@dataclass(frozen=True, slots=True)
class SharpeRatio:
    """Mean over deviation of daily returns, annualised, and the days it is based on."""

    value: float | None
    n: int
    clock: str


def max_drawdown_pct(start: Decimal, path: EquityPath) -> float:
    """Returns the deepest fall of equity from a high, in percent of that high.

    >>> day = datetime(2024, 1, 1)
    >>> max_drawdown_pct(Decimal(100), [(day, Decimal(120)), (day, Decimal(90)), (day, Decimal(130))])
    25.0
    """
    if not path:
        return 0.0
    return float(Curve(((path[0][0], start), *path), "marks").max_drawdown[1])


def sharpe_ratio(start: Decimal, path: EquityPath) -> SharpeRatio:
    """Returns the daily Sharpe ratio without a risk-free rate, annualised by the days of the run."""
    daily: dict[date, float] = {}
    for moment, equity in path:
        # Midnight belongs to the day before it.
        daily[(moment - timedelta(microseconds=1)).date()] = float(equity)
    closes = [float(start), *daily.values()]
    if len(daily) < 3 or min(closes) <= 0:
        return SharpeRatio(None, 0, "fewer than three UTC days with bars, or no equity left")
    returns = [after / before - 1 for before, after in pairwise(closes)]
    days = list(daily)
    per_year = len(returns) / (((days[-1] - days[0]).days + 1) / YEAR_DAYS)
    clock = f"{len(returns)} UTC days with bars, {per_year:.0f} of them a year"
    deviation = stdev(returns)
    return SharpeRatio(fmean(returns) / deviation * sqrt(per_year) if deviation else None, len(returns), clock)
