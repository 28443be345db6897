"""Any bad value gives memtape's own clear error in Python too, and nothing is written."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest

import memtape
from memtape.engine import AgentMemory, Memory
from memtape.errors import Invalid, MemtapeError

BAD = [float("nan"), float("inf"), Decimal("NaN"), Decimal("sNaN"), 10**400, -(10**400), Decimal("1E+400"), "\ud800", object(), b"\xff"]
FILL = {"id": "f1", "t": "2026-06-01T09:00:00Z", "symbol": "BTC", "side": "buy", "qty": "1", "px": "100"}
CLAIM = {"symbol": "BTC", "side": "long", "entry_price": 1, "exit_price": 2, "pnl": 1}
PLAN = {"trigger": {"regime": "x"}, "action": "alert", "reasoning": "x"}
BELIEF = {"sentence": "x", "when": {"regime": "x"}}
Call = Callable[[Memory, AgentMemory, Any], object]
CALLS: dict[str, Call] = {
    "fill.px": lambda m, a, bad: a.observe({**FILL, "px": bad}, kind="fill"),
    "fill.symbol": lambda m, a, bad: a.observe({**FILL, "symbol": bad}, kind="fill"),
    "claim.pnl": lambda m, a, bad: a.remember_trade({**CLAIM, "pnl": bad}),
    "claim.reflection": lambda m, a, bad: a.remember_trade({**CLAIM, "reflection": bad}),
    "equity": lambda m, a, bad: a.observe({"t": "2026-06-01T09:00:00Z", "equity": bad}, kind="equity"),
    "decision.reason": lambda m, a, bad: a.observe({"action": "buy", "reason": bad}, kind="decision"),
    "plan.trigger": lambda m, a, bad: a.plans.create({**PLAN, "trigger": {"regime": bad}}),
    "plan.parameters": lambda m, a, bad: a.plans.create({**PLAN, "parameters": {"k": [bad]}}),
    "plan.expiry_days": lambda m, a, bad: a.plans.create(PLAN, expiry_days=bad),
    "belief.sentence": lambda m, a, bad: a.memories.state_belief({**BELIEF, "sentence": bad}),
    "belief.when": lambda m, a, bad: a.memories.state_belief({**BELIEF, "when": {"regime": bad}}),
    "belief.value": lambda m, a, bad: a.memories.state_belief({**BELIEF, "value": bad}),
    "recall.symbol": lambda m, a, bad: a.memories.recall(symbol=bad),
    "recall.price": lambda m, a, bad: a.memories.recall({"price": bad}),
    "check.risk_usd": lambda m, a, bad: a.memories.check_order(symbol="BTC", side="long", risk_usd=bad),
    "skill.strategy": lambda m, a, bad: m.create_skill("k", strategy=bad),
    "agent.equity": lambda m, a, bad: m.create_agent("q", skill="s", settings={"starting_equity": bad}),
    "event.actual": lambda m, a, bad: m.record_events([{"id": "e", "t": "2026-06-01T09:00:00Z", "title": "x", "actual": bad}]),
}  # fmt: skip


@pytest.mark.parametrize("name", CALLS)
def test_a_bad_value_is_refused_in_words_and_nothing_is_written(name: str) -> None:
    with memtape.open(":memory:") as memory:
        memory.create_skill("s")
        memory.create_agent("a", skill="s")
        agent = memory.agent("a")
        for bad in BAD:
            with pytest.raises(MemtapeError) as refused:
                CALLS[name](memory, agent, bad)
            assert isinstance(refused.value, Invalid), (name, bad)
        assert agent.head().seq == 0
        agent.memories.check_order(symbol="BTC", side="long", risk_usd=1.0)
