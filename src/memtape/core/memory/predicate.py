"""The language of triggers: small, safe, and with three truth values.

A predicate is JSON: `{"all": [P, ...]}`, `{"any": [P, ...]}`, `{"not": P}` or `{"field", "op", "value"}`. A flat object
`{"regime": "ranging", "strategy": "VB"}` means that all of these are equal; a key `type` in it is ignored. No code is
ever executed: a predicate is parsed once, checked against the known fields and their types, and then evaluated.

A missing field is UNKNOWN (None), and the logic is Kleene's: FALSE decides an `all`, TRUE decides an `any`, and `not` leaves
UNKNOWN as it is. Only TRUE fires.

>>> quiet = read_predicate({"all": [{"field": "regime", "op": "eq", "value": "ranging"},
...                                 {"field": "drawdown_pct", "op": "lt", "value": 0.1}]})
>>> holds(quiet, {"regime": "ranging", "drawdown_pct": 0.02}), holds(quiet, {"regime": "volatile"})
(True, False)
>>> holds(quiet, {"regime": "ranging"}) is None
True

Labels are compared as the vocabularies write them (`core/labels.py`), so `London` and `LDN` mean london.

>>> read_predicate({"session": "LDN"})
AllOf(parts=(Condition(field='session', op='eq', value='london'),))

Reference: Kleene 1952, Introduction to Metamathematics, section 64.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Literal, TypeGuard, cast

from memtape.core.labels import LABEL_FIELDS, fold_field
from memtape.core.near_names import meant
from memtape.core.value_class import dataclass
from memtape.errors import Invalid

Truth = bool | None
Scalar = str | float | bool
Type = Literal["text", "number", "flag"]
Op = Literal["eq", "ne", "lt", "le", "gt", "ge", "in", "nin", "between", "exists", "changed", "crosses_above", "crosses_below"]
EQUALITY: frozenset[str] = frozenset({"eq", "ne"})
MEMBERSHIP: frozenset[str] = frozenset({"in", "nin"})
ORDER: frozenset[str] = frozenset({"lt", "le", "gt", "ge", "crosses_above", "crosses_below"})
OPS: frozenset[str] = EQUALITY | MEMBERSHIP | ORDER | {"between", "exists", "changed"}
DEEPEST, MOST_NODES = 6, 64
MAX_WHOLE_NUMBER = 10**300  # larger integers do not fit into a float

# The fields of a trigger: the situation, the agent's state, the decision at hand, the next calendar event.
FIELDS: Mapping[str, Type] = {
    "symbol": "text", "price": "number", "atr_d1": "number", "atr_h1": "number", "atr_m5": "number",
    "atr_ratio_h1_d1": "number", "regime": "text", "volatility_regime": "text", "session": "text", "weekend": "flag",
    "hour_utc": "number", "day_of_week": "number", "spread_points": "number", "spread_as_atr_pct": "number",
    "drawdown_pct": "number", "drawdown_state": "number", "confidence": "number", "risk_appetite": "number",
    "consecutive_wins": "number", "consecutive_losses": "number", "equity": "number", "open_positions": "number",
    "strategy": "text", "side": "text", "action": "text", "signal": "flag",
    "event": "text", "event_impact": "text", "event_currency": "text", "event_surprise": "number",
    "minutes_to_event": "number", "minutes_since_event": "number",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class AllOf:
    """True if every part is true."""

    parts: tuple[Predicate, ...]


@dataclass(frozen=True, slots=True)
class AnyOf:
    """True if any part is true."""

    parts: tuple[Predicate, ...]


@dataclass(frozen=True, slots=True)
class Not:
    """True if its part is false."""

    part: Predicate


@dataclass(frozen=True, slots=True)
class Condition:
    """A test of one field."""

    field: str
    op: Op
    value: Scalar | tuple[Scalar, ...] | None = None


Predicate = AllOf | AnyOf | Not | Condition


def read_predicate(source: object, fields: Mapping[str, Type] | None = FIELDS, at: str = "trigger") -> Predicate:
    """Returns a predicate from its JSON. Raises `Invalid` with the place of an error. If `fields` is None, any field is allowed.

    >>> read_predicate({"regime": "ranging", "type": "market_condition"})
    AllOf(parts=(Condition(field='regime', op='eq', value='ranging'),))
    >>> read_predicate({"field": "regime", "op": "gt", "value": 3})
    Traceback (most recent call last):
    memtape.errors.Invalid: trigger.op: gt does not go with regime, which is text. Use one of: changed, eq, exists, in, ne, nin
    """
    predicate = _read(source, fields, at, depth=1)
    if (nodes := predicate_size(predicate)) > MOST_NODES:
        raise Invalid(at, f"has {nodes} parts, more than {MOST_NODES}", "Say it in fewer conditions")
    return predicate


def predicate_size(predicate: Predicate) -> int:
    """Returns how many parts a predicate has, itself included."""
    if isinstance(predicate, AllOf | AnyOf):
        return 1 + sum(predicate_size(part) for part in predicate.parts)
    return 1 + predicate_size(predicate.part) if isinstance(predicate, Not) else 1


def conditions(predicate: Predicate) -> list[Condition]:
    """Returns every condition in a predicate."""
    if isinstance(predicate, Condition):
        return [predicate]
    parts = (predicate.part,) if isinstance(predicate, Not) else predicate.parts
    return [condition for part in parts for condition in conditions(part)]


def holds(predicate: Predicate, now: Mapping[str, object], before: Mapping[str, object] | None = None) -> Truth:
    """Returns True if a predicate holds for the facts of now and before, None if that is unknown."""
    if isinstance(predicate, AllOf):
        return all_of([holds(part, now, before) for part in predicate.parts])
    if isinstance(predicate, AnyOf):
        return any_of([holds(part, now, before) for part in predicate.parts])
    if isinstance(predicate, Not):
        return negated(holds(predicate.part, now, before))
    return condition_truth(predicate, now.get(predicate.field), (before or {}).get(predicate.field))


def all_of(truths: Sequence[Truth]) -> Truth:
    """Returns FALSE if any is FALSE, else UNKNOWN if any is UNKNOWN, else TRUE.

    >>> all_of([True, None]) is None, all_of([None, False])
    (True, False)
    """
    if any(truth is False for truth in truths):
        return False
    return None if any(truth is None for truth in truths) else True


def any_of(truths: Sequence[Truth]) -> Truth:
    """Returns TRUE if any is TRUE, else UNKNOWN if any is UNKNOWN, else FALSE."""
    return negated(all_of([negated(truth) for truth in truths]))


def negated(truth: Truth) -> Truth:
    """Returns the opposite; UNKNOWN stays UNKNOWN."""
    return None if truth is None else not truth


# --- reading ------------------------------------------------------------------------------------------------------------


def _read(source: object, fields: Mapping[str, Type] | None, at: str, depth: int) -> Predicate:
    if depth > DEEPEST:
        raise Invalid(at, f"is nested deeper than {DEEPEST}", "Say it in fewer levels")
    if not isinstance(source, Mapping) or not all(isinstance(key, str) for key in source):
        raise Invalid(at, "is not a JSON object", 'Write {"field", "op", "value"}, {"all"}, {"any"} or {"not"}')
    keys = set(source)
    for word in ("all", "any"):
        if word in keys:
            _only(keys, {word}, at)
            inner = source[word]
            if not isinstance(inner, list | tuple) or not inner:
                raise Invalid(f"{at}.{word}", "is not a list with something in it", "List at least one condition")
            parts = tuple(_read(part, fields, f"{at}.{word}.{n}", depth + 1) for n, part in enumerate(inner))
            return AllOf(parts) if word == "all" else AnyOf(parts)
    if "not" in keys:
        _only(keys, {"not"}, at)
        return Not(_read(source["not"], fields, f"{at}.not", depth + 1))
    if "field" in keys:
        _only(keys, {"field", "op", "value"}, at)
        return _read_condition(source, fields, at)
    named = {key: value for key, value in source.items() if key != "type"}
    if not named:
        raise Invalid(at, "says nothing", "Give at least one condition")
    if depth == DEEPEST:
        raise Invalid(at, f"is nested deeper than {DEEPEST}", "Say it in fewer levels")
    conditions = ({"field": key, "op": "eq", "value": value} for key, value in named.items())
    return AllOf(tuple(_read_condition(one, fields, f"{at}.{one['field']}") for one in conditions))


def _read_condition(source: Mapping[str, object], fields: Mapping[str, Type] | None, at: str) -> Condition:
    field, op, value = source.get("field"), source.get("op"), source.get("value")
    if not isinstance(field, str) or (fields is not None and field not in fields):
        names = FIELDS if fields is None else fields
        hint = meant(field, names) if isinstance(field, str) else ""
        raise Invalid(f"{at}.field", f"there is no field {field!r}", f"{hint} Use one of: {', '.join(names)}".strip())
    if not isinstance(op, str) or op not in OPS:
        raise Invalid(f"{at}.op", f"there is no operation {op!r}", f"Use one of: {', '.join(sorted(OPS))}")
    kind = fields[field] if fields is not None else None
    if kind in ("text", "flag") and op not in (fitting := _ops_for(kind)):
        raise Invalid(f"{at}.op", f"{op} does not go with {field}, which is {kind}", f"Use one of: {', '.join(sorted(fitting))}")
    read = _read_value(op, value, kind, f"{at}.value")
    # Situations are compared with the words of the vocabularies, however the condition writes them.
    folded = tuple(fold_field(field, each) for each in read) if isinstance(read, tuple) else fold_field(field, read)
    return Condition(field, cast(Op, op), folded)


def _ops_for(kind: str) -> frozenset[str]:
    return EQUALITY | {"exists", "changed"} | (MEMBERSHIP if kind == "text" else frozenset())


def _read_value(op: str, value: object, kind: Type | None, at: str) -> Scalar | tuple[Scalar, ...] | None:
    if op == "changed":
        if value is not None:
            raise Invalid(at, "is not wanted: a change has no value", "Leave it out")
        return None
    if op == "exists":
        if value is not None and not isinstance(value, bool):
            raise Invalid(at, "is neither true nor false", "Leave it out, or say false for a field that is absent")
        return value is not False
    if op in MEMBERSHIP or op == "between":
        if not isinstance(value, list | tuple) or not value:
            raise Invalid(
                at, "is not a list with something in it", f"Give {'[low, high]' if op == 'between' else 'a list of values'}"
            )
        if len(value) > MOST_NODES:
            raise Invalid(at, f"has {len(value)} values, more than {MOST_NODES}", "Say it with fewer values")
        values = tuple(_read_scalar(item, "number" if op == "between" else kind, f"{at}.{n}") for n, item in enumerate(value))
        if op == "between" and (len(values) != 2 or not cast(float, values[0]) <= cast(float, values[1])):
            raise Invalid(at, "is not a range", "Give [low, high], the lower one first")
        return values
    return _read_scalar(value, "number" if op in ORDER else kind, at)


def _read_scalar(value: object, kind: Type | None, at: str) -> Scalar:
    found = _type_of(value)
    if found is None or (kind is not None and found != kind):
        wanted = {"text": "text", "number": "a finite number", "flag": "true or false", None: "text, number or true/false"}
        raise Invalid(at, f"is not {wanted[kind]}", f"Write it as {wanted[kind]}")
    return cast(Scalar, value)


def _type_of(value: object) -> Type | None:
    if isinstance(value, bool):
        return "flag"
    if isinstance(value, str):
        return "text"
    if isinstance(value, int):
        return "number" if abs(value) < MAX_WHOLE_NUMBER else None
    return "number" if isinstance(value, float) and math.isfinite(value) else None


def _only(keys: set[str], wanted: set[str], at: str) -> None:
    if extra := sorted(keys - wanted):
        raise Invalid(f"{at}.{extra[0]}", "does not belong here", "Remove it, or nest it under all or any")


# --- asking ------------------------------------------------------------------------------------------------------------


def condition_truth(condition: Condition, now: object, before: object) -> Truth:
    """Returns the truth of a condition. A value of the wrong type counts as missing, so a trigger never fails at run time."""
    value, field = condition.value, condition.field
    if field in LABEL_FIELDS:
        now, before = fold_field(field, now), fold_field(field, before)
    if condition.op == "exists":
        return (now is not None) == value
    if condition.op == "changed":
        return None if _type_of(now) is None or _type_of(now) != _type_of(before) else now != before
    if isinstance(value, tuple):
        if condition.op == "between":
            low, high = value
            return low <= now <= high if _is_number(now) and _is_number(low) and _is_number(high) else None
        alike = [item for item in value if _type_of(item) == _type_of(now)]
        return (now in alike) == (condition.op == "in") if alike else None
    if _type_of(now) is None or _type_of(now) != _type_of(value):
        return None
    if condition.op in EQUALITY:
        return (now == value) == (condition.op == "eq")
    return _compared(condition.op, now, value, before) if _is_number(now) and _is_number(value) else None


def _compared(op: Op, now: float, value: float, before: object) -> Truth:
    if op == "crosses_above":
        return before <= value < now if _is_number(before) else None
    if op == "crosses_below":
        return before >= value > now if _is_number(before) else None
    return {"lt": now < value, "le": now <= value, "gt": now > value, "ge": now >= value}[op]


def _is_number(value: object) -> TypeGuard[float]:
    return _type_of(value) == "number"
