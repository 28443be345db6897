"""What a simulated run came to: every figure with the number of observations behind it.

Figures of trades come from the ledger (what the agent remembers), figures of the account from its equity at each tick.
Nothing is annualised with a clock it does not have: the Sharpe ratio is of returns between the last equities of UTC
days with bars, scaled by how many such days the run really had in a year.
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
    """What is read of a trade of the ledger."""

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
class Sharpe:
    """Mean over deviation of daily returns, a year's worth, and the clock it was taken with."""

    value: float | None
    n: int
    clock: str


def max_drawdown_pct(start: Decimal, path: EquityPath) -> float:
    """The deepest fall from a high of the equity, in percent of that high.

    >>> day = datetime(2024, 1, 1)
    >>> max_drawdown_pct(Decimal(100), [(day, Decimal(120)), (day, Decimal(90)), (day, Decimal(130))])
    25.0
    """
    if not path:
        return 0.0
    return float(Curve(((path[0][0], start), *path), "marks").max_drawdown[1])


def sharpe(start: Decimal, path: EquityPath) -> Sharpe:
    """The daily Sharpe ratio without a riskless rate, annualised by the days the run had."""
    daily: dict[date, float] = {}
    for moment, equity in path:
        daily[(moment - timedelta(microseconds=1)).date()] = float(equity)  # midnight closes the day before it
    closes = [float(start), *daily.values()]
    if len(daily) < 3 or min(closes) <= 0:
        return Sharpe(None, 0, "fewer than three UTC days with bars, or no equity left")
    returns = [after / before - 1 for before, after in pairwise(closes)]
    days = list(daily)
    per_year = len(returns) / (((days[-1] - days[0]).days + 1) / YEAR_DAYS)
    clock = f"{len(returns)} UTC days with bars, {per_year:.0f} of them a year"
    deviation = stdev(returns)
    return Sharpe(fmean(returns) / deviation * sqrt(per_year) if deviation else None, len(returns), clock)
