"""The result of a validation as JSON data: verdict, data, metrics, differences, sensitivity and curves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from memtape.core.codec import time_text
from memtape.core.memory.outcome_units import OutcomeUnit
from memtape.core.statistics import mean
from memtape.core.validation.account import AccountRun, Floats
from memtape.core.validation.approach_runs import Accounts
from memtape.core.validation.approaches import BASELINE, EVIDENCE
from memtape.core.validation.behaviour import selectivity
from memtape.core.validation.daily import WeekGrid, daily_returns, rolling_sharpe
from memtape.core.validation.decisions import WalkedDecision
from memtape.core.validation.figures import TRADE_RESAMPLES, MetricInputs
from memtape.core.validation.judgement import Judgement
from memtape.core.validation.metrics import account_metrics
from memtape.core.validation.resampling import Ints, cluster_bootstrap, clusters_of
from memtape.core.validation.verdict import compare, paired_differences
from memtape.lab.validate.history import ValidatedHistory
from memtape.lab.validate.walk import WalkTerms

SMALLEST_NUMBER = 1e-12  # below it a sum is zero with an error of rounding


def verdict_json(judged: Judgement) -> dict[str, Any]:
    """Returns a verdict with its gates and the figures behind it."""
    verdict, pair = judged.verdict, judged.pair
    return {
        "answer": verdict.answer,
        "reason": verdict.reason,
        "gates": [asdict(gate) for gate in verdict.gates],
        "difference": pair.mean,
        "n": pair.n,
        "p_by_moment": pair.by_moment.p_value,
        "p_by_week": pair.by_week.p_value,
        "moments": pair.by_moment.clusters,
        "weeks": pair.by_week.clusters,
        "permutation_p": pair.permutation_p,
        "smallest_visible": pair.smallest_visible,
        "without_situations": None
        if judged.without_situations is None
        else {"difference": judged.without_situations.mean, "p_by_week": judged.without_situations.by_week.p_value},
        "deflated_sharpe": None
        if judged.deflated is None
        else {"expected_by_chance": judged.deflated[0], "probability": judged.deflated[1], "tried": judged.tried},
        "overfitting": judged.overfitting,
    }


def data_json(
    history: ValidatedHistory,
    decisions: Sequence[WalkedDecision],
    terms: WalkTerms,
    unit: OutcomeUnit,
    walked: Sequence[Mapping[str, Any]],
    inputs: MetricInputs,
) -> dict[str, Any]:
    """Returns what was validated: the trades, the split, the unit of outcomes and the hashes of the data."""
    episodes = history.episodes
    purged = sum(e.entry_at < terms.split and e.exit_at > terms.split - terms.embargo for e in episodes)
    return {
        **history.names,
        "hashes": history.hashes,
        "trades": len(episodes),
        "first": time_text(episodes[0].entry_at),
        "last": time_text(max(e.exit_at for e in episodes)),
        "split": time_text(terms.split),
        "embargo_hours": terms.embargo.total_seconds() / 3600,
        "training_trades": sum(e.exit_at <= terms.split - terms.embargo for e in episodes),
        "purged": purged,
        "decisions": len(decisions),
        "without_outcome": sum(part["without_outcome"] for part in walked),
        "moments": len({d.moment for d in decisions}),
        "weeks": len({d.week for d in decisions}),
        "clock": inputs.grid.clock,
        "groups": sorted({d.group for d in decisions}) if history.group else [],
        "group_by": history.group_by,
        "r_by": unit.source,
        "r_unit": unit.phrase("USD") if unit.source != "money" else "typical losses known at each decision",
        "mean_r": mean([d.r for d in decisions]),
        "recalls": sum(part["recalls"] for part in walked),
        "unfavourable_regimes": sorted(inputs.unfavourable),
    }


def metric_table(inputs: MetricInputs, runs: Mapping[str, AccountRun]) -> dict[str, Any]:
    """Returns every metric of every approach."""
    return {name: {what: asdict(one) for what, one in account_metrics(inputs, run).items()} for name, run in runs.items()}


def difference_table(inputs: MetricInputs, sizes: Mapping[str, Floats]) -> dict[str, Any]:
    """Returns the paired differences to fixed risk at equal mean risk, in R per trade, with both ways to cluster."""
    outcomes, baseline = inputs.outcomes, sizes[BASELINE]
    moments, weeks = [d.moment for d in inputs.decisions], [d.week for d in inputs.decisions]
    found = {}
    for name, own in sizes.items():
        if name == BASELINE or not own.any():
            continue
        pair = compare(own, baseline, outcomes, moments, weeks)

        def difference(rows: Ints, own: Floats = own) -> float:
            return float(paired_differences(own[rows], baseline[rows], outcomes[rows]).mean())

        found[name] = {
            "difference": pair.mean,
            "interval_by_moment": cluster_bootstrap(
                clusters_of(moments), difference, inputs.chance(f"moments {name}"), TRADE_RESAMPLES
            ),
            "interval_by_week": cluster_bootstrap(
                clusters_of(weeks), difference, inputs.chance(f"weeks {name}"), TRADE_RESAMPLES
            ),
            "p_by_moment": pair.by_moment.p_value,
            "p_by_week": pair.by_week.p_value,
            "permutation_p": pair.permutation_p,
            "smallest_visible": pair.smallest_visible,
            "n": pair.n,
        }
    return found


def sensitivity_table(
    accounts: Accounts, runs: Mapping[str, AccountRun], variants: Mapping[str, AccountRun]
) -> list[dict[str, Any]]:
    """Returns what another value of each parameter would have done. None of them is ever chosen by this table."""
    outcomes = np.array([d.r for d in accounts.decisions])
    rows = []
    for name, run in {"as it is": runs[EVIDENCE], **variants}.items():
        rows.append(
            {
                "variant": name,
                "net_pnl": run.ending_equity - run.starting_equity,
                "traded": int((run.sizes > 0).sum()),
                "mean_risk": float(run.sizes.mean()),
                "selectivity": selectivity(run.sizes, outcomes),
            }
        )
    return rows


def curves_json(
    grid: WeekGrid, runs: Mapping[str, AccountRun], drawn: Mapping[str, Any], equal: Mapping[str, AccountRun]
) -> dict[str, Any]:
    """Equity at the end of each week at equal risk with its 90 % band, and the rolling Sharpe ratio."""
    weekly_ends = np.arange(1, grid.weeks + 1) * grid.days_per_week - 1
    found: dict[str, Any] = {
        "weeks": [time_text(grid.date(int(place)))[:10] for place in weekly_ends],
        "equity": {},
        "rolling": {},
    }
    for name, run in equal.items():
        returns = daily_returns(grid, run)
        path = run.starting_equity * np.cumprod(1.0 + returns)
        bands = run.starting_equity * np.cumprod(1.0 + drawn[name], axis=1)[:, weekly_ends]
        low, high = np.quantile(bands, [0.05, 0.95], axis=0)
        found["equity"][name] = {"line": path[weekly_ends].tolist(), "low": low.tolist(), "high": high.tolist()}
        rolled = rolling_sharpe(grid, daily_returns(grid, runs[name]))
        found["rolling"][name] = [[time_text(grid.date(place))[:10], value] for place, value in rolled[:: grid.days_per_week]]
    return found


def json_numbers(value: Any) -> Any:
    """Returns JSON data with six significant digits, so that two machines print the same."""
    if isinstance(value, bool) or value is None or isinstance(value, str | int):
        return value
    if isinstance(value, float | np.floating):
        number = float(value)
        if not np.isfinite(number):
            return None
        return float(f"{number:.6g}") if abs(number) >= SMALLEST_NUMBER else 0.0
    if isinstance(value, Mapping):
        return {key: json_numbers(part) for key, part in value.items()}
    if isinstance(value, Sequence):
        return [json_numbers(part) for part in value]
    raise TypeError(f"{value!r} is not JSON data")
