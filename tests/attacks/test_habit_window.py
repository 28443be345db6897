"""Habits are read from the last trades that count: claims and decisions of a model must not push these out of the window."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest

import memtape
from memtape.core.observed import ClosedTrade
from memtape.engine import Memory
from memtape.engine.view import memories
from memtape.plugs.clock import FixedClock
from memtape.surfaces.caller import Caller
from memtape.surfaces.registry import find, perform

NOW = datetime(2026, 6, 1, 9, tzinfo=UTC)
MODEL, OWNER = Caller("model", "gold", bound=True), Caller("owner", "gold")


@pytest.fixture
def memory(store_url: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(memories, "HABIT_TRADES", 20)  # 1,000 claims are a day's limit and the real window
    with memtape.open(store_url, clock=FixedClock(NOW)) as made:
        made.create_skill("breakout")
        made.create_agent("gold", skill="breakout", mode="live")
        yield made


def habits(memory: Memory) -> list[Any]:
    found = perform(memory, find("get_behavioral_analysis"), {}, OWNER)
    past = perform(memory, find("get_behavioral_analysis"), {"head": memory.agent("gold").head().seq}, OWNER)
    return [json.loads(json.dumps({name: value for name, value in each.items() if name not in ("as_of",)})) for each in (found, past)]


def claim(memory: Memory, n: int) -> None:
    at = NOW - timedelta(hours=2, minutes=n)
    perform(memory, find("remember_trade"), {
        "trade_id": f"c{n}", "symbol": "BTC", "direction": "long", "entry_price": 100, "exit_price": 120, "qty": 1, "stop": 98,
        "entry_at": at.isoformat(), "exit_at": (at + timedelta(minutes=30)).isoformat(),
    }, MODEL)  # fmt: skip


def test_a_flood_of_claims_leaves_the_habits_of_the_recorded_trades(memory: Memory) -> None:
    trades = [
        ClosedTrade(trade_id=f"t{n}", symbol="XAUUSD", side="long", entry_at=NOW - timedelta(days=2, hours=n), exit_at=NOW - timedelta(days=2, hours=n - 1),
                    entry_price=Decimal(100), exit_price=Decimal(98 + n % 5), qty=Decimal(1), stop=Decimal(98)) for n in range(15)
    ]  # fmt: skip
    memory.agent("gold").imports.commit(trades, {"file": "account.csv"})
    before = habits(memory)
    assert before[0]["n"] == 15
    for n in range(25):
        claim(memory, n)
    assert habits(memory) == before


def test_where_nothing_is_traded_yet_a_claim_makes_no_habit(memory: Memory) -> None:
    memory.agent("gold").observe({"id": "t1", "t": NOW.isoformat(), "positions": {}, "marks": {"XAUUSD": "2000"}})
    before = habits(memory)
    claim(memory, 0)
    assert habits(memory) == before


def test_a_claim_dated_before_the_first_record_changes_no_risk_of_a_true_trade(memory: Memory) -> None:
    trades = [
        ClosedTrade(trade_id=f"t{n}", symbol="XAUUSD", side="long", entry_at=NOW - timedelta(days=2, hours=3 * n), exit_at=NOW - timedelta(days=2, hours=3 * n - 4),
                    entry_price=Decimal(100), exit_price=Decimal(98 + n % 5), qty=Decimal(1), stop=Decimal(98)) for n in range(15)
    ]  # fmt: skip
    memory.agent("gold").imports.commit(trades, {"file": "account.csv"})
    before = habits(memory)
    for n in range(5):
        at = NOW - timedelta(days=9, hours=n)
        perform(memory, find("remember_trade"), {
            "trade_id": f"old{n}", "symbol": "BTC", "direction": "long", "entry_price": 100, "exit_price": 9000, "qty": 1, "stop": 98,
            "entry_at": at.isoformat(), "exit_at": (at + timedelta(minutes=30)).isoformat(), "backfill": True,
        }, MODEL)  # fmt: skip
    assert habits(memory) == before
