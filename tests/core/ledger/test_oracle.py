"""The second opinion gives every golden ledger, of both files, in full."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests import oracle

GOLDEN = Path(__file__).parents[2] / "golden"
PLAIN: list[dict[str, Any]] = json.loads((GOLDEN / "ledger_golden.json").read_text(encoding="utf-8"))["cases"]
MONEY: list[dict[str, Any]] = json.loads((GOLDEN / "ledger_money_golden.json").read_text(encoding="utf-8"))["cases"]
MOMENTS = [(case, moment) for case in MONEY for moment in case.get("expected_as_of", [])]


def by_name(value: object) -> str | None:
    return str(value["name"]) if isinstance(value, dict) and "name" in value else None


def spoken(ledger: dict[str, Any]) -> dict[str, Any]:
    """A ledger without what the golden file does not compare: the wording of refusals."""
    refused = [{name: one[name] for name in ("snapshot_id", "field")} for one in ledger["refused"]]
    return {name: value for name, value in ledger.items() if name != "as_of"} | {"refused": refused}


@pytest.mark.parametrize("case", PLAIN, ids=by_name)
def test_a_plain_history_gives_its_golden_rows(case: dict[str, Any]) -> None:
    assert oracle.rows(case["inputs"]["ticks"], case["inputs"]["config"]) == case["expected"]


@pytest.mark.parametrize("case", MONEY, ids=by_name)
def test_a_money_history_gives_its_golden_ledger(case: dict[str, Any]) -> None:
    assert spoken(oracle.ledger(case["inputs"]["ticks"], case["inputs"]["config"])) == spoken(case["expected"])


@pytest.mark.parametrize(("case", "moment"), MOMENTS, ids=by_name)
def test_a_money_history_gives_what_was_known_at_a_moment(case: dict[str, Any], moment: dict[str, Any]) -> None:
    got = oracle.ledger(case["inputs"]["ticks"], case["inputs"]["config"], as_of=moment["as_of"])
    assert spoken(got) == spoken(moment)
