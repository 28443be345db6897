"""The R of a reported trade: by its stop, else as its source states it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest

from memtape.core.ids import TradeId
from memtape.core.ledger.reported import reported_trade
from memtape.core.ledger.terms import AccountTerms
from memtape.core.observed import CheckedTrade, ClosedTrade
from memtape.core.values import read
from memtape.errors import Invalid

MONDAY = datetime(2026, 6, 1, 9, tzinfo=UTC)
TERMS = AccountTerms(agent="desk", skill_id="plain")


def r_of(**more: Any) -> tuple[Any, ...]:
    """R, its source, the initial risk and the net result of a long from 100 to 110 whose source states +2R."""
    reported = {
        "trade_id": "t", "symbol": "EURUSD", "side": "long", "entry_at": MONDAY, "exit_at": MONDAY + timedelta(hours=1),
        "entry_price": 100, "exit_price": 110, "pnl_r": 2.0,
    }  # fmt: skip
    trade: ClosedTrade = read(CheckedTrade, reported | more)
    row = reported_trade(TERMS, trade, 1, TradeId("t"))
    return row.pnl_r, row.r_source, row.initial_risk_usd, row.net_pnl_usd


def test_an_r_that_a_source_states_counts_where_no_stop_gives_one():
    assert r_of() == (Decimal(2), "stated", None, None)
    assert r_of(exit_price=None) == (Decimal(2), "stated", None, None)
    assert r_of(qty=1, stop=90) == (Decimal(1), "stop", Decimal(10), Decimal(10))


def test_what_was_risked_follows_from_the_result_in_money_and_in_r():
    assert r_of(pnl=50) == (Decimal(2), "stated", Decimal(25), Decimal(50))
    # A scratch in R that was a gain in money says nothing about the risk.
    assert r_of(pnl=50, pnl_r=0.0) == (Decimal(0), "stated", None, Decimal(50))


def test_a_loss_in_money_that_is_a_gain_in_r_is_refused():
    with pytest.raises(Invalid, match="opposite sign of pnl after fees and funding"):
        r_of(pnl=1, fees=3)
