"""Validation of results: the best of many trials looks good by chance, and trades overlap in time.

The deflated Sharpe ratio is the probability that a ratio beats the best of as many useless trials. The probability of overfitting
splits a history in all symmetric ways and counts how often the best of one half is below the median of the other. Purging removes
a trade from the training set if it was still open when the test began.

>>> round(deflated_sharpe(0.1, 500, -0.3, 4.0, 0.002, 97)[1], 6)
0.390374

References: Bailey & López de Prado 2014 (deflated Sharpe); Bailey et al. 2017 (overfitting); López de Prado 2018 (purging).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import combinations

from memtape.core.statistics import mean, normal_cdf, normal_quantile, spread

EULER_GAMMA = 0.57721566490153286


def expected_best(variance: float, trials: int) -> float:
    """Returns the expected Sharpe ratio of the best of this many useless trials."""
    if trials < 2:
        return 0.0
    first, second = normal_quantile(1.0 - 1.0 / trials), normal_quantile(1.0 - 1.0 / (trials * math.e))
    return math.sqrt(variance) * ((1.0 - EULER_GAMMA) * first + EULER_GAMMA * second)


def deflated_sharpe(sharpe: float, n: int, skew: float, kurtosis: float, variance: float, trials: int) -> tuple[float, float]:
    """Returns the ratio expected by chance, and the probability that the true ratio is higher.

    Ratios are per observation; kurtosis is 3 for a normal sample; variance is that of the ratios of the trials.
    """
    bar = expected_best(variance, trials)
    error = math.sqrt(1.0 - skew * sharpe + (kurtosis - 1.0) / 4.0 * sharpe * sharpe)
    return bar, normal_cdf((sharpe - bar) * math.sqrt(n - 1.0) / error)


METRICS: dict[str, Callable[[Sequence[float]], float]] = {
    "mean": mean,
    "sharpe": lambda values: mean(values) / deviation if (deviation := spread(values)) else 0.0,
}


def overfitting(returns: Sequence[Sequence[float]], blocks: int, metric: str = "mean") -> tuple[float, list[float]]:
    """Returns the probability of overfitting and the logit of every split; rows are times, columns are strategies.

    >>> overfitting([[1.0, 0.0], [1.0, 0.0], [1.0, 0.0], [1.0, 0.0]], blocks=2)[0]
    0.0
    """
    measure, columns = METRICS[metric], range(len(returns[0]))
    edges = [round(block * len(returns) / blocks) for block in range(blocks + 1)]
    logits = []
    for chosen in combinations(range(blocks), blocks // 2):
        inside = [row for b in chosen for row in returns[edges[b] : edges[b + 1]]]
        outside = [row for b in range(blocks) if b not in chosen for row in returns[edges[b] : edges[b + 1]]]
        trained = [measure([row[c] for row in inside]) for c in columns]
        tested = [measure([row[c] for row in outside]) for c in columns]
        best = trained.index(max(trained))
        below = sum(value < tested[best] for value in tested)
        equal = sum(value == tested[best] for value in tested)
        omega = (below + (equal + 1) / 2.0) / (len(tested) + 1.0)
        logits.append(math.log(omega / (1.0 - omega)))
    return sum(logit <= 0.0 for logit in logits) / len(logits), logits


def purged_before(trades: Sequence[tuple[float, float]], start: float, embargo: float) -> list[int]:
    """Returns the indices of trades (entry, exit) that ended at least `embargo` before the test began (walk-forward).

    >>> purged_before([(0, 3), (2, 6), (5, 12)], start=10, embargo=1)
    [0, 1]
    """
    return [place for place, (_, exit_at) in enumerate(trades) if exit_at <= start - embargo]


def purged_around(trades: Sequence[tuple[float, float]], start: float, end: float, embargo: float) -> list[int]:
    """Returns the indices of trades that ended in time before the test or began late enough after it (cross-validation)."""
    return [place for place, (entry, exit_at) in enumerate(trades) if exit_at <= start - embargo or entry >= end + embargo]
