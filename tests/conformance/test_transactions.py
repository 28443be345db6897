"""Transactions: whole or nothing, one state for a reader, one writer at a time for a stream, and nobody's work lost."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace

import pytest

from memtape.engine import AgentMemory, Memory
from memtape.engine.proof.audit import verify_store
from memtape.engine.view.memories import RecallQuestion, recall_situation
from memtape.errors import MemtapeError, StoreFailure
from memtape.store.schema import TABLES
from memtape.store.sqlite import SqliteDatabase
from tests.conformance.desk import a_bar, a_decision_row, a_fill, a_tick, a_trade, a_version, minute, seen

SOON = 10  # seconds within which another thread must have got somewhere


def given_desk(memory: Memory, *ids: str) -> AgentMemory:
    memory.create_skill("plain")
    for id_ in ids or ("desk",):
        memory.create_agent(id_, skill="plain", mode="sim")
    return memory.agent(ids[0] if ids else "desk")


def whole(memory: Memory, stream: str = "desk") -> dict[str, list[dict[str, object]]]:
    with memory.resources.reading(stream) as tables:
        return {table: tables.rows(table) for table in TABLES}


def test_a_transaction_that_fails_leaves_nothing(memory: Memory) -> None:
    given_desk(memory).observe(a_tick(1, a_fill("f1", 1)))
    before = whole(memory)
    with pytest.raises(ZeroDivisionError), memory.resources.writing("desk") as tables:
        tables.put_items([a_decision_row("d1", 1, seq=9)])
        tables.put_versions([a_version(a_trade())])
        tables.put_bars(seen(a_bar(0), known=1), 9)
        tables.set_head(replace(tables.head(), seq=99))
        tables.drop_position(("AAPL", ""))
        1 / 0  # noqa: B018
    assert whole(memory) == before
    assert verify_store(memory).ok


def test_a_statement_that_fails_takes_the_whole_transaction_with_it(memory: Memory) -> None:
    given_desk(memory)
    before = whole(memory)
    with pytest.raises(StoreFailure), memory.resources.writing("desk") as tables:
        tables.put_items([a_decision_row("d1", 1, seq=1)])
        tables.put_items([a_decision_row("d1", 1, seq=1)])
    assert whole(memory) == before


def test_a_stream_first_touched_by_a_failure_does_not_exist(memory: Memory) -> None:
    with pytest.raises(LookupError), memory.resources.writing("ghost"):
        raise LookupError
    assert whole(memory, "ghost")["streams"] == []


def test_after_a_failure_the_next_transaction_works(memory: Memory) -> None:
    agent = given_desk(memory)
    for n in range(1, 8):  # more often than a pool has connections
        with pytest.raises(StoreFailure), memory.resources.writing("desk") as tables:
            tables.session.run("INSERT INTO nowhere VALUES (1)", {})
        agent.observe(a_tick(n, a_fill(f"f{n}", n)))
    assert verify_store(memory).ok


def test_what_a_reader_may_not_do_it_cannot(memory: Memory) -> None:
    """PostgreSQL refuses it; on SQLite it is taken back with the reading transaction."""
    given_desk(memory)
    before = whole(memory)
    try:
        with memory.resources.reading("desk") as tables:
            tables.put_items([a_decision_row("d1", 1, seq=1)])
    except MemtapeError:
        pass
    assert whole(memory) == before


def test_a_reader_sees_one_state_from_beginning_to_end(opened: Callable[..., Memory], store_url: str) -> None:
    writer, reader = opened(store_url), opened(store_url)
    agent = given_desk(writer)
    agent.observe(a_tick(1, a_fill("f1", 1)))
    with reader.resources.reading("desk") as tables:
        before = {table: tables.rows(table) for table in TABLES}
        agent.observe(a_tick(2, a_fill("f2", 2, "sell")))
        assert {table: tables.rows(table) for table in TABLES} == before
        assert tables.head().seq == 1
    assert len(whole(reader)["trades"]) == 1


def test_a_reader_is_never_kept_waiting_by_a_writer(opened: Callable[..., Memory], store_url: str) -> None:
    writer, reader = opened(store_url), opened(store_url)
    given_desk(writer).observe(a_tick(1, a_fill("f1", 1)))
    with writer.resources.writing("desk") as tables:
        tables.put_items([a_decision_row("d1", 1, seq=2)])
        assert len(reader.agent("desk").ledger.trades()) == 1
        assert reader.agent("desk").ledger.decisions() == []


def test_two_writers_on_one_stream_take_turns(opened: Callable[..., Memory], store_url: str) -> None:
    first, second = opened(store_url), opened(store_url)
    given_desk(first)
    inside = threading.Event()
    with ThreadPoolExecutor(1) as pool:
        with first.resources.writing("desk") as tables:

            def also() -> int:
                inside.set()
                return second.agent("desk").observe(a_tick(2, a_fill("f2", 2))).seq

            waiting = pool.submit(also)
            assert inside.wait(SOON)
            with pytest.raises(TimeoutError):
                waiting.result(0.3)  # it waits for us
            tables.put_items([])
        assert waiting.result(SOON) == 1
    assert verify_store(first).ok


def test_many_threads_on_one_stream_lose_nothing(opened: Callable[..., Memory], store_url: str) -> None:
    memories = [opened(store_url) for _ in range(4)]
    given_desk(memories[0])

    def write(who: int) -> list[int]:
        agent = memories[who].agent("desk")
        return [agent.observe(a_fill(f"w{who}-{n}", who + n / 100)).seq for n in range(20)]

    assert sorted(in_threads(write, 4)) == list(range(1, 81))
    assert memories[0].agent("desk").ledger.trades()[0].qty_open == 80
    assert verify_store(memories[0]).ok


def test_threads_sharing_one_memory_lose_nothing(memory: Memory) -> None:
    given_desk(memory)

    def write(who: int) -> list[int]:
        agent = memory.agent("desk")
        return [agent.observe(a_fill(f"w{who}-{n}", who + n / 100)).seq for n in range(15)]

    assert sorted(in_threads(write, 6)) == list(range(1, 91))
    assert verify_store(memory).ok


def test_two_streams_written_at_once_lose_nothing(opened: Callable[..., Memory], store_url: str) -> None:
    memories = [opened(store_url) for _ in range(3)]
    given_desk(memories[0], "desk0", "desk1", "desk2")

    def write(who: int) -> list[int]:
        agent = memories[who].agent(f"desk{who}")
        return [agent.observe(a_tick(n, a_fill(f"f{n}", n, "buy" if n % 2 else "sell"))).seq for n in range(1, 31)]

    assert sorted(in_threads(write, 3)) == sorted([*range(1, 31)] * 3)
    assert [len(memories[0].agent(f"desk{n}").ledger.trades(status="closed")) for n in range(3)] == [15, 15, 15]
    assert verify_store(memories[0]).ok


def test_readers_see_only_whole_ticks_while_a_writer_works(opened: Callable[..., Memory], store_url: str) -> None:
    writer, reader = opened(store_url), opened(store_url)
    agent = given_desk(writer)
    done = threading.Event()

    def write(_: int) -> list[int]:
        try:
            return [agent.observe(a_tick(n, a_fill(f"f{n}", n, "buy" if n % 2 else "sell"))).seq for n in range(1, 61)]
        finally:
            done.set()

    def read(_: int) -> list[int]:
        looks = []
        while not done.is_set():
            with reader.resources.reading("desk") as tables:
                seq = tables.head().seq
                assert len(list(tables.log())) == len(tables.rows("items")) // 2 == seq  # each tick is two items
                assert len(tables.rows("trades")) == seq // 2
                looks.append(seq)
        return looks

    with ThreadPoolExecutor(2) as pool:
        writing, reading = pool.submit(write, 0), pool.submit(read, 0)
        assert writing.result(60) == list(range(1, 61))
        looks = reading.result(60)
    assert looks == sorted(looks)
    assert len(set(looks)) > 3, "the reader looked while the writer worked"


def test_a_memory_keeps_its_place_when_reopened(opened: Callable[..., Memory], store_url: str) -> None:
    memory = opened(store_url)
    given_desk(memory).observe(a_tick(1, a_fill("f1", 1)))
    before = whole(memory)
    memory.close()
    assert whole(opened(store_url)) == before


def in_threads(work: Callable[[int], list[int]], count: int) -> list[int]:
    """What that many workers answered, all started together."""
    start = threading.Barrier(count)

    def begin(who: int) -> list[int]:
        start.wait(SOON)
        return work(who)

    with ThreadPoolExecutor(count) as pool:
        futures: list[Future[list[int]]] = [pool.submit(begin, who) for who in range(count)]
        return [answer for future in futures for answer in future.result(60)]


def test_a_moment_is_kept_to_the_microsecond(memory: Memory) -> None:
    agent = given_desk(memory)
    at = minute(1).replace(microsecond=123457)
    agent.observe({"id": "t1", "t": at, "positions": {}})
    assert agent.head().last_tick == at


def test_a_view_inside_a_view_does_not_wait_for_itself(memory):
    memory.create_skill("breakout")
    memory.create_agent("desk", skill="breakout", mode="sim")
    agent = memory.agent("desk")

    def nested(levels: int) -> int:
        with agent.view() as view:
            return nested(levels - 1) if levels else len(view.trades())

    assert nested(6) == 0, "more levels than a pool has connections"


def test_a_write_inside_many_views_does_not_wait_for_them(memory: Memory) -> None:
    agent = given_desk(memory)

    def nested(levels: int) -> int:
        with agent.view():
            return nested(levels - 1) if levels else agent.observe(a_tick(1, a_fill("f1", 1))).seq

    assert nested(5) == 1


def test_a_view_inside_a_view_of_the_only_connection_sees_the_same_state() -> None:
    memory = Memory(SqliteDatabase(":memory:"))
    agent = given_desk(memory)
    agent.observe(a_tick(1, a_fill("f1", 1)))
    with agent.view() as view:
        assert agent.ledger.trades() == agent.ledger.trades() != []
        assert [trade.id for trade in agent.ledger.trades()] == [trade.id for trade in view.trades()]
    agent.observe(a_tick(2, a_fill("f2", 2)))
    memory.close()


def test_a_view_keeps_its_columns_while_its_thread_writes_and_reads_again(memory: Memory) -> None:
    agent = given_desk(memory)

    def report(id: str, minutes: float) -> None:
        prices = {"entry_price": "100", "exit_price": "102", "stop": "99"}
        agent.remember_trade({"trade_id": id, "symbol": "BTC", "side": "long", **prices, "entry_at": minute(minutes), "exit_at": minute(minutes + 1)})  # fmt: skip

    for n in range(6):
        report(f"c{n}", 10 * n)
    with agent.view() as view:
        first = view.basis(), view.beliefs(), recall_situation(view, RecallQuestion())
        report("earlier", 5)
        assert agent.memories.recall()[2].n == first[0].n + 1
        assert (view.basis(), view.beliefs(), recall_situation(view, RecallQuestion())) == first


def test_threads_that_recall_of_one_agent_do_not_wait_for_each_others_views(memory: Memory) -> None:
    agent = given_desk(memory)
    prices = {"symbol": "BTC", "side": "long", "entry_price": "100", "exit_price": "102", "stop": "99"}

    def report_and_recall(n: int) -> int:
        agent.remember_trade({"trade_id": f"c{n}", **prices, "entry_at": minute(n), "exit_at": minute(n + 1)})
        return agent.memories.recall()[2].n

    assert report_and_recall(1) == 1
    with ThreadPoolExecutor(1) as other, agent.view() as view:
        first = view.basis(), view.beliefs(), recall_situation(view, RecallQuestion())
        assert other.submit(agent.memories.recall).result(SOON)[0] == first[2][0]
        assert other.submit(report_and_recall, 5).result(SOON) == 2
        assert (view.basis(), view.beliefs(), recall_situation(view, RecallQuestion())) == first
    assert agent.memories.recall()[2].n == 2


def test_the_last_row_of_the_log_does_not_tell_a_past_moment_what_was_corrected_later(memory: Memory) -> None:
    agent = given_desk(memory)
    prices = {"symbol": "BTC", "side": "long", "entry_price": "100", "exit_price": "102", "stop": "99"}
    agent.remember_trade({"trade_id": "c1", **prices, "entry_at": minute(1), "exit_at": minute(2)})
    agent.remember_trade({"trade_id": "c2", **prices, "entry_at": minute(5), "exit_at": minute(6)})
    first = agent.ledger.trades(newest=False)[0].id
    agent.memories.correct(first, {"regime": "ranging"}, "a range")
    with agent.view(minute(3), agent.head().seq) as view:
        assert [episode.known_to for episode in view.episodes()] == [None]
