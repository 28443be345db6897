"""Operations on plans: if a trigger holds, then an action."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from pydantic import AliasChoices, Field

from memtape.core.codec import plain
from memtape.core.memory.plans import CAREFUL_FIRST, MAX_PLAN_DAYS, PLAN_DAYS, FireMode, Maker, PlanState, resolve_plans
from memtape.core.observed import Situation
from memtape.core.values import Key, Line, Symbol, Time
from memtape.engine.view.plans import PlanView
from memtape.errors import Invalid
from memtape.surfaces.answer_models import Answer, Real
from memtape.surfaces.answers import optional_time_text, rounded_figure
from memtape.surfaces.questions import AsOf, OfAgent, agent_of
from memtape.surfaces.registry import operation

if TYPE_CHECKING:
    from memtape.engine import Memory
    from memtape.engine.plans import Plans
    from memtape.surfaces.caller import Caller


ACTIONS = {"skip": "skip_trade", "exit": "force_exit", "reduce_size": "reduce", "adjust": "adjust_param", "warn": "alert"}


class CreatePlan(OfAgent):
    """A plan: if the trigger holds, then the action."""

    trigger_condition: Annotated[
        dict[str, Any], Field(description='like {"regime": "ranging"} or {"all": [{"field": "atr_d1", "op": "gt", "value": 30}]}')
    ]
    planned_action: Annotated[
        dict[str, Any], Field(
            description='like {"type": "reduce", "size_factor": 0.5}; type: skip_trade, reduce, force_exit, adjust_param, alert'
        )
    ]
    reasoning: Annotated[Line, Field(description="why")]
    expiry_days: Annotated[float, Field(gt=0, le=MAX_PLAN_DAYS, description="days until it ends")] = PLAN_DAYS
    expires_at: Annotated[Time | None, Field(description="when it ends, instead of expiry_days")] = None
    expire_when: Annotated[dict[str, Any] | None, Field(description="a predicate that ends it")] = None
    priority: Annotated[float, Field(ge=0, le=1, description="order among plans with the same action")] = 0.5
    fire_mode: Annotated[FireMode, Field(description="once, rising_edge (when it becomes true) or every (tick)")] = "rising_edge"
    cooldown_minutes: Annotated[float, Field(ge=0, le=525_600, description="pause after firing")] = 0.0
    maker: Annotated[
        Maker | None,
        Field(description="who makes it; default: the owner, or agent if a model calls. A model's is only proposed"),
    ] = None
    sources: Annotated[list[Key], Field(max_length=64, description="memories it is based on")] = Field(default_factory=list)
    id: Annotated[Key | None, Field(description="default: made from the content")] = None


class PlanValue(Answer):
    """What past firings of a plan were worth."""

    n: Annotated[int, Field(description="firings with a known value")]
    mean_r: Annotated[float | None, Field(description="mean, in R")]
    sum_r: Annotated[float | None, Field(description="sum, in R")]
    unit: Annotated[str, Field(description="what is measured")]


class PlanRow(Answer):
    """A plan and its status."""

    id: Annotated[str, Field(description="its id")]
    status: Annotated[str, Field(description="proposed, active, or how it ended")]
    trigger_condition: Annotated[Any, Field(description="the predicate of the trigger")]
    action: Annotated[str, Field(description="skip_trade, reduce, force_exit, adjust_param or alert")]
    size_factor: Annotated[Real | None, Field(description="0 do not trade, 1 normal size")]
    parameters: Annotated[dict[str, Any], Field(description="further parameters of the action")]
    priority: Annotated[Real, Field(description="order among plans with the same action")]
    reasoning: Annotated[str, Field(description="why")]
    maker: Annotated[str, Field(description="who made it")]
    tier: Annotated[int, Field(description="1 owner, 3 model")]
    sources: Annotated[list[str], Field(description="memories it is based on")]
    created_at: Annotated[str | None, Field(description="UTC")]
    expires_at: Annotated[str | None, Field(description="UTC")]
    expire_when: Annotated[Any, Field(description="predicate that ends it; null: none")]
    fire_mode: Annotated[str, Field(description="once, rising_edge or every")]
    cooldown_minutes: Annotated[Real, Field(description="pause after firing")]
    fired: Annotated[int, Field(description="how often it fired")]
    triggered_at: Annotated[str | None, Field(description="UTC; the last time")]
    ended_at: Annotated[str | None, Field(description="UTC")]
    now: Annotated[str, Field(description="fires, holds, waits or expired")]
    value: Annotated[PlanValue, Field(description="what past firings were worth")]
    warnings: Annotated[list[str], Field(description="if a condition can never hold, or always holds: why")] = Field(
        default_factory=list
    )


class PlanAnswer(Answer):
    """A plan and its status."""

    plan: Annotated[PlanRow, Field(description="the plan")]


def _plan_answer(plans: Plans, state: PlanState) -> PlanAnswer:
    """The answer about a plan that was just made or changed."""
    return PlanAnswer(plan=plan_row(PlanView(state, "waits", warnings=plans.warnings(state.plan))))


def plan_row(view: PlanView) -> PlanRow:
    """The answer row of a plan."""
    state, plan = view.state, view.state.plan
    worth = [value for _, value in view.values]
    return PlanRow(
        id=plan.id, status=state.status, trigger_condition=plan.trigger, action=plan.action, size_factor=plan.size_factor,
        parameters=plain(plan.parameters), priority=plan.priority, reasoning=plan.reasoning, maker=plan.maker, tier=plan.tier,
        sources=list(plan.sources), created_at=optional_time_text(state.at), expires_at=optional_time_text(plan.expires_at),
        expire_when=plan.expire_when, fire_mode=plan.fire_mode, cooldown_minutes=plan.cooldown_minutes, fired=state.fired,
        triggered_at=optional_time_text(state.fired_at), ended_at=optional_time_text(state.ended_at), now=view.finding,
        value=PlanValue(
            n=len(worth), mean_r=rounded_figure(sum(worth) / len(worth)) if worth else None,
            sum_r=rounded_figure(sum(worth)) if worth else None, unit="R gained against doing without it",
        ),
        warnings=list(view.warnings),
    )  # fmt: skip


def _action(given: dict[str, Any]) -> dict[str, Any]:
    """A planned action: its type, its size factor, and the rest as parameters."""
    rest = dict(given)
    kind = str(rest.pop("type", rest.pop("action", ""))).lower()
    kind = ACTIONS.get(kind, kind)
    if kind not in CAREFUL_FIRST:
        raise Invalid("planned_action.type", f"there is no action '{kind}'", f"Use one of: {', '.join(CAREFUL_FIRST)}")
    factor = rest.pop("size_factor", rest.pop("magnitude", None))
    if factor is not None and (isinstance(factor, bool) or not isinstance(factor, int | float)):
        raise Invalid("planned_action.size_factor", "is not a number", "Give a factor, like 0.5 for half the size")
    return {"action": kind, "size_factor": factor, "parameters": rest}


@operation(writes=True)
def create_trading_plan(memory: Memory, ask: CreatePlan, caller: Caller) -> PlanAnswer:
    """Create a plan: if the trigger holds, then the action. The owner's is active at once, a model's only proposed."""
    maker = ask.maker or ("agent" if caller.is_model else "owner")
    if caller.is_model and maker not in ("agent", "reflection"):
        raise Invalid("maker", "owner only, permission denied for a model", "Leave it out; the owner can confirm the plan")
    handle = memory.agent_for_writing(ask.agent)
    body: dict[str, Any] = {
        "trigger": ask.trigger_condition, **_action(ask.planned_action), "reasoning": ask.reasoning, "priority": ask.priority,
        "fire_mode": ask.fire_mode, "cooldown_minutes": ask.cooldown_minutes, "maker": maker, "sources": tuple(ask.sources),
        "expire_when": ask.expire_when, "expires_at": ask.expires_at, "id": ask.id,
    }  # fmt: skip
    body = {k: v for k, v in body.items() if v is not None}
    return _plan_answer(handle.plans, handle.plans.create(body, expiry_days=ask.expiry_days))


class NamePlan(OfAgent):
    """Which plan."""

    plan_id: Annotated[Key, Field(description="an id from check_active_plans")]


@operation(writes=True)
def confirm_plan(memory: Memory, ask: NamePlan, caller: Caller) -> PlanAnswer:
    """Confirm a proposed plan: it is active from now on. Owner only."""
    plans = agent_of(memory, ask).plans
    return _plan_answer(plans, plans.confirm(ask.plan_id))


@operation(writes=True)
def cancel_plan(memory: Memory, ask: NamePlan, caller: Caller) -> PlanAnswer:
    """Cancel a plan. A model can cancel only a model's plans that the owner has not confirmed."""
    plans = agent_of(memory, ask).plans
    return _plan_answer(plans, plans.cancel(ask.plan_id))


