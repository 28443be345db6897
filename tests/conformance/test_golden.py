"""The golden ledger, tick by tick, with memtape closed and opened again before every tick: nothing lives in memory only.

Each history runs once on each store, and ends in the same digests on both.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from memtape.core.codec import read_time
from memtape.engine import Memory
from memtape.engine.proof.audit import rebuild_store, verify_store
from tests.desk import given_agent, ledger_differences, plain_tick, rows_of

GOLDEN = Path(__file__).parents[1] / "golden"
CASES: list[dict[str, Any]] = [
    case
    for name in ("ledger_golden.json", "ledger_money_golden.json")
    for case in json.loads((GOLDEN / name).read_text(encoding="utf-8"))["cases"]
]

DIGESTS: dict[str, dict[str, str]] = {}  # of each case, on the store that it ran on first


def test_there_are_seventy_cases() -> None:
    assert len(CASES) == 36 + 34


@pytest.mark.parametrize("case", CASES, ids=lambda case: str(case["name"]))
def test_a_golden_history_survives_a_restart_before_every_tick(
    case: dict[str, Any], opened: Callable[..., Memory], store_url: str
) -> None:
    memory = opened(store_url)
    given_agent(memory, case["inputs"]["config"])
    for tick in case["inputs"]["ticks"]:
        memory.close()
        memory = opened(store_url)
        memory.agent("desk").observe(plain_tick(tick))
    agent = memory.agent("desk")
    rows = rows_of(agent)
    assert ledger_differences(case["expected"], rows) == []
    assert rows_of(agent, head=agent.head().seq) == rows
    for past in case.get("expected_as_of", ()):
        assert ledger_differences(past, rows_of(agent, as_of=read_time(past["as_of"]))) == []
    found = verify_store(memory)
    assert found.problems == []
    rebuild_store(memory)
    assert verify_store(memory).digests == found.digests
    assert DIGESTS.setdefault(case["name"], found.digests) == found.digests
