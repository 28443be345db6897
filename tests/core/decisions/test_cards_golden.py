"""All golden vectors of decisions, sessions, schedules, facts and events, through the product's own functions."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from memtape.lab.card_formulas import CARD_FORMULAS
from memtape.lab.conform import is_near, run_vectors
from memtape.lab.formulas import FORMULAS

FILE = Path(__file__).parents[2] / "golden/cards_golden.json"
VECTORS: list[dict[str, Any]] = json.loads(FILE.read_text(encoding="utf-8"))["vectors"]
# Outcomes of decisions have their own fold and their own tests.



@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: f"{vector['op']}: {vector['name']}")
def test_the_product_gives_the_golden_answer(vector):
    got = CARD_FORMULAS[vector["op"]](vector["inputs"])
    assert is_near(vector["expected"], got, vector["tol"]), f"expected {vector['expected']}, got {got}"


def test_every_operation_that_answers_is_pinned_by_a_vector():
    assert CARD_FORMULAS.keys() <= {vector["op"] for vector in VECTORS}
    assert CARD_FORMULAS.keys().isdisjoint(FORMULAS)


def test_conform_runs_a_file_of_rules_and_vectors(tmp_path):
    good = next(vector for vector in VECTORS if vector["op"] == "schedule_due")
    wrong = good | {"name": "wrong", "expected": good["expected"] | {"due": not good["expected"]["due"]}}
    unknown = good | {"name": "unknown", "op": "read_tea_leaves"}
    unreadable = good | {"name": "unreadable", "inputs": good["inputs"] | {"now": "noon"}}
    (tmp_path / "cards.json").write_text(json.dumps({"rules": {}, "vectors": [good, wrong, unknown, unreadable]}))
    found = run_vectors(tmp_path / "cards.json")
    assert (found["total"], found["passed"]) == (4, 1)
    assert [each["name"] for each in found["failed"]] == ["wrong", "unknown", "unreadable"]
    assert found["failed"][1]["got"] == "no operation 'read_tea_leaves'"
