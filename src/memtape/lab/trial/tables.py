"""The result of a trial as JSON data: arms, seeds, costs, words against deeds, and curves.

Figures of an arm are means over its seeds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from statistics import fmean
from typing import Any

import numpy as np

from memtape.compose import token_price
from memtape.core.trial.arms import LESSONS_ONLY, OFF, ON, SHUFFLED, Arm
from memtape.core.trial.comparison import ArmComparison, SeedTrades
from memtape.core.trial.round_trips import RoundTrip, week_start
from memtape.core.trial.said_and_done import CHECKS, MAX_EXAMPLES
from memtape.core.validation.resampling import cluster_bootstrap, clusters_of
from memtape.lab.trial.options import TrialOptions
from memtape.plugs.prices import answer_cost

Runs = Mapping[Arm, Sequence[Mapping[str, Any]]]


def arm_table(by_arm: Runs, options: TrialOptions) -> dict[str, Any]:
    """Returns what each arm got."""
    found: dict[str, Any] = {}
    for number, (arm, runs) in enumerate(by_arm.items()):
        trades = [trade for run in runs for trade in run["kept"]]
        known = [trade for trade in trades if trade.r is not None]
        found[arm] = {
            "trades": fmean(len(run["kept"]) for run in runs), "share": fmean(_share(run["kept"]) for run in runs),
            "won": sum(trade.share > 0 for trade in trades) / len(trades) if trades else None, "n": len(trades),
            "mean_r": fmean(trade.r for trade in known) if known else None, "n_r": len(known),
            "mean_r_interval": _mean_r_interval(known, options, number),
            "drawdown": fmean(_drawdown(list(run["equity"].values())) for run in runs),
            "decisions": fmean(run["decisions"] for run in runs), "questions": fmean(run["questions"] for run in runs),
            "skipped": fmean(run["advised"].get("skip", 0) for run in runs),
            "halved": fmean(run["advised"].get("halve", 0) for run in runs), "open": sum(run["open"] for run in runs),
        }  # fmt: skip
    return found


def _mean_r_interval(trades: Sequence[RoundTrip], options: TrialOptions, number: int) -> tuple[float, float] | None:
    if not trades:
        return None
    values = np.array([trade.r for trade in trades], dtype=float)
    chance = np.random.default_rng([options.chance, 100 + number])
    weeks = clusters_of([trade.week for trade in trades])
    return cluster_bootstrap(weeks, lambda rows: float(values[rows].mean()), chance, options.resamples)


def _share(trades: Sequence[RoundTrip]) -> float:
    return float(sum(trade.share for trade in trades))


def _drawdown(equity: Sequence[float]) -> float:
    if not equity:
        return 0.0
    path = np.array(equity)
    peak = np.maximum.accumulate(path)
    return float((1.0 - path / peak).max())


def seed_table(by_arm: Runs) -> list[dict[str, Any]]:
    """Returns the trades and the result of each seed in each arm."""
    count = len(next(iter(by_arm.values())))
    return [
        {
            "seed": n + 1, "weeks_from": runs["off"]["start"],
            "arms": {arm: {"trades": len(run["kept"]), "share": _share(run["kept"])} for arm, run in runs.items()},
        }
        for n in range(count) for runs in [{arm: found[n] for arm, found in by_arm.items()}]
    ]  # fmt: skip


def cost_table(
    by_arm: Runs, pairs: Mapping[tuple[Arm, Arm], ArmComparison], options: TrialOptions
) -> dict[str, dict[str, Any]]:
    """Returns the tokens and the money of each arm for a decision, beside what its memory did.

    A model's tokens are its provider's count. Those of a rule are what the brief before its decision would take, as estimated.
    """
    bare = [run["tokens"] for runs in by_arm.values() for run in runs if run["tokens"]["n"]]
    without = fmean(one["without"] for one in bare) if bare else None
    price = None if options.priced_as is None else token_price(options.priced_as)
    found: dict[str, dict[str, Any]] = {}
    for arm, runs in by_arm.items():
        effect = pairs.get((arm, OFF)) or (pairs.get((ON, OFF)) if arm == ON else None)
        row: dict[str, Any] = {"effect": None if effect is None else effect.mean}
        if any(run["model"] for run in runs):
            row |= _model_cost(runs)
        else:
            own = [run["tokens"] for run in runs if run["tokens"]["n"]]
            tokens = without if arm == OFF else fmean(one["with"] for one in own) if own else None
            cost = None if price is None or tokens is None else answer_cost(price, round(tokens), 0)
            row |= {
                "tokens": tokens, "cost_usd": None if cost is None else str(cost), "total_usd": None,
                "n": sum(one["n"] for one in (bare if arm == OFF else own)), "by": "estimated from briefs",
            }  # fmt: skip
        found[arm] = row
    for arm in (ON, SHUFFLED, LESSONS_ONLY):
        if arm in found and found[arm]["tokens"] is not None and found[OFF]["tokens"] is not None:
            found[arm]["more_tokens"] = found[arm]["tokens"] - found[OFF]["tokens"]
    return found


def _model_cost(runs: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    used = [run["model"] for run in runs if run["model"]]
    questions = sum(one["questions"] for one in used)
    tokens = sum(one["input_tokens"] + one["output_tokens"] for one in used)
    costs = [one["cost_usd"] for one in used]
    total = None if "unknown" in costs else sum((Decimal(cost) for cost in costs), Decimal(0))
    return {
        "tokens": tokens / questions if questions else None, "n": questions, "by": "the provider's count",
        "cost_usd": str(total / questions) if total is not None and questions else None,
        "total_usd": None if total is None else str(total),
    }  # fmt: skip


def said_table(by_arm: Runs) -> list[dict[str, Any]]:
    """Returns for each check and arm how often it could be made, how often word and deed differ, and examples."""
    rows = []
    for name, what in CHECKS.items():
        for arm, runs in by_arm.items():
            cells = [run["said"]["checks"][name] for run in runs]
            examples = list(dict.fromkeys(text for cell in cells for text in cell["examples"]))
            rows.append({
                "check": name, "what": what, "arm": arm, "n": sum(cell["n"] for cell in cells),
                "differ": sum(cell["differ"] for cell in cells), "examples": examples[:MAX_EXAMPLES],
            })  # fmt: skip
    return rows


def curves_of(seeds: Mapping[Arm, Sequence[SeedTrades]]) -> dict[str, Any]:
    """Returns the sum of results by week in each arm, as the mean over the seeds that have the week."""
    weeks = sorted({week for found in seeds.values() for one in found for week in one.weeks})
    lines = {}
    for arm, found in seeds.items():
        sums: list[dict[int, float]] = []
        for one in found:
            own: dict[int, float] = {}
            for trade in one.trades:
                own[trade.week] = own.get(trade.week, 0.0) + trade.share
            sums.append(own)
        total, line = 0.0, []
        for week in weeks:
            values = [own.get(week, 0.0) for own, one in zip(sums, found, strict=True) if week in one.weeks]
            total += fmean(values) if values else 0.0
            line.append(total)
        lines[arm] = line
    return {"weeks": [f"{week_start(week):%Y-%m-%d}" for week in weeks], "lines": lines}
