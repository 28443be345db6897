"""What a backtest report says: strategy, parameters, symbols, period and metrics, from the reports of any engine.

`memtape sim` writes its report as a page with a metrics block beside it (`report.metrics.json`). Any other report gets the same
block as front matter of its page or as JSON beside it. Exports of backtesting.py, vectorbt, freqtrade and QuantStats are read as
they are (`report_exports`). A page without any of that is an ordinary document.

Metrics have one name and one unit each: a rate, a return and a drawdown are shares (0.41 is 41 %), a drawdown is positive.

>>> block = '{"strategy": "breakout", "symbols": ["BTC"], "parameters": {"n": 20}, "metrics": {"win_rate": 0.41}}'
>>> report = parse_report("reports/a.metrics.json", block)
>>> report.strategy, report.symbols, report.parameters, report.metrics
('breakout', ('BTC',), {'n': 20}, {'win_rate': 0.41})
>>> page = "---\\nstrategy: breakout\\nsymbols: [BTC]\\nmetrics:\\n  win_rate: 0.41\\n  sharpe: 1.2\\n---\\n# My test\\n"
>>> parse_report("reports/my.md", page).metrics
{'win_rate': 0.41, 'sharpe': 1.2}
>>> compare_reports(report, report).likeness
1.0
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import asdict, field
from datetime import date
from typing import Any

from memtape.core.value_class import dataclass
from memtape.documents.report_exports import Export, as_share, metric_name, number_in, read_export

CAVEAT_START = "These are simulated trades"
BLOCK_NAME, BLOCK_VERSION = "memtape_report", 1
METRICS_SUFFIX = ".metrics.json"
# The difference in each metric that lowers the similarity by the factor e.
METRIC_SCALES = {
    "win_rate": 0.1, "profit_factor": 0.5, "mean_r": 0.25, "max_drawdown": 0.1, "sharpe": 1.0, "sortino": 1.5, "calmar": 1.0,
    "total_return": 0.25, "cagr": 0.15, "volatility": 0.1, "sqn": 1.0, "exposure": 0.25,
}  # fmt: skip
# How much each respect counts.
WEIGHTS = {"strategy": 0.25, "parameters": 0.2, "symbols": 0.2, "period": 0.1, "metrics": 0.25}
ASSUMED = 0.3  # of a respect that one of the two reports does not state
_ROW = re.compile(r"^\|\s*([^|]+?)\s*\|\s*([^|]*?)\s*\|", re.MULTILINE)
_DAY = re.compile(r"\d{4}-\d\d-\d\d")
_PARAMETER = re.compile(r"\s*([A-Za-z_][\w.]*)\s*[= ]\s*([^,]+)")


@dataclass(frozen=True, slots=True)
class Report:
    """What a backtest tested, and its metrics by name."""

    strategy: str = ""
    symbols: tuple[str, ...] = ()
    metrics: dict[str, float] = field(default_factory=dict)
    parameters: dict[str, Any] = field(default_factory=dict)
    period: tuple[str, str] | None = None  # its first and last day
    engine: str = ""
    also: tuple[Report, ...] = ()  # of further strategies in the same file

    @property
    def is_computed(self) -> bool:
        """True if memtape's own simulation wrote the page."""
        return self.engine == "memtape sim"


@dataclass(frozen=True, slots=True)
class ReportComparison:
    """How alike two reports are, from 0 to 1: in all, and in each respect that both state."""

    likeness: float
    respects: dict[str, float]


def report_from_json(text: str) -> Report:
    """Returns a report as it is stored in the index."""
    return _stored(json.loads(text))


def _stored(stored: Mapping[str, Any]) -> Report:
    period = stored.get("period")
    return Report(
        stored["strategy"], tuple(stored["symbols"]), stored.get("metrics", {}), stored.get("parameters", {}),
        tuple(period) if period else None, stored.get("engine", ""), tuple(map(_stored, stored.get("also", ()))),
    )  # fmt: skip


def report_block(report: Report) -> str:
    """Returns the metrics block of a report, to be written beside its page."""
    return json.dumps({BLOCK_NAME: BLOCK_VERSION, **asdict(report)}, indent=2, sort_keys=True) + "\n"


def parse_report(path: str, text: str) -> Report | None:
    """Returns what a report says; None if the document is not a report."""
    if text.startswith("# Simulation: ") and CAVEAT_START in text[:600]:
        return _own_page(text)
    text = text.replace("\r\n", "\n")
    if text.startswith("---\n"):
        head, end, _ = text[4:].partition("\n---")
        if end and (block := _block(_front_matter(head))):
            return block
    # Of an archive the text is the block of the report in it.
    if path.endswith((".json", ".zip")):
        try:
            data = json.loads(text)
        except (ValueError, RecursionError):
            return None
        if isinstance(data, dict) and (block := _block(data)):
            return block
    export = read_export(path, text)
    return None if export is None else _of_export(export)


def _of_export(export: Export) -> Report:
    also = tuple(_of_export(each) for each in export.also)
    return Report(
        export.strategy, export.symbols, export.metrics, export.parameters, _period(export.period), export.engine, also
    )  # fmt: skip


def _own_page(text: str) -> Report:
    head, _, rest = text.partition("## Figures")
    settings = dict(_ROW.findall(head))
    metrics = {}
    for name, value in _ROW.findall(rest.partition("\n## ")[0]):
        if (found := metric_name(name)) and (number := number_in(value)) is not None:
            metrics[found] = abs(number) if found == "max_drawdown" else number
    symbols = tuple(part.strip() for part in settings.get("Symbols", "").split(",") if part.strip())
    strategy, _, given = settings.get("Strategy", "").partition(" (")
    parameters = {name: _plain(value) for name, value in _PARAMETER.findall(given.removesuffix(")"))}
    days = _DAY.findall(settings.get("Data", ""))
    return Report(strategy, symbols, metrics, parameters, (days[0], days[1]) if len(days) > 1 else None, "memtape sim")


