"""All golden ledger cases, by the pure function over the whole event list and by the engine, tick by tick."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from memtape.engine.proof.audit import rebuild_store, verify_store
from memtape.store.sqlite import SqliteDatabase
from tests import desk, oracle

CASES: list[dict[str, Any]] = json.loads((Path(__file__).parent.parent / "golden/ledger_golden.json").read_text())["cases"]


@pytest.fixture(params=CASES, ids=lambda case: case["name"])
def case(request: pytest.FixtureRequest) -> dict[str, Any]:
    return dict(request.param)


def test_the_pure_fold_of_the_whole_list_gives_the_golden_rows(case):
    got = desk.folded_whole(case["inputs"]["ticks"], case["inputs"]["config"])
    assert desk.ledger_differences(case["expected"], got) == []


def test_the_engine_restarted_before_every_tick_gives_the_golden_rows(case, tmp_path):
    path = str(tmp_path / "desk.db")
    desk.given_agent(desk.given_memory(SqliteDatabase(path)), case["inputs"]["config"])
    for tick in case["inputs"]["ticks"]:
        with desk.given_memory(SqliteDatabase(path)) as memory:
            memory.agent("desk").observe(desk.plain_tick(tick))
    with desk.given_memory(SqliteDatabase(path)) as memory:
        agent = memory.agent("desk")
        assert desk.ledger_differences(case["expected"], desk.rows_of(agent)) == []
        assert desk.rows_of(agent, head=agent.head().seq) == desk.rows_of(agent)
        before = verify_store(memory)
        assert before.problems == []
        rebuild_store(memory)
        assert verify_store(memory).digests == before.digests


def test_the_second_opinion_agrees_with_the_golden_rows(case):
    got = oracle.rows(case["inputs"]["ticks"], case["inputs"]["config"])
    assert got["rows"] == case["expected"]["rows"]
