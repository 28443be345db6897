"""The output schema of an operation says what is in its answers: every recorded answer fits it."""

from __future__ import annotations

import gzip
import json
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any, Literal

import jsonschema
import pytest

from memtape.core.ledger.trades import Trade
from memtape.surfaces.answer_models import answer_model
from memtape.surfaces.registry import all_operations, result_schema
from tests.recorded_names import by_todays_names

FIXTURE = Path(__file__).parents[1] / "fixtures" / "store_0_1.json.gz"


@pytest.fixture(scope="module")
def recorded() -> dict[str, list[Any]]:
    """The answers of a recorded store, by operation."""
    found = json.loads(gzip.decompress(FIXTURE.read_bytes()))
    rows = [(name, answer) for name, _, answer in found["answers"] + found["documents"]]
    rows += [(name, answer) for _, name, _, answer in found["receipts"]]
    by_name: dict[str, list[Any]] = {}
    for name, answer in rows:
        if answer is not None and "refused" not in answer:
            by_name.setdefault(name, []).append(by_todays_names(answer))
    return by_name


# Fields that answers have gained since the store was recorded.
NEWER = {
    *Trade._fields[Trade._fields.index("exit_item") :], "closed", "open", "all",
    "n_known", "open_n", "open_realized_pnl_usd", "open_fees_usd", "open_funding_usd", "open_net_pnl_usd", "your_exposure", "unit", "n_trades",
    "chosen_by", "difference", "difference_90", "alike_in", "engine", "metrics", "parameters", "period", "now_path", "left_out",
    "missing", "last_seen", "state", "author", "path",
}  # fmt: skip


def as_recorded(schema: Any) -> Any:
    """A schema that does not ask for fields which did not exist when the answers were recorded."""
    if isinstance(schema, list):
        return [as_recorded(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    parts = {name: as_recorded(part) for name, part in schema.items()}
    if isinstance(schema.get("required"), list):
        parts["required"] = [name for name in schema["required"] if name not in NEWER]
    return parts


def test_every_recorded_answer_fits_its_output_schema(recorded):
    wrong = []
    for name, answers in recorded.items():
        validator = jsonschema.Draft202012Validator(as_recorded(result_schema(all_operations()[name])))
        for answer in answers:
            wrong += [f"{name}: {error.json_path} {error.message[:120]}" for error in validator.iter_errors(answer)]
    assert not wrong, "\n".join(sorted(set(wrong))[:20])


def objects_without_fields(schema: Any, at: str) -> list[str]:
    """The places of a schema that say no more than: an object."""
    if isinstance(schema, list):
        return [place for each in schema for place in objects_without_fields(each, at)]
    if not isinstance(schema, dict):
        return []
    bare = schema.get("type") == "object" and "properties" not in schema and schema.get("additionalProperties") is True
    found = [at] if bare else []
    for name, part in schema.items():
        found += objects_without_fields(part, at if name in ("properties", "items", "anyOf", "$defs") else f"{at}.{name}")
    return found


def test_only_free_forms_are_objects_without_fields():
    bare = {
        place.rpartition(".")[2]
        for name, known in all_operations().items()
        for place in objects_without_fields(result_schema(known), name)
    }
    # A recalled plan, parameters of a plan, the input of a tool, a JSON schema.
    assert bare == {"memory", "parameters", "input", "answer_schema", "changes"}


@dataclass(frozen=True)
class Leg:
    """A leg."""

    qty: Decimal
    note: str | None = None


@dataclass(frozen=True)
class Spread:
    """A spread."""

    at: datetime
    side: Literal["long", "short"]
    legs: tuple[Leg, ...]
    score: float | None


def test_a_model_has_the_fields_of_its_value_and_changes_nothing():
    row = answer_model(Spread, {"score": "0 to 1"})
    data = {"at": "2026-06-04T08:00:00Z", "side": "long", "legs": [{"qty": "0.5", "note": None}], "score": 1}
    assert json.dumps(row(**data).model_dump(mode="json")) == json.dumps(data)
    schema = row.model_json_schema(mode="serialization")
    assert list(schema["properties"]) == ["at", "side", "legs", "score"]
    assert schema["properties"]["side"]["enum"] == ["long", "short"]
    assert schema["properties"]["score"]["description"] == "0 to 1"
    assert datetime.fromisoformat(data["at"]).tzinfo == UTC


def test_a_sparse_model_leaves_out_what_was_not_given_and_keeps_the_order():
    row = answer_model(Spread, sparse=True)
    data = {"side": "short", "legs": [{"qty": "1"}], "at": "2026-06-04T08:00:00Z", "more": {"a": 1}}
    assert json.dumps(row(**data).model_dump(mode="json")) == json.dumps(data)
