"""What was said of a moment first; where nothing was said, what bars and the state of mind show.

Episodes of trades, shadows and the situation of now are put together by this one rule, so that what an agent is asked to
compare was made alike. A caller who names a field is believed. `*` leaves a field open: a question may, but an entry happened,
so there it says nothing and the field is filled.

>>> from datetime import UTC
>>> at = datetime(2026, 1, 5, 9, tzinfo=UTC)
>>> said, seen = Situation(regime="ranging", atr_h1="*"), MarketState(regime="volatile", atr_h1=3.0, price=160.0)
>>> now = situation_at(at, said, seen, None)
>>> now.regime, now.atr_h1, now.price, now.session, now.consecutive_losses
('ranging', '*', 160.0, 'london', 0)
>>> entry_fields(at, said, seen, None)["atr_h1"]
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
# The fields of a situation that an episode keeps.
ENTRY = (
    "regime", "volatility_regime", "session", "price", "atr_d1", "atr_h1", "atr_m5", "spread_points", "spread_as_atr_pct",
    "drawdown_pct", "consecutive_losses",
)  # fmt: skip


def market_state_at(market: Market | None, at: datetime) -> MarketState:
    """What bars show at a moment; nothing where there are no bars."""
    return market.at(at) if market is not None else NO_MARKET_STATE


def situation_at(
    at: datetime, stated: Situation | None, market: MarketState, state: AffectStep | None, symbol: str | None = None
) -> Situation:
    """The situation at a moment: each field as it was said, else as bars, the clock and the state of mind show it."""
    found = {"symbol": symbol, **_shown(at, market, state), **_words(stated)}
    found.setdefault("atr_ratio_h1_d1", _ratio(found["atr_h1"], found["atr_d1"]))
    if isinstance(found["drawdown_pct"], float):
        found["drawdown_pct"] = min(found["drawdown_pct"], 1.0)  # an account can lose more than it had; more than all is all
    return Situation(**found)


def entry_fields(at: datetime, stated: Situation | None, market: MarketState, state: AffectStep | None) -> dict[str, Any]:
    """The situation at an entry, by the fields that an episode keeps; what was left open is filled."""
    found = _shown(at, market, state) | {name: value for name, value in _words(stated).items() if value != ANY}
    return {name: found.get(name) for name in ENTRY}


def _shown(at: datetime, market: MarketState, state: AffectStep | None) -> dict[str, Any]:
    drawdown, losses = (state.drawdown, state.losses) if state is not None else (0.0, 0)
    return {
        "price": market.price, "atr_d1": market.atr_d1, "atr_h1": market.atr_h1, "atr_m5": market.atr_m5, "regime": market.regime,
        "volatility_regime": market.volatility_regime, "session": session_at(at), "hour_utc": at.hour,
        "day_of_week": at.weekday(), "drawdown_pct": drawdown, "consecutive_losses": losses,
    }  # fmt: skip


def _words(stated: Situation | None) -> dict[str, Any]:
    if stated is None:
        return {}
    return {name: value for name in Situation.__slots__ if (value := getattr(stated, name)) is not None}


def _ratio(a: Level, b: Level) -> float | None:
    return a / b if isinstance(a, float) and isinstance(b, float) and b else None
