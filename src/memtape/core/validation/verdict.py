"""The verdict: does memory help, does it hurt, or can it not be told?

The question is asked at equal mean risk: an approach that bets more is not better for it. The paired difference of a trade is
(size / mean size - 1) times its outcome; its mean is what choosing sizes was worth per trade, in R, beside risking the same on
every trade. "Memory helps" needs every gate; "memory hurts" needs the same the other way round; everything else cannot be told,
and the reason is given.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from memtape.core.validation.resampling import ALPHA, ClusteredMean, Floats, clustered_mean, rotation_p, smallest_visible

MIN_DECISIONS = 60
MIN_WEEKS = 8
MIN_TRADED = 10
MIN_TRADED_SHARE = 0.05  # of the decisions, that have a size at all
MIN_DEFLATED_SHARPE = 0.95
MAX_OVERFITTING = 0.5
MAX_BARE_P = 0.10  # the other gates hold already
Answer = Literal["helps", "hurts", "cannot be told"]


@dataclass(frozen=True, slots=True)
class PairedComparison:
    """One approach against the baseline at equal mean risk, in R per trade."""

    n: int
    mean: float  # of the paired differences
    by_moment: ClusteredMean
    by_week: ClusteredMean
    permutation_p: float  # runs kept
    permutation_p_lower: float  # of a difference as low
    smallest_visible: float


def paired_differences(sizes: Floats, baseline: Floats, outcomes: Floats) -> Floats:
    """Returns the difference of each trade at equal mean risk: zero for sizes in proportion to the baseline's.

    >>> paired_differences(np.array([0.02, 0.0]), np.array([0.01, 0.01]), np.array([1.0, -1.0])).tolist()
    [1.0, 1.0]
    """
    own, other = float(sizes.mean()), float(baseline.mean())
    if own <= 0 or other <= 0:
        return np.zeros(len(sizes))
    found: Floats = (sizes / own - baseline / other) * outcomes
    return found


def compare(sizes: Floats, baseline: Floats, outcomes: Floats, moments: Sequence[int], weeks: Sequence[int]) -> PairedComparison:
    """Returns the comparison of sizes with those of the baseline."""
    differences = paired_differences(sizes, baseline, outcomes)
    by_moment, by_week = clustered_mean(differences, moments), clustered_mean(differences, weeks)
    lean = sizes / sizes.mean() - baseline / baseline.mean() if sizes.mean() > 0 and baseline.mean() > 0 else np.zeros(len(sizes))
    worse = max(by_moment, by_week, key=lambda one: one.error)
    return PairedComparison(
        len(sizes), float(differences.mean()) if len(differences) else 0.0, by_moment, by_week, rotation_p(lean, outcomes),
        rotation_p(-lean, outcomes), smallest_visible(worse.error, worse.clusters),
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class VerdictGate:
    """One condition of the verdict, whether it holds, and what was found."""

    name: str
    holds: bool
    found: str


@dataclass(frozen=True, slots=True)
class Verdict:
    """The answer with its gates and, where it cannot be told, why."""

    answer: Answer
    gates: tuple[VerdictGate, ...]
    reason: str
    void: str | None = None  # why the history can tell nothing of any approach


@dataclass(frozen=True, slots=True, kw_only=True)
class VerdictInputs:
    """Everything that the verdict rests on."""

    comparison: PairedComparison
    traded: int  # decisions with a size above zero
    sizes_vary: bool
    looks_at_outcomes: bool  # sizes change when the outcomes that memory learned are shuffled
    look_ahead: tuple[str, ...] = ()  # signs that the data know the future
    deflated_sharpe: float | None = None  # probability; None: not computed
    tried: int = 0  # approaches and variants, which it takes into account
    overfitting: float | None = None
    without_situations: PairedComparison | None = None  # against the same memory that ignores situations
    one_class: str | None = None  # what all trades did, if they did not both win and lose


def judge(inputs: VerdictInputs) -> Verdict:
    """Returns the verdict."""
    pair = inputs.comparison
    basis = _basis_gates(inputs)
    missing = next((gate for gate in basis if not gate.holds), None)
    if missing is not None:
        void = next((gate.found for gate in history_gates(inputs) if not gate.holds), None)
        return Verdict("cannot be told", tuple(basis), missing.found, void)
    upper = _direction_gates(inputs, pair, 1)
    if all(gate.holds for gate in upper):
        return Verdict("helps", (*basis, *upper), "every gate holds")
    lower = _direction_gates(inputs, pair, -1)
    # Gates against overfitting guard a claim of success; a failure needs none.
    if all(gate.holds for gate in lower[:3]):
        return Verdict("hurts", (*basis, *lower[:3]), "sizes by memory were worse than equal sizes")
    # The reason speaks of the direction that was found; a difference below zero is no near miss of one above it.
    failed = next(gate for gate in (lower[:3] if pair.mean < 0 else upper) if not gate.holds)
    return Verdict("cannot be told", (*basis, *upper), failed.found)


def gives_sizes(traded: int, decisions: int) -> bool:
    """Returns True if enough decisions got a size to say anything of an approach."""
    return traded >= max(MIN_TRADED, MIN_TRADED_SHARE * decisions)


def history_gates(inputs: VerdictInputs) -> list[VerdictGate]:
    """Returns the gates of the history itself: where one fails, it can tell nothing of any approach."""
    pair, weeks = inputs.comparison, inputs.comparison.by_week.clusters
    signs = "; ".join(inputs.look_ahead)
    return [
        VerdictGate("no sign of look-ahead", not inputs.look_ahead, signs or "none found"),
        VerdictGate("wins and losses", inputs.one_class is None,
             "both occur" if inputs.one_class is None else inputs.one_class),
        VerdictGate(f"at least {MIN_DECISIONS} decisions", pair.n >= MIN_DECISIONS, _only("decision", pair.n, MIN_DECISIONS)),
        VerdictGate(f"at least {MIN_WEEKS} weeks", weeks >= MIN_WEEKS, _only("week", weeks, MIN_WEEKS)),
    ]  # fmt: skip


def _only(what: str, n: int, wanted: int) -> str:
    counted = f"{n} {what}{'' if n == 1 else 's'}"
    return f"only {counted} after the split" if n < wanted else counted


def _basis_gates(inputs: VerdictInputs) -> list[VerdictGate]:
    pair = inputs.comparison
    return [
        *history_gates(inputs),
        VerdictGate("memory gave sizes", gives_sizes(inputs.traded, pair.n),
             f"memory gave {inputs.traded} of {pair.n} decisions a size"),
        VerdictGate("sizes vary", inputs.sizes_vary, "sizes vary" if inputs.sizes_vary else "every size is the same"),
        VerdictGate("sizes depend on outcomes", inputs.looks_at_outcomes,
             "they change when outcomes are shuffled" if inputs.looks_at_outcomes
             else "the sizes stay the same when outcomes are shuffled: nothing was learned from them"),
    ]  # fmt: skip


def _direction_gates(inputs: VerdictInputs, pair: PairedComparison, sign: int) -> list[VerdictGate]:
    by_moment = pair.by_moment.p_value if sign > 0 else 1.0 - pair.by_moment.p_value
    by_week = pair.by_week.p_value if sign > 0 else 1.0 - pair.by_week.p_value
    shifted = pair.permutation_p if sign > 0 else pair.permutation_p_lower
    better = "above" if sign > 0 else "below"
    luck = f"luck is a sufficient explanation of {pair.mean:+.2f}R per trade at equal risk"
    gates = [
        VerdictGate(f"difference {better} zero, trades of one moment together", by_moment <= ALPHA, f"p {by_moment:.3f}"),
        VerdictGate(f"difference {better} zero, trades of one week together", by_week <= ALPHA, f"p {by_week:.3f}"),
        VerdictGate("outcomes shifted against sizes, runs kept", shifted <= ALPHA, f"p {shifted:.3f}"),
    ]
    if inputs.deflated_sharpe is not None:
        gates.append(
            VerdictGate("deflated Sharpe ratio", inputs.deflated_sharpe >= MIN_DEFLATED_SHARPE,
                 f"{inputs.deflated_sharpe:.3f} over {inputs.tried} approaches and variants")
        )
    if inputs.without_situations is not None:
        # Outcomes that come in runs make any memory of the last ones look good; that needs no situations.
        bare = inputs.without_situations.by_week.p_value
        gates.append(VerdictGate("better than a memory without situations", bare <= MAX_BARE_P, f"p {bare:.3f}"))
    if inputs.overfitting is not None:
        gates.append(
            VerdictGate("probability of overfitting", inputs.overfitting <= MAX_OVERFITTING, f"{inputs.overfitting:.2f}")
        )
    return [gate if gate.holds else VerdictGate(gate.name, False, f"{luck} ({gate.name}: {gate.found})") for gate in gates]


def power_sentence(pair: PairedComparison, traded: int) -> str:
    """Returns what could not have been seen with this many trades, of which so many got a size.

    >>> lean = np.tile([0.0101, 0.0099], 40)
    >>> weeks = [n // 8 for n in range(80)]
    >>> power_sentence(compare(lean, np.full(80, 0.01), np.resize([1.0, -1.0, 2.0], 80), range(80), weeks), 80)
    'With 80 decisions in 10 weeks an improvement below 0.004R per trade could not have been seen (80 % power, one-sided 5 %).'
    >>> equal = np.full(80, 0.01)
    >>> power_sentence(compare(equal, equal, np.ones(80), range(80), weeks), 80)
    'Every size was the same share of the mean as with fixed risk: there was no improvement that could have been seen.'
    """
    if not math.isfinite(pair.smallest_visible):
        return "There are too few trades to say what could have been seen."
    if not traded:
        return "No trade got a size: there was no improvement that could have been seen."
    if pair.smallest_visible <= 0:
        return "Every size was the same share of the mean as with fixed risk: there was no improvement that could have been seen."
    smallest = f"{pair.smallest_visible:.2f}" if pair.smallest_visible >= 0.095 else f"{pair.smallest_visible:.2g}"
    return (
        f"With {pair.n:,} decisions in {pair.by_week.clusters} weeks an improvement below {smallest}R per trade "
        "could not have been seen (80 % power, one-sided 5 %)."
    )
