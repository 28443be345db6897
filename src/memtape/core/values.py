"""The types of every field that arrives from outside, each with its limits.

They are ordinary annotations. `read` turns data into a checked value, or raises one `Invalid` that lists every wrong field
with what to do about it. No unchecked data gets past it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from decimal import Context, Decimal
from functools import lru_cache
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

from pydantic import AfterValidator, BeforeValidator, ConfigDict, Field, PydanticUserError, TypeAdapter, ValidationError

from memtape.core.near_names import meant
from memtape.errors import FieldProblem, Invalid

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

MONEY = Context(prec=60)
ZERO = Decimal(0)
ONE = Decimal(1)
REASON_LENGTH = 280
MAX_WHOLE_NUMBER = 10**38

STRICT = ConfigDict(extra="forbid", revalidate_instances="always")


def _aware(value: object) -> datetime:
    if isinstance(value, datetime):
        moment = value
    elif isinstance(value, str):
        try:
            moment = datetime.fromisoformat(value.strip())
        except ValueError:
            raise ValueError("is not a time; write ISO 8601 with its zone, like 2026-06-04T08:00:00Z") from None
    else:
        raise ValueError("is not a time; write ISO 8601 with its zone, like 2026-06-04T08:00:00Z")
    if moment.tzinfo is None:
        raise ValueError("has no time zone; add Z for UTC or an offset, like 2026-06-04T08:00:00Z")
    if not 1970 <= moment.year <= 2200:
        raise ValueError("lies outside 1970..2200; check the year")
    return moment if moment.tzinfo is UTC else moment.astimezone(UTC)


def _number(value: object) -> object:
    if type(value) is Decimal:
        return value
    if isinstance(value, bool):
        raise ValueError('is not a number; write it as a number or a decimal string, like "65200.5"')
    if isinstance(value, float):
        # The shortest spelling: 0.1 means 0.1, not its binary neighbour.
        return str(value)
    return value


def _finite(value: Decimal) -> Decimal:
    return value or ZERO


_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff]")


def clean_text(value: str) -> str:
    if found := _CONTROL.search(value):
        raise ValueError(f"contains a control character (U+{ord(found[0]):04X}); remove it")
    return value


def _from_day(value: object) -> datetime:
    return _aware(f"{value.strip()}T00:00:00Z" if isinstance(value, str) and _DAY.fullmatch(value.strip()) else value)


def _until_day(value: object) -> datetime:
    return _aware(f"{value.strip()}T23:59:59.999999Z" if isinstance(value, str) and _DAY.fullmatch(value.strip()) else value)


_DAY = re.compile(r"\d{4}-\d\d-\d\d")
Time = Annotated[datetime, BeforeValidator(_aware)]
# Where whole days are meant: a plain date is a day in UTC, from its beginning or up to its end.
TimeFromDay = Annotated[datetime, BeforeValidator(_from_day)]
TimeUntilDay = Annotated[datetime, BeforeValidator(_until_day)]
_LIMITS: dict[str, Any] = {"allow_inf_nan": False, "max_digits": 38, "decimal_places": 18}
# pydantic checks the limits natively if they come right after Decimal. Validators written later run earlier.
Number = Annotated[Decimal, Field(**_LIMITS), BeforeValidator(_number), AfterValidator(_finite)]
Money = Number
Price = Annotated[Decimal, Field(ge=0, **_LIMITS), BeforeValidator(_number), AfterValidator(_finite)]
Quantity = Annotated[Decimal, Field(gt=0, **_LIMITS), BeforeValidator(_number)]
Fraction = Annotated[Decimal, Field(ge=0, le=1, **_LIMITS), BeforeValidator(_number), AfterValidator(_finite)]
Text = Annotated[str, AfterValidator(clean_text)]
Reason = Annotated[Text, Field(max_length=REASON_LENGTH)]
Line = Annotated[Text, Field(max_length=2000)]
MAX_KEY_CHARS = 128
KEY = Field(min_length=1, max_length=MAX_KEY_CHARS)
Key = Annotated[Text, KEY]
SLUG = Field(pattern=r"^[a-z0-9][a-z0-9._-]{0,63}$")
Slug = Annotated[str, SLUG]
Symbol = Annotated[str, Field(pattern=r"^[A-Za-z0-9^$][A-Za-z0-9 ._:/@#=^$+&*()-]{0,63}$")]
Leg = Annotated[Text, Field(max_length=128)]
Currency = Annotated[str, Field(pattern=r"^[A-Z0-9]{2,10}$")]
Label = Annotated[Text, Field(min_length=1, max_length=64)]
ModelName = Annotated[Text, Field(min_length=1, max_length=200)]

# The wording of each kind of pydantic error where pydantic's own is for programmers; {x} is from the error's context.
_PROBLEMS: Mapping[str, str] = {
    "extra_forbidden": "unknown field",
    "unexpected_keyword_argument": "unknown field",
    "decimal_parsing": "should be a number",
    "decimal_type": "should be a number",
    "float_parsing": "should be a number",
    "float_type": "should be a number",
    "int_parsing": "should be a whole number",
    "int_type": "should be a whole number",
    "int_from_float": "should be a whole number",
    "bool_parsing": "should be true or false",
    "bool_type": "should be true or false",
    "string_type": "should be text",
    "string_too_long": "should have at most {max_length} characters",
    "string_too_short": "should have at least {min_length} characters",
    "too_long": "should have at most {max_length} entries",
    "too_short": "should have at least {min_length} entries",
    "dict_type": "should be a JSON object",
    "mapping_type": "should be a JSON object",
    "model_type": "should be a JSON object",
    "model_attributes_type": "should be a JSON object",
    "dataclass_type": "should be a JSON object",
    "list_type": "should be a list",
    "tuple_type": "should be a list",
}
# What to do about each kind. Our own validators above carry their fix with them.
_FIXES: Mapping[str, str] = {
    "extra_forbidden": "Remove it, or check its spelling",
    "unexpected_keyword_argument": "Remove it, or check its spelling",
    "greater_than": "Give a larger number",
    "greater_than_equal": "Give a larger number",
    "less_than": "Give a smaller number",
    "less_than_equal": "Give a smaller number",
    "finite_number": "Give a finite number",
    "decimal_parsing": 'Write a number or a decimal string, like "65200.5"',
    "decimal_type": 'Write a number or a decimal string, like "65200.5"',
    "decimal_max_digits": "Use at most 38 digits",
    "decimal_max_places": "Use at most 18 decimal places",
    "decimal_whole_digits": "Use at most 20 digits before the point",
    "string_too_long": "Shorten it",
    "string_type": "Write it in quotes",
    "string_unicode": "Use valid Unicode text",
    "literal_error": "Choose one of these",
    "string_pattern_mismatch": "Use only the characters that the pattern allows",
}
# A delivery of thousands of rows may have as many problems; nobody reads them all.
MAX_LISTED_PROBLEMS = 50

T = TypeVar("T")


@lru_cache(maxsize=256)
def _adapter(type_: Any) -> TypeAdapter[Any]:
    return TypeAdapter(type_)


HALF_CHARACTER = "has half of a character, which is no text"


def read(type_: type[T], data: object, at: str = "") -> T:
    """The data as a checked value of `type_`. Raises `Invalid`, which lists every wrong field, below `at` if it is given.

    >>> read(Price, "-1", at="px")
    Traceback (most recent call last):
    memtape.errors.Invalid: px: should be greater than or equal to 0. Give a larger number (got '-1')
    """
    try:
        return _adapter(type_).validate_python(data)  # type: ignore[no-any-return, arg-type]
    except ValidationError as error:
        raise invalid_from(error, lambda: _adapter(type_).json_schema(), at) from None  # type: ignore[arg-type]
    except RecursionError:
        raise Invalid(at or "input", "is nested too deeply", "Give lists and objects with fewer levels") from None
    except UnicodeEncodeError:
        # In a name that the type does not know, pydantic meets it before it can refuse the name.
        raise Invalid(at or "input", HALF_CHARACTER, "Leave it out") from None


def require_storable(value: object, at: str) -> None:
    """Raises `Invalid` where data has something that the log cannot hold: NaN, infinity, a lone surrogate, another type.

    >>> require_storable({"k": [1, "a", None, True, 2.5]}, "parameters")
    >>> require_storable({"k": float("nan")}, "parameters")
    Traceback (most recent call last):
    memtape.errors.Invalid: parameters.k: is not a finite number. Give a finite number, or leave it out
    """
    if value is None or isinstance(value, bool | datetime):
        return
    if isinstance(value, str):
        if found := _CONTROL.search(value):
            raise Invalid(at, f"contains a control character (U+{ord(found[0]):04X})", "Remove it")
    elif isinstance(value, int):
        if abs(value) > MAX_WHOLE_NUMBER:
            raise Invalid(at, "has too many digits", "Use at most 38 digits")
    elif isinstance(value, float | Decimal):
        if not (value.is_finite() if isinstance(value, Decimal) else math.isfinite(value)):
            raise Invalid(at, "is not a finite number", "Give a finite number, or leave it out")
        if isinstance(value, Decimal) and abs(value) > MAX_WHOLE_NUMBER:
            raise Invalid(at, "has too many digits", "Use at most 38 digits")
    elif isinstance(value, Mapping):
        for name, each in value.items():
            require_storable(name, at)
            require_storable(each, f"{at}.{name}")
    elif isinstance(value, list | tuple):
        for n, each in enumerate(value):
            require_storable(each, f"{at}.{n}")
    else:
        raise Invalid(at, f"is of a type that cannot be stored ({type(value).__name__})", "Use text, numbers, lists and objects")


def invalid_from(error: ValidationError, schema: Callable[[], Mapping[str, Any]], at: str = "") -> Invalid:
    """Every problem of a failed validation, as our own error. The JSON schema tells what a missing field should hold."""
    found = error.errors(include_url=False)
    expected = _expected_forms(schema) if any(each["type"] == "missing" for each in found) else {}
    problems = [_field_problem(each, expected, at, schema) for each in found[:MAX_LISTED_PROBLEMS]]
    if len(found) > len(problems):
        problems.append(FieldProblem(at or "input", f"{len(found) - len(problems)} more problems"))
    first, *more = problems
    return Invalid(first.field, first.problem, first.fix, *more)


def _field_problem(
    found: ErrorDetails, expected: Mapping[str, str], at: str, schema: Callable[[], Mapping[str, Any]]
) -> FieldProblem:
    """One pydantic error in plain English."""
    place = ".".join(str(part) for part in found["loc"])
    field = ".".join(part for part in (at, place) if part) or "input"
    if found["type"] == "missing":
        form = expected.get(place)
        return FieldProblem(field, f"required ({form})" if form else "required")
    # A rule about several fields fails on the whole, which says nothing more.
    got = "" if isinstance(found["input"], Mapping) and found["type"] == "value_error" else f"(got {_shortened(found['input'])})"
    problem = found["msg"].removeprefix("Value error, ").removeprefix("Input ").removeprefix("String ")
    if found["type"] == "value_error":
        problem, _, fix = problem.partition("; ")
        return FieldProblem(field, problem, f"{fix[:1].upper()}{fix[1:]} {got}".strip())
    kind = found["type"]
    if kind in ("too_long", "too_short") and isinstance(found["input"], str):
        # A text that is folded before it is measured is reported like a list.
        kind = f"string_{kind}"
    if kind == "string_pattern_mismatch" and found["input"] == "":
        return FieldProblem(field, "is empty", "Give it, or leave the field out")
    if kind in _PROBLEMS:
        problem = _PROBLEMS[kind].format(**found.get("ctx", {}))
    fix = _FIXES.get(kind, "Correct it")
    if kind == "string_too_long":
        fix, got = f"{fix}: it has {len(found['input'])}", ""
    if kind in ("extra_forbidden", "unexpected_keyword_argument"):
        fix = meant(str(found["loc"][-1]), _names_beside(found["loc"], schema)) or fix
    return FieldProblem(field, f"{problem[:1].lower()}{problem[1:]}", f"{fix} {got}".strip())


def _names_beside(place: Sequence[str | int], schema: Callable[[], Mapping[str, Any]]) -> set[str]:
    """The fields that exist where an unknown one was given; none where the schema does not say."""
    try:
        whole = schema()
    except PydanticUserError:
        return set()
    definitions = whole.get("$defs", {})
    reached = [whole]
    for part in [*place[:-1], None]:
        # An object may stand behind a reference, or be one of several forms.
        for form in reached:
            reached += [each for key in ("anyOf", "oneOf", "allOf") for each in form.get(key, ()) if each not in reached]
            if "$ref" in form and (target := definitions[form["$ref"].rpartition("/")[2]]) not in reached:
                reached.append(target)
        if part is None:
            break
        inside = [form.get("items") if isinstance(part, int) else form.get("properties", {}).get(part) for form in reached]
        reached = [each for each in inside if each]
    return {name for form in reached for name in form.get("properties", {})}


def _expected_forms(schema: Callable[[], Mapping[str, Any]]) -> dict[str, str]:
    """What each field of a JSON schema should hold, in words, where the name alone does not tell."""
    try:
        whole = schema()
    except PydanticUserError:
        # Some types have no JSON schema. The field is named all the same.
        return {}
    definitions = whole.get("$defs", {})
    if "$ref" in whole:
        whole = definitions[whole["$ref"].rpartition("/")[2]]
    return {name: _form_of(field, definitions) for name, field in whole.get("properties", {}).items()}


def _form_of(field: Mapping[str, Any], definitions: Mapping[str, Any]) -> str:
    leaves = [field, *field.get("anyOf", ())]
    leaves = [definitions[leaf["$ref"].rpartition("/")[2]] if "$ref" in leaf else leaf for leaf in leaves]
    choices = [str(choice) for leaf in leaves for choice in leaf.get("enum", ())]
    if choices:
        return " or ".join([", ".join(choices[:-1]), choices[-1]]) if len(choices) > 1 else choices[0]
    if any(leaf.get("format") == "date-time" for leaf in leaves):
        return "ISO time with zone"
    kinds = {leaf.get("type") for leaf in leaves}
    words = {"number": "number", "integer": "whole number", "object": "JSON object", "array": "list"}
    return next((word for kind, word in words.items() if kind in kinds), "")


def _shortened(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
