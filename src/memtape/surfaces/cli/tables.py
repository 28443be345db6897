"""Tables for people: columns that fit the terminal, with what does not fit below each row.

Nothing is cut but prose: ids, times, prices and results are always whole. Columns are given in the order of their importance.
While they are wider than the terminal, long texts move to a line of their own below the row, then the last columns do. Prose
below a row is shortened with an ellipsis after some lines.

>>> rows = [{"id": "a1", "symbol": "BTC", "pnl": "-12.5", "reason": "closed above the 20-bar high, with volume"}]
>>> print(*table_lines(rows, width=40), sep="\\n")
id  symbol    pnl
--  ------  -----
a1  BTC     -12.5
    closed above the 20-bar high, with
    volume
"""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Any

GAP = "  "
INDENT = "    "
LONG_TEXT = 24  # characters: longer prose goes below the row when the table is too wide
MAX_TEXT_LINES = 3
NARROWEST = 40
DIGITS = 6
EXACT_BELOW = 1000  # a float below is a score or a share, to four digits; above it counts something
_DECIMAL = re.compile(r"^[+-]?\d+\.\d+$")
_TIME = re.compile(r"^(\d{4}-\d\d-\d\d)T(\d\d:\d\d)(:\d\d)?(?:\.\d+)?(?:Z|\+00:00)$")
_NUMBER = re.compile(r"^[+-]?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?%?$")


def column_names(rows: Iterable[Mapping[str, Any]]) -> list[str]:
    """The columns of a table, in the order in which they first occur."""
    return list(dict.fromkeys(name for row in rows for name in row))


def table_lines(rows: Sequence[Mapping[str, Any]], *, width: int) -> list[str]:
    """The lines of a table, none wider than `width` unless one id is."""
    width = max(width, NARROWEST)
    columns = [name for name in column_names(rows) if any(row.get(name) not in (None, "", [], {}) for row in rows)]
    cells = {name: _column(name, [row.get(name) for row in rows]) for name in columns}
    prose = {name for name in columns if _is_prose(cells[name])}
    inside, below = _fitting(columns, cells, prose, width)
    if len(inside) == 1 and inside[0] in prose:
        return [line for row in range(len(rows)) for line in _paragraph({name: cells[name][row] for name in columns}, width)]
    widths = {name: max(len(name), *map(len, cells[name])) for name in inside}
    right = {name for name in inside if all(not cell or _NUMBER.match(cell) for cell in cells[name])}

    def line(texts: Mapping[str, str]) -> str:
        return GAP.join(
            texts[name].rjust(widths[name]) if name in right else texts[name].ljust(widths[name]) for name in inside
        ).rstrip()

    lines = [line({name: name for name in inside}), line({name: "-" * widths[name] for name in inside})]
    for index in range(len(rows)):
        lines.append(line({name: cells[name][index] for name in inside}))
        # A symbol with spaces moves like prose, but it is a value: it is named, and never shortened.
        lines += _details({name: cells[name][index] for name in below}, prose - {"symbol"}, width)
    return lines


def _fitting(columns: list[str], cells: Mapping[str, list[str]], prose: set[str], width: int) -> tuple[list[str], list[str]]:
    """The columns of the table, and those below its rows."""
    inside, below = list(columns), list[str]()

    def too_wide() -> bool:
        return sum(max(len(name), *map(len, cells[name])) for name in inside) + len(GAP) * (len(inside) - 1) > width

    for candidates in (prose, set(columns)):
        for name in reversed(columns):
            if len(inside) > 1 and too_wide() and name in inside and name in candidates:
                inside.remove(name)
                below.insert(0, name)
    return inside, below


def _paragraph(texts: Mapping[str, str], width: int) -> list[str]:
    """A row whose every column is prose."""
    first, *others = (text for text in texts.values() if text)
    lines = textwrap.wrap(f"- {first}", width, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)
    return [*lines, *(line for text in others for line in shortened(text, width))]


def _is_prose(texts: Sequence[str]) -> bool:
    return any(len(text) > LONG_TEXT and " " in text for text in texts)


