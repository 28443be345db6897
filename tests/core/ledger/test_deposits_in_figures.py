"""Deposits and withdrawals are no profit, and a return is one of the money that was there."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from random import Random

import empyrical
import pandas as pd
import pytest

from memtape.core.ids import AgentId, SkillId, TradeId
from memtape.core.ledger.performance import Curve, equity_curve
from memtape.core.ledger.performance_daily import FallFromPeak
from memtape.core.ledger.performance_detail import PerformanceDetail, performance_detail
from memtape.core.ledger.reported import reported_trade
from memtape.core.ledger.terms import AccountTerms
from memtape.core.ledger.trades import Trade
from memtape.core.observed import CashFlow, ClosedTrade, EquityMark
from memtape.core.skills import Agent, AgentSettings

MONDAY = datetime(2025, 6, 2, 21, tzinfo=UTC)
SETTINGS = Agent(id=AgentId("desk"), skill=SkillId("plain")).settings


def account(rows: list[tuple[float, float]]) -> tuple[Curve, PerformanceDetail]:
    """An account with one equity a day, and what was paid in or out in the hour before it."""
    days = [MONDAY + timedelta(days=n) for n in range(len(rows))]
    marks = [EquityMark(t=day, equity=Decimal(str(equity))) for day, (equity, _) in zip(days, rows, strict=True)]
    flows = [
        CashFlow(id=f"f{n}", t=day - timedelta(hours=1), usd=Decimal(str(paid)))  # type: ignore[arg-type]
        for n, (day, (_, paid)) in enumerate(zip(days, rows, strict=True)) if paid
    ]  # fmt: skip
    curve = equity_curve((), marks, flows, SETTINGS)
    return curve, performance_detail((), curve, (), days[-1], None)


def closed_trade(id_: str, day: int, net: int) -> Trade:
    """A trade of four hours, so many days after Monday."""
    entry = MONDAY + timedelta(days=day)
    trade = ClosedTrade(
        trade_id=id_, symbol="BTC", side="long", entry_at=entry, exit_at=entry + timedelta(hours=4), entry_price=Decimal(100),
        exit_price=Decimal(100), qty=Decimal(1), pnl=Decimal(net),
    )  # type: ignore[arg-type]  # fmt: skip
    return reported_trade(AccountTerms(agent="desk", skill_id="plain"), trade, 1, TradeId(id_))


def fall_of(detail: PerformanceDetail) -> FallFromPeak:
    """The deepest fall, which there is."""
    assert detail.max_drawdown is not None
    return detail.max_drawdown


def test_a_loss_after_a_large_deposit_is_a_share_of_the_money_that_was_there():
    curve, detail = account([(1_000, 0), (51_000, 50_000), (48_960, 0)])
    assert detail.total_return.value == pytest.approx(-0.04)
    assert fall_of(detail).depth == pytest.approx(0.04)
    assert fall_of(detail).depth_usd == 2_040
    assert curve.max_drawdown == (2_040, 4)


def test_a_loss_after_a_large_withdrawal_is_a_share_of_what_was_left():
    curve, detail = account([(10_000, 0), (1_000, -9_000), (500, 0)])
    assert detail.total_return.value == pytest.approx(-0.5)
    assert curve.max_drawdown == (500, 50)


def test_deposits_from_before_the_first_record_do_not_make_it_small():
    days = [MONDAY + timedelta(days=n) for n in range(3)]
    marks = [EquityMark(t=day, equity=Decimal(equity)) for day, equity in zip(days, (10_500, 10_605, 10_605), strict=True)]
    paid = CashFlow(id="f", t=MONDAY - timedelta(days=30), usd=Decimal(10_000))  # type: ignore[arg-type]
    detail = performance_detail((), equity_curve((), marks, [paid], SETTINGS), (), days[-1], None)
    assert detail.total_return.value == pytest.approx(0.01)


def test_money_that_is_paid_out_whole_ends_no_record():
    _, detail = account([(10_000, 0), (11_000, 0), (0, -11_000), (0, 0), (5_000, 5_000), (5_500, 0)])
    assert detail.total_return.value == pytest.approx(0.21)


def test_a_record_that_begins_before_the_first_deposit_counts_from_it():
    curve, detail = account([(0, 0), (0, 0), (1_000, 1_000), (1_200, 0), (1_080, 0)])
    assert detail.total_return.value == pytest.approx(0.08)
    assert curve.max_drawdown == (120, 10)
    assert detail.sharpe.value is not None


@pytest.mark.parametrize("left", [5, -1])
def test_a_rebate_or_a_fee_on_an_empty_account_is_no_return(left: float):
    curve, detail = account([(10_000, 0), (11_000, 0), (0, -11_000), (left, 0), (5_000 + left, 5_000), (5_500 + 1.1 * left, 0)])
    assert detail.total_return.value == pytest.approx(0.21)
    assert curve.max_drawdown[1] == 0


def test_an_account_that_lost_everything_stays_lost_whatever_is_paid_in():
    curve, detail = account([(1_000, 0), (-50, 0), (950, 1_000), (1_900, 0)])
    assert (detail.total_return.value, curve.max_drawdown[1]) == (-1, 100)


def test_a_loss_after_a_deposit_is_a_share_of_it_where_only_trades_show_the_account():
    settings = AgentSettings(starting_equity=Decimal(1_000))
    trades = [closed_trade("a", 1, 100), closed_trade("b", 5, -2_040)]
    paid = [
        CashFlow(id=f"f{day}", t=MONDAY + timedelta(days=day), usd=Decimal(usd))  # type: ignore[arg-type]
        for day, usd in ((-9, 1_000), (3, 49_900))
    ]
    curve = equity_curve(trades, (), paid, settings)
    assert curve.max_drawdown == (2_040, 4)
    detail = performance_detail(trades, curve, (), MONDAY + timedelta(days=9), None)
    assert detail.total_return.value == pytest.approx(1.1 * 0.96 - 1)


@pytest.mark.parametrize("seed", range(5))
def test_the_figures_of_an_account_with_deposits_are_those_of_its_daily_returns(seed: int):
    chance = Random(seed)
    equity, rows, returns = 20_000.0, [(20_000.0, 0.0)], []
    for day in range(300):
        paid = chance.choice([5_000.0, -4_000.0, 30_000.0]) if day % 60 == 40 else 0.0
        change = chance.gauss(0.0005, 0.012)
        after = round((equity + max(paid, 0)) * (1 + change) + min(paid, 0), 2)
        returns.append((after - equity - paid) / (equity + max(paid, 0)))
        rows.append((after, paid))
        equity = after
    _, detail = account(rows)
    series = pd.Series(returns)
    assert detail.sharpe.value == pytest.approx(empyrical.sharpe_ratio(series, annualization=365), rel=1e-9)
    assert detail.sortino.value == pytest.approx(empyrical.sortino_ratio(series, annualization=365), rel=1e-9)
    assert detail.cagr.value == pytest.approx(empyrical.cagr(series, annualization=365), rel=1e-9)
    assert fall_of(detail).depth == pytest.approx(-empyrical.max_drawdown(series), rel=1e-9)
