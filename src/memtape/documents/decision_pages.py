"""An agent's decisions as documents: one page per UTC day, rendered from the log.

"What did we think when we last shorted gold into a Fed day?" asks for decisions as much as for notes. Decisions are in the log
and not in files, so each day is rendered as a page and indexed beside the workspace, as if it were the file
`@decisions/2026-05-12.md`. It is searched, read and cited like a file; its type is `trace` and its tier 3, because its words are
the agent's own.

A page states what was known when each decision was taken: what was proposed and why, what the guard answered, and which run it
was. It does not state how the trade went. Otherwise a page would change weeks later, and every citation of it; and a question
about what we thought then should not be answered with what we know now. `recall_memories` answers questions about outcomes.

Pure: the same decisions give the same page.

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

from collections.abc import Iterator, Sequence
from datetime import date
from typing import Any

from memtape.core.brief.sanitize import line_range
from memtape.core.codec import plain
from memtape.core.observed import Decision, GuardVerdict, Run, Situation
from memtape.documents.day_pages import DayPages, section_heading, statement_line, time_of_day
from memtape.documents.sources import DECISION_PAGES

DECISIONS = DayPages(DECISION_PAGES, "Decisions", "get_my_decisions", format=1, max_records=5_000)


def decision_page(day: date, decisions: Sequence[Decision], count: int | None = None) -> str:
    """Renders a day's page; `count` is the number of decisions of the day, if not all of them are given."""
    sections = ((decision_heading(decision), _detail_lines(decision)) for decision in decisions)
    return DECISIONS.render(day, sections, 0 if count is None else count - len(decisions))


def decision_heading(decision: Decision) -> str:
    """Returns the heading of a decision: its time, symbol, action, side and id."""
    assert decision.t is not None
    return section_heading(time_of_day(decision.t), decision.symbol, decision.action, decision.side, decision.id)


def _detail_lines(decision: Decision) -> Iterator[str]:
    """Yields what is known of a decision, one line per fact."""
    if decision.reason:
        yield f"Why: {statement_line(decision.reason)}"
    if decision.verdict is not None:
        yield f"Guard: {_verdict_text(decision.verdict)}"
    terms = {name: getattr(decision, name) for name in ("strategy", "confidence", "qty", "stop", "target")}
    if terms := {name: value for name, value in terms.items() if value is not None}:
        yield f"Terms: {_joined_terms(terms)}"
    if decision.tags:
        yield f"Tags: {', '.join(statement_line(tag) for tag in decision.tags)}"
    if decision.order_ids:
        yield f"Orders: {', '.join(statement_line(order) for order in decision.order_ids)}"
    for slot, text in sorted(decision.slots.items()):
        yield f"- {statement_line(slot)}: {statement_line(text if isinstance(text, str) else '; '.join(text))}"
    if decision.situation is not None and (market := _market_terms(decision.situation)):
        yield f"Situation: {_joined_terms(market)}"
    for cited in decision.citations or ():
        yield f"Rests on: {line_range(cited.path, cited.start_line, cited.end_line)}"
    if decision.run is not None:
        yield from _run_lines(decision.run)


def _verdict_text(verdict: GuardVerdict) -> str:
    answer = "accepted" if verdict.accepted else "refused"
    by = f" by {statement_line(verdict.code)}" if verdict.code else ""
    return f"{answer}{by}{f': {statement_line(verdict.note)}' if verdict.note else ''}"


def _market_terms(situation: Situation) -> dict[str, Any]:
    """Returns what is known of the market at that moment; symbol and confidence are shown elsewhere."""
    return {name: value for name, value in plain(situation).items() if name not in ("symbol", "confidence") and value != "*"}


def _run_lines(run: Run) -> Iterator[str]:
    """Yields the run that took the decision and its steps: the transcript, as far as the log has one."""
    spent = {"tokens in": run.tokens_in, "tokens out": run.tokens_out, "cost": run.cost_usd}
    about = {"model": run.model, "context": run.digest, **spent}
    terms = _joined_terms({name: value for name, value in about.items() if value is not None})
    yield f"Run: {statement_line(run.id)} ({run.kind}{f', {terms}' if terms else ''})"
    for number, step in enumerate(run.steps, 1):
        yield f"{number}. {statement_line(step)}"


def _joined_terms(terms: dict[str, Any]) -> str:
    return ", ".join(f"{name} {statement_line(str(plain(value)))}" for name, value in terms.items())
