"""The metrics of a validation for one approach, each with its number of observations and a 90 % interval."""

from __future__ import annotations

import math

import numpy as np

from memtape.core.validation.account import AccountRun
from memtape.core.validation.adaptation import drawdown_recovery, regime_lag, rolling_spread
from memtape.core.validation.behaviour import disposition_effect, selectivity, sizing_consistency, skipped_when_unfavourable
from memtape.core.validation.daily import calmar_of_rows, daily_returns, drawdown_of_rows, growth_of_rows, redrawn, sharpe_of_rows
from memtape.core.validation.figures import Measured, MetricInputs, central_interval, returns_figure, trade_figure
from memtape.core.validation.resampling import Ints, spearman


def account_metrics(inputs: MetricInputs, run: AccountRun) -> dict[str, Measured]:
    """Returns the metrics of seed 8.3 for one approach."""
    returns = daily_returns(inputs.grid, run)
    kept = returns[inputs.grid.first_day : inputs.grid.last_day + 1][None, :]
    drawn = redrawn(inputs.grid, returns, inputs.draws)
    days, years, year = kept.shape[1], inputs.grid.years, inputs.grid.days_per_year
    traded = int((run.sizes > 0).sum())
    growth = growth_of_rows(drawn)
    return {
        "net_pnl": Measured(
            run.ending_equity - run.starting_equity,
            traded,
            central_interval((growth - 1.0) * run.starting_equity),
            "ruined" if run.ruined else "",
        ),
        "profit_factor": _profit_factor(inputs, run),
        "sharpe": returns_figure(
            math.nan if run.ruined else sharpe_of_rows(kept, year)[0],
            days,
            sharpe_of_rows(drawn, year),
            inputs.grid.clock,
            "ruined" if run.ruined else "returns never vary",
        ),
        "max_drawdown": returns_figure(drawdown_of_rows(kept)[0], days, drawdown_of_rows(drawn), "daily", ""),
        "ghpr": returns_figure(
            (run.ending_equity / run.starting_equity) ** (1.0 / traded) - 1.0 if traded else math.nan,
            traded,
            np.maximum(growth, 1e-12) ** (1.0 / max(traded, 1)) - 1.0,
            "per trade",
            "no trade",
        ),
        "calmar": returns_figure(
            calmar_of_rows(kept, years)[0], days, calmar_of_rows(drawn, years), "annual", "equity never fell"
        ),
        "mean_risk": trade_figure(inputs, "risk", lambda rows: float(run.sizes[rows].mean()), len(run.sizes)),
        "selectivity": trade_figure(
            inputs,
            "selectivity",
            lambda rows: selectivity(run.sizes[rows], inputs.outcomes[rows]),
            traded,
            "R per unit of risk, less the mean R of all decisions",
        ),
        "kelly_accuracy": trade_figure(
            inputs,
            "accuracy",
            lambda rows: spearman(run.sizes[rows], inputs.outcomes[rows]),
            len(run.sizes),
            "rank correlation of size and outcome",
        ),
        "rolling_sharpe": rolling_spread(inputs, returns, drawn),
        "regime_lag": regime_lag(inputs, run.sizes),
        "recovery": drawdown_recovery(inputs, run),
        "disposition": disposition_effect(inputs, run.sizes),
        "sizing_consistency": sizing_consistency(inputs, run.sizes),
        "skipped_unfavourable": skipped_when_unfavourable(inputs, run.sizes),
    }


def _profit_factor(inputs: MetricInputs, run: AccountRun) -> Measured:
    def factor(rows: Ints) -> float:
        part = run.pnl[rows]
        lost = -float(part[part < 0].sum())
        return float(part[part > 0].sum()) / lost if lost > 0 else math.nan

    found = trade_figure(inputs, "factor", factor, int((run.sizes > 0).sum()))
    return found if found.value is not None else Measured(None, found.n, None, "no losing trade")
