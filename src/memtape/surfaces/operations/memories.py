"""Operations that record reported trades and recall memories."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import AliasChoices, BaseModel, Field

from memtape.core.codec import plain
from memtape.core.labels import StatedDirection, StatedSide, labels_in_text
from memtape.core.memory.beliefs import Belief
from memtape.core.memory.episodes import Episode
from memtape.core.observed import Closing, Situation
from memtape.core.recall.evidence import Evidence, rounded
from memtape.core.recall.explanations import hidden_text
from memtape.core.recall.query import Profile, tuned
from memtape.core.recall.ranking import RankedMemory
from memtape.core.recall.scoring import Kind
from memtape.core.recall.warnings import LossWarning
from memtape.core.values import Fraction, Key, Label, Line, Money, Price, Quantity, Symbol, Time
from memtape.surfaces.answer_models import Answer, answer_model
from memtape.surfaces.answers import Basis, ReceiptAnswer, basis_of, receipt_answer
from memtape.surfaces.operations.beliefs import BeliefRow, SuggestedPlan, belief_row
from memtape.surfaces.questions import AsOf, OfAgent, agent_of
from memtape.surfaces.registry import operation

if TYPE_CHECKING:
    from memtape.engine import Memory
    from memtape.surfaces.caller import Caller


_R = Annotated[float, Field(allow_inf_nan=False)]


MARKET_CONTEXT = "the market in words; the answer says which labels were read from it"


class RememberTrade(OfAgent):
    """A trade as the agent reports it; without an exit it is still open."""

    symbol: Annotated[Symbol, Field(description="what was traded")]
    direction: Annotated[StatedDirection, Field(validation_alias=AliasChoices("direction", "side"),
                         description="long or short (or buy, sell)")]  # fmt: skip
    entry_price: Annotated[Price, Field(description="price at entry")]
    exit_price: Annotated[Price | None, Field(description="price at exit; absent: still open, close it with close_trade")] = None
    pnl: Annotated[Money | None, Field(description="net outcome in the account currency")] = None
    pnl_r: Annotated[_R | None, Field(description="outcome in units of initial risk (R)")] = None
    strategy_name: Annotated[Label | None, Field(validation_alias=AliasChoices("strategy_name", "strategy"),
                             description="default: the agent's skill")] = None  # fmt: skip
    market_context: Annotated[Line | None, Field(description=MARKET_CONTEXT)] = None
    context_regime: Annotated[Label | None, Field(description="trending_up, trending_down, ranging, volatile, or your own")] = (
        None
    )
    context_atr_d1: Annotated[float | None, Field(ge=0, allow_inf_nan=False, description="ATR(14) of the day at entry")] = None
    situation: Annotated[Situation | None, Field(validation_alias=AliasChoices("situation", "context"),
                         description="the whole situation at entry")] = None  # fmt: skip
    confidence: Annotated[Fraction | None, Field(description="0 to 1")] = None
    reflection: Annotated[Line | None, Field(description="what you take from it, in your own words")] = None
    max_adverse_excursion: Annotated[Money | None, Field(description="worst unrealised loss, account currency")] = None
    trade_id: Annotated[
        Key | None, Field(description="your own id; without it, equal reports within 10 minutes are one trade")
    ] = None
    entry_at: Annotated[Time | None, Field(description="ISO 8601 with zone")] = None
    exit_at: Annotated[Time | None, Field(description="ISO 8601 with zone; default: now")] = None
    qty: Annotated[Quantity | None, Field(validation_alias=AliasChoices("qty", "lot_size"), description="base units")] = None
    stop: Annotated[Price | None, Field(description="stop price at entry; R is computed from it")] = None
    target: Annotated[Price | None, Field(description="target price at entry")] = None
    tags: Annotated[list[Label], Field(max_length=16, description="your labels")] = Field(default_factory=list)
    source: Annotated[Label, Field(description="who reports it: the agent, a model, a file")] = "agent"
    backfill: Annotated[bool, Field(description="recorded late: counts as known from its own time, not from now")] = False


class CloseTrade(OfAgent):
    """The exit of a trade that was reported as open."""

    trade_id: Annotated[Key, Field(description="the id it was reported with")]
    exit_price: Annotated[Price, Field(description="price at exit")]
    exit_at: Annotated[Time | None, Field(description="ISO 8601 with zone; default: now")] = None
    pnl: Annotated[Money | None, Field(description="net outcome in the account currency")] = None
    pnl_r: Annotated[_R | None, Field(description="outcome in units of initial risk (R)")] = None
    reflection: Annotated[Line | None, Field(description="what you take from it, in your own words")] = None
    max_adverse_excursion: Annotated[Money | None, Field(description="worst unrealised loss, account currency")] = None
    backfill: Annotated[bool, Field(description="recorded late: counts as known from its own time, not from now")] = False


def _stated_situation(
    ask: RememberTrade | RecallMemories, situation: Situation | None
) -> tuple[dict[str, Any] | None, list[str]]:
    """A situation with what may be stated separately, and notes on what was read from the market in words."""
    own: dict[str, Any] = {} if situation is None else plain(situation)
    if ask.context_regime is not None:
        own["regime"] = ask.context_regime
    if ask.context_atr_d1 is not None:
        own["atr_d1"] = ask.context_atr_d1
    if ask.market_context is None:
        return own or None, []
    read = {name: label for name, label in labels_in_text(ask.market_context).items() if name not in own}
    if not read and not own:
        return None, ["no label was read from market_context; state them as context, like {\"session\": \"london\"}"]
    named = ", ".join(f"{name} {label}" for name, label in read.items())
    return own | read, [f"read from market_context: {named}"] if read else []


class RememberedTrade(ReceiptAnswer):
    """The result of remembering a trade."""

    notes: Annotated[list[str], Field(description="what was read from market_context", default_factory=list)]


@operation(writes=True, tools={"trader"}, aliases=("store_trade_memory",))
def remember_trade(memory: Memory, ask: RememberTrade, caller: Caller) -> RememberedTrade:
    """Remember a trade that the agent reports; all memories learn from it in one transaction.

    If there are records of the venue or the owner, this is a claim: its reflection is attached to the matching trade (same
    symbol and side, entry within 5 minutes and 0.25 %); its numbers and confidence are shown as claimed and not learned from.
    """
    situation, notes = _stated_situation(ask, ask.situation)
    claim = {
        "trade_id": ask.trade_id, "symbol": ask.symbol, "side": ask.direction, "entry_price": ask.entry_price,
        "exit_price": ask.exit_price, "pnl": ask.pnl, "pnl_r": ask.pnl_r, "strategy": ask.strategy_name,
        "note": ask.market_context,
        "situation": situation, "confidence": ask.confidence,
        "reflection": ask.reflection, "mae": ask.max_adverse_excursion, "entry_at": ask.entry_at, "exit_at": ask.exit_at,
        "qty": ask.qty, "stop": ask.stop, "target": ask.target, "tags": tuple(ask.tags), "source": ask.source,
    }  # fmt: skip
    handle = memory.agent_for_writing(ask.agent)
    receipt = handle.remember_trade({k: v for k, v in claim.items() if v is not None}, backfill=ask.backfill)
    return RememberedTrade(**dict(receipt_answer(receipt)), notes=notes)


@operation(writes=True, tools={"trader"})
def close_trade(memory: Memory, ask: CloseTrade, caller: Caller) -> ReceiptAnswer:
    """Report the exit of a trade that was reported as open."""
    closing = Closing(trade_id=ask.trade_id, exit_price=ask.exit_price, exit_at=ask.exit_at, pnl=ask.pnl, pnl_r=ask.pnl_r,
                      reflection=ask.reflection, mae=ask.max_adverse_excursion)  # fmt: skip
    return receipt_answer(memory.agent_for_writing(ask.agent).close_trade(closing, backfill=ask.backfill))


class RecallMemories(AsOf):
    """The situation, and which memories to recall."""

    symbol: Annotated[Symbol | None, Field(description="only this symbol")] = None
    strategy_name: Annotated[Label | None, Field(validation_alias=AliasChoices("strategy_name", "strategy"),
                             description="only this strategy")] = None  # fmt: skip
    side: Annotated[StatedSide | None, Field(description="only this side")] = None
    context: Annotated[Situation | None, Field(validation_alias=AliasChoices("context", "situation"),
                       description="the situation; missing fields are unknown. Default: the agent's own")] = None  # fmt: skip
    context_regime: Annotated[Label | None, Field(description="the regime, if context is not given")] = None
    context_atr_d1: Annotated[float | None, Field(ge=0, allow_inf_nan=False, description="ATR(14) of the day")] = None
    market_context: Annotated[Line | None, Field(description=MARKET_CONTEXT)] = None
    memory_types: Annotated[list[Kind], Field(description="kinds to rank: episodic, semantic, prospective")] = Field(
        default_factory=lambda: list[Kind](("episodic", "semantic"))
    )
    limit: Annotated[int, Field(ge=0, le=100, description="how many memories")] = 10
    profile: Annotated[
        Profile, Field(description="owm, owm-literal (the original formula), balanced (reserves places for losses)")
    ] = "owm"
    explain: Annotated[bool, Field(description="also memories that just missed the list, and why")] = False
    kelly_beside: Annotated[
        bool,
        Field(validation_alias=AliasChoices("kelly_beside", "kelly"), description="also the original Kelly and recency Kelly"),
    ] = False
    strength: Annotated[bool, Field(description="retrieval strength (how often cited) instead of recency")] = False
    sharpe: Annotated[bool, Field(description="weight by the Sharpe ratio before each trade")] = False
    parameters: Annotated[
        dict[str, _R], Field(description="k, tau_days, exponent, belief_tau_days, belief_exponent, alpha, power, ...")
    ] = Field(default_factory=dict)
    weights: Annotated[dict[str, _R], Field(description="similarity weights by field, like {regime: 0.4, price: 0}")] = Field(
        default_factory=dict
    )


EpisodeRow = answer_model(
    Episode, {"pnl_r": "outcome in R", "teach": "what it counts for", "tier": "0 the venue to 4 external"}, sparse=True
)
SituationRow = answer_model(Situation, sparse=True)
EvidenceRow = answer_model(
    Evidence,
    {"n_eff": "effective sample size", "mean_r_interval": "90 % interval", "distribution": "weight of outcomes by range",
     "base": "all trades, each counted once", "n_claimed": "of which claimed", "hint": "the sizing hint and its reasons",
     "beside": "other sizing formulas, for comparison"},
)  # fmt: skip
# What a recalled memory holds: an episode, a belief or a plan.
RecalledMemory = EpisodeRow | BeliefRow | dict[str, Any]


class UntestedBelief(Answer):
    """An undecided belief that the situation could test."""

    belief: Annotated[BeliefRow, Field(description="the belief")]
    why: Annotated[str, Field(description="why it is worth testing")]
    plan: Annotated[SuggestedPlan, Field(description="a plan that would test it")]


class RankedItem(Answer):
    """A ranked memory."""

    id: Annotated[str, Field(description="its id")]
    kind: Annotated[str, Field(description="episodic, semantic or prospective")]
    score: Annotated[float, Field(description="product of the components")]
    components: Annotated[dict[str, float], Field(description="Q, Sim, Rec, Conf, Aff (and Sharpe), unrounded")]
    tier: Annotated[int, Field(description="0 the venue, 1 your records, 2 computed, 3 agent or model, 4 external")]
    n: Annotated[int, Field(description="sample size")]
    why: Annotated[str, Field(description="why it is listed")]
    memory: Annotated[RecalledMemory, Field(union_mode="left_to_right", description="an episode, a belief or a plan")]  # type: ignore[valid-type]


class WarnedItem(Answer):
    """A loss in a similar situation."""

    id: Annotated[str, Field(description="the episode")]
    r: Annotated[float, Field(description="its outcome in the unit")]
    unit: Annotated[str, Field(description="R, R by ATR, or typical losses in money")]
    similarity: Annotated[float, Field(description="0 to 1")]
    severity: Annotated[float, Field(description="|r| x similarity x age factor x confidence")]
    far: Annotated[bool, Field(description="true: no loss was similar; this is the nearest")]
    tier: Annotated[int, Field(description="0 the venue, 1 your records, 2 computed, 3 agent or model, 4 external")]
    why: Annotated[str, Field(description="why it is listed")]
    memory: Annotated[EpisodeRow, Field(description="the episode")]  # type: ignore[valid-type]


class Recollected(Basis):
    """Three separate answers: ranked memories, warnings, evidence."""

    profile: Annotated[str, Field(description="the ranking profile")]
    unit: Annotated[
        str, Field(description="in which outcomes are compared: R (by stops), R by ATR, or typical losses in money")
    ]
    situation: Annotated[SituationRow, Field(description="the situation")]  # type: ignore[valid-type]
    ranked: Annotated[
        list[RankedItem], Field(description="by score; the score contains the outcome, so use it only to choose what to read")
    ]
    warnings: Annotated[list[WarnedItem], Field(description="losses in similar situations, worst first")]
    evidence: Annotated[
        EvidenceRow, Field(description="statistics over all trades, weighted without their outcome, with a sizing hint")  # type: ignore[valid-type]
    ]
    beliefs: Annotated[list[RankedItem], Field(description="beliefs, if the profile lists them separately")]
    near_misses: Annotated[list[RankedItem], Field(description="with explain: the next memories, and why they missed the list")]
    worth_testing: Annotated[list[UntestedBelief], Field(description="undecided beliefs that this situation could test")]


def episode_row(episode: Episode) -> BaseModel:
    """The answer row of an episode, without the fields that are not known."""
    return EpisodeRow(**{name: value for name, value in plain(rounded(episode._asdict())).items() if value is not None})


def _memory_row(memory: object, currency: str) -> BaseModel | dict[str, Any]:
    if isinstance(memory, Episode):
        return episode_row(memory)
    if isinstance(memory, Belief):
        return belief_row(memory, currency)
    return {name: value for name, value in plain(memory).items() if value is not None}


def ranked_row(item: RankedMemory, currency: str) -> RankedItem:
    c = item.components
    parts = {"Q": c.quality, "Sim": c.similarity, "Rec": c.recency, "Conf": c.confidence, "Aff": c.affect}
    if c.sharpe != 1.0:
        parts["Sharpe"] = c.sharpe
    return RankedItem(
        id=item.id, kind=item.kind, score=item.score, components=parts, tier=item.tier, n=item.n, why=item.why,
        memory=_memory_row(item.memory, currency),
    )  # fmt: skip


def warned_row(item: LossWarning, currency: str) -> WarnedItem:
    return WarnedItem(
        id=item.id, r=item.r, unit=item.unit.phrase(currency),
        similarity=item.similarity, severity=item.severity, far=item.far, tier=item.tier, why=item.why,
        memory=episode_row(item.memory),
    )  # fmt: skip


# What a terminal shows of the evidence.
EVIDENCE_FIGURES = ("n_trades", "n_eff", "win_rate", "mean_r", "median_r", "worst_r", "worst_id", "r_source", "hint")


def evidence_row(evidence: Evidence, claims_count: bool) -> BaseModel:
    """The answer of evidence, with six significant digits. Claims that do not count leave no trace in it."""
    counted = evidence if claims_count else replace(evidence, n_claimed=0)
    return EvidenceRow(**plain(rounded(asdict(counted))))


@operation(
    writes=False,
    tools={"trader", "coach"},
    aliases=("recall_similar_trades",),
    columns={
        "ranked": ("id", "kind", "score", "tier", "n", "why"),
        "warnings": ("id", "r", "unit", "similarity", "why"),
        "beliefs": ("id", "score", "n", "why"),
        "near_misses": ("id", "score", "why"),
        "worth_testing": ("why",),
        "evidence": EVIDENCE_FIGURES,
        "hint": ("reasons",),
    },
)
def recall_memories(memory: Memory, ask: RecallMemories, caller: Caller) -> Recollected:
    """Recall what memory knows about a situation: ranked memories, warnings, and evidence with a cautious sizing hint.

    The score of `ranked` contains the outcome: use it only to choose what to read. `warnings`: losses in similar ones.
    Only `evidence` may influence size. Figures come with n.
    """
    handle = agent_of(memory, ask)
    parameters = tuned(ask.parameters, ask.weights, ask.strength, ask.sharpe)
    situation, notes = _stated_situation(ask, ask.context)
    found, query, moment = handle.memories.recall(
        situation, symbol=ask.symbol, strategy=ask.strategy_name,
        side=ask.side,
        memory_types=ask.memory_types, limit=ask.limit, as_of=ask.as_of, head=ask.head, profile=ask.profile,
        explain=ask.explain, kelly_beside=ask.kelly_beside, parameters=parameters,
    )  # fmt: skip
    hidden = [hidden_text(found.hidden)] if found.hidden else []
    moment = replace(moment, notes=(*notes, *moment.notes, *hidden))
    return Recollected(
        **basis_of(handle.agent.id, moment), profile=query.profile,
        unit=found.evidence.unit.phrase(query.currency), situation=SituationRow(**plain(query.situation)),
        ranked=[ranked_row(item, query.currency) for item in found.ranked],
        warnings=[warned_row(item, query.currency) for item in found.warnings],
        evidence=evidence_row(found.evidence, query.claims_count),
        beliefs=[ranked_row(item, query.currency) for item in found.beliefs],
        near_misses=[ranked_row(item, query.currency) for item in found.near_misses],
        worth_testing=[
            UntestedBelief(belief=belief_row(u.belief, query.currency), why=u.why, plan=SuggestedPlan(**plain(u.plan)))
            for u in found.worth_testing
        ],
    )  # fmt: skip
