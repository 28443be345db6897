"""One memory in every form: the factors of its score as we compute them, and as the original computes them in each of its places.

The original text gives several forms of one thing that do not agree: likeness in 2.6 and 7.4, affect in 3.2 and 7.4 and a
boost in 2.4, ages in whole days or not, two yardsticks of an outcome, a Sharpe weight that looks at what came after. None of
them is followed; side by side they show what a choice is worth.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from memtape.core import scoring
from memtape.core.episodes import Episode, outcome
from memtape.core.query import Query, likeness
from memtape.core.situation import similarity_2_6, similarity_7_4

HALF_WINDOW = timedelta(days=15)


@dataclass(frozen=True, slots=True)
class Form:
    """A factor in one form."""

    factor: str  # Q, Sim, Rec, Conf, Aff, Sharpe, sigma, Score
    form: str  # ours, or where the original has it
    value: float
    note: str = ""


def forms(episode: Episode, known: Sequence[Episode], query: Query) -> list[Form]:
    """The factors of one episode in every form, among the episodes known then."""
    r, now, mood = outcome(episode, query.claims_count), query.situation, query.mood
    closed = [(e.exit_at, x) for e in known if e.teaches and (x := outcome(e, query.claims_count)) is not None]
    outcomes = [x for _, x in closed]
    sigmas = {
        "ours": scoring.sigma_known(closed, query.as_of), "7.4": scoring.sigma_rms(outcomes), "3.2": scoring.sigma_sd(outcomes),
    }  # fmt: skip
    found = [Form("sigma", form, value) for form, value in sigmas.items()]
    found += [Form("Q", form, scoring.quality(r, sigmas[form], query.parameters.k)) for form in sigmas]
    found.append(Form("Q", "balanced", scoring.salience(r, sigmas["ours"]), "how much it mattered either way"))
    then = episode.situation
    found += [
        Form("Sim", "ours", likeness(episode, query)), Form("Sim", "7.4", similarity_7_4(then, now)),
        Form("Sim", "2.6", similarity_2_6(then, now)),
        Form("Rec", "ours", scoring.recency(episode.exit_at, query.as_of), "as in 7.4"),
        Form("Rec", "3.2", scoring.recency_by_whole_days(episode.exit_at, query.as_of), "age cut to whole days"),
        Form("Conf", "ours", scoring.confidence_factor(episode.confidence), "as in 7.4"),
        Form("Aff", "ours", scoring.affect(r, mood.drawdown_state)),
        Form("Aff", "7.4", scoring.affect_7_4(r, mood.drawdown_state, mood.consecutive_losses)),
        Form("Aff", "3.2", scoring.affect_3_2(r, mood.drawdown_state, mood.consecutive_losses)),
        Form("Aff", "2.4", scoring.retrieval_bias_2_4(r, mood.drawdown_state), "in place of Aff, never beside it"),
    ]  # fmt: skip
    found += _sharpe(episode, closed, query)
    return found + _scores(episode, query, sigmas)


def _sharpe(episode: Episode, closed: Sequence[tuple[datetime, float]], query: Query) -> list[Form]:
    days = query.parameters.sharpe_window_days
    before = [x for at, x in closed if episode.exit_at - timedelta(days=days) <= at < episode.exit_at]
    around = [x for at, x in closed if abs(at - episode.exit_at) <= HALF_WINDOW]
    return [
        Form("Sharpe", "ours", scoring.sharpe_weight_cautious(before, days)[1], f"{len(before)} trades before it; off here"),
        Form("Sharpe", "3.6", scoring.sharpe_weight(around, days)[1], f"{len(around)} trades around it, later ones too"),
    ]  # fmt: skip


def _scores(episode: Episode, query: Query, sigmas: dict[str, float]) -> list[Form]:
    candidate = scoring.Candidate(
        id=episode.id, formed=episode.exit_at, situation=episode.situation, pnl_r=outcome(episode, query.claims_count),
        confidence=episode.confidence,
    )  # fmt: skip
    (second,) = scoring.rank_7_4([candidate], query.situation, query.mood, query.as_of, sigmas["7.4"])
    (first,) = scoring.rank_3_3([candidate], query.situation, query.mood, query.as_of)
    return [Form("Score", "7.4", second.score), Form("Score", "3.3", first.score, "sigma 1.5, likeness of 2.6, Aff of 3.2")]