def _details(texts: Mapping[str, str], prose: set[str], width: int) -> list[str]:
    """The lines below a row: first what is short, named, then the texts."""
    lines = _joined([f"{name} {text}" for name, text in texts.items() if text and name not in prose], width)
    for name, text in texts.items():
        if text and name in prose:
            lines += shortened(text, width)
    return lines


def _joined(parts: Sequence[str], width: int) -> list[str]:
    lines: list[str] = []
    for part in parts:
        if lines and len(lines[-1]) + len(part) + 2 <= width:
            lines[-1] += f", {part}"
        else:
            lines.append(INDENT + part)
    return lines


def shortened(text: str, width: int, indent: str = INDENT) -> list[str]:
    """Prose in at most MAX_TEXT_LINES lines; no word is broken, so an id in it stays whole."""
    lines = textwrap.wrap(
        text, width, initial_indent=indent, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )
    if len(lines) <= MAX_TEXT_LINES:
        return lines
    last = lines[MAX_TEXT_LINES - 1]
    while len(last) + 2 > width and " " in last.strip():
        last = last[: last.rindex(" ")]
    return [*lines[: MAX_TEXT_LINES - 1], f"{last} …"]


def _column(name: str, values: Sequence[Any]) -> list[str]:
    """The cells of a column. Times are written to the minute if none of them has seconds, multiples of R to two places."""
    texts = [cell_text(value) for value in values]
    if name == "r" or name.endswith("_r"):
        texts = [f"{float(text):.2f}" if _NUMBER.match(text) else text for text in texts]
    times = [_TIME.match(text) for text in texts]
    if not any(times):
        return texts
    seconds = any(found and (found[3] or ":00") != ":00" for found in times)
    return [short_time(text, seconds=seconds) for text in texts]


def short_time(text: str, *, seconds: bool = True) -> str:
    """A time without its fraction; other texts as they are.

    >>> short_time("2026-03-02T10:00:00.123456Z"), short_time("2026-03-02T10:00:00Z", seconds=False), short_time("soon")
    ('2026-03-02 10:00:00Z', '2026-03-02 10:00Z', 'soon')
    """
    found = _TIME.match(text)
    return text if found is None else f"{found[1]} {found[2]}{(found[3] or ':00') if seconds else ''}Z"


def cell_text(value: Any) -> str:
    """A value in a cell: one line, and only characters that a terminal shows.

    >>> cell_text(["a", "b"]), cell_text({"regime": "ranging", "n": 3}), cell_text(True), cell_text(0.123456789)
    ('a, b', 'regime ranging, n 3', 'yes', '0.1235')
    >>> cell_text([{"path": "manual.md", "size": 12}, {"path": "notes.md", "size": 3}])
    'manual.md, notes.md'
    """
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.4g}" if abs(value) < EXACT_BELOW else f"{value:.10g}"
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {cell_text(part)}" for name, part in value.items() if part not in (None, "", [], {}))
    if isinstance(value, list):
        # A row inside a cell is named by its first column.
        parts = (next(iter(part.values()), None) if isinstance(part, Mapping) else part for part in value)
        return ", ".join(text for text in map(cell_text, parts) if text)
    return short_figure(printable(" ".join(value.split()))) if isinstance(value, str) else json.dumps(value)


def short_figure(text: str) -> str:
    """A decimal number to six digits, or to two places if it has more before the point; other texts as they are.

    >>> [short_figure(text) for text in ("-164.69132523", "0.00000312", "1234567.8912", "24.5", "-5", "3.51.3")]
    ['-164.691', '0.00000312', '1234567.89', '24.5', '-5', '3.51.3']
    """
    if not _DECIMAL.match(text):
        return text
    number = Decimal(text)
    places = max(2, DIGITS - 1 - number.adjusted()) if number else 0
    rounded = number.quantize(Decimal(1).scaleb(-places)) if -number.as_tuple().exponent > places else number  # type: ignore[operator]
    return f"{rounded:f}".rstrip("0").rstrip(".") if "." in f"{rounded:f}" else f"{rounded:f}"


def printable(text: str) -> str:
    """Text that a terminal shows but does not interpret: notes may come from anywhere."""
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in text)
