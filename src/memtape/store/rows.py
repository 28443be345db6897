"""Values as rows and rows as values: one form for writing, verifying and rebuilding."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from typing import Any, NamedTuple, get_type_hints

from memtape.core.codec import canonical, canonical_plain, decimal_text, micros, moment, plain, read_time
from memtape.core.decisions.followed import FollowedOutcome
from memtape.core.events import Discrepancy
from memtape.core.ids import OwnerId
from memtape.core.items import BarTexts, Item, StoredItem, bar_texts, body_of
from memtape.core.ledger.excursions import State
from memtape.core.ledger.position_events import Order
from memtape.core.ledger.rounds import KnownBar, Round
from memtape.core.ledger.terms import RULES_VERSION, ContractTerms
from memtape.core.ledger.trades import TRADE_FIELDS, Trade
from memtape.core.ledger.versions import TradeVersion
from memtape.core.memory.affect import AffectStep
from memtape.core.memory.episodes import EPISODE_FIELDS, Episode
from memtape.core.observed import Bar, Decision
from memtape.core.value_class import dataclass
from memtape.core.values import read
from memtape.store.database import Row
from memtape.store.schema import AFFECT_COLUMNS, EPISODE_COLUMNS, OUTCOME_COLUMNS, TRADE_COLUMNS

_VERSION_COLUMNS = ("owner", "stream", "known_from", "known_to", "settled_at", *TRADE_FIELDS)
_ITEM_COLUMNS = ("owner", "stream", "kind", "key", "seq", "symbol", "leg", "at", "known_at", "skill_version", "ref",
                 "batch", "body", "void_seq", "void_at")  # fmt: skip
_POSITION_COLUMNS = ("owner", "stream", "symbol", "leg", "last_at", "last_rank", "last_seq", "last_id", "round")
_BAR_COLUMNS = ("owner", "stream", "symbol", "frame", "t0", "t1", "o", "h", "l", "c", "v", "seq", "known_at")
_LOG_COLUMNS = ("owner", "stream", "seq", "kind", "key", "occurred_at", "known_at", "recorded_at", "payload",
                "payload_hash", "prev_hash", "hash")  # fmt: skip
_DISCREPANCY_COLUMNS = ("owner", "stream", "symbol", "leg", "at", "why", "fill_id", "entry_at", "ledger_qty", "broker_qty",
                        "price", "detail")  # fmt: skip
_STREAM_COLUMNS = ("owner", "stream", "seq", "hash", "first_snapshot", "last_tick", "known_at", "verified_from", "rules")
_EPISODE_COLUMNS = ("owner", "stream", *EPISODE_FIELDS)
_AFFECT_COLUMNS = ("owner", "stream", *AffectStep._fields)
_OUTCOME_COLUMNS = ("owner", "stream", *FollowedOutcome._fields)
_PLAN_COLUMNS = ("owner", "stream", "id", "status", "at", "fired", "fired_at", "ended_at", "body")

COLUMNS: dict[str, tuple[str, ...]] = {
    "log": _LOG_COLUMNS, "streams": _STREAM_COLUMNS, "items": _ITEM_COLUMNS, "positions": _POSITION_COLUMNS,
    "trades": _VERSION_COLUMNS, "discrepancies": _DISCREPANCY_COLUMNS, "bars": _BAR_COLUMNS,
    "episodes": _EPISODE_COLUMNS, "affect": _AFFECT_COLUMNS, "outcomes": _OUTCOME_COLUMNS, "plans": _PLAN_COLUMNS,
    "changes": ("owner", "stream", "revision", "id"),
}  # fmt: skip
KEYS: dict[str, tuple[str, ...]] = {
    "log": ("stream", "seq"), "streams": ("stream",), "items": ("stream", "kind", "key", "seq"),
    "positions": ("stream", "symbol", "leg"), "trades": ("stream", "id", "known_from"),
    "discrepancies": ("stream", "symbol", "leg", "at", "why", "fill_id"), "bars": ("stream", "symbol", "frame", "t0"),
    "episodes": ("stream", "id", "known_from"), "affect": ("stream", "at", "rank", "id"),
    "outcomes": ("stream", "id", "known_from"), "plans": ("stream", "id"),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Head:
    """The head of a stream: its last log row, and what the next write needs to know."""

    seq: int
    hash: str
    first_snapshot: datetime | None
    last_tick: datetime | None
    known_at: datetime | None
    verified_from: datetime | None = None  # when the first record of a broker became known
    rules: int = RULES_VERSION  # by which version of the rules the projections were made


class LogRow(NamedTuple):
    """A row of the log as in its table, without the owner; times are the microseconds that were hashed."""

    stream: str
    seq: int
    kind: str
    key: str
    occurred_at: int
    known_at: int
    recorded_at: int
    payload: str | None
    payload_hash: str
    prev_hash: str
    hash: str


@dataclass(frozen=True, slots=True)
class PositionRow:
    """An open or flat position, and how far its history has been folded."""

    symbol: str
    leg: str
    last: Order
    round: Round | None


def time_of(value: int | None) -> datetime | None:
    """A stored time."""
    return None if value is None else moment(value)


def micros_of(value: datetime | None) -> int | None:
    """A time to store."""
    return None if value is None else micros(value)


def money_of(value: Any) -> Decimal | None:
    """A stored amount: text in SQLite, a number in PostgreSQL."""
    return None if value is None else value if isinstance(value, Decimal) else Decimal(value)


def _text_of(value: Decimal | None) -> str | None:
    return None if value is None else decimal_text(value)


# ---- values as rows; the same functions write, verify and rebuild --------------------------------------------------


def item_row(owner: OwnerId, stream: str, item: Item, seq: int, known_at: datetime, skill_version: int,
             batch: str | None, body: str | None = None) -> dict[str, Any]:  # fmt: skip
    """An item as its row; `body` is its canonical JSON, if it is already known."""
    if body is None and item.body is not None:
        body = canonical(body_of(item) if item.kind == "tick" else item.body)
    return {
        "owner": owner, "stream": stream, "kind": item.kind, "key": item.key, "seq": seq, "symbol": item.symbol,
        "leg": item.leg, "at": micros(item.at), "known_at": micros(known_at), "skill_version": skill_version,
        "ref": item.ref, "batch": batch, "body": body,
        "void_seq": None, "void_at": None,
    }  # fmt: skip


def tick_item_values(
    owner: OwnerId, stream: str, kind: str, key: str, seq: int, at: datetime, known_at: datetime, skill_version: int, body: str
) -> Row:
    """A tick, or an equity mark, as the values of its row: the same as `item_row` gives."""
    return (owner, stream, kind, key, seq, "", "", micros(at), micros(known_at), skill_version, None, None, body, None, None)


def added_item(row: Mapping[str, Any]) -> StoredItem:
    """A row as an item, as the store would give it."""
    return StoredItem(
        row["seq"], row["kind"], row["key"], moment(row["at"]), moment(row["known_at"]), row["skill_version"], row["symbol"],
        row["leg"], row["ref"], json.loads(row["body"]) if row["body"] else None, row["batch"], time_of(row["void_at"]),
    )  # fmt: skip


Convert = Callable[[Any], Any]
_WRITERS: dict[str, Convert] = {
    "money": decimal_text, "time": micros, "flag": int, "list": lambda value: canonical_plain(list(value)) if value else "[]",
}  # fmt: skip
_READERS: dict[str, Convert] = {
    "money": money_of, "time": moment, "flag": bool, "list": lambda text: () if text == "[]" else tuple(json.loads(text)),
}  # fmt: skip


def _conversions(columns: Mapping[str, str], converters: Mapping[str, Convert]) -> list[tuple[int, Convert]]:
    """The places of the columns whose stored form differs from the value, each with its conversion.

    Texts, whole numbers and reals are stored as they are.
    """
    return [(at, converters[kind]) for at, kind in enumerate(columns.values()) if kind in converters]


_WRITE_TRADE, _READ_TRADE = _conversions(TRADE_COLUMNS, _WRITERS), _conversions(TRADE_COLUMNS, _READERS)
_WRITE_EPISODE, _READ_EPISODE = _conversions(EPISODE_COLUMNS, _WRITERS), _conversions(EPISODE_COLUMNS, _READERS)
_WRITE_OUTCOME, _READ_OUTCOME = _conversions(OUTCOME_COLUMNS, _WRITERS), _conversions(OUTCOME_COLUMNS, _READERS)
_READ_AFFECT = _conversions(AFFECT_COLUMNS, _READERS)


def _converted(values: Iterable[Any], converters: Sequence[tuple[int, Convert]]) -> list[Any]:
    """Values with some of them converted."""
    found = list(values)
    for at, convert in converters:
        if found[at] is not None:
            found[at] = convert(found[at])
    return found


def version_values(owner: OwnerId, stream: str, version: TradeVersion) -> Row:
    """A version of a closed trade as the values of its row, in the order of its columns."""
    return (
        owner, stream, micros(version.known_from), micros_of(version.known_to), micros_of(version.settled_at),
        *_converted(version.trade, _WRITE_TRADE),
    )  # fmt: skip


def version_from_values(values: Row) -> TradeVersion:
    """The values of a row back as a version of a closed trade."""
    return TradeVersion(trade_from_row(values[5:]), moment(values[2]), time_of(values[3]), time_of(values[4]))


def episode_values(owner: OwnerId, stream: str, episode: Episode) -> Row:
    """A version of an episode as the values of its row."""
    return (owner, stream, *_converted(episode, _WRITE_EPISODE))


def episode_from_row(row: Row) -> Episode:
    """A row back as an episode."""
    return Episode._make(_converted(row, _READ_EPISODE))


def affect_values(owner: OwnerId, stream: str, step: AffectStep) -> Row:
    """A step of affect as the values of its row."""
    # There is one for every equity mark, so its conversions are written out.
    return (
        owner, stream, micros(step.at), step.rank, step.id, micros(step.known_at), micros(step.known_by), step.confidence,
        step.wins, step.losses, step.nav, step.peak, step.flows, micros_of(step.marked_at), step.pnl_r,
        step.scaled_peak,
    )  # fmt: skip


def affect_from_row(row: Row) -> AffectStep:
    """A row back as a step of affect."""
    return AffectStep._make(_converted(row, _READ_AFFECT))


def outcome_values(owner: OwnerId, stream: str, outcome: FollowedOutcome) -> Row:
    """A version of an outcome as the values of its row."""
    return (owner, stream, *_converted(outcome, _WRITE_OUTCOME))


def outcome_from_row(row: Row) -> FollowedOutcome:
    """A row back as a version of an outcome."""
    return FollowedOutcome._make(_converted(row, _READ_OUTCOME))


def row_of(table: str, values: Row) -> dict[str, Any]:
    """Values in the order of a table's columns as its row."""
    return dict(zip(COLUMNS[table], values, strict=True))


