"""Compares the factors of a score as memtape computes them with every form that the original text gives.

The original text gives several forms of a factor that do not agree: similarity in 2.6 and 7.4, affect in 3.2 and 7.4 and a boost
in 2.4, ages in whole days or not, two scales of an outcome, a Sharpe weight that looks into the future. memtape uses none of
them; the comparison shows how much the choice matters.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from memtape.core.memory.episodes import Episode, believed_outcome
from memtape.core.original import score_formulas as formulas
from memtape.core.original.likeness import similarity_2_6, similarity_7_4
from memtape.core.recall import scoring
from memtape.core.recall.query import Query, situation_similarity
from memtape.core.value_class import dataclass

HALF_WINDOW = timedelta(days=15)


@dataclass(frozen=True, slots=True)
class ScoreForm:
    """A factor in one form."""

    factor: str  # Q, Sim, Rec, Conf, Aff, Sharpe, sigma, Score
    form: str  # ours, or the section of the original text
    value: float
    note: str = ""


def score_forms(episode: Episode, known: Sequence[Episode], query: Query) -> list[ScoreForm]:
    """Returns the factors of one episode in every form, given the episodes known then."""
    r, now, affect = believed_outcome(episode, query.claims_count), query.situation, query.affect
    closed = [(e.exit_at, x) for e in known if e.teaches and (x := believed_outcome(e, query.claims_count)) is not None]
    outcomes = [x for _, x in closed]
    sigmas = {
        "ours": scoring.sigma_known(closed, query.as_of),
        "7.4": formulas.sigma_rms(outcomes),
        "3.2": formulas.sigma_sd(outcomes),
    }
    found = [ScoreForm("sigma", form, value) for form, value in sigmas.items()]
    found += [ScoreForm("Q", form, scoring.outcome_quality(r, sigmas[form], query.parameters.k)) for form in sigmas]
    found.append(ScoreForm("Q", "balanced", scoring.salience(r, sigmas["ours"]), "how much it mattered either way"))
    then = episode.situation
    found += [
        ScoreForm("Sim", "ours", situation_similarity(episode, query)), ScoreForm("Sim", "7.4", similarity_7_4(then, now)),
        ScoreForm("Sim", "2.6", similarity_2_6(then, now)),
        ScoreForm("Rec", "ours", scoring.recency(episode.exit_at, query.as_of), "as in 7.4"),
        ScoreForm("Rec", "3.2", formulas.recency_by_whole_days(episode.exit_at, query.as_of), "age cut to whole days"),
        ScoreForm("Conf", "ours", scoring.confidence_factor(episode.confidence), "as in 7.4"),
        ScoreForm("Aff", "ours", scoring.affect_factor(r, affect.drawdown_state)),
        ScoreForm("Aff", "7.4", formulas.affect_7_4(r, affect.drawdown_state, affect.consecutive_losses)),
        ScoreForm("Aff", "3.2", formulas.affect_3_2(r, affect.drawdown_state, affect.consecutive_losses)),
        ScoreForm("Aff", "2.4", formulas.retrieval_bias_2_4(r, affect.drawdown_state), "in place of Aff, never beside it"),
    ]  # fmt: skip
    found += _sharpe(episode, closed, query)
    return found + _scores(episode, query, sigmas)


def _sharpe(episode: Episode, closed: Sequence[tuple[datetime, float]], query: Query) -> list[ScoreForm]:
    days = query.parameters.sharpe_window_days
    before = [x for at, x in closed if episode.exit_at - timedelta(days=days) <= at < episode.exit_at]
    around = [x for at, x in closed if abs(at - episode.exit_at) <= HALF_WINDOW]
    return [
        ScoreForm("Sharpe", "ours", scoring.sharpe_weight_cautious(before, days)[1], f"{len(before)} trades before it; off here"),
        ScoreForm("Sharpe", "3.6", formulas.sharpe_weight(around, days)[1], f"{len(around)} trades around it, later ones too"),
    ]  # fmt: skip


def _scores(episode: Episode, query: Query, sigmas: dict[str, float]) -> list[ScoreForm]:
    candidate = scoring.ScoringInput(
        id=episode.id, formed=episode.exit_at, situation=episode.situation, pnl_r=believed_outcome(episode, query.claims_count),
        confidence=episode.confidence,
    )  # fmt: skip
    (second,) = formulas.rank_7_4([candidate], query.situation, query.affect, query.as_of, sigmas["7.4"])
    (first,) = formulas.rank_3_3([candidate], query.situation, query.affect, query.as_of)
    return [
        ScoreForm("Score", "7.4", second.score),
        ScoreForm("Score", "3.3", first.score, "sigma 1.5, likeness of 2.6, Aff of 3.2"),
    ]
