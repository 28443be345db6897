"""Guards against luck among many trials: the deflated Sharpe ratio and the probability of overfitting, both over weeks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from memtape.core.original.validation import deflated_sharpe, overfitting
from memtape.core.statistics import mean, spread
from memtape.core.validation.account import Floats
from memtape.core.validation.decisions import WalkedDecision

BLOCKS = 8  # of weeks, for the probability of overfitting
MIN_WEEKS_PER_BLOCK = 2


def weekly(values: Floats, decisions: Sequence[WalkedDecision]) -> list[float]:
    """Returns the sum of values in each week that has decisions."""
    sums: dict[int, float] = {}
    for decision, value in zip(decisions, values.tolist(), strict=True):
        sums[decision.week] = sums.get(decision.week, 0.0) + value
    return [sums[week] for week in sorted(sums)]


def deflated_sharpe_of(name: str, differences: Mapping[str, Sequence[float]]) -> tuple[float, float] | None:
    """Returns the Sharpe ratio that the best of as many useless approaches would have, and the probability to be above it.

    `differences` has the weekly differences to the baseline of every approach and variant that was tried. Useless approaches
    differ by luck alone, so the variance of their ratios is that of a ratio without skill, 1 / (weeks - 1). The variance of the
    ratios that were found would also contain the skill that is looked for, and would refuse it the more there is of it.
    """
    ratios = {each: mean(rows) / deviation for each, rows in differences.items() if len(rows) > 3 and (deviation := spread(rows))}
    if name not in ratios or len(ratios) < 2:
        return None
    rows = differences[name]
    middle, deviation = mean(rows), spread(rows, 0)
    skew = mean([((row - middle) / deviation) ** 3 for row in rows])
    kurtosis = mean([((row - middle) / deviation) ** 4 for row in rows])
    return deflated_sharpe(ratios[name], len(rows), skew, kurtosis, 1.0 / (len(rows) - 1), len(ratios))


def overfitting_of(columns: Mapping[str, Sequence[float]]) -> float | None:
    """Returns the probability that the best of several on one half is below the median on the other; None with few weeks."""
    rows = [list(row) for row in zip(*columns.values(), strict=True)]
    if len(rows) < BLOCKS * MIN_WEEKS_PER_BLOCK or len(columns) < 2:
        return None
    return overfitting(rows, BLOCKS, "sharpe")[0]
