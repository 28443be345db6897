"""The drawings of memory, as numbers for SVG: densities, intervals, histograms, and the state of mind over time.

Across, places are in % of the width, so that a drawing fits any screen and its labels keep their size; lines that cannot be
given in % are drawn in a box of 1000 by 100 that is stretched.

>>> scale = Axis.over([-0.8, 0.5], around=0.0)
>>> scale.at(0.0), scale.at(-0.8) < scale.at(0.5)
(59.95, True)
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, NamedTuple

from memtape.core.codec import EPOCH, read_time, time_text
from memtape.surfaces.web.charts import Point, seconds, stepped, thin_points

WIDE, HIGH = 1000, 100
STEPS = 240
MOST_POINTS = 900
TALLEST_R = 3.0  # a close beyond is drawn as long as this


@dataclass(frozen=True, slots=True)
class Axis:
    """An axis: what lies at its ends."""

    low: float
    high: float

    @classmethod
    def over(cls, values: Iterable[float | None], around: float = 0.0) -> Axis:
        """An axis that shows all of these and `around`, with some room."""
        known = [value for value in values if value is not None] + [around]
        room = 0.08 * (max(known) - min(known)) or 1.0
        return cls(min(known) - room, max(known) + room)

    def at(self, value: float) -> float:
        """Where a value lies, in %."""
        return round(100 * (value - self.low) / (self.high - self.low), 2)


# ---- a rate ------------------------------------------------------------------------------------------------------------


class Density(NamedTuple):
    """The density of a rate, 0 to 1 across: the line, the area under it within the interval, the prior's line."""

    line: str
    inside: str
    prior: str


def density(belief: Mapping[str, Any]) -> Density:
    """What is known of how often a belief holds, beside what was assumed before the first trade.

    >>> drawn = density({"alpha": 8.0, "beta": 4.0, "prior": {"alpha": 1.0, "beta": 1.0}, "interval_90": [0.436, 0.865]})
    >>> drawn.line.split()[0], drawn.inside.split()[0], len(drawn.line.split())
    ('1,100', '436,100', 241)
    """
    now = beta_density(belief["alpha"], belief["beta"])
    before = beta_density(belief["prior"]["alpha"], belief["prior"]["beta"])
    grid = [0.001 + 0.998 * n / STEPS for n in range(STEPS + 1)]
    top = max(now(x) for x in grid) * 1.06

    def points(places: Iterable[float], curve: Callable[[float], float]) -> list[str]:
        return [_xy(WIDE * x, HIGH - HIGH * min(curve(x) / top, 1.0)) for x in places]

    low, high = belief["interval_90"]
    shaded = [low, *(x for x in grid if low < x < high), high]
    inside = [_xy(WIDE * low, HIGH), *points(shaded, now), _xy(WIDE * high, HIGH)]
    return Density(" ".join(points(grid, now)), " ".join(inside), " ".join(points(grid, before)))


def beta_density(alpha: float, beta: float) -> Callable[[float], float]:
    """The density of Beta(alpha, beta).

    >>> round(beta_density(2.0, 2.0)(0.5), 6)
    1.5
    """
    scale = math.lgamma(alpha + beta) - math.lgamma(alpha) - math.lgamma(beta)
    return lambda x: math.exp(scale + (alpha - 1) * math.log(x) + (beta - 1) * math.log1p(-x)) if 0 < x < 1 else 0.0


def _xy(x: float, y: float) -> str:
    return f"{x:.5g},{y:.4g}"


# ---- outcomes ----------------------------------------------------------------------------------------------------------


class Bin(NamedTuple):
    """A stretch of outcomes: its name, how many effective trades, its bar."""

    name: str
    n: float
    x: float
    width: float
    height: float
    tone: str


BIN_NAMES: Mapping[str, str] = {
    "<=-2R": "≤ −2", "-2R..-1R": "to −1", "-1R..0": "to 0", "0": "0", "0..1R": "to 1", "1R..2R": "to 2", ">2R": "> 2",
}  # fmt: skip


