"""`memtape trial`: from bars and a decision maker to a verdict on its memory.

Every arm of every seed is a run of its own (`arm_run`), done in this process, in a pool or on a cluster, and kept in a folder if
one is given. Everything that chance decides comes from one seed, so two runs give the same bytes; a model that samples is the
exception.

What a seed changes: where the bars begin (the first seed has all of them, later ones begin within the first fifth), how the
placebo is shuffled, and the sampling of a model, which is asked afresh. Within a seed all arms have the same bars.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any, cast

import numpy as np

from memtape.compose import open_memory, token_price
from memtape.core.codec import canonical_plain, digest, micros, moment, time_text
from memtape.core.observed import Bar
from memtape.core.trial.arms import LESSONS_ONLY, OFF, ON, SHUFFLED, Arm
from memtape.core.trial.comparison import ArmComparison, SeedTrades, compare_arms, weekly_differences
from memtape.core.trial.foreknowledge import cut_sign, foreknowledge_signs
from memtape.core.trial.judgement import TrialEvidence, judge_trial, trial_power
from memtape.core.trial.round_trips import RoundTrip
from memtape.core.validation.decisions import MONDAY, WEEK
from memtape.errors import Invalid
from memtape.lab.trial.arm_run import TrialPart, first_bars, run_arm
from memtape.lab.trial.deciders import DeciderName
from memtape.lab.trial.options import MAX_LATER_START, TrialOptions
from memtape.lab.trial.tables import arm_table, cost_table, curves_of, said_table, seed_table
from memtape.lab.trial.words import trial_sentence
from memtape.lab.validate.parts import load_kept, run_parts, save_kept
from memtape.lab.validate.tables import json_numbers
from memtape.sim.bars import BarFile, bars_hash, read_bar_file
from memtape.sim.recorded_model import UseLimits

MIN_BARS = 60
CUT_SHARE = 0.6  # of the bars, that the check for knowledge of the future keeps
COMPARED: tuple[tuple[Arm, Arm], ...] = ((ON, OFF), (ON, SHUFFLED), (LESSONS_ONLY, OFF), (SHUFFLED, OFF))
TRIAL_RESULT_VERSION = 1


@dataclass(frozen=True, slots=True)
class TrialFiles:
    """Where finished runs are kept. They are found again by what they depend on: version, bars and terms."""

    folder: Path | None
    bars: str  # hash

    def path(self, part: TrialPart, ending: str = ".json") -> Path | None:
        """The file of a run."""
        if self.folder is None:
            return None
        depends = canonical_plain({"memtape": version("memtape"), "bars": self.bars, "terms": part.terms()})
        return self.folder / f"trial-{digest(depends)[:24]}{ending}"

    def load(self, part: TrialPart) -> dict[str, Any] | None:
        """Returns a run that was finished earlier."""
        return load_kept(self.path(part), part.number)

    def save(self, part: TrialPart, found: Mapping[str, Any]) -> None:
        """Keeps a finished run."""
        save_kept(self.path(part), found)


def run_trial(options: TrialOptions) -> dict[str, Any]:
    """Runs a trial. Returns what the report shows, as JSON data."""
    options.check()
    decider = DeciderName.read(options.strategy)
    _check_costs(options, decider)
    source = read_bar_file(options.bars, symbol=options.symbol)
    if len(source.bars) < MIN_BARS:
        raise Invalid("bars", f"{options.bars.name} has {len(source.bars)} bars", f"At least {MIN_BARS} are needed")
    files = TrialFiles(options.keep, bars_hash(source.bars))
    parts = make_trial_parts(options, decider, source.bars, files)
    runs = run_parts(
        parts, files, engine=options.engine, workers=options.workers, address=options.address, on_progress=options.on_progress,
        work=run_arm,
    )  # fmt: skip
    return _studied(options, decider, source, parts, runs)


def _check_costs(options: TrialOptions, decider: DeciderName) -> None:
    limits = UseLimits(options.max_cost, options.max_tokens)
    if options.priced_as is not None and token_price(options.priced_as) is None:
        fix = f"Set MEMTAPE_PRICES={options.priced_as}=INPUT/OUTPUT in US dollars for a million tokens, or name another model"
        raise Invalid("priced_as", f"the price of {options.priced_as} is not known", fix)
    if decider.kind != "model":
        if limits != UseLimits():
            raise Invalid("max_cost", f"the strategy {decider.shown} asks no model", "Leave --max-cost and --max-tokens out")
        return
    with open_memory(":memory:") as memory:
        limits.check(memory.resources.models(decider.name))


def make_trial_parts(
    options: TrialOptions, decider: DeciderName, bars: Sequence[Bar], files: TrialFiles
) -> list[TrialPart]:
    """Returns every run of a trial; the last one is that of the check for knowledge of the future."""
    starts = first_bars(bars, options.seeds, options.chance, MAX_LATER_START)
    share = options.seeds * len(options.arms)
    base = TrialPart(
        bars=str(options.bars), symbol=options.symbol, decider=decider, arm=OFF, seed=1, start=micros(starts[0]), until=None,
        fee_bps=options.fee_bps, slippage_bps=options.slippage_bps, starting_equity=options.starting_equity,
        chance=options.chance, max_cost=None if options.max_cost is None else str(options.max_cost / share),
        max_tokens=None if options.max_tokens is None else options.max_tokens // share,
    )  # fmt: skip
    runs = [replace(base, arm=arm, seed=n, start=micros(at)) for n, at in enumerate(starts, 1) for arm in options.arms]
    if decider.kind != "model":
        # A model is not asked twice for the same: its knowledge of the past is a matter of its training.
        times = sorted({bar.t1 for bar in bars})
        runs.append(replace(base, until=micros(times[int(CUT_SHARE * len(times))])))
    found = []
    for number, run in enumerate(runs):
        answers = files.path(run, ".answers.jsonl") if decider.kind == "model" else None
        found.append(replace(run, number=number, answers=None if answers is None else str(answers)))
    return found


def _studied(
    options: TrialOptions, decider: DeciderName, source: BarFile, parts: Sequence[TrialPart], runs: Sequence[dict[str, Any]]
) -> dict[str, Any]:
    by_arm: dict[Arm, list[dict[str, Any]]] = {arm: [] for arm in options.arms}
    for part, run in zip(parts, runs, strict=True):
        if part.until is None:
            by_arm[part.arm].append(run | {"start": part.start, "kept": [RoundTrip.from_dict(one) for one in run["trades"]]})
    _end_together(by_arm)
    seeds = {arm: [SeedTrades(one["kept"], _weeks(one)) for one in found] for arm, found in by_arm.items()}
    pairs = {
        (own, other): compare_arms(
            weekly_differences(seeds[own], seeds[other]), np.random.default_rng([options.chance, number]), options.resamples
        )
        for number, (own, other) in enumerate(COMPARED) if own in seeds and other in seeds
    }  # fmt: skip
    off = min(seeds[OFF], key=lambda one: len(one.trades)).trades
    against = {other: pair for (own, other), pair in pairs.items() if own == ON}
    same = all(
        [t.identity for t in one.trades] == [t.identity for t in two.trades]
        for found in seeds.values() for one, two in zip(found, seeds[OFF], strict=True)
    )  # fmt: skip
    signs = [*foreknowledge_signs(seeds[OFF][0].trades), *_cut_signs(parts, runs, seeds[OFF][0].trades)]
    verdict = judge_trial(TrialEvidence(
        against=against, trades=len(off), won=sum(trade.share > 0 for trade in off),
        questions=sum(one["questions"] + _asked(one) for arm, found in by_arm.items() if arm != OFF for one in found),
        same_everywhere=same, look_ahead=signs,
    ))  # fmt: skip
    result: dict[str, Any] = {
        "result_version": TRIAL_RESULT_VERSION, "memtape": version("memtape"), "sentence": "",
        "verdict": {"answer": verdict.answer, "reason": verdict.reason, "gates": [asdict(gate) for gate in verdict.gates]},
        "power": [trial_power(pair, arm) for arm, pair in against.items()],
        "data": _data(options, source), "decider": {"name": decider.shown, "kind": decider.kind, "code": decider.code},
        "comparisons": [{"own": own, "other": other} | _pair_json(pair) for (own, other), pair in pairs.items()],
        "arms": arm_table(by_arm, options), "cost": cost_table(by_arm, pairs, options), "said": said_table(by_arm),
        "seeds": seed_table(by_arm), "curves": curves_of(seeds), "look_ahead": signs, "notes": _notes(by_arm, source),
        "settings": options.settings(),
    }  # fmt: skip
    result["sentence"] = trial_sentence(result)
    clean = cast(dict[str, Any], json_numbers(result))
    clean["settings_hash"] = digest(canonical_plain({"settings": clean["settings"], "decider": clean["decider"]}))
    return clean


def _end_together(by_arm: Mapping[Arm, Sequence[dict[str, Any]]]) -> None:
    """Leaves out what an arm traded after another arm of its seed had ended, at a limit or after failures."""
    for together in zip(*by_arm.values(), strict=True):
        last = min((one["last"] for one in together if one["last"] is not None), default=None)
        for one in together:
            one["common_last"] = last
            if last is not None:
                one["kept"] = [trade for trade in one["kept"] if trade.exit_at <= moment(last)]


def _weeks(run: Mapping[str, Any]) -> range:
    if run["common_last"] is None:
        return range(0)
    first, last = ((moment(run[name]) - MONDAY) // WEEK for name in ("start", "common_last"))
    return range(first, last + 1)


def _asked(run: Mapping[str, Any]) -> int:
    return int(run["model"]["questions"]) if run["model"] else 0


def _cut_signs(parts: Sequence[TrialPart], runs: Sequence[dict[str, Any]], whole: Sequence[RoundTrip]) -> list[str]:
    found = []
    for part, run in zip(parts, runs, strict=True):
        if part.until is not None and run["last"] is not None:
            until: datetime = moment(part.until)
            cut = [RoundTrip.from_dict(one) for one in run["trades"]]
            if sign := cut_sign([trade for trade in whole if trade.exit_at <= until], cut, time_text(until)):
                found.append(sign)
    return found


def _pair_json(pair: ArmComparison) -> dict[str, Any]:
    return {
        "mean": pair.mean, "interval": pair.interval, "weeks": pair.weeks, "changed_weeks": pair.changed_weeks,
        "changed_trades": pair.changed_trades, "p_by_week": pair.by_week.p_value, "p_by_four_weeks": pair.by_block.p_value,
        "permutation_p": pair.permutation_p, "smallest_visible": pair.smallest_visible,
    }  # fmt: skip


def _data(options: TrialOptions, source: BarFile) -> dict[str, Any]:
    bars = source.bars
    return {
        "file": options.bars.name, "hashes": {"bars": bars_hash(bars)}, "symbols": sorted({bar.symbol for bar in bars}),
        "bars": len(bars), "skipped": source.skipped, "first": time_text(bars[0].t0),
        "last": time_text(max(bar.t1 for bar in bars)),
    }  # fmt: skip


def _notes(by_arm: Mapping[Arm, Sequence[dict[str, Any]]], source: BarFile) -> list[str]:
    notes = []
    if source.skipped:
        notes.append(f"{source.skipped} rows of the file had an empty field and were skipped")
    for arm, found in by_arm.items():
        for one in found:
            if one["model"] and one["model"]["ended"]:
                end = f"the run ended at {time_text(moment(one['last']))}, {one['model']['ended']}"
                notes.append(f"Seed {one['seed']}, {arm}: {end}; its arms are compared up to the earliest end")
        if refused := sum(one["said"]["refused"] for one in found):
            decided = sum(one["entries"] for one in found)
            notes.append(f"{arm}: {refused:,} of {decided:,} entries were refused by the guard or the broker")
        unused = Counter[str]()
        for one in found:
            unused.update(one["model"]["skipped"] if one["model"] else {})
        if unused:
            why = ", ".join(f"{name} {count:,}" for name, count in sorted(unused.items()))
            asked = sum(one["model"]["questions"] for one in found)
            notes.append(f"{arm}: {unused.total():,} of {asked:,} questions to the model gave no decision ({why})")
    return notes


