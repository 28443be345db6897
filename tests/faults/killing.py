"""Killing a writer: a process that writes ticks is ended with SIGKILL at some moment, and what it left is looked at."""

from __future__ import annotations

import mmap
import os
import random
import select
import signal
import struct
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path
from typing import Any

import memtape
from memtape.core.memory.outcome_units import signal_of
from memtape.engine import AgentMemory
from memtape.engine.proof.audit import rebuild_store, verify_store
from memtape.store.cutoff import EVERYTHING
from memtape.store.memories import MemoryTables
from memtape.store.sqlite import SqliteDatabase, SqliteSession
from tests.faults.processes import fork

OPEN = datetime(2026, 1, 5, tzinfo=UTC)
STARTING, IDLE, WRITING, COMMITTING = range(4)  # what a writer is doing
EACH = struct.Struct("<I")
ROUNDS_PER_FILE = 10
PLANNED = 1  # log rows before the first tick: the plan
IN_OPENING = 0.1  # share of the kills that come while the store is being opened or recovered
AFTER_A_TICK = 0.3  # share of the kills that come after a first tick was acknowledged, however slow the machine is


def tick(n: int) -> dict[str, Any]:
    """The n-th tick: it enters or leaves a position, brings a bar, and every third one states a decision."""
    at = OPEN + timedelta(minutes=n)
    px, side = str(100 + n % 7), "buy" if n % 2 else "sell"
    held = {"BTC": {"qty": "2", "entry_px": px}} if n % 2 else {}
    seen: dict[str, Any] = {
        "id": f"t{n}", "t": at, "positions": held, "equity": str(10_000 + n),
        "fills": [{"id": f"f{n}", "t": at, "symbol": "BTC", "side": side, "qty": "2", "px": px}],
        "bars": [{"symbol": "BTC", "t0": at - timedelta(minutes=1), "t1": at, "o": "103", "h": "107", "l": "99", "c": "104"}],
    }  # fmt: skip
    if n % 10 == 4:  # flat, and deliberately so: a shadow to follow
        seen["decision"] = {"symbol": "BTC", "action": "no_trade", "side": "long", "stop": "95", "target": "106"}
    elif n % 3 == 0:
        seen["decision"] = {"symbol": "BTC", "reason": f"run {n}", "stop": "90"}
    return seen


def in_step(agent: AgentMemory) -> None:
    """Every kind of memory has learned from the very same trades, and nothing else."""
    closed = {trade.id for trade in agent.ledger.trades(status="closed")}
    marks = len({row.at for row in agent.memories.affect_history(limit=10**6) if row.rank == 2})
    with agent.resources.reading(agent.agent.id) as tables:
        learned = MemoryTables(tables)
        episodes = {e.id for e in learned.episodes() if e.kind == "trade" and e.known_to is None}
        steps = learned.affect_until(None, 10**6)
        ticks = tables.items("equity", EVERYTHING)
        fired = sum('"plan_fired"' in (row.payload or "") for row in tables.log())
        assert fired == sum(plan.fired for plan in learned.plans())
        assert set(learned.shadows()) == {d.key for d in tables.items("decision", EVERYTHING) if "no_trade" in str(d.body)}
    assert episodes == closed == {step.id for step in steps if step.rank == 1}
    assert marks == len(ticks)
    at = agent.head().known_at
    counted = {
        b.proposition.when.get("side"): b.n for b in agent.memories.beliefs(as_of=at)[0] if list(b.proposition.when) == ["side"]
    }
    known = [e for e in agent.memories.episodes(as_of=at) if (e.pnl_r, e.pnl_usd) != (None, None) and e.teaches]
    # Trades of one signal count as one.
    assert all(n == len({signal_of(e) for e in known if e.side == side}) for side, n in counted.items())
    assert agent.memories.behaviour(as_of=at)[0].n == min(len([e for e in agent.memories.episodes(as_of=at) if e.teaches]), 1000)


@dataclass
class Tally:
    """What the kills hit."""

    phases: dict[int, int] = field(default_factory=lambda: dict.fromkeys(range(4), 0))
    acknowledged: int = 0
    unacknowledged: int = 0  # committed, but killed before it could say so

    @property
    def rounds(self) -> int:
        return sum(self.phases.values())

    @property
    def inside(self) -> float:
        """The share of kills that hit an open transaction."""
        return (self.phases[WRITING] + self.phases[COMMITTING]) / max(self.rounds, 1)

    def __str__(self) -> str:
        return (
            f"{self.rounds} kills, {self.inside:.0%} inside a transaction ({self.phases[COMMITTING]} while committing, "
            f"{self.phases[STARTING]} while opening); {self.acknowledged} ticks acknowledged, "
            f"{self.unacknowledged} committed unsaid"
        )


