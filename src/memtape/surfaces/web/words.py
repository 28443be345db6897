"""What memory holds, in the words of a desk: triggers as sentences, actions, situations, and the name of every figure.

>>> condition_text({"all": [{"field": "regime", "op": "eq", "value": "ranging"}, {"field": "drawdown_pct", "op": "gt",
...     "value": 0.1}]})
'regime is ranging and drawdown is above 10 %'
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

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

FACTORS: Mapping[str, str] = {
    "Q": "outcome", "Sim": "likeness", "Rec": "freshness", "Conf": "confidence", "Aff": "state of mind", "Sharpe": "Sharpe",
}  # fmt: skip
STATUSES: Mapping[str, str] = {
    "believed": "believed", "candidate": "candidate", "merged": "merged", "split": "split", "retired": "retired",
    "proposed": "proposed", "active": "active", "triggered": "fired its last", "expired": "expired", "cancelled": "cancelled",
    "superseded": "superseded",
}  # fmt: skip
OUTCOMES: Mapping[str, str] = {
    "verified": "Outcomes are verified by the broker's records.",
    "claimed": "Outcomes are the agent's own claims: it has no broker to verify them.",
}
_OPS: Mapping[str, str] = {
    "eq": "is", "ne": "is not", "lt": "is below", "le": "is at most", "gt": "is above", "ge": "is at least", "in": "is one of",
    "nin": "is none of", "crosses_above": "rises above", "crosses_below": "falls below",
}  # fmt: skip
_FIELDS: Mapping[str, str] = {
    "atr_d1": "ATR (day)", "atr_h1": "ATR (hour)", "atr_m5": "ATR (5 min)", "atr_ratio_h1_d1": "ATR hour / day",
    "volatility_regime": "volatility", "hour_utc": "hour (UTC)", "spread_as_atr_pct": "spread / ATR",
    "drawdown_pct": "drawdown", "drawdown_state": "share of the drawdown limit", "day_of_week": "weekday (0 is Monday)",
    "consecutive_wins": "number of wins in a row", "consecutive_losses": "number of losses in a row",
    "open_positions": "number of open positions",
}  # fmt: skip
SHARES = frozenset({"drawdown_pct", "drawdown_state"})
SITUATION = (
    "symbol", "regime", "volatility_regime", "session", "price", "atr_d1", "atr_h1", "drawdown_pct", "consecutive_losses",
)  # fmt: skip


def field_name(field: str) -> str:
    """A field of the situation, as it is called.

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
    return _said(read_predicate(source, None), outermost=True)


def _said(predicate: Predicate, outermost: bool = False) -> str:
    if isinstance(predicate, Condition):
        return _looked(predicate)
    if isinstance(predicate, Not):
        return f"not ({_said(predicate.part, outermost=True)})"
    if len(predicate.parts) == 1:
        return _said(predicate.parts[0], outermost)
    joined = (" and " if isinstance(predicate, AllOf) else " or ").join(_said(part) for part in predicate.parts)
    return joined if outermost or not isinstance(predicate, AllOf | AnyOf) else f"({joined})"


def _looked(one: Condition) -> str:
    name = field_name(one.field)
    if one.op == "exists":
        return f"{name} is {'known' if one.value else 'not known'}"
    if one.op == "changed":
        return f"{name} has changed"
    if isinstance(one.value, tuple):
        values = [_valued(one.field, value) for value in one.value]
        if one.op == "between":
            return f"{name} is between {values[0]} and {values[1]}"
        return f"{name} {_OPS[one.op]} {', '.join(values)}"
    return f"{name} {_OPS[one.op]} {_valued(one.field, one.value)}"


def _valued(field: str, value: Scalar | None) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return f"{100 * value:.4g} %" if field in SHARES else f"{value:.8g}"
    return show_label(value)


