"""Plans at work: what a plan may look at, which fire at a tick, what several say together.

A plan fires when a tick that is observed satisfies it; that it fired is a conclusion, kept in that tick's log row, so no
later knowledge can make it unsaid. `look_at` gathers what plans may see, out of what was known at a moment.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import Any

from memtape.core.calendar import NEAR, Event, fields_at
from memtape.core.codec import spell_time
from memtape.core.items import OWNER_STREAM
from memtape.core.market import Seen
from memtape.core.observed import Decision, Situation, Tick
from memtape.core.plans import Look, Standing, changed, judged
from memtape.core.predicate import FIELDS
from memtape.core.shadows import NOT_TAKEN
from memtape.core.situation import session_at
from memtape.core.skills import Agent
from memtape.core.values import read
from memtape.engine.learning import Learning
from memtape.engine.positions import Told
from memtape.store.known import EVERYTHING, Known
from memtape.store.memories import Learned
from memtape.store.tables import Tables

WEEKEND = 5
INSTANT = timedelta(microseconds=1)
LOOKED_BACK = 20  # ticks, for the last one with a snapshot


def events_known(tables: Tables, known: Known = EVERYTHING) -> list[Event]:
    """The owner's calendar, each event as it was last stated."""
    calendar = Tables(tables.session, tables.owner, OWNER_STREAM)
    latest: dict[str, Event] = {}
    for item in sorted(calendar.items("event", known), key=lambda item: item.seq):
        event = read(Event, item.body)
        latest[event.id] = event
    return list(latest.values())


def events_near(tables: Tables, at: datetime) -> list[Event]:
    """The events that a moment may look at, each as it was last stated by then; one that was moved is looked up where it went."""
    calendar, known = Tables(tables.session, tables.owner, OWNER_STREAM), Known(as_of=at)
    named = {item.symbol for item in calendar.items("event", known, since=at - NEAR, before=at + NEAR + INSTANT)}
    latest = [max(calendar.items("event", known, symbol=id_), key=lambda item: item.seq) for id_ in sorted(named)]
    return [read(Event, item.body) for item in latest]


def situation_now(
    tables: Tables, agent: Agent, at: datetime, symbol: str | None, said: Situation | None = None
) -> tuple[Situation, dict[str, Any]]:
    """The situation at a moment and the state of mind: what the caller said of it first, then bars and the stored state."""
    learned = Learned(tables)
    market = learned.market(symbol, at) if symbol else None
    seen = market.at(at) if market else Seen()
    head = tables.head()
    if head.known_at is not None and at < head.known_at:  # a past moment: only what was known then
        step = Learning(tables, agent, head.verified_from).past().at(at)
        steps = [step] if step is not None else []
    else:
        steps = learned.felt_until(at, 1)
    state: dict[str, Any] = {"consecutive_wins": 0, "consecutive_losses": 0}
    drawdown = 0.0
    if steps:
        mood = steps[0].state()
        drawdown = mood.drawdown
        state = {
            "drawdown_state": mood.drawdown_state, "confidence": mood.confidence, "risk_appetite": mood.risk_appetite,
            "consecutive_wins": mood.consecutive_wins, "consecutive_losses": mood.consecutive_losses,
            "equity": steps[0].nav + steps[0].flows,
        }  # fmt: skip
    own = said or Situation()

    def first(*values: Any) -> Any:
        return next((value for value in values if value is not None), None)

    atr_d1, atr_h1 = first(own.atr_d1, seen.atr_d1), first(own.atr_h1, seen.atr_h1)
    ratio = atr_h1 / atr_d1 if isinstance(atr_h1, float) and isinstance(atr_d1, float) and atr_d1 else None
    situation = Situation(
        symbol=first(own.symbol, symbol), price=first(own.price, seen.price), atr_d1=atr_d1, atr_h1=atr_h1,
        atr_m5=first(own.atr_m5, seen.atr_m5), atr_ratio_h1_d1=first(own.atr_ratio_h1_d1, ratio),
        regime=first(own.regime, seen.regime), volatility_regime=first(own.volatility_regime, seen.volatility_regime),
        session=first(own.session, session_at(at)), hour_utc=first(own.hour_utc, at.hour),
        day_of_week=first(own.day_of_week, at.weekday()), spread_points=own.spread_points,
        spread_as_atr_pct=own.spread_as_atr_pct, drawdown_pct=first(own.drawdown_pct, drawdown),
        consecutive_losses=first(own.consecutive_losses, state["consecutive_losses"]), confidence=own.confidence,
    )  # fmt: skip
    return situation, state


