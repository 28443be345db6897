"""The log: what is observed is appended once, in order, each row hashed onto the one before, whatever the store."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from memtape.core.codec import GENESIS, canonical_plain, chain_hash, digest
from memtape.core.observed import Bars
from memtape.engine import AgentMemory, Memory
from memtape.engine.proof.audit import verify_store
from memtape.errors import StoreFailure
from memtape.store.rows import Head, LogRow
from memtape.store.tables import Tables
from tests.conformance.desk import a_bar, a_fill, a_tick, minute


def given_desk(memory: Memory) -> AgentMemory:
    memory.create_skill("plain")
    memory.create_agent("desk", skill="plain", mode="sim")
    return memory.agent("desk")


def log_of(memory: Memory, stream: str = "desk") -> list[LogRow]:
    with memory.resources.reading(stream) as tables:
        return list(tables.log())


def head_of(memory: Memory, stream: str = "desk") -> Head:
    with memory.resources.reading(stream) as tables:
        return tables.head()


def write_rows(tables: Tables, count: int, start: int = 1, previous: str = GENESIS) -> None:
    rows = []
    for seq in range(start, start + count):
        text = canonical_plain({"n": seq})
        hash_ = chain_hash("desk", seq, "note", f"k{seq}", seq, seq, seq, digest(text), previous)
        rows.append(LogRow("desk", seq, "note", f"k{seq}", seq, seq, seq, text, digest(text), previous, hash_))
        previous = hash_
    tables.append(rows)
    tables.set_head(Head(start + count - 1, previous, None, None, None))


def test_a_stream_begins_at_zero(memory: Memory) -> None:
    assert head_of(memory) == Head(0, GENESIS, None, None, None)
    assert log_of(memory) == []


def test_rows_come_back_as_they_were_written_in_order_whatever_the_chunk(memory: Memory) -> None:
    with memory.resources.writing("desk") as tables:
        write_rows(tables, 25)
    with memory.resources.reading("desk") as tables:
        whole = list(tables.log())
        assert [row.seq for row in whole] == list(range(1, 26))
        for chunk in (1, 7, 24, 25, 26):
            assert list(tables.log(chunk=chunk)) == whole
        assert [row.seq for row in tables.log(after=3, upto=6)] == [4, 5, 6]
        assert tables.logged("note", "k9") == whole[8]
        assert tables.logged("note", "k99") is None
        assert tables.logged("tick", "k9") is None


def test_every_observation_moves_the_head_by_one_link(memory: Memory) -> None:
    agent = given_desk(memory)
    receipts = [agent.observe(a_tick(n, a_fill(f"f{n}", n))) for n in range(1, 6)]
    rows = log_of(memory)
    assert [(r.seq, r.hash) for r in receipts] == [(row.seq, row.hash) for row in rows]
    assert [row.prev_hash for row in rows] == [GENESIS, *(row.hash for row in rows[:-1])]
    assert head_of(memory) == Head(5, rows[-1].hash, None, minute(5), minute(5), minute(1))


def test_the_first_snapshot_is_remembered_for_ever(memory: Memory) -> None:
    agent = given_desk(memory)
    agent.observe(a_tick(1))
    agent.observe(a_tick(2, positions={}))
    agent.observe(a_tick(3, positions={}))
    assert head_of(memory).first_snapshot == minute(2)


@pytest.mark.parametrize("times", [2, 3])
def test_the_same_tick_again_is_the_same_row(memory: Memory, times: int) -> None:
    agent = given_desk(memory)
    first = agent.observe(a_tick(1, a_fill("f1", 1), positions={"AAPL": {"qty": "1"}}))
    for _ in range(times):
        again = agent.observe(a_tick(1, a_fill("f1", 1), positions={"AAPL": {"qty": "1"}}))
        assert (again.seq, again.hash, again.concluded) == (first.seq, first.hash, first.concluded)
        assert again.duplicate and not first.duplicate
    assert len(log_of(memory)) == 1


def test_a_fill_is_one_fill_whatever_road_it_takes(memory: Memory) -> None:
    agent = given_desk(memory)
    agent.observe(a_fill("f1", 1))
    agent.observe(a_tick(2, a_fill("f1", 1), a_fill("f2", 2)))
    assert agent.observe(a_fill("f2", 2)).duplicate
    assert agent.imports.commit([a_fill("f1", 1), a_fill("f2", 2)], {"file": "x.csv"}).new == 0
    with memory.resources.reading("desk") as tables:
        asked = [("fill", "f1"), ("fill", "f2"), ("fill", "f3"), ("tick", "f1")]
        assert tables.log_rows_of(asked) == {("fill", "f1"): 1, ("fill", "f2"): 2}
        assert tables.log_rows_of([]) == {}
    assert [trade.qty_open for trade in agent.ledger.trades()] == [2]


def test_a_known_tick_that_brings_a_new_fill_adds_only_the_fill(memory: Memory) -> None:
    agent = given_desk(memory)
    agent.observe(a_tick(1, a_fill("f1", 1)))
    more = agent.observe(a_tick(1, a_fill("f1", 1), a_fill("f2", 1)))
    assert not more.duplicate
    assert [row.kind for row in log_of(memory)] == ["tick", "more"]
    assert agent.observe(a_tick(1, a_fill("f1", 1), a_fill("f2", 1))).duplicate
    assert verify_store(memory).ok


def test_bars_delivered_twice_are_one_delivery(memory: Memory) -> None:
    agent = given_desk(memory)
    delivery = Bars(bars=tuple(a_bar(n) for n in range(5)))
    first, again = agent.observe(delivery), agent.observe(delivery)
    assert again.duplicate and again.seq == first.seq
    assert len(log_of(memory)) == 1


def test_many_keys_are_looked_up_at_once(memory: Memory) -> None:
    agent = given_desk(memory)
    fills = [a_fill(f"f{n}", n / 100) for n in range(1, 1203)]  # more than two of the store's batches
    assert agent.imports.commit(fills, {"file": "many.csv"}).new == 1202
    with memory.resources.reading("desk") as tables:
        assert len(tables.log_rows_of(("fill", f"f{n}") for n in range(2000))) == 1202
    again = agent.imports.commit(fills, {"file": "many.csv"})
    assert (again.new, again.duplicates) == (0, 1202)


def test_the_store_itself_refuses_a_second_row_of_one_number_or_one_key(memory: Memory) -> None:
    with memory.resources.writing("desk") as tables:
        write_rows(tables, 2)
    for seq, key in ((2, "other"), (3, "k2")):
        row = LogRow("desk", seq, "note", key, 1, 1, 1, "{}", digest("{}"), GENESIS, GENESIS)
        with pytest.raises(StoreFailure), memory.resources.writing("desk") as tables:
            tables.append([row])
    assert [row.seq for row in log_of(memory)] == [1, 2]


def test_each_owner_and_each_agent_has_a_chain_of_its_own(opened: Callable[..., Memory], store_url: str) -> None:
    for owner in ("alice", "bob"):
        memory = opened(store_url, owner)
        given_desk(memory).observe(a_tick(1, a_fill("f1", 1)))
        memory.create_agent("other", skill="plain", mode="sim")
        memory.agent("other").observe(a_tick(1, a_fill("f1", 1)))
        assert [row.seq for row in log_of(memory, "desk")] == [row.seq for row in log_of(memory, "other")] == [1]
        assert log_of(memory, "desk")[0].hash != log_of(memory, "other")[0].hash
        assert verify_store(memory).ok


def test_letters_of_every_script_survive(memory: Memory) -> None:
    agent = given_desk(memory)
    reason = "Größe, 買い, покупка, 🐂 — “cap’d” \\ % :name ? $1 {x} 'quoted' \"double\""
    agent.observe(a_tick(1, decision={"id": "d:1%s", "symbol": "AAPL", "reason": reason}))
    assert [(d.decision.id, d.decision.reason) for d in agent.ledger.decisions()] == [("d:1%s", reason)]
    assert verify_store(memory).ok
