"""A price file -> bars in order of time, or one error with the file, the line and the column.

The file is CSV (.csv or .csv.gz; comma, semicolon or tab) with a header: time, open, high, low, close, and optionally volume and
symbol, in upper or lower case or under the usual other names (date, timestamp, o, h, l, c, ticker, ...).

The time is the bar's OPEN. A time without a zone is UTC: in files the zone is often missing, and a guess would be worse. A date
alone is its midnight; a number is an epoch in seconds, milliseconds or finer.

The file does not contain the length of a bar. It is the most common distance between the bars of a symbol, cut short where the
next bar opens earlier (months differ in length). Rows may be in any order; nothing is repaired. A row without a time or a price
is no bar: it is skipped and counted, or refused if the reading is strict.
"""

from __future__ import annotations

import csv
import gzip
import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal, InvalidOperation, localcontext
from itertools import pairwise
from pathlib import Path
from typing import TextIO

from memtape.core.codec import decimal_text, read_epoch, time_text
from memtape.core.observed import Bar
from memtape.core.values import MONEY
from memtape.errors import Invalid

# Names of columns, letters and digits only. If a file has several of them, the first in this list is used.
COLUMN_NAMES: Mapping[str, tuple[str, ...]] = {
    "time": ("time", "timestamp", "datetime", "opentime", "gmttime", "date", "unix", "unixtime", "t", "ts"),
    "open": ("open", "o", "openprice"),
    "high": ("high", "h", "max", "highprice"),
    "low": ("low", "l", "min", "lowprice"),
    "close": ("close", "c", "last", "price", "closeprice"),
    "volume": ("volume", "v", "tickvolume", "tickvol", "vol"),
    "symbol": ("symbol", "ticker", "instrument", "pair", "sym"),
    "adj_close": ("adjclose", "adjustedclose", "closeadj"),
}
REQUIRED_COLUMNS = ("time", "open", "high", "low", "close")
EMPTY_CELLS = ("", "null", "none", "nan", "na", "n/a")  # as exporters write a missing value
ADJUSTED_STEP = Decimal("0.000001")
_SYMBOL = re.compile(r"[A-Za-z0-9^$][A-Za-z0-9 ._:/@#=^$+&*()-]{0,63}")
_TIME_OF_DAY = re.compile(r"\d{1,2}:\d\d")
_NUMBER = re.compile(r"[0-9]+(\.[0-9]*)?")


@dataclass(frozen=True, slots=True)
class BarFile:
    """The bars of a file, and how many rows had an empty field and were skipped."""

    bars: list[Bar]
    skipped: int
    symbol_from_name: bool = False  # the symbol is that of the file's name: the file states none, and nobody else did


def read_bars(
    path: str | Path, *, symbol: str | None = None, frame: timedelta | None = None, adjust: bool = False, strict: bool = False
) -> list[Bar]:
    """Returns all bars of a file, ordered by open time, then symbol. The options are those of `read_bar_file`."""
    return read_bar_file(path, symbol=symbol, frame=frame, adjust=adjust, strict=strict).bars


