"""Plans at work: what a plan may look at, which fire at a tick, what several say together.

A plan fires when a tick that is observed satisfies it; that it fired is a conclusion, kept in that tick's log row, so no
later knowledge can make it unsaid. `look_at` gathers what plans may see, out of what was known at a moment.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import Any

from memtape.core.affect import Felt
from memtape.core.calendar import NEAR, Event, fields_at
from memtape.core.codec import spell_time
from memtape.core.items import OWNER_STREAM
from memtape.core.learn import Past
from memtape.core.observed import Decision, Situation, Tick
from memtape.core.plans import Look, Standing, changed, judged
from memtape.core.predicate import FIELDS
from memtape.core.said import seen_at, situation_of
from memtape.core.shadows import NOT_TAKEN
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


def events_near(tables: Tables, known: Known) -> list[Event]:
    """The events that a moment may look at, each as it was last stated by then; one that was moved is looked up where it went."""
    calendar, at, known = Tables(tables.session, tables.owner, OWNER_STREAM), moment_of(known), known.owners()
    named = {item.symbol for item in calendar.items("event", known, since=at - NEAR, before=at + NEAR + INSTANT)}
    latest = [max(calendar.items("event", known, symbol=id_), key=lambda item: item.seq) for id_ in sorted(named)]
    return [read(Event, item.body) for item in latest]


def moment_of(known: Known) -> datetime:
    """The moment that a reader asks about."""
    assert known.as_of is not None
    return known.as_of


def situation_now(
    tables: Tables, agent: Agent, known: Known, symbol: str | None, said: Situation | None = None, past: Past | None = None
) -> tuple[Situation, dict[str, Any]]:
    """The situation at a moment and the state of mind: what the caller said of it first, then bars and the state.

    The state is the stored one, or that of `past`, which is what a reader by an earlier head had formed.
    """
    at = moment_of(known)
    seen = seen_at(Learned(tables).market(symbol, at, known.head) if symbol else None, at)
    felt = past.at(at) if past is not None else _felt_at(tables, agent, at)
    state: dict[str, Any] = {"consecutive_wins": 0, "consecutive_losses": 0}
    if felt is not None:
        mood = felt.state()
        state = {
            "drawdown_state": mood.drawdown_state, "confidence": mood.confidence, "risk_appetite": mood.risk_appetite,
            "consecutive_wins": mood.consecutive_wins, "consecutive_losses": mood.consecutive_losses,
            "equity": felt.nav + felt.flows,
        }  # fmt: skip
    return situation_of(at, said, seen, felt, symbol), state


def _felt_at(tables: Tables, agent: Agent, at: datetime) -> Felt | None:
    """The state of mind at a moment; of a past one only what was known then."""
    head = tables.head()
    if head.known_at is not None and at < head.known_at:
        return Learning(tables, agent, head.verified_from).past().at(at)
    steps = Learned(tables).felt_until(at, 1)
    return steps[0] if steps else None


def look_at(
    tables: Tables, agent: Agent, known: Known, symbol: str | None, decision: Decision | None = None,
    said: Situation | None = None, past: Past | None = None,
) -> dict[str, object]:  # fmt: skip
    """What plans may look at: situation, state, the decision at hand, the calendar. What is missing is unknown."""
    at, said = moment_of(known), decision.situation if decision and decision.situation else said
    situation, state = situation_now(tables, agent, known, symbol, said, past)
    found: dict[str, object] = {name: getattr(situation, name) for name in FIELDS if hasattr(situation, name)}
    found |= state
    found |= {"open_positions": held_at(tables, known), "weekend": at.weekday() >= WEEKEND, "strategy": agent.skill}
    if decision is not None:
        action = (decision.action or "").lower()
        found |= {"side": decision.side, "action": decision.action, "strategy": decision.strategy or agent.skill,
                  "signal": decision.side is not None or (bool(action) and action not in NOT_TAKEN)}  # fmt: skip
    found |= fields_at(events_near(tables, known), at)
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
            before = look_at(tables, agent, Known(previous), symbol, decided_at(tables, previous).get(symbol or ""))
        yield symbol, Look(tick.t, look_at(tables, agent, Known(tick.t), symbol, decided.get(symbol or "")), before)


def held_at(tables: Tables, known: Known) -> int | None:
    """How many positions were held: by the last snapshot known then, else by the ledger of now; None where nobody looked."""
    at = moment_of(known)
    ticks = tables.items("tick", known, before=at + INSTANT, newest=True, limit=LOOKED_BACK)
    seen = next((tick.body["positions"] for tick in ticks if "positions" in tick.body), None)
    if seen is not None:
        return sum(len(several) for several in seen.values())
    latest = tables.head()
    if known.head is not None and known.head < latest.seq:
        return None
    standing = latest.known_at is None or at >= latest.known_at
    return sum(row.round is not None for row in tables.positions().values()) if standing else None


def decided_at(tables: Tables, moment: datetime, head: int | None = None) -> dict[str, Decision]:
    """What the tick of a moment decided, by symbol."""
    ticks = tables.items("tick", Known(head=head), since=moment, before=moment + INSTANT)
    about = [item for tick in ticks for item in tables.items_about(tick.key) if head is None or item.seq <= head]
    decisions = [read(Decision, item.body) for item in about if item.kind == "decision"]
    return {decision.symbol: decision for decision in reversed(decisions) if decision.symbol is not None}
