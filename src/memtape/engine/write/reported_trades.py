"""Writes trades that come whole, reported by a source or claimed by the agent; terms and bars that come later revise them."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import cache

from memtape.core.codec import EPOCH, make_id
from memtape.core.events import Event, trade_closed, trade_revised
from memtape.core.ids import MemoryId, TradeId
from memtape.core.items import Item, Position, StoredItem, read_terms
from memtape.core.ledger.position_events import TermsEvent
from memtape.core.ledger.reported import claimed_trade, reported_trade_versions
from memtape.core.ledger.rounds import KnownBar
from memtape.core.ledger.versions import TradeVersion
from memtape.core.observed import ClosedTrade
from memtape.core.skills import Agent
from memtape.core.values import read
from memtape.engine.write.batch import Batch, note_changed_trades
from memtape.store.cutoff import EVERYTHING, Cutoff
from memtape.store.tables import Tables

LONGEST_BAR = timedelta(days=31)  # a bar of a month may contain the exit of a trade
FOREVER = datetime.max.replace(tzinfo=UTC)
TermsAndBars = Callable[[str], tuple[Sequence[TermsEvent], Sequence[KnownBar]]]


class ReportedTrades:
    """The trades that come whole, in the versions in which they were believed."""

    def __init__(self, agent: Agent, source: TermsAndBars) -> None:
        self._agent, self._source = agent, cache(source)

    @classmethod
    def stored(cls, tables: Tables, agent: Agent, known: Cutoff = EVERYTHING) -> ReportedTrades:
        """With the terms and bars of the store, read once for each symbol."""

        def source(symbol: str) -> tuple[Sequence[TermsEvent], Sequence[KnownBar]]:
            return [read_terms(each) for each in tables.statements([symbol], known)], tables.bars(symbol, known)

        return cls(agent, source)

    def versions(
        self, item: Item, known_at: datetime, skill_version: int, voided_at: datetime | None = None
    ) -> list[TradeVersion]:
        """One trade; `voided_at` is when it was taken back."""
        terms = self._agent.terms()
        id_ = reported_id(self._agent.id, item.kind, item.key, (item.symbol, item.leg))
        if item.kind == "claim":
            return [TradeVersion(claimed_trade(terms, item.body, skill_version, id_), known_at, voided_at, None)]
        statements, bars = self._source(item.symbol)
        if bars:
            first = bisect_right(bars, item.body.entry_at, key=lambda known: known.bar.t1)
            last = bisect_right(bars, item.body.exit_at + LONGEST_BAR, key=lambda known: known.bar.t1)
            bars = bars[first:last]
        return reported_trade_versions(terms, item.body, known_at, skill_version, id_, statements, bars, voided_at)


def reported_id(agent: str, kind: str, key: str, position: Position) -> TradeId:
    """The id of a trade that is reported whole, by a source or by the agent itself."""
    return TradeId(MemoryId(make_id(agent, f"{kind}:{key}", *position)))


def put_reported(tables: Tables, agent: Agent, batch: Batch, report: bool) -> list[Event]:
    """Write the trades that a source reports whole; with `report`, return their events."""
    source = ReportedTrades.stored(tables, agent)
    versions = [
        version for item, known_at in batch.reported_trades for version in source.versions(item, known_at, agent.skill_version)
    ]
    # A trade that was taken back with its import and comes again is not new: it has earlier versions.
    replaced = tables.replace_versions(versions)
    batch.add_closed([version for version in versions if version.trade.id not in replaced])
    note_changed_trades(batch.changed, [version for version in versions if version.trade.id in replaced])
    return [trade_closed(version.trade) for version in versions if version.known_to is None] if report else []


def revise_reported(tables: Tables, agent: Agent, batch: Batch) -> list[Event]:
    """Compute reported trades again that new bars or terms concern. Returns the events."""
    spans = {symbol: (min(k.bar.t0 for k in bars), max(k.bar.t1 for k in bars)) for symbol, bars in batch.bars.items()}
    spans |= dict.fromkeys(batch.terms_of, (EPOCH, FOREVER))
    new = {item.key for item, _ in batch.reported_trades}
    source = ReportedTrades.stored(tables, agent)
    events: list[Event] = []
    for symbol, (first, last) in sorted(spans.items()):
        keys = [key for key in tables.reported_between(symbol, first, last) if key not in new]
        if not keys:
            continue
        deliveries = _deliveries(tables.items("trade", EVERYTHING, keys=keys, voided=True))
        for (key, leg), several in sorted(deliveries.items()):
            id_ = reported_id(agent.id, "trade", key, (symbol, leg))
            before = [version for version in tables.versions((symbol, leg), None) if version.trade.id == id_]
            now: list[TradeVersion] = []
            for each in several:
                item = Item("trade", key, each.at, read(ClosedTrade, each.body), symbol, leg)
                now += source.versions(item, each.known_at, each.skill_version, each.voided_at)
            if sorted(before, key=_version_start) == sorted(now, key=_version_start):
                continue
            tables.drop_trade(id_)
            tables.put_versions(now)
            note_changed_trades(batch.changed, before, now)
            if now[-1].known_to is None:
                events.append(trade_revised(id_, symbol, leg, now[-1].trade))
    return events


def _deliveries(items: Iterable[StoredItem]) -> dict[tuple[str, str], list[StoredItem]]:
    """By key and leg, the deliveries of reported trades that count or once did.

    A trade that was taken back with its import and came again counts until then in its earlier content, and one that comes
    again for the same moment replaces it.
    """
    found: dict[tuple[str, str], list[StoredItem]] = {}
    for item in sorted(items, key=lambda item: item.seq):
        earlier = [each for each in found.get((item.key, item.leg), ()) if each.known_at < item.known_at]
        ended = [replace(e, voided_at=min(e.voided_at, item.known_at)) if e.voided_at is not None else e for e in earlier]
        found[item.key, item.leg] = [*ended, item]
    return found


def _version_start(version: TradeVersion) -> datetime:
    return version.known_from
