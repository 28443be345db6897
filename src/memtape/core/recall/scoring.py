"""Scores of memories: outcome, similarity, recency, confidence and affect, multiplied.

    Score = Q · Sim · Rec · Conf · Aff

Q is high for gains (`outcome_quality`), or for large outcomes of either sign (`salience`). Sim is the similarity of the
situations. Rec falls by a power law. Conf is the confidence of the decision, scaled to ½..1. Aff depends on the agent's drawdown.

A score contains the outcome, so the highest ranks are chosen for having won. A score may order what is shown; it must never be
averaged into a win rate or a size. `evidence_weight`, which does not depend on the outcome, is for that.

`rank_balanced` reserves places for losses. The original rankings are in `core/original/score_formulas.py`. Equal scores are
ordered by time, newest first, then by id.

>>> round(outcome_quality(3.0, 1.5), 6), round(outcome_quality(-3.0, 1.5), 6), round(salience(-3.0, 1.5), 6)
(0.982014, 0.017986, 0.982014)

References: Wixted & Ebbesen 1991 (power law of forgetting); Lo 2002 (standard error of the Sharpe ratio).
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import Literal

from memtape.core.memory.situation import LABELS, NUMBERS, Labels, Numbers, similarity
from memtape.core.observed import Situation
from memtape.core.statistics import mean, spread
from memtape.core.value_class import dataclass
from memtape.errors import Invalid

SIGMA_UNKNOWN, SIGMA_FLOOR = 1.5, 0.5
NEUTRAL_QUALITY = 0.5
DAY = timedelta(days=1)
Kind = Literal["episodic", "semantic", "prospective"]


@dataclass(frozen=True, slots=True)
class Fading:
    """How a kind of memory fades: time constant and exponent of the power law."""

    tau_days: float
    exponent: float


EPISODES_FADE = Fading(30.0, 0.5)
THE_REST_FADES = Fading(180.0, 0.3)


# --- Q: the outcome -----------------------------------------------------------------------------------------------------


def sigmoid(x: float) -> float:
    """Returns 1 / (1 + e^-x) without overflow at either end."""
    if x >= 0.0:
        return 1.0 / (1.0 + math.exp(-x))
    z = math.exp(x)
    return z / (1.0 + z)


def outcome_quality(pnl_r: float | None, sigma_r: float = SIGMA_UNKNOWN, k: float = 2.0) -> float:
    """Returns Q: above ½ for a gain, below ½ for a loss, ½ without an outcome."""
    if pnl_r is None:
        return NEUTRAL_QUALITY
    return sigmoid(k * pnl_r / (sigma_r if sigma_r > 0 else SIGMA_UNKNOWN))


def salience(pnl_r: float | None, sigma_r: float = SIGMA_UNKNOWN, k: float = 2.0) -> float:
    """Returns Q of the absolute outcome: a big loss is as memorable as a big win."""
    return outcome_quality(None if pnl_r is None else abs(pnl_r), sigma_r, k)


def quality_of_belief(alpha: float, beta: float) -> float:
    """Returns Q of a belief: its posterior mean."""
    return alpha / (alpha + beta)


def quality_of_plan(priority: float, sources: Sequence[float]) -> float:
    """Returns Q of a plan: its priority times the mean Q of its sources, or times ½ without sources.

    >>> quality_of_plan(0.8, [])
    0.4
    """
    return priority * (mean(sources) if sources else NEUTRAL_QUALITY)


def sigma_known(closed: Sequence[tuple[datetime, float]], as_of: datetime, last: int = 100, at_least: int = 10) -> float:
    """Returns the scale of outcomes: the standard deviation of the last 100 closed strictly before as_of, at least ½.

    >>> from datetime import UTC
    >>> day = [datetime(2026, 1, n, tzinfo=UTC) for n in range(1, 21)]
    >>> sigma_known([(at, 1.0) for at in day[:9]], day[19]), sigma_known([(at, 1.0) for at in day], day[19])
    (1.5, 0.5)
    """
    _aware(as_of, "as_of")
    return Spread([r for exit_at, r in sorted(closed) if exit_at < as_of], last).sigma(at_least)


class Spread:
    """A running standard deviation of the last outcomes. Sums are integers in billionths of R, so the order does not matter.

    >>> spread = Spread([2.0, -1.0, 1.5, -1.0, -1.0, 3.0] * 2)
    >>> round(spread.sigma(), 6)
    1.716674
    """

    def __init__(self, outcomes: Sequence[float] = (), last: int = 100) -> None:
        self.last = last
        whole = [round(r * 1e9) for r in outcomes[-last:]]
        self._window = deque(whole)
        self._sum, self._squares = sum(whole), sum([n * n for n in whole])

    def add(self, r: float) -> None:
        """Adds an outcome and drops the oldest one beyond the window."""
        whole = round(r * 1e9)
        self._window.append(whole)
        self._sum += whole
        self._squares += whole * whole
        if len(self._window) > self.last:
            oldest = self._window.popleft()
            self._sum -= oldest
            self._squares -= oldest * oldest

    def sigma(self, at_least: int = 10) -> float:
        """Returns the standard deviation, at least ½; 1.5 if there are too few outcomes."""
        n = len(self._window)
        if n < max(at_least, 2):
            return SIGMA_UNKNOWN
        return max(SIGMA_FLOOR, math.sqrt((n * self._squares - self._sum * self._sum) / (n * (n - 1))) / 1e9)


# --- Rec, Conf, Aff -----------------------------------------------------------------------------------------------------


def recency(formed: datetime | None, as_of: datetime, tau_days: float = 30.0, exponent: float = 0.5) -> float:
    """Returns Rec, from 1 (now) towards 0. A time after `as_of` counts as now; None gives ½, as in the original.

    >>> from datetime import UTC
    >>> day = datetime(2026, 6, 5, tzinfo=UTC)
    >>> round(recency(day - 30 * DAY, day), 6), recency(day + DAY, day), recency(None, day)
    (0.707107, 1.0, 0.5)
    """
    return NEUTRAL_QUALITY if formed is None else faded(days_since(formed, as_of), tau_days, exponent)


def faded(age_days: float, tau_days: float, exponent: float) -> float:
    """Returns what is left after a time: (1 + age / tau)^-exponent."""
    return float((1.0 + age_days / tau_days) ** -exponent)


def retrieval_strength(
    age_days: float, citations: int, initial: float = 1.0, tau_days: float = 30.0, exponent: float = 0.5,
    boost_at_most: float = math.inf,
) -> float:  # fmt: skip
    """Returns recency with a boost for use; it replaces Rec and is never combined with it.

    `citations` counts the decisions that cited the memory before the tick. The profile `owm` limits the boost to 1.25.

    >>> round(retrieval_strength(90, 5), 6), retrieval_strength(0, 1000, boost_at_most=1.25)
    (0.589588, 1.25)
    """
    boost = min(1.0 + 0.1 * math.log1p(citations), boost_at_most)
    return initial * faded(age_days, tau_days, exponent) * boost


def confidence_factor(confidence: float | None) -> float:
    """Returns Conf, from ½ (unsure) to 1 (sure); unknown counts as 0.5. It changes a weight by 2:1 at most."""
    return 0.5 + 0.5 * max(0.0, min(1.0, NEUTRAL_QUALITY if confidence is None else confidence))


def affect_factor(pnl_r: float | None, drawdown_state: float, alpha: float = 0.3) -> float:
    """Returns Aff of the profile `owm`: it depends on the drawdown alone, so a losing streak never hides a loss."""
    relevance = 0.0
    if drawdown_state > 0.5 and pnl_r is not None:
        relevance = 0.5 if pnl_r < -1.5 else 0.3 if pnl_r > 2.0 else 0.0
    return 1.0 + alpha * relevance


# --- Sharpe weight: optional, never in evidence -------------------------------------------------------------------------


def sharpe_weight_cautious(
    pnl_rs: Sequence[float | None], window_days: float, z: float = 1.0, at_least: int = 10
) -> tuple[float | None, float]:
    """Returns the annual Sharpe ratio of a period, and a weight from the ratio minus z standard errors.

    The trades are those closed in the window before the memory, without the memory's own trade.
    """
    known = [r for r in pnl_rs if r is not None]
    if len(known) < max(at_least, 2) or not (deviation := spread(known)):
        return None, 1.0
    per_trade, n = mean(known) / deviation, len(known)
    error, per_year = math.sqrt((1.0 + per_trade**2 / 2.0) / n), math.sqrt(365.25 * n / window_days)
    return per_trade * per_year, 0.5 + 0.5 * min(3.0, max(0.0, (per_trade - z * error) * per_year))


# --- scores and rankings ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoringInput:
    """A memory as a formula scores it: an episode has an outcome, a belief its counts, a plan its priority and sources."""

    id: str
    kind: Kind = "episodic"
    formed: datetime | None
    situation: Situation
    pnl_r: float | None = None
    confidence: float | None = None
    alpha: float | None = None
    beta: float | None = None
    priority: float | None = None
    source_ids: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Components:
    """The factors of a score, unrounded, so that their product is the score."""

    quality: float
    similarity: float
    recency: float
    confidence: float
    affect: float = 1.0
    sharpe: float = 1.0

    @property
    def score(self) -> float:
        return self.quality * self.similarity * self.recency * self.confidence * self.affect * self.sharpe


@dataclass(frozen=True, slots=True)
class Scored:
    """A candidate with the factors of its score."""

    candidate: ScoringInput
    components: Components

    @property
    def score(self) -> float:
        return self.components.score


@dataclass(frozen=True, slots=True)
class AffectInputs:
    """The inputs of Aff."""

    drawdown_state: float = 0.0
    consecutive_losses: int = 0


def rank_balanced(
    candidates: Sequence[ScoringInput], query: Situation, as_of: datetime, sigma_r: float, limit: int, share: float = 0.4
) -> tuple[list[Scored], list[Scored]]:
    """Returns the `limit` best by salience, and all candidates scored. Places are reserved for losses and for the rest."""

    def components(c: ScoringInput) -> Components:
        return Components(
            salience(c.pnl_r, sigma_r), similarity(c.situation, query), fade(c, as_of), confidence_factor(c.confidence)
        )

    ranked = in_score_order(candidates, components)
    seats = max(0, min(math.ceil(round(share * limit, 9)), limit // 2))
    lost = [at for at, scored in enumerate(ranked) if scored.candidate.pnl_r is not None and scored.candidate.pnl_r < 0]
    won = sorted(set(range(len(ranked))) - set(lost))
    chosen = {*lost[:seats], *won[:seats]}
    free = [at for at in range(len(ranked)) if at not in chosen]
    chosen.update(free[: max(0, limit - len(chosen))])
    return [ranked[at] for at in sorted(chosen)], ranked


def evidence_weight(
    situation: Situation, query: Situation, rec: float, conf: float, power: float = 4.0, labels: Labels = LABELS,
    numbers: Numbers = NUMBERS,
) -> float:  # fmt: skip
    """Returns the weight of a trade as evidence for the present situation; it does not depend on the outcome."""
    return float(similarity(situation, query, labels, numbers) ** power * rec * conf)


def fade(candidate: ScoringInput, as_of: datetime) -> float:
    """Returns Rec by kind: episodes fade within months, beliefs and plans within years."""
    law = EPISODES_FADE if candidate.kind == "episodic" else THE_REST_FADES
    return recency(candidate.formed, as_of, law.tau_days, law.exponent)


def in_score_order(candidates: Sequence[ScoringInput], components: Callable[[ScoringInput], Components]) -> list[Scored]:
    """Returns the candidates with their scores, best first: by score to 12 significant digits, then newest, then id."""
    scored = (Scored(candidate, components(candidate)) for candidate in candidates)
    return sorted(scored, key=lambda each: score_order_key(each.score, each.candidate.formed, each.candidate.id))


def score_order_key(score: float, formed: datetime | None, id: str) -> tuple[float, float, str]:
    """Returns the sort key of every list: score to 12 significant digits, then newest, then id."""
    return -float(f"{score:.11e}"), math.inf if formed is None else -formed.timestamp(), id


def days_since(formed: datetime, as_of: datetime) -> float:
    """Returns the age of a memory in days, never below zero."""
    _aware(formed, "formed")
    _aware(as_of, "as_of")
    return max((as_of - formed) / DAY, 0.0)


def _aware(moment: datetime, field: str) -> None:
    if moment.tzinfo is None:
        raise Invalid(field, "has no time zone", "Add Z for UTC or an offset")
