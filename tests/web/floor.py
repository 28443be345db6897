"""The trading floor of the web tests: an agent with a year of simulated trades, one with troubles, one that is new."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from math import sin
from pathlib import Path
from typing import Any

import memtape
from memtape.core.observed import Bar
from memtape.engine import Memory
from memtape.sim.run import run_simulation
from memtape.sim.strategies import STRATEGIES
from memtape.surfaces.registry import execute

HOSTILE = """<script>alert("x")</script> <img src=x onerror=alert(1)> 'single' "double" &amp; \u202egnol\u202c end"""
HOSTILE_SEEN = HOSTILE.replace("\u202e", "[U+202E]").replace("\u202c", "[U+202C]")


def bars(symbol: str, price: float, days: int, turn: float) -> list[Bar]:
    """Daily bars of a price that swings: enough to win some and lose some."""
    made, last = [], price
    for day in range(days):
        close = round(price * (1 + 0.2 * sin(day / turn) + 0.09 * sin(day / 3.1) + 0.03 * sin(day * 1.7)), 2)
        t0 = datetime(2024, 1, 1, tzinfo=UTC) + timedelta(days=day)
        o, h, l, c = (  # noqa: E741
            Decimal(f"{p:.2f}") for p in (last, max(last, close) * 1.008, min(last, close) * 0.992, close)
        )
        made.append(Bar(symbol=symbol, t0=t0, t1=t0 + timedelta(days=1), o=o, h=h, l=l, c=c))
        last = close
    return made


@contextmanager
def furnished(path: Path) -> Iterator[Memory]:
    """The memory of the floor."""
    with memtape.open(str(path)) as memory:
        memory.create_skill("breakout", strategy="Buy strength, sell weakness.", avoid=["No entry after a gap."])
        memory.create_agent("swing", skill="breakout", mode="sim")
        prices = [*bars("AAPL", 100.0, 420, 17), *bars("MSFT", 40.0, 420, 23)]
        run_simulation(memory.agent("swing"), prices, STRATEGIES["breakout"](), name="swing")
        intentions(memory)
        troubles(memory)
        memory.create_agent("fresh", skill="breakout", mode="live", settings={"currency": "EUR"})
        yield memory


def intentions(memory: Memory) -> None:
    """A belief that the owner states, and plans of the simulated agent: two that apply, a proposal, and one that ended."""

    def write(operation: str, **fields: Any) -> None:
        execute(memory, operation, fields, agent="swing")

    write("state_belief", id="shorts-lose", sentence="Shorts lose", validity_conditions={"side": "short"}, op="le")
    plan = {"trigger_condition": {"field": "consecutive_losses", "op": "ge", "value": 1}, "expiry_days": 3650}
    half, less = ({"type": "reduce", "size_factor": factor} for factor in (0.5, 0.25))
    write("create_trading_plan", **plan, id="half", planned_action=half, reasoning="After a loss.", maker="owner")
    write("create_trading_plan", **plan, id="less", planned_action=less, reasoning="Under water.", maker="owner")
    write("create_trading_plan", **plan, id="proposal", planned_action=half, reasoning="A model thinks so.", maker="agent")
    write("create_trading_plan", **plan, id="ended", planned_action={"type": "skip_trade"}, reasoning="No longer.", maker="owner")
    write("cancel_plan", plan_id="ended")


def troubles(memory: Memory) -> None:
    """An agent whose model writes hostile text, and whose broker shows what no fill explains."""
    memory.create_agent("crypto", skill="breakout", mode="paper", settings={"currency": "EUR"})
    agent = memory.agent("crypto")
    btc = "BTC/USDT:USDT"
    enter = {
        "id": "d1<img src=x>", "t": "2026-06-01T06:59:00Z", "symbol": btc, "action": "buy", "reason": HOSTILE,
        "stop": "64000", "target": "68000", "order_ids": ["o1"], "strategy": "odd\u202eone", "tags": ["a<b"],
        "slots": {"mood<i>": '"calm"</dd>'}, "verdict": {"accepted": True, "note": "fine <b>"},
        "run": {"id": "r1", "model": "m<odel"},
    }  # fmt: skip
    fill = {"t": "2026-06-01T07:00:00Z", "symbol": btc, "side": "buy", "qty": "0.5", "px": "65200", "fee": "3.1"}
    held = {btc: {"qty": "0.5", "entry_px": "65200"}}
    no = {"symbol": "SOL", "action": "no_trade", "reason": "Too thin.", "verdict": {"accepted": False, "code": "R3_CAP"}}
    ticks: list[dict[str, Any]] = [
        {"positions": held, "marks": {btc: "65500"}, "decision": enter, "fills": [{**fill, "id": "f1", "order_id": "o1"}]},
        {"positions": held, "marks": {btc: "66000"}, "decision": no},
        {"positions": {}, "marks": {btc: "66400"}},
        {"positions": {"XRP": {"qty": "-1000"}}},
        {"positions": {}},
        {"positions": {"ETH": {"qty": "2", "entry_px": "3000"}}, "marks": {"ETH": "3010"}},
    ]
    for tick in ticks:
        day = int(agent.head().seq) + 1
        agent.observe({"id": f"t{day}", "t": f"2026-06-0{day}T08:00:00Z", **tick})
    plan = {"trigger_condition": {"session": HOSTILE[:30]}, "planned_action": {"type": "alert", "message": HOSTILE}}
    execute(memory, "create_trading_plan", {**plan, "reasoning": HOSTILE, "id": 'p<b>"1/2', "maker": "agent"}, agent="crypto")
    stated = {"sentence": HOSTILE, "validity_conditions": {"session": HOSTILE[:30]}, "id": 'b<i>"1/2'}
    execute(memory, "state_belief", stated, agent="crypto")
