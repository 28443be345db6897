"""The desk: histories put through the product, by the pure fold and by the engine. `tests/desk_language.py` writes them shortly."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, NamedTuple

from memtape.core.codec import decimal_text
from memtape.core.events import Discrepancy
from memtape.core.items import observed_bars, unpack_items
from memtape.core.ledger.fold import FillEvent, FundingEvent, PositionEvent, SnapshotView
from memtape.core.ledger.rounds import AccountTerms, KnownBar, trade_from_round
from memtape.core.ledger.trades import Trade, entry_order, round_money
from memtape.core.ledger.versions import derive_versions
from memtape.core.observed import READERS, Decision, Tick
from memtape.core.skills import Agent
from memtape.core.values import read
from memtape.engine import AgentMemory, Memory
from memtape.lab.conform import golden_row, ledger_differences
from memtape.lab.conform import ledger_rows as rows_of
from memtape.plugs.clock import FixedClock
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
    """The golden rows of a list of golden ticks, by the pure fold."""
    folded = fold_deliveries((("tick", plain_tick(tick)) for tick in ticks), config)
    return {
        "rows": [golden_row(trade) for trade in folded.trades],
        "orphan_funding_usd": {symbol: decimal_text(round_money(usd)) for symbol, usd in folded.orphan_funding.items() if usd},
    }


def fold_deliveries(deliveries: Iterable[tuple[str, dict[str, Any]]], config: dict[str, Any]) -> FoldedLedger:
    """The ledger of values in the order of their delivery, by the pure function over all of them: no store, no engine."""
    agent = read(Agent, {"id": "desk", "skill": "plain", "mode": "sim", "settings": config})
    terms: AccountTerms = agent.terms()
    accepted: list[Tick] = []
    items: dict[tuple[str, str], Any] = {}
    decisions: dict[str, Decision] = {}  # by the names that fills use: d:ID or o:ORDER
    bars: dict[Any, KnownBar] = {}
    for kind, data in deliveries:
        value = read(READERS[kind], data)
        for item in unpack_items(value):
            if item.kind in ("fill", "funding"):
                items.setdefault((item.kind, item.key), item)
            elif item.kind == "decision":
                names = [f"d:{item.key}", *(f"o:{order}" for order in item.body.order_ids)]
                decisions |= {name: item.body for name in names if name not in decisions}
        for bar in observed_bars(value):
            bars.setdefault((bar.symbol, bar.t0, bar.t1), KnownBar(bar, value.t if isinstance(value, Tick) else bar.t1))
        # A tick that was delivered before, or is not later than the last one, brings no snapshot and no decision.
        if isinstance(value, Tick) and value.id not in {t.id for t in accepted} and (not accepted or value.t > accepted[-1].t):
            accepted.append(value)
    first = next((t.t for t in accepted if t.positions is not None), None)
    positions = {(item.symbol, item.leg) for item in items.values()}
    positions |= {(symbol, held.leg) for t in accepted for symbol, several in (t.positions or {}).items() for held in several}
    trades: list[Trade] = []
    discrepancies: list[Discrepancy] = []
    for symbol, leg in sorted(positions):
        events: list[PositionEvent] = [_snapshot_view(t, symbol, leg, first) for t in accepted]
        for item in items.values():
            if (item.symbol, item.leg) == (symbol, leg):
                named = decisions.get(item.ref) if item.ref else None
                events.append(
                    FillEvent(item.body, item.at, decision=named) if item.kind == "fill" else FundingEvent(item.body, item.at)
                )
        derived = derive_versions(terms, symbol, leg, events, [known for known in bars.values() if known.bar.symbol == symbol])
        trades += [version.trade for version in derived.versions if version.known_to is None]
        trades += [trade_from_round(terms, symbol, leg, derived.open)] if derived.open else []
        discrepancies += derived.discrepancies
    orphans = {item.symbol: Decimal(0) for item in items.values() if item.kind == "funding"}
    for item in items.values():
        if item.kind == "funding":
            orphans[item.symbol] += item.body.usd
    for trade in trades:
        if trade.symbol in orphans:
            orphans[trade.symbol] -= trade.funding_usd
    return FoldedLedger(sorted(trades, key=entry_order), discrepancies, orphans)


def _snapshot_view(tick: Tick, symbol: str, leg: str, first: datetime | None) -> SnapshotView:
    held = next((h for h in (tick.positions or {}).get(symbol, ()) if h.leg == leg), None)
    return SnapshotView(
        tick.id, tick.t, tick.t, first=tick.t == first, snapshot=tick.positions is not None, held=held,
        mark=tick.marks.get(symbol), decision=next((d for d in tick.decisions if d.symbol == symbol), None),
    )  # fmt: skip


def projections(memory: Memory, stream: str = "desk") -> dict[str, Sequence[dict[str, Any]]]:
    """What the log came to: every projection that does not merely point into the log."""
    with memory.resources.reading(stream) as tables:
        return {table: tables.rows(table) for table in PROJECTIONS if table != "items"}
