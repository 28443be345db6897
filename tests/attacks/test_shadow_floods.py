"""A model that decides against hundreds of trades at once fills neither the recall nor the count of what it missed.

The outcome of a trade that was decided against comes from true bars, but its stop and target are the model's: with tight stops and
near targets, every one of them would have won.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import memtape
from memtape.plugs.clock import FixedClock
from memtape.surfaces.caller import Caller
from memtape.surfaces.registry import find, perform

NOW = datetime(2026, 6, 1, 9, tzinfo=UTC)
SITUATION = {"regime": "ranging", "session": "london"}
MODEL, OWNER = Caller("model", "gold", bound=True), Caller("owner", "gold")


@pytest.fixture
def recalled(tmp_path: Path) -> dict[str, Any]:
    """What is recalled after 20 losses, and 60 decisions of the model against trades that then would have won."""
    with memtape.open(str(tmp_path / "desk.db"), clock=FixedClock(NOW)) as memory:
        memory.create_skill("breakout")
        memory.create_agent("gold", skill="breakout", mode="paper")
        for n in range(20):
            at = NOW - timedelta(days=2 + n)
            perform(memory, find("observe_trade"), {
                "trade_id": f"t{n}", "symbol": "XAUUSD", "side": "long", "entry_at": at.isoformat(), "qty": "1", "entry_price": "100",
                "exit_at": (at + timedelta(hours=1)).isoformat(), "exit_price": "98", "stop": "98", "situation": SITUATION,
                "backfill": True,
            }, OWNER)  # fmt: skip
        for n in range(60):
            perform(memory, find("record_decision"), {
                "id": f"against-{n}", "action": "no_trade", "symbol": "XAUUSD", "side": "long", "reason": "waiting", "entry_price": 100,
                "stop": 99.8, "target": 101 + n / 100, "situation": SITUATION,
            }, MODEL)  # fmt: skip
        memory.resources.clock.at = NOW + timedelta(hours=4)
        bars = [
            {"symbol": "XAUUSD", "t0": (NOW + timedelta(hours=h)).isoformat(), "t1": (NOW + timedelta(hours=h + 1)).isoformat(),
             "o": str(100 + h), "h": str(102 + h), "l": str(99.9 + h), "c": str(101 + h)} for h in range(3)
        ]  # fmt: skip
        perform(memory, find("observe_bars"), {"bars": bars}, OWNER)
        return perform(memory, find("recall_memories"), {"context": SITUATION, "symbol": "XAUUSD"}, OWNER)


def test_trades_decided_against_take_four_of_ten_places_of_a_recall(recalled: dict[str, Any]) -> None:
    texts = [json.dumps(row) for row in recalled["ranked"]]
    assert len(texts) == 10 and sum("was not traded" in text for text in texts) == 4


def test_sixty_decisions_against_one_entry_are_one_missed_trade(recalled: dict[str, Any]) -> None:
    assert recalled["evidence"]["shadows"]["n"] == 1
    assert recalled["evidence"]["n"] == 20 and recalled["evidence"]["mean_r"] < 0
