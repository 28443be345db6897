"""The words of a validation: its first line, and its tables for the terminal.

No sentence says that memory makes money unless every gate holds and the account itself gained for certain.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from memtape.core.validation.approaches import EVIDENCE, TITLES

METRIC_TITLES: Mapping[str, str] = {
    "net_pnl": "Net PnL",
    "profit_factor": "Profit factor",
    "sharpe": "Sharpe, annualised",
    "max_drawdown": "Maximum drawdown",
    "ghpr": "GHPR",
    "calmar": "Calmar",
    "mean_risk": "Mean risk",
    "selectivity": "Selectivity, R",
    "kelly_accuracy": "Kelly accuracy",
    "rolling_sharpe": "Spread of 30-day Sharpe",
    "regime_lag": "Lag after a regime change",
    "recovery": "Drawdown recovery",
    "disposition": "Disposition effect",
    "sizing_consistency": "Sizing consistency",
    "skipped_unfavourable": "Skipped in unfavourable regimes",
}
R_BY: Mapping[str, str] = {
    "stop": "R by stop", "stated": "R as stated", "atr_proxy": "R by ATR (1R is 1.5 ATR)", "money": "R by typical loss in money",
}  # fmt: skip
PERCENT = {"max_drawdown", "ghpr", "mean_risk", "skipped_unfavourable"}


def verdict_line(result: Mapping[str, Any]) -> str:
    """Returns the verdict in one sentence."""
    verdict, data = result["verdict"], result["data"]
    n = counted(data["decisions"], "decision")
    per_trade = f"{verdict['difference']:+.2f}R per trade at equal risk"
    if verdict["answer"] == "helps":
        gained = result["own_risk"][EVIDENCE]["net_pnl"]["interval"]
        money = " and its account gained" if gained is not None and gained[0] > 0 else ""
        return f"Memory helped on these trades: {per_trade} over {n}{money}."
    if verdict["answer"] == "hurts":
        return f"Memory hurt on these trades: {per_trade} over {n}."
    return f"It cannot be told whether memory helps ({n}): {verdict['reason']}."


def rounded_text(value: float, digits: int) -> str:
    """Returns a number of so many digits; what is rounded to zero has no sign.

    >>> rounded_text(-1234.56, 1), rounded_text(-0.004, 2)
    ('-1,234.6', '0.00')
    """
    text = f"{value:,.{digits}f}"
    return text if text.strip("-0.") else text.lstrip("-")


def counted(n: int, what: str) -> str:
    """Returns how many there are, in words.

    >>> counted(1, "week"), counted(2345, "decision")
    ('1 week', '2,345 decisions')
    """
    return f"{n:,} {what}{'' if n == 1 else 's'}"


def metric_text(name: str, cell: Mapping[str, Any]) -> str:
    """Returns a figure with its interval.

    >>> metric_text("max_drawdown", {"value": 0.123, "interval": [0.1, 0.2]}), metric_text("sharpe", {"value": None})
    ('12.3 % (10.0 to 20.0)', 'none')
    """
    if cell["value"] is None:
        return "none"
    scale, unit, digits = (
        (100.0, " %", 2 if name == "ghpr" else 1) if name in PERCENT else (1.0, "", 0 if name == "net_pnl" else 2)
    )
    value = f"{rounded_text(scale * cell['value'], digits)}{unit}"
    if cell.get("interval") is None:
        return value
    low, high = (rounded_text(scale * end, digits) for end in cell["interval"])
    return f"{value} ({low} to {high})"


def approach_title(name: str) -> str:
    """Returns the name of an approach for people."""
    return TITLES.get(name, name)


def terminal_tables(result: Mapping[str, Any]) -> dict[str, Any]:
    """Returns what a terminal shows below the first line: six columns that fit 80 characters."""
    rows = []
    for name, own in result["own_risk"].items():
        equal = result["equal_risk"][name]
        rows.append(
            {
                "approach": approach_title(name),
                "net_pnl": _short(own["net_pnl"]["value"], 0),
                "sharpe": _short(own["sharpe"]["value"], 2),
                "drawdown_%": _short(own["max_drawdown"]["value"], 1, 100.0),
                "risk_%": _short(own["mean_risk"]["value"], 2, 100.0),
                "R_better": _short(equal["selectivity"]["value"], 3),
            }
        )
    claims = [
        {"claim": f"{claim['number']}. {claim['claim']}", "of": approach_title(claim["approach"]), "answer": claim["answer"]}
        for claim in result["claims"]
    ]
    data = result["data"]
    basis = (
        f"{data['trades']:,} trades, {R_BY[data['r_by']]}; split {data['split'][:10]}, embargo {data['embargo_hours']:g} h, "
        f"{data['purged']} open then; {counted(data['decisions'], 'decision')} at {counted(data['moments'], 'moment')} in "
        f"{counted(data['weeks'], 'week')}"
    )
    return {
        "power": result["power"],
        "basis": basis,
        "approaches": rows,
        "claims": claims,
        "look_ahead": result["look_ahead"],
        "notes": result["notes"],
    }


def _short(value: float | None, digits: int, scale: float = 1.0) -> str | None:
    return None if value is None else rounded_text(scale * value, digits)
