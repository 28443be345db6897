"""Ranks memories: they are scored by the profile of the query, sorted, and given places one by one.

    score = Q · Sim · Rec · Conf · Aff        (times the Sharpe weight of the weeks before, if it is switched on)

Every candidate is scored. Places are then given greedily: the best remaining memory takes the next place, unless its group
already has its share of the places so far. A source of tier 3 or 4 (a model or a text) has at most 40 % of any first k places,
beliefs at most 30 % (each may always have one). Trades confirmed by the broker, the operator or memtape have no such limit.
Trades that were decided against have at most 40 %: one may decide against hundreds in a minute, and choose the stop and target by
which they are judged. The first k places therefore do not depend on the limit of the query.

| profile | Q | Sim | Rec | Aff | beliefs |
|---|---|---|---|---|---|
| `owm` | by the spread of outcomes known at as_of | memtape's | power law; beliefs: strength | drawdown only | own quota |
| `owm-literal` | by the RMS of the candidates | 7.4 | 7.4 | 7.4 | Q ½, in one list |
| `balanced` | salience | memtape's | 7.4 | 1 | a list of their own; places are reserved for losses and for the rest |

>>> [name for name in apply_caps("aaab", 3, lambda name: [(name, 0.4)])]
['a', 'b']
"""

from __future__ import annotations

import math
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field, replace
from datetime import datetime
from typing import TypeVar

from memtape.core.memory.beliefs import Belief, belief_strength
from memtape.core.memory.episodes import Episode
from memtape.core.memory.situation import similarity
from memtape.core.observed import ANY
from memtape.core.original.score_formulas import rank_7_4
from memtape.core.recall import scoring
from memtape.core.recall.explanations import explain_belief, explain_episode, explain_near_miss, explain_plan
from memtape.core.recall.query import PlanMemory, Query, age_days, last_tested, outcome_for, situation_similarity
from memtape.core.recall.scoring import Components, Kind, ScoringInput, confidence_factor, faded, score_order_key
from memtape.core.value_class import dataclass

SOURCE_SHARE, BELIEF_SHARE, SHADOW_SHARE = 0.4, 0.3, 0.4
CAPPED_FROM_TIER = 3  # from this tier on, one source may not fill a list
BELIEFS, SHADOWS = "beliefs", "trades decided against"
SOFT = frozenset({BELIEFS, SHADOWS})  # groups that yield to others and fill the places they leave free
MAX_NEAR_MISSES = 5
LIVE = frozenset({"candidate", "believed"})

T = TypeVar("T")
Memory = Episode | Belief | PlanMemory
Groups = Iterable[tuple[str, float]]  # names of groups, each with the share of places it may hold


@dataclass(frozen=True, slots=True)
class Yardstick:
    """What a score needs from all memories together; everything else follows from one memory and the query."""

    sigma_r: float = scoring.SIGMA_UNKNOWN  # of all the agent's trades known at as_of
    sigma_rms: float = scoring.SIGMA_UNKNOWN  # of the candidates
    sharpe: Callable[[Episode], float] = lambda episode: 1.0
    sources: Mapping[str, float] = field(default_factory=dict)  # Q of the memories that plans were made from


@dataclass(frozen=True, slots=True, kw_only=True)
class RankedMemory:
    """A memory with its score, the factors of the score, and why it is shown."""

    id: str
    kind: Kind
    tier: int
    source: str
    n: int  # number of trades it represents
    at: datetime | None
    components: Components
    memory: Memory
    why: str = ""

    @property
    def score(self) -> float:
        return self.components.score


@dataclass(frozen=True, slots=True)
class Ranking:
    """The ranked list, the near misses, and the beliefs if the profile lists them separately."""

    ranked: tuple[RankedMemory, ...]
    missed: tuple[RankedMemory, ...]
    beliefs: tuple[RankedMemory, ...] = ()


