"""Backtests like this one: the reports in an index compared by what they tested and what came of it, and filtered by metrics.

>>> parse_filter("win_rate > 0.5")
ReportFilter(name='win_rate', sign='>', value=0.5)
>>> parse_filter("win_rate > 0.5").admits({"win_rate": 0.5}), parse_filter("n=20").admits({"n": 20})
(False, True)
"""

from __future__ import annotations

import operator
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from memtape.documents.cache import SHARED_SCOPE
from memtape.documents.index import DocumentIndex
from memtape.documents.report_exports import SHARES, metric_name
from memtape.documents.reports import METRICS_SUFFIX, Report, compare_reports, report_from_json
from memtape.errors import Invalid, Unknown

_FILTER = re.compile(r"\s*([A-Za-z_][\w. -]*?)\s*(<=|>=|!=|==|=|<|>)\s*(.+?)\s*")
_SIGNS = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge, "=": operator.eq, "==": operator.eq,
          "!=": operator.ne}  # fmt: skip


@dataclass(frozen=True, slots=True)
class ReportFilter:
    """A condition on a metric, a parameter, the strategy or a symbol."""

    name: str
    sign: str
    value: float | str

    def admits(self, values: Mapping[str, Any]) -> bool:
        """Returns True if a report with these values meets the condition; one that does not state the value does not."""
        found = values.get(self.name)
        if isinstance(found, tuple):
            return (str(self.value) in found) == (self.sign in ("=", "=="))
        if found is None or isinstance(found, str) != isinstance(self.value, str):
            return found is not None and self.sign == "!="
        return bool(_SIGNS[self.sign](found, self.value))


@dataclass(frozen=True, slots=True)
class SimilarReport:
    """A report; with its likeness to another one, from 0 to 1, in all and in each respect that both state."""

    path: str
    report: Report
    likeness: float | None = None
    respects: dict[str, float] = field(default_factory=dict)


def parse_filter(text: str) -> ReportFilter:
    """Returns a condition like `win_rate > 0.5`, `max_drawdown <= 20%` or `strategy = breakout`."""
    if (found := _FILTER.fullmatch(text)) is None:
        raise Invalid("where", f"'{text}' is not a condition", "Write a name, a sign and a value, like win_rate > 0.5")
    name = metric_name(found[1]) or found[1].strip()
    value = found[3].strip("'\"")
    try:
        number = float(value.rstrip("% "))
    except ValueError:
        if found[2] not in ("=", "==", "!="):
            raise Invalid("where", f"'{value}' is not a number", "Compare words with = or != only") from None
        return ReportFilter(name, found[2], value)
    number = round(number / 100, 12) if value.endswith("%") else number
    if name in SHARES and number > 1:
        raise Invalid("where", f"{name} is a share from 0 to 1, and {value} is none", f"Write {number / 100:g} or {number:g}%")
    return ReportFilter(name, found[2], number)


def similar_reports(
    index: DocumentIndex, path: str | None = None, *, owner: str, agent: str, limit: int = 10, where: Sequence[str] = ()
) -> tuple[SimilarReport, ...]:
    """Returns the reports most similar to one of them, among the agent's own and the shared ones, that meet all conditions."""
    reports = stored_reports(index, owner, agent)
    if path is not None and path not in reports:
        raise Unknown("path", "report of a simulation", path, "Find it with search_documents")
    filters = [parse_filter(text) for text in where]
    known = {name for report in reports.values() for name in _values(report)}
    for each in filters:
        if reports and each.name not in known:
            raise Unknown("where", "metric or parameter", each.name, f"The reports have {', '.join(sorted(known))}")
    found = []
    for other, report in reports.items():
        if other == path or not all(each.admits(_values(report)) for each in filters):
            continue
        comparison = None if path is None else compare_reports(reports[path], report)
        found.append(
            SimilarReport(other, report, comparison.likeness, comparison.respects) if comparison else SimilarReport(other, report)
        )
    return tuple(sorted(found, key=lambda each: (-(each.likeness or 0.0), each.path))[:limit])


def _values(report: Report) -> dict[str, Any]:
    """Returns what a condition can name: a parameter gives way to a metric of the same name."""
    return {**report.parameters, **report.metrics, "strategy": report.strategy, "symbol": report.symbols, "engine": report.engine}


def stored_reports(index: DocumentIndex, owner: str, agent: str) -> dict[str, Report]:
    """Returns the reports in the index by path. A metrics block beside a report speaks for the report."""
    sql = "SELECT path, figures FROM documents WHERE scope = ? AND type IN ('report', 'decision') ORDER BY path"
    reports: dict[str, Report] = {}
    paths: set[str] = set()
    with index.cache.reading() as connection:
        # Shared reports first: if both have one of the same path, the agent's own replaces it.
        for whose in dict.fromkeys((SHARED_SCOPE, agent)):
            rows: list[Any] = connection.execute(sql, (index.cache.scope(owner, whose),)).fetchall()
            paths |= {path for path, _ in rows}
            reports |= {path: report_from_json(figures) for path, figures in rows if figures is not None}
    for path in [path for path in reports if path.endswith(METRICS_SUFFIX)]:
        beside = next((other for other in _pages_beside(path) if other in paths), None)
        if beside is not None:
            reports[beside] = reports.pop(path)
    # A file with several strategies is a report of each.
    reports |= {f"{path} › {also.strategy}": also for path, report in list(reports.items()) for also in report.also}
    return dict(sorted(reports.items()))


def _pages_beside(path: str) -> list[str]:
    stem = path.removesuffix(METRICS_SUFFIX)
    return [f"{stem}{suffix}" for suffix in (".md", ".markdown", ".txt", ".html", ".json")]