def read_bar_file(
    path: str | Path, *, symbol: str | None = None, frame: timedelta | None = None, adjust: bool = False, strict: bool = False
) -> BarFile:
    """Returns all bars of a file, ordered by open time, then symbol, and the number of rows that were skipped.

    `symbol` names the instrument of a file without a symbol column; by default the file's name does (xauusd_h1.csv is XAUUSD).
    `frame` is the length of a bar, for a file that is too short to show it. `adjust` scales open, high, low and close by
    adj_close / close, so that splits and dividends are not price moves. `strict` refuses a row with an empty field.
    """
    file = Path(path)
    if symbol is not None and not _SYMBOL.fullmatch(symbol):
        raise Invalid("symbol", f"{symbol[:40]!r} is not a symbol", "Write it like BTCUSDT or EUR/USD")
    default = symbol or file_symbol(file)
    by_symbol: dict[str, list[_BarRow]] = {}
    skipped = 0
    for row in _rows(file, default, adjust, strict):
        if row is None:
            skipped += 1
        else:
            by_symbol.setdefault(row.symbol, []).append(row)
    if not by_symbol:
        raise Invalid(file.name, "has no bars", "Give a header line and at least two rows")
    frames = {name: _bar_length(file, rows) for name, rows in by_symbol.items()}
    shared = min((f for f in frames.values() if f is not None), default=None)
    bars: list[Bar] = []
    for name, rows in by_symbol.items():
        length = frame or frames[name] or shared
        if length is None:
            problem = "a single bar does not show its length"
            raise Invalid(f"{file.name}, time", problem, "Give more rows or a frame")
        bars += _bars_of_length(rows, length)
    unnamed = symbol is None and not _states_symbol(file)
    return BarFile(sorted(bars, key=lambda bar: (bar.t0, bar.symbol)), skipped, unnamed)


def bars_hash(bars: Iterable[Bar]) -> str:
    """Returns the SHA-256 of bars, one line each, ordered by close time and symbol. The order given does not matter."""
    made = hashlib.sha256()
    for bar in sorted(bars, key=lambda bar: (bar.t1, bar.symbol)):
        prices = [decimal_text(px) for px in (bar.o, bar.h, bar.l, bar.c)]
        volume = "" if bar.v is None else decimal_text(bar.v)
        made.update(",".join((bar.symbol, time_text(bar.t0), time_text(bar.t1), *prices, volume, "\n")).encode())
    return made.hexdigest()


def file_symbol(file: Path) -> str:
    """Returns the instrument in a file name.

    >>> file_symbol(Path("xauusd_h1_2017_2024.csv.gz")), file_symbol(Path("data/BTC-USD.csv"))
    ('XAUUSD', 'BTC-USD')
    """
    stem = re.sub(r"\.(csv|tsv|txt|gz)", "", file.name, flags=re.IGNORECASE)
    first = re.split(r"[_ ]", stem.strip("_ "))[0].upper()
    if not _SYMBOL.fullmatch(first):
        fix = "Name the symbol, or add a symbol column"
        raise Invalid("symbol", f"the file name {file.name} does not give one", fix)
    return first


@dataclass(frozen=True, slots=True)
class _BarRow:
    line: int
    symbol: str
    t0: datetime
    o: Decimal
    h: Decimal
    l: Decimal  # noqa: E741
    c: Decimal
    v: Decimal | None


def _bar_length(file: Path, rows: list[_BarRow]) -> timedelta | None:
    """Sorts the rows of one symbol and returns the most common distance; the shortest of equally common ones."""
    rows.sort(key=lambda row: row.t0)
    distances: Counter[timedelta] = Counter()
    for one, next_ in pairwise(rows):
        if one.t0 == next_.t0:
            raise Invalid(
                f"{file.name} line {next_.line}, time",
                f"{one.symbol} at {time_text(one.t0)} was already given in line {one.line}",
                "Remove one of the two rows, or add a symbol column if they are different instruments",
            )
        distances[next_.t0 - one.t0] += 1
    return min(distances, key=lambda distance: (-distances[distance], distance)) if distances else None


def _bars_of_length(rows: list[_BarRow], length: timedelta) -> Iterator[Bar]:
    nexts: list[datetime | None] = [row.t0 for row in rows[1:]]
    for row, next_t0 in zip(rows, [*nexts, None], strict=True):
        t1 = row.t0 + length if next_t0 is None else min(row.t0 + length, next_t0)
        yield Bar(symbol=row.symbol, t0=row.t0, t1=t1, o=row.o, h=row.h, l=row.l, c=row.c, v=row.v)


