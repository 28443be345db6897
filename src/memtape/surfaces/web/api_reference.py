"""The OpenAPI document in the form that the pages of /docs show: operations by group, and the fields of each in words."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

JsonSchema = Mapping[str, Any]
FORMATS = {"date-time": "time", "date": "date"}
START = "/v1/"
UNLIMITED = 2**53  # a limit of JSON's numbers tells a reader nothing
# By the first words of a form; everything else is text.
EXAMPLE_VALUES = {"list of": "[]", "whole number": "1", "number": "1", "object": "{}", "time": '"2026-01-05T08:00:00Z"'}


@dataclass(frozen=True, slots=True)
class ApiField:
    """One field of what an operation takes or returns."""

    name: str
    form: str  # what to write, like "text" or "long | short"
    required: bool
    help: str
    default: str


@dataclass(frozen=True, slots=True)
class ApiOperation:
    """One operation as its page shows it."""

    name: str
    group: str
    summary: str
    text: str
    writes: bool
    takes: tuple[ApiField, ...]
    returns: tuple[ApiField, ...]
    example: str  # a command that calls it

    @property
    def address(self) -> str:
        return START + self.name


def api_operations(document: Mapping[str, Any]) -> dict[str, ApiOperation]:
    """The operations of an OpenAPI document by name."""
    schemas = document["components"]["schemas"]
    found: dict[str, ApiOperation] = {}
    for path, methods in document["paths"].items():
        name = path.removeprefix(START)
        if "/" in name or "post" not in methods:
            continue
        post = methods["post"]
        takes = tuple(_fields(_json_schema(post["requestBody"]), schemas))
        returns = tuple(_fields(_json_schema(post["responses"]["200"]), schemas))
        found[name] = ApiOperation(
            name, post["tags"][0], post["summary"], post["description"], "get" not in methods, takes, returns,
            _example(name, "get" not in methods, takes),
        )  # fmt: skip
    return found


def operations_by_group(operations: Mapping[str, ApiOperation]) -> dict[str, list[ApiOperation]]:
    """The operations of each group, both in the order of their names."""
    groups: dict[str, list[ApiOperation]] = {}
    for each in sorted(operations.values(), key=lambda each: (each.group, each.name)):
        groups.setdefault(each.group, []).append(each)
    return groups


def _json_schema(body: Mapping[str, Any]) -> JsonSchema:
    schema: JsonSchema = body["content"]["application/json"]["schema"]
    return schema


def _fields(schema: JsonSchema, schemas: JsonSchema) -> Iterator[ApiField]:
    whole = _resolved(schema, schemas)
    required = set(whole.get("required", ()))
    for name, field in whole.get("properties", {}).items():
        default = field.get("default")
        shown = "" if default is None else json.dumps(default, ensure_ascii=False)
        help_ = field.get("description") or _resolved(field, schemas).get("description", "")
        yield ApiField(name, form_in_words(field, schemas), name in required, help_, shown)


def _resolved(schema: JsonSchema, schemas: JsonSchema) -> JsonSchema:
    if "$ref" in schema:
        return _resolved(schemas[schema["$ref"].rpartition("/")[2]], schemas)
    return schema


def form_in_words(schema: JsonSchema, schemas: JsonSchema) -> str:
    """What may be written for a field.

    >>> form_in_words({"anyOf": [{"type": "string", "maxLength": 64}, {"type": "null"}]}, {})
    'text, at most 64 characters'
    >>> form_in_words({"type": "array", "items": {"enum": ["long", "short"]}}, {})
    'list of long | short'
    """
    schema = _resolved(schema, schemas)
    if "const" in schema:
        return str(schema["const"])
    if "enum" in schema:
        return " | ".join(str(each) for each in schema["enum"])
    if choices := schema.get("anyOf") or schema.get("oneOf"):
        forms = [form_in_words(each, schemas) for each in choices if each.get("type") != "null"]
        return " or ".join(dict.fromkeys(forms))
    kind = schema.get("type")
    if kind == "array":
        return f"list of {form_in_words(schema.get('items', {}), schemas)}"
    if kind == "string":
        limit = f", at most {schema['maxLength']} characters" if "maxLength" in schema else ""
        return FORMATS.get(schema.get("format", ""), "text") + limit
    words = {"integer": "whole number", "number": "number", "boolean": "true | false", "object": "object"}
    return words.get(str(kind), "any JSON") + _range(schema)


def _range(schema: JsonSchema) -> str:
    low, high = schema.get("minimum"), schema.get("maximum")
    if high is not None and high >= UNLIMITED:
        high = None
    if low is not None and high is not None:
        return f", {low} to {high}"
    if low is not None:
        return f", at least {low}"
    return f", at most {high}" if high is not None else ""


def _example(name: str, writes: bool, takes: tuple[ApiField, ...]) -> str:
    """A command that calls an operation with the fields that it needs."""
    body = ", ".join(f'"{field.name}": {_example_value(field)}' for field in takes if field.required)
    if not body and not writes:
        return f"curl http://127.0.0.1:8765{START}{name}"
    return f"curl http://127.0.0.1:8765{START}{name} -H 'Content-Type: application/json' -d '{{{body}}}'"


def _example_value(field: ApiField) -> str:
    if " | " in field.form and not field.form.startswith("list of"):
        first = field.form.partition(" | ")[0]
        return first if first in ("true", "false") else f'"{first}"'
    return next((value for start, value in EXAMPLE_VALUES.items() if field.form.startswith(start)), f'"{field.name.upper()}"')