class Killer:
    """Rounds of: fork a writer, kill it, look, try its last tick again."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.folder, self.chance = folder, random.Random(seed)
        self.doing = mmap.mmap(-1, 1)  # shared with the writers: one byte
        self.tally = Tally()
        self.path = ""
        self.written = 0  # ticks that must be there

    def new_file(self, number: int) -> None:
        """A store with an agent and nothing else."""
        self.path, self.written = str(self.folder / f"m{number}.db"), 0
        with memtape.open(self.path) as memory:
            memory.create_skill("plain")
            memory.create_agent("desk", skill="plain", mode="sim")
            careful = {"field": "consecutive_losses", "op": "ge", "value": 1}
            memory.agent("desk").plans.create(
                {"trigger": careful, "action": "alert", "reasoning": "slow down", "fire_mode": "every"}
            )

    def rounds(self, number: int) -> Tally:
        """Kill that many writers."""
        for n in range(number):
            if n % ROUNDS_PER_FILE == 0:
                self.new_file(n)
            acknowledged, phase = self.kill_one()
            self.tally.phases[phase] += 1
            self.look(acknowledged)
        return self.tally

    def kill_one(self) -> tuple[list[int], int]:
        """What a writer acknowledged before it was killed, and what it was doing then."""
        said, says = os.pipe()
        self.doing[0] = STARTING
        first = self.written + 1

        def write() -> None:
            os.close(said)
            self.write_for_ever(first, says)

        pid = fork(write)
        os.close(says)
        draw, heard_first = self.chance.random(), b""
        try:
            if draw >= IN_OPENING:
                deadline = time.monotonic() + 10
                while self.doing[0] == STARTING and time.monotonic() < deadline:
                    time.sleep(0.0005)
            if draw >= 1 - AFTER_A_TICK:
                heard_first = os.read(said, EACH.size) if select.select([said], [], [], 10)[0] else b""
            time.sleep(self.chance.uniform(0, 0.08))  # long enough for several ticks on a busy machine
        finally:
            os.kill(pid, signal.SIGKILL)
            _, status = os.waitpid(pid, 0)
        assert os.waitstatus_to_exitcode(status) == -signal.SIGKILL, "the writer ended by itself"
        with os.fdopen(said, "rb") as heard:
            ticks = [n for (n,) in EACH.iter_unpack(heard_first + heard.read())]
        return ticks, self.doing[0]

    def write_for_ever(self, first: int, says: int) -> None:
        """In the child: tick after tick, each acknowledged when its receipt is there."""
        self.watch_transactions()
        agent = memtape.open(self.path).agent("desk")
        self.doing[0] = IDLE
        for n in count(first):
            agent.observe(tick(n))
            os.write(says, EACH.pack(n))

    def watch_transactions(self) -> None:
        """In the child: say at every moment whether a transaction is open."""
        begin, doing = SqliteDatabase.writing, self.doing

        @contextmanager
        def writing(database: SqliteDatabase, owner: str) -> Iterator[SqliteSession]:
            with begin(database, owner) as session:
                opening = doing[0] == STARTING
                doing[0] = STARTING if opening else WRITING
                yield session
                doing[0] = STARTING if opening else COMMITTING
            doing[0] = STARTING if opening else IDLE

        SqliteDatabase.writing = writing  # type: ignore[method-assign, assignment]

    def look(self, acknowledged: list[int]) -> None:
        """Nothing acknowledged is lost, nothing is torn, and the last tick can be tried again without being doubled."""
        assert acknowledged == list(range(self.written + 1, self.written + 1 + len(acknowledged)))
        last = self.written + len(acknowledged)
        with memtape.open(self.path) as memory:
            agent = memory.agent("desk")
            here = agent.head().seq - PLANNED
            assert here in (last, last + 1), f"{last} were acknowledged, {here} are here"
            audit = verify_store(memory)
            assert audit.ok, audit.problems
            again = agent.observe(tick(last + 1))
            assert again.duplicate == (here == last + 1)
            self.written = last + 1
            assert agent.head().seq == self.written + PLANNED
            in_step(agent)
            assert len(agent.ledger.trades(status="closed")) == self.written // 2
            assert len(agent.ledger.trades(status="open")) == self.written % 2
            if self.tally.rounds % ROUNDS_PER_FILE == 0:
                told, made = verify_store(memory), rebuild_store(memory)
                assert told.ok, told.problems
                assert {k: v for k, v in told.digests.items() if k in made.digests} == made.digests
                assert verify_store(memory).digests == told.digests
        self.tally.acknowledged += len(acknowledged)
        self.tally.unacknowledged += here - last
