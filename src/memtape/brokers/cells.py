"""Numbers and times as files write them. What one cell leaves open, 1,234 or 03/04/2024, the whole file decides, or nobody.

A cell that cannot be read is a `BadCell` value with its fix; an empty one is None.
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

EMPTY = frozenset({"", "-", "--", "nan", "none", "null", "n/a", "na", "nat", "#n/a"})


@dataclass(frozen=True, slots=True)
class BadCell:
    """A cell that cannot be read, and what to do about it."""

    problem: str
    fix: str


def shown_cell(cell: str) -> str:
    """A cell in a message: short, and harmless."""
    return repr(cell if len(cell) <= 40 else cell[:37] + "...")


# ---- numbers -------------------------------------------------------------------------------------------------------

_SPACES = re.compile(r"[\s\u00a0\u2007\u2009\u202f'’_]+")
_NUMBER = re.compile(
    r"(?P<bracket>\()?(?P<before>[+-])?(?:[A-Za-z]{2,6})?[$€£¥₿₹]?(?P<within>[+-])?(?P<digits>[\d.,]+(?:[eE][+-]?\d{1,3})?)"
    r"(?P<share>%)?(?:[$€£¥₿₹]|[A-Za-z]{2,6}|[xX])?(?(bracket)\))(?P<after>-)?"
)
_POINT = re.compile(r"(?:\d+|\d{1,3}(?:,\d{2,3})*,\d{3})?(?:\.\d*)?(?:[eE][+-]?\d{1,3})?")
_UNCLEAR = re.compile(r"[1-9]\d{0,2},\d{3}")
_SWAP = str.maketrans(",.", ".,")
_FINEST = Decimal(1).scaleb(-18)


def decide_decimal(columns: Iterable[Sequence[str]], separator: str) -> tuple[str, str | None]:
    """Whether the file's decimal sign is a point or a comma (or unclear), and what to say about it.

    >>> decide_decimal([["1.204,50", "88,1"]], ";")
    ('comma', 'numbers have a decimal comma')
    >>> decide_decimal([["1,204"]], ";")[0], decide_decimal([["1,204", "1.5"]], ";")[0], decide_decimal([["1,204"]], ",")[0]
    ('unclear', 'point', 'point')
    """
    cells = [cell for column in columns for cell in column]
    with_comma = [cell for cell in cells if "," in cell]
    if not with_comma and not any(cell.count(".") > 1 for cell in cells):
        return "point", None
    votes = {"point": 0, "comma": 0, "unclear": 0}
    for cell in cells:
        if "," in cell or "." in cell:
            votes[_vote(cell)] += 1
    if votes["comma"] > votes["point"]:
        mixed = f"; {votes['point']} have a point and cannot be read" if votes["point"] else ""
        return "comma", f"numbers have a decimal comma{mixed}"
    if votes["point"]:
        return "point", "commas in numbers separate thousands"
    if separator == ";":
        return "unclear", None
    return "point", f"commas in numbers are taken to separate thousands ({with_comma[0][:20]}); if not, --map decimal=comma"


def _vote(cell: str) -> str:
    comma, point = cell.rfind(","), cell.rfind(".")
    if comma >= 0 and point >= 0:
        return "comma" if comma > point else "point"
    sign, other = (",", "point") if comma >= 0 else (".", "comma")
    own = "comma" if sign == "," else "point"
    if cell.count(sign) > 1:
        return other
    left, _, right = (re.sub(r"\D", "", part) if n != 1 else part for n, part in enumerate(cell.partition(sign)))
    return "unclear" if len(right) == 3 and 1 <= len(left) <= 3 and left != "0" else own


def numbers(cells: Sequence[str], style: str, *, percent: bool = False) -> list[Decimal | BadCell | None]:
    """A column of numbers. Plain ones take the short way."""
    if style == "comma":
        return [_dressed(cell, style, percent) for cell in cells]
    found: list[Decimal | BadCell | None] = []
    for cell in cells:
        if not cell:
            found.append(None)
            continue
        try:
            value = Decimal(cell)
        except InvalidOperation:
            found.append(_dressed(cell, style, percent))
        else:
            found.append(_limited(value, cell))
    return found


def _limited(value: Decimal, cell: str) -> Decimal | BadCell | None:
    """At most 20 digits before the point; what is finer than 18 places after it is the noise of binary floats."""
    if not value.is_finite():
        return None if value.is_nan() else BadCell(f"{shown_cell(cell)} is not a finite number", "Correct it, or delete the row")
    if not value:
        return Decimal(0)
    if value.adjusted() > 19:
        return BadCell(f"{shown_cell(cell)} has too many digits", "Use at most 20 before the decimal point")
    if value.adjusted() < -18:
        return Decimal(0)
    return value.quantize(_FINEST).normalize() if len(cell) > 18 and _places(value) > 18 else value


def _places(value: Decimal) -> int:
    exponent = value.as_tuple().exponent
    return -exponent if isinstance(exponent, int) else 0


def _dressed(cell: str, style: str, percent: bool) -> Decimal | BadCell | None:
    """A number with thousands separators, a currency, a percent sign, or its minus as brackets or at the end."""
    if cell.lower() in EMPTY:
        return None
    if len(cell) > 80:
        return BadCell(f"{shown_cell(cell)} is not a number", "Write digits and a decimal sign, like 65200.5")
    found = _NUMBER.fullmatch(_SPACES.sub("", cell).replace("−", "-"))
    digits = found["digits"] if found else ""
    if style == "comma":
        digits = digits.translate(_SWAP)
    elif style == "unclear" and _UNCLEAR.fullmatch(digits):
        return BadCell(f"{shown_cell(cell)} may be thousands or decimals", "Say --map decimal=comma or --map decimal=point")
    if not found or not _POINT.fullmatch(digits) or not digits.strip(".,"):
        return BadCell(f"{shown_cell(cell)} is not a number", "Write digits and a decimal sign, like 65200.5")
    if found["share"] and not percent:
        return BadCell(f"{shown_cell(cell)} is a percentage", "Map a column that holds the amount itself")
    value = Decimal(digits.replace(",", "")).scaleb(-2 if found["share"] else 0)
    negative = found["bracket"] or "-" in (found["before"], found["within"], found["after"])
    return _limited(-value if negative else value, cell)


# ---- times ---------------------------------------------------------------------------------------------------------

_PLAIN = re.compile(r"\d+(?:\.\d*)?")
_TIME_OF_DAY = re.compile(r"\d{1,2}:\d\d(:\d\d)?.*|\d{6}")
_COMPACT = re.compile(r"(\d{4})(\d\d)(\d\d)[ ;,T]*(\d\d):?(\d\d):?(\d\d)?")
_CLOCK = (
    r"(?:[ T,;]+(?P<hour>\d{1,2}):(?P<minute>\d\d)(?::(?P<second>\d\d)(?:[.,](?P<part>\d+))?)?\s*(?P<half>[AaPp]\.?[Mm]\.?)?)?"
    r"\s*(?P<zone>Z|[A-Z]{3,4}|(?:UTC|GMT)?[+-]\d{1,2}:?(?:\d\d)?)?"
)
_YEAR_FIRST = re.compile(r"(?P<year>\d{4})(?P<sep>[-./])(?P<month>\d{1,2})(?P=sep)(?P<day>\d{1,2})" + _CLOCK)
_YEAR_LAST = re.compile(r"(?P<one>\d{1,2})(?P<sep>[-./])(?P<two>\d{1,2})(?P=sep)(?P<year>\d{4}|\d\d)" + _CLOCK)
_NAMED = re.compile(r"(?:(?P<day>\d{1,2})[ -](?P<name>[A-Za-z]{3})[a-z]*|(?P<name2>[A-Za-z]{3})[a-z]* (?P<day2>\d{1,2}))[ ,-]+"
                    r"(?P<year>\d{4}|\d\d)" + _CLOCK)  # fmt: skip
_MONTHS: Mapping[str, int] = {
    "jan": 1, "feb": 2, "mar": 3, "apr": 4, "may": 5, "jun": 6, "jul": 7, "aug": 8, "sep": 9, "oct": 10, "nov": 11, "dec": 12,
}  # fmt: skip
_ZONES: Mapping[str, int] = {
    "Z": 0, "UTC": 0, "GMT": 0, "EST": -5, "EDT": -4, "CST": -6, "CDT": -5, "MST": -7, "MDT": -6, "PST": -8, "PDT": -7,
    "CET": 1, "CEST": 2, "EET": 2, "EEST": 3, "BST": 1, "MSK": 3, "JST": 9, "HKT": 8, "SGT": 8,
}  # fmt: skip
_FIX = "Write ISO 8601 like 2026-06-04T08:00:00Z, or an epoch"


def zone_of(name: str) -> tuple[tzinfo, timedelta]:
    """A zone and how far the clock stands ahead of it. MetaTrader servers often show New York plus seven hours.

    >>> zone_of("America/New_York+7")[1]
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
    except (KeyError, ValueError, OSError):  # unknown; not a name; the name of a folder of zones
        raise Invalid("zone", f"{shown_cell(name)} is not a time zone", fix) from None
    return zone, timedelta(hours=int(f"{sign}{hours}" or 0))


