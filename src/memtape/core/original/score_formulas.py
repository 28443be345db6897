"""Scores exactly as the original text gives them: `rank_7_4` (profile `owm-literal`) and `rank_3_3`.

They differ from memtape's own scores (`core/recall/scoring.py`) in the scale of an outcome, in similarity, in the age of a
memory, and in affect, which also depends on losing streaks.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from datetime import datetime

from memtape.core.observed import Situation
from memtape.core.original.likeness import similarity_2_6, similarity_7_4
from memtape.core.recall.scoring import (
    NEUTRAL_QUALITY,
    SIGMA_FLOOR,
    SIGMA_UNKNOWN,
    AffectInputs,
    Components,
    Scored,
    ScoringInput,
    affect_factor,
    confidence_factor,
    days_since,
    fade,
    faded,
    in_score_order,
    outcome_quality,
    quality_of_belief,
    quality_of_plan,
)
from memtape.core.statistics import mean, spread


def sigma_rms(pnl_rs: Sequence[float | None]) -> float:
    """Returns the original scale of Q: the root mean square of the candidates' own outcomes, at least ½.

    >>> sigma_rms([]), sigma_rms([0.1, None]), round(sigma_rms([3.0, -1.0]), 6)
    (1.5, 0.5, 2.236068)
    """
    known = [r for r in pnl_rs if r is not None]
    return max(SIGMA_FLOOR, math.sqrt(math.fsum(r * r for r in known) / len(known))) if known else SIGMA_UNKNOWN


def sigma_sd(pnl_rs: Sequence[float | None], ddof: int = 1) -> float:
    """Returns the standard deviation of outcomes, without a minimum; 1.5 if there are too few."""
    known = [r for r in pnl_rs if r is not None]
    return spread(known, ddof) if len(known) > ddof else SIGMA_UNKNOWN


def recency_by_whole_days(formed: datetime | None, as_of: datetime, tau_days: float = 30.0, exponent: float = 0.5) -> float:
    """Returns Rec of the original text: the age is truncated to whole days."""
    return NEUTRAL_QUALITY if formed is None else faded(math.floor(days_since(formed, as_of)), tau_days, exponent)


def affect_7_4(pnl_r: float | None, drawdown_state: float, consecutive_losses: int, alpha: float = 0.3) -> float:
    """Returns Aff in the second original form: a deep drawdown, or else a losing streak, changes the weight of some memories.

    >>> affect_7_4(-2.0, 0.6, 0), affect_7_4(-1.0, 0.2, 3), affect_7_4(None, 0.2, 3)
    (1.15, 0.94, 1.0)
    """
    if drawdown_state <= 0.5 and consecutive_losses >= 3 and pnl_r is not None and pnl_r != 0:
        return 1.0 + alpha * (0.3 if pnl_r > 0 else -0.2)
    return affect_factor(pnl_r, drawdown_state, alpha)


def affect_3_2(pnl_r: float | None, drawdown_state: float, consecutive_losses: int, alpha: float = 0.3) -> float:
    """Returns Aff in the first original form: as 7.4, but a streak also lowers scratches and memories without an outcome."""
    if drawdown_state <= 0.5 and consecutive_losses >= 3:
        return 1.0 + alpha * (0.3 if pnl_r is not None and pnl_r > 0 else -0.2)
    return affect_factor(pnl_r, drawdown_state, alpha)


def retrieval_bias_2_4(pnl_r: float | None, drawdown_state: float) -> float:
    """Returns the boost that the original text gives as an alternative to Aff."""
    if pnl_r is not None and pnl_r > 0 and drawdown_state > 0.5:
        return 1.3
    return 1.5 if pnl_r is not None and pnl_r < -2 and drawdown_state > 0.3 else 1.0


def sharpe_weight(pnl_rs: Sequence[float | None], window_days: float, ddof: int = 1) -> tuple[float | None, float]:
    """Returns the Sharpe ratio of a period and its original weight, ½ to 2; 1 if fewer than five trades are known."""
    known = [r for r in pnl_rs if r is not None]
    if len(pnl_rs) < 5 or len(known) <= ddof or not (deviation := spread(known, ddof)):
        return None, 1.0
    sharpe = mean(known) / deviation * math.sqrt(252.0 / window_days)
    return sharpe, 0.5 + 0.5 * min(3.0, max(0.0, sharpe))


def rank_7_4(
    candidates: Sequence[ScoringInput], query: Situation, affect: AffectInputs, as_of: datetime, sigma_r: float | None = None
) -> list[Scored]:
    """Returns every candidate by the second original form, best first. Q of a belief is ½.

    Sigma is the RMS of all candidates, also if only the best of them are ranked.
    """
    sigma = sigma_rms([c.pnl_r for c in candidates]) if sigma_r is None else sigma_r

    def components(c: ScoringInput) -> Components:
        return Components(
            outcome_quality(c.pnl_r, sigma),
            similarity_7_4(c.situation, query),
            fade(c, as_of),
            confidence_factor(c.confidence),
            affect_7_4(c.pnl_r, affect.drawdown_state, affect.consecutive_losses),
        )

    return in_score_order(candidates, components)


def rank_3_3(
    candidates: Sequence[ScoringInput], query: Situation, affect: AffectInputs, as_of: datetime, sigma_r: float = SIGMA_UNKNOWN
) -> list[Scored]:
    """Returns every candidate by the first original form, best first: Q by kind, similarity of 2.6, Aff of 3.2."""
    by_id = {c.id: c for c in candidates}

    def components(c: ScoringInput) -> Components:
        return Components(
            _quality_by_kind(c, by_id, sigma_r),
            similarity_2_6(c.situation, query),
            fade(c, as_of),
            confidence_factor(_posterior(c) if c.kind == "semantic" else c.confidence),
            affect_3_2(c.pnl_r, affect.drawdown_state, affect.consecutive_losses),
        )

    return in_score_order(candidates, components)


def _quality_by_kind(c: ScoringInput, by_id: Mapping[str, ScoringInput], sigma_r: float) -> float:
    if c.kind == "semantic":
        return _posterior(c)
    if c.kind == "prospective":
        sources = [by_id[source] for source in c.source_ids if source in by_id and source != c.id]
        of = [_posterior(s) if s.kind == "semantic" else outcome_quality(s.pnl_r, sigma_r) for s in sources]
        return quality_of_plan(NEUTRAL_QUALITY if c.priority is None else c.priority, of)
    return outcome_quality(c.pnl_r, sigma_r)


def _posterior(c: ScoringInput) -> float:
    if c.alpha is None or c.beta is None:
        return NEUTRAL_QUALITY if c.confidence is None else c.confidence
    return quality_of_belief(c.alpha, c.beta)
