"""A paper agent with a broker, claims, plans, a lesson, an open position, late fills and an undone import: enough to be read."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from memtape.engine import AgentMemory, Memory
from memtape.plugs.clock import FixedClock

START = datetime(2026, 3, 2, tzinfo=UTC)
HOUR = timedelta(hours=1)
CLOCK = START + 200 * HOUR


def desk_with_history(memory: Memory, trades: int = 12) -> AgentMemory:
    """The agent `desk`, observed over hours; `trades` of them are closed by fills, one position stays open."""
    memory.resources.clock = FixedClock(START)
    memory.create_skill("breakout", strategy="Buy strength.", avoid=["Never average down."], memory={"similarSituations": True})
    memory.create_agent("desk", skill="breakout", mode="paper")
    memory.record_events([{"id": "nfp", "t": CLOCK + HOUR, "name": "NFP", "currency": "USD", "impact": "high"}])
    agent = memory.agent("desk")
    agent.plans.create(
        {"id": "half", "action": "reduce", "size_factor": 0.5, "reasoning": "Losses cluster", "maker": "owner",
         "trigger": {"all": [{"field": "consecutive_losses", "op": "ge", "value": 1}]}, "fire_mode": "every", "expires_at": CLOCK + 100 * HOUR}
    )  # fmt: skip
    step = min(HOUR, 150 * HOUR / (trades + 2))
    for n in range(trades):
        at = START + (n + 1) * step
        memory.resources.clock = FixedClock(at)
        side, exit_price = ("buy", 104) if n % 3 else ("sell", 103)
        agent.observe(
            {"id": f"t{n}", "t": at, "marks": {"BTC": 100 + n % 5}, "equity": 10_000 + 7 * n,
             "decision": {"id": f"d{n}", "symbol": "BTC", "side": "long" if side == "buy" else "short", "action": "open",
                          "reason": f"breakout {n}", "stop": 98 if side == "buy" else 102, "target": 106 if side == "buy" else 94,
                          "situation": {"regime": ("ranging", "trending_up")[n % 2]}},
             "bars": [{"symbol": "BTC", "t0": at - step, "t1": at, "o": 100, "h": 105, "l": 99, "c": 100 + n % 5}]}
        )  # fmt: skip
        other = "sell" if side == "buy" else "buy"
        for fill, when, price, direction in ((f"f{n}a", at + step / 4, 100, side), (f"f{n}b", at + step / 2, exit_price, other)):
            memory.resources.clock = FixedClock(when)
            agent.observe(
                {"id": fill, "t": when, "symbol": "BTC", "side": direction, "qty": 1, "px": price, "fee": 0.1,
                 "decision": f"d{n}" if fill.endswith("a") else None}, kind="fill"
            )  # fmt: skip
    # A trade that is learned of late, one that an import brought and its undo took back, a claim, and an open position.
    memory.resources.clock = FixedClock(START + 160 * HOUR)
    for fill, hours, price, direction in (("late-a", 6.1, 50, "buy"), ("late-b", 6.9, 49, "sell")):
        agent.observe(
            {"id": fill, "t": START + hours * HOUR, "symbol": "ETH", "side": direction, "qty": 2, "px": price}, kind="fill"
        )
    agent.remember_trade({"trade_id": "c1", "symbol": "XAU", "side": "long", "entry_price": 2400, "exit_price": 2410, "pnl_r": 0.5,
                          "entry_at": START + 3 * HOUR, "exit_at": START + 4 * HOUR})  # fmt: skip
    agent.lessons.reflect()
    memory.resources.clock = FixedClock(START + 170 * HOUR)
    agent.observe({"id": "open", "t": START + 170 * HOUR, "symbol": "BTC", "side": "buy", "qty": 1, "px": 101}, kind="fill")
    memory.resources.clock = FixedClock(CLOCK)
    return agent
