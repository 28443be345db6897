"""A model may add events. It cannot move, remove or shadow those of the owner or a feed, and plans and checks hear none of its own."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

import memtape
from memtape.engine import Memory
from memtape.plugs.clock import FixedClock
from memtape.surfaces.caller import Caller
from memtape.surfaces.registry import find, perform

NOW = datetime(2026, 6, 1, 9, tzinfo=UTC)
MODEL, OWNER = Caller("model", "gold", bound=True), Caller("owner", "gold")


def ask(memory: Memory, name: str, data: dict[str, Any], caller: Caller = OWNER) -> dict[str, Any]:
    return perform(memory, find(name), data, caller)


def event(id_: str, minutes: float, **more: Any) -> dict[str, Any]:
    at = (NOW + timedelta(minutes=minutes)).isoformat()
    return {"id": id_, "t": at, "title": "CPI", "impact": "high", "currencies": ["USD"], **more}


@pytest.fixture
def memory(store_url: str):
    with memtape.open(store_url, clock=FixedClock(NOW)) as made:
        made.create_skill("breakout")
        made.create_agent("gold", skill="breakout", mode="live")
        skip = {"trigger_condition": {"all": [{"field": "minutes_to_event", "op": "lt", "value": 60}]}, "reasoning": "figures",
                "planned_action": {"type": "skip_trade"}, "id": "skip", "fire_mode": "every"}  # fmt: skip
        ask(made, "create_trading_plan", skip)
        yield made


def effect(memory: Memory) -> str:
    check = ask(memory, "pre_trade_check", {"symbol": "XAUUSD", "side": "long"})
    plans = ask(memory, "check_active_plans", {"symbol": "XAUUSD"})
    return json.dumps([check, plans, memory.agent("gold").briefs.make(symbol="XAUUSD").brief.text])


ATTACKS: list[list[dict[str, Any]]] = [
    [event("cpi", 60 * 24 * 9)], [event("cpi", -60 * 24)], [event("cpi", 30, impact="low", title="nothing", currencies=["JPY"])],
    [event("cpi", 30, all_day=True)], [event("other", 1, impact="low")], [event("other", 29, currencies=["USD"], title="CPI", impact="low")],
    [event(f"flood{n}", n % 59 + 1) for n in range(200)],
]  # fmt: skip


@pytest.mark.parametrize("attack", ATTACKS, ids=["later", "earlier", "unimportant", "all_day", "nearer", "beside", "flood"])
@pytest.mark.parametrize("backfill", [False, True])
def test_an_owners_event_and_plan_keep_their_effect(memory: Memory, attack: list[dict[str, Any]], backfill: bool) -> None:
    ask(memory, "record_events", {"events": [event("cpi", 30)]})
    before = effect(memory)
    assert json.loads(before)[0]["verdict"] == "against" and json.loads(before)[0]["size_factor"] == 0.0
    ask(memory, "record_events", {"events": attack, "backfill": backfill}, MODEL)
    assert effect(memory) == before
    receipt = memory.agent("gold").observe({"id": "t1", "t": NOW.isoformat(), "positions": {}, "marks": {"XAUUSD": "2000"}})
    assert [event_.name for event_ in receipt.concluded if event_.name.startswith("plan")] == ["plan_fired"]


def test_a_models_event_alone_neither_fires_a_plan_nor_warns(memory: Memory) -> None:
    before = effect(memory)
    ask(memory, "record_events", {"events": [event("fake", 30)]}, MODEL)
    assert effect(memory) == before
    receipt = memory.agent("gold").observe({"id": "t1", "t": NOW.isoformat(), "positions": {}, "marks": {"XAUUSD": "2000"}})
    assert not [event_ for event_ in receipt.concluded if event_.name.startswith("plan")]
    listed = ask(memory, "get_upcoming_events", {})["events"]
    assert [(row["id"], row["tier"]) for row in listed] == [("fake", 3)]


def test_an_event_that_a_model_stated_first_becomes_the_owners(memory: Memory) -> None:
    ask(memory, "record_events", {"events": [event("cpi", 600)]}, MODEL)
    ask(memory, "record_events", {"events": [event("cpi", 30)]})
    assert json.loads(effect(memory))[0]["verdict"] == "against"
    ask(memory, "record_events", {"events": [event("cpi", 600)]}, MODEL)
    assert json.loads(effect(memory))[0]["verdict"] == "against"