def rank_memories(
    episodes: Sequence[Episode], beliefs: Sequence[Belief], plans: Sequence[PlanMemory], query: Query, yardstick: Yardstick
) -> Ranking:
    """Returns the ranking. The episodes are those that are known and match, or at least the best of them."""
    wanted = query.memory_types
    shown: list[Memory] = [
        *(episodes if "episodic" in wanted else ()),
        *(held for held in beliefs if "semantic" in wanted and is_asked(held, query)),
        *(plan for plan in plans if "prospective" in wanted),
    ]
    if query.profile == "balanced":
        held = in_rank_order(_scored(memory, query, yardstick) for memory in shown if isinstance(memory, Belief))[: query.limit]
        preferred = _balanced([memory for memory in shown if not isinstance(memory, Belief)], query, yardstick)
        return _ranking(preferred, query, memory_source_groups(query), tuple(_explained(each, query) for each in held))
    if query.profile == "owm-literal":
        return _ranking(_literal(shown, query, yardstick), query, memory_source_groups(query))
    return _ranking(in_rank_order(_scored(memory, query, yardstick) for memory in shown), query, groups(query))


def in_rank_order(scored: Iterable[RankedMemory]) -> list[RankedMemory]:
    """Returns the memories, best first: by score to 12 significant digits, then newest, then id."""
    return sorted(scored, key=_place)


def _place(ranked: RankedMemory) -> tuple[float, float, str]:
    return score_order_key(ranked.score, ranked.at, ranked.id)


def _ranking(
    preferred: Sequence[RankedMemory],
    query: Query,
    within: Callable[[RankedMemory], Groups],
    beliefs: tuple[RankedMemory, ...] = (),
) -> Ranking:
    chosen = apply_caps(preferred, query.limit, within)
    missed = _missed(preferred, chosen, query) if query.explain else ()
    return Ranking(tuple(_explained(each, query) for each in chosen), missed, beliefs)


def _explained(ranked: RankedMemory, query: Query) -> RankedMemory:
    memory = ranked.memory
    if isinstance(memory, Episode):
        return replace(ranked, why=explain_episode(memory, query))
    return replace(ranked, why=explain_belief(memory, query) if isinstance(memory, Belief) else explain_plan(memory, query))


def _missed(preferred: Sequence[RankedMemory], chosen: Sequence[RankedMemory], query: Query) -> tuple[RankedMemory, ...]:
    """Returns the first memories without a place, each with the reason."""
    chosen_ones = {id(each) for each in chosen}
    left = [each for each in preferred if id(each) not in chosen_ones][:MAX_NEAR_MISSES]
    if not chosen:
        return tuple(replace(each, why="No place was asked for") for each in left)
    return tuple(replace(each, why=_cost(each, chosen[-1], len(chosen) < query.limit, query)) for each in left)


def _cost(missed: RankedMemory, last: RankedMemory, places_left: bool, query: Query) -> str:
    if places_left or _place(missed) < _place(last):
        if missed.kind == "semantic":
            return "Beliefs already hold their share of the list"
        if is_shadow(missed.memory):
            return "Trades decided against already hold their share of the list"
        if is_capped(missed.tier, missed.memory, query):
            return f"Its source, {missed.source}, already holds its share of the list"
        return "The seats of its side are taken"
    episode = missed.memory if isinstance(missed.memory, Episode) else None
    return explain_near_miss(missed.components, last.components, episode, query)


# --- places -------------------------------------------------------------------------------------------------------------


