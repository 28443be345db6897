"""The answers that several operations share: pydantic models of the engine's values. Money is text, times are UTC text."""

from __future__ import annotations

from dataclasses import asdict, fields
from datetime import datetime
from decimal import Decimal
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, create_model

from memtape.core.codec import plain, time_text
from memtape.core.ledger.performance import Performance
from memtape.core.ledger.trades import Trade, trade_json
from memtape.core.ledger.trades import money_text as money
from memtape.core.memory.behaviour import Behaviour, Figure
from memtape.core.recall.evidence import rounded
from memtape.engine.view.view import AnswerBasis
from memtape.engine.write.writer import Receipt
from memtape.store.schema import TRADE_COLUMNS


class Answer(BaseModel):
    """An answer."""

    model_config = ConfigDict(defer_build=True)


def rounded_figure(number: float | None) -> float | None:
    """A statistic with 6 significant digits, as answers give it."""
    return None if number is None else float(f"{number:.6g}")


def optional_time_text(moment: datetime | None) -> str | None:
    """A time as text, or None."""
    return None if moment is None else time_text(moment)


_TYPES: dict[str, Any] = {"money": str, "time": str, "text": str, "int": int, "flag": bool, "list": list[str]}
_WORDS = {
    "pnl_r": "net PnL in units of initial risk", "pnl_pct": "net PnL in % of entry_size_usd", "mfe_usd": "largest open profit",
    "mae_usd": "largest open loss", "quality": "source of the figures: fills, reported, inferred or unpriced",
    "net_pnl_usd": "realized - fees + funding, account currency", "realized_pnl_usd": "gross, account currency",
    "entry_at": "UTC", "exit_at": "UTC", "leg": "'' on a net account", "r_source": "source of the risk: stop",
}  # fmt: skip

TradeRow: type[BaseModel] = create_model(
    "TradeRow",
    __base__=Answer,
    __doc__="One trade: a round trip, flat to flat.",
    **{
        name: (_TYPES[kind] | None, Field(description=_WORDS.get(name, name.replace("_", " "))))
        for name, kind in TRADE_COLUMNS.items()
    },  # type: ignore[call-overload]
)


def trade_row(trade: Trade) -> BaseModel:
    """The answer row of a trade."""
    return TradeRow(**trade_json(trade))


class ReceiptAnswer(Answer):
    """The result of a write: where it was logged and what memtape concluded."""

    stream: Annotated[str, Field(description="the agent")]
    seq: Annotated[int, Field(description="the log row")]
    hash: Annotated[str, Field(description="its hash in the chain")]
    duplicate: Annotated[bool, Field(description="true: it was recorded before, nothing was written")]
    revised: Annotated[bool, Field(description="true: earlier conclusions changed")]
    concluded: Annotated[
        list[dict[str, Any]], Field(description="events: opened, closed, revised, discrepancy, stale, plan_fired, ...")
    ]
    reflection_due: Annotated[bool, Field(description="true: a reflection is due; the server runs it by itself")]


def receipt_answer(receipt: Receipt) -> ReceiptAnswer:
    """The answer of a receipt."""
    return ReceiptAnswer(
        stream=receipt.stream, seq=receipt.seq, hash=receipt.hash, duplicate=receipt.duplicate,
        revised=receipt.revised, concluded=[plain(told) for told in receipt.concluded],
        reflection_due=receipt.reflection_due,
    )  # fmt: skip


