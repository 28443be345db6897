"""Kelly's fraction as the original text computes it, and two more forms that are shown beside the product's own size.

`kelly_from_memory` weights trades by recall scores, which contain the outcome, and therefore bets on a fair coin. None of these
sizes is suggested; `core/recall/sizing.py` has the one that is.

>>> coin = [(0.88, 1.0)] * 25 + [(0.12, -1.0)] * 25
>>> round(kelly_from_memory(coin).f, 2)
0.19
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from memtape.core.recall.sizing import Weighted, kelly_r, weighted_mean
from memtape.core.value_class import dataclass


def kelly_bet(p: float, ratio: float) -> float:
    """Returns f_bet: the share of equity that a losing bet costs, for a win/loss ratio.

    >>> round(kelly_bet(0.55, 2.0), 6)
    0.325
    """
    return (p * ratio - (1.0 - p)) / ratio


def kelly_bet_of_r(p: float, loss: float, win: float) -> float:
    """Returns f_bet from a mean loss and a mean win in R.

    >>> round(kelly_bet_of_r(0.9, 0.1, 0.5), 6), round(kelly_r(0.9, 0.1, 0.5), 6)
    (0.88, 8.8)
    """
    return kelly_bet(p, win / loss)


def kelly_exact(pairs: Sequence[Weighted]) -> float | None:
    """Returns the f that maximises sum w·ln(1 + f·r), so that sum w·r/(1 + f·r) = 0; it is below zero if the edge is.

    Returns None without both a win and a loss: then the optimum is unbounded.

    >>> round(kelly_exact([(0.55, 2.0), (0.45, -1.0)]), 6), kelly_exact([(1.0, 2.0)])
    (0.325, None)
    """
    known = [(w, r) for w, r in pairs if r is not None and w > 0]
    best, worst = max((r for _, r in known), default=0.0), min((r for _, r in known), default=0.0)
    if best <= 0 or worst >= 0:
        return None
    # At either end some 1 + f·r is zero and the slope is infinite.
    low, high = -1.0 / best, -1.0 / worst
    for _ in range(200):
        middle = 0.5 * (low + high)
        if middle in (low, high):
            break
        slope = math.fsum(w * r / (1.0 + middle * r) for w, r in known)
        low, high = (middle, high) if slope > 0 else (low, middle)
    return 0.5 * (low + high)


@dataclass(frozen=True, slots=True)
class MemorySizing:
    """The original sizing with its intermediate values; None for those that it did not reach."""

    f: float
    p: float | None = None
    loss: float | None = None
    win: float | None = None
    raw: float | None = None


def kelly_from_memory(
    scored: Sequence[Weighted], risk_appetite: float = 1.0, fraction: float = 0.25, at_least: int = 10
) -> MemorySizing:
    """Returns the size exactly as in the original: weights are recall scores, and a scratch counts as a loss."""
    won = [(w, r) for w, r in scored if r is not None and r > 0]
    lost = [(w, -r) for w, r in scored if r is not None and r < 0]
    win_weight, loss_weight = math.fsum(w for w, _ in won), math.fsum(w for w, _ in lost)
    if len(scored) < at_least or win_weight == 0 or loss_weight == 0:
        return MemorySizing(0.0)
    p = win_weight / math.fsum(w for w, _ in scored)
    win, loss = weighted_mean(won), weighted_mean(lost)
    raw = kelly_r(p, loss, win)
    return MemorySizing(max(0.0, raw * fraction * risk_appetite), p, loss, win, raw)
