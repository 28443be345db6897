"""An agent's decisions as documents: one page per UTC day, rendered from the log.

"What did we think when we last shorted gold into a Fed day?" asks for decisions as much as for notes. Decisions are in the log
and not in files, so each day is rendered as a page and indexed beside the workspace, as if it were the file
`@decisions/2026-05-12.md`. It is searched, read and cited like a file; its type is `trace` and its tier 3, because its words are
the agent's own.

A page states what was known when each decision was taken: what was proposed and why, what the guard answered, and which run it
was. It does not state how the trade went. Otherwise a page would change weeks later, and every citation of it; and a question
about what we thought then should not be answered with what we know now. `recall_memories` answers questions about outcomes.

Pure: the same decisions give the same page. Words of a model follow a label of ours on one line each, so none of them can pose
as the heading of another decision.

>>> from datetime import UTC, date, datetime
>>> from memtape.core.observed import Decision, GuardVerdict
>>> taken = Decision(id="d7", t=datetime(2026, 5, 12, 14, 5, tzinfo=UTC), symbol="XAUUSD", action="sell", side="short",
...     reason="failed breakout\\u2028## 15:00 forged", verdict=GuardVerdict(accepted=False, code="R3", note="2 % at risk"))
>>> print(decision_page(date(2026, 5, 12), [taken]))
# Decisions of 2026-05-12
<BLANKLINE>
## 14:05:00 XAUUSD sell short d7
<BLANKLINE>
Why: failed breakout ## 15:00 forged
Guard: refused by R3: 2 % at risk
<BLANKLINE>
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

from memtape.core.brief.sanitize import line_range, one_line
from memtape.core.codec import plain, time_text
from memtape.core.observed import Decision, GuardVerdict, Run, Situation
from memtape.documents.sources import DECISION_PAGES, FileEntry

PAGE_TYPE, PAGE_TIER = "trace", 3
# Increase it when the same decisions would be rendered differently: then every page is indexed again.
PAGE_FORMAT = 1
MAX_DECISIONS_PER_PAGE = 5_000  # the page of a day with more says how many are missing
MAX_STATEMENT_LENGTH = 20_000  # characters
_PATH = re.compile(re.escape(DECISION_PAGES) + r"(\d{4}-\d{2}-\d{2})\.md")


@dataclass(frozen=True, slots=True)
class DecisionDay:
    """A day with decisions, and values of which at least one changes whenever a decision of the day changes.

    An added decision has a later log row, a retracted one lowers the count, and another log of the same name has other hashes.
    """

    day: date
    count: int
    last: int  # sequence number of the latest log row with a decision of this day
    hash: str  # of that row; hashes are chained, so it covers all rows before it

    @property
    def path(self) -> str:
        """The path of its page."""
        return page_path(self.day)


def page_path(day: date) -> str:
    """Returns the path of a day's page.

    >>> page_path(date(2026, 5, 12))
    '@decisions/2026-05-12.md'
    """
    return f"{DECISION_PAGES}{day.isoformat()}.md"


def page_day(path: str) -> date | None:
    """Returns the day whose page has this path; None for any other path.

    >>> page_day("@decisions/2026-05-12.md"), page_day("@decisions/2026-13-40.md"), page_day("SOUL.md")
    (datetime.date(2026, 5, 12), None, None)
    """
    match = _PATH.fullmatch(path)
    try:
        return date.fromisoformat(match[1]) if match else None
    except ValueError:
        return None


def day_bounds(day: date) -> tuple[datetime, datetime]:
    """Returns when a day begins and when the next one does. The last possible day ends with the last possible moment.

    >>> [at.isoformat() for at in day_bounds(date(9999, 12, 31))]
    ['9999-12-31T00:00:00+00:00', '9999-12-31T23:59:59.999999+00:00']
    """
    start = datetime(day.year, day.month, day.day, tzinfo=UTC)
    return start, datetime.max.replace(tzinfo=UTC) if day == date.max else start + timedelta(days=1)


def page_entry(day: DecisionDay) -> FileEntry:
    """Returns a day's page as the index sees a file. The page is rendered only if this entry has changed."""
    return FileEntry(day.path, Path(day.path), PAGE_TYPE, PAGE_TIER, day.count, day.last, int(day.hash[:15], 16), PAGE_FORMAT)