def _rows(file: Path, default: str, adjust: bool, strict: bool) -> Iterator[_BarRow | None]:
    try:
        with _open_text(file) as text:
            yield from _parse(file, text, default, adjust, strict)
    # A truncated .gz file raises EOFError; a file that is not gzip raises BadGzipFile, an OSError.
    except (OSError, EOFError) as error:
        problem = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        fix = "Give the path of a readable .csv or .csv.gz file"
        raise Invalid(str(file), f"cannot be read ({problem})", fix) from None
    except UnicodeDecodeError:
        raise Invalid(file.name, "is not UTF-8 text", "Save it as CSV in UTF-8; a workbook is not CSV") from None
    except csv.Error as error:
        raise Invalid(file.name, f"is not a table ({error})", "Save it as CSV") from None


def _open_text(file: Path) -> TextIO:
    if file.suffix.lower() == ".gz":
        return gzip.open(file, "rt", encoding="utf-8-sig", newline="")
    return file.open(encoding="utf-8-sig", newline="")


def _states_symbol(file: Path) -> bool:
    """Returns True if a file that was read before has a column of symbols."""
    with _open_text(file) as text:
        heading = text.readline()
    names = next(csv.reader([heading], delimiter=max(",;\t", key=heading.count)), [])
    return "symbol" in _columns(file, names, adjust=False)


def _parse(file: Path, text: TextIO, default: str, adjust: bool, strict: bool) -> Iterator[_BarRow | None]:
    """Yields the rows of a table, and None for each row with an empty field."""
    heading = text.readline()
    delimiter = max(",;\t", key=heading.count)
    names = next(csv.reader([heading], delimiter=delimiter), [])
    at = _columns(file, names, adjust)
    day = _day_column(names)
    width = max(at.values()) + 1
    table = csv.reader(text, delimiter=delimiter)
    for cells in table:
        line = table.line_num + 1
        if not any(cell.strip() for cell in cells):
            continue
        if len(cells) < width:
            raise _line_error(file, line, "row", f"has {len(cells)} of {width} columns", "Complete the row or delete it")
        reader = _LineReader(file, line, cells, at, day)
        yield reader.row(default, adjust) if strict or reader.is_complete(adjust) else None


def _columns(file: Path, names: Sequence[str], adjust: bool) -> dict[str, int]:
    plain = [re.sub(r"[^a-z0-9]", "", name.lower()) for name in names]
    at: dict[str, int] = {}
    for column, spellings in COLUMN_NAMES.items():
        for spelling in spellings:
            if spelling in plain:
                at[column] = plain.index(spelling)
                break
    needed = (*REQUIRED_COLUMNS, "adj_close") if adjust else REQUIRED_COLUMNS
    if missing := [column for column in needed if column not in at]:
        found = ", ".join(name.strip() for name in names) or "nothing"
        fix = f"The first line must name the columns time, open, high, low, close, volume (found: {found[:120]})"
        raise Invalid(f"{file.name} line 1", f"there is no column {', '.join(missing)}", fix)
    return at


def _day_column(names: Sequence[str]) -> int | None:
    """Returns the date column of a file with separate columns for date and time of day, as MetaTrader exports them."""
    plain = [re.sub(r"[^a-z0-9]", "", name.lower()) for name in names]
    return plain.index("date") if "date" in plain and "time" in plain else None


def _line_error(file: Path, line: int, column: str, problem: str, fix: str) -> Invalid:
    return Invalid(f"{file.name} line {line}, {column}", problem, fix)


