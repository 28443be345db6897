"""A change of level in the figures of an agent: outcomes, risk, time held.

After each value the latest 30 are compared with the usual values before them, by ranks: each value counts as the normal score of
its rank, the mean of that part of a normal distribution which the rank stands for. So the shape of the values does not matter: an
account with a far target, a long tail or a rare large loss has no more false alarms than others. For a change of level the scores
of van der Waerden are never less efficient than the means themselves (Chernoff & Savage 1958). The mean must have moved too.

The difference is judged by its error, which is larger if values resemble those before them. Few values tell neither spread nor
correlation well: the correlation is taken for larger than it was, and the limit is higher. A change is over when the mean of
twenty values after the alarm is back within half a deviation; after a hundred trades it is the new habit. Values during a change
do not count as usual.

The threshold, in errors, comes from simulation (`evidence/drift.py`): outcomes, risk and time held together raise an alarm in 8
to 15 % of histories of 300 steady trades, also if outcomes and risk resemble the ones before, and a change by one deviation after
150 values is noticed within 30 in more than nine of ten. Changes by two deviations are noticed after about 15 values; a
comparison of means would need 12, with more false alarms where values resemble each other.

>>> usual = [0.0, 1.0] * 40
>>> [(s.at, s.began, s.direction, s.ended) for s in level_shifts(usual + [2.0] * 30, 0.1)]
[(90, 80, 'improving', None)]
>>> [(s.at, s.ended) for s in level_shifts(usual + [2.0] * 30 + usual, 0.1)]
[(90, 126)]

References: van der Waerden 1952; Chernoff & Savage 1958; Bauer & Hackl 1978 (moving sums for quality control).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import pairwise
from statistics import NormalDist

from memtape.core.memory.habits import Direction
from memtape.core.statistics import mean
from memtape.core.value_class import dataclass

SHIFT_WINDOW_TRADES = 30  # the latest values, which are compared with those before them
LEAST_WINDOW_TRADES = 10
SHIFT_BASELINE_TRADES = 30
SHIFT_TRADES = SHIFT_BASELINE_TRADES + LEAST_WINDOW_TRADES  # before it has as many, a habit cannot be said to change
USUAL_TRADES = 300  # usual values, the latest, that are compared with the window
SHIFT_THRESHOLD = 3.1  # errors of the difference between the two means of scores
MEAN_THRESHOLD = 2.0  # errors by which the mean of the values themselves must have moved
MAX_CORRELATION = 0.5
CORRELATION_ERRORS = 1.3  # errors by which the correlation is taken for larger than it was
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


class _UsualValues:
    """The values that count as usual, oldest first, with running sums: the mean of any stretch of them costs the same."""

    def __init__(self, values: Iterable[float], least_spread: float) -> None:
        self._least = least_spread
        self.values: list[float] = []
        self._sums: list[tuple[float, float]] = [(0.0, 0.0)]
        self.add(values)

    def add(self, values: Iterable[float]) -> None:
        for value in values:
            # Values are taken from the first one on, so that large equal numbers do not cancel to noise.
            x, (one, two) = value - (self.values[0] if self.values else value), self._sums[-1]
            self._sums.append((one + x, two + x * x))
            self.values.append(value)

    def drop_last(self, count: int) -> None:
        del self.values[len(self.values) - count :], self._sums[len(self._sums) - count :]

    def moments(self, start: int, end: int) -> tuple[float, float]:
        """Returns the mean of some values, and the sum of the squares of what they deviate from it."""
        (a1, a2), (b1, b2) = self._sums[start], self._sums[end]
        n, one, two = end - start, b1 - a1, b2 - a2
        return self.values[0] + one / n, max(0.0, two - one * one / n)

    def mean(self) -> float:
        return self.moments(0, len(self.values))[0]

    def deviation(self) -> float:
        """Returns the deviation of the values, no smaller than the least spread."""
        n = len(self.values)
        return max(self._least, math.sqrt(self.moments(0, n)[1] / (n - 1)))

    def apart(self, window: int) -> float:
        """Returns by how many errors the latest values are above those before; 0 if their means are close."""
        end = len(self.values)
        split = end - window
        start = max(0, split - USUAL_TRADES)
        (before, squares), (latest, others) = self.moments(start, split), self.moments(split, end)
        deviation = max(self._least, math.sqrt((squares + others) / (end - start - 2)))
        moved = (latest - before) / (deviation * math.sqrt(1.0 / window + 1.0 / (split - start)))
        if abs(moved) < MEAN_THRESHOLD:
            return 0.0
        by_rank = scores_apart(self.values[start:], window)
        return by_rank if by_rank * moved > 0 else 0.0

    def began(self, window: int) -> int:
        """Returns how many of the latest values have another level: those whose sum stands out most."""
        n = len(self.values) - window
        middle, total, best, count = self.moments(0, n)[0], 0.0, -1.0, 1
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
                latest = xs[at - BACK_TRADES + 1 : at + 1]
                back = abs(mean(latest) - usual.mean()) <= BACK_WITHIN_DEVIATIONS * usual.deviation()
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
        # With few values the error is itself uncertain: the quantile of Student's t instead of the normal one. Its degrees of
        # freedom are a quarter of the values, because the correlation is estimated from them too.
        limit = threshold * (1.0 + (threshold * threshold + 1.0) / (len(usual.values) - 2))
        apart = usual.apart(window)
        if abs(apart) > limit:
            count = min(usual.began(window), at - first + 1)
            usual.drop_last(count)
            size = (mean(xs[at - count + 1 : at + 1]) - usual.mean()) / usual.deviation()
            shift = LevelShift(at, at - count + 1, "degrading" if apart < 0 else "improving", size)
            found.append(shift)
    return found


def scores_apart(xs: Sequence[float], window: int) -> float:
    """Returns by how many errors the normal scores of the latest values are above those of the values before.

    >>> round(scores_apart([1.0, 5.0, 2.0, 4.0, 3.0] * 6 + [4.0, 5.0] * 5, 10), 1)
    3.0
    """
    scores = normal_scores(xs)
    n, before = len(xs), len(xs) - window
    # Each stretch is taken around its own mean: a change is no spread.
    middles = mean(scores[:before]), mean(scores[before:])
    around = [score - middles[place >= before] for place, score in enumerate(scores)]
    squares = math.fsum(x * x for x in around)
    if squares <= 0.0:
        return 0.0
    deviation = math.sqrt(squares / (n - 2))
    neighbours = math.fsum(x * y for x, y in pairwise(around)) - around[before - 1] * around[before]
    alike = min(MAX_CORRELATION, max(0.0, neighbours / squares + CORRELATION_ERRORS / math.sqrt(n)))
    both = 1.0 / window + 1.0 / before
    return (middles[1] - middles[0]) / (deviation * math.sqrt(both * (1.0 + alike) / (1.0 - alike)))


def normal_scores(xs: Sequence[float]) -> list[float]:
    """Returns for each value the mean of that part of a standard normal distribution which its rank stands for.

    Equal values share their ranks. The scores add up to zero.

    >>> [round(score, 2) for score in normal_scores([7.0, 1.0, 3.0, 3.0])]
    [1.27, -1.27, 0.0, 0.0]
    """
    n, order = len(xs), sorted(range(len(xs)), key=xs.__getitem__)
    heights, scores, first = _heights(n), [0.0] * n, 0
    while first < n:
        end = first + 1
        while end < n and xs[order[end]] == xs[order[first]]:
            end += 1
        score = n * (heights[first] - heights[end]) / (end - first)
        for place in order[first:end]:
            scores[place] = score
        first = end
    return scores


@lru_cache(maxsize=2 * USUAL_TRADES)
def _heights(n: int) -> tuple[float, ...]:
    """Returns the height of the normal density where 0, 1, ... n of n equal parts of the distribution lie below."""
    normal = NormalDist()
    return (0.0, *(normal.pdf(normal.inv_cdf(part / n)) for part in range(1, n)), 0.0)
