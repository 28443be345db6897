"""Borrowed money: what the account may open, and where the venue takes it away again."""

from __future__ import annotations

from decimal import Decimal, localcontext
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memtape.core.fills import Fill
from memtape.core.values import MONEY
from memtape.errors import Invalid
from memtape.sim.margin import Margin
from memtape.sim.paper import Order, PaperBroker
from memtape.sim.venue import Venue
from tests.effort import examples

D = Decimal
TENFOLD = Margin(initial=D("0.1"), maintenance=D("0.05"))
CALM = "100 100 100 100"


def long_of_ten(words: Any, **terms: Any) -> Any:
    """1000 worth of AAPL, bought at 100 with 100 of one's own: at 94.7368... the 5 % are gone."""
    desk = words.Desk(cash=100, margin=TENFOLD, **({"liquidation_fee_bps": D(0)} | terms))
    desk.order("buy 10")
    assert desk.day(CALM) == ["buy 10 @ 100 (market)"]
    return desk


# ---- buying power -------------------------------------------------------------------------------------------------


def test_an_order_worth_more_than_the_leverage_allows_is_refused_when_it_is_placed(words: Any) -> None:
    desk = words.Desk(cash=100, margin=TENFOLD)
    desk.day(CALM)
    order = desk.order("buy 10.01")
    assert desk.broker.codes == {order: "R9_BUYING_POWER"}
    assert desk.broker.refused[order] == "worth 1001.00, and the margin carries 1000.00 more"
    assert desk.broker.position("AAPL").working == 0
    assert desk.day(CALM) == []


def test_an_order_of_exactly_the_buying_power_is_taken(words: Any) -> None:
    desk = words.Desk(cash=100, margin=TENFOLD)
    desk.day(CALM)
    desk.order("buy 10")
    assert desk.day(CALM) == ["buy 10 @ 100 (market)"]


def test_an_open_that_makes_an_order_dearer_than_the_margin_carries_refuses_it_then(words: Any) -> None:
    desk = words.Desk(cash=100, margin=TENFOLD)
    desk.day(CALM)
    order = desk.order("buy 10")
    assert desk.day("101 101 101 101") == []
    assert desk.broker.codes == {order: "R9_BUYING_POWER"}


def test_the_fee_counts_against_the_margin(words: Any) -> None:
    desk = words.Desk(cash=100, fee=1, margin=TENFOLD)
    desk.day(CALM)
    desk.order("buy 10")
    assert desk.day(CALM) == []


def test_waiting_entries_keep_their_margin(words: Any) -> None:
    desk = words.Desk(cash=100, margin=TENFOLD)
    desk.day(CALM)
    desk.order("buy 6 limit 90")
    second = desk.order("buy 6 limit 90")
    other_way = desk.order("sell 6 limit 110")
    assert list(desk.broker.codes) == [second]
    assert other_way not in desk.broker.refused, "only one side of a symbol can be held"


def test_all_symbols_share_one_margin(words: Any) -> None:
    desk = words.Desk(cash=100, margin=TENFOLD)
    desk.day(CALM, MSFT=CALM)
    desk.order("buy 6")
    desk.day(CALM, MSFT=CALM)
    assert desk.broker.buying_power(Order(symbol="MSFT", side="sell", qty=D(1))) == 400
    order = desk.order("sell 5", "MSFT")
    assert desk.broker.codes == {order: "R9_BUYING_POWER"}


def test_a_symbol_may_have_a_margin_of_its_own(words: Any) -> None:
    desk = words.Desk(cash=100, margin=TENFOLD, margins={"MSFT": Margin.at_leverage(D(2))})
    desk.day(CALM, MSFT=CALM)
    desk.order("buy 3", "MSFT")
    desk.order("buy 3", "AAPL")
    assert list(desk.broker.codes) == ["p-order-000001"]


def test_what_takes_a_position_off_needs_no_margin_and_turning_it_needs_only_the_new_side(words: Any) -> None:
    desk = long_of_ten(words)
    desk.order("sell 10 close")
    desk.order("sell 20")
    assert desk.broker.codes == {}
    assert desk.day(CALM) == ["sell 10 @ 100 (market)"]
    assert list(desk.broker.codes.values()) == ["R9_BUYING_POWER"], "flat again, 20 short are too many"
    turning = long_of_ten(words)
    turning.order("sell 20")
    assert turning.day(CALM) == ["sell 20 @ 100 (market)"]
    assert turning.holds() == "-10 @ 100"


