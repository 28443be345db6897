"""Operations on beliefs: what an agent has learned about its trading, with the evidence."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field

from memtape.core.codec import plain
from memtape.core.memory.beliefs import Belief, mean_edge, updated_beta
from memtape.core.memory.episodes import Episode
from memtape.core.original.memories import updated_beta_by_outcome
from memtape.core.statistics import binomial_tail
from memtape.core.values import Key, Label, Line, Symbol
from memtape.surfaces.answer_models import Answer, Real, SparseAnswer
from memtape.surfaces.answers import Basis, basis_of, optional_time_text, rounded_figure
from memtape.surfaces.questions import AsOf, OfAgent, agent_of
from memtape.surfaces.registry import operation

if TYPE_CHECKING:
    from datetime import datetime

    from memtape.engine import AgentMemory, Memory
    from memtape.surfaces.caller import Caller


class Statement(Answer):
    """What a belief says about the outcome."""

    metric: Annotated[str, Field(description="the outcome it is about")]
    op: Annotated[str, Field(description="gt, ge, lt or le")]
    value: Annotated[Real, Field(description="value to compare with")]


class BetaRow(Answer):
    """A beta distribution."""

    alpha: Real
    beta: Real


class BeliefRow(Answer):
    """A belief with its counts and probabilities."""

    id: Annotated[str, Field(description="its id")]
    sentence: Annotated[str, Field(description="the belief in words")]
    status: Annotated[str, Field(description="candidate, believed, merged, split or retired")]
    why: Annotated[str, Field(description="why it has this status")]
    source: Annotated[str, Field(description="who states it")]
    tier: Annotated[int, Field(description="1 owner, 2 computed, 3 model, 4 external")]
    strategy: Annotated[str | None, Field(description="null: any")]
    symbol: Annotated[str | None, Field(description="null: any")]
    when: Annotated[Any, Field(description="predicate over the entry situation")]
    then: Annotated[Statement, Field(description="the expected outcome")]
    n: Annotated[int, Field(description="trades that tested it")]
    confirmed: Annotated[int, Field(description="trades for it")]
    contradicted: Annotated[int, Field(description="trades against it")]
    prior: Annotated[BetaRow, Field(description="before any trade")]
    alpha: Annotated[Real, Field(description="after the trades")]
    beta: Annotated[Real, Field(description="after the trades")]
    confidence: Annotated[float | None, Field(description="mean of the posterior")]
    uncertainty: Annotated[float | None, Field(description="variance of the posterior")]
    interval_90: Annotated[list[float | None], Field(description="90 % interval")]
    base_rate: Annotated[float | None, Field(description="the same outside the conditions, without the trades of other beliefs")]
    base_n: Annotated[int, Field(description="trades of the base rate")]
    p_value: Annotated[float | None, Field(description="against the base rate")]
    probability: Annotated[float | None, Field(description="that it is better than the base rate")]
    mean_r: Annotated[float | None, Field(description="mean outcome, in the unit")]
    unit: Annotated[str, Field(description="of outcomes: R (by stops), R by ATR, or typical losses in money")]
    related: Annotated[list[str], Field(description="related beliefs")]
    last_confirmed: Annotated[str | None, Field(description="the last trade for it")]
    last_contradicted: Annotated[str | None, Field(description="the last trade against it")]
    last_evidence_at: Annotated[str | None, Field(description="UTC")]
    since: Annotated[str | None, Field(description="UTC; when it got this status")]


def belief_row(belief: Belief, currency: str) -> BeliefRow:
    """The answer row of a belief; the currency is that of the account."""
    posterior, proposition = belief.posterior, belief.proposition
    return BeliefRow(
        id=belief.id, sentence=belief.sentence, status=belief.status, why=belief.why, source=belief.source, tier=belief.tier,
        strategy=belief.strategy, symbol=belief.symbol, when=plain(proposition.when),
        then=Statement(metric=proposition.metric, op=proposition.op, value=proposition.value), n=belief.n,
        confirmed=belief.confirmed, contradicted=belief.contradicted,
        prior=BetaRow(alpha=belief.prior.alpha, beta=belief.prior.beta), alpha=posterior.alpha, beta=posterior.beta,
        confidence=rounded_figure(posterior.mean), uncertainty=rounded_figure(posterior.variance),
        interval_90=[rounded_figure(posterior.bound(0.05)), rounded_figure(posterior.bound(0.95))],
        base_rate=rounded_figure(belief.base_rate), base_n=belief.base_n, p_value=rounded_figure(belief.p_value),
        probability=rounded_figure(belief.probability), mean_r=rounded_figure(belief.mean_r), unit=belief.unit.phrase(currency),
        related=list(belief.related),
        last_confirmed=belief.last_confirmed, last_contradicted=belief.last_contradicted,
        last_evidence_at=optional_time_text(belief.last_evidence_at), since=optional_time_text(belief.since),
    )  # fmt: skip


class SuggestedPlan(SparseAnswer):
    """A plan that memory suggests; nobody has created it."""

    trigger_condition: Annotated[Any, Field(description="predicate")]
    planned_action: Annotated[Any, Field(description="type, and what belongs to it")]
    fire_mode: Annotated[str, Field(description="once, rising_edge or every", default_factory=str)]
    reasoning: Annotated[str, Field(description="why", default_factory=str)]
    sources: Annotated[list[str], Field(description="memories it is based on", default_factory=list)]


class MeanEdgeRow(Answer):
    """The mean outcome of a belief's trades."""

    mean: Annotated[float | None, Field(description="in the unit of the belief")]
    probability_positive: Annotated[float | None, Field(description="that the true mean is above 0")]
    n: Annotated[int, Field(description="trades")]


