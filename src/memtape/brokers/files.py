"""Files -> a table of texts: compressed or not, in any usual encoding, CSV with any usual separator, or JSON.

Cells are not interpreted here. Sizes are limited, because a file may come from anyone.
"""

from __future__ import annotations

import csv
import gzip
import io
import json
import re
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import Any

from memtape.errors import Invalid

MAX_BYTES = 256 * 2**20
MAX_ROWS = 1_000_000
MAX_COLUMNS = 500
MAX_CELLS = 100_000_000
MAX_PREAMBLE_LINES = 20  # before the header: title, account, period
MAX_NESTING = 3
DECISION_MEMBERS = ("signal", "action", "decision", "recommendation")  # what an object that is a decision has
MAX_WRAPPER_MEMBERS = 5  # an object with more plain members is a trade, not a wrapper of a list of trades
_SURROGATES = re.compile("[\ud800-\udfff]")
_CONTROLS = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff]+")
_OTHER_FILE_TYPES = (
    (b"PK\x03\x04", "is a workbook or an archive", "Save the sheet as CSV"),
    (b"SQLite format 3\x00", "is a database", "Export its trades as CSV"),
    (b"%PDF", "is a PDF", "Ask the broker for CSV"),
    (b"PAR1", "is a parquet file", "Save it as CSV"),
)


@dataclass(frozen=True)
class ImportFile:
    """A file's bytes, decompressed."""

    name: str
    data: bytes
    digest: str  # SHA-256 of the file as it is on disk
    path: Path | None = None

    @cached_property
    def text(self) -> str:
        """The text with uniform line ends. Raises Invalid if the file is not a text."""
        for mark, problem, fix in _OTHER_FILE_TYPES:
            if self.data.startswith(mark):
                raise Invalid(self.name, problem, fix)
        text = _decode(self.data).replace("\r\n", "\n").replace("\r", "\n")
        if "\x00" in text:
            raise Invalid(self.name, "is not a text file", "Give CSV, JSON or JSONL")
        if not text.strip():
            raise Invalid(self.name, "is empty", "Give a file with a header and rows")
        return text


@dataclass(slots=True)
class CellTable:
    """Rows of texts, each with as many cells as the header."""

    header: tuple[str, ...]
    rows: list[list[str]] = field(default_factory=list)
    lines: list[int] = field(default_factory=list)  # line number of each row, from 1
    bad: list[tuple[int, str, str]] = field(default_factory=list)  # line, problem, fix
    separator: str = ""
    # Rows of a statement that belong to other sections than the trades, by section.
    other_sections: Counter[str] = field(default_factory=Counter)
    _columns: dict[int, list[str]] = field(default_factory=dict)

    def column(self, at: int) -> list[str]:
        """Returns a column's cells without surrounding blanks."""
        if at not in self._columns:
            self._columns[at] = [row[at].strip() for row in self.rows]
        return self._columns[at]

    def keep(self, wanted: Sequence[int]) -> None:
        """Drop all other rows."""
        self.rows, self.lines = [self.rows[n] for n in wanted], [self.lines[n] for n in wanted]
        self._columns.clear()


def load_file(path: str | Path) -> ImportFile:
    """Read a file from disk."""
    file = Path(path)
    name = clean_name(file.name) or "file"
    try:
        with file.open("rb") as stream:
            raw = stream.read(MAX_BYTES + 1)
    except (OSError, ValueError) as error:
        # A path with a NUL character raises ValueError.
        problem = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise Invalid(name, f"cannot be read ({problem})", "Give the path of a readable file") from None
    return replace(unpack_file(name, raw), path=file)


def unpack_file(name: str, raw: bytes) -> ImportFile:
    """Returns a file from its bytes on disk, which may be compressed."""
    data = raw
    if raw[:2] == b"\x1f\x8b":
        try:
            with gzip.GzipFile(fileobj=io.BytesIO(raw)) as packed:
                data = packed.read(MAX_BYTES + 1)
        except (OSError, EOFError, zlib.error) as error:
            raise Invalid(name, f"is a damaged .gz file ({error})", "Download it again") from None
    if len(data) > MAX_BYTES:
        raise Invalid(name, f"is larger than {MAX_BYTES // 2**20} MB", "Split it by year and import the parts")
    return ImportFile(name, data, sha256(raw).hexdigest())


def _decode(data: bytes) -> str:
    """Decodes UTF-8, UTF-16 (with or without a byte order mark), else Windows-1252."""
    try:
        if data[:2] in (b"\xff\xfe", b"\xfe\xff"):
            return data.decode("utf-16")
        if data[1:2] == b"\x00" and data[:1] != b"\x00":
            return data.decode("utf-16-le")
        if data[:1] == b"\x00" and data[1:2] != b"\x00":
            return data.decode("utf-16-be")
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        pass
    try:
        return data.decode("cp1252")
    except UnicodeDecodeError:
        return data.decode("latin-1")


