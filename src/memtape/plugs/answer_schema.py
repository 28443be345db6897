"""A JSON schema in the form that providers enforce. They take a part of the language only, and refuse a request with more."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

# Limits are not enforced while the model writes. They stand in the description, and the answer is checked afterwards anyway.
LIMITS = (
    "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "minLength", "maxLength", "pattern",
    "minItems", "maxItems", "uniqueItems", "minProperties", "maxProperties",
)  # fmt: skip
DROPPED = ("default", "examples", "$schema")
_NULL = {"type": "null"}


def enforceable_schema(schema: Mapping[str, Any], *, all_required: bool = False) -> dict[str, Any]:
    """Returns the schema with closed objects and without limits. `all_required`: what is optional becomes required, or null.

    >>> enforceable_schema({"type": "integer", "minimum": 0, "description": "contracts"})
    {'type': 'integer', 'description': 'contracts (minimum 0)'}
    >>> enforceable_schema({"type": "object", "properties": {"note": {"type": "string"}}}, all_required=True)["properties"]
    {'note': {'anyOf': [{'type': 'string'}, {'type': 'null'}]}}
    """
    made: dict[str, Any] = {}
    for name, value in schema.items():
        if name in LIMITS or name in DROPPED:
            continue
        if name in ("properties", "$defs"):
            made[name] = {key: enforceable_schema(each, all_required=all_required) for key, each in value.items()}
        elif name == "items" and isinstance(value, Mapping):
            made[name] = enforceable_schema(value, all_required=all_required)
        elif name in ("anyOf", "oneOf"):
            made["anyOf"] = [enforceable_schema(each, all_required=all_required) for each in value]
        else:
            made[name] = value
    if limits := [f"{name} {schema[name]}" for name in LIMITS if name in schema]:
        made["description"] = f"{made.get('description', '')} ({', '.join(limits)})".strip()
    if made.get("type") == "object" or "properties" in made:
        made["additionalProperties"] = False
        if all_required:
            _require_all(made)
    return made


def _require_all(made: dict[str, Any]) -> None:
    properties = made.setdefault("properties", {})
    required = made.get("required", ())
    for name, each in properties.items():
        if name not in required:
            properties[name] = {"anyOf": [each, _NULL]}
    made["required"] = list(properties)


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
