"""Backtests like this one: reports that memtape computed, compared by what they tested and what came of it.

>>> from datetime import UTC, datetime
>>> from memtape.documents.index import Document, DocumentIndex
>>> def page(strategy, won):
...     head = f"# Simulation: a\\n\\nThese are simulated trades.\\n\\n## Settings\\n| Strategy | {strategy} |\\n"
...     return f"{head}| Symbols | BTC |\\n## Figures\\n| Win rate | {won} % | 80 trades |\\n"
>>> pages = {"a.md": page("breakout", 40), "b.md": page("reversion", 70), "c.md": page("breakout", 42)}
>>> index = DocumentIndex(":memory:")
>>> reports = [Document(path, "report", 3, text) for path, text in pages.items()]
>>> made = index.put("ann", "btc", reports, now=datetime(2026, 5, 1, tzinfo=UTC))
>>> [(each.path, each.likeness) for each in similar_reports(index, "a.md", owner="ann", agent="btc")]
[('c.md', 0.939577), ('b.md', 0.349929)]
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from memtape.documents.cache import GLOBAL
from memtape.documents.index import DocumentIndex
from memtape.documents.reports import Report, report_similarity
from memtape.errors import Unknown


@dataclass(frozen=True, slots=True)
class SimilarReport:
    """A report and how much it is like another, from 0 to 1."""

    path: str
    likeness: float
    report: Report


def similar_reports(index: DocumentIndex, path: str, *, owner: str, agent: str, limit: int = 10) -> tuple[SimilarReport, ...]:
    """The reports most like one of them, among the agent's and the shared."""
    known = _reports(index, owner, agent)
    if path not in known:
        raise Unknown("path", "report of a simulation", path, "Find it with search_documents")
    others = [
        SimilarReport(other, report_similarity(known[path], report), report) for other, report in known.items() if other != path
    ]
    return tuple(sorted(others, key=lambda each: (-each.likeness, each.path))[:limit])


def _reports(index: DocumentIndex, owner: str, agent: str) -> dict[str, Report]:
    sql = "SELECT path, figures FROM documents WHERE scope = ? AND figures IS NOT NULL ORDER BY path"
    found: dict[str, Report] = {}
    with index.cache.reading() as connection:
        for of in dict.fromkeys((GLOBAL, agent)):  # where both have one of this name, the agent's own
            rows: list[Any] = connection.execute(sql, (index.cache.scope(owner, of),)).fetchall()
            for path, figures in rows:
                said = json.loads(figures)
                found[path] = Report(said["strategy"], tuple(said["symbols"]), said["figures"])
    return found
