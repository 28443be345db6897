"""One encoding for every value, so that equal values have equal bytes and equal hashes.

Canonical JSON: keys sorted, no spaces, UTF-8; a Decimal is a plain string without trailing zeros; a time is ISO 8601
in UTC ending in Z; there are no NaNs. Hashes are SHA-256 in hex. Ids are the first 16 digits of a hash, without
randomness or clock, so the same history gives the same ids everywhere.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from functools import lru_cache
from hashlib import sha256
from operator import attrgetter
from typing import Any

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)
GENESIS = "0" * 64


def decimal_text(number: Decimal) -> str:
    """Returns the canonical text of an amount.

    >>> decimal_text(Decimal("1.500")), decimal_text(Decimal("1E+3")), decimal_text(Decimal("-0.0"))
    ('1.5', '1000', '0')
    """
    text = str(number)
    if "E" in text:
        text = format(number, "f")
    if "." in text and text[-1] == "0":
        text = text.rstrip("0").rstrip(".")
    return "0" if text == "-0" else text


@lru_cache(maxsize=4096)
def time_text(moment: datetime) -> str:
    """Returns the canonical text of a time. One moment is often written many times: as a tick's, its bar's, its mark's.

    >>> time_text(datetime(2026, 6, 4, 8, tzinfo=UTC)), time_text(datetime(2026, 6, 4, 8, 0, 0, 250000, tzinfo=UTC))
    ('2026-06-04T08:00:00Z', '2026-06-04T08:00:00.25Z')
    """
    text = (moment if moment.tzinfo is UTC else moment.astimezone(UTC)).isoformat()[:-6]
    return (text.rstrip("0") if "." in text else text) + "Z"


def read_time(text: str) -> datetime:
    """Returns the time of a canonical text; the inverse of `time_text`."""
    return datetime.fromisoformat(text).astimezone(UTC)


@lru_cache(maxsize=4096)
def micros(moment: datetime) -> int:
    """Returns exact microseconds since 1970, the form in which stores keep times. One moment is often asked for many times.

    >>> micros(datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC))
    1000000
    """
    return (moment - EPOCH) // MICROSECOND


def moment(micros_since_1970: int) -> datetime:
    """Returns the time of microseconds since 1970; the inverse of `micros`."""
    return EPOCH + timedelta(microseconds=micros_since_1970)


# Upper limits of epochs in seconds, milliseconds and microseconds; larger numbers are nanoseconds.
_MICROS_PER_UNIT = ((10**11, 10**6), (10**14, 10**3), (10**17, 1))


def read_epoch(number: Decimal) -> datetime:
    """Returns the time of an epoch number as files give it; its size implies the unit.

    >>> time_text(read_epoch(Decimal(1717488000))), time_text(read_epoch(Decimal(1717488000000)))
    ('2024-06-04T08:00:00Z', '2024-06-04T08:00:00Z')
    """
    if number < 10**8:
        raise ValueError("a year or a day count, not an epoch")
    for limit, unit in _MICROS_PER_UNIT:
        if number < limit:
            return EPOCH + timedelta(microseconds=int(number * unit))
    return EPOCH + timedelta(microseconds=int(number) // 1000)


# The fields of each dataclass, looked up once: their names, and one getter for all of them.
_FIELDS: dict[type, tuple[tuple[str, ...], Callable[[Any], tuple[Any, ...]]]] = {}


def plain(value: Any) -> Any:
    """Returns a value as plain JSON types; fields of dataclasses that are None are omitted."""
    kind = type(value)
    if kind is str or value is None or kind is int or kind is bool:
        return value
    if kind is Decimal:
        return decimal_text(value)
    if kind is datetime:
        return time_text(value)
    if kind is dict:
        return {str(k): plain(v) for k, v in value.items()}
    if kind is tuple or kind is list:
        return [plain(v) for v in value]
    if kind is float:
        if value != value or value in (float("inf"), float("-inf")):
            raise ValueError("NaN and infinity have no canonical spelling")
        return value
    known = _FIELDS.get(kind)
    if known is None:
        if not is_dataclass(value):
            return [plain(v) for v in value] if not isinstance(value, Mapping) else {str(k): plain(v) for k, v in value.items()}
        names = tuple(f.name for f in fields(value))
        get = attrgetter(*names) if len(names) > 1 else lambda each: (getattr(each, names[0]),)
        known = _FIELDS[kind] = (names, get)
    found = zip(known[0], known[1](value), strict=True)
    return {name: v if type(v) is str else plain(v) for name, v in found if v is not None}


_quoted = json.encoder.encode_basestring
_encode = json.JSONEncoder(
    sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False, check_circular=False
).encode


def canonical(value: Any) -> str:
    """Returns the canonical JSON of any value of memtape: that of its plain form, written in one pass.

    >>> canonical({"b": Decimal("1.0"), "a": [None, True]})
    '{"a":[null,true],"b":"1"}'
    """
    write = _TEXTS.get(type(value)) or _text_of_kind(type(value))
    return write(value)


def canonical_object(members: Mapping[str, str]) -> str:
    """Returns the canonical JSON of an object whose members are written already.

    >>> canonical_object({"b": "1", "a": "[]"})
    '{"a":[],"b":1}'
    """
    return f"{{{','.join([f'{_quoted(name)}:{members[name]}' for name in sorted(members)])}}}"


def _text_of_kind(kind: type) -> Callable[[Any], str]:
    """Returns what writes the values of a type that was not met before."""
    if not is_dataclass(kind):
        return lambda value: _encode(plain(value))
    names = sorted(f.name for f in fields(kind))
    get = attrgetter(*names) if len(names) > 1 else lambda each: (getattr(each, names[0]),)
    labels = [f"{_quoted(name)}:" for name in names]

    def write(value: Any) -> str:
        found = zip(labels, get(value), strict=True)
        texts = [label + (_TEXTS.get(type(v)) or _text_of_kind(type(v)))(v) for label, v in found if v is not None]
        return f"{{{','.join(texts)}}}"

    _TEXTS[kind] = write
    return write


def _text_of_dict(value: dict[Any, Any]) -> str:
    if len(value) == 1:
        # As most are that have symbols as keys.
        [(name, v)] = value.items()
        return f"{{{_quoted(str(name))}:{canonical(v)}}}"
    return canonical_object({str(name): canonical(v) for name, v in value.items()})


def _text_of_list(value: Sequence[Any]) -> str:
    return "[]" if not value else f"[{','.join([canonical(v) for v in value])}]"


_TEXTS: dict[type, Callable[[Any], str]] = {
    str: _quoted, type(None): lambda _: "null", bool: lambda value: "true" if value else "false", int: int.__repr__,
    Decimal: lambda value: f'"{decimal_text(value)}"', datetime: lambda value: f'"{time_text(value)}"',
    dict: _text_of_dict, tuple: _text_of_list, list: _text_of_list,
}  # fmt: skip


def canonical_plain(value: Any) -> str:
    """Returns the canonical JSON of a value that is already plain; the fast path."""
    return _encode(value)


def digest(text: str) -> str:
    """Returns the SHA-256 of a text, in hex."""
    return sha256(text.encode()).hexdigest()


def make_id(*parts: object) -> str:
    """Returns the id of a value that memtape makes: 16 hex digits of the hash of its parts.

    >>> make_id("main", "fill:f1", "BTC")
    '2c5a767b65c2c619'
    """
    if all(type(part) is str for part in parts):
        return digest(f"[{','.join(map(_quoted, parts))}]")[:16]  # type: ignore[arg-type]
    return digest(canonical(list(parts)))[:16]


def chain_hash(
    stream: str,
    seq: int,
    kind: str,
    key: str,
    occurred_at: int,
    known_at: int,
    recorded_at: int,
    payload_hash: str,
    prev_hash: str,
) -> str:
    """Returns the hash of a log row, over its content and the hash of the row before it.

    >>> row = {"stream": "a", "seq": 1, "kind": "fill", "key": 'f"1', "occurred_at": 1, "known_at": 2, "recorded_at": 3}
    >>> chain_hash(*row.values(), "p", "q") == digest(canonical({**row, "payload_hash": "p", "prev_hash": "q"}))
    True
    """
    return digest(  # canonical JSON, spelled out: its keys are known and sorted
        f'{{"key":{_quoted(key)},"kind":{_quoted(kind)},"known_at":{known_at},"occurred_at":{occurred_at},'
        f'"payload_hash":"{payload_hash}","prev_hash":"{prev_hash}","recorded_at":{recorded_at},"seq":{seq},'
        f'"stream":{_quoted(stream)}}}'
    )
