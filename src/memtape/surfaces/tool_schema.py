"""The input schema of an operation as a model gets it: what a caller needs to know, in as few tokens as possible.

A model pays for every word of every tool in every request. The full schema says how each value is checked: lengths, patterns,
defaults, titles. A model needs the names, the types and the words; a value that breaks a rule is refused with a message that
names the field and the fix. So this leaves the rules out, writes an optional value without its null, and puts the situation in a
short form. Fields for research and for late records are not listed in the small tool sets, but are accepted.

>>> compact_schema({"type": "object", "title": "Ask", "required": ["symbol"], "properties": {
...     "symbol": {"type": "string", "pattern": "^[A-Z]+$", "description": "what to trade"},
...     "limit": {"anyOf": [{"type": "integer", "maximum": 99}, {"type": "null"}], "default": None}}})["properties"]
{'symbol': {'type': 'string', 'description': 'what to trade'}, 'limit': {'type': 'integer'}}
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from memtape.core.decisions.outcomes import MODEL_ACTIONS
from memtape.surfaces.model_answers import answer_options
from memtape.surfaces.registry import params_schema

if TYPE_CHECKING:
    from memtape.surfaces.registry import Operation, ToolSet

# How a value is checked: said by the error, if it is wrong.
CHECKS = frozenset({
    "title", "default", "additionalProperties", "maxLength", "minLength", "pattern", "minimum", "maximum", "exclusiveMinimum",
    "exclusiveMaximum", "maxItems", "minItems", "maxProperties", "minProperties", "propertyNames", "format", "uniqueItems",
})  # fmt: skip
# For research, for late records, and for programs that call as a model does.
RESEARCH = frozenset({
    "head", "parameters", "weights", "strength", "sharpe", "kelly_beside", "explain", "profile", "memory_types", "fusion", "slot",
    "min_score", "backfill", "verdict", "run", "budget", "with_memory", "context_regime", "context_atr_d1", "expire_when",
    "cooldown_minutes", "fire_mode", "curve", "frame", "expiry_bars", "quoted", "memory", "owner_head", "documents",
})  # fmt: skip
RARE = frozenset({"as_of", "order_ids", "tags", "max_adverse_excursion", "thesis", "source", "without_memory"})
# Fields in which a model may use only these words; the owner is free.
MODEL_WORDS: Mapping[tuple[str, str], tuple[str, ...]] = {("record_decision", "action"): MODEL_ACTIONS}
MODEL_MUST_GIVE: Mapping[str, tuple[str, ...]] = {
    "record_decision": ("action", "reason"), "append_note": ("run",),
}  # fmt: skip
SHORT: Mapping[str, dict[str, Any]] = {
    "agent": {"type": "string", "description": "its id; default: yours"},
    "as_of": {"type": "string", "description": "what was known at a past time"},
}
SITUATION = {
    "type": "object",
    "description": 'the market, like {"session": "london", "regime": "ranging", "volatility_regime": "high", "atr_d1": 12.5}',
}  # fmt: skip


@lru_cache(maxsize=512)
def tool_schema(known: Operation, tools: ToolSet, bound: bool) -> dict[str, Any]:
    """Returns the input schema of a tool. A server that is bound to one agent does not ask for it."""
    hidden = (RESEARCH if tools == "full" else RESEARCH | RARE) - set(MODEL_MUST_GIVE.get(known.name, ()))
    found = compact_schema(params_schema(known), hidden | {"agent"} if bound else hidden)
    found["properties"] |= answer_options(known)
    # Nearly every tool has these: they are told in few words.
    found["properties"] |= {name: schema for name, schema in SHORT.items() if name in found["properties"]}
    for (operation, name), words in MODEL_WORDS.items():
        if operation == known.name:
            found["properties"][name] = {"type": "string", "enum": list(words), "description": "what you decided"}
    # What a model must give although the owner need not.
    if more := MODEL_MUST_GIVE.get(known.name):
        found["required"] = [*found.get("required", []), *more]
    return found


def answer_schema(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the schema of an answer to a model: its fields and their types. Nothing is required, and rows are not spelled out.

    Fields may be left out of an answer, and the rows say themselves what is in them.
    """
    return {"type": "object", "properties": {name: _kind(value) for name, value in schema.get("properties", {}).items()}}


def _kind(value: Mapping[str, Any]) -> dict[str, Any]:
    if "type" in value:
        return {"type": value["type"]}
    kinds = [each["type"] for each in value.get("anyOf", ()) if "type" in each]
    return {"type": kinds} if kinds and len(kinds) == len(value["anyOf"]) else {}


def compact_schema(schema: Mapping[str, Any], hidden: Collection[str] = ()) -> dict[str, Any]:
    """Returns the schema of an object without checks, and without hidden fields unless they are required."""
    definitions, required = schema.get("$defs", {}), schema.get("required", [])
    properties = {
        name: _compact(value, definitions)
        for name, value in schema.get("properties", {}).items()
        if name not in hidden or name in required
    }
    found: dict[str, Any] = {"type": "object", "properties": properties}
    return found | ({"required": list(required)} if required else {})


def _compact(value: Mapping[str, Any], definitions: Mapping[str, Any]) -> dict[str, Any]:
    if (reference := value.get("$ref")) is not None:
        name = reference.rpartition("/")[2]
        inner = SITUATION if name == "Situation" else _compact(definitions[name], definitions)
        return inner | _words(value) if name != "Situation" else dict(inner)
    choices = [each for each in value.get("anyOf", ()) if each.get("type") != "null"]
    if len(choices) == 1:
        inner = _compact(choices[0], definitions)
        return inner if inner == SITUATION else inner | _words(value)
    if choices:
        kinds = [_compact(each, definitions) for each in choices]
        if {each.get("type") for each in kinds} == {"number", "string"}:
            # An amount is read from either; a model writes numbers.
            return {"type": "number"} | _words(value)
        return {"anyOf": kinds} | _words(value)
    found = {key: each for key, each in value.items() if key not in CHECKS and key not in ("description", "$defs")}
    # Any name is allowed: what stands under a name is described in words.
    found.pop("patternProperties", None)
    if "properties" in found:
        found["properties"] = {name: _compact(each, definitions) for name, each in found["properties"].items()}
    if isinstance(found.get("items"), Mapping):
        found["items"] = _compact(found["items"], definitions)
    return found | _words(value)


def _words(value: Mapping[str, Any]) -> dict[str, Any]:
    return {"description": value["description"]} if value.get("description") else {}
