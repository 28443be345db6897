"""The metrics of a validation, each with its number of observations and a 90 % interval.

Intervals of figures of the account come from redrawn weeks of daily returns, those of figures of trades from redrawn weeks of
trades. A figure that does not exist (no loss, no fall, no regime) is None and says why.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from memtape.core.original.kelly_formulas import kelly_exact
from memtape.core.validation.account import AccountRun
from memtape.core.validation.daily import (
    WeekGrid,
    calmar_of_rows,
    daily_returns,
    drawdown_of_rows,
    growth_of_rows,
    redrawn,
    rolling_sharpe,
    sharpe_of_rows,
)
from memtape.core.validation.decisions import WalkedDecision
from memtape.core.validation.resampling import (
    Floats,
    IntervalEnds,
    Ints,
    cluster_bootstrap,
    clusters_of,
    percentile_interval,
    spearman,
)

LAG_BEFORE = 10  # trades before a change of regime that show the usual size
LAG_STAYS = 3  # trades that a new regime lasts at least
LAG_SHARE = 0.2  # a size that differs by a fifth has reacted
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


def account_metrics(inputs: MetricInputs, run: AccountRun) -> dict[str, Measured]:
    """Returns the metrics of seed 8.3 for one approach."""
    returns = daily_returns(inputs.grid, run)
    kept = returns[inputs.grid.first_day : inputs.grid.last_day + 1][None, :]
    drawn = redrawn(inputs.grid, returns, inputs.draws)
    days, years, year = kept.shape[1], inputs.grid.years, inputs.grid.days_per_year
    traded = int((run.sizes > 0).sum())
    growth = growth_of_rows(drawn)
    return {
        "net_pnl": Measured(run.ending_equity - run.starting_equity, traded, _central((growth - 1.0) * run.starting_equity)),
        "profit_factor": _profit_factor(inputs, run),
        "sharpe": _figure(
            sharpe_of_rows(kept, year)[0], days, sharpe_of_rows(drawn, year), inputs.grid.clock, "returns never vary"
        ),
        "max_drawdown": _figure(drawdown_of_rows(kept)[0], days, drawdown_of_rows(drawn), "daily", ""),
        "ghpr": _figure(
            (run.ending_equity / run.starting_equity) ** (1.0 / traded) - 1.0 if traded and run.ending_equity > 0 else math.nan,
            traded,
            np.maximum(growth, 1e-12) ** (1.0 / max(traded, 1)) - 1.0,
            "per trade",
            "no trade",
        ),
        "calmar": _figure(calmar_of_rows(kept, years)[0], days, calmar_of_rows(drawn, years), "annual", "equity never fell"),
        "mean_risk": _of_trades(inputs, "risk", lambda rows: float(run.sizes[rows].mean()), len(run.sizes)),
        "selectivity": _of_trades(
            inputs,
            "selectivity",
            lambda rows: _selectivity(run.sizes[rows], inputs.outcomes[rows]),
            traded,
            "R per unit of risk, less the mean R of all decisions",
        ),
        "kelly_accuracy": _of_trades(
            inputs,
            "accuracy",
            lambda rows: spearman(run.sizes[rows], inputs.outcomes[rows]),
            len(run.sizes),
            "rank correlation of size and outcome",
        ),
        "rolling_sharpe": _rolling(inputs, returns, drawn),
        "regime_lag": _regime_lag(inputs, run.sizes),
        "recovery": _recovery(inputs, run),
        "disposition": _disposition(inputs, run.sizes),
        "sizing_consistency": _consistency(inputs, run.sizes),
        "skipped_unfavourable": _skipped(inputs, run.sizes),
    }


def recall_metrics(inputs: MetricInputs) -> dict[str, Measured]:
    """Returns how well the five best memories and the mean of evidence foretold the outcome."""
    same = np.array([d.top_won if d.r > 0 else d.top_lost if d.r < 0 else 0 for d in inputs.decisions], float)
    shown = np.array([d.top_won + d.top_lost if d.r != 0 else 0 for d in inputs.decisions], float)
    base = np.array([0.0 if d.base_rate is None else d.base_rate if d.r > 0 else 1.0 - d.base_rate for d in inputs.decisions])
    predicted = np.array([math.nan if d.predicted is None else d.predicted for d in inputs.decisions])
    known, outcomes = ~np.isnan(predicted), inputs.outcomes

    def share(rows: Ints) -> float:
        return float(same[rows].sum() / shown[rows].sum()) if shown[rows].sum() else math.nan

    def lift(rows: Ints) -> float:
        return share(rows) - float((base[rows] * shown[rows]).sum() / shown[rows].sum()) if shown[rows].sum() else math.nan

    def agreement(rows: Ints) -> float:
        some = rows[known[rows]]
        return spearman(predicted[some], outcomes[some])

    n = int((shown > 0).sum())
    return {
        "recall_precision": _of_trades(inputs, "precision", share, n, "of the five best memories, ended like the trade"),
        "recall_lift": _of_trades(inputs, "lift", lift, n, "precision less what the base rate gives"),
        "evidence_accuracy": _of_trades(
            inputs, "evidence", agreement, int(known.sum()), "rank correlation of expected and actual R"
        ),
    }


def calibration(inputs: MetricInputs, bins: int = 5) -> list[dict[str, float | int]]:
    """Returns expected and actual mean R in groups of equal size, from the lowest expectation to the highest."""
    known = sorted(((d.predicted, d.r) for d in inputs.decisions if d.predicted is not None), key=lambda pair: pair[0])
    rows = []
    for part in np.array_split(np.array(known), bins) if len(known) >= 2 * bins else []:
        error = float(part[:, 1].std(ddof=1)) / math.sqrt(len(part))
        rows.append({"n": len(part), "expected": float(part[:, 0].mean()), "actual": float(part[:, 1].mean()), "error": error})
    return rows


# --- how each is computed ---------------------------------------------------------------------------------------------------


def _central(values: Floats) -> IntervalEnds | None:
    known = values[np.isfinite(values)]
    return percentile_interval(known.tolist()) if len(known) >= 0.5 * len(values) else None


def _figure(value: float, n: int, drawn: Floats, note: str, missing: str) -> Measured:
    if not math.isfinite(value):
        return Measured(None, n, None, missing)
    return Measured(float(value), n, _central(drawn), note)


def _of_trades(inputs: MetricInputs, name: str, statistic: object, n: int, note: str = "") -> Measured:
    assert callable(statistic)
    value = statistic(np.arange(len(inputs.decisions)))
    if not math.isfinite(value):
        return Measured(None, n, None, "sizes or outcomes never vary")
    return Measured(value, n, cluster_bootstrap(inputs.weeks(), statistic, inputs.chance(name), TRADE_RESAMPLES), note)


def _selectivity(sizes: Floats, outcomes: Floats) -> float:
    return float((sizes * outcomes).sum() / sizes.sum() - outcomes.mean()) if sizes.sum() > 0 else math.nan


def _profit_factor(inputs: MetricInputs, run: AccountRun) -> Measured:
    def factor(rows: Ints) -> float:
        part = run.pnl[rows]
        lost = -float(part[part < 0].sum())
        return float(part[part > 0].sum()) / lost if lost > 0 else math.nan

    found = _of_trades(inputs, "factor", factor, int((run.sizes > 0).sum()))
    return found if found.value is not None else Measured(None, found.n, None, "no losing trade")


def _rolling(inputs: MetricInputs, returns: Floats, drawn: Floats) -> Measured:
    """The spread of the 30-day Sharpe ratio: a lower one is steadier across regimes."""
    values = [value for _, value in rolling_sharpe(inputs.grid, returns)]
    if len(values) < 2:
        return Measured(None, len(values), None, "fewer than two windows of 30 days with trades")
    spreads = []
    for row in drawn[:TRADE_RESAMPLES]:
        part = [value for _, value in rolling_sharpe(inputs.grid, row)]
        spreads.append(float(np.std(part, ddof=1)) if len(part) > 1 else math.nan)
    note = f"standard deviation of 30-day Sharpe; above zero in {100 * sum(v > 0 for v in values) / len(values):.0f} % of windows"
    return Measured(float(np.std(values, ddof=1)), len(values), _central(np.array(spreads)), note)


def regime_changes(decisions: Sequence[WalkedDecision]) -> list[int]:
    """Returns where a regime begins that lasts for at least three trades, after ten trades."""
    labels = [decision.regime for decision in decisions]
    return [
        at
        for at in range(LAG_BEFORE, len(labels) - LAG_STAYS + 1)
        if labels[at] is not None
        and labels[at - 1] is not None
        and labels[at] != labels[at - 1]
        and len(set(labels[at : at + LAG_STAYS])) == 1
    ]


def _regime_lag(inputs: MetricInputs, sizes: Floats) -> Measured:
    """The median number of trades after a change of regime until a size differs from the usual by a fifth."""
    changes = regime_changes(inputs.decisions)
    if not changes:
        return Measured(None, 0, None, "no regime is known, or none changes: give bars")
    ends = [*changes[1:], len(sizes)]
    lags = np.array([_lag(sizes, at, end) for at, end in zip(changes, ends, strict=True)])
    reacted = lags[np.isfinite(lags)]
    if not len(reacted):
        return Measured(None, len(changes), None, f"never reacts to {len(changes)} changes")
    chance = inputs.chance("lag")
    drawn = np.array([float(np.median(chance.choice(reacted, len(reacted)))) for _ in range(TRADE_RESAMPLES)])
    note = f"trades; reacts to {len(reacted)} of {len(changes)} changes"
    return Measured(float(np.median(reacted)), len(changes), _central(drawn), note)


def _lag(sizes: Floats, at: int, end: int) -> float:
    usual = float(sizes[at - LAG_BEFORE : at].mean())
    for after, size in enumerate(sizes[at:end].tolist()):
        if abs(size - usual) > LAG_SHARE * usual + 1e-12:
            return after + 1.0
    return math.inf


def _recovery(inputs: MetricInputs, run: AccountRun) -> Measured:
    """The most trades in a row that equity stayed below its peak."""
    growth = run.sizes * inputs.outcomes

    def longest(rows: Ints) -> float:
        path = np.concatenate([[0.0], np.cumsum(np.log1p(np.maximum(growth[rows], -0.999999)))])
        below = path < np.maximum.accumulate(path) - 1e-15
        edges = np.flatnonzero(np.diff(np.concatenate([[0], below.astype(np.int8), [0]])))
        return float((edges[1::2] - edges[::2]).max()) if len(edges) else 0.0

    order = np.argsort([decision.exit_at.timestamp() for decision in inputs.decisions], kind="stable")
    if not run.sizes.any():
        return Measured(None, 0, None, "no trade")
    interval = cluster_bootstrap(inputs.weeks(), longest, inputs.chance("recovery"), TRADE_RESAMPLES)
    still = "; not recovered at the end" if run.ending_equity < max([run.starting_equity, *(e for _, e in run.path)]) else ""
    return Measured(longest(order.astype(np.int64)), len(run.sizes), interval, f"trades below the peak{still}")


def _disposition(inputs: MetricInputs, sizes: Floats) -> Measured:
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

    found = _of_trades(
        inputs, "disposition", ratio, int((known & (sizes > 0)).sum()), "holding time of winners over losers, less 1"
    )
    return found if found.value is not None else Measured(None, found.n, None, "needs winners and losers with a holding time")


def _consistency(inputs: MetricInputs, sizes: Floats) -> Measured:
    """The spread of sizes relative to their mean, and the mean size relative to a quarter of Kelly in hindsight."""

    def spread(rows: Ints) -> float:
        return float(sizes[rows].std(ddof=1) / sizes[rows].mean()) if len(rows) > 1 and sizes[rows].mean() > 0 else math.nan

    best = kelly_exact([(1.0, decision.r) for decision in inputs.decisions])
    beside = (
        f"mean size is {float(sizes.mean()) / (0.25 * best):.2f} of a quarter Kelly in hindsight"
        if best and best > 0
        else "in hindsight Kelly is zero: no size was right"
    )
    found = _of_trades(inputs, "consistency", spread, len(sizes), f"standard deviation of size over its mean; {beside}")
    return found if found.value is not None else Measured(None, found.n, None, "no trade")


def _skipped(inputs: MetricInputs, sizes: Floats) -> Measured:
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
    return _of_trades(inputs, "skipped", more, int(bad.sum()), note)