class PerformanceAnswer(Answer):
    """Performance over closed trades; a rate without a sample is null, never 0."""

    agent: Annotated[str, Field(description="the agent")]
    skill: Annotated[str, Field(description="its skill")]
    strategy: Annotated[str | None, Field(description="the strategy; null: all")]
    symbol: Annotated[str | None, Field(description="the symbol; null: all")]
    n: Annotated[int, Field(description="closed trades")]
    n_priced: Annotated[int, Field(description="closed trades with a known outcome")]
    wins: Annotated[int, Field(description="net PnL above 0")]
    losses: Annotated[int, Field(description="net PnL below 0")]
    win_rate: Annotated[float | None, Field(description="wins / n_priced")]
    net_pnl_usd: Annotated[str, Field(description="in the account currency")]
    gross_pnl_usd: Annotated[str, Field(description="before fees and funding")]
    fees_usd: Annotated[str, Field(description="paid is positive")]
    funding_usd: Annotated[str, Field(description="received is positive")]
    profit_factor: Annotated[float | None, Field(description="gains / losses; null without a loss")]
    mean_r: Annotated[float | None, Field(description="mean net PnL in R, over n_r trades that had a stop")]
    n_r: Annotated[int, Field(description="trades with R")]
    mean_holding_minutes: Annotated[float | None, Field(description="minutes")]
    max_drawdown_usd: Annotated[str | None, Field(description="largest fall of NAV from a peak; whole account only")]
    max_drawdown_pct: Annotated[str | None, Field(description="the same in % of the peak")]
    sharpe_per_trade: Annotated[float | None, Field(description="mean / standard deviation per trade, not annualised")]
    first_entry_at: Annotated[str | None, Field(description="UTC")]
    last_exit_at: Annotated[str | None, Field(description="UTC")]
    currency: Annotated[str, Field(description="account currency")]
    equity_source: Annotated[str | None, Field(description="'marks' (from the broker) or 'closed trades'")]
    habits: Annotated[dict[str, Any], Field(description="habits, each figure with its n")]


def performance_answer(
    agent: str, skill: str, found: Performance, habits: dict[str, Any], strategy: str | None = None, symbol: str | None = None
) -> PerformanceAnswer:
    """The answer of performance figures."""
    spelled: dict[str, Any] = {}
    for field in fields(found):
        value = getattr(found, field.name)
        if isinstance(value, Decimal):
            value = money(value)
        elif isinstance(value, datetime):
            value = optional_time_text(value)
        elif isinstance(value, float):
            value = rounded_figure(value)
        spelled[field.name] = value
    return PerformanceAnswer(agent=agent, skill=skill, strategy=strategy, symbol=symbol, habits=habits, **spelled)


_FIGURES = ("win_rate", "mean_r", "mean_hold_minutes", "entry_timing", "exit_timing", "size_v_kelly", "size_variation",
            "disposition", "bracket", "disposition_effect", "loss_aversion", "recency_bias", "momentum_bias", "stability",
            "expected_win_rate", "expected_mean_r", "kelly")  # fmt: skip


def _figure(found: Figure) -> dict[str, Any]:
    return {"value": rounded_figure(found.value), "n": found.n, "why": found.why}


def behaviour_row(found: Behaviour) -> dict[str, Any]:
    """Habits as answers give them."""
    return {
        "strategy": found.strategy, "symbol": found.symbol, "window_trades": found.window,
        "window_of_the_original": found.window_of_the_original,
        "figures": {name: _figure(getattr(found, name)) for name in _FIGURES},
        "drift": [plain(rounded(asdict(drift))) for drift in found.drifts], "drift_detected": found.drift_detected,
        "patterns": [plain(rounded(asdict(pattern))) for pattern in found.patterns],
    }  # fmt: skip


class Basis(Answer):
    """What an answer is based on."""

    agent: Annotated[str, Field(description="the agent")]
    as_of: Annotated[str, Field(description="UTC; the answer uses only what was known then")]
    n: Annotated[int, Field(description="episodes known then")]
    window: Annotated[list[str | None], Field(description="first and last exit among them, UTC")]
    outcomes: Annotated[str, Field(description="'verified' by the broker's records or 'claimed' by the agent")]


def basis_of(agent: str, moment: AnswerBasis) -> dict[str, Any]:
    return {
        "agent": agent,
        "as_of": optional_time_text(moment.as_of) or "",
        "n": moment.n,
        "window": [optional_time_text(moment.first_exit), optional_time_text(moment.last_exit)],
        "outcomes": moment.outcome_source,
    }
