"""Numbers and times as files write them. The whole file decides an ambiguous cell like 1,234 or 03/04/2024; nothing is guessed.

A cell that cannot be read is a `BadCell` with its fix; an empty cell is None.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from decimal import Decimal, InvalidOperation
from zoneinfo import ZoneInfo

from memtape.core.codec import read_epoch
from memtape.errors import Invalid

EMPTY_WORDS = frozenset({"", "-", "--", "nan", "none", "null", "n/a", "na", "nat", "#n/a"})


@dataclass(frozen=True, slots=True)
class BadCell:
    """A cell that cannot be read, and how to correct it."""

    problem: str
    fix: str


def shown_cell(cell: str) -> str:
    """Returns a cell for a message: short and printable."""
    return repr(cell if len(cell) <= 40 else cell[:37] + "...")


# ---- numbers -------------------------------------------------------------------------------------------------------

_SPACES = re.compile(r"[\s\u00a0\u2007\u2009\u202f'’_]+")
_NUMBER = re.compile(
    r"(?:[$€£¥₿₹](?=\())?(?P<bracket>\()?(?P<before>[+-])?"
    r"(?:[A-Za-z]{2,6})?[$€£¥₿₹]?(?P<within>[+-])?(?P<digits>[\d.,]+(?:[eE][+-]?\d{1,3})?)"
    r"(?P<share>%)?(?:[$€£¥₿₹]|[A-Za-z]{2,6}|[xX])?(?(bracket)\))(?P<after>-)?"
)
_POINT_NUMBER = re.compile(r"(?:\d+|\d{1,3}(?:,\d{2,3})*,\d{3})?(?:\.\d*)?(?:[eE][+-]?\d{1,3})?")
_AMBIGUOUS_NUMBER = re.compile(r"[1-9]\d{0,2},\d{3}")
_SWAP_SIGNS = str.maketrans(",.", ".,")
_SMALLEST_STEP = Decimal(1).scaleb(-18)


def decimal_style(columns: Iterable[Sequence[str]], separator: str) -> tuple[str, str | None]:
    """Returns the file's decimal sign (point, comma or unclear) and a note about it.

    >>> decimal_style([["1.204,50", "88,1"]], ";")
    ('comma', 'numbers have a decimal comma')
    >>> decimal_style([["1,204"]], ";")[0], decimal_style([["1,204", "1.5"]], ";")[0], decimal_style([["1,204"]], ",")[0]
    ('unclear', 'point', 'point')
    """
    cells = [cell for column in columns for cell in column]
    with_comma = [cell for cell in cells if "," in cell]
    if not with_comma and not any(cell.count(".") > 1 for cell in cells):
        return "point", None
    votes = {"point": 0, "comma": 0, "unclear": 0}
    for cell in cells:
        if "," in cell or "." in cell:
            votes[_decimal_sign(cell)] += 1
    if votes["comma"] > votes["point"]:
        mixed = f"; {votes['point']} have a point and cannot be read" if votes["point"] else ""
        return "comma", f"numbers have a decimal comma{mixed}"
    if votes["point"]:
        return "point", "commas in numbers separate thousands"
    if separator == ";":
        return "unclear", None
    return "point", f"commas in numbers are read as thousands separators ({with_comma[0][:20]}); if not, give --map decimal=comma"


def _decimal_sign(cell: str) -> str:
    comma, point = cell.rfind(","), cell.rfind(".")
    if comma >= 0 and point >= 0:
        return "comma" if comma > point else "point"
    sign, other = (",", "point") if comma >= 0 else (".", "comma")
    own = "comma" if sign == "," else "point"
    if cell.count(sign) > 1:
        return other
    left, _, right = (re.sub(r"\D", "", part) if n != 1 else part for n, part in enumerate(cell.partition(sign)))
    return "unclear" if len(right) == 3 and 1 <= len(left) <= 3 and left != "0" else own


def read_numbers(cells: Sequence[str], style: str, *, percent: bool = False) -> list[Decimal | BadCell | None]:
    """Reads a column of numbers. Plain numbers are read without regular expressions."""
    if style == "comma":
        return [_decorated_number(cell, style, percent) for cell in cells]
    found: list[Decimal | BadCell | None] = []
    for cell in cells:
        if not cell:
            found.append(None)
            continue
        try:
            value = Decimal(cell)
        except InvalidOperation:
            found.append(_decorated_number(cell, style, percent))
        else:
            found.append(_limit_digits(value, cell))
    return found


def _limit_digits(value: Decimal, cell: str) -> Decimal | BadCell | None:
    """Refuses more than 20 digits before the point and rounds to 18 places after it: finer digits are noise of binary floats."""
    if not value.is_finite():
        return None if value.is_nan() else BadCell(f"{shown_cell(cell)} is not a finite number", "Correct it, or delete the row")
    if not value:
        return Decimal(0)
    if value.adjusted() > 19:
        return BadCell(f"{shown_cell(cell)} has too many digits", "Use at most 20 before the decimal point")
    if value.adjusted() < -18:
        return Decimal(0)
    return value.quantize(_SMALLEST_STEP).normalize() if len(cell) > 18 and _places(value) > 18 else value


def _places(value: Decimal) -> int:
    exponent = value.as_tuple().exponent
    return -exponent if isinstance(exponent, int) else 0


def _decorated_number(cell: str, style: str, percent: bool) -> Decimal | BadCell | None:
    """Reads a number with thousands separators, a currency, a percent sign, or a minus as brackets or at the end."""
    if cell.lower() in EMPTY_WORDS:
        return None
    if len(cell) > 80:
        return BadCell(f"{shown_cell(cell)} is not a number", "Write digits and a decimal sign, like 65200.5")
    found = _NUMBER.fullmatch(_SPACES.sub("", cell).replace("−", "-"))
    digits = found["digits"] if found else ""
    if style == "comma":
        digits = digits.translate(_SWAP_SIGNS)
    elif style == "unclear" and _AMBIGUOUS_NUMBER.fullmatch(digits):
        return BadCell(
            f"{shown_cell(cell)} is ambiguous: thousands or decimals", "Give --map decimal=comma or --map decimal=point"
        )
    if not found or not _POINT_NUMBER.fullmatch(digits) or not digits.strip(".,"):
        return BadCell(f"{shown_cell(cell)} is not a number", "Write digits and a decimal sign, like 65200.5")
    if found["share"] and not percent:
        return BadCell(f"{shown_cell(cell)} is a percentage", "Map a column with the amount itself, or leave this one out")
    value = Decimal(digits.replace(",", "")).scaleb(-2 if found["share"] else 0)
    negative = found["bracket"] or "-" in (found["before"], found["within"], found["after"])
    return _limit_digits(-value if negative else value, cell)


# ---- times ---------------------------------------------------------------------------------------------------------

_PLAIN_NUMBER = re.compile(r"\d+(?:\.\d*)?")
_TIME_OF_DAY = re.compile(r"\d{1,2}:\d\d(:\d\d)?.*|\d{6}")
_COMPACT = re.compile(r"(\d{4})(\d\d)(\d\d)[ ;,T]*(\d\d):?(\d\d):?(\d\d)?")
_CLOCK_PATTERN = (
    r"(?:(?:[ T,;]+|\s+-\s+)"
    r"(?P<hour>\d{1,2}):(?P<minute>\d\d)(?::(?P<second>\d\d)(?:[.,](?P<part>\d+))?)?\s*(?P<half>[AaPp]\.?[Mm]\.?)?)?"
    r"\s*(?P<zone>Z|[A-Z]{3,4}|(?:UTC|GMT)?[+-]\d{1,2}:?(?:\d\d)?)?"
)
_YEAR_FIRST = re.compile(r"(?P<year>\d{4})(?P<sep>[-./])(?P<month>\d{1,2})(?P=sep)(?P<day>\d{1,2})" + _CLOCK_PATTERN)
_YEAR_LAST = re.compile(r"(?P<one>\d{1,2})(?P<sep>[-./])(?P<two>\d{1,2})(?P=sep)(?P<year>\d{4}|\d\d)" + _CLOCK_PATTERN)
_CLOCK_FIRST = re.compile(r"(\d{1,2}:\d\d(?::\d\d)?) (\d{1,4}[-./]\d{1,2}[-./]\d{2,4})")
_MONTH_NAME_DATE = re.compile(
    r"(?:(?P<day>\d{1,2})[ -](?P<name>[A-Za-z]{3})[a-z]*|(?P<name2>[A-Za-z]{3})[a-z]* (?P<day2>\d{1,2}))[ ,-]+"
    r"(?P<year>\d{4}|\d\d)" + _CLOCK_PATTERN
)
_MONTHS: Mapping[str, int] = {
    "jan": 1, "feb": 2, "mar": 3, "apr": 4, "may": 5, "jun": 6, "jul": 7, "aug": 8, "sep": 9, "oct": 10, "nov": 11, "dec": 12,
}  # fmt: skip
_ZONES: Mapping[str, int] = {
    "Z": 0, "UTC": 0, "GMT": 0, "EST": -5, "EDT": -4, "CST": -6, "CDT": -5, "MST": -7, "MDT": -6, "PST": -8, "PDT": -7,
    "CET": 1, "CEST": 2, "EET": 2, "EEST": 3, "BST": 1, "MSK": 3, "JST": 9, "HKT": 8, "SGT": 8,
}  # fmt: skip
_FIX_TIME = "Write ISO 8601 like 2026-06-04T08:00:00Z, or an epoch"


def read_zone(name: str) -> tuple[tzinfo, timedelta]:
    """Returns a zone and how far the clock is ahead of it. MetaTrader servers often show New York time plus seven hours.

    >>> read_zone("America/New_York+7")[1]
    datetime.timedelta(seconds=25200)
    """
    fix = "Write it like Europe/Berlin, UTC, +02:00 or America/New_York+7"
    if offset := re.fullmatch(r"(?:UTC|GMT)?([+-])(\d{1,2})(?::?([0-5]\d))?", name):
        ahead = timedelta(hours=int(offset[2]), minutes=int(offset[3] or 0))
        if ahead >= timedelta(hours=24):
            raise Invalid("zone", f"{shown_cell(name)} is more than a day", fix)
        return timezone(ahead if offset[1] == "+" else -ahead), timedelta()
    plain, sign, hours = name, "", ""
    if shifted := re.fullmatch(r"([A-Za-z]+/[A-Za-z_/]+)([+-])(\d{1,2})", name):
        plain, sign, hours = shifted.groups()
    try:
        zone = ZoneInfo(plain)
    except (KeyError, ValueError, OSError):
        # In this order: unknown, not a name, the name of a folder of zones.
        raise Invalid("zone", f"{shown_cell(name)} is not a time zone", fix) from None
    return zone, timedelta(hours=int(f"{sign}{hours}" or 0))


def is_time_of_day(cell: str) -> bool:
    """Returns True if a cell is a time of day without a date."""
    return _TIME_OF_DAY.fullmatch(cell) is not None and not _PLAIN_NUMBER.fullmatch(cell)


def date_order(columns: Iterable[Sequence[str]]) -> str | None:
    """Returns the order of day and month in dates like 03/04/2024, as shown by other dates of the file, else None.

    >>> date_order([["03/04/2024", "03/14/2024"]]), date_order([["03/04/2024"]])
    ('mdy', None)
    """
    orders: set[str] = set()
    for column in columns:
        for cell in column:
            if 5 < len(cell) <= 80 and not cell[:4].isdigit() and (found := _YEAR_LAST.fullmatch(cell)) and found["sep"] != ".":
                if int(found["one"]) > 12:
                    orders.add("dmy")
                if int(found["two"]) > 12:
                    orders.add("mdy")
    return orders.pop() if len(orders) == 1 else None


@dataclass(slots=True)
class TimeReader:
    """Reads the times of one file."""

    dates: str | None  # dmy, mdy or unknown
    zone: tzinfo | None  # None: not given, so times without a zone are read as UTC and counted
    ahead: timedelta = timedelta()
    naive: int = 0
    ambiguous: int = 0  # times in an hour that a clock change repeats or skips

    def column(self, cells: Sequence[str], offset: timedelta | None = None) -> list[datetime | BadCell | None]:
        """Reads a column of times. `offset`: how far its clock is ahead of UTC, if the column's name states it."""
        known = {cell: self.read(cell, offset) for cell in set(cells)}
        return [known[cell] for cell in cells]

    def read(self, cell: str, offset: timedelta | None = None) -> datetime | BadCell | None:
        """Reads one time.

        >>> times = TimeReader(dates=None, zone=read_zone("Europe/Berlin")[0])
        >>> {str(times.read(t)) for t in ("2024.01.31 12:00:00", "1706698800000", "2024-01-31T11:00Z", "Jan 31, 2024 11:00 UTC")}
        {'2024-01-31 11:00:00+00:00'}
        """
        # An epoch of 0 means "not yet".
        if cell.lower() in EMPTY_WORDS or cell in ("0", "0.0"):
            return None
        try:
            moment = self._moment(cell[:80])
        except (ValueError, OverflowError, InvalidOperation):
            return BadCell(f"{shown_cell(cell)} is not a time", _FIX_TIME)
        if isinstance(moment, BadCell):
            return moment
        if not 1970 < moment.year < 2200:
            return BadCell(f"{shown_cell(cell)} is outside 1971 to 2199", "Check the year, or the unit of the epoch")
        return moment.astimezone(UTC) if moment.tzinfo else self._in_zone(moment, offset)

    def _in_zone(self, moment: datetime, offset: timedelta | None) -> datetime:
        if offset is not None:
            return moment.replace(tzinfo=UTC) - offset
        if self.zone is None:
            self.naive += 1
            return moment.replace(tzinfo=UTC)
        local = (moment - self.ahead).replace(tzinfo=self.zone)
        early = local.astimezone(UTC)
        if local.utcoffset() != local.replace(fold=1).utcoffset():
            self.ambiguous += 1
        return early

    def _moment(self, cell: str) -> datetime | BadCell:
        if cell[4:5] == "-" and cell[:4].isdigit():
            try:
                return datetime.fromisoformat(cell)
            except ValueError:
                pass  # 2024-1-5 9:05 is not ISO 8601
        if turned := _CLOCK_FIRST.fullmatch(cell):
            return self._moment(f"{turned[2]} {turned[1]}")
        if _PLAIN_NUMBER.fullmatch(cell):
            return _epoch_or_compact(cell)
        if found := _COMPACT.fullmatch(cell):
            return datetime(*(int(part or 0) for part in found.groups()))  # type: ignore[arg-type]
        if found := _YEAR_FIRST.fullmatch(cell):
            return _time_from_match(found, int(found["year"]), int(found["month"]), int(found["day"]))
        if found := _MONTH_NAME_DATE.fullmatch(cell):
            month = _MONTHS.get((found["name"] or found["name2"]).lower(), 0)
            return _time_from_match(found, int(found["year"]), month, int(found["day"] or found["day2"]))
        if found := _YEAR_LAST.fullmatch(cell):
            one, two = int(found["one"]), int(found["two"])
            order = "dmy" if found["sep"] == "." else self.dates or ("dmy" if one > 12 else "mdy" if two > 12 else None)
            if order is None and one != two:
                return BadCell(
                    f"{shown_cell(cell)} is ambiguous: day/month or month/day", "Give --map dates=dmy or --map dates=mdy"
                )
            return _time_from_match(found, int(found["year"]), two if order == "dmy" else one, one if order == "dmy" else two)
        raise ValueError(cell)


