"""Whatever the disk refuses, and whenever: a clear error, nothing lost, nothing torn, and the next attempt works."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import apsw
import pytest

import memtape
from memtape.engine import Memory
from memtape.engine.proof.audit import verify_store
from memtape.errors import DiskFull, MemtapeError, NoStore, ReadOnly, StoreFailure
from memtape.store.sqlite import SqliteDatabase
from tests.effort import SOAK
from tests.faults.disks import FailingDisk, Op, checkpoint_every
from tests.faults.killing import tick
from tests.faults.power import Lost, PowerPlant
from tests.faults.processes import fork

PAGES = 12  # a checkpoint after every tick or so
TICKS = 2
REFUSALS: dict[str, tuple[type[apsw.Error], type[MemtapeError]]] = {
    "full": (apsw.FullError, DiskFull),
    "broken": (apsw.IOError, StoreFailure),
    "read-only": (apsw.ReadOnlyError, ReadOnly),
}


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """A folder in memory where there is one: these disks fail by themselves."""
    place = Path("/dev/shm")
    if not os.access(place, os.W_OK):
        yield tmp_path
        return
    made = place / f"memtape-{os.getpid()}-{tmp_path.name}"
    made.mkdir()
    yield made
    shutil.rmtree(made)


def given_store(path: Path, ticks: int = 1) -> None:
    with memtape.open(str(path)) as memory:
        memory.create_skill("plain")
        memory.create_agent("desk", skill="plain", mode="sim")
        for n in range(1, ticks + 1):
            memory.agent("desk").observe(tick(n))


def open_on(disk: FailingDisk, path: Path) -> Memory:
    return Memory(SqliteDatabase(str(path), vfs=disk.name, wait_seconds=0.2))


class Story:
    """Open, trade, close; on a disk that may refuse any part of it. What was promised must be there."""

    def __init__(self, disk: FailingDisk, path: Path) -> None:
        self.disk, self.path = disk, path
        self.promised = 1
        self.errors: list[MemtapeError] = []
        self.memory: Memory | None = None

    def tell(self) -> None:
        """From beginning to end, trying again whatever was refused, on a disk that was healed meanwhile."""
        self.memory = self.attempt(lambda: open_on(self.disk, self.path))
        agent = self.memory.agent("desk")
        for n in range(2, 2 + TICKS):
            receipt = self.attempt(lambda n=n: agent.observe(tick(n)))  # type: ignore[misc]
            assert receipt.seq == n
            self.promised = n
        close(self.memory)

    def attempt(self, step: Callable[[], Any]) -> Any:
        """Do it; if the disk refuses, look at what is there, heal the disk and do it again."""
        try:
            return step()
        except MemtapeError as error:
            self.errors.append(error)
            if self.memory is not None:
                self.look_at_what_is_left()
            self.disk.heal()
        return step()

    def look_at_what_is_left(self) -> None:
        assert self.memory is not None
        assert self.disk.refused is not None
        audit = verify_store(self.memory)
        assert audit.ok, audit.problems
        here = self.memory.agent("desk").head().seq
        if in_a_transaction(self.disk.refused):
            assert here == self.promised, f"{self.disk.refused}: of what failed something is there"
        else:
            assert here in (self.promised, self.promised + 1)


def close(memory: Memory) -> None:
    """SQLite keeps the failure of a last checkpoint to itself; apsw reports what we raised in it."""
    with suppress(apsw.Error, ExceptionGroup):
        memory.close()


def in_a_transaction(op: Op) -> bool:
    """A checkpoint comes after the commit. SQLite keeps its failure to itself, but apsw reports what we raised in it."""
    return op.file == "wal" and op.kind == "write"


def told(path: Path) -> int:
    """What a healthy machine finds in the file."""
    with memtape.open(str(path)) as memory:
        audit = verify_store(memory)
        assert audit.ok, audit.problems
        return memory.agent("desk").head().seq


@pytest.mark.soak
@pytest.mark.parametrize("refusal", REFUSALS)
def test_each_change_that_a_disk_can_refuse_is_survived(folder: Path, refusal: str) -> None:
    error, ours = REFUSALS[refusal]
    given_store(folder / "new.db")
    disk = FailingDisk()
    with checkpoint_every(PAGES):
        shutil.copy(folder / "new.db", folder / "count.db")
        Story(disk, folder / "count.db").tell()
        changes, places = disk.seen, list(enumerate(disk.kinds, 1))
        assert changes > 60
        hit: Counter[str] = Counter()
        if refusal != "full" and not SOAK:
            # Each change is refused by a full disk. Of the other refusals the suite takes every third of each kind.
            places = sorted(place for kind in set(disk.kinds) for place in [each for each in places if each[1] == kind][::3])
        for n, _ in places:
            path = folder / "memory.db"
            shutil.copy(folder / "new.db", path)
            disk.arm(n, error, lasting=refusal != "broken")
            story = Story(disk, path)
            story.tell()
            assert disk.refused is not None
            hit[f"{disk.refused.kind} {disk.refused.file}"] += 1
            assert {type(e) for e in story.errors} <= {ours}, (n, disk.refused, story.errors)
            assert story.errors or not in_a_transaction(disk.refused), f"{disk.refused} was kept from us"
            disk.heal()
            assert told(path) == 1 + TICKS
            path.unlink()
    assert set(hit) == {"write wal", "write main", "sync wal", "sync main", "truncate main"}
    print(f"{refusal}: {len(places)} of {changes} changes refused, {dict(hit)}")


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # apsw tells what SQLite kept to itself
def test_each_change_refused_while_a_store_is_made_leaves_none_or_a_whole_one(folder: Path) -> None:
    disk = FailingDisk()
    open_on(disk, folder / "count.db").close()
    changes = disk.seen
    assert changes > 60
    kinds = list(REFUSALS.values())
    for n in range(1, changes + 1):
        path = folder / f"m{n}.db"
        error, ours = kinds[n % 3]
        disk.arm(n, error)
        try:
            close(open_on(disk, path))
        except MemtapeError as refused:
            assert isinstance(refused, ours), (n, disk.refused, refused)
            assert str(path) in str(refused)
        else:
            assert journal_mode(path) == "wal", f"{disk.refused}: opened all the same, but without a write-ahead log"
        disk.heal()
        memory = open_on(disk, path)
        memory.create_skill("plain")
        assert verify_store(memory).ok
        memory.close()
        for file in folder.glob(f"m{n}.db*"):
            file.unlink()


def journal_mode(path: Path) -> str:
    connection = apsw.Connection(str(path))
    mode = str(connection.pragma("journal_mode"))
    connection.close()
    return mode


# ---- loss of power: 5,000 cuts in tests/soak ------------------------------------------------------------------------


def test_the_power_fails_twenty_times_and_nothing_acknowledged_is_lost(folder: Path) -> None:
    tally = PowerPlant(folder, seed=20261115).cuts(20)
    print(tally)
    assert tally.cuts == 20
    assert tally.acknowledged > 0


def test_a_disk_that_lies_about_its_syncs_does_lose_something(folder: Path) -> None:
    """So the cuts have teeth: take the syncs away, and the same story loses what was acknowledged."""
    with pytest.raises(Lost):
        PowerPlant(folder, seed=20261115, lying=True).cuts(20)


# ---- real disks ----------------------------------------------------------------------------------------------------


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A real disk of one megabyte."""
    if os.geteuid() != 0 or shutil.which("mount") is None:
        pytest.skip("only root can mount a small disk")
    place = tmp_path / "small"
    place.mkdir()
    made = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "memtape", place], capture_output=True, check=False)
    if made.returncode:
        pytest.skip(f"a small disk cannot be mounted here: {made.stderr.decode().strip()}")
    yield place
    subprocess.run(["umount", "-l", place], check=True)  # even if a failed test left something open