def test_a_position_is_not_turned_when_the_open_leaves_too_little_for_the_other_side(words: Any) -> None:
    desk = long_of_ten(words)
    order = desk.order("sell 20")
    assert desk.day("97 97 97 97") == []
    assert desk.broker.codes == {order: "R9_BUYING_POWER"} and desk.holds() == "10 @ 100"


def test_the_snapshot_says_the_leverage_of_the_symbol(words: Any) -> None:
    assert long_of_ten(words).broker.snapshot()["AAPL"][0].leverage == 10


@pytest.mark.parametrize(("initial", "maintenance"), [("0.1", "0.2"), ("1.5", "0.1"), ("0.1", "0"), ("0", "0")])
def test_a_senseless_margin_is_refused_by_name(initial: str, maintenance: str) -> None:
    with pytest.raises(Invalid) as refused:
        Margin(initial=D(initial), maintenance=D(maintenance))
    assert refused.value.field == "margin"


@pytest.mark.parametrize(
    ("terms", "field"),
    [({"participation": D(0)}, "participation"), ({"participation": D(2)}, "participation"),
     ({"liquidation_steps": 0}, "liquidation_steps"), ({"liquidation_fee_bps": D(-1)}, "liquidation_fee_bps")],
)  # fmt: skip
def test_senseless_terms_are_refused_by_name(terms: dict[str, Any], field: str) -> None:
    with pytest.raises(Invalid) as refused:
        Venue(**terms)
    assert refused.value.field == field


# ---- liquidation --------------------------------------------------------------------------------------------------


def liquidation_of(desk: Any, words: Any, prices: str) -> Fill:
    (fill,) = desk.broker.advance([words.day(desk.days, prices)])
    assert fill.liq and fill.trigger == "liquidation"
    return fill


def test_a_long_is_liquidated_at_the_very_price_where_its_margin_is_gone_not_at_the_low_or_the_close(words: Any) -> None:
    fill = liquidation_of(long_of_ten(words), words, "99 99 80 98")
    assert fill.px == D("94.7368421053"), "900 owed: 10 p - 900 = 5 % of 10 p"
    assert (fill.side, fill.qty) == ("sell", 10)


def test_a_short_is_liquidated_on_the_way_up(words: Any) -> None:
    desk = words.Desk(cash=100, margin=TENFOLD, liquidation_fee_bps=D(0))
    desk.order("sell 10")
    desk.day(CALM)
    fill = liquidation_of(desk, words, "101 120 101 102")
    assert (fill.side, fill.px) == ("buy", D("104.7619047619")), "1100 held: 1100 - 10 p = 5 % of 10 p"


def test_the_low_that_just_reaches_the_price_liquidates_and_one_a_cent_above_does_not(words: Any) -> None:
    def desk_with_low(low: str, open_: str = "100") -> list[str]:
        desk = words.Desk(cash=100, margin=Margin(initial=D("0.2"), maintenance=D("0.2")), liquidation_fee_bps=D(0))
        desk.order("buy 4")
        desk.day(CALM)
        fills: list[str] = desk.day(f"{open_} {open_} {low} {open_}")
        return fills

    assert desk_with_low("93.76") == []
    assert desk_with_low("93.75", "93.75") == ["sell 4 @ 93.75 (liquidation)"], "and so does an open that stays there"
    assert desk_with_low("93.75") == ["sell 4 @ 93.75 (liquidation)"], "300 owed: 4 p - 300 = 20 % of 4 p"


def test_a_gap_through_the_liquidation_price_fills_at_the_open(words: Any) -> None:
    desk = long_of_ten(words)
    assert liquidation_of(desk, words, "92 99 91 98").px == 92
    assert (desk.broker.equity, desk.broker.shortfall) == (20, 0)


