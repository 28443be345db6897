"""`memtape validate`: from a history to its verdict.

The history is split by time; its later part is walked forward (`walk`, `parts`); every approach gets an account; and the verdict
compares sizes by evidence with the same risk on every trade. Everything that chance decides comes from one seed, so two runs give
the same bytes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from importlib.metadata import version
from typing import Any, cast

import numpy as np

from memtape.core.codec import canonical_plain, digest, time_text
from memtape.core.memory.episodes import Episode
from memtape.core.memory.outcome_units import OutcomeUnit
from memtape.core.statistics import mean
from memtape.core.validation.account import AccountRun
from memtape.core.validation.approach_runs import Accounts
from memtape.core.validation.approaches import EVIDENCE, evidence_sizing
from memtape.core.validation.claims import answer_claims
from memtape.core.validation.daily import daily_returns, draw_weeks, redrawn, week_grid
from memtape.core.validation.decisions import WalkedDecision
from memtape.core.validation.figures import MetricInputs
from memtape.core.validation.foresight import calibration, recall_metrics
from memtape.core.validation.judgement import SIZE_VARIANTS, judge_approach
from memtape.core.validation.look_ahead import label_time_sign, look_ahead_signs
from memtape.core.validation.many_trials import overfitting_of, weekly
from memtape.core.validation.verdict import gives_sizes, power_sentence
from memtape.engine.view.situation import current_situation
from memtape.errors import Invalid
from memtape.lab.validate.history import HistorySource, ValidatedHistory, opened_history
from memtape.lab.validate.options import ValidateOptions, checked_sizing
from memtape.lab.validate.parts import PartFiles, decision_from_json, make_parts, run_parts, walk_part
from memtape.lab.validate.tables import (
    curves_json,
    data_json,
    difference_table,
    json_numbers,
    metric_table,
    sensitivity_table,
    verdict_json,
)
from memtape.lab.validate.walk import RECALL_VARIANTS, WalkTerms, run_unit
from memtape.lab.validate.words import verdict_line

CLAIMED = ("owm_literal", EVIDENCE)  # the approaches of which the five expectations are asked
MIN_TRADES = 30  # of a history, before anything can be split
TRAIN_SHARE = 0.7
LABEL_CHECKS = 400  # trades whose labels are compared with bars
NUMBER_CHECKS = 100  # trades whose numbers are computed again
COMPUTED_SHARE = 0.9  # of these numbers are the same if memtape computed them
RESULT_VERSION = 1


def validate_history(source: HistorySource, options: ValidateOptions) -> dict[str, Any]:
    """Validates a history. Returns what the report shows, as JSON data."""
    options.check()
    with opened_history(source) as history:
        return _validated(history, options)


def _validated(history: ValidatedHistory, options: ValidateOptions) -> dict[str, Any]:
    episodes = history.episodes
    if len(episodes) < MIN_TRADES:
        what, n = "file" if "file" in history.names else "agent", len(episodes)
        raise Invalid(what, f"it has {n} closed trade{'' if n == 1 else 's'}", f"At least {MIN_TRADES} are needed")
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
        parts, files, engine=options.engine, workers=options.workers, address=options.address, on_progress=options.on_progress,
        work=walk_part,
    )  # fmt: skip
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
        split = _time(given)
    problems = []
    if episodes[0].entry_at == episodes[-1].entry_at:
        at, n = time_text(episodes[0].entry_at), len(episodes)
        problems.append((f"all {n:,} trades were entered at {at}: nothing was known before any of them", "Check the entry times"))
    if not any(e.exit_at <= split for e in episodes):
        ended = f"The first trade ended at {time_text(min(e.exit_at for e in episodes))}"
        problems.append((f"no trade ended before {time_text(split)}", ended))
    if not any(e.entry_at >= split for e in episodes):
        entered = f"The last trade that has ended was entered at {time_text(episodes[-1].entry_at)}"
        problems.append((f"no trade that has ended was entered after {time_text(split)}", entered))
    for problem, fix in problems:
        raise Invalid("split", problem, fix)
    return split


def _time(text: str) -> datetime:
    """Returns a time as a person writes it; without a zone it is UTC, on every machine."""
    try:
        read = datetime.fromisoformat(text)
        return (read if read.tzinfo is not None else read.replace(tzinfo=UTC)).astimezone(UTC)
    except (ValueError, OverflowError):
        raise Invalid("split", f"'{text}' is neither a share nor a time", "Write 0.7, or a time like 2025-01-01") from None


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
    own_sizings = {name: checked_sizing(name, sizing) for name, sizing in options.approaches.items()}
    for name, sizing in own_sizings.items():
        accounts.check_repeatable(name, sizing)
    sizings = accounts.all_sizings(own_sizings)
    runs = {name: accounts.run(sizing) for name, sizing in sizings.items()}
    sizes = {name: accounts.surviving_sizes(sizings[name], run) for name, run in runs.items()}
    equal = {name: accounts.at_equal_risk(found) for name, found in sizes.items()}
    variants = variant_runs(accounts) if options.vary else {}
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
    own = judged[EVIDENCE]
    total, traded = len(decisions), {name: int((sizes[name] > 0).sum()) for name in CLAIMED}
    untold = {name: f"it gave {n} of {total} decisions a size" for name, n in traded.items() if not gives_sizes(n, total)}
    claims = answer_claims(redrawn_, grid, CLAIMED, overfit, len(variants) + 1, own.verdict.void, untold)
    result: dict[str, Any] = {
        "result_version": RESULT_VERSION,
        "memtape": version("memtape"),
        "verdict": verdict_json(own),
        "sentence": "",
        "power": power_sentence(own.pair, int((sizes[EVIDENCE] > 0).sum())),
        "data": data_json(history, decisions, terms, unit, walked, inputs),
        "own_risk": metric_table(inputs, runs),
        "equal_risk": metric_table(inputs, equal),
        "recall": {name: asdict(one) for name, one in recall_metrics(inputs).items()},
        "calibration": calibration(inputs),
        "differences": difference_table(inputs, sizes),
        "claims": [asdict(claim) for claim in claims],
        "sensitivity": sensitivity_table(accounts, runs, variants),
        "parameter_overfitting": overfit,
        "user_verdicts": {name: verdict_json(judged[name]) for name in options.approaches},
        "look_ahead": list(signs),
        "notes": list(history.notes),
        "curves": curves_json(grid, runs, redrawn_, equal),
        "settings": options.settings() | {"terms": terms.as_dict()},
    }
    result["sentence"] = verdict_line(result)
    clean = cast(dict[str, Any], json_numbers(result))
    clean["settings_hash"] = digest(canonical_plain(clean["settings"]))
    return clean


def variant_runs(accounts: Accounts) -> dict[str, AccountRun]:
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
    found = look_ahead_signs(
        [e for e, _ in known], [r for _, r in known], lambda name: _is_computed(history, [e for e, _ in known], name)
    )
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


def _is_computed(history: ValidatedHistory, trades: Sequence[Episode], name: str) -> bool:
    """Returns True if a number of the entries is what memtape itself finds as of each entry: then it knows no future."""
    stated = [e for e in trades if getattr(e, name) is not None]
    some = stated[:: max(len(stated) // NUMBER_CHECKS, 1)]
    with history.agent.view() as view:
        computed = [getattr(current_situation(view.at(e.entry_at), e.symbol), name, None) for e in some]
    same = sum(found is not None and math.isclose(found, getattr(e, name)) for e, found in zip(some, computed, strict=True))
    return same >= COMPUTED_SHARE * len(some)


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