def _time_from_match(found: re.Match[str], year: int, month: int, day: int) -> datetime:
    hour = int(found["hour"] or 0)
    if half := found["half"]:
        if not 1 <= hour <= 12:
            raise ValueError("not an hour of a 12-hour clock")
        hour = hour % 12 + (12 if half[0] in "Pp" else 0)
    part = (found["part"] or "0")[:6].ljust(6, "0")
    moment = datetime(year + (2000 if year < 100 else 0), month, day, hour, int(found["minute"] or 0), int(found["second"] or 0),
                      int(part))  # fmt: skip
    return moment.replace(tzinfo=_stated_zone(found["zone"])) if found["zone"] else moment


def _stated_zone(text: str) -> tzinfo:
    if text in _ZONES:
        return timezone(timedelta(hours=_ZONES[text]))
    found = re.fullmatch(r"(?:UTC|GMT)?([+-])(\d{1,2}):?(\d\d)?", text)
    if not found:
        raise ValueError("unknown zone")
    ahead = timedelta(hours=int(found[2]), minutes=int(found[3] or 0))
    return timezone(ahead if found[1] == "+" else -ahead)


def _epoch_or_compact(cell: str) -> datetime:
    whole, _, _ = cell.partition(".")
    if len(whole) == 8 and whole == cell:
        return datetime.strptime(cell, "%Y%m%d")
    if len(whole) == 14 and whole == cell:
        return datetime.strptime(cell, "%Y%m%d%H%M%S")
    return read_epoch(Decimal(cell))
