"""Events: what memtape concludes from what it observes or is told. One class per conclusion.

An event stands in the log row of the observation that led to it and in the receipt of that observation. `event_data` gives
its data and `read_event` reads data back, of old log rows too. The names of events and of their fields are a contract: a
field's name is its key in the data, in the order of the data, and a field with a default is left out where it is None.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields
from datetime import datetime
from decimal import Decimal, InvalidOperation
from typing import Any, ClassVar, Literal

from memtape.core.codec import plain, read_time
from memtape.core.ids import JournalNoteId, LessonId, MemoryId, PlanId, ProposalId, ReflectionId, TickId, TradeId
from memtape.core.ledger.trades import Trade, round_money
from memtape.core.observed import Bar
from memtape.core.value_class import dataclass


@dataclass(frozen=True, slots=True)
class Event:
    """A conclusion."""

    kind: ClassVar[str] = ""

    @property
    def name(self) -> str:
        """What the log and every answer call it."""
        return self.kind


# ---- the ledger ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class TradeOpened(Event):
    """A position was opened from flat. Amounts are rounded to 8 places."""

    kind = "opened"
    trade_id: TradeId
    symbol: str
    leg: str
    side: str
    qty: Decimal | None
    entry_price: Decimal | None
    quality: str


@dataclass(frozen=True, slots=True)
class TradeClosed(Event):
    """A round trip ended: the position is flat, or has changed side. Amounts are rounded to 8 places."""

    kind = "closed"
    trade_id: TradeId
    symbol: str
    leg: str
    side: str
    net_pnl_usd: Decimal | None
    pnl_r: Decimal | None
    close_cause: str | None
    quality: str


@dataclass(frozen=True, slots=True)
class TradeRevised(Event):
    """A closed trade is no longer what it was; `net_pnl_usd` is its new result, None if the trade is gone or unpriced."""

    kind = "revised"
    trade_id: TradeId
    symbol: str
    leg: str
    net_pnl_usd: Decimal | None


DiscrepancyReason = Literal[
    "snapshot", "adopted", "snapshot_lag", "fill_differs", "fee_unknown", "stop_wrong_side", "fill_twice", "pnl_differs"
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Discrepancy:
    """Records that do not agree: a snapshot with the fills, a fill with its earlier delivery, a stop with its entry, ...

    The fold finds it and the ledger keeps it; the event that reports it is `DiscrepancyFound`. `why` says which fields are set:

    snapshot, adopted   the broker shows another quantity; `price` is that of the inferred fill
    snapshot_lag        the same, but a fill within the settling time explains it
    fill_differs        the fill `fill_id` came again with other `fields`; the first content counts
    fee_unknown         the `fee` of a fill is in a currency whose rate nobody stated
    stop_wrong_side     a decision's `stop` is on the wrong side of the entry at `price`, and was not taken
    fill_twice          two fills (`fill_id`, `other`) are equal but for their ids, and a snapshot contradicts their sum
    pnl_differs         the broker states another PnL (`stated_pnl`) of a fill than the ledger has (`ledger_pnl`), before fees
    """

    symbol: str
    leg: str
    at: datetime
    why: DiscrepancyReason
    ledger_qty: Decimal | None = None
    broker_qty: Decimal | None = None
    price: Decimal | None = None
    fill_id: str | None = None
    fields: tuple[str, ...] | None = None
    fee: Decimal | None = None
    fee_currency: str | None = None
    stop: Decimal | None = None
    other: str | None = None  # a second fill
    entry_at: datetime | None = None  # of the entry that a stop belongs to, which may be earlier than its tick
    stated_pnl: Decimal | None = None
    ledger_pnl: Decimal | None = None


# A snapshot that contradicts the ledger, in one way or another. For an agent that only ever sends snapshots it is the normal way.
OF_SNAPSHOTS: frozenset[str] = frozenset(("snapshot", "adopted", "snapshot_lag"))


@dataclass(frozen=True, slots=True)
class DiscrepancyFound(Event):
    """Two records of the account do not agree; see `Discrepancy`."""

    kind = "discrepancy"
    symbol: str
    leg: str
    at: datetime
    why: str
    ledger_qty: Decimal | None = None
    broker_qty: Decimal | None = None
    fill_id: str | None = None
    fields: tuple[str, ...] | None = None
    stop: Decimal | None = None
    other: str | None = None
    stated_pnl: Decimal | None = None
    ledger_pnl: Decimal | None = None


# ---- what arrives --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class StaleTick(Event):
    """A tick was not later than the last one: its fills, funding and bars count, its snapshot and decisions do not."""

    kind = "stale"
    tick: TickId
    t: datetime
    last_tick: datetime


@dataclass(frozen=True, slots=True)
class BarDiffers(Event):
    """A bar came a second time with other prices (open, high, low, close): the first delivery is kept."""

    kind = "bar_differs"
    symbol: str
    t0: datetime
    kept: tuple[Decimal, ...]
    given: tuple[Decimal, ...]


@dataclass(frozen=True, slots=True)
class PriceFarOff(Event):
    """A fill or bar is priced more than ten times above or below the last price known of its symbol. It counts as it came."""

    kind = "price_far_off"
    symbol: str
    at: datetime
    price: Decimal
    compared_with: Decimal
    what: Literal["fill", "bar"]


@dataclass(frozen=True, slots=True)
class BriefNotRecorded(Event):
    """The observation was recorded, but not that a brief was shown for it. Only in answers, never in the log."""

    kind = "brief_not_recorded"
    problem: str


@dataclass(frozen=True, slots=True)
class CardMisfit(Event):
    """A decision inside a tick was recorded as stated, although it does not fit its card. Only in answers, never in the log."""

    kind = "card_misfit"
    decision: str
    problem: str


@dataclass(frozen=True, slots=True)
class DecisionRenamed(Event):
    """A decision of the owner was recorded under another id, because a model had used its id or one of its orders for another
    decision. Only in answers, never in the log.
    """

    kind = "decision_renamed"
    decision: str
    recorded_as: str


# ---- plans ---------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class PlanFired(Event):
    """The condition of an active plan came true."""

    kind = "plan_fired"
    plan: PlanId
    at: datetime
    action: str
    symbol: str | None = None  # the symbol at which it came true, if it was one


@dataclass(frozen=True, slots=True)
class PlanExpired(Event):
    """A plan reached the end of its time."""

    kind = "plan_expired"
    plan: PlanId
    at: datetime


PlanEvent = PlanFired | PlanExpired


# ---- memories ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class MemoryCorrected(Event):
    """An episode was corrected in the fields named."""

    kind = "corrected"
    memory_id: MemoryId
    fields: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class MemoryForgotten(Event):
    """A memory no longer counts. Of a plan or a stated belief, the receipt names neither id nor fields."""

    kind = "forgotten"
    memory_id: MemoryId | None = None
    fields: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class MemoryShredded(Event):
    """A trade that the agent itself reported was destroyed, in so many rows of the log."""

    kind = "shredded"
    memory_id: MemoryId
    log_rows: int


# ---- lessons -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Reflected(Event):
    """Lessons were drawn from the trades."""

    kind = "reflected"
    note: ReflectionId


@dataclass(frozen=True, slots=True)
class ReflectionFailed(Event):
    """A model was asked for lessons and gave none that can be used."""

    kind = "reflection_failed"


@dataclass(frozen=True, slots=True)
class LessonRetired(Event):
    """The owner stopped a lesson from being shown."""

    kind = "retired"
    lesson: LessonId


@dataclass(frozen=True, slots=True)
class LessonsPromoted(Event):
    """The lessons of an agent became those of its skill."""

    kind = "promoted"
    note: ReflectionId


# ---- documents -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class NoteAppended(Event):
    """A note was added to a document."""

    kind = "noted"
    note: JournalNoteId
    path: str
    start_line: int
    end_line: int
    content_hash: str


@dataclass(frozen=True, slots=True)
class EditProposed(Event):
    """An edit of a document was proposed."""

    kind = "proposed"
    proposal: ProposalId
    path: str


@dataclass(frozen=True, slots=True)
class EditAccepting(Event):
    """The owner accepts an edit whose document has changed since; the log says so before the file is written."""

    kind = "accepting"
    proposal: ProposalId


@dataclass(frozen=True, slots=True)
class EditAccepted(Event):
    """The owner accepted a proposed edit."""

    kind = "accepted"
    proposal: ProposalId


@dataclass(frozen=True, slots=True)
class EditRejected(Event):
    """The owner rejected a proposed edit."""

    kind = "rejected"
    proposal: ProposalId


# ---- data ----------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class UnknownEvent(Event):
    """An event that this version does not know, with its data as found: a newer log can be read."""

    data: Mapping[str, Any]

    @property
    def name(self) -> str:
        """What the log calls it."""
        return str(self.data.get("event", ""))


EVENTS: Mapping[str, type[Event]] = {
    type_.kind: type_
    for type_ in (
        TradeOpened, TradeClosed, TradeRevised, DiscrepancyFound, StaleTick, BarDiffers, PriceFarOff, BriefNotRecorded,
        CardMisfit, DecisionRenamed, PlanFired, PlanExpired, MemoryCorrected, MemoryForgotten, MemoryShredded, Reflected,
        ReflectionFailed, LessonRetired, LessonsPromoted, NoteAppended, EditProposed, EditAccepting, EditAccepted, EditRejected,
    )
}  # fmt: skip


def _read_prices(texts: list[str]) -> tuple[Decimal, ...]:
    return tuple(Decimal(text) for text in texts)


# How the fields are read that are not text or a whole number in the data.
_FIELD_READERS: Mapping[str, Callable[[Any], object]] = {
    "at": read_time, "t": read_time, "t0": read_time, "last_tick": read_time,
    "qty": Decimal, "entry_price": Decimal, "net_pnl_usd": Decimal, "pnl_r": Decimal,
    "ledger_qty": Decimal, "broker_qty": Decimal, "stop": Decimal, "price": Decimal, "compared_with": Decimal,
    "stated_pnl": Decimal, "ledger_pnl": Decimal,
    "kept": _read_prices, "given": _read_prices, "fields": tuple,
}  # fmt: skip


def event_data(event: Event) -> dict[str, object]:
    """An event as plain data: its name, then its fields.

    >>> from datetime import UTC
    >>> event_data(PlanFired(PlanId("p1"), datetime(2026, 3, 2, 9, tzinfo=UTC), "skip_trade"))
    {'event': 'plan_fired', 'plan': 'p1', 'at': '2026-03-02T09:00:00Z', 'action': 'skip_trade'}
    """
    if isinstance(event, UnknownEvent):
        return dict(event.data)
    data: dict[str, object] = {"event": event.kind}
    for field in fields(event):
        value = getattr(event, field.name)
        if value is not None or field.default is MISSING:
            data[field.name] = plain(value)
    return data


def read_event(data: Mapping[str, Any]) -> Event:
    """The inverse of `event_data`. Data of another shape than this version writes becomes an `UnknownEvent`.

    >>> read_event({"event": "plan_expired", "plan": "p1", "at": "2026-03-02T09:00:00Z"}).plan
    'p1'
    >>> event_data(read_event({"event": "plan_paused", "plan": "p1"}))
    {'event': 'plan_paused', 'plan': 'p1'}
    """
    type_ = EVENTS.get(data.get("event", ""))
    if type_ is None:
        return UnknownEvent(dict(data))
    known = fields(type_)
    needed = {field.name for field in known if field.default is MISSING}
    given = set(data) - {"event"}
    if not needed <= given <= {field.name for field in known}:
        return UnknownEvent(dict(data))
    try:
        return type_(**{key: _read_field(key, data[key]) for key in given})
    except (TypeError, ValueError, InvalidOperation):
        return UnknownEvent(dict(data))


def _read_field(name: str, value: Any) -> Any:
    reader = _FIELD_READERS.get(name)
    return value if reader is None or value is None else reader(value)


# ---- events from values --------------------------------------------------------------------------------------------------


def _rounded(amount: Decimal | None) -> Decimal | None:
    # Events carry the rounded amounts of the log: an event read back is then equal to the one first reported.
    return None if amount is None else round_money(amount)


def trade_opened(trade: Trade) -> TradeOpened:
    """The event that reports a new open trade."""
    return TradeOpened(
        trade.id, trade.symbol, trade.leg, trade.side, _rounded(trade.qty_open), _rounded(trade.entry_price), trade.quality
    )


def trade_closed(trade: Trade) -> TradeClosed:
    """The event that reports a closed trade."""
    return TradeClosed(trade.id, trade.symbol, trade.leg, trade.side, _rounded(trade.net_pnl_usd),
                       _rounded(trade.pnl_r), trade.close_cause, trade.quality)  # fmt: skip


def trade_revised(trade_id: TradeId, symbol: str, leg: str, now: Trade | None) -> TradeRevised:
    """The event that reports what a trade is now; None if it is gone."""
    return TradeRevised(trade_id, symbol, leg, None if now is None else _rounded(now.net_pnl_usd))


def proposal_event(status: str, proposal: ProposalId) -> EditAccepting | EditAccepted | EditRejected:
    """The event that reports the new status of a proposed edit."""
    types = {type_.kind: type_ for type_ in (EditAccepting, EditAccepted, EditRejected)}
    return types[status](proposal)


def discrepancy_found(found: Discrepancy) -> DiscrepancyFound:
    """The event that reports a discrepancy."""
    return DiscrepancyFound(
        found.symbol, found.leg, found.at, found.why, found.ledger_qty, found.broker_qty, found.fill_id, found.fields,
        found.stop, found.other, _rounded(found.stated_pnl), _rounded(found.ledger_pnl),
    )  # fmt: skip


def discrepancy_json(found: Discrepancy) -> dict[str, object]:
    """A discrepancy as plain JSON data: amounts as strings of at most 8 places."""
    data = {field.name: getattr(found, field.name) for field in fields(found)}
    rounded = {name: round_money(value) if isinstance(value, Decimal) else value for name, value in data.items()}
    return {name: plain(value) for name, value in rounded.items() if value is not None}


def bar_differs(stored: Bar, given: Bar) -> BarDiffers:
    """The event that reports a bar which differs from the one stored."""
    return BarDiffers(given.symbol, given.t0, (stored.o, stored.h, stored.l, stored.c), (given.o, given.h, given.l, given.c))
