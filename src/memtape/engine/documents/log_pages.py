"""An agent's decisions and runs as pages beside its documents: which days there are, what is on a page, and whose lines they are.

Pages are rendered from the log when they are needed. The log is asked once for the days and how much each holds; only a day that
looks different is rendered again, so a sync of an agent with a hundred thousand decisions reads no decision at all when nothing
was decided. A run is on the page of the day on which it began, from its end on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import date, datetime, time, timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from memtape.core.decisions.examinations import Examination
from memtape.core.decisions.runs import AgentRun, RunEnd, RunStart
from memtape.core.observed import Decision
from memtape.core.value_class import dataclass
from memtape.core.values import read
from memtape.documents.day_pages import LogDay, day_bounds
from memtape.documents.decision_pages import DECISIONS, decision_heading, decision_page
from memtape.documents.run_pages import RUNS, RunRecord, run_day_page, run_of_heading
from memtape.documents.sources import DocumentFolder, SkippedFile
from memtape.store.cutoff import EVERYTHING

if TYPE_CHECKING:
    from memtape.core.items import StoredItem
    from memtape.documents.day_pages import DayPages
    from memtape.documents.sources import FileEntry
    from memtape.engine.resources import Resources
    from memtape.store.tables import Tables

INSTANT = timedelta(microseconds=1)
RUNS_READ_TOGETHER = 100  # a run may have hundreds of long steps: not all of a day are held in memory at once


def decision_days(tables: Tables) -> list[LogDay]:
    """The days on which something was decided, in order."""
    return [LogDay(start.date(), count, last, hash) for start, count, last, hash in tables.days_of("decision")]


def run_days(tables: Tables) -> list[LogDay]:
    """The days on which runs began that have ended, in order."""
    found = tables.days_of("run", completed_by="run_end")
    return [LogDay(start.date(), count, last, hash) for start, count, last, hash in found]


def has_log_pages(tables: Tables) -> bool:
    """True if there is any decision or ended run."""
    return any(tables.items(kind, EVERYTHING, limit=1) for kind in ("decision", "run_end"))


# ---- pages as folders of documents ---------------------------------------------------------------------------------------


def log_page_folders(resources: Resources, agent: str) -> list[DocumentFolder]:
    """All pages of an agent's log, as folders of documents."""
    return [decision_page_folder(resources, agent), _folder(resources, agent, RUNS, run_days)]


def decision_page_folder(resources: Resources, agent: str) -> DocumentFolder:
    """The pages of an agent's decisions, as a folder of documents."""
    return _folder(resources, agent, DECISIONS, decision_days)


def _folder(resources: Resources, agent: str, pages: DayPages, days: Callable[[Tables], list[LogDay]]) -> DocumentFolder:
    def list_entries() -> Iterator[FileEntry | SkippedFile]:
        with resources.reading(agent) as tables:
            found = days(tables)
        for day in found:
            entry = pages.entry(day)
            yield replace(entry, make_text=partial(_rendered, resources, agent, entry.path))
            if (left_out := day.count - pages.max_records) > 0:
                problem = f"{left_out:,} of its {day.count:,} {pages.title.lower()} are not on the page"
                yield SkippedFile(entry.path, problem)

    return DocumentFolder(Path(pages.prefix), pages.prefix, list_entries=list_entries)


def _rendered(resources: Resources, agent: str, path: str) -> str | SkippedFile:
    with resources.reading(agent) as tables:
        text = log_page_text(tables, path)
    return SkippedFile(path, "its records were taken back meanwhile") if text is None else text


# ---- the text of a page --------------------------------------------------------------------------------------------------


def log_page_text(tables: Tables, path: str) -> str | None:
    """The page of a day's decisions or runs; None where the path is no such page, or there is nothing to show."""
    if (day := DECISIONS.day(path)) is not None:
        return _decision_page_text(tables, day)
    return None if (day := RUNS.day(path)) is None else _run_page_text(tables, day)