def _block(data: Mapping[str, Any]) -> Report | None:
    """Returns the report of a metrics block: metrics with at least one known name or number."""
    given = data.get("metrics")
    if not isinstance(given, dict) or not ({"strategy", "symbols", BLOCK_NAME} & data.keys()):
        return None
    metrics = {}
    for name, value in given.items():
        number = value if isinstance(value, int | float) and not isinstance(value, bool) else number_in(str(value))
        if number is not None and math.isfinite(number):
            known = metric_name(str(name)) or str(name)
            metrics[known] = as_share(known, float(number))
    if not metrics:
        return None
    symbols = data.get("symbols", data.get("symbol", ()))
    parameters = data.get("parameters")
    return Report(
        str(data.get("strategy") or ""), tuple(map(str, [symbols] if isinstance(symbols, str) else symbols or ())), metrics,
        {str(name): value for name, value in parameters.items()} if isinstance(parameters, dict) else {},
        _period(data.get("period")), str(data.get("engine") or ""),
        tuple(block for each in data.get("also") or () if isinstance(each, dict) and (block := _block(each))),
    )  # fmt: skip


def _period(given: object) -> tuple[str, str] | None:
    days = _DAY.findall(" ".join(map(str, given)) if isinstance(given, list | tuple) else str(given or ""))
    return (days[0], days[-1]) if len(days) > 1 else None


def _front_matter(head: str) -> dict[str, Any]:
    """Returns front matter: `name: value`, one level of indented names, and lists in square brackets or of items with dashes."""
    found: dict[str, Any] = {}
    inner: dict[str, Any] | None = None
    last = ""
    for line in head.split("\n"):
        name, colon, value = line.partition(":")
        item = line.lstrip()
        if item.startswith("- ") and last and not found[last]:
            found[last] = []
        if item.startswith("- ") and last and isinstance(found[last], list):
            found[last].append(_plain(item[2:]))
        if not colon or item.startswith(("#", "-")):
            continue
        if line[:1].isspace() and inner is not None:
            inner[name.strip()] = _plain(value)
        elif value.strip():
            found[name.strip()], inner, last = _plain(value), None, ""
        else:
            last = name.strip()
            inner = found[last] = {}
    return found


def _plain(text: str) -> Any:
    text = text.strip()
    if text.startswith("[") and text.endswith("]"):
        return [_plain(part) for part in text[1:-1].split(",") if part.strip()]
    text = text.strip("'\"")
    try:
        return int(text)
    except ValueError:
        pass
    try:
        return float(text)
    except ValueError:
        return text


# ---- likeness ------------------------------------------------------------------------------------------------------------


def compare_reports(one: Report, other: Report) -> ReportComparison:
    """Returns how alike two reports are. A respect that one of them does not state counts little."""
    found: dict[str, float | None] = {
        "strategy": float(one.strategy.casefold() == other.strategy.casefold()) if one.strategy and other.strategy else None,
        "parameters": _parameters_alike(one.parameters, other.parameters),
        "symbols": _shared(set(one.symbols), set(other.symbols)),
        "period": _periods_alike(one.period, other.period),
        "metrics": _metrics_alike(one.metrics, other.metrics),
    }
    # What neither states says nothing; what one leaves open may differ.
    stated = {name for name in WEIGHTS if found[name] is not None or _states(one, name) or _states(other, name)}
    total = sum(WEIGHTS[name] for name in stated)
    score = sum(WEIGHTS[name] * (ASSUMED if (value := found[name]) is None else value) for name in stated)
    respects = {name: round(value, 6) for name, value in found.items() if value is not None}
    return ReportComparison(round(score / total, 6) if total else 0.0, respects)


def _states(report: Report, respect: str) -> bool:
    return bool(getattr(report, respect))


def _shared(one: set[str], other: set[str]) -> float | None:
    return len(one & other) / len(one | other) if one and other else None


def _parameters_alike(one: Mapping[str, Any], other: Mapping[str, Any]) -> float | None:
    """Returns the mean likeness of the parameters; one that only one of them has is unlike."""
    if not one or not other:
        return None
    names = one.keys() | other.keys()
    return sum(_values_alike(one[name], other[name]) for name in names & one.keys() & other.keys()) / len(names)


def _values_alike(one: Any, other: Any) -> float:
    if isinstance(one, int | float) and isinstance(other, int | float):
        largest = max(abs(one), abs(other))
        return 1.0 if one == other else max(0.0, 1.0 - abs(one - other) / largest)
    return float(str(one) == str(other))


def _periods_alike(one: tuple[str, str] | None, other: tuple[str, str] | None) -> float | None:
    """Returns the share of days that both tested."""
    if one is None or other is None:
        return None
    (a, b), (c, d) = ((date.fromisoformat(start), date.fromisoformat(end)) for start, end in (one, other))
    both, either = (min(b, d) - max(a, c)).days + 1, (max(b, d) - min(a, c)).days + 1
    return max(both, 0) / either if either > 0 else 0.0


def _metrics_alike(one: Mapping[str, float], other: Mapping[str, float]) -> float | None:
    common = [name for name in METRIC_SCALES if name in one and name in other]
    distances = [abs(one[name] - other[name]) / METRIC_SCALES[name] for name in common]
    return sum(math.exp(-distance) for distance in distances) / len(distances) if distances else None
