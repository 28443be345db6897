"""A simulation's report as figures: what was tested, on what, and what came of it.

`memtape sim` writes its report as a page. Read back, its settings and figures say which backtests are alike: the same strategy,
the same symbols, results of the same kind. A page that does not have that form is an ordinary document.

>>> page = f"# Simulation: gold\\n\\n{CAVEAT_START} ...\\n\\n## Settings\\n| Strategy | breakout (n 20) |\\n"
>>> page += "| Symbols | XAUUSD |\\n## Figures\\n| what | value | n |\\n|---|---:|---|\\n| Win rate | 41.5 % | 82 trades |\\n"
>>> report = report_of(page)
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
COMPARED = {  # what a difference of one is worth to each figure, in its own unit
    "Win rate": 10.0, "Profit factor": 0.5, "Mean result in R": 0.25, "Largest drawdown": 10.0,
    "Sharpe ratio, daily, annualised": 1.0,
}  # fmt: skip
_NUMBER = re.compile(r"[-−]?\d[\d,]*(?:\.\d+)?")
_ROW = re.compile(r"^\|\s*([^|]+?)\s*\|\s*([^|]*?)\s*\|", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Report:
    """What a backtest was of, and its figures by name."""

    strategy: str
    symbols: tuple[str, ...]
    figures: dict[str, float]


def report_of(text: str) -> Report | None:
    """The report on a page, if it is one."""
    if not text.startswith("# Simulation: ") or CAVEAT_START not in text[:600]:
        return None
    settings, _, rest = text.partition("## Figures")
    said = dict(_ROW.findall(settings))
    figures = {}
    for name, value in _ROW.findall(rest.partition("\n## ")[0]):
        if found := _NUMBER.search(value):
            figures[name] = float(found[0].replace(",", "").replace("−", "-"))
    symbols = tuple(part.strip() for part in said.get("Symbols", "").split(",") if part.strip())
    return Report(said.get("Strategy", "").partition(" (")[0], symbols, figures)


def report_similarity(one: Report, other: Report) -> float:
    """How alike two backtests are, from 0 to 1: a third each for strategy, symbols and figures."""
    symbols = set(one.symbols) | set(other.symbols)
    shared = len(set(one.symbols) & set(other.symbols)) / len(symbols) if symbols else 0.0
    both = [name for name in COMPARED if name in one.figures and name in other.figures]
    away = [abs(one.figures[name] - other.figures[name]) / COMPARED[name] for name in both]
    figures = sum(math.exp(-each) for each in away) / len(away) if away else 0.0
    return round(((one.strategy == other.strategy) + shared + figures) / 3, 6)
