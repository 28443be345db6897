"""Operations that record reported trades and recall memories."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import AliasChoices, Field

from memtape.core.codec import plain
from memtape.core.memory.beliefs import Belief
from memtape.core.memory.episodes import Episode
from memtape.core.observed import Closing, Side, Situation
from memtape.core.recall.evidence import Evidence, rounded
from memtape.core.recall.query import Profile, tuned
from memtape.core.recall.ranking import RankedMemory
from memtape.core.recall.scoring import Kind
from memtape.core.recall.warnings import LossWarning
from memtape.core.values import Fraction, Key, Label, Line, Money, Price, Quantity, Symbol, Time
from memtape.surfaces.answers import Answer, Basis, ReceiptAnswer, basis_of, receipt_answer
from memtape.surfaces.operations.beliefs import belief_row
from memtape.surfaces.questions import AsOf, OfAgent, agent_of
from memtape.surfaces.registry import operation

if TYPE_CHECKING:
    from memtape.engine import Memory
    from memtape.surfaces.caller import Caller


_R = Annotated[float, Field(allow_inf_nan=False)]


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
def remember_trade(memory: Memory, ask: RememberTrade, caller: Caller) -> ReceiptAnswer:
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
def close_trade(memory: Memory, ask: CloseTrade, caller: Caller) -> ReceiptAnswer:
    """Report the end of a trade that was reported open."""
    closing = Closing(trade_id=ask.trade_id, exit_price=ask.exit_price, exit_at=ask.exit_at, pnl=ask.pnl, pnl_r=ask.pnl_r,
                      reflection=ask.reflection, mae=ask.max_adverse_excursion)  # fmt: skip
    return receipt_answer(memory.agent_for_writing(ask.agent).close_trade(closing, backfill=ask.backfill))


class RecallMemories(AsOf):
    """The situation, and which memories."""

    symbol: Annotated[Symbol | None, Field(description="only this symbol")] = None
    strategy_name: Annotated[Label | None, Field(validation_alias=AliasChoices("strategy_name", "strategy"),
                             description="only this strategy")] = None  # fmt: skip
    side: Annotated[Side | None, Field(description="only trades of this side")] = None
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
    parameters: Annotated[
        dict[str, _R], Field(description="k, tau_days, exponent, belief_tau_days, belief_exponent, alpha, power, ...")
    ] = Field(default_factory=dict)
    weights: Annotated[dict[str, _R], Field(description="weights of likeness by field, like {regime: 0.4, price: 0}")] = Field(
        default_factory=dict
    )


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


def memory_row(memory: Any) -> dict[str, Any]:
    if isinstance(memory, Episode):
        return {k: v for k, v in plain(rounded(memory._asdict())).items() if v is not None}
    if isinstance(memory, Belief):
        return belief_row(memory)
    return {k: v for k, v in plain(memory).items() if v is not None}


def ranked_row(item: RankedMemory) -> RankedItem:
    c = item.components
    parts = {"Q": c.quality, "Sim": c.similarity, "Rec": c.recency, "Conf": c.confidence, "Aff": c.affect}
    if c.sharpe != 1.0:
        parts["Sharpe"] = c.sharpe
    return RankedItem(
        id=item.id, kind=item.kind, score=item.score, components=parts, tier=item.tier, n=item.n, why=item.why,
        memory=memory_row(item.memory),
    )  # fmt: skip


def warned_row(item: LossWarning) -> WarnedItem:
    return WarnedItem(
        id=item.id, r=item.r, similarity=item.similarity, severity=item.severity, far=item.far, tier=item.tier, why=item.why,
        memory=memory_row(item.memory),
    )  # fmt: skip


def evidence_row(evidence: Evidence) -> dict[str, Any]:
    """Evidence as it leaves: six significant digits."""
    told: dict[str, Any] = plain(rounded(asdict(evidence)))
    return told


@operation(writes=False, tools={"coach"}, aliases=("recall_similar_trades",))
def recall_memories(memory: Memory, ask: RecallMemories, caller: Caller) -> Recollected:
    """What memory has to say about a situation: ranked memories, warnings, and evidence with a cautious sizing hint.

    `ranked` contains the outcome in its score, so it may choose what to read and nothing else; `warnings` are losses in like
    situations; only `evidence` may feed a size. Numbers carry n; each item says why it is there.
    """
    handle = agent_of(memory, ask)
    parameters = tuned(ask.parameters, ask.weights, ask.strength, ask.sharpe)
    found, query, moment = handle.memories.recall(
        _said(ask.context, ask.context_regime, ask.context_atr_d1), symbol=ask.symbol, strategy=ask.strategy_name,
        side=ask.side,
        memory_types=ask.memory_types, limit=ask.limit, as_of=ask.as_of, head=ask.head, profile=ask.profile,
        explain=ask.explain, kelly_beside=ask.kelly_beside, parameters=parameters,
    )  # fmt: skip
    return Recollected(
        **basis_of(handle.agent.id, moment), profile=query.profile, situation=plain(query.situation),
        ranked=[ranked_row(item) for item in found.ranked], warnings=[warned_row(item) for item in found.warnings],
        evidence=evidence_row(found.evidence), beliefs=[ranked_row(item) for item in found.beliefs],
        near_misses=[ranked_row(item) for item in found.near_misses],
        worth_testing=[{"belief": belief_row(u.belief), "why": u.why, "plan": plain(u.plan)} for u in found.worth_testing],
    )  # fmt: skip
