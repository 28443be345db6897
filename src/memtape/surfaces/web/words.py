"""Memories in words: triggers as sentences, actions, situations, and the names of all figures.

>>> condition_text({"all": [{"field": "regime", "op": "eq", "value": "ranging"}, {"field": "drawdown_pct", "op": "gt",
...     "value": 0.1}]})
'regime is ranging and drawdown is above 10 %'
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from memtape.core.memory.predicate import AllOf, AnyOf, Condition, Not, Predicate, Scalar, read_predicate
from memtape.surfaces.web.display import (
    show_amount,
    show_digits,
    show_duration,
    show_label,
    show_percent,
    show_price,
    show_signed,
)

if TYPE_CHECKING:
    from memtape.core.skills import ReflectionConfig
    from memtape.surfaces.operations.beliefs import SuggestedPlan
    from memtape.surfaces.operations.lessons import LessonFigures

FACTORS: Mapping[str, str] = {
    "Q": "outcome", "Sim": "similarity", "Rec": "recency", "Conf": "confidence", "Aff": "affect state", "Sharpe": "Sharpe",
}  # fmt: skip
STATUSES: Mapping[str, str] = {
    "believed": "believed", "candidate": "candidate", "merged": "merged", "split": "split", "retired": "retired",
    "proposed": "proposed", "active": "active", "triggered": "fired and ended", "expired": "expired", "cancelled": "cancelled",
    "superseded": "superseded",
}  # fmt: skip
_OPS: Mapping[str, str] = {
    "eq": "is", "ne": "is not", "lt": "is below", "le": "is at most", "gt": "is above", "ge": "is at least", "in": "is one of",
    "nin": "is none of", "crosses_above": "rises above", "crosses_below": "falls below",
}  # fmt: skip
_FIELDS: Mapping[str, str] = {
    "atr_d1": "ATR (day)", "atr_h1": "ATR (hour)", "atr_m5": "ATR (5 min)", "atr_ratio_h1_d1": "ATR hour / day",
    "volatility_regime": "volatility", "hour_utc": "hour (UTC)", "spread_as_atr_pct": "spread / ATR",
    "drawdown_pct": "drawdown", "drawdown_state": "share of the drawdown limit", "day_of_week": "weekday (0 is Monday)",
    "consecutive_wins": "number of wins in a row", "consecutive_losses": "number of trades in a row without a win",
    "open_positions": "number of open positions",
}  # fmt: skip
SHARES = frozenset({"drawdown_pct", "drawdown_state"})
SITUATION = (
    "symbol", "regime", "volatility_regime", "session", "price", "atr_d1", "atr_h1", "drawdown_pct", "consecutive_losses",
)  # fmt: skip


def field_name(field: str) -> str:
    """The name of a field of the situation.

    >>> field_name("volatility_regime"), field_name("risk_appetite")
    ('volatility', 'risk appetite')
    """
    return _FIELDS.get(field, field.replace("_", " "))


# ---- plans ---------------------------------------------------------------------------------------------------------------


def condition_text(source: Mapping[str, Any]) -> str:
    """A trigger in words.

    >>> condition_text({"any": [{"not": {"session": "asia"}}, {"field": "price", "op": "between", "value": [90, 110]}]})
    'not (session is asia) or price is between 90 and 110'
    """
    return _predicate_text(read_predicate(source, None), outermost=True)


def _predicate_text(predicate: Predicate, outermost: bool = False) -> str:
    if isinstance(predicate, Condition):
        return _one_condition_text(predicate)
    if isinstance(predicate, Not):
        return f"not ({_predicate_text(predicate.part, outermost=True)})"
    if len(predicate.parts) == 1:
        return _predicate_text(predicate.parts[0], outermost)
    joined = (" and " if isinstance(predicate, AllOf) else " or ").join(_predicate_text(part) for part in predicate.parts)
    return joined if outermost or not isinstance(predicate, AllOf | AnyOf) else f"({joined})"


def _one_condition_text(condition: Condition) -> str:
    name = field_name(condition.field)
    if condition.op == "exists":
        return f"{name} is {'known' if condition.value else 'not known'}"
    if condition.op == "changed":
        return f"{name} has changed"
    if isinstance(condition.value, tuple):
        values = [_value_text(condition.field, value) for value in condition.value]
        if condition.op == "between":
            return f"{name} is between {values[0]} and {values[1]}"
        return f"{name} {_OPS[condition.op]} {', '.join(values)}"
    return f"{name} {_OPS[condition.op]} {_value_text(condition.field, condition.value)}"


def _value_text(field: str, value: Scalar | None) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return f"{100 * value:.4g} %" if field in SHARES else f"{value:.8g}"
    return show_label(value)


class PlannedAction(Protocol):
    """The action of a plan that was made, or of one that beliefs suggest."""

    @property
    def action(self) -> str:
        """Its kind."""
        ...

    @property
    def size_factor(self) -> float | None:
        """The share of the usual size; None: it does not change the size."""
        ...

    @property
    def parameters(self) -> Mapping[str, Any]:
        """What else belongs to it."""
        ...


def action_text(plan: PlannedAction) -> str:
    """What a plan does.

    >>> (action_text(PlanIdea("reduce", 0.5, {}, {}, "", [])), action_text(PlanIdea("skip_trade", None, {}, {}, "", [])))
    ('take 50 % of the usual size', 'do not enter')
    """
    factor = plan.size_factor
    size = f"take {100 * factor:.4g} % of the usual size" if factor is not None else ""
    words = {"force_exit": "close the position", "skip_trade": "do not enter", "reduce": size, "alert": "alert"}
    given = ", ".join(f"{field_name(str(name))} {value}" for name, value in plan.parameters.items())
    return f"{words.get(plan.action) or size or 'adjust'}{': ' if given else ''}{given}"


class PlanIdea(NamedTuple):
    """A plan that beliefs suggest, in the shape of a plan that was made."""

    action: str
    size_factor: float | None
    parameters: Mapping[str, Any]
    trigger_condition: Mapping[str, Any]
    reasoning: str
    sources: Sequence[str]


def plan_idea(plan: SuggestedPlan) -> PlanIdea:
    """The idea of a plan that beliefs suggest."""
    action = dict(plan.planned_action)
    kind, factor = action.pop("type"), action.pop("size_factor", None)
    return PlanIdea(kind, factor, action, plan.trigger_condition, plan.reasoning, plan.sources)


# ---- situations ----------------------------------------------------------------------------------------------------------


def situation_text(episode: object) -> Iterator[tuple[str, str]]:
    """The known values of the situation at a trade's entry, with their names.

    >>> from types import SimpleNamespace
    >>> dict(situation_text(SimpleNamespace(regime="trending_up", drawdown_pct=0.0543, price=56.137)))
    {'regime': 'trending up', 'price': '56.137', 'drawdown': '5.4 %'}
    """
    for field in SITUATION:
        value = getattr(episode, field, None)
        if value is None:
            continue
        if field == "drawdown_pct" and not isinstance(value, str):
            yield field_name(field), show_percent(value)
        elif isinstance(value, float):
            yield field_name(field), show_price(f"{value:.8g}")
        else:
            yield field_name(field), show_label(value)


# ---- habits --------------------------------------------------------------------------------------------------------------


class Habit(NamedTuple):
    """How a figure of the behaviour appears: its name, its meaning, its unit."""

    name: str
    meaning: str
    unit: str  # share, signed share, R, time, score, times or plain


HABITS: Mapping[str, Mapping[str, Habit]] = {
    "Outcomes": {
        "win_rate": Habit("Win rate", "share of trades that won", "share"),
        "expected_win_rate": Habit("Win rate before", "before the window: the expected rate", "share"),
        "mean_r": Habit("Mean outcome", "mean outcome per trade", "R"),
        "expected_mean_r": Habit("Mean outcome before", "before the window: the expected outcome", "R"),
    },
    "Timing": {
        "entry_timing": Habit("Entry timing", "−1 early, +1 late, compared with the decision", "score"),
        "exit_timing": Habit("Exit timing", "−1 early, +1 late, compared with the target", "score"),
        "mean_hold_minutes": Habit("Mean holding time", "entry to exit", "time"),
        "momentum_bias": Habit("Momentum bias", "−1 against the move before entry, +1 with it", "score"),
    },
    "Sizing": {
        "kelly": Habit("Kelly fraction", "of equity, from the trades before the window", "share"),
        "size_v_kelly": Habit("Size compared with Kelly", "mean risk as a multiple of the Kelly fraction", "times"),
        "size_variation": Habit("Size variation", "spread of the risk as a share of its mean", "share"),
        "stability": Habit("Stability", "0 to 1: how similar the two halves of the window are", "plain"),
    },
    "Reactions": {
        "disposition": Habit("Losers held longer", "how much longer than winners", "signed share"),
        "bracket": Habit("Expected from stop and target", "how much longer stop and target alone hold losers", "signed share"),
        "disposition_effect": Habit("Disposition effect", "share of gains realised minus that of losses (Odean)", "signed share"),
        "loss_aversion": Habit("Loss aversion", "how much less it risks after a loss than after a win", "signed share"),
        "recency_bias": Habit("Recency bias", "−1 to +1: how closely size follows the latest outcomes", "score"),
    },
}  # fmt: skip


def figure_text(habit: Habit, value: float, outcome_unit: str = "R") -> tuple[str, str]:
    """A figure as a page shows it, and its unit.

    >>> figure_text(HABITS["Sizing"]["size_v_kelly"], 0.0413249), figure_text(HABITS["Outcomes"]["mean_r"], -0.2)
    (('0.041', '× Kelly'), ('−0.20', 'R'))
    """
    if habit.unit == "time":
        return show_duration(value), ""
    if habit.unit == "share":
        return show_amount(100 * value, 1), "%"
    if habit.unit == "signed share":
        return show_signed(100 * value, 1), "%"
    if habit.unit == "R":
        return show_signed(value), outcome_unit
    if habit.unit == "times":
        return show_digits(value, 2), "× Kelly"
    return (show_amount(value), "") if habit.unit == "plain" else (show_signed(value), "")


DRIFTS: Mapping[str, tuple[str, str]] = {
    "outcome": ("Outcomes", "the latest 30 trades against those before"),
    "risk": ("Risk taken", "the latest 30 trades against those before"),
    "hold": ("Time held", "the latest 30 trades against those before"),
}


# ---- lessons and briefs --------------------------------------------------------------------------------------------------

SLOTS: Mapping[str, str] = {
    "entry_timing": "Entry timing", "sizing": "Sizing", "symbol_selection": "Symbol selection", "exit_timing": "Exit timing",
    "regime_fit": "Regime fit",
}  # fmt: skip
LESSONS: Mapping[str, str] = {
    "shown": "shown", "hint": "hint, not shown to the agent", "held_back": "held back", "retired": "retired",
    "expired": "expired",
}  # fmt: skip
CHANGES: Mapping[str, str] = {"added": "added", "removed": "removed", "changed": "changed", "kept": "unchanged"}
ASKED_BY: Mapping[str, str] = {"cadence": "the schedule", "owner": "you", "model": "a model"}
TEACHING: Mapping[str, tuple[str, str]] = {
    "learn": ("normal", "counts in every figure"),
    "wrong_reason": ("wrong reason", "the outcome had another cause than the stated reason: does not count for entries"),
    "structural": ("structural", "a halt, an outage or a roll caused the outcome: does not count for exits and sizes"),
    "anomaly": ("anomaly", "will not happen again: counts in no figure"),
    "exclude": ("excluded", "counts in no figure"),
}
SEGMENTS: Mapping[str, str] = {
    "header": "Introduction", "limits": "Limits and avoid rules", "strategy": "Strategy", "lessons": "Lessons",
    "footer": "Answer format", "rules": "Rules", "recent_trades": "Recent trades", "open_positions": "Open positions",
    "risk_state": "Risk state", "memory": "From memory", "similar": "Similar situations",
}  # fmt: skip
CADENCES: Mapping[str, str] = {"off": "never", "per_n_trades": "after every N closed trades", "daily": "daily, at an hour (UTC)"}


# ---- runs ----------------------------------------------------------------------------------------------------------------

RUN_KINDS: Mapping[str, str] = {
    "scheduled": "scheduled", "manual": "started by hand", "chat": "chat", "re-examination": "re-examination",
    "council": "council member",
}  # fmt: skip
RUN_RESULTS: Mapping[str, tuple[str, str]] = {
    "running": ("running", "The agent is at work."),
    "ok": ("finished", "The agent answered."),
    "failed": ("failed", "The agent gave no answer that could be used."),
    "lost": ("lost", "The process that ran the agent ended before the answer came."),
    "stopped": ("not run", "The limit of the day was reached before the run began."),
}
DECISION_STATUSES: Mapping[str, tuple[str, str]] = {
    "pending": ("waiting for entry", "Not entered yet: its price was not reached, or no price bar has come since."),
    "open": ("open", "Entered; neither stop nor target was reached yet."),
    "resolved": ("closed", "Its outcome is known."),
    "expired": ("expired", "Its time ran out before stop or target was reached."),
}
DECISION_CAUSES: Mapping[str, str] = {
    "stop": "stop hit", "target": "target hit", "closed": "closed by hand", "expiry": "time ran out",
    "unfilled": "entry never filled",
}  # fmt: skip
OUTCOME_ORIGINS: Mapping[str, str] = {
    "bars": "followed on the price bars", "trade": "from the trade in the ledger", "stated": "stated by you",
}  # fmt: skip


def slot_name(name: str) -> str:
    """The name of a slot of a card.

    >>> slot_name("watch_for"), slot_name("stop")
    ('Watch for', 'Stop')
    """
    return name.replace("_", " ").capitalize()


def lesson_unit(slot: str, figures: LessonFigures, currency: str) -> str:
    """The unit of the figures of a lesson. A size is a multiple of the usual size, so the mean of all trades is 1.

    >>> from types import SimpleNamespace as Figures
    >>> (lesson_unit("sizing", Figures(unit="R", rest=1.0), "USD"),
    ...  lesson_unit("regime_fit", Figures(unit="typical losses of $4.10", rest=2.5), "USD"))
    ('× the usual risk', 'typical losses of $4.10')
    """
    if slot == "sizing" and figures.rest == 1.0:
        return "× the usual risk"
    # Notes from before the unit was named are in the account currency.
    return currency if figures.unit == "account" else figures.unit


def next_reflection(reflection: ReflectionConfig, closed: int) -> str:
    """When lessons are computed next, if they are not due already.

    >>> from memtape.core.skills import ReflectionConfig
    >>> next_reflection(ReflectionConfig(cadence="per_n_trades", everyNTrades=10), 34)
    'when 40 trades have closed (34 so far, 6 to go)'
    >>> next_reflection(ReflectionConfig(cadence="daily", dailyHourUtc=8), 34)
    'at the next 08:00 UTC, if a trade has closed by then'
    """
    if reflection.cadence == "off":
        return "not scheduled: the cadence of its skill is off"
    if reflection.cadence == "daily":
        return f"at the next {reflection.dailyHourUtc:02d}:00 UTC, if a trade has closed by then"
    every = reflection.everyNTrades
    then = (closed // every + 1) * every
    return f"when {then} trades have closed ({closed} so far, {then - closed} to go)"


FILTERS: Mapping[str, Callable[..., object]] = {
    "condition": condition_text, "action": action_text, "situation_values": situation_text, "slot_name": slot_name,
}  # fmt: skip
LABELS: Mapping[str, object] = {
    "statuses": STATUSES, "factor_names": FACTORS, "slots": SLOTS, "lesson_statuses": LESSONS,
    "change_names": CHANGES, "run_kinds": RUN_KINDS, "run_results": RUN_RESULTS, "decision_statuses": DECISION_STATUSES,
    "decision_causes": DECISION_CAUSES, "outcome_origins": OUTCOME_ORIGINS,
    "asked_by": ASKED_BY, "lesson_unit": lesson_unit, "teaching": TEACHING, "segment_names": SEGMENTS,
}  # fmt: skip
