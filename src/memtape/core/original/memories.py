"""Affect, beliefs and the window of habits as the original text gives them, for comparison with memtape's own."""

from __future__ import annotations

from collections.abc import Iterable

from memtape.core.memory.affect import Affect, affect_after_equity, affect_after_trade
from memtape.core.memory.beliefs import Beta
from memtape.core.recall.scoring import sigmoid
from memtape.core.value_class import dataclass


def outcome_signal_original(pnl_r: float, expected_r: float | None) -> float:
    """Returns how a trade went, 0 to 1, relative to the expected outcome; a negative expectation reverses it, as in the original.

    Without an expectation, or with an expectation of zero, the scale is 1R.

    >>> round(outcome_signal_original(3.0, 1.0), 6), outcome_signal_original(0.0, 0.0)
    (0.952574, 0.5)
    """
    return sigmoid(pnl_r / expected_r if expected_r else pnl_r)


@dataclass(frozen=True, slots=True, kw_only=True)
class AffectInput:
    """A close, an equity mark, or both at once."""

    pnl_r: float | None = None
    expected_r: float | None = None
    equity: float | None = None


def affect_path(state: Affect, happened: Iterable[AffectInput]) -> Affect:
    """Returns the affect state after a series of events, by the original signal.

    >>> affect_path(Affect(peak_equity=100.0, equity=100.0), [AffectInput(pnl_r=-1.0, equity=90.0)]).risk_appetite
    0.75
    """
    for event in happened:
        if event.pnl_r is not None:
            state = affect_after_trade(state, event.pnl_r, outcome_signal_original(event.pnl_r, event.expected_r))
        if event.equity is not None:
            state = affect_after_equity(state, event.equity)
    return state


def updated_beta_by_outcome(belief: Beta, trades: Iterable[tuple[float | None, bool]]) -> Beta:
    """Returns the belief by the original rule: a trade of r counts min(2, |r|), one without an outcome or at 0R counts ½.

    >>> updated_beta_by_outcome(Beta(2.0, 1.0), [(0.0, False), (5.0, True)])
    Beta(alpha=4.0, beta=1.5)
    """
    for pnl_r, confirmed in trades:
        weight = min(2.0, abs(pnl_r)) if pnl_r else 0.5
        belief = Beta(belief.alpha + weight, belief.beta) if confirmed else Beta(belief.alpha, belief.beta + weight)
    return belief


def window_literal(stability: float) -> int:
    """Returns the original window, which is at least 50.

    >>> window_literal(0.0), window_literal(0.5)
    (50, 75)
    """
    return max(20, min(100, round(50 * (1 + stability))))
