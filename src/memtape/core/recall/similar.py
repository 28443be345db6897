"""Similar situations: the earlier decisions nearest to the present one, and their outcomes.

Recall weights memories by outcome; this list does not. It finds the most similar situations and reports how they ended, trades
and decisions not to trade alike. Similarity is `situation.similarity`, across symbols relative to price. If an embedder is
configured, the caller gives the cosine of each decision's text with the present text, and the order is by the mean of both.

All entries of a list are measured in the same way: if texts are compared, a decision without text has a cosine of 0, because a
missing text must not count as similar. An embedding never enters the outcome-weighted score, so recall, sizes and evidence are
the same with or without an embedder.

>>> from dataclasses import replace
>>> from datetime import UTC
>>> taken = SimilarDecision(id="a", kind="trade", decided_at=datetime(2026, 6, 4, 8, tzinfo=UTC), symbol="BTC", side="long",
...                 similarity=0.91, pnl_r=1.5, claimed=False, text="breakout above prior swing high", tier=0, by="situation")
>>> similar_summary([taken, replace(taken, id="b", pnl_r=-1.0), replace(taken, id="c", pnl_r=None)])
(2, 1, 0.25)
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from types import MappingProxyType

from memtape.core.memory.episodes import NOT_TAUGHT, Episode, Kind, RSource, known_episodes
from memtape.core.memory.outcome_units import NO_UNIT, OutcomeUnit, choose_unit
from memtape.core.observed import Situation
from memtape.core.recall.query import Query, RecallParameters, outcome_for, situation_similarity
from memtape.core.recall.scoring import score_order_key
from memtape.core.value_class import dataclass
from memtape.errors import Invalid

NO_REASONS: Mapping[str, str] = MappingProxyType({})
NO_TEXTS: Mapping[str, float] = MappingProxyType({})
AS_IS = RecallParameters()


@dataclass(frozen=True, slots=True, kw_only=True)
class SimilarDecision:
    """An earlier decision in a situation like the present one, and its outcome."""

    id: str
    kind: Kind  # a shadow is a decision against the trade; its outcome is what would have been
    decided_at: datetime
    symbol: str
    side: str
    similarity: float
    pnl_r: float | None  # in the unit; None: not known in it, or claimed by an agent that has a broker to ask
    claimed: bool
    text: str  # the stated reason, or the note about it; empty if there is none
    tier: int
    by: str  # "situation", or "situation and text (MODEL ID)"
    r_source: RSource | None = None
    pnl_usd: float | None = None
    unit: OutcomeUnit = NO_UNIT  # the same for all entries of a list


def similar_decisions(
    episodes: Iterable[Episode],
    situation: Situation,
    as_of: datetime,
    *,
    reasons: Mapping[str, str] = NO_REASONS,
    texts: Mapping[str, float] = NO_TEXTS,
    model: str | None = None,
    limit: int = 5,
    claims_count: bool = True,
    parameters: RecallParameters = AS_IS,
) -> tuple[SimilarDecision, ...]:
    """Returns the decisions most similar to the present one whose outcome was known at `as_of`, the nearest first.

    `reasons` gives the text of a decision by episode id, if a better one than the episode's own note is known. `texts` gives the
    cosine of that text with the present text, computed by `model`. Ties go to the newer, then by id. Episodes that the owner
    excludes (`exclude`, `anomaly`) do not appear.
    """
    _check(texts, model)
    known = known_episodes(episodes, as_of)
    unit = choose_unit(known, claims_count)
    query = Query(situation=situation, as_of=as_of, limit=limit, claims_count=claims_count, parameters=parameters, unit=unit)
    by = f"situation and text ({model})" if texts else "situation"
    measured = ((_nearness(e, query, texts), e) for e in known if e.teach not in NOT_TAUGHT)
    nearest = heapq.nsmallest(limit, measured, key=lambda pair: score_order_key(pair[0], pair[1].entry_at, pair[1].id))
    return tuple(
        SimilarDecision(
            id=e.id,
            kind=e.kind,
            decided_at=e.entry_at,
            symbol=e.symbol,
            side=e.side,
            similarity=near,
            pnl_r=outcome_for(e, query),
            claimed=e.claimed,
            text=reasons.get(e.id) or e.reflection or "",
            tier=e.tier,
            by=by,
            r_source=unit.source,
            pnl_usd=None if e.claimed and not claims_count else e.pnl_usd,
            unit=unit,
        )
        for near, e in nearest
    )


def similar_summary(found: Sequence[SimilarDecision]) -> tuple[int, int, float | None]:
    """Returns how many of the decisions have a known outcome, how many of those won, and their mean in the unit of the list.

    Without a known outcome the mean is None.

    >>> similar_summary([])
    (0, 0, None)
    """
    outcomes = [each.pnl_r for each in found if each.pnl_r is not None]
    return len(outcomes), sum(r > 0 for r in outcomes), math.fsum(outcomes) / len(outcomes) if outcomes else None


def _nearness(episode: Episode, query: Query, texts: Mapping[str, float]) -> float:
    alike = situation_similarity(episode, query)
    return (alike + min(max(texts.get(episode.id, 0.0), 0.0), 1.0)) / 2.0 if texts else alike


def _check(texts: Mapping[str, float], model: str | None) -> None:
    if texts and not model:
        raise Invalid("model", "is missing", "Say which model compared the texts: cosines of two models do not mix")
    for id, cosine in texts.items():
        if not math.isfinite(cosine):
            raise Invalid("texts", f"have no number for {id}", "Leave out a decision that has no words")
