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

from memtape.core.fills import Fill
from memtape.core.observed import Bar, Bars, ClosedTrade
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
    memory.resources.clock = clock
    memory.create_skill("breakout", name="Breakout", strategy="Buy strength.", avoid=["Fridays"], limits={"risk": "1 %"})
    memory.create_skill("breakout", name="Breakout", strategy="Buy strength, sell weakness.", avoid=["Fridays"])
    memory.create_skill("carry", strategy="Collect funding.")
    memory.create_agent("aapl", skill="breakout", skill_version=1, mode="live", settings={"starting_equity": "25000"})
    memory.create_agent("hedge", skill="carry", mode="sim", settings={"dust_qty": "0.001", "mfe_mode": "close"})
    memory.create_agent("paper", skill="carry", mode="paper", settings={"currency": "EUR"})
    memory.create_agent("diary", skill="carry", mode="paper")
    memory.use_skill_version("aapl", 2)
    _net_account(memory.agent("aapl"), clock)
    _hedged_account(memory.agent("hedge"), clock)
    _imported_account(memory.agent("paper"), clock)
    _told_account(memory.agent("diary"), clock)
    return memory


def _net_account(agent: AgentMemory, clock: FixedClock) -> None:
    decision = {"symbol": "AAPL", "action": "buy", "side": "long", "reason": "new high", "stop": "98", "target": "106",
                "confidence": "0.7", "strategy": "breakout-long", "tags": ["gap", "open"], "order_ids": ["o1"],
                "situation": {"regime": "trend", "volatility": "low", "session": "us", "price": 99.5, "atr_d1": 2.5, "atr_h1": 0.8,
                              "atr_m5": 0.2, "spread_points": 0.02},
                "run": {"id": "r1", "model": "m", "tokens_in": 10, "cost_usd": "0.01"}}  # fmt: skip
    held = {"qty": "10", "entry_px": "100", "leverage": "2", "mark": "100.5"}
    _seen(agent, clock, 1, "a1", positions={}, decision={"symbol": "AAPL", "action": "no_trade", "reason": "quiet"})
    _seen(agent, clock, 5, "a2", positions={"AAPL": held}, decision=decision, equity="25000",
          fills=[fill("f1", 4, "buy", 10, 100, order_id="o1", fee="0.35", group="g1")], bars=quarters(-15, [99.5]))  # fmt: skip
    _seen(agent, clock, 45, "a3", marks={"AAPL": "104"}, bars=quarters(0, [101, 103]),
          funding=[{"id": "p1", "t": at(40), "symbol": "AAPL", "usd": "-0.123456789"}])  # fmt: skip
    leaving = {"symbol": "AAPL", "action": "close", "reason": "target", "situation": {"regime": "range"}}
    _seen(agent, clock, 50, "a4", positions={}, decision=leaving, equity="25039.2",
          fills=[fill("f2a", 46, "sell", 2, "103"), fill("f2", 48, "sell", 8, "104.0000001", trigger="manual")],
          cash_flows=[{"id": "c1", "t": at(49), "usd": "-500"}])  # fmt: skip
    clock.at = at(70)  # a bar and a fill that come late, and change what was believed
    agent.observe(Bars(bars=quarters(30, [104, 105])))
    agent.observe(fill("f3", 52, "buy", 3, "104.5"), kind="fill")
    _seen(agent, clock, 75, "a5", positions={})
    agent.observe(fill("f4", 60, "sell", 3, "105.25", fee="-0.01", fee_currency="BNB"), kind="fill")
    short = {"symbol": "MSFT", "action": "sell", "side": "short", "reason": "weak", "stop": "310"}
    _seen(agent, clock, 90, "a6", positions={"MSFT": {"qty": "-2", "entry_px": "300"}}, decision=short,
          fills=[fill("f5", 89, "sell", 2, 300, "MSFT")])  # fmt: skip
    agent.observe({"id": "d7", "symbol": "MSFT", "action": "hold", "reason": "still weak"}, kind="decision")
    agent.plans.create({"id": "p1", "trigger": {"regime": "range"}, "action": "skip_trade", "reasoning": "ranges cost us"})
    agent.plans.create({"id": "p2", "trigger": {"regime": "trend"}, "action": "alert", "reasoning": "watch it", "maker": "agent"})
    agent.plans.confirm("p2")
    agent.memories.state_belief({"id": "b1", "sentence": "Trends pay", "when": {"regime": "trend"}})
    agent.plans.create({"id": "p3", "trigger": {"session": "us"}, "action": "alert", "reasoning": "no longer"})
    agent.plans.cancel("p3")
    not_taken = {"symbol": "AAPL", "action": "no_trade", "side": "long", "stop": "104", "target": "106", "reason": "range",
                 "frame": "15m", "situation": {"regime": "range", "price": 105}}  # fmt: skip
    _seen(agent, clock, 105, "a7", marks={"AAPL": "105"}, decision=not_taken)
    _seen(agent, clock, 106, "a7b", decision={**not_taken, "side": "short", "entry_price": "105", "stop": "120", "target": "90", "confidence": "0.4"})
    _seen(agent, clock, 150, "a8", marks={"AAPL": "106"}, bars=quarters(105, [105, 105.2, 106]))
    closed = next(trade for trade in agent.ledger.trades(status="closed"))
    agent.memories.correct(closed.id, {"reflection": "left too early", "teach": "anomaly"}, "looked again")


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

    agent.imports.commit([trade(1, "2990"), trade(2, "3010.5")], {"file": "eth.csv", "format": "generic"})
    fills = [Fill(id=f"y{n}", t=at(20 + n), symbol="SOL", side="buy" if n % 2 else "sell", qty=Decimal(2), px=Decimal(150 + n))
             for n in (1, 2, 3)]  # fmt: skip
    wrong = agent.imports.commit([trade(3, "1"), *fills], {"file": "wrong.csv", "format": "generic"})
    clock.at = at(310)
    agent.imports.undo(wrong.batch)
    agent.imports.commit(fills[:2], {"file": "right.csv", "format": "generic"})


def _told_account(agent: AgentMemory, clock: FixedClock) -> None:
    """An agent that reports its own trades: one is forgotten, one destroyed, one still open."""
    clock.at = at(400)
    for n in range(6):
        agent.remember_trade({"symbol": "XAU", "side": "long", "entry_price": 2400, "exit_price": 2400 + 5 * n - 10, "qty": 1,
                              "stop": 2390, "trade_id": f"m{n}", "entry_at": at(n * 10), "exit_at": at(n * 10 + 5),
                              "confidence": "0.6", "situation": {"regime": "ranging"}, "reflection": f"trade {n}"})  # fmt: skip
    agent.remember_trade({"symbol": "XAU", "side": "short", "entry_price": 2410, "trade_id": "m9", "stop": 2420, "qty": 1})
    ids = [trade.id for trade in agent.ledger.trades(status="closed", newest=False)]
    agent.memories.forget(ids[1], "entered twice")
    agent.memories.forget(ids[2], "not ours", shred=True)


def _seen(agent: AgentMemory, clock: FixedClock, minute: float, id: str, **parts: Any) -> None:
    clock.at = at(minute)
    parts["bars"] = [{"symbol": b.symbol, "t0": b.t0, "t1": b.t1, "o": b.o, "h": b.h, "l": b.l, "c": b.c, "v": b.v}
                     for b in parts.get("bars", ())]  # fmt: skip
    agent.observe({"id": id, "t": at(minute), **parts})


def path_of(url: str) -> Path:
    """The file of a SQLite store."""
    return Path(url.removeprefix("sqlite:///"))
