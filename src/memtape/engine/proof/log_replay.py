"""Replays the log of a stream, row by row, into the rows that every projection must have.

It writes nothing and trusts no table: `verify` compares the tables with these rows, `rebuild` replaces them.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

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
    body_of,
    close_claim,
    position_events,
    read_terms,
    unpack_items,
)
from memtape.core.ledger.position_events import TermsEvent
from memtape.core.ledger.rounds import KnownBar
from memtape.core.ledger.versions import TradeVersion, derive_versions
from memtape.core.memory.learn_all import learn_all
from memtape.core.memory.plans import PlanState, changed_plan_state, new_plan_state
from memtape.core.observed import READERS, Claim, Decision, Observed, Tick
from memtape.core.skills import Agent
from memtape.core.values import read
from memtape.engine.write.arrivals import independent_items
from memtape.engine.write.reported_trades import ReportedTrades, reported_id
from memtape.engine.write.verification import is_broker_record
from memtape.store.memories import plan_values
from memtape.store.rows import (
    KEYS,
    LogRow,
    PositionRow,
    affect_values,
    discrepancy_row,
    episode_values,
    item_row,
    outcome_values,
    position_row,
    row_of,
    version_row,
)

Rows = list[dict[str, Any]]


def _first_of_each_key(table: str, rows: Rows) -> Rows:
    """The rows of a table without those that repeat a key."""
    return list({tuple(row[column] for column in KEYS[table]): row for row in reversed(rows)}.values())


@dataclass(frozen=True, slots=True)
class ReportedDelivery:
    """A trade that came whole, and until when it counted."""

    index: int  # of its item
    item: Item
    known_at: datetime
    skill_version: int
    voided_at: datetime | None = None


class LogReplay:
    """Takes the log of a stream row by row and gives the rows that must follow from it."""

    def __init__(self, owner: OwnerId, stream: str, agent: Agent | None, deleted: bool = False) -> None:
        self.owner, self.stream, self.agent, self.deleted = owner, stream, agent, deleted
        self.items: Rows = []  # the rows of the table `items`
        self.stored: list[StoredItem] = []  # the same items as values, at the same indexes
        self.reported: dict[str, list[ReportedDelivery]] = {}  # by trade
        self.first_snapshot: datetime | None = None
        self.last_tick: datetime | None = None
        self.known_at: datetime | None = None
        self.deliveries: dict[int, dict[str, Any]] = {}  # log row -> count, range and digest of its bars
        self._here: dict[tuple[str, str], int] = {}  # (kind, key) -> index among the items
        self._batches: dict[str, list[int]] = {}
        self.verified_from: datetime | None = None
        self._broker: dict[int, datetime] = {}  # items that are records of a broker, and when they became known
        self.plans: dict[str, PlanState] = {}
        self._fills: dict[str, list[Fill]] = {}  # every content that a fill has had
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
        kind = {"more": "tick", "fill_again": "fill"}.get(row.kind, row.kind)
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
        versions = {fill.id: list(self._fills[fill.id]) for fill in fills if fill.id in self._fills}
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
        current = self.stored[index]
        known_at = max(known_at, current.known_at)
        after = corrected_fill(self._fills[correction.fill_id][0], corrections)
        self._add(placed_correction(item, read(Fill, current.body), after), row, known_at, version, batch)
        self._here.pop(("fill", correction.fill_id))
        self._broker.pop(index, None)
        if after is None or current.seq != row.seq:
            self.items[index]["void_seq"], self.items[index]["void_at"] = row.seq, micros(known_at)
            self.stored[index] = replace(current, voided_at=known_at)
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
        if item.kind == "fill":
            self._fills.setdefault(item.key, []).append(item.body)
        if batch:
            self._batches.setdefault(batch, []).append(index)
        if place is None:
            # Filled below.
            self.items.append({})
            self.stored.append(None)  # type: ignore[arg-type]
        self.items[index] = item_row(self.owner, self.stream, item, row.seq, known_at, version, batch)
        stored = StoredItem(
            row.seq,
            item.kind,
            item.key,
            item.at,
            known_at,
            version,
            item.symbol,
            item.leg,
            item.ref,
            body_of(item),
            batch,
        )
        self.stored[index] = stored
        if is_broker_record(item):
            self._broker[index] = known_at
            self.verified_from = known_at if self.verified_from is None else min(self.verified_from, known_at)
        if self.agent is None:
            return
        if item.kind == "closing":
            claim = self.stored[self._here["claim", item.key]]
            whole = close_claim(read(Claim, claim.body), item.body)
            item = Item("claim", item.key, item.at, whole, claim.symbol, claim.leg, claim.ref)
            self._report(ReportedDelivery(index, item, known_at, version))
        elif item.kind == "trade" or (item.kind == "claim" and item.body.exit_price is not None):
            self._report(ReportedDelivery(index, item, known_at, version))

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

    def _report(self, new: ReportedDelivery) -> None:
        """Add a reported trade. If it was taken back before, the earlier delivery ends where this one begins."""
        assert self.agent is not None
        id_ = reported_id(self.agent.id, new.item.kind, new.item.key, (new.item.symbol, new.item.leg))
        earlier = [each for each in self.reported.get(id_, []) if each.known_at < new.known_at]
        ended = [
            replace(each, voided_at=new.known_at) if each.voided_at is not None and each.voided_at > new.known_at else each
            for each in earlier
        ]  # fmt: skip
        self.reported[id_] = [*ended, new]

    def _void(self, batch: str, seq: int, known_at: datetime) -> None:
        """Take back the items of an import."""
        for index in self._batches.pop(batch, ()):
            row, item = self.items[index], self.stored[index]
            if row["void_seq"] is not None:
                # A correction had ended it before: what it became is another item of the same import.
                continue
            row["void_seq"], row["void_at"] = seq, micros(known_at)
            self.stored[index] = replace(item, voided_at=known_at)
            claim = self._here.get(("claim", item.key))
            self._here.pop((item.kind, item.key), None)
            self._broker.pop(index, None)
            if self.agent is None or item.kind not in ("trade", "claim", "closing"):
                continue
            named = self.stored[claim] if item.kind == "closing" and claim is not None else item
            kind = "trade" if item.kind == "trade" else "claim"
            id_ = reported_id(self.agent.id, kind, item.key, (named.symbol, named.leg))
            self.reported[id_] = [
                each if each.voided_at is not None else replace(each, voided_at=known_at) for each in self.reported.get(id_, [])
            ]
        self.verified_from = min(self._broker.values(), default=None)

    def _take_back_ticks(self) -> None:
        """Let the times of ticks be those of the ticks that are left, as the undo of an import with ticks does."""
        left = [item for item in self.stored if item.kind == "tick" and item.voided_at is None]
        self.last_tick = max((item.at for item in left), default=None)
        self.first_snapshot = min((item.at for item in left if "positions" in item.body), default=None)

    def _memories(self, versions: Sequence[TradeVersion], bars: dict[str, list[KnownBar]]) -> dict[str, Rows]:
        """The rows of memories."""
        assert self.agent is not None
        who = self.owner, self.stream
        found = learn_all(self.agent, versions, self.stored, lambda symbol: bars.get(symbol, []), self.verified_from)
        return {
            "episodes": [row_of("episodes", episode_values(*who, e)) for e in found.episodes],
            "affect": [row_of("affect", affect_values(*who, step)) for step in found.steps],
            "outcomes": [row_of("outcomes", outcome_values(*who, outcome)) for outcome in found.outcomes],
            "plans": [row_of("plans", plan_values(*who, plan)) for plan in self.plans.values()],
        }

    def projections(self, bars: dict[str, list[KnownBar]]) -> dict[str, Rows]:
        """The rows of every projection."""
        versions = self._reported_versions(bars) if self.agent is not None else []
        positions: list[PositionRow] = []
        discrepancies = [
            discrepancy_row(self.owner, self.stream, fill_discrepancy(each))
            for each in self.stored if each.kind == "fill_differs" and each.voided_at is None
        ]  # fmt: skip
        if self.agent is not None:
            for position, items in self.items_by_position().items():
                events = position_events(position, items, self.decisions_named(items), self.first_snapshot)
                derived = derive_versions(self.agent.terms(), *position, events, bars.get(position[0], []))
                versions += derived.versions
                discrepancies += [discrepancy_row(self.owner, self.stream, d) for d in derived.discrepancies]
                if derived.last is not None:
                    positions.append(PositionRow(*position, derived.last, derived.open))
        found: dict[str, Rows] = {
            "items": list(self.items),
            "positions": [position_row(self.owner, self.stream, p) for p in positions],
            "trades": [version_row(self.owner, self.stream, v) for v in versions],
            "discrepancies": _first_of_each_key("discrepancies", discrepancies),
            **(self._memories(versions, bars) if self.agent is not None else {}),
        }
        for table, rows in found.items():
            rows.sort(key=lambda row, table=table: tuple(row[c] for c in KEYS[table]))  # type: ignore[misc]
        return found

    def _reported_versions(self, bars: dict[str, list[KnownBar]]) -> list[TradeVersion]:
        """The versions of the trades that came whole."""
        assert self.agent is not None
        statements: dict[str, list[TermsEvent]] = {}
        for item in self.stored:
            if item.kind == "instrument":
                statements.setdefault(item.symbol, []).append(read_terms(item))
        source = ReportedTrades(self.agent, lambda symbol: (statements.get(symbol, []), bars.get(symbol, [])))
        return [
            version for several in self.reported.values() for each in several
            for version in source.versions(each.item, each.known_at, each.skill_version, each.voided_at)
        ]  # fmt: skip

    def items_by_position(self) -> dict[Position, list[StoredItem]]:
        """The items that concern each position: its own, and every tick and tick decision from its first mention on."""
        own: dict[Position, list[StoredItem]] = {}
        shared: list[StoredItem] = []
        stated: dict[str, list[StoredItem]] = {}  # by symbol: what holds for all its positions; "" for all symbols
        rated: dict[str, list[StoredItem]] = {}  # by symbol: the ticks that state a rate of it
        for item in self.stored:
            if item.kind in ("fill", "funding", "dividend"):
                own.setdefault((item.symbol, item.leg), []).append(item)
            elif item.kind in ("split", "instrument", "amend_fill", "void_fill"):
                stated.setdefault(item.symbol, []).append(item)
            elif item.kind in ("tick", "decision"):
                shared.append(item)
                for symbol in (item.body.get("rates") or {}) if item.kind == "tick" else ():
                    rated.setdefault(symbol, []).append(item)
                if item.kind == "tick":
                    for symbol, several in (item.body.get("positions") or {}).items():
                        for held in several:
                            own.setdefault((symbol, held.get("leg", "")), []).append(item)
        found: dict[Position, list[StoredItem]] = {}
        for position, items in sorted(own.items()):
            first = min(item.at for item in items)
            found[position] = [
                *(item for item in items if item.kind != "tick"), *stated.get(position[0], ()), *stated.get("", ()),
                *(item for item in rated.get(position[0], ()) if item.at < first),
                *(item for item in shared if item.at >= first and item.symbol in ("", position[0])),
            ]  # fmt: skip
        return found

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
        sort, _, id_ = name.partition(":")
        if sort == "o":
            order = self._here.get(("order", id_))
            id_ = self.stored[order].ref or "" if order is not None else ""
        index = self._here.get(("decision", id_))
        return None if index is None else (read(Decision, self.stored[index].body), self.stored[index].known_at)
