"""The golden ledger, tick by tick, with memtape closed and opened again before every tick: nothing lives in memory only."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from memtape.engine import Memory
from memtape.engine.proof.audit import verify_store
from tests.desk import given_agent, ledger_differences, plain_tick, rows_of

CASES: list[dict[str, Any]] = json.loads(
    (Path(__file__).parents[1] / "golden" / "ledger_golden.json").read_text(encoding="utf-8")
)["cases"]


def test_there_are_thirty_six_cases() -> None:
    assert len(CASES) == 36


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
    assert ledger_differences(case["expected"], rows_of(memory.agent("desk"))) == []
    assert verify_store(memory).ok
