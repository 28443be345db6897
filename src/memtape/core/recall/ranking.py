"""Which memories come first: scored by the profile that was asked for, put in order, and given places one by one.

    score = Q · Sim · Rec · Conf · Aff        (and the Sharpe weight of the weeks before, if that is asked for)

Every candidate is scored. Places are then given greedily: the best memory that is left takes the next place, unless its
group already holds its share of the places so far. A source of tier 3 or 4, a model or a text, holds at most 40 % of any first
k places, beliefs at most 30 % (either may always hold one); trades that the broker, the operator or we ourselves vouch for
have no such limit. So the first k never depend on how many were asked for.

| profile | Q | Sim | Rec | Aff | beliefs |
|---|---|---|---|---|---|
| `owm` | by the spread of outcomes known at as_of | ours | power law; of beliefs their strength | drawdown only | own quota |
| `owm-literal` | by the RMS of the candidates | 7.4 | 7.4 | 7.4 | Q ½, in one list |
| `balanced` | salience | ours | 7.4 | 1 | a list of their own; losses and the rest have seats each |

>>> [name for name in apply_caps("aaab", 3, lambda name: [(name, 0.4)])]
['a', 'b']
"""

from __future__ import annotations

import math
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TypeVar

from memtape.core.memory.beliefs import Belief, belief_strength
from memtape.core.memory.episodes import Episode, believed_outcome
from memtape.core.memory.situation import similarity
from memtape.core.observed import ANY
from memtape.core.original.score_formulas import rank_7_4
from memtape.core.recall import scoring
from memtape.core.recall.explanations import explain_belief, explain_episode, explain_near_miss, explain_plan
from memtape.core.recall.query import PlanMemory, Query, age_days, last_tested, situation_similarity
from memtape.core.recall.scoring import Components, Kind, ScoringInput, confidence_factor, faded, score_order_key

SOURCE_SHARE, BELIEF_SHARE = 0.4, 0.3
CAPPED_FROM_TIER = 3  # the first tier of which one source may not fill a list
SOFT = "beliefs"  # a group that gives way to others, and fills what they leave free
MAX_NEAR_MISSES = 5
LIVE = frozenset({"candidate", "believed"})

T = TypeVar("T")
Memory = Episode | Belief | PlanMemory
Groups = Iterable[tuple[str, float]]  # names of groups, each with the share of places it may hold


@dataclass(frozen=True, slots=True)
class Yardstick:
    """What scores are measured by, and what is known of all memories: the rest follows from a memory and the query alone."""

    sigma_r: float = scoring.SIGMA_UNKNOWN  # known at as_of, of all the agent's trades
    sigma_rms: float = scoring.SIGMA_UNKNOWN  # of the candidates
    sharpe: Callable[[Episode], float] = lambda episode: 1.0
    sources: Mapping[str, float] = field(default_factory=dict)  # Q of the memories that plans were made from


@dataclass(frozen=True, slots=True, kw_only=True)
class RankedMemory:
    """A memory with its score, the factors of it, and why it is there."""

    id: str
    kind: Kind
    tier: int
    source: str
    n: int  # how many trades it stands for
    at: datetime | None
    components: Components
    memory: Memory
    why: str = ""

    @property
    def score(self) -> float:
        return self.components.score


@dataclass(frozen=True, slots=True)
class Ranking:
    """The list, what barely missed it, and, where they stand apart, the beliefs."""

    ranked: tuple[RankedMemory, ...]
    missed: tuple[RankedMemory, ...]
    beliefs: tuple[RankedMemory, ...] = ()


def rank_memories(
    episodes: Sequence[Episode], beliefs: Sequence[Belief], plans: Sequence[PlanMemory], query: Query, yardstick: Yardstick
) -> Ranking:
    """The memories in their places. The episodes are those known and asked for, or at least the best of them."""
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
    """Best first: by score to 12 significant digits, then newest, then id."""
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
    """The first without a place, and what cost them theirs."""
    seated_ones = {id(each) for each in chosen}
    left = [each for each in preferred if id(each) not in seated_ones][:MAX_NEAR_MISSES]
    if not chosen:
        return tuple(replace(each, why="No place was asked for") for each in left)
    return tuple(replace(each, why=_cost(each, chosen[-1], len(chosen) < query.limit, query)) for each in left)


def _cost(missed: RankedMemory, last: RankedMemory, places_left: bool, query: Query) -> str:
    if places_left or _place(missed) < _place(last):
        if missed.kind == "semantic":
            return "Beliefs already hold their share of the list"
        if is_capped(missed.tier, missed.memory, query):
            return f"Its source, {missed.source}, already holds its share of the list"
        return "The seats of its side are taken"
    episode = missed.memory if isinstance(missed.memory, Episode) else None
    return explain_near_miss(missed.components, last.components, episode, query)


