"""The translation between memtape and its surfaces: errors out, text in.

Each error has one row for all surfaces: its HTTP status, its exit code and its title. Typed text (a query parameter or a
command-line option) becomes data by the JSON schema of its field; the operation's params then validate the data.

`memtape --help` imports this module, so it imports nothing heavy.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

from memtape import errors
from memtape.core.value_class import dataclass
from memtape.errors import Invalid, MemtapeError

# The columns that a table shows, by the name of the table; EVERY_TABLE stands for those that are not named.
Columns = Mapping[str, tuple[str, ...]]
EVERY_TABLE = "*"


@dataclass(frozen=True, slots=True)
class ErrorReport:
    """How a surface reports one kind of error."""

    status: int  # HTTP
    exit_code: int  # 1 failed, 2 usage, 3 locked or in conflict, 4 integrity
    title: str


OUTCOMES: Mapping[type[MemtapeError], ErrorReport] = {
    errors.Invalid: ErrorReport(422, 2, "Invalid input"),
    errors.Unknown: ErrorReport(404, 2, "Not found"),
    errors.Conflict: ErrorReport(409, 3, "Conflict"),
    errors.PermissionDenied: ErrorReport(403, 3, "Permission denied"),
    errors.NeedsRebuild: ErrorReport(409, 3, "Needs rebuild"),
    errors.Locked: ErrorReport(503, 3, "Store locked"),
    errors.ReadOnly: ErrorReport(507, 1, "Store not writable"),
    errors.DiskFull: ErrorReport(507, 1, "Disk full"),
    errors.StoreFailure: ErrorReport(500, 1, "Store failure"),
    errors.NoStore: ErrorReport(503, 2, "No store"),
    errors.Damaged: ErrorReport(503, 2, "Index damaged"),
    errors.NewerSchema: ErrorReport(503, 2, "Store newer than memtape"),
    errors.OlderSchema: ErrorReport(503, 2, "Store older than memtape"),
    errors.Tampered: ErrorReport(500, 4, "Store and log disagree"),
    errors.MissingExtra: ErrorReport(501, 2, "Extra not installed"),
    errors.ModelFailed: ErrorReport(502, 1, "Model failed"),
    errors.RunFailed: ErrorReport(502, 1, "Run failed"),
    errors.Unreachable: ErrorReport(502, 1, "Source unreachable"),
    MemtapeError: ErrorReport(500, 1, "Error"),
}


def error_report(error: MemtapeError) -> ErrorReport:
    """The row of an error, or of its nearest base class that has one."""
    return next(OUTCOMES[kind] for kind in type(error).__mro__ if kind in OUTCOMES)


def problem(error: MemtapeError) -> dict[str, object]:
    """An error as a problem object (RFC 9457): the body of an HTTP error, and what the command line prints with --json.

    `field` and `fix` are those of the first wrong field; `errors` lists all of them.

    >>> problem(Invalid("px", "should be positive", "Give a larger number"))["type"]
    'urn:memtape:problem:invalid'
    >>> problem(Invalid("t", "required (ISO time with zone)", ""))["errors"]
    [{'field': 't', 'problem': 'required (ISO time with zone)', 'fix': 'Give t'}]
    """
    found = error_report(error)
    more = {name: error.facts[name] for name in ("field", "fix") if error.facts.get(name)}
    if isinstance(error, Invalid):
        # A field that is missing needs no more words in a sentence; a program that lists problem and fix shows what to do.
        more["errors"] = [each._asdict() | {"fix": each.fix or f"Give {each.field}"} for each in error.errors]
    return problem_object(found.status, found.title, str(error), type(error).__name__, **more)


def problem_object(status: int, title: str, detail: str, kind: str = "", **more: object) -> dict[str, object]:
    slug = re.sub(r"(?<=[a-z0-9])(?=[A-Z])| ", "-", kind or title).lower()
    return {"type": f"urn:memtape:problem:{slug}", "title": title, "status": status, "detail": detail, **more}


# Characters that a terminal may interpret (delete, C1 controls) or that UTF-8 cannot hold (half a surrogate pair). JSON
# can spell them as escapes, so the data stays the same.
_UNSAFE = re.compile("[\x7f-\x9f\ud800-\udfff]")


def json_text(data: object, indent: int | None = None) -> str:
    """Data as JSON, in one spelling for every surface. Raises ValueError for a number that JSON cannot hold, which is a bug.

    >>> json_text({"note": "caf\u00e9 \x9b31m"})
    '{"note": "caf\u00e9 \\\\u009b31m"}'
    """
    text = json.dumps(data, ensure_ascii=False, allow_nan=False, indent=indent)
    return _UNSAFE.sub(lambda found: f"\\u{ord(found.group()):04x}", text)


MAX_DIGITS = 4_000  # of a whole number; above 4,300 Python refuses it


def read_json(source: str | bytes, field: str) -> Any:
    """The data of a JSON text. Raises `Invalid` with `field` if it is not JSON.

    >>> read_json('{"qty": NaN}', "body")
    Traceback (most recent call last):
    memtape.errors.Invalid: body: is not JSON: NaN is not a JSON number. Write it as JSON, encoded in UTF-8
    >>> read_json("9" * 5000, "body")
    Traceback (most recent call last):
    memtape.errors.Invalid: body: is not JSON: a number has 5,000 digits, more than 4,000. Write it as JSON, encoded in UTF-8
    """
    try:
        text = source.decode("utf-8-sig") if isinstance(source, bytes) else source
        data = json.loads(text, parse_constant=_no_constant, parse_float=_finite, parse_int=_short)
        if "\\u" in text:
            # "\ud800" parses, but nothing can store it.
            json.dumps(data, ensure_ascii=False).encode()
    except UnicodeError:
        raise Invalid(field, "is not Unicode text", "Write it as JSON, encoded in UTF-8") from None
    except RecursionError:
        raise Invalid(field, "is nested too deeply", "Use fewer levels") from None
    except ValueError as error:
        raise Invalid(field, f"is not JSON: {error}", "Write it as JSON, encoded in UTF-8") from None
    return data


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is not a JSON number")


def _short(digits: str) -> int:
    """A whole number that Python reads in a moment."""
    if len(digits) > MAX_DIGITS:
        raise ValueError(f"a number has {len(digits):,} digits, more than {MAX_DIGITS:,}")
    return int(digits)


def _finite(digits: str) -> float:
    if math.isinf(number := float(digits)):
        raise ValueError(f"{digits[:20]} is too large a number")
    return number


@dataclass(frozen=True, slots=True)
class Input:
    """One field of an operation's params, as a user who types text sees it."""

    name: str
    kind: Literal["text", "flag", "list", "json", "either"]  # either: text, or JSON when it starts with { or [
    form: str  # what to write: TEXT, INTEGER, TIME, a choice like long|short, JSON
    help: str
    required: bool
    default: object
    takes_pairs: bool = False  # a JSON object, which may also be written as session=london,regime=ranging

    def read(self, texts: Sequence[str]) -> object:
        """The typed text as data.

        >>> symbols = Input("symbols", "list", "TEXT", "", False, None)
        >>> symbols.read(["BTC", "ETH"]), symbols.read(['["BTC", "ETH"]'])
        (['BTC', 'ETH'], ['BTC', 'ETH'])
        """
        if self.kind == "list" and not (len(texts) == 1 and texts[0].lstrip().startswith("[")):
            return list(texts)
        if len(texts) != 1:
            raise Invalid(self.name, f"is given {len(texts)} times", "Give it once")
        text = texts[0]
        if self.takes_pairs and text.lstrip()[:1] not in ("{", "["):
            return read_pairs(text, self.name)
        is_json = self.kind in ("json", "list") or (self.kind == "either" and text.lstrip()[:1] in ("{", "["))
        return read_json(text, self.name) if is_json else text


