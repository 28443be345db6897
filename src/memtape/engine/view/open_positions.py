"""What is held at a view's moment, each position valued by the last price known."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING

from memtape.core.brief.inputs import OpenPosition
from memtape.core.ledger.open_position import open_value
from memtape.engine.view.view import TradeFilter

if TYPE_CHECKING:
    from memtape.engine.view.view import View


def open_positions(view: View) -> tuple[OpenPosition, ...]:
    """The open trades, each with its value by the last mark or bar known."""
    prices, found = last_prices(view), []
    for trade in view.trades(TradeFilter(status="open")):
        mark = prices.get(trade.symbol)
        if mark is None:
            last = view.last_bar(trade.symbol)
            mark = last.bar.c if last else None
        found.append(OpenPosition(trade, mark, open_value(trade, mark)))
    return tuple(found)


def last_prices(view: View) -> dict[str, Decimal]:
    """The last mark of each symbol among the latest ticks."""
    found: dict[str, Decimal] = {}
    for tick in view.latest_ticks():
        for symbol, mark in tick.body.get("marks", {}).items():
            found.setdefault(symbol, Decimal(mark))
        for symbol, legs in (tick.body.get("positions") or {}).items():
            for held in legs:
                if held.get("mark") is not None:
                    found.setdefault(symbol, Decimal(held["mark"]))
    return found
