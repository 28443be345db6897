"""Which losses to keep in mind: those in situations like the present one, the worst first.

A ranking by score buries losses, for the score contains the outcome. Here the outcome is the reason to be told:

    severity = |r| · Sim · (1 + age / 365 days)^-0.3 · Conf

A loss fades slowly and only one in a situation alike (Sim of 0.6 and more) warns. Where there is none, the nearest loss is
told, marked `far`: a desk that has ever lost is never left without a warning. What the owner has set aside, and trades that
were never made, do not warn.

>>> round(severity(-8.0, 0.9, 365.0, 0.75), 6)
4.386163
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from memtape.core.episodes import Episode, outcome
from memtape.core.query import Query, age_days, likeness
from memtape.core.ranking import SOURCE_SHARE, Groups, is_capped, seated
from memtape.core.reasons import why_episode
from memtape.core.scoring import confidence_factor, faded, place

ALIKE = 0.6
LASTS_DAYS, LASTS_EXPONENT = 365.0, 0.3


@dataclass(frozen=True, slots=True, kw_only=True)
class Warned:
    """A loss to keep in mind."""

    id: str
    tier: int
    source: str
    r: float
    similarity: float
    severity: float
    far: bool  # no loss is alike; this is the nearest
    memory: Episode
    why: str


def severity(r: float, sim: float, age: float, conf: float) -> float:
    """How much a loss has to say now."""
    return abs(r) * sim * faded(age, LASTS_DAYS, LASTS_EXPONENT) * conf


def is_loss(episode: Episode, query: Query) -> bool:
    """Whether a trade lost, as far as its outcome may be believed, and may teach."""
    r = outcome(episode, query.claims_count)
    return episode.teaches and r is not None and r < 0


def warn(episodes: Iterable[Episode], query: Query) -> tuple[Warned, ...]:
    """The losses to keep in mind, worst first. The episodes are those known and asked for, or at least the worst of them."""
    lost = [(likeness(episode, query), episode) for episode in episodes if is_loss(episode, query)]
    alike = [_warned(episode, sim, query, far=False) for sim, episode in lost if sim >= ALIKE]
    if alike:
        worst = sorted(alike, key=lambda each: place(each.severity, each.memory.exit_at, each.id))
        return tuple(_explained(seated(worst, query.warnings_limit, _source(query)), query))
    nearest = sorted(lost, key=lambda pair: place(pair[0], pair[1].exit_at, pair[1].id))[: min(1, query.warnings_limit)]
    return tuple(_explained([_warned(episode, sim, query, far=True) for sim, episode in nearest], query))


def _warned(episode: Episode, sim: float, query: Query, far: bool) -> Warned:
    r = outcome(episode, query.claims_count) or 0.0
    how_bad = severity(r, sim, age_days(episode.exit_at, query), confidence_factor(episode.confidence))
    return Warned(id=episode.id, tier=episode.tier, source=episode.source, r=r, similarity=sim, severity=how_bad, far=far,
                  memory=episode, why="")  # fmt: skip


def _explained(warned: Sequence[Warned], query: Query) -> list[Warned]:
    return [replace(each, why=why_episode(each.memory, query)) for each in warned]


def _source(query: Query) -> Callable[[Warned], Groups]:
    return lambda warned: ((warned.source, SOURCE_SHARE),) if is_capped(warned.tier, warned.memory, query) else ()
