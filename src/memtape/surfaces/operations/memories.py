"""What is remembered: reported trades, recall, beliefs, habits, the state of mind, and the check before an order."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import AliasChoices, Field

from memtape.core.beliefs import Belief
from memtape.core.codec import plain
from memtape.core.episodes import Episode
from memtape.core.evidence import Evidence, leaving
from memtape.core.observed import Closing, Situation
from memtape.core.query import Parameters, Profile
from memtape.core.ranking import Ranked
from memtape.core.scoring import Kind
from memtape.core.values import Fraction, Key, Label, Line, Money, Price, Quantity, Symbol, Time
from memtape.core.warning import Warned
from memtape.engine.checking import check_order
from memtape.engine.recalling import Moment
from memtape.errors import Unknown
from memtape.surfaces.answers import (
    Answer,
    AsOf,
    OfAgent,
    ReceiptAnswer,
    TradeRow,
    behaviour_row,
    figure,
    receipt_answer,
    time,
    trade_row,
)
from memtape.surfaces.operations.records import reader
from memtape.surfaces.registry import operation

if TYPE_CHECKING:
    from memtape.engine import Memory

_R = Annotated[float, Field(allow_inf_nan=False)]


# ---- reporting trades ----------------------------------------------------------------------------------------------------


class RememberTrade(OfAgent):
    """A trade as the agent reports it: whole, or without an exit while it is open."""

    symbol: Annotated[Symbol, Field(description="what was traded")]
    direction: Annotated[Literal["long", "short", "buy", "sell"], Field(validation_alias=AliasChoices("direction", "side"),
                         description="long or short (buy and sell are understood)")]  # fmt: skip
    entry_price: Annotated[Price, Field(description="price at entry")]
    exit_price: Annotated[
        Price | None, Field(description="price at exit; absent: it is still open, close it with close_trade")
    ] = None
    pnl: Annotated[Money | None, Field(description="net outcome in the account currency")] = None
    pnl_r: Annotated[_R | None, Field(description="outcome in units of initial risk (R)")] = None
    strategy_name: Annotated[Label | None, Field(validation_alias=AliasChoices("strategy_name", "strategy"),
                             description="default: the agent's skill")] = None  # fmt: skip
    market_context: Annotated[Line | None, Field(description="the market in words; kept, not scored")] = None
    context_regime: Annotated[Label | None, Field(description="trending_up, trending_down, ranging, volatile, or your own")] = (
        None
    )
    context_atr_d1: Annotated[float | None, Field(ge=0, allow_inf_nan=False, description="ATR(14) of the day at entry")] = None
    situation: Annotated[Situation | None, Field(validation_alias=AliasChoices("situation", "context"),
                         description="the whole situation at entry")] = None  # fmt: skip
    confidence: Annotated[Fraction | None, Field(description="of the decision, 0 to 1")] = None
    reflection: Annotated[Line | None, Field(description="what you make of it")] = None
    max_adverse_excursion: Annotated[Money | None, Field(description="worst unrealised loss, account currency")] = None
    trade_id: Annotated[
        Key | None, Field(description="your own id; without it the same report within 10 minutes is one trade")
    ] = None
    entry_at: Annotated[Time | None, Field(description="ISO 8601 with zone")] = None
    exit_at: Annotated[Time | None, Field(description="ISO 8601 with zone; default: now")] = None
    qty: Annotated[Quantity | None, Field(validation_alias=AliasChoices("qty", "lot_size"), description="base units")] = None
    stop: Annotated[Price | None, Field(description="stop price at entry: from it R is computed")] = None
    target: Annotated[Price | None, Field(description="target price at entry")] = None
    tags: Annotated[list[Label], Field(max_length=16, description="labels of your own")] = Field(default_factory=list)
    source: Annotated[Label, Field(description="who says so: the agent, a model, a file")] = "agent"
    backfill: Annotated[bool, Field(description="told after the fact: counts as known from its own time, not from now")] = False


class CloseTrade(OfAgent):
    """The end of a trade that was reported open."""

    trade_id: Annotated[Key, Field(description="the id under which it was reported")]
    exit_price: Annotated[Price, Field(description="price at exit")]
    exit_at: Annotated[Time | None, Field(description="ISO 8601 with zone; default: now")] = None
    pnl: Annotated[Money | None, Field(description="net outcome in the account currency")] = None
    pnl_r: Annotated[_R | None, Field(description="outcome in units of initial risk (R)")] = None
    reflection: Annotated[Line | None, Field(description="what you make of it")] = None
    max_adverse_excursion: Annotated[Money | None, Field(description="worst unrealised loss, account currency")] = None
    backfill: Annotated[bool, Field(description="told after the fact: counts as known from its own time, not from now")] = False


def _said(situation: Situation | None, regime: str | None, atr_d1: float | None) -> dict[str, Any] | None:
    """A situation with the two fields that a caller may give beside it."""
    own: dict[str, Any] = {} if situation is None else plain(situation)
    if regime is not None:
        own["regime"] = regime
    if atr_d1 is not None:
        own["atr_d1"] = atr_d1
    return own or None


@operation(writes=True, tools={"trader"}, aliases=("store_trade_memory",))
def remember_trade(memory: Memory, ask: RememberTrade) -> ReceiptAnswer:
    """Remember a trade as the agent reports it; every kind of memory learns from it in one transaction.

    Where the agent has a broker source this is a claim: words and confidence go to the trade of the ledger it speaks of
    (same symbol and side, entry within 5 minutes and 0.25 %), its numbers stay unverified and teach nothing.
    """
    claim = {
        "trade_id": ask.trade_id, "symbol": ask.symbol, "side": ask.direction, "entry_price": ask.entry_price,
        "exit_price": ask.exit_price, "pnl": ask.pnl, "pnl_r": ask.pnl_r, "strategy": ask.strategy_name,
        "note": ask.market_context,
        "situation": _said(ask.situation, ask.context_regime, ask.context_atr_d1), "confidence": ask.confidence,
        "reflection": ask.reflection, "mae": ask.max_adverse_excursion, "entry_at": ask.entry_at, "exit_at": ask.exit_at,
        "qty": ask.qty, "stop": ask.stop, "target": ask.target, "tags": tuple(ask.tags), "source": ask.source,
    }  # fmt: skip
    handle = memory.agent_for_writing(ask.agent)
    return receipt_answer(handle.remember_trade({k: v for k, v in claim.items() if v is not None}, backfill=ask.backfill))


@operation(writes=True, tools={"trader"})
def close_trade(memory: Memory, ask: CloseTrade) -> ReceiptAnswer:
    """Report the end of a trade that was reported open."""
    closing = Closing(trade_id=ask.trade_id, exit_price=ask.exit_price, exit_at=ask.exit_at, pnl=ask.pnl, pnl_r=ask.pnl_r,
                      reflection=ask.reflection, mae=ask.max_adverse_excursion)  # fmt: skip
    return receipt_answer(memory.agent_for_writing(ask.agent).close_trade(closing, backfill=ask.backfill))


# ---- recall --------------------------------------------------------------------------------------------------------------


class Basis(Answer):
    """What an answer rests on."""

    agent: Annotated[str, Field(description="whose memory")]
    as_of: Annotated[str, Field(description="UTC: with what was known at this moment")]
    n: Annotated[int, Field(description="episodes known then")]
    window: Annotated[list[str | None], Field(description="first and last exit among them, UTC")]
    outcomes: Annotated[str, Field(description="'verified' by the broker's records, or 'claimed' by the agent itself")]


def _basis(agent: str, moment: Moment) -> dict[str, Any]:
    return {"agent": agent, "as_of": time(moment.as_of) or "", "n": moment.n,
            "window": [time(moment.first_exit), time(moment.last_exit)], "outcomes": moment.standing}  # fmt: skip


class RecallMemories(AsOf):
    """The situation, and which memories."""

    symbol: Annotated[Symbol | None, Field(description="only this symbol")] = None
    strategy_name: Annotated[Label | None, Field(validation_alias=AliasChoices("strategy_name", "strategy"),
                             description="only this strategy")] = None  # fmt: skip
    context: Annotated[Situation | None, Field(validation_alias=AliasChoices("context", "situation"),
                       description="the situation; what is missing is unknown. Default: the agent's own")] = None  # fmt: skip
    context_regime: Annotated[Label | None, Field(description="regime, where context is not given whole")] = None
    context_atr_d1: Annotated[float | None, Field(ge=0, allow_inf_nan=False, description="ATR(14) of the day")] = None
    market_context: Annotated[Line | None, Field(description="the market in words; returned, not scored")] = None
    memory_types: Annotated[list[Kind], Field(description="kinds to rank: episodic, semantic, prospective")] = Field(
        default_factory=lambda: list[Kind](("episodic", "semantic"))
    )
    limit: Annotated[int, Field(ge=0, le=100, description="how many to rank")] = 10
    profile: Annotated[
        Profile, Field(description="owm (ours), owm-literal (the original formula), balanced (losses have seats)")
    ] = "owm"
    explain: Annotated[bool, Field(description="also what barely missed its place, and why")] = False
    kelly_beside: Annotated[bool, Field(description="also the original's Kelly and recency Kelly, labelled")] = False
    strength: Annotated[bool, Field(description="retrieval strength (citations by decisions) in place of recency")] = False
    sharpe: Annotated[bool, Field(description="weigh by the Sharpe ratio of the time before each trade")] = False


class RankedItem(Answer):
    """A memory in its place."""

    id: Annotated[str, Field(description="the memory")]
    kind: Annotated[str, Field(description="episodic, semantic or prospective")]
    score: Annotated[float, Field(description="the product of the components")]
    components: Annotated[dict[str, float], Field(description="Q, Sim, Rec, Conf, Aff (and Sharpe), unrounded")]
    tier: Annotated[int, Field(description="0 broker, 1 operator, 2 computed, 3 model, 4 external")]
    n: Annotated[int, Field(description="sample size")]
    why: Annotated[str, Field(description="why it is here")]
    memory: Annotated[dict[str, Any], Field(description="what it holds")]


class WarnedItem(Answer):
    """A loss in a situation like this."""

    id: Annotated[str, Field(description="the episode")]
    r: Annotated[float, Field(description="its outcome in R")]
    similarity: Annotated[float, Field(description="0 to 1")]
    severity: Annotated[float, Field(description="|r| x similarity x age factor x confidence")]
    far: Annotated[bool, Field(description="true: nothing alike was lost; this is the nearest")]
    tier: Annotated[int, Field(description="0 broker, 1 operator, 2 computed, 3 model, 4 external")]
    why: Annotated[str, Field(description="why it is here")]
    memory: Annotated[dict[str, Any], Field(description="the episode")]


class Recollected(Basis):
    """What memory has to say: three answers that are never mixed."""

    profile: Annotated[str, Field(description="how it was ranked")]
    situation: Annotated[dict[str, Any], Field(description="the situation asked about")]
    ranked: Annotated[list[RankedItem], Field(description="by score; the outcome is in it, so it may order and nothing else")]
    warnings: Annotated[list[WarnedItem], Field(description="losses in situations like this, worst first")]
    evidence: Annotated[
        dict[str, Any], Field(description="what all trades say, weighed without their outcome; with the sizing hint")
    ]
    beliefs: Annotated[list[RankedItem], Field(description="where the profile gives beliefs a list of their own")]
    near_misses: Annotated[list[RankedItem], Field(description="with explain: what came next, and what cost it its place")]
    worth_testing: Annotated[list[dict[str, Any]], Field(description="undecided beliefs that this situation could test")]


def _memory(memory: Any) -> dict[str, Any]:
    if isinstance(memory, Episode):
        return {k: v for k, v in plain(memory._asdict()).items() if v is not None}
    if isinstance(memory, Belief):
        return belief_row(memory)
    return {k: v for k, v in plain(memory).items() if v is not None}


def _ranked(item: Ranked) -> RankedItem:
    c = item.components
    parts = {"Q": c.quality, "Sim": c.similarity, "Rec": c.recency, "Conf": c.confidence, "Aff": c.affect}
    if c.sharpe != 1.0:
        parts["Sharpe"] = c.sharpe
    return RankedItem(
        id=item.id, kind=item.kind, score=item.score, components=parts, tier=item.tier, n=item.n, why=item.why,
        memory=_memory(item.memory),
    )  # fmt: skip


def _warned(item: Warned) -> WarnedItem:
    return WarnedItem(
        id=item.id, r=item.r, similarity=item.similarity, severity=item.severity, far=item.far, tier=item.tier, why=item.why,
        memory=_memory(item.memory),
    )  # fmt: skip


def evidence_row(evidence: Evidence) -> dict[str, Any]:
    """Evidence as it leaves: six significant digits."""
    told: dict[str, Any] = plain(leaving(asdict(evidence)))
    return told


@operation(writes=False, tools={"coach"}, aliases=("recall_similar_trades",))
def recall_memories(memory: Memory, ask: RecallMemories) -> Recollected:
    """What memory has to say about a situation: ranked memories, warnings, and evidence with a cautious sizing hint.

    `ranked` contains the outcome in its score, so it may choose what to read and nothing else; `warnings` are losses in like
    situations; only `evidence` may feed a size. Numbers carry n; each item says why it is there.
    """
    handle = reader(memory, ask)
    parameters = Parameters(strength="on" if ask.strength else "off", sharpe="on" if ask.sharpe else "off")
    found, query, moment = handle.recall(
        _said(ask.context, ask.context_regime, ask.context_atr_d1), symbol=ask.symbol, strategy=ask.strategy_name,
        memory_types=ask.memory_types, limit=ask.limit, as_of=ask.as_of, head=ask.head, profile=ask.profile,
        explain=ask.explain, kelly_beside=ask.kelly_beside, parameters=parameters,
    )  # fmt: skip
    return Recollected(
        **_basis(handle.agent.id, moment), profile=query.profile, situation=plain(query.situation),
        ranked=[_ranked(item) for item in found.ranked], warnings=[_warned(item) for item in found.warnings],
        evidence=evidence_row(found.evidence), beliefs=[_ranked(item) for item in found.beliefs],
        near_misses=[_ranked(item) for item in found.near_misses],
        worth_testing=[{"belief": belief_row(u.belief), "why": u.why, "plan": plain(u.plan)} for u in found.worth_testing],
    )  # fmt: skip


# ---- beliefs -------------------------------------------------------------------------------------------------------------


def belief_row(belief: Belief) -> dict[str, Any]:
    """A belief as it leaves."""
    posterior = belief.posterior
    return {
        "id": belief.id, "sentence": belief.sentence, "status": belief.status, "why": belief.why, "source": belief.source,
        "tier": belief.tier, "strategy": belief.strategy, "symbol": belief.symbol, "when": plain(belief.proposition.when),
        "then": {"metric": belief.proposition.metric, "op": belief.proposition.op, "value": belief.proposition.value},
        "n": belief.n, "confirmed": belief.confirmed, "contradicted": belief.contradicted,
        "prior": {"alpha": belief.prior.alpha, "beta": belief.prior.beta}, "alpha": posterior.alpha, "beta": posterior.beta,
        "confidence": figure(posterior.mean), "uncertainty": figure(posterior.variance),
        "interval_90": [figure(posterior.bound(0.05)), figure(posterior.bound(0.95))],
        "base_rate": figure(belief.base_rate), "base_n": belief.base_n, "p_value": figure(belief.p_value),
        "probability": figure(belief.probability), "mean_r": figure(belief.mean_r), "related": list(belief.related),
        "last_confirmed": belief.last_confirmed, "last_contradicted": belief.last_contradicted,
        "last_evidence_at": time(belief.last_evidence_at), "since": time(belief.since),
    }  # fmt: skip


class GetBeliefs(AsOf):
    """Which beliefs."""

    status: Annotated[
        Literal["candidate", "believed", "merged", "split", "retired"] | None, Field(description="default: all")
    ] = None
    strategy: Annotated[Label | None, Field(description="only about this strategy")] = None
    symbol: Annotated[Symbol | None, Field(description="only about this symbol")] = None
    limit: Annotated[int, Field(ge=1, le=1000, description="how many")] = 100


class BeliefsAnswer(Basis):
    """Beliefs, the most certain first."""

    beliefs: Annotated[list[dict[str, Any]], Field(description="sentence, status, counts, interval, base rate, why")]
    total: Annotated[int, Field(description="how many there are")]
    suggested_plans: Annotated[list[dict[str, Any]], Field(description="plans that beliefs and the drawdown suggest; not made")]


@operation(writes=False)
def get_beliefs(memory: Memory, ask: GetBeliefs) -> BeliefsAnswer:
    """What an agent has come to believe, with what speaks for and against each.

    A belief stays a candidate until it has 30 trades and passes the false-discovery gate over all cells that were scanned.
    """
    handle = reader(memory, ask)
    found, moment = handle.beliefs(as_of=ask.as_of, head=ask.head)
    chosen = [
        b for b in found
        if (ask.status is None or b.status == ask.status) and (ask.strategy is None or b.strategy in (None, ask.strategy))
        and (ask.symbol is None or b.symbol in (None, ask.symbol))
    ]  # fmt: skip
    rank = ("believed", "candidate", "split", "merged", "retired")
    chosen.sort(key=lambda b: (rank.index(b.status), 1.0 if b.p_value is None else b.p_value, -b.n, b.id))
    return BeliefsAnswer(
        **_basis(handle.agent.id, moment), beliefs=[belief_row(b) for b in chosen[: ask.limit]], total=len(chosen),
        suggested_plans=[plain(p) for p in handle.suggested_plans(as_of=ask.as_of)] if ask.head is None else [],
    )  # fmt: skip


class GetBelief(AsOf):
    """Which belief."""

    belief_id: Annotated[Key, Field(description="its id")]


class BeliefAnswer(Answer):
    """A belief and its evidence."""

    belief: Annotated[dict[str, Any], Field(description="sentence, status, counts, interval, base rate, why")]
    confirming: Annotated[list[str], Field(description="trades for it, each once")]
    contradicting: Annotated[list[str], Field(description="trades against it, each once")]


@operation(writes=False)
def get_belief(memory: Memory, ask: GetBelief) -> BeliefAnswer:
    """One belief, with every trade for it and against it."""
    found, for_, against = reader(memory, ask).belief(ask.belief_id, as_of=ask.as_of)
    return BeliefAnswer(belief=belief_row(found), confirming=for_, contradicting=against)


class StateBelief(OfAgent):
    """A belief of the owner's: in such a situation, trades end so."""

    sentence: Annotated[Line, Field(description="what you believe, in words")]
    validity_conditions: Annotated[
        dict[str, Any], Field(description="when it holds: a predicate over the entry situation, never empty")
    ]
    metric: Annotated[Literal["pnl_r", "pnl_usd", "hold_minutes", "mfe_r", "mae_r"], Field(description="what it speaks of")] = (
        "pnl_r"
    )
    op: Annotated[Literal["gt", "ge", "lt", "le"], Field(description="how it compares")] = "gt"
    value: Annotated[float, Field(allow_inf_nan=False, description="with what")] = 0.0
    strategy: Annotated[Label | None, Field(description="only this strategy; default: any")] = None
    symbol: Annotated[Symbol | None, Field(description="only this symbol; default: any")] = None
    id: Annotated[Key | None, Field(description="default: made from the content")] = None