def test_a_disk_that_is_really_full_loses_nothing_and_takes_more_when_there_is_room(small_disk: Path) -> None:
    path, ballast = small_disk / "memory.db", small_disk / "ballast"
    ballast.write_bytes(bytes(200_000))
    given_store(path)
    with memtape.open(str(path)) as memory:
        agent = memory.agent("desk")
        written = 1
        with pytest.raises(DiskFull, match="is full"):
            for n in range(2, 10_000):
                agent.observe(tick(n))
                written = n
        assert written > 3
        with pytest.raises(DiskFull):
            agent.observe(tick(written + 1))
        assert agent.head().seq == written
        assert verify_store(memory).ok
        ballast.unlink()
        assert agent.observe(tick(written + 1)).seq == written + 1
        assert verify_store(memory).ok
    assert told(path) == written + 1


def test_a_full_disk_on_which_no_store_can_be_made_says_so(small_disk: Path) -> None:
    (small_disk / "ballast").write_bytes(bytes(1_000_000))
    with pytest.raises(DiskFull, match=r"memory\.db"):
        memtape.open(str(small_disk / "memory.db"))
    (small_disk / "ballast").unlink()
    given_store(small_disk / "memory.db")
    assert told(small_disk / "memory.db") == 1


class ReadOnlyDisk(apsw.VFS):
    """Opens every file to read only."""

    def __init__(self) -> None:
        super().__init__("read-only-disk", "")

    def xOpen(self, name: object, flags: list[int]) -> apsw.VFSFile:
        flags[0] = flags[0] & ~(apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE) | apsw.SQLITE_OPEN_READONLY
        return apsw.VFSFile("", name, flags)  # type: ignore[arg-type]


