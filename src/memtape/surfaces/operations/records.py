"""What is observed of an agent, and the ledger that it comes to."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field

from memtape.core.codec import micros, moment, plain
from memtape.core.ledger.trades import entry_order
from memtape.core.ledger.trades import money_text as money
from memtape.core.observed import Bars, CashFlow, ClosedTrade, Decision, EquityMark, Fill, Funding, Tick
from memtape.core.values import Key, Label, Symbol, Time
from memtape.engine.view.ledger import trade_totals
from memtape.engine.write.arrivals import complete_value
from memtape.errors import Conflict, Invalid, Unknown
from memtape.surfaces.answers import (
    Answer,
    AsOf,
    OfAgent,
    PerformanceAnswer,
    ReceiptAnswer,
    TradeRow,
    behaviour_row,
    flattened,
    optional_time_text,
    performance_answer,
    receipt_answer,
    trade_row,
    value_of,
)
from memtape.surfaces.registry import operation

if TYPE_CHECKING:
    from memtape.engine import AgentMemory, Memory
    from memtape.engine.briefs import AssembledBrief
    from memtape.surfaces.caller import Caller

DEFAULT_AGENT = "main"


def reader(memory: Memory, ask: OfAgent) -> AgentMemory:
    return memory.agent(ask.agent) if ask.agent is not None else memory.default_agent()


# ---- observing -----------------------------------------------------------------------------------------------------------

_TICK_WORDS = {
    "t": "the moment of the run (ISO 8601 with zone)", "marks": "symbol -> price", "fills": "executions since the last tick",
    "funding": "funding since the last tick", "bars": "bars completed since the last tick",
    "equity": "account equity at t, account currency", "cash_flows": "deposits (+) and withdrawals (-)",
    "id": "the run's own id; a second delivery of it writes nothing",
}  # fmt: skip
SHOWN = (Annotated[str | None, Field(max_length=8_000, description="the receipt of the brief you decided on, from get_brief: "
                   "records that you were shown it")], None)  # fmt: skip
ObserveTick = flattened("ObserveTick", Tick, "tick", _TICK_WORDS, brief=SHOWN)
ObserveFill = flattened("ObserveFill", Fill, "fill", {"side": "buy or sell", "qty": "base units, above 0"})
ObserveFunding = flattened("ObserveFunding", Funding, "funding", {"id": "the source's own id"})
ObserveTrade = flattened("ObserveTrade", ClosedTrade, "trade", {"pnl": "gross, if the source states it", "qty": "base units"})
ObserveEquity = flattened("ObserveEquity", EquityMark, "mark", {"equity": "account currency"})
ObserveCashFlow = flattened("ObserveCashFlow", CashFlow, "flow", {"usd": "deposit +, withdrawal -, account currency"})
ObserveBars = flattened("ObserveBars", Bars, "delivery", {"bars": "completed bars: symbol, t0, t1, o, h, l, c, v"})
RecordDecision = flattened("RecordDecision", Decision, "decision", {"stop": "stop price", "target": "target price",
    "id": "default: made from the content", "t": "default: now", "reason": "why, at most 280 characters"},
    brief=SHOWN)  # fmt: skip


def _observe(memory: Memory, ask: Any, value: Any) -> ReceiptAnswer:
    handle = memory.agent_for_writing(ask.agent)
    return receipt_answer(handle.observe(value_of(ask, value), backfill=ask.backfill))


def _decide(memory: Memory, ask: Any, value: Any) -> ReceiptAnswer:
    """Take in a tick or a decision, and with it that a brief was shown."""
    handle = memory.agent_for_writing(ask.agent)
    made: AssembledBrief | None = None
    lost: tuple[dict[str, Any], ...] = ()
    try:
        made = handle.briefs.reproduce(ask.brief) if ask.brief else None
    except Conflict as problem:  # what happened is recorded in any case; that the brief was shown, is not, and that is told
        lost = ({"event": "brief_not_recorded", "problem": str(problem)},)
    seen = complete_value(value_of(ask, value), memory.clock.now())
    receipt = handle.observe(seen, backfill=ask.backfill)
    if made is not None:
        decisions = seen.decisions if isinstance(seen, Tick) else (seen,) if isinstance(seen, Decision) else ()
        decided = next(iter(decisions), None)
        run = decided.run.id if decided is not None and decided.run is not None else ask.id
        handle.briefs.record_shown(made, decision=decided.id if decided is not None else None, run=run)
    return receipt_answer(replace(receipt, concluded=(*receipt.concluded, *lost)))


@operation(writes=True, tools={"trader"})
def observe_tick(memory: Memory, ask: ObserveTick, caller: Caller) -> ReceiptAnswer:  # type: ignore[valid-type]
    """Take in what one run saw: positions, fills, funding, bars, equity, and what it decided.

    Send it once per tick; sending it again changes nothing. `positions` absent means that no snapshot was taken, an empty
    one means flat. A tick that is not later than the last adds its fills, funding and bars, but neither snapshot nor decision.
    """
    return _decide(memory, ask, Tick)


@operation(writes=True)
def observe_fill(memory: Memory, ask: ObserveFill, caller: Caller) -> ReceiptAnswer:  # type: ignore[valid-type]
    """Take in one execution at the broker; late and doubled ones find their place."""
    return _observe(memory, ask, Fill)


@operation(writes=True)
def observe_funding(memory: Memory, ask: ObserveFunding, caller: Caller) -> ReceiptAnswer:  # type: ignore[valid-type]
    """Take in one funding, swap or borrow payment."""
    return _observe(memory, ask, Funding)


@operation(writes=True)
def observe_trade(memory: Memory, ask: ObserveTrade, caller: Caller) -> ReceiptAnswer:  # type: ignore[valid-type]
    """Take in a closed trade that its source reports whole."""
    return _observe(memory, ask, ClosedTrade)


@operation(writes=True)
def observe_equity(memory: Memory, ask: ObserveEquity, caller: Caller) -> ReceiptAnswer:  # type: ignore[valid-type]
    """Take in the account's equity at a moment."""
    return _observe(memory, ask, EquityMark)