def trade_from_row(row: Row) -> Trade:
    """A row back as a trade; its columns in the order of the fields."""
    return Trade._make(_converted(row, _READ_TRADE))


_NAMED_KINDS = ("State", "Round", "ContractTerms", "tuple", "Decimal", "datetime", "Decision")
_ROUND_KINDS: dict[str, str] = {
    name: next((kind for kind in _NAMED_KINDS if kind in str(hint)), "") for name, hint in get_type_hints(Round).items()
}


def round_from_row(text: str) -> Round:
    """An open round trip back from its canonical JSON. memtape wrote it, so it is not checked again."""
    return _round(json.loads(text))


def _round(data: dict[str, Any]) -> Round:
    for name, value in data.items():
        match _ROUND_KINDS[name]:
            case "Decimal":
                data[name] = Decimal(value)
            case "datetime":
                data[name] = read_time(value)
            case "Decision":
                data[name] = read(Decision, value)
            case "ContractTerms":
                data[name] = ContractTerms(**{**value, "multiplier": Decimal(value["multiplier"])})
            case "State":
                data[name] = [_state(state) for state in value]
            case "Round":
                data[name] = [_round(lot) for lot in value]
            case "tuple" if name == "rates":
                data[name] = [(read_time(at), Decimal(rate)) for at, rate in value]
    return Round(**data)


