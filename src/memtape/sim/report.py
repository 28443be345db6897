"""The contents of a simulation report: settings, figures with their n, costs, months, trades. The same run gives the same values.

Two pages show them: Markdown (`report_markdown`) and one HTML file (`surfaces/web/sim_report`). The trades are written beside
them as CSV.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal, localcontext

from memtape.core.codec import decimal_text, time_text
from memtape.core.ledger.performance_daily import ClockedFigure, FallFromPeak
from memtape.core.ledger.performance_detail import MonthFigures, PerformanceDetail
from memtape.core.ledger.trades import money_text
from memtape.core.values import MONEY
from memtape.sim.figures import EquityPath, TradeRow
from memtape.sim.model_use import QUESTION_COLUMNS, UNKNOWN_COST, ModelUse, cost_text
from memtape.sim.result import SimResult

CAVEAT = (
    "These are simulated trades: past prices, a paper broker, assumed fees and slippage. They say nothing about future returns."
)
SHOWN_TRADES = 20
CENT = Decimal("0.01")
UNKNOWN_FIGURE = "–"
TRADE_COLUMNS = (
    "id", "symbol", "side", "entry_at", "exit_at", "qty_entered", "entry_price", "exit_price", "stop_price", "target_price",
    "realized_pnl_usd", "fees_usd", "funding_usd", "net_pnl_usd", "pnl_r", "exit_trigger", "entry_reason", "exit_reason",
)  # fmt: skip
# A spreadsheet takes a cell that begins with one of these for a formula.
FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")


@dataclass(frozen=True, slots=True)
class ReportFigure:
    """One line of a report: what, its value, and the number of observations behind it."""

    name: str
    value: str
    n: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SimReport:
    """What a report shows."""

    agent: str
    settings: tuple[tuple[str, str], ...]
    figures: tuple[ReportFigure, ...]
    costs: tuple[ReportFigure, ...]
    record: PerformanceDetail
    equity: EquityPath  # from the starting equity on
    closed: tuple[TradeRow, ...]
    model: tuple[ReportFigure, ...] = ()  # what the model was asked, and what that cost

    @property
    def underwater(self) -> list[tuple[datetime, float]]:
        """How far equity lay below its highest value so far, as a share of it: 0 or negative."""
        peak, falls = self.equity[0][1], []
        for at, equity in self.equity:
            peak = max(peak, equity)
            falls.append((at, float((equity - peak) / peak) if peak > 0 else 0.0))
        return falls

    @property
    def month_grid(self) -> list[tuple[str, dict[int, MonthFigures], float | None]]:
        """The months by year, with the change over each year."""
        years: dict[str, dict[int, MonthFigures]] = {}
        for month in self.record.months:
            years.setdefault(month.month[:4], {})[int(month.month[5:])] = month
        return [(year, months, _compounded(months.values())) for year, months in years.items()]


def report_of(result: SimResult) -> SimReport:
    """Returns the report of a run."""
    return SimReport(
        agent=result.agent, settings=tuple(_settings(result)), figures=tuple(_figures(result)), costs=tuple(_costs(result)),
        record=result.record, equity=((result.first, result.starting_equity), *result.equity), closed=result.closed,
        model=tuple(_model(result)),
    )  # fmt: skip


def trades_csv(closed: Sequence[TradeRow]) -> str:
    """Returns closed trades as CSV, exact: amounts with up to 8 places, times in UTC."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(TRADE_COLUMNS)
    for trade in closed:
        writer.writerow([_csv_cell(getattr(trade, column)) for column in TRADE_COLUMNS])
    return out.getvalue()


