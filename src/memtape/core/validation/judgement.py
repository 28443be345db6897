"""From decisions to a verdict: the accounts of all approaches, the tests of one of them, and what the variants say.

`judge_approach` is all that a verdict needs; the calibration tests run exactly this function on invented worlds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from memtape.core.original.validation import deflated_sharpe, overfitting
from memtape.core.statistics import mean, spread
from memtape.core.validation.account import AccountRun, Floats, pooled_runs, run_account
from memtape.core.validation.approaches import (
    BASELINE,
    EVIDENCE,
    FIXED_RISK,
    SIZINGS,
    EvidenceRule,
    Sizing,
    evidence_sizing,
    fixed_lot,
)
from memtape.core.validation.decisions import WalkedDecision
from memtape.core.validation.verdict import PairedComparison, Verdict, VerdictInputs, compare, judge, paired_differences

NO_SITUATIONS = "no situations"
SIZE_VARIANTS: Mapping[str, EvidenceRule] = {
    "shrinkage 10 trades": EvidenceRule(kappa=10.0), "shrinkage 40 trades": EvidenceRule(kappa=40.0),
    "lower bound 10 %": EvidenceRule(gamma=0.10), "median instead of lower bound": EvidenceRule(gamma=0.50),
    "an eighth of Kelly": EvidenceRule(fraction=0.125), "half of Kelly": EvidenceRule(fraction=0.5),
    "cap 1 %": EvidenceRule(cap=0.01), "cap 4 %": EvidenceRule(cap=0.04),
}  # fmt: skip
BLOCKS = 8  # of weeks, for the probability of overfitting
MIN_WEEKS_PER_BLOCK = 2


@dataclass(frozen=True, slots=True)
class Accounts:
    """The accounts of all approaches over the same decisions, in order of their entries."""

    decisions: Sequence[WalkedDecision]
    starting_equity: float

    def groups(self) -> list[list[int]]:
        """The places of the decisions of each group: each has an account of its own."""
        found: dict[str, list[int]] = {}
        for place, decision in enumerate(self.decisions):
            found.setdefault(decision.group, []).append(place)
        return [found[name] for name in sorted(found)]

    def run(self, sizing: Sizing) -> AccountRun:
        """Returns the account of a sizing; with several groups, their sum."""
        groups = self.groups()
        equity = self.starting_equity / len(groups)
        parts = [(places, run_account([self.decisions[at] for at in places], sizing, equity)) for places in groups]
        return parts[0][1] if len(parts) == 1 else pooled_runs(parts, len(self.decisions))

    def scaled(self, sizes: Floats) -> AccountRun:
        """Returns the account of the same sizes, multiplied by one number so that their mean is that of fixed risk."""
        middle = float(sizes.mean())
        factor = FIXED_RISK / middle if middle > 0 else 0.0
        by_id = {decision.id: factor * float(size) for decision, size in zip(self.decisions, sizes, strict=True)}
        return self.run(lambda decision, account: by_id[decision.id])

    def lot_sizing(self) -> Sizing:
        """Returns the sizing by fixed lots: those of the history, so that the mean risk is 1 % of the starting equity."""
        equity = self.starting_equity / len(self.groups())
        known = [d.risk_usd for d in self.decisions if d.risk_usd is not None]
        usual = float(np.median(known)) if known else 1.0
        filled = {d.id: d.risk_usd if d.risk_usd is not None else usual for d in self.decisions}
        sizing = fixed_lot(FIXED_RISK * equity / mean(list(filled.values())))
        return lambda decision, account: sizing(replace(decision, risk_usd=filled[decision.id]), account)

    def all_sizings(self, extra: Mapping[str, Sizing]) -> dict[str, Sizing]:
        """Returns every approach by name, those of the user last."""
        return {"fixed_lot": self.lot_sizing(), **SIZINGS, **extra}


def looks_at_outcomes(accounts: Accounts, sizing: Sizing, run: AccountRun, chance: np.random.Generator) -> bool:
    """Returns True if the sizes change when outcomes, and with them all that memory says, are shuffled among the decisions."""
    order = chance.permutation(len(accounts.decisions)).tolist()
    shuffled = [
        replace(
            one, r=other.r, predicted=other.predicted, simple=other.simple, recent=other.recent, literal=other.literal,
            evidence=other.evidence, variants=other.variants, top_won=other.top_won, top_lost=other.top_lost,
            base_rate=other.base_rate, known=other.known,
        )
        for one, other in zip(accounts.decisions, (accounts.decisions[at] for at in order), strict=True)
    ]  # fmt: skip
    again = replace(accounts, decisions=shuffled).run(sizing)
    return not (np.allclose(again.sizes, run.sizes) or np.allclose(again.risks, run.risks))


def weekly(values: Floats, decisions: Sequence[WalkedDecision]) -> list[float]:
    """Returns the sum of values in each week that has decisions."""
    sums: dict[int, float] = {}
    for decision, value in zip(decisions, values.tolist(), strict=True):
        sums[decision.week] = sums.get(decision.week, 0.0) + value
    return [sums[week] for week in sorted(sums)]


def deflated_sharpe_of(name: str, differences: Mapping[str, Sequence[float]]) -> tuple[float, float] | None:
    """Returns the Sharpe ratio that the best of as many useless approaches would have, and the probability to be above it.

    `differences` has the weekly differences to the baseline of every approach and variant that was tried.
    """
    ratios = {each: mean(rows) / deviation for each, rows in differences.items() if len(rows) > 3 and (deviation := spread(rows))}
    if name not in ratios or len(ratios) < 2:
        return None
    rows = differences[name]
    middle, deviation = mean(rows), spread(rows, 0)
    skew = mean([((row - middle) / deviation) ** 3 for row in rows])
    kurtosis = mean([((row - middle) / deviation) ** 4 for row in rows])
    return deflated_sharpe(ratios[name], len(rows), skew, kurtosis, spread(list(ratios.values())) ** 2, len(ratios))


def overfitting_of(columns: Mapping[str, Sequence[float]]) -> float | None:
    """Returns the probability that the best of several on one half is below the median on the other; None with few weeks."""
    rows = [list(row) for row in zip(*columns.values(), strict=True)]
    if len(rows) < BLOCKS * MIN_WEEKS_PER_BLOCK or len(columns) < 2:
        return None
    return overfitting(rows, BLOCKS, "sharpe")[0]


@dataclass(frozen=True, slots=True)
class Judgement:
    """The verdict on one approach and the figures behind it."""

    verdict: Verdict
    pair: PairedComparison
    without_situations: PairedComparison | None  # evidence against the same memory that ignores situations
    deflated: tuple[float, float] | None
    overfitting: float | None  # over the approaches
    tried: int  # approaches and variants


def judge_approach(
    name: str, accounts: Accounts, runs: Mapping[str, AccountRun], sizings: Mapping[str, Sizing], chance: np.random.Generator,
    *, variants: Mapping[str, AccountRun] | None = None, look_ahead: Sequence[str] = (),
) -> Judgement:  # fmt: skip
    """Returns the verdict on an approach: its sizes against the same risk on every trade."""
    decisions = accounts.decisions
    outcomes = np.array([decision.r for decision in decisions])
    moments, weeks = [d.moment for d in decisions], [d.week for d in decisions]
    own, baseline = runs[name].sizes, runs[BASELINE].sizes
    pair = compare(own, baseline, outcomes, moments, weeks)
    tried = {**{each: run for each, run in runs.items() if each != BASELINE}, **(variants or {})}
    differences = {each: weekly(paired_differences(run.sizes, baseline, outcomes), decisions) for each, run in tried.items()}
    returns = {each: weekly(_at_equal_risk(run.sizes) * outcomes, decisions) for each, run in runs.items() if run.sizes.any()}
    bare = None
    if name == EVIDENCE:
        flat = accounts.run(evidence_sizing(NO_SITUATIONS)).sizes
        bare = compare(own, flat, outcomes, moments, weeks) if flat.any() and own.any() else None
    deflated = deflated_sharpe_of(name, differences)
    overfit = overfitting_of(returns)
    won, lost = bool((outcomes > 0).any()), bool((outcomes < 0).any())
    verdict = judge(VerdictInputs(
        comparison=pair, traded=int((own > 0).sum()), sizes_vary=bool(np.ptp(own) > 1e-9 * max(float(own.max()), 1e-12)),
        looks_at_outcomes=looks_at_outcomes(accounts, sizings[name], runs[name], chance), look_ahead=tuple(look_ahead),
        deflated_sharpe=None if deflated is None else deflated[1], overfitting=overfit, without_situations=bare,
        one_class=None if won and lost else "won" if won else "lost",
    ))  # fmt: skip
    return Judgement(verdict, pair, bare, deflated, overfit, len(tried))


def _at_equal_risk(sizes: Floats) -> Floats:
    found: Floats = sizes * (FIXED_RISK / float(sizes.mean()))
    return found