def clean_name(text: str) -> str:
    """Returns a file's or a column's name that is safe to store and show."""
    return _CONTROLS.sub(" ", text).strip()[:100]


def unique_names(cells: Iterable[str]) -> tuple[str, ...]:
    """Returns unique column names: a second `Time` becomes `Time 2`, a column without a name becomes `column 7`."""
    names: list[str] = []
    for at, cell in enumerate(cells, start=1):
        name = plain = clean_name(cell) or f"column {at}"
        number = 2
        while name in names:
            name, number = f"{plain} {number}", number + 1
        names.append(name)
    return tuple(names)


# ---- CSV -----------------------------------------------------------------------------------------------------------


def csv_table(content: ImportFile, known: Callable[[Sequence[str]], int]) -> CellTable:
    """Reads a CSV file. `known` counts the known column names in a line; the first line with the most is the header."""
    text = content.text
    first, _, rest = text.partition("\n")
    separator, ahead = "", 0
    # Excel may name the separator in the first line.
    if re.fullmatch(r"sep=[,;\t|]", first.strip('\ufeff "')):
        separator, text, ahead = first.strip('\ufeff "')[4], rest, 1
    best: tuple[int, int, str] = (0, 0, ",")
    for each in separator or ",;\t|":
        for number, cells in enumerate(_first_lines(text, each)):
            if (score := known(cells)) > best[0]:
                best = (score, number, each)
    if best[0] == 0:
        shown = clean_name(first) or "nothing"
        raise Invalid(content.name, "has no header that names columns", f"The first line is: {shown[:80]}")
    try:
        return _csv_rows(content.name, text, best[1], best[2], ahead)
    except csv.Error as error:
        raise Invalid(content.name, f"is not a table ({error})", "Save it as CSV") from None


def _first_lines(text: str, separator: str) -> list[list[str]]:
    lines = text[:65536].split("\n")[:MAX_PREAMBLE_LINES]
    found: list[list[str]] = []
    for line in lines:
        try:
            found.append(next(csv.reader([line], delimiter=separator), []))
        except csv.Error:
            found.append([])
    return found


def _csv_rows(name: str, text: str, before: int, separator: str, ahead: int) -> CellTable:
    body = text.split("\n", before)[before]
    source = csv.reader(io.StringIO(body, newline=""), delimiter=separator)
    names = next(source)
    width = len(names)
    if width > MAX_COLUMNS:
        raise Invalid(name, f"has {width} columns", f"Keep at most {MAX_COLUMNS}")
    table = CellTable(unique_names(names), separator=separator)
    # IBKR's statements begin each line with its section, and the names of columns with the word Header.
    section = names[0] if width > 2 and names[1].strip() == "Header" else None
    above, last = before + ahead, source.line_num
    for cells in source:
        line, several = above + last + 1, source.line_num > last + 1
        last = source.line_num
        if not "".join(cells).strip():
            continue
        if section is not None and cells[0] != section:
            if len(cells) > 1 and cells[1].strip() != "Header":
                table.other_sections[clean_name(cells[0])] += 1
            continue
        if len(cells) != width or several:
            if problem := _row_problem(cells, width, separator):
                table.bad.append((line, *problem))
                continue
            cells = cells[:width]
        table.rows.append(cells)
        table.lines.append(line)
        if len(table.rows) > MAX_ROWS:
            raise Invalid(name, f"has more than {MAX_ROWS:,} rows", "Split it by year and import the parts")
    return table


def _row_problem(cells: list[str], width: int, separator: str) -> tuple[str, str] | None:
    if any("\n" in cell and cell.count(separator) >= width - 1 > 0 for cell in cells):
        return "a quotation mark is not closed, so several lines run together", 'Close it, or write " inside a cell as ""'
    if len(cells) < width:
        return f"has {len(cells)} of {width} cells", "Complete the row, or delete it"
    if "".join(cells[width:]).strip():
        fix = f"Put cells that contain {'a tab' if separator == chr(9) else separator!r} in quotation marks"
        return f"has {len(cells)} cells, the header {width}", fix
    return None


def starts_like_json(file: ImportFile) -> bool:
    """Returns True if the text starts with an array or an object."""
    return file.text.lstrip()[:1] in ("[", "{")


# ---- JSON ----------------------------------------------------------------------------------------------------------

_decoder = json.JSONDecoder(parse_float=str, parse_int=str, parse_constant=lambda word: "")


