"""Same inputs, same bytes: SQLite and PostgreSQL hold the very same rows, hashes and digests."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from memtape.engine import Memory
from memtape.engine.proof.audit import rebuild_store, verify_store
from memtape.store.schema import TABLES
from memtape.store.tables import streams
from tests.conformance.desk import minute
from tests.tamper.house import furnish


def everything(memory: Memory) -> dict[str, dict[str, list[dict[str, Any]]]]:
    """Every row of every stream."""
    with memory.resources.reading("@owner") as tables:
        names = streams(tables.session, memory.owner)
    found = {}
    for stream in names:
        with memory.resources.reading(stream) as tables:
            found[stream] = {table: tables.rows(table) for table in TABLES}
    return found


def assert_same(one: Memory, other: Memory) -> None:
    here, there = verify_store(one), verify_store(other)
    assert here.ok and there.ok, here.problems + there.problems
    assert here.heads == there.heads
    assert here.digests == there.digests
    assert everything(one) == everything(other)


def test_the_house_is_the_same_on_both_stores(opened: Callable[..., Memory], sqlite_url: str, postgres_url: str) -> None:
    one, other = furnish(opened(sqlite_url)), furnish(opened(postgres_url))
    assert_same(one, other)
    assert rebuild_store(one).digests == rebuild_store(other).digests
    assert_same(one, other)


def test_two_stores_of_one_kind_are_the_same_too(opened: Callable[..., Memory], sqlite_url: str) -> None:
    assert_same(furnish(opened(sqlite_url)), furnish(opened(f"{sqlite_url}.other")))


def test_a_rebuild_keeps_the_zero_of_a_trade_that_won_and_lost_nothing(memory: Memory) -> None:
    memory.create_skill("plain")
    memory.create_agent("desk", skill="plain", mode="sim")
    agent = memory.agent("desk")
    flat = {"symbol": "BTC", "side": "short", "entry_price": "100", "exit_price": "100", "stop": "101"}
    agent.remember_trade({"trade_id": "c1", **flat, "entry_at": minute(1), "exit_at": minute(2)})
    # The memory of a corrected trade is formed from its stored row, whose amounts have no sign at zero.
    agent.memories.correct(agent.ledger.trades()[0].id, {"regime": "ranging"}, "a range")
    before = verify_store(memory).digests
    outcomes = [row["pnl_r"] for rows in everything(memory)["desk"].values() for row in rows if "pnl_r" in row]
    assert "-0" not in {str(value).removesuffix(".0") for value in outcomes}
    rebuilt = rebuild_store(memory).digests
    assert rebuilt == {name: before[name] for name in rebuilt}