def histogram(distribution: Mapping[str, float], high: float = 60.0) -> list[Bin]:
    """How outcomes are spread, by stretches of R.

    >>> [(bin.name, bin.height, bin.tone) for bin in histogram({"-1R..0": 2.0, "0..1R": 4.0}, high=100)]
    [('to 0', 50.0, 'loss'), ('to 1', 100.0, 'gain')]
    """
    top, room = max(distribution.values(), default=0.0) or 1.0, 100 / max(len(distribution), 1)
    return [
        Bin(BIN_NAMES.get(name, name), n, round(place * room + 0.06 * room, 2), round(0.88 * room, 2), round(high * n / top, 2),
            "even" if name == "0" else "loss" if "-" in name else "gain")
        for place, (name, n) in enumerate(distribution.items())
    ]  # fmt: skip


# ---- the state of mind -------------------------------------------------------------------------------------------------


class LinePanel(NamedTuple):
    """A line over time, or several, between two levels."""

    low: float
    high: float
    lines: Mapping[str, str]

    def at(self, value: float) -> float:
        """How far down a value lies, in %."""
        return round(100 - 100 * (value - self.low) / ((self.high - self.low) or 1.0), 2)


class Timeline(NamedTuple):
    """The steps of the state of mind, drawn above each other on one axis of time."""

    equity: LinePanel
    drawdown: LinePanel
    mood: LinePanel
    won: str  # a stroke upwards for each close, by its R
    lost: str
    n_closes: int
    days: tuple[str, ...]


def timeline(history: Sequence[Mapping[str, Any]], limit: float) -> Timeline | None:
    """A history as a drawing; None where there are no two moments to draw a line between."""
    times = [seconds(read_time(step["at"])) for step in history]
    if not times or times[0] == times[-1]:
        return None
    first, span = times[0], times[-1] - times[0]

    def line(name: str, low: float, high: float, steps: bool = True) -> str:
        told = list(dict(zip(times, (float(step[name]) for step in history), strict=True)).items())
        return traced(stepped(told) if steps else told, first, span, low, high)

    navs = [float(step["equity"]) for step in history]
    deepest = max(*(float(step["drawdown_pct"]) for step in history), limit)
    told = [(t, step["pnl_r"]) for t, step in zip(times, history, strict=True) if step["what"] == "close"]
    closes = [(t, float(r)) for t, r in told if r is not None]
    strokes = {sign: _strokes([(t, r) for t, r in closes if r * sign > 0], first, span) for sign in (1, -1)}
    low, high = min(navs), max(navs) if max(navs) > min(navs) else min(navs) + 1
    return Timeline(
        equity=LinePanel(low, high, {"equity": line("equity", low, high)}),
        drawdown=LinePanel(-deepest, 0.0, {"drawdown": line("drawdown_pct", deepest, 0.0)}),
        mood=LinePanel(0.0, 1.0, {"confidence": line("confidence", 0.0, 1.0), "appetite": line("risk_appetite", 0.0, 1.0)}),
        won=strokes[1], lost=strokes[-1], n_closes=len(closes), days=_days(first, span),
    )  # fmt: skip


def traced(points: Sequence[Point], first: int, span: int, low: float, high: float) -> str:
    """A line in the stretched box; `low` lies at its foot.

    >>> traced([(0, 1.0), (10, 3.0)], 0, 10, 1.0, 3.0)
    '0,100 1000,0'
    """
    kept = thin_points(points, MOST_POINTS)
    return " ".join(_xy(WIDE * (t - first) / span, HIGH - HIGH * (value - low) / ((high - low) or 1.0)) for t, value in kept)


def _strokes(closes: Sequence[tuple[int, float]], first: int, span: int) -> str:
    """Each close as a stroke from the middle, as long as its R, at most three."""
    middle = HIGH / 2
    lengths = [(t, middle * max(-1.0, min(1.0, r / TALLEST_R))) for t, r in closes]
    return " ".join(f"M{WIDE * (t - first) / span:.5g},{middle:g}V{middle - length:.4g}" for t, length in lengths)


def _days(first: int, span: int) -> tuple[str, ...]:
    """The days at both ends of the axis and in its middle."""
    return tuple(time_text(EPOCH + timedelta(seconds=first + span * part // 2))[:10] for part in range(3))
