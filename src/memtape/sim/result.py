"""The result of a simulation: its figures with the number of observations behind each, its costs and its conditions."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from typing import Any

from memtape.core.codec import decimal_text, time_text
from memtape.core.ledger.performance import Outcomes
from memtape.core.ledger.performance_detail import PerformanceDetail
from memtape.core.ledger.trades import round_money
from memtape.sim.figures import EquityPath, TradeRow
from memtape.sim.model_use import ModelUse
from memtape.sim.orders import Position

ALL_BARS = "all bars"  # how a run ends that was not ended before


@dataclass(frozen=True, slots=True, kw_only=True)
class RunTerms:
    """The effects of a venue's terms and of a guard."""

    funding: Decimal  # received less paid
    liquidations: int  # fills by which the venue closed positions
    shortfall: Decimal  # the debt of the account
    rejections: dict[str, int]  # refused proposals and orders, by code
    advice: tuple[str, ...] = ()  # limits that the guard cannot check

    def as_dict(self) -> dict[str, Any]:
        """Returns JSON data."""
        return {
            "funding": decimal_text(round_money(self.funding)), "liquidations": self.liquidations,
            "shortfall": decimal_text(round_money(self.shortfall)), "rejections": self.rejections,
            "not_checked": list(self.advice),
        }  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class RunCosts:
    """What trading cost, open positions included."""

    fees: Decimal
    slippage: Decimal | None  # None: not known
    funding: Decimal  # received less paid


@dataclass(frozen=True, slots=True, kw_only=True)
class SimResult:
    """The result of a run. `n` has the number of observations behind each figure."""

    agent: str
    strategy: str
    parameters: dict[str, str]
    symbols: tuple[str, ...]
    first: datetime
    last: datetime
    bars: int
    skipped_bars: int  # rows of the file with an empty field
    fee_bps: Decimal
    slippage_bps: Decimal
    starting_equity: Decimal
    ending_equity: Decimal
    ticks: int
    fills: int
    decisions: int
    no_trades: int
    refused: int  # entries that the broker refused
    figures: Outcomes
    max_drawdown_pct: float
    costs: RunCosts
    bars_hash: str  # SHA-256 of the bars
    record: PerformanceDetail = field(repr=False)
    closed: tuple[TradeRow, ...] = field(repr=False)
    equity: EquityPath = field(repr=False)
    terms: RunTerms | None = None  # of a run under a venue's terms or a guard
    conditions: tuple[tuple[str, str], ...] = ()  # the venue's terms and the limits, in words
    model: ModelUse | None = field(default=None, repr=False)  # of a run in which a model was asked
    open_positions: tuple[tuple[str, Position], ...] = ()  # at the end, by symbol
    all_ticks: int = 0  # of the bars; more than `ticks` if the run was ended before

    @property
    def ended(self) -> str:
        """Why the run ended."""
        return (self.model.ended if self.model is not None else None) or ALL_BARS

    @property
    def trades(self) -> int:
        """The number of closed trades."""
        return len(self.closed)

    @property
    def net_pnl(self) -> Decimal:
        """The profit of closed trades after fees."""
        return self.figures.net_pnl

    @property
    def n(self) -> dict[str, int]:
        """The number of observations behind each figure."""
        f = self.figures
        return {
            "net_pnl": f.n, "win_rate": f.n, "profit_factor": f.n, "mean_r": f.n_r, "max_drawdown_pct": self.ticks,
            "sharpe": self.record.sharpe.n,
        }  # fmt: skip

    def as_dict(self) -> dict[str, Any]:
        """Returns JSON data: money as strings, times ending in Z."""
        f = self.figures
        return {
            "simulated": True, "agent": self.agent, "strategy": self.strategy, "parameters": self.parameters,
            "symbols": list(self.symbols), "first": time_text(self.first), "last": time_text(self.last),
            "bars": self.bars, "skipped_bars": self.skipped_bars, "fee_bps": decimal_text(self.fee_bps),
            "slippage_bps": decimal_text(self.slippage_bps),
            "starting_equity": decimal_text(self.starting_equity), "ending_equity": decimal_text(self.ending_equity),
            "ticks": self.ticks, "fills": self.fills, "decisions": self.decisions, "no_trades": self.no_trades,
            "refused": self.refused, "trades": self.trades,
            "net_pnl": decimal_text(round_money(f.net_pnl)), "win_rate": _digits(f.win_rate),
            "profit_factor": _digits(f.profit_factor), "mean_r": _digits(f.mean_r),
            "max_drawdown_pct": _digits(self.max_drawdown_pct), "sharpe": _digits(self.record.sharpe.value),
            "sharpe_clock": self.record.sharpe.clock, "fees": decimal_text(round_money(self.costs.fees)),
            "slippage": None if self.costs.slippage is None else decimal_text(round_money(self.costs.slippage)),
            "bars_sha256": self.bars_hash, "n": self.n,
        } | ({} if self.terms is None else self.terms.as_dict()) | self._model_dict()  # fmt: skip

    def _model_dict(self) -> dict[str, Any]:
        if self.model is None:
            return {}
        held = [
            {"symbol": symbol, "qty": decimal_text(position.qty), "entry_price": f"{position.entry_px:.8g}"}
            for symbol, position in self.open_positions
        ]
        return {"ended": self.ended, "open_positions": held, "model": self.model.as_dict()}


def _digits(figure: float | None) -> float | None:
    """Rounds to six significant digits, so that the output is the same on every machine."""
    return None if figure is None else float(f"{figure:.6g}")