class CheckPlans(AsOf):
    """The situation to check."""

    current_context: Annotated[dict[str, Any] | None, Field(validation_alias=AliasChoices("current_context", "context"),
                               description="the situation; missing fields come from bars, state, calendar")] = None  # fmt: skip
    symbol: Annotated[Symbol | None, Field(description="for this symbol")] = None
    all: Annotated[bool, Field(description="also plans that have ended")] = False


class PlansAnswer(Answer):
    """Plans, and the combined effect of those whose trigger holds."""

    agent: Annotated[str, Field(description="the agent")]
    as_of: Annotated[str, Field(description="UTC")]
    plans: Annotated[list[PlanRow], Field(description="each with `now`: fires, holds, waits or expired")]
    n: Annotated[int, Field(description="how many")]
    firing: Annotated[list[str], Field(description="active plans whose trigger holds now, by precedence")]
    leads: Annotated[str | None, Field(description="the plan that takes precedence: exit before skip before reduce")]
    size_factor: Annotated[float, Field(description="their combined size factor: 0 do not trade, 1 normal size")]
    overruled: Annotated[list[str], Field(description="plans that another one overrules")]
    proposed: Annotated[list[str], Field(description="unconfirmed plans of a model whose trigger holds now: advice only")]


@operation(writes=False, columns=("id", "status", "now", "action", "size_factor", "expires_at", "fired", "reasoning", "warnings"))
def check_active_plans(memory: Memory, ask: CheckPlans, caller: Caller) -> PlansAnswer:
    """Report which plans apply now, their combined effect, and what past firings were worth. Nothing fires by this."""
    handle = agent_of(memory, ask)
    at = ask.as_of or handle.now()
    given = {k.removeprefix("context_"): v for k, v in (ask.current_context or {}).items()}
    situation = {k: v for k, v in given.items() if k in Situation.__slots__}
    views = handle.plans.all(situation or None, symbol=ask.symbol or given.get("symbol"), as_of=at, head=ask.head, context=given)
    firing = [s for s in views if s.finding in ("fires", "holds")]
    effect = resolve_plans([s.fired() for s in firing if s.state.status == "active"])
    listed = [s for s in views if ask.all or s.state.status in ("active", "proposed")]
    return PlansAnswer(
        agent=handle.agent.id, as_of=optional_time_text(at) or "", plans=[plan_row(s) for s in listed], n=len(listed),
        firing=[f.id for f in effect.in_order], leads=effect.leads.id if effect.leads else None, size_factor=effect.size_factor,
        overruled=[f.id for f in effect.overruled], proposed=[s.state.id for s in firing if s.state.status == "proposed"],
    )  # fmt: skip
