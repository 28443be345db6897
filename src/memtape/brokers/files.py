"""Files as people have them -> a table of texts: compressed or not, in any usual encoding, comma, semicolon, tab or JSON.

Nothing is interpreted here. Sizes are capped, because a file may come from anyone.
"""

from __future__ import annotations

import csv
import gzip
import io
import json
import re
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import Any

from memtape.errors import Invalid

MAX_BYTES = 256 * 2**20
MAX_ROWS = 1_000_000
MAX_COLUMNS = 500
MAX_CELLS = 100_000_000
PREAMBLE = 20  # lines that may stand before the header: titles, account, period
NESTING = 3
WRAPPING = 5  # an object with more members of its own than this is a trade, not the wrapping of a list of them
_SURROGATES = re.compile("[\ud800-\udfff]")
_CONTROLS = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff]+")
_NOT_TABLES = (
    (b"PK\x03\x04", "is a workbook or an archive", "Save the sheet as CSV"),
    (b"SQLite format 3\x00", "is a database", "Export its trades as CSV"),
    (b"%PDF", "is a PDF", "Ask the broker for CSV"),
    (b"PAR1", "is a parquet file", "Save it as CSV"),
)


@dataclass(frozen=True)
class FileRows:
    """A file's bytes, unpacked."""

    name: str
    data: bytes
    digest: str  # SHA-256 of the file as it lies on disk

    @cached_property
    def text(self) -> str:
        """Its text, line ends made equal; `Invalid` if it has none."""
        for mark, problem, fix in _NOT_TABLES:
            if self.data.startswith(mark):
                raise Invalid(self.name, problem, fix)
        text = _decoded(self.data).replace("\r\n", "\n").replace("\r", "\n")
        if "\x00" in text:
            raise Invalid(self.name, "is not a text file", "Give CSV, JSON or JSONL")
        if not text.strip():
            raise Invalid(self.name, "is empty", "Give a file with a header and rows")
        return text


@dataclass(slots=True)
class CellTable:
    """Rows of texts, each as wide as the header."""

    header: tuple[str, ...]
    rows: list[list[str]] = field(default_factory=list)
    lines: list[int] = field(default_factory=list)  # where each row stands, from 1
    bad: list[tuple[int, str, str]] = field(default_factory=list)  # line, problem, fix
    separator: str = ""
    _columns: dict[int, list[str]] = field(default_factory=dict)

    def column(self, at: int) -> list[str]:
        """One column's cells, row by row, without outer blanks."""
        if at not in self._columns:
            self._columns[at] = [row[at].strip() for row in self.rows]
        return self._columns[at]

    def keep(self, wanted: Sequence[int]) -> None:
        """Forget all rows but these."""
        self.rows, self.lines = [self.rows[n] for n in wanted], [self.lines[n] for n in wanted]
        self._columns.clear()


def load(path: str | Path) -> FileRows:
    """A file from disk."""
    file = Path(path)
    name = clean_name(file.name) or "file"
    try:
        with file.open("rb") as stream:
            raw = stream.read(MAX_BYTES + 1)
    except (OSError, ValueError) as error:  # a path with a NUL is a ValueError
        problem = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise Invalid(name, f"cannot be read ({problem})", "Give the path of a readable file") from None
    return file_content(name, raw)


def file_content(name: str, raw: bytes) -> FileRows:
    """A file's bytes as they lie on disk, unpacked."""
    data = raw
    if raw[:2] == b"\x1f\x8b":
        try:
            with gzip.GzipFile(fileobj=io.BytesIO(raw)) as packed:
                data = packed.read(MAX_BYTES + 1)
        except (OSError, EOFError, zlib.error) as error:
            raise Invalid(name, f"is a damaged .gz file ({error})", "Download it again") from None
    if len(data) > MAX_BYTES:
        raise Invalid(name, f"is larger than {MAX_BYTES // 2**20} MB", "Split it by year and import the parts")
    return FileRows(name, data, sha256(raw).hexdigest())


def _decoded(data: bytes) -> str:
    """Text in whichever encoding it is: UTF-8, UTF-16 (with or without its mark), else Windows' Western one."""
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
    """A file's or a column's name, fit to be kept and shown."""
    return _CONTROLS.sub(" ", text).strip()[:100]


def _names(cells: Iterable[str]) -> tuple[str, ...]:
    """Column names, each once: a second `Time` becomes `Time 2`, an unnamed one `column 7`."""
    names: list[str] = []
    for at, cell in enumerate(cells, start=1):
        name = plain = clean_name(cell) or f"column {at}"
        number = 2
        while name in names:
            name, number = f"{plain} {number}", number + 1
        names.append(name)
    return tuple(names)


# ---- CSV -----------------------------------------------------------------------------------------------------------


