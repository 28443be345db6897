"""Explains in one sentence, in a trader's words, why a memory is shown.

>>> age_phrase(0.2), age_phrase(1.0), age_phrase(3.4), age_phrase(400.0)
('5 hours ago', 'yesterday', '3 days ago', '13 months ago')
>>> r_phrase(2.44), r_phrase(-1.0), r_phrase(0.0), r_phrase(None)
('+2.4R', '-1R', '0R', 'outcome unknown')
"""

from __future__ import annotations

import math
from decimal import Decimal

from memtape.core.brief.number_format import format_gain, format_price_of_unit
from memtape.core.memory.beliefs import Belief
from memtape.core.memory.episodes import NOT_TAUGHT, Episode
from memtape.core.memory.situation import DRAWDOWN_BANDWIDTH, NUMBERS
from memtape.core.observed import ANY, Situation
from memtape.core.recall.query import PlanMemory, Query, age_days, compared_fields, last_tested, outcome_for
from memtape.core.recall.scoring import Components

LABEL_WORDS = {"regime": "regime", "volatility_regime": "volatility", "session": "session"}
SESSION_WORDS = {"asia": "Asia", "london": "London", "newyork": "New York"}
MEASURED = {
    "atr_d1": "ATR", "atr_h1": "hourly ATR", "spread_as_atr_pct": "spread", "drawdown_pct": "drawdown", "price": "price",
}  # fmt: skip
SAME_BANDWIDTHS = 0.1  # in bandwidths; a smaller difference counts as none


def hidden_text(n: int) -> str:
    """Returns how many memories a model has hidden.

    >>> hidden_text(1)
    '1 memory is hidden because the agent forgot it; it still counts'
    """
    if n == 1:
        return "1 memory is hidden because the agent forgot it; it still counts"
    return f"{n} memories are hidden because the agent forgot them; they still count"


def explain_episode(episode: Episode, query: Query) -> str:
    """Returns what happened, when, what the situation had in common with now, and the largest difference.

    For example: `BTC long lost 1.1R yesterday in the same regime (ranging; London then, overlap now)`.
    """
    then, now = compared_fields(episode, query)
    when = age_phrase(age_days(episode.exit_at, query))
    different = difference_phrase(then, now, query.here not in (None, episode.symbol), query.affect.assumption)
    happened = f"{episode.symbol} {episode.side} {result_phrase(episode, query)} {when}"
    return f"{happened}{similarity_phrase(then, now)}{f'; {different}' if different else ''}"


def explain_belief(belief: Belief, query: Query) -> str:
    """Returns how often a belief held, and when it was last tested."""
    counted = f"held in {belief.confirmed} of {belief.n} trades" if belief.n else "not tested yet"
    tested = last_tested(belief)
    when = f", last tested {age_phrase(age_days(tested, query))}" if belief.n and tested else ""
    return f"{belief.sentence.rstrip('.')}: {counted}{when}; {belief.status}"


def explain_plan(plan: PlanMemory, query: Query) -> str:
    """Returns the reasoning of a plan, and its age."""
    return f"{plan.reasoning.rstrip('.')}: planned {age_phrase(age_days(plan.created_at, query))}"


def explain_near_miss(missed: Components, last: Components, episode: Episode | None, query: Query) -> str:
    """Returns the factor that cost a memory its place, compared with the last memory that has one."""
    names = ("quality", "similarity", "recency", "confidence", "affect", "sharpe")
    ratios = {name: getattr(missed, name) / getattr(last, name) if getattr(last, name) else 1.0 for name in names}
    cost = min(names, key=lambda name: ratios[name])
    mine, theirs = getattr(missed, cost), getattr(last, cost)
    if ratios[cost] >= 1.0:
        return "Equal to the last in every factor, but older or later by id"
    outcome = outcome_phrase(episode, query) if episode else "a belief"
    text = {
        "quality": f"Its outcome counts for less ({outcome})",
        "similarity": "Its situation is less like the present one",
        "recency": "It is older" if episode else "It was tested longer ago",
        "confidence": "The decision was less sure",
        "affect": "The present drawdown brings others nearer",
        "sharpe": "The weeks before it went less well",
    }[cost]
    return f"{text}: {mine:.2f} against {theirs:.2f}"


def result_phrase(episode: Episode, query: Query) -> str:
    """Returns the outcome of an episode as a verb phrase: `lost 1.1R`, `won $28.40`, `was not traded and would have won 2R`.

    The outcome of a shadow is hypothetical; an unverified claim is marked as such.
    """
    amount, positive = _amount(episode, query)
    if amount is None:
        return "ended with an unknown outcome"
    if episode.claimed and not query.claims_count:
        return f"claimed {'a gain' if positive else 'a loss'} of {amount}, unverified,"
    verb = "ended at" if positive is None else "won" if positive else "lost"
    text = f"{verb} {amount}"
    if episode.kind == "shadow":
        text = f"was not traded and would have {verb} {amount}"
    claimed = " as claimed" if episode.claimed else ""
    return f"{text}{claimed}{' (excluded by the owner)' if episode.teach in NOT_TAUGHT else ''}"