def apply_caps(preferred: Sequence[T], limit: int, groups_of: Callable[[T], Groups]) -> list[T]:
    """Returns the first `limit` places, each given to the most preferred item whose groups still have room.

    A group with share s has at most max(1, s·k) of the first k places. If no remaining item may have the next place, beliefs and
    trades decided against fill it; without them the list ends.
    """
    waiting: dict[tuple[tuple[str, float], ...], deque[tuple[int, T]]] = {}
    for at, each in enumerate(preferred):
        waiting.setdefault(tuple(groups_of(each)), deque()).append((at, each))
    held: Counter[str] = Counter()
    chosen: list[T] = []
    while len(chosen) < limit:
        places = len(chosen) + 1
        fitting = {
            of: [name for name, share in of if held[name] >= may_hold(share, places)] for of, queue in waiting.items() if queue
        }
        free = [of for of, over in fitting.items() if not over] or [of for of, over in fitting.items() if SOFT.issuperset(over)]
        if not free:
            break
        of = min(free, key=lambda each: waiting[each][0][0])
        held.update(name for name, _ in of)
        chosen.append(waiting[of].popleft()[1])
    return chosen


def may_hold(share: float, places: int) -> int:
    """Returns how many of these places a group may have.

    >>> [may_hold(0.4, places) for places in (1, 4, 5, 10)]
    [1, 1, 2, 4]
    """
    return max(1, math.floor(share * places + 1e-9))


def is_capped(tier: int, memory: Memory, query: Query) -> bool:
    """Returns True if one source of such memories may not fill a list. An agent's own reports may, if it has no broker."""
    its_own = isinstance(memory, Episode) and memory.claimed and query.claims_count
    return tier >= CAPPED_FROM_TIER and not its_own


def memory_source_groups(query: Query) -> Callable[[RankedMemory], Groups]:
    """Returns a function that gives the source of a memory as its group, if the source is capped."""

    def of(ranked: RankedMemory) -> Groups:
        return ((f"source {ranked.source}", SOURCE_SHARE),) if is_capped(ranked.tier, ranked.memory, query) else ()

    return of


def is_shadow(memory: Memory) -> bool:
    """Returns True for a trade that was decided against."""
    return isinstance(memory, Episode) and memory.kind == "shadow"


def groups(query: Query) -> Callable[[RankedMemory], Groups]:
    """Returns a function that gives the groups of a memory: its capped source, beliefs, trades decided against."""
    of_source = memory_source_groups(query)

    def of(ranked: RankedMemory) -> Groups:
        yield from of_source(ranked)
        if ranked.kind == "semantic":
            yield BELIEFS, BELIEF_SHARE
        if is_shadow(ranked.memory):
            yield SHADOWS, SHADOW_SHARE

    return of


# --- scores -------------------------------------------------------------------------------------------------------------


def is_asked(belief: Belief, query: Query) -> bool:
    """Returns True if a belief is live at as_of and passes the filters."""
    held = belief.status in LIVE and (belief.since is None or belief.since <= query.as_of)
    return held and query.asks_for(belief.symbol, belief.strategy)


def _scored(memory: Memory, query: Query, yardstick: Yardstick) -> RankedMemory:
    if isinstance(memory, Episode):
        return _ranked(memory, components(memory, query, yardstick))
    if isinstance(memory, Belief):
        return _ranked(memory, _belief_components(memory, query))
    return _ranked(memory, _plan_components(memory, query, yardstick))


def _ranked(memory: Memory, found: Components) -> RankedMemory:
    if isinstance(memory, Episode):
        return RankedMemory(id=memory.id, kind="episodic", tier=memory.tier, source=memory.source, n=1, at=memory.exit_at,
                      components=found, memory=memory)  # fmt: skip
    if isinstance(memory, Belief):
        return RankedMemory(id=memory.id, kind="semantic", tier=memory.tier, source=memory.source, n=memory.n,
                      at=last_tested(memory), components=found, memory=memory)  # fmt: skip
    return RankedMemory(id=memory.id, kind="prospective", tier=memory.tier, source="plan", n=len(memory.source_ids),
                  at=memory.created_at, components=found, memory=memory)  # fmt: skip


