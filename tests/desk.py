"""The desk: histories put through the product, by the pure fold and by the engine. `tests/desk_language.py` writes them shortly."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, NamedTuple

from memtape.core.codec import decimal_text, micros
from memtape.core.events import OF_SNAPSHOTS, Discrepancy
from memtape.core.fill_records import fill_discrepancy
from memtape.core.fills import Dividend, Funding
from memtape.core.ids import OwnerId
from memtape.core.items import observed_bars, position_events
from memtape.core.ledger.rounds import KnownBar, trades_of_open_round
from memtape.core.ledger.trades import Trade, entry_order, round_money
from memtape.core.ledger.versions import derive_versions
from memtape.core.observed import READERS, Tick, occurred_at
from memtape.core.skills import Agent
from memtape.core.values import MONEY, read
from memtape.engine import AgentMemory, Memory
from memtape.engine.proof.log_replay import LogReplay
from memtape.engine.write.observed_json import observed_json, payload_json
from memtape.lab.conform import golden_discrepancies, golden_row, golden_totals, ledger_differences
from memtape.lab.conform import ledger_rows as rows_of
from memtape.plugs.clock import FixedClock
from memtape.store.rows import LogRow
from memtape.store.schema import PROJECTIONS
from memtape.store.sqlite import SqliteDatabase

__all__ = [
    "NOON",
    "fold_deliveries",
    "folded_whole",
    "given_agent",
    "given_memory",
    "ledger_differences",
    "plain_tick",
    "projections",
    "rows_of",
]
NOON = datetime(2026, 11, 15, 12, tzinfo=UTC)


def given_memory(database: Any = None, now: datetime = NOON) -> Memory:
    """A memory of its own, in RAM unless a database is given, with a clock that stands."""
    return Memory(database or SqliteDatabase(":memory:"), clock=FixedClock(now))


def given_agent(memory: Memory, config: dict[str, Any] | None = None, mode: str = "sim", id: str = "desk") -> AgentMemory:
    """An agent that trades on a plain skill."""
    memory.create_skill("plain")
    memory.create_agent(id, skill="plain", mode=mode, settings=config or {})  # type: ignore[arg-type]
    return memory.agent(id)


def plain_tick(tick: dict[str, Any]) -> dict[str, Any]:
    """A golden tick as the product takes it."""
    return {key: value for key, value in tick.items() if key != "restart_before"}


class FoldedLedger(NamedTuple):
    """What the pure fold makes of a history."""

    trades: list[Trade]
    discrepancies: list[Discrepancy]
    orphan_funding: dict[str, Decimal]


def folded_whole(ticks: Iterable[dict[str, Any]], config: dict[str, Any]) -> dict[str, Any]:
    """The golden ledger of a list of golden ticks, by the pure fold."""
    folded = fold_deliveries((("tick", plain_tick(tick)) for tick in ticks), config)
    return {
        "rows": [golden_row(trade) for trade in folded.trades],
        "orphan_funding_usd": {
            symbol: decimal_text(round_money(usd)) for symbol, usd in folded.orphan_funding.items() if round_money(usd)
        },
        "totals": golden_totals(folded.trades),
        "discrepancies": golden_discrepancies(folded.discrepancies),
        "refused": [],
    }


def fold_deliveries(deliveries: Iterable[tuple[str, dict[str, Any]]], config: dict[str, Any]) -> FoldedLedger:
    """The ledger of values in the order of their delivery, by the pure function over all of them: no store, no writer."""
    agent = read(Agent, {"id": "desk", "skill": "plain", "mode": "sim", "settings": config})
    replay = LogReplay(OwnerId("local"), "desk", agent)
    bars: dict[str, dict[Any, KnownBar]] = {}
    for seq, (kind, data) in enumerate(deliveries, start=1):
        value = read(READERS[kind], data)
        known_at = occurred_at(value) or NOON
        if isinstance(value, Tick):
            known_at = max([known_at, *(part.t for part in (*value.fills, *value.funding))])
        for bar in observed_bars(value):
            known = KnownBar(bar, known_at if isinstance(value, Tick) else bar.t1)
            bars.setdefault(bar.symbol, {}).setdefault((bar.t0, bar.t1), known)
        payload = payload_json(observed_json(value, ()).log, (), 1, None)
        seen = isinstance(value, Tick) and any(item.key == value.id for item in replay.items_of(("tick",)))
        row_kind = "more" if seen else kind
        replay.take(LogRow("desk", seq, row_kind, str(seq), 0, micros(known_at), 0, payload, "", "", ""))
    listed = {symbol: list(known.values()) for symbol, known in bars.items()}
    trades: list[Trade] = []
    discrepancies: list[Discrepancy] = []
    for (symbol, leg), items in replay.items_by_position():
        events = position_events((symbol, leg), items, replay.decisions_named(items), replay.first_snapshot)
        derived = derive_versions(agent.terms(), symbol, leg, events, listed.get(symbol, []))
        trades += [version.trade for version in derived.versions if version.known_to is None]
        trades += trades_of_open_round(agent.terms(), symbol, leg, derived.open) if derived.open else []
        discrepancies += derived.discrepancies
    discrepancies += [fill_discrepancy(item) for item in replay.items_of(("fill_differs",))]
    if not any(replay.items_of(("fill",))):
        discrepancies = [found for found in discrepancies if found.why not in OF_SNAPSHOTS]
    orphans: dict[str, Decimal] = {}
    for kind, type_ in (("funding", Funding), ("dividend", Dividend)):
        for item in replay.items_of((kind,)):
            orphans[item.symbol] = orphans.get(item.symbol, Decimal(0)) + read(type_, item.body).amount
    for trade in trades:
        if trade.symbol in orphans:
            orphans[trade.symbol] = MONEY.subtract(orphans[trade.symbol], trade.funding_usd)
    return FoldedLedger(sorted(trades, key=entry_order), discrepancies, orphans)


def projections(memory: Memory, stream: str = "desk") -> dict[str, Sequence[dict[str, Any]]]:
    """What the log came to: every projection that does not merely point into the log."""
    with memory.resources.reading(stream) as tables:
        return {table: tables.rows(table) for table in PROJECTIONS if table != "items"}
