"""Intervals and p-values that respect that trades of one moment, one week or one run of luck are not independent.

- `cluster_bootstrap` draws whole clusters (moments of entry, weeks) with replacement.
- `rotation_p` shifts the outcomes in a circle against the sizes, forwards and in reverse, so that every run of sizes and every
  run of luck stays whole: how often does chance match sizes and outcomes as well?
- `smallest_visible` is the effect that would have been found in four of five such samples.

Chance comes from a generator that the caller passes, so the same seed gives the same numbers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from memtape.core.statistics import normal_quantile, student_cdf

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Statistic = Callable[[Ints], float]  # of the rows that were drawn
LEVEL = 0.90  # of intervals, two-sided
POWER = 0.80
ALPHA = 0.05  # one-sided
MIN_SHIFT_TRADES = 5


class IntervalEnds(NamedTuple):
    """A two-sided 90 % interval."""

    low: float
    high: float


def clusters_of(keys: Sequence[int]) -> list[Ints]:
    """Returns the rows of each cluster, clusters in the order of their keys."""
    ordered = np.asarray(keys, dtype=np.int64)
    order = np.argsort(ordered, kind="stable")
    edges = np.flatnonzero(np.diff(ordered[order])) + 1
    return [part.astype(np.int64) for part in np.split(order, edges)] if len(order) else []


def cluster_bootstrap(
    clusters: Sequence[Ints], statistic: Statistic, chance: np.random.Generator, resamples: int
) -> IntervalEnds | None:
    """Returns the 90 % percentile interval of a statistic over resampled clusters; None where it is seldom defined."""
    if len(clusters) < 2:
        return None
    found = []
    for _ in range(resamples):
        drawn = chance.integers(0, len(clusters), len(clusters))
        value = statistic(np.concatenate([clusters[at] for at in drawn.tolist()]))
        if math.isfinite(value):
            found.append(value)
    return percentile_interval(found) if len(found) >= 0.5 * resamples else None


def percentile_interval(values: Sequence[float]) -> IntervalEnds:
    """Returns the central 90 % of some values."""
    low, high = np.quantile(np.asarray(values), [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return IntervalEnds(float(low), float(high))


class ClusteredMean(NamedTuple):
    """A mean with its standard error over clusters, and the one-sided p-value of "not above zero"."""

    mean: float
    error: float
    clusters: int
    p_value: float


def clustered_mean(values: Floats, keys: Sequence[int]) -> ClusteredMean:
    """Returns the mean of values with an error from the sums of clusters (Student's t, one cluster less than there are).

    >>> found = clustered_mean(np.array([1.0, 1.0, -1.0, -1.0, 2.0, 2.0]), [1, 1, 2, 2, 3, 3])
    >>> round(found.mean, 4), round(found.error, 4), found.clusters
    (0.6667, 0.8819, 3)
    """
    parts = clusters_of(keys)
    n, count = len(values), len(parts)
    middle = float(values.mean()) if n else 0.0
    if count < 2:
        return ClusteredMean(middle, math.inf, count, 1.0)
    squares = math.fsum(float((values[part] - middle).sum()) ** 2 for part in parts)
    error = math.sqrt(count / (count - 1) * squares) / n
    if error == 0.0:
        return ClusteredMean(middle, 0.0, count, 1.0)
    return ClusteredMean(middle, error, count, 1.0 - student_cdf(middle / error, count - 1))


def rotation_p(sizes: Floats, outcomes: Floats) -> float:
    """Returns how often sizes and outcomes that are shifted against each other fit as well as they do unshifted.

    >>> rotation_p(np.array([1.0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]), np.array([5.0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]))
    0.125
    """
    n = len(sizes)
    if n <= 2 * MIN_SHIFT_TRADES or np.ptp(sizes) == 0:
        return 1.0
    lean, luck = sizes - sizes.mean(), outcomes - outcomes.mean()
    observed = float(lean @ luck)
    kept = slice(MIN_SHIFT_TRADES, n - MIN_SHIFT_TRADES + 1)
    forwards = np.fft.irfft(np.conj(np.fft.rfft(lean)) * np.fft.rfft(luck), n)[kept]
    backwards = np.fft.irfft(np.conj(np.fft.rfft(lean)) * np.fft.rfft(luck[::-1]), n)
    tolerance = 1e-9 * float(np.abs(lean) @ np.abs(luck))
    as_good = int((forwards >= observed - tolerance).sum() + (backwards >= observed - tolerance).sum())
    return (as_good + 1) / (len(forwards) + len(backwards) + 1)


def smallest_visible(error: float, clusters: int) -> float:
    """Returns the effect that a test at 5 % would have found in four of five samples with this error."""
    if clusters < 2 or not math.isfinite(error):
        return math.inf
    return error * (_student_quantile(1 - ALPHA, clusters - 1) + normal_quantile(POWER))


def _student_quantile(p: float, df: float) -> float:
    low, high = 0.0, 1000.0
    for _ in range(100):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if student_cdf(middle, df) < p else (low, middle)
    return 0.5 * (low + high)


def ranks(values: Floats) -> Floats:
    """Returns the ranks of values; equal ones share theirs.

    >>> ranks(np.array([3.0, 1.0, 3.0])).tolist()
    [2.5, 1.0, 2.5]
    """
    _, place, size = np.unique(values, return_inverse=True, return_counts=True)
    found: Floats = (np.cumsum(size) - (size - 1) / 2.0)[place]
    return found


def spearman(one: Floats, other: Floats) -> float:
    """Returns Spearman's correlation; NaN where one of them never varies."""
    if len(one) < 3 or np.ptp(one) == 0 or np.ptp(other) == 0:
        return math.nan
    return float(np.corrcoef(ranks(one), ranks(other))[0, 1])