def read_pairs(text: str, field: str) -> dict[str, Any]:
    """An object that is written as pairs. Numbers, true, false, null and text in quotes are read as JSON reads them.

    >>> read_pairs("session=london, regime=ranging,atr_d1=12.5", "context")
    {'session': 'london', 'regime': 'ranging', 'atr_d1': 12.5}
    >>> read_pairs('session="london session",regime="12"', "context")
    {'session': 'london session', 'regime': '12'}
    """
    found: dict[str, Any] = {}
    for pair in text.split(","):
        name, equals, value = (part.strip() for part in pair.partition("="))
        if not name or not equals:
            problem = f"'{pair.strip()[:40]}' is neither NAME=VALUE nor JSON"
            raise Invalid(field, problem, "Write it like session=london,regime=ranging")
        if name in found:
            raise Invalid(field, f"{name} is given twice", "Give each name once")
        found[name] = read_json(value, field) if _JSON_WORD.match(value) else value
    return found


_JSON_WORD = re.compile(r'^(-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?|true|false|null|"[^"\\]*")$')


def inputs(schema: Mapping[str, Any]) -> list[Input]:
    """The fields of a params schema, required ones first."""
    required = schema.get("required", ())
    found = [_input(name, field, schema.get("$defs", {}), name in required) for name, field in schema["properties"].items()]
    return sorted(found, key=lambda field: not field.required)


