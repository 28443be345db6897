"""Adds rows to the log of one stream: chained by their hashes, each with its author and tier, within the limits of a model.

A statement (a skill, a plan, an import, a note) is an item and its log row, and nothing follows from it: `LogWriter.declare` is
all that it needs. Observed values, from which trades and memories follow, are recorded by `Writer`.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime

from memtape.core.authors import MODEL_AUTHOR, OWNER_AUTHOR, VENUE_AUTHOR, LogAuthor, stamped
from memtape.core.codec import canonical_plain, chain_hash, digest, micros
from memtape.core.events import Event, TradeRevised, event_data, read_event
from memtape.core.items import Item
from memtape.core.ledger.terms import RULES_VERSION
from memtape.core.model_limits import MODEL_ROWS_PER_DAY, over_limit
from memtape.core.skills import Agent
from memtape.core.value_class import dataclass
from memtape.errors import NeedsRebuild, PermissionDenied
from memtape.store.rows import Head, LogRow, item_row
from memtape.store.tables import Tables


@dataclass(frozen=True, slots=True)
class Receipt:
    """The result of an observation: its place in the log and the events that followed from it."""

    stream: str
    seq: int
    hash: str
    concluded: tuple[Event, ...]
    duplicate: bool = False
    reflection_due: bool = False  # enough trades have closed for new lessons

    @property
    def revised(self) -> bool:
        """True if it changed trades that were closed before."""
        return any(isinstance(event, TradeRevised) for event in self.concluded)

    def concluded_data(self) -> list[dict[str, object]]:
        """The events as plain data."""
        data = [event_data(event) for event in self.concluded]
        # The events of a duplicate come from the log, where canonical JSON sorts the keys, and answers keep that order.
        return [dict(sorted(each.items())) for each in data] if self.duplicate else data


def earlier_receipt(row: LogRow) -> Receipt:
    """The receipt of a value that was recorded before."""
    payload = json.loads(row.payload) if row.payload else {}
    events = tuple(read_event(data) for data in payload.get("concluded", ()))
    return Receipt(row.stream, row.seq, row.hash, events, duplicate=True)


class LogWriter:
    """Adds rows to the log of one stream in one transaction."""

    def __init__(self, tables: Tables, agent: Agent, now: datetime, author: LogAuthor = OWNER_AUTHOR) -> None:
        self.tables, self.agent, self.now, self._recorded_at = tables, agent, now, micros(now)
        self.author = author
        self._by_models: dict[str, int] = {}  # by kind: how many rows models have written today
        self.start: Head = tables.head()
        self.seq, self.hash, self.known_at = self.start.seq, self.start.hash, self.start.known_at
        self.first_snapshot, self.last_tick = self.start.first_snapshot, self.start.last_tick
        self.verified_from = self.start.verified_from
        if self.start.seq and self.start.rules < RULES_VERSION:
            raise NeedsRebuild(stream=tables.stream)
        self.log: list[LogRow] = []

    @property
    def head(self) -> Head:
        """The head of the stream, with the values recorded so far."""
        return Head(self.seq, self.hash, self.first_snapshot, self.last_tick, self.known_at, self.verified_from)

    def state(
        self, kind: str, key: str, at: datetime, known_at: datetime, payload: str,
        concluded: tuple[Event, ...] = (), flush: bool = True,
    ) -> Receipt:  # fmt: skip
        """Add one row to the log; its payload is canonical JSON, to which author and tier are added."""
        self.refuse_over_limit(kind)
        if kind in self._by_models:
            self._by_models[kind] += 1
        payload = stamped(payload, self._author_of(kind))
        payload_hash = digest(payload)
        stream, before = self.tables.stream, self.hash
        self.seq += 1
        times = micros(at), micros(known_at), self._recorded_at
        self.hash = chain_hash(stream, self.seq, kind, key, *times, payload_hash, before)
        self.log.append(LogRow(stream, self.seq, kind, key, *times, payload, payload_hash, before, self.hash))
        self.known_at = known_at if self.known_at is None else max(self.known_at, known_at)
        if flush:
            self.flush()
        return Receipt(stream, self.seq, self.hash, concluded)

    def refuse_over_limit(self, kind: str) -> None:
        """Raises PermissionDenied if a model writes, and models have written as many rows of a kind today as they may."""
        if self.author.tier < MODEL_AUTHOR.tier or kind not in MODEL_ROWS_PER_DAY:
            return
        if kind not in self._by_models:
            since = micros(self.now.replace(hour=0, minute=0, second=0, microsecond=0))
            self._by_models[kind] = self.tables.rows_by_models(kind, since, MODEL_ROWS_PER_DAY[kind])
        if (problem := over_limit(kind, self._by_models[kind])) is not None:
            raise PermissionDenied("agent", problem, "Try again tomorrow, or ask the owner to record it")

    def _author_of(self, kind: str) -> LogAuthor:
        # The ticks of a simulation come from the paper broker, also if a person started it.
        simulated = kind in ("tick", "more") and self.agent.mode == "sim" and self.author == OWNER_AUTHOR
        return VENUE_AUTHOR if simulated else self.author

    def declare(self, item: Item, known_at: datetime, concluded: Sequence[Event] = ()) -> Receipt:
        """Record a statement, such as a skill, an agent, an import or its undo: an item and its log row."""
        row = item_row(self.tables.owner, self.tables.stream, item, self.seq + 1, known_at, 1, None)
        self.tables.put_items([row])
        payload = {"stated": item.body, "symbol": item.symbol, "concluded": [event_data(event) for event in concluded]}
        return self.state(item.kind, item.key, item.at, known_at, canonical_plain(payload), tuple(concluded))

    def declare_all(self, items: Sequence[tuple[Item, datetime]], batch: str | None = None) -> None:
        """Record many statements, each with the time from which it counts as known; those of an import name their batch."""
        rows: list[dict[str, object]] = []
        for item, known_at in items:
            rows.append(item_row(self.tables.owner, self.tables.stream, item, self.seq + 1, known_at, 1, batch))
            payload = {"stated": item.body, "symbol": item.symbol, "concluded": []} | ({"batch": batch} if batch else {})
            self.state(item.kind, item.key, item.at, known_at, canonical_plain(payload), flush=False)
        if rows:
            self.tables.put_items(rows)
            self.flush()

    def flush(self) -> None:
        """Write the log rows and move the head."""
        self.tables.append(self.log)
        self.tables.set_head(self.head)
        self.log = []