def _state(data: dict[str, Any]) -> State:
    realized, cost, qty = (Decimal(data[name]) for name in ("realized", "cost", "qty"))
    return State(read_time(data["at"]), realized, cost, qty, data["priced"], money_of(data.get("cost_usd")))


def position_row(owner: OwnerId, stream: str, position: PositionRow) -> dict[str, Any]:
    """A position as its row."""
    at, rank, seq, id_ = position.last
    return {
        "owner": owner, "stream": stream, "symbol": position.symbol, "leg": position.leg, "last_at": micros(at),
        "last_rank": rank, "last_seq": seq, "last_id": id_,
        "round": None if position.round is None else canonical(position.round.with_last_states()),
    }  # fmt: skip


_DETAILS = ("fields", "fee", "fee_currency", "stop", "other", "stated_pnl", "ledger_pnl")  # of a discrepancy, in one column


def discrepancy_row(owner: OwnerId, stream: str, found: Discrepancy) -> dict[str, Any]:
    """A discrepancy as its row."""
    detail = {name: plain(value) for name in _DETAILS if (value := getattr(found, name)) is not None}
    return {
        "owner": owner, "stream": stream, "symbol": found.symbol, "leg": found.leg, "at": micros(found.at), "why": found.why,
        "fill_id": found.fill_id or "", "entry_at": micros(found.entry_at or found.at),
        "ledger_qty": _text_of(found.ledger_qty), "broker_qty": _text_of(found.broker_qty),
        "price": _text_of(found.price), "detail": canonical_plain(detail) if detail else None,
    }  # fmt: skip