@operation(writes=True)
def state_belief(memory: Memory, ask: StateBelief) -> BeliefAnswer:
    """State a belief as the owner: it starts mild (alpha 2, beta 1) and is tested by every trade its conditions hold for."""
    handle = memory.agent_for_writing(ask.agent)
    body = {"sentence": ask.sentence, "when": ask.validity_conditions, "metric": ask.metric, "op": ask.op, "value": ask.value,
            "strategy": ask.strategy, "symbol": ask.symbol, "id": ask.id}  # fmt: skip
    id_ = handle.state_belief({k: v for k, v in body.items() if v is not None})
    found, for_, against = handle.belief(id_)
    return BeliefAnswer(belief=belief_row(found), confirming=for_, contradicting=against)


# ---- habits and state ----------------------------------------------------------------------------------------------------


class GetBehaviour(AsOf):
    """Whose habits."""

    strategy_name: Annotated[Label | None, Field(validation_alias=AliasChoices("strategy_name", "strategy"),
                             description="only this strategy")] = None  # fmt: skip
    symbol: Annotated[Symbol | None, Field(description="only this symbol")] = None


class BehaviourAnswer(Basis):
    """What an agent does again and again."""

    strategy: Annotated[str | None, Field(description="null: several")]
    symbol: Annotated[str | None, Field(description="null: several")]
    window_trades: Annotated[int, Field(description="trades looked back on; steady agents have longer windows")]
    figures: Annotated[dict[str, Any], Field(description="each with value (null below its sample), n, and why it is null")]
    drift: Annotated[
        list[dict[str, Any]], Field(description="whether outcomes, risk or hold are changing: direction, magnitude, since")
    ]
    drift_detected: Annotated[bool, Field(description="whether any is, now")]
    patterns: Annotated[list[dict[str, Any]], Field(description="what is done again and again, how often, and what came of it")]


