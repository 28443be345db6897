"""The track record on both stores: asked for with `detail`, as of any moment, and compared with holding where there are bars."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest

from memtape.core.observed import Bar, Bars, ClosedTrade
from memtape.engine import Memory
from memtape.plugs.clock import FixedClock
from memtape.surfaces.registry import execute
from tests.conformance.desk import OPEN

DAY = timedelta(days=1)


def a_trade(day: int, net: int, symbol: str = "AAPL") -> ClosedTrade:
    return ClosedTrade(
        trade_id=f"{symbol}{day}", symbol=symbol, side="long", entry_at=OPEN + day * DAY, exit_at=OPEN + (day + 0.5) * DAY,
        entry_price=Decimal(100), exit_price=Decimal(100), qty=Decimal(1), stop=Decimal(90), pnl=Decimal(net),
    )  # fmt: skip


def a_day(day: int, close: str) -> Bar:
    at, px = OPEN + day * DAY, Decimal(close)
    return Bar(symbol="AAPL", t0=at, t1=at + DAY, o=px, h=px, l=px, c=px)


@pytest.fixture
def desk(memory: Memory) -> Memory:
    memory.resources.clock = FixedClock(OPEN + 30 * DAY)
    memory.create_skill("plain")
    memory.create_agent("desk", skill="plain", mode="paper", settings={"starting_equity": "1000"})
    trades = [a_trade(0, 100), a_trade(1, -55), a_trade(7, 5, "MSFT"), a_trade(10, 50)]
    memory.agent("desk").imports.commit(trades, {"file": "trades.csv"})
    return memory


def ask(memory: Memory, **more: Any) -> dict[str, Any]:
    return dict(execute(memory, "get_strategy_performance", {"agent": "desk", **more}))


def test_the_track_record_comes_with_detail_and_not_without(desk: Memory) -> None:
    assert ask(desk)["detail"] is None
    found = ask(desk, detail=True)["detail"]
    assert (found["basis"], found["first_day"], found["last_day"]) == ("daily equity, from closed trades", "2026-03-02", "2026-03-13")
    assert found["total_return"] == {"value": 0.1, "n": 10, "clock": "weekdays, 252 a year", "why": ""}
    assert found["expectancy_usd"]["value"] == "25"
    assert (found["max_drawdown"]["depth"], found["max_drawdown"]["depth_usd"]) == (0.05, "55")
    assert [(row["name"], row["n"], row["net_pnl_usd"]) for row in found["by_symbol"]] == [("AAPL", 3, "95"), ("MSFT", 1, "5")]
    assert found["buy_and_hold"] is None


def test_of_one_symbol_daily_figures_are_in_money(desk: Memory) -> None:
    found = ask(desk, detail=True, symbol="MSFT")["detail"]
    assert (found["basis"], found["streaks"]["n"]) == ("daily profits in money: no equity is stated", 1)


def test_a_track_record_as_of_an_earlier_moment_knows_nothing_later(desk: Memory) -> None:
    earlier = OPEN + 5 * DAY
    found = ask(desk, detail=True, as_of=earlier.isoformat())["detail"]
    assert (found["streaks"]["n"], found["last_day"]) == (2, "2026-03-04")
    head = desk.agent("desk").head().seq
    assert ask(desk, detail=True, head=head)["detail"] == ask(desk, detail=True)["detail"]


def test_where_bars_cover_the_time_the_account_is_compared_with_holding(desk: Memory) -> None:
    bars = Bars(bars=tuple(a_day(day, str(100 + 2 * day)) for day in range(-1, 10)))
    desk.agent("desk").imports.commit([bars], {"file": "bars.csv"})
    found = ask(desk, detail=True)["detail"]["buy_and_hold"]
    assert (found["n"], found["held"][0]["symbol"], found["own_return"]) == (1, "AAPL", 0.1)
    assert found["hold_return"] == pytest.approx(118 / 98 - 1, rel=1e-5)
    assert found["difference"] == pytest.approx(0.1 - (118 / 98 - 1), abs=1e-5)


def test_trades_that_state_only_r_are_won_and_lost_by_their_r(memory: Memory) -> None:
    memory.resources.clock = FixedClock(OPEN + 30 * DAY)
    for day, r in enumerate((-1.2, -0.5, 2.0)):
        execute(memory, "remember_trade", {
            "trade_id": f"c{day}", "symbol": "EURUSD", "direction": "long", "entry_price": 1.1, "exit_price": 1.1, "pnl_r": r,
            "entry_at": OPEN + day * DAY, "exit_at": OPEN + (day + 0.5) * DAY,
        })  # fmt: skip
    found = execute(memory, "get_strategy_performance", {})
    assert (found["n"], found["n_known"], found["n_priced"]) == (3, 3, 0)
    assert (found["wins"], found["losses"], found["win_rate"]) == (1, 2, 0.333333)
    assert (found["outcomes"], found["unit"], found["mean_outcome"], found["n_outcome"]) == ("claimed by the agent", "R", 0.1, 3)


def test_a_journal_without_stops_has_its_mean_outcome_in_typical_losses(memory: Memory) -> None:
    memory.resources.clock = FixedClock(OPEN + 30 * DAY)
    memory.create_skill("plain")
    memory.create_agent("desk", skill="plain", mode="paper")
    trades = [replace(a_trade(day, net), stop=None) for day, net in enumerate((-10, -20, -30, 80))]
    memory.agent("desk").imports.commit(trades, {"file": "trades.csv"})
    found = ask(memory)
    assert (found["mean_r"], found["n_r"], found["outcomes"]) == (None, 0, "from your records")
    assert (found["unit"], found["mean_outcome"], found["n_outcome"]) == ("typical losses of $20.00", 0.25, 4)
