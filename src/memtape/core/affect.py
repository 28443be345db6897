"""An agent's state of mind, computed and never told: confidence, appetite for risk, drawdown, streaks.

Confidence is a slow average of how trades went (half of a change after 6.6 trades). Appetite for risk falls with the
drawdown: slowly at first in the original form, which keeps a tenth even past the limit; in proportion to the room left
above the limit in the form of Grossman and Zhou, which stops at the limit. Equity must be free of deposits and
withdrawals before it comes here.

>>> risk_appetite(0.10), round(risk_appetite_gz(0.10), 6), risk_appetite(0.25), risk_appetite_gz(0.25)
(0.75, 0.555556, 0.1, 0.0)

Reference: Grossman & Zhou 1993, Optimal Investment Strategies for Controlling Drawdowns.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from memtape.core.scoring import sigmoid
from memtape.errors import Invalid

MEMORY = 0.9  # how much of confidence the next trade leaves in place
DRAWDOWN_LIMIT = 0.20


def signal_literal(pnl_r: float, expected_r: float | None) -> float:
    """How a trade went, 0 to 1, measured by what was expected; below zero expectation it turns round, as in the original.

    Without an expectation, or with one of zero, the measure is 1R.

    >>> round(signal_literal(3.0, 1.0), 6), signal_literal(0.0, 0.0)
    (0.952574, 0.5)
    """
    return sigmoid(pnl_r / expected_r if expected_r else pnl_r)


def signal(pnl_r: float, sigma_r: float) -> float:
    """How a trade went, 0 to 1, measured by how much outcomes vary.

    >>> round(signal(2.0, 1.5), 6)
    0.791391
    """
    return sigmoid(pnl_r / max(0.5, sigma_r))


def averaged(confidence: float, latest: float, memory: float = MEMORY) -> float:
    """Confidence after one more signal."""
    return memory * confidence + (1.0 - memory) * latest


def risk_appetite(drawdown: float, limit: float = DRAWDOWN_LIMIT) -> float:
    """The original form: 1 at the peak, a tenth at the limit and beyond."""
    return max(0.1, 1.0 - (max(drawdown, 0.0) / _checked(limit)) ** 2)


def risk_appetite_gz(drawdown: float, limit: float = DRAWDOWN_LIMIT) -> float:
    """The form of Grossman and Zhou: the share of equity that stands above the limit, 1 at the peak, 0 at the limit."""
    if drawdown >= 1.0:
        return 0.0
    return max(0.0, (1.0 - (1.0 - _checked(limit)) / (1.0 - max(drawdown, 0.0))) / limit)


@dataclass(frozen=True, slots=True, kw_only=True)
class Affect:
    """An agent's state of mind at a moment."""

    confidence: float = 0.5
    risk_appetite: float = 1.0
    drawdown_state: float = 0.0  # 0 at the peak, 1 at the limit
    peak_equity: float
    equity: float
    consecutive_wins: int = 0
    consecutive_losses: int = 0
    limit: float = DRAWDOWN_LIMIT

    @property
    def drawdown(self) -> float:
        return (self.peak_equity - self.equity) / self.peak_equity if self.peak_equity > 0 else 0.0


def after_trade(state: Affect, pnl_r: float, latest: float) -> Affect:
    """The state after a close that gave this signal; a scratch ends a winning streak, as in the original."""
    won = pnl_r > 0
    return replace(
        state,
        confidence=averaged(state.confidence, latest),
        consecutive_wins=state.consecutive_wins + 1 if won else 0,
        consecutive_losses=0 if won else state.consecutive_losses + 1,
    )


def after_equity(state: Affect, equity: float) -> Affect:
    """The state after an equity mark, ruin included.

    >>> ruined = after_equity(Affect(peak_equity=100.0, equity=100.0), 0.0)
    >>> ruined.drawdown, ruined.drawdown_state, ruined.risk_appetite
    (1.0, 1.0, 0.1)
    """
    marked = replace(state, equity=equity, peak_equity=max(state.peak_equity, equity))
    return replace(
        marked,
        risk_appetite=risk_appetite(marked.drawdown, state.limit),
        drawdown_state=min(1.0, marked.drawdown / _checked(state.limit)),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Happened:
    """A close, an equity mark, or both at once."""

    pnl_r: float | None = None
    expected_r: float | None = None
    equity: float | None = None


def path(state: Affect, happened: Iterable[Happened]) -> Affect:
    """The state after a stretch of trading, by the original signal.

    >>> path(Affect(peak_equity=100.0, equity=100.0), [Happened(pnl_r=-1.0, equity=90.0)]).risk_appetite
    0.75
    """
    for event in happened:
        if event.pnl_r is not None:
            state = after_trade(state, event.pnl_r, signal_literal(event.pnl_r, event.expected_r))
        if event.equity is not None:
            state = after_equity(state, event.equity)
    return state


def _checked(limit: float) -> float:
    if not 0.0 < limit <= 1.0:
        raise Invalid("max_acceptable_drawdown", "is not between 0 and 1", "Give a fraction, like 0.2 for 20 %")
    return limit