def components(episode: Episode, query: Query, yardstick: Yardstick) -> Components:
    """Returns the factors of an episode in the profile `owm`."""
    parameters, r = query.parameters, outcome_for(episode, query)
    return Components(
        scoring.outcome_quality(r, yardstick.sigma_r, parameters.k),
        situation_similarity(episode, query),
        memory_recency(episode, query),
        confidence_factor(episode.confidence),
        scoring.affect_factor(r, query.affect.drawdown_state, parameters.alpha),
        yardstick.sharpe(episode) if parameters.sharpe == "on" else 1.0,
    )


def memory_recency(episode: Episode, query: Query) -> float:
    """Returns Rec, or the retrieval strength if it is switched on."""
    parameters, age = query.parameters, age_days(episode.exit_at, query)
    if parameters.strength == "off":
        return faded(age, parameters.tau_days, parameters.exponent)
    cited = query.times_shown.get(episode.id, 0)
    return scoring.retrieval_strength(age, cited, 1.0, parameters.tau_days, parameters.exponent, parameters.boost_at_most)


def _belief_components(belief: Belief, query: Query) -> Components:
    parameters, tested, mean = query.parameters, last_tested(belief), belief.posterior.mean
    then, now = belief.situation.regime, query.situation.regime
    matches = None if then in (None, ANY) or now in (None, ANY) else then == now
    age = 0.0 if tested is None else age_days(tested, query)
    strength = belief_strength(age, matches, tau_days=parameters.belief_tau_days, exponent=parameters.belief_exponent)
    return Components(
        mean,
        similarity(belief.situation, query.situation, parameters.labels, parameters.numbers),
        strength,
        confidence_factor(mean),
    )


def _plan_components(plan: PlanMemory, query: Query, yardstick: Yardstick) -> Components:
    parameters = query.parameters
    sources = [yardstick.sources[source] for source in plan.source_ids if source in yardstick.sources]
    return Components(
        scoring.quality_of_plan(plan.priority, sources),
        similarity(plan.situation, query.situation, parameters.labels, parameters.numbers),
        faded(age_days(plan.created_at, query), parameters.belief_tau_days, parameters.belief_exponent),
        confidence_factor(None),
    )


def _candidate(key: str, memory: Memory, query: Query) -> ScoringInput:
    if isinstance(memory, Episode):
        return ScoringInput(
            id=key,
            formed=memory.exit_at,
            situation=memory.situation,
            pnl_r=outcome_for(memory, query),
            confidence=memory.confidence,
        )
    if isinstance(memory, Belief):
        return ScoringInput(id=key, kind="semantic", formed=last_tested(memory), situation=memory.situation,
                         confidence=memory.posterior.mean)  # fmt: skip
    return ScoringInput(id=key, kind="prospective", formed=memory.created_at, situation=memory.situation)


def _candidates(memories: Sequence[Memory], query: Query) -> list[ScoringInput]:
    """Returns memories as inputs of the original formulas. The index makes ids unique, since a trade and a plan may share one."""
    return [_candidate(f"{memory.id}\0{at}", memory, query) for at, memory in enumerate(memories)]


def _back(scored: scoring.Scored, memories: Sequence[Memory]) -> RankedMemory:
    return _ranked(memories[int(scored.candidate.id.rpartition("\0")[2])], scored.components)


def _literal(memories: Sequence[Memory], query: Query, yardstick: Yardstick) -> list[RankedMemory]:
    candidates = _candidates(memories, query)
    scored = rank_7_4(candidates, query.situation, query.affect, query.as_of, yardstick.sigma_rms)
    return [_back(each, memories) for each in scored]


def _balanced(memories: Sequence[Memory], query: Query, yardstick: Yardstick) -> list[RankedMemory]:
    """Returns the memories with reserved places, then the others, both best first."""
    candidates = _candidates(memories, query)
    best, every = scoring.rank_balanced(candidates, query.situation, query.as_of, yardstick.sigma_r, query.limit)
    chosen = {each.candidate.id for each in best}
    return [_back(each, memories) for each in (*best, *(each for each in every if each.candidate.id not in chosen))]