def action_text(plan: Mapping[str, Any]) -> str:
    """What a plan does.

    >>> (action_text({"action": "reduce", "size_factor": 0.5, "parameters": {}}),
    ...  action_text({"action": "skip_trade", "size_factor": None}))
    ('take 50 % of the usual size', 'do not enter')
    """
    factor = plan.get("size_factor")
    size = f"take {100 * factor:.4g} % of the usual size" if factor is not None else ""
    words = {"force_exit": "leave the position", "skip_trade": "do not enter", "reduce": size, "alert": "alert"}
    given = ", ".join(f"{field_name(str(name))} {value}" for name, value in (plan.get("parameters") or {}).items())
    return f"{words.get(plan['action']) or size or 'adjust'}{': ' if given else ''}{given}"


def suggested(plan: Mapping[str, Any]) -> dict[str, Any]:
    """A plan that beliefs suggest, told like one that was made."""
    asked = dict(plan["planned_action"])
    kind, factor = asked.pop("type"), asked.pop("size_factor", None)
    told = {name: plan[name] for name in ("trigger_condition", "reasoning", "sources")}
    return {"action": kind, "size_factor": factor, "parameters": asked, **told}


# ---- situations ----------------------------------------------------------------------------------------------------------


def situation_text(episode: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """What is known of the situation at a trade's entry, name and value.

    >>> dict(situation_text({"regime": "trending_up", "drawdown_pct": 0.0543, "price": 56.137}))
    {'regime': 'trending up', 'price': '56.137', 'drawdown': '5.4 %'}
    """
    for field in SITUATION:
        value = episode.get(field)
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
    """How a figure of the behaviour reads: its name, what it says, its unit."""

    name: str
    meaning: str
    unit: str  # share, signed share, R, time, score, times


HABITS: Mapping[str, Mapping[str, Habit]] = {
    "Outcomes": {
        "win_rate": Habit("Win rate", "share of the trades that won", "share"),
        "expected_win_rate": Habit("Win rate before", "before the window: what was to be expected", "share"),
        "mean_r": Habit("Mean R", "mean outcome in units of risk", "R"),
        "expected_mean_r": Habit("Mean R before", "before the window: what was to be expected", "R"),
    },
    "Timing": {
        "entry_timing": Habit("Entry timing", "−1 early, +1 late against the decision", "score"),
        "exit_timing": Habit("Exit timing", "−1 early, +1 late against the target", "score"),
        "mean_hold_minutes": Habit("Mean holding", "entry to exit", "time"),
        "momentum_bias": Habit("Momentum bias", "−1 contrarian, +1 following the move before entry", "score"),
    },
    "Sizing": {
        "kelly": Habit("Kelly's fraction", "of equity, from what was before the window", "share"),
        "size_v_kelly": Habit("Size against Kelly", "mean risk as a multiple of Kelly's fraction", "times"),
        "size_variation": Habit("Size variation", "spread of the risk as a share of its mean", "share"),
        "stability": Habit("Stability", "0 to 1: how alike the two halves of the window are", "plain"),
    },
    "Reactions": {
        "disposition": Habit("Losers held longer", "by how much longer than winners", "signed share"),
        "bracket": Habit("Hold ratio of the bracket alone", "what stop and target make of it with no behaviour", "signed share"),
        "disposition_effect": Habit("Disposition effect", "share of gains realised less share of losses (Odean)", "signed share"),
        "loss_aversion": Habit("Loss aversion", "how much less is risked after a loss than after a win", "signed share"),
        "recency_bias": Habit("Recency bias", "−1 to +1: whether size follows the latest outcomes", "score"),
    },
}  # fmt: skip


def valued(habit: Habit, value: float) -> tuple[str, str]:
    """A figure as it is shown, and its unit.

    >>> valued(HABITS["Sizing"]["size_v_kelly"], 0.0413249), valued(HABITS["Outcomes"]["mean_r"], -0.2)
    (('0.041', '× Kelly'), ('−0.20', 'R'))
    """
    if habit.unit == "time":
        return show_duration(value), ""
    if habit.unit == "share":
        return show_amount(100 * value, 1), "%"
    if habit.unit == "signed share":
        return show_signed(100 * value, 1), "%"
    if habit.unit == "R":
        return show_signed(value), "R"
    if habit.unit == "times":
        return show_digits(value, 2), "× Kelly"
    return (show_amount(value), "") if habit.unit == "plain" else (show_signed(value), "")


DRIFTS: Mapping[tuple[str, str], tuple[str, str]] = {
    ("outcome", "page-hinkley"): ("Outcomes", "against their own running mean (Page-Hinkley)"),
    ("outcome", "cusum"): ("Outcomes", "against what was before the window (CUSUM)"),
    ("risk", "page-hinkley"): ("Risk taken", "against its own running mean (Page-Hinkley)"),
    ("hold", "page-hinkley"): ("Time held", "against its own running mean (Page-Hinkley)"),
}


# ---- lessons and briefs --------------------------------------------------------------------------------------------------

SLOTS: Mapping[str, str] = {
    "entry_timing": "Entry timing", "sizing": "Sizing", "symbol_selection": "Symbol selection", "exit_timing": "Exit timing",
    "regime_fit": "Regime fit",
}  # fmt: skip
LESSONS: Mapping[str, str] = {"told": "told", "held_back": "held back", "retired": "retired", "expired": "expired"}
ASKED_BY: Mapping[str, str] = {"cadence": "the cadence", "owner": "you", "model": "a model"}
TEACHING: Mapping[str, tuple[str, str]] = {
    "learn": ("teaches", "counts in every figure"),
    "wrong_reason": ("wrong reason", "it came out for another reason than the one given: says nothing of entries"),
    "structural": ("structural", "a halt, an outage or a roll made the outcome: says nothing of exits and sizes"),
    "anomaly": ("anomaly", "will not come again: counts in no figure"),
    "exclude": ("excluded", "counts in no figure"),
}
SEGMENTS: Mapping[str, str] = {
    "header": "Who it is", "leash": "Limits and avoid rules", "strategy": "Strategy", "lessons": "Lessons",
    "footer": "What to answer", "rules": "Rules", "recent_trades": "Recent trades", "open_positions": "Open positions",
    "risk_state": "Risk state", "memory": "From memory", "similar": "Similar situations",
}  # fmt: skip
CADENCES: Mapping[str, str] = {"off": "never", "per_n_trades": "after every N closed trades", "daily": "daily, at an hour of UTC"}


def lesson_unit(slot: str, figures: Mapping[str, Any], currency: str) -> str:
    """What the figures of a lesson are counted in. A size is told as a multiple of the usual one, which is 1 by construction.

    >>> (lesson_unit("sizing", {"unit": "R", "rest": 1.0}, "USD"),
    ...  lesson_unit("exit_timing", {"unit": "account", "rest": 2.5}, "USD"))
    ('× the usual risk', 'USD')
    """
    if slot == "sizing" and figures["rest"] == 1.0:
        return "× the usual risk"
    return "R" if figures["unit"] == "R" else currency


def next_reflection(reflection: Mapping[str, Any], closed: int) -> str:
    """When lessons are drawn next, if they are not due already.

    >>> next_reflection({"cadence": "per_n_trades", "everyNTrades": 10}, 34)
    'when 40 trades have closed: 34 have, 6 to go'
    >>> next_reflection({"cadence": "daily", "dailyHourUtc": 8}, 34)
    'at the next 08:00 UTC, if a trade has closed by then'
    """
    if reflection["cadence"] == "off":
        return "never by itself: the cadence of its skill is off"
    if reflection["cadence"] == "daily":
        return f"at the next {reflection['dailyHourUtc']:02d}:00 UTC, if a trade has closed by then"
    every = reflection["everyNTrades"]
    then = (closed // every + 1) * every
    return f"when {then} trades have closed: {closed} have, {then - closed} to go"
