"""Operations that explain one trade, and the score of one memory."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import AliasChoices, Field

from memtape.core.codec import plain, time_text
from memtape.core.memory.belief_cells import trades_for_and_against
from memtape.core.memory.learn import OUTCOME_FIELDS, is_models_correction
from memtape.core.observed import Situation
from memtape.core.original.forms import ScoreForm
from memtape.core.values import Key
from memtape.errors import Unknown
from memtape.surfaces.answer_models import Answer, answer_model
from memtape.surfaces.answers import Basis, basis_of, optional_time_text
from memtape.surfaces.operations.beliefs import BeliefRow, belief_row
from memtape.surfaces.operations.memories import EpisodeRow, RankedItem, episode_row, ranked_row
from memtape.surfaces.operations.plans import PlanRow, plan_row
from memtape.surfaces.questions import AsOf, agent_of
from memtape.surfaces.registry import operation
from memtape.surfaces.trade_answers import TradeRow, trade_row

if TYPE_CHECKING:
    from memtape.core.items import StoredItem
    from memtape.engine import Memory
    from memtape.surfaces.caller import Caller


class GetReflection(AsOf):
    """Which trade."""

    trade_id: Annotated[Key, Field(description="its id, or its short id from a brief")]


class CorrectionRow(Answer):
    """What was stated about a trade later."""

    at: Annotated[str, Field(description="UTC")]
    by: Annotated[str, Field(description="owner or model")]
    changes: Annotated[dict[str, Any], Field(description="the stated values")]
    forgets: Annotated[bool, Field(description="true: it says that the trade is forgotten; a model only hides it from recall")]
    not_counted: Annotated[list[str], Field(description="outcomes that a model corrected: the number first stated counts")]
    reason: Annotated[str, Field(description="why")]


def _correction_row(item: StoredItem) -> CorrectionRow:
    by_model, changes = is_models_correction(item), dict(item.body.get("changes", {}))
    return CorrectionRow(
        at=time_text(item.at), by="model" if by_model else "owner", changes=changes, forgets=bool(item.body.get("forget")),
        not_counted=sorted(OUTCOME_FIELDS & changes.keys()) if by_model else [], reason=item.body.get("reason", ""),
    )  # fmt: skip


class ReflectionAnswer(Basis):
    """A trade with everything that memory links to it."""

    trade: Annotated[TradeRow | None, Field(description="all columns; null for a shadow trade")]  # type: ignore[valid-type]
    episode: Annotated[EpisodeRow | None, Field(description="its episode with the entry situation; null while it is open")]  # type: ignore[valid-type]
    confirms: Annotated[list[BeliefRow], Field(description="beliefs that it confirms")]
    contradicts: Annotated[list[BeliefRow], Field(description="beliefs that it contradicts")]
    plans: Annotated[list[PlanRow], Field(description="plans made from it, or fired at its entry")]
    similar: Annotated[list[RankedItem], Field(description="earlier trades in similar situations")]
    corrections: Annotated[
        list[CorrectionRow], Field(description="what was stated about it later, oldest first", default_factory=list)
    ]


@operation(
    writes=False,
    tools={"coach"},
    columns={
        "confirms": ("id", "status", "sentence"),
        "contradicts": ("id", "status", "sentence"),
        "plans": ("id", "status", "action", "reasoning"),
        "similar": ("id", "kind", "score", "why"),
    },
)
def get_trade_reflection(memory: Memory, ask: GetReflection, caller: Caller) -> ReflectionAnswer:
    """Get one trade with its episode, the beliefs it confirms or contradicts, its plans, and similar earlier trades."""
    handle = agent_of(memory, ask)
    at = ask.as_of or handle.now()
    id = handle.ledger.full_id(ask.trade_id, as_of=ask.as_of, head=ask.head)
    trade, episode = (
        handle.ledger.trade(id, as_of=ask.as_of, head=ask.head),
        handle.memories.episode(id, as_of=at, head=ask.head),
    )
    if trade is None and episode is None:
        raise Unknown("trade_id", "trade", ask.trade_id, "List them with get_trades")
    for_, against, like = [], [], []
    beliefs, moment = handle.memories.beliefs(as_of=at, head=ask.head)
    currency = handle.agent.settings.currency
    if episode is not None:
        for belief in beliefs:
            confirming, contradicting = trades_for_and_against(belief, [episode], moment.claims_count)
            for_ += [belief_row(belief, currency)] if confirming else []
            against += [belief_row(belief, currency)] if contradicting else []
        found, _, _ = handle.memories.recall(
            _as_question(episode.situation), symbol=episode.symbol, limit=6, as_of=episode.entry_at, head=ask.head
        )
        similar = [item for item in found.ranked if item.kind == "episodic" and item.id != episode.id]
        like = [ranked_row(item, currency) for item in similar[:5]]
    entered = trade.entry_at if trade is not None else episode.entry_at if episode is not None else at
    plans = [
        plan_row(view) for view in handle.plans.all(as_of=at, head=ask.head)
        if id in view.state.plan.sources or view.state.fired_at == entered
    ]  # fmt: skip
    return ReflectionAnswer(
        **basis_of(handle.agent.id, moment),
        trade=trade_row(trade) if trade else None, episode=episode_row(episode) if episode else None, confirms=for_,
        contradicts=against, plans=plans, similar=like,
        corrections=[_correction_row(item) for item in handle.memories.corrections(id, as_of=at, head=ask.head)],
    )  # fmt: skip


def _as_question(situation: Situation) -> Situation:
    """The situation of an entry as one that may be stated. Where the equity was only assumed, losses may exceed it."""
    if not isinstance(situation.drawdown_pct, float) or situation.drawdown_pct <= 1:
        return situation
    return replace(situation, drawdown_pct=1.0)


class ExplainMemory(AsOf):
    """Which memory, in which situation."""

    memory_id: Annotated[Key, Field(description="the id of its trade, or the short id from a brief")]
    context: Annotated[
        Situation | None,
        Field(validation_alias=AliasChoices("context", "situation"), description="default: the agent's current one"),
    ] = None


ScoreFormRow = answer_model(
    ScoreForm, {"factor": "Q, Sim, Rec, Conf, Aff, Sharpe, sigma or Score", "form": "ours, or the place in the original"}
)


class Explained(Answer):
    """The factors of one memory's score."""

    memory_id: Annotated[str, Field(description="the episode")]
    as_of: Annotated[str, Field(description="UTC")]
    n: Annotated[int, Field(description="episodes known then")]
    forms: Annotated[list[ScoreFormRow], Field(description="each factor in each formula")]  # type: ignore[valid-type]


@operation(writes=False, columns=("factor", "form", "value", "note"))
def explain_memory(memory: Memory, ask: ExplainMemory, caller: Caller) -> Explained:
    """Explain one memory's score factor by factor, by memtape's formula and by the original ones side by side."""
    handle = agent_of(memory, ask)
    id = handle.ledger.full_id(ask.memory_id, field="memory_id", as_of=ask.as_of, head=ask.head)
    found, known, at = handle.memories.explain(
        id, None if ask.context is None else plain(ask.context), as_of=ask.as_of, head=ask.head
    )
    return Explained(
        memory_id=id,
        as_of=optional_time_text(at) or "",
        n=known,
        forms=[ScoreFormRow(**asdict(form)) for form in found],
    )
