"""Cards: the form of a decision. A card type declares typed slots, and whether a decision of it may be examined again.

Two types ship, `trade-decision` and `research-note`; the owner declares others as data. A slot whose name is that of a decision's
own field (`entry`, `stop`, `target`, `size`, `confidence`, ...) is stored in that field, so that a decision is the same whether
its stop came as a field or as a slot.

>>> from memtape.core.observed import Decision
>>> fitted = fit_card(TRADE_DECISION, Decision(symbol="BTC", action="buy", side="long", card="trade-decision",
...     slots={"thesis": "range broke", "stop": "64000", "watch_for": ("retest holds",)}))
>>> str(fitted.stop), fitted.slots
('64000', {'thesis': 'range broke', 'watch_for': ('retest holds',)})
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from decimal import Decimal, InvalidOperation
from typing import Annotated, Any, ClassVar, Literal, get_args

from pydantic import BeforeValidator, ConfigDict, Field

from memtape.core.brief.sanitize import cap_length
from memtape.core.codec import decimal_text, plain
from memtape.core.observed import Decision, Frame
from memtape.core.value_class import dataclass
from memtape.core.values import REASON_LENGTH, SLUG, STRICT, Label, Line, Number, read
from memtape.errors import FieldProblem, Invalid

SlotKind = Literal["text", "number", "list", "choice"]


def _when_examined(value: object) -> object:
    # Checked before the alternatives are tried: 1 and "true" are neither of them, and a wrong value is one problem.
    if value is None or isinstance(value, bool) or value == "until_resolved":
        return value
    raise ValueError('is neither true, false nor "until_resolved"; write one of these')


ReExaminable = Annotated[bool | Literal["until_resolved"] | None, BeforeValidator(_when_examined)]
# A slot of this name is the decision's own field.
OWN_FIELDS: Mapping[str, str] = {
    "entry": "entry_price", "stop": "stop", "target": "target", "size": "qty", "confidence": "confidence", "symbol": "symbol",
    "action": "action", "side": "side", "reason": "reason", "strategy": "strategy", "frame": "frame",
    "expiry_bars": "expiry_bars",
}  # fmt: skip
OWN_NUMBERS = ("entry", "stop", "target", "size", "confidence")
MAX_EXPONENT = 60  # of a number that is compared by its value; no field takes one of more digits


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotDefinition:
    """One slot of a card."""

    __pydantic_config__: ClassVar[ConfigDict] = STRICT
    name: Annotated[Label, Field(pattern=r"^[a-z][a-z0-9_]{0,39}$")]
    kind: SlotKind = "text"
    required: bool = False
    choices: Annotated[tuple[Label, ...], Field(max_length=32, description="of a choice: the words that may be chosen")] = ()
    help: Annotated[Line, Field(description="what belongs into it; the model reads this")] = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class CardDefinition:
    """A card type."""

    __pydantic_config__: ClassVar[ConfigDict] = STRICT
    name: Annotated[str, SLUG]
    slots: Annotated[tuple[SlotDefinition, ...], Field(min_length=1, max_length=32)]
    help: Annotated[Line, Field(description="what a card of this type is for")] = ""
    reExaminable: Annotated[
        ReExaminable, Field(description='true, or "until_resolved": until its outcome is resolved or expired; absent: never')
    ] = None
    reExamineActions: Annotated[tuple[Annotated[str, Field(pattern=r"^[A-Z][A-Z0-9_-]{0,23}$")], ...], Field(max_length=16)] = ()

    def slot(self, name: str) -> SlotDefinition | None:
        """The slot of a name."""
        return next((slot for slot in self.slots if slot.name == name), None)


def _slot(name: str, kind: SlotKind = "text", help: str = "", *, required: bool = False) -> SlotDefinition:
    return SlotDefinition(name=name, kind=kind, help=help, required=required)


TRADE_DECISION = CardDefinition(
    name="trade-decision",
    help="a trade to take, or one decided against",
    slots=(
        _slot("entry", "number", "limit price of the entry; leave it out to enter at the market"),
        _slot("stop", "number", "price at which the idea is wrong"),
        _slot("target", "number", "price at which the profit is taken"),
        _slot("size", "number", "quantity in base units"),
        _slot("thesis", "text", "why, in one sentence", required=True),
        _slot("invalidation", "text", "what would prove the thesis wrong"),
        _slot("watch_for", "list", "what to watch for, one item each"),
        _slot("confidence", "number", "0 to 1"),
        _slot("horizon", "text", "how long the idea is meant to last"),
    ),
    reExaminable="until_resolved",
    reExamineActions=("HOLD", "CLOSE", "SCALE"),
)
RESEARCH_NOTE = CardDefinition(
    name="research-note",
    help="a finding without a trade",
    slots=(
        _slot("title", "text", "the finding in a few words", required=True),
        _slot("thesis", "text", "what is claimed, in one sentence", required=True),
        _slot("evidence", "list", "what it rests on, one item each"),
        _slot("watch_for", "list", "what would confirm or contradict it, one item each"),
        _slot("confidence", "number", "0 to 1"),
        _slot("horizon", "text", "for how long it is meant to hold"),
    ),
    reExaminable=True,
)
BUILT_IN_CARDS = (TRADE_DECISION, RESEARCH_NOTE)


def read_card_type(data: object) -> CardDefinition:
    """A declared card type; raises Invalid with every wrong field."""
    declared = read(CardDefinition, data, at="card")
    problems = list(_type_problems(declared))
    if problems:
        raise Invalid(*problems[0], *problems[1:])
    return declared


def _type_problems(declared: CardDefinition) -> Iterator[FieldProblem]:
    names = [slot.name for slot in declared.slots]
    for number, slot in enumerate(declared.slots):
        at = f"slots.{number}"
        if names.index(slot.name) != number:
            yield FieldProblem(f"{at}.name", f"'{slot.name}' is declared twice", "Give each slot its own name")
        if (slot.kind == "choice") != bool(slot.choices):
            yield FieldProblem(f"{at}.choices", "do not fit the kind of the slot", "List them for a choice, and only there")
        if len(set(slot.choices)) < len(slot.choices):
            yield FieldProblem(f"{at}.choices", "name one of them twice", "List each of them once")
        if slot.name in OWN_FIELDS and slot.kind != (wanted := _own_kind(slot.name)):
            fix = f"Declare it as {wanted}, or choose another name"
            yield FieldProblem(f"{at}.kind", f"'{slot.name}' is a field of every decision and is a {wanted}", fix)
    if any(declared.name == known.name for known in BUILT_IN_CARDS):
        yield FieldProblem("name", f"'{declared.name}' ships with memtape and cannot be declared", "Choose another name")


def _own_kind(name: str) -> SlotKind:
    return "number" if name in (*OWN_NUMBERS, "expiry_bars") else "text"


# ---- a decision that names a card ----------------------------------------------------------------------------------------


def fit_card(declared: CardDefinition, decision: Decision) -> Decision:
    """The decision with its slots checked: own fields in their place, numbers as decimal text.

    Raises Invalid with every slot that is wrong: unknown, missing, of another kind, or in contradiction to a field.
    """
    problems: list[FieldProblem] = []
    slots: dict[str, Any] = {}
    own: dict[str, Any] = {}
    for name, value in decision.slots.items():
        slot = declared.slot(name)
        if slot is None:
            known = ", ".join(each.name for each in declared.slots)
            problems.append(FieldProblem(f"slots.{name}", f"the card {declared.name} has no such slot", f"It has {known}"))
        elif (wrong := _slot_problem(slot, value)) is not None:
            problems.append(wrong)
        elif name in OWN_FIELDS:
            stated = getattr(decision, OWN_FIELDS[name])
            if stated is not None and decimal_or_text(plain(stated)) != decimal_or_text(value):
                problem = f"'{value}' contradicts the field {OWN_FIELDS[name]} '{plain(stated)}'"
                problems.append(FieldProblem(f"slots.{name}", problem, "Give one of them"))
            own[OWN_FIELDS[name]] = value
        else:
            slots[name] = decimal_or_text(value) if slot.kind == "number" else value
    for slot in declared.slots:
        given = slot.name in decision.slots or getattr(decision, OWN_FIELDS.get(slot.name, ""), None) is not None
        if slot.required and not given:
            problem = f"is required by the card {declared.name}"
            problems.append(FieldProblem(f"slots.{slot.name}", problem, slot.help.capitalize()))
    if problems:
        raise Invalid(*problems[0], *problems[1:])
    fitted = read(Decision, plain(replace(decision, slots=slots)) | own, at="slots") if own else replace(decision, slots=slots)
    if fitted.reason is None and isinstance(thesis := slots.get("thesis"), str):
        # Trades, briefs and pages show the reason of a decision: a card says it as its thesis.
        fitted = replace(fitted, reason=cap_length(thesis, REASON_LENGTH))
    return fitted


def decimal_or_text(value: Any) -> Any:
    """A number in one spelling, so that 64000 and 64000.0 are equal; other texts as they are.

    >>> decimal_or_text("64000.0"), decimal_or_text("range broke"), decimal_or_text("1e999999999")
    ('64000', 'range broke', '1e999999999')
    """
    try:
        number = Decimal(value) if isinstance(value, str) else None
    except InvalidOperation:
        return value
    # Written out, a number with a large exponent would fill the memory.
    return value if number is None or not number.is_finite() or abs(number.adjusted()) > MAX_EXPONENT else decimal_text(number)


def _slot_problem(slot: SlotDefinition, value: Any) -> FieldProblem | None:
    at = f"slots.{slot.name}"
    if slot.kind == "list":
        is_list = isinstance(value, tuple)
        return _list_problem(at, value) if is_list else FieldProblem(at, "is not a list", "Write a list of texts")
    if not isinstance(value, str):
        return FieldProblem(at, "is a list", f"Write a {slot.kind}")
    if slot.kind == "number":
        try:
            if not Decimal(value).is_finite():
                raise InvalidOperation
            read(Number, value)
        except InvalidOperation:
            return FieldProblem(at, f"'{value[:40]}' is not a number", "Write a number, like 65200.5")
        except Invalid:
            return FieldProblem(at, f"'{value[:40]}' has too many digits", "Use at most 20 before the point and 18 after it")
    if slot.kind == "choice" and value not in slot.choices:
        return FieldProblem(at, f"'{value[:40]}' is not one of its choices", f"Choose one of {', '.join(slot.choices)}")
    if slot.required and not value.strip():
        return FieldProblem(at, "is empty", slot.help.capitalize())
    return _own_field_problem(slot.name, value)


def _list_problem(at: str, entries: tuple[str, ...]) -> FieldProblem | None:
    """What is wrong with a list. A re-examination grades its entries one by one, so each is there, and there once."""
    places: dict[str, int] = {}
    for number, entry in enumerate(map(str.strip, entries), start=1):
        if not entry:
            return FieldProblem(at, f"entry {number} is empty", "Leave it out")
        if (first := places.setdefault(entry, number)) != number:
            return FieldProblem(at, f"entry {number} repeats entry {first}", "Name each thing once")
    return None


def _own_field_problem(name: str, value: str) -> FieldProblem | None:
    """What is wrong with a slot that is a field of the decision, named as the slot that it is."""
    if name not in OWN_FIELDS:
        return None
    try:
        read(Decision, {OWN_FIELDS[name]: value})
    except Invalid as wrong:
        return FieldProblem(f"slots.{name}", wrong.errors[0].problem, wrong.errors[0].fix)
    return None


def card_slots(decision: Decision, declared: CardDefinition | None) -> dict[str, str | tuple[str, ...]]:
    """Every slot of a decision's card that has a value, its own fields included, in the order of the card type."""
    if declared is None:
        numbers = {name: plain(getattr(decision, OWN_FIELDS[name])) for name in OWN_NUMBERS}
        return {name: str(value) for name, value in numbers.items() if value is not None} | dict(decision.slots)
    found: dict[str, str | tuple[str, ...]] = {}
    for slot in declared.slots:
        own = OWN_FIELDS.get(slot.name)
        value = plain(getattr(decision, own)) if own is not None else decision.slots.get(slot.name)
        if value is not None and value != ():
            found[slot.name] = value if isinstance(value, str | tuple) else str(value)
    return found | {name: value for name, value in decision.slots.items() if name not in found}


