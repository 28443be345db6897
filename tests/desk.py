"""The desk: golden-form ticks put through the product, in the several ways the tests need."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from memtape.core.codec import decimal_text
from memtape.core.items import observed_bars, unpack_items
from memtape.core.ledger.fold import FillEvent, FundingEvent, PositionEvent, SnapshotView
from memtape.core.ledger.rounds import AccountTerms, KnownBar, trade_from_round
from memtape.core.ledger.trades import Trade, entry_order, round_money
from memtape.core.ledger.versions import derive_versions
from memtape.core.observed import Tick
from memtape.core.skills import Agent
from memtape.core.values import read
from memtape.engine import AgentMemory, Memory
from memtape.lab.conform import golden_row, ledger_differences
from memtape.lab.conform import ledger_rows as rows_of
from memtape.plugs.clock import FixedClock
from memtape.store.schema import PROJECTIONS
from memtape.store.sqlite import SqliteDatabase

__all__ = ["NOON", "folded_whole", "given_agent", "given_memory", "ledger_differences", "plain_tick", "projections", "rows_of"]
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


def folded_whole(ticks: Iterable[dict[str, Any]], config: dict[str, Any]) -> dict[str, Any]:
    """The pure function over the whole event list: no store, no engine."""
    agent = read(Agent, {"id": "desk", "skill": "plain", "mode": "sim", "settings": config})
    terms: AccountTerms = agent.terms()
    accepted: list[Tick] = []
    seen: dict[tuple[str, str], Any] = {}
    bars: dict[Any, KnownBar] = {}
    for data in ticks:
        tick = read(Tick, plain_tick(data))
        for item in unpack_items(tick):
            if item.kind in ("fill", "funding"):
                seen.setdefault((item.kind, item.key), item)
        for bar in observed_bars(tick):
            bars.setdefault((bar.symbol, bar.t0, bar.t1), KnownBar(bar, tick.t))
        if tick.id not in {t.id for t in accepted} and (not accepted or tick.t > accepted[-1].t):
            accepted.append(tick)
    first = next((t.t for t in accepted if t.positions is not None), None)
    positions = {(i.symbol, i.leg) for i in seen.values()}
    positions |= {(s, h.leg) for t in accepted for s, several in (t.positions or {}).items() for h in several}
    trades: list[Trade] = []
    funding = {i.symbol: Decimal(0) for i in seen.values() if i.kind == "funding"}
    for symbol, leg in sorted(positions):
        happened: list[PositionEvent] = [_glance(t, symbol, leg, first) for t in accepted]
        for item in seen.values():
            if (item.symbol, item.leg) == (symbol, leg):
                happened.append(FillEvent(item.body, item.at) if item.kind == "fill" else FundingEvent(item.body, item.at))
        derived = derive_versions(terms, symbol, leg, happened, [w for w in bars.values() if w.bar.symbol == symbol])
        trades += [v.trade for v in derived.versions if v.known_to is None]
        trades += [trade_from_round(terms, symbol, leg, derived.open)] if derived.open else []
    for item in seen.values():
        if item.kind == "funding":
            funding[item.symbol] += item.body.usd
    for trade in trades:
        if trade.symbol in funding:
            funding[trade.symbol] -= trade.funding_usd
    trades.sort(key=entry_order)
    return {
        "rows": [golden_row(t) for t in trades],
        "orphan_funding_usd": {s: decimal_text(round_money(usd)) for s, usd in funding.items() if usd},
    }


def _glance(tick: Tick, symbol: str, leg: str, first: datetime | None) -> SnapshotView:
    held = next((h for h in (tick.positions or {}).get(symbol, ()) if h.leg == leg), None)
    return SnapshotView(
        tick.id, tick.t, tick.t, first=tick.t == first, snapshot=tick.positions is not None, held=held,
        mark=tick.marks.get(symbol), decision=next((d for d in tick.decisions if d.symbol == symbol), None),
    )  # fmt: skip


def projections(memory: Memory, stream: str = "desk") -> dict[str, Sequence[dict[str, Any]]]:
    """What the log came to: every projection that does not merely point into the log."""
    with memory.resources.reading(stream) as tables:
        return {table: tables.rows(table) for table in PROJECTIONS if table != "items"}
