"""Orders larger than the market: filled in parts, with their stops and targets in step."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memtape.errors import Invalid
from memtape.sim.margin import Margin
from memtape.sim.paper import Order, PaperBroker
from memtape.sim.venue import Venue
from tests.effort import examples

D = Decimal
CALM = "100 100 100 100"


def thin(words: Any, share: str = "0.1") -> Any:
    """A desk that gets at most 10 of each bar's 100."""
    return words.Desk(participation=D(share))


def bar(desk: Any, prices: str = CALM, volume: object = 100) -> list[str]:
    fills: list[str] = desk.day(prices, volume=volume)
    return fills


def test_a_large_market_order_is_filled_over_several_bars_at_their_opens(words: Any) -> None:
    desk = thin(words)
    desk.order("buy 25")
    assert bar(desk, "100 101 99 100") == ["buy 10 @ 100 (market)"]
    assert desk.broker.position("AAPL").working == 1
    assert bar(desk, "103 104 102 103") == ["buy 10 @ 103 (market)"]
    assert bar(desk, "106 107 105 106") == ["buy 5 @ 106 (market)"]
    assert desk.broker.position("AAPL").working == 0
    assert bar(desk) == []


def test_a_bar_without_volume_known_sets_no_limit_and_one_without_trade_fills_nothing(words: Any) -> None:
    desk = thin(words)
    desk.order("buy 25")
    assert bar(desk, volume=0) == []
    assert bar(desk, volume=None) == ["buy 25 @ 100 (market)"]


def test_all_orders_of_a_bar_share_its_volume(words: Any) -> None:
    desk = thin(words)
    desk.order("buy 6")
    desk.order("buy 6")
    assert bar(desk) == ["buy 6 @ 100 (market)", "buy 4 @ 100 (market)"]
    assert bar(desk) == ["buy 2 @ 100 (market)"]


def test_the_parts_carry_the_id_of_their_order_and_ids_of_their_own(words: Any) -> None:
    desk = thin(words)
    order = desk.order("buy 15")
    fills = [fill for n in range(2) for fill in desk.broker.advance([words.day(n, CALM, volume=100)])]
    assert [fill.order_id for fill in fills] == [order, order]
    assert [fill.id for fill in fills] == ["p-000001", "p-000002"]


def test_a_stop_that_the_volume_does_not_carry_goes_on_at_the_next_open_whatever_the_price(words: Any) -> None:
    desk = thin(words)
    desk.order("buy 10 stop 95 target 110")
    bar(desk)
    assert bar(desk, "99 99 94 94", volume=40) == ["sell 4 @ 95 (stop)"]
    assert bar(desk, "112 113 111 112", volume=40) == ["sell 4 @ 112 (stop)"], "it was set off: its target is gone"
    assert bar(desk, "80 81 79 80") == ["sell 2 @ 80 (stop)"]
    assert desk.holds() == "flat"


def test_a_stop_in_a_bar_without_trade_is_set_off_all_the_same(words: Any) -> None:
    desk = thin(words)
    desk.order("buy 10 stop 95 target 99")
    bar(desk, "97 97 97 97")
    assert bar(desk, "97 97 94 96", volume=0) == []
    assert bar(desk, "98 100 98 98", volume=0) == [], "its target is gone"
    assert bar(desk, "97 98 96 97") == ["sell 10 @ 97 (stop)"]


def test_a_target_in_parts_leaves_a_stop_for_what_is_still_held(words: Any) -> None:
    desk = thin(words)
    desk.order("buy 10 stop 95 target 110")
    bar(desk)
    assert bar(desk, "109 111 108 108", volume=40) == ["sell 4 @ 110 (target)"]
    assert bar(desk, "100 101 90 92") == ["sell 6 @ 95 (stop)"]
    assert bar(desk, "111 112 110 111") == []


def test_a_target_in_parts_does_not_let_its_stop_take_off_another_entry(words: Any) -> None:
    desk = thin(words)
    desk.order("buy 10 stop 95 target 110")
    desk.order("buy 10 stop 90")
    bar(desk, volume=200)
    assert bar(desk, "109 111 108 108", volume=40) == ["sell 4 @ 110 (target)"]
    assert bar(desk, "100 101 94 96", volume=1000) == ["sell 6 @ 95 (stop)"]
    assert desk.broker.position("AAPL").qty == 10


def test_the_stop_of_an_entry_in_parts_covers_each_part_and_ends_the_entry(words: Any) -> None:
    desk = thin(words)
    desk.order("buy 30 stop 95 target 120")
    assert bar(desk) == ["buy 10 @ 100 (market)"]
    assert bar(desk) == ["buy 10 @ 100 (market)"]
    assert bar(desk, "100 101 94 96", volume=300) == ["buy 10 @ 100 (market)", "sell 20 @ 95 (stop)"]
    assert bar(desk, "96 97 95.5 96") == ["sell 10 @ 96 (stop)"]
    assert bar(desk) == []


def test_a_stop_hit_withdraws_what_is_left_of_its_entry(words: Any) -> None:
    desk = thin(words)
    desk.order("buy 30 limit 100 stop 95")
    assert bar(desk, "101 102 99 100") == ["buy 10 @ 100 (limit)"]
    assert bar(desk, "101 101 101 101") == []
    assert bar(desk, "101 101 94 96", volume=1000) == ["sell 10 @ 95 (stop)"], "the limit at 100 is not filled again"
    assert (desk.broker.position("AAPL").working, desk.holds(), desk.broker.refused) == (0, "flat", {})