# --- places -------------------------------------------------------------------------------------------------------------


def apply_caps(preferred: Sequence[T], limit: int, groups_of: Callable[[T], Groups]) -> list[T]:
    """The first `limit` places, given one by one to the most preferred that its groups may hold there.

    A group with share s holds at most max(1, s·k) of the first k places. Where nothing that is left may have the next
    place, beliefs fill what is free; without any the list ends.
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
        free = [of for of, over in fitting.items() if not over] or [of for of, over in fitting.items() if over == [SOFT]]
        if not free:
            break
        of = min(free, key=lambda each: waiting[each][0][0])
        held.update(name for name, _ in of)
        chosen.append(waiting[of].popleft()[1])
    return chosen


def may_hold(share: float, places: int) -> int:
    """How many of so many places a group may hold.

    >>> [may_hold(0.4, places) for places in (1, 4, 5, 10)]
    [1, 1, 2, 4]
    """
    return max(1, math.floor(share * places + 1e-9))


def is_capped(tier: int, memory: Memory, query: Query) -> bool:
    """Returns True if one source of such memories may not fill a list. Without a broker, an agent's own reports may."""
    its_own = isinstance(memory, Episode) and memory.claimed and query.claims_count
    return tier >= CAPPED_FROM_TIER and not its_own


def memory_source_groups(query: Query) -> Callable[[RankedMemory], Groups]:
    """The source, where it may not fill the list."""

    def of(ranked: RankedMemory) -> Groups:
        return ((f"source {ranked.source}", SOURCE_SHARE),) if is_capped(ranked.tier, ranked.memory, query) else ()

    return of


def groups(query: Query) -> Callable[[RankedMemory], Groups]:
    """The source, and beliefs as such."""
    of_source = memory_source_groups(query)
    return lambda ranked: (*of_source(ranked), *(((SOFT, BELIEF_SHARE),) if ranked.kind == "semantic" else ()))


# --- scores -------------------------------------------------------------------------------------------------------------


def is_asked(belief: Belief, query: Query) -> bool:
    """Returns True if a belief holds at as_of and passes the filters."""
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
    """The factors of an episode in the profile `owm`."""
    parameters, r = query.parameters, believed_outcome(episode, query.claims_count)
    return Components(
        scoring.outcome_quality(r, yardstick.sigma_r, parameters.k),
        situation_similarity(episode, query),
        memory_recency(episode, query),
        confidence_factor(episode.confidence),
        scoring.affect_factor(r, query.affect.drawdown_state, parameters.alpha),
        yardstick.sharpe(episode) if parameters.sharpe == "on" else 1.0,
    )


def memory_recency(episode: Episode, query: Query) -> float:
    """Rec, or what time has left of a memory and use has added to it."""
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
            pnl_r=believed_outcome(memory, query.claims_count),
            confidence=memory.confidence,
        )
    if isinstance(memory, Belief):
        return ScoringInput(id=key, kind="semantic", formed=last_tested(memory), situation=memory.situation,
                         confidence=memory.posterior.mean)  # fmt: skip
    return ScoringInput(id=key, kind="prospective", formed=memory.created_at, situation=memory.situation)


def _candidates(memories: Sequence[Memory], query: Query) -> list[ScoringInput]:
    """Memories as the original formulas take them, their ids told apart where a trade and a plan have the same."""
    return [_candidate(f"{memory.id}\0{at}", memory, query) for at, memory in enumerate(memories)]


def _back(scored: scoring.Scored, memories: Sequence[Memory]) -> RankedMemory:
    return _ranked(memories[int(scored.candidate.id.rpartition("\0")[2])], scored.components)


def _literal(memories: Sequence[Memory], query: Query, yardstick: Yardstick) -> list[RankedMemory]:
    candidates = _candidates(memories, query)
    scored = rank_7_4(candidates, query.situation, query.affect, query.as_of, yardstick.sigma_rms)
    return [_back(each, memories) for each in scored]


def _balanced(memories: Sequence[Memory], query: Query, yardstick: Yardstick) -> list[RankedMemory]:
    """Those that have seats, then the others, both best first."""
    candidates = _candidates(memories, query)
    best, every = scoring.rank_balanced(candidates, query.situation, query.as_of, yardstick.sigma_r, query.limit)
    chosen = {each.candidate.id for each in best}
    return [_back(each, memories) for each in (*best, *(each for each in every if each.candidate.id not in chosen))]