# ---- the answer of a run ---------------------------------------------------------------------------------------------


def card_schema(declared: CardDefinition) -> dict[str, Any]:
    """The JSON schema of an answer that fills a card. Every name is required and may be null: strict providers ask for that."""
    properties: dict[str, Any] = {
        "symbol": _or_null({"type": "string", "description": "what the decision is about"}),
        "action": {"type": "string", "description": "buy, sell, close, hold, or wait if you decide not to trade"},
        "side": _or_null({"type": "string", "enum": ["long", "short"], "description": "direction; of a wait: the one passed up"}),
        "reason": _or_null({"type": "string", "description": "why, at most 280 characters"}),
        "frame": _or_null({"type": "string", "enum": list(get_args(Frame)), "description": "length of a bar; null: 1h"}),
        "expiry_bars": _or_null({"type": "integer", "description": "bars after which the idea expires; null: 24"}),
    }
    for slot in declared.slots:
        properties[slot.name] = _slot_schema(slot)
    return {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}


def _slot_schema(slot: SlotDefinition) -> dict[str, Any]:
    form: dict[str, Any] = {"type": {"number": "number", "list": "array"}.get(slot.kind, "string")}
    if slot.kind == "list":
        form["items"] = {"type": "string"}
    if slot.kind == "choice":
        form["enum"] = list(slot.choices)
    if slot.help:
        form["description"] = slot.help
    return form if slot.required else _or_null(form)


def _or_null(form: dict[str, Any]) -> dict[str, Any]:
    described = {"description": form.pop("description")} if "description" in form else {}
    return {"anyOf": [form, {"type": "null"}], **described}


def decision_from_answer(declared: CardDefinition, answer: Mapping[str, Any]) -> Decision:
    """The decision that an answer states; raises Invalid with every field that is wrong.

    Only what the schema asks for may be in it: a model that stated the time of its decision could choose one at which it won.
    """
    given = {name: value for name, value in answer.items() if value is not None}
    asked = card_schema(declared)["properties"]
    if unknown := [FieldProblem(f"answer.{name}", "unknown field", "Leave it out") for name in given if name not in asked]:
        raise Invalid(*unknown[0], *unknown[1:])
    slots = {name: value for name, value in given.items() if declared.slot(name) is not None}
    fields = {name: value for name, value in given.items() if name not in slots}
    decision = read(Decision, {**fields, "slots": slots, "card": declared.name}, at="answer")
    return fit_card(declared, decision)
