"""A JSON schema in the form that providers enforce. They take a part of the language only, and refuse a request with more."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

# What all providers take. Anything else, like a limit, is not enforced while the model writes: it stands in the description, and
# the answer is checked afterwards anyway.
KEYWORDS = frozenset(
    {"type", "enum", "const", "properties", "required", "additionalProperties", "items", "anyOf", "$defs", "$ref", "title",
     "description"}
)  # fmt: skip
DROPPED = ("default", "examples", "$schema")
_NULL = {"type": "null"}
_ABOUT = ("title", "description")  # of a property, not of one of its alternatives


def enforceable_schema(schema: Mapping[str, Any], *, all_required: bool = False) -> dict[str, Any]:
    """Returns the schema with closed objects and without limits. `all_required`: what is optional becomes required, or null.

    >>> enforceable_schema({"type": "integer", "minimum": 0, "description": "contracts"})
    {'type': 'integer', 'description': 'contracts (minimum 0)'}
    >>> enforceable_schema({"type": "object", "properties": {"note": {"type": "string"}}}, all_required=True)["properties"]
    {'note': {'anyOf': [{'type': 'string'}, {'type': 'null'}]}}
    """
    if len(schema.get("allOf", ())) == 1:
        schema = {**schema["allOf"][0], **{name: value for name, value in schema.items() if name != "allOf"}}
    made: dict[str, Any] = {}
    for name, value in schema.items():
        if name in ("properties", "$defs"):
            made[name] = {key: enforceable_schema(each, all_required=all_required) for key, each in value.items()}
        elif name == "items" and isinstance(value, Mapping):
            made[name] = enforceable_schema(value, all_required=all_required)
        elif name in ("anyOf", "oneOf"):
            made["anyOf"] = [
                inner for each in value for inner in _alternatives(enforceable_schema(each, all_required=all_required))
            ]
        elif name in KEYWORDS:
            made[name] = value
    if limits := [f"{name} {value}" for name, value in schema.items() if name not in (*KEYWORDS, *DROPPED, "oneOf")]:
        made["description"] = f"{made.get('description', '')} ({', '.join(limits)})".strip()
    if made.get("type") == "object" or "properties" in made:
        made["additionalProperties"] = False
        if all_required:
            _require_all(made)
    return made


def _alternatives(schema: dict[str, Any]) -> list[dict[str, Any]]:
    """Returns the alternatives of a schema; itself if it has none, or says more than they do."""
    return schema["anyOf"] if set(schema) <= {"anyOf", *_ABOUT} and "anyOf" in schema else [schema]


def _require_all(made: dict[str, Any]) -> None:
    properties = made.setdefault("properties", {})
    required = made.get("required", ())
    for name, each in properties.items():
        if name not in required:
            properties[name] = _nullable(each)
    made["required"] = list(properties)


def _nullable(schema: dict[str, Any]) -> dict[str, Any]:
    """Returns a schema that null fits too: one list of alternatives, with the title and the description outside of it."""
    about = {name: schema[name] for name in _ABOUT if name in schema}
    bare = {name: value for name, value in schema.items() if name not in _ABOUT}
    alternatives = [each for each in _alternatives(bare) if each != _NULL]
    return {"anyOf": [*alternatives, _NULL], **about}


def without_optional_nulls(data: Any, schema: Mapping[str, Any]) -> Any:
    """Returns an answer without the nulls that stand for optional properties; the inverse of `all_required`.

    >>> without_optional_nulls({"side": None, "note": None}, {"properties": {"side": {}, "note": {}}, "required": ["side"]})
    {'side': None}
    """
    if isinstance(data, dict) and isinstance(properties := schema.get("properties"), Mapping):
        required = schema.get("required", ())
        return {
            name: without_optional_nulls(value, properties.get(name, {}))
            for name, value in data.items()
            if value is not None or name in required or name not in properties
        }
    if isinstance(data, list) and isinstance(items := schema.get("items"), Mapping):
        return [without_optional_nulls(each, items) for each in data]
    return data
