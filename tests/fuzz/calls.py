"""Calls with values that no trader would write: numbers that are none, broken text, endless lists. The same seed gives the same calls.

A call begins as a sensible one, made from the schema of its operation, so that it gets past the first check. Then up to three of its
values are spoiled.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from random import Random
from typing import Any

from memtape.surfaces.registry import Operation, all_operations, params_schema

AGENT = "gold"
NOW = "2026-06-01T09:00:00Z"
# These start other programs, wait for a model, or end the world that the next call needs.
LEFT_OUT = frozenset({"erase_owner", "delete_agent", "run_agent", "reset_memory", "reindex_documents"})


def deep(levels: int) -> Any:
    """Lists within lists."""
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


def spoiled_values() -> tuple[Any, ...]:
    """The values that spoil a call. New ones each time, because a list that is put into itself has no end."""
    return (
        float("nan"), float("inf"), float("-inf"), 10**400, -(10**400), "1e400", "1e-400", "NaN", "Infinity", "-0", 1e308, 5e-324, 2**63,
        -(2**63) - 1, True, False, None, "", " ", "\x00", "a\x00b", "\ud800", "x\udfffy", "\U0010ffff", "\u202e", "x" * 100_000, "9" * 5_000,
        [], {}, [None], [[]], {"": ""}, {"\ud800": 1}, {"a": {"a": {"a": {}}}}, deep(60), deep(900), [0] * 3_000, "0001-01-01T00:00:00Z",
        "9999-12-31T23:59:59.999999Z", "9999-12-31T23:59:59-23:59", "2026-02-30T00:00:00Z", "2026-06-01", "2026-06-01T09:00:00", "🙂",
        "../../etc/passwd", "%s%n", "'; DROP TABLE log; --", "{", "[1", 0, -1, 0.1, 1e-9, "１２", "٣", "0x10", "1_000", "+1", "1,5", "\n",
    )  # fmt: skip


SPOILED = spoiled_values()
SENSIBLE: Mapping[str, Any] = {
    "agent": AGENT, "symbol": "BTC", "side": "long", "direction": "long", "qty": "1", "px": "100", "entry_price": "100", "exit_price": "103",
    "stop": "98", "t": NOW, "t0": "2026-06-01T08:00:00Z", "t1": NOW, "as_of": NOW, "entry_at": "2026-06-01T07:00:00Z", "exit_at": NOW,
    "id": "one", "trade_id": "t1", "decision": "d1", "skill_id": "breakout", "skill": "breakout", "mode": "paper", "text": "held the range",
    "reason": "break of the range", "action": "no_trade", "path": "notes/a.md", "kind": "note", "query": "range", "limit": 5, "head": 1,
    "equity": "50000", "amount": "10", "ratio": "2", "context": {"regime": "ranging"}, "situation": {"session": "london"},
    "trigger_condition": {"symbol": "BTC"}, "planned_action": {"type": "skip_trade"}, "positions": {}, "marks": {"BTC": "100"},
    "changes": {"reflection": "late"}, "memory_id": "m1", "plan_id": "p1", "o": "1", "h": "2", "l": "1", "c": "2", "fact": "trades gold",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class FuzzedCall:
    """One call: an operation and what it is given."""

    operation: str
    data: dict[str, Any]

    def __str__(self) -> str:
        return f"{self.operation} {ascii(self.data)[:600]}"


def fuzzed_calls(seed: int) -> Iterator[FuzzedCall]:
    """Yields calls without end, every operation in turn."""
    random = Random(seed)
    operations = {name: each for name, each in all_operations().items() if name not in LEFT_OUT}
    while True:
        for name in random.sample(sorted(operations), len(operations)):
            yield FuzzedCall(name, _spoil(random, _sensible_data(random, operations[name])))


def _sensible_data(random: Random, operation: Operation) -> dict[str, Any]:
    schema = params_schema(operation)
    required = set(schema.get("required", ()))
    names = [name for name in schema.get("properties", {}) if name in required or random.random() < 0.4]
    return {name: _sensible(random, name, schema["properties"][name], schema) for name in names}


def _sensible(random: Random, name: str, field: Mapping[str, Any], schema: Mapping[str, Any], depth: int = 0) -> Any:
    if "$ref" in field:
        return _sensible(random, name, schema["$defs"][field["$ref"].rpartition("/")[2]], schema, depth)
    if name in SENSIBLE and depth < 2:
        return SENSIBLE[name]
    if "enum" in field:
        return random.choice(field["enum"])
    if options := field.get("anyOf"):
        return _sensible(random, name, random.choice(options), schema, depth)
    match field.get("type"):
        case "array" if depth < 3:
            return [_sensible(random, name, field.get("items", {}), schema, depth + 1) for _ in range(random.randint(0, 2))]
        case "object" if depth < 3:
            known = field.get("properties", {})
            needed = set(field.get("required", ()))
            return {each: _sensible(random, each, known[each], schema, depth + 1) for each in known if each in needed or random.random() < 0.3}
        case "integer" | "number":
            return random.choice((0, 1, 2, 10))
        case "boolean":
            return random.random() < 0.5
    return SENSIBLE.get(name, "x")


def _spoil(random: Random, data: dict[str, Any]) -> dict[str, Any]:
    """Returns data with up to three values replaced, deep within or at the top; sometimes with a field that nobody knows."""
    spoiled: dict[str, Any] = json.loads(json.dumps(data))
    for _ in range(random.choice((0, 1, 1, 1, 2, 3))):
        place: Any = spoiled
        while True:
            keys: list[Any] = list(place) if isinstance(place, dict) else list(range(len(place)))
            if not keys or random.random() < 0.03:
                if isinstance(place, dict):
                    place[random.choice(("unknown", "\ud800", "", "agent", "t"))] = random.choice(spoiled_values())
                break
            key = random.choice(keys)
            if isinstance(place[key], dict | list) and place[key] and random.random() < 0.7:
                place = place[key]
                continue
            place[key] = random.choice(spoiled_values())
            break
    return spoiled
