"""Plans at a tick: which expire and which fire. Both are conclusions, kept in the tick's log row."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime

from memtape.core.events import Event, PlanExpired, PlanFired
from memtape.core.memory.plans import PlanInputs, PlanState, changed_plan_state, judge_plan
from memtape.core.observed import Tick
from memtape.core.skills import Agent
from memtape.engine.view.situation import decisions_at_tick, plan_inputs
from memtape.engine.view.stored import StoredView
from memtape.store.cutoff import Cutoff
from memtape.store.memories import MemoryTables
from memtape.store.tables import Tables


def fire_plans(tables: Tables, agent: Agent, tick: Tick, previous: datetime | None) -> list[Event]:
    """The plans that expire or fire at a tick; `previous` is the time of the tick before it."""
    memory_tables = MemoryTables(tables)
    waiting = [plan for plan in memory_tables.plans(("active", "proposed")) if plan.at <= tick.t]
    if not waiting:
        return []
    inputs = list(_inputs_by_symbol(tables, agent, tick, previous))
    events: list[Event] = []
    for state in waiting:
        events += _judge(state, inputs, memory_tables)
    return events


def _judge(state: PlanState, inputs: Sequence[tuple[str | None, PlanInputs]], tables: MemoryTables) -> list[Event]:
    plan = state.plan
    for symbol, each in inputs:
        finding = judge_plan(plan, each, state.fired, state.fired_at)
        if finding == "expired":
            tables.put_plans([changed_plan_state(state, "expired", each.at)])
            return [PlanExpired(plan.id, each.at)]
        # A proposed plan is only advice until the owner confirms it.
        if finding == "fires" and state.status == "active":
            tables.put_plans([changed_plan_state(state, "fired", each.at)])
            return [PlanFired(plan.id, each.at, plan.action, symbol or None)]
    return []


def _inputs_by_symbol(
    tables: Tables, agent: Agent, tick: Tick, previous: datetime | None
) -> Iterator[tuple[str | None, PlanInputs]]:
    """What plans may look at, for each symbol that the tick names; symbols with a decision first."""
    decided = {d.symbol: d for d in reversed(tick.decisions) if d.symbol is not None}
    named = {*decided, *tick.marks, *(tick.positions or {}), *(bar.symbol for bar in tick.bars)}
    symbols: list[str | None] = [*sorted(decided), *sorted(named - set(decided))]
    now = StoredView(tables, agent, Cutoff(tick.t))
    earlier = now.at(previous) if previous is not None else None
    for symbol in symbols or [None]:
        before = None
        if earlier is not None and previous is not None:
            before = plan_inputs(earlier, symbol, decisions_at_tick(earlier, previous).get(symbol or ""))
        yield symbol, PlanInputs(tick.t, plan_inputs(now, symbol, decided.get(symbol or "")), before)
