"""The track record: what daily equity, exposure, R, streaks, groups and months say about an account."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from math import sqrt
from typing import Any

import pytest

from memtape.core.ids import TradeId
from memtape.core.ledger.performance import Curve, equity_curve
from memtape.core.ledger.performance_daily import (
    ClockedFigure,
    calmar,
    daily_equity,
    deepest_fall,
    growth_rate,
    longest_fall,
    sharpe,
    sortino,
    total_return,
    volatility,
)
from memtape.core.ledger.performance_detail import HeldPrice, PerformanceDetail, covers, performance_detail
from memtape.core.ledger.reported import reported_trade
from memtape.core.ledger.terms import AccountTerms
from memtape.core.ledger.trades import Trade
from memtape.core.observed import Bar, ClosedTrade
from memtape.core.skills import AgentSettings

MONDAY = datetime(2026, 6, 1, 9, tzinfo=UTC)
TERMS = AccountTerms(agent="desk", skill_id="plain")
STATED = AgentSettings(starting_equity=Decimal(1000))


def a_trade(id_: str, day: float, hours: float, net: int, **more: Any) -> Trade:
    """A long of one unit that was entered so many days after Monday, 9:00."""
    entry = MONDAY + timedelta(days=day)
    told = {"symbol": "BTC", "side": "long", "stop": Decimal(90), **more}
    trade = ClosedTrade(
        trade_id=id_, entry_at=entry, exit_at=entry + timedelta(hours=hours), entry_price=Decimal(100),
        exit_price=Decimal(100), qty=Decimal(1), pnl=Decimal(net), **told,
    )  # fmt: skip
    return reported_trade(TERMS, trade, 1, TradeId(id_))  # type: ignore[arg-type]


def detail_of(trades: list[Trade], settings: AgentSettings = STATED, held: list[Trade] | None = None) -> PerformanceDetail:
    return performance_detail(trades, equity_curve(trades, (), (), settings), held or [], MONDAY + timedelta(days=30), None)


def curve_of(*navs: float, days: int = 1) -> Any:
    points = [(MONDAY + timedelta(days=days * n), Decimal(str(nav))) for n, nav in enumerate(navs)]
    found = daily_equity(points)
    assert found is not None
    return found


# ---- daily equity ------------------------------------------------------------------------------------------------------


def test_a_day_is_worth_its_last_record_and_a_day_without_one_changes_nothing() -> None:
    points = [(MONDAY, Decimal(100)), (MONDAY + timedelta(hours=2), Decimal(90)), (MONDAY + timedelta(days=3), Decimal(99))]
    daily = daily_equity(points)
    assert daily is not None
    assert [round(change, 12) for change in daily.changes] == [-0.1, 0.0, 0.0, 0.1]


def test_an_account_that_never_traded_on_a_weekend_is_counted_by_weekdays() -> None:
    weekdays = curve_of(100, 110, 120, days=7)
    assert (weekdays.days_per_year, len(weekdays.days), weekdays.clock) == (252, 10, "weekdays, 252 a year")
    always = curve_of(100, 110, 120, days=5)
    assert (always.days_per_year, len(always.days), always.clock) == (365, 10, "calendar days, 365 a year")


def test_the_close_of_a_daily_bar_at_midnight_ends_the_day_before() -> None:
    midnight = MONDAY.replace(hour=0)
    points = [(midnight + timedelta(days=n), Decimal(nav)) for n, nav in enumerate((100, 110, 99, 99, 99, 132))]
    daily = daily_equity(points)  # from Monday 0:00 to Saturday 0:00: five days of the week
    assert daily is not None
    assert (daily.days_per_year, len(daily.days), daily.days[-1].isoformat()) == (252, 5, "2026-06-05")
    assert round(daily.changes[0], 12) == 0.1


def test_sharpe_and_sortino_are_annualised_by_the_clock() -> None:
    daily = curve_of(100, 110, 99, 108.9)
    mean = 0.1 / 3
    spread, downside = sqrt((2 * (0.1 - mean) ** 2 + (-0.1 - mean) ** 2) / 2), sqrt(0.01 / 3)
    assert sharpe(daily).value == pytest.approx(mean / spread * sqrt(252))
    assert sortino(daily).value == pytest.approx(mean / downside * sqrt(252))
    assert volatility(daily).value == pytest.approx(spread * sqrt(252))
    assert (sharpe(daily).n, sharpe(daily).clock) == (3, "weekdays, 252 a year")


def test_growth_is_compounded_over_the_days_of_a_year() -> None:
    daily = curve_of(100, 101, 102)
    assert total_return(daily).value == pytest.approx(0.02)
    assert growth_rate(daily).value == pytest.approx(1.02 ** (252 / 2) - 1)
    assert calmar(daily) == ClockedFigure(None, 2, "weekdays, 252 a year", "equity never fell")


def test_the_deepest_fall_need_not_be_the_longest() -> None:
    daily = curve_of(100, 80, 110, 108, 107, 106)  # the last three days are a small fall that goes on over a weekend
    deepest, longest = deepest_fall(daily), longest_fall(daily)
    assert deepest is not None and longest is not None
    assert (deepest.depth, deepest.depth_usd, deepest.recovered_on, deepest.days_under_water) == (0.2, 20, "2026-06-03", 2)
    assert (deepest.peak_on, deepest.trough_on, deepest.days_to_trough) == ("2026-06-01", "2026-06-02", 1)
    assert (longest.recovered_on, longest.days_under_water) == (None, 3)


@pytest.mark.parametrize(
    ("navs", "why"),
    [((100, 0, 50), "equity fell to zero or below"), ((100, 100, 100), "all days are alike"), ((100, 110, 120), "")],
)
def test_a_ratio_that_says_nothing_is_unknown_with_its_reason(navs: tuple[float, ...], why: str) -> None:
    found = sharpe(curve_of(*navs))
    assert (found.value is None, found.why) == (bool(why), why)


def test_without_a_stated_equity_ratios_come_from_money_and_shares_stay_unknown() -> None:
    trades = [a_trade("a", 0, 1, 30), a_trade("b", 1, 1, -10), a_trade("c", 2, 1, 10)]
    found = detail_of(trades, AgentSettings())
    assert found.basis == "daily profits in money: no equity is stated"
    spread = sqrt((20**2 + 20**2 + 0) / 2)
    assert found.sharpe.value == pytest.approx(10 / spread * sqrt(252))
    assert {figure.value for figure in (found.cagr, found.calmar, found.volatility, found.total_return)} == {None}
    assert found.cagr.why == "nobody stated an equity to take a share of"
    assert found.max_drawdown is not None
    assert (found.max_drawdown.depth, found.max_drawdown.depth_usd) == (None, 10)
    assert [month.change for month in found.months] == [None]


# ---- trades ------------------------------------------------------------------------------------------------------------


def test_exposure_counts_overlapping_trades_once_and_open_ones_until_now() -> None:
    trades = [a_trade("a", 0, 6, 1), a_trade("b", 0.125, 6, 1), a_trade("c", 1, 3, 1)]
    found = detail_of(trades)
    assert (found.exposure.value, found.exposure.n) == (pytest.approx(12 / 27), 3)
    open_ = replace_status(a_trade("d", 2, 1, 1))
    assert detail_of(trades, held=[open_]).exposure.value == pytest.approx((12 + 28 * 24) / (30 * 24))


def replace_status(trade: Trade) -> Trade:
    return trade._replace(status="open", exit_at=None, net_pnl_usd=None)


def test_expectancy_payoff_and_r_are_those_of_priced_trades() -> None:
    nets = [30, -10, 10, -10, 0]
    trades = [a_trade(str(n), n, 1, net) for n, net in enumerate(nets)]
    unpriced = a_trade("x", 9, 1, 0)._replace(net_pnl_usd=None, pnl_r=None)
    found = detail_of([*trades, unpriced])
    assert (found.expectancy_usd.value, found.expectancy_usd.n) == (4, 5)
    assert (found.expectancy_r.value, found.expectancy_r.n) == (pytest.approx(0.4), 5)
    assert found.payoff_ratio.value == pytest.approx(20 / 10)
    assert found.r_distribution.bins == {
        "<=-2R": 0, "-2R..-1R": 2, "-1R..0": 0, "0": 1, "0..1R": 1, "1R..2R": 0, ">2R": 1,
    }  # fmt: skip
    assert (found.r_distribution.worst, found.r_distribution.best, found.r_distribution.quantiles["50 %"]) == (-1, 3, 0)


def test_streaks_are_counted_in_order_of_exits_and_a_scratch_ends_one() -> None:
    nets = [5, 5, -1, -2, -3, 0, -4, 5]
    found = detail_of([a_trade(str(n), n, 1, net) for n, net in enumerate(nets)]).streaks
    assert (found.n, found.longest_win, found.longest_loss, found.current, found.costliest_usd) == (8, 2, 3, 1, -6)


def test_trades_are_grouped_by_weekday_and_hour_of_entry_symbol_and_side() -> None:
    trades = [a_trade("a", 0, 1, 10), a_trade("b", 7, 30, -5, symbol="ETH", side="short", stop=Decimal(110)), a_trade("c", 1.25, 1, 2)]
    found = detail_of(trades)
    assert [(group.name, group.n, group.net_pnl_usd) for group in found.by_weekday] == [("Monday", 2, 5), ("Tuesday", 1, 2)]
    assert [(group.name, group.n) for group in found.by_hour] == [("09", 2), ("15", 1)]
    assert [(group.name, group.n) for group in found.by_symbol] == [("BTC", 2), ("ETH", 1)]
    assert [(group.name, group.win_rate) for group in found.by_side] == [("long", 1.0), ("short", 0.0)]


def test_a_month_has_the_trades_that_ended_in_it_and_the_change_of_its_equity() -> None:
    trades = [a_trade("a", 0, 1, 100), a_trade("b", 29, 48, 110), a_trade("c", 70, 1, -121)]
    found = detail_of(trades).months
    assert [(month.month, month.n, month.net_pnl_usd, month.change and round(month.change, 6)) for month in found] == [
        ("2026-06", 1, 100, 0.1), ("2026-07", 1, 110, 0.1), ("2026-08", 1, -121, -0.1),
    ]  # fmt: skip


def test_an_account_without_trades_has_no_figures_and_says_why() -> None:
    found = performance_detail([], Curve((), "closed trades"), [], MONDAY, None)
    assert (found.sharpe.value, found.sharpe.why, found.exposure.why) == (None, "needs two records of the account", "no trades")
    assert (found.max_drawdown, found.months, found.buy_and_hold) == (None, (), None)


# ---- against holding ---------------------------------------------------------------------------------------------------


def a_bar(day: int, close: str, symbol: str = "BTC") -> Bar:
    at = MONDAY + timedelta(days=day)
    return Bar(symbol=symbol, t0=at - timedelta(hours=1), t1=at, o=Decimal(close), h=Decimal(close), l=Decimal(close), c=Decimal(close))


def test_the_account_is_compared_with_holding_what_it_traded_in_equal_parts() -> None:
    trades = [a_trade("a", 0, 1, 100), a_trade("b", 10, 1, 50)]
    prices = [HeldPrice.between(a_bar(0, "100"), a_bar(10, "120")), HeldPrice.between(a_bar(0, "10", "ETH"), a_bar(10, "9", "ETH"))]
    curve = equity_curve(trades, (), (), STATED)
    found = performance_detail(trades, curve, [], MONDAY, [price for price in prices if price]).buy_and_hold
    assert found is not None
    assert (found.n, round(found.hold_return, 6), found.own_return) == (2, 0.05, pytest.approx(0.15))
    assert found.difference == pytest.approx(0.1)
    unknown = performance_detail(trades, replace(curve, assumed=True), [], MONDAY, [price for price in prices if price])
    assert unknown.buy_and_hold is not None and unknown.buy_and_hold.difference is None


def test_bars_must_cover_most_of_the_time() -> None:
    start, end = MONDAY, MONDAY + timedelta(days=10)
    assert covers(start + timedelta(hours=20), end, start, end)
    assert not covers(start + timedelta(days=2), end, start, end)
    assert not covers(start, end - timedelta(days=2), start, end)
