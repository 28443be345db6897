"""How an approach behaves: what its sizes select, how evenly it holds and sizes, and what it leaves out."""

from __future__ import annotations

import math

import numpy as np

from memtape.core.original.kelly_formulas import kelly_exact
from memtape.core.validation.figures import Measured, MetricInputs, trade_figure
from memtape.core.validation.resampling import Floats, Ints


def selectivity(sizes: Floats, outcomes: Floats) -> float:
    """Returns what a unit of risk earned, less the mean outcome of all decisions; NaN if nothing was risked."""
    return float((sizes * outcomes).sum() / sizes.sum() - outcomes.mean()) if sizes.sum() > 0 else math.nan


def disposition_effect(inputs: MetricInputs, sizes: Floats) -> Measured:
    """How much longer risk was held in winners than in losers, as a share: below zero, losers are held longer."""
    hold = np.array([math.nan if d.hold_minutes is None else d.hold_minutes for d in inputs.decisions])
    outcomes, known = inputs.outcomes, ~np.isnan(hold)

    def ratio(rows: Ints) -> float:
        won, lost = rows[known[rows] & (outcomes[rows] > 0)], rows[known[rows] & (outcomes[rows] < 0)]
        if not sizes[won].sum() or not sizes[lost].sum():
            return math.nan
        winners = float((sizes[won] * hold[won]).sum() / sizes[won].sum())
        losers = float((sizes[lost] * hold[lost]).sum() / sizes[lost].sum())
        return winners / losers - 1.0 if losers > 0 else math.nan

    found = trade_figure(
        inputs, "disposition", ratio, int((known & (sizes > 0)).sum()), "holding time of winners over losers, less 1"
    )
    return found if found.value is not None else Measured(None, found.n, None, "needs winners and losers with a holding time")


def sizing_consistency(inputs: MetricInputs, sizes: Floats) -> Measured:
    """The spread of sizes relative to their mean, and the mean size relative to a quarter of Kelly in hindsight."""

    def spread(rows: Ints) -> float:
        return float(sizes[rows].std(ddof=1) / sizes[rows].mean()) if len(rows) > 1 and sizes[rows].mean() > 0 else math.nan

    best = kelly_exact([(1.0, decision.r) for decision in inputs.decisions])
    beside = (
        f"mean size is {float(sizes.mean()) / (0.25 * best):.2f} of a quarter Kelly in hindsight"
        if best and best > 0
        else "in hindsight Kelly is zero: no size was right"
    )
    found = trade_figure(inputs, "consistency", spread, len(sizes), f"standard deviation of size over its mean; {beside}")
    return found if found.value is not None else Measured(None, found.n, None, "no trade")


def skipped_when_unfavourable(inputs: MetricInputs, sizes: Floats) -> Measured:
    """The share of decisions in unfavourable regimes that got no size, less the same share in the others."""
    bad = np.array([decision.regime in inputs.unfavourable for decision in inputs.decisions])
    known = np.array([decision.regime is not None for decision in inputs.decisions])
    if not (bad & known).any() or not (known & ~bad).any():
        return Measured(None, int(bad.sum()), None, "no regime lost on average before the split, or none is known: give bars")
    none = sizes <= 0

    def more(rows: Ints) -> float:
        inside, outside = rows[bad[rows]], rows[known[rows] & ~bad[rows]]
        return float(none[inside].mean() - none[outside].mean()) if len(inside) and len(outside) else math.nan

    note = f"skipped {100 * float(none[bad].mean()):.0f} % there, {100 * float(none[known & ~bad].mean()):.0f} % elsewhere"
    return trade_figure(inputs, "skipped", more, int(bad.sum()), note)
