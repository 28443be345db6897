"""Recall: what memory contains about a situation, in three answers that are never mixed.

`ranked` orders memories by score. The score contains the outcome, so it may only decide what is shown. `warnings` are the losses
in similar situations. `evidence` summarises all trades with weights that do not depend on the outcome; only evidence may be used
for a size. In addition there are the memories that barely missed a place and why (on request), and the beliefs that the
situation could test.

This is the reference implementation in plain Python over every memory. `memtape.columns` gives the same answer faster: it selects
the memories that can matter and lets the functions here rank them.

>>> from datetime import UTC
>>> from memtape.core.observed import Situation
>>> nothing = recall_reference([], [], [], Query(situation=Situation(), as_of=datetime(2026, 6, 5, tzinfo=UTC)))
>>> nothing.ranked, nothing.warnings, nothing.evidence.n, nothing.evidence.hint.f
((), (), 0, 0.0)
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from memtape.core.brief.number_format import format_count
from memtape.core.memory.beliefs import BELIEVED_FROM_TRADES, Belief
from memtape.core.memory.episodes import Episode, known_episodes
from memtape.core.memory.outcome_units import money_unit
from memtape.core.memory.predicate import holds, read_predicate
from memtape.core.original.score_formulas import rank_7_4, sigma_rms
from memtape.core.recall import scoring
from memtape.core.recall.evidence import (
    RECENT_TRADES,
    ComparedSize,
    Evidence,
    compared_sizes,
    evidence_from_sums,
    evidence_sums,
    evidence_unit,
)
from memtape.core.recall.query import PlanMemory, Query, outcome_for
from memtape.core.recall.ranking import RankedMemory, Ranking, Yardstick, is_asked, rank_memories
from memtape.core.recall.scoring import sharpe_weight_cautious, sigma_known
from memtape.core.recall.warnings import LossWarning, find_warnings, is_loss, warning_unit
from memtape.core.value_class import dataclass

TESTED_BY_TRADES, WORTH_TESTING = 10, 3
UNDECIDED_PROBABILITY = (0.2, 0.8)


@dataclass(frozen=True, slots=True)
class UndecidedBelief:
    """A belief that the situation could test, why it is worth testing, and a plan for it."""

    belief: Belief
    why: str
    plan: dict[str, object]


@dataclass(frozen=True, slots=True, kw_only=True)
class Recalled:
    """The answer to a recall query."""

    ranked: tuple[RankedMemory, ...]
    warnings: tuple[LossWarning, ...]
    evidence: Evidence
    near_misses: tuple[RankedMemory, ...]
    worth_testing: tuple[UndecidedBelief, ...]
    beliefs: tuple[RankedMemory, ...] = ()  # if the profile lists beliefs separately
    hidden: int = 0  # memories that are left out of the lists because a model forgot them; they count in evidence


def recall_reference(
    episodes: Iterable[Episode], beliefs: Sequence[Belief], plans: Sequence[PlanMemory], query: Query
) -> Recalled:
    """Returns the answer to the query, as of its time."""
    believed_then = known_episodes(episodes, query.as_of)
    matching = [e for e in believed_then if query.asks_for(e.symbol, e.strategy) and query.side in (None, e.side)]
    sums = evidence_sums(matching, query, money_unit(believed_then, query.claims_count))
    query = replace(query, unit=evidence_unit(sums))
    literal = ranks_own_r(query, any(e.pnl_r is not None for e in matching))
    ranked_by = replace(query, unit=None) if literal else query
    yardstick = recall_yardstick(believed_then, matching, beliefs, plans, ranked_by)
    ranking = rank_memories(matching, beliefs, plans, ranked_by, yardstick)
    other = _beside(matching, query, yardstick) if query.kelly_beside else ()
    losses = [(unit, sum(is_loss(e, replace(query, unit=unit)) for e in matching)) for unit in sums.units]
    warnings = find_warnings(matching, replace(query, unit=warning_unit(losses, query.unit)))
    return assemble_recall(ranking, warnings, evidence_from_sums(sums, query, other), beliefs, query)


def ranks_own_r(query: Query, any_r: bool) -> bool:
    """Returns True if each memory is ranked by the R that it has, whatever its source: the original formula knows no units.

    Where no memory has an R, it ranks by money like the other profiles.
    """
    return query.profile == "owm-literal" and any_r


def assemble_recall(
    ranking: Ranking, warnings: tuple[LossWarning, ...], evidence: Evidence, beliefs: Sequence[Belief], query: Query
) -> Recalled:
    """Returns the parts as one answer."""
    return Recalled(
        ranked=ranking.ranked, warnings=warnings, evidence=evidence, near_misses=ranking.missed,
        worth_testing=worth_testing(beliefs, query), beliefs=ranking.beliefs,
    )  # fmt: skip


# --- what a score needs from all memories ---------------------------------------------------------------------------------


def recall_yardstick(
    believed_then: Sequence[Episode],
    matching: Sequence[Episode],
    beliefs: Sequence[Belief],
    plans: Sequence[PlanMemory],
    query: Query,
) -> Yardstick:
    """Returns the yardstick of a query, from all episodes known then and those that match."""
    closed = [(e.exit_at, r) for e in believed_then if e.teaches and (r := outcome_for(e, query)) is not None]
    sigma = sigma_known(closed, query.as_of)
    named = {source for plan in plans for source in plan.source_ids}
    outcomes: dict[str, float | None] = {e.id: outcome_for(e, query) for e in believed_then if e.id in named}
    return Yardstick(
        sigma_r=sigma, sigma_rms=sigma_rms([outcome_for(e, query) for e in matching]),
        sharpe=sharpe_of(closed, query), sources=source_qualities(outcomes, beliefs, named, sigma, query),
    )  # fmt: skip


def sharpe_of(closed: Sequence[tuple[datetime, float]], query: Query) -> Callable[[Episode], float]:
    """Returns a function that gives the Sharpe weight of an episode, from the trades that closed in the window before it."""
    days = query.parameters.sharpe_window_days
    ordered = sorted(closed) if query.parameters.sharpe == "on" else []
    times = [at for at, _ in ordered]

    def of(episode: Episode) -> float:
        window = ordered[bisect_left(times, episode.exit_at - timedelta(days=days)) : bisect_left(times, episode.exit_at)]
        return sharpe_weight_cautious([r for _, r in window], days)[1]

    return of


def source_qualities(
    outcomes: dict[str, float | None], beliefs: Sequence[Belief], named: set[str], sigma_r: float, query: Query
) -> dict[str, float]:
    """Returns Q of the episodes and beliefs that plans were made from."""
    found = {id: scoring.outcome_quality(r, sigma_r, query.parameters.k) for id, r in outcomes.items()}
    return found | {belief.id: belief.posterior.mean for belief in beliefs if belief.id in named}


def literal_best(episodes: Sequence[Episode], query: Query, yardstick: Yardstick) -> list[tuple[float, float | None]]:
    """Returns scores and outcomes of the 50 best by the original formula, from all matching episodes or at least the best."""
    candidates = [
        scoring.ScoringInput(id=e.id, formed=e.exit_at, situation=e.situation, pnl_r=outcome_for(e, query),
                          confidence=e.confidence)
        for e in episodes
    ]  # fmt: skip
    best = rank_7_4(candidates, query.situation, query.affect, query.as_of, yardstick.sigma_rms)[:RECENT_TRADES]
    return [(each.score, each.candidate.pnl_r) for each in best]


def _beside(matching: Sequence[Episode], query: Query, yardstick: Yardstick) -> tuple[ComparedSize, ...]:
    closed = [
        (-e.exit_at.timestamp(), e.id, r) for e in matching if e.teaches and (r := outcome_for(e, query)) is not None
    ]
    recent = [r for _, _, r in sorted(closed)[:RECENT_TRADES]]
    return compared_sizes(literal_best(matching, query, yardstick), recent, query.affect.risk_appetite)


# --- beliefs that could be tested ---------------------------------------------------------------------------------------


def worth_testing(beliefs: Sequence[Belief], query: Query) -> tuple[UndecidedBelief, ...]:
    """Returns the undecided beliefs whose conditions the situation meets or may meet, the least decided first."""
    open_ones = [belief for belief in beliefs if is_asked(belief, query) and _undecided(belief) and _could_test(belief, query)]
    ordered = sorted(open_ones, key=lambda b: (abs(_probability(b) - 0.5), b.n, b.id))
    return tuple(UndecidedBelief(b, _why_test(b), _plan_to_test(b)) for b in ordered[:WORTH_TESTING])


def _probability(belief: Belief) -> float:
    return 0.5 if belief.probability is None else belief.probability


def _undecided(belief: Belief) -> bool:
    untested, low, high = belief.n < BELIEVED_FROM_TRADES, *UNDECIDED_PROBABILITY
    # Without a base rate, no further trade of its kind can settle a belief. Where every trade won, or none did, in the group
    # as in the others, there is no difference that trades could settle.
    comparable = belief.source == "seeded" or (belief.base_rate is not None and not belief.base_rate == belief.rate in (0.0, 1.0))
    return comparable and belief.status == "candidate" and (untested or low <= _probability(belief) <= high)


def _could_test(belief: Belief, query: Query) -> bool:
    if None not in (belief.symbol, query.here) and belief.symbol != query.here:
        return False
    when = belief.proposition.when
    if not when:
        return True
    now = {name: getattr(query.situation, name) for name in query.situation.__slots__}
    now |= {"symbol": query.here, "strategy": query.strategy}
    return holds(read_predicate(when, fields=None, at="when"), now) is not False


def _why_test(belief: Belief) -> str:
    counted = format_count(belief.n, "trade")
    if belief.probability is None:
        return f"{belief.sentence.rstrip('.')}. Undecided after {counted}; this situation could settle it"
    chance = f"{100 * belief.probability:.0f} % likely that their true rate is above that of the others"
    return f"{belief.sentence.rstrip('.')}. Undecided after {counted}, {chance}; this situation could settle it"


def _plan_to_test(belief: Belief) -> dict[str, object]:
    scope = {name: value for name, value in (("strategy", belief.strategy), ("symbol", belief.symbol)) if value}
    message = f"Test this edge on the next {TESTED_BY_TRADES} trades: {belief.sentence}"
    return {
        "trigger_condition": {"all": [scope, belief.proposition.when]} if scope else belief.proposition.when,
        "planned_action": {"type": "alert", "message": message, "trades": TESTED_BY_TRADES}, "fire_mode": "every",
        "reasoning": _why_test(belief), "sources": [belief.id],
    }  # fmt: skip
