"""A simulation report in Markdown. Documents of this form are read back by `documents/reports`, to find similar backtests."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from memtape.core.ledger.performance_detail import GroupFigures, PerformanceDetail
from memtape.sim.figures import TradeRow
from memtape.sim.report import (
    CAVEAT,
    SHOWN_TRADES,
    ReportFigure,
    SimReport,
    amount_text,
    price_text,
    ratio_text,
    report_of,
    share_text,
    when_text,
)
from memtape.sim.result import SimResult

CURVE_WIDTH = 72
LEVELS = "▁▂▃▄▅▆▇█"


def render_report(result: SimResult) -> str:
    """Returns the report of a run in Markdown. The same result gives the same bytes."""
    return render_markdown(report_of(result))


def render_markdown(report: SimReport) -> str:
    """Returns a report in Markdown."""
    set_rows = [f"| {what} | {_cell(how)} |" for what, how in report.settings]
    lines = [
        f"# Simulation: {report.agent}", "", _subject(report), "", CAVEAT, "",
        "## Settings", "", "| what | value |", "|---|---|", *set_rows, "",
        "## Figures", "", *_figure_table(report.figures), "",
        "## Costs", "", *_figure_table(report.costs), "",
        *(["## The model", "", *_figure_table(report.model), ""] if report.model else []),
        *_curves(report), *_months(report.record), *_r_table(report.record), *_group_tables(report.record),
        *_trades(report.closed),
    ]  # fmt: skip
    return "\n".join(lines) + "\n"


def _subject(report: SimReport) -> str:
    """Returns what was tested in a sentence, in which a search finds the report."""
    settings = dict(report.settings)
    strategy = _cell(settings["Strategy"].partition(" (")[0].replace("_", " "))
    return f"Backtest of {strategy} on {_cell(settings['Symbols'])}."


def _figure_table(figures: Iterable[ReportFigure]) -> list[str]:
    return ["| what | value | n |", "|---|---:|---|", *(f"| {row.name} | {row.value} | {row.n} |" for row in figures)]


def _curves(report: SimReport) -> list[str]:
    equity = [float(value) for _, value in report.equity]
    falls = [fall for _, fall in report.underwater]
    low, high, deepest = min(equity), max(equity), min(falls)
    first, last = when_text(report.equity[0][0]), when_text(report.equity[-1][0])
    range_ = f"Equity between {low:,.2f} and {high:,.2f}; under water at most {share_text(deepest, 2)}."
    return [
        "## Equity and time under water", "", f"From {first} to {last} UTC. {range_}", "",
        "```text", f"equity      {sparkline(equity)}", f"under water {sparkline(falls, high=0.0)}", "```", "",
    ]  # fmt: skip


def sparkline(values: Sequence[float], high: float | None = None, width: int = CURVE_WIDTH) -> str:
    """Returns values as a line of blocks: one for each stretch, as high as its last value.

    >>> sparkline([1.0, 2.0, 8.0, 4.0], width=4)
    '▁▂█▄'
    """
    columns = min(width, len(values))
    shown = [values[(n + 1) * len(values) // columns - 1] for n in range(columns)]
    low, top = min(values), max(values) if high is None else high
    return "".join(LEVELS[round((value - low) / ((top - low) or 1.0) * (len(LEVELS) - 1))] for value in shown)


def _months(record: PerformanceDetail) -> list[str]:
    if not record.months:
        return []
    rows = (
        f"| {m.month} | {m.n} | {amount_text(m.net_pnl_usd)} | {share_text(m.win_rate)} | {share_text(m.change, 2)} |"
        for m in record.months
    )
    head = "| month | trades closed | net PnL | win rate | change of equity |"
    return ["## Months", "", head, "|---|---:|---:|---:|---:|", *rows, ""]


def _r_table(record: PerformanceDetail) -> list[str]:
    spread = record.r_distribution
    if not spread.n:
        return []
    rows = (f"| {name.replace('<', '&lt;')} | {n} |" for name, n in spread.bins.items())
    ends = f"{spread.n} trades with a known risk, from {ratio_text(spread.worst)}R to {ratio_text(spread.best)}R."
    return ["## Outcomes in R", "", ends, "", "| R | trades |", "|---|---:|", *rows, ""]


def _group_tables(record: PerformanceDetail) -> list[str]:
    tables = (("By symbol", record.by_symbol), ("By side", record.by_side), ("By weekday of entry", record.by_weekday))
    return [line for title, groups in tables for line in _groups(title, groups)]


def _groups(title: str, groups: Sequence[GroupFigures]) -> list[str]:
    if not groups:
        return []
    rows = (
        f"| {_cell(g.name)} | {g.n} | {amount_text(g.net_pnl_usd)} | {share_text(g.win_rate)} | {ratio_text(g.profit_factor)} "
        f"| {ratio_text(g.mean_r)} |"
        for g in groups
    )
    head = "| | trades | net PnL | win rate | profit factor | mean R |"
    return [f"## {title}", "", head, "|---|---:|---:|---:|---:|---:|", *rows, ""]


def _trades(closed: Sequence[TradeRow]) -> list[str]:
    if not closed:
        return ["## Trades", "", "No trade was closed."]
    shown = closed[-SHOWN_TRADES:]
    return [
        f"## Trades (last {len(shown)} of {len(closed)})", "",
        "| entry | exit | symbol | side | entry price | exit price | net PnL | R | exit by | reason |",
        "|---|---|---|---|---:|---:|---:|---:|---|---|",
        *(_trade_row(trade) for trade in shown),
    ]  # fmt: skip


def _trade_row(trade: TradeRow) -> str:
    cells = (
        when_text(trade.entry_at), when_text(trade.exit_at), trade.symbol, trade.side, price_text(trade.entry_price),
        price_text(trade.exit_price), amount_text(trade.net_pnl_usd), ratio_text(trade.pnl_r), trade.exit_trigger or "",
        _cell(trade.entry_reason or ""),
    )  # fmt: skip
    return f"| {' | '.join(cells)} |"


def _cell(text: str) -> str:
    """Returns a text that stays in its cell."""
    return " ".join(text.replace("\\", "\\\\").replace("|", "\\|").replace("<", "&lt;").split())
