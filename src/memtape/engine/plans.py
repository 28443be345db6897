"""An agent's plans: listed as of any moment, created, confirmed and cancelled."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from memtape.core.authors import MODEL_AUTHOR
from memtape.core.codec import EPOCH, make_id, plain
from memtape.core.ids import PlanId
from memtape.core.items import Item
from memtape.core.memory.beliefs import suggested_plans
from memtape.core.memory.plans import MAX_PLAN_DAYS, PLAN_DAYS, Plan, changed_plan_state, new_plan_state
from memtape.core.observed import Situation
from memtape.core.values import read
from memtape.engine.arguments import require_mapping
from memtape.engine.view.plans import plan_views, plan_warnings, with_values
from memtape.errors import Conflict, Invalid, PermissionDenied, Unknown
from memtape.store.cutoff import EVERYTHING
from memtape.store.memories import MemoryTables

if TYPE_CHECKING:
    from memtape.core.memory.plans import PlanState
    from memtape.engine.scope import AgentScope
    from memtape.engine.view.plans import PlanView
    from memtape.store.tables import Tables


class Plans:
    """The plans of one agent."""

    def __init__(self, scope: AgentScope) -> None:
        self._scope = scope

    def all(
        self, situation: Situation | Mapping[str, Any] | None = None, *, symbol: str | None = None, as_of: datetime | None = None,
        head: int | None = None, context: Mapping[str, object] | None = None,
    ) -> list[PlanView]:  # fmt: skip
        """Every plan at a moment: its state, whether it would fire now, and what its firings were worth."""
        stated = read(Situation, situation) if situation is not None else None
        with self._scope.view(as_of, head) as view:
            views = with_values(view, plan_views(view, symbol, stated, context))
            waiting = {each.state.id for each in views if each.state.status in ("active", "proposed")}
            found = {each.state.id: plan_warnings(view, each.state.plan) for each in views if each.state.id in waiting}
            return [replace(each, warnings=found.get(each.state.id, ())) for each in views]

    def warnings(self, plan: Plan) -> tuple[str, ...]:
        """What the owner should know about a plan's conditions: that one can never hold, or always holds."""
        with self._scope.view() as view:
            return plan_warnings(view, plan)

    def suggested(self, *, as_of: datetime | None = None) -> list[dict[str, Any]]:
        """Plans that beliefs and a deep drawdown suggest; none is created by this."""
        with self._scope.view(as_of) as view:
            return [dict(plan) for plan in suggested_plans(view.beliefs(), view.affect().drawdown)]

    def create(self, plan: Mapping[str, Any], *, expiry_days: float = PLAN_DAYS) -> PlanState:
        """Create a plan; creating it twice changes nothing. A model's plan is a proposal until the owner confirms it."""
        agent, data = self._scope.agent, require_mapping("plan", plan)
        if isinstance(expiry_days, bool) or not isinstance(expiry_days, int | float) or not 0 < expiry_days <= MAX_PLAN_DAYS:
            problem = f"{str(expiry_days)[:40]} is not a number of days"
            raise Invalid("expiry_days", problem, f"Give one above 0, up to {MAX_PLAN_DAYS}")
        # Checked before it has an id, because NaN and infinity have no spelling that an id could be made of.
        checked = read(Plan, {"id": "unnamed", **data}).checked()
        id_ = data.get("id") or make_id("plan", agent.id, plain({k: v for k, v in data.items() if k != "expires_at"}))
        checked = replace(checked, id=PlanId(id_))
        with self._scope.writing() as tables:
            now = self._scope.stated_at(tables)
            # A simulation that has observed nothing yet has no time from which 30 days could be counted.
            ends = now + timedelta(days=expiry_days) if now > EPOCH else None
            created = replace(checked, expires_at=checked.expires_at or ends)
            memory_tables = MemoryTables(tables)
            plans = memory_tables.plans()
            earlier = next((p for p in plans if p.id == created.id), None)
            if earlier is not None:
                if replace(earlier.plan, expires_at=created.expires_at) != created:
                    raise Conflict("id", f"the plan '{created.id}' exists with another content", "Choose another id")
                if earlier.status in ("active", "proposed"):
                    return earlier
                # The earlier one has ended: this is the same plan under a numbered id.
                number = sum(p.id.startswith(f"{created.id}-") for p in plans) + 2
                created = replace(created, id=PlanId(f"{created.id}-{number}"))
            if checked.expires_at is not None and checked.expires_at <= now:
                raise Invalid("expires_at", "has passed: the plan could never fire", "Give a later time, or leave it out")
            state = new_plan_state(plain(created), now)
            memory_tables.put_plans([state])
            self._scope.writer(tables).declare(Item("plan", created.id, now, plain(created)), now)
            return state

    def confirm(self, id: str) -> PlanState:
        """Make a proposed plan active. Owner only."""
        return self._set_status(id, "active", ("proposed",))

    def cancel(self, id: str) -> PlanState:
        """End a plan."""
        return self._set_status(id, "cancelled", ("proposed", "active"))

    def forget(self, id: str) -> PlanState:
        """End a plan whatever its status is."""
        return self._set_status(id, "cancelled", ("proposed", "active", "triggered", "expired"))

    def _set_status(self, id: str, status: str, allowed: tuple[str, ...]) -> PlanState:
        with self._scope.writing() as tables:
            now, memory_tables = self._scope.stated_at(tables), MemoryTables(tables)
            state = next((p for p in memory_tables.plans() if p.id == id), None)
            if state is None:
                raise Unknown("plan_id", "plan", id, "List them with check_active_plans")
            if self._scope.resources.author.tier >= MODEL_AUTHOR.tier and _is_the_owners(tables, state):
                problem = "owner only, permission denied for a model"
                raise PermissionDenied("caller", problem, "Ask the owner to end the owner's plan")
            if state.status == status:
                return state
            if state.status not in allowed:
                raise Conflict("plan_id", f"the plan '{id}' is {state.status}", "Make a new one with create_trading_plan")
            state = changed_plan_state(state, status, now)
            memory_tables.put_plans([state])
            number = len(tables.items("plan_status", EVERYTHING, symbol=id)) + 1
            item = Item("plan_status", f"{id}#{number}", now, {"plan": id, "status": status}, id)
            self._scope.writer(tables).declare(item, now)
            return state


def _is_the_owners(tables: Tables, state: PlanState) -> bool:
    """True for a plan that the owner made or confirmed: from then on a model cannot end it, whatever became of it."""
    changes = tables.items("plan_status", EVERYTHING, symbol=state.id)
    return state.plan.tier < MODEL_AUTHOR.tier or any(each.body["status"] == "active" for each in changes)
