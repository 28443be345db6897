"""One figure of a validation: its value, how many observations it rests on, its 90 % interval, and a word on what it is.

Intervals of figures of the account come from redrawn weeks of daily returns, those of figures of trades from redrawn weeks of
trades. A figure that does not exist (no loss, no fall, no regime) is None and says why.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from memtape.core.validation.daily import WeekGrid
from memtape.core.validation.decisions import WalkedDecision
from memtape.core.validation.resampling import (
    Floats,
    IntervalEnds,
    Ints,
    Statistic,
    cluster_bootstrap,
    clusters_of,
    percentile_interval,
)

TRADE_RESAMPLES = 200


@dataclass(frozen=True, slots=True)
class Measured:
    """A figure, how many observations it rests on, its interval, and a word on what it is or why it is missing."""

    value: float | None
    n: int
    interval: IntervalEnds | None = None
    note: str = ""


@dataclass(frozen=True, slots=True)
class MetricInputs:
    """What the metrics of every approach share."""

    decisions: Sequence[WalkedDecision]
    grid: WeekGrid
    draws: NDArray[np.int64]
    unfavourable: frozenset[str]  # regimes in which trades lost on average before the split
    seed: int

    @property
    def outcomes(self) -> Floats:
        """The outcome of each decision in R."""
        return np.array([decision.r for decision in self.decisions])

    def weeks(self) -> list[Ints]:
        """The decisions of each week."""
        return clusters_of([decision.week for decision in self.decisions])

    def chance(self, name: str) -> np.random.Generator:
        """A generator of its own for each figure: adding one figure changes no other."""
        return np.random.default_rng([self.seed, *name.encode()])


def central_interval(values: Floats) -> IntervalEnds | None:
    """Returns the central 90 % of redrawn values; None where half of them do not exist."""
    known = values[np.isfinite(values)]
    return percentile_interval(known.tolist()) if len(known) >= 0.5 * len(values) else None


def returns_figure(value: float, n: int, drawn: Floats, note: str, missing: str) -> Measured:
    """Returns a figure of the account, with the interval of its redrawn values."""
    if not math.isfinite(value):
        return Measured(None, n, None, missing)
    return Measured(float(value), n, central_interval(drawn), note)


def trade_figure(inputs: MetricInputs, name: str, statistic: Statistic, n: int, note: str = "") -> Measured:
    """Returns a figure of trades, with the interval of redrawn weeks."""
    value = statistic(np.arange(len(inputs.decisions)))
    if not math.isfinite(value):
        return Measured(None, n, None, "sizes or outcomes never vary")
    return Measured(value, n, cluster_bootstrap(inputs.weeks(), statistic, inputs.chance(name), TRADE_RESAMPLES), note)