def _decision_page_text(tables: Tables, day: date) -> str | None:
    start, end = day_bounds(day)
    items = tables.items("decision", EVERYTHING, since=start, before=end, limit=DECISIONS.max_records)
    if not items:
        return None
    count = _count(decision_days(tables), day) if len(items) == DECISIONS.max_records else None
    return decision_page(day, [read(Decision, item.body) for item in items], count)


def _run_page_text(tables: Tables, day: date) -> str | None:
    start, end = day_bounds(day)
    # One more than a page holds: the last run of the day may still be at work.
    items = tables.items("run", EVERYTHING, since=start, before=end, limit=RUNS.max_records + 1)
    ended = tables.log_rows_of(("run_end", item.key) for item in items)
    shown = [item for item in items if ("run_end", item.key) in ended][: RUNS.max_records]
    if not shown:
        return None
    count = _count(run_days(tables), day) if len(items) > RUNS.max_records else len(shown)
    return run_day_page(day, _run_records(tables, shown), count - len(shown))


def _run_records(tables: Tables, starts: Sequence[StoredItem]) -> Iterator[RunRecord]:
    """Ended runs with what came of them, read some at a time."""
    for at in range(0, len(starts), RUNS_READ_TOGETHER):
        some = starts[at : at + RUNS_READ_TOGETHER]
        ends, found = _by_key(tables, "run_end", some), _by_key(tables, "examination", some)
        runs = [AgentRun(read(RunStart, item.body), read(RunEnd, ends[item.key].body)) for item in some]
        taken = [run.end.decision for run in runs if run.end is not None and run.end.decision is not None]
        decisions = {item.key: read(Decision, item.body) for item in tables.items("decision", EVERYTHING, keys=taken)}
        for run in runs:
            decision = decisions.get(run.end.decision or "") if run.end is not None else None
            yield RunRecord(run, decision, _examination(found.get(run.id)))


def _by_key(tables: Tables, kind: str, of: Sequence[StoredItem]) -> dict[str, StoredItem]:
    return {item.key: item for item in tables.items(kind, EVERYTHING, keys=[each.key for each in of])}


def _examination(item: StoredItem | None) -> Examination | None:
    return None if item is None else read(Examination, {name: value for name, value in item.body.items() if name != "decision"})


def _count(days: Sequence[LogDay], day: date) -> int:
    return next((each.count for each in days if each.day == day), 0)


# ---- whose lines they are ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class PageRecord:
    """The record that a section of a page is about: a run, or a decision with its run if that is on record."""

    run: str | None = None
    decision: str | None = None


def page_record(tables: Tables, path: str, headings: Sequence[str]) -> PageRecord | None:
    """The record that lines under these headings are about; None for any other document, and for lines of several records."""
    if len(headings) != 2:
        return None
    if RUNS.day(path) is not None:
        run = run_of_heading(headings[1])
        return None if run is None else PageRecord(run=run)
    if (day := DECISIONS.day(path)) is None or (decision := _decision_under(tables, day, headings[1])) is None:
        return None
    named = decision.run.id if decision.run is not None else None
    # An agent may name runs of its own, which memtape did not run: there is no page of them.
    run = named if named is not None and tables.items("run", EVERYTHING, keys=[named]) else None
    return PageRecord(run, decision.id)


def _decision_under(tables: Tables, day: date, heading: str) -> Decision | None:
    """The decision with this heading. An id may have blanks, so it is not read off the heading but compared."""
    try:
        at = datetime.combine(day, time.fromisoformat(heading.partition(" ")[0]), day_bounds(day)[0].tzinfo)
    except ValueError:
        return None
    found = [read(Decision, item.body) for item in tables.items("decision", EVERYTHING, since=at, before=at + INSTANT)]
    return next((decision for decision in found if decision_heading(decision) == heading), None)