@operation(writes=True)
def observe_cash_flow(memory: Memory, ask: ObserveCashFlow, caller: Caller) -> ReceiptAnswer:  # type: ignore[valid-type]
    """Take in a deposit or a withdrawal: it moves equity and is not profit."""
    return _observe(memory, ask, CashFlow)


@operation(writes=True)
def observe_bars(memory: Memory, ask: ObserveBars, caller: Caller) -> ReceiptAnswer:  # type: ignore[valid-type]
    """Take in completed bars; they tell how far open trades ran, and price what has no mark. The first of two wins."""
    return _observe(memory, ask, Bars)


@operation(writes=True, tools={"trader"})
def record_decision(memory: Memory, ask: RecordDecision, caller: Caller) -> ReceiptAnswer:  # type: ignore[valid-type]
    """Record what a run concluded, deliberately not trading included.

    Fills that name this decision (or one of its order_ids) take their reason and stop from it, whichever comes first.
    """
    return _decide(memory, ask, Decision)


# ---- reading -------------------------------------------------------------------------------------------------------------


class GetTrades(AsOf):
    """Which trades."""

    status: Annotated[Literal["open", "closed"] | None, Field(description="default: both")] = None
    symbol: Annotated[Symbol | None, Field(description="only this symbol")] = None
    strategy: Annotated[Label | None, Field(description="only this strategy")] = None
    side: Annotated[Literal["long", "short"] | None, Field(description="only this side")] = None
    limit: Annotated[int, Field(ge=1, le=1000, description="how many on a page")] = 50
    cursor: Annotated[str | None, Field(max_length=200, description="next_cursor of the page before")] = None


class TradesPage(Answer):
    """Trades, newest entry first."""

    agent: Annotated[str, Field(description="whose trades")]
    trades: Annotated[list[TradeRow], Field(description="a page of them")]  # type: ignore[valid-type]
    n: Annotated[int, Field(description="how many on this page")]
    next_cursor: Annotated[str | None, Field(description="give it as cursor to read on; null at the end")]


def _cursor(text: str | None) -> tuple[datetime, str] | None:
    if text is None:
        return None
    at, _, id_ = text.partition("-")
    if not at.isdigit() or not id_.isalnum() or int(at) > 8_000_000_000_000_000:
        raise Invalid("cursor", "is not one of ours", "Give next_cursor of the page before, or leave it out")
    return moment(int(at)), id_


