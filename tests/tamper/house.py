"""A small trading house whose books hold something of everything: every table has rows, every column of `trades` a value.

Three agents: `aapl` trades a net account with stops, bars and late news; `hedge` holds two legs of one symbol and had a
position before we came; `paper` lives on imported trades, one import of which was taken back.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

from memtape.core.observed import Bar, Bars, ClosedTrade, Fill
from memtape.engine import AgentMemory, Memory
from memtape.plugs.clock import FixedClock

MONDAY = datetime(2026, 6, 1, 9, tzinfo=UTC)


def at(minutes: float) -> datetime:
    """So many minutes after Monday's open."""
    return MONDAY + timedelta(minutes=minutes)


def fill(id: str, minute: float, side: str, qty: object, px: object, symbol: str = "AAPL", **more: Any) -> dict[str, Any]:
    """A fill as plain data."""
    return {"id": id, "t": at(minute), "symbol": symbol, "side": side, "qty": str(qty), "px": str(px), **more}


def quarters(first: int, closes: Iterable[object], symbol: str = "AAPL") -> tuple[Bar, ...]:
    """Bars of 15 minutes that reach half a dollar beyond their closes."""
    found, half = [], Decimal("0.5")
    for n, close in enumerate(closes):
        c, t0 = Decimal(str(close)), first + 15 * n
        found.append(Bar(symbol=symbol, t0=at(t0), t1=at(t0 + 15), o=c, h=c + half, l=c - half, c=c, v=Decimal(10 + n)))
    return tuple(found)


def furnish(memory: Memory) -> Memory:
    """Write the books of the house."""
    clock = FixedClock(at(0))
    memory.clock = clock
    memory.create_skill("breakout", name="Breakout", strategy="Buy strength.", avoid=["Fridays"], limits={"risk": "1 %"})
    memory.create_skill("breakout", name="Breakout", strategy="Buy strength, sell weakness.", avoid=["Fridays"])
    memory.create_skill("carry", strategy="Collect funding.")
    memory.create_agent("aapl", skill="breakout", skill_version=1, mode="live", settings={"starting_equity": "25000"})
    memory.create_agent("hedge", skill="carry", mode="sim", settings={"dust_qty": "0.001", "mfe_mode": "close"})
    memory.create_agent("paper", skill="carry", mode="paper", settings={"currency": "EUR"})
    memory.use_skill_version("aapl", 2)
    _net_account(memory.agent("aapl"), clock)
    _hedged_account(memory.agent("hedge"), clock)
    _imported_account(memory.agent("paper"), clock)
    return memory


def _net_account(agent: AgentMemory, clock: FixedClock) -> None:
    decision = {"symbol": "AAPL", "action": "buy", "side": "long", "reason": "new high", "stop": "98", "target": "106",
                "confidence": "0.7", "strategy": "breakout-long", "tags": ["gap", "open"], "order_ids": ["o1"],
                "situation": {"regime": "trend", "volatility": "low", "session": "us"},
                "run": {"id": "r1", "model": "m", "tokens_in": 10, "cost_usd": "0.01"}}  # fmt: skip
    held = {"qty": "10", "entry_px": "100", "leverage": "2", "mark": "100.5"}
    _seen(agent, clock, 1, "a1", positions={}, decision={"symbol": "AAPL", "action": "no_trade", "reason": "quiet"})
    _seen(agent, clock, 5, "a2", positions={"AAPL": held}, decision=decision, equity="25000",
          fills=[fill("f1", 4, "buy", 10, 100, order_id="o1", fee="0.35")], bars=quarters(-15, [99.5]))  # fmt: skip
    _seen(agent, clock, 45, "a3", marks={"AAPL": "104"}, bars=quarters(0, [101, 103]),
          funding=[{"id": "p1", "t": at(40), "symbol": "AAPL", "usd": "-0.123456789"}])  # fmt: skip
    leaving = {"symbol": "AAPL", "action": "close", "reason": "target", "situation": {"regime": "range"}}
    _seen(agent, clock, 50, "a4", positions={}, decision=leaving, equity="25039.2",
          fills=[fill("f2", 48, "sell", 10, "104.0000001", trigger="target")],
          cash_flows=[{"id": "c1", "t": at(49), "usd": "-500"}])  # fmt: skip
    clock.at = at(70)  # a bar and a fill that come late, and change what was believed
    agent.observe(Bars(bars=quarters(30, [104, 105])))
    agent.observe(fill("f3", 52, "buy", 3, "104.5"), kind="fill")
    _seen(agent, clock, 75, "a5", positions={})
    agent.observe(fill("f4", 60, "sell", 3, "105.25", fee="-0.01"), kind="fill")
    short = {"symbol": "MSFT", "action": "sell", "side": "short", "reason": "weak", "stop": "310"}
    _seen(agent, clock, 90, "a6", positions={"MSFT": {"qty": "-2", "entry_px": "300"}}, decision=short,
          fills=[fill("f5", 89, "sell", 2, 300, "MSFT")])  # fmt: skip
    agent.observe({"id": "d7", "symbol": "MSFT", "action": "hold", "reason": "still weak"}, kind="decision")


