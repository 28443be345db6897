"""Operations that record what an agent observed and decided."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field

from memtape.core.brief.short_ids import expand_short_ids
from memtape.core.codec import time_text
from memtape.core.decisions.outcomes import MODEL_ACTIONS, NOT_TAKEN, TRADE_CARD
from memtape.core.events import BriefNotRecorded, Event
from memtape.core.fills import Fill, Funding
from memtape.core.observed import Bars, CashFlow, ClosedTrade, Decision, EquityMark, Tick
from memtape.errors import Conflict, FieldProblem, Invalid
from memtape.surfaces.answers import ReceiptAnswer, receipt_answer
from memtape.surfaces.questions import flattened, value_of
from memtape.surfaces.registry import operation

if TYPE_CHECKING:
    from memtape.engine import Memory
    from memtape.engine.brief_question import AssembledBrief
    from memtape.surfaces.caller import Caller


_TICK_WORDS = {
    "t": "time of the run (ISO 8601 with zone)", "marks": "symbol -> price", "fills": "executions since the last tick",
    "funding": "funding since the last tick", "bars": "bars completed since the last tick",
    "equity": "account equity at t, account currency", "cash_flows": "deposits (+) and withdrawals (-)",
    "id": "the run's own id; a second tick with it writes nothing", "splits": "splits of shares",
    "dividends": "dividends of shares",
}  # fmt: skip

ACTION_WORDS = {
    **dict.fromkeys(NOT_TAKEN - {"hold"}, "no_trade"), "long": "buy", "short": "sell", "exit": "close",
    **{action: action for action in MODEL_ACTIONS},
}  # fmt: skip
MAX_DECISION_AGE = timedelta(minutes=10)  # of a decision that a model reports

SHOWN = (Annotated[str | None, Field(max_length=8_000, description="receipt of the brief you decided on, from get_brief: "
                   "records that you were shown it")], None)  # fmt: skip

ObserveTick = flattened("ObserveTick", Tick, "tick", _TICK_WORDS, brief=SHOWN)

ObserveFill = flattened(
    "ObserveFill",
    Fill,
    "fill",
    {"symbol": "what was traded", "side": "buy or sell", "qty": "base units, above 0", "order_id": "the broker's order id"},
)

ObserveFunding = flattened(
    "ObserveFunding",
    Funding,
    "funding",
    {"id": "the source's own id", "symbol": "the position's symbol", "t": "when it was paid",
     "leg": "of a hedged account: LONG, SHORT or the ticket; default: net"},
)

ObserveTrade = flattened(
    "ObserveTrade",
    ClosedTrade,
    "trade",
    {
        "pnl": "gross, if the source states it",
        "qty": "base units",
        "symbol": "what was traded",
        "side": "long or short",
        "entry_at": "ISO 8601 with zone",
        "exit_at": "ISO 8601 with zone",
        "fees": "paid is positive",
        "funding": "received is positive",
        "rate": "account currency per quote unit",
        "stop": "stop price at entry",
        "target": "target price at entry",
        "trigger": "stop, target, manual, ...",
        "entry_price": "average price of the entry",
        "leverage": "of the account at entry, like 3",
        "entry_reason": "why it was entered",
        "exit_reason": "why it was closed",
        "strategy": "label of the strategy; default: the skill",
        "tags": "your labels",
        "situation": "the market at entry",
    },
)

ObserveEquity = flattened("ObserveEquity", EquityMark, "mark", {"equity": "account currency", "t": "ISO 8601 with zone"})

ObserveCashFlow = flattened(
    "ObserveCashFlow",
    CashFlow,
    "flow",
    {"usd": "deposit +, withdrawal -, account currency", "id": "the source's own id", "t": "ISO 8601 with zone"},
)

ObserveBars = flattened("ObserveBars", Bars, "delivery", {"bars": "completed bars: symbol, t0, t1, o, h, l, c, v"})

RecordDecision = flattened("RecordDecision", Decision, "decision", {
    "id": "default: made from the content", "t": "default: now (of a simulation: its last moment)",
    "reason": "why, in your own words, at most 280 characters",
    "strategy": "label of the strategy; default: the skill", "symbol": "what the decision is about", "qty": "base units",
    "stop": "stop price", "target": "target price", "confidence": "0 to 1", "order_ids": "orders it led to",
    "situation": "the market then", "verdict": "verdict of the guard", "run": "the run that decided", "tags": "your labels",
    "citations": "document lines it is based on"},
    brief=SHOWN)  # fmt: skip


def _observe(memory: Memory, ask: Any, value: Any) -> ReceiptAnswer:
    handle = memory.agent_for_writing(ask.agent)
    return receipt_answer(handle.observe(value_of(ask, value), backfill=ask.backfill))


def _decide(memory: Memory, ask: Any, value: Any) -> ReceiptAnswer:
    """Record a tick or a decision, and that the brief was shown."""
    handle = memory.agent_for_writing(ask.agent)
    made: AssembledBrief | None = None
    lost: tuple[Event, ...] = ()
    try:
        made = handle.briefs.reproduce(ask.brief) if ask.brief else None
    except Conflict as problem:
        # The tick or decision is recorded in any case; only the record of the shown brief is missing, and the answer says so.
        lost = (BriefNotRecorded(str(problem)),)
    # The question has been validated field by field: it is recorded as it is, with the shown brief in the same transaction.
    stated = value_of(ask, value)
    if made is not None and isinstance(stated, Decision) and isinstance(named := stated.slots.get("memories"), str):
        # A brief shows short ids; what is recorded must still name its records when the brief is forgotten.
        full = expand_short_ids(named, [one.source.id for one in made.brief.citations])
        stated = replace(stated, slots={**stated.slots, "memories": full})
    receipt = handle.record(stated, backfill=ask.backfill, shown=made, run=ask.id)
    return receipt_answer(replace(receipt, concluded=(*receipt.concluded, *lost)))


@operation(writes=True, tools={"trader"})
def observe_tick(memory: Memory, ask: ObserveTick, caller: Caller) -> ReceiptAnswer:  # type: ignore[valid-type]
    """Record what one run observed and decided: positions, fills, funding, bars, equity, decisions.

    Send it once per tick; a repetition changes nothing. Without `positions` no snapshot was taken; empty means flat. A tick not
    later than the last one adds its fills, funding and bars, but no snapshot and no decision.
    """
    return _decide(memory, ask, Tick)


@operation(writes=True)
def observe_fill(memory: Memory, ask: ObserveFill, caller: Caller) -> ReceiptAnswer:  # type: ignore[valid-type]
    """Record one execution at the broker. Late and repeated fills are handled."""
    return _observe(memory, ask, Fill)


@operation(writes=True)
def observe_funding(memory: Memory, ask: ObserveFunding, caller: Caller) -> ReceiptAnswer:  # type: ignore[valid-type]
    """Record one funding, swap or borrow payment."""
    return _observe(memory, ask, Funding)


@operation(writes=True)
def observe_trade(memory: Memory, ask: ObserveTrade, caller: Caller) -> ReceiptAnswer:  # type: ignore[valid-type]
    """Record a closed trade that its source reports as a whole."""
    return _observe(memory, ask, ClosedTrade)


@operation(writes=True)
def observe_equity(memory: Memory, ask: ObserveEquity, caller: Caller) -> ReceiptAnswer:  # type: ignore[valid-type]
    """Record the account's equity at a time."""
    return _observe(memory, ask, EquityMark)