@operation(writes=False, tools={"coach"})
def get_behavioral_analysis(memory: Memory, ask: GetBehaviour) -> BehaviourAnswer:
    """What an agent does again and again: timing, sizing against Kelly, disposition, reaction to losses, stability, drift."""
    handle = reader(memory, ask)
    found, moment = handle.behaviour(strategy=ask.strategy_name, symbol=ask.symbol, as_of=ask.as_of, head=ask.head)
    return BehaviourAnswer(**_basis(handle.agent.id, moment), **behaviour_row(found))


class GetState(AsOf):
    """When, and how much of its history."""

    history: Annotated[int, Field(ge=0, le=5000, description="how many past steps to add")] = 0


class StateAnswer(Answer):
    """An agent's state of mind, computed from outcomes and flow-adjusted equity."""

    agent: Annotated[str, Field(description="whose")]
    as_of: Annotated[str, Field(description="UTC")]
    n: Annotated[int, Field(description="steps behind it: closes, equity marks, flows")]
    confidence_level: Annotated[float, Field(description="slow average of how trades went, 0 to 1")]
    risk_appetite: Annotated[float, Field(description="1 at the peak, a tenth at the drawdown limit")]
    risk_appetite_grossman_zhou: Annotated[float, Field(description="the stricter form: 0 at the limit")]
    momentum_bias: Annotated[float | None, Field(description="contrarian (-1) to following (+1); null below its sample")]
    drawdown_pct: Annotated[float, Field(description="a fraction: 0.05 is 5 %")]
    drawdown_state: Annotated[float, Field(description="0 at the peak, 1 at the limit")]
    max_acceptable_drawdown: Annotated[float, Field(description="the limit, a fraction")]
    equity: Annotated[float, Field(description="NAV, account currency, deposits taken out")]
    peak_equity: Annotated[float, Field(description="its highest")]
    consecutive_wins: Annotated[int, Field(description="in a row")]
    consecutive_losses: Annotated[int, Field(description="in a row")]
    last_updated: Annotated[str | None, Field(description="UTC: the last step")]
    history: Annotated[list[dict[str, Any]], Field(description="past steps, oldest first")]


