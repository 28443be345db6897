"""How long a decision is meant to hold, as files write it -> bars of a frame, on which its outcome is followed."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import timedelta

from memtape.core.decisions.outcome_bars import FRAME_SECONDS
from memtape.core.observed import Frame

MAX_BARS = 100_000
_SPAN = re.compile(r"(?:next\s+)?(\d+(?:\.\d+)?)\s*-?\s*([a-z]*)")
_MINUTES: Mapping[str, int] = {
    **dict.fromkeys(("m", "min", "mins", "minute", "minutes"), 1), **dict.fromkeys(("h", "hr", "hrs", "hour", "hours"), 60),
    **dict.fromkeys(("d", "day", "days"), 1440), **dict.fromkeys(("w", "wk", "week", "weeks"), 10_080),
}  # fmt: skip
_BARS = ("bar", "bars", "candle", "candles")
_FRAME_WORDS: Mapping[str, Frame] = {
    **{word: word for word in FRAME_SECONDS},
    "m1": "1m", "m5": "5m", "m15": "15m", "m30": "30m", "h1": "1h", "h4": "4h", "d1": "1d", "d": "1d", "1min": "1m", "5min": "5m",
    "15min": "15m", "30min": "30m", "60m": "1h", "60min": "1h", "1hour": "1h", "4hour": "4h", "hourly": "1h", "daily": "1d",
    "1day": "1d", "day": "1d", "hour": "1h",
}  # fmt: skip


def read_frame(cell: str) -> Frame | None:
    """Returns the frame that a cell names.

    >>> read_frame("H1"), read_frame("daily"), read_frame("2h")
    ('1h', '1d', None)
    """
    return _FRAME_WORDS.get(re.sub(r"[\s_-]+", "", cell.lower()))


def unit_in_heading(heading: str) -> str:
    """Returns the unit that a column's name states.

    >>> [unit_in_heading(name) for name in ("horizon_hours", "Horizon (d)", "expiry_bars", "horizon")]
    ['hours', 'd', 'bars', '']
    """
    words = [word for word in re.split(r"[^a-z]+", heading.lower()) if word]
    return next((word for word in words if word in _MINUTES or word in _BARS), "")


def read_horizon(cell: str, unit: str, frame: Frame | None) -> tuple[Frame | None, int] | None:
    """Returns the frame and the number of bars after which a decision expires; None if the cell states no length of time.

    >>> read_horizon("24h", "", None), read_horizon("5 days", "", None), read_horizon("45", "minutes", None)
    (('1h', 24), ('1d', 5), ('15m', 3))
    >>> read_horizon("12", "bars", "4h"), read_horizon("2d", "", "4h"), read_horizon("swing", "", None)
    (('4h', 12), ('4h', 12), None)
    """
    found = _SPAN.fullmatch(cell.strip().lower())
    word = (found[2] or unit) if found else ""
    if not found or (word not in _MINUTES and word not in _BARS):
        return None
    number = float(found[1])
    if word in _BARS:
        return (frame, int(number)) if number.is_integer() and 1 <= number <= MAX_BARS else None
    return bars_of(timedelta(minutes=number * _MINUTES[word]), frame)


def bars_of(length: timedelta, frame: Frame | None) -> tuple[Frame, int] | None:
    """Returns a length of time in bars: of the frame, else of the longest frame of which it is a whole number."""
    seconds = round(length.total_seconds())
    if frame is None:
        fitting = [name for name in ("1d", "1h", "15m", "5m", "1m") if seconds % FRAME_SECONDS[name] == 0]
        # 24 hours are 24 bars of an hour: a day's bar may begin before the decision, and would not count.
        if seconds == FRAME_SECONDS["1d"]:
            fitting = ["1h"]
        frame = fitting[0] if fitting else "1h"  # type: ignore[assignment]
    assert frame is not None
    bars = -(-seconds // FRAME_SECONDS[frame])
    return (frame, bars) if 1 <= bars <= MAX_BARS else None
