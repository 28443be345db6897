"""Several writers at one store: each with an agent of its own, all with one they share, all adding to one skill."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import memtape
from memtape.core.fills import Fill
from memtape.core.ledger.trades import Trade
from memtape.core.observed import Decision
from memtape.engine import Memory
from memtape.engine.proof.audit import verify_store
from memtape.plugs.clock import FixedClock
from memtape.store.schema import TABLES
from tests.faults.killing import in_step

OPEN = datetime(2026, 2, 2, tzinfo=UTC)
NOW = datetime(2026, 11, 15, tzinfo=UTC)
Writes = list[Callable[[Memory], object]]
BY_TICK = {"entry_tick_at", "exit_tick_at"}  # which of two ticks is stale depends on who comes first


def furnish(url: str, writers: int) -> None:
    """The agents."""
    with open_office(url) as memory:
        memory.create_skill("plain")
        for who in range(writers):
            memory.create_agent(f"own{who}", skill="plain", mode="sim")
        memory.create_agent("shared", skill="plain", mode="sim")
        memory.create_agent("diary", skill="plain", mode="sim")  # all report trades of their own to it


def open_office(url: str) -> Memory:
    """The store, with a clock that stands."""
    return memtape.open(url, clock=FixedClock(NOW))


def office(url: str, who: int, number: int) -> Callable[[], None]:
    """A writer's whole day, to be done anywhere."""

    def work() -> None:
        with open_office(url) as memory:
            for write in writes(who, number):
                write(memory)

    return work


def writes(who: int, number: int) -> Writes:
    """What one writer does, in order: half of it for its own agent, the rest where the others write too."""
    return [_write(who, n) for n in range(number)]


def _write(who: int, n: int) -> Callable[[Memory], object]:
    at = OPEN + timedelta(minutes=n)
    side = "buy" if n % 4 < 2 else "sell"
    if n % 2 == 0:
        fill = _fill(f"own-{n}", "BTC", "buy" if n % 4 == 0 else "sell", at, 100 + n)
        held = {"BTC": {"qty": "1"}} if n % 4 == 0 else {}
        return lambda memory: memory.agent(f"own{who}").observe({"id": f"t{n}", "t": at, "positions": held, "fills": [fill]})
    moment = at + timedelta(seconds=who)  # no two fills of the shared agent share a moment
    match n % 10:
        case 1 | 3:  # a round trip of a symbol that only this writer trades
            fill = _fill(f"w{who}-{n}", f"S{who}", side, moment, 50 + n)
            return lambda memory: memory.agent("shared").observe(fill, kind="fill")
        case 5 | 7:  # the same inside a tick; all of these trade one symbol
            fill = _fill(f"w{who}-{n}", "ALL", side, moment, 70 + n)
            return lambda memory: memory.agent("shared").observe({"id": f"w{who}-t{n}", "t": moment, "fills": [fill]})
        case _:
            if n % 20 == 9:
                return lambda memory: memory.create_skill("house", strategy=f"thought {n} of {who}")
            if n % 20 == 19:
                report = {"trade_id": f"w{who}-c{n}", "symbol": "XAU", "side": "long", "entry_price": 100, "exit_price": 101,
                          "pnl": (n % 7 - 3) * 10, "pnl_r": float(n % 7 - 3), "entry_at": moment - timedelta(minutes=9), "exit_at": moment}  # fmt: skip
                return lambda memory: memory.agent("diary").remember_trade(report)
            decision = Decision(id=f"w{who}-d{n}", t=moment, symbol="ALL", reason=f"{who} thinks {n}")
            return lambda memory: memory.agent("shared").observe(decision)


def _fill(id: str, symbol: str, side: str, at: datetime, px: int) -> dict[str, Any]:
    made = Fill(id=id, t=at, symbol=symbol, side=side, qty=Decimal(1), px=Decimal(px))  # type: ignore[arg-type]
    return {f.name: getattr(made, f.name) for f in fields(made)}


def books(memory: Memory, writers: int) -> dict[str, Any]:
    """What the store came to, as far as it does not depend on who was first."""
    audit = verify_store(memory)
    assert audit.ok, audit.problems
    found: dict[str, Any] = {"rows in the log": audit.log_rows}
    for who in range(writers):
        with memory.resources.reading(f"own{who}") as tables:
            found[f"own{who}"] = {table: tables.rows(table) for table in TABLES}
    shared = memory.agent("shared")
    for id_ in ("shared", "diary"):
        in_step(memory.agent(id_))
    with memory.resources.reading("diary") as tables:
        found["diary"] = {table: tables.rows(table) for table in ("trades", "episodes", "affect")}
    found["trades"] = {_timeless(trade) for trade in shared.ledger.trades()}
    found["decisions"] = {(d.decision.id, d.decision.reason, d.at) for d in shared.ledger.decisions()}
    with memory.resources.reading("shared") as tables:
        found["fills"] = {row["key"]: row["body"] for row in tables.rows("items") if row["kind"] == "fill"}
    with memory.resources.reading("@owner") as tables:
        stated = [row for row in tables.rows("items") if row["kind"] == "skill" and row["symbol"] == "house"]
        found["thoughts"] = {row["body"].partition('"version"')[0] for row in stated}
        found["versions"] = {row["key"] for row in stated}
    return found


def _timeless(trade: Trade) -> Trade:
    return trade._replace(**dict.fromkeys(BY_TICK))
