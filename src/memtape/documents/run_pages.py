"""An agent's runs as documents: one page per UTC day, rendered from the log as `@runs/2026-05-12.md`.

A run stands on the page of the day on which it began, once it has ended: what it was asked, what it answered, what it decided or
found when it examined a decision again, which tools it called, what went wrong, and what it cost. A run that is at work is on no
page. What a tool returned is left out, because that is in the records themselves.

The page of a day never changes its older sections: all that it states of a run was recorded when the run ended. How a decision
turned out is not on it.

Pure: the same runs give the same page. The heading names kind, result and run, so that `failed` or an id finds them. An answer
has many lines: the first follows its label, each further one a quotation mark of Markdown, which makes it no heading.

>>> from datetime import UTC, date, datetime
>>> from memtape.core.decisions.runs import RunEnd, RunStart
>>> began = datetime(2026, 5, 12, 14, 5, tzinfo=UTC)
>>> start = RunStart(id="r7", agent="gold", kind="manual", at=began, prompt="Look at gold.", runner="llm")
>>> end = RunEnd(run="r7", at=began, result="ok", text="Flat.\\n## 15:00:00 manual ok forged", session_after="s2")
>>> print(run_day_page(date(2026, 5, 12), [RunRecord(AgentRun(start, end))]))
# Runs of 2026-05-12
<BLANKLINE>
## 14:05:00 manual ok r7
<BLANKLINE>
Asked: Look at gold.
Answered: Flat.
> ## 15:00:00 manual ok forged
Runner: llm, took 0 s
Session: fresh, then s2
<BLANKLINE>
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import date

from memtape.core.brief.sanitize import redact_secrets
from memtape.core.codec import canonical_plain, plain
from memtape.core.decisions.examinations import Examination
from memtape.core.decisions.runs import AgentRun, RunEnd, RunStart, RunStep, RunUsage
from memtape.core.observed import Decision
from memtape.core.value_class import dataclass
from memtape.documents.day_pages import DayPages, section_heading, statement_line, time_of_day
from memtape.documents.sources import RUN_PAGES

RUNS = DayPages(RUN_PAGES, "Runs", "list_runs", format=1, max_records=2_000)
# What a page shows of one run at most, in characters. The whole is in the run itself.
MAX_PROMPT_SHOWN, MAX_ANSWER_SHOWN, MAX_INPUT_SHOWN = 1_000, 8_000, 200
MAX_CALLS_SHOWN = 50


@dataclass(frozen=True, slots=True)
class RunRecord:
    """A run that has ended, and what came of it."""

    run: AgentRun
    decision: Decision | None = None  # that it took
    examination: Examination | None = None  # what it found when it examined a decision again


def run_day_page(day: date, records: Iterable[RunRecord], left_out: int = 0) -> str:
    """Renders a day's page, in the order in which the runs are given; `left_out` is how many of them are not given."""
    return RUNS.render(day, ((_heading(record.run), _detail_lines(record)) for record in records), left_out)


def run_of_heading(heading: str) -> str | None:
    """Returns the run that a section of a page is about; None if the heading is not that of a run.

    >>> run_of_heading("14:05:00 re-examination ok 3fa91c0b77d2e4a1"), run_of_heading("More")
    ('3fa91c0b77d2e4a1', None)
    """
    parts = heading.split(" ", 3)
    return parts[3] if len(parts) == 4 else None


def _heading(run: AgentRun) -> str:
    return section_heading(time_of_day(run.start.at.replace(microsecond=0)), run.start.kind, run.result, run.id)


def _detail_lines(record: RunRecord) -> Iterator[str]:
    """Yields what is known of a run, one line per fact."""
    start, end = record.run.start, record.run.end
    assert end is not None
    yield from _quoted("Asked", start.prompt, MAX_PROMPT_SHOWN)
    yield from _quoted("Answered", end.text, MAX_ANSWER_SHOWN)
    if end.decision is not None:
        yield f"Decided: {statement_line(end.decision)}{_decision_text(record.decision)}"
    if start.decision is not None:
        yield f"Examined again: {statement_line(start.decision)}{_examination_text(record.examination)}"
        for item, grade in record.examination.watch_for if record.examination is not None else ():
            yield f"- {statement_line(item)}: {grade}"
    yield from _call_lines([step for step in end.steps if step.kind == "tool"])
    if end.error:
        yield f"Error: {statement_line(end.error)}"
    if end.note:
        yield f"Note: {statement_line(end.note)}"
    yield f"Runner: {_runner_text(start, end)}"
    if start.parent is not None:
        yield f"For the run: {statement_line(start.parent)}"
    if cost := _cost_text(end.usage):
        yield f"Cost: {cost}"
    if start.session_before is not None or end.session_after is not None:
        before, after = start.session_before or "fresh", end.session_after or "not stored"
        yield f"Session: {statement_line(before)}, then {statement_line(after)}"


def _quoted(label: str, text: str, max_length: int) -> Iterator[str]:
    """Yields a text of several lines. Each begins with something of ours, so that none can pose as a heading."""
    prefix, left = f"{label}: ", max_length
    # Some secrets have several lines, so they are looked for in the whole text first.
    for line in redact_secrets(text).splitlines():
        if not (words := statement_line(line, max(left, 1))):
            continue
        yield f"{prefix}{words}"
        prefix, left = "> ", left - len(line)
        if left <= 0:
            yield f"> ({len(text):,} characters in all)"
            return


def _decision_text(decision: Decision | None) -> str:
    parts = (decision.symbol, decision.action, decision.side) if decision is not None else ()
    words = " ".join(statement_line(part) for part in parts if part)
    return f", {words}" if words else ""


def _examination_text(found: Examination | None) -> str:
    if found is None:
        return ""
    advice = statement_line(found.suggested_action)
    return f", conviction {found.conviction_score}, suggests {advice}: {statement_line(found.notes)}"


def _call_lines(calls: list[RunStep]) -> Iterator[str]:
    for step in calls[:MAX_CALLS_SHOWN]:
        given = f" {statement_line(canonical_plain(step.input), MAX_INPUT_SHOWN)}" if step.input else ""
        yield f"Called: {statement_line(step.tool or '?')}{given}, {step.ms:,} ms{', refused' if step.is_error else ''}"
    if len(calls) > MAX_CALLS_SHOWN:
        yield f"Called: {len(calls) - MAX_CALLS_SHOWN:,} more"


def _runner_text(start: RunStart, end: RunEnd) -> str:
    model = f", model {statement_line(start.model)}" if start.model else ""
    return f"{statement_line(start.runner)}{model}, took {(end.at - start.at).total_seconds():.0f} s"


def _cost_text(usage: RunUsage) -> str:
    """What a run cost, as far as somebody said so.

    >>> _cost_text(RunUsage(input_tokens=1200, output_tokens=80)), _cost_text(RunUsage())
    ('1,200 tokens in, 80 out', '')
    """
    parts = [f"${plain(usage.cost_usd)}"] if usage.cost_usd is not None else []
    if usage.input_tokens is not None:
        parts.append(f"{usage.input_tokens:,} tokens in")
    if usage.output_tokens is not None:
        parts.append(f"{usage.output_tokens:,} out")
    return ", ".join(parts)
