"""Sizing: the only form of Kelly's fraction that memtape suggests.

Two units are in use and easily confused. f_R is the equity risked per 1R, from wins and losses in R: p/a - q/b. f_bet is
the equity lost by a losing bet: (p·b' - q)/b' with b' = win/loss. They are equivalent: f_bet = a · f_R.

All forms assume that the win rate is known. But a rate from few, unequally weighted trades is uncertain, and betting too much
costs more than betting too little. `lower_bound_size` therefore shrinks the rate towards zero edge, takes the lower quartile of
its distribution, a quarter of the resulting fraction, and never more than 2 % of equity. Its weights must not depend on
outcomes (`scoring.evidence_weight`). The original forms, which are only shown for comparison, are in
`core/original/kelly_formulas.py`.

>>> lower_bound_size([(1.0, 1.0)] * 25 + [(1.0, -1.0)] * 25).f
0.0

References: Kelly 1956; Thorp 2006; Browne & Whitt 1996; Baker & McHale 2013 (shrunken Kelly).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from memtape.core.statistics import beta_quantile
from memtape.core.value_class import dataclass

Weighted = tuple[float, float | None]  # weight, outcome in R; None if the trade is open


def kelly_r(p: float, loss: float, win: float) -> float:
    """Returns f_R: the share of equity to risk per 1R, for a mean loss and a mean win in R. It has no upper limit.

    >>> round(kelly_r(0.55, 0.9, 1.8), 6), round(0.9 * kelly_r(0.55, 0.9, 1.8), 6)
    (0.361111, 0.325)
    """
    return p / loss - (1.0 - p) / win


def win_from_average(p: float, mean_r: float, loss: float = 1.0) -> float | None:
    """Returns the mean win that follows from a win rate, a mean outcome and a mean loss; None if no trade won.

    >>> round(win_from_average(0.45, 0.2), 6)
    1.666667
    """
    return (mean_r + (1.0 - p) * loss) / p if p > 0 else None


def kelly_from_average(p: float, mean_r: float, loss: float = 1.0) -> float | None:
    """Returns f_R from a win rate and a mean outcome; None if they imply no win.

    >>> round(kelly_from_average(0.45, 0.2), 6)
    0.12
    """
    win = win_from_average(p, mean_r, loss)
    return None if win is None or win <= 0 else kelly_r(p, loss, win)


@dataclass(frozen=True, slots=True)
class SizingHint:
    """The suggested risk per trade and its inputs; None for an input that is unknown."""

    f: float  # share of equity per 1R
    n_eff: float  # effective sample size
    p_hat: float | None = None
    loss: float | None = None
    win: float | None = None
    p_bound: float | None = None
    f_raw: float | None = None


def lower_bound_size(
    pairs: Sequence[Weighted], risk_appetite: float = 1.0, *, kappa: float = 20.0, gamma: float = 0.25,
    fraction: float = 0.25, cap: float = 0.02, at_least: float = 10.0,
) -> SizingHint:  # fmt: skip
    """Returns the suggested size: shrunk towards zero edge by kappa trades, the gamma quantile, a fraction of Kelly, capped.

    Scratches and open trades are ignored. Without a win there is no size; without a loss, the mean loss is taken as 1R.

    >>> hint = lower_bound_size([(1.0, 1.0)] * 30 + [(1.0, -1.0)] * 20)
    >>> round(hint.p_bound, 6), round(hint.f, 6)
    (0.531835, 0.015917)
    """
    known = [(w, r) for w, r in pairs if r is not None and r != 0 and w > 0]
    n_eff = effective_count([w for w, _ in known])
    won, lost = [(w, r) for w, r in known if r > 0], [(w, -r) for w, r in known if r < 0]
    if not known:
        return SizingHint(0.0, n_eff)
    p_hat = math.fsum(w for w, _ in won) / math.fsum(w for w, _ in known)
    return bounded_kelly(
        n_eff, p_hat, weighted_mean(lost) if lost else None, weighted_mean(won) if won else None, risk_appetite,
        kappa=kappa, gamma=gamma, fraction=fraction, cap=cap, at_least=at_least,
    )  # fmt: skip


def bounded_kelly(
    n_eff: float, p_hat: float, loss: float | None, win: float | None, risk_appetite: float = 1.0, *, kappa: float = 20.0,
    gamma: float = 0.25, fraction: float = 0.25, cap: float = 0.02, at_least: float = 10.0,
) -> SizingHint:  # fmt: skip
    """Returns `lower_bound_size` from its sums: the effective sample size, the win rate, the mean loss and the mean win.

    >>> round(bounded_kelly(50.0, 0.6, 1.0, 1.0).f, 6)
    0.015917
    """
    # A mean loss so small that it is 0 as a float counts as unknown.
    loss = loss or 1.0
    if not win:
        return SizingHint(0.0, n_eff, p_hat, loss)
    zero_edge = loss / (loss + win)
    p_bound = beta_quantile(gamma, kappa * zero_edge + n_eff * p_hat, kappa * (1.0 - zero_edge) + n_eff * (1.0 - p_hat))
    f_raw = kelly_r(p_bound, loss, win)
    f = min(cap, fraction * max(0.0, f_raw) * risk_appetite) if n_eff >= at_least else 0.0
    return SizingHint(f, n_eff, p_hat, loss, win, p_bound, f_raw)


def effective_count(weights: Sequence[float]) -> float:
    """Returns Kish's effective sample size: (sum w)² / sum w².

    >>> effective_count([1.0, 1.0, 1.0]), effective_count([])
    (3.0, 0.0)
    """
    squares = math.fsum(w * w for w in weights)
    return math.fsum(weights) ** 2 / squares if squares else 0.0


def weighted_mean(weighted: Sequence[tuple[float, float]]) -> float:
    return math.fsum(w * r for w, r in weighted) / math.fsum(w for w, _ in weighted)