def test_a_gap_beyond_all_the_account_has_leaves_a_shortfall_that_is_shown(words: Any) -> None:
    desk = words.Desk(cash=100, fee=10, slippage=100, margin=TENFOLD)
    desk.order("buy 9")
    desk.day(CALM)
    before = desk.broker.equity
    fill = liquidation_of(desk, words, "80 99 79 98")
    assert (fill.px, fill.fee) == (80, 0), "what is not there cannot be taken"
    assert desk.broker.shortfall == -(before - 9 * 20) > 0
    assert desk.broker.cash == desk.broker.equity == -desk.broker.shortfall


def test_slippage_and_fees_of_a_liquidation_inside_a_bar_take_at_most_what_is_left(words: Any) -> None:
    desk = long_of_ten(words, liquidation_fee_bps=D(9_000))
    fill = liquidation_of(desk, words, "99 99 80 98")
    assert fill.px == D("94.7368421053")
    assert 0 <= desk.broker.equity < D("1e-8") and fill.fee == D("47.36842105")


def test_a_liquidation_pays_its_fee_beside_the_usual_one(words: Any) -> None:
    desk = words.Desk(cash=100, fee=10, margin=TENFOLD, liquidation_fee_bps=D(50))
    desk.order("buy 9")
    desk.day(CALM)
    fill = liquidation_of(desk, words, "90 90 80 85")
    with localcontext(MONEY):
        assert fill.fee == (fill.px * 9 * D("0.006")).quantize(D("1e-8"))


def test_a_stop_before_the_liquidation_price_saves_the_account(words: Any) -> None:
    desk = words.Desk(cash=100, margin=TENFOLD)
    desk.order("buy 10 stop 96")
    desk.day(CALM)
    assert desk.day("99 99 80 98") == ["sell 10 @ 96 (stop)"]


def test_a_stop_behind_the_liquidation_price_comes_too_late(words: Any) -> None:
    desk = words.Desk(cash=100, margin=TENFOLD, liquidation_fee_bps=D(0))
    desk.order("buy 10 stop 94")
    desk.day(CALM)
    assert desk.day("99 99 94.5 98") == ["sell 10 @ 94.7368421053 (liquidation)"]
    desk.order("buy 1")
    assert desk.day("100 100 93 93") == ["buy 1 @ 100 (market)"], "its stop went with it"


def test_of_two_stops_the_nearer_comes_first_and_may_save_the_rest(words: Any) -> None:
    desk = words.Desk(cash=100, margin=TENFOLD)
    desk.order("buy 5 stop 94")
    desk.order("buy 5 stop 97")
    desk.day(CALM)
    assert desk.day("99 99 93.9 98") == ["sell 5 @ 97 (stop)", "sell 5 @ 94 (stop)"]


def test_a_gap_beyond_stop_and_liquidation_is_a_liquidation(words: Any) -> None:
    desk = words.Desk(cash=100, margin=TENFOLD, liquidation_fee_bps=D(0))
    desk.order("buy 10 stop 96")
    desk.day(CALM)
    assert desk.day("93 95 92 94") == ["sell 10 @ 93 (liquidation)"]


def test_the_target_does_not_save_an_account_that_was_at_its_end_in_the_same_bar(words: Any) -> None:
    desk = words.Desk(cash=100, margin=TENFOLD)
    desk.order("buy 10 target 103")
    desk.day(CALM)
    assert liquidation_of(desk, words, "100 104 90 103").qty == 10


def test_an_entry_inside_the_bar_can_be_liquidated_in_it(words: Any) -> None:
    desk = words.Desk(cash=100, margin=TENFOLD, liquidation_fee_bps=D(0))
    desk.day(CALM)
    desk.order("buy 10 limit 98")
    assert desk.day("100 101 90 99") == ["buy 10 @ 98 (limit)", "sell 10 @ 92.6315789474 (liquidation)"]


def test_a_stop_entry_is_liquidated_below_its_own_price_although_the_open_was_lower_still(words: Any) -> None:
    desk = words.Desk(cash=100, margin=Margin(initial=D("0.02"), maintenance=D("0.01")), liquidation_fee_bps=D(0))
    desk.day(CALM)
    desk.order("buy 40 entry 105")
    assert desk.day("100 106 100 105") == ["buy 40 @ 105 (stop_entry)", "sell 40 @ 103.5353535354 (liquidation)"]


