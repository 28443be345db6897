"""Plans at work: what a plan may look at, which fire at a tick, what several say together.

A plan fires when a tick that is observed satisfies it; that it fired is a conclusion, kept in that tick's log row, so no
later knowledge can make it unsaid. `plan_inputs` gathers what plans may see, out of what was known at a moment.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import Any

from memtape.core.calendar import EVENT_HORIZON, CalendarEvent, calendar_fields
from memtape.core.events import Event, PlanExpired, PlanFired
from memtape.core.items import OWNER_STREAM
from memtape.core.memory.affect import AffectStep
from memtape.core.memory.learn import AffectTimeline
from memtape.core.memory.plans import PlanInputs, PlanState, changed_plan_state, judge_plan
from memtape.core.memory.predicate import FIELDS
from memtape.core.memory.shadows import NOT_TAKEN
from memtape.core.memory.situation_fields import market_state_at, situation_at
from memtape.core.observed import Decision, Situation, Tick
from memtape.core.skills import Agent
from memtape.core.values import read
from memtape.engine.write.learn import Learner
from memtape.store.cutoff import EVERYTHING, Cutoff
from memtape.store.memories import MemoryTables
from memtape.store.tables import Tables

WEEKEND = 5
INSTANT = timedelta(microseconds=1)
LOOKED_BACK = 20  # ticks, for the last one with a snapshot


def calendar_events(tables: Tables, known: Cutoff = EVERYTHING) -> list[CalendarEvent]:
    """The owner's calendar, each event as it was last stated."""
    calendar = Tables(tables.session, tables.owner, OWNER_STREAM)
    latest: dict[str, CalendarEvent] = {}
    for item in sorted(calendar.items("event", known), key=lambda item: item.seq):
        event = read(CalendarEvent, item.body)
        latest[event.id] = event
    return list(latest.values())


def nearby_events(tables: Tables, known: Cutoff) -> list[CalendarEvent]:
    """The events that a moment may look at, each as it was last stated by then; one that was moved is looked up where it went."""
    calendar, at, known = Tables(tables.session, tables.owner, OWNER_STREAM), as_of_moment(known), known.owners()
    named = {
        item.symbol for item in calendar.items("event", known, since=at - EVENT_HORIZON, before=at + EVENT_HORIZON + INSTANT)
    }
    latest = [max(calendar.items("event", known, symbol=id_), key=lambda item: item.seq) for id_ in sorted(named)]
    return [read(CalendarEvent, item.body) for item in latest]


def as_of_moment(known: Cutoff) -> datetime:
    """The moment that a reader asks about."""
    assert known.as_of is not None
    return known.as_of


def current_situation(
    tables: Tables,
    agent: Agent,
    known: Cutoff,
    symbol: str | None,
    said: Situation | None = None,
    past: AffectTimeline | None = None,
) -> tuple[Situation, dict[str, Any]]:
    """The situation at a moment and the state of mind: what the caller said of it first, then bars and the state.

    The state is the stored one, or that of `past`, which is what a reader by an earlier head had formed.
    """
    at = as_of_moment(known)
    seen = market_state_at(MemoryTables(tables).market(symbol, at, known.head) if symbol else None, at)
    felt = past.at(at) if past is not None else _felt_at(tables, agent, at)
    state: dict[str, Any] = {"consecutive_wins": 0, "consecutive_losses": 0}
    if felt is not None:
        mood = felt.state()
        state = {
            "drawdown_state": mood.drawdown_state, "confidence": mood.confidence, "risk_appetite": mood.risk_appetite,
            "consecutive_wins": mood.consecutive_wins, "consecutive_losses": mood.consecutive_losses,
            "equity": felt.nav + felt.flows,
        }  # fmt: skip
    return situation_at(at, said, seen, felt, symbol), state


def _felt_at(tables: Tables, agent: Agent, at: datetime) -> AffectStep | None:
    """The state of mind at a moment; of a past one only what was known then."""
    head = tables.head()
    if head.known_at is not None and at < head.known_at:
        return Learner(tables, agent, head.verified_from).affect_timeline().at(at)
    steps = MemoryTables(tables).affect_until(at, 1)
    return steps[0] if steps else None