@operation(writes=False, tools={"coach"})
def get_agent_state(memory: Memory, ask: GetState) -> StateAnswer:
    """An agent's state of mind: confidence, risk appetite, drawdown, streaks; computed, never told."""
    from memtape.core.affect import risk_appetite_gz

    handle = reader(memory, ask)
    at = ask.as_of or handle.now()
    step, mood = handle.state(as_of=at, head=ask.head), handle.mood(as_of=at, head=ask.head)
    steps = handle.state_history(as_of=at, limit=ask.history) if ask.history else []
    habits, _ = handle.behaviour(as_of=at, head=ask.head)
    return StateAnswer(
        agent=handle.agent.id, as_of=time(at) or "", n=handle.steps(as_of=at), confidence_level=figure(mood.confidence) or 0.0,
        risk_appetite=figure(mood.risk_appetite) or 0.0,
        risk_appetite_grossman_zhou=figure(risk_appetite_gz(mood.drawdown)) or 0.0,
        momentum_bias=figure(habits.momentum_bias.value), drawdown_pct=figure(mood.drawdown) or 0.0,
        drawdown_state=figure(mood.drawdown_state) or 0.0, max_acceptable_drawdown=mood.limit, equity=figure(mood.equity) or 0.0,
        peak_equity=figure(mood.peak_equity) or 0.0, consecutive_wins=mood.consecutive_wins,
        consecutive_losses=mood.consecutive_losses, last_updated=time(step.at) if step else None,
        history=[
            {"at": time(s.at), "what": ("flow", "close", "mark")[s.rank], "confidence": figure(s.confidence),
             "equity": figure(s.nav), "drawdown_pct": figure(s.state().drawdown),
             "risk_appetite": figure(s.state().risk_appetite), "pnl_r": figure(s.pnl_r)}
            for s in steps
        ],
    )  # fmt: skip