def test_a_liquidation_withdraws_the_entries_that_wait(words: Any) -> None:
    desk = words.Desk(cash=100, margin=TENFOLD)
    desk.order("buy 5")
    desk.day(CALM)
    waiting = desk.order("buy 1 limit 82")
    desk.order("sell 5 protect 81")
    assert len(desk.day("100 100 80 90")) == 1
    assert desk.broker.codes[waiting] == "B3_LIQUIDATED"
    assert desk.day("85 85 80 85") == []


def test_by_steps_only_as_much_is_taken_off_as_the_margin_asks_for(words: Any) -> None:
    desk = long_of_ten(words, liquidation_steps=4)
    (fill,) = desk.broker.advance([words.day(1, "99 99 94 98")])
    assert (fill.qty, fill.px, fill.liq) == (D("2.5"), D("94.7368421053"), True)
    assert desk.broker.position("AAPL").qty == D("7.5")


def test_by_steps_a_deeper_fall_takes_more_each_at_its_own_price(words: Any) -> None:
    fills = long_of_ten(words, liquidation_steps=4).broker.advance([words.day(1, "99 99 80 98")])
    prices = [fill.px for fill in fills]
    assert [fill.qty for fill in fills] == [D("2.5")] * 4
    assert prices == sorted(prices, reverse=True) and prices[0] == D("94.7368421053") and prices[-1] < 92


def test_a_gain_elsewhere_keeps_the_account_alive_and_the_largest_position_goes_first(words: Any) -> None:
    def desk_with(msft: str) -> Any:
        desk = words.Desk(cash=100, margin=TENFOLD, liquidation_fee_bps=D(0))
        desk.order("buy 7", "AAPL")
        desk.order("sell 2", "MSFT")
        desk.day(CALM, MSFT=CALM)
        return desk, desk.day("88 88 88 88", MSFT=msft)

    assert desk_with("70 70 70 70")[1] == [], "the short has earned 60"
    desk, fills = desk_with(CALM)
    assert fills == ["sell 7 @ 88 (liquidation)"]
    assert desk.broker.position("MSFT").qty == -2, "what is left suffices for the rest"


def test_both_worst_prices_of_one_time_are_taken_to_coincide(words: Any) -> None:
    desk = words.Desk(cash=100, margin=TENFOLD, liquidation_fee_bps=D(0))
    desk.order("buy 5", "AAPL")
    desk.order("sell 5", "MSFT")
    desk.day(CALM, MSFT=CALM)
    assert desk.day("100 104 90 100", MSFT="100 110 96 100") == ["buy 5 @ 105 (liquidation)"], "half the way for both"
    assert desk.broker.position("AAPL").qty == 5, "alone it survives its low"


def test_a_symbol_without_a_bar_stands_at_its_last_price_and_is_not_touched(words: Any) -> None:
    desk = words.Desk(cash=100, margin=TENFOLD, liquidation_fee_bps=D(0))
    desk.order("buy 5", "AAPL")
    desk.order("buy 4", "MSFT")
    desk.day(CALM, MSFT=CALM)
    assert desk.day("85 85 85 85") == ["sell 5 @ 85 (liquidation)"]
    assert desk.broker.position("MSFT").qty == 4


def test_without_margin_nothing_is_ever_refused_or_liquidated(words: Any) -> None:
    desk = words.Desk(cash=1)
    desk.order("buy 1000")
    assert desk.day(CALM) == ["buy 1000 @ 100 (market)"]
    assert desk.day("50 50 1 2") == []
    assert desk.broker.shortfall > 0


# ---- laws ---------------------------------------------------------------------------------------------------------