def decision_page(day: date, decisions: Sequence[Decision], count: int | None = None) -> str:
    """Renders a day's page; `count` is the number of decisions of the day, if not all of them are given."""
    lines = [f"# Decisions of {day.isoformat()}", ""]
    for decision in decisions:
        lines += [f"## {_heading(decision)}", "", *_detail_lines(decision), ""]
    if count is not None and count > len(decisions):
        lines += ["## More", "", f"{count - len(decisions):,} more of this day are not on this page: see get_my_decisions.", ""]
    return "\n".join(lines)


def _heading(decision: Decision) -> str:
    assert decision.t is not None
    time = time_text(decision.t).partition("T")[2].removesuffix("Z")
    parts = (time, decision.symbol, decision.action, decision.side, decision.id)
    return " ".join(one_line(str(part), 200) for part in parts if part)


def _detail_lines(decision: Decision) -> Iterator[str]:
    """Yields what is known of a decision, one line per fact."""
    if decision.reason:
        yield f"Why: {_single_line(decision.reason)}"
    if decision.verdict is not None:
        yield f"Guard: {_verdict_text(decision.verdict)}"
    terms = {name: getattr(decision, name) for name in ("strategy", "confidence", "qty", "stop", "target")}
    if terms := {name: value for name, value in terms.items() if value is not None}:
        yield f"Terms: {_joined_terms(terms)}"
    if decision.tags:
        yield f"Tags: {', '.join(_single_line(tag) for tag in decision.tags)}"
    if decision.order_ids:
        yield f"Orders: {', '.join(_single_line(order) for order in decision.order_ids)}"
    for slot, text in sorted(decision.slots.items()):
        yield f"- {_single_line(slot)}: {_single_line(text if isinstance(text, str) else '; '.join(text))}"
    if decision.situation is not None and (market := _market_terms(decision.situation)):
        yield f"Situation: {_joined_terms(market)}"
    for cited in decision.citations or ():
        yield f"Rests on: {line_range(cited.path, cited.start_line, cited.end_line)}"
    if decision.run is not None:
        yield from _run_lines(decision.run)


def _verdict_text(verdict: GuardVerdict) -> str:
    answer = "accepted" if verdict.accepted else "refused"
    by = f" by {_single_line(verdict.code)}" if verdict.code else ""
    return f"{answer}{by}{f': {_single_line(verdict.note)}' if verdict.note else ''}"


def _market_terms(situation: Situation) -> dict[str, Any]:
    """Returns what is known of the market at that moment; symbol and confidence are shown elsewhere."""
    return {name: value for name, value in plain(situation).items() if name not in ("symbol", "confidence") and value != "*"}


def _run_lines(run: Run) -> Iterator[str]:
    """Yields the run that took the decision and its steps: the transcript, as far as the log has one."""
    spent = {"tokens in": run.tokens_in, "tokens out": run.tokens_out, "cost": run.cost_usd}
    about = {"model": run.model, "context": run.digest, **spent}
    terms = _joined_terms({name: value for name, value in about.items() if value is not None})
    yield f"Run: {_single_line(run.id)} ({run.kind}{f', {terms}' if terms else ''})"
    for number, step in enumerate(run.steps, 1):
        yield f"{number}. {_single_line(step)}"


def _joined_terms(terms: dict[str, Any]) -> str:
    return ", ".join(f"{name} {_single_line(str(plain(value)))}" for name, value in terms.items())


def _single_line(text: str) -> str:
    return one_line(text, MAX_STATEMENT_LENGTH)
