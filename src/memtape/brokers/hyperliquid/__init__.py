"""Hyperliquid's answers -> observed values. Pure functions from the venue's JSON to fills, funding, positions and bars."""

from __future__ import annotations

from memtape.brokers.hyperliquid.account import VenueAccount, account_from_answer
from memtape.brokers.hyperliquid.candles import INTERVALS, bars_from_candles, candle_length, completed_bars
from memtape.brokers.hyperliquid.cash_flows import AccountFlows, cash_flows_from_answer, funding_from_answer, funding_rows
from memtape.brokers.hyperliquid.fills import fill_rows, fills_from_answer, fills_from_rows, order_fills, triggers_from_answer
from memtape.brokers.hyperliquid.names import (
    MILLISECOND,
    coin_symbol,
    currency_code,
    dex_of,
    is_spot,
    millis_of,
    symbol_coin,
    time_from_millis,
)
from memtape.brokers.hyperliquid.rows import FillRow

__all__ = [
    "INTERVALS",
    "MILLISECOND",
    "AccountFlows",
    "FillRow",
    "VenueAccount",
    "account_from_answer",
    "bars_from_candles",
    "candle_length",
    "cash_flows_from_answer",
    "coin_symbol",
    "completed_bars",
    "currency_code",
    "dex_of",
    "fill_rows",
    "fills_from_answer",
    "fills_from_rows",
    "funding_from_answer",
    "funding_rows",
    "is_spot",
    "millis_of",
    "order_fills",
    "symbol_coin",
    "time_from_millis",
    "triggers_from_answer",
]
