"""The figures of a simulation report: what was tested, on what, and the results.

`memtape sim` writes its report as a page. Parsed back, its settings and figures say which backtests are similar: the same
strategy, the same symbols, similar results. A page without that form is an ordinary document.

>>> page = f"# Simulation: gold\\n\\n{CAVEAT_START} ...\\n\\n## Settings\\n| Strategy | breakout (n 20) |\\n"
>>> page += "| Symbols | XAUUSD |\\n## Figures\\n| what | value | n |\\n|---|---:|---|\\n| Win rate | 41.5 % | 82 trades |\\n"
>>> report = parse_report(page)
>>> report.strategy, report.symbols, report.figures
('breakout', ('XAUUSD',), {'Win rate': 41.5})
>>> report_similarity(report, report)
1.0
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

CAVEAT_START = "These are simulated trades"
# The difference in each figure, in its own unit, that lowers the similarity by the factor e.
FIGURE_SCALES = {
    "Win rate": 10.0, "Profit factor": 0.5, "Mean result in R": 0.25, "Largest drawdown": 10.0,
    "Sharpe ratio, daily, annualised": 1.0,
}  # fmt: skip
_NUMBER = re.compile(r"[-−]?\d[\d,]*(?:\.\d+)?")
_ROW = re.compile(r"^\|\s*([^|]+?)\s*\|\s*([^|]*?)\s*\|", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Report:
    """What a backtest tested, and its figures by name."""

    strategy: str
    symbols: tuple[str, ...]
    figures: dict[str, float]


def parse_report(text: str) -> Report | None:
    """Returns the report on a page; None if the page is not a report."""
    if not text.startswith("# Simulation: ") or CAVEAT_START not in text[:600]:
        return None
    head, _, rest = text.partition("## Figures")
    settings = dict(_ROW.findall(head))
    figures = {}
    for name, value in _ROW.findall(rest.partition("\n## ")[0]):
        if number := _NUMBER.search(value):
            figures[name] = float(number[0].replace(",", "").replace("−", "-"))
    symbols = tuple(part.strip() for part in settings.get("Symbols", "").split(",") if part.strip())
    return Report(settings.get("Strategy", "").partition(" (")[0], symbols, figures)


def report_similarity(one: Report, other: Report) -> float:
    """Returns how similar two backtests are, from 0 to 1: a third each for strategy, symbols and figures."""
    symbols = set(one.symbols) | set(other.symbols)
    shared = len(set(one.symbols) & set(other.symbols)) / len(symbols) if symbols else 0.0
    common = [name for name in FIGURE_SCALES if name in one.figures and name in other.figures]
    distances = [abs(one.figures[name] - other.figures[name]) / FIGURE_SCALES[name] for name in common]
    figures = sum(math.exp(-distance) for distance in distances) / len(distances) if distances else 0.0
    return round(((one.strategy == other.strategy) + shared + figures) / 3, 6)