@operation(writes=True)
def observe_cash_flow(memory: Memory, ask: ObserveCashFlow, caller: Caller) -> ReceiptAnswer:  # type: ignore[valid-type]
    """Record a deposit or withdrawal: it changes equity but is not profit."""
    return _observe(memory, ask, CashFlow)


@operation(writes=True)
def observe_bars(memory: Memory, ask: ObserveBars, caller: Caller) -> ReceiptAnswer:  # type: ignore[valid-type]
    """Record completed bars: they give excursions of open trades and prices without a mark. The first version of a bar wins."""
    return _observe(memory, ask, Bars)


@operation(writes=True, tools={"trader"})
def record_decision(memory: Memory, ask: RecordDecision, caller: Caller) -> ReceiptAnswer:  # type: ignore[valid-type]
    """Record what you decided and why, including not to trade.

    Fills that name this decision, or one of its order_ids, take their reason and stop from it, in whatever order they arrive.
    A stop on the wrong side of a stated entry_price is refused.
    """
    if caller.is_model:
        _check_models_decision(memory, ask)
    return _decide(memory, ask, Decision)


def _check_models_decision(memory: Memory, ask: Any) -> None:
    """Raises `Invalid` if a model's decision lacks its action or reason, or states another time than now.

    A decision that counts as taken in the past could be one whose outcome is known. A card of another type than a trade has
    slots in place of an action and a reason.
    """
    problems: list[FieldProblem] = []
    if ask.card in (None, TRADE_CARD):
        ask.action = ACTION_WORDS.get((ask.action or "").lower(), ask.action)
        if ask.action not in MODEL_ACTIONS:
            problems.append(FieldProblem("action", "is not one of the fixed words", f"Use one of {', '.join(MODEL_ACTIONS)}"))
        if not (ask.reason or ask.slots):
            problems.append(FieldProblem("reason", "required (why, in your own words, at most 280 characters)"))
    if ask.backfill:
        problems.append(FieldProblem("backfill", "owner only, permission denied for a model", "Leave it out"))
    handle = memory.agent_for_writing(ask.agent)
    # A simulation has a time of its own.
    if ask.t is not None and handle.agent.mode != "sim" and abs(ask.t - handle.now()) > MAX_DECISION_AGE:
        problems.append(FieldProblem("t", "is not the present: a model's decision counts from now", "Leave it out"))
    filled = handle.ledger.first_fill_naming(ask.id, ask.order_ids or ())
    is_late = filled is not None and handle.now() - filled > MAX_DECISION_AGE
    if filled is not None and (is_late or handle.ledger.has_ended_trade_naming(ask.id, ask.order_ids or ())):
        # Its stop would become that of a trade whose outcome may be known.
        problem = f"a fill of {time_text(filled)} names it already: a decision cannot be recorded after its trade"
        field = "order_ids" if ask.order_ids else "id"
        problems.append(FieldProblem(field, problem, "Record a decision before its order, or ask the owner to record it"))
    if problems:
        raise Invalid(*problems[0], *problems[1:])
