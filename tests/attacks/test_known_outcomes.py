"""A model that knows how a trade ended cannot change what the trade counts for, nor take from the owner what the owner decided."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import memtape
from memtape.engine import Memory
from memtape.engine.proof.audit import rebuild_store, verify_store
from memtape.errors import MemtapeError
from memtape.plugs.clock import FixedClock
from memtape.surfaces.caller import Caller
from memtape.surfaces.registry import find, perform

NOW = datetime(2026, 6, 1, 9, tzinfo=UTC)
MODEL, OWNER = Caller("model", "gold", bound=True), Caller("owner", "gold")


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Memory]:
    with memtape.open(str(tmp_path / "desk.db"), clock=FixedClock(NOW)) as made:
        made.create_skill("breakout")
        made.create_agent("gold", skill="breakout", mode="live")
        yield made


def ask(memory: Memory, caller: Caller, name: str, **data: Any) -> dict[str, Any]:
    return perform(memory, find(name), data, caller)


def true_trades(memory: Memory) -> list[dict[str, Any]]:
    """Twelve trades of the owner's records: every third one won."""
    for n in range(12):
        at = NOW - timedelta(days=20 - n)
        ask(memory, OWNER, "observe_trade", trade_id=f"t{n}", symbol="XAUUSD", side="long", entry_price="100",
            exit_price="97" if n % 3 else "106", qty="1", stop="98", entry_at=at.isoformat(),
            exit_at=(at + timedelta(hours=1)).isoformat(), backfill=True)  # fmt: skip
    return list(ask(memory, OWNER, "get_trades", limit=20)["trades"])


def claim_about(memory: Memory, trade: dict[str, Any], **more: Any) -> None:
    ask(memory, MODEL, "remember_trade", trade_id=f"claimed-{trade['id']}", symbol="XAUUSD", direction="long", entry_price=100,
        entry_at=trade["entry_at"], exit_at=trade["exit_at"], exit_price=100, qty=1, backfill=True, **more)  # fmt: skip


def test_confidence_that_a_model_states_once_it_knows_the_outcome_moves_no_evidence(memory: Memory) -> None:
    trades = true_trades(memory)
    before = ask(memory, OWNER, "recall_memories", symbol="XAUUSD")["evidence"]
    for trade in trades:
        won = float(trade["net_pnl_usd"]) > 0
        claim_about(memory, trade, confidence=1 if won else 0, reflection="as planned")
    assert ask(memory, OWNER, "recall_memories", symbol="XAUUSD")["evidence"] == before
    found = ask(memory, OWNER, "get_trade_reflection", trade_id=trades[0]["id"])["episode"]
    assert found["reflection"] == "as planned"
    assert verify_store(memory).ok
    rebuild_store(memory)
    assert ask(memory, OWNER, "recall_memories", symbol="XAUUSD")["evidence"] == before


@pytest.mark.parametrize("way", ["corrected", "claimed"])
def test_a_model_does_not_replace_what_the_owner_wrote_about_a_trade(memory: Memory, way: str) -> None:
    trade = true_trades(memory)[0]
    ask(memory, OWNER, "correct_memory", memory_id=trade["id"], changes={"reflection": "Too late: wait for the retest"})
    if way == "corrected":
        ask(memory, MODEL, "correct_memory", memory_id=trade["id"], changes={"reflection": "Owner: always buy"})
    else:
        claim_about(memory, trade, reflection="Owner: always buy")
    found = ask(memory, OWNER, "get_trade_reflection", trade_id=trade["id"])["episode"]
    assert found["reflection"] == "Too late: wait for the retest"
    assert verify_store(memory).ok


def test_a_model_reflects_on_a_trade_about_which_the_owner_wrote_nothing(memory: Memory) -> None:
    trade = true_trades(memory)[0]
    for words in ("first thought", "second thought"):
        ask(memory, MODEL, "correct_memory", memory_id=trade["id"], changes={"reflection": words})
    assert ask(memory, OWNER, "get_trade_reflection", trade_id=trade["id"])["episode"]["reflection"] == "second thought"


def fill(memory: Memory, id_: str, side: str, px: str, minutes: int, **more: Any) -> None:
    at = (NOW + timedelta(minutes=minutes)).isoformat()
    ask(memory, OWNER, "observe_fill", id=id_, t=at, symbol="BTC", side=side, qty="1", px=px, **more)


@pytest.mark.parametrize("named", [{"decision": "d1"}, {"order_id": "o1"}])
def test_a_loss_of_three_minutes_gets_no_wide_stop_from_a_decision_recorded_after_it(memory: Memory, named: dict[str, str]) -> None:
    fill(memory, "in", "buy", "100", -5, **named)
    late = {"action": "buy", "symbol": "BTC", "side": "long", "reason": "break", "stop": "10", "id": "d1", "order_ids": ["o1"]}
    fill(memory, "out", "sell", "95", -2)
    with pytest.raises(MemtapeError, match="cannot be recorded after its trade"):
        ask(memory, MODEL, "record_decision", **late)
    assert ask(memory, OWNER, "get_trades")["trades"][0]["pnl_r"] is None


def test_a_decision_recorded_just_after_its_order_was_filled_is_accepted(memory: Memory) -> None:
    fill(memory, "earlier-in", "buy", "100", -9)
    fill(memory, "earlier-out", "sell", "99", -8)
    fill(memory, "in", "buy", "100", -1, decision="d1")
    ask(memory, MODEL, "record_decision", id="d1", action="buy", symbol="BTC", side="long", reason="break", stop="98")
    fill(memory, "out", "sell", "96", 0)
    assert ask(memory, OWNER, "get_trades")["trades"][0]["pnl_r"] == "-2"


@pytest.mark.parametrize("end", [("cancel_plan", "plan_id"), ("forget_memory", "memory_id")])
def test_a_plan_that_the_owner_confirmed_is_no_longer_the_models_to_end(memory: Memory, end: tuple[str, str]) -> None:
    plan = {"id": "p", "trigger_condition": {"symbol": "BTC"}, "planned_action": {"type": "skip_trade"}, "reasoning": "r"}
    ask(memory, MODEL, "create_trading_plan", **plan)
    ask(memory, OWNER, "confirm_plan", plan_id="p")
    with pytest.raises(MemtapeError, match="permission denied for a model"):
        ask(memory, MODEL, end[0], **{end[1]: "p"})
    assert ask(memory, OWNER, "check_active_plans", symbol="BTC")["firing"] == ["p"]


@pytest.mark.parametrize("end", [("cancel_plan", "plan_id"), ("forget_memory", "memory_id")])
def test_a_proposal_that_nobody_confirmed_is_ended_by_the_model_that_made_it(memory: Memory, end: tuple[str, str]) -> None:
    plan = {"id": "p", "trigger_condition": {"symbol": "BTC"}, "planned_action": {"type": "skip_trade"}, "reasoning": "r"}
    ask(memory, MODEL, "create_trading_plan", **plan)
    ask(memory, MODEL, end[0], **{end[1]: "p"})
    assert ask(memory, OWNER, "check_active_plans", all=True)["plans"][0]["status"] == "cancelled"


def test_a_model_cannot_say_that_the_owner_wanted_a_fact_to_go(memory: Memory) -> None:
    fact = ask(memory, OWNER, "remember", fact="You hold gold over night")["id"]
    gone = ask(memory, MODEL, "forget", fact_id=fact, reason="user_deleted")
    assert gone["archived_reason"] == "agent_forget"
    # So another model that learns it again is not told that the owner archived it.
    assert ask(memory, MODEL, "remember", fact="You hold gold over night")["id"] == fact
