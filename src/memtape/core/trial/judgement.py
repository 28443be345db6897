"""The verdict of a trial: does memory help this decision maker, does it hurt, or can it not be told?

"Memory helps" needs memory to be better than no memory AND better than the placebo. The first alone may only mean that trading
less was better; the second alone only that the placebo did harm. Everything else cannot be told, and the reason is given.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from memtape.core.trial.arms import OFF, ON, SHUFFLED, Arm
from memtape.core.trial.comparison import ArmComparison
from memtape.core.validation.resampling import ALPHA
from memtape.core.validation.verdict import Verdict, VerdictGate

MIN_TRIAL_TRADES = 60
MIN_TRIAL_WEEKS = 8
MIN_CHANGED_TRADES = 10
NOT_USED = "this decision maker does not use memory"
NOT_FOLLOWED = "this decision maker was shown memory and did not act on it"


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialEvidence:
    """Everything that the verdict of a trial rests on."""

    against: Mapping[Arm, ArmComparison]  # memory against each other arm
    trades: int  # without memory, of the seed with the fewest
    won: int
    questions: int  # that memory was asked, in all arms
    same_everywhere: bool  # the trades of all arms are the same
    look_ahead: Sequence[str] = ()


def judge_trial(evidence: TrialEvidence) -> Verdict:
    """Returns the verdict."""
    basis = _basis(evidence)
    if (missing := next((gate for gate in basis if not gate.holds), None)) is not None:
        return Verdict("cannot be told", tuple(basis), missing.found)
    pairs = {arm: evidence.against[arm] for arm in (OFF, SHUFFLED)}
    upper = [gate for arm, pair in pairs.items() for gate in _direction(arm, pair, 1)]
    if all(gate.holds for gate in upper):
        return Verdict("helps", (*basis, *upper), "every gate holds")
    lower = [gate for arm, pair in pairs.items() for gate in _direction(arm, pair, -1)]
    if all(gate.holds for gate in lower):
        return Verdict("hurts", (*basis, *lower), "memory was worse than no memory and worse than the placebo")
    return Verdict("cannot be told", (*basis, *upper), next(gate.found for gate in upper if not gate.holds))


def _basis(evidence: TrialEvidence) -> list[VerdictGate]:
    missing = [arm for arm in (ON, OFF, SHUFFLED) if arm != ON and arm not in evidence.against]
    absent = [ON, *missing] if not evidence.against else missing
    gates = [
        _gate("no sign of look-ahead", not evidence.look_ahead, "none found", "; ".join(evidence.look_ahead)),
        _gate("trades", evidence.trades > 0, f"{evidence.trades} without memory",
              "this decision maker never traded without memory"),
        _gate("uses memory", not evidence.same_everywhere, f"{evidence.questions:,} questions to memory",
              f"{NOT_FOLLOWED if evidence.questions else NOT_USED}: its trades are the same in every arm"),
        _gate("repeats itself", evidence.questions > 0 or evidence.same_everywhere, "its trades differ only where memory does",
              "its trades differ between arms although it never asked memory, so arms cannot be paired"),
        _gate("memory, no memory and placebo were run", not absent, "all three", f"the arm {', '.join(absent)} was not run"),
        _gate(f"at least {MIN_TRIAL_TRADES} trades without memory", evidence.trades >= MIN_TRIAL_TRADES,
              f"{evidence.trades} trades", f"only {evidence.trades} trades without memory, {MIN_TRIAL_TRADES} are needed"),
        _gate("wins and losses", 0 < evidence.won < evidence.trades, "both occur",
              f"all trades without memory {'won' if evidence.won else 'lost'}"),
    ]  # fmt: skip
    for arm, pair in evidence.against.items():
        if arm in (OFF, SHUFFLED):
            gates.append(_gate(
                f"at least {MIN_CHANGED_TRADES} trades differ from {arm}", pair.changed_trades >= MIN_CHANGED_TRADES,
                f"{pair.changed_trades} trades in {pair.changed_weeks} weeks",
                f"only {pair.changed_trades} trades differ from {arm}, {MIN_CHANGED_TRADES} are needed",
            ))  # fmt: skip
            gates.append(_gate(
                f"at least {MIN_TRIAL_WEEKS} weeks differ from {arm}", pair.changed_weeks >= MIN_TRIAL_WEEKS,
                f"{pair.changed_weeks} of {pair.weeks} weeks",
                f"only {pair.changed_weeks} weeks differ from {arm}, {MIN_TRIAL_WEEKS} are needed",
            ))  # fmt: skip
    return gates


def _gate(name: str, holds: bool, found: str, missing: str) -> VerdictGate:
    return VerdictGate(name, holds, found if holds else missing)


def _direction(arm: Arm, pair: ArmComparison, sign: int) -> list[VerdictGate]:
    by_week = pair.by_week.p_value if sign > 0 else 1.0 - pair.by_week.p_value
    by_block = pair.by_block.p_value if sign > 0 else 1.0 - pair.by_block.p_value
    exchanged = pair.permutation_p if sign > 0 else pair.permutation_p_lower
    better = "better" if sign > 0 else "worse"
    tested = (("trades of one week together", by_week), ("four weeks together", by_block), ("arms exchanged in weeks", exchanged))
    return [
        VerdictGate(
            f"{better} than {arm}, {how}", p <= ALPHA,
            f"p {p:.3f}" if p <= ALPHA
            else f"luck is a sufficient explanation of {pair.mean:+.3f} % of equity a week against {arm} ({how}: p {p:.3f})",
        )
        for how, p in tested
    ]  # fmt: skip


def trial_power(pair: ArmComparison | None, arm: Arm) -> str:
    """Returns what a trial of this length could not have seen."""
    if pair is None or not math.isfinite(pair.smallest_visible):
        return "There are too few weeks to say what could have been seen."
    if pair.smallest_visible <= 0:
        return f"No week differs from {arm}: there was no improvement that could have been seen."
    return (
        f"With {pair.weeks} weeks an improvement below {pair.smallest_visible:.2g} % of equity a week against {arm} "
        "could not have been seen (80 % power, one-sided 5 %)."
    )
