"""All golden ledger cases, by the pure function over the whole event list (tests/conformance runs them on each store)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests import desk

GOLDEN = Path(__file__).parents[2] / "golden"
CASES: list[dict[str, Any]] = [
    case for name in ("ledger_golden.json", "ledger_money_golden.json") for case in json.loads((GOLDEN / name).read_text())["cases"]
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: str(case["name"]))
def test_the_pure_fold_of_the_whole_list_gives_the_golden_rows(case):
    got = desk.folded_whole(case["inputs"]["ticks"], case["inputs"]["config"])
    assert desk.ledger_differences(case["expected"], got) == []
