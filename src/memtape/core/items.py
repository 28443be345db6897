"""Items: everything observed or stated, stored once by its source's own key.

An observed value is unpacked into items: a tick is itself an item (what was held), and so is each fill, funding payment,
cash flow, equity mark and decision in it. An item is recognised by its (kind, key), whichever value it comes in.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from decimal import Decimal
from typing import Any

from memtape.core.codec import EPOCH, canonical, decimal_text, digest, make_id, plain, read_time, time_text
from memtape.core.fills import Dividend, Fill, FillCorrection, Funding, Instrument, Split
from memtape.core.ledger.position_events import (
    CorrectionEvent,
    FillEvent,
    FundingEvent,
    PositionEvent,
    SnapshotView,
    SplitEvent,
    TermsEvent,
)
from memtape.core.ledger.rounds import KnownBar
from memtape.core.observed import (
    Bar,
    Bars,
    CashFlow,
    Claim,
    ClosedTrade,
    Closing,
    Decision,
    EquityMark,
    HeldPosition,
    Observed,
    Tick,
)
from memtape.core.value_class import dataclass
from memtape.core.values import read

Position = tuple[str, str]  # symbol, leg
BarTexts = tuple[str, str, str, str, str | None]  # of a bar, as they are stored and hashed: o, h, l, c, v
MAX_STATEMENTS = 1_000_000  # of instruments in one log row; numbers them over all rows
TICK_BODY = ("id", "marks", "positions", "rates", "t")  # what the item of a tick stores; its other parts are items of their own
# Ends the names of a decision, and of its orders, that the owner recorded under an id or for an order that a model had used.
OWNERS_MARK = "@owner"
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
            items = [_tick_item(value)]
            for decision in value.decisions:
                items += decision_items(decision, value.id)
            parts: list[Observed] = [*value.fills, *value.funding, *value.cash_flows]
            parts += [*(value.splits or ()), *(value.dividends or ())]
            for part in parts:
                items += unpack_items(part)
            for n, stated in enumerate(value.instruments or ()):
                # Statements of one tick count in their order, so each has its number.
                key = stated.id or f"{value.id}#{n}"
                items.append(Item("instrument", key, stated.valid_from or EPOCH, stated, stated.symbol, ref=str(n)))
            items += [item for correction in value.corrections or () for item in unpack_items(correction)]
            return items if value.equity is None else [*items, _equity_item(value, value.equity)]
        case Fill():
            ref = f"d:{value.decision}" if value.decision else f"o:{value.order_id}" if value.order_id else None
            return [Item("fill", value.id, value.t, value, value.symbol, value.leg, ref)]
        case Funding():
            return [Item("funding", value.id, value.t, value, value.symbol, value.leg)]
        case Dividend():
            return [Item("dividend", value.id, value.ex_date, value, value.symbol, value.leg)]
        case Split():
            return [Item("split", value.id, value.t, value, value.symbol)]
        case Instrument():
            assert value.id is not None
            return [Item("instrument", value.id, value.valid_from or EPOCH, value, value.symbol, ref="0")]
        case FillCorrection():
            return [Item(value.kind, value.id, value.t, value, ref=f"f:{value.fill_id}")]
        case ClosedTrade():
            return [Item("trade", value.trade_id, value.exit_at, value, value.symbol, value.trade_id)]
        case EquityMark():
            return [Item("equity", value.id or time_text(value.t), value.t, value)]
        case CashFlow():
            return [Item("flow", value.id, value.t, value)]
        case Decision():
            return decision_items(value, None)
        case Claim():
            assert value.trade_id is not None and value.entry_at is not None
            content = f"c:{claim_content_id(value)}"
            return [Item("claim", value.trade_id, value.exit_at or value.entry_at, value, value.symbol, value.trade_id, content)]
        case Closing():
            assert value.exit_at is not None
            return [Item("closing", value.trade_id, value.exit_at, value, "", value.trade_id)]
        case Bars():
            return []


def _tick_item(tick: Tick) -> Item:
    return Item("tick", tick.id, tick.t, tick)


def _equity_item(tick: Tick, equity: Decimal) -> Item:
    return Item("equity", time_text(tick.t), tick.t, EquityMark(t=tick.t, equity=equity))


def claim_content_id(claim: Claim) -> str:
    """A hash of what a claim states, without its id and times. A repeated report is recognised by it."""
    return make_id(canonical(replace(claim, trade_id=None, entry_at=None, exit_at=None)))


def close_claim(claim: Claim, closing: Closing) -> Claim:
    """An open claim, completed with the end that was reported later."""
    return replace(claim, exit_price=closing.exit_price, exit_at=closing.exit_at, pnl=closing.pnl, pnl_r=closing.pnl_r,
                   reflection=closing.reflection or claim.reflection, mae=closing.mae)  # fmt: skip


def decision_items(decision: Decision, tick: str | None) -> list[Item]:
    """The items of a decision: its own, and one for each of its orders."""
    assert decision.id is not None and decision.t is not None
    own = Item("decision", decision.id, decision.t, decision, decision.symbol or "", "", tick)
    mark = OWNERS_MARK if decision.id.endswith(OWNERS_MARK) else ""
    return [own, *(Item("order", f"{order}{mark}", decision.t, None, ref=decision.id) for order in decision.order_ids)]


def fill_references(decision: Decision) -> list[str]:
    """By what a fill refers to a decision: its id, or one of its orders."""
    return [*(f"d:{id_}" for id_ in names_in_fills(decision.id or "")), *(f"o:{order}" for order in decision.order_ids)]


def names_by_authority(name: str) -> tuple[str, str]:
    """The names under which a decision or an order is looked for: the one that only the owner can have used comes first."""
    return f"{name}{OWNERS_MARK}", name


def names_in_fills(key: str) -> list[str]:
    """What a fill may call the decision or the order that is stored under a key.

    >>> names_in_fills("d1"), names_in_fills("d1@owner")
    (['d1'], ['d1@owner', 'd1'])
    """
    return list(dict.fromkeys((key, key.removesuffix(OWNERS_MARK))))


def observed_bars(value: Observed) -> tuple[Bar, ...]:
    """The bars of a value."""
    return value.bars if isinstance(value, Tick | Bars) else ()


def bars_digest(bars: Iterable[Bar]) -> str:
    """One hash for a set of bars."""
    return digest("\n".join(sorted([_bar_line(bar) for bar in bars])))


def bar_texts(bar: Bar) -> BarTexts:
    """The prices and the volume of a bar as they are stored and hashed."""
    volume = None if bar.v is None else decimal_text(bar.v)
    return decimal_text(bar.o), decimal_text(bar.h), decimal_text(bar.l), decimal_text(bar.c), volume


def _bar_line(bar: Bar, texts: BarTexts | None = None) -> str:
    return f"{bar.symbol}|{time_text(bar.t0)}|{time_text(bar.t1)}|{[*(texts or bar_texts(bar))]}"


def delivery_digest(bars: Sequence[KnownBar], texts: Sequence[BarTexts] | None = None) -> str:
    """One hash for the new bars of a value, with the time at which each became known; `texts` are theirs, if at hand."""
    if len(bars) == 1:
        # As most ticks have.
        return digest(f"{digest(_bar_line(bars[0].bar, texts[0] if texts else None))}|{time_text(bars[0].known_at)}")
    every = [bar_texts(known.bar) for known in bars] if texts is None else texts
    lines = [f"{digest(_bar_line(k.bar, own))}|{time_text(k.known_at)}" for k, own in zip(bars, every, strict=True)]
    return digest("\n".join(sorted(lines)))


def body_of(item: Item) -> Any:
    """The body of an item as it is stored: plain data; of a tick, without the parts that are items of their own."""
    if item.kind == "order":
        return None
    if isinstance(item.body, dict):
        return item.body
    if item.kind == "tick":
        return {name: plain(part) for name in TICK_BODY if (part := getattr(item.body, name)) is not None}
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
    batch: str | None = None  # the import that it came with
    voided_at: datetime | None = None  # when it was taken back, with its import or by a correction

    @property
    def imported(self) -> bool:
        """True if it came from a file: no run observed it."""
        return self.batch is not None


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
        elif item.kind in ("amend_fill", "void_fill"):
            if list(position) in item.body.get("positions", ()):
                window = read_time(item.body["since"]), read_time(item.body["t"])
                events.append(CorrectionEvent(item.key, *window, item.known_at, item.voided_at))
        elif item.kind == "split" and item.symbol == symbol:
            events.append(SplitEvent(read(Split, item.body), item.known_at, item.voided_at))
        elif item.kind == "instrument" and item.symbol == symbol:
            events.append(read_terms(item))
        elif (item.symbol, item.leg) != position:
            continue
        elif item.kind == "dividend":
            events.append(FundingEvent(read(Dividend, item.body), item.known_at, item.voided_at))
        elif item.kind == "fill":
            fill = read(Fill, item.body)
            decision, decided_at = named.of(fill)
            events.append(FillEvent(fill, item.known_at, item.skill_version, decision, decided_at, item.imported, item.voided_at))
        elif item.kind == "funding":
            events.append(FundingEvent(read(Funding, item.body), item.known_at, item.voided_at))
    return events


def read_terms(item: StoredItem) -> TermsEvent:
    """A stored statement of terms, with its place among all statements recorded."""
    number = item.seq * MAX_STATEMENTS + int(item.ref or 0)
    return TermsEvent(read(Instrument, item.body), item.known_at, number, item.voided_at)


def in_log_order(items: Iterable[StoredItem]) -> list[StoredItem]:
    """The same items. One that was taken back and came again counts until the next of its key became known.

    >>> from datetime import UTC
    >>> day = [datetime(2026, 3, n, tzinfo=UTC) for n in range(1, 5)]
    >>> first = StoredItem(1, "flow", "c1", day[0], day[0], 1, "", "", None, {}, voided_at=day[3])
    >>> again = replace(first, seq=3, at=day[1], known_at=day[1], voided_at=None)
    >>> [(item.seq, item.voided_at == day[1]) for item in in_log_order([first, again])]
    [(1, True), (3, False)]
    """
    listed = list(items)
    if all(item.voided_at is None for item in listed):
        return listed
    known: dict[tuple[str, str], datetime] = {}  # by key, when the earliest of the later ones was known
    until: dict[int, datetime | None] = {}
    for place, item in sorted(enumerate(listed), key=lambda pair: pair[1].seq, reverse=True):
        later = known.get((item.kind, item.key), item.voided_at)
        until[place] = min(item.voided_at, later) if item.voided_at is not None and later is not None else item.voided_at
        known[item.kind, item.key] = min(item.known_at, known.get((item.kind, item.key), item.known_at))
    found = [replace(item, voided_at=until[place]) for place, item in enumerate(listed)]
    return [item for item in found if item.voided_at is None or item.voided_at > item.known_at]


def each_in_log_order(items: Iterable[StoredItem]) -> Iterator[StoredItem]:
    """The same as `in_log_order`, one item after the other. The items are gone through several times.

    >>> from datetime import UTC
    >>> day = [datetime(2026, 3, n, tzinfo=UTC) for n in range(1, 5)]
    >>> first = StoredItem(1, "flow", "c1", day[0], day[0], 1, "", "", None, {}, voided_at=day[3])
    >>> items = [first, replace(first, key="c2", voided_at=None), replace(first, seq=3, known_at=day[1], voided_at=None)]
    >>> list(each_in_log_order(items)) == in_log_order(items)
    True
    """
    # Few items are ever taken back. Only these and the others of their keys can change.
    names = {(item.kind, item.key) for item in items if item.voided_at is not None}
    if not names:
        yield from items
        return
    changed = in_log_order(item for item in items if (item.kind, item.key) in names)
    kept = {(item.kind, item.key, item.seq): item for item in changed}
    for item in items:
        if (item.kind, item.key) not in names:
            yield item
        elif (now := kept.get((item.kind, item.key, item.seq))) is not None:
            yield now


def snapshot_view(
    position: Position, tick: StoredItem, decision: Decision | None, first_snapshot: datetime | None
) -> SnapshotView:
    """A stored tick as one position sees it."""
    symbol, leg = position
    positions = tick.body.get("positions")
    held = next((h for h in (positions or {}).get(symbol, ()) if h.get("leg", "") == leg), None)
    mark = tick.body.get("marks", {}).get(symbol)
    rate = tick.body.get("rates", {}).get(symbol)
    return SnapshotView(
        id=tick.key, t=tick.at, known_at=tick.known_at, skill_version=tick.skill_version, first=tick.at == first_snapshot,
        snapshot=positions is not None, held=read(HeldPosition, held) if held else None,
        mark=Decimal(mark) if mark is not None else None, decision=decision, voided_at=tick.voided_at,
        rate=Decimal(rate) if rate is not None else None,
    )  # fmt: skip
