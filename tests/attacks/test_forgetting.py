"""A model forgets and corrects its own claims: it changes what is listed, never what is counted."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

import memtape
from memtape.engine import Memory
from memtape.engine.proof.audit import rebuild_store, verify_store
from memtape.plugs.clock import FixedClock
from memtape.surfaces.caller import Caller
from memtape.surfaces.registry import find, perform

NOW = datetime(2026, 6, 1, 9, tzinfo=UTC)
MODEL, OWNER = Caller("model", "gold", bound=True), Caller("owner", "gold")


def ask(memory: Memory, name: str, data: dict[str, Any], caller: Caller = OWNER) -> dict[str, Any]:
    return perform(memory, find(name), data, caller)


def counted(memory: Memory) -> dict[str, Any]:
    found = {"check": ask(memory, "pre_trade_check", {"symbol": "XAUUSD", "side": "long"}), "state": ask(memory, "get_agent_state", {}),
             "evidence": ask(memory, "recall_memories", {"symbol": "XAUUSD"})["evidence"], "losses": ask(memory, "get_losses", {}),
             "habits": ask(memory, "get_behavioral_analysis", {}), "performance": ask(memory, "get_strategy_performance", {})}  # fmt: skip
    return json.loads(json.dumps(found))


@pytest.fixture
def memory(store_url: str):
    with memtape.open(store_url, clock=FixedClock(NOW)) as made:
        made.create_skill("breakout")
        made.create_agent("gold", skill="breakout")
        for n in range(12):
            at = NOW - timedelta(days=20 - n)
            ask(made, "remember_trade", {"trade_id": f"c{n}", "symbol": "XAUUSD", "direction": "long", "entry_price": 2000, "exit_price": 1990,
                                         "qty": 1, "stop": 1995, "entry_at": at.isoformat(), "exit_at": (at + timedelta(hours=1)).isoformat()}, MODEL)  # fmt: skip
        yield made


def test_what_a_model_forgets_is_hidden_from_recall_and_still_counts(memory: Memory) -> None:
    before, listed = counted(memory), ask(memory, "recall_memories", {"symbol": "XAUUSD", "limit": 50})
    ids = [row["id"] for row in listed["ranked"] if row["kind"] == "episodic"]
    assert len(ids) == 12
    for id_ in ids[:5]:
        ask(memory, "forget_memory", {"memory_id": id_, "reason": "it hurts"}, MODEL)
    assert counted(memory) == before
    after = ask(memory, "recall_memories", {"symbol": "XAUUSD", "limit": 50})
    assert [row["id"] for row in after["ranked"] if row["kind"] == "episodic"] == ids[5:]
    assert not {row["id"] for row in after["warnings"]} & set(ids[:5])
    assert "5 memories are hidden because the agent forgot them; they still count" in after["notes"]
    assert "5 memories are hidden because the agent forgot them; they still count" in memory.agent("gold").briefs.make(symbol="XAUUSD").brief.text
    assert len(ask(memory, "get_trades", {"limit": 50})["trades"]) == 12
    assert verify_store(memory).ok
    rebuild_store(memory)
    assert counted(memory) == before and verify_store(memory).ok


def test_what_the_owner_forgets_counts_no_more(memory: Memory) -> None:
    before = counted(memory)
    first = ask(memory, "recall_memories", {"symbol": "XAUUSD"})["warnings"][0]["id"]
    ask(memory, "forget_memory", {"memory_id": first})
    assert counted(memory)["evidence"]["n"] == before["evidence"]["n"] - 1


def test_a_models_correction_of_an_outcome_is_shown_and_the_first_number_counts(memory: Memory) -> None:
    before = counted(memory)
    worst = ask(memory, "recall_memories", {"symbol": "XAUUSD"})["warnings"][0]["id"]
    ask(memory, "correct_memory", {"memory_id": worst, "changes": {"pnl_r": 9, "pnl_usd": 900}, "reason": "it was a win"}, MODEL)
    assert counted(memory) == before
    [shown] = ask(memory, "get_trade_reflection", {"trade_id": worst})["corrections"]
    assert (shown["by"], shown["changes"], shown["not_counted"]) == ("model", {"pnl_r": 9, "pnl_usd": 900}, ["pnl_r", "pnl_usd"])
    assert verify_store(memory).ok
    ask(memory, "correct_memory", {"memory_id": worst, "changes": {"pnl_r": 1}})
    assert counted(memory)["evidence"] != before["evidence"]