def plan_inputs(
    tables: Tables, agent: Agent, known: Cutoff, symbol: str | None, decision: Decision | None = None,
    said: Situation | None = None, past: AffectTimeline | None = None,
) -> dict[str, object]:  # fmt: skip
    """What plans may look at: situation, state, the decision at hand, the calendar. What is missing is unknown."""
    at, said = as_of_moment(known), decision.situation if decision and decision.situation else said
    situation, state = current_situation(tables, agent, known, symbol, said, past)
    found: dict[str, object] = {name: getattr(situation, name) for name in FIELDS if hasattr(situation, name)}
    found |= state
    found |= {"open_positions": open_position_count(tables, known), "weekend": at.weekday() >= WEEKEND, "strategy": agent.skill}
    if decision is not None:
        action = (decision.action or "").lower()
        found |= {"side": decision.side, "action": decision.action, "strategy": decision.strategy or agent.skill,
                  "signal": decision.side is not None or (bool(action) and action not in NOT_TAKEN)}  # fmt: skip
    found |= calendar_fields(nearby_events(tables, known), at)
    return {name: value for name, value in found.items() if value is not None and value != "*"}


def fire_plans(tables: Tables, agent: Agent, tick: Tick, previous: datetime | None) -> list[Event]:
    """Which plans expire and which fire at a tick; both are told, and kept."""
    learned = MemoryTables(tables)
    standing = [plan for plan in learned.plans(("active", "proposed")) if plan.at <= tick.t]
    if not standing:
        return []
    looks = list(_looks(tables, agent, tick, previous))
    told: list[Event] = []
    for plan in standing:
        told += _heard(plan, looks, learned)
    return told


def _heard(standing: PlanState, looks: Sequence[tuple[str | None, PlanInputs]], learned: MemoryTables) -> list[Event]:
    plan = standing.plan
    for symbol, look in looks:
        finding = judge_plan(plan, look, standing.fired, standing.fired_at)
        if finding == "expired":
            learned.put_plans([changed_plan_state(standing, "expired", look.at)])
            return [PlanExpired(plan.id, look.at)]
        if finding == "fires" and standing.status == "active":  # a proposal is only advice until it is confirmed
            learned.put_plans([changed_plan_state(standing, "fired", look.at)])
            return [PlanFired(plan.id, look.at, plan.action, symbol or None)]
    return []


def _looks(tables: Tables, agent: Agent, tick: Tick, previous: datetime | None) -> Iterator[tuple[str | None, PlanInputs]]:
    """One look for each symbol that a tick speaks of, decisions first."""
    decided = {d.symbol: d for d in reversed(tick.decisions) if d.symbol is not None}
    named = {*decided, *tick.marks, *(tick.positions or {}), *(bar.symbol for bar in tick.bars)}
    symbols: list[str | None] = [*sorted(decided), *sorted(named - set(decided))]
    for symbol in symbols or [None]:
        before = None
        if previous is not None:
            before = plan_inputs(tables, agent, Cutoff(previous), symbol, decisions_at_tick(tables, previous).get(symbol or ""))
        yield symbol, PlanInputs(tick.t, plan_inputs(tables, agent, Cutoff(tick.t), symbol, decided.get(symbol or "")), before)


def open_position_count(tables: Tables, known: Cutoff) -> int | None:
    """How many positions were held: by the last snapshot known then, else by the ledger of now; None where nobody looked."""
    at = as_of_moment(known)
    ticks = tables.items("tick", known, before=at + INSTANT, newest=True, limit=LOOKED_BACK)
    seen = next((tick.body["positions"] for tick in ticks if "positions" in tick.body), None)
    if seen is not None:
        return sum(len(several) for several in seen.values())
    latest = tables.head()
    if known.head is not None and known.head < latest.seq:
        return None
    standing = latest.known_at is None or at >= latest.known_at
    return sum(row.round is not None for row in tables.positions().values()) if standing else None


def decisions_at_tick(tables: Tables, moment: datetime, head: int | None = None) -> dict[str, Decision]:
    """What the tick of a moment decided, by symbol."""
    ticks = tables.items("tick", Cutoff(head=head), since=moment, before=moment + INSTANT)
    about = [item for tick in ticks for item in tables.items_about(tick.key) if head is None or item.seq <= head]
    decisions = [read(Decision, item.body) for item in about if item.kind == "decision"]
    return {decision.symbol: decision for decision in reversed(decisions) if decision.symbol is not None}
