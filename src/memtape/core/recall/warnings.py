"""Warnings: losses in situations like the present one, the worst first.

A ranking by score hides losses, because the score contains the outcome. Here the outcome is the reason to show a memory:

    severity = |r| · Sim · (1 + age / 365 days)^-0.3 · Conf

A loss fades slowly, and only a loss in a similar situation (Sim of 0.6 or more) warns. If there is none, the nearest loss is
shown, marked `far`: an agent that has ever lost always gets a warning. Trades that the owner excluded, and shadows, do not warn.

Losses are compared in one unit: that of the answer, unless another one knows more of them. Half of a journal may have stops and
the other half only money; then money is the unit in which no loss is overlooked.

>>> round(severity(-8.0, 0.9, 365.0, 0.75), 6)
4.386163
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from memtape.core.memory.episodes import Episode
from memtape.core.memory.outcome_units import NO_UNIT, OutcomeUnit
from memtape.core.recall.explanations import explain_episode
from memtape.core.recall.query import Query, age_days, outcome_for, situation_similarity
from memtape.core.recall.ranking import SOURCE_SHARE, Groups, apply_caps, is_capped
from memtape.core.recall.scoring import confidence_factor, faded, score_order_key
from memtape.core.value_class import dataclass

MIN_SIMILARITY = 0.6
FADING_DAYS, FADING_EXPONENT = 365.0, 0.3


@dataclass(frozen=True, slots=True, kw_only=True)
class LossWarning:
    """A loss in a situation like the present one."""

    id: str
    tier: int
    source: str
    r: float  # in the unit
    similarity: float
    severity: float
    far: bool  # True if no loss is similar and this is the nearest
    memory: Episode
    why: str
    unit: OutcomeUnit = NO_UNIT


def severity(r: float, sim: float, age: float, conf: float) -> float:
    """Returns how severe a loss is now."""
    return abs(r) * sim * faded(age, FADING_DAYS, FADING_EXPONENT) * conf


def is_loss(episode: Episode, query: Query) -> bool:
    """Returns True if a trade may teach and its believed outcome is a loss."""
    r = outcome_for(episode, query)
    return episode.teaches and r is not None and r < 0


def warning_unit(losses: Sequence[tuple[OutcomeUnit, int]], answer: OutcomeUnit | None) -> OutcomeUnit | None:
    """Returns the unit that knows most losses, from the number of losses by unit; in a tie that of the answer.

    >>> stops, money = OutcomeUnit("stop"), OutcomeUnit("money", 4.1)
    >>> warning_unit([(stops, 3), (money, 8)], stops).source, warning_unit([(stops, 3), (money, 3)], stops).source
    ('money', 'stop')
    """
    most = max((n for _, n in losses), default=0)
    best = [unit for unit, n in losses if n == most]
    return answer if answer in best or not most else best[0]


def find_warnings(episodes: Iterable[Episode], query: Query) -> tuple[LossWarning, ...]:
    """Returns the warnings, worst first. The episodes are those that are known and match, or at least the worst of them."""
    lost = [(situation_similarity(episode, query), episode) for episode in episodes if is_loss(episode, query)]
    alike = [_warned(episode, sim, query, far=False) for sim, episode in lost if sim >= MIN_SIMILARITY]
    if alike:
        worst = sorted(alike, key=lambda each: score_order_key(each.severity, each.memory.exit_at, each.id))
        return tuple(_explained(apply_caps(worst, query.warnings_limit, _source(query)), query))
    nearest = sorted(lost, key=lambda pair: score_order_key(pair[0], pair[1].exit_at, pair[1].id))[: min(1, query.warnings_limit)]
    return tuple(_explained([_warned(episode, sim, query, far=True) for sim, episode in nearest], query))


def _warned(episode: Episode, sim: float, query: Query, far: bool) -> LossWarning:
    r = outcome_for(episode, query) or 0.0
    how_bad = severity(r, sim, age_days(episode.exit_at, query), confidence_factor(episode.confidence))
    return LossWarning(id=episode.id, tier=episode.tier, source=episode.source, r=r, similarity=sim, severity=how_bad, far=far,
                  memory=episode, why="", unit=query.unit or NO_UNIT)  # fmt: skip


def _explained(warned: Sequence[LossWarning], query: Query) -> list[LossWarning]:
    return [replace(each, why=explain_episode(each.memory, query)) for each in warned]


def _source(query: Query) -> Callable[[LossWarning], Groups]:
    return lambda warned: ((warned.source, SOURCE_SHARE),) if is_capped(warned.tier, warned.memory, query) else ()
