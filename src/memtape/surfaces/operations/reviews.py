"""One trade looked back on, the order to come, and one memory in every form of its score."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import AliasChoices, Field

from memtape.core.codec import plain
from memtape.core.memory.beliefs import trades_for_and_against
from memtape.core.observed import Situation
from memtape.core.values import Key, Label, Price, Quantity, Symbol
from memtape.errors import Invalid, Unknown
from memtape.surfaces.answers import Answer, AsOf, TradeRow, optional_time_text, rounded_figure, trade_row
from memtape.surfaces.operations.memories import (
    Basis,
    RankedItem,
    WarnedItem,
    basis_of,
    belief_row,
    evidence_row,
    memory_row,
    ranked_row,
    warned_row,
)
from memtape.surfaces.operations.plans import plan_row
from memtape.surfaces.operations.records import reader
from memtape.surfaces.registry import operation

if TYPE_CHECKING:
    from memtape.engine import Memory
    from memtape.surfaces.caller import Caller


# ---- one trade, and the order to come ------------------------------------------------------------------------------------


class GetReflection(AsOf):
    """Which trade."""

    trade_id: Annotated[Key, Field(description="its id")]


class ReflectionAnswer(Basis):
    """A trade and all that memory links to it."""

    trade: Annotated[TradeRow | None, Field(description="every column; null for a shadow")]  # type: ignore[valid-type]
    episode: Annotated[
        dict[str, Any] | None, Field(description="what is remembered of it, in its entry situation; null while open")
    ]
    confirms: Annotated[list[dict[str, Any]], Field(description="beliefs that it speaks for")]
    contradicts: Annotated[list[dict[str, Any]], Field(description="beliefs that it speaks against")]
    plans: Annotated[list[dict[str, Any]], Field(description="plans made from it, or that fired when it was entered")]
    similar: Annotated[list[RankedItem], Field(description="trades before it, in situations like its own")]


@operation(writes=False, tools={"coach"})
def get_trade_reflection(memory: Memory, ask: GetReflection, caller: Caller) -> ReflectionAnswer:
    """One trade with what it taught: its episode, the beliefs it speaks for and against, the plans around it, its like."""
    handle = reader(memory, ask)
    at = ask.as_of or handle.now()
    trade, episode = (
        handle.ledger.trade(ask.trade_id, as_of=ask.as_of, head=ask.head),
        handle.memories.episode(ask.trade_id, as_of=at, head=ask.head),
    )
    if trade is None and episode is None:
        raise Unknown("trade_id", "trade", ask.trade_id, "List them with get_trades")
    for_, against, like = [], [], []
    beliefs, moment = handle.memories.beliefs(as_of=at, head=ask.head)
    if episode is not None:
        for belief in beliefs:
            confirming, contradicting = trades_for_and_against(belief, [episode], moment.claims_count)
            for_ += [belief_row(belief)] if confirming else []
            against += [belief_row(belief)] if contradicting else []
        found, _, _ = handle.memories.recall(
            episode.situation, symbol=episode.symbol, limit=6, as_of=episode.entry_at, head=ask.head
        )
        like = [ranked_row(item) for item in found.ranked if item.kind == "episodic" and item.id != episode.id][:5]
    entered = trade.entry_at if trade is not None else episode.entry_at if episode is not None else at
    plans = [
        plan_row(seen) for seen in handle.plans.all(as_of=at, head=ask.head)
        if ask.trade_id in seen.state.plan.sources or seen.state.fired_at == entered
    ]  # fmt: skip
    return ReflectionAnswer(
        **basis_of(handle.agent.id, moment),
        trade=trade_row(trade) if trade else None, episode=memory_row(episode) if episode else None, confirms=for_,
        contradicts=against, plans=plans, similar=like,
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
def pre_trade_check(memory: Memory, ask: PreTradeCheck, caller: Caller) -> CheckAnswer:
    """What memory has to say about an order before it is sent: clear, caution or against, with reasons. Advice only."""
    handle = reader(memory, ask)
    if ask.stop is not None and ask.entry_price is not None and (ask.entry_price > ask.stop) != (ask.side == "long"):
        raise Invalid("stop", "does not lie on the losing side of entry_price", "Give the stop that the order would have")
    risk = None
    if ask.qty is not None and ask.stop is not None and ask.entry_price is not None:
        risk = float(abs(ask.entry_price - ask.stop) * ask.qty)
    found = handle.memories.check_order(
        symbol=ask.symbol, side=ask.side, situation=None if ask.context is None else plain(ask.context),
        strategy=ask.strategy, risk_usd=risk, as_of=ask.as_of, head=ask.head,
    )  # fmt: skip
    return CheckAnswer(
        **basis_of(handle.agent.id, found.moment), verdict=found.verdict,
        reasons=[asdict(reason) for reason in found.reasons], warnings=[warned_row(item) for item in found.recalled.warnings],
        evidence=evidence_row(found.recalled.evidence), risk_share=rounded_figure(found.risk_share),
        size_factor=found.resolved.size_factor,
        plans=[plan_row(seen) for seen in found.plans], beliefs=[belief_row(b) for b in found.beliefs],
        events=[plain(event) for event in found.events], avoid=list(found.avoid),
    )  # fmt: skip


class ExplainMemory(AsOf):
    """Which memory, in which situation."""

    memory_id: Annotated[Key, Field(description="the episode: the id of its trade")]
    context: Annotated[
        Situation | None, Field(validation_alias=AliasChoices("context", "situation"), description="default: the agent's own")
    ] = None


class Explained(Answer):
    """One memory's factors in every form."""

    memory_id: Annotated[str, Field(description="the episode")]
    as_of: Annotated[str, Field(description="UTC")]
    n: Annotated[int, Field(description="episodes known then")]
    forms: Annotated[list[dict[str, Any]], Field(description="factor, form (ours, or where the original has it), value, note")]


@operation(writes=False)
def explain_memory(memory: Memory, ask: ExplainMemory, caller: Caller) -> Explained:
    """One memory's score, factor by factor: as we compute it and as each place of the original does, side by side."""
    handle = reader(memory, ask)
    found, known, at = handle.memories.explain(
        ask.memory_id, None if ask.context is None else plain(ask.context), as_of=ask.as_of, head=ask.head
    )
    return Explained(memory_id=ask.memory_id, as_of=optional_time_text(at) or "", n=known, forms=[asdict(form) for form in found])
