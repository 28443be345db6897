"""Explains in one sentence, in a trader's words, why a memory is shown.

>>> age_phrase(0.2), age_phrase(1.0), age_phrase(3.4), age_phrase(400.0)
('5 hours ago', '1 day ago', '3 days ago', '13 months ago')
>>> r_phrase(2.44), r_phrase(-1.0), r_phrase(0.0), r_phrase(None)
('+2.4R', '-1R', '0R', 'outcome unknown')
"""

from __future__ import annotations

import math

from memtape.core.memory.beliefs import Belief
from memtape.core.memory.episodes import NOT_TAUGHT, Episode, believed_outcome
from memtape.core.memory.situation import DRAWDOWN_BANDWIDTH, NUMBERS
from memtape.core.observed import ANY, Situation
from memtape.core.recall.query import PlanMemory, Query, age_days, compared_fields, last_tested
from memtape.core.recall.scoring import Components

LABEL_WORDS = {"regime": "regime", "volatility_regime": "volatility", "session": "session"}
MEASURED = {
    "atr_d1": "ATR", "atr_h1": "hourly ATR", "spread_as_atr_pct": "spread", "drawdown_pct": "drawdown", "price": "price",
}  # fmt: skip
SAME_BANDWIDTHS = 0.1  # in bandwidths; a smaller difference counts as none


def explain_episode(episode: Episode, query: Query) -> str:
    """Returns what an episode has in common with now, its age, its outcome, and the largest difference.

    The outcome of a shadow is hypothetical; an unverified claim is marked as such.
    """
    then, now = compared_fields(episode, query)
    parts = [similarity_phrase(then, now), age_phrase(age_days(episode.exit_at, query)), outcome_phrase(episode, query)]
    text = ", ".join(part for part in parts if part)
    other = "" if query.here in (None, episode.symbol) else f" in {episode.symbol}"
    different = difference_phrase(then, now, per_price=bool(other))
    return f"{text[:1].upper()}{text[1:]}{other}{f'; {different}' if different else ''}"


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
    outcome = r_phrase(believed_outcome(episode, query.claims_count)) if episode else "a belief"
    text = {
        "quality": f"Its outcome counts for less ({outcome})",
        "similarity": "Its situation is less like the present one",
        "recency": "It is older" if episode else "It was tested longer ago",
        "confidence": "The decision was less sure",
        "affect": "The present drawdown brings others nearer",
        "sharpe": "The weeks before it went less well",
    }[cost]
    return f"{text}: {mine:.2f} against {theirs:.2f}"


def outcome_phrase(episode: Episode, query: Query) -> str:
    """Returns the believed outcome of an episode."""
    r = believed_outcome(episode, query.claims_count)
    if r is None and episode.pnl_r is not None:
        return f"{r_phrase(episode.pnl_r)} claimed but unverified"
    text = f"decided against, would have been {r_phrase(r)}" if episode.kind == "shadow" else r_phrase(r)
    claimed = " as claimed" if episode.claimed else ""
    return f"{text}{claimed}{' (set aside by the owner)' if episode.teach in NOT_TAUGHT else ''}"


def similarity_phrase(then: Situation, now: Situation) -> str:
    """Returns which labels are the same, and which are not."""
    pairs = [(label, getattr(then, name), getattr(now, name)) for name, label in LABEL_WORDS.items()]
    known = [(label, a, b) for label, a, b in pairs if a is not None and b is not None]
    same = [label for label, a, b in known if a == b or ANY in (a, b)]
    other = [f"{a} {label}" for label, a, b in known if label not in same]
    if not known:
        return "situation not labelled"
    return ", ".join([*([f"same {_listed(same)}"] if same else []), *([f"then {_listed(other)}"] if other else [])])


def difference_phrase(then: Situation, now: Situation, per_price: bool) -> str:
    """Returns the number that differs most, as similarity measures it."""
    found: list[tuple[float, str]] = []
    for name, _, width in NUMBERS:
        a, b, label = getattr(then, name), getattr(now, name), MEASURED[name]
        if not isinstance(a, float | int) or not isinstance(b, float | int):
            continue
        if name == "drawdown_pct":
            found.append((abs(a - b) / DRAWDOWN_BANDWIDTH, f"drawdown {100 * a:.0f} % against {100 * b:.0f} % now"))
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
            return "just now" if not count else f"{count} {unit}{'' if count == 1 else 's'} ago"
    return ""


def r_phrase(r: float | None) -> str:
    """Returns an outcome as a phrase."""
    if r is None:
        return "outcome unknown"
    return "0R" if abs(r) < 0.05 else f"{r:+.1f}".removesuffix(".0") + "R"


def _listed(names: list[str]) -> str:
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)
