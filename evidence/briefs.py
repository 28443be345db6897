"""What a brief costs, and what of it says nothing.

Twenty real histories are imported as a user imports them, lessons are computed, and the default brief is made shortly after the
last trade and in the middle of the history. No owner's text is in it: no strategy, no pinned rule, no document. Tokens are those
of cl100k_base where its vocabulary is at hand (MEMTAPE_CL100K, see `evidence/cl100k.py`), else memtape's own estimate, whose
error is then not measured. A line says nothing if it holds no figure, or says that something is unknown; system text and headings
are not counted. The baseline is the same brief of the version before, measured on the same histories on 2026-11-18.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from evidence.cl100k import count_tokens, vocabulary
from evidence.figures import Figure, Scale
from evidence.histories import HISTORIES, MIN_TRADES, histories_available, imported, moments
from memtape.core.brief.budget import estimate_tokens
from memtape.core.brief.inputs import Brief

MAX_TOKENS, MAX_LINE_TOKENS, MAX_EMPTY_SHARE, MAX_ERROR = 1500.0, 45.0, 0.03, 0.10
SMALL = ("gold hybrid", "perpetuals gpt-5", "options, single names", "shares gemini-2.5-flash", "microcaps")
EMPTY = re.compile(r"\b(?:no trade in memory|outcome unknown|none|unknown|nothing)\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class MeasuredBrief:
    """A brief of a history."""

    history: str
    brief: Brief

    def lines(self, *segments: str) -> list[str]:
        """The lines of some of its segments, headings aside."""
        found = [segment.text.split("\n") for segment in self.brief.segments if segment.name in segments]
        return [line for lines in found for line in lines if line.startswith("- ")]

    @property
    def records(self) -> list[str]:
        """Every line of its user part."""
        return self.lines(*(segment.name for segment in self.brief.segments if segment.role == "user"))

    @property
    def memories(self) -> list[str]:
        """Its warnings and recalled memories."""
        return [line for line in self.lines("memory") if line.endswith("]") and not line.startswith("- Plan")]


def measured_briefs(scale: Scale) -> Iterator[MeasuredBrief]:
    """Yields the briefs of the histories."""
    for history in HISTORIES:
        if scale == "small" and history.name not in SMALL:
            continue
        agent = imported(history)
        agent.lessons.reflect()
        assert len(agent.ledger.trades(status="closed")) >= MIN_TRADES, history.name
        for moment in moments(agent):
            yield MeasuredBrief(history.name, agent.briefs.make(as_of=moment).brief)


def says_nothing(line: str) -> bool:
    """Returns True if a line of records tells the agent nothing.

    >>> says_nothing("- Losses in a row: 0"), says_nothing("- Losses in a row: 3"), says_nothing("- ETH long outcome unknown [a]")
    (True, False, True)
    """
    # The digits of an id are no figure.
    return EMPTY.search(line) is not None or re.search(r"[1-9]", re.sub(r"\[[^\]]*\]", "", line)) is None


def study(scale: Scale) -> list[Figure]:
    """Returns the figures; none if the real histories are not here."""
    if not histories_available():
        return []
    found = list(measured_briefs(scale))
    count: Callable[[str], int] = count_tokens if vocabulary() is not None else estimate_tokens
    n = len({one.history for one in found})
    tokens = [count(one.brief.text) for one in found]
    rows = [line for one in found for line in one.lines("recent_trades")]
    memories = [line for one in found for line in one.memories]
    lines = [line for one in found for line in one.records]
    figures = [
        Figure("tokens of a default brief, largest", max(tokens), n, "histories", at_most=MAX_TOKENS, baseline="2,121 before"),
        Figure("tokens of a default brief, mean", sum(tokens) / len(tokens), n, "histories", baseline="1,220 before"),
        Figure("tokens of a recent trade, largest", max(map(count, rows)), len(rows), "rows", at_most=MAX_LINE_TOKENS,
               baseline="78 before"),
        Figure("tokens of a warning or memory, largest", max(map(count, memories)), len(memories), "lines",
               at_most=MAX_LINE_TOKENS, baseline="86 before"),
        Figure("lines that say nothing", sum(map(says_nothing, lines)) / len(lines), len(lines), "share of lines",
               at_most=MAX_EMPTY_SHARE, baseline="17.8 % before"),
        Figure("briefs that warn about themselves", sum(bool(one.brief.warnings) for one in found) / len(found), len(found),
               "share of briefs", at_most=0.0),
        Figure("recent trades printed of those asked for", len(rows) / (10 * len(found)), len(rows), "share of rows",
               at_least=1.0),
    ]  # fmt: skip
    if vocabulary() is not None:
        errors = [abs(estimate_tokens(one.brief.text) / count_tokens(one.brief.text) - 1) for one in found]
        figures.append(
            Figure("error of the token estimate, largest", max(errors), len(errors), "share of briefs", at_most=MAX_ERROR,
                   baseline="25.6 % by one token for three bytes")
        )  # fmt: skip
    return figures
