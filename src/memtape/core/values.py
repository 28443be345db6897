"""What single values may be: the types of every field that arrives from outside, each with its limits and its fix.

They are ordinary annotations; `read` turns data into a value or says, in one `Invalid`, which field is wrong and what
would be right. Nothing unchecked gets past it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from decimal import Context, Decimal
from functools import lru_cache
from typing import Annotated, Any, TypeVar

from pydantic import AfterValidator, BeforeValidator, ConfigDict, Field, TypeAdapter, ValidationError

from memtape.errors import Invalid

MONEY = Context(prec=60)
ZERO = Decimal(0)
ONE = Decimal(1)
REASON_LENGTH = 280

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
    return moment.astimezone(UTC)


def _number(value: object) -> object:
    if isinstance(value, bool):
        raise ValueError('is not a number; write it as a number or a decimal string, like "65200.5"')
    if isinstance(value, float):
        return str(value)  # the shortest spelling: 0.1 means 0.1, not its binary neighbour
    return value


def _finite(value: Decimal) -> Decimal:
    return ZERO if value == 0 else value


_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff]")


def clean_text(value: str) -> str:
    if found := _CONTROL.search(value):
        raise ValueError(f"contains a control character (U+{ord(found[0]):04X}); remove it")
    return value


Time = Annotated[datetime, BeforeValidator(_aware)]
_LIMITS: dict[str, Any] = {"allow_inf_nan": False, "max_digits": 38, "decimal_places": 18}
# The limits stand next to Decimal, where they are checked natively; what is written after them runs before.
Number = Annotated[Decimal, Field(**_LIMITS), BeforeValidator(_number), AfterValidator(_finite)]
Money = Number
Price = Annotated[Decimal, Field(ge=0, **_LIMITS), BeforeValidator(_number), AfterValidator(_finite)]
Quantity = Annotated[Decimal, Field(gt=0, **_LIMITS), BeforeValidator(_number)]
Fraction = Annotated[Decimal, Field(ge=0, le=1, **_LIMITS), BeforeValidator(_number), AfterValidator(_finite)]
Text = Annotated[str, AfterValidator(clean_text)]
Reason = Annotated[Text, Field(max_length=REASON_LENGTH)]
Line = Annotated[Text, Field(max_length=2000)]
KEY = Field(min_length=1, max_length=128)
Key = Annotated[Text, KEY]
SLUG = Field(pattern=r"^[a-z0-9][a-z0-9._-]{0,63}$")
Slug = Annotated[str, SLUG]
Symbol = Annotated[str, Field(pattern=r"^[A-Za-z0-9^$][A-Za-z0-9 ._:/@#=^$+&*()-]{0,63}$")]
Leg = Annotated[Text, Field(max_length=128)]
Currency = Annotated[str, Field(pattern=r"^[A-Z0-9]{2,10}$")]
Label = Annotated[Text, Field(min_length=1, max_length=64)]

# What to do about each kind of refusal that pydantic itself words; ours above carry their fix with them.
_FIXES: Mapping[str, str] = {
    "missing": "Give it",
    "extra_forbidden": "Remove it, or check its spelling",
    "unexpected_keyword_argument": "Remove it, or check its spelling",
    "greater_than": "Give a larger number",
    "greater_than_equal": "Give a number that is not below the limit",
    "less_than_equal": "Give a number that is not above the limit",
    "finite_number": "Give a finite number",
    "decimal_parsing": 'Write a number or a decimal string, like "65200.5"',
    "decimal_type": 'Write a number or a decimal string, like "65200.5"',
    "decimal_max_digits": "Use at most 38 digits",
    "decimal_max_places": "Use at most 18 decimal places",
    "decimal_whole_digits": "Use at most 20 digits before the point",
    "string_too_long": "Shorten it",
    "string_too_short": "Give at least one character",
    "string_type": "Write it as text",
    "string_unicode": "Use valid Unicode text",
    "literal_error": "Choose one of these",
    "string_pattern_mismatch": "Use only the characters that the pattern allows",
}

T = TypeVar("T")


@lru_cache(maxsize=256)
def _adapter(type_: Any) -> TypeAdapter[Any]:
    return TypeAdapter(type_)


def read(type_: type[T], data: object, at: str = "") -> T:
    """Data as a checked value of `type_`, or `Invalid` naming the field and the fix.

    >>> read(Price, "-1", at="px")
    Traceback (most recent call last):
    memtape.errors.Invalid: px: should be greater than or equal to 0. Give a number that is not below the limit (got '-1')
    """
    try:
        return _adapter(type_).validate_python(data)  # type: ignore[no-any-return, arg-type]
    except ValidationError as error:
        raise invalid_from(error, at) from None


def invalid_from(error: ValidationError, at: str = "") -> Invalid:
    """The first problem of a failed reading, as our own error."""
    problems = error.errors(include_url=False)
    first = problems[0]
    field = ".".join([*([at] if at else []), *(str(part) for part in first["loc"])]) or "input"
    problem = first["msg"].removeprefix("Value error, ").removeprefix("Input ")
    got = "" if first["type"] == "missing" else f" (got {_shortly(first['input'])})"
    more = f"; {len(problems) - 1} more" if len(problems) > 1 else ""
    if first["type"] == "value_error":
        what, _, fix = problem.partition("; ")
        return Invalid(field, what, f"{fix[:1].upper()}{fix[1:]}{got}{more}")
    return Invalid(field, f"{problem[:1].lower()}{problem[1:]}", f"{_FIXES.get(first['type'], 'Correct it')}{got}{more}")


def _shortly(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
