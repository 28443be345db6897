"""A change of level in the figures of an agent: outcomes, risk, time held.

The mean of the latest 30 values is compared with that of all usual values before them, after each value. The difference is judged
by its error, which is larger for few values and for values that resemble those before them. Sums of skewed values, as of brackets
with a far target, have a longer tail on one side: they are corrected by half of the formula of Cornish and Fisher. A change is
over when the mean of twenty values after the alarm is back within half a deviation; after a hundred trades it is the new habit.
Values during a change do not count as usual.

The threshold, in errors, comes from simulation (`evidence/beliefs.py`): steady values raise an alarm in about 4 % of histories of
300, whatever their shape, and a change by one deviation after 150 values is noticed within 30 in more than nine of ten. A sum of
deviations (CUSUM) with as few false alarms finds fewer of them, and has many more false alarms where values are skewed.

>>> usual = [0.0, 1.0] * 40
>>> [(s.at, s.began, s.direction, s.ended) for s in level_shifts(usual + [2.0] * 30, 0.1)]
[(89, 80, 'improving', None)]
>>> [(s.at, s.ended) for s in level_shifts(usual + [2.0] * 30 + usual, 0.1)]
[(89, 126)]

References: Cornish & Fisher 1937; Bauer & Hackl 1978 (moving sums for quality control).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from memtape.core.memory.habits import Direction
from memtape.core.statistics import mean

SHIFT_WINDOW_TRADES = 30  # the latest values, which are compared with those before them
LEAST_WINDOW_TRADES = 10
SHIFT_BASELINE_TRADES = 30
SHIFT_TRADES = SHIFT_BASELINE_TRADES + LEAST_WINDOW_TRADES  # before it has as many, a habit cannot be said to change
SHIFT_THRESHOLD = 3.3  # errors of the difference between the two means
SKEW_SHARE = 0.5  # of the correction for skewed values: all of it is too much this far from the middle
MAX_SKEW, MAX_CORRELATION = 3.0, 0.5
BACK_TRADES = 20  # values after an alarm whose mean tells that they are back
BACK_WITHIN_DEVIATIONS = 0.5
NEW_HABIT_TRADES = 100  # a change that has lasted for as many trades is the habit


@dataclass(frozen=True, slots=True)
class LevelShift:
    """A change of level: when it was noticed, where it began, in which direction, and by how many deviations of the baseline.

    `ended` is the index of the value with which it was over; None while it lasts.
    """

    at: int
    began: int
    direction: Direction
    magnitude: float
    ended: int | None = None


class _Moments(NamedTuple):
    """The mean of some values, and the sums of the squares and cubes of what they deviate from it."""

    mean: float
    squares: float
    cubes: float


class _UsualValues:
    """The values that count as usual, oldest first, with running sums of their powers: any stretch of them costs the same."""

    def __init__(self, values: Iterable[float], least_spread: float) -> None:
        self._least = least_spread
        self.values: list[float] = []
        self._sums: list[tuple[float, float, float, float]] = [(0.0, 0.0, 0.0, 0.0)]
        self.add(values)

    def add(self, values: Iterable[float]) -> None:
        for value in values:
            # Values are taken from the first one on, so that large equal numbers do not cancel to noise.
            x, last = value - (self.values[0] if self.values else value), self.values[-1] - self.values[0] if self.values else 0.0
            one, two, three, products = self._sums[-1]
            self._sums.append((one + x, two + x * x, three + x * x * x, products + x * last))
            self.values.append(value)

    def drop_last(self, count: int) -> None:
        del self.values[len(self.values) - count :], self._sums[len(self._sums) - count :]

    def moments(self, start: int, end: int) -> _Moments:
        (a1, a2, a3, _), (b1, b2, b3, _) = self._sums[start], self._sums[end]
        n, one, two, three = end - start, b1 - a1, b2 - a2, b3 - a3
        middle = one / n
        cubes = three - 3.0 * middle * two + 2.0 * n * middle * middle * middle
        return _Moments(self.values[0] + middle, max(0.0, two - n * middle * middle), cubes)

    def deviation(self, n: int) -> float:
        """Returns the deviation of the first n values, no smaller than the least spread."""
        return max(self._least, math.sqrt(self.moments(0, n).squares / (n - 1)))

    def _runs(self, n: int) -> float:
        """Returns how much larger the error of a mean is, because values resemble those before them (n of them are known).

        The correlation is taken for half of its own error larger than it was in so few values.
        """
        middle, ends = self._sums[n][0] / n, self.values[n - 1] - self.values[0]
        products = self._sums[n][3] - middle * (2.0 * self._sums[n][0] - ends) + (n - 1) * middle * middle
        alike = products / (n * self.deviation(n) ** 2) + 0.5 / math.sqrt(n)
        alike = _within(max(0.0, alike), MAX_CORRELATION)
        return math.sqrt((1.0 + alike) / (1.0 - alike))

    def apart(self, window: int) -> float:
        """Returns by how many errors the mean of the latest values is above that of those before, corrected for skewed values."""
        n, everything = len(self.values) - window, len(self.values)
        before, latest = self.moments(0, n), self.moments(n, everything)
        # Both stretches tell the spread, each around its own mean: one large gain in the window does not look like a change.
        deviation = max(self._least, math.sqrt((before.squares + latest.squares) / (everything - 2)))
        skew = _within((before.cubes + latest.cubes) / everything / (deviation * deviation * deviation), MAX_SKEW)
        both = 1.0 / window + 1.0 / n
        z = (latest.mean - before.mean) / (deviation * self._runs(n) * math.sqrt(both))
        of_difference = skew * (1.0 / window**2 - 1.0 / n**2) / (both * math.sqrt(both))
        return z - SKEW_SHARE * of_difference * (z * z - 1.0) / 6.0

    def began(self, window: int) -> int:
        """Returns how many of the latest values have another level: those whose sum stands out most."""
        n = len(self.values) - window
        middle, total, best, count = self.moments(0, n).mean, 0.0, -1.0, 1
        for back in range(1, window + 1):
            total += self.values[-back] - middle
            if abs(total) / math.sqrt(back) > best:
                best, count = abs(total) / math.sqrt(back), back
        return count


def level_shifts(xs: Sequence[float], least_spread: float, threshold: float = SHIFT_THRESHOLD) -> list[LevelShift]:
    """Returns the changes of level in some values, oldest first. `least_spread` is the smallest deviation that counts."""
    found: list[LevelShift] = []
    usual, first = _UsualValues((), least_spread), 0  # `first`: since when there is no change
    shift: LevelShift | None = None
    for at, x in enumerate(xs):
        if shift is not None:
            if at - shift.at >= BACK_TRADES:
                latest, n = xs[at - BACK_TRADES + 1 : at + 1], len(usual.values)
                back = abs(mean(latest) - usual.moments(0, n).mean) <= BACK_WITHIN_DEVIATIONS * usual.deviation(n)
                if back or at - shift.began + 1 >= NEW_HABIT_TRADES:
                    found[-1] = replace(shift, ended=at)
                    usual = usual if back else _UsualValues((), least_spread)
                    usual.add(latest if back else xs[shift.began : at + 1])
                    shift, first = None, at + 1
            continue
        usual.add((x,))
        window = min(SHIFT_WINDOW_TRADES, len(usual.values) - SHIFT_BASELINE_TRADES)
        if window < LEAST_WINDOW_TRADES:
            continue
        # With few values the error is itself uncertain: the quantile of Student's t instead of the normal one.
        limit = threshold * (1.0 + (threshold * threshold + 1.0) / (4.0 * (len(usual.values) - 2)))
        apart = usual.apart(window)
        if abs(apart) > limit:
            count = min(usual.began(window), at - first + 1)
            usual.drop_last(count)
            middle, n = usual.moments(0, len(usual.values)).mean, len(usual.values)
            size = (mean(xs[at - count + 1 : at + 1]) - middle) / usual.deviation(n)
            shift = LevelShift(at, at - count + 1, "degrading" if apart < 0 else "improving", size)
            found.append(shift)
    return found


def _within(value: float, most: float) -> float:
    return max(-most, min(most, value))
