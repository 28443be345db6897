"""Plans: which ones fire, how several are resolved, and what a plan was worth.

If several plans fire, the most careful one leads: leaving before not entering, not entering before a smaller size, a smaller size
before a larger one or another setting, and all of these before an alert. Several smaller sizes are not multiplied: the smallest
counts, and no larger size overrides it. Ties go by priority, then the older plan, then its id. Overruled plans are reported.

A plan not to trade can only be unlearned if the trade that did not happen is followed to its end. `plan_shadow` does that from
later bars and decides any doubt against the trade: a gap fills at the open, and a bar that touches both stop and target was
stopped first.

>>> skipped = plan_shadow(side=1, entry=100.0, stop=98.0, target=104.0, later=[Candle(100.5, 104.2, 97.9, 103.0)])
>>> skipped, value_of_skipping(skipped)
(-1.0, 1.0)
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import field
from datetime import datetime, timedelta
from typing import Annotated, Any, ClassVar, Literal, NamedTuple

from pydantic import AfterValidator, ConfigDict, Field

from memtape.core.codec import canonical
from memtape.core.ids import PlanId
from memtape.core.memory.predicate import Predicate, holds, read_predicate
from memtape.core.memory.situation import Candle
from memtape.core.value_class import dataclass
from memtape.core.values import KEY, STRICT, Key, Label, Line, Time, clean_text, read, require_storable
from memtape.errors import Invalid

Action = Literal["force_exit", "skip_trade", "reduce", "adjust_param", "alert"]
CAREFUL_FIRST: tuple[Action, ...] = ("force_exit", "skip_trade", "reduce", "adjust_param", "alert")
FireMode = Literal["once", "rising_edge", "every"]
Maker = Literal["owner", "agent", "reflection", "belief", "affect"]
PLAN_DAYS = 30
MAX_PLAN_DAYS = 3650
OWNERS_OWN: frozenset[str] = frozenset({"owner", "affect", "belief"})  # stated by the owner, or computed from the broker's data


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A trigger and an action: advice that the trader may follow or not."""

    __pydantic_config__: ClassVar[ConfigDict] = STRICT
    id: Annotated[PlanId, AfterValidator(clean_text), KEY]
    trigger: dict[str, Any]
    action: Action
    size_factor: Annotated[float, Field(ge=0, le=10, allow_inf_nan=False)] | None = None
    parameters: dict[Label, Any] = field(default_factory=dict)
    priority: Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)] = 0.5
    reasoning: Line
    expires_at: Time | None = None
    expire_when: dict[str, Any] | None = None
    fire_mode: FireMode = "rising_edge"
    cooldown_minutes: Annotated[float, Field(ge=0, le=525_600, allow_inf_nan=False)] = 0.0
    maker: Maker = "owner"
    sources: Annotated[tuple[Key, ...], Field(max_length=64)] = ()

    @property
    def tier(self) -> int:
        """The tier of its source: 1 the owner, 2 computed by memtape, 3 a model."""
        return 1 if self.maker == "owner" else 2 if self.maker in OWNERS_OWN else 3

    @property
    def first_status(self) -> str:
        """The first status: a model's plan is a proposal until the owner confirms it."""
        return "proposed" if self.tier >= 3 else "active"

    def checked(self) -> Plan:
        """Returns the plan if its predicates and parameters are valid. Raises `Invalid` if one is not."""
        require_storable(self.parameters, "parameters")
        read_predicate(self.trigger, at="trigger_condition")
        if self.expire_when is not None:
            read_predicate(self.expire_when, at="expire_when")
        require_storable(self.trigger, "trigger_condition")
        require_storable(self.expire_when, "expire_when")
        if self.action == "reduce" and (self.size_factor is None or self.size_factor >= 1):
            raise Invalid("planned_action.size_factor", "a plan to reduce needs a factor below 1", "Give it, like 0.5 for half")
        return self


class PlanState(NamedTuple):
    """A plan with its status: proposed, active, triggered (it fired for the last time), expired or cancelled."""

    id: PlanId
    status: str
    at: datetime  # when it was made
    fired: int
    fired_at: datetime | None
    ended_at: datetime | None
    body: str  # the plan in canonical JSON

    @property
    def plan(self) -> Plan:
        return read(Plan, json.loads(self.body))


def new_plan_state(body: Mapping[str, Any], at: datetime) -> PlanState:
    """Returns the state of a new plan."""
    plan = read(Plan, dict(body))
    return PlanState(plan.id, plan.first_status, at, 0, None, None, canonical(plan))


def changed_plan_state(state: PlanState, status: str, at: datetime) -> PlanState:
    """Returns the state of a plan that fired, expired, was confirmed or cancelled."""
    if status == "fired":
        done = state.plan.fire_mode == "once"
        return state._replace(status="triggered" if done else state.status, fired=state.fired + 1, fired_at=at,
                                 ended_at=at if done else None)  # fmt: skip
    return state._replace(status=status, ended_at=None if status in ("active", "proposed") else at)


@dataclass(frozen=True, slots=True)
class PlanInputs:
    """The facts that a plan is judged by: those of now, those of the evaluation before, and the time."""

    at: datetime
    now: Mapping[str, object]
    before: Mapping[str, object] | None = None


Finding = Literal["expired", "fires", "holds", "waits"]


