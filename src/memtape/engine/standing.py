"""Plans at a moment: where each stood, whether it would fire now, and what its firings were worth.

That a plan fired or expired stands in the log row that concluded it. The stored plans say where they stand now; for an earlier
moment the statements and those conclusions are put in order again.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from memtape.core.codec import read_time
from memtape.core.episodes import Episode
from memtape.core.episodes import known as known_at
from memtape.core.learn import Past
from memtape.core.observed import ANY, Situation
from memtape.core.plans import Look, Standing, changed, judged, made, value_of_leaving, value_of_sizing, value_of_skipping
from memtape.core.situation import LABELS, NUMBERS
from memtape.core.skills import Agent
from memtape.core.values import read
from memtape.engine.planning import INSTANT, decided_at, look_at, moment_of
from memtape.store.known import Known
from memtape.store.memories import Learned
from memtape.store.tables import Tables

FOLLOWING = timedelta(days=1)  # a trade entered within a day of a plan's firing is the one it was about
CONCLUDING = ("tick", "shown")  # the log rows that may conclude that a plan fired or expired


@dataclass(frozen=True, slots=True)
class Said:
    """A plan as recall scores it."""

    id: str
    priority: float
    created_at: datetime
    tier: int
    source_ids: tuple[str, ...]
    situation: Situation
    reasoning: str


@dataclass(frozen=True, slots=True)
class PlanSeen:
    """A plan at a moment: what it would do now, and what its firings were worth."""

    standing: Standing
    finding: str  # expired, fires, holds, waits
    values: tuple[tuple[datetime, float], ...]  # of each firing that can be judged, in R


def said_of(standing: Iterable[Standing]) -> list[Said]:
    """Plans as recall scores them: what their trigger asks of the situation, anything where it asks nothing."""
    found: list[Said] = []
    for each in standing:
        if each.status not in ("active", "proposed"):
            continue
        plan = each.plan
        flat = {k: v for k, v in plan.trigger.items() if k in Situation.__slots__ and isinstance(v, str | float | int)}
        anything = dict.fromkeys([name for name, *_ in (*LABELS, *NUMBERS)], ANY)
        situation = read(Situation, anything | flat)
        found.append(Said(plan.id, plan.priority, each.at, plan.tier, plan.sources, situation, plan.reasoning))
    return found


def plans_seen(
    tables: Tables, agent: Agent, known: Known, symbol: str | None, said: Situation | None, context: Mapping[str, object],
    past: Past | None = None,
) -> list[PlanSeen]:  # fmt: skip
    """Every plan as a reader of a moment sees it; `said` and `context` are what the caller knows of the situation."""
    if not Learned(tables).plans():
        return []
    at = moment_of(known)
    now = look_at(tables, agent, known, symbol, said=said, past=past) | dict(context)
    ticks = tables.items("tick", known, before=at + INSTANT, newest=True, limit=1)
    last, before = ticks[0].at if ticks else None, None
    if last is not None:
        decided = decided_at(tables, last, known.head).get(symbol or "")
        before = look_at(tables, agent, replace(known, as_of=last), symbol, decided, past=past)
    look = Look(at, now, before)
    fired = firings(tables, known)
    episodes = known_at(Learned(tables).episodes(), at) if fired else []
    seen: list[PlanSeen] = []
    for plan in standings(tables, known):
        waiting = plan.status in ("active", "proposed")
        finding = judged(plan.plan, look, plan.fired, plan.fired_at) if waiting else "waits"
        values = [(when, value) for when, what in fired.get(plan.id, ())
                  if (value := _worth(plan, when, what, episodes)) is not None]  # fmt: skip
        seen.append(PlanSeen(plan, finding, tuple(values)))
    return seen


def firings(tables: Tables, known: Known) -> dict[str, list[tuple[datetime, dict[str, Any]]]]:
    """When each plan fired, from the conclusions in the log; where no stored plan has, the log is not asked."""
    stored, fired = Learned(tables).plans(), dict[str, list[tuple[datetime, dict[str, Any]]]]()
    if not any(plan.fired for plan in stored):
        return fired
    for _, told in _concluded(tables, known, stored):
        if told["event"] == "plan_fired":
            fired.setdefault(told["plan"], []).append((read_time(told["at"]), told))
    return fired


def _concluded(tables: Tables, known: Known, stored: Sequence[Standing]) -> Iterator[tuple[int, dict[str, Any]]]:
    """What was concluded about plans, in order, as far as a reader may know."""
    if not any(plan.fired or plan.ended_at is not None for plan in stored):
        return  # none has fired or expired to this day
    limits = known.limits()
    for row in tables.log_of(CONCLUDING, telling='"plan_'):
        if row.payload is not None and row.known_at <= limits["as_of"] and row.seq <= limits["upto"]:
            told = json.loads(row.payload)["concluded"]
            yield from ((row.seq, t) for t in told if t["event"] in ("plan_fired", "plan_expired"))


def standings(tables: Tables, known: Known) -> list[Standing]:
    """Every plan and where it stood, as far as a reader may know."""
    stored = Learned(tables).plans()
    latest = tables.head().known_at
    if not stored or (known.head is None and known.as_of is not None and latest is not None and known.as_of >= latest):
        return stored
    found = {item.key: made(item.body, item.known_at) for item in tables.items("plan", known)}
    happened = [(item.seq, item.known_at, item.symbol, item.body["status"]) for item in tables.items("plan_status", known)]
    for seq, told in _concluded(tables, known, stored):
        happened.append((seq, read_time(told["at"]), told["plan"], told["event"].removeprefix("plan_")))
    for _, at, id_, status in sorted(happened, key=lambda each: each[0]):
        if id_ in found:
            found[id_] = changed(found[id_], status, at)
    return list(found.values())


def _worth(standing: Standing, when: datetime, told: Mapping[str, Any], episodes: Sequence[Episode]) -> float | None:
    """What a firing was worth in R, against what would have happened without it; None while that is not known."""
    plan, symbol = standing.plan, told.get("symbol")
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