@operation(writes=False)
def get_trades(memory: Memory, ask: GetTrades, caller: Caller) -> TradesPage:
    """The trades of an agent, newest entry first: every column, open and closed."""
    found = reader(memory, ask).ledger.trades(
        status=ask.status, symbol=ask.symbol, strategy=ask.strategy, side=ask.side, as_of=ask.as_of, head=ask.head,
        limit=ask.limit + 1, after=_cursor(ask.cursor),
    )  # fmt: skip
    page = found[: ask.limit]
    more = f"{micros(page[-1].entry_at)}-{page[-1].id}" if len(found) > ask.limit else None
    return TradesPage(
        agent=ask.agent or DEFAULT_AGENT, trades=[trade_row(trade) for trade in page], n=len(page), next_cursor=more
    )


class GetTrade(AsOf):
    """Which trade."""

    trade_id: Annotated[Key, Field(description="its id")]


class TradeAnswer(Answer):
    """One trade."""

    trade: Annotated[TradeRow, Field(description="every column")]  # type: ignore[valid-type]


@operation(writes=False)
def get_trade(memory: Memory, ask: GetTrade, caller: Caller) -> TradeAnswer:
    """One trade with its reasons, prices and excursions."""
    found = reader(memory, ask).ledger.trade(ask.trade_id, as_of=ask.as_of, head=ask.head)
    if found is None:
        raise Unknown("trade_id", "trade", ask.trade_id, "List them with get_trades")
    return TradeAnswer(trade=trade_row(found))


class OpenPositions(Answer):
    """What is held."""

    agent: Annotated[str, Field(description="whose positions")]
    positions: Annotated[list[TradeRow], Field(description="the open trades")]  # type: ignore[valid-type]
    n: Annotated[int, Field(description="how many")]


@operation(writes=False)
def get_open_positions(memory: Memory, ask: AsOf, caller: Caller) -> OpenPositions:
    """What an agent holds: its open trades, with what was realised so far and how far they ran."""
    found = reader(memory, ask).ledger.trades(status="open", as_of=ask.as_of, head=ask.head)
    return OpenPositions(agent=ask.agent or DEFAULT_AGENT, positions=[trade_row(t) for t in found], n=len(found))


class GetPerformance(AsOf):
    """Of what."""

    strategy: Annotated[Label | None, Field(description="only this strategy")] = None
    symbol: Annotated[Symbol | None, Field(description="only this symbol")] = None


@operation(writes=False)
def get_strategy_performance(memory: Memory, ask: GetPerformance, caller: Caller) -> PerformanceAnswer:
    """How an agent has done over its closed trades, whole or by strategy and symbol, with n for every figure."""
    handle = reader(memory, ask)
    found = handle.ledger.performance(symbol=ask.symbol, strategy=ask.strategy, as_of=ask.as_of, head=ask.head)
    habits, _ = handle.memories.behaviour(strategy=ask.strategy, symbol=ask.symbol, as_of=ask.as_of, head=ask.head)
    return performance_answer(handle.agent.id, handle.agent.skill, found, behaviour_row(habits), ask.strategy, ask.symbol)


class LedgerAnswer(Answer):
    """The whole ledger."""

    agent: Annotated[str, Field(description="whose ledger")]
    rows: Annotated[list[TradeRow], Field(description="every trade, by entry, symbol")]  # type: ignore[valid-type]
    totals: Annotated[dict[str, Any], Field(description="n, n_open, n_unpriced, sums in the account currency, orphan funding")]
    discrepancies: Annotated[list[dict[str, Any]], Field(description="where broker and fills disagree")]


@operation(writes=False)
def get_ledger(memory: Memory, ask: AsOf, caller: Caller) -> LedgerAnswer:
    """The whole ledger of an agent: every trade in order of entry, the totals, and where broker and fills disagree."""
    handle = reader(memory, ask)
    rows = sorted(handle.ledger.trades(as_of=ask.as_of, head=ask.head, newest=False), key=entry_order)
    orphans = {symbol: money(usd) for symbol, usd in handle.ledger.orphan_funding(as_of=ask.as_of, head=ask.head).items()}
    totals = {
        "n": len(rows), "n_open": sum(t.status == "open" for t in rows),
        "n_unpriced": sum(t.quality == "unpriced" for t in rows), "currency": handle.agent.settings.currency,
        **{name: money(usd) for name, usd in trade_totals(rows).items()}, "orphan_funding_usd": orphans,
    }  # fmt: skip
    found = [plain(d) for d in handle.ledger.discrepancies(as_of=ask.as_of, head=ask.head)]
    return LedgerAnswer(agent=handle.agent.id, rows=[trade_row(t) for t in rows], totals=totals, discrepancies=found)


