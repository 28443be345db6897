"""Similar backtests: simulation reports compared by what they tested and by their results.

>>> from datetime import UTC, datetime
>>> from memtape.documents.index import DocumentIndex
>>> from memtape.documents.index_writer import Document
>>> def page(strategy, won):
...     head = f"# Simulation: a\\n\\nThese are simulated trades.\\n\\n## Settings\\n| Strategy | {strategy} |\\n"
...     return f"{head}| Symbols | BTC |\\n## Figures\\n| Win rate | {won} % | 80 trades |\\n"
>>> pages = {"a.md": page("breakout", 40), "b.md": page("reversion", 70), "c.md": page("breakout", 42)}
>>> index = DocumentIndex(":memory:")
>>> reports = [Document(path, "report", 3, text) for path, text in pages.items()]
>>> _ = index.put("ann", "btc", reports, now=datetime(2026, 5, 1, tzinfo=UTC))
>>> [(each.path, each.likeness) for each in similar_reports(index, "a.md", owner="ann", agent="btc")]
[('c.md', 0.939577), ('b.md', 0.349929)]
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from memtape.documents.cache import SHARED_SCOPE
from memtape.documents.index import DocumentIndex
from memtape.documents.reports import Report, report_similarity
from memtape.errors import Unknown


@dataclass(frozen=True, slots=True)
class SimilarReport:
    """A report and its similarity to another one, from 0 to 1."""

    path: str
    likeness: float
    report: Report


def similar_reports(index: DocumentIndex, path: str, *, owner: str, agent: str, limit: int = 10) -> tuple[SimilarReport, ...]:
    """Returns the reports most similar to one of them, among the agent's own and the shared ones."""
    reports = _reports(index, owner, agent)
    if path not in reports:
        raise Unknown("path", "report of a simulation", path, "Find it with search_documents")
    others = [
        SimilarReport(other, report_similarity(reports[path], report), report)
        for other, report in reports.items()
        if other != path
    ]
    return tuple(sorted(others, key=lambda each: (-each.likeness, each.path))[:limit])


def _reports(index: DocumentIndex, owner: str, agent: str) -> dict[str, Report]:
    sql = "SELECT path, figures FROM documents WHERE scope = ? AND figures IS NOT NULL ORDER BY path"
    reports: dict[str, Report] = {}
    with index.cache.reading() as connection:
        # Shared reports first: if both have one of the same path, the agent's own replaces it.
        for whose in dict.fromkeys((SHARED_SCOPE, agent)):
            rows: list[Any] = connection.execute(sql, (index.cache.scope(owner, whose),)).fetchall()
            for path, figures in rows:
                stored = json.loads(figures)
                reports[path] = Report(stored["strategy"], tuple(stored["symbols"]), stored["figures"])
    return reports
