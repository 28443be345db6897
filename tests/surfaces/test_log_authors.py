"""Every new log row says who caused it and what it counts for; rows from before that count as the owner's."""

from __future__ import annotations

import json
from typing import Any

import pytest

import memtape
from memtape.core.authors import MODEL_AUTHOR, OWNER_AUTHOR, REPORTING_MODEL, VENUE_AUTHOR, author_of_payload
from memtape.core.items import OWNER_STREAM
from memtape.engine import Memory
from memtape.engine.proof.audit import rebuild_store, verify_store
from memtape.surfaces.caller import Caller
from memtape.surfaces.policy import POLICY, policy_of
from memtape.surfaces.registry import all_operations, find, perform

FILL = {"id": "f1", "t": "2026-06-01T09:00:00Z", "symbol": "BTC", "side": "buy", "qty": "1", "px": "100"}
CLAIM = {"symbol": "BTC", "direction": "long", "entry_price": 100, "exit_price": 110, "pnl": 10, "exit_at": "2026-06-01T10:00:00Z"}


@pytest.fixture
def memory() -> Memory:
    made = memtape.open(":memory:")
    made.create_skill("breakout")
    made.create_agent("gold", skill="breakout")
    made.create_agent("paper", skill="breakout", mode="sim")
    return made


def last_author(memory: Memory, stream: str) -> Any:
    with memory.resources.reading(stream) as tables:
        row = list(tables.log())[-1]
    assert row.payload is not None
    assert row.payload == json.dumps(json.loads(row.payload), sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return author_of_payload(json.loads(row.payload))


def test_a_row_names_the_caller_who_caused_it(memory):
    model, reporting = Caller("model", "gold", bound=True), Caller("model", "gold", bound=True, reports=True)
    perform(memory, find("remember_trade"), {**CLAIM, "agent": "gold"}, model)
    assert last_author(memory, "gold") == MODEL_AUTHOR
    perform(memory, find("record_decision"), {"agent": "gold", "action": "no_trade", "reason": "x"}, model)
    assert last_author(memory, "gold") == MODEL_AUTHOR
    perform(memory, find("record_decision"), {"agent": "gold", "action": "no_trade", "reason": "y"}, reporting)
    assert last_author(memory, "gold") == MODEL_AUTHOR
    perform(memory, find("observe_fill"), {**FILL, "agent": "gold"}, reporting)
    assert last_author(memory, "gold") == REPORTING_MODEL
    perform(memory, find("observe_fill"), {**FILL, "id": "f2", "agent": "gold"}, Caller("owner"))
    assert last_author(memory, "gold") == OWNER_AUTHOR
    event = {"id": "cpi", "t": "2026-07-01T12:30:00Z", "title": "CPI"}
    perform(memory, find("record_events"), {"events": [event]}, model)
    assert last_author(memory, OWNER_STREAM) == MODEL_AUTHOR
    perform(memory, find("record_events"), {"events": [event]}, Caller("owner"))
    assert last_author(memory, OWNER_STREAM) == OWNER_AUTHOR


def test_the_ticks_of_a_simulation_are_the_venues(memory):
    memory.agent("paper").observe({"id": "t1", "t": "2026-06-01T09:00:00Z", "positions": {}})
    assert last_author(memory, "paper") == VENUE_AUTHOR
    memory.agent("gold").said_by(VENUE_AUTHOR).observe({"id": "t1", "t": "2026-06-01T09:00:00Z", "positions": {}})
    assert last_author(memory, "gold") == VENUE_AUTHOR


def test_a_store_with_authors_verifies_and_rebuilds(memory):
    perform(memory, find("remember_trade"), {**CLAIM, "agent": "gold"}, Caller("model", "gold", bound=True))
    before = verify_store(memory)
    assert before.ok
    rebuild_store(memory)
    assert verify_store(memory).digests == before.digests


def test_the_page_of_policies_lists_every_operation():
    from pathlib import Path

    text = Path("docs/reference/permissions.md").read_text()
    for name, known in all_operations().items():
        assert f"| `{name}` |" in text, name
        assert name in POLICY and policy_of(known)