@dataclass(slots=True)
class _LineReader:
    """Reads one line."""

    file: Path
    line: int
    cells: list[str]
    at: Mapping[str, int]
    day: int | None

    def row(self, default: str, adjust: bool) -> _BarRow:
        o, h, l, c = self.price("open"), self.price("high"), self.price("low"), self.price("close")  # noqa: E741
        if h < l:
            raise self.wrong("high", f"{h} is below the low {l}", "Exchange the two, or correct the row")
        if not l <= min(o, c) <= max(o, c) <= h:
            column = "open" if not l <= o <= h else "close"
            fix = "Check the order of the columns, or correct the row"
            raise self.wrong(column, f"is outside low {l} and high {h}", fix)
        if adjust:
            with localcontext(MONEY):
                factor = self.price("adj_close") / c
                o, h, l, c = [(p * factor).quantize(ADJUSTED_STEP) for p in (o, h, l, c)]  # noqa: E741
            if l <= 0:
                raise self.wrong("adj_close", "is too small beside the close", "Read the file without adjusting")
        return _BarRow(self.line, self.symbol(default), self.time(), o, h, l, c, self.volume())

    def is_complete(self, adjust: bool) -> bool:
        """Returns True if the row has a time and all prices."""
        needed = (*REQUIRED_COLUMNS, "adj_close") if adjust else REQUIRED_COLUMNS
        return all(self.cell(column).lower() not in EMPTY_CELLS for column in needed)

    def cell(self, column: str) -> str:
        return self.cells[self.at[column]].strip()

    def wrong(self, column: str, problem: str, fix: str) -> Invalid:
        return _line_error(self.file, self.line, column, problem, fix)

    def symbol(self, default: str) -> str:
        if "symbol" not in self.at:
            return default
        name = self.cell("symbol")
        if not _SYMBOL.fullmatch(name):
            raise self.wrong("symbol", f"{name[:40]!r} is not a symbol", "Write it like BTCUSDT or EUR/USD")
        return name

    def time(self) -> datetime:
        text = self.cell("time")
        if self.day is not None and _TIME_OF_DAY.match(text):
            text = f"{self.cells[self.day].strip()} {text}"
        try:
            moment = _moment(text)
        except (ValueError, OverflowError):
            fix = "Write ISO 8601 like 2026-06-04T08:00:00Z, a date like 2026-06-04, or an epoch"
            raise self.wrong("time", f"{text[:40]!r} is not a time", fix) from None
        if not 1970 <= moment.year <= 2200:
            fix = "Check the year, or the unit of the epoch"
            raise self.wrong("time", f"{text[:40]!r} is outside 1970 to 2200", fix)
        return moment

    def number(self, column: str) -> Decimal:
        text = self.cell(column)
        if not text:
            raise self.wrong(column, "is empty", "Fill it in, or delete the row")
        try:
            number = Decimal(text)
        except InvalidOperation:
            fix = "Write digits and a decimal point, without thousands separators, like 65200.5"
            raise self.wrong(column, f"{text[:40]!r} is not a number", fix) from None
        if not number.is_finite():
            raise self.wrong(column, f"is {text}", "Fill in the number, or delete the row")
        exponent = number.as_tuple().exponent
        if isinstance(exponent, int) and (exponent < -18 or number.adjusted() > 19):
            fix = "Use at most 20 before the point and 18 after it"
            raise self.wrong(column, f"{text[:40]!r} has too many digits", fix)
        return number

    def price(self, column: str) -> Decimal:
        number = self.number(column)
        if number <= 0:
            raise self.wrong(column, f"{number} is not a price above 0", "Correct it, or delete the row")
        return number

    def volume(self) -> Decimal | None:
        if "volume" not in self.at or not self.cell("volume"):
            return None
        number = self.number("volume")
        if number < 0:
            raise self.wrong("volume", f"{number} is negative", "Correct it, or leave it empty")
        return number


def _moment(text: str) -> datetime:
    """A time as files write it.

    >>> [time_text(_moment(t)) for t in ("2024-01-05", "2024.01.05 13:00", "1704459600", "1704459600000")]
    ['2024-01-05T00:00:00Z', '2024-01-05T13:00:00Z', '2024-01-05T13:00:00Z', '2024-01-05T13:00:00Z']
    """
    if len(text) != 8 and _NUMBER.fullmatch(text):  # eight digits are a date: 20240105
        return read_epoch(Decimal(text))
    if text[4:5] == "." and text[7:8] == ".":
        text = text[:10].replace(".", "-") + text[10:]
    moment = datetime.fromisoformat(text)
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