def json_table(content: ImportFile) -> CellTable:
    """Reads a JSON array of objects, one object per line, or an object that contains such an array."""
    text = content.text.strip()
    names: dict[str, int] = {}
    table = CellTable(())
    found: list[tuple[int, dict[str, str]]] = []
    for line, value in _json_objects(content.name, text, table):
        if not isinstance(value, dict):
            table.bad.append((line, "is not an object", 'Write one object, like {"symbol": "BTC", ...}'))
            continue
        rows = [dict(_flat_members(each)) for each in _nested_decisions(value)]
        if len(found) + len(rows) > MAX_ROWS:
            raise Invalid(content.name, f"has more than {MAX_ROWS:,} rows", "Split it by year and import the parts")
        found += [(line, flat) for flat in rows]
        for name in (name for flat in rows for name in flat):
            names.setdefault(name, len(names))
        if len(names) > MAX_COLUMNS or len(names) * len(found) > MAX_CELLS:
            raise Invalid(content.name, f"has more than {MAX_COLUMNS} keys", "Give the trades alone")
    if not found:
        raise Invalid(content.name, "has no objects", 'Give objects, like {"symbol": "BTC", "side": "buy", ...}')
    table.header = unique_names(names)
    table.lines = [line for line, _ in found]
    table.rows = [[flat.get(name, "") for name in names] for _, flat in found]
    # Half a surrogate pair can be in JSON text only as an escape.
    if "\\u" in text:
        table.rows = [[_SURROGATES.sub("", cell) for cell in row] for row in table.rows]
    return table


def _json_objects(name: str, text: str, table: CellTable) -> Iterator[tuple[int, Any]]:
    """Yields the objects of a JSON text with their line, or in an array their number."""
    try:
        whole = _decoder.decode(text)
    except (ValueError, RecursionError) as error:
        if text.startswith("["):
            raise Invalid(name, f"is not valid JSON ({error})", "Export it again") from None
    else:
        yield from enumerate(_longest_list(whole), start=1)
        return
    for number, line in enumerate(text.split("\n"), start=1):
        if line.strip():
            try:
                yield number, _decoder.decode(line.strip())
            except (ValueError, RecursionError) as error:
                table.bad.append((number, f"is not valid JSON ({error})", "Correct the line, or delete it"))


def _longest_list(value: Any, depth: int = 0) -> list[Any]:
    """Returns the longest list of objects in a value; an object without one counts as the only object."""
    if isinstance(value, list):
        return value
    if isinstance(value, dict) and depth <= MAX_NESTING:
        lists = [_longest_list(each, depth + 1) for key, each in value.items() if isinstance(each, dict | list) and key != "info"]
        objects = [each for each in lists if each and isinstance(each[0], dict)]
        scalars = sum(not isinstance(each, dict | list) for each in value.values())
        if objects and (depth > 0 or scalars <= MAX_WRAPPER_MEMBERS):
            return max(objects, key=len)
        return [value] if depth == 0 else []
    return [value] if depth == 0 else []


def _nested_decisions(value: dict[str, Any]) -> list[dict[str, Any]]:
    """Returns an object; one that contains a decision for each of several symbols as one object for each of them.

    >>> answer = {"id": "7", "answer": {"BTC": {"signal": "hold"}, "ETH": {"signal": "buy", "stop": 9}}}
    >>> _nested_decisions(answer)
    [{'id': '7:BTC', 'symbol': 'BTC', 'signal': 'hold'}, {'id': '7:ETH', 'symbol': 'ETH', 'signal': 'buy', 'stop': 9}]
    """
    if value.keys() & set(DECISION_MEMBERS):
        return [value]
    for name, member in value.items():
        several: dict[str, dict[str, Any]] = {}
        if isinstance(member, dict):
            several = {key: {"symbol": key, **each} for key, each in member.items() if _is_decision(each)}
        elif isinstance(member, list):
            several = {str(number): each for number, each in enumerate(member, start=1) if _is_decision(each)}
        if several:
            rest = {key: each for key, each in value.items() if key != name}
            # Each has an id of its own, whatever else the answer contains.
            ids = {key: {"id": f"{rest['id']}:{key}"} if isinstance(rest.get("id"), str) else {} for key in several}
            return [{**rest, **ids[key], **each} for key, each in several.items()]
    return [value]


def _is_decision(value: Any) -> bool:
    return isinstance(value, dict) and any(isinstance(value.get(name), str) for name in DECISION_MEMBERS)


def _flat_members(value: dict[str, Any], before: str = "", depth: int = 0) -> Iterator[tuple[str, str]]:
    """Yields an object's members as texts, nested ones as `fee.cost`. Leaves out ccxt's `info`, which repeats the rest."""
    for key, member in value.items():
        name = f"{before}{key}"
        if isinstance(member, dict) and depth < MAX_NESTING:
            if key != "info":
                yield from _flat_members(member, f"{name}.", depth + 1)
        elif member is None:
            yield name, ""
        elif isinstance(member, bool):
            yield name, "true" if member else "false"
        elif isinstance(member, str):
            yield name, member
        elif isinstance(member, list) and all(isinstance(each, str) for each in member):
            yield name, ",".join(member)
