"""Cutting the power: a story of trading on a disk that dies at some change; then what is left is opened on a sound one."""

from __future__ import annotations

import random
import shutil
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import apsw

import memtape
from memtape.engine import Memory
from memtape.engine.proof.audit import rebuild_store, verify_store
from memtape.errors import MemtapeError
from memtape.store.sqlite import SqliteDatabase
from tests.faults.disks import PowerDisk, checkpoint_every
from tests.faults.killing import tick

SESSIONS, TICKS_EACH = 2, 2
FROM_NOTHING = 0.25  # share of the stories that begin without a file


class Lost(AssertionError):
    """Something that was acknowledged is not there, or is there in part."""


@dataclass
class Tally:
    """What the cuts came to."""

    cuts: int = 0
    acknowledged: int = 0
    unacknowledged: int = 0  # on the disk, but cut before it could be said

    def __str__(self) -> str:
        return f"{self.cuts} cuts, {self.acknowledged} ticks acknowledged and found, {self.unacknowledged} found unsaid"


class PowerPlant:
    """Cuts the power again and again."""

    def __init__(self, folder: Path, seed: int, lying: bool = False) -> None:
        self.folder, self.chance, self.lying = folder, random.Random(seed), lying
        self.tally = Tally()
        self.begun = folder / "begun.db"
        with memtape.open(str(self.begun)) as memory:
            _make_desk(memory)
        self.lengths = {scratch: self._length(scratch) for scratch in (False, True)}

    def cuts(self, number: int) -> Tally:
        """Cut it that many times."""
        for _ in range(number):
            scratch = self.chance.random() < FROM_NOTHING
            self.one(scratch, self.chance.randrange(self.lengths[scratch]))
        return self.tally

    def one(self, scratch: bool, when: int) -> None:
        """One story, one cut, one look at what is left."""
        before, after = self._place("before"), self._place("after")
        disk = PowerDisk(self.chance, self.lying)
        disk.left = when
        acknowledged = self._trade(disk, before, scratch)
        assert disk.dead, "the story ended before the power did"
        disk.image(after)
        found = self._look(after / "memory.db", acknowledged)
        self.tally.cuts += 1
        self.tally.acknowledged += acknowledged
        self.tally.unacknowledged += found - acknowledged

    def _length(self, scratch: bool) -> int:
        """How many changes the whole story asks of the disk."""
        disk = PowerDisk(self.chance)
        disk.left = whole = 10**9
        assert self._trade(disk, self._place("before"), scratch) == SESSIONS * TICKS_EACH
        return whole - disk.left

    def _place(self, name: str) -> Path:
        place = self.folder / name
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir()
        return place

    def _trade(self, disk: PowerDisk, place: Path, scratch: bool) -> int:
        """Open, trade, close, and again, as far as it goes; how many ticks were acknowledged."""
        path, done = place / "memory.db", 0
        if not scratch:
            shutil.copy(self.begun, path)
        with suppress(MemtapeError, apsw.Error, ExceptionGroup), checkpoint_every(12):
            for _ in range(SESSIONS):
                memory = Memory(SqliteDatabase(str(path), vfs=disk.name, wait_seconds=0.1))
                try:
                    _make_desk(memory)
                    for _ in range(TICKS_EACH):
                        memory.agent("desk").observe(tick(done + 1))
                        if not disk.dead:
                            done += 1
                finally:
                    memory.close()
        return done

    def _look(self, path: Path, acknowledged: int) -> int:
        """Everything acknowledged is there, whole; and the story can go on from here."""
        try:
            memory = memtape.open(str(path))
        except MemtapeError as error:
            raise Lost(f"what is left cannot be opened: {error}") from error
        with memory:
            try:
                audit = verify_store(memory)
            except MemtapeError as error:
                raise Lost(f"what is left cannot be read: {error}") from error
            if not audit.ok:
                raise Lost(f"torn: {audit.problems}")
            if not memory.agents():
                if acknowledged:
                    raise Lost(f"{acknowledged} ticks were acknowledged, not even the agent is left")
                _make_desk(memory)
            agent = memory.agent("desk")
            found = agent.head().seq
            if found not in (acknowledged, acknowledged + 1):
                raise Lost(f"{acknowledged} ticks were acknowledged, {found} are here")
            for n in range(acknowledged + 1, SESSIONS * TICKS_EACH + 1):
                assert agent.observe(tick(n)).duplicate == (n == found)
            made = rebuild_store(memory).digests
            told = verify_store(memory)
            assert told.ok, told.problems
            assert {key: told.digests[key] for key in made} == made
        return found


def _make_desk(memory: Memory) -> None:
    memory.create_skill("plain")
    memory.create_agent("desk", skill="plain", mode="sim")