def _hedged_account(agent: AgentMemory, clock: FixedClock) -> None:
    before = [{"qty": "1", "entry_px": "65000", "leg": "LONG"}]
    both = [*before, {"qty": "-0.5", "entry_px": "66000", "leg": "SHORT"}]
    clock.at = at(200)
    agent.observe({"id": "h1", "t": at(10), "positions": {"BTC": before}, "marks": {"BTC": "65100"}})
    agent.observe({"id": "h2", "t": at(20), "positions": {"BTC": both}, "marks": {"BTC": "66000"},
                   "fills": [fill("g1", 19, "sell", "0.5", 66000, "BTC", leg="SHORT")]})  # fmt: skip
    agent.observe({"id": "h3", "t": at(30), "positions": {"BTC": before}, "marks": {"BTC": "65500"}})  # the short is gone: how?
    liquidated = fill("g2", 39, "sell", 1, 64000, "BTC", leg="LONG", liq=True)
    agent.observe({"id": "h4", "t": at(40), "positions": {}, "fills": [liquidated]})


def _imported_account(agent: AgentMemory, clock: FixedClock) -> None:
    clock.at = at(300)

    def trade(n: int, exit_price: str) -> ClosedTrade:
        return ClosedTrade(
            trade_id=f"x{n}", symbol="ETH", side="short", entry_at=at(n), exit_at=at(n + 5), entry_price=Decimal(3000),
            exit_price=Decimal(exit_price), qty=Decimal("1.5"), fees=Decimal("0.2"), stop=Decimal(3050), tags=("imported",),
        )  # fmt: skip

    agent.import_items([trade(1, "2990"), trade(2, "3010.5")], {"file": "eth.csv", "format": "generic"})
    fills = [Fill(id=f"y{n}", t=at(20 + n), symbol="SOL", side="buy" if n % 2 else "sell", qty=Decimal(2), px=Decimal(150 + n))
             for n in (1, 2, 3)]  # fmt: skip
    wrong = agent.import_items([trade(3, "1"), *fills], {"file": "wrong.csv", "format": "generic"})
    clock.at = at(310)
    agent.undo_import(wrong.batch)
    agent.import_items(fills[:2], {"file": "right.csv", "format": "generic"})


def _seen(agent: AgentMemory, clock: FixedClock, minute: float, id: str, **parts: Any) -> None:
    clock.at = at(minute)
    parts["bars"] = [{"symbol": b.symbol, "t0": b.t0, "t1": b.t1, "o": b.o, "h": b.h, "l": b.l, "c": b.c, "v": b.v}
                     for b in parts.get("bars", ())]  # fmt: skip
    agent.observe({"id": id, "t": at(minute), **parts})


def path_of(url: str) -> Path:
    """The file of a SQLite store."""
    return Path(url.removeprefix("sqlite:///"))
