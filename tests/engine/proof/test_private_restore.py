"""Files are for their user alone, and a restore that is killed leaves no store or a whole one."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

import memtape
from memtape.engine.proof.audit import verify_store
from memtape.engine.proof.projection_health import projection_problems
from memtape.engine.proof.transfer import export_store, restore_store
from memtape.store.schema import PROJECTIONS
from memtape.surfaces.cli.doctor import examine
from memtape.surfaces.cli.main import app
from memtape.surfaces.cli.restore import restore_from
from memtape.surfaces.registry import execute
from tests.tamper.house import furnish


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A store, a backup and exports in folders that memtape makes, under the usual mask."""
    before = os.umask(0o022)
    try:
        with furnish(memtape.open(str(tmp_path / "a" / "b" / "memory.db"))) as memory:
            _ = memory.resources.documents
            memory.database.backup(str(tmp_path / "backup.db"))
            export_store(memory, tmp_path / "x" / "all.jsonl", "jsonl")
            export_store(memory, tmp_path / "csv", "csv")
            export_store(memory, tmp_path / "trades.md", "markdown")
            assert {mode(each) for each in (tmp_path / "a" / "b").iterdir() if each.is_file()} == {0o600}
    finally:
        os.umask(before)
    return tmp_path


def test_store_index_backup_and_exports_are_private(home: Path) -> None:
    assert {mode(home / name) for name in ("a", "a/b", "x", "csv")} == {0o700}
    files = [home / "backup.db", home / "trades.md", home / "x" / "all.jsonl", *(home / "csv").iterdir()]
    assert {mode(each) for each in files} == {0o600}


def test_notes_of_an_agent_and_exported_heads_are_private(tmp_path: Path) -> None:
    before = os.umask(0o022)
    try:
        db = tmp_path / "a" / "memory.db"
        with furnish(memtape.open(str(db))) as memory:
            execute(memory, "append_note", {"agent": "aapl", "kind": "note", "text": "Waited."})
        assert CliRunner().invoke(app, ["verify", "--db", str(db), "--export-heads", str(tmp_path / "heads.json")]).exit_code == 0
    finally:
        os.umask(before)
    note = next((tmp_path / "a").rglob("notes.md"))
    assert (mode(note), mode(note.parent), mode(tmp_path / "heads.json")) == (0o600, 0o700, 0o600)


def test_doctor_warns_about_files_that_others_can_read(home: Path) -> None:
    db = home / "a" / "b" / "memory.db"
    assert examine(str(db))["ok"], examine(str(db))["problems"]
    db.chmod(0o644)
    found = examine(str(db))
    assert found["ok"]
    assert any(note.startswith("file modes: ") and str(db) in note for note in found["notes"])


@pytest.mark.parametrize("source", ["backup.db", "x/all.jsonl", "csv"])
def test_a_restore_leaves_one_private_whole_store(home: Path, source: str) -> None:
    target = home / "new" / "memory.db"
    report = restore_from(home / source, str(target), None)
    assert report["ok"] and report["db"] == f"sqlite:///{target}"
    assert [each.name for each in target.parent.iterdir()] == ["memory.db"] and mode(target) == 0o600
    with memtape.open(str(target)) as memory:
        assert verify_store(memory).ok and memory.agent("aapl").ledger.trades()


KILLED = """
import os, sys
from pathlib import Path
from memtape.engine.proof import audit, transfer
at = sys.argv[3]
def die(*args, **kwargs): os.kill(os.getpid(), 9)
if at == "rebuild": transfer.rebuild_projections = die
elif at == "verify": transfer.verify_session = die
elif at == "copy":
    import memtape.surfaces.cli.restore as restore
    restore.verify_store = die
elif at == "link": os.link = die
from memtape.surfaces.cli.restore import restore_from
restore_from(Path(sys.argv[1]), sys.argv[2], None)
"""


@pytest.mark.parametrize(("source", "at"), [("x/all.jsonl", "rebuild"), ("x/all.jsonl", "verify"), ("x/all.jsonl", "link"), ("backup.db", "copy"), ("backup.db", "link")])
def test_a_killed_restore_leaves_no_store(home: Path, source: str, at: str) -> None:
    target = home / "new" / "memory.db"
    ended = subprocess.run([sys.executable, "-c", KILLED, str(home / source), str(target), at], check=False)
    assert ended.returncode == -9 and not target.exists()
    assert restore_from(home / source, str(target), None)["ok"]


def test_a_restore_is_one_transaction(home: Path, store_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from memtape.engine.proof import transfer

    class Killed(BaseException):
        pass

    def killed(session: object) -> None:
        raise Killed

    with memtape.open(store_url) as memory:
        with monkeypatch.context() as patched:
            patched.setattr(transfer, "verify_session", killed)
            with pytest.raises(Killed):
                restore_store(memory, home / "x" / "all.jsonl")
        assert memory.agents() == [] and verify_store(memory).log_rows == 0
        assert restore_store(memory, home / "x" / "all.jsonl").ok
        assert verify_store(memory).ok and memory.agent("aapl").ledger.trades()


def test_tables_that_do_not_follow_from_the_log_are_reported(home: Path) -> None:
    db = str(home / "a" / "b" / "memory.db")
    with memtape.open(db) as memory:
        assert projection_problems(memory) == []
        with memory.resources.repairing("aapl") as tables:
            for table in PROJECTIONS:
                tables.clear(table)
        assert [text for text in projection_problems(memory) if text.startswith("'aapl': its log has")]
    assert any("projections" in problem for problem in examine(db)["problems"])
    assert any("its tables are empty" in problem for problem in examine(db, quick=True)["problems"])
