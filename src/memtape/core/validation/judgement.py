"""From decisions to a verdict: the accounts of all approaches, the tests of one of them, and what the variants say.

`judge_approach` is all that a verdict needs; the calibration tests run exactly this function on invented worlds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from memtape.core.validation.account import AccountRun, Floats
from memtape.core.validation.approach_runs import Accounts
from memtape.core.validation.approaches import (
    BASELINE,
    EVIDENCE,
    FIXED_RISK,
    EvidenceRule,
    Sizing,
    evidence_sizing,
)
from memtape.core.validation.many_trials import deflated_sharpe_of, overfitting_of, weekly
from memtape.core.validation.verdict import PairedComparison, Verdict, VerdictInputs, compare, judge, paired_differences

NO_SITUATIONS = "no situations"
SIZE_VARIANTS: Mapping[str, EvidenceRule] = {
    "shrinkage 10 trades": EvidenceRule(kappa=10.0), "shrinkage 40 trades": EvidenceRule(kappa=40.0),
    "lower bound 10 %": EvidenceRule(gamma=0.10), "median instead of lower bound": EvidenceRule(gamma=0.50),
    "an eighth of Kelly": EvidenceRule(fraction=0.125), "half of Kelly": EvidenceRule(fraction=0.5),
    "cap 1 %": EvidenceRule(cap=0.01), "cap 4 %": EvidenceRule(cap=0.04),
    "no drawdown brake": EvidenceRule(brake=False),
}  # fmt: skip


def looks_at_outcomes(accounts: Accounts, sizing: Sizing, run: AccountRun, chance: np.random.Generator) -> bool:
    """Returns True if the sizes change when outcomes, and what memory says of them, are shuffled among the decisions.

    How many trades memory knows stays where it was: it says nothing of how any of them ended.
    """
    order = chance.permutation(len(accounts.decisions)).tolist()
    shuffled = [
        replace(
            one, r=other.r, predicted=other.predicted, simple=other.simple, recent=other.recent, literal=other.literal,
            evidence=replace(other.evidence, n_eff=one.evidence.n_eff),
            variants={each: replace(sums, n_eff=one.variants[each].n_eff) for each, sums in other.variants.items()},
            top_won=other.top_won, top_lost=other.top_lost, base_rate=other.base_rate,
        )
        for one, other in zip(accounts.decisions, (accounts.decisions[at] for at in order), strict=True)
    ]  # fmt: skip
    again = replace(accounts, decisions=shuffled).run(sizing)
    return not (np.allclose(again.sizes, run.sizes) or np.allclose(again.risks, run.risks))


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
    sizes = {each: accounts.surviving_sizes(sizings[each], run) for each, run in runs.items()}
    own, baseline = sizes[name], sizes[BASELINE]
    pair = compare(own, baseline, outcomes, moments, weeks)
    tried = {each: found for each, found in sizes.items() if each != BASELINE}
    tried |= {each: run.sizes for each, run in (variants or {}).items()}
    differences = {each: weekly(paired_differences(found, baseline, outcomes), decisions) for each, found in tried.items()}
    returns = {each: weekly(_at_equal_risk(found) * outcomes, decisions) for each, found in sizes.items() if found.any()}
    bare = None
    if name == EVIDENCE:
        flat = accounts.run(evidence_sizing(NO_SITUATIONS)).sizes
        bare = compare(own, flat, outcomes, moments, weeks) if flat.any() and own.any() else None
    deflated = deflated_sharpe_of(name, differences)
    overfit = overfitting_of(returns)
    verdict = judge(VerdictInputs(
        comparison=pair, traded=int((own > 0).sum()), sizes_vary=bool(np.ptp(own) > 1e-9 * max(float(own.max()), 1e-12)),
        looks_at_outcomes=looks_at_outcomes(accounts, sizings[name], runs[name], chance), look_ahead=tuple(look_ahead),
        deflated_sharpe=None if deflated is None else deflated[1], tried=len(tried), overfitting=overfit, without_situations=bare,
        one_class=_one_class(outcomes),
    ))  # fmt: skip
    return Judgement(verdict, pair, bare, deflated, overfit, len(tried))


def _one_class(outcomes: Floats) -> str | None:
    """Returns what all trades after the split have in common, if they did not both win and lose."""
    won, lost = int((outcomes > 0).sum()), int((outcomes < 0).sum())
    if won and lost:
        return None
    if not won and not lost:
        return "all trades after the split ended at zero"
    if max(won, lost) == len(outcomes):
        return f"all trades after the split {'won' if won else 'lost'}"
    return f"no trade after the split {'lost' if won else 'won'}"


def _at_equal_risk(sizes: Floats) -> Floats:
    found: Floats = sizes * (FIXED_RISK / float(sizes.mean()))
    return found