def outcome_phrase(episode: Episode, query: Query) -> str:
    """Returns the outcome of an episode with its sign: `-1.1R`, `+$28.40`, `outcome unknown`."""
    amount, positive = _amount(episode, query)
    return "outcome unknown" if amount is None else f"{'' if positive is None else '+' if positive else '-'}{amount}"


def _amount(episode: Episode, query: Query) -> tuple[str | None, bool | None]:
    """Returns the size of an outcome in words, and its sign: None for zero.

    It is in the unit of the answer. A trade without an outcome in that unit may still have one in money or in an R of its own;
    only a trade without either is unknown.
    """
    r = outcome_for(episode, query)
    by_money = query.unit is not None and query.unit.source == "money"
    if episode.pnl_usd is not None and (r is None or by_money) and (r is not None or episode.pnl_r is None):
        sign = None if format_gain(Decimal(repr(episode.pnl_usd)), "").strip(" 0.,+-") == "" else episode.pnl_usd > 0
        return format_price_of_unit(Decimal(repr(episode.pnl_usd)), query.currency), sign
    r = episode.pnl_r if r is None else r
    if r is None:
        return None, None
    return r_phrase(abs(r)).removeprefix("+") + (" by ATR" if episode.r_source == "atr_proxy" else ""), _sign(r)


def _sign(r: float) -> bool | None:
    return None if r_phrase(r) == "0R" else r > 0


def similarity_phrase(then: Situation, now: Situation) -> str:
    """Returns what the labels of two situations have in common: ` in the same regime (ranging; London then, overlap now)`."""
    pairs = [(name, getattr(then, name), getattr(now, name)) for name in LABEL_WORDS]
    known = [(name, a, b) for name, a, b in pairs if a is not None and b is not None]
    same = [(name, a if b == ANY else b) for name, a, b in known if a == b or ANY in (a, b)]
    other = [(name, a, b) for name, a, b in known if a != b and ANY not in (a, b)]
    if not known:
        return ", situation not labelled"
    before, after = (", ".join(spoken_label(name, pair[at]) for name, *pair in other) for at in (0, 1))
    differing = f"{before} then, {after} now" if len(other) == 1 else f"{before} then; {after} now"
    if not same:
        return f" in another {_listed([LABEL_WORDS[name] for name, _, _ in other])} ({differing})"
    named = ", ".join(spoken_label(name, label) for name, label in same if label != ANY)
    details = "; ".join(part for part in (named, differing if other else "") if part)
    return f" in the same {_listed([LABEL_WORDS[name] for name, _ in same])}{f' ({details})' if details else ''}"


def spoken_label(name: str, label: str) -> str:
    """Returns a label as a person writes it.

    >>> spoken_label("session", "newyork"), spoken_label("regime", "trending_up"), spoken_label("volatility_regime", "high")
    ('New York', 'trending up', 'high volatility')
    """
    words = SESSION_WORDS.get(label, label) if name == "session" else label.replace("_", " ")
    return f"{words} volatility" if name == "volatility_regime" else words


def difference_phrase(then: Situation, now: Situation, per_price: bool, assumption: str = "") -> str:
    """Returns the number that differs most, as similarity measures it. `assumption` is said beside a share of the equity."""
    found: list[tuple[float, str]] = []
    for name, _, width in NUMBERS:
        a, b, label = getattr(then, name), getattr(now, name), MEASURED[name]
        if not isinstance(a, float | int) or not isinstance(b, float | int):
            continue
        if name == "drawdown_pct":
            # The present drawdown is capped at 100 %: an account can lose more than it had, or than it is assumed to have had.
            a, b = min(a, 1.0), min(b, 1.0)
            found.append((abs(a - b) / DRAWDOWN_BANDWIDTH, f"drawdown {100 * a:.0f} % against {100 * b:.0f} % now{assumption}"))
        elif a > 0 and b > 0:
            per = " per price" if per_price and name.startswith("atr") else ""
            found.append((abs(math.log(a / b)) / math.log1p(width), f"{label}{per} {_compared(a / b)}"))
    far, text = max(found, default=(0.0, ""))
    return text if far >= SAME_BANDWIDTHS else ""


def _compared(ratio: float) -> str:
    if ratio >= 2.0:
        return f"{ratio:.1f} times as high as now"
    return f"{abs(ratio - 1.0) * 100:.0f} % {'higher' if ratio > 1 else 'lower'} than now"


def age_phrase(days: float) -> str:
    """Returns an age as a phrase."""
    for size, unit in ((1.0 / 1440.0, "minute"), (1.0 / 24.0, "hour"), (1.0, "day"), (30.4375, "month"), (365.25, "year")):
        count = round(days / size)
        if count < {"minute": 60, "hour": 24, "day": 60, "month": 24}.get(unit, 10**9):
            if unit == "day" and count == 1:
                return "yesterday"
            return "just now" if not count else f"{count} {unit}{'' if count == 1 else 's'} ago"
    return ""


def r_phrase(r: float | None) -> str:
    """Returns an outcome as a phrase."""
    if r is None:
        return "outcome unknown"
    return "0R" if abs(r) < 0.05 else f"{r:+.1f}".removesuffix(".0") + "R"


def _listed(names: list[str]) -> str:
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)
