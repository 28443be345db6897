"""Signs that a decision maker knows the future: no difference between arms means anything then.

Three signs: what it states before a trade foretells the outcome too well; it wins far more often than its own stops and targets
would on a price that is a fair game; and its decisions before a moment change when the bars after that moment are taken away.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from memtape.core.memory.episodes import EPISODE_FIELDS, Episode
from memtape.core.trial.round_trips import RoundTrip
from memtape.core.validation.look_ahead import look_ahead_signs

MIN_FORETOLD_TRADES = 40
MAX_SHARE_FORETOLD = 0.5  # of the losses that its stops and targets would bring
MIN_DEVIATIONS = 5.0


def foreknowledge_signs(trades: Sequence[RoundTrip]) -> list[str]:
    """Returns the signs among the trades without memory, each in a sentence; empty if there is none."""
    known = [trade for trade in trades if trade.r is not None]
    found = look_ahead_signs([_episode(trade) for trade in known], [trade.r or 0.0 for trade in known])
    if sign := _wins_too_often(trades):
        found.append(sign)
    return found


def cut_sign(whole: Sequence[RoundTrip], cut: Sequence[RoundTrip], until: str) -> str | None:
    """Returns a sentence if the trades of the same bars, cut at a moment, differ before it."""
    differ = len({t.identity for t in whole} ^ {t.identity for t in cut})
    if not differ:
        return None
    change = f"{differ} trades before {until} change when the bars after it are taken away"
    return f"{change}: the decision maker does not only see the past"


def _wins_too_often(trades: Sequence[RoundTrip]) -> str | None:
    fair = [(trade.odds, trade.share > 0) for trade in trades if trade.odds is not None]
    n, won, expected = len(fair), sum(win for _, win in fair), math.fsum(odds for odds, _ in fair)
    deviation = math.sqrt(math.fsum(odds * (1.0 - odds) for odds, _ in fair))
    if n < MIN_FORETOLD_TRADES or not deviation or n <= expected:
        return None
    foretold = (won - expected) / (n - expected)
    if foretold < MAX_SHARE_FORETOLD or (won - expected) / deviation < MIN_DEVIATIONS:
        return None
    return (
        f"{won} of {n} trades won; with their stops and targets {expected:.0f} would win if nobody knew the next price: "
        "the decision maker may know the future"
    )


def _episode(trade: RoundTrip) -> Episode:
    known = dict.fromkeys(EPISODE_FIELDS) | {
        "symbol": trade.symbol, "side": trade.side, "strategy": trade.strategy, "entry_at": trade.entry_at,
        "exit_at": trade.exit_at, "confidence": trade.confidence, "tags": trade.tags,
    }  # fmt: skip
    return Episode(**known)  # type: ignore[arg-type]
