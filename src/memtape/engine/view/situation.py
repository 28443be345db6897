"""The situation at a view's moment, and what plans may look at: the market, the affect state, the decision, the calendar."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

from memtape.core.calendar import calendar_fields
from memtape.core.decisions.outcomes import NOT_TAKEN
from memtape.core.memory.predicate import FIELDS
from memtape.core.memory.situation_fields import market_state_at, situation_at
from memtape.core.observed import Decision
from memtape.core.values import read
from memtape.engine.view.events import nearby_events
from memtape.engine.view.owner_stream import INSTANT

if TYPE_CHECKING:
    from memtape.core.observed import Situation
    from memtape.engine.view.view import View

SATURDAY = 5
MAX_DECISIONS_BACK = 20  # the decisions of one moment, among which the last symbol is looked for


def current_situation(view: View, symbol: str | None, stated: Situation | None = None) -> Situation:
    """The situation at the moment: each field as the caller stated it, else as bars, the clock and the affect state show it."""
    market = market_state_at(view.market(symbol) if symbol else None, view.as_of)
    if symbol is None and (last := last_symbol(view)) is not None:
        # A question about no symbol has no market, but an agent that trades on daily bars has no session either.
        market = replace(market, shortest_frame=market_state_at(view.market(last), view.as_of).shortest_frame)
    return situation_at(view.as_of, stated, market, view.affect_step(), symbol)


def last_symbol(view: View) -> str | None:
    """The symbol of the last decision, else one that is held or marked, else that of the last fill or trade."""
    decided = [item for item in view.items("decision", newest=True, limit=MAX_DECISIONS_BACK) if item.symbol]
    if decided:
        # Of several decisions of one moment the first by id, whether they came in one tick or one by one.
        return min((item for item in decided if item.at == decided[0].at), key=lambda item: item.key).symbol
    for tick in view.latest_ticks()[:1]:
        for symbol in [*sorted(tick.body.get("positions") or {}), *sorted(tick.body.get("marks", {}))]:
            return str(symbol)
    for kind in ("fill", "trade", "claim"):
        for item in view.items(kind, newest=True, limit=1):
            return item.symbol
    return None


def plan_inputs(
    view: View, symbol: str | None, decision: Decision | None = None, stated: Situation | None = None
) -> dict[str, object]:
    """What plans may look at: situation, affect state, the decision at hand, the calendar. A missing field is unknown."""
    stated = decision.situation if decision and decision.situation else stated
    situation = current_situation(view, symbol, stated)
    found: dict[str, object] = {name: getattr(situation, name) for name in FIELDS if hasattr(situation, name)}
    found |= _affect_fields(view)
    found |= {
        "open_positions": open_position_count(view), "weekend": view.as_of.weekday() >= SATURDAY, "strategy": view.agent.skill
    }  # fmt: skip
    if decision is not None:
        action = (decision.action or "").lower()
        found |= {
            "side": decision.side, "action": decision.action, "strategy": decision.strategy or view.agent.skill,
            "signal": decision.side is not None or (bool(action) and action not in NOT_TAKEN),
        }  # fmt: skip
    found |= calendar_fields(nearby_events(view), view.as_of)
    return {name: value for name, value in found.items() if value is not None and value != "*"}


def _affect_fields(view: View) -> dict[str, Any]:
    step = view.affect_step()
    if step is None:
        return {"consecutive_wins": 0, "consecutive_losses": 0}
    state = step.state()
    return {
        "drawdown_state": state.drawdown_state, "confidence": state.confidence, "risk_appetite": state.risk_appetite,
        "consecutive_wins": state.consecutive_wins, "consecutive_losses": state.consecutive_losses,
        "equity": step.equity,
    }  # fmt: skip


def open_position_count(view: View) -> int | None:
    """How many positions were held: by the last snapshot known then, else by the ledger; None where nobody looked."""
    snapshot = next((tick.body["positions"] for tick in view.latest_ticks() if "positions" in tick.body), None)
    if snapshot is not None:
        return sum(len(legs) for legs in snapshot.values())
    return view.open_position_count()


def decisions_at_tick(view: View, at: datetime) -> dict[str, Decision]:
    """The decisions of the tick of a moment, by symbol; of several for one symbol the first."""
    ticks = view.items("tick", since=at, before=at + INSTANT)
    upto = view.cutoff.limits()["upto"]
    about = [item for tick in ticks for item in view.tables.items_about(tick.key) if item.seq <= upto]
    decisions = [read(Decision, item.body) for item in about if item.kind == "decision"]
    return {decision.symbol: decision for decision in reversed(decisions) if decision.symbol is not None}
