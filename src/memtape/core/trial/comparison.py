"""One arm against another, week by week.

What an arm got in a week is the sum of its results in percent of equity, by the week of entry. The difference of a week is the
mean over the seeds that have this week. Seeds share the market, so they are no further evidence about it: tests count weeks, and
blocks of four weeks, never seeds.

The permutation test exchanges the two arms within weeks, in all seeds together: how often is the difference then as large?
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from memtape.core.trial.round_trips import RoundTrip
from memtape.core.validation.resampling import (
    ClusteredMean,
    Floats,
    IntervalEnds,
    cluster_bootstrap,
    clustered_mean,
    clusters_of,
    smallest_visible,
)

BLOCK_WEEKS = 4
EXCHANGES = 4_999


@dataclass(frozen=True, slots=True)
class SeedTrades:
    """What one seed got in one arm, and the weeks that its bars cover."""

    trades: Sequence[RoundTrip]
    weeks: range


@dataclass(frozen=True, slots=True)
class WeeklyDifferences:
    """The weeks in which at least one of two arms traded, and the mean difference of each."""

    weeks: tuple[int, ...]
    values: Floats
    changed_trades: int  # of the seed with the fewest: trades that only one of the two arms has
    changed_weeks: int


@dataclass(frozen=True, slots=True)
class ArmComparison:
    """The difference of two arms in percent of equity a week."""

    weeks: int
    changed_trades: int
    changed_weeks: int
    mean: float
    interval: IntervalEnds | None  # 90 %, weeks redrawn
    by_week: ClusteredMean
    by_block: ClusteredMean
    permutation_p: float
    permutation_p_lower: float  # of a difference as low
    smallest_visible: float


def weekly_differences(own: Sequence[SeedTrades], other: Sequence[SeedTrades]) -> WeeklyDifferences:
    """Returns the differences of two arms, seed by seed in the same order."""
    found: defaultdict[int, list[float]] = defaultdict(list)
    changed: list[int] = []
    traded: set[int] = set()
    for one, two in zip(own, other, strict=True):
        sums, others = _weekly_sums(one.trades), _weekly_sums(two.trades)
        traded |= sums.keys() | others.keys()
        for week in one.weeks:
            found[week].append(sums.get(week, 0.0) - others.get(week, 0.0))
        changed.append(len({t.identity for t in one.trades} ^ {t.identity for t in two.trades}))
    weeks = tuple(sorted(traded & found.keys()))
    values = np.array([float(np.mean(found[week])) for week in weeks])
    return WeeklyDifferences(weeks, values, min(changed, default=0), int((values != 0).sum()))


def _weekly_sums(trades: Sequence[RoundTrip]) -> dict[int, float]:
    sums: dict[int, float] = {}
    for trade in trades:
        sums[trade.week] = sums.get(trade.week, 0.0) + trade.share
    return sums


def compare_arms(differences: WeeklyDifferences, chance: np.random.Generator, resamples: int) -> ArmComparison:
    """Returns the comparison. `chance` belongs to it alone, so that another comparison changes nothing in it."""
    weeks, values = differences.weeks, differences.values
    by_week = clustered_mean(values, weeks)
    by_block = clustered_mean(values, [week // BLOCK_WEEKS for week in weeks])
    interval = cluster_bootstrap(clusters_of(weeks), lambda rows: float(values[rows].mean()), chance, resamples)
    upper, lower = _exchanged(values, chance)
    worse = max(by_week, by_block, key=lambda one: one.error)
    return ArmComparison(
        len(weeks), differences.changed_trades, differences.changed_weeks, by_week.mean, interval, by_week, by_block, upper,
        lower, smallest_visible(worse.error, worse.clusters),
    )  # fmt: skip


def _exchanged(values: Floats, chance: np.random.Generator) -> tuple[float, float]:
    """Returns how often the difference is as high, and as low, if the arms are exchanged within weeks."""
    changed = values[values != 0]
    if not len(changed):
        return 1.0, 1.0
    signs = chance.integers(0, 2, (EXCHANGES, len(changed))) * 2 - 1
    sums, observed = signs @ changed, float(changed.sum())
    tolerance = 1e-9 * float(np.abs(changed).sum())
    as_high, as_low = int((sums >= observed - tolerance).sum()), int((sums <= observed + tolerance).sum())
    return (as_high + 1) / (EXCHANGES + 1), (as_low + 1) / (EXCHANGES + 1)
