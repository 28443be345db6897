"""Whose plans count at once, which triggers are warned of, and what is refused."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest

import memtape
from memtape.engine.brief_inputs import gather
from memtape.engine.brief_question import BriefQuestion
from memtape.errors import Conflict, Invalid
from memtape.plugs.clock import FixedClock
from memtape.surfaces.caller import Caller
from memtape.surfaces.registry import all_operations, perform

NINE = datetime(2026, 6, 5, 9, tzinfo=UTC)
OWNER, MODEL = Caller("owner"), Caller("model")
SKIP = {"agent": "desk", "trigger_condition": {"symbol": "BTC"}, "planned_action": {"type": "skip_trade"}, "reasoning": "chop"}


@pytest.fixture
def memory(tmp_path):
    with memtape.open(str(tmp_path / "desk.db"), clock=FixedClock(NINE)) as opened:
        opened.create_skill("trend")
        opened.create_agent("desk", skill="trend", mode="paper")
        yield opened


def do(memory, name, ask, caller=OWNER):
    return perform(memory, all_operations()[name], ask, caller)


def tick(memory, minutes, **more):
    at = NINE + timedelta(minutes=minutes)
    memory.resources.clock.at = at
    return memory.agent("desk").observe({"id": f"t{minutes}", "t": at, "marks": {"BTC": 100}, **more})


def test_a_plan_that_the_owner_states_is_active_at_once_and_fires_at_the_next_tick(memory):
    plan = do(memory, "create_trading_plan", SKIP)["plan"]
    assert (plan["status"], plan["maker"], plan["tier"], plan["warnings"]) == ("active", "owner", 1, [])
    assert plan["expires_at"] == "2026-07-05T09:00:00Z"
    assert [event.plan for event in tick(memory, 5).concluded] == [plan["id"]]


def test_a_plan_that_a_model_states_waits_for_the_owner_and_neither_fires_nor_leads(memory):
    proposal = do(memory, "create_trading_plan", {**SKIP, "id": "models"}, MODEL)["plan"]
    half = {"type": "reduce", "size_factor": 0.5}
    do(memory, "create_trading_plan", {**SKIP, "id": "owners", "planned_action": half})
    assert (proposal["status"], proposal["maker"]) == ("proposed", "agent")
    assert [event.plan for event in tick(memory, 5).concluded] == ["owners"]
    check = do(memory, "check_active_plans", {"agent": "desk", "symbol": "BTC"})
    # A model's plan to skip would lead over the owner's half size, were it confirmed.
    assert (check["leads"], check["size_factor"], check["firing"], check["proposed"]) == ("owners", 0.5, ["owners"], ["models"])
    do(memory, "confirm_plan", {"agent": "desk", "plan_id": "models"})
    check = do(memory, "check_active_plans", {"agent": "desk", "symbol": "BTC"})
    assert (check["leads"], check["size_factor"], check["proposed"]) == ("models", 0.0, [])


def test_a_brief_lists_the_owners_plans_and_only_counts_those_that_a_model_proposes(memory):
    do(memory, "create_trading_plan", {**SKIP, "id": "models"}, MODEL)
    do(memory, "create_trading_plan", {**SKIP, "id": "another", "trigger_condition": {"symbol": "ETH"}}, MODEL)
    do(memory, "create_trading_plan", {**SKIP, "id": "owners"})
    agent = memory.agent("desk")
    skill, version = memory.skill("trend")
    with agent.view() as view:
        inputs = gather(view, BriefQuestion(symbol="BTC", as_of=None, head=None, owner_head=None), agent.agent, skill, version, None)
    assert [each.state.id for each in inputs.plans] == ["owners"] and inputs.proposed_plans == 2


def test_checking_plans_fires_none_of_them(memory):
    do(memory, "create_trading_plan", {**SKIP, "id": "owners"})
    for _ in range(2):
        check = do(memory, "check_active_plans", {"agent": "desk", "symbol": "BTC"})
        assert [(plan["now"], plan["fired"], plan["status"]) for plan in check["plans"]] == [("fires", 0, "active")]


def test_a_model_cancels_its_own_proposal_but_not_what_the_owner_stated_or_confirmed(memory):
    for name, caller in (("mine", MODEL), ("confirmed", MODEL), ("owners", OWNER)):
        do(memory, "create_trading_plan", {**SKIP, "id": name}, caller)
    do(memory, "confirm_plan", {"agent": "desk", "plan_id": "confirmed"})
    assert do(memory, "cancel_plan", {"agent": "desk", "plan_id": "mine"}, MODEL)["plan"]["status"] == "cancelled"
    for name in ("confirmed", "owners"):
        with pytest.raises(Conflict, match="owner only"):
            do(memory, "cancel_plan", {"agent": "desk", "plan_id": name}, MODEL)


def test_a_trigger_that_can_never_hold_is_accepted_and_the_answer_says_so(memory):
    plan = do(memory, "create_trading_plan", {**SKIP, "id": "late", "trigger_condition": {"hour_utc": 25}})["plan"]
    said = ["trigger_condition can never hold: hour_utc is never 25, it runs from 0 to 23"]
    assert (plan["status"], plan["warnings"]) == ("active", said)
    always = {"trigger_condition": {"field": "hour_utc", "op": "ge", "value": 0}, "expire_when": {"session": "moonlight"}}
    plan = do(memory, "create_trading_plan", {**SKIP, "id": "always", **always})["plan"]
    assert plan["warnings"] == [
        "trigger_condition always holds: it is true at every tick",
        "expire_when can never hold: no session is called 'moonlight'; known are asia, london, overlap, newyork",
    ]
    listed = {each["id"]: each["warnings"] for each in do(memory, "check_active_plans", {"agent": "desk"})["plans"]}
    assert listed == {"late": said, "always": plan["warnings"]}


def test_a_label_of_the_owners_own_is_known_once_a_decision_stated_it(memory):
    witching = {**SKIP, "trigger_condition": {"regime": "Witching Hour"}}
    assert do(memory, "create_trading_plan", {**witching, "id": "before"})["plan"]["warnings"]
    tick(memory, 5, decision={"symbol": "BTC", "action": "no_trade", "situation": {"regime": "Witching Hour"}})
    assert do(memory, "create_trading_plan", {**witching, "id": "after"})["plan"]["warnings"] == []


def test_a_trigger_matches_a_label_in_whatever_words_it_was_written(memory):
    do(memory, "create_trading_plan", {**SKIP, "id": "owners", "trigger_condition": {"regime": "Sideways"}})
    fired = tick(memory, 5, decision={"symbol": "BTC", "action": "no_trade", "situation": {"regime": "ranging"}}).concluded
    assert [event.plan for event in fired] == ["owners"]


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize(
    ("field", "value"),
    [("size_factor", lambda n: n), ("priority", lambda n: n), ("cooldown_minutes", lambda n: n),
     ("parameters.trail.1", lambda n: {"trail": [1, n]}), ("parameters.risk", lambda n: {"risk": Decimal(n)}),
     ("trigger_condition.value", lambda n: {"field": "price", "op": "gt", "value": n}),
     ("trigger_condition.value.1", lambda n: {"field": "price", "op": "between", "value": [1, n]}),
     ("expire_when.price.value", lambda n: {"price": n})],
)  # fmt: skip
def test_a_number_that_is_none_is_refused_in_python_with_its_field_named(memory, field, value, bad):
    name = {"trigger_condition": "trigger"}.get(field.split(".")[0], field.split(".")[0])
    plan = {"trigger": {"regime": "ranging"}, "action": "alert", "reasoning": "x", name: value(bad)}
    with pytest.raises(Invalid) as refused:
        memory.agent("desk").plans.create(plan)
    assert refused.value.field == field and memory.agent("desk").plans.all() == []


@pytest.mark.parametrize("days", [math.nan, math.inf, -math.inf, 0, -1])
def test_a_number_of_days_that_is_none_is_refused_in_python(memory, days):
    with pytest.raises(Invalid) as refused:
        memory.agent("desk").plans.create({"trigger": {"regime": "ranging"}, "action": "alert", "reasoning": "x"}, expiry_days=days)
    assert refused.value.field == "expiry_days" and memory.agent("desk").plans.all() == []


def test_a_plan_that_has_ended_before_it_begins_is_refused(memory):
    with pytest.raises(Invalid) as refused:
        do(memory, "create_trading_plan", {**SKIP, "expires_at": "2020-01-01T00:00Z"})
    assert refused.value.field == "expires_at"


def test_a_drawdown_is_never_below_zero_so_a_trigger_on_that_always_holds(memory):
    trigger = {"field": "drawdown_pct", "op": "ge", "value": 0}
    plan = do(memory, "create_trading_plan", {**SKIP, "trigger_condition": trigger})["plan"]
    assert len(plan["warnings"]) == 1 and "always holds" in plan["warnings"][0]
