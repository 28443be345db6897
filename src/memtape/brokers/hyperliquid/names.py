"""Hyperliquid's times, and the names of its coins."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

from memtape.core.codec import EPOCH
from memtape.core.values import Symbol, read

MILLISECOND: Final = timedelta(milliseconds=1)
DOLLAR_TOKEN = "USDC"


def time_from_millis(millis: int) -> datetime:
    """Returns a time from milliseconds."""
    return EPOCH + millis * MILLISECOND


def millis_of(moment: datetime) -> int:
    """Returns a time in milliseconds."""
    return (moment - EPOCH) // MILLISECOND


def is_spot(coin: str) -> bool:
    """Returns True for a spot pair: spot pairs are `@<index>` or `BASE/QUOTE`.

    >>> is_spot("@107"), is_spot("PURR/USDC"), is_spot("ETH"), is_spot("dex:GOLD")
    (True, True, False, False)
    """
    return coin.startswith("@") or "/" in coin


def dex_of(coin: str) -> str:
    """Returns the exchange within the venue on which a perpetual trades; '' for the venue's own."""
    return coin.partition(":")[0] if ":" in coin else ""


def coin_symbol(coin: str) -> str:
    """Returns a coin as a symbol. A coin that has only a number gets a word before it.

    >>> coin_symbol("ETH"), coin_symbol("@107"), coin_symbol("PURR/USDC")
    ('ETH', 'SPOT@107', 'PURR/USDC')
    """
    named = f"SPOT{coin}" if coin.startswith("@") else coin if coin[:1].isalnum() else f"HL{coin}"
    return read(Symbol, named, at="coin")


def symbol_coin(symbol: str) -> str:
    """Returns the coin of a symbol; the inverse of `coin_symbol`.

    >>> symbol_coin("ETH"), symbol_coin("SPOT@107"), symbol_coin("PURR/USDC")
    ('ETH', '@107', 'PURR/USDC')
    """
    return symbol.removeprefix("SPOT") if symbol.startswith("SPOT@") else symbol


def currency_code(token: str) -> str:
    """The name of a token as a currency code.

    >>> currency_code("kPEPE"), currency_code("USDH")
    ('KPEPE', 'USDH')
    """
    code = "".join(letter for letter in token.upper() if letter.isascii() and letter.isalnum())[:10]
    return code if len(code) >= 2 else f"T{code or 'OKEN'}"
