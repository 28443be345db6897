"""Files of events: tables by their columns, calendars in the iCalendar format; previewed, imported, undone."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from memtape.brokers.calendars import read_event_file
from memtape.brokers.calendars.event_file import EventFile
from memtape.brokers.files import unpack_file
from memtape.brokers.importer import ImportOptions
from memtape.core.calendar import CalendarEvent
from memtape.errors import Invalid
from memtape.surfaces.cli.events import run_event_import
from memtape.surfaces.cli.main import app

from .desk import REAL, given_memory

CALENDARS = REAL.parent / "calendar"
HEADER = "time,currency,impact,event,actual,forecast,previous\n"


def read(text: str, **options: Any) -> EventFile:
    return read_event_file(unpack_file("calendar", text.encode()), ImportOptions(**options))[1]


def events(text: str, **options: Any) -> list[CalendarEvent]:
    found = read(text, **options)
    assert found.problems == []
    return [each.event for each in found.found]


def problems(text: str, **options: Any) -> list[tuple[int | None, str]]:
    return [(each.line, each.field) for each in read(text, **options).problems]


def ics(*lines: str) -> str:
    return "\r\n".join(["BEGIN:VCALENDAR", "VERSION:2.0", *lines, "END:VCALENDAR", ""])


def vevent(*lines: str) -> tuple[str, ...]:
    return ("BEGIN:VEVENT", *lines, "END:VEVENT")


# ---- tables ----------------------------------------------------------------------------------------------------------------


def test_a_table_of_releases_is_read_by_its_columns() -> None:
    [cpi, claims] = events(
        f"{HEADER}2025-06-11T12:30:00Z,USD,high,CPI m/m,0.1%,0.2%,0.2%\n2025-06-12T12:30Z,usd,med,Claims,248K,,\n"
    )
    assert (cpi.t, cpi.title, cpi.kind, cpi.importance) == (datetime(2025, 6, 11, 12, 30, tzinfo=UTC), "CPI m/m", "cpi", 0.8)
    assert (cpi.currencies, cpi.actual, cpi.forecast, cpi.surprise) == (("USD",), 0.1, 0.2, -0.1)
    assert (claims.currencies, claims.importance, claims.actual) == (("USD",), 0.5, 248_000.0)


def test_other_names_are_given_by_a_mapping() -> None:
    text = "moment;what;money;weight\n2025-06-11T12:30:00Z;CPI;USD;0.9\n2025-06-11T12:30:00Z;PPI;USD;0.25\n"
    with pytest.raises(Invalid, match="no column was found for time and title") as missing:
        read(text.replace("weight", "importance"))
    assert missing.value.field == "map"
    mapped = {"time": "moment", "title": "what", "currency": "money", "impact": "weight", "source": "=desk"}
    found = events(text, mapping=mapped)
    assert [(each.title, each.importance, each.source) for each in found] == [("CPI", 0.9, "desk"), ("PPI", 0.25, "desk")]
    with pytest.raises(Invalid, match="'colour' is not a field"):
        read(text, mapping={**mapped, "colour": "what"})


def test_dates_and_times_in_two_columns_and_a_zone_of_the_file() -> None:
    text = "Date,Time,Currency,Impact,Event\n06/13/2025,8:30am,USD,High Impact Expected,CPI\n06/14/2025,All Day,EUR,Low,Summit\n"
    [cpi, summit] = events(text, zone="America/New_York")
    assert (cpi.t, cpi.all_day) == (datetime(2025, 6, 13, 12, 30, tzinfo=UTC), False)
    assert (summit.t, summit.all_day) == (datetime(2025, 6, 14, tzinfo=UTC), True)


def test_times_without_a_zone_are_refused_once_for_the_file() -> None:
    text = f"{HEADER}2025-06-11 12:30,USD,high,CPI,,,\n2025-06-12 12:30,USD,what,,,,\n"
    assert problems(text) == [(None, "time"), (3, "title (event)"), (3, "impact")]
    assert [each.t.hour for each in events(text.replace("what,,", "low,PPI,"), zone="UTC")] == [12, 12]


def test_a_column_that_says_utc_needs_no_zone() -> None:
    assert events("Date (UTC),Event,Currency\n2025-06-11 12:30,CPI,USD\n")[0].t == datetime(2025, 6, 11, 12, 30, tzinfo=UTC)


def test_a_file_with_every_event_at_midnight_lists_days() -> None:
    text = "time,event,currency\n2025-06-11T00:00:00Z,CPI,USD\n2025-06-12T00:00:00Z,PPI,USD\n"
    found = read(text)
    assert [each.event.all_day for each in found.found] == [True, True] and "midnight" in found.notes[0]
    assert [each.all_day for each in events(text, mapping={"times": "exact"})] == [False, False]


def test_every_wrong_field_of_a_row_is_named_with_its_line() -> None:
    text = f"{HEADER}2025-06-11T12:30:00Z,USD,high,CPI,,,\nsoon,USD,huge,,,,\n"
    assert problems(text) == [(3, "time"), (3, "title (event)"), (3, "impact")]
    kinds = "time,event,kind\n2025-06-11T12:30:00Z,CPI,cpi\n2025-06-11T12:30:00Z,Lunch,lunch\n"
    assert problems(kinds) == [(3, "kind")]


def test_stars_and_shares_are_told_apart_by_the_whole_column() -> None:
    stars = "time,event,stars\n2025-06-11T12:30Z,A,1\n2025-06-12T12:30Z,B,3\n"
    assert [each.importance for each in events(stars.replace("stars", "importance"))] == [0.2, 0.8]
    assert [each.importance for each in events(stars.replace("stars", "importance").replace(",3", ",0.35"))] == [1.0, 0.35]


def test_an_event_keeps_its_id_when_its_figure_comes_in() -> None:
    [ahead] = events(f"{HEADER}2025-06-11T12:30:00Z,USD,high,CPI,,0.2%,\n")
    [released] = events(f"{HEADER}2025-06-11T12:30:00Z,USD,high,CPI,0.1%,0.2%,\n")
    assert ahead.id == released.id and len(ahead.id) == 16


# ---- iCalendar -------------------------------------------------------------------------------------------------------------


def test_a_calendar_gives_starts_in_utc_in_a_zone_and_as_dates() -> None:
    text = ics(
        *vevent("UID:a", "DTSTART:20250618T180000Z", "SUMMARY:FOMC Statement", "CATEGORIES:USD,High Impact"),
        *vevent("UID:b", "DTSTART;TZID=America/New_York:20250611T083000", "SUMMARY:USD CPI m/m\\, core an", " d headline"),
        *vevent("UID:c", "DTSTART;VALUE=DATE:20250613", "SUMMARY:ARB token unlock", "PRIORITY:9"),
        *vevent("UID:d", 'DTSTART;TZID="Tokyo Standard Time":20250613T090000', "SUMMARY:JPY BOJ Policy Rate"),
    )
    found = {each.id: each for each in events(text)}
    assert (found["a"].t.hour, found["a"].kind, found["a"].currencies, found["a"].importance) == (18, "fomc", ("USD",), 0.8)
    assert (found["b"].t.hour, found["b"].title, found["b"].currencies) == (12, "CPI m/m, core and headline", ("USD",))
    assert (found["c"].all_day, found["c"].kind, found["c"].importance) == (True, "unlock", 0.2)
    assert (found["d"].t, found["d"].kind) == (datetime(2025, 6, 13, tzinfo=UTC), "rates")


def test_what_a_calendar_cannot_say_is_reported() -> None:
    text = ics(
        *vevent("UID:a", "DTSTART;TZID=Nowhere/City:20250618T180000"),
        *vevent("UID:b", "DTSTART:20250618T180000", "SUMMARY:Floating"),
        *vevent("UID:c", "DTSTART:20251332T180000Z", "SUMMARY:Never"),
        *vevent("UID:d", "SUMMARY:No start"),
        *vevent("UID:e", "DTSTART:20250618T180000Z", "SUMMARY:Gone", "STATUS:CANCELLED"),
        *vevent("UID:f", "DTSTART:20250618T180000Z", "SUMMARY:Monthly", "RRULE:FREQ=MONTHLY"),
    )
    found = read(text)
    assert [(each.line, each.field) for each in found.problems] == [
        (None, "DTSTART"), (3, "TZID"), (3, "SUMMARY"), (12, "DTSTART"), (17, "DTSTART"),
    ]  # fmt: skip
    assert [each.event.id for each in found.found] == ["f"]
    assert len(found.notes) == 2
    assert [each.event.id for each in read(text, zone="UTC").found] == ["b", "f"]


@pytest.mark.parametrize("text", ["BEGIN:VCALENDAR\nBEGIN:VEVENT\nUID:1\n", "BEGIN:VCALENDAR\nEND:VEVENT\nEND:X\n:\n;=\n"])
def test_a_broken_calendar_gives_problems_and_no_event(text: str) -> None:
    found = read(text)
    assert found.found == [] and found.problems


@given(st.text(max_size=200), st.sampled_from(["", HEADER, "BEGIN:VCALENDAR\nBEGIN:VEVENT\nDTSTART:20250618T180000Z\nSUMMARY:"]))
def test_any_text_is_read_or_refused(text: str, before: str) -> None:
    try:
        found = read(before + text)
    except Invalid as refused:
        assert refused.problem
    else:
        assert all(each.event.title for each in found.found)


# ---- previewed, imported, undone -------------------------------------------------------------------------------------------


def test_a_preview_writes_nothing_and_a_commit_can_be_repeated(tmp_path: Path) -> None:
    memory, file = given_memory(), tmp_path / "calendar.csv"
    file.write_text(f"{HEADER}2025-06-11T12:30:00Z,USD,high,CPI m/m,0.1%,,\n2025-06-18T18:00:00Z,USD,high,FOMC Statement,,,\n")
    preview = run_event_import(memory, file)
    assert (preview["new"], preview["committed"], preview["batch"], memory.events()) == (2, False, None, [])
    assert preview["totals"]["by_kind"] == {"cpi": 1, "fomc": 1}
    done = run_event_import(memory, file, commit=True)
    assert done["committed"] and len(memory.events()) == 2
    again = run_event_import(memory, file, commit=True)
    assert (again["new"], again["changed"], again["duplicates"], again["batch"]) == (0, 0, 2, None)


def test_an_event_that_a_file_states_twice_stands_as_stated_last_and_is_imported_once(tmp_path: Path) -> None:
    memory, file = given_memory(), tmp_path / "calendar.ics"
    planned = vevent("UID:cpi", "DTSTART:20270611T123000Z", "SUMMARY:USD CPI m/m")
    moved = vevent("UID:cpi", "SEQUENCE:1", "DTSTART:20270612T123000Z", "SUMMARY:USD CPI m/m")
    file.write_text(ics(*planned, *moved))
    first = run_event_import(memory, file, commit=True)
    assert (first["new"], first["changed"], first["duplicates"]) == (1, 0, 1)
    assert [each.t for each in memory.events()] == [datetime(2027, 6, 12, 12, 30, tzinfo=UTC)]
    again = run_event_import(memory, file, commit=True)
    assert (again["new"], again["changed"], again["duplicates"], again["batch"]) == (0, 0, 2, None)


def test_long_ids_that_differ_at_their_end_are_two_events() -> None:
    path = "https://calendar.example/" + "releases/" * 14
    day = [vevent(f"UID:{path}{n}", f"DTSTART:2027061{n}T123000Z", "SUMMARY:USD CPI m/m") for n in (1, 2)]
    assert len({each.id for each in events(ics(*day[0], *day[1]))}) == 2


def test_bad_rows_stop_a_commit_unless_they_are_skipped(tmp_path: Path) -> None:
    memory, file = given_memory(), tmp_path / "calendar.csv"
    file.write_text(
        f"{HEADER}2025-06-11T12:30:00Z,USD,high,CPI m/m,,,\nsoon,USD,high,FOMC,,,\n2099-06-11T12:30:00Z,USD,high,GDP,1,,\n"
    )
    assert [each["field"] for each in run_event_import(memory, file)["problems"]] == ["time", "actual"]
    with pytest.raises(Invalid, match="2 of 3 rows"):
        run_event_import(memory, file, commit=True)
    assert memory.events() == []
    run_event_import(memory, file, commit=True, skip_bad=True)
    assert [event.title for event in memory.events()] == ["CPI m/m"]


def test_on_the_command_line_a_calendar_is_imported_listed_and_undone(tmp_path: Path) -> None:
    db, file = str(tmp_path / "desk.db"), tmp_path / "calendar.ics"
    file.write_text(ics(*vevent("UID:a", "DTSTART:20250618T180000Z", "SUMMARY:FOMC Statement", "CATEGORIES:USD,High Impact")))

    def run(*args: str) -> dict[str, Any]:
        done = CliRunner().invoke(app, ["events", *args, "--db", db, "--json"])
        assert done.exit_code == 0, done.output
        return dict(json.loads(done.stdout))

    batch = run("import", str(file), "--commit")["batch"]
    asked = ("list", "--as-of", "2025-06-18T12:00:00Z", "--type", "fomc", "--symbol", "XAUUSD")
    assert [row["title"] for row in run(*asked)["events"]] == ["FOMC Statement"]
    assert [row["batch"] for row in run("imports")["imports"]] == [batch]
    run("undo", batch)
    assert run("list")["events"] == [] and run("imports")["imports"][0]["undone"] is True
    wrong = CliRunner().invoke(app, ["events", "import", str(file), "--format", "xls", "--db", db])
    assert wrong.exit_code == 2 and "format" in wrong.stderr


@pytest.mark.skipif(not CALENDARS.is_dir(), reason=f"{CALENDARS} is not here")
def test_both_public_calendars_are_recognised_whole() -> None:
    memory = given_memory()
    exact = run_event_import(memory, CALENDARS / "ff_high_impact_2020_2025-06.csv.gz", commit=True)
    assert (exact["rows"], exact["new"], exact["problems"]) == (4243, 4243, [])
    assert {kind: exact["totals"]["by_kind"][kind] for kind in ("cpi", "nfp", "fomc")} == {"cpi": 539, "nfp": 66, "fomc": 100}
    days = run_event_import(memory, CALENDARS / "fred_fomc_dates_2022_2025-06.csv.gz", commit=True)
    assert (days["rows"], days["new"], days["problems"]) == (246, 246, [])
    listed = memory.events()
    assert sum(event.all_day for event in listed) == 246, "dates without a time are kept as days"
    assert {event.importance for event in listed} == {0.8}