def _input(name: str, field: Mapping[str, Any], defs: Mapping[str, Any], required: bool) -> Input:
    leaves = [leaf for leaf in _leaves(field, defs) if leaf.get("type") != "null"]
    nested = [leaf for leaf in leaves if _is_nested(leaf)]
    kind: Literal["text", "flag", "list", "json", "either"]
    if nested and len(nested) == len(leaves):
        items = [leaf for each in nested for leaf in _leaves(each.get("items", {}), defs)]
        kind = "list" if items and not any(_is_nested(item) for item in items) else "json"
        form = _form(items) if kind == "list" else "JSON"
    elif nested:
        kind, form = "either", f"{_form([leaf for leaf in leaves if leaf not in nested])}|JSON"
    else:
        kind = "flag" if leaves and all(leaf.get("type") == "boolean" for leaf in leaves) else "text"
        form = _form(leaves)
    # Only an object can be written as pairs; a list of objects, or a value of any kind, cannot.
    pairs = kind == "json" and all(leaf.get("type") == "object" for leaf in nested)
    return Input(name, kind, form, field.get("description", ""), required, field.get("default"), pairs)


def _is_nested(leaf: Mapping[str, Any]) -> bool:
    return leaf.get("type") in ("object", "array") or not leaf.keys() & {"type", "enum", "const"}


def _leaves(schema: Mapping[str, Any], defs: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """The simple alternatives of a schema, with references resolved."""
    if "$ref" in schema:
        yield from _leaves(defs[schema["$ref"].rpartition("/")[2]], defs)
        return
    branches = [*schema.get("anyOf", ()), *schema.get("oneOf", ()), *schema.get("allOf", ())]
    if not branches:
        yield schema
    for branch in branches:
        yield from _leaves(branch, defs)


def _form(leaves: Sequence[Mapping[str, Any]]) -> str:
    words: list[str] = []
    for leaf in leaves:
        choices = leaf.get("enum") or ([leaf["const"]] if "const" in leaf else [])
        named = "TIME" if leaf.get("format") == "date-time" else str(leaf.get("type", "text")).upper()
        words += [str(choice) for choice in choices] or ["TEXT" if named == "STRING" else named]
    # A decimal is accepted as a number or as text; for the user it is a number.
    if "NUMBER" in words:
        words = [word for word in words if word != "TEXT"]
    return "|".join(dict.fromkeys(words))
