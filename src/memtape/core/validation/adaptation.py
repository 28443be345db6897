"""How fast an approach adapts: rolling Sharpe ratio, lag after a change of regime, recovery from a drawdown."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from memtape.core.validation.account import AccountRun
from memtape.core.validation.daily import rolling_sharpe
from memtape.core.validation.figures import TRADE_RESAMPLES, Measured, MetricInputs, central_interval
from memtape.core.validation.resampling import Floats, Ints, cluster_bootstrap

LAG_BEFORE = 10  # trades before a change of regime that show the usual size
LAG_STAYS = 3  # trades that a new regime lasts at least
LAG_SHARE = 0.2  # a size that differs by a fifth has reacted


def rolling_spread(inputs: MetricInputs, returns: Floats, drawn: Floats) -> Measured:
    """The spread of the 30-day Sharpe ratio: a lower one is steadier across regimes."""
    values = [value for _, value in rolling_sharpe(inputs.grid, returns)]
    if len(values) < 2:
        return Measured(None, len(values), None, "fewer than two windows of 30 days with trades")
    spreads = []
    for row in drawn[:TRADE_RESAMPLES]:
        part = [value for _, value in rolling_sharpe(inputs.grid, row)]
        spreads.append(float(np.std(part, ddof=1)) if len(part) > 1 else math.nan)
    note = f"standard deviation of 30-day Sharpe; above zero in {100 * sum(v > 0 for v in values) / len(values):.0f} % of windows"
    return Measured(float(np.std(values, ddof=1)), len(values), central_interval(np.array(spreads)), note)


def regime_changes(labels: Sequence[str | None]) -> list[int]:
    """Returns where a regime begins that lasts for at least three trades, after ten trades.

    >>> regime_changes(["ranging"] * 10 + ["volatile"] * 3), regime_changes(["ranging"] * 10 + ["volatile"] * 2 + [None])
    ([10], [])
    """
    return [
        at
        for at in range(LAG_BEFORE, len(labels) - LAG_STAYS + 1)
        if labels[at] is not None
        and labels[at - 1] is not None
        and labels[at] != labels[at - 1]
        and len(set(labels[at : at + LAG_STAYS])) == 1
    ]


def regime_lag(inputs: MetricInputs, sizes: Floats) -> Measured:
    """The median number of trades after a change of regime until a size differs from the usual by a fifth."""
    # Each symbol has regimes of its own and each group has a memory of its own: only within both does a regime change.
    streams: dict[tuple[str, str], list[int]] = {}
    for place, decision in enumerate(inputs.decisions):
        streams.setdefault((decision.group, decision.symbol), []).append(place)
    found: list[float] = []
    for places in streams.values():
        starts = regime_changes([inputs.decisions[place].regime for place in places])
        own = sizes[places]
        found += [_lag(own, at, end) for at, end in pairwise([*starts, len(own)])]
    changes, lags = len(found), np.array(found)
    if not changes:
        return Measured(None, 0, None, "no regime is known, or none changes: give bars")
    reacted = lags[np.isfinite(lags)]
    if not len(reacted):
        return Measured(None, changes, None, f"never reacts to {changes} changes")
    chance = inputs.chance("lag")
    drawn = np.array([float(np.median(chance.choice(reacted, len(reacted)))) for _ in range(TRADE_RESAMPLES)])
    note = f"trades; reacts to {len(reacted)} of {changes} changes"
    return Measured(float(np.median(reacted)), changes, central_interval(drawn), note)


def _lag(sizes: Floats, at: int, end: int) -> float:
    usual = float(sizes[at - LAG_BEFORE : at].mean())
    for after, size in enumerate(sizes[at:end].tolist()):
        if abs(size - usual) > LAG_SHARE * usual + 1e-12:
            return after + 1.0
    return math.inf


def drawdown_recovery(inputs: MetricInputs, run: AccountRun) -> Measured:
    """The most trades in a row that equity stayed below its peak."""
    # The account as a whole: with several groups a trade moves their sum by its share alone.
    decisions = inputs.decisions
    order = np.array(sorted(range(len(decisions)), key=lambda at: (decisions[at].exit_at, decisions[at].group, decisions[at].id)))
    before = run.starting_equity + np.concatenate([[0.0], np.cumsum(run.pnl[order])[:-1]])
    growth = np.zeros(len(decisions))
    growth[order] = np.divide(run.pnl[order], before, out=np.zeros(len(order)), where=before > 0)

    def longest(rows: Ints) -> float:
        path = np.concatenate([[0.0], np.cumsum(np.log1p(np.maximum(growth[rows], -0.999999)))])
        below = path < np.maximum.accumulate(path) - 1e-15
        edges = np.flatnonzero(np.diff(np.concatenate([[0], below.astype(np.int8), [0]])))
        return float((edges[1::2] - edges[::2]).max()) if len(edges) else 0.0

    if not run.sizes.any():
        return Measured(None, 0, None, "no trade")
    interval = cluster_bootstrap(inputs.weeks(), longest, inputs.chance("recovery"), TRADE_RESAMPLES)
    still = "; not recovered at the end" if run.ending_equity < max([run.starting_equity, *(e for _, e in run.path)]) else ""
    return Measured(longest(order), len(run.sizes), interval, f"trades below the peak{still}")
