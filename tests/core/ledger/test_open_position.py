"""What an open trade is worth by a price, by its own terms."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from memtape.core.ledger.open_position import open_value
from memtape.core.ledger.trades import Trade, round_money
from tests.desk import fold_deliveries

T = "2026-06-04T{:02d}:00:00Z"


def held(terms: dict[str, Any], *fills: dict[str, Any]) -> Trade:
    """The one open trade of some fills under these terms."""
    named = [{"id": f"f{n}", "t": T.format(8 + n), "symbol": "X", **fill} for n, fill in enumerate(fills)]
    stated = [("instrument", {"symbol": "X", "id": "i1", **terms})]
    [trade] = fold_deliveries([*stated, *(("fill", fill) for fill in named)], {}).trades
    assert trade.status == "open"
    return trade


def test_usdjpy_is_worth_its_gain_in_yen_at_the_last_rate_known():
    trade = held({"base": "USD"}, {"side": "buy", "qty": "100000", "px": "150", "rate": "0.008"})
    # 100,000 yen of gain at 0.008 dollars a yen. The rate of the entry is the last one known.
    assert open_value(trade, Decimal(151)) == Decimal("800")


def test_a_reduction_states_a_newer_rate_for_what_is_left():
    trade = held(
        {}, {"side": "buy", "qty": "100000", "px": "150", "rate": "0.008"}, {"side": "sell", "qty": "50000", "px": "151", "rate": "0.007"}
    )
    assert open_value(trade, Decimal(152)) == Decimal("700")


@pytest.mark.parametrize(("side", "gain"), [("buy", "15000"), ("sell", "-15000")])
def test_an_inverse_perp_gains_in_coins(side: str, gain: str):
    # 100 contracts of 100 dollars, from 50,000 to 80,000: 10,000 * (1/50,000 - 1/80,000) = 0.075 coins, at 200,000 a coin.
    trade = held({"payoff": "inverse", "multiplier": "100"}, {"side": side, "qty": "100", "px": "50000", "rate": "200000"})
    value = open_value(trade, Decimal(80000))
    assert value is not None and round_money(value) == Decimal(gain)


def test_an_inverse_contract_has_no_value_at_a_price_of_zero():
    trade = held({"payoff": "inverse"}, {"side": "buy", "qty": "100", "px": "50000"})
    assert open_value(trade, Decimal(0)) is None


@pytest.mark.parametrize(("side", "gain"), [("buy", "288"), ("sell", "-288")])
def test_what_was_paid_in_full_counts_each_amount_at_its_own_rate(side: str, gain: str):
    other = "sell" if side == "buy" else "buy"
    trade = held(
        {"accounting": "cash", "multiplier": "2"}, {"side": side, "qty": "12", "px": "100", "rate": "1.1"},
        {"side": other, "qty": "2", "px": "100", "rate": "1.2"},
    )  # fmt: skip
    # 10 left that cost 1,100; at 103.667 and the last rate 1.2 they are worth 1,244, twice because of the multiplier.
    value = open_value(trade, Decimal("103.666666666666666667"))
    assert value is not None and round_money(value) == Decimal(gain)


def test_a_future_counts_its_multiplier_and_a_negative_price():
    trade = held({"multiplier": "1000"}, {"side": "buy", "qty": "2", "px": "1.5"})
    assert open_value(trade, Decimal("-37.5")) == Decimal("-78000.0")
