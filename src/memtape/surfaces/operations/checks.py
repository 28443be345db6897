"""The check of an order before it is sent."""

from __future__ import annotations

from dataclasses import asdict
from decimal import Decimal
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import AliasChoices, Field

from memtape.core.codec import plain
from memtape.core.labels import StatedSide
from memtape.core.observed import Situation
from memtape.core.recall.checks import CheckReason
from memtape.core.values import Label, Price, Quantity, Symbol
from memtape.errors import Invalid
from memtape.surfaces.answer_models import answer_model
from memtape.surfaces.answers import Basis, basis_of, rounded_figure
from memtape.surfaces.operations.beliefs import BeliefRow, belief_row
from memtape.surfaces.operations.calendar import EventRow, ExposureRow, event_row, exposure_row
from memtape.surfaces.operations.memories import EVIDENCE_FIGURES, EvidenceRow, WarnedItem, evidence_row, warned_row
from memtape.surfaces.operations.plans import PlanRow, plan_row
from memtape.surfaces.questions import AsOf, agent_of
from memtape.surfaces.registry import operation

if TYPE_CHECKING:
    from memtape.engine import Memory
    from memtape.surfaces.caller import Caller


class PreTradeCheck(AsOf):
    """An order to check."""

    symbol: Annotated[Symbol, Field(description="what to trade")]
    side: Annotated[
        StatedSide, Field(validation_alias=AliasChoices("side", "direction"), description="long or short")
    ]
    entry_price: Annotated[Price | None, Field(description="order price")] = None
    qty: Annotated[Quantity | None, Field(description="base units")] = None
    stop: Annotated[Price | None, Field(description="stop price")] = None
    target: Annotated[Price | None, Field(description="target price")] = None
    strategy: Annotated[Label | None, Field(validation_alias=AliasChoices("strategy", "strategy_name"),
                        description="only memories of this strategy")] = None  # fmt: skip
    context: Annotated[Situation | None, Field(validation_alias=AliasChoices("context", "situation"),
                       description="the situation; missing fields come from bars and the agent's state")] = None  # fmt: skip


CheckReasonRow = answer_model(
    CheckReason,
    {"weighs": "clear, caution or against", "source": "plans, evidence, state, warnings, size, events, beliefs or avoid"},
)


class CheckAnswer(Basis):
    """What memory says about an order. Advice only."""

    verdict: Annotated[Literal["clear", "caution", "against"], Field(description="the result")]
    reasons: Annotated[list[CheckReasonRow], Field(description="the most important first")]  # type: ignore[valid-type]
    warnings: Annotated[list[WarnedItem], Field(description="losses in similar situations")]
    evidence: Annotated[EvidenceRow, Field(description="statistics over all trades, with n and a sizing hint")]  # type: ignore[valid-type]
    unit: Annotated[str, Field(description="of evidence: R (by stops), R by ATR, or typical losses in money")]
    risk_share: Annotated[float | None, Field(description="risk of the order as a share of equity; null without stop and qty")]
    size_factor: Annotated[float, Field(description="combined size factor of active plans: 0 do not trade, 1 normal size")]
    plans: Annotated[list[PlanRow], Field(description="active plans whose trigger holds")]
    beliefs: Annotated[list[BeliefRow], Field(description="beliefs that apply here, except those a model stated")]
    events: Annotated[list[EventRow], Field(description="events of the next 24 hours that touch it")]  # type: ignore[valid-type]
    avoid: Annotated[list[str], Field(description="the skill's hard rules; they take precedence over memory")]
    your_exposure: Annotated[list[ExposureRow], Field(description="how the market moved after past events of the kind")]


@operation(
    writes=False,
    tools={"trader", "coach"},
    columns={
        "reasons": ("weighs", "text", "source"),
        "warnings": ("id", "r", "unit", "similarity", "why"),
        "evidence": EVIDENCE_FIGURES,
        "hint": ("reasons",),
        "plans": ("id", "status", "action", "size_factor", "reasoning"),
        "beliefs": ("id", "status", "confidence", "sentence"),
        "events": ("t", "kind", "impact", "title", "id"),
    },
)
def pre_trade_check(memory: Memory, ask: PreTradeCheck, caller: Caller) -> CheckAnswer:
    """Check an order against memory before sending it: clear, caution or against, with reasons. Advice only."""
    handle = agent_of(memory, ask)
    if ask.stop is not None and ask.entry_price is not None and (ask.entry_price > ask.stop) != (ask.side == "long"):
        raise Invalid(
            "stop", "is on the wrong side of entry_price", "Give a stop below the entry of a long, above that of a short"
        )
    risk = None
    if ask.qty is not None and ask.stop is not None and ask.entry_price is not None:
        risk = float(abs(ask.entry_price - ask.stop) * ask.qty)
    found = handle.memories.check_order(
        symbol=ask.symbol, side=ask.side, situation=None if ask.context is None else plain(ask.context),
        strategy=ask.strategy, risk_usd=risk, notional_usd=_notional(ask), as_of=ask.as_of, head=ask.head,
    )  # fmt: skip
    return CheckAnswer(
        **basis_of(handle.agent.id, found.moment), verdict=found.verdict,
        reasons=[CheckReasonRow(**asdict(reason)) for reason in found.reasons],
        warnings=[warned_row(item, handle.agent.settings.currency) for item in found.recalled.warnings],
        unit=found.recalled.evidence.unit.phrase(handle.agent.settings.currency),
        evidence=evidence_row(found.recalled.evidence, found.moment.claims_count), risk_share=rounded_figure(found.risk_share),
        size_factor=found.resolved.size_factor,
        plans=[plan_row(view) for view in found.plans],
        beliefs=[belief_row(b, handle.agent.settings.currency) for b in found.beliefs],
        events=[event_row(event) for event in found.events], avoid=list(found.avoid),
        your_exposure=[exposure_row(each) for each in found.exposures],
    )  # fmt: skip


def _notional(ask: PreTradeCheck) -> Decimal | None:
    """The worth of the order at its price; None if price or quantity is not stated."""
    return None if ask.qty is None or ask.entry_price is None else ask.qty * ask.entry_price