def discrepancy_from_row(row: Row) -> Discrepancy:
    """A row back as a discrepancy: its columns without owner and stream."""
    symbol, leg, at, why, fill_id, entry_at, have, seen, price, detail = row
    more = json.loads(detail) if detail else {}
    for name in ("fee", "stop", "stated_pnl", "ledger_pnl"):
        if name in more:
            more[name] = Decimal(more[name])
    if "fields" in more:
        more["fields"] = tuple(more["fields"])
    if why == "stop_wrong_side":
        more["entry_at"] = moment(entry_at)
    return Discrepancy(symbol, leg, moment(at), why, money_of(have), money_of(seen), money_of(price), fill_id or None, **more)


def bar_values(owner: OwnerId, stream: str, bar: Bar, seq: int, known_at: datetime, texts: BarTexts | None = None) -> Row:
    """A bar as the values of its row, in the order of its columns; `texts` are its prices and volume, if at hand."""
    t0, t1 = micros(bar.t0), micros(bar.t1)
    frame = int((bar.t1 - bar.t0).total_seconds())
    return (owner, stream, bar.symbol, frame, t0, t1, *(texts or bar_texts(bar)), seq, micros(known_at))


def comparable(table: str, row: Row) -> dict[str, Any]:
    """A stored row in the form that `*_row` gives, so that rows of both databases compare equal."""
    return {
        name: decimal_text(value) if isinstance(value, Decimal) else value
        for name, value in zip(COLUMNS[table], row, strict=True)
    }


def known_bar_from_row(row: Row) -> KnownBar:
    """A row back as a bar."""
    symbol, t0, t1, o, h, low, c, v, known_at = row
    bar = Bar(
        symbol=symbol, t0=moment(t0), t1=moment(t1), o=Decimal(o), h=Decimal(h), l=Decimal(low), c=Decimal(c), v=money_of(v)
    )
    return KnownBar(bar, moment(known_at))
