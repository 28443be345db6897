"""An operation that reads looks its agent up and answers in one read transaction: its answer is of one state of the store."""

from __future__ import annotations

from contextlib import suppress

import pytest

from memtape.engine import Memory
from memtape.errors import Conflict, Unknown
from memtape.surfaces.registry import all_operations, execute
from tests.engine.counter import Counter
from tests.engine.desk_with_history import desk_with_history

TRADE = "the id of a trade"
NEEDED = {  # what an operation must be asked beside the agent; what is not there is answered from the same transaction
    "show_agent": {"id": "desk"}, "show_skill": {"id": "breakout"}, "get_trade": {"trade_id": TRADE},
    "get_trade_reflection": {"trade_id": TRADE}, "explain_memory": {"memory_id": TRADE}, "get_belief": {"belief_id": "none"},
    "get_shown_brief": {"digest": "none"}, "get_proposal": {"proposal_id": "none"}, "search_documents": {"query": "stop"},
    "get_document": {"path": "none.md"}, "find_similar_reports": {"path": "none.json"},
    "verify_citation": {"path": "none.md", "start_line": 1, "end_line": 1, "content_hash": "none"},
    "pre_trade_check": {"symbol": "BTC", "direction": "long"}, "get_run": {"run": "none"}, "get_decision": {"decision": "none"},
    "list_reexaminations": {"run": "none"}, "get_chat": {"chat": "none"}, "get_outcome": {"decision": "d3"},
    "get_skill_performance": {"skill_id": "breakout", "detail": "full"},
    "get_my_deployments": {"detail": "full"}, "get_upcoming_events": {"deploymentId": "desk"},
}  # fmt: skip


def test_every_operation_that_reads_opens_one_read_transaction(memory: Memory, monkeypatch: pytest.MonkeyPatch) -> None:
    agent = desk_with_history(memory)
    trade = agent.ledger.trades(status="closed")[0].id
    reading = [known for known in all_operations().values() if not known.writes]
    opened: dict[str, int] = {}
    for known in reading:
        asked = {"agent": "desk"} if "agent" in known.params.model_fields else {}
        asked |= {name: trade if value == TRADE else value for name, value in NEEDED.get(known.name, {}).items()}
        with monkeypatch.context() as patched:
            counter = Counter(memory.resources, patched)
            with suppress(Unknown, Conflict):
                execute(memory, known.name, asked)
            opened[known.name] = counter.transactions
    assert opened == {known.name: 1 for known in reading}


def test_the_operation_get_brief_runs_at_most_45_statements(memory: Memory, monkeypatch: pytest.MonkeyPatch) -> None:
    desk_with_history(memory, trades=60)
    counter = Counter(memory.resources, monkeypatch)
    execute(memory, "get_brief", {"agent": "desk", "symbol": "BTC"})
    assert len(counter.statements) <= 45, "\n".join(counter.statements)
