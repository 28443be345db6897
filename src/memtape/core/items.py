"""Items: everything observed or stated, stored once by its source's own key.

An observed value is unpacked into items: a tick is itself an item (what was held), and so is each fill, funding payment,
cash flow, equity mark and decision in it. An item is recognised by its (kind, key), whichever value it comes in.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from decimal import Decimal, localcontext
from typing import Any

from memtape.core.codec import canonical, digest, make_id, plain, time_text
from memtape.core.ids import TradeId
from memtape.core.ledger.fold import FillEvent, FundingEvent, PositionEvent, SnapshotView
from memtape.core.ledger.rounds import AccountTerms, KnownBar, minutes
from memtape.core.ledger.trades import Trade
from memtape.core.observed import (
    Bar,
    Bars,
    CashFlow,
    Claim,
    ClosedTrade,
    Closing,
    Decision,
    EquityMark,
    Fill,
    Funding,
    HeldPosition,
    Observed,
    Tick,
)
from memtape.core.values import MONEY, read

Position = tuple[str, str]  # symbol, leg
OWNER_STREAM = "@owner"  # the stream of what belongs to no agent: skills, agents, the calendar


@dataclass(frozen=True, slots=True)
class Item:
    """One observed or stated thing, with what is needed to store and find it."""

    kind: str
    key: str
    at: datetime
    body: Any  # the value itself
    symbol: str = ""
    leg: str = ""
    ref: str | None = None  # a fill: its decision or order; a decision: its tick; an order: its decision


def unpack_items(value: Observed) -> list[Item]:
    """The items of an observed value, the value itself first."""
    match value:
        case Tick():
            items = [Item("tick", value.id, value.t, value)]
            for decision in value.decisions:
                items += _decision_items(decision, value.id)
            parts: list[Observed] = [*value.fills, *value.funding, *value.cash_flows]
            for part in parts:
                items += unpack_items(part)
            if value.equity is not None:
                items.append(Item("equity", time_text(value.t), value.t, EquityMark(t=value.t, equity=value.equity)))
            return items
        case Fill():
            ref = f"d:{value.decision}" if value.decision else f"o:{value.order_id}" if value.order_id else None
            return [Item("fill", value.id, value.t, value, value.symbol, value.leg, ref)]
        case Funding():
            return [Item("funding", value.id, value.t, value, value.symbol, value.leg)]
        case ClosedTrade():
            return [Item("trade", value.trade_id, value.exit_at, value, value.symbol, value.trade_id)]
        case EquityMark():
            return [Item("equity", value.id or time_text(value.t), value.t, value)]
        case CashFlow():
            return [Item("flow", value.id, value.t, value)]
        case Decision():
            return _decision_items(value, None)
        case Claim():
            assert value.trade_id is not None and value.entry_at is not None
            content = f"c:{claim_content_id(value)}"
            return [Item("claim", value.trade_id, value.exit_at or value.entry_at, value, value.symbol, value.trade_id, content)]
        case Closing():
            assert value.exit_at is not None
            return [Item("closing", value.trade_id, value.exit_at, value, "", value.trade_id)]
        case Bars():
            return []


def claim_content_id(claim: Claim) -> str:
    """A hash of what a claim states, without its id and times. A repeated report is recognised by it."""
    return make_id(canonical(replace(claim, trade_id=None, entry_at=None, exit_at=None)))


def close_claim(claim: Claim, closing: Closing) -> Claim:
    """An open claim, completed with the end that was reported later."""
    return replace(claim, exit_price=closing.exit_price, exit_at=closing.exit_at, pnl=closing.pnl, pnl_r=closing.pnl_r,
                   reflection=closing.reflection or claim.reflection, mae=closing.mae)  # fmt: skip


def _decision_items(decision: Decision, tick: str | None) -> list[Item]:
    assert decision.id is not None and decision.t is not None
    own = Item("decision", decision.id, decision.t, decision, decision.symbol or "", "", tick)
    return [own, *(Item("order", order, decision.t, None, ref=decision.id) for order in decision.order_ids)]


def observed_bars(value: Observed) -> tuple[Bar, ...]:
    """The bars of a value."""
    return value.bars if isinstance(value, Tick | Bars) else ()


def bars_digest(bars: Iterable[Bar]) -> str:
    """One hash for a set of bars."""
    lines = sorted(f"{b.symbol}|{time_text(b.t0)}|{time_text(b.t1)}|{plain([b.o, b.h, b.l, b.c, b.v])}" for b in bars)
    return digest("\n".join(lines))


def delivery_digest(bars: Iterable[KnownBar]) -> str:
    """One hash for the new bars of a value, with the time at which each became known."""
    return digest("\n".join(sorted(f"{bars_digest([known.bar])}|{time_text(known.known_at)}" for known in bars)))


def body_of(item: Item) -> Any:
    """The body of an item as it is stored: plain data; of a tick, without the parts that are items of their own."""
    if item.kind == "order":
        return None
    if item.kind == "tick":
        tick = item.body
        own = {"id": tick.id, "t": tick.t, "positions": tick.positions, "marks": tick.marks}
        return {name: plain(part) for name, part in own.items() if part is not None}
    return plain(item.body)


# ---- from items back to the events of a position ----------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class StoredItem:
    """An item as it comes from the store; `body` is plain data."""

    seq: int
    kind: str
    key: str
    at: datetime
    known_at: datetime
    skill_version: int
    symbol: str
    leg: str
    ref: str | None
    body: Any
    imported: bool = False  # came from a file: no run observed it
    gone_at: datetime | None = None  # when it was taken back, with its import


@dataclass(frozen=True, slots=True)
class NamedDecisions:
    """Decisions by the names that fills refer to: `d:<decision id>` and `o:<order id>`."""

    decisions: Mapping[str, tuple[Decision, datetime]]

    def of(self, fill: Fill) -> tuple[Decision | None, datetime | None]:
        """The decision that a fill names, and when it became known."""
        for name in (f"d:{fill.decision}", f"o:{fill.order_id}"):
            if found := self.decisions.get(name):
                return found
        return None, None


def position_events(
    position: Position, items: Sequence[StoredItem], named: NamedDecisions, first_snapshot: datetime | None
) -> list[PositionEvent]:
    """The events of one position, from the items that concern it and all ticks and tick decisions of that time."""
    symbol, _ = position
    items = in_log_order(items)
    by_tick: dict[str, Decision] = {}
    for item in items:
        if item.kind == "decision" and item.symbol == symbol and item.ref is not None and item.ref not in by_tick:
            by_tick[item.ref] = read(Decision, item.body)
    events: list[PositionEvent] = []
    for item in items:
        if item.kind == "tick":
            events.append(snapshot_view(position, item, by_tick.get(item.key), first_snapshot))
        elif (item.symbol, item.leg) != position:
            continue
        elif item.kind == "fill":
            fill = read(Fill, item.body)
            decision, decided_at = named.of(fill)
            events.append(FillEvent(fill, item.known_at, item.skill_version, decision, decided_at, item.imported, item.gone_at))
        elif item.kind == "funding":
            events.append(FundingEvent(read(Funding, item.body), item.known_at, item.gone_at))
    return events


def in_log_order(items: Iterable[StoredItem]) -> list[StoredItem]:
    """The same items. One that was taken back and came again counts until the next of its key became known.

    >>> from datetime import UTC
    >>> day = [datetime(2026, 3, n, tzinfo=UTC) for n in range(1, 5)]
    >>> first = StoredItem(1, "flow", "c1", day[0], day[0], 1, "", "", None, {}, gone_at=day[3])
    >>> again = replace(first, seq=3, at=day[1], known_at=day[1], gone_at=None)
    >>> [(item.seq, item.gone_at == day[1]) for item in in_log_order([first, again])]
    [(1, True), (3, False)]
    """
    listed = list(items)
    if all(item.gone_at is None for item in listed):
        return listed
    known: dict[tuple[str, str], datetime] = {}  # by key, when the earliest of the later ones was known
    until: dict[int, datetime | None] = {}
    for place, item in sorted(enumerate(listed), key=lambda pair: pair[1].seq, reverse=True):
        later = known.get((item.kind, item.key), item.gone_at)
        until[place] = min(item.gone_at, later) if item.gone_at is not None and later is not None else item.gone_at
        known[item.kind, item.key] = min(item.known_at, known.get((item.kind, item.key), item.known_at))
    found = [replace(item, gone_at=until[place]) for place, item in enumerate(listed)]
    return [item for item in found if item.gone_at is None or item.gone_at > item.known_at]


def snapshot_view(
    position: Position, tick: StoredItem, decision: Decision | None, first_snapshot: datetime | None
) -> SnapshotView:
    """A stored tick as one position sees it."""
    symbol, leg = position
    positions = tick.body.get("positions")
    held = next((h for h in (positions or {}).get(symbol, ()) if h.get("leg", "") == leg), None)
    mark = tick.body.get("marks", {}).get(symbol)
    return SnapshotView(
        id=tick.key, t=tick.at, known_at=tick.known_at, skill_version=tick.skill_version, first=tick.at == first_snapshot,
        snapshot=positions is not None, held=read(HeldPosition, held) if held else None,
        mark=Decimal(mark) if mark is not None else None, decision=decision, gone_at=tick.gone_at,
    )  # fmt: skip


def reported_trade(terms: AccountTerms, trade: ClosedTrade, skill_version: int, id_: TradeId) -> Trade:
    """A trade that its source reports whole: with the figures of the source, computed where it states none."""
    size = gross = risk = None
    with localcontext(MONEY):
        if trade.qty is not None:
            units = trade.qty * trade.rate
            size = trade.entry_price * units
            gross = (trade.exit_price - trade.entry_price) * units * (1 if trade.side == "long" else -1)
            if trade.stop is not None:
                risk = abs(trade.entry_price - trade.stop) * units or None
        gross = gross if trade.pnl is None else trade.pnl
        net = None if gross is None else gross - trade.fees + trade.funding
        percent = 100 * net / size if net is not None and size else None
        in_r = net / risk if net is not None and risk else None
    situation = trade.situation
    return Trade(
        id=id_, agent=terms.agent, skill_id=terms.skill_id, skill_version=skill_version,
        strategy=trade.strategy or terms.skill_id, symbol=trade.symbol, leg=trade.trade_id, side=trade.side,
        currency=terms.currency, status="closed", entry_tick_at=None, entry_at=trade.entry_at,
        entry_item=f"trade:{trade.trade_id}", entry_seq=0,
        entry_price=trade.entry_price, entry_size_usd=size, entry_leverage=trade.leverage,
        entry_reason=trade.entry_reason, entry_decision=None, exit_tick_at=None, exit_at=trade.exit_at,
        exit_price=trade.exit_price, exit_reason=trade.exit_reason, exit_decision=None, close_cause="reported",
        exit_trigger=trade.trigger, qty_entered=trade.qty, qty_exited=trade.qty,
        qty_open=None if trade.qty is None else Decimal(0), avg_cost=None, stop_price=trade.stop,
        target_price=trade.target, initial_risk_usd=risk, r_source="stop" if risk else None,
        holding_minutes=minutes(trade.exit_at - trade.entry_at), realized_pnl_usd=gross, fees_usd=trade.fees,
        funding_usd=trade.funding, net_pnl_usd=net,
        pnl_pct=percent, pnl_r=in_r,
        mfe_usd=None, mae_usd=None, mfe_r=None, mae_r=None, excursion_method=None,
        entry_regime=situation.regime if situation else None,
        entry_volatility=situation.volatility_regime if situation else None,
        entry_session=situation.session if situation else None, exit_regime=None,
        quality="reported", adopted=False, liquidation_fills=0, tags=trade.tags, teach="learn",
        entry_situation=canonical(situation) if situation else None,
    )  # fmt: skip


def claimed_trade(terms: AccountTerms, claim: Claim, skill_version: int, id_: TradeId) -> Trade:
    """A trade as the agent reports it, open or closed; `pnl` is net, as the agent states it."""
    assert claim.entry_at is not None and claim.trade_id is not None
    side = 1 if claim.side == "long" else -1
    size = net = risk = in_r = None
    with localcontext(MONEY):
        if claim.qty is not None:
            size = claim.entry_price * claim.qty
            if claim.stop is not None:
                risk = abs(claim.entry_price - claim.stop) * claim.qty or None
            if claim.exit_price is not None:
                net = side * (claim.exit_price - claim.entry_price) * claim.qty
        net = net if claim.pnl is None else claim.pnl
        source = "stop"
        if claim.pnl_r is not None:
            in_r, source = Decimal(repr(claim.pnl_r)), "stated"
        elif net is not None and risk:
            in_r = net / risk
        elif claim.exit_price is not None and claim.stop is not None:
            in_r = side * (claim.exit_price - claim.entry_price) / abs(claim.entry_price - claim.stop)
        if risk is None and net is not None and in_r:
            risk = abs(net / in_r) or None
        percent = 100 * net / size if net is not None and size else None
    situation, closed = claim.situation, claim.exit_price is not None
    held = minutes(claim.exit_at - claim.entry_at) if closed and claim.exit_at and claim.exit_at > claim.entry_at else None
    return Trade(
        id=id_, agent=terms.agent, skill_id=terms.skill_id, skill_version=skill_version,
        strategy=claim.strategy or terms.skill_id, symbol=claim.symbol, leg=claim.trade_id, side=claim.side,
        currency=terms.currency, status="closed" if closed else "open", entry_tick_at=None, entry_at=claim.entry_at,
        entry_item=f"claim:{claim.trade_id}", entry_seq=0, entry_price=claim.entry_price, entry_size_usd=size,
        entry_leverage=None, entry_reason=claim.note, entry_decision=None, exit_tick_at=None,
        exit_at=claim.exit_at if closed else None, exit_price=claim.exit_price, exit_reason=None, exit_decision=None,
        close_cause="claimed" if closed else None, exit_trigger=None, qty_entered=claim.qty,
        qty_exited=claim.qty if closed else None, qty_open=Decimal(0) if closed and claim.qty is not None else claim.qty,
        avg_cost=None, stop_price=claim.stop, target_price=claim.target, initial_risk_usd=risk,
        r_source=source if in_r is not None else None, holding_minutes=held, realized_pnl_usd=net, fees_usd=Decimal(0),
        funding_usd=Decimal(0), net_pnl_usd=net, pnl_pct=percent, pnl_r=in_r, mfe_usd=None,
        mae_usd=None if claim.mae is None else -abs(claim.mae), mfe_r=None, mae_r=None, excursion_method=None,
        entry_regime=situation.regime if situation else None,
        entry_volatility=situation.volatility_regime if situation else None,
        entry_session=situation.session if situation else None, exit_regime=None,
        quality="claimed", adopted=False, liquidation_fills=0, tags=claim.tags, teach="learn",
        confidence=claim.confidence, entry_situation=canonical(situation) if situation else None,
        reflection=claim.reflection, source=claim.source,
    )  # fmt: skip
