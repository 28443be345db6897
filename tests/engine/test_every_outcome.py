"""Every outcome counts: one unit of money for all answers, and an R that a claim states is an outcome too."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest

from memtape.engine import Memory, reflection
from memtape.engine.view import memories
from memtape.errors import Invalid
from memtape.surfaces.caller import Caller
from memtape.surfaces.registry import execute, find, perform
from tests.desk import NOON, given_agent, given_memory


@pytest.fixture
def memory() -> Iterator[Memory]:
    with given_memory() as memory:
        given_agent(memory, mode="live")
        yield memory


def ask(memory: Memory, name: str, **data: Any) -> dict[str, Any]:
    return execute(memory, name, {"agent": "desk", **data})


def test_habits_and_lessons_use_the_typical_loss_of_all_trades_and_not_of_their_window(memory: Memory, monkeypatch) -> None:
    monkeypatch.setattr(memories, "HABIT_TRADES", 40)
    monkeypatch.setattr(reflection, "WINDOW_TRADES", 40)
    n, desk = 100, memory.agent("desk")
    start = NOON - timedelta(hours=n + 1)
    rows = [
        {"trade_id": str(i), "symbol": "BTC", "side": "long", "entry_at": start + timedelta(hours=i), "entry_price": 100,
         "exit_at": start + timedelta(hours=i, minutes=30), "exit_price": 100 - (1 if i < n - 40 else 40), "qty": 1}
        for i in range(n)
    ]  # fmt: skip
    for row in rows:
        desk.observe(row, kind="trade", backfill=True)
    unit = ask(memory, "recall_memories", context={})["unit"]
    assert unit == "typical losses of $1.00"
    assert ask(memory, "get_losses")["unit"] == unit
    assert ask(memory, "get_behavioral_analysis")["unit"] == unit
    assert ask(memory, "get_behavioral_analysis", head=desk.head().seq)["unit"] == unit
    assert unit in ask(memory, "reflect_now")["note"]["lessons"][0]["text"]


def given_claims_of_r_alone(memory: Memory) -> None:
    for i in range(40):
        entry = NOON - timedelta(hours=12 * (50 - i))
        symbol, r = ("ETH", -1.0 - i % 3) if i % 2 else ("BTC", 1.0 + i % 3)
        perform(memory, find("remember_trade"), {
            "agent": "desk", "symbol": symbol, "direction": "long", "entry_price": 100, "exit_price": 100 + r, "pnl_r": r,
            "entry_at": entry.isoformat(), "exit_at": (entry + timedelta(hours=1)).isoformat(), "backfill": True,
        }, Caller("model"))  # fmt: skip


def test_claims_that_state_only_their_r_have_an_answer_to_what_do_i_lose_on(memory: Memory) -> None:
    given_claims_of_r_alone(memory)
    answer = ask(memory, "get_losses")
    assert (answer["n"], answer["unit"], answer["net_pnl_usd"], answer["outcomes"]) == (40, "R", None, "claimed by the agent")
    eth = next(row for row in answer["groups"] if row["value"] == "ETH")
    assert (eth["n"], eth["net_pnl_usd"], eth["mean_r"]) == (20, None, -1.95)
    assert not [row for row in answer["groups"] if row["value"] == "BTC"]


def test_a_trade_with_a_known_r_and_no_money_has_won_or_lost_and_is_not_unknown(memory: Memory) -> None:
    given_claims_of_r_alone(memory)
    counts = {name: ask(memory, "get_trades", outcome=name, limit=100)["n"] for name in ("win", "loss", "scratch", "unknown")}
    assert counts == {"win": 20, "loss": 20, "scratch": 0, "unknown": 0}
    assert {row["symbol"] for row in ask(memory, "get_trades", outcome="loss", sort="net", limit=100)["trades"]} == {"ETH"}


def test_a_stated_r_that_contradicts_the_result_in_money_is_refused(memory: Memory) -> None:
    claim = {"symbol": "BTC", "direction": "long", "entry_price": 100, "exit_price": 102, "qty": 1, "pnl_r": -1}
    with pytest.raises(Invalid) as refused:
        ask(memory, "remember_trade", **claim)
    assert refused.value.field == "pnl_r"


def test_a_trade_that_lost_money_is_a_loss_even_if_its_price_rose(memory: Memory) -> None:
    for i in range(4):
        entry = NOON - timedelta(hours=12 * (5 - i))
        ask(memory, "remember_trade", symbol="BTC", direction="long", entry_price=100, exit_price=101, pnl=-8,
            context={"atr_h1": 2}, entry_at=entry.isoformat(), exit_at=(entry + timedelta(hours=1)).isoformat(),
            backfill=True)  # fmt: skip
    answer = ask(memory, "recall_memories", symbol="BTC", context={})
    assert answer["warnings"] and answer["unit"] == "typical losses of $8.00"
    assert (answer["evidence"]["win_rate"], answer["evidence"]["mean_r"]) == (0.0, -1.0)


def test_an_empty_page_of_trades_says_which_label_no_memory_has(memory: Memory) -> None:
    given_claims_of_r_alone(memory)
    assert ask(memory, "get_trades", volatility="High")["notes"] == ["no memory has a volatility"]
    [note] = ask(memory, "get_trades", session="LDN")["notes"]
    assert note.startswith("no memory has session 'london'; known: ")


def test_beliefs_about_a_symbol_that_no_memory_has_suggest_the_one_that_may_be_meant(memory: Memory) -> None:
    given_claims_of_r_alone(memory)
    assert ask(memory, "get_beliefs", symbol="btc")["notes"] == ["no memory of btc; did you mean BTC?"]
    assert ask(memory, "get_beliefs", symbol="BTC")["notes"] == []


def test_a_win_rate_far_below_no_edge_is_not_said_to_be_raised_to_be_careful(memory: Memory) -> None:
    given_claims_of_r_alone(memory)
    for i in range(30):
        entry = NOON - timedelta(hours=11 * (50 - i))
        r = 0.8 if i % 3 == 0 else -2.0
        ask(memory, "remember_trade", symbol="SOL", direction="long", entry_price=100, exit_price=100 + r, pnl_r=r,
            entry_at=entry.isoformat(), exit_at=(entry + timedelta(hours=1)).isoformat(), backfill=True)  # fmt: skip
    text = ask(memory, "get_brief", symbol="SOL")["text"]
    assert "No size suggested: " in text and "must win to break even" in text and "cautious" not in text


def test_the_length_of_a_text_is_counted_in_characters(memory: Memory) -> None:
    for session, problem in (("", "at least 1 characters"), ("x" * 500, "at most 64 characters")):
        with pytest.raises(Invalid, match=problem):
            ask(memory, "recall_memories", context={"session": session})


def test_a_brief_about_a_symbol_without_a_loss_shows_the_nearest_loss_of_another_one(memory: Memory) -> None:
    given_claims_of_r_alone(memory)
    for symbol in ("BTC", "SOL"):
        text = ask(memory, "get_brief", symbol=symbol)["text"]
        assert "- Most similar loss: ETH long lost " in text
    past = (NOON - timedelta(hours=12 * 50)).isoformat()
    assert "Most similar loss" not in ask(memory, "get_brief", symbol="SOL", as_of=past)["text"]