@st.composite
def adventures(draw: st.DrawFn) -> Any:
    """An account of some leverage, two symbols, wild days, large orders."""
    leverage, steps = draw(st.integers(1, 50)), draw(st.sampled_from([1, 1, 3, 7]))
    gaps = draw(st.booleans())
    days, last = [], {"AAPL": D(100), "MSFT": D(40)}
    for _ in range(draw(st.integers(1, 10))):
        bars, orders = {}, []
        for symbol in last:
            moves = [draw(st.integers(-300, 300)) for _ in range(4)]
            prices = [(last[symbol] * (1000 + move) / 1000).quantize(D("0.01")) for move in moves]
            o = prices[0] if gaps else last[symbol]
            bars[symbol] = (o, max(o, *prices[1:]), min(o, *prices[1:]), prices[3])
            last[symbol] = prices[3]
            for _ in range(draw(st.integers(0, 2))):
                kind = draw(st.sampled_from(["market", "limit", "stop"]))
                px = (last[symbol] * draw(st.integers(900, 1100)) / 1000).quantize(D("0.01"))
                share = draw(st.integers(1, 60))  # of a thousand, times the leverage: some are refused
                orders.append({
                    "symbol": symbol, "side": draw(st.sampled_from(["buy", "sell"])), "kind": kind,
                    "qty": (D(share) * leverage * 20 / last[symbol]).quantize(D("1e-6")) + D("1e-6"),
                    "px": None if kind == "market" else px, "reduce_only": draw(st.sampled_from([False, False, True])),
                })  # fmt: skip
        days.append((bars, orders))
    return leverage, steps, gaps, days


def live(words: Any, adventure: Any) -> Any:
    leverage, steps, _, days = adventure
    venue = Venue(margin=Margin.at_leverage(D(leverage)), liquidation_steps=steps)
    broker = PaperBroker(D(1000), fee_bps=D("7.5"), slippage_bps=D(30), venue=venue)
    for n, (bars, orders) in enumerate(days):
        told = [words.day(n, " ".join(map(str, prices)), symbol) for symbol, prices in bars.items()]
        before = broker.snapshot(), broker.cash
        fills = broker.advance(told)
        yield broker, before, fills, told
        for order in orders:
            broker.place(Order(**order))


@settings(max_examples=examples(24, 600))
@given(adventure=adventures())
def test_after_every_bar_the_account_is_flat_or_above_its_maintenance_margin(adventure: Any, words: Any) -> None:
    keep = 1 / D(adventure[0]) / 2
    for broker, *_ in live(words, adventure):
        with localcontext(MONEY):
            tied = sum((abs(p.qty) * broker.marks[s] * keep for s, p in broker.positions().items()), D(0))
        assert not tied or broker.equity > tied


@settings(max_examples=examples(24, 600))
@given(adventure=adventures())
def test_only_a_gap_makes_the_equity_negative_and_never_by_more_than_the_gap(adventure: Any, words: Any) -> None:
    for broker, (held, cash), _, bars in live(words, adventure):
        with localcontext(MONEY):
            at_open = cash + sum((held[b.symbol][0].qty * b.o for b in bars if b.symbol in held), D(0))
        if adventure[2]:
            assert broker.equity >= min(at_open, D(0))
        else:
            assert broker.equity >= 0
        if broker.equity < 0:
            assert broker.snapshot() == {}
            return  # the account is closed


@settings(max_examples=examples(24, 600))
@given(adventure=adventures())
def test_an_order_that_only_reduces_never_turns_and_positions_are_the_sums_of_fills(adventure: Any, words: Any) -> None:
    reducing = {
        f"p-order-{n:06d}" for n, order in enumerate((o for _, orders in adventure[3] for o in orders), 1) if order["reduce_only"]
    }
    sums: dict[str, Decimal] = {}
    cash = D(1000)
    for broker, _, fills, _ in live(words, adventure):
        for fill in fills:
            signed = fill.qty if fill.side == "buy" else -fill.qty
            held = sums.get(fill.symbol, D(0))
            if fill.liq or fill.order_id in reducing:
                assert abs(held + signed) == abs(held) - fill.qty >= 0
            with localcontext(MONEY):
                sums[fill.symbol] = held + signed
                cash -= signed * fill.px + fill.fee
        assert {s: h[0].qty for s, h in broker.snapshot().items()} == {s: q for s, q in sums.items() if q}
        assert broker.cash == cash


@settings(max_examples=examples(24, 600))
@given(adventure=adventures())
def test_nothing_is_liquidated_at_a_price_its_bar_does_not_hold(adventure: Any, words: Any) -> None:
    for _, _, fills, bars in live(words, adventure):
        for fill in fills:
            bar = next(b for b in bars if b.symbol == fill.symbol)
            slack = D("0.003") * bar.h + D("1e-9")
            assert bar.l - slack <= fill.px <= bar.h + slack
