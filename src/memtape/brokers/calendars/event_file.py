"""What a file of events contains, and what its readers share: the id of an event, currencies, figures, dates without a time."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime

from memtape.brokers.cells import EMPTY_WORDS, BadCell, TimeReader
from memtape.brokers.importer import ImportProblem
from memtape.core.calendar import EVERY_CURRENCY, CalendarEvent
from memtape.core.codec import make_id, time_text
from memtape.core.exposure import CURRENCIES

NAIVE_PROBLEM = "times have no zone"
NAIVE_FIX = "Give the zone of the file, like --zone UTC or --zone America/New_York"
COUNTRY_CURRENCIES: Mapping[str, str] = {
    "us": "USD", "usa": "USD", "united states": "USD", "eu": "EUR", "emu": "EUR", "ea": "EUR", "euro area": "EUR",
    "eurozone": "EUR", "european union": "EUR", "germany": "EUR", "de": "EUR", "france": "EUR", "fr": "EUR", "italy": "EUR",
    "it": "EUR", "spain": "EUR", "es": "EUR", "uk": "GBP", "gb": "GBP", "united kingdom": "GBP", "jp": "JPY", "japan": "JPY",
    "ch": "CHF", "switzerland": "CHF", "au": "AUD", "australia": "AUD", "nz": "NZD", "new zealand": "NZD", "ca": "CAD",
    "canada": "CAD", "cn": "CNY", "china": "CNY", "all": EVERY_CURRENCY, "global": EVERY_CURRENCY, "world": EVERY_CURRENCY,
}  # fmt: skip
_UNITS: Mapping[str, float] = {"": 1.0, "%": 1.0, "K": 1e3, "M": 1e6, "B": 1e9, "T": 1e12}
_FIGURE = re.compile(r"[<>~≈]?\s*(?P<number>[+-]?\d[\d,]*(?:\.\d+)?|[+-]?\.\d+)\s*(?P<unit>[%KMBTkmbt]?)")
_SEPARATORS = re.compile(r"[,;/|\s]+")
_SHORT_CODE = re.compile(r"[A-Za-z]{3}")


@dataclass(frozen=True, slots=True)
class FoundEvent:
    """One event and the line on which the file states it."""

    line: int
    event: CalendarEvent


@dataclass(slots=True)
class EventFile:
    """The content of a file of events."""

    rows: int
    header: tuple[str, ...] = ()
    mapping: dict[str, str] = field(default_factory=dict)  # complete: given as an option, it reads the file in the same way
    mapped_by: str = "format"  # guessed, given, or format where the format itself defines the fields
    unused: list[str] = field(default_factory=list)
    found: list[FoundEvent] = field(default_factory=list)
    problems: list[ImportProblem] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def event_id(title: str, currencies: Iterable[str], symbols: Iterable[str], t: datetime, all_day: bool) -> str:
    """Returns the id of an event whose source gives none: the same release has the same id in every file."""
    when = time_text(t)[:10] if all_day else time_text(t)
    return make_id("event", title.lower(), sorted(currencies), sorted(symbols), when)


def read_currencies(cell: str) -> tuple[str, ...]:
    """Returns the currencies of a cell, which may name a country.

    >>> read_currencies("usd/eur"), read_currencies("United States"), read_currencies("All"), read_currencies("")
    (('USD', 'EUR'), ('USD',), ('ALL',), ())
    """
    if cell.lower() in EMPTY_WORDS:
        return ()
    if known := COUNTRY_CURRENCIES.get(" ".join(cell.lower().split())):
        return (known,)
    parts = [part for part in _SEPARATORS.split(cell.strip()) if part]
    return tuple(dict.fromkeys(COUNTRY_CURRENCIES.get(part.lower(), part.upper()[:10]) for part in parts))


def are_currencies(cell: str) -> bool:
    """Returns True if a cell names currencies or a country."""
    return all(each in CURRENCIES or each == EVERY_CURRENCY or _SHORT_CODE.fullmatch(each) for each in read_currencies(cell))


def read_symbols(cell: str) -> tuple[str, ...]:
    """Returns the symbols of a cell."""
    parts = () if cell.lower() in EMPTY_WORDS else re.split(r"[,;|\s]+", cell.strip())
    return tuple(dict.fromkeys(part for part in parts if part))


def read_figure(cell: str) -> float | None:
    """Returns a figure in its own unit; None if the cell is no single number, like the votes of a committee.

    >>> [read_figure(cell) for cell in ("0.3%", "202K", "-5.80B", "<0.25%", "7-0-2", "")]
    [0.3, 202000.0, -5800000000.0, 0.25, None, None]
    """
    found = _FIGURE.fullmatch(cell.strip())
    if not found:
        return None
    # Rounded to what binary floats can hold, so that 202.1K is 202100 and not a neighbour of it.
    return float(f"{float(found['number'].replace(',', '')) * _UNITS[found['unit'].upper()]:.12g}")


def is_date_alone(cell: str) -> bool:
    """Returns True if a cell is a date without a time of day.

    >>> is_date_alone("2025-06-11"), is_date_alone("20250611"), is_date_alone("2025-06-11 12:30"), is_date_alone("1749645000")
    (True, True, False, False)
    """
    bare = cell.strip()
    return ":" not in bare and (not bare.isdigit() or len(bare) == 8) and re.search(r"\d", bare) is not None


def read_day(cell: str, times: TimeReader) -> datetime | BadCell | None:
    """Reads a date without a time as the beginning of that day in UTC."""
    found = TimeReader(times.dates, UTC).read(cell)
    return found.replace(hour=0, minute=0, second=0, microsecond=0) if isinstance(found, datetime) else found
