"""The desk's language says what it seems to say."""

from __future__ import annotations

from decimal import Decimal

import pytest

from tests.desk_language import clock_time, read_history, replay


def test_a_position_that_changes_side_closes_one_trade_and_opens_another():
    desk = replay("""
        08:00 buy  0.5 BTC @ 65000 stop 64000
        09:00 sell 0.7 BTC @ 66000
    """)
    assert desk.trades == ["BTC long +500.00 +1.0R closed 09:00", "BTC short 0.2 @ 66000 open"]


def test_a_bare_fill_is_a_fill_and_one_with_a_decision_is_a_tick():
    bare, decided = read_history("""
        08:00 buy 1 BTC @ 100 fee 0.1 order o-1 trigger stop   # a comment
        09:00 sell 1 BTC @ 101 target 99 tags swing,late "out; and flat" known 12:00
    """)
    fill = {"id": "f1", "t": clock_time("08:00"), "symbol": "BTC", "side": "buy", "qty": "1", "px": "100"}
    assert (bare.kind, bare.data) == ("fill", {**fill, "fee": "0.1", "order_id": "o-1", "trigger": "stop"})
    assert bare.known_at == clock_time("08:00")
    assert (decided.kind, decided.data["id"], decided.known_at) == ("tick", "s1", clock_time("12:00"))
    assert decided.data["decision"] == {"symbol": "BTC", "target": "99", "tags": ["swing", "late"], "reason": "out; and flat"}


def test_a_tick_has_the_parts_that_its_line_names_and_no_others():
    whole, empty, flat = read_history("""
        10:00 tick id x; BTC 0.5 @ 65000 mark 65200; ETH -1 leg SHORT; mark SOL 3; buy 0.5 BTC @ 65000 at 09:59; equity 1000
        11:00 tick
        12:00 flat
    """)
    assert whole.data["positions"] == {
        "BTC": [{"qty": "0.5", "entry_px": "65000", "mark": "65200"}],
        "ETH": [{"qty": "-1", "leg": "SHORT"}],
    }
    assert (whole.data["id"], whole.data["marks"], whole.data["equity"]) == ("x", {"SOL": "3"}, "1000")
    assert [fill["t"] for fill in whole.data["fills"]] == [clock_time("09:59")]
    assert empty.data.keys() == {"id", "t"}
    assert flat.data["positions"] == {}


def test_bars_funding_equity_and_deposits_are_read():
    kinds = [(each.kind, each.known_at.hour) for each in read_history("""
        08:00-09:00 bar BTC 1 2 1 2
        08:00 funding BTC -0.25
        09:00 equity 1000
        10:00 deposit -500
        11:00 decide BTC stop 109 orders o-1,o-2 "why"
    """)]  # fmt: skip
    assert kinds == [("bars", 9), ("funding", 8), ("equity", 9), ("flow", 10), ("decision", 11)]


@pytest.mark.parametrize(
    "line", ["08:00 borrow 1 BTC @ 100", "08:00 buy 1 BTC for 100", "noon buy 1 BTC @ 100", "08:00 tick BTC"]
)
def test_a_line_that_says_nothing_is_refused(line):
    with pytest.raises((ValueError, AssertionError)):
        read_history(line)


def test_what_the_broker_holds_and_no_fill_explains_is_a_discrepancy():
    desk = replay("""
        07:00 buy 1 ETH @ 10
        08:00 tick ETH 1
        09:00 tick ETH 1; BTC 1 @ 100
        10:00 tick ETH 1; mark BTC 104
    """)
    assert desk.discrepancies == ["09:00 BTC fills 0, broker 1 @ 100", "10:00 BTC fills 1, broker 0 @ 104"]
    assert desk.trades == ["ETH long 1 @ 10 open", "BTC long +4.00 closed 10:00, inferred"]


def test_what_is_held_at_the_first_look_was_there_before():
    assert replay("08:00 tick BTC -2 @ 50").trades == ["BTC short 2 @ 50 open, inferred, adopted"]


def test_a_fill_that_is_learned_late_changes_what_is_known_from_then_on():
    desk = replay("""
        08:00 buy  1 BTC @ 100
        09:00 sell 1 BTC @ 105 known 12:00
    """)
    assert desk.trades_known_at("11:00") == ["BTC long 1 @ 100 open"]
    assert desk.trades_known_at("12:00") == desk.trades == ["BTC long +5.00 closed 09:00"]


def test_legs_fees_funding_rates_and_liquidations_reach_the_ledger():
    desk = replay("""
        08:00 buy  1 BTC @ 100 leg LONG fee 1 rate 2
        08:30 funding BTC -3 leg LONG
        09:00 sell 1 BTC @ 90 leg LONG rate 2 liquidated
    """)
    assert desk.trades == ["BTC LONG long -24.00 closed 09:00, liquidated"]
    assert (desk.trade.fees_usd, desk.trade.funding_usd) == (Decimal(1), Decimal(-3))


def test_the_desk_trades_on():
    desk = replay("08:00 buy 1 BTC @ 100 id a")
    (receipt,) = desk.observe("08:00 buy 1 BTC @ 100 id a")
    assert receipt.duplicate and desk.trades == ["BTC long 1 @ 100 open"]
