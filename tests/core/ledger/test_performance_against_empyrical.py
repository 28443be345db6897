"""The figures of daily equity equal those of empyrical-reloaded on the same daily series."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from random import Random

import pytest

from memtape.core.ledger.performance_daily import (
    DailyEquity,
    calmar,
    daily_equity,
    deepest_fall,
    growth_rate,
    sharpe,
    sortino,
    total_return,
    volatility,
)
from tests.effort import examples

empyrical = pytest.importorskip("empyrical", reason="needs empyrical-reloaded, a dev dependency: run make setup")
pandas = pytest.importorskip("pandas", reason="empyrical needs pandas")

FRIDAY = datetime(2024, 3, 1, 18, tzinfo=UTC)


def random_account(seed: int) -> DailyEquity:
    """An account with gaps, several records on some days, and on every second one records at weekends."""
    chance = Random(seed)
    at, nav = FRIDAY, Decimal(chance.randint(1_000, 100_000))
    points = [(at, nav)]
    for _ in range(chance.randint(20, 400)):
        at += timedelta(hours=chance.choice((3, 9, 24, 24, 24, 60)))
        nav = nav * (1 + Decimal(repr(round(chance.gauss(0.0004, 0.011), 6))))
        if seed % 2 or at.weekday() < 5:
            points.append((at, nav))
    daily = daily_equity(points)
    assert daily is not None
    return daily


@pytest.mark.parametrize("seed", range(examples(12, 400)))
def test_the_figures_of_daily_equity_are_those_of_empyrical(seed: int) -> None:
    daily = random_account(seed)
    returns = pandas.Series(daily.changes, index=pandas.DatetimeIndex(list(daily.days)))
    year = daily.days_per_year
    fall = deepest_fall(daily)
    assert fall is not None and fall.depth is not None
    expected = {
        "sharpe": empyrical.sharpe_ratio(returns, annualization=year),
        "sortino": empyrical.sortino_ratio(returns, annualization=year),
        "volatility": empyrical.annual_volatility(returns, annualization=year),
        "total": empyrical.cum_returns_final(returns),
        "cagr": empyrical.cagr(returns, annualization=year),
        "calmar": empyrical.calmar_ratio(returns, annualization=year),
        "drawdown": -empyrical.max_drawdown(returns),
    }
    ours = {
        "sharpe": sharpe(daily).value, "sortino": sortino(daily).value, "volatility": volatility(daily).value,
        "total": total_return(daily).value, "cagr": growth_rate(daily).value, "calmar": calmar(daily).value,
        "drawdown": fall.depth,
    }  # fmt: skip
    assert ours == pytest.approx({name: float(value) for name, value in expected.items()}, rel=1e-9)


@pytest.mark.parametrize("seed", range(4))
def test_one_record_a_day_gives_the_returns_that_pandas_gives(seed: int) -> None:
    chance, nav, points = Random(seed), Decimal(10_000), []
    for n in range(60):
        points.append((FRIDAY + timedelta(days=n), nav))
        nav *= 1 + Decimal(repr(round(chance.gauss(0, 0.01), 6)))
    daily = daily_equity(points)
    assert daily is not None
    returns = pandas.Series([float(nav) for _, nav in points]).pct_change().dropna()
    assert sharpe(daily).n == 59
    assert sharpe(daily).value == pytest.approx(empyrical.sharpe_ratio(returns, annualization=365), rel=1e-9)
    assert growth_rate(daily).value == pytest.approx(empyrical.cagr(returns, annualization=365), rel=1e-9)
