"""All golden vectors of outcome-weighted memory, through the product's own functions."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from memtape.lab.conform import is_near
from memtape.lab.formulas import FORMULAS

VECTORS: list[dict[str, Any]] = json.loads((Path(__file__).parents[2] / "golden/owm_golden.json").read_text())


@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: vector["name"])
def test_the_product_gives_the_golden_answer(vector):
    got = FORMULAS[vector["op"]](vector["inputs"])
    assert is_near(vector["expected"], got, vector["tol"]), f"expected {vector['expected']}, got {got}"


def test_every_operation_that_answers_is_pinned_by_a_vector():
    assert {vector["op"] for vector in VECTORS} == FORMULAS.keys()


@pytest.mark.parametrize(
    ("want", "have"),
    [(1.0, 1.1), (1, True), (True, 1), (None, 0), (0.0, None), ("a", "b"), ([1], [1, 2]), ({"a": 1}, {}), ({"a": 1}, {"a": "1"})],
)
def test_an_answer_that_differs_is_noticed(want, have):
    assert not is_near(want, have, 1e-9)
