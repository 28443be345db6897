"""Tables of events: CSV with any usual column names. What is ambiguous in a cell is decided by the whole column.

A table with a date but no time of day, or with every event at midnight, lists days: its events have no known time, and no
reaction of the market is measured at them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta, timezone
from difflib import get_close_matches
from typing import Any

from memtape.brokers.calendars.event_file import (
    NAIVE_FIX,
    NAIVE_PROBLEM,
    EventFile,
    FoundEvent,
    are_currencies,
    event_id,
    is_date_alone,
    read_currencies,
    read_day,
    read_figure,
    read_symbols,
)
from memtape.brokers.cells import EMPTY_WORDS, BadCell, TimeReader, date_order, is_time_of_day, read_zone, shown_cell
from memtape.brokers.files import CellTable, ImportFile, clean_name, csv_table, json_table, starts_like_json
from memtape.brokers.headings import FieldNames, plain_name, stated_offset
from memtape.brokers.importer import ImportOptions, ImportProblem
from memtape.brokers.mapping import SAMPLE_ROWS, ColumnMapping, column_places
from memtape.brokers.tables import filter_rows
from memtape.brokers.texts import TextCleaner
from memtape.core.calendar import CalendarEvent, read_calendar_event
from memtape.core.event_kinds import EVENT_KINDS, impact_of_word
from memtape.core.values import clean_text
from memtape.errors import Invalid

TITLE_CHARS = 200
FIGURES = ("actual", "forecast", "previous")
EVENT_FIELD_NAMES: FieldNames = {
    "time": ("time", "datetime", "timestamp", "eventtime", "releasetime", "releasedate", "dateandtime", "start", "when", "date",
             "day", "ts"),
    "title": ("event", "title", "eventname", "indicator", "release", "name", "subject", "summary", "description"),
    "currency": ("currency", "ccy", "currencies", "cur", "country", "region"),
    "symbols": ("symbols", "symbol", "ticker", "tickers", "instrument", "asset", "token", "coin"),
    "kind": ("kind", "eventkind", "eventtype", "type", "category"),
    "impact": ("impact", "importance", "impactlevel", "priority", "stars", "volatility"),
    "actual": ("actual", "actualvalue", "result"),
    "forecast": ("forecast", "consensus", "expected", "estimate", "forecastvalue"),
    "previous": ("previous", "prior", "last", "previousvalue"),
    "source": ("source", "provider"),
    "id": ("id", "eventid", "uid", "uuid"),
}  # fmt: skip
# What a mapping may state besides columns. `zone` is another setting, with any zone as its value.
EVENT_SETTINGS: Mapping[str, tuple[str, ...]] = {"dates": ("dmy", "mdy"), "times": ("exact", "days")}
_NO_CLOCK_WORDS = ("all day", "allday", "tentative")  # where other rows have a time of day


def read_event_table(file: ImportFile, options: ImportOptions) -> EventFile:
    """Read the events of a table. Raises Invalid if it has no column of times or titles."""
    source = json_table(file) if starts_like_json(file) else csv_table(file, _name_counter(options.mapping))
    rows = len(source.rows) + len(source.bad)
    left_out = filter_rows(source, options.where)
    mapping = _choose_mapping(source, options)
    reader = _EventTable(source, mapping)
    result = EventFile(rows=rows, header=source.header, mapped_by=mapping.by, problems=reader.problems, notes=reader.notes)
    if left_out:
        result.notes.append(f"{left_out} rows do not match --where and were left out")
    result.problems += [ImportProblem(line, "row", problem, fix) for line, problem, fix in source.bad]
    result.found = reader.events()
    result.problems.sort(key=lambda problem: problem.line or 0)
    result.mapping = {name: text for name, text in mapping.spelled(source.header).items() if name != "kind" or text != "events"}
    used = {at for places in mapping.columns.values() for at in places}
    result.unused = [name for at, name in enumerate(source.header) if at not in used]
    if options.on_progress:
        options.on_progress(len(source.rows), len(source.rows))
    return result


# ---- the columns -----------------------------------------------------------------------------------------------------------

_ALL_NAMES = frozenset(name for names in EVENT_FIELD_NAMES.values() for name in names)


def _name_counter(stated: Mapping[str, str]) -> Callable[[Sequence[str]], int]:
    """Returns a function that counts the names of columns in a line: known names, and those that the caller states."""
    known = _ALL_NAMES | {plain_name(part) for text in stated.values() for part in text.split("+")}
    return lambda cells: len({plain_name(cell) for cell in cells if len(cell) <= 100} & known)


def _choose_mapping(table: CellTable, options: ImportOptions) -> ColumnMapping:
    """Returns the columns as the caller states them, completed by their names. Raises Invalid with every missing field."""
    mapping = ColumnMapping("events", {}, {}, {}, "given" if options.mapping else "guessed")
    if options.zone:
        mapping.settings["zone"] = options.zone
    _state_columns(table.header, options.mapping, mapping)
    plain = [plain_name(name) for name in table.header]
    taken = {at for places in mapping.columns.values() for at in places}
    for name, spellings in EVENT_FIELD_NAMES.items():
        if name in mapping.columns or name in mapping.constants:
            continue
        named = [plain.index(spelling) for spelling in spellings if spelling in plain]
        at = next((at for at in named if at not in taken and _suits(name, table.column(at)[:SAMPLE_ROWS])), None)
        if at is not None:
            mapping.columns[name] = (at,)
            taken.add(at)
    mapping.columns = {name: places for name, places in mapping.columns.items() if places}
    _join_date(table, plain, mapping)
    missing = [name for name in ("time", "title") if name not in mapping]
    if missing:
        shown = ", ".join(table.header)[:300]
        fix = f"Give the column, like --map {missing[0]}=COLUMN; the columns are: {shown}"
        raise Invalid("map", f"no column was found for {' and '.join(missing)}", fix)
    return mapping


def _state_columns(header: Sequence[str], stated: Mapping[str, str], mapping: ColumnMapping) -> None:
    for name, text in stated.items():
        if name == "zone":
            mapping.settings[name] = text
        elif name in EVENT_SETTINGS:
            if text not in EVENT_SETTINGS[name]:
                known = ", ".join(EVENT_SETTINGS[name])
                raise Invalid(f"map {name}", f"'{clean_name(text)}' is not known", f"Use one of {known}")
            mapping.settings[name] = text
        elif name not in EVENT_FIELD_NAMES:
            close = get_close_matches(name, EVENT_FIELD_NAMES, n=1)
            meant = f"Did you mean {close[0]}? " if close else ""
            raise Invalid("map", f"'{clean_name(name)}' is not a field", f"{meant}Fields are: {', '.join(EVENT_FIELD_NAMES)}")
        elif text.startswith("=") and text not in header:
            mapping.constants[name] = clean_name(text[1:])
        else:
            mapping.columns[name] = column_places(header, name, text)


def _suits(name: str, cells: Sequence[str]) -> bool:
    """Returns True if most cells can be this field: a column `type` may hold anything, and a `priority` too."""
    filled = [cell for cell in cells if cell.lower() not in EMPTY_WORDS]
    tests: Mapping[str, Callable[[str], object]] = {
        "kind": lambda cell: cell.lower() in EVENT_KINDS, "currency": are_currencies,
        "impact": lambda cell: impact_of_word(cell) is not None or _share(cell) is not None,
        "time": lambda cell: any(character.isdigit() for character in cell) or cell.lower() in _NO_CLOCK_WORDS,
    }  # fmt: skip
    test = tests.get(name)
    return test is None or 2 * sum(bool(test(cell)) for cell in filled) >= len(filled)


def _join_date(table: CellTable, plain: Sequence[str], mapping: ColumnMapping) -> None:
    """Join the date column to a time column that has no date."""
    places = mapping.columns.get("time", ())
    if len(places) != 1 or not all(is_time_of_day(cell) or cell.lower() in _NO_CLOCK_WORDS for cell in _filled(table, places[0])):
        return
    days = [at for at, name in enumerate(plain) if at != places[0] and name in ("date", "day", "releasedate", "eventdate")]
    if days:
        mapping.columns["time"] = (days[0], places[0])


def _filled(table: CellTable, at: int) -> list[str]:
    return [cell for cell in table.column(at)[:SAMPLE_ROWS] if cell.lower() not in EMPTY_WORDS]


def _share(cell: str) -> float | None:
    """Returns a number from 0 to 1, else None."""
    try:
        number = float(cell)
    except ValueError:
        return None
    return number if 0 <= number <= 1 else None


# ---- the rows --------------------------------------------------------------------------------------------------------------


class _EventTable:
    """A table while it is read."""

    def __init__(self, source: CellTable, mapping: ColumnMapping) -> None:
        self.source, self.mapping = source, mapping
        self.problems: list[ImportProblem] = []
        self.notes: list[str] = []
        self.texts = TextCleaner()
        self.naive_rows: set[int] = set()  # times without a zone: reported once for the file, and left out
        settings, cells = mapping.settings, mapping.cells(source, "time")
        dates = settings.get("dates") or date_order([cells])
        if dates:
            settings["dates"] = dates
        zone, ahead = read_zone(settings["zone"]) if "zone" in settings else (None, timedelta())
        stated = stated_offset(" ".join(source.header[at] for at in mapping.columns.get("time", ())))
        if zone is None and stated is not None:
            zone = timezone(stated)
        self.times = TimeReader(dates, zone, ahead)

    def events(self) -> list[FoundEvent]:
        """The events of all readable rows; what cannot be read is added to the problems, every wrong field of a row."""
        columns = {name: self.mapping.cells(self.source, name, glue="," if name in ("currency", "symbols") else " ")
                   for name in EVENT_FIELD_NAMES}  # fmt: skip
        moments = self._moments(columns["time"])
        # 1, 2 and 3 are stars, unless the column also has shares of one, like 0.75.
        shares = any((share := _share(cell)) is not None and share not in (0, 1) for cell in columns["impact"])
        found: list[FoundEvent] = []
        unread_figures = 0
        for row, line in enumerate(self.source.lines):
            cells = {name: several[row] for name, several in columns.items()}
            wrong = len(self.problems)
            data, unread = self._data(line, cells, moments[row], shares)
            unread_figures += unread
            event = self._event(line, data) if len(self.problems) == wrong and row not in self.naive_rows else None
            if event is not None:
                found.append(FoundEvent(line, event))
        if unread_figures:
            self.notes.append(f"{unread_figures} figures are no single numbers, like the votes of a committee, and were left out")
        if self.naive_rows:
            self.problems.insert(0, ImportProblem(None, "time", NAIVE_PROBLEM, NAIVE_FIX))
        if self.times.ambiguous:
            self.notes.append(f"{self.times.ambiguous} times fall in the hour of a clock change: read as before the change")
        self.notes += self.texts.notes()
        return found

    def _moments(self, cells: Sequence[str]) -> list[tuple[datetime | BadCell | None, bool]]:
        """The time of each row, and True where only the day is known."""
        read: list[tuple[datetime | BadCell | None, bool]] = []
        for row, cell in enumerate(cells):
            before = self.times.naive
            read.append(self._moment(cell))
            if self.times.naive > before:
                self.naive_rows.add(row)
        exact = [moment for moment, all_day in read if isinstance(moment, datetime) and not all_day]
        stated = self.mapping.settings.get("times")
        midnight = bool(exact) and all((m.hour, m.minute, m.second) == (0, 0, 0) for m in exact)
        if stated == "days" or (stated is None and midnight):
            if stated is None:
                self.mapping.settings["times"] = "days"
                self.notes.append(
                    "every event is at midnight: read as days without a time; if the times are exact, give --map times=exact"
                )
            return [(_midnight(moment), True) for moment, _ in read]
        return read

    def _moment(self, cell: str) -> tuple[datetime | BadCell | None, bool]:
        date = next((cell[: -len(word)].strip() for word in _NO_CLOCK_WORDS if cell.lower().endswith(word)), cell)
        if date != cell or is_date_alone(cell):
            return read_day(date, self.times), True
        return self.times.read(cell), False

    def _data(
        self, line: int, cells: Mapping[str, str], when: tuple[datetime | BadCell | None, bool], shares: bool
    ) -> tuple[dict[str, Any], int]:
        """The fields of one row, and how many of its figures are no numbers. Adds a problem for each wrong cell."""
        moment, all_day = when
        if moment is None:
            moment = BadCell("is empty", "Give the time of the event, or delete the row")
        title = self.texts.line(cells["title"], TITLE_CHARS)
        data: dict[str, Any] = {
            "title": title, "currencies": read_currencies(cells["currency"]), "symbols": read_symbols(cells["symbols"]),
            "all_day": all_day, "source": self.texts.line(cells["source"], 64),
        }  # fmt: skip
        if isinstance(moment, BadCell):
            self._add(line, "time", moment.problem, moment.fix)
        else:
            data["t"] = moment
        if title is None:
            self._add(line, "title", "is empty", "Give the event a title, or delete the row")
        data |= self._impact(line, cells["impact"], shares)
        if cells["kind"].lower() not in EMPTY_WORDS:
            if cells["kind"].lower() in EVENT_KINDS:
                data["kind"] = cells["kind"].lower()
            else:
                self._add(line, "kind", f"{shown_cell(cells['kind'])} is not a kind", f"Use one of {', '.join(EVENT_KINDS)}")
        figures = {name: read_figure(cells[name]) for name in FIGURES}
        unread = sum(figures[name] is None and cells[name].lower() not in EMPTY_WORDS for name in FIGURES)
        return {**data, **figures, "id": self._id(cells["id"], data)}, unread

    def _impact(self, line: int, cell: str, shares: bool) -> dict[str, Any]:
        if cell.lower() in EMPTY_WORDS:
            return {}
        if shares and (share := _share(cell)) is not None:
            return {"importance": share}
        if (impact := impact_of_word(cell)) is not None:
            return {"impact": impact}
        self._add(line, "impact", f"{shown_cell(cell)} is not an impact", "Use high, medium, low, holiday, or a number 0 to 1")
        return {}

    def _id(self, cell: str, data: Mapping[str, Any]) -> str:
        if cell.lower() not in EMPTY_WORDS:
            return cell[:128]
        if "t" not in data or data["title"] is None:
            return "unknown"
        return event_id(data["title"], data["currencies"], data["symbols"], data["t"], data["all_day"])

    def _event(self, line: int, data: Mapping[str, Any]) -> CalendarEvent | None:
        try:
            clean_text(data["id"])
            return read_calendar_event({name: value for name, value in data.items() if value is not None})
        except Invalid as error:
            for each in error.errors:
                self._add(line, each.field, each.problem, each.fix)
        except ValueError as error:
            self._add(line, "id", str(error).partition(";")[0], "Remove it")
        return None

    def _add(self, line: int, name: str, problem: str, fix: str) -> None:
        places = self.mapping.columns.get(name, ())
        heading = self.source.header[places[0]] if places else ""
        shown = f"{name} ({heading})" if heading and heading != name else name
        self.problems.append(ImportProblem(line, shown, problem, fix))


def _midnight(moment: datetime | BadCell | None) -> datetime | BadCell | None:
    return moment.replace(hour=0, minute=0, second=0, microsecond=0) if isinstance(moment, datetime) else moment
