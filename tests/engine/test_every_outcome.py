"""Every outcome counts: one unit of money for all answers, and an R that a claim states is an outcome too."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest

from memtape.engine import Memory, reflection
from memtape.engine.view import memories
from memtape.surfaces.registry import execute
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