class GetDecisions(AsOf):
    """Which decisions."""

    symbol: Annotated[Symbol | None, Field(description="only this symbol")] = None
    limit: Annotated[int, Field(ge=1, le=1000, description="how many")] = 20
    before: Annotated[Time | None, Field(description="only those taken before this moment")] = None


class DecisionsAnswer(Answer):
    """Decisions, newest first."""

    agent: Annotated[str, Field(description="whose decisions")]
    decisions: Annotated[list[dict[str, Any]], Field(description="id, t, symbol, action, reason, stop, verdict, run, ...")]
    n: Annotated[int, Field(description="how many")]


@operation(writes=False)
def get_decisions(memory: Memory, ask: GetDecisions, caller: Caller) -> DecisionsAnswer:
    """What an agent decided, newest first, no-trade decisions included, with the run that took each."""
    found = reader(memory, ask).ledger.decisions(
        symbol=ask.symbol, limit=ask.limit, as_of=ask.as_of, head=ask.head, before=ask.before
    )
    rows = [{**plain(row.decision), "known_at": optional_time_text(row.known_at), "tick": row.tick} for row in found]
    return DecisionsAnswer(agent=ask.agent or DEFAULT_AGENT, decisions=rows, n=len(rows))


class EquityPoint(Answer):
    """NAV at a moment."""

    t: Annotated[str, Field(description="UTC")]
    nav: Annotated[str, Field(description="account currency, deposits and withdrawals taken out")]


class EquityAnswer(Answer):
    """The equity curve."""

    agent: Annotated[str, Field(description="whose")]
    points: Annotated[list[EquityPoint], Field(description="oldest first")]
    n: Annotated[int, Field(description="how many")]
    source: Annotated[str, Field(description="'marks' of the broker, or 'closed trades' on top of starting equity")]
    currency: Annotated[str, Field(description="account currency")]
    max_drawdown_pct: Annotated[str | None, Field(description="deepest fall from a peak, in % of the peak")]


@operation(writes=False)
def get_equity(memory: Memory, ask: AsOf, caller: Caller) -> EquityAnswer:
    """The equity curve of an agent, flow-adjusted: deposits and withdrawals are not profit."""
    handle = reader(memory, ask)
    curve = handle.ledger.equity(as_of=ask.as_of, head=ask.head)
    points = [EquityPoint(t=optional_time_text(t) or "", nav=money(nav) or "0") for t, nav in curve.points]
    return EquityAnswer(
        agent=handle.agent.id, points=points, n=len(points), source=curve.source, currency=handle.agent.settings.currency,
        max_drawdown_pct=money(curve.max_drawdown[1]) if curve.points else None,
    )  # fmt: skip


class ImportsAnswer(Answer):
    """Imports of files."""

    agent: Annotated[str, Field(description="whose")]
    imports: Annotated[list[dict[str, Any]], Field(description="batch, file, format, new, duplicates, undone")]
    n: Annotated[int, Field(description="how many")]


@operation(writes=False)
def list_imports(memory: Memory, ask: AsOf, caller: Caller) -> ImportsAnswer:
    """The files that were imported, oldest first, and whether each was undone."""
    found = reader(memory, ask).imports.all(as_of=ask.as_of, head=ask.head)
    rows = [{"batch": item.key, **item.body, "undone": undone} for item, undone in found]
    return ImportsAnswer(agent=ask.agent or DEFAULT_AGENT, imports=rows, n=len(rows))


class UndoImport(OfAgent):
    """Which import to take back."""

    batch: Annotated[Key, Field(description="its batch, from list_imports")]


@operation(writes=True)
def undo_import(memory: Memory, ask: UndoImport, caller: Caller) -> ReceiptAnswer:
    """Take an import back: what it brought no longer counts, and what was concluded from it is concluded anew."""
    caller.require_owner("take an import back")
    return receipt_answer(reader(memory, ask).undo_import(ask.batch))
