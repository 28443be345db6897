"""The bars around a trade, as the price chart in the browser takes them."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from memtape.core.codec import read_time
from memtape.surfaces.web.charts import seconds

if TYPE_CHECKING:
    from memtape.core.observed import Bar
    from memtape.surfaces.web.trades import TradeFields

MAX_CANDLES = 400
MARGIN_BARS = 45  # before the entry and after the exit
SEARCH_REACHES = (timedelta(hours=2), timedelta(days=4), timedelta(days=30))


def bars_around(read: Callable[[datetime, datetime], list[Bar]], entry: datetime, exit_: datetime) -> list[Bar]:
    """The bars to draw around a trade, all of one length: the finest that is not too fine, with room before and after."""
    for reach in SEARCH_REACHES:
        if near := read(entry - reach, exit_ + reach):
            break
    else:
        return []
    frames = sorted({bar.frame for bar in near})
    held = (exit_ - entry).total_seconds()
    frame = next((frame for frame in frames if held / frame <= MAX_CANDLES), frames[-1])
    room = timedelta(seconds=frame * MARGIN_BARS)
    return [bar for bar in read(entry - room, exit_ + room) if bar.frame == frame]


def candle_chart(trade: TradeFields, bars: Sequence[Bar]) -> dict[str, Any]:
    """The JSON of the price chart: candles, the entry and exit of a trade, its stop and its target."""
    per_candle = -(-len(bars) // MAX_CANDLES) or 1
    candles = [_candle(bars[n : n + per_candle]) for n in range(0, len(bars), per_candle)]
    times = [candle["time"] for candle in candles]
    ends = (("entry", trade.entry_at, trade.entry_price), ("exit", trade.exit_at, trade.exit_price))
    markers = [
        {"time": times[max(bisect_right(times, seconds(read_time(at))) - 1, 0)], "kind": kind, "price": float(price)}
        for kind, at, price in ends
        if at is not None and price is not None and times
    ]
    levels = {"entry": trade.entry_price, "exit": trade.exit_price, "stop": trade.stop_price, "target": trade.target_price}
    return {
        "symbol": trade.symbol,
        "side": trade.side,
        "frame_seconds": bars[0].frame if bars else None,
        "bars_per_candle": per_candle,
        "candles": candles,
        "markers": markers,
        "lines": [{"kind": kind, "price": float(price)} for kind, price in levels.items() if price is not None],
    }


def _candle(bars: Sequence[Bar]) -> dict[str, Any]:
    return {
        "time": seconds(bars[0].t0),
        "open": float(bars[0].o),
        "high": float(max(bar.h for bar in bars)),
        "low": float(min(bar.l for bar in bars)),
        "close": float(bars[-1].c),
    }
