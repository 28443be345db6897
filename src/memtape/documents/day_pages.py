"""Pages rendered from the log, one per UTC day: an agent's decisions (`@decisions/<day>.md`) and its runs (`@runs/<day>.md`).

They are not files, but they are indexed, searched, read and cited as if they were. Every page has the same form: a title, then
one section per record, whose heading names the record. A passage of such a page lies in one section, so it leads back to its
record. Words of a model follow a label of ours on one line each: none of them can pose as the heading of another record.

>>> pages = DayPages("@runs/", "Runs", "list_runs", format=1, max_records=1_000)
>>> print(pages.render(date(2026, 5, 12), [("08:00:00 chat ok r1", ["Asked: why?"])], left_out=3))
# Runs of 2026-05-12
<BLANKLINE>
## 08:00:00 chat ok r1
<BLANKLINE>
Asked: why?
<BLANKLINE>
## More
<BLANKLINE>
3 more of this day are not on this page: see list_runs.
<BLANKLINE>
>>> pages.path(date(2026, 5, 12))
'@runs/2026-05-12.md'
>>> pages.day("@runs/2026-05-12.md"), pages.day("@runs/2026-13-40.md"), pages.day("@decisions/2026-05-12.md")
(datetime.date(2026, 5, 12), None, None)
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

from memtape.core.brief.sanitize import one_line
from memtape.core.codec import time_text
from memtape.core.value_class import dataclass
from memtape.documents.sources import PAGE_TIER, PAGE_TYPE, FileEntry

MAX_STATEMENT_LENGTH = 20_000  # characters of one line
MAX_HEADING_PART = 200  # characters

PageSection = tuple[str, Iterable[str]]  # the heading of a record and its lines


@dataclass(frozen=True, slots=True)
class LogDay:
    """A day with records, and values of which at least one changes whenever a record of the day changes.

    An added record has a later log row, a retracted one lowers the count, and another log of the same name has other hashes.
    """

    day: date
    count: int
    last: int  # sequence number of the latest log row with a record of this day
    hash: str  # of that row; hashes are chained, so it covers all rows before it


@dataclass(frozen=True, slots=True)
class DayPages:
    """One kind of pages: where they are, and what they list."""

    prefix: str  # of their paths
    title: str  # what they list
    operation: str  # that lists what does not fit on a page
    format: int  # increase it when the same records would be rendered differently: then every page is rendered again
    max_records: int  # the page of a day with more says how many are missing

    def path(self, day: date) -> str:
        """Returns the path of a day's page."""
        return f"{self.prefix}{day.isoformat()}.md"

    def day(self, path: str) -> date | None:
        """Returns the day whose page has this path; None for any other path."""
        text = path.removeprefix(self.prefix).removesuffix(".md")
        try:
            day = date.fromisoformat(text)
        except ValueError:
            return None
        # Python also reads other forms of a date, like 20260512.
        return day if path == self.path(day) else None

    def entry(self, day: LogDay) -> FileEntry:
        """Returns a day's page as the index sees a file. The page is rendered only if this entry has changed."""
        path = self.path(day.day)
        return FileEntry(path, Path(path), PAGE_TYPE, PAGE_TIER, day.count, day.last, int(day.hash[:15], 16), self.format)

    def render(self, day: date, sections: Iterable[PageSection], left_out: int = 0) -> str:
        """Renders a day's page; `left_out` is how many records of the day are not on it."""
        lines = [f"# {self.title} of {day.isoformat()}", ""]
        for heading, facts in sections:
            lines += [f"## {heading}", "", *facts, ""]
        if left_out > 0:
            lines += ["## More", "", f"{left_out:,} more of this day are not on this page: see {self.operation}.", ""]
        return "\n".join(lines)


def day_bounds(day: date) -> tuple[datetime, datetime]:
    """Returns when a day begins and when the next one does. The last possible day ends with the last possible moment.

    >>> [at.isoformat() for at in day_bounds(date(9999, 12, 31))]
    ['9999-12-31T00:00:00+00:00', '9999-12-31T23:59:59.999999+00:00']
    """
    start = datetime(day.year, day.month, day.day, tzinfo=UTC)
    return start, datetime.max.replace(tzinfo=UTC) if day == date.max else start + timedelta(days=1)


def time_of_day(at: datetime) -> str:
    """Returns the time of a moment as a heading has it.

    >>> time_of_day(datetime(2026, 5, 12, 14, 5, tzinfo=UTC))
    '14:05:00'
    """
    return time_text(at).partition("T")[2].removesuffix("Z")


def section_heading(*parts: object) -> str:
    """Returns the heading of a record: what is known of its time, its names and its id, on one line."""
    return " ".join(one_line(str(part), MAX_HEADING_PART) for part in parts if part)


def statement_line(text: str, max_length: int = MAX_STATEMENT_LENGTH) -> str:
    """Returns words of a model as one line that is safe after a label."""
    return one_line(text, max_length)