def is_time_of_day(cell: str) -> bool:
    """Whether a cell holds an hour without a day."""
    return _TIME_OF_DAY.fullmatch(cell) is not None and not _PLAIN.fullmatch(cell)


def decide_dates(columns: Iterable[Sequence[str]]) -> str | None:
    """Whether 03/04/2024 is in March or in April: what other dates of the file say, else None.

    >>> decide_dates([["03/04/2024", "03/14/2024"]]), decide_dates([["03/04/2024"]])
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
class Times:
    """How the times of one file are read."""

    dates: str | None
    zone: tzinfo | None  # None: not given, so naive times are taken as UTC and counted
    ahead: timedelta = timedelta()
    naive: int = 0
    twice: int = 0  # naive times in an hour that a clock change repeats or leaves out

    def column(self, cells: Sequence[str], *, utc: bool = False) -> list[datetime | BadCell | None]:
        """A column of times; `utc` if its name says so."""
        known = {cell: self.read(cell, utc=utc) for cell in set(cells)}
        return [known[cell] for cell in cells]

    def read(self, cell: str, *, utc: bool = False) -> datetime | BadCell | None:
        """One time.

        >>> times = Times(dates=None, zone=zone_of("Europe/Berlin")[0])
        >>> {str(times.read(t)) for t in ("2024.01.31 12:00:00", "1706698800000", "2024-01-31T11:00Z", "Jan 31, 2024 11:00 UTC")}
        {'2024-01-31 11:00:00+00:00'}
        """
        if cell.lower() in EMPTY or cell in ("0", "0.0"):  # an epoch of 0 means "not yet"
            return None
        try:
            moment = self._moment(cell[:80])
        except (ValueError, OverflowError, InvalidOperation):
            return BadCell(f"{shown_cell(cell)} is not a time", _FIX)
        if isinstance(moment, BadCell):
            return moment
        if not 1970 < moment.year < 2200:
            return BadCell(f"{shown_cell(cell)} lies outside 1971..2199", "Check the year, or the unit of the epoch")
        return moment.astimezone(UTC) if moment.tzinfo else self._here(moment, utc)

    def _here(self, moment: datetime, utc: bool) -> datetime:
        if utc:
            return moment.replace(tzinfo=UTC)
        if self.zone is None:
            self.naive += 1
            return moment.replace(tzinfo=UTC)
        local = (moment - self.ahead).replace(tzinfo=self.zone)
        early = local.astimezone(UTC)
        if local.utcoffset() != local.replace(fold=1).utcoffset():
            self.twice += 1
        return early

    def _moment(self, cell: str) -> datetime | BadCell:
        if cell[4:5] == "-" and cell[:4].isdigit():
            try:
                return datetime.fromisoformat(cell)
            except ValueError:
                pass  # 2024-1-5 9:05, which is no ISO 8601
        if _PLAIN.fullmatch(cell):
            return _epoch_or_compact(cell)
        if found := _COMPACT.fullmatch(cell):
            return datetime(*(int(part or 0) for part in found.groups()))  # type: ignore[arg-type]
        if found := _YEAR_FIRST.fullmatch(cell):
            return _clock(found, int(found["year"]), int(found["month"]), int(found["day"]))
        if found := _NAMED.fullmatch(cell):
            month = _MONTHS.get((found["name"] or found["name2"]).lower(), 0)
            return _clock(found, int(found["year"]), month, int(found["day"] or found["day2"]))
        if found := _YEAR_LAST.fullmatch(cell):
            one, two = int(found["one"]), int(found["two"])
            order = "dmy" if found["sep"] == "." else self.dates or ("dmy" if one > 12 else "mdy" if two > 12 else None)
            if order is None and one != two:
                return BadCell(f"{shown_cell(cell)} may be day/month or month/day", "Say --map dates=dmy or --map dates=mdy")
            return _clock(found, int(found["year"]), two if order == "dmy" else one, one if order == "dmy" else two)
        raise ValueError(cell)


def _clock(found: re.Match[str], year: int, month: int, day: int) -> datetime:
    hour = int(found["hour"] or 0)
    if half := found["half"]:
        if not 1 <= hour <= 12:
            raise ValueError("no such hour")
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
