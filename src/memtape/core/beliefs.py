"""What an agent has come to believe: how a proposition is counted, when it may be believed, and how it fades.

A belief says "if the situation is such, then the trade ends so". Each trade that tests it counts one, for or against; the
rate of success is then a beta distribution, and what matters is not its mean but how likely it beats the base rate.
Propositions about the mean outcome have a normal-inverse-gamma posterior instead. Whoever scans hundreds of cells finds
some that look good by chance alone, so a belief stays a candidate until it has 30 trades and passes the
Benjamini-Hochberg gate over all cells that were scanned.

`updated_by_outcome` is the original rule, which counts by |R| up to 2; its numbers are no longer counts, and its interval
covers the truth far too rarely. It is kept to be compared.

>>> seven_of_ten = induced(7, 3)
>>> seven_of_ten.mean, round(seven_of_ten.probability_above(0.5), 6)
(0.6666666666666666, 0.886719)

References: Benjamini & Hochberg 1995; Gelman et al., Bayesian Data Analysis (3rd ed.) 2-3.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from memtape.core.scoring import faded
from memtape.core.statistics import beta_cdf, beta_quantile, mean, student_cdf

Status = Literal["candidate", "believed"]
BELIEVED_FROM = 30


@dataclass(frozen=True, slots=True)
class Beta:
    """What is known of a rate: alpha - 1 successes and beta - 1 failures on top of no opinion."""

    alpha: float = 1.0
    beta: float = 1.0

    @property
    def mean(self) -> float:
        return self.alpha / (self.alpha + self.beta)

    @property
    def variance(self) -> float:
        total = self.alpha + self.beta
        return self.alpha * self.beta / (total * total * (total + 1.0))

    @property
    def count(self) -> float:
        """How much was counted on top of no opinion."""
        return self.alpha + self.beta - 2.0

    def probability_above(self, rate: float) -> float:
        """P(the true rate exceeds `rate`)."""
        return beta_cdf(1.0 - rate, self.beta, self.alpha)

    def bound(self, level: float = 0.05) -> float:
        """The rate that the true one exceeds with probability 1 - level."""
        return beta_quantile(level, self.alpha, self.beta)


SEEDED = Beta(2.0, 1.0)  # what an owner states without evidence


def induced(wins: int, losses: int) -> Beta:
    """A belief made from like episodes."""
    return Beta(1.0 + wins, 1.0 + losses)


def migrated(confidence: float, sample_size: int) -> Beta:
    """A belief made from a pattern of the older shape.

    >>> migrated(0.72, 25)
    Beta(alpha=19.0, beta=8.0)
    """
    return Beta(1.0 + confidence * sample_size, 1.0 + (1.0 - confidence) * sample_size)


def updated(belief: Beta, confirmed: Iterable[bool | None]) -> Beta:
    """A belief after trades that tested it, one count each; None did not test it.

    >>> updated(Beta(8.0, 4.0), [True, False, None])
    Beta(alpha=9.0, beta=5.0)
    """
    tested = [answer for answer in confirmed if answer is not None]
    return Beta(belief.alpha + sum(tested), belief.beta + len(tested) - sum(tested))


def updated_by_outcome(belief: Beta, trades: Iterable[tuple[float | None, bool]]) -> Beta:
    """The original rule: a trade of r counts min(2, |r|), one without an outcome or at 0R counts ½.

    >>> updated_by_outcome(Beta(2.0, 1.0), [(0.0, False), (5.0, True)])
    Beta(alpha=4.0, beta=1.5)
    """
    for pnl_r, confirmed in trades:
        weight = min(2.0, abs(pnl_r)) if pnl_r else 0.5
        belief = Beta(belief.alpha + weight, belief.beta) if confirmed else Beta(belief.alpha, belief.beta + weight)
    return belief


@dataclass(frozen=True, slots=True)
class MeanEdge:
    """What is known of a mean outcome in R."""

    mean: float
    scale: float
    df: float

    @property
    def probability_positive(self) -> float:
        return student_cdf(self.mean / self.scale, self.df)


def mean_edge(pnl_rs: Sequence[float | None], kappa: float = 10.0, s0: float = 1.0, m0: float = 0.0) -> MeanEdge:
    """The normal-inverse-gamma posterior of the mean, with a prior worth kappa trades of mean m0 and deviation s0.

    >>> edge = mean_edge([1.0, -1.0, 2.0, -1.0])
    >>> round(edge.mean, 6), edge.df, round(edge.probability_positive, 3)
    (0.071429, 13.0, 0.594)
    """
    known = [r for r in pnl_rs if r is not None]
    n, total = len(known), kappa + len(known)
    average = mean(known) if known else m0
    squares = math.fsum((r - average) ** 2 for r in known)
    a0 = (kappa - 1.0) / 2.0
    a = a0 + n / 2.0
    b = a0 * s0 * s0 + squares / 2.0 + kappa * n * (average - m0) ** 2 / (2.0 * total)
    return MeanEdge((kappa * m0 + n * average) / total, math.sqrt(b / (a * total)), 2.0 * a)


def accepted(p_values: Mapping[str, float], false_discovery_rate: float = 0.1) -> list[str]:
    """The cells that pass the Benjamini-Hochberg gate over all that were scanned, by name.

    >>> accepted({"london": 0.001, "asia": 0.04, "overlap": 0.9}, 0.1)
    ['asia', 'london']
    """
    ordered = sorted(p_values.values())
    passing = [p for place, p in enumerate(ordered, 1) if p <= place * false_discovery_rate / len(ordered)]
    return sorted(name for name, p in p_values.items() if passing and p <= passing[-1])


def status(n: int, passes: bool) -> Status:
    """Whether a belief may be called one."""
    return "believed" if passes and n >= BELIEVED_FROM else "candidate"


def belief_strength(
    days_since_evidence: float, regime_matches: bool | None, initial: float = 1.0, tau_days: float = 180.0,
    exponent: float = 0.3, mismatch: float = 0.3,
) -> float:  # fmt: skip
    """What time and a change of regime have left of a belief; None: it holds in every regime.

    >>> round(belief_strength(180, False), 6), belief_strength(0, None)
    (0.243676, 1.0)
    """
    return initial * faded(days_since_evidence, tau_days, exponent) * (mismatch if regime_matches is False else 1.0)
