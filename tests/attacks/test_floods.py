"""A model that calls a tool without end is refused after the most of one day, with the count; the owner is not."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

import memtape
from memtape.core import model_limits
from memtape.engine import Memory
from memtape.engine.proof.audit import verify_store
from memtape.errors import PermissionDenied
from memtape.plugs.clock import FixedClock
from memtape.surfaces.caller import Caller
from memtape.surfaces.registry import find, perform

NOW = datetime(2026, 6, 1, 9, tzinfo=UTC)
MODEL, OWNER = Caller("model", "gold", bound=True), Caller("owner", "gold")
CALLS: dict[str, tuple[str, Any]] = {
    "plan": ("create_trading_plan", lambda n: {"trigger_condition": {"regime": "ranging"}, "planned_action": {"type": "alert"}, "reasoning": f"r{n}"}),
    "claim": ("remember_trade", lambda n: {"trade_id": f"c{n}", "symbol": "BTC", "direction": "long", "entry_price": 100, "exit_price": 90, "pnl": -10}),
    "document_note": ("append_note", lambda n: {"run": "r1", "kind": "note", "text": f"note {n}"}),
    "belief": ("state_belief", lambda n: {"sentence": f"b{n}", "validity_conditions": {"regime": "ranging"}, "value": n}),
    "event": ("record_events", lambda n: {"events": [{"id": f"e{n}", "t": "2026-07-01T12:00:00Z", "title": "CPI"}]}),
}  # fmt: skip


@pytest.fixture
def memory(store_url: str, monkeypatch: pytest.MonkeyPatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    with memtape.open(store_url, clock=FixedClock(NOW)) as made:
        made.create_skill("breakout")
        made.create_agent("gold", skill="breakout")
        made.create_agent("silver", skill="breakout")
        yield made


@pytest.mark.parametrize("kind", CALLS)
def test_a_flood_is_refused_with_its_count(memory: Memory, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model_limits, "MODEL_ROWS_PER_DAY", few := {**model_limits.MODEL_ROWS_PER_DAY, kind: 5})
    monkeypatch.setattr("memtape.engine.write.log_writer.MODEL_ROWS_PER_DAY", few)
    name, data = CALLS[kind]
    for n in range(3):
        perform(memory, find(name), data(100 + n), OWNER)
    for n in range(5):
        perform(memory, find(name), data(n), MODEL)
    heads = memory.agent("gold").head()
    with pytest.raises(PermissionDenied, match=r"a model has recorded 5 .* today, the most of one day"):
        perform(memory, find(name), data(5), MODEL)
    assert memory.agent("gold").head() == heads and verify_store(memory).ok
    perform(memory, find(name), data(6), OWNER)
    if kind != "event":
        perform(memory, find(name), data(7), Caller("model", "silver", bound=True))
    memory.resources.clock.at = NOW + timedelta(days=1)
    perform(memory, find(name), data(8), MODEL)


def test_a_fact_is_not_forgotten_and_remembered_without_end(memory: Memory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model_limits, "MODEL_ROWS_PER_DAY", few := {**model_limits.MODEL_ROWS_PER_DAY, "fact_archived": 5})
    monkeypatch.setattr("memtape.engine.write.log_writer.MODEL_ROWS_PER_DAY", few)
    fact = {"fact": "You hold gold over night"}
    for _ in range(5):
        perform(memory, find("forget"), {"fact_id": perform(memory, find("remember"), fact, MODEL)["id"]}, MODEL)
    again = perform(memory, find("remember"), fact, MODEL)
    with pytest.raises(PermissionDenied, match="recorded 5 archived facts for it today"):
        perform(memory, find("forget"), {"fact_id": again["id"]}, MODEL)


def test_a_batch_over_the_limit_is_refused_whole(memory: Memory) -> None:
    events = [{"id": f"e{n}", "t": "2026-07-01T12:00:00Z", "title": "CPI"} for n in range(2001)]
    with pytest.raises(PermissionDenied, match="2000 events"):
        perform(memory, find("record_events"), {"events": events}, MODEL)
    assert memory.events() == []
