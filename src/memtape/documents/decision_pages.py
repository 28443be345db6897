"""An agent's decisions as documents: one page for each UTC day, made from the log.

"What did we think when we last shorted gold into a Fed day?" is asked of what was decided as much as of what was written down.
Decisions are in the log and not in files, so a page is made of each day and indexed beside the workspace, as if it were a file
`@decisions/2026-05-12.md`: searched, read and cited like one, of type `trace` and tier 3, for its words are the agent's own.

A page says what was known when each decision was taken: what was proposed and why, what the guard answered, which run it was.
How the trade went is not on it. A day's page would then change weeks later, and every citation of it with it; and who asks what
we thought then should not be answered with what we know now. Outcomes are asked of `recall_memories`.

Pure: the same decisions give the same page. Words that a model wrote stand behind a mark of ours on one line each, so that none
of them can pose as the heading of another decision.

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
from memtape.documents.sources import TRACES, FileEntry

TYPE, TIER = "trace", 3
RENDERING = 1  # counted up when a page of the same decisions would read differently: then all are made anew
MOST = 5_000  # decisions on a page; a day that has more says so
LONGEST = 20_000  # characters of one statement
_PATH = re.compile(re.escape(TRACES) + r"(\d{4}-\d{2}-\d{2})\.md")


@dataclass(frozen=True, slots=True)
class DecisionDay:
    """A day on which something was decided, and what cannot stay the same when any of it changes.

    What is added has a later log row, what is taken back makes one less, and another log under the same name has other hashes.
    """

    day: date
    count: int
    last: int  # the latest log row that brought a decision of this day
    hash: str  # of that row, and with it of all before

    @property
    def path(self) -> str:
        """Where its page stands."""
        return path_of(self.day)


def path_of(day: date) -> str:
    """The path of a day's page.

    >>> path_of(date(2026, 5, 12)), day_of("@decisions/2026-05-12.md"), day_of("@decisions/2026-13-40.md"), day_of("SOUL.md")
    ('@decisions/2026-05-12.md', datetime.date(2026, 5, 12), None, None)
    """
    return f"{TRACES}{day.isoformat()}.md"


def day_of(path: str) -> date | None:
    """The day whose page this is; none for any other path."""
    found = _PATH.fullmatch(path)
    try:
        return date.fromisoformat(found[1]) if found else None
    except ValueError:
        return None


def bounds(day: date) -> tuple[datetime, datetime]:
    """When a day begins, and when the next one does; the last day that there is ends with time itself.

    >>> [at.isoformat() for at in bounds(date(9999, 12, 31))]
    ['9999-12-31T00:00:00+00:00', '9999-12-31T23:59:59.999999+00:00']
    """
    start = datetime(day.year, day.month, day.day, tzinfo=UTC)
    return start, datetime.max.replace(tzinfo=UTC) if day == date.max else start + timedelta(days=1)


def page_entry(day: DecisionDay) -> FileEntry:
    """A day's page as the index sees a file: it is made only when this has changed."""
    return FileEntry(day.path, Path(day.path), TYPE, TIER, day.count, day.last, int(day.hash[:15], 16), RENDERING)


def decision_page(day: date, decisions: Sequence[Decision], count: int | None = None) -> str:
    """A day's page; `count` is how many there were, if not all of them are given."""
    lines = [f"# Decisions of {day.isoformat()}", ""]
    for decision in decisions:
        lines += [f"## {_heading(decision)}", "", *_told(decision), ""]
    if count is not None and count > len(decisions):
        lines += ["## More", "", f"{count - len(decisions):,} more of this day are not on this page: see get_my_decisions.", ""]
    return "\n".join(lines)


def _heading(decision: Decision) -> str:
    assert decision.t is not None
    time = time_text(decision.t).partition("T")[2].removesuffix("Z")
    parts = (time, decision.symbol, decision.action, decision.side, decision.id)
    return " ".join(one_line(str(part), 200) for part in parts if part)


def _told(decision: Decision) -> Iterator[str]:
    """What is known of a decision, a line for each thing."""
    if decision.reason:
        yield f"Why: {_words(decision.reason)}"
    if decision.verdict is not None:
        yield f"Guard: {_answer(decision.verdict)}"
    terms = {name: getattr(decision, name) for name in ("strategy", "confidence", "qty", "stop", "target")}
    if terms := {name: value for name, value in terms.items() if value is not None}:
        yield f"Terms: {_listed(terms)}"
    if decision.tags:
        yield f"Tags: {', '.join(_words(tag) for tag in decision.tags)}"
    if decision.order_ids:
        yield f"Orders: {', '.join(_words(order) for order in decision.order_ids)}"
    for slot, text in sorted(decision.slots.items()):
        yield f"- {_words(slot)}: {_words(text)}"
    if decision.situation is not None and (market := _market(decision.situation)):
        yield f"Situation: {_listed(market)}"
    for cited in decision.citations or ():
        yield f"Rests on: {line_range(cited.path, cited.start_line, cited.end_line)}"
    if decision.run is not None:
        yield from _run(decision.run)


def _answer(verdict: GuardVerdict) -> str:
    said = "accepted" if verdict.accepted else "refused"
    by = f" by {_words(verdict.code)}" if verdict.code else ""
    return f"{said}{by}{f': {_words(verdict.note)}' if verdict.note else ''}"


def _market(situation: Situation) -> dict[str, Any]:
    """What is known of the market at that moment; the symbol and the confidence stand elsewhere."""
    return {name: value for name, value in plain(situation).items() if name not in ("symbol", "confidence") and value != "*"}


def _run(run: Run) -> Iterator[str]:
    """The run that took it, and the steps it told of: its transcript, as far as the log has one."""
    spent = {"tokens in": run.tokens_in, "tokens out": run.tokens_out, "cost": run.cost_usd}
    about = {"model": run.model, "context": run.digest, **spent}
    told = _listed({name: value for name, value in about.items() if value is not None})
    yield f"Run: {_words(run.id)} ({run.kind}{f', {told}' if told else ''})"
    for number, step in enumerate(run.steps, 1):
        yield f"{number}. {_words(step)}"


def _listed(terms: dict[str, Any]) -> str:
    return ", ".join(f"{name} {_words(str(plain(value)))}" for name, value in terms.items())


def _words(text: str) -> str:
    return one_line(text, LONGEST)