# ---- one trade, and the order to come ------------------------------------------------------------------------------------


class GetReflection(AsOf):
    """Which trade."""

    trade_id: Annotated[Key, Field(description="its id")]


class ReflectionAnswer(Answer):
    """A trade and all that memory links to it."""

    trade: Annotated[TradeRow | None, Field(description="every column; null for a shadow")]  # type: ignore[valid-type]
    episode: Annotated[
        dict[str, Any] | None, Field(description="what is remembered of it, in its entry situation; null while open")
    ]
    confirms: Annotated[list[dict[str, Any]], Field(description="beliefs that it speaks for")]
    contradicts: Annotated[list[dict[str, Any]], Field(description="beliefs that it speaks against")]
    plans: Annotated[list[dict[str, Any]], Field(description="plans made from it, or that fired when it was entered")]
    similar: Annotated[list[RankedItem], Field(description="trades before it, in situations like its own")]
    outcomes: Annotated[str, Field(description="'verified' by the broker's records, or 'claimed' by the agent itself")]


@operation(writes=False, tools={"coach"})
def get_trade_reflection(memory: Memory, ask: GetReflection) -> ReflectionAnswer:
    """One trade with what it taught: its episode, the beliefs it speaks for and against, the plans around it, its like."""
    from memtape.core.beliefs import evidence_for
    from memtape.surfaces.operations.plans import plan_row

    handle = reader(memory, ask)
    at = ask.as_of or handle.now()
    trade, episode = handle.trade(ask.trade_id, as_of=ask.as_of, head=ask.head), handle.episode(ask.trade_id, as_of=at)
    if trade is None and episode is None:
        raise Unknown("trade_id", "trade", ask.trade_id, "List them with get_trades")
    for_, against, like = [], [], []
    beliefs, moment = handle.beliefs(as_of=at)
    if episode is not None:
        for belief in beliefs:
            confirming, contradicting = evidence_for(belief, [episode], moment.claims_count)
            for_ += [belief_row(belief)] if confirming else []
            against += [belief_row(belief)] if contradicting else []
        found, _, _ = handle.recall(episode.situation, symbol=episode.symbol, limit=6, as_of=episode.entry_at)
        like = [_ranked(item) for item in found.ranked if item.kind == "episodic" and item.id != episode.id][:5]
    entered = trade.entry_at if trade is not None else episode.entry_at if episode is not None else at
    plans = [
        plan_row(seen) for seen in handle.plans(as_of=at)
        if ask.trade_id in seen.standing.plan.sources or seen.standing.fired_at == entered
    ]  # fmt: skip
    return ReflectionAnswer(
        trade=trade_row(trade) if trade else None, episode=_memory(episode) if episode else None, confirms=for_,
        contradicts=against, plans=plans, similar=like, outcomes=moment.standing,
    )  # fmt: skip