class OriginalCount(Answer):
    """A belief by the original rule, which weights trades by |R|."""

    alpha: float | None
    beta: float | None
    confidence: Annotated[float | None, Field(description="its mean")]
    unit_counts: Annotated[float | None, Field(description="the mean if each trade counts once")]


class GetBeliefs(AsOf):
    """Which beliefs."""

    status: Annotated[
        Literal["candidate", "believed", "merged", "split", "retired"] | None, Field(description="default: all")
    ] = None
    strategy: Annotated[Label | None, Field(description="only this strategy")] = None
    symbol: Annotated[Symbol | None, Field(description="only this symbol")] = None
    limit: Annotated[int, Field(ge=1, le=1000, description="how many")] = 100


class BeliefsAnswer(Basis):
    """Beliefs, the most certain first."""

    beliefs: Annotated[list[BeliefRow], Field(description="the most certain first")]
    total: Annotated[int, Field(description="how many there are")]
    suggested_plans: Annotated[list[SuggestedPlan], Field(description="plans that beliefs and the drawdown suggest; not created")]


@operation(writes=False, columns=("id", "status", "n", "confidence", "base_rate", "p_value", "sentence"))
def get_beliefs(memory: Memory, ask: GetBeliefs, caller: Caller) -> BeliefsAnswer:
    """List an agent's beliefs with the evidence for and against each.

    A candidate becomes a belief with 30 trades and a passed false-discovery test.
    """
    handle = agent_of(memory, ask)
    found, moment = handle.memories.beliefs(as_of=ask.as_of, head=ask.head)
    chosen = [
        b for b in found
        if (ask.status is None or b.status == ask.status) and (ask.strategy is None or b.strategy in (None, ask.strategy))
        and (ask.symbol is None or b.symbol in (None, ask.symbol))
    ]  # fmt: skip
    rank = ("believed", "candidate", "split", "merged", "retired")
    chosen.sort(key=lambda b: (rank.index(b.status), 1.0 if b.p_value is None else b.p_value, -b.n, b.id))
    moment = replace(moment, notes=tuple(handle.memories.notes(symbol=ask.symbol, as_of=ask.as_of, head=ask.head)))
    return BeliefsAnswer(
        **basis_of(handle.agent.id, moment), total=len(chosen),
        beliefs=[belief_row(b, handle.agent.settings.currency) for b in chosen[: ask.limit]],
        suggested_plans=[SuggestedPlan(**plain(p)) for p in handle.plans.suggested(as_of=ask.as_of)] if ask.head is None else [],
    )  # fmt: skip


class GetBelief(AsOf):
    """Which belief."""

    belief_id: Annotated[Key, Field(description="an id from get_beliefs")]


