"""The shapes of questions and answers: pydantic models over the engine's values. Money is text, times are UTC text."""

from __future__ import annotations

from dataclasses import MISSING, asdict, fields
from datetime import datetime
from decimal import Decimal
from typing import Annotated, Any, get_args, get_type_hints

from pydantic import BaseModel, ConfigDict, Field, create_model, model_validator

from memtape.core.codec import plain, time_text
from memtape.core.ledger.performance import Performance
from memtape.core.ledger.trades import Trade, trade_json
from memtape.core.ledger.trades import money_text as money
from memtape.core.memory.behaviour import Behaviour, Figure
from memtape.core.recall.evidence import rounded
from memtape.core.values import Slug, Time
from memtape.engine.write.writer import Receipt
from memtape.store.schema import TRADE_COLUMNS


class Ask(BaseModel):
    """A question; what it does not know it refuses."""

    # What checks it is built when it is first asked: a command asks one of many.
    model_config = ConfigDict(extra="forbid", arbitrary_types_allowed=True, defer_build=True)


class OfAgent(Ask):
    """A question about one agent."""

    agent: Annotated[Slug | None, Field(description="whose memory; default: the server's agent, else 'main'")] = None


class OfOwner(Ask):
    """A question about the owner's skills and agents, at any moment."""

    as_of: Annotated[Time | None, Field(description="answer with what was known at this moment (ISO 8601 with zone)")] = None
    head: Annotated[int | None, Field(ge=0, le=2**53, description="answer with what the owner had stated by this log row")] = None


class AsOf(OfAgent):
    """A question about one agent at any moment."""

    as_of: Annotated[Time | None, Field(description="answer with what was known at this moment (ISO 8601 with zone)")] = None
    head: Annotated[int | None, Field(ge=0, le=2**53, description="answer with what had been recorded by this log row")] = None


class Answer(BaseModel):
    """An answer."""

    model_config = ConfigDict(defer_build=True)


def rounded_figure(number: float | None) -> float | None:
    """A statistic as it leaves: 6 significant digits."""
    return None if number is None else float(f"{number:.6g}")


def optional_time_text(moment: datetime | None) -> str | None:
    """A moment as it leaves."""
    return None if moment is None else time_text(moment)


_TYPES: dict[str, Any] = {"money": str, "time": str, "text": str, "int": int, "flag": bool, "list": list[str]}
_WORDS = {
    "pnl_r": "net PnL in units of initial risk", "pnl_pct": "net PnL in % of entry_size_usd", "mfe_usd": "best the trade ran",
    "mae_usd": "worst the trade ran", "quality": "fills, reported, inferred or unpriced: how sure the figures are",
    "net_pnl_usd": "realized - fees + funding, account currency", "realized_pnl_usd": "gross, account currency",
    "entry_at": "UTC", "exit_at": "UTC", "leg": "'' on a net account", "r_source": "where the risk comes from: stop",
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
    """A trade as it leaves."""
    return TradeRow(**trade_json(trade))


class ReceiptAnswer(Answer):
    """What an observation came to."""

    stream: Annotated[str, Field(description="the agent")]
    seq: Annotated[int, Field(description="the log row")]
    hash: Annotated[str, Field(description="its link in the chain")]
    duplicate: Annotated[bool, Field(description="true when it had been seen: nothing was written")]
    revised: Annotated[bool, Field(description="true when earlier conclusions changed")]
    concluded: Annotated[list[dict[str, Any]], Field(description="opened, closed, revised, discrepancy, stale, plan_fired, ...")]
    reflection_due: Annotated[bool, Field(description="true when lessons are due to be drawn anew; the server does it by itself")]


def receipt_answer(receipt: Receipt) -> ReceiptAnswer:
    """A receipt as it leaves."""
    return ReceiptAnswer(
        stream=receipt.stream, seq=receipt.seq, hash=receipt.hash, duplicate=receipt.duplicate,
        revised=receipt.revised, concluded=receipt.concluded_data(),
        reflection_due=receipt.reflection_due,
    )  # fmt: skip


class PerformanceAnswer(Answer):
    """How an agent has done, over closed trades; a rate without a sample is null, never 0."""

    agent: Annotated[str, Field(description="the agent")]
    skill: Annotated[str, Field(description="its skill")]
    strategy: Annotated[str | None, Field(description="the strategy asked for, or null: all")]
    symbol: Annotated[str | None, Field(description="the symbol asked for, or null: all")]
    n: Annotated[int, Field(description="closed trades")]
    n_priced: Annotated[int, Field(description="of which with a known outcome")]
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
    max_drawdown_usd: Annotated[str | None, Field(description="deepest fall of NAV from a peak; whole account only")]
    max_drawdown_pct: Annotated[str | None, Field(description="the same in % of the peak")]
    sharpe_per_trade: Annotated[float | None, Field(description="mean / standard deviation per trade, not annualised")]
    first_entry_at: Annotated[str | None, Field(description="UTC")]
    last_exit_at: Annotated[str | None, Field(description="UTC")]
    currency: Annotated[str, Field(description="account currency")]
    equity_source: Annotated[str | None, Field(description="'marks' of the broker or 'closed trades'")]
    habits: Annotated[dict[str, Any], Field(description="what it does again and again: each figure with its n")]


def performance_answer(
    agent: str, skill: str, found: Performance, habits: dict[str, Any], strategy: str | None = None, symbol: str | None = None
) -> PerformanceAnswer:
    """Figures as they leave."""
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
    """Habits as they leave."""
    return {
        "strategy": found.strategy, "symbol": found.symbol, "window_trades": found.window,
        "window_of_the_original": found.window_of_the_original,
        "figures": {name: _figure(getattr(found, name)) for name in _FIGURES},
        "drift": [plain(rounded(asdict(drift))) for drift in found.drifts], "drift_detected": found.drift_detected,
        "patterns": [plain(rounded(asdict(pattern))) for pattern in found.patterns],
    }  # fmt: skip


def flattened(name: str, value: Any, wrapper: str, words: dict[str, str], **more: Any) -> type[OfAgent]:
    """A question whose fields are those of an observed value, and some more; the value may also come whole, under `wrapper`."""
    hints = get_type_hints(value, include_extras=True)

    def unwrap(_cls: Any, data: Any) -> Any:
        if isinstance(data, dict) and isinstance(data.get(wrapper), dict):
            return {**{k: v for k, v in data.items() if k != wrapper}, **data[wrapper]}
        return data

    own: dict[str, Any] = {}
    for field in fields(value):
        hint = hints[field.name]
        described = any(getattr(part, "description", None) for part in get_args(hint)[1:])
        if not described:
            hint = Annotated[hint, Field(description=words.get(field.name, field.name.replace("_", " ")))]
        if field.default is not MISSING:
            own[field.name] = (hint, field.default)
        elif field.default_factory is not MISSING:
            own[field.name] = (hint, Field(default_factory=field.default_factory))
        else:
            own[field.name] = (hint, ...)
    backfill = Annotated[bool, Field(description="told after the fact: counts as known from its own time, not from now")]
    return create_model(
        name,
        __base__=OfAgent,
        __doc__=value.__doc__,
        __validators__={"unwrap": model_validator(mode="before")(classmethod(unwrap))},  # type: ignore[arg-type, dict-item]
        **own,
        **more,
        backfill=(backfill, False),
    )


def value_of(ask: OfAgent, value: Any) -> Any:
    """The observed value that a flattened question holds."""
    return value(**{field.name: getattr(ask, field.name) for field in fields(value)})
