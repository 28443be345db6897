"""Habits and performance figures as answers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, fields, is_dataclass
from datetime import datetime
from decimal import Decimal
from typing import Annotated, Any, get_type_hints

from pydantic import BaseModel, Field, create_model

from memtape.core.codec import plain
from memtape.core.ledger.performance import Performance
from memtape.core.ledger.performance_detail import PerformanceDetail
from memtape.core.ledger.trades import money_text as money
from memtape.core.ledger.trades import round_money
from memtape.core.memory.behaviour import Behaviour, DriftReport, Figure, Pattern
from memtape.core.memory.outcome_units import OutcomeFigures
from memtape.core.recall.evidence import rounded
from memtape.core.values import MONEY
from memtape.surfaces.answer_models import Answer, answer_model
from memtape.surfaces.answers import optional_time_text, rounded_figure

FigureRow = answer_model(Figure, {"value": "null if the sample is too small", "n": "sample size", "why": "why it is null"})
DriftRow = answer_model(DriftReport, {"of": "what may be changing", "since": "since when", "why": "how this was decided"})
PatternRow = answer_model(Pattern, {"frequency": "value, n, why it is null", "outcome": "n, win_rate, mean_r with it",
                                    "otherwise": "n, win_rate, mean_r without it", "contexts": "with counts"})  # fmt: skip
_FIGURES = [name for name, kind in get_type_hints(Behaviour).items() if kind is Figure]
HabitFigures = create_model("HabitFigures", __base__=Answer, __doc__="Each habit as a figure.",
                            **dict.fromkeys(_FIGURES, (FigureRow, ...)))  # type: ignore[call-overload] # fmt: skip


class HabitsRow(Answer):
    """Habits of an agent, or of one strategy and symbol."""

    strategy: Annotated[str | None, Field(description="null: several")]
    symbol: Annotated[str | None, Field(description="null: several")]
    window_trades: Annotated[int, Field(description="number of trades in the window; stable agents have longer windows")]
    window_of_the_original: Annotated[int, Field(description="the window of the original formula, for comparison")]
    unit: Annotated[str, Field(description="of outcomes: R (by stops), R by ATR, or typical losses in money")]
    figures: Annotated[HabitFigures, Field(description="each with value, n, and why it is null")]  # type: ignore[valid-type]
    drift: Annotated[list[DriftRow], Field(description="whether outcomes, risk or holding are changing")]  # type: ignore[valid-type]
    drift_detected: Annotated[bool, Field(description="true: something is drifting now")]
    patterns: Annotated[list[PatternRow], Field(description="repeated behaviour: how often, and its outcome")]  # type: ignore[valid-type]


def habits_row(found: Behaviour, currency: str) -> HabitsRow:
    """The answer row of habits; the currency is that of the account."""
    figures = {name: getattr(found, name) for name in _FIGURES}
    return HabitsRow(
        strategy=found.strategy, symbol=found.symbol, window_trades=found.window,
        window_of_the_original=found.window_of_the_original, unit=found.unit.phrase(currency),
        figures=HabitFigures(**{
            name: FigureRow(value=rounded_figure(each.value), n=each.n, why=each.why) for name, each in figures.items()
        }),
        drift=[DriftRow(**plain(rounded(asdict(drift)))) for drift in found.drifts], drift_detected=found.drift_detected,
        patterns=[PatternRow(**plain(rounded(asdict(pattern)))) for pattern in found.patterns],
    )  # fmt: skip


def _nothing() -> None:
    """The default of a field that older answers do not have."""


TrackRecordRow = answer_model(
    PerformanceDetail,
    {
        "basis": "what daily figures are computed from", "clocks": "how the tables count", "first_day": "UTC", "last_day": "UTC",
        "sharpe": "annualised, no risk-free rate", "sortino": "annualised, downside deviation from zero",
        "volatility": "annualised, a share of equity", "total_return": "a share of the starting equity",
        "cagr": "compound annual growth rate", "calmar": "cagr / max_drawdown", "max_drawdown": "the deepest; null: none",
        "longest_drawdown": "the longest under water", "exposure": "share of time with an open position",
        "expectancy_usd": "mean net PnL of a trade", "expectancy_r": "mean R of a trade", "payoff_ratio": "mean win / mean loss",
        "r_distribution": "outcomes in R", "streaks": "wins and losses in a row", "by_weekday": "of entry", "by_hour": "of entry",
        "by_symbol": "the most traded first", "by_side": "long and short", "months": "by exit",
        "buy_and_hold": "against holding what it traded, in equal parts; null: no bars cover the time",
    },
    name="TrackRecordRow",
)  # fmt: skip


def track_record_row(found: PerformanceDetail) -> BaseModel:
    """The answer of the performance in detail."""
    return TrackRecordRow(**_json_values(found))


def _json_values(value: Any) -> Any:
    """A core value in the form of an answer: money and times as text, statistics with 6 digits."""
    if isinstance(value, Decimal):
        return money(value)
    if isinstance(value, datetime):
        return optional_time_text(value)
    if isinstance(value, float):
        return rounded_figure(value)
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: _json_values(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, tuple):
        return [_json_values(each) for each in value]
    return {key: _json_values(each) for key, each in value.items()} if isinstance(value, dict) else value


PerformanceAnswer = answer_model(
    Performance,
    {
        "n": "closed trades", "n_known": "closed trades with a known result, in money or R", "n_priced": "with one in money",
        "wins": "above 0, by money, else by R", "losses": "below 0", "win_rate": "wins / n_known",
        "net_pnl_usd": "in the account currency",
        "gross_pnl_usd": "before fees and funding", "fees_usd": "paid is positive", "funding_usd": "received is positive",
        "profit_factor": "gains / losses; null without a loss", "mean_r": "mean R over n_r trades with a stop or a stated R",
        "n_r": "trades with R", "mean_holding_minutes": "minutes",
        "max_drawdown_usd": "largest fall of NAV; whole account only",
        "max_drawdown_pct": "in % of the peak; null: no equity stated",
        "sharpe_per_trade": "mean / standard deviation per trade, not annualised", "first_entry_at": "UTC", "last_exit_at": "UTC",
        "currency": "account currency", "equity_source": "'marks' (reported equity) or 'closed trades'",
        "open_n": "open trades", "open_realized_pnl_usd": "what open trades realised so far, before fees and funding",
        "open_fees_usd": "paid on open trades so far", "open_funding_usd": "received on open trades so far",
        "open_net_pnl_usd": "open_realized - open_fees + open_funding; with net_pnl_usd it gives the ledger's total",
    },
    name="PerformanceAnswer",
    first={
        "agent": (Annotated[str, Field(description="the agent")], ...),
        "skill": (Annotated[str, Field(description="its skill")], ...),
        "strategy": (Annotated[str | None, Field(description="the strategy; null: all")], ...),
        "symbol": (Annotated[str | None, Field(description="the symbol; null: all")], ...),
    },
    outcomes=(Annotated[str, Field(description="who reported them: from the venue, from your records, claimed by the agent")],
              Field(default_factory=str)),
    unit=(Annotated[str, Field(description="of mean_outcome: R, R by ATR, or typical losses in money")],
          Field(default_factory=str)),
    mean_outcome=(Annotated[float | None, Field(description="mean result of a trade, in `unit`")],
                  Field(default_factory=_nothing)),
    n_outcome=(Annotated[int, Field(description="trades with a result in `unit`")], Field(default_factory=int)),
    habits=(Annotated[HabitsRow, Field(description="habits, each figure with its n")], ...),
    notes=(Annotated[list[str], Field(description="what you asked for and no memory has, with what exists")],
           Field(default_factory=list)),
    detail=(Annotated[TrackRecordRow | None, Field(description="if asked for")], Field(default_factory=_nothing)),
)  # fmt: skip


def performance_answer(
    agent: str, skill: str, found: Performance, outcomes: OutcomeFigures, habits: HabitsRow, strategy: str | None = None,
    symbol: str | None = None, detail: PerformanceDetail | None = None, notes: Sequence[str] = (),
) -> BaseModel:  # fmt: skip
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
    # Two rounded amounts may miss the rounded total by one in the last place, and here they add up: the open one takes it.
    for name in ("net_pnl_usd", "realized_pnl_usd", "fees_usd", "funding_usd"):
        closed: Decimal = getattr(found, "gross_pnl_usd" if name == "realized_pnl_usd" else name)
        total = MONEY.add(closed, getattr(found, f"open_{name}"))
        spelled[f"open_{name}"] = money(MONEY.subtract(round_money(total), round_money(closed)))
    record = None if detail is None else track_record_row(detail)
    return PerformanceAnswer(
        agent=agent, skill=skill, strategy=strategy, symbol=symbol, outcomes=outcomes.source,
        unit=outcomes.unit.phrase(found.currency), mean_outcome=rounded_figure(outcomes.mean), n_outcome=outcomes.n,
        habits=habits, notes=list(notes), detail=record, **spelled,
    )  # fmt: skip
