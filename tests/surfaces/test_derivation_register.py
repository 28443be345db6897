"""An operation is read off a typed function; errors and typed text have one meaning on every surface."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from pydantic import BaseModel, ConfigDict, Field

from memtape import errors
from memtape.errors import Invalid, MemtapeError, Unknown
from memtape.surfaces.caller import Caller
from memtape.surfaces.cli.commands import Listed, listing
from memtape.surfaces.registry import (
    OPERATIONS,
    all_operations,
    execute,
    find,
    in_tool_set,
    operation,
    operations_page,
    params_schema,
)
from memtape.surfaces.translate import OUTCOMES, error_report, inputs, json_text, problem, read_json

from . import desk
from .desk import DESK, Desk


@pytest.fixture
def memory(tmp_path: Path) -> Desk:
    return Desk(tmp_path / "desk.json")


def test_an_operation_is_read_off_its_function():
    place = DESK["place_order"]
    assert (place.params, place.result, place.writes) == (desk.PlaceOrder, desk.Placed, True)
    assert (place.summary, place.title, place.aliases) == ("Place an order.", "Place order", ("submit_order",))
    assert place.tools == {"trader"}
    assert not set(DESK) & set(OPERATIONS), "the desk keeps its own register"


class Loose(BaseModel):
    note: str = Field(description="A note.")


class Undescribed(BaseModel):
    model_config = ConfigDict(extra="forbid")
    note: str


def loose(memory: Desk, ask: Loose, caller: Caller) -> Loose:
    """Takes anything."""
    return ask


def undescribed(memory: Desk, ask: Undescribed, caller: Caller) -> Undescribed:
    """Says nothing of its fields."""
    return ask


def silent(memory: Desk, ask: desk.Trouble, caller: Caller) -> Loose:
    return Loose(note="")


@pytest.mark.parametrize(
    ("function", "why"),
    [(loose, "must forbid extra fields"), (undescribed, "has no description"), (silent, "has no docstring")],
)
def test_an_operation_that_could_not_be_documented_or_checked_is_refused_at_once(function, why):
    with pytest.raises(TypeError, match=why):
        operation(writes=False, into={})(function)


def test_a_name_or_alias_is_given_only_once():
    with pytest.raises(TypeError, match="submit_order is taken"):
        operation(writes=False, aliases=("submit_order",), into=dict(DESK))(desk.list_orders)
    with pytest.raises(TypeError, match="no tool set night_shift"):
        operation(writes=False, tools={"night_shift"}, into={})(desk.list_orders)


def test_data_goes_in_and_plain_json_comes_out(memory):
    placed = execute(memory, "place_order", {"symbol": "BTC", "side": "long", "qty": 0.5}, operations=DESK)
    assert placed["qty"] == "0.5" and placed["at"] is None and placed["duplicate"] is False
    late = {"symbol": "BTC", "side": "long", "qty": 1, "at": "2026-06-04T10:00:00+02:00"}
    assert execute(memory, "submit_order", late, operations=DESK)["at"] == "2026-06-04T08:00:00Z"


@pytest.mark.parametrize(
    ("data", "said"),
    [
        ({"symbol": "BTC", "side": "up", "qty": 1}, "side: should be 'long' or 'short'"),
        ({"symbol": "BTC", "side": "long", "qty": "NaN"}, "qty: should be a finite number"),
        ({"symbol": "BTC", "side": "long", "qty": 1, "sise": 2}, "sise: unknown field. Did you mean side?"),
        ({"symbol": "BTC", "side": "long"}, "qty: required (number)"),
        ({"symbol": "BTC", "side": "long", "qty": 1, "legs": [{"ratio": 1}]}, "legs.0.symbol: required"),
        ([], "input: is not a JSON object"),
        (None, "input: is not a JSON object"),
    ],
)
def test_wrong_data_is_refused_by_field_and_fix(memory, data, said):
    with pytest.raises(Invalid) as refused:
        execute(memory, "place_order", data, operations=DESK)
    assert str(refused.value).startswith(said)
    assert memory.orders() == {}


def test_every_wrong_field_is_listed_and_a_flood_of_them_is_counted(memory):
    with pytest.raises(Invalid) as refused:
        execute(memory, "place_order", {"legs": [{"ratio": 1}] * 100}, operations=DESK)
    lines = str(refused.value).splitlines()
    assert lines[:3] == ["symbol: required", "side: required (long or short)", "qty: required (number)"]
    assert len(lines) == 51 and lines[-1] == "input: 53 more problems"


def test_an_unknown_operation_names_its_neighbours():
    with pytest.raises(Unknown, match="Did you mean list_orders"):
        find("list_order", DESK)


def test_a_surface_speaks_for_its_agent_unless_the_data_names_one(memory):
    order = {"symbol": "BTC", "side": "long", "qty": 1}
    assert execute(memory, "place_order", order, agent="apple", operations=DESK)["agent"] == "apple"
    assert execute(memory, "place_order", order | {"agent": "pear"}, agent="apple", operations=DESK)["agent"] == "pear"
    assert execute(memory, "make_trouble", {"kind": "slow"}, agent="apple", operations=DESK)["count"] == 1


def test_a_tool_set_holds_its_own_and_full_holds_all():
    assert set(in_tool_set(DESK, "trader", Caller("model"))) == {"place_order", "list_orders"}
    assert set(in_tool_set(DESK, "full", Caller("model"))) == set(DESK)
    with pytest.raises(Invalid, match=r"tools: there is no tool set 'night'\. Choose one of full, trader, coach"):
        in_tool_set(DESK, "night", Caller("model"))  # type: ignore[arg-type]


def test_the_reference_has_a_paragraph_for_every_operation_and_a_row_for_every_field():
    page = operations_page(DESK.values())
    for known in DESK.values():
        assert f"## {known.name}" in page and known.doc in page
        assert all(f"`{name}`" in page for name in [*known.params.model_fields, *known.result.model_fields])
    assert "| `side` (required) | long\\|short | Which way. |" in page


def test_the_list_for_help_is_the_register_read_without_importing_it():
    found = listing(Path(desk.__file__))
    assert [each.name for each in found] == list(DESK)
    assert found[0] == Listed("place_order", "desk", "Place an order.", True, ("submit_order",))
    assert all((DESK[each.name].summary, DESK[each.name].writes) == (each.summary, each.writes) for each in found)


def test_the_list_of_memtape_itself_is_its_register():
    registered = dict(all_operations())
    assert {each.name: (each.summary, each.writes, each.aliases) for each in listing()} == {
        known.name: (known.summary, known.writes, known.aliases) for known in registered.values()
    }


# Errors


def kinds(of: type[MemtapeError] = MemtapeError) -> Iterator[type[MemtapeError]]:
    yield of
    for kind in of.__subclasses__():
        if kind.__module__ == errors.__name__:
            yield from kinds(kind)


def test_every_error_has_its_row():
    assert set(OUTCOMES) == set(kinds())
    assert all(400 <= row.status < 600 and 1 <= row.exit_code <= 4 for row in OUTCOMES.values())


def test_a_new_kind_of_error_is_reported_as_its_parent():
    class Stale(errors.Conflict):
        """{field}: {problem}. {fix}"""

    assert error_report(Stale("head", "moved", "Read again")).status == 409


def test_a_problem_says_what_is_wrong_where_and_how_to_mend_it():
    told = problem(errors.OlderSchema(url="x.db", found=1, known=2))
    assert told["type"] == "urn:memtape:problem:older-schema" and "memtape migrate" in str(told["detail"])
    assert "field" not in told
    told = problem(Unknown("agent", "agent", "zed", "Create it first"))
    assert (told["field"], told["fix"], told["status"]) == ("agent", "Create it first", 404)


# Text


def test_fields_are_typed_by_what_they_hold():
    forms = {field.name: (field.kind, field.form) for field in inputs(params_schema(DESK["place_order"]))}
    assert forms == {
        "symbol": ("text", "TEXT"),
        "side": ("text", "long|short"),
        "qty": ("text", "NUMBER"),
        "id": ("text", "TEXT"),
        "legs": ("json", "JSON"),
        "tags": ("list", "TEXT"),
        "at": ("text", "TIME"),
        "agent": ("text", "TEXT"),
    }
    kinds = {field.name: field.kind for field in inputs(params_schema(DESK["list_orders"]))}
    assert (kinds["open_only"], kinds["where"], kinds["tags"], kinds["limit"]) == ("flag", "json", "list", "text")


def test_a_field_that_may_be_text_or_an_object_takes_either():
    class Mixed(BaseModel):
        when: str | dict[str, int]

    (field,) = inputs(Mixed.model_json_schema())
    assert (field.kind, field.form) == ("either", "TEXT|JSON")
    assert field.read(["now"]) == "now" and field.read(['{"hour": 8}']) == {"hour": 8}
    with pytest.raises(Invalid, match="when: is given 2 times"):
        field.read(["now", "then"])


@pytest.mark.parametrize(
    "text", ["{", b"\xff\xfe{}", '{"a": NaN}', "[" * 100_000, '"\\ud800"', '{"\\udfff": 1}', "9" * 5000, "[1e999]", ""]
)
def test_what_is_not_json_is_refused_and_never_a_crash(text):
    with pytest.raises(Invalid, match=r"^body: is (not|nested)"):
        read_json(text, "body")


def test_json_out_holds_what_it_was_given_and_no_terminal_obeys_it():
    data = {"note": "é \x9b31m \x7f \ud800 \x1b[0m"}
    text = json_text(data)
    assert json.loads(text) == data
    assert read_json(json_text({"a": [None, 1.5, "é"]}), "x") == {"a": [None, 1.5, "é"]}
    assert not any(sign in text for sign in "\x9b\x7f\ud800\x1b")
    with pytest.raises(ValueError):
        json_text(float("nan"))