def test_a_stop_set_off_in_a_bar_without_trade_withdraws_it_too(words: Any) -> None:
    desk = thin(words)
    desk.order("buy 30 limit 100 stop 95")
    bar(desk, "101 102 99 100")
    assert bar(desk, "101 101 94 96", volume=0) == []
    assert bar(desk, "97 98 97 97", volume=1000) == ["sell 10 @ 97 (stop)"]


def test_the_rest_of_an_entry_is_refused_when_the_price_has_run_beyond_its_target(words: Any) -> None:
    desk = thin(words)
    order = desk.order("buy 30 stop 95 target 110")
    bar(desk)
    assert bar(desk, "111 112 110 111", volume=1000) == ["sell 10 @ 111 (target)"]
    assert desk.broker.codes == {order: "B2_BEYOND_EXIT"}
    assert desk.holds() == "flat"


def test_a_part_that_is_valid_for_so_many_bars_lapses_with_them(words: Any) -> None:
    desk = thin(words)
    desk.order("buy 30 bars 2")
    assert bar(desk) + bar(desk) + bar(desk) == ["buy 10 @ 100 (market)", "buy 10 @ 100 (market)"]


def test_a_liquidation_does_not_wait_for_volume(words: Any) -> None:
    desk = words.Desk(cash=100, participation=D("0.1"), margin=Margin.at_leverage(D(10)), liquidation_fee_bps=D(0))
    desk.order("buy 10")
    bar(desk)
    assert bar(desk, "90.5 90.5 80 85", volume=1) == ["sell 10 @ 90.5 (liquidation)"]


# ---- a stop with a limit ------------------------------------------------------------------------------------------


def test_a_stop_with_a_limit_fills_at_its_price_inside_the_bar(words: Any) -> None:
    desk = words.Desk()
    desk.order("buy 1 entry 105 up_to 106")
    assert desk.day("100 107 99 104") == ["buy 1 @ 105 (stop_entry)"]


def test_its_slippage_ends_at_the_limit(words: Any) -> None:
    desk = words.Desk(slippage=200)
    desk.order("buy 1 entry 105 up_to 106")
    assert desk.day("100 107 99 104") == ["buy 1 @ 106 (stop_entry)"]


def test_a_gap_beyond_the_limit_leaves_a_limit_order_that_waits(words: Any) -> None:
    desk = words.Desk()
    desk.order("buy 1 entry 105 up_to 106")
    assert desk.day("110 112 108 109") == []
    assert desk.broker.position("AAPL").working == 1
    assert desk.day("108 109 105 107") == ["buy 1 @ 106 (stop_entry)"]


def test_a_protecting_stop_with_a_limit_may_fail_to_protect(words: Any) -> None:
    desk = words.Desk()
    desk.order("buy 1")
    desk.day(CALM)
    desk.order("sell 1 protect 95 up_to 94")
    assert desk.day("90 91 89 90") == []
    assert desk.holds() == "1 @ 100"


@pytest.mark.parametrize(
    "order", ["buy 1 entry 105 up_to 104", "sell 1 entry 95 up_to 96", "buy 1 limit 105 up_to 106", "buy 1 up_to 106"]
)
def test_a_limit_that_does_not_suit_its_stop_is_refused_by_name(words: Any, order: str) -> None:
    with pytest.raises(Invalid) as refused:
        words.Desk().order(order)
    assert refused.value.field == "order.limit"


# ---- laws ---------------------------------------------------------------------------------------------------------


@settings(max_examples=examples(24, 600))
@given(data=st.data())
def test_no_bar_gives_more_than_its_share_and_no_order_fills_beyond_its_size(data: st.DataObject, words: Any) -> None:
    broker = PaperBroker(D(100_000), fee_bps=D(3), venue=Venue(participation=D("0.25")))
    asked: dict[str, Decimal] = {}
    for n in range(data.draw(st.integers(2, 12))):
        low, a, b, high = sorted(data.draw(st.lists(st.integers(80, 120), min_size=4, max_size=4)))
        volume = data.draw(st.sampled_from([None, 0, 4, 40, 400]))
        fills = broker.advance([words.day(n, f"{a} {high} {low} {b}", volume=volume)])
        for fill in fills:
            root = (fill.order_id or "").removesuffix("-stop").removesuffix("-target")
            if fill.order_id == root:
                asked[root] -= fill.qty
                assert asked[root] >= 0
        if volume is not None:
            assert sum(fill.qty for fill in fills) <= D(volume) / 4
        for _ in range(data.draw(st.integers(0, 2))):
            side = data.draw(st.sampled_from(["buy", "sell"]))
            away = D(data.draw(st.integers(1, 20)))
            bracket = data.draw(st.booleans())
            stop, target = (b - away, b + away) if side == "buy" else (b + away, b - away)
            qty = D(data.draw(st.integers(1, 60)))
            exits = {"stop": stop, "target": target} if bracket else {"reduce_only": data.draw(st.booleans())}
            order = broker.place(Order(symbol="AAPL", side=side, qty=qty, **exits))
            asked[order] = qty
        protecting = [w for w in broker._book.working.get("AAPL", []) if w.group]
        held = abs(broker.position("AAPL").qty)
        assert held or not protecting, "nothing protects what is not held"
