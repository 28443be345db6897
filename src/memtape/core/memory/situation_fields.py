"""Builds a situation: each field as it was stated, otherwise from bars and affect.

Episodes of trades, shadows and the present situation are all built by this one rule, so that they are comparable. A stated field
is taken as it is. `*` leaves a field open in a query; an entry really happened, so there `*` is ignored and the field is filled.
The session is that of the clock; where all bars are of a day or longer, it is unknown: their times stand for the whole day.

>>> from datetime import UTC
>>> at = datetime(2026, 1, 5, 9, tzinfo=UTC)
>>> stated, market = Situation(regime="ranging", atr_h1="*"), MarketState(regime="volatile", atr_h1=3.0, price=160.0)
>>> now = situation_at(at, stated, market, None)
>>> now.regime, now.atr_h1, now.price, now.session, now.consecutive_losses
('ranging', '*', 160.0, 'london', 0)
>>> entry_fields(at, stated, market, None)["atr_h1"]
3.0
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from memtape.core.memory.affect import AffectStep
from memtape.core.memory.market import Market, MarketState
from memtape.core.memory.situation import session_at
from memtape.core.observed import ANY, Level, Situation

NO_MARKET_STATE = MarketState()
# The fields of a situation that an episode stores.
ENTRY = (
    "regime", "volatility_regime", "session", "price", "atr_d1", "atr_h1", "atr_m5", "spread_points", "spread_as_atr_pct",
    "drawdown_pct", "consecutive_losses",
)  # fmt: skip


def market_state_at(market: Market | None, at: datetime) -> MarketState:
    """Returns the market state at a moment; an empty one without bars."""
    return market.at(at) if market is not None else NO_MARKET_STATE


def situation_at(
    at: datetime, stated: Situation | None, market: MarketState, state: AffectStep | None, symbol: str | None = None
) -> Situation:
    """Returns the situation at a moment: each field as stated, otherwise from bars, the time and affect."""
    found = {"symbol": symbol, **_shown(at, market, state), **_words(stated)}
    found.setdefault("atr_ratio_h1_d1", _ratio(found["atr_h1"], found["atr_d1"]))
    if isinstance(found["drawdown_pct"], float):
        # An account can lose more than it had; the drawdown is capped at 100 %.
        found["drawdown_pct"] = min(found["drawdown_pct"], 1.0)
    return Situation(**found)


def entry_fields(at: datetime, stated: Situation | None, market: MarketState, state: AffectStep | None) -> dict[str, Any]:
    """Returns the situation at an entry by the fields that an episode stores; open fields are filled."""
    found = _shown(at, market, state) | {name: value for name, value in _words(stated).items() if value != ANY}
    return {name: found.get(name) for name in ENTRY}


def _shown(at: datetime, market: MarketState, state: AffectStep | None) -> dict[str, Any]:
    drawdown, losses = (state.drawdown, state.losses) if state is not None else (0.0, 0)
    return {
        "price": market.price, "atr_d1": market.atr_d1, "atr_h1": market.atr_h1, "atr_m5": market.atr_m5, "regime": market.regime,
        "volatility_regime": market.volatility_regime, "session": None if market.is_daily else session_at(at),
        "hour_utc": at.hour, "day_of_week": at.weekday(), "drawdown_pct": drawdown, "consecutive_losses": losses,
    }  # fmt: skip


def _words(stated: Situation | None) -> dict[str, Any]:
    if stated is None:
        return {}
    return {name: value for name in Situation.__slots__ if (value := getattr(stated, name)) is not None}


def _ratio(a: Level, b: Level) -> float | None:
    return a / b if isinstance(a, float) and isinstance(b, float) and b else None
