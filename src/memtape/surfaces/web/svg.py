"""Geometry of the drawings that the server makes as SVG: scales, lines, areas and stacked bars, as numbers and text.

Across, places are in % of the width, so that a drawing fits any screen and its labels keep their size. A line cannot be given
in %: it is drawn in a box of 1000 by 100 that the browser stretches.

>>> LinearScale(0, 10).at(2.5), LinearScale(0, 10, 100, 0).at(2.5)
(25.0, 75.0)
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

BOX_WIDTH, BOX_HEIGHT = 1000, 100
ROOM_AT_THE_ENDS = 0.08  # of the range of the values

Point = tuple[float, float]


@dataclass(frozen=True, slots=True)
class LinearScale:
    """A linear scale: `low` lies at `start` and `high` at `end`, in % unless stated otherwise."""

    low: float
    high: float
    start: float = 0.0
    end: float = 100.0

    @classmethod
    def around(cls, values: Iterable[float | None], also: float = 0.0) -> LinearScale:
        """A scale that shows all known values and `also`, with some room at both ends.

        >>> scale = LinearScale.around([-0.8, None, 0.5])
        >>> scale.percent(0.0), scale.percent(-0.8) < scale.percent(0.5)
        (59.95, True)
        """
        known = [value for value in values if value is not None] + [also]
        room = ROOM_AT_THE_ENDS * (max(known) - min(known)) or 1.0
        return cls(min(known) - room, max(known) + room)

    def at(self, value: float) -> float:
        """Where a value lies. On a scale without range everything lies at the start."""
        return self.start + (self.end - self.start) * (value - self.low) / ((self.high - self.low) or 1.0)

    def percent(self, value: float) -> float:
        """Where a value lies, rounded for the page."""
        return round(self.at(value), 2)


# ---- lines ---------------------------------------------------------------------------------------------------------------


def polyline(points: Iterable[Point], x: LinearScale, y: LinearScale) -> str:
    """A line through points, as the `points` of an SVG polyline.

    >>> polyline([(0, 1.0), (10, 3.0)], LinearScale(0, 10, 0, 1000), LinearScale(1.0, 3.0, 100, 0))
    '0,100 1000,0'
    """
    return " ".join(f"{x.at(across):.5g},{y.at(up):.4g}" for across, up in points)


def area(points: Sequence[Point], x: LinearScale, y: LinearScale, ground: float) -> str:
    """The area between a line and a level, as the `points` of an SVG polygon.

    >>> area([(2, 3.0), (4, 5.0)], LinearScale(0, 10), LinearScale(0, 10, 100, 0), 0.0)
    '20,100 20,70 40,50 40,100'
    """
    return polyline([(points[0][0], ground), *points, (points[-1][0], ground)], x, y)


def strokes(points: Iterable[Point], x: LinearScale, y: LinearScale, ground: float) -> str:
    """A vertical stroke from a level to each point, as the `d` of an SVG path.

    >>> strokes([(5, 1.0)], LinearScale(0, 10), LinearScale(-1, 1, 100, 0), 0.0)
    'M50,50V0'
    """
    return " ".join(f"M{x.at(across):.5g},{y.at(ground):.4g}V{y.at(up):.4g}" for across, up in points)


def steps(points: Sequence[Point]) -> list[Point]:
    """The corners of a line for a value that changes at once and then stays level until the next point.

    >>> steps([(0, 10.0), (5, 30.0)])
    [(0, 10.0), (5, 10.0), (5, 30.0)]
    """
    levels = [corner for (_, before), (t, value) in pairwise(points) for corner in ((t, before), (t, value))]
    return [*points[:1], *levels]


def thin_points(points: Sequence[Point], limit: int) -> list[Point]:
    """At most `limit` of the points, with the lowest and the highest of every stretch: no drawdown is smoothed away.

    >>> thin_points([(n, float(n % 7)) for n in range(100)], 6)
    [(0, 0.0), (6, 6.0), (55, 6.0), (56, 0.0), (99, 1.0)]
    """
    if len(points) <= limit:
        return list(points)
    stretches = max(limit // 2 - 1, 1)
    chosen = {0, len(points) - 1}
    for n in range(stretches):
        stretch = range(n * len(points) // stretches, (n + 1) * len(points) // stretches)
        chosen |= {min(stretch, key=lambda i: points[i][1]), max(stretch, key=lambda i: points[i][1])}
    return [points[i] for i in sorted(chosen)]


# ---- bars ----------------------------------------------------------------------------------------------------------------


class Span(NamedTuple):
    """The place of a part of a bar, in % of its width."""

    x: float
    width: float


def stack(lengths: Iterable[float], full: float) -> list[Span]:
    """Parts one after the other on a bar whose whole width is `full`. A negative length goes back over the part before it.

    >>> stack([3.0, 1.0, -2.0], 4.0)
    [Span(x=0.0, width=75.0), Span(x=75.0, width=25.0), Span(x=50.0, width=50.0)]
    """
    scale, place, spans = LinearScale(0.0, full), 0.0, []
    for length in lengths:
        reached = place + length
        spans.append(Span(round(scale.at(min(place, reached)), 6), round(scale.at(abs(length)), 6)))
        place = reached
    return spans