def test_a_store_opened_to_read_only_reads_and_says_that_it_cannot_write(tmp_path: Path) -> None:
    path = tmp_path / "memory.db"
    given_store(path, ticks=4)
    disk = ReadOnlyDisk()
    with memtape.open(str(path)) as keeper:  # WAL can be read without writing while somebody keeps its index
        assert keeper.agent("desk").head().seq == 4
        memory = Memory(SqliteDatabase(str(path), vfs="read-only-disk"))
        assert_reads_but_cannot_write(memory, path, 4)
        memory.close()
    del disk
    assert told(path) == 4


def assert_reads_but_cannot_write(memory: Memory, path: Path, ticks: int) -> None:
    agent = memory.agent("desk")
    assert agent.head().seq == ticks
    assert len(agent.ledger.trades(status="closed")) == ticks // 2
    assert verify_store(memory).ok
    for write in (lambda: agent.observe(tick(ticks + 1)), lambda: memory.create_skill("other")):
        with pytest.raises(ReadOnly, match="cannot be written") as refused:
            write()
        assert str(path) in str(refused.value)
    assert agent.head().seq == ticks


def as_nobody(work: Callable[[], None]) -> int:
    """Do it in a process without root's powers; answers how it ended."""

    def unprivileged() -> None:
        if os.geteuid() == 0:
            nobody = pwd.getpwnam("nobody")
            os.setgroups([])
            os.setgid(nobody.pw_gid)
            os.setuid(nobody.pw_uid)
        work()

    return os.waitstatus_to_exitcode(os.waitpid(fork(unprivileged), 0)[1])


@pytest.fixture
def public() -> Iterator[Path]:
    """A folder that others may enter, which pytest's are not."""
    import tempfile

    place = Path(tempfile.mkdtemp(prefix="memtape-public-", dir="/tmp"))
    place.chmod(0o777)
    yield place
    place.chmod(0o777)
    shutil.rmtree(place)


@pytest.mark.parametrize("closed", ["file", "folder"])
def test_a_file_without_permission_to_write_is_read_all_the_same(public: Path, closed: str) -> None:
    path = public / "memory.db"
    given_store(path, ticks=4)
    path.chmod(0o444)
    if closed == "folder":
        public.chmod(0o555)

    def look() -> None:
        with memtape.open(str(path)) as memory:
            assert_reads_but_cannot_write(memory, path, 4)

    assert as_nobody(look) == 0


def test_a_folder_in_which_nothing_may_be_made_is_named(public: Path) -> None:
    public.chmod(0o555)

    def make() -> None:
        with pytest.raises((NoStore, ReadOnly), match=str(public)):
            memtape.open(str(public / "memory.db"))
        with pytest.raises(NoStore, match=str(public / "deeper")):
            memtape.open(str(public / "deeper" / "memory.db"))

    assert as_nobody(make) == 0


def test_a_file_that_is_no_store_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "letter.db"
    path.write_text("Dear sir, " * 1000)
    with pytest.raises(NoStore, match=r"letter\.db"):
        memtape.open(str(path))
    assert path.read_text() == "Dear sir, " * 1000