class BeliefAnswer(Basis):
    """A belief and its evidence."""

    belief: Annotated[BeliefRow, Field(description="the belief")]
    confirming: Annotated[list[str], Field(description="ids of trades that confirm it")]
    contradicting: Annotated[list[str], Field(description="ids of trades that contradict it")]
    coin: Annotated[
        float | None,
        Field(description="probability that a fair coin confirms it as often; the base rate is the better comparison"),
    ]
    mean_edge: Annotated[
        MeanEdgeRow | None, Field(description="mean outcome of its trades in the unit, probability that it is above 0, n")
    ]
    by_outcome: Annotated[
        OriginalCount | None, Field(description="alpha and beta by the original rule, which weights trades by |R| up to 2")
    ]


@operation(writes=False, columns={"belief": ("id", "sentence", "status", "n", "confidence", "base_rate", "p_value", "why")})
def get_belief(memory: Memory, ask: GetBelief, caller: Caller) -> BeliefAnswer:
    """Get one belief with every trade that confirms or contradicts it."""
    handle = agent_of(memory, ask)
    return _belief_answer(handle, *handle.memories.belief(ask.belief_id, as_of=ask.as_of, head=ask.head), ask.as_of, ask.head)


def _belief_answer(
    handle: AgentMemory, belief: Belief, for_: list[str], against: list[str], as_of: datetime | None, head: int | None
) -> BeliefAnswer:
    """A belief with its evidence, also counted in other ways."""
    episodes: dict[str, Episode] = {e.id: e for e in handle.memories.episodes(as_of=as_of, head=head)} if for_ or against else {}
    confirming = set(for_)
    tested = [(belief.unit.outcome(episodes[id_]), id_ in confirming) for id_ in sorted([*for_, *against])]
    literal = updated_beta_by_outcome(belief.prior, tested)
    unit = updated_beta(belief.prior, [confirmed for _, confirmed in tested])
    edge = belief.edge or mean_edge([r for r, _ in tested])
    _, moment = handle.memories.beliefs(as_of=as_of, head=head)
    return BeliefAnswer(
        **basis_of(handle.agent.id, moment),
        belief=belief_row(belief, handle.agent.settings.currency),
        confirming=for_,
        contradicting=against,
        coin=rounded_figure(binomial_tail(len(for_), len(tested), 0.5)) if tested else None,
        mean_edge=MeanEdgeRow(
            mean=rounded_figure(edge.mean), probability_positive=rounded_figure(edge.probability_positive),
            n=sum(r is not None for r, _ in tested),
        )
        if tested
        else None,
        by_outcome=OriginalCount(
            alpha=rounded_figure(literal.alpha),
            beta=rounded_figure(literal.beta),
            confidence=rounded_figure(literal.mean),
            unit_counts=rounded_figure(unit.mean),
        )
        if tested
        else None,
    )


class StateBelief(OfAgent):
    """A belief to state: under these conditions, trades end like this."""

    sentence: Annotated[Line, Field(description="the belief in words")]
    validity_conditions: Annotated[
        dict[str, Any], Field(description='which entries it is about, like {"session": "london", "side": "long"}')
    ]
    metric: Annotated[
        Literal["pnl_r", "pnl_usd", "hold_minutes", "mfe_r", "mae_r"], Field(description="the outcome it is about")
    ] = "pnl_r"
    op: Annotated[Literal["gt", "ge", "lt", "le"], Field(description="comparison")] = "gt"
    value: Annotated[float, Field(allow_inf_nan=False, description="value to compare with")] = 0.0
    strategy: Annotated[Label | None, Field(description="only this strategy; default: any")] = None
    symbol: Annotated[Symbol | None, Field(description="only this symbol; default: any")] = None
    id: Annotated[Key | None, Field(description="default: made from the content")] = None


@operation(writes=True)
def state_belief(memory: Memory, ask: StateBelief, caller: Caller) -> BeliefAnswer:
    """State a belief. It starts with a weak prior (alpha 2, beta 1); every trade that meets its conditions tests it."""
    handle = memory.agent_for_writing(ask.agent)
    body = {"sentence": ask.sentence, "when": ask.validity_conditions, "metric": ask.metric, "op": ask.op, "value": ask.value,
            "strategy": ask.strategy, "symbol": ask.symbol, "id": ask.id,
            "tier": 3 if caller.is_model else None}  # fmt: skip
    id_ = handle.memories.state_belief({k: v for k, v in body.items() if v is not None})
    return _belief_answer(handle, *handle.memories.belief(id_), None, None)
