"""The commands about scheduled events: `events list` and `events import`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from memtape.brokers.calendars import EVENT_FORMATS
from memtape.surfaces.cli.commands import print_operation
from memtape.surfaces.cli.groups import Command, command_group
from memtape.surfaces.cli.options import ColumnNames, Db, Json, Owner, open_store, progress, say
from memtape.surfaces.cli.printing import answer, reporting

if TYPE_CHECKING:
    from memtape.brokers.calendars.event_file import EventFile, FoundEvent
    from memtape.brokers.importer import Progress
    from memtape.engine import Memory

events_app = command_group("Scheduled events.")


@events_app.command("list", cls=Command)
def list_events(
    hours: Annotated[float, typer.Option("--hours", help="How many hours ahead, 1 to 72.")] = 24,
    kinds: Annotated[list[str] | None, typer.Option("--type", help="Only this kind, like cpi; repeat it for more.")] = None,
    symbols: Annotated[list[str] | None, typer.Option("--symbol", help="Only events that touch this symbol.")] = None,
    importance: Annotated[float, typer.Option("--min-importance", help="0 to 1; high .8, medium .5, low .2.")] = 0.4,
    as_of: Annotated[str | None, typer.Option("--as-of", help="A past time, ISO 8601 with zone.")] = None,
    db: Db = None, owner: Owner = None, as_json: Json = False, columns: ColumnNames = None,
) -> None:  # fmt: skip
    """List the events ahead."""
    with reporting(as_json), open_store(db, owner) as memory:
        asked = {"lookaheadHours": hours, "types": kinds, "symbols": symbols, "minImportance": importance, "as_of": as_of}
        print_operation(memory, "get_upcoming_events", {k: v for k, v in asked.items() if v not in (None, [])}, as_json, columns)


@events_app.command("import", cls=Command)
def import_events(
    file: Annotated[Path, typer.Argument(help="A table (CSV, JSON) or a calendar (ICS) of events, .gz too.")],
    form: Annotated[str | None, typer.Option("--format", help=f"One of {', '.join(EVENT_FORMATS)}; default: detected.")] = None,
    mapping: Annotated[list[str] | None, typer.Option("--map", help="field=column, to correct the detected mapping.")] = None,
    where: Annotated[list[str] | None, typer.Option("--where", help="column=value: only rows with this value.")] = None,
    zone: Annotated[str | None, typer.Option(help="Time zone of times without one, like America/New_York.")] = None,
    skip_bad: Annotated[bool, typer.Option("--skip-bad", help="Skip rows with problems.")] = False,
    commit: Annotated[bool, typer.Option("--commit", help="Import; without it only a preview is shown.")] = False,
    db: Db = None, owner: Owner = None, as_json: Json = False,
) -> None:  # fmt: skip
    """Preview a file of scheduled events; --commit imports it. Imports are idempotent."""
    with reporting(as_json), open_store(db, owner) as memory:
        from memtape.surfaces.cli.imports import option_pairs

        with progress("events") as report:
            found = run_event_import(
                memory, file, format=form, mapping=option_pairs("map", mapping or []), where=option_pairs("where", where or []),
                zone=zone, skip_bad=skip_bad, commit=commit, on_progress=report,
            )  # fmt: skip
        answer(found, as_json)
        if not commit and not as_json:
            say("This is a preview; nothing was written. Add --commit to import.")


def run_event_import(
    memory: Memory, path: str | Path, *, format: str | None = None, mapping: Mapping[str, str] | None = None,
    where: Mapping[str, str] | None = None, zone: str | None = None, skip_bad: bool = False, commit: bool = False,
    on_progress: Progress | None = None,
) -> dict[str, Any]:  # fmt: skip
    """Read a file of events; with `commit`, import it. Returns what `memtape events import --json` prints."""
    from memtape.brokers.calendars import read_event_file
    from memtape.brokers.files import load_file
    from memtape.brokers.importer import ImportOptions
    from memtape.surfaces.import_checks import listed_problems, refuse_bad_rows

    file = load_file(path)
    options = ImportOptions(mapping=dict(mapping or {}), where=dict(where or {}), zone=zone, on_progress=on_progress)
    name, read = read_event_file(file, options, format)
    _drop_foretold(memory.clock.now(), read)
    events = [each.event for each in read.found]
    counts = memory.calendar.preview(events)
    result = {
        "format": name, "rows": read.rows, "events": len(events), "new": counts.new, "changed": counts.changed,
        "duplicates": counts.known, "problems": listed_problems(read.problems), "totals": _event_totals(read.found),
        "mapping": {"by": read.mapped_by, "columns": read.mapping, "unused": read.unused, "notes": read.notes},
        "committed": False, "batch": None,
    }  # fmt: skip
    if commit:
        refuse_bad_rows(read.problems, read.rows, bool(read.found), skip_bad)
        source = {"file": file.name, "format": name, "digest": file.digest, "mapping": read.mapping, "header": list(read.header)}
        result |= {"committed": True, "batch": memory.calendar.commit(events, source).batch}
    return result


def _drop_foretold(now: datetime, read: EventFile) -> None:
    """Drop events ahead that have their actual figure already: their zone or year is wrong."""
    from memtape.brokers.importer import ImportProblem
    from memtape.core.codec import time_text

    foretold = [each for each in read.found if each.event.actual is not None and each.event.t > now]
    for each in foretold:
        problem = f"is given, but the event is at {time_text(each.event.t)}, in the future"
        read.problems.append(ImportProblem(each.line, "actual", problem, f"It is now {time_text(now)}. Check zone and year"))
    dropped = {id(each) for each in foretold}
    read.found = [each for each in read.found if id(each) not in dropped]


def _event_totals(found: Sequence[FoundEvent]) -> dict[str, Any]:
    """What a person compares with the file: the span of time, and how many events of each kind and currency."""
    from memtape.surfaces.answers import optional_time_text

    events = [each.event for each in found]
    kinds = Counter(event.kind for event in events)
    currencies = Counter(currency for event in events for currency in event.currencies)
    return {
        "first": optional_time_text(min((event.t for event in events), default=None)),
        "last": optional_time_text(max((event.t for event in events), default=None)),
        "by_kind": dict(kinds.most_common()), "by_currency": dict(currencies.most_common()),
    }  # fmt: skip