class PreTradeCheck(AsOf):
    """An order that is being considered."""

    symbol: Annotated[Symbol, Field(description="what is to be traded")]
    side: Annotated[Literal["long", "short"], Field(validation_alias=AliasChoices("side", "direction"), description="which way")]
    entry_price: Annotated[Price | None, Field(description="price of the order")] = None
    qty: Annotated[Quantity | None, Field(description="base units")] = None
    stop: Annotated[Price | None, Field(description="stop price")] = None
    target: Annotated[Price | None, Field(description="target price")] = None
    strategy: Annotated[Label | None, Field(validation_alias=AliasChoices("strategy", "strategy_name"),
                        description="only memories of this strategy")] = None  # fmt: skip
    context: Annotated[Situation | None, Field(validation_alias=AliasChoices("context", "situation"),
                       description="the situation; what is missing comes from bars and the agent's state")] = None  # fmt: skip


class CheckAnswer(Basis):
    """What memory has to say about an order. Advice only."""

    verdict: Annotated[Literal["clear", "caution", "against"], Field(description="what it comes to")]
    reasons: Annotated[list[dict[str, Any]], Field(description="weighs, text, source; the heaviest first")]
    warnings: Annotated[list[WarnedItem], Field(description="losses in situations like this")]
    evidence: Annotated[dict[str, Any], Field(description="what all trades say, with n and the sizing hint")]
    risk_share: Annotated[
        float | None, Field(description="what the order risks, as a share of equity; null without stop and qty")
    ]
    size_factor: Annotated[float, Field(description="what active plans say together: 0 do not, 1 as usual")]
    plans: Annotated[list[dict[str, Any]], Field(description="plans that fire here")]
    beliefs: Annotated[list[dict[str, Any]], Field(description="beliefs that hold here")]
    events: Annotated[list[dict[str, Any]], Field(description="scheduled within 24 hours")]
    avoid: Annotated[list[str], Field(description="the skill's own hard rules: they stand above memory")]