def look_at(
    tables: Tables, agent: Agent, at: datetime, symbol: str | None, decision: Decision | None = None,
    said: Situation | None = None,
) -> dict[str, object]:  # fmt: skip
    """What plans may look at: situation, state, the decision at hand, the calendar. What is missing is unknown."""
    situation, state = situation_now(tables, agent, at, symbol, decision.situation if decision and decision.situation else said)
    found: dict[str, object] = {name: getattr(situation, name) for name in FIELDS if hasattr(situation, name)}
    found |= state
    found |= {"open_positions": held_at(tables, at), "weekend": at.weekday() >= WEEKEND, "strategy": agent.skill}
    if decision is not None:
        action = (decision.action or "").lower()
        found |= {"side": decision.side, "action": decision.action, "strategy": decision.strategy or agent.skill,
                  "signal": decision.side is not None or (bool(action) and action not in NOT_TAKEN)}  # fmt: skip
    found |= fields_at(events_near(tables, at), at)
    return {name: value for name, value in found.items() if value is not None and value != "*"}


def fire(tables: Tables, agent: Agent, tick: Tick, previous: datetime | None) -> list[Told]:
    """Which plans expire and which fire at a tick; both are told, and kept."""
    learned = Learned(tables)
    standing = [plan for plan in learned.plans(("active", "proposed")) if plan.at <= tick.t]
    if not standing:
        return []
    looks = list(_looks(tables, agent, tick, previous))
    told: list[Told] = []
    for plan in standing:
        told += _heard(plan, looks, learned)
    return told


def _heard(standing: Standing, looks: Sequence[tuple[str | None, Look]], learned: Learned) -> list[Told]:
    plan = standing.plan
    for symbol, look in looks:
        finding = judged(plan, look, standing.fired, standing.fired_at)
        if finding == "expired":
            learned.put_plans([changed(standing, "expired", look.at)])
            return [{"event": "plan_expired", "plan": plan.id, "at": spell_time(look.at)}]
        if finding == "fires" and standing.status == "active":  # a proposal is only advice until it is confirmed
            learned.put_plans([changed(standing, "fired", look.at)])
            fired: Told = {"event": "plan_fired", "plan": plan.id, "at": spell_time(look.at), "action": plan.action}
            return [fired | ({"symbol": symbol} if symbol else {})]
    return []


def _looks(tables: Tables, agent: Agent, tick: Tick, previous: datetime | None) -> Iterator[tuple[str | None, Look]]:
    """One look for each symbol that a tick speaks of, decisions first."""
    decided = {d.symbol: d for d in reversed(tick.decisions) if d.symbol is not None}
    named = {*decided, *tick.marks, *(tick.positions or {}), *(bar.symbol for bar in tick.bars)}
    symbols: list[str | None] = [*sorted(decided), *sorted(named - set(decided))]
    for symbol in symbols or [None]:
        before = None
        if previous is not None:
            before = look_at(tables, agent, previous, symbol, decided_at(tables, previous).get(symbol or ""))
        yield symbol, Look(tick.t, look_at(tables, agent, tick.t, symbol, decided.get(symbol or "")), before)


def held_at(tables: Tables, at: datetime) -> int | None:
    """How many positions were held: by the last snapshot known then, else by the ledger of now; None where nobody looked."""
    ticks = tables.items("tick", Known(as_of=at), before=at + INSTANT, newest=True, limit=LOOKED_BACK)
    seen = next((tick.body["positions"] for tick in ticks if "positions" in tick.body), None)
    if seen is not None:
        return sum(len(several) for several in seen.values())
    latest = tables.head().known_at
    return sum(row.round is not None for row in tables.positions().values()) if latest is None or at >= latest else None


def decided_at(tables: Tables, moment: datetime) -> dict[str, Decision]:
    """What the tick of a moment decided, by symbol."""
    ticks = tables.items("tick", EVERYTHING, since=moment, before=moment + INSTANT)
    decisions = [read(Decision, item.body) for tick in ticks for item in tables.items_about(tick.key) if item.kind == "decision"]
    return {decision.symbol: decision for decision in reversed(decisions) if decision.symbol is not None}
