"""Replays the log of a stream, row by row, into the rows that every projection must have.

It writes nothing and trusts no table: `verify` compares the tables with these rows, `rebuild` replaces them.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Container, Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from functools import lru_cache
from itertools import groupby
from operator import itemgetter
from typing import Any, Generic, TypeVar

from memtape.core.codec import micros, moment, plain
from memtape.core.events import PlanEvent, read_event
from memtape.core.fill_records import (
    awaited_fill,
    corrected_fill,
    differing_deliveries,
    fill_discrepancy,
    fills_of,
    placed_correction,
)
from memtape.core.fills import Fill, FillCorrection
from memtape.core.ids import OwnerId
from memtape.core.items import (
    Item,
    NamedDecisions,
    Position,
    StoredItem,
    close_claim,
    names_by_authority,
    position_events,
    read_terms,
    unpack_items,
)
from memtape.core.ledger.position_events import TermsEvent
from memtape.core.ledger.rounds import KnownBar
from memtape.core.ledger.versions import TradeVersion, derive_versions
from memtape.core.memory.episodes import Episode
from memtape.core.memory.learn_all import MemoryFold
from memtape.core.memory.plans import PlanState, changed_plan_state, new_plan_state
from memtape.core.observed import READERS, Claim, ClosedTrade, Closing, Decision, Observed, Tick
from memtape.core.skills import Agent
from memtape.core.value_class import dataclass
from memtape.core.values import read
from memtape.engine.write.arrivals import independent_items
from memtape.engine.write.reported_trades import ReportedTrades, reported_id
from memtape.engine.write.verification import is_broker_record
from memtape.store.memories import plan_values
from memtape.store.rows import (
    COLUMNS,
    KEYS,
    LogRow,
    PositionRow,
    added_item,
    affect_values,
    discrepancy_row,
    episode_values,
    item_row,
    outcome_values,
    position_row,
    row_of,
    version_from_values,
    version_values,
)
from memtape.store.schema import PROJECTIONS
from memtape.store.spilled_rows import SpilledRows

_item_values = itemgetter(*COLUMNS["items"])
Value = TypeVar("Value")
BarsOf = Callable[[str], Sequence[KnownBar]]  # all known bars of a symbol
ITEMS_IN_MEMORY = 20_000  # ticks, which many positions look at
# The kinds of items that memories are formed from, beside trades.
_REMEMBERED_KINDS = frozenset(("equity", "flow", "correction", "decision"))
# The kinds of items that concern a position.
_POSITION_KINDS = frozenset(("fill", "funding", "dividend", "split", "instrument", "amend_fill", "void_fill", "tick", "decision"))


@dataclass(frozen=True, slots=True)
class ReportedDelivery:
    """A trade that came whole, and until when it counted."""

    index: int  # of its item
    claim: int | None  # of a closing: the index of the claim that it closes
    known_at: datetime
    skill_version: int
    voided_at: datetime | None = None


class LogReplay:
    """Takes the log of a stream row by row and gives the rows that must follow from it.

    What grows with the log is held in `SpilledRows`; in memory there is a little for each item.
    """

    def __init__(self, owner: OwnerId, stream: str, agent: Agent | None, deleted: bool = False) -> None:
        self.owner, self.stream, self.agent, self.deleted = owner, stream, agent, deleted
        self.items = SpilledRows("items")
        self._kinds: list[str] = []  # of the items, at the same indexes
        self.reported: dict[tuple[str, str], list[ReportedDelivery]] = {}  # by symbol and trade
        self.first_snapshot: datetime | None = None
        self.last_tick: datetime | None = None
        self.known_at: datetime | None = None
        self.deliveries: dict[int, dict[str, Any]] = {}  # log row -> count, range and digest of its bars
        self._here: dict[tuple[str, str], int] = {}  # (kind, key) -> index among the items
        self._batches: dict[str, list[int]] = {}
        self.verified_from: datetime | None = None
        self._broker: dict[int, datetime] = {}  # items that are records of a broker, and when they became known
        self.plans: dict[str, PlanState] = {}
        self._fills: dict[str, tuple[int, ...]] = {}  # where every content stands that a fill has had
        self._corrections: dict[str, list[FillCorrection]] = {}  # by fill

    def take(self, row: LogRow) -> None:
        """Take the next row of the log."""
        known_at = moment(row.known_at)
        if row.payload is None and self.deleted:
            return
        self.known_at = known_at if self.known_at is None else max(self.known_at, known_at)
        if row.payload is None:
            # The payload was destroyed; a later row says so.
            return
        payload = json.loads(row.payload)
        self._change_plans(payload["concluded"])
        if "stated" in payload:
            item = Item(row.kind, row.key, moment(row.occurred_at), payload["stated"], payload["symbol"])
            self._add(item, row, known_at, 1, payload.get("batch"))
            if row.kind == "undo":
                self._void(row.key, row.seq, known_at)
                if "ticks_left" in payload["stated"]:
                    self._take_back_ticks()
            self._plan(row.kind, payload["stated"], known_at)
            return
        observed = dict(payload["observed"])
        kind = {"more": "tick", "fill_again": "fill", "decision_again": "decision"}.get(row.kind, row.kind)
        if kind in ("tick", "bars") and isinstance(observed.get("bars"), dict):
            self.deliveries[row.seq] = observed.pop("bars")
        if kind == "bars":
            return
        value: Observed = read(READERS[kind], observed)
        items = unpack_items(value)
        if isinstance(value, Tick):
            if row.kind == "more" or (self.last_tick is not None and value.t <= self.last_tick):
                items = independent_items(items)
            else:
                self.last_tick = value.t
                if value.positions is not None and self.first_snapshot is None:
                    self.first_snapshot = value.t
        version, batch = payload["skill_version"], payload.get("batch")
        fills = fills_of(value)
        versions = {fill.id: self._contents(fill.id) for fill in fills if fill.id in self._fills}
        items += differing_deliveries(value, versions, known_at)
        for item in sorted(items, key=lambda item: item.kind in ("amend_fill", "void_fill")):
            if (item.kind, item.key) in self._here or (item.kind == "fill" and ("void_fill", item.key) in self._here):
                continue
            if item.kind in ("amend_fill", "void_fill"):
                self._correct(item, row, known_at, version, batch)
            else:
                if item.kind == "fill" and ("awaited_fill", item.key) in self._here:
                    [item] = unpack_items(awaited_fill(item.body, map(plain, self._corrections.get(item.key, ()))))
                self._add(item, row, known_at, version, batch)

    def _correct(self, item: Item, row: LogRow, known_at: datetime, version: int, batch: str | None) -> None:
        """Correct a fill, or take it back, as the writer does."""
        correction: FillCorrection = item.body
        corrections = [*self._corrections.get(correction.fill_id, ()), correction]
        self._corrections[correction.fill_id] = corrections
        index = self._here.get(("fill", correction.fill_id))
        if index is None:
            self._add(placed_correction(item, None, None), row, known_at, version, batch)
            if correction.kind == "amend_fill" and correction.fill_id not in self._fills:
                awaited = Item("awaited_fill", correction.fill_id, correction.t, None)
                if (awaited.kind, awaited.key) not in self._here:
                    self._add(awaited, row, known_at, 1, None)
            return
        current = self.item(index)
        known_at = max(known_at, current.known_at)
        after = corrected_fill(self._contents(correction.fill_id)[0], corrections)
        self._add(placed_correction(item, read(Fill, current.body), after), row, known_at, version, batch)
        self._here.pop(("fill", correction.fill_id))
        self._broker.pop(index, None)
        if after is None or current.seq != row.seq:
            self._end(index, row.seq, known_at)
        if after is not None:
            [new] = unpack_items(after)
            # A content that came with this very row was never believed: the correction takes its place.
            place = index if current.seq == row.seq else None
            self._add(new, row, known_at, current.skill_version, current.batch, place)

    def _add(
        self, item: Item, row: LogRow, known_at: datetime, version: int, batch: str | None, place: int | None = None
    ) -> None:
        index = len(self.items) if place is None else place
        self._here[item.kind, item.key] = index
        if batch:
            self._batches.setdefault(batch, []).append(index)
        values = _item_values(item_row(self.owner, self.stream, item, row.seq, known_at, version, batch))
        if place is None:
            self.items.append(values)
            self._kinds.append(sys.intern(item.kind))
        else:
            self.items[index] = values
        if item.kind == "fill":
            self._fills[item.key] = (*self._fills.get(item.key, ()), self.items.place(index))
        if is_broker_record(item):
            self._broker[index] = known_at
            self.verified_from = known_at if self.verified_from is None else min(self.verified_from, known_at)
        if self.agent is None:
            return
        if item.kind == "closing":
            claim = self._here["claim", item.key]
            self._report(ReportedDelivery(index, claim, known_at, version), "claim", self.item(claim))
        elif item.kind == "trade" or (item.kind == "claim" and item.body.exit_price is not None):
            self._report(ReportedDelivery(index, None, known_at, version), item.kind, item)

    def item(self, index: int) -> StoredItem:
        """One of the items."""
        return added_item(row_of("items", self.items[index]))

    def items_of(self, kinds: Container[str]) -> Iterator[StoredItem]:
        """The items of some kinds, in the order of the log."""
        return (self.item(index) for index, kind in enumerate(self._kinds) if kind in kinds)

    def _contents(self, fill_id: str) -> list[Fill]:
        """Every content that a fill has had, the first one first."""
        return [read(Fill, added_item(row_of("items", self.items.read(place))).body) for place in self._fills[fill_id]]

    def _end(self, index: int, seq: int, known_at: datetime) -> None:
        """Note that an item was taken back."""
        self.items[index] = (*self.items[index][:-2], seq, micros(known_at))

    def _plan(self, kind: str, stated: dict[str, Any], at: datetime) -> None:
        if kind == "plan":
            self.plans[stated["id"]] = new_plan_state(stated, at)
        elif kind == "plan_status":
            self.plans[stated["plan"]] = changed_plan_state(self.plans[stated["plan"]], stated["status"], at)

    def _change_plans(self, concluded: Sequence[dict[str, Any]]) -> None:
        for event in map(read_event, concluded):
            if isinstance(event, PlanEvent):
                status = event.name.removeprefix("plan_")
                self.plans[event.plan] = changed_plan_state(self.plans[event.plan], status, event.at)

    def _report(self, new: ReportedDelivery, kind: str, item: Item | StoredItem) -> None:
        """Add a reported trade. If it was taken back before, the earlier delivery ends where this one begins."""
        assert self.agent is not None
        name = item.symbol, reported_id(self.agent.id, kind, item.key, (item.symbol, item.leg))
        earlier = [each for each in self.reported.get(name, []) if each.known_at < new.known_at]
        ended = [
            replace(each, voided_at=new.known_at) if each.voided_at is not None and each.voided_at > new.known_at else each
            for each in earlier
        ]  # fmt: skip
        self.reported[name] = [*ended, new]

    def _reported_item(self, delivery: ReportedDelivery) -> Item:
        """The trade of a delivery; of a closing, the claim as it was closed."""
        stored = self.item(delivery.index)
        if delivery.claim is not None:
            claim = self.item(delivery.claim)
            whole = close_claim(read(Claim, claim.body), read(Closing, stored.body))
            return Item("claim", stored.key, stored.at, whole, claim.symbol, claim.leg, claim.ref)
        body = read(ClosedTrade if stored.kind == "trade" else Claim, stored.body)
        return Item(stored.kind, stored.key, stored.at, body, stored.symbol, stored.leg, stored.ref)

    def _void(self, batch: str, seq: int, known_at: datetime) -> None:
        """Take back the items of an import."""
        for index in self._batches.pop(batch, ()):
            item = self.item(index)
            if item.voided_at is not None:
                # A correction had ended it before: what it became is another item of the same import.
                continue
            self._end(index, seq, known_at)
            claim = self._here.get(("claim", item.key))
            self._here.pop((item.kind, item.key), None)
            self._broker.pop(index, None)
            if self.agent is None or item.kind not in ("trade", "claim", "closing"):
                continue
            named = self.item(claim) if item.kind == "closing" and claim is not None else item
            kind = "trade" if item.kind == "trade" else "claim"
            name = named.symbol, reported_id(self.agent.id, kind, item.key, (named.symbol, named.leg))
            self.reported[name] = [
                each if each.voided_at is not None else replace(each, voided_at=known_at) for each in self.reported.get(name, [])
            ]
        self.verified_from = min(self._broker.values(), default=None)

    def _take_back_ticks(self) -> None:
        """Let the times of ticks be those of the ticks that are left, as the undo of an import with ticks does."""
        left = [item for item in self.items_of(("tick",)) if item.voided_at is None]
        self.last_tick = max((item.at for item in left), default=None)
        self.first_snapshot = min((item.at for item in left if "positions" in item.body), default=None)

    def projections(self, bars: BarsOf) -> dict[str, SpilledRows]:
        """The rows of every projection."""
        found = {table: SpilledRows(table) for table in PROJECTIONS if table != "items"}
        discrepancies = [
            fill_discrepancy(each) for each in self.items_of(("fill_differs",)) if each.voided_at is None
        ]  # fmt: skip
        if self.agent is not None:
            for version in self._reported_versions(bars):
                found["trades"].append(version_values(self.owner, self.stream, version))
            for position, items in self.items_by_position():
                events = position_events(position, items, self.decisions_named(items), self.first_snapshot)
                derived = derive_versions(self.agent.terms(), *position, events, bars(position[0]))
                for version in derived.versions:
                    found["trades"].append(version_values(self.owner, self.stream, version))
                discrepancies += derived.discrepancies
                if derived.last is not None:
                    row = position_row(self.owner, self.stream, PositionRow(*position, derived.last, derived.open))
                    found["positions"].append(tuple(row.values()))
        # Of several with one key, the first counts.
        rows = [discrepancy_row(self.owner, self.stream, each) for each in discrepancies]
        for row in {tuple(row[column] for column in KEYS["discrepancies"]): row for row in reversed(rows)}.values():
            found["discrepancies"].append(tuple(row.values()))
        if self.agent is not None:
            self._add_memories(self.agent, found, bars)
        return {"items": self.items, **found}

    def _add_memories(self, agent: Agent, found: dict[str, SpilledRows], bars: BarsOf) -> None:
        """Add the rows of memories, from the trades that were found before."""
        who = self.owner, self.stream
        trades = SeveralTimes(lambda: map(version_from_values, found["trades"]))
        fold = MemoryFold(agent, trades, SeveralTimes(lambda: self.items_of(_REMEMBERED_KINDS)), bars, self.verified_from)
        for step in fold.steps:
            found["affect"].append(affect_values(*who, step))
        for formed in fold.episodes_and_outcomes():
            if isinstance(formed, Episode):
                found["episodes"].append(episode_values(*who, formed))
            else:
                found["outcomes"].append(outcome_values(*who, formed))
        for plan in self.plans.values():
            found["plans"].append(plan_values(*who, plan))

    def _reported_versions(self, bars: BarsOf) -> Iterator[TradeVersion]:
        """The versions of the trades that came whole, symbol by symbol."""
        assert self.agent is not None
        statements: dict[str, list[TermsEvent]] = {}
        for item in self.items_of(("instrument",)):
            statements.setdefault(item.symbol, []).append(read_terms(item))
        for symbol, names in groupby(sorted(self.reported), key=itemgetter(0)):
            source = ReportedTrades(self.agent, lambda symbol: (statements.get(symbol, []), bars(symbol)))
            for name in names:
                for each in self.reported[name]:
                    yield from source.versions(self._reported_item(each), each.known_at, each.skill_version, each.voided_at)

    def items_by_position(self) -> Iterator[tuple[Position, list[StoredItem]]]:
        """The items that concern each position: its own, and every tick and tick decision from its first mention on."""
        # By their indexes, because the ticks concern every position.
        own: dict[Position, list[int]] = {}
        first_at: dict[Position, datetime] = {}
        shared: list[tuple[datetime, str, int]] = []
        stated: dict[str, list[int]] = {}  # by symbol: what holds for all its positions; "" for all symbols
        rated: dict[str, list[tuple[datetime, int]]] = {}  # by symbol: the ticks that state a rate of it

        def add_own(position: Position, item: StoredItem) -> list[int]:
            first_at[position] = min(first_at.get(position, item.at), item.at)
            return own.setdefault(position, [])

        for index, kind in enumerate(self._kinds):
            if kind not in _POSITION_KINDS:
                continue
            item = self.item(index)
            if kind in ("fill", "funding", "dividend"):
                add_own((item.symbol, item.leg), item).append(index)
            elif kind in ("split", "instrument", "amend_fill", "void_fill"):
                stated.setdefault(item.symbol, []).append(index)
            else:
                shared.append((item.at, item.symbol, index))
                for symbol in (item.body.get("rates") or {}) if kind == "tick" else ():
                    rated.setdefault(symbol, []).append((item.at, index))
                for symbol, several in (item.body.get("positions") or {}).items() if kind == "tick" else ():
                    for held in several:
                        add_own((symbol, held.get("leg", "")), item)
        item_of = lru_cache(maxsize=ITEMS_IN_MEMORY)(self.item)
        for position, indexes in sorted(own.items()):
            symbol, first = position[0], first_at[position]
            yield position, [
                *map(self.item, indexes), *map(self.item, stated.get(symbol, ())), *map(self.item, stated.get("", ())),
                *(item_of(index) for at, index in rated.get(symbol, ()) if at < first),
                *(item_of(index) for at, of, index in shared if at >= first and of in ("", symbol)),
            ]  # fmt: skip

    def decisions_named(self, items: Sequence[StoredItem]) -> NamedDecisions:
        """The decisions that fills among these items name."""
        decisions: dict[str, tuple[Decision, datetime]] = {}
        for item in items:
            if item.kind == "fill" and item.ref is not None:
                fill = read(Fill, item.body)
                for name in (f"d:{fill.decision}", f"o:{fill.order_id}"):
                    if (found := self._decision(name)) is not None:
                        decisions[name] = found
        return NamedDecisions(decisions)

    def _decision(self, name: str) -> tuple[Decision, datetime] | None:
        sort, _, said = name.partition(":")
        for id_ in names_by_authority(said):
            since: datetime | None = None
            if sort == "o":
                if (order := self._here.get(("order", id_))) is None:
                    continue
                since, id_ = self.item(order).known_at, self.item(order).ref or ""
            if (index := self._here.get(("decision", id_))) is not None:
                item = self.item(index)
                return read(Decision, item.body), item.known_at if since is None else max(since, item.known_at)
        return None


class SeveralTimes(Generic[Value]):
    """Values that are made again each time they are gone through, so that none of them is held."""

    def __init__(self, make: Callable[[], Iterator[Value]]) -> None:
        self._make = make

    def __iter__(self) -> Iterator[Value]:
        return self._make()
