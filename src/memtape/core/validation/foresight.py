"""How well memory foretold outcomes: the five best memories of each decision, and the mean outcome that evidence expected."""

from __future__ import annotations

import math

import numpy as np

from memtape.core.validation.figures import Measured, MetricInputs, trade_figure
from memtape.core.validation.resampling import Ints, clustered_mean, spearman


def recall_metrics(inputs: MetricInputs) -> dict[str, Measured]:
    """Returns how well the five best memories and the mean of evidence foretold the outcome.

    A recall that always shows winners is right as often as trades win, so precision says little by itself. The lift takes away
    what the same shares of winners would give if they were shown at any other decision.
    """
    won = np.array([d.r > 0 for d in inputs.decisions], float)
    shown_won = np.array([d.top_won if d.r != 0 else 0 for d in inputs.decisions], float)
    shown = np.array([d.top_won + d.top_lost if d.r != 0 else 0 for d in inputs.decisions], float)
    same = np.where(won > 0, shown_won, shown - shown_won)
    base = np.array([math.nan if d.base_rate is None else d.base_rate for d in inputs.decisions])
    predicted = np.array([math.nan if d.predicted is None else d.predicted for d in inputs.decisions])
    known, outcomes = ~np.isnan(predicted), inputs.outcomes

    def precision(rows: Ints) -> float:
        return float(same[rows].sum() / shown[rows].sum()) if shown[rows].sum() else math.nan

    def by_base_rate(rows: Ints) -> float:
        some = rows[(shown[rows] > 0) & ~np.isnan(base[rows])]
        return float(np.where(won[some] > 0, base[some], 1.0 - base[some]).mean()) if len(some) else math.nan

    def lift(rows: Ints) -> float:
        total = shown[rows].sum()
        if not total:
            return math.nan
        winners, wins = shown_won[rows].sum() / total, float((won[rows] * shown[rows]).sum() / total)
        return precision(rows) - float(winners * wins + (1.0 - winners) * (1.0 - wins))

    def agreement(rows: Ints) -> float:
        some = rows[known[rows]]
        return spearman(predicted[some], outcomes[some])

    n = int((shown > 0).sum())
    return {
        "recall_precision": trade_figure(inputs, "precision", precision, n, "of the five best memories, ended like the trade"),
        "recall_base_rate": trade_figure(inputs, "base", by_base_rate, n, "the same of memories drawn at random"),
        "recall_lift": trade_figure(inputs, "lift", lift, n, "precision less that of the same memories at any other decision"),
        "evidence_accuracy": trade_figure(
            inputs, "evidence", agreement, int(known.sum()), "rank correlation of expected and actual R"
        ),
    }


def calibration(inputs: MetricInputs, bins: int = 5) -> list[dict[str, float | int]]:
    """Returns expected and actual mean R in groups of equal size, from the lowest expectation to the highest.

    The error of the actual mean counts the trades of one week together.
    """
    known = sorted(((d.predicted, d.r, d.week) for d in inputs.decisions if d.predicted is not None), key=lambda one: one[0])
    rows: list[dict[str, float | int]] = []
    for part in np.array_split(np.array(known), bins) if len(known) >= 2 * bins else []:
        actual = clustered_mean(part[:, 1], part[:, 2].astype(int).tolist())
        rows.append({"n": len(part), "expected": float(part[:, 0].mean()), "actual": actual.mean, "error": actual.error})
    return rows
