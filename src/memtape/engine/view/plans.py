"""Plans at a view's moment: the state of each, whether it would fire now, and what its firings were worth."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from memtape.core.labels import fold_fields
from memtape.core.memory.plans import (
    FiredPlan,
    PlanInputs,
    PlanState,
    judge_plan,
    value_of_leaving,
    value_of_sizing,
    value_of_skipping,
)
from memtape.core.memory.predicate import conditions, read_predicate
from memtape.core.memory.situation import LABELS, NUMBERS
from memtape.core.memory.trigger_check import share_warnings, trigger_warning, unknown_labels
from memtape.core.observed import ANY, Situation
from memtape.core.value_class import dataclass
from memtape.core.values import read
from memtape.engine.view.plan_log import plan_firings
from memtape.engine.view.situation import decisions_at_tick, plan_inputs

if TYPE_CHECKING:
    from memtape.core.events import PlanFired
    from memtape.core.memory.episodes import Episode
    from memtape.core.memory.plans import (
        Plan,
    )
    from memtape.engine.view.view import View

LOOKING_BACK = ("changed", "crosses_above", "crosses_below")
FOLLOWING = timedelta(days=1)  # a trade entered within a day of a plan's firing is the one it was about


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

    state: PlanState
    finding: str  # expired, fires, holds, waits
    values: tuple[tuple[datetime, float], ...] = ()  # of each firing that can be judged, in R, where that was asked for
    warnings: tuple[str, ...] = ()  # why its trigger can never hold, or always holds

    def fired(self) -> FiredPlan:
        """The plan as it is weighed against others."""
        plan = self.state.plan
        return FiredPlan(
            id=plan.id, action=plan.action, priority=plan.priority, created_at=self.state.at, size_factor=plan.size_factor
        )


def plans_for_recall(states: Iterable[PlanState]) -> list[PlanForRecall]:
    """Plans as recall scores them: what their trigger asks of the situation, anything where it asks nothing."""
    found: list[PlanForRecall] = []
    for state in states:
        if state.status not in ("active", "proposed"):
            continue
        plan = state.plan
        flat = {k: v for k, v in plan.trigger.items() if k in Situation.__slots__ and isinstance(v, str | float | int)}
        anything = dict.fromkeys([name for name, *_ in (*LABELS, *NUMBERS)], ANY)
        situation = read(Situation, anything | flat)
        found.append(PlanForRecall(plan.id, plan.priority, state.at, plan.tier, plan.sources, situation, plan.reasoning))
    return found


def plan_views(
    view: View, symbol: str | None, stated: Situation | None = None, context: Mapping[str, object] | None = None
) -> list[PlanView]:
    """Every plan at the moment; `stated` and `context` are what the caller knows of the situation."""
    if not view.stored_plans():
        return []
    now = plan_inputs(view, symbol, stated=stated) | fold_fields(context or {})
    ticks, before = view.latest_ticks(), None
    if ticks and any(_looks_back(state) for state in view.stored_plans()):
        last = ticks[0].at
        before = plan_inputs(view.at(last), symbol, decisions_at_tick(view, last).get(symbol or ""))
    inputs = PlanInputs(view.as_of, now, before)
    found: list[PlanView] = []
    for state in view.plan_states():
        waiting = state.status in ("active", "proposed")
        found.append(PlanView(state, judge_plan(state.plan, inputs, state.fired, state.fired_at) if waiting else "waits"))
    return found


def with_values(view: View, plans: Sequence[PlanView]) -> list[PlanView]:
    """The same plans with what their firings were worth. It reads every episode, so briefs do without it."""
    firings = plan_firings(view) if plans else {}
    episodes = view.episodes() if firings else []
    found: list[PlanView] = []
    for each in plans:
        fired = firings.get(each.state.id, ())
        values = [(event.at, value) for event in fired if (value := _worth(each.state, event, episodes)) is not None]
        found.append(replace(each, values=tuple(values)))
    return found


def plan_warnings(view: View, plan: Plan) -> tuple[str, ...]:
    """What the owner should know about a plan's conditions: one can never hold, always holds, or takes percent for a share."""
    found: list[str] = []
    for name, source in (("trigger_condition", plan.trigger), ("expire_when", plan.expire_when)):
        if source is not None:
            predicate = read_predicate(source)
            labels = labels_in_use(view) if unknown_labels(predicate) else {}
            if (warning := trigger_warning(predicate, labels)) is not None:
                found.append(f"{name} {warning}")
            found += [f"{name} {warning}" for warning in share_warnings(predicate)]
    return tuple(found)


def labels_in_use(view: View) -> dict[str, set[str]]:
    """The labels of situations that memories and decisions have, by field."""
    found: dict[str, set[str]] = {name: set() for name, _ in LABELS}
    decided = [item.body.get("situation") or {} for item in view.items("decision")]
    for name, labels in found.items():
        labels.update(label for episode in view.episodes() if (label := getattr(episode, name)) is not None)
        labels.update(str(situation[name]) for situation in decided if situation.get(name) is not None)
    return found


def _looks_back(state: PlanState) -> bool:
    """True if judging a plan needs what was the case at the tick before: few plans do, and it costs a second look."""
    plan = state.plan
    if plan.fire_mode == "rising_edge" and state.fired:
        return True
    triggers = [trigger for trigger in (plan.trigger, plan.expire_when) if trigger is not None]
    asked = [condition for trigger in triggers for condition in conditions(read_predicate(trigger))]
    return any(condition.op in LOOKING_BACK for condition in asked)


def _worth(state: PlanState, fired: PlanFired, episodes: Sequence[Episode]) -> float | None:
    """What a firing was worth in R, against what would have happened without it; None while that is not known."""
    plan, at, symbol = state.plan, fired.at, fired.symbol
    about = sorted(
        (e for e in episodes if (symbol is None or e.symbol == symbol) and at <= e.entry_at <= at + FOLLOWING
         and e.pnl_r is not None), key=lambda e: (e.entry_at, e.id),
    )  # fmt: skip
    if plan.action == "skip_trade":
        shadows = [e for e in about if e.kind == "shadow"]
        return value_of_skipping(shadows[0].pnl_r or 0.0) if shadows else None
    if plan.action == "force_exit":
        open_then = [
            e for e in episodes if e.kind == "trade" and e.entry_at <= at < e.exit_at and (symbol is None or e.symbol == symbol)
        ]
        shadows = [e for e in about if e.kind == "shadow"]
        if open_then and shadows and open_then[0].pnl_r is not None and shadows[0].pnl_r is not None:
            return value_of_leaving(open_then[0].pnl_r, shadows[0].pnl_r)
        return None
    trades = [e for e in about if e.kind == "trade"]
    if plan.size_factor is not None and trades and trades[0].pnl_r is not None:
        return value_of_sizing(plan.size_factor, trades[0].pnl_r)
    return None
