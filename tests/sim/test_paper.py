"""How the paper broker fills: in doubt against the trader, and never twice."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal, localcontext
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memtape.core.codec import plain
from memtape.core.fills import Fill
from memtape.core.observed import Bar, HeldPosition
from memtape.core.values import MONEY, read
from memtape.errors import Invalid
from memtape.sim.paper import Order, PaperBroker
from tests.effort import examples

D = Decimal


def test_a_market_order_fills_at_the_next_open(words: Any) -> None:
    desk = words.Desk()
    assert desk.day("99 101 98 100") == []
    desk.order("buy 2")
    assert desk.day("102 104 101 103") == ["buy 2 @ 102 (market)"]
    assert desk.holds() == "2 @ 102"


def test_buying_pays_up_and_selling_gets_less_by_the_slippage_and_both_pay_the_fee(words: Any) -> None:
    desk = words.Desk(cash=1000, fee=10, slippage=50)
    desk.order("buy 1")
    assert desk.day("100 101 99 100") == ["buy 1 @ 100.5 (market)"]
    desk.order("sell 1 close")
    assert desk.day("100 101 99 100") == ["sell 1 @ 99.5 (market)"]
    assert desk.broker.cash == 1000 - D("1") - D("0.1005") - D("0.0995")


def test_a_limit_fills_at_its_price_without_slippage(words: Any) -> None:
    desk = words.Desk(slippage=50)
    desk.order("buy 1 limit 98")
    assert desk.day("100 101 99 100") == []
    assert desk.day("100 101 97 100") == ["buy 1 @ 98 (limit)"]


def test_a_limit_that_the_open_betters_fills_at_the_open(words: Any) -> None:
    desk = words.Desk(slippage=50)
    desk.order("buy 1 limit 98")
    assert desk.day("96 97 95 97") == ["buy 1 @ 96 (limit)"]


def test_a_limit_is_filled_by_a_touch(words: Any) -> None:
    desk = words.Desk()
    desk.order("sell 1 limit 101")
    assert desk.day("100 101 99 100") == ["sell 1 @ 101 (limit)"]


def test_a_stop_entry_buys_strength_at_its_price_or_at_a_gap_above_it(words: Any) -> None:
    quiet, gap = words.Desk(), words.Desk()
    quiet.order("buy 1 entry 105")
    gap.order("buy 1 entry 105")
    assert quiet.day("100 106 99 104") == ["buy 1 @ 105 (stop_entry)"]
    assert gap.day("107 108 106 107") == ["buy 1 @ 107 (stop_entry)"]


def test_a_stop_loses_what_it_says(words: Any) -> None:
    desk = words.Desk()
    desk.order("buy 2 stop 95 target 110")
    desk.day("100 101 99 100")
    assert desk.day("99 100 94 96") == ["sell 2 @ 95 (stop)"]
    assert desk.holds() == "flat"


def test_a_gap_through_the_stop_fills_at_the_open_and_loses_more(words: Any) -> None:
    desk = words.Desk(slippage=100)
    desk.order("buy 2 stop 95 target 110")
    desk.day("100 101 99 100")
    assert desk.day("90 92 89 91") == ["sell 2 @ 89.1 (stop)"]


def test_a_gap_beyond_the_target_fills_at_the_open_and_wins_more(words: Any) -> None:
    desk = words.Desk(slippage=100)
    desk.order("buy 2 stop 95 target 110")
    desk.day("100 101 99 100")
    assert desk.day("112 113 90 91") == ["sell 2 @ 112 (target)"]


def test_when_one_bar_holds_both_stop_and_target_the_stop_came_first(words: Any) -> None:
    long, short = words.Desk(), words.Desk()
    long.order("buy 1 stop 95 target 105")
    short.order("sell 1 stop 105 target 95")
    for desk in (long, short):
        desk.day("100 101 99 100")
    assert long.day("100 106 94 100") == ["sell 1 @ 95 (stop)"]
    assert short.day("100 106 94 100") == ["buy 1 @ 105 (stop)"]


def test_one_cancels_the_other(words: Any) -> None:
    desk = words.Desk()
    desk.order("buy 1 stop 95 target 105")
    desk.day("100 101 99 100")
    assert desk.day("101 106 100 104") == ["sell 1 @ 105 (target)"]
    assert desk.day("104 104 90 91") == []
    assert desk.holds() == "flat"


def test_an_entry_at_the_open_can_reach_its_target_the_same_day(words: Any) -> None:
    desk = words.Desk()
    desk.order("sell 1 stop 105 target 95")
    assert desk.day("100 101 94 96") == ["sell 1 @ 100 (market)", "buy 1 @ 95 (target)"]


def test_an_entry_inside_the_bar_can_be_stopped_in_it_but_not_reach_its_target(words: Any) -> None:
    stopped, waiting = words.Desk(), words.Desk()
    stopped.order("buy 1 limit 98 stop 95 target 104")
    waiting.order("buy 1 limit 98 stop 90 target 104")
    assert stopped.day("100 105 94 101") == ["buy 1 @ 98 (limit)", "sell 1 @ 95 (stop)"]
    assert waiting.day("100 105 94 101") == ["buy 1 @ 98 (limit)"]
    assert waiting.day("101 105 100 103") == ["sell 1 @ 104 (target)"]


def test_an_entry_is_refused_when_the_open_is_already_beyond_its_stop_or_target(words: Any) -> None:
    desk = words.Desk()
    below, above = desk.order("buy 1 stop 95 target 110"), desk.order("buy 1 stop 80 target 94")
    assert desk.day("94 96 93 95") == []
    assert set(desk.broker.refused) == {below, above}
    assert desk.broker.equity == 10_000


def test_an_entry_is_refused_outside_the_band_it_allows(words: Any) -> None:
    desk = words.Desk()
    desk.order("buy 1 stop 90 target 120 band 98 102")
    assert desk.day("103 104 101 102") == []
    assert desk.broker.position("AAPL").working == 0


def test_an_order_placed_at_a_close_does_not_fill_in_the_bar_that_just_closed(words: Any) -> None:
    desk = words.Desk()
    desk.day("100 120 80 100")
    desk.order("buy 1 limit 85")
    assert desk.day("100 101 99 100") == []


def test_adding_averages_the_entry_and_reducing_leaves_it(words: Any) -> None:
    desk = words.Desk()
    desk.order("buy 1")
    desk.day("100 101 99 100")
    desk.order("buy 3")
    desk.day("104 105 103 104")
    assert desk.holds() == "4 @ 103"
    desk.order("sell 2 close")
    desk.day("110 111 109 110")
    assert desk.holds() == "2 @ 103"


def test_a_larger_order_the_other_way_turns_the_position_and_drops_its_old_bracket(words: Any) -> None:
    desk = words.Desk()
    desk.order("buy 1 stop 90 target 120")
    desk.day("100 101 99 100")
    desk.order("sell 3 stop 115")
    desk.day("102 103 101 102")
    assert desk.holds() == "-2 @ 102"
    assert desk.day("95 96 89 95") == [], "the long's stop at 90 is gone"
    assert desk.day("100 116 99 115") == ["buy 2 @ 115 (stop)"]


def test_an_order_that_only_reduces_never_opens_or_turns(words: Any) -> None:
    desk = words.Desk()
    desk.order("sell 5 close")
    assert desk.day("100 101 99 100") == []
    desk.order("buy 2")
    desk.day("100 101 99 100")
    desk.order("sell 5 close")
    assert desk.day("100 101 99 100") == ["sell 2 @ 100 (market)"]


def test_two_entries_keep_a_bracket_each(words: Any) -> None:
    desk = words.Desk()
    desk.order("buy 1 stop 95 target 110")
    desk.day("100 101 99 100")
    desk.order("buy 2 stop 98 target 120")
    desk.day("100 101 99 100")
    assert desk.day("100 101 97 99") == ["sell 2 @ 98 (stop)"]
    assert desk.day("100 111 99 110") == ["sell 1 @ 110 (target)"]


def test_a_stop_of_its_own_protects_without_a_target(words: Any) -> None:
    desk = words.Desk()
    desk.order("buy 1")
    desk.day("100 101 99 100")
    desk.order("sell 1 protect 97")
    assert desk.day("100 101 96 98") == ["sell 1 @ 97 (stop)"]


def test_an_order_for_so_many_bars_lapses(words: Any) -> None:
    desk = words.Desk()
    desk.order("buy 1 limit 90 bars 2")
    desk.day("100 101 99 100")
    assert desk.broker.position("AAPL").working == 1
    desk.day("100 101 99 100")
    assert desk.broker.position("AAPL").working == 0
    assert desk.day("100 101 89 100") == []


def test_a_withdrawn_order_does_not_fill(words: Any) -> None:
    desk = words.Desk()
    order = desk.order("buy 1")
    assert desk.broker.cancel(order)
    assert not desk.broker.cancel(order)
    assert desk.day("100 101 99 100") == []


def test_short_sellers_gain_when_it_falls(words: Any) -> None:
    desk = words.Desk(cash=1000)
    desk.order("sell 4")
    desk.day("100 101 99 100")
    desk.day("90 91 89 90")
    assert desk.broker.equity == 1040
    assert desk.broker.snapshot() == {"AAPL": (HeldPosition(qty=D(-4), entry_px=D(100), mark=D(90)),)}


def test_symbols_do_not_mix(words: Any) -> None:
    desk = words.Desk()
    desk.order("buy 1 stop 95", "AAPL")
    desk.order("sell 1 stop 55", "MSFT")
    desk.broker.advance([words.day(0, "100 101 99 100", "AAPL"), words.day(0, "50 51 49 50", "MSFT")])
    fills = desk.broker.advance([words.day(1, "100 101 94 95", "AAPL"), words.day(1, "50 51 49 48.9", "MSFT")])
    assert [(fill.symbol, words.said(fill)) for fill in fills] == [("AAPL", "sell 1 @ 95 (stop)")]
    assert list(desk.broker.snapshot()) == ["MSFT"]


def test_ids_count_up_and_a_fill_names_its_order(words: Any) -> None:
    broker = words.Desk().broker
    order = broker.place(Order(symbol="AAPL", side="buy", qty=D(1), stop=D(90), target=D(101)))
    first, second = broker.advance([words.day(0, "100 102 99 100")])
    assert (first.id, first.order_id) == ("p-000001", order)
    assert (second.id, second.order_id, second.trigger) == ("p-000002", f"{order}-target", "target")


@pytest.mark.parametrize(
    ("order", "names"),
    [
        ("buy 0", "order.qty"),
        ("buy 1 stop 110 target 105", "order.stop"),
        ("buy 1 limit 100 stop 101", "order.stop"),
        ("sell 1 limit 100 target 101", "order.stop"),
        ("sell 1 close stop 90", "order.stop"),
        ("buy 1 limit 0", "order.px"),
    ],
)
def test_a_senseless_order_is_refused_by_name(words: Any, order: str, names: str) -> None:
    with pytest.raises(Invalid) as refused:
        words.Desk().order(order)
    assert refused.value.field == names


def test_bars_that_go_back_in_time_are_refused(words: Any) -> None:
    broker = words.Desk().broker
    broker.advance([words.day(1, "100 101 99 100")])
    with pytest.raises(Invalid, match="Give bars in time order"):
        broker.advance([words.day(0, "100 101 99 100")])


def test_a_symbol_on_a_slower_clock_fills_only_in_bars_that_opened_after_the_order(words: Any) -> None:
    broker = words.Desk().broker
    broker.advance([words.day(n, "50 51 49 50", "BTC", hours=6) for n in (0,)])
    order = Order(symbol="AAPL", side="buy", qty=D(1))
    broker.place(order)
    assert broker.advance([words.day(0, "100 101 99 100")]) == (), "that day had begun before the order"
    assert [f.px for f in broker.advance([words.day(1, "103 104 102 103")])] == [103]


# ---- laws ---------------------------------------------------------------------------------------------------------

cents = st.integers(5_000, 15_000).map(lambda n: D(n) / 100)


@st.composite
def tapes(draw: st.DrawFn) -> list[tuple[tuple[Decimal, ...], list[dict[str, Any]]]]:
    """Days with the orders placed at their close."""
    tape = []
    for _ in range(draw(st.integers(1, 12))):
        prices = tuple(draw(cents) for _ in range(4))
        orders = []
        for _ in range(draw(st.integers(0, 2))):
            kind = draw(st.sampled_from(["market", "limit", "stop"]))
            near, far = sorted((draw(cents), draw(cents)))
            side = draw(st.sampled_from(["buy", "sell"]))
            order = {"side": side, "qty": D(draw(st.integers(1, 10**9))) / 10**8, "kind": kind}
            order["px"] = None if kind == "market" else draw(cents)
            if draw(st.booleans()) and near < far:
                order |= {"stop": near, "target": far} if side == "buy" else {"stop": far, "target": near}
            elif draw(st.booleans()):
                order["reduce_only"] = True
            orders.append(order)
        tape.append((prices, orders))
    return tape


def play(tape: Any, words: Any, fee: str = "7.5", slippage: str = "3") -> tuple[PaperBroker, list[Fill], list[Bar]]:
    broker = PaperBroker(D(10_000), fee_bps=D(fee), slippage_bps=D(slippage))
    fills: list[Fill] = []
    bars = []
    for n, (prices, orders) in enumerate(tape):
        low, o, c, high = sorted(prices)
        bar = words.day(n, f"{o} {high} {low} {c}")
        since = broker.at
        new = broker.advance([bar])
        assert all((since is None or since < fill.t) and bar.t0 < fill.t < bar.t1 for fill in new)
        fills += new
        bars.append(bar)
        for order in orders:
            try:
                broker.place(Order(symbol="AAPL", **order))
            except Invalid:
                continue  # a bracket on the wrong side of its limit
    return broker, fills, bars


@settings(max_examples=examples(60, 1500))
@given(tape=tapes())
def test_cash_and_positions_are_always_what_the_fills_say(tape: Any, words: Any) -> None:
    broker, fills, bars = play(tape, words)
    with localcontext(MONEY):
        signed = [(f.qty if f.side == "buy" else -f.qty, f.px, f.fee) for f in fills]
        held = sum((q for q, _, _ in signed), D(0))
        cash = D(10_000) - sum((q * px + fee for q, px, fee in signed), D(0))
        assert broker.cash == cash
        assert broker.equity == cash + held * bars[-1].c
    assert broker.position("AAPL").qty == held
    assert set(broker.snapshot()) == ({"AAPL"} if held else set())


@settings(max_examples=examples(40, 1000))
@given(tape=tapes())
def test_nothing_fills_outside_its_bar_but_for_the_slippage(tape: Any, words: Any) -> None:
    _, fills, bars = play(tape, words)
    for fill in fills:
        bar = next(b for b in bars if b.t0 < fill.t < b.t1)
        slack = D("0.0003") * bar.h + D("1e-9")
        assert bar.l - slack <= fill.px <= bar.h + slack


@settings(max_examples=examples(40, 1000))
@given(tape=tapes())
def test_every_order_fills_at_most_once_and_of_a_bracket_only_one_side(tape: Any, words: Any) -> None:
    orders = [fill.order_id or "" for fill in play(tape, words)[1]]
    assert len(set(orders)) == len(orders)
    brackets = [order.rpartition("-")[0] for order in orders if order.endswith(("-stop", "-target"))]
    assert len(set(brackets)) == len(brackets)


@settings(max_examples=examples(24, 600))
@given(tape=tapes())
def test_the_same_days_give_the_same_fills_whatever_the_callers_arithmetic(tape: Any, words: Any) -> None:
    once = play(tape, words)[1]
    with localcontext() as careless:
        careless.prec = 9
        again = play(tape, words)[1]
    assert once == again


@settings(max_examples=examples(24, 600))
@given(tape=tapes())
def test_what_the_broker_says_can_be_kept_and_read_again(tape: Any, words: Any) -> None:
    broker, fills, _ = play(tape, words)
    assert [read(Fill, plain(fill)) for fill in fills] == fills
    for held in broker.snapshot().values():
        assert [read(HeldPosition, plain(h)) for h in held] == list(held)


def test_fills_at_the_open_come_after_the_last_snapshot_even_when_bars_follow_without_a_pause(words: Any) -> None:
    desk = words.Desk()
    desk.day("100 101 99 100")
    desk.order("buy 1 stop 95")
    (entry,) = desk.broker.advance([words.day(1, "100 101 99 100")])
    assert entry.t == words.day(1, "1 1 1 1").t0 + timedelta(seconds=1)
