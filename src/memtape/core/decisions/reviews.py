"""Reviews: an agent's own past decisions as short lines, with a tally and a hit rate over all of them.

A line says how long ago, what, why, what came of it, and how sure the latest re-examination was. An agent that reviews its
decisions reads these few lines and no transcripts.

>>> from datetime import UTC, datetime
>>> now = datetime(2026, 3, 10, 12, tzinfo=UTC)
>>> wait = ReviewedCard(id="d1", decided_at=now.replace(day=8), type="trade-decision", action="WAIT", thesis="range unresolved")
>>> bought = ReviewedCard(id="d2", decided_at=now.replace(hour=9), type="trade-decision", action="buy",
...                       thesis="Breakout, retested.", status="resolved", cause="target", r=Decimal(2),
...                       examinations=(ConvictionScore(now, 62),))
>>> review = review_lines([wait, bought], now)
>>> print(*review.lines, review.tally, review.hit_rate, sep="\\n")
3h ago · BUY · Breakout, retested · target +2.0R · conviction 62
2d ago · WAIT · range unresolved
2 decisions: 1 won, 1 without outcome
hit rate 100 % (n=1)
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from decimal import ROUND_HALF_EVEN, Decimal
from fractions import Fraction
from typing import Literal

from memtape.core.brief.number_format import format_count
from memtape.core.codec import micros
from memtape.core.decisions.outcomes import NOT_TAKEN
from memtape.core.value_class import dataclass
from memtape.core.values import MONEY

DEFAULT_LINES = 5
GIST_WORDS = 8
TENTH = Decimal("0.1")
OutcomeStatus = Literal["pending", "open", "resolved", "expired"]
# In the order in which a tally names them.
TALLY_GROUPS = ("won", "lost", "flat", "open", "pending", "unfilled", "would have won", "would have lost", "without outcome")


@dataclass(frozen=True, slots=True)
class ConvictionScore:
    """The score of one re-examination: 0 says that the decision is refuted, 100 that it is confirmed."""

    at: datetime
    score: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ReviewedCard:
    """A decision as a review reads it. `status`, `cause` and `r` are its outcome at the moment of the review."""

    id: str
    decided_at: datetime
    type: str
    action: str | None = None
    thesis: str | None = None
    reason: str | None = None
    title: str | None = None
    status: OutcomeStatus | None = None
    cause: str | None = None  # stop, target, expiry, unfilled
    r: Decimal | None = None
    examinations: tuple[ConvictionScore, ...] = ()
    counts: bool = True  # False: the outcome is shown in the line and enters no figure


@dataclass(frozen=True, slots=True, kw_only=True)
class Review:
    """The lines of a review, and the figures over all decisions known."""

    lines: tuple[str, ...]
    tally: str
    hit_rate: str
    counts: Mapping[str, int]  # by the groups of TALLY_GROUPS, zeros included
    n: int  # decisions that the hit rate rests on


def review_lines(cards: Iterable[ReviewedCard], now: datetime, limit: int = DEFAULT_LINES) -> Review:
    """Returns the newest decisions known at a moment as lines, and the tally of all of them."""
    known = sorted((card for card in cards if card.decided_at <= now), key=lambda card: (-micros(card.decided_at), card.id))
    found = Counter(map(_group, known))
    counts = {group: found[group] for group in TALLY_GROUPS}
    n = counts["won"] + counts["lost"] + counts["flat"]
    named = ", ".join(f"{count} {group}" for group, count in counts.items() if count)
    # A fraction rounds exactly, half to even; 62.5 % as a float could be a neighbour.
    rate = f"{round(Fraction(100 * counts['won'], n))} %" if n else "unknown"
    return Review(
        lines=tuple(review_line(card, now) for card in known[: max(limit, 0)]),
        tally=f"{format_count(len(known), 'decision')}: {named}" if known else "no decisions yet",
        hit_rate=f"hit rate {rate} (n={n})",
        counts=counts,
        n=n,
    )


def review_line(card: ReviewedCard, now: datetime) -> str:
    """Returns one decision as a line: age, action, gist, outcome, latest conviction; what is empty is left out."""
    action = _capitals(card.action or "") or _capitals(card.type)
    known = [each for each in card.examinations if each.at <= now]
    # Of several at one moment the one given last: max would return the first.
    latest = max(reversed(known), key=lambda each: each.at, default=None)
    conviction = f"conviction {latest.score}" if latest is not None else ""
    parts = (age_ago(now - card.decided_at), action, _gist(card), _outcome(card), conviction)
    return " · ".join(part for part in parts if part)


def age_ago(age: timedelta) -> str:
    """Returns how long ago something was, in whole units, rounded down.

    >>> [age_ago(timedelta(seconds=s)) for s in (59, 60, 3599, 3600, 86399, 86400, 30 * 86400)]
    ['just now', '1m ago', '59m ago', '1h ago', '23h ago', '1d ago', '30d ago']
    """
    minutes = age // timedelta(minutes=1)
    if minutes < 1:
        return "just now"
    if minutes < 60:
        return f"{minutes}m ago"
    return f"{minutes // 60}h ago" if minutes < 24 * 60 else f"{minutes // (24 * 60)}d ago"


def r_text(r: Decimal) -> str:
    """Returns a result in R with its sign and one decimal, rounded half to even.

    >>> [r_text(Decimal(r)) for r in ("2", "-1.25", "0.35", "0.25", "-0.04", "0")]
    ['+2.0R', '-1.2R', '+0.4R', '+0.2R', '0.0R', '0.0R']
    """
    rounded = r.quantize(TENTH, ROUND_HALF_EVEN, context=MONEY)
    return f"{rounded:+f}R" if rounded else "0.0R"


def _is_not_taken(card: ReviewedCard) -> bool:
    return (card.action or "").lower() in NOT_TAKEN


def _capitals(text: str) -> str:
    return " ".join(text.replace("_", " ").replace("-", " ").split()).upper()


def _gist(card: ReviewedCard) -> str:
    words = next((words for text in (card.thesis, card.reason, card.title) if (words := (text or "").split())), [])
    return " ".join(words[:GIST_WORDS]).rstrip(" .,;:") + ("…" if len(words) > GIST_WORDS else "")


def _outcome(card: ReviewedCard) -> str:
    if card.status is None:
        return ""
    # What ended a resolved decision says more than that it is resolved.
    word = (card.cause or card.status) if card.status == "resolved" else card.status
    result = "unfilled" if card.cause == "unfilled" else r_text(card.r) if card.r is not None else ""
    shadow = "shadow" if _is_not_taken(card) else ""
    return " ".join(part for part in (shadow, word, result) if part)


def _group(card: ReviewedCard) -> str:
    """Returns the group of the tally that a decision counts in."""
    if card.status is None or not card.counts:
        return "without outcome"
    if _is_not_taken(card):
        return "without outcome" if not card.r else "would have won" if card.r > 0 else "would have lost"
    if card.status in ("open", "pending"):
        return card.status
    if card.r is None:
        return "unfilled" if card.cause == "unfilled" else "without outcome"
    return "won" if card.r > 0 else "lost" if card.r < 0 else "flat"
