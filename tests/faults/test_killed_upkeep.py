"""A migration, an import, its undo, a rebuild and a restore to a server, killed at statement after statement: nothing is torn.

A statement is counted in the child, which kills itself before that statement runs. `make soak` tries every statement of the
migration, and many of the rest.
"""

from __future__ import annotations

import gzip
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from functools import partial
from itertools import count
from pathlib import Path

import apsw
import pytest

import memtape
from memtape.core.observed import ClosedTrade
from memtape.engine.proof.audit import rebuild_store, verify_store
from memtape.engine.proof.transfer import export_store, restore_store
from memtape.surfaces.cli.restore import restore_from
from tests.effort import SOAK
from tests.faults.processes import fork
from tests.tamper.house import furnish

OLD_STORE = Path(__file__).parents[1] / "fixtures" / "store_0_1.db.gz"
TRADES = 6


def kill_before(statement: int, work: Callable[[], object]) -> bool:
    """Does the work in a process that is killed before its n-th SQL statement; returns False if the work ended earlier."""

    def counted() -> None:
        left = count(1)

        def before(event: object) -> None:
            if next(left) == statement:
                os.kill(os.getpid(), signal.SIGKILL)

        apsw.connection_hooks.append(lambda connection: connection.trace_v2(apsw.SQLITE_TRACE_STMT, before))
        work()

    status = os.waitstatus_to_exitcode(os.waitpid(fork(counted), 0)[1])
    assert status in (0, -signal.SIGKILL), f"the work failed with {status}"
    return status != 0


def statements(most: int) -> list[int]:
    """The statements to kill at: each one in the soak run, else the first ones and then ever further apart."""
    if SOAK:
        return list(range(1, 2000))
    return [1, 2, 5, 13, 30, 70, 170, 400][:most]


def trade(n: int) -> ClosedTrade:
    at = datetime(2026, 5, 1, 9, tzinfo=UTC) + timedelta(hours=5 * n)
    return ClosedTrade(
        trade_id=f"t{n}", symbol="XAUUSD", side="long", entry_at=at, exit_at=at + timedelta(hours=1), entry_price=Decimal(100),
        exit_price=Decimal(102 - n % 3 * 2), qty=Decimal(1), stop=Decimal(98),
    )  # type: ignore[call-arg, unused-ignore]  # fmt: skip


def opened(db: Path) -> None:
    memtape.open(str(db)).close()


def imported(db: Path) -> None:
    with memtape.open(str(db)) as memory:
        memory.agent("desk").imports.commit([trade(n) for n in range(TRADES)], {"file": "a.csv"})


def undone(db: Path) -> None:
    with memtape.open(str(db)) as memory:
        imports = memory.agent("desk").imports
        imports.undo(imports.all()[0][0].key)


def rebuilt(db: Path) -> None:
    with memtape.open(str(db)) as memory:
        rebuild_store(memory)


@pytest.fixture
def desk(tmp_path: Path) -> Path:
    """A store with an agent and nothing else."""
    db = tmp_path / "desk.db"
    with memtape.open(str(db)) as memory:
        memory.create_skill("plain")
        memory.create_agent("desk", skill="plain")
    return db


def copied(db: Path) -> Path:
    """A copy of a store that nobody has open."""
    for old in db.parent.glob("copy*"):
        old.unlink()
    return Path(shutil.copyfile(db, db.parent / "copy.db"))


@pytest.mark.soak
def test_a_migration_killed_at_any_statement_is_done_by_the_next_open(tmp_path: Path) -> None:
    old = tmp_path / "old.db"
    old.write_bytes(gzip.decompress(OLD_STORE.read_bytes()))
    ends = 0
    for n in statements(6):
        db = copied(old)
        killed = kill_before(n, partial(opened, db))
        ends += killed
        with memtape.open(str(db)) as memory:
            assert verify_store(memory).ok, f"killed at statement {n}"
        if not killed:
            break
    assert ends >= 6


@pytest.mark.soak
@pytest.mark.parametrize("work", [imported, undone, rebuilt])
def test_an_import_an_undo_and_a_rebuild_killed_at_any_statement_are_done_or_not(desk: Path, work: Callable[[Path], None]) -> None:
    if work is not imported:
        imported(desk)
    before, after = {imported: (0, TRADES), undone: (TRADES, 0), rebuilt: (TRADES, TRADES)}[work]
    ends = 0
    for n in statements(8):
        db = copied(desk)
        killed = kill_before(n, partial(work, db))
        ends += killed
        with memtape.open(str(db)) as memory:
            assert verify_store(memory).ok, f"killed at statement {n}"
            assert len(memory.agent("desk").ledger.trades()) in ((before, after) if killed else (after,))
        if not killed:
            break
        work(db) if work is not undone or len_of(db) else None
        assert len_of(db) == after
    assert ends >= 6


def len_of(db: Path) -> int:
    with memtape.open(str(db)) as memory:
        return len(memory.agent("desk").ledger.trades())


KILLED_RESTORE = """
import os, sys
from pathlib import Path
import memtape
from memtape.engine.proof import transfer
def die(*args, **kwargs): os.kill(os.getpid(), 9)
transfer.verify_session = die
with memtape.open(sys.argv[2]) as memory:
    transfer.restore_store(memory, Path(sys.argv[1]))
"""


def test_a_restore_to_a_server_killed_before_its_commit_leaves_an_empty_store(postgres_url: str, tmp_path: Path) -> None:
    with furnish(memtape.open(str(tmp_path / "memory.db"))) as memory:
        export_store(memory, source := tmp_path / "all.jsonl", "jsonl")
    ended = subprocess.run([sys.executable, "-c", KILLED_RESTORE, str(source), postgres_url], check=False)
    assert ended.returncode == -signal.SIGKILL
    with memtape.open(postgres_url) as memory:
        assert memory.agents() == [] and verify_store(memory).log_rows == 0
        assert restore_store(memory, source).ok and verify_store(memory).ok and memory.agents()


def test_what_a_killed_restore_left_is_removed_by_the_next_one_and_a_running_one_is_left_alone(tmp_path: Path) -> None:
    with furnish(memtape.open(str(tmp_path / "memory.db"))) as memory:
        export_store(memory, source := tmp_path / "all.jsonl", "jsonl")
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    left = [tmp_path / f"new.db.restoring-{ended.pid}{end}" for end in ("", "-wal", "-shm")]
    running = tmp_path / f"new.db.restoring-{os.getppid()}"
    for file in (*left, running):
        file.write_bytes(b"half of a store")
    assert restore_from(source, str(tmp_path / "new.db"), None)["ok"]
    assert not any(file.exists() for file in left) and running.exists()
