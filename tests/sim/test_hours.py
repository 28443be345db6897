"""Trading hours: orders wait for the open, and nothing fills while a symbol is closed."""

from __future__ import annotations

from datetime import UTC, datetime, time, timedelta
from decimal import Decimal
from typing import Any

import pytest

from memtape.sim.margin import Margin
from memtape.sim.venue import TradingHours

D = Decimal
STOCKS = TradingHours(opens=time(14, 30), closes=time(21))
NIGHT = TradingHours(opens=time(22), closes=time(5), days=(6, 0, 1, 2, 3))  # from Sunday evening on
MONDAY = datetime(2024, 1, 8, tzinfo=UTC)
FRIDAY = 4 * 24


def desk_at(words: Any, hour: int, **terms: Any) -> Any:
    """A desk for AAPL with hourly bars, the next of them so many hours after Monday's midnight."""
    desk = words.Desk(bar_hours=1, **({"hours": {"AAPL": (STOCKS,)}} | terms))
    desk.days = hour
    return desk


def test_an_order_placed_outside_the_hours_waits_for_the_open(words: Any) -> None:
    desk = desk_at(words, 12)
    desk.order("buy 1")
    assert desk.day("90 90 90 90") == desk.day("91 91 91 91") == []
    (fill,) = desk.broker.advance([words.day(14, "100 101 99 100", hours=1)])
    assert (fill.px, fill.t) == (100, MONDAY + timedelta(hours=14, minutes=30, seconds=1))


def test_neither_stop_nor_target_is_reached_while_it_is_closed(words: Any) -> None:
    desk = desk_at(words, 20)
    desk.order("buy 1 stop 95 target 105")
    desk.day("100 100 100 100")
    assert desk.day("100 110 90 100") == [], "it is past nine in the evening"
    assert desk.broker.marks["AAPL"] == 100


def test_a_gap_over_the_weekend_goes_through_the_stop(words: Any) -> None:
    desk = desk_at(words, FRIDAY + 20)
    desk.order("buy 1 stop 95")
    desk.day("100 100 100 100")
    for hour in range(FRIDAY + 24, FRIDAY + 48):
        desk.days = hour
        assert desk.day("94 94 90 92") == [], "Saturday"
    desk.days = FRIDAY + 72 + 15
    assert desk.day("91 92 90 91") == ["sell 1 @ 91 (stop)"]


def test_a_daily_bar_holds_the_day_s_hours_and_its_fills_lie_within_them(words: Any) -> None:
    desk = words.Desk(hours={"AAPL": (STOCKS,)})
    desk.order("buy 1 target 105")
    entry, exit_ = desk.broker.advance([words.day(0, "100 106 99 104")])
    assert MONDAY + timedelta(hours=14, minutes=30) < entry.t < exit_.t < MONDAY + timedelta(hours=21)


def test_an_order_for_so_many_bars_does_not_lapse_while_it_is_closed(words: Any) -> None:
    desk = desk_at(words, 10)
    desk.order("buy 1 limit 90 bars 1")
    desk.day("100 100 100 100")
    assert desk.broker.position("AAPL").working == 1
    desk.days = 15
    desk.day("100 100 100 100")
    assert desk.broker.position("AAPL").working == 0


def test_a_closed_market_liquidates_at_its_next_open(words: Any) -> None:
    desk = desk_at(words, 20, cash=100, margin=Margin.at_leverage(D(10)), liquidation_fee_bps=D(0))
    desk.order("buy 10")
    desk.day("100 100 100 100")
    assert desk.day("93 93 93 93") == []
    desk.days = 24 + 15
    assert desk.day("92 93 91 92") == ["sell 10 @ 92 (liquidation)"]


def test_other_symbols_trade_round_the_clock(words: Any) -> None:
    desk = desk_at(words, 3)
    desk.order("buy 1", "BTC")
    assert desk.day("50 50 50 50", "BTC") == ["buy 1 @ 50 (market)"]


@pytest.mark.parametrize(
    ("hour", "open_"),
    [
        (-3, False),
        (-2, True),
        (0, True),
        (4, True),
        (5, False),
        (21, False),
        (22, True),
        (FRIDAY + 4, True),
        (FRIDAY + 22, False),
    ],
)
def test_hours_may_pass_midnight_and_belong_to_the_day_that_they_open_on(hour: int, open_: bool) -> None:
    t0 = MONDAY + timedelta(hours=hour)
    assert (NIGHT.within(t0, t0 + timedelta(hours=1)) is not None) == open_


def test_a_bar_that_only_touches_the_close_is_closed(words: Any) -> None:
    assert STOCKS.within(MONDAY + timedelta(hours=21), MONDAY + timedelta(hours=22)) is None
    assert STOCKS.within(MONDAY + timedelta(hours=20), MONDAY + timedelta(hours=21)) is not None
