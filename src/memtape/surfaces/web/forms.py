"""What somebody typed: the fields of a form or an address, and the question to an operation that they make."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar
from urllib.parse import parse_qsl, urlencode

from pydantic import BaseModel, ValidationError

from memtape.core.values import invalid_from
from memtape.errors import FieldProblem, Invalid, MemtapeError

MAX_FORM_FIELDS = 48

Question = TypeVar("Question", bound=BaseModel)


def read_question(model: type[Question], /, **fields: object) -> Question:
    """The question to an operation, from values that somebody typed; raises `Invalid` with the field that is wrong."""
    try:
        return model.model_validate(fields)
    except ValidationError as error:
        raise invalid_from(error, model.model_json_schema) from None


def row_fields(row: object) -> dict[str, Any]:
    """The fields of an answer or of a row of one, by name, as its JSON has them."""
    assert isinstance(row, BaseModel)
    return row.model_dump()


def form_fields(body: bytes) -> dict[str, str]:
    """The fields of a form. A body that is no form, or has far too many fields, gives none.

    >>> form_fields(b"plan_id=half+size&why=")
    {'plan_id': 'half size', 'why': ''}
    >>> form_fields(b"&".join([b"a=1"] * 99))
    {}
    """
    try:
        return dict(parse_qsl(body.decode(), keep_blank_values=True, max_num_fields=MAX_FORM_FIELDS))
    except ValueError:
        return {}


def field_problems(error: MemtapeError) -> dict[str, str]:
    """What is wrong, by the field of the form that it belongs to; a part of a field counts as the field.

    >>> field_problems(Invalid("members.0", "is no agent", "Leave it out", FieldProblem("id", "is taken")))
    {'members': 'is no agent. Leave it out', 'id': 'is taken'}
    """
    if isinstance(error, Invalid):
        problems = list(error.errors)
    else:
        field, text = str(error.facts.get("field", "")), str(error)
        problems = [FieldProblem(field, text.removeprefix(f"{field}: "))]
    found: dict[str, str] = {}
    for each in problems:
        field = each.field.partition(".")[0]
        text = each.problem + (f". {each.fix}" if each.fix else "")
        found[field] = f"{found[field]}; {text}" if field in found else text
    return found


def chosen_fields(fields: Mapping[str, str], *names: str) -> dict[str, str]:
    """The named fields that are not empty.

    >>> chosen_fields({"reason": "", "lesson_id": "l1", "else": "x"}, "reason", "lesson_id")
    {'lesson_id': 'l1'}
    """
    return {name: fields[name] for name in names if fields.get(name)}


def whole_number(name: str, text: str) -> int | None:
    """A whole number as it was typed; an empty text is None.

    >>> whole_number("head", "12"), whole_number("head", "")
    (12, None)
    """
    if not text:
        return None
    if not (text.isascii() and text.isdigit() and len(text) < 10):
        raise Invalid(name, "is not a whole number", "Write it like 12")
    return int(text)


def query_text(fields: Mapping[str, object]) -> str:
    """Fields as the query of an address, without those that are empty.

    >>> query_text({"path": "a b.md", "start": 12, "hash": "", "end": None})
    'path=a+b.md&start=12'
    """
    return urlencode({name: value for name, value in fields.items() if value not in ("", None)})
