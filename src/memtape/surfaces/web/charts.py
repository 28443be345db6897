"""What the charts draw: equity as a line, a trade's excursions on one axis, the bars around a trade.

Everything is computed here, as numbers; templates place them in SVG, and app.js hands them to lightweight-charts.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any

from memtape.core.codec import EPOCH, read_time
from memtape.core.observed import Bar

MOST_POINTS = 4000  # a chart is about 1200 pixels wide; two values a pixel show every extreme
MOST_CANDLES = 400
MARGIN = 45  # bars drawn before the entry and after the exit

Point = tuple[int, float]  # seconds since 1970, value


def seconds(moment: datetime) -> int:
    """A moment as charts count time."""
    return (moment - EPOCH) // timedelta(seconds=1)


def curve(points: Sequence[Mapping[str, str]]) -> list[Point]:
    """The points of `get_equity` as a chart takes them: one a second at most, the last of each."""
    return list({seconds(read_time(point["t"])): float(point["nav"]) for point in points}.items())


def stepped(points: Sequence[Point]) -> list[Point]:
    """The points of something that changes at once and then stays: level up to the next one.

    >>> stepped([(0, 10.0), (5, 30.0)])
    [(0, 10.0), (5, 10.0), (5, 30.0)]
    """
    levels = [step for (_, before), (t, value) in pairwise(points) for step in ((t, before), (t, value))]
    return [*points[:1], *levels]


def thin_points(points: Sequence[Point], most: int) -> list[Point]:
    """At most `most` of the points, with the lowest and the highest of every stretch: no drawdown is smoothed away.

    >>> thin_points([(n, float(n % 7)) for n in range(100)], 6)
    [(0, 0.0), (6, 6.0), (55, 6.0), (56, 0.0), (99, 1.0)]
    """
    if len(points) <= most:
        return list(points)
    stretches = max(most // 2 - 1, 1)
    kept = {0, len(points) - 1}
    for n in range(stretches):
        stretch = range(n * len(points) // stretches, (n + 1) * len(points) // stretches)
        kept |= {min(stretch, key=lambda i: points[i][1]), max(stretch, key=lambda i: points[i][1])}
    return [points[i] for i in sorted(kept)]


def drawing(equity: Mapping[str, Any], size: tuple[int, int]) -> str:
    """The answer of `get_equity` as a line of an SVG of this size."""
    points = curve(equity["points"])
    return outline(thin_points(points if equity["source"] == "marks" else stepped(points), size[0]), *size)


def outline(points: Sequence[Point], width: int, height: int) -> str:
    """A line through the points as the `points` of an SVG polyline, time to the right; empty where there is no line.

    >>> outline([(0, 10.0), (5, 30.0), (10, 20.0)], 100, 40)
    '0,39 50,1 100,20'
    """
    if len(points) < 2:
        return ""
    first, last = points[0][0], points[-1][0]
    low, high = min(value for _, value in points), max(value for _, value in points)
    across, up = width / max(last - first, 1), (height - 2) / ((high - low) or 1)
    return " ".join(f"{(t - first) * across:.4g},{height - 1 - (value - low) * up:.4g}" for t, value in points)


@dataclass(frozen=True, slots=True)
class AxisMark:
    """A place on the axis of a trade: what it is, where (in %), and the amount there."""

    name: str
    x: float
    usd: str
    r: str | None

    @property
    def anchor(self) -> str:
        """Which way its label runs, so that it stays inside."""
        return "start" if self.x < 12 else "end" if self.x > 88 else "middle"


def excursions(trade: Mapping[str, Any]) -> dict[str, AxisMark] | None:
    """MAE, entry, MFE and exit of a trade on one axis, gross PnL to the right; None where they are not known.

    >>> axis = excursions({"mae_usd": "-50", "mfe_usd": "150", "mae_r": "-0.5", "mfe_r": "1.5", "status": "closed",
    ...                    "quality": "fills", "realized_pnl_usd": "100", "initial_risk_usd": "100"})
    >>> [(mark.name, round(mark.x)) for mark in axis.values()]
    [('−1 R', 4), ('MAE', 22), ('entry', 41), ('MFE', 96), ('exit', 78)]
    """
    if trade["mae_usd"] is None or trade["mfe_usd"] is None or trade["quality"] == "unpriced":
        return None
    risk = float(trade["initial_risk_usd"] or 0)
    amounts: dict[str, tuple[str, str, str | None]] = {}
    if risk:
        amounts["stop"] = ("−1 R", f"-{trade['initial_risk_usd']}", "-1")
    amounts |= {
        "mae": ("MAE", trade["mae_usd"], trade["mae_r"]),
        "entry": ("entry", "0", None),
        "mfe": ("MFE", trade["mfe_usd"], trade["mfe_r"]),
    }
    if trade["status"] == "closed" and trade["realized_pnl_usd"] is not None:
        gross = trade["realized_pnl_usd"]
        amounts["exit"] = ("exit", gross, f"{float(gross) / risk:.8f}" if risk else None)
    places = {key: float(usd) for key, (_, usd, _) in amounts.items()}
    low, high = min(places.values()), max(places.values())
    if low == high:
        return None
    return {
        key: AxisMark(name, round(4 + 92 * (places[key] - low) / (high - low), 2), usd, in_r)
        for key, (name, usd, in_r) in amounts.items()
    }


def around(read: Callable[[datetime, datetime], list[Bar]], entry: datetime, exit_: datetime) -> list[Bar]:
    """The bars to draw around a trade: of one length, the finest that is not too fine, with room before and after."""
    for reach in (timedelta(hours=2), timedelta(days=4), timedelta(days=30)):
        if near := read(entry - reach, exit_ + reach):
            break
    else:
        return []
    frames = sorted({bar.frame for bar in near})
    held = (exit_ - entry).total_seconds()
    frame = next((frame for frame in frames if held / frame <= MOST_CANDLES), frames[-1])
    room = timedelta(seconds=frame * MARGIN)
    return [bar for bar in read(entry - room, exit_ + room) if bar.frame == frame]


def candles(trade: Mapping[str, Any], bars: Sequence[Bar]) -> dict[str, Any]:
    """The bars around a trade, its entry and exit, its stop and target: all that the price chart draws."""
    together = -(-len(bars) // MOST_CANDLES) or 1
    drawn = [_candle(bars[n : n + together]) for n in range(0, len(bars), together)]
    times = [candle["time"] for candle in drawn]

    def at(name: str) -> list[dict[str, Any]]:
        if trade[f"{name}_at"] is None or trade[f"{name}_price"] is None or not times:
            return []
        place = bisect_right(times, seconds(read_time(trade[f"{name}_at"]))) - 1
        return [{"time": times[max(place, 0)], "kind": name, "price": float(trade[f"{name}_price"])}]

    lines = [(name, trade[f"{name}_price"]) for name in ("entry", "exit", "stop", "target")]
    return {
        "symbol": trade["symbol"],
        "side": trade["side"],
        "frame_seconds": bars[0].frame if bars else None,
        "bars_per_candle": together,
        "candles": drawn,
        "markers": [*at("entry"), *at("exit")],
        "lines": [{"kind": name, "price": float(price)} for name, price in lines if price is not None],
    }


def _candle(bars: Sequence[Bar]) -> dict[str, Any]:
    return {
        "time": seconds(bars[0].t0),
        "open": float(bars[0].o),
        "high": float(max(bar.h for bar in bars)),
        "low": float(min(bar.l for bar in bars)),
        "close": float(bars[-1].c),
    }
