"""Hyperliquid's candles as bars."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final

from memtape.brokers.hyperliquid.names import coin_symbol, time_from_millis
from memtape.brokers.hyperliquid.rows import CandleRow
from memtape.core.observed import Bar, CheckedBar
from memtape.core.values import read
from memtape.errors import Invalid

CLOCK_DIFFERENCE: Final = timedelta(minutes=5)  # by which the clock of this machine may be ahead of the venue's
# Candles with a fixed length. A calendar month has none.
INTERVALS: Final[Mapping[str, timedelta]] = {
    **{f"{n}m": timedelta(minutes=n) for n in (1, 3, 5, 15, 30)},
    **{f"{n}h": timedelta(hours=n) for n in (1, 2, 4, 8, 12)},
    "1d": timedelta(days=1), "3d": timedelta(days=3), "1w": timedelta(weeks=1),
}  # fmt: skip


def bars_from_candles(payload: object, until: datetime | None = None) -> list[Bar]:
    """Returns an answer to candleSnapshot as bars, by time. Bars that are incomplete at `until` are left out.

    >>> candle = {"t": 1780574400000, "T": 1780577999999, "s": "ETH", "i": "1h", "o": "3431.0", "c": "3438.2",
    ...           "h": "3440.5", "l": "3429.9", "v": "812.4", "n": 391}
    >>> bar = bars_from_candles([candle])[0]
    >>> bar.t1.isoformat(), str(bar.c), bar.frame
    ('2026-06-04T13:00:00+00:00', '3438.2', 3600)
    >>> bars_from_candles([candle], until=bar.t1 - timedelta(milliseconds=1))
    []
    """
    found: dict[tuple[str, str, int], Bar] = {}
    for row in read(list[CandleRow], payload, at="candleSnapshot"):
        t0, symbol = time_from_millis(row.t), coin_symbol(row.s)
        t1 = t0 + candle_length(row.i)
        if until is None or t1 <= until:
            data = {"symbol": symbol, "t0": t0, "t1": t1, "o": row.o, "h": row.h, "l": row.l, "c": row.c, "v": row.v}
            found[symbol, row.i, row.t] = read(CheckedBar, data, at="candleSnapshot")
    return sorted(found.values(), key=lambda bar: (bar.t1, bar.symbol, bar.frame))


def completed_bars(bars: Sequence[Bar], now: datetime) -> list[Bar]:
    """Returns the candles that will not change any more, of one coin and interval.

    The last candle of an answer may still be at work, and `now` is a clock that may be a little ahead of the venue's. So a candle
    is complete once a later one has begun, or some minutes after its end: a coin without trades has no later one.

    >>> first, second = (Bar(symbol="ETH", t0=time_from_millis(n * 60_000), t1=time_from_millis((n + 1) * 60_000), o=1, h=1,
    ...     l=1, c=1) for n in (0, 1))
    >>> [len(completed_bars([first, second], second.t1 + wait)) for wait in (timedelta(0), CLOCK_DIFFERENCE)]
    [1, 2]
    """
    newest = max((bar.t0 for bar in bars), default=now)
    return [bar for bar in bars if bar.t1 <= now and (bar.t0 < newest or bar.t1 + CLOCK_DIFFERENCE <= now)]


def candle_length(name: str) -> timedelta:
    """Returns the length of a candle."""
    if name not in INTERVALS:
        raise Invalid("interval", f"'{name[:20]}' is not a candle interval", f"Use one of {', '.join(INTERVALS)}")
    return INTERVALS[name]
