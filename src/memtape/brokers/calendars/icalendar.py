"""Calendars in the iCalendar format (RFC 5545): the start, summary, id and categories of each VEVENT.

A start is in UTC, in a named zone, a date alone, or without a zone, which then must be stated. Categories and a priority may tell
the impact, the currency or the kind; so may a currency at the start of the summary. Repetitions (RRULE) are not expanded.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Any

from memtape.brokers.calendars.event_file import NAIVE_FIX, NAIVE_PROBLEM, EventFile, FoundEvent, event_id
from memtape.brokers.cells import BadCell, TimeReader, read_zone, shown_cell
from memtape.brokers.files import ImportFile
from memtape.brokers.importer import ImportOptions, ImportProblem
from memtape.brokers.texts import TextCleaner
from memtape.core.calendar import EVERY_CURRENCY, read_calendar_event
from memtape.core.codec import make_id
from memtape.core.event_kinds import EVENT_KINDS, Impact, impact_of_word
from memtape.core.exposure import COINS, CURRENCIES
from memtape.errors import Invalid

TITLE_CHARS, MAX_ID_CHARS = 200, 128
MAX_EVENTS = 1_000_000
# The names that Windows and Outlook give to zones.
WINDOWS_ZONES: Mapping[str, str] = {
    "utc": "UTC", "gmt standard time": "Europe/London", "greenwich standard time": "UTC",
    "w. europe standard time": "Europe/Berlin",
    "central europe standard time": "Europe/Budapest", "romance standard time": "Europe/Paris",
    "e. europe standard time": "Europe/Chisinau", "eastern standard time": "America/New_York",
    "central standard time": "America/Chicago", "mountain standard time": "America/Denver",
    "pacific standard time": "America/Los_Angeles", "tokyo standard time": "Asia/Tokyo", "china standard time": "Asia/Shanghai",
    "singapore standard time": "Asia/Singapore", "aus eastern standard time": "Australia/Sydney",
    "new zealand standard time": "Pacific/Auckland", "india standard time": "Asia/Kolkata",
}  # fmt: skip
_PROPERTY = re.compile(r'(?P<name>[A-Za-z0-9-]+)(?P<params>(?:;[^=;:]+=(?:"[^"]*"|[^";:]*))*):(?P<value>.*)', re.DOTALL)
_PARAM = re.compile(r';([^=;:]+)=("[^"]*"|[^";:]*)')
_ESCAPED = re.compile(r"\\(.)")
_DATE = re.compile(r"(\d{4})(\d\d)(\d\d)")
_DATE_TIME = re.compile(r"(\d{4})(\d\d)(\d\d)T(\d\d)(\d\d)(\d\d)(Z?)")
_CODES = "|".join(sorted({*CURRENCIES, *COINS, EVERY_CURRENCY, "OIL"}))
_CODE_BEFORE = re.compile(rf"\W*\b({_CODES})\b\W+(?=\w)(.+)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class _Property:
    name: str
    params: Mapping[str, str]
    value: str


@dataclass(slots=True)
class _Component:
    """A VEVENT: the line on which it begins, and its properties."""

    line: int
    properties: dict[str, list[_Property]] = field(default_factory=dict)

    def first(self, name: str) -> _Property | None:
        return next(iter(self.properties.get(name, ())), None)

    def text(self, name: str) -> str:
        found = self.first(name)
        return _unescaped(found.value) if found else ""


def is_icalendar(file: ImportFile) -> bool:
    """Returns True if a text is in the iCalendar format."""
    return file.text.lstrip("\ufeff \n").upper().startswith("BEGIN:VCALENDAR")


def read_icalendar(file: ImportFile, options: ImportOptions) -> EventFile:
    """Read the events of a calendar."""
    if not is_icalendar(file):
        raise Invalid(file.name, "is no iCalendar file", "It should begin with BEGIN:VCALENDAR; read a table with --format csv")
    reader = _Reader(options)
    return reader.read(file.text)


class _Reader:
    """A calendar while it is read."""

    def __init__(self, options: ImportOptions) -> None:
        self.zone = options.zone
        self.result = EventFile(rows=0)
        self.texts = TextCleaner()
        self.naive = self.repeated = self.cancelled = 0

    def read(self, text: str) -> EventFile:
        """The events, problems and notes of a calendar."""
        for component in self._components(text):
            self.result.rows += 1
            if self.result.rows > MAX_EVENTS:
                raise Invalid("file", f"has more than {MAX_EVENTS:,} events", "Split it by year and import the parts")
            if component.text("STATUS").upper() == "CANCELLED":
                self.cancelled += 1
                continue
            self._take(component)
        self._finish()
        return self.result

    def _components(self, text: str) -> Iterator[_Component]:
        """Yields every VEVENT. A calendar may state the zone of times without one (X-WR-TIMEZONE)."""
        inside: list[str] = []
        event: _Component | None = None
        for line, content in _unfolded(text):
            found = _PROPERTY.fullmatch(content)
            if not found:
                if content.strip():
                    self._add(line, "row", f"{shown_cell(content)} is not a property", "Export the calendar again", blocks=False)
                continue
            name, value = found["name"].upper(), found["value"].strip()
            if name == "BEGIN":
                inside.append(value.upper())
                if value.upper() == "VEVENT":
                    event = _Component(line)
            elif name == "END":
                if value.upper() == "VEVENT" and event is not None:
                    yield event
                    event = None
                if inside:
                    inside.pop()
            elif event is not None and inside[-1:] == ["VEVENT"]:
                params = {key.upper(): text.strip('"') for key, text in _PARAM.findall(found["params"])}
                event.properties.setdefault(name, []).append(_Property(name, params, value))
            elif name == "X-WR-TIMEZONE" and self.zone is None:
                self.zone = value
        if event is not None:
            self._add(event.line, "row", "the event does not end", "The file is cut off: download it again")

    def _take(self, component: _Component) -> None:
        """Read one event. Every wrong property is a problem of its own."""
        wrong = len(self.result.problems)
        when = self._start(component)
        summary = self.texts.line(component.text("SUMMARY"), TITLE_CHARS)
        if summary is None:
            self._add(component.line, "SUMMARY", "is missing", "Give the event a summary, or delete it")
        if "RRULE" in component.properties:
            self.repeated += 1
        data = self._labels(component, summary or "")
        if len(self.result.problems) > wrong or when is None:
            return
        moment, all_day = when
        data |= {"t": moment, "all_day": all_day}
        uid, instance = component.text("UID"), component.first("RECURRENCE-ID")
        if not uid:
            uid = event_id(data["title"], data["currencies"], (), moment, all_day)
        identity = f"{uid}@{instance.value}" if instance else uid
        # Long ids often differ at their end only, so what is too long is hashed and not cut.
        data["id"] = identity if len(identity) <= MAX_ID_CHARS else make_id("event", identity)
        try:
            self.result.found.append(FoundEvent(component.line, read_calendar_event(data)))
        except Invalid as error:
            for each in error.errors:
                self._add(component.line, each.field, each.problem, each.fix)

    def _start(self, component: _Component) -> tuple[datetime, bool] | None:
        start = component.first("DTSTART")
        if start is None:
            self._add(component.line, "DTSTART", "is missing", "Give the event a start, or delete it")
            return None
        bad = f"{shown_cell(start.value)} is not a start", "Write it like 20250611T123000Z"
        try:
            if start.params.get("VALUE", "").upper() == "DATE" or _DATE.fullmatch(start.value):
                day = _DATE.fullmatch(start.value)
                if day is None:
                    raise ValueError
                return datetime(*(int(part) for part in day.groups()), tzinfo=UTC), True  # type: ignore[arg-type, misc]
            found = _DATE_TIME.fullmatch(start.value)
            if found is None:
                raise ValueError
            local = datetime(*(int(part) for part in found.groups()[:6]))  # type: ignore[arg-type]
        except ValueError:
            self._add(component.line, "DTSTART", *bad)
            return None
        if found[7]:
            return local.replace(tzinfo=UTC), False
        return self._in_zone(component.line, local, start.params.get("TZID"))

    def _in_zone(self, line: int, local: datetime, named: str | None) -> tuple[datetime, bool] | None:
        """A local time in its zone: the one it names, else the one stated for the file."""
        wanted = named or self.zone
        if wanted is None:
            self.naive += 1
            return None
        try:
            zone, ahead = _zone_of(wanted)
        except Invalid:
            fix = "Name a zone of the IANA database, like America/New_York"
            self._add(line, "TZID", f"{shown_cell(wanted)} is not a known zone", fix)
            return None
        read = TimeReader(None, zone, ahead).read(local.isoformat(sep=" "))
        if isinstance(read, BadCell) or read is None:
            self._add(line, "DTSTART", f"{shown_cell(local.isoformat())} is outside 1971 to 2199", "Check the year")
            return None
        return read, False

    def _labels(self, component: _Component, summary: str) -> dict[str, Any]:
        """What categories, priority and the beginning of the summary say: kind, impact, currencies."""
        words = [
            word.strip() for each in component.properties.get("CATEGORIES", ()) for word in re.split(r"(?<!\\),", each.value)
        ]
        words = [_unescaped(word) for word in words if word]
        found: dict[str, Any] = {"title": summary, "currencies": tuple(dict.fromkeys(w for w in words if w in CURRENCIES))}
        code = _CODE_BEFORE.fullmatch(summary)
        if code and not found["currencies"]:
            found |= {"title": code[2], "currencies": (code[1],)}
        impact = next((known for word in words if (known := _impact(word)) is not None), None) or _priority(component)
        if impact is not None:
            found["impact"] = impact
        kind = next((word.lower() for word in words if word.lower() in EVENT_KINDS), None)
        return found | ({"kind": kind} if kind else {})

    def _finish(self) -> None:
        result = self.result
        if self.naive:
            result.problems.insert(0, ImportProblem(None, "DTSTART", NAIVE_PROBLEM, NAIVE_FIX))
        if self.repeated:
            result.notes.append(f"{self.repeated} events repeat (RRULE): only the first date of each is read")
        if self.cancelled:
            result.notes.append(f"{self.cancelled} cancelled events were left out")
        result.notes += self.texts.notes()
        result.problems.sort(key=lambda problem: problem.line or 0)

    def _add(self, line: int, name: str, problem: str, fix: str, *, blocks: bool = True) -> None:
        self.result.problems.append(ImportProblem(line, name, problem, fix, blocks))


def _unfolded(text: str) -> Iterator[tuple[int, str]]:
    """Yields logical lines with the number of their first physical line. A line that begins with a blank continues the last."""
    first, parts = 0, list[str]()
    for number, line in enumerate(text.lstrip("\ufeff").split("\n"), start=1):
        if line[:1] in (" ", "\t") and parts:
            parts.append(line[1:])
            continue
        if parts:
            yield first, "".join(parts)
        first, parts = number, [line]
    if parts:
        yield first, "".join(parts)


def _unescaped(text: str) -> str:
    return _ESCAPED.sub(lambda found: "\n" if found[1] in "nN" else found[1], text)


def _zone_of(name: str) -> tuple[tzinfo, timedelta]:
    """The zone of a TZID. Some programs write a path before the name, like /freeassociation.sourceforge.net/Europe/Berlin."""
    known = WINDOWS_ZONES.get(name.lower())
    if known is None and name.startswith("/"):
        known = "/".join(name.rsplit("/", 2)[-2:])
    return read_zone(known or name)


def _impact(word: str) -> Impact | None:
    bare = word.lower().replace("impact", "").strip(" :-")
    # A single letter or digit among categories means anything.
    return impact_of_word(bare) if len(bare) > 1 else None


def _priority(component: _Component) -> Impact | None:
    """The impact by RFC 5545's priority: 1 to 4 is high, 5 medium, 6 to 9 low, 0 undefined."""
    text = component.text("PRIORITY")
    number = int(text) if text.isdigit() and len(text) == 1 else 0
    return None if number == 0 else "high" if number <= 4 else "medium" if number == 5 else "low"
