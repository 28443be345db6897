"""The report of a simulated run: settings, figures, the last trades, and a caveat."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal

from memtape.core.codec import decimal_text
from memtape.sim.figures import TradeRow
from memtape.sim.run import SimResult

CAVEAT = (
    "These are simulated trades: past prices, a paper broker, assumed fees and slippage. They say nothing about future returns."
)
SHOWN_TRADES = 20
CENT = Decimal("0.01")


def render_report(result: SimResult) -> str:
    """Returns the report in Markdown. The same result gives the same bytes."""
    f = result.figures
    figures = [
        ("Net PnL of closed trades", _money(f.net_pnl), f"{f.n} trades"),
        ("Win rate", _share(f.win_rate), f"{f.n} trades"),
        ("Profit factor", _plain(f.profit_factor), f"{f.n} trades"),
        ("Mean result in R", _plain(f.mean_r), f"{f.n_r} trades with a known risk"),
        ("Largest drawdown", f"{result.max_drawdown_pct:.2f} %", f"{result.ticks} ticks"),
        ("Sharpe ratio, daily, annualised", _plain(result.sharpe.value), result.sharpe.clock),
        ("Equity at the end", _money(result.ending_equity), f"from {_money(result.starting_equity)}"),
    ]
    settings = [
        ("Strategy", result.strategy + (f" ({_parameters(result)})" if result.parameters else "")),
        ("Symbols", ", ".join(result.symbols)),
        ("Data", f"{result.bars} bars, {_when(result.first)} to {_when(result.last)} UTC"),
        ("Fee", f"{decimal_text(result.fee_bps)} basis points a fill"),
        ("Slippage", f"{decimal_text(result.slippage_bps)} basis points on market and stop orders"),
        ("Decisions", f"{result.decisions}, of them {result.no_trades} not to trade; {result.refused} entries refused"),
    ]
    if (terms := result.terms) is not None:
        figures += [
            ("Funding received less paid", _money(terms.funding), f"{result.ticks} ticks"),
            ("Liquidations", str(terms.liquidations), f"{result.fills} fills"),
            ("Shortfall", _money(terms.shortfall), "owed beyond all the account had"),
        ]
        settings += [
            ("Refused, by rule", ", ".join(f"{code} {n}" for code, n in terms.rejections.items()) or "none"),
            ("Limits that are not checked", ", ".join(terms.advice) or "none"),
        ]
    set_rows = [f"| {what} | {_cell(how)} |" for what, how in settings]
    figure_rows = [f"| {what} | {value} | {n} |" for what, value, n in figures]
    lines = [
        f"# Simulation: {result.agent}", "", CAVEAT, "",
        "## Settings", "", "| what | value |", "|---|---|", *set_rows, "",
        "## Figures", "", "| what | value | n |", "|---|---:|---|", *figure_rows, "",
        *_table(result.closed),
    ]  # fmt: skip
    return "\n".join(lines) + "\n"


def _table(closed: tuple[TradeRow, ...]) -> list[str]:
    if not closed:
        return ["## Trades", "", "No trade was closed."]
    shown = closed[-SHOWN_TRADES:]
    return [
        f"## Trades (last {len(shown)} of {len(closed)})", "",
        "| entry | exit | symbol | side | entry price | exit price | net PnL | R | exit by | reason |",
        "|---|---|---|---|---:|---:|---:|---:|---|---|",
        *(_row(trade) for trade in shown),
    ]  # fmt: skip


def _row(trade: TradeRow) -> str:
    r = None if trade.pnl_r is None else float(trade.pnl_r)
    cells = (
        _when(trade.entry_at), _when(trade.exit_at), trade.symbol, trade.side, _price(trade.entry_price),
        _price(trade.exit_price), _money(trade.net_pnl_usd), _plain(r), trade.exit_trigger or "",
        _cell(trade.entry_reason or ""),
    )  # fmt: skip
    return f"| {' | '.join(cells)} |"


def _parameters(result: SimResult) -> str:
    return ", ".join(f"{name} {value}" for name, value in result.parameters.items())


def _cell(text: str) -> str:
    """Returns a text that stays in its cell."""
    return " ".join(text.replace("\\", "\\\\").replace("|", "\\|").replace("<", "&lt;").split())


def _when(moment: datetime | None) -> str:
    return "" if moment is None else moment.strftime("%Y-%m-%d %H:%M")


def _money(amount: Decimal | None) -> str:
    return "" if amount is None else f"{amount.quantize(CENT):,}"


def _price(px: Decimal | None) -> str:
    return "" if px is None else f"{float(px):.6g}" if px < 1 else f"{float(px):.2f}"


def _plain(figure: float | None) -> str:
    return "–" if figure is None else f"{figure:.2f}"


def _share(figure: float | None) -> str:
    return "–" if figure is None else f"{100 * figure:.1f} %"
