"""Checks of what Python code passes by itself: names, kinds, moments, rows. Data of surfaces is checked by their models before.

Each returns the value, or raises `Invalid` with the name of the argument.

>>> require_name("agent", "gold"), require_row("head", 7)
('gold', 7)
>>> require_name("agent", 7)
Traceback (most recent call last):
    ...
memtape.errors.Invalid: agent: is not text, it is int. Give a name
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from memtape.errors import Invalid
from memtape.store.database import is_storable_text

MAX_ROW = 2**63 - 1
NO_STORE_HOLDS = "has a character that no store can hold: a zero, or half of a character"


def require_name(field: str, value: object) -> str:
    """Returns text that a store can look up."""
    if not isinstance(value, str):
        raise Invalid(field, f"is not text, it is {type(value).__name__}", "Give a name")
    if not is_storable_text(value):
        raise Invalid(field, NO_STORE_HOLDS, "Leave it out")
    return value


def require_text(field: str, value: object) -> str:
    """Returns text of any length that a file and the log can hold."""
    if not isinstance(value, str):
        raise Invalid(field, f"is not text, it is {type(value).__name__}", "Give text")
    if not is_storable_text(value):
        raise Invalid(field, NO_STORE_HOLDS, "Leave it out")
    return value


def require_row(field: str, value: object) -> int:
    """Returns a whole number that a store can hold: a row of the log, or a version."""
    if not isinstance(value, int) or isinstance(value, bool):
        raise Invalid(field, f"is not a whole number, it is {type(value).__name__}", "Give a number like 12")
    if not 0 <= value <= MAX_ROW:
        raise Invalid(field, "is out of range", "Give a number that the log has")
    return value


def require_moment(field: str, value: object) -> datetime:
    """Returns a moment with its time zone."""
    if not isinstance(value, datetime):
        raise Invalid(field, f"is not a time, it is {type(value).__name__}", "Give a datetime with its zone")
    if value.utcoffset() is None:
        raise Invalid(field, "has no time zone", "Give a datetime with its zone")
    return value


def require_mapping(field: str, value: object) -> dict[str, Any]:
    """Returns a mapping as a dict."""
    if not isinstance(value, Mapping):
        raise Invalid(field, f"is not a mapping, it is {type(value).__name__}", "Give names with their values")
    return dict(value)


def require_several(field: str, value: object) -> list[Any]:
    """Returns the members of a list; text is refused, because its members are letters."""
    if isinstance(value, str | bytes | Mapping) or not isinstance(value, Iterable):
        raise Invalid(field, f"is not a list, it is {type(value).__name__}", "Give a list")
    return list(value)