def judge_plan(plan: Plan, look: PlanInputs, fired: int, fired_at: datetime | None) -> Finding:
    """Returns what a plan does now. Its end is checked first, then its trigger; only TRUE fires.

    `once` fires a single time; `rising_edge` if the trigger has become true since the last evaluation; `every` each time.
    During a cooldown none of them fires. `holds` means that the trigger is true but the plan does not fire.

    >>> from datetime import UTC
    >>> at = datetime(2026, 1, 1, tzinfo=UTC)
    >>> quiet = Plan(id="p", trigger={"regime": "ranging"}, action="skip_trade", reasoning="three false breakouts")
    >>> judge_plan(quiet, PlanInputs(at, {"regime": "ranging"}, {"regime": "volatile"}), 0, None)
    'fires'
    >>> judge_plan(quiet, PlanInputs(at, {"regime": "ranging"}, {"regime": "ranging"}), 1, at)
    'holds'
    >>> judge_plan(quiet, PlanInputs(at, {}), 0, None)
    'waits'
    """
    if plan.expires_at is not None and look.at >= plan.expires_at:
        return "expired"
    if plan.expire_when is not None and holds(_predicate(plan.expire_when), look.now, look.before) is True:
        return "expired"
    trigger = _predicate(plan.trigger)
    if holds(trigger, look.now, look.before) is not True:
        return "waits"
    if fired_at is not None and look.at < fired_at + timedelta(minutes=plan.cooldown_minutes):
        return "holds"
    if plan.fire_mode == "once" and fired:
        return "holds"
    if plan.fire_mode == "rising_edge" and fired and look.before is not None and holds(trigger, look.before) is True:
        return "holds"
    return "fires"


def _predicate(source: Mapping[str, Any]) -> Predicate:
    return read_predicate(source)


@dataclass(frozen=True, slots=True, kw_only=True)
class FiredPlan:
    """A plan whose trigger is true. `size_factor` multiplies the size, if the plan has one."""

    id: PlanId
    action: Action
    priority: float
    created_at: datetime
    size_factor: float | None = None


@dataclass(frozen=True, slots=True)
class ResolvedPlans:
    """The plans in order of precedence, the leading one, the resulting size factor, and the overruled plans."""

    in_order: tuple[FiredPlan, ...]
    leads: FiredPlan | None
    size_factor: float
    overruled: tuple[FiredPlan, ...]


def resolve_plans(fired: Sequence[FiredPlan]) -> ResolvedPlans:
    """Returns the joint advice of several plans.

    >>> from datetime import UTC
    >>> at = datetime(2026, 1, 1, tzinfo=UTC)
    >>> more = FiredPlan(id="a", action="adjust_param", priority=0.9, created_at=at, size_factor=1.5)
    >>> half = FiredPlan(id="b", action="reduce", priority=0.2, created_at=at, size_factor=0.5)
    >>> less = FiredPlan(id="c", action="reduce", priority=0.1, created_at=at, size_factor=0.4)
    >>> resolved = resolve_plans([more, half, less])
    >>> resolved.size_factor, resolved.leads.id, [plan.id for plan in resolved.overruled]
    (0.4, 'b', ['b', 'a'])
    """
    ordered = tuple(sorted(fired, key=_place))
    factors = [plan.size_factor for plan in ordered if plan.size_factor is not None]
    factor = min(factors, default=1.0)
    leads = ordered[0] if ordered else None
    if leads is not None and leads.action in ("force_exit", "skip_trade"):
        factor = 0.0
    overruled = tuple(plan for plan in ordered if plan.size_factor is not None and plan.size_factor != factor)
    return ResolvedPlans(ordered, leads, factor, overruled)


def _place(plan: FiredPlan) -> tuple[int, float, datetime, str]:
    smaller = plan.size_factor is not None and plan.size_factor < 1.0
    action: Action = "reduce" if plan.action == "adjust_param" and smaller else plan.action
    return CAREFUL_FIRST.index(action), -plan.priority, plan.created_at, plan.id


def plan_shadow(side: int, entry: float, stop: float, target: float | None, later: Sequence[Candle]) -> float | None:
    """Returns the outcome in R of a trade that was not taken, from the bars after it; None without bars.

    >>> plan_shadow(-1, 100.0, 102.0, 96.0, [Candle(103.0, 103.5, 101.0, 101.5)])
    -1.5
    """
    if side not in (1, -1):
        raise Invalid("side", "is neither 1 nor -1", "Give 1 for long, -1 for short")
    if side * (entry - stop) <= 0:
        raise Invalid("stop", "does not lie on the losing side of the entry", "Give the stop that the trade would have had")
    if not later:
        return None
    ended = plan_ending(side, stop, target, later)
    return side * ((later[-1].close if ended is None else ended[1]) - entry) / abs(entry - stop)


def plan_ending(side: int, stop: float, target: float | None, later: Sequence[Candle]) -> tuple[int, float] | None:
    """Returns the index of the candle that ends a trade, and the price; None if neither stop nor target was reached.

    >>> plan_ending(1, 98.0, 104.0, [Candle(100.0, 101.0, 99.0, 100.0), Candle(105.0, 106.0, 104.5, 105.0)])
    (1, 105.0)
    """
    for place, candle in enumerate(later):
        worst, best = (candle.low, candle.high) if side > 0 else (candle.high, candle.low)
        if side * (candle.open - stop) <= 0 or (target is not None and side * (candle.open - target) >= 0):
            return place, candle.open
        if side * (worst - stop) <= 0:
            return place, stop
        if target is not None and side * (best - target) >= 0:
            return place, target
    return None


def value_of_skipping(shadow_r: float) -> float:
    """Returns what not trading was worth, in R."""
    return -shadow_r


def value_of_sizing(size_factor: float, pnl_r: float) -> float:
    """Returns what another size was worth, in R of the usual size.

    >>> value_of_sizing(0.5, -1.0)
    0.5
    """
    return (size_factor - 1.0) * pnl_r


def value_of_leaving(pnl_r: float, shadow_r: float) -> float:
    """Returns what leaving early was worth, in R, compared with staying to the end."""
    return pnl_r - shadow_r
