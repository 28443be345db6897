"""A model that uses an id before the account or the owner does takes nothing from them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import memtape
from memtape.engine import Memory
from memtape.engine.proof.audit import verify_store
from memtape.errors import MemtapeError
from memtape.plugs.clock import FixedClock
from memtape.surfaces.caller import Caller
from memtape.surfaces.registry import find, perform

NOW = datetime(2026, 6, 1, 9, tzinfo=UTC)
MODEL, OWNER = Caller("model", "gold", bound=True), Caller("owner", "gold")
ENTRY, EXIT = (NOW - timedelta(hours=2)).isoformat(), (NOW - timedelta(hours=1)).isoformat()


@pytest.fixture
def memory(tmp_path: Path):
    with memtape.open(str(tmp_path / "desk.db"), clock=FixedClock(NOW)) as made:
        made.create_skill("breakout")
        made.create_agent("gold", skill="breakout")
        yield made


def ask(memory: Memory, caller: Caller, name: str, **data: Any) -> dict[str, Any]:
    return perform(memory, find(name), data, caller)


def test_a_loss_of_the_account_counts_although_a_model_claimed_its_id_as_a_win(memory: Memory) -> None:
    ask(memory, MODEL, "remember_trade", trade_id="t1", symbol="BTC", direction="long", entry_price=100, exit_price=150, qty=1,
        stop=98, entry_at=ENTRY, exit_at=EXIT)  # fmt: skip
    ask(memory, OWNER, "observe_trade", trade_id="t1", symbol="BTC", side="long", entry_price="100", exit_price="98", qty="1",
        stop="98", entry_at=ENTRY, exit_at=EXIT)  # fmt: skip
    assert [trade["net_pnl_usd"] for trade in ask(memory, OWNER, "get_trades")["trades"]] == ["-2"]
    assert ask(memory, OWNER, "recall_memories", symbol="BTC", context={})["evidence"]["mean_r"] == -1.0


def test_an_event_of_the_owner_replaces_one_that_a_model_added_under_its_id(memory: Memory) -> None:
    event = {"id": "nfp", "title": "NFP", "currencies": ["USD"]}
    ask(memory, MODEL, "record_events", events=[{**event, "t": "2026-09-01T12:00:00Z", "impact": "low"}])
    ask(memory, OWNER, "record_events", events=[{**event, "t": "2026-06-01T09:20:00Z", "impact": "high"}])
    (shown,) = ask(memory, OWNER, "get_upcoming_events")["events"]
    assert (shown["t"], shown["impact"], shown["tier"]) == ("2026-06-01T09:20:00Z", "high", 1)


@pytest.mark.parametrize(
    ("name", "of_model", "of_owner"),
    [
        ("create_trading_plan", {"planned_action": {"type": "alert"}}, {"planned_action": {"type": "skip_trade"}}),
        ("state_belief", {"op": "gt"}, {"op": "lt"}),
    ],
)
def test_a_plan_or_belief_of_the_owner_with_an_id_that_a_model_used_is_refused_with_the_reason(
    memory: Memory, name: str, of_model: dict[str, Any], of_owner: dict[str, Any]
) -> None:
    same = {
        "create_trading_plan": {"id": "x", "trigger_condition": {"symbol": "BTC"}, "reasoning": "r"},
        "state_belief": {"id": "x", "sentence": "s", "validity_conditions": {"regime": "ranging"}},
    }[name]
    ask(memory, MODEL, name, **same, **of_model)
    with pytest.raises(MemtapeError, match=r"id: the (plan|belief) 'x' .* another content. Choose another id"):
        ask(memory, OWNER, name, **same, **of_owner)


def test_a_decision_that_the_owner_recorded_is_not_replaced(memory: Memory) -> None:
    ask(memory, OWNER, "record_decision", id="d1", action="no_trade", symbol="BTC", reason="waiting")
    ask(memory, MODEL, "record_decision", id="d1", action="buy", symbol="BTC", side="long", reason="go", stop=99)
    assert ask(memory, OWNER, "get_decision", decision="d1")["action"] == "no_trade"


OWNERS_DECISION = {"action": "buy", "symbol": "BTC", "side": "long", "reason": "the desk's", "stop": 98, "order_ids": ["o1"]}


def fill(memory: Memory, id_: str, side: str, px: str, **names: str) -> None:
    ask(memory, OWNER, "observe_fill", id=id_, t=NOW.isoformat(), symbol="BTC", side=side, qty="1", px=px, **names)


@pytest.mark.parametrize("order", [["model", "owner", "fills"], ["model", "fills", "owner"], ["owner", "model", "fills"]], ids="-".join)
@pytest.mark.parametrize("named", [{"decision": "d1"}, {"order_id": "o1"}], ids=["by its decision", "by its order"])
@pytest.mark.parametrize("id_of_model", ["d1", "d2"])
@pytest.mark.parametrize("in_tick", [False, True])
def test_a_loss_keeps_the_stop_of_the_desk_although_a_model_used_its_names(
    memory: Memory, order: list[str], named: dict[str, str], id_of_model: str, in_tick: bool
) -> None:
    for who in order:
        if who == "model":
            ask(memory, MODEL, "record_decision", id=id_of_model, **{**OWNERS_DECISION, "stop": 1, "reason": "the model's"})
        elif who == "fills":
            fill(memory, "f1", "buy", "100", **named)
            fill(memory, "f2", "sell", "98")
        elif in_tick:
            decided = {**OWNERS_DECISION, "id": "d1"}
            ask(memory, OWNER, "observe_tick", id="t1", t=NOW.isoformat(), decision=[decided])
        else:
            ask(memory, OWNER, "record_decision", id="d1", **OWNERS_DECISION)
    assert [trade["pnl_r"] for trade in ask(memory, OWNER, "get_trades")["trades"]] == ["-1"]
    assert verify_store(memory).ok
    head = memory.agent("gold").head().seq
    ask(memory, OWNER, "observe_equity", t=NOW.isoformat(), equity="9000")
    assert [trade["pnl_r"] for trade in ask(memory, OWNER, "get_trades", head=head)["trades"]] == ["-1"]


def test_a_model_cannot_use_a_name_that_only_the_owner_has(memory: Memory) -> None:
    for names in ({"id": "d1@owner"}, {"order_ids": ["o1@owner"]}):
        with pytest.raises(MemtapeError, match="which only names of the owner do"):
            ask(memory, MODEL, "record_decision", **{**OWNERS_DECISION, **names})


def test_a_desk_that_records_again_what_its_model_decided_adds_nothing(memory: Memory) -> None:
    ask(memory, MODEL, "record_decision", id="d1", **OWNERS_DECISION)
    assert ask(memory, OWNER, "record_decision", id="d1", **OWNERS_DECISION)["duplicate"]
    assert len(ask(memory, OWNER, "get_decisions")["decisions"]) == 1
