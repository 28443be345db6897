"""A price that is ten times off is named in the receipt, and counts as it came."""

from __future__ import annotations

from typing import Any

import pytest

from memtape.core.events import PriceFarOff
from memtape.engine import AgentMemory
from memtape.engine.proof.audit import rebuild_store, verify_store
from tests.desk import given_agent, given_memory, projections

T = "2026-06-04T{:02d}:00:00Z"


def fill(id: str, hour: int, px: str, **more: Any) -> dict[str, Any]:
    return {"id": id, "t": T.format(hour), "symbol": "BTC", "side": "buy", "qty": "1", "px": px, **more}


def bar(hour: int, close: str, symbol: str = "BTC") -> dict[str, Any]:
    return {"symbol": symbol, "t0": T.format(hour), "t1": T.format(hour + 1), "o": close, "h": close, "l": close, "c": close}


def named(agent: AgentMemory, kind: str, value: dict[str, Any]) -> list[tuple[str, str, str]]:
    """What the receipt of a value says to be far off: which, its price, and what it was compared with."""
    found = [event for event in agent.observe(value, kind=kind).concluded if isinstance(event, PriceFarOff)]
    return [(event.what, str(event.price), str(event.compared_with)) for event in found]


@pytest.fixture
def agent() -> AgentMemory:
    return given_agent(given_memory())


def test_a_fill_is_compared_with_the_last_close(agent: AgentMemory):
    agent.observe({"bars": [bar(7, "65200")]}, kind="bars")
    assert named(agent, "fill", fill("f1", 9, "65300")) == []
    assert named(agent, "fill", fill("f2", 10, "6530")) == []
    assert named(agent, "fill", fill("f3", 11, "6519.99")) == [("fill", "6519.99", "65200")]
    assert named(agent, "fill", fill("f4", 12, "652001")) == [("fill", "652001", "65200")]


def test_without_bars_a_fill_is_compared_with_the_mark_of_its_tick_or_the_fill_before(agent: AgentMemory):
    assert named(agent, "fill", fill("f1", 8, "65200")) == []
    assert named(agent, "fill", fill("f2", 9, "652")) == [("fill", "652", "65200")]
    tick = {"id": "s1", "t": T.format(10), "marks": {"ETH": "3400"}, "fills": [{**fill("f3", 10, "34"), "symbol": "ETH"}]}
    assert named(agent, "tick", tick) == [("fill", "34", "3400")]


def test_a_bar_is_compared_with_the_one_before_also_over_a_gap(agent: AgentMemory):
    agent.observe({"bars": [bar(0, "65200")]}, kind="bars")
    assert named(agent, "bars", {"bars": [bar(1, "65300"), bar(2, "65100")]}) == []
    assert named(agent, "bars", {"bars": [bar(3, "651"), bar(4, "652")]}) == [("bar", "651", "65100")]
    assert named(agent, "bars", {"bars": [bar(20, "1000000")]}) == [("bar", "1000000", "652")]


def test_a_late_fill_is_compared_with_its_own_time(agent: AgentMemory):
    agent.observe({"bars": [bar(1, "100"), bar(2, "900"), bar(3, "8000")]}, kind="bars")
    assert named(agent, "fill", fill("f1", 2, "101")) == []
    assert named(agent, "fill", fill("f2", 4, "101")) == [("fill", "101", "8000")]


def test_a_split_explains_another_price(agent: AgentMemory):
    agent.observe({"bars": [bar(1, "1200")]}, kind="bars")
    agent.observe({"id": "x1", "symbol": "BTC", "t": T.format(3), "ratio": "20"}, kind="split")
    assert named(agent, "fill", fill("f1", 4, "61")) == []
    assert named(agent, "fill", fill("f2", 5, "5")) == [("fill", "5", "60")]


def test_prices_at_and_below_zero_are_not_compared(agent: AgentMemory):
    agent.observe({"bars": [bar(1, "20")]}, kind="bars")
    assert named(agent, "fill", fill("f1", 4, "-37")) == []
    assert named(agent, "fill", fill("f2", 5, "0")) == []


def test_it_is_told_again_to_who_repeats_and_changes_nothing_else():
    memory = given_memory()
    agent = given_agent(memory)
    agent.observe(fill("f1", 8, "65200"), kind="fill")
    first = agent.observe(fill("f2", 9, "652"), kind="fill")
    again = agent.observe(fill("f2", 9, "652"), kind="fill")
    assert again.duplicate and again.concluded == first.concluded
    before = projections(memory)
    rebuild_store(memory)
    assert projections(memory) == before
    assert verify_store(memory).ok