@operation(writes=False, tools={"coach"})
def pre_trade_check(memory: Memory, ask: PreTradeCheck) -> CheckAnswer:
    """What memory has to say about an order before it is sent: clear, caution or against, with reasons. Advice only."""
    from memtape.surfaces.operations.plans import plan_row

    handle = reader(memory, ask)
    skill, _ = memory.skill(handle.agent.skill, handle.agent.skill_version)
    risk = None
    if ask.qty is not None and ask.stop is not None and ask.entry_price is not None:
        risk = float(abs(ask.entry_price - ask.stop) * ask.qty)
    found = check_order(
        handle, symbol=ask.symbol, side=ask.side, situation=None if ask.context is None else plain(ask.context),
        strategy=ask.strategy, risk_usd=risk, as_of=ask.as_of, avoid=skill.avoid,
    )  # fmt: skip
    return CheckAnswer(
        **_basis(handle.agent.id, found.moment), verdict=found.verdict,
        reasons=[asdict(reason) for reason in found.reasons], warnings=[_warned(item) for item in found.recalled.warnings],
        evidence=evidence_row(found.recalled.evidence), risk_share=figure(found.risk_share),
        size_factor=found.resolved.size_factor,
        plans=[plan_row(seen) for seen in found.plans], beliefs=[belief_row(b) for b in found.beliefs],
        events=[plain(event) for event in found.events], avoid=list(found.avoid),
    )  # fmt: skip