def questions_csv(use: ModelUse) -> str:
    """Returns every question that a model was asked as CSV, with its tokens and its cost."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(QUESTION_COLUMNS)
    for row in use.rows():
        writer.writerow([_csv_cell(row[column]) for column in QUESTION_COLUMNS])
    return out.getvalue()


def _csv_cell(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, datetime):
        return time_text(value)
    if isinstance(value, Decimal):
        return money_text(value) or ""
    text = str(value)
    return f"'{text}" if text.startswith(FORMULA_STARTS) else text


# ---- settings --------------------------------------------------------------------------------------------------------------


def _settings(result: SimResult) -> list[tuple[str, str]]:
    parameters = ", ".join(f"{name} {value}" for name, value in result.parameters.items())
    rows = [
        ("Strategy", result.strategy + (f" ({parameters})" if parameters else "")),
        ("Symbols", ", ".join(result.symbols)),
        ("Data", f"{result.bars} bars, {when_text(result.first)} to {when_text(result.last)} UTC"),
        *([("Skipped", _skipped(result.skipped_bars))] if result.skipped_bars else []),
        ("Data, SHA-256", result.bars_hash),
        ("Starting equity", amount_text(result.starting_equity)),
        ("Fee", f"{decimal_text(result.fee_bps)} basis points a fill"),
        ("Slippage", f"{decimal_text(result.slippage_bps)} basis points on market and stop orders"),
        ("Decisions", f"{result.decisions}, of them {result.no_trades} not to trade; {result.refused} entries refused"),
        *_ending(result),
        *result.conditions,
    ]
    if (terms := result.terms) is not None:
        rows += [
            ("Refused, by rule", ", ".join(f"{code} {n}" for code, n in terms.rejections.items()) or "none"),
            ("Limits that are not checked", ", ".join(terms.advice) or "none"),
        ]
    return rows


def _skipped(n: int) -> str:
    return f"{n} {'row' if n == 1 else 'rows'} with an empty field"


# ---- figures ---------------------------------------------------------------------------------------------------------------


def _figures(result: SimResult) -> list[ReportFigure]:
    f, record = result.figures, result.record
    streaks, hold = record.streaks, record.buy_and_hold
    trades = f"{f.n} trades"
    rows = [
        ReportFigure("Equity at the end", amount_text(result.ending_equity), f"from {amount_text(result.starting_equity)}"),
        ReportFigure("Net PnL of closed trades", amount_text(f.net_pnl), trades),
        _clocked("Return", record.total_return, share=True),
        _clocked("Growth a year (CAGR)", record.cagr, share=True),
        _clocked("Volatility, annualised", record.volatility, share=True),
        _clocked("Sharpe ratio, daily, annualised", record.sharpe),
        _clocked("Sortino ratio, daily, annualised", record.sortino),
        _clocked("Calmar ratio", record.calmar),
        ReportFigure("Largest drawdown", f"{result.max_drawdown_pct:.2f} %", f"{result.ticks} ticks"),
        _fall("Deepest fall of daily equity", record.max_drawdown),
        _fall("Longest time under water", record.longest_drawdown, by_time=True),
        ReportFigure("Win rate", share_text(f.win_rate), trades),
        ReportFigure("Profit factor", ratio_text(f.profit_factor), trades),
        ReportFigure("Mean result in R", ratio_text(f.mean_r), f"{f.n_r} trades with a known risk"),
        ReportFigure("Expectancy", amount_text(record.expectancy_usd.value), f"{record.expectancy_usd.n} trades"),
        _of_trades("Payoff ratio", record.payoff_ratio),
        _of_trades("Exposure", record.exposure, share=True),
        ReportFigure("Wins and losses in a row, at most", f"{streaks.longest_win} and {streaks.longest_loss}", trades),
        ReportFigure("Costliest losing streak", amount_text(streaks.costliest_usd), trades),
    ]  # fmt: skip
    if hold is not None:
        held = "1 symbol" if hold.n == 1 else f"{hold.n} symbols in equal parts"
        rows.append(ReportFigure("Buying and holding", share_text(hold.hold_return), held))
    if (terms := result.terms) is not None:
        rows += [
            ReportFigure("Liquidations", str(terms.liquidations), f"{result.fills} fills"),
            ReportFigure("Shortfall", amount_text(terms.shortfall), "owed beyond all the account had"),
        ]
    return rows


def _clocked(name: str, figure: ClockedFigure, *, share: bool = False) -> ReportFigure:
    value = share_text(figure.value) if share else ratio_text(figure.value)
    return ReportFigure(name, value, figure.why or f"{figure.n} {figure.clock}")


def _of_trades(name: str, figure: ClockedFigure, *, share: bool = False) -> ReportFigure:
    value = share_text(figure.value) if share else ratio_text(figure.value)
    return ReportFigure(name, value, figure.why or f"{figure.n} trades")


def _fall(name: str, fall: FallFromPeak | None, *, by_time: bool = False) -> ReportFigure:
    if fall is None:
        return ReportFigure(name, UNKNOWN_FIGURE, "daily equity never fell")
    end = f"recovered on {fall.recovered_on}" if fall.recovered_on else "not recovered"
    since = f"from {fall.peak_on}" if fall.peak_on else "from the start"
    if by_time:
        return ReportFigure(name, f"{fall.days_under_water} days", f"{since}, {end}; {fall.n} days")
    depth = amount_text(fall.depth_usd) if fall.depth is None else share_text(fall.depth, 2)
    return ReportFigure(name, depth, f"{since} to {fall.trough_on}, {end}; {fall.n} days")


def _costs(result: SimResult) -> list[ReportFigure]:
    costs = result.costs
    with localcontext(MONEY):
        change = result.ending_equity - result.starting_equity
        before = None if costs.slippage is None else change + costs.fees + costs.slippage - costs.funding
    slippage = None if costs.slippage is None else -costs.slippage
    fills = f"{result.fills} fills"
    return [
        ReportFigure("Change of equity before costs", amount_text(before), f"{result.ticks} ticks"),
        ReportFigure("Fees", amount_text(-costs.fees), fills),
        ReportFigure("Slippage", amount_text(slippage), fills),
        ReportFigure("Funding received less paid", amount_text(costs.funding), f"{result.ticks} ticks"),
        ReportFigure("Change of equity", amount_text(change), f"{result.ticks} ticks"),
    ]


def _ending(result: SimResult) -> list[tuple[str, str]]:
    """Returns how a run with a model ended, and what it still held."""
    if result.model is None:
        return []
    held = [f"{symbol} {decimal_text(p.qty)} @ {p.entry_px:.8g}" for symbol, p in result.open_positions]
    return [
        ("Ended", f"{result.ended}, after {result.ticks} of {result.all_ticks} ticks"),
        ("Open at the end", ", ".join(held) or "nothing"),
    ]


def _model(result: SimResult) -> list[ReportFigure]:
    use = result.model
    if use is None:
        return []
    (given, cached, written), cost, n = use.tokens, use.cost_usd, use.decisions
    asked = f"{len(use.answers)} questions"
    priced = asked if cost is not None else "the price is not known; MEMTAPE_PRICES states one"
    skipped = ", ".join(f"{what} {count}" for what, count in use.skipped.items())
    rows = [
        ReportFigure("Questions", str(len(use.answers)), use.model),
        ReportFigure("Decisions", str(n), asked),
        ReportFigure("Skipped ticks", str(len(use.answers) - n), skipped or asked),
        ReportFigure("Input tokens", f"{given:,}", f"{cached:,} of them from the provider's cache"),
        ReportFigure("Output tokens", f"{written:,}", asked),
        ReportFigure("Cost in US dollars", cost_text(cost), priced),
    ]
    if use.lessons:
        drawn = f"{len(use.lessons)} questions about lessons"
        rows += [
            ReportFigure("Tokens for lessons", f"{sum(le.input_tokens + le.output_tokens for le in use.lessons):,}", drawn),
            ReportFigure("US dollars for lessons", cost_text(use.lessons_cost_usd), drawn),
        ]
    if n:
        each = UNKNOWN_COST if cost is None else cost_text(cost / n)
        rows += [
            ReportFigure("Tokens for a decision", f"{round((given + written) / n):,}", f"{n} decisions"),
            ReportFigure("US dollars for a decision", each, f"{n} decisions"),
        ]
    return rows


def _compounded(months: Iterable[MonthFigures]) -> float | None:
    product = 1.0
    for month in months:
        if month.change is None:
            return None
        product *= 1.0 + month.change
    return product - 1.0


# ---- numbers as text ---------------------------------------------------------------------------------------------------------


def when_text(moment: datetime | None) -> str:
    """Returns a moment to the minute."""
    return "" if moment is None else moment.strftime("%Y-%m-%d %H:%M")


def amount_text(amount: Decimal | None) -> str:
    """Returns an amount of money in cents."""
    # Adding zero turns a negative zero into zero.
    return UNKNOWN_FIGURE if amount is None else f"{amount.quantize(CENT) + 0:,}"


def price_text(px: Decimal | None) -> str:
    """Returns a price; small ones with six digits."""
    return "" if px is None else f"{float(px):.6g}" if px < 1 else f"{float(px):.2f}"


def ratio_text(figure: Decimal | float | None) -> str:
    """Returns a number with two places."""
    return UNKNOWN_FIGURE if figure is None else f"{float(figure) + 0.0:.2f}"


def share_text(figure: float | None, places: int = 1) -> str:
    """Returns a share in percent."""
    return UNKNOWN_FIGURE if figure is None else f"{100 * figure + 0.0:.{places}f} %"
