"""`memtape validate`: from a history to its verdict.

The history is split by time; its later part is walked forward (`walk`, `parts`); every approach gets an account; and the verdict
compares sizes by evidence with the same risk on every trade. Everything that chance decides comes from one seed, so two runs give
the same bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime, timedelta
from importlib import import_module
from importlib.metadata import version
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any, cast

import numpy as np

from memtape.core.codec import canonical_plain, digest, read_time, time_text
from memtape.core.memory.episodes import Episode
from memtape.core.memory.outcome_units import OutcomeUnit
from memtape.core.statistics import mean
from memtape.core.validation.account import AccountRun
from memtape.core.validation.approaches import BASELINE, EVIDENCE, TITLES, Sizing, evidence_sizing
from memtape.core.validation.claims import answer_claims
from memtape.core.validation.daily import WeekGrid, daily_returns, draw_weeks, redrawn, rolling_sharpe, week_grid
from memtape.core.validation.decisions import WalkedDecision
from memtape.core.validation.judgement import SIZE_VARIANTS, Accounts, Judgement, judge_approach, overfitting_of, weekly
from memtape.core.validation.look_ahead import label_time_sign, look_ahead_signs
from memtape.core.validation.metrics import MetricInputs, account_metrics, calibration, recall_metrics
from memtape.core.validation.verdict import compare, power_sentence
from memtape.engine.view.situation import current_situation
from memtape.errors import Invalid
from memtape.lab.validate.history import HistorySource, ValidatedHistory, opened_history
from memtape.lab.validate.parts import PartFiles, decision_from_json, make_parts, run_parts
from memtape.lab.validate.walk import RECALL_VARIANTS, WalkTerms, run_unit
from memtape.lab.validate.words import verdict_line

MIN_TRADES = 30  # of a history, before anything can be split
TRAIN_SHARE = 0.7
LABEL_CHECKS = 400  # trades whose labels are compared with bars
RESULT_VERSION = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class ValidateOptions:
    """How a history is validated."""

    split: str | None = None  # a time, or a share like 0.7; default: the first 70 % of the trades train
    embargo_hours: float = 1.0
    starting_equity: float = 10_000.0
    seed: int = 20261118
    resamples: int = 500
    vary: bool = True
    approaches: Mapping[str, Sizing] = field(default_factory=dict)
    engine: str = "serial"
    workers: int = 1
    address: str | None = None
    keep: Path | None = None  # folder of finished parts
    on_progress: Callable[[int, int], object] | None = None

    def check(self) -> None:
        """Raises `Invalid` for options that make no sense."""
        if self.embargo_hours < 0:
            raise Invalid("embargo", f"{self.embargo_hours} is below zero", "Give hours of 0 or more")
        if self.starting_equity <= 0:
            raise Invalid(
                "starting_equity", f"{self.starting_equity} is not above zero", "Give the equity that accounts start with"
            )
        if self.resamples < 50:
            raise Invalid("resamples", f"{self.resamples} are too few for an interval", "Give 50 or more")
        for name in self.approaches:
            if name in TITLES:
                raise Invalid("approach", f"'{name}' is an approach of memtape", "Rename the function")

    def settings(self) -> dict[str, Any]:
        """What the numbers depend on; not how they are computed."""
        return {
            "split": self.split,
            "embargo_hours": self.embargo_hours,
            "starting_equity": self.starting_equity,
            "seed": self.seed,
            "resamples": self.resamples,
            "vary": self.vary,
            "approaches": sorted(self.approaches),
        }


def load_sizing(name: str) -> tuple[str, Sizing]:
    """Returns a sizing of the user: `package.module:function` or `file.py:function`."""
    where, colon, function = name.rpartition(":")
    if not colon:
        raise Invalid("approach", f"'{name}' names no function", "Write it like sizing.py:half_kelly or package.module:function")
    try:
        if where.endswith(".py"):
            spec = spec_from_file_location(Path(where).stem, where)
            if spec is None or spec.loader is None or not Path(where).is_file():
                raise Invalid("approach", f"there is no file {where}", "Name an existing file")
            module = module_from_spec(spec)
            spec.loader.exec_module(module)
        else:
            module = import_module(where)
        return function, cast(Sizing, getattr(module, function))
    except (ImportError, AttributeError) as error:
        raise Invalid("approach", f"{name} cannot be loaded: {error}", "Check the module and the function") from None


def validate_history(source: HistorySource, options: ValidateOptions) -> dict[str, Any]:
    """Validates a history. Returns what the report shows, as JSON data."""
    options.check()
    with opened_history(source) as history:
        return _validated(history, options)


def _validated(history: ValidatedHistory, options: ValidateOptions) -> dict[str, Any]:
    episodes = history.episodes
    if len(episodes) < MIN_TRADES:
        fix = f"At least {MIN_TRADES} closed trades are needed"
        raise Invalid("file" if "file" in history.names else "agent", f"there are {len(episodes)} closed trades", fix)
    split = split_moment(episodes, options.split)
    unit = run_unit(episodes, split, history.claims_count)
    if unit.source is None:
        raise Invalid("file", "no trade has an outcome in R or in money", "Map the result with --map pnl=COLUMN or give stops")
    terms = WalkTerms(
        split=split,
        embargo=timedelta(hours=options.embargo_hours),
        source=unit.source,
        by_strategy=history.group == "strategy",
        vary=options.vary,
    )
    parts = make_parts(history, terms)
    files = PartFiles(options.keep, canonical_plain(history.hashes))
    walked = run_parts(
        parts, files, engine=options.engine, workers=options.workers, address=options.address, on_progress=options.on_progress
    )
    decisions = [decision_from_json(row) for part in walked for row in part["decisions"]]
    if not decisions:
        raise Invalid("split", "no trade with a known outcome was entered after it", "Choose an earlier split")
    return study_decisions(history, decisions, terms, unit, options, walked)


def split_moment(episodes: Sequence[Episode], given: str | None) -> datetime:
    """Returns the moment of the split. A share counts trades by their entries; trades of one moment stay together."""
    if given is None or _share(given) is not None:
        share = TRAIN_SHARE if given is None else cast(float, _share(given))
        if not 0 < share < 1:
            raise Invalid("split", f"{given} is no share between 0 and 1", "Write 0.7, or a time like 2025-01-01")
        split = episodes[min(int(share * len(episodes)), len(episodes) - 1)].entry_at
    else:
        split = read_time(given if "T" in given else f"{given}T00:00:00Z")
    problems = []
    if not any(e.exit_at <= split for e in episodes):
        problems.append(("no trade ended before it", f"The first trade ended at {time_text(min(e.exit_at for e in episodes))}"))
    if not any(e.entry_at >= split for e in episodes):
        problems.append(("no trade was entered after it", f"The last trade was entered at {time_text(episodes[-1].entry_at)}"))
    for problem, fix in problems:
        raise Invalid("split", problem, fix)
    return split


def _share(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def study_decisions(
    history: ValidatedHistory,
    decisions: Sequence[WalkedDecision],
    terms: WalkTerms,
    unit: OutcomeUnit,
    options: ValidateOptions,
    walked: Sequence[Mapping[str, Any]],
) -> dict[str, Any]:
    """Returns the accounts, metrics, claims, sensitivity and verdicts of walked decisions."""
    accounts = Accounts(decisions, options.starting_equity)
    sizings = accounts.all_sizings(options.approaches)
    runs = {name: accounts.run(sizing) for name, sizing in sizings.items()}
    equal = {name: accounts.scaled(run.sizes) for name, run in runs.items()}
    variants = _variant_runs(accounts) if options.vary else {}
    grid = week_grid(decisions)
    draws = draw_weeks(grid, np.random.default_rng([options.seed, 1]), options.resamples)
    inputs = MetricInputs(decisions, grid, draws, _unfavourable(history.episodes, terms, unit), options.seed)
    signs = _look_ahead(history, unit, terms)
    judged = {
        name: judge_approach(
            name, accounts, runs, sizings, np.random.default_rng([options.seed, 2]), variants=variants, look_ahead=signs
        )
        for name in (EVIDENCE, *options.approaches)
    }
    overfit = _parameter_overfitting(runs, variants, decisions)
    redrawn_ = {name: redrawn(grid, daily_returns(grid, run), draws) for name, run in equal.items()}
    claims = answer_claims(redrawn_, grid, ("owm_literal", EVIDENCE), overfit, len(variants) + 1)
    own = judged[EVIDENCE]
    result: dict[str, Any] = {
        "result_version": RESULT_VERSION,
        "memtape": version("memtape"),
        "verdict": _verdict_json(own),
        "sentence": "",
        "power": power_sentence(own.pair),
        "data": _data_json(history, decisions, terms, unit, walked, inputs),
        "own_risk": _metric_table(inputs, runs),
        "equal_risk": _metric_table(inputs, equal),
        "recall": {name: asdict(one) for name, one in recall_metrics(inputs).items()},
        "calibration": calibration(inputs),
        "differences": _difference_table(accounts, runs),
        "claims": [asdict(claim) for claim in claims],
        "sensitivity": _sensitivity(accounts, runs, variants),
        "parameter_overfitting": overfit,
        "user_verdicts": {name: _verdict_json(judged[name]) for name in options.approaches},
        "look_ahead": list(signs),
        "notes": list(history.notes),
        "curves": _curves(grid, runs, redrawn_, equal),
        "settings": options.settings() | {"terms": terms.as_dict()},
    }
    result["sentence"] = verdict_line(result)
    clean = cast(dict[str, Any], _json_numbers(result))
    clean["settings_hash"] = digest(canonical_plain(clean["settings"]))
    return clean


def _variant_runs(accounts: Accounts) -> dict[str, AccountRun]:
    by_recall = {name: accounts.run(evidence_sizing(name)) for name in RECALL_VARIANTS}
    return by_recall | {name: accounts.run(evidence_sizing(None, rule)) for name, rule in SIZE_VARIANTS.items()}


def _unfavourable(episodes: Sequence[Episode], terms: WalkTerms, unit: OutcomeUnit) -> frozenset[str]:
    """Returns the regimes in which trades lost on average before the split."""
    by_regime: dict[str, list[float]] = {}
    for e in episodes:
        if e.regime is not None and e.exit_at <= terms.split - terms.embargo and (r := unit.outcome(e)) is not None:
            by_regime.setdefault(e.regime, []).append(r)
    return frozenset(regime for regime, values in by_regime.items() if len(values) >= 10 and mean(values) < 0)


def _look_ahead(history: ValidatedHistory, unit: OutcomeUnit, terms: WalkTerms) -> list[str]:
    known = [(e, r) for e in history.episodes if (r := unit.outcome(e)) is not None]
    found = look_ahead_signs([e for e, _ in known], [r for _, r in known])
    stated = [e for e in history.episodes if e.regime is not None]
    if "bars" in history.names and stated:
        every = max(len(stated) // LABEL_CHECKS, 1)
        with history.agent.view() as view:
            labels = [
                (
                    str(e.regime),
                    current_situation(view.at(e.entry_at), e.symbol).regime,
                    current_situation(view.at(e.exit_at), e.symbol).regime,
                )
                for e in stated[::every]
            ]
        if sign := label_time_sign(labels):
            found.append(sign)
    return found


def _parameter_overfitting(
    runs: Mapping[str, AccountRun], variants: Mapping[str, AccountRun], decisions: Sequence[WalkedDecision]
) -> float | None:
    outcomes = np.array([decision.r for decision in decisions])
    columns = {
        name: weekly(run.sizes / run.sizes.mean() * outcomes, decisions)
        for name, run in {EVIDENCE: runs[EVIDENCE], **variants}.items()
        if run.sizes.any()
    }
    return overfitting_of(columns) if variants else None


# --- the result as JSON data -----------------------------------------------------------------------------------------------


def _verdict_json(judged: Judgement) -> dict[str, Any]:
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


def _data_json(
    history: ValidatedHistory,
    decisions: Sequence[WalkedDecision],
    terms: WalkTerms,
    unit: OutcomeUnit,
    walked: Sequence[Mapping[str, Any]],
    inputs: MetricInputs,
) -> dict[str, Any]:
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
        "weeks": inputs.grid.weeks,
        "clock": inputs.grid.clock,
        "groups": sorted({d.group for d in decisions}) if history.group else [],
        "group_by": history.group,
        "r_by": unit.source,
        "r_unit": unit.phrase("USD") if unit.source != "money" else "typical losses known at each decision",
        "mean_r": mean([d.r for d in decisions]),
        "recalls": sum(part["recalls"] for part in walked),
        "unfavourable_regimes": sorted(inputs.unfavourable),
    }


def _metric_table(inputs: MetricInputs, runs: Mapping[str, AccountRun]) -> dict[str, Any]:
    return {name: {what: asdict(one) for what, one in account_metrics(inputs, run).items()} for name, run in runs.items()}


def _difference_table(accounts: Accounts, runs: Mapping[str, AccountRun]) -> dict[str, Any]:
    """Paired differences to fixed risk at equal mean risk, with both ways to cluster."""
    decisions = accounts.decisions
    outcomes = np.array([d.r for d in decisions])
    moments, weeks = [d.moment for d in decisions], [d.week for d in decisions]
    found = {}
    for name, run in runs.items():
        if name != BASELINE and run.sizes.any():
            pair = compare(run.sizes, runs[BASELINE].sizes, outcomes, moments, weeks)
            found[name] = {
                "difference": pair.mean,
                "error_by_moment": pair.by_moment.error,
                "error_by_week": pair.by_week.error,
                "p_by_moment": pair.by_moment.p_value,
                "p_by_week": pair.by_week.p_value,
                "permutation_p": pair.permutation_p,
                "n": pair.n,
            }
    return found


def _sensitivity(accounts: Accounts, runs: Mapping[str, AccountRun], variants: Mapping[str, AccountRun]) -> list[dict[str, Any]]:
    outcomes = np.array([d.r for d in accounts.decisions])
    rows = []
    for name, run in {"as it is": runs[EVIDENCE], **variants}.items():
        total = float(run.sizes.sum())
        rows.append(
            {
                "variant": name,
                "net_pnl": run.ending_equity - run.starting_equity,
                "traded": int((run.sizes > 0).sum()),
                "mean_risk": float(run.sizes.mean()),
                "selectivity": float((run.sizes * outcomes).sum()) / total - float(outcomes.mean()) if total > 0 else None,
            }
        )
    return rows


def _curves(
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


def _json_numbers(value: Any) -> Any:
    """Returns JSON data with six significant digits, so that two machines print the same."""
    if isinstance(value, bool) or value is None or isinstance(value, str | int):
        return value
    if isinstance(value, float | np.floating):
        return float(f"{float(value):.6g}") if np.isfinite(value) else None
    if isinstance(value, Mapping):
        return {key: _json_numbers(part) for key, part in value.items()}
    if isinstance(value, Sequence):
        return [_json_numbers(part) for part in value]
    raise TypeError(f"{value!r} is not JSON data")
