"""How a trade is written in one line of a brief, closed or open."""

from __future__ import annotations

from datetime import datetime, timedelta
from decimal import Decimal

from memtape.core.brief.inputs import OpenPosition, SourceRef
from memtape.core.brief.number_format import (
    format_duration,
    format_gain,
    format_money,
    format_number,
    format_percent,
    format_rough_gain,
    format_span,
)
from memtape.core.brief.sanitize import REASON_CHARS, quote_text, safe_name
from memtape.core.ledger.trades import Trade
from memtape.core.memory.episodes import NOT_TAUGHT
from memtape.core.memory.learn import tier_of_trade
from memtape.core.recall.explanations import r_phrase

MINUTE = timedelta(minutes=1)
OWNERS_WORD = {"wrong_reason": "the owner: for another reason", "structural": "the owner: structural"}


def closed_trade_line(trade: Trade) -> str:
    """Returns a closed trade in one line: times, symbol, side, size, prices, result, and the reason of the entry."""
    assert trade.exit_at is not None
    # A trade can have a result in R and none in money.
    unknown = "outcome unknown" if trade.pnl_r is None else ""
    amount = unknown if trade.net_pnl_usd is None else format_gain(trade.net_pnl_usd, trade.currency)
    percents = "" if trade.pnl_pct is None else f"({format_percent(trade.pnl_pct)}%)"
    return _joined(
        f"- {format_span(trade.entry_at, trade.exit_at)}",
        *_symbol_side_size_price(trade),
        f"→ {_price(trade.exit_price)}",
        amount,
        percents,
        _r_text(trade.pnl_r, trade.r_source),
        format_duration((trade.exit_at - trade.entry_at) / MINUTE),
        _excursions(trade),
        _marks(trade),
        _quoted_reason(trade.entry_reason),
    )


def open_position_line(position: OpenPosition, as_of: datetime) -> str:
    """Returns an open position in one line: what it is, its result so far, holding time, stop, target, and reason."""
    trade, mark, unrealized = position.trade, position.mark, position.unrealized_usd
    risk = trade.initial_risk_usd
    return _joined(
        "-", *_symbol_side_size_price(trade), "" if mark is None else f"mark={format_number(mark)}",
        "" if unrealized is None else f"unrealised={format_gain(unrealized, trade.currency)}",
        _r_text(unrealized / risk, trade.r_source) if unrealized is not None and risk else "",
        f"realised={format_gain(trade.realized_pnl_usd, trade.currency)}" if trade.realized_pnl_usd and trade.qty_exited else "",
        _excursions(trade), f"held {format_duration((as_of - trade.entry_at) / MINUTE)}",
        "" if trade.stop_price is None else f"stop={format_number(trade.stop_price)}",
        "" if trade.target_price is None else f"target={format_number(trade.target_price)}",
        _marks(trade, still_open=True), _quoted_reason(trade.entry_reason),
    )  # fmt: skip


def trade_source(trade: Trade) -> tuple[SourceRef, ...]:
    """Returns the trade as the source of its line."""
    return (SourceRef("trade", trade.id, tier_of_trade(trade)),)


def _symbol_side_size_price(trade: Trade) -> tuple[str, ...]:
    size = "" if trade.entry_size_usd is None else format_money(trade.entry_size_usd, trade.currency)
    return safe_name(trade.symbol), trade.side, size, f"@ {_price(trade.entry_price)}"


def _price(amount: Decimal | None) -> str:
    return "?" if amount is None else format_number(amount)


def _r_text(r: Decimal | None, source: str | None) -> str:
    return "" if r is None else f"{r_phrase(float(r))}{' (by ATR)' if source == 'atr_proxy' else ''}"


def _excursions(trade: Trade) -> str:
    best = "" if trade.mfe_usd is None else f"MFE={format_rough_gain(trade.mfe_usd, trade.currency)}"
    worst = "" if trade.mae_usd is None else f"MAE={format_rough_gain(trade.mae_usd, trade.currency)}"
    return " / ".join(each for each in (best, worst) if each)


def _marks(trade: Trade, still_open: bool = False) -> str:
    """Returns what qualifies the numbers: how the trade ended, how certain they are, and the owner's label."""
    liquidated = "partly liquidated" if still_open else "liquidated"
    source = {"claimed": "claimed", "inferred": "inferred", "unpriced": "price unknown"}.get(trade.quality, "")
    left = ""
    if still_open and trade.qty_open is not None and trade.qty_exited and trade.qty_entered:
        left = f"{format_percent(100 * trade.qty_open / trade.qty_entered)} % still open"
    marks = [
        left, liquidated if trade.liquidation_fills or trade.close_cause == "liquidation" else "", source,
        "adopted" if trade.adopted else "",
        "excluded by the owner" if trade.teach in NOT_TAUGHT else OWNERS_WORD.get(trade.teach, ""),
    ]  # fmt: skip
    text = ", ".join(mark for mark in marks if mark)
    return f"({text})" if text else ""


def _quoted_reason(text: str | None) -> str:
    return quote_text(text, REASON_CHARS) if text else ""


def _joined(*parts: str) -> str:
    return " ".join(part for part in parts if part)
