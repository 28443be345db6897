"""Plans at a moment: where each stood, whether it would fire now, and what its firings were worth.

That a plan fired or expired stands in the log row that concluded it. The stored plans say where they stand now; for an earlier
moment the statements and those conclusions are put in order again.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from memtape.core.events import PlanEvent, PlanFired, read_event
from memtape.core.memory.episodes import Episode
from memtape.core.memory.episodes import known_episodes as known_at
from memtape.core.memory.learn import AffectTimeline
from memtape.core.memory.plans import (
    PlanInputs,
    PlanState,
    changed_plan_state,
    judge_plan,
    new_plan_state,
    value_of_leaving,
    value_of_sizing,
    value_of_skipping,
)
from memtape.core.memory.situation import LABELS, NUMBERS
from memtape.core.observed import ANY, Situation
from memtape.core.skills import Agent
from memtape.core.values import read
from memtape.engine.view.plan_inputs import INSTANT, as_of_moment, decisions_at_tick, plan_inputs
from memtape.store.cutoff import Cutoff
from memtape.store.memories import MemoryTables
from memtape.store.tables import Tables

FOLLOWING = timedelta(days=1)  # a trade entered within a day of a plan's firing is the one it was about
CONCLUDING = ("tick", "shown")  # the log rows that may conclude that a plan fired or expired


@dataclass(frozen=True, slots=True)
class PlanForRecall:
    """A plan as recall scores it."""

    id: str
    priority: float
    created_at: datetime
    tier: int
    source_ids: tuple[str, ...]
    situation: Situation
    reasoning: str


@dataclass(frozen=True, slots=True)
class PlanView:
    """A plan at a moment: what it would do now, and what its firings were worth."""

    standing: PlanState
    finding: str  # expired, fires, holds, waits
    values: tuple[tuple[datetime, float], ...]  # of each firing that can be judged, in R


def plans_for_recall(standing: Iterable[PlanState]) -> list[PlanForRecall]:
    """Plans as recall scores them: what their trigger asks of the situation, anything where it asks nothing."""
    found: list[PlanForRecall] = []
    for each in standing:
        if each.status not in ("active", "proposed"):
            continue
        plan = each.plan
        flat = {k: v for k, v in plan.trigger.items() if k in Situation.__slots__ and isinstance(v, str | float | int)}
        anything = dict.fromkeys([name for name, *_ in (*LABELS, *NUMBERS)], ANY)
        situation = read(Situation, anything | flat)
        found.append(PlanForRecall(plan.id, plan.priority, each.at, plan.tier, plan.sources, situation, plan.reasoning))
    return found


def plan_views(
    tables: Tables, agent: Agent, known: Cutoff, symbol: str | None, said: Situation | None, context: Mapping[str, object],
    past: AffectTimeline | None = None,
) -> list[PlanView]:  # fmt: skip
    """Every plan as a reader of a moment sees it; `said` and `context` are what the caller knows of the situation."""
    if not MemoryTables(tables).plans():
        return []
    at = as_of_moment(known)
    now = plan_inputs(tables, agent, known, symbol, said=said, past=past) | dict(context)
    ticks = tables.items("tick", known, before=at + INSTANT, newest=True, limit=1)
    last, before = ticks[0].at if ticks else None, None
    if last is not None:
        decided = decisions_at_tick(tables, last, known.head).get(symbol or "")
        before = plan_inputs(tables, agent, replace(known, as_of=last), symbol, decided, past=past)
    look = PlanInputs(at, now, before)
    fired = firings(tables, known)
    episodes = known_at(MemoryTables(tables).episodes(), at) if fired else []
    seen: list[PlanView] = []
    for plan in plan_states(tables, known):
        waiting = plan.status in ("active", "proposed")
        finding = judge_plan(plan.plan, look, plan.fired, plan.fired_at) if waiting else "waits"
        values = [(event.at, value) for event in fired.get(plan.id, ())
                  if (value := _worth(plan, event, episodes)) is not None]  # fmt: skip
        seen.append(PlanView(plan, finding, tuple(values)))
    return seen


def firings(tables: Tables, known: Cutoff) -> dict[str, list[PlanFired]]:
    """When each plan fired, from the conclusions in the log; where no stored plan has, the log is not asked."""
    stored, fired = MemoryTables(tables).plans(), dict[str, list[PlanFired]]()
    if not any(plan.fired for plan in stored):
        return fired
    for _, event in _concluded(tables, known, stored):
        if isinstance(event, PlanFired):
            fired.setdefault(event.plan, []).append(event)
    return fired


def _concluded(tables: Tables, known: Cutoff, stored: Sequence[PlanState]) -> Iterator[tuple[int, PlanEvent]]:
    """What was concluded about plans, in order, as far as a reader may know."""
    if not any(plan.fired or plan.ended_at is not None for plan in stored):
        return  # none has fired or expired to this day
    limits = known.limits()
    for row in tables.log_of(CONCLUDING, telling='"plan_'):
        if row.payload is not None and row.known_at <= limits["as_of"] and row.seq <= limits["upto"]:
            events = [read_event(data) for data in json.loads(row.payload)["concluded"]]
            yield from ((row.seq, event) for event in events if isinstance(event, PlanEvent))


def plan_states(tables: Tables, known: Cutoff) -> list[PlanState]:
    """Every plan and where it stood, as far as a reader may know."""
    stored = MemoryTables(tables).plans()
    latest = tables.head().known_at
    if not stored or (known.head is None and known.as_of is not None and latest is not None and known.as_of >= latest):
        return stored
    found = {item.key: new_plan_state(item.body, item.known_at) for item in tables.items("plan", known)}
    happened = [(item.seq, item.known_at, item.symbol, item.body["status"]) for item in tables.items("plan_status", known)]
    for seq, event in _concluded(tables, known, stored):
        happened.append((seq, event.at, event.plan, event.name.removeprefix("plan_")))
    for _, at, id_, status in sorted(happened, key=lambda each: each[0]):
        if id_ in found:
            found[id_] = changed_plan_state(found[id_], status, at)
    return list(found.values())


def _worth(standing: PlanState, fired: PlanFired, episodes: Sequence[Episode]) -> float | None:
    """What a firing was worth in R, against what would have happened without it; None while that is not known."""
    plan, when, symbol = standing.plan, fired.at, fired.symbol
    about = sorted(
        (e for e in episodes if (symbol is None or e.symbol == symbol) and when <= e.entry_at <= when + FOLLOWING
         and e.pnl_r is not None), key=lambda e: (e.entry_at, e.id),
    )  # fmt: skip
    if plan.action == "skip_trade":
        shadows = [e for e in about if e.kind == "shadow"]
        return value_of_skipping(shadows[0].pnl_r or 0.0) if shadows else None
    if plan.action == "force_exit":
        open_then = [
            e for e in episodes if e.kind == "trade" and e.entry_at <= when < e.exit_at and (symbol is None or e.symbol == symbol)
        ]
        shadows = [e for e in about if e.kind == "shadow"]
        if open_then and shadows and open_then[0].pnl_r is not None and shadows[0].pnl_r is not None:
            return value_of_leaving(open_then[0].pnl_r, shadows[0].pnl_r)
        return None
    trades = [e for e in about if e.kind == "trade"]
    if plan.size_factor is not None and trades and trades[0].pnl_r is not None:
        return value_of_sizing(plan.size_factor, trades[0].pnl_r)
    return None
