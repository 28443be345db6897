"""Another writer holds the store: we wait, then say so by name; reading goes on; afterwards so does writing."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import memtape
from memtape.engine import Memory
from memtape.engine.proof.audit import verify_store
from memtape.errors import Locked
from memtape.store.sqlite import SqliteDatabase
from tests.faults.killing import tick
from tests.faults.processes import fork

WAIT = 0.3


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MEMTAPE_WAIT_SECONDS", str(WAIT))


HOLDER = """
import select, sys
url, seconds = sys.argv[1], float(sys.argv[2])
if url.startswith("postgresql"):
    import psycopg
    held = psycopg.connect(url)
    held.execute("SELECT 1 FROM streams WHERE stream = 'desk' FOR UPDATE")
else:
    import apsw
    held = apsw.Connection(url.removeprefix("sqlite:///"))
    held.execute("BEGIN IMMEDIATE")
print("held", flush=True)
select.select([sys.stdin], [], [], seconds)
held.close()
"""


@contextmanager
def another_writer(url: str, seconds: float = 30) -> Iterator[None]:
    """Another process that holds the write lock (of the file, or of the desk's stream) until we are done, or so long."""
    command = [sys.executable, "-c", HOLDER, url, str(seconds)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout and holder.stdin
        assert holder.stdout.readline() == "held\n", "the other process could not take the lock"
        try:
            yield
        finally:
            holder.stdin.close()
            holder.wait(10)


def given_desk(url: str) -> None:
    with memtape.open(url) as memory:
        memory.create_skill("plain")
        memory.create_agent("desk", skill="plain", mode="sim")
        memory.agent("desk").observe(tick(1))


@pytest.mark.usefixtures("impatient")
def test_a_writer_waits_its_time_and_then_says_which_store_is_locked(store_url: str) -> None:
    given_desk(store_url)
    with another_writer(store_url), memtape.open(store_url) as memory:
        agent = memory.agent("desk")
        start = time.monotonic()
        with pytest.raises(Locked) as told:
            agent.observe(tick(2))
        assert WAIT * 0.8 <= time.monotonic() - start < WAIT * 20
        assert memory.url in str(told.value)
        assert str(WAIT) in str(told.value)
        assert agent.head().seq == 1  # it reads while the other holds the lock
        assert len(agent.ledger.trades(status="open")) == 1
        assert verify_store(memory).ok
    with memtape.open(store_url) as memory:
        assert memory.agent("desk").observe(tick(2)).seq == 2
        assert len(memory.agent("desk").ledger.trades(status="closed")) == 1
        assert verify_store(memory).ok


@pytest.mark.usefixtures("impatient")
def test_the_very_memory_that_was_refused_can_write_afterwards(store_url: str) -> None:
    given_desk(store_url)
    with memtape.open(store_url) as memory:
        agent = memory.agent("desk")
        with another_writer(store_url), pytest.raises(Locked):
            agent.observe(tick(2))
        assert agent.observe(tick(2)).seq == 2
        assert not agent.observe(tick(3)).duplicate
        assert verify_store(memory).ok


def test_a_lock_that_goes_away_in_time_is_only_a_delay(store_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MEMTAPE_WAIT_SECONDS", "20")
    given_desk(store_url)
    with memtape.open(store_url) as memory, another_writer(store_url, seconds=0.5):
        start = time.monotonic()
        assert memory.agent("desk").observe(tick(2)).seq == 2
        assert time.monotonic() - start >= 0.2


@pytest.mark.usefixtures("impatient")
def test_on_postgres_only_the_stream_is_locked(postgres_url: str) -> None:
    given_desk(postgres_url)
    with memtape.open(postgres_url) as memory, another_writer(postgres_url):
        memory.create_agent("other", skill="plain", mode="sim")
        assert memory.agent("other").observe(tick(1)).seq == 1


@pytest.mark.usefixtures("impatient")
def test_a_locked_file_can_still_be_opened_to_read(sqlite_url: str) -> None:
    given_desk(sqlite_url)
    with another_writer(sqlite_url), memtape.open(sqlite_url) as memory:
        assert len(memory.agent("desk").ledger.trades()) == 1


def test_the_wait_can_be_set_for_one_database(tmp_path: Path) -> None:
    path = str(tmp_path / "memory.db")
    given_desk(path)
    memory = Memory(SqliteDatabase(path, wait_seconds=0.05))
    with memory, another_writer(f"sqlite:///{path}"):
        start = time.monotonic()
        with pytest.raises(Locked, match=r"more than 0\.05 s"):
            memory.create_skill("other")
        assert time.monotonic() - start < 2


def test_opening_waits_for_a_writer_of_a_file_that_is_not_yet_in_wal_mode(sqlite_url: str, tmp_path: Path) -> None:
    """A new file, or a copy made by `backup`, is in WAL mode only once somebody has opened it; two may come at once."""
    given_desk(sqlite_url)
    copy = tmp_path / "copy.db"
    with memtape.open(sqlite_url) as memory:
        memory.database.backup(str(copy))
    with another_writer(f"sqlite:///{copy}", seconds=0.5), memtape.open(str(copy)) as memory:
        assert memory.agent("desk").observe(tick(2)).seq == 2


@pytest.mark.usefixtures("impatient")
def test_a_writer_that_is_killed_gives_the_lock_back(store_url: str) -> None:
    given_desk(store_url)
    told, tell = os.pipe()

    def work() -> None:
        with memtape.open(store_url) as memory, memory.resources.writing("desk") as tables:
            tables.drop_position(("BTC", ""))
            os.write(tell, b"!")
            time.sleep(30)

    pid = fork(work)
    assert os.read(told, 1) == b"!"
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    os.close(told)
    os.close(tell)
    with memtape.open(store_url) as memory:
        for _ in range(20):  # a server notices that its client is gone when it next looks
            try:
                memory.agent("desk").observe(tick(2))
                break
            except Locked:
                continue
        assert len(memory.agent("desk").ledger.trades(status="closed")) == 1
        assert verify_store(memory).ok