def csv_table(content: FileRows, known: Callable[[Sequence[str]], int]) -> CellTable:
    """A CSV file. `known` counts the column names it knows in a line: the first line with most of them is the header."""
    text = content.text
    first, _, rest = text.partition("\n")
    separator, ahead = "", 0
    if re.fullmatch(r"sep=[,;\t|]", first.strip('\ufeff "')):  # Excel's own hint
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
    lines = text[:65536].split("\n")[:PREAMBLE]
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
    table = CellTable(_names(names), separator=separator)
    above, last = before + ahead, source.line_num
    for cells in source:
        line, several = above + last + 1, source.line_num > last + 1
        last = source.line_num
        if not "".join(cells).strip():
            continue
        if len(cells) != width or several:
            if problem := _misfit(cells, width, separator):
                table.bad.append((line, *problem))
                continue
            cells = cells[:width]
        table.rows.append(cells)
        table.lines.append(line)
        if len(table.rows) > MAX_ROWS:
            raise Invalid(name, f"has more than {MAX_ROWS:,} rows", "Split it by year and import the parts")
    return table


def _misfit(cells: list[str], width: int, separator: str) -> tuple[str, str] | None:
    if any("\n" in cell and cell.count(separator) >= width - 1 > 0 for cell in cells):
        return "a quotation mark is not closed, so several lines run together", 'Close it, or write " inside a cell as ""'
    if len(cells) < width:
        return f"has {len(cells)} of {width} cells", "Complete the row, or delete it"
    if "".join(cells[width:]).strip():
        fix = f"Put cells that contain {'a tab' if separator == chr(9) else separator!r} in quotation marks"
        return f"has {len(cells)} cells, the header {width}", fix
    return None


# ---- JSON ----------------------------------------------------------------------------------------------------------

_decoder = json.JSONDecoder(parse_float=str, parse_int=str, parse_constant=lambda word: "")


def json_table(content: FileRows) -> CellTable:
    """A JSON array of objects, one object a line, or an answer that has such an array inside."""
    text = content.text.strip()
    names: dict[str, int] = {}
    table = CellTable(())
    found: list[tuple[int, dict[str, str]]] = []
    for line, value in _objects(content.name, text, table):
        if not isinstance(value, dict):
            table.bad.append((line, "is not an object", 'Write one object, like {"symbol": "BTC", ...}'))
            continue
        flat = dict(_flat(value))
        if len(found) >= MAX_ROWS:
            raise Invalid(content.name, f"has more than {MAX_ROWS:,} rows", "Split it by year and import the parts")
        found.append((line, flat))
        for name in flat:
            names.setdefault(name, len(names))
        if len(names) > MAX_COLUMNS or len(names) * len(found) > MAX_CELLS:
            raise Invalid(content.name, f"has more than {MAX_COLUMNS} keys", "Give the trades alone")
    if not found:
        raise Invalid(content.name, "has no objects", 'Give objects, like {"symbol": "BTC", "side": "buy", ...}')
    table.header = _names(names)
    table.lines = [line for line, _ in found]
    table.rows = [[flat.get(name, "") for name in names] for _, flat in found]
    if "\\u" in text:  # the only way a half of a character pair gets into JSON text
        table.rows = [[_SURROGATES.sub("", cell) for cell in row] for row in table.rows]
    return table


def _objects(name: str, text: str, table: CellTable) -> Iterator[tuple[int, Any]]:
    """The objects of a JSON text and where they stand: their line, or in an array their number."""
    try:
        whole = _decoder.decode(text)
    except (ValueError, RecursionError) as error:
        if text.startswith("["):
            raise Invalid(name, f"is not valid JSON ({error})", "Export it again") from None
    else:
        yield from enumerate(_inside(whole), start=1)
        return
    for number, line in enumerate(text.split("\n"), start=1):
        if line.strip():
            try:
                yield number, _decoder.decode(line.strip())
            except (ValueError, RecursionError) as error:
                table.bad.append((number, f"is not valid JSON ({error})", "Correct the line, or delete it"))


def _inside(value: Any, depth: int = 0) -> list[Any]:
    """The longest list of objects in an answer; an object without one stands for itself."""
    if isinstance(value, list):
        return value
    if isinstance(value, dict) and depth <= NESTING:
        lists = [_inside(each, depth + 1) for key, each in value.items() if isinstance(each, dict | list) and key != "info"]
        objects = [each for each in lists if each and isinstance(each[0], dict)]
        scalars = sum(not isinstance(each, dict | list) for each in value.values())
        if objects and (depth > 0 or scalars <= WRAPPING):
            return max(objects, key=len)
        return [value] if depth == 0 else []
    return [value] if depth == 0 else []


def _flat(value: dict[str, Any], before: str = "", depth: int = 0) -> Iterator[tuple[str, str]]:
    """An object's members as texts; members of members as `fee.cost`. ccxt's `info` repeats the rest and is left out."""
    for key, member in value.items():
        name = f"{before}{key}"
        if isinstance(member, dict) and depth < NESTING:
            if key != "info":
                yield from _flat(member, f"{name}.", depth + 1)
        elif member is None:
            yield name, ""
        elif isinstance(member, bool):
            yield name, "true" if member else "false"
        elif isinstance(member, str):
            yield name, member
        elif isinstance(member, list) and all(isinstance(each, str) for each in member):
            yield name, ",".join(member)
