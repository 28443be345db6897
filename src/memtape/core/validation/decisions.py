"""A decision of a walk forward: a trade as it was entered, with what memory knew at that moment and how the trade ended.

Everything but `r`, `pnl_usd`, `exit_at` and `hold_minutes` was known at the entry. Sizes are shares of equity per 1R; the three
Kelly fractions are a quarter of Kelly before any drawdown brake.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from memtape.core.codec import EPOCH

WEEK = timedelta(days=7)
MONDAY = EPOCH - timedelta(days=3)  # 1970-01-01 was a Thursday


@dataclass(frozen=True, slots=True)
class SizeSums:
    """The sums from which a size follows: the effective sample, the win rate, the mean loss and the mean win in R."""

    n_eff: float
    p_hat: float | None = None
    loss: float | None = None
    win: float | None = None


NO_SUMS = SizeSums(0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class WalkedDecision:
    """One trade of the validation period and what memory said before it."""

    id: str
    group: str
    symbol: str
    side: str
    strategy: str
    entry_at: datetime
    exit_at: datetime
    r: float  # outcome in the unit of the run
    pnl_usd: float | None
    risk_usd: float | None  # money per 1R as it was traded; None if the source knows no money
    regime: str | None
    volatility: str | None
    session: str | None
    hold_minutes: float | None
    known: int  # signals that memory had at the decision
    base_rate: float | None  # share of them that won
    predicted: float | None  # mean outcome of trades in such a situation
    simple: float  # quarter Kelly of all known outcomes
    recent: float  # quarter Kelly of the last 50
    literal: tuple[float, float, float]  # quarter Kelly of the original: calm, in a deep drawdown, after three losses
    evidence: SizeSums
    variants: dict[str, SizeSums]  # evidence with another recall parameter, by name
    top_won: int  # of the five best memories
    top_lost: int

    def before_outcome(self) -> WalkedDecision:
        """Returns the decision without how the trade ended: all that a sizing may see."""
        return replace(self, r=math.nan, pnl_usd=None, exit_at=self.entry_at, hold_minutes=None)

    @property
    def week(self) -> int:
        """The week of the entry, counted from 1970; it begins on Monday, UTC."""
        return (self.entry_at - MONDAY) // WEEK

    @property
    def moment(self) -> int:
        """The second of the entry: trades of one moment share their luck."""
        return int(self.entry_at.timestamp() // 1)
