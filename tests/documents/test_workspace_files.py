"""The hand that writes into a workspace: it stays inside, loses nobody's text and leaves nothing half done."""

from __future__ import annotations

import errno
import os
import stat
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

import pytest

from memtape.core.codec import make_id
from memtape.core.document_edits import NoteEntry
from memtape.documents import workspace_files
from memtape.documents.sources import DocumentFolder, walk
from memtape.documents.workspace_files import locked_workspace, open_workspace
from memtape.documents.write_policy import check_new_path, check_note_path, split_path
from memtape.errors import Conflict, DiskFull, Invalid, Locked, ReadOnly
from tests.documents.desk import write
from tests.faults.processes import together

NOON = datetime(2026, 5, 12, 12, tzinfo=UTC)
HEADING = "## 2026-05-12T12:00:00Z note by desk [n1]"


def note(id: str = "n1", text: str = "Waited.") -> NoteEntry:
    return NoteEntry(id=id, kind="note", agent="desk", at=NOON, text=text)


@pytest.fixture
def desk(tmp_path: Path) -> Path:
    """A workspace, and beside it what is none of its business."""
    write(tmp_path, {"secret.md": "the key\n", "elsewhere/diary.md": "private\n"})
    return write(tmp_path / "desk", {"TRADING_MANUAL.md": "# Risk\nNever risk more than 1 %.\n", "notes/notes.md": "# Notes\n"})


def outside(desk: Path) -> dict[str, str]:
    """Every file beside the workspace, and what it says."""
    return {str(file): file.read_text() for file in desk.parent.rglob("*") if file.is_file() and desk not in file.parents}


# ---- which paths ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "path",
    [
        "../secret.md", "notes/../../secret.md", "/etc/motd.md", "//x.md", "notes//x.md", "./x.md", "notes/./x.md", "", "/", "notes/", "..", "...md/../x.md",
        "notes\\..\\..\\x.md", "notes/a\x00.md", "notes/a\n.md", "notes/a\u202emd.md", "notes/\u200bx.md", "notes/\ufeffx.md", ".git/x.md", "notes/.hidden.md",
        "venv/x.md", "VENV/x.md", "node_modules/x.md", "Node_Modules/p/x.md", "x.py", "x", "notes/x.sh", "runs/1.jsonl", "d.json", "x.md/", "x.md.", "x.md ",
        " notes/x.md", "notes /x.md", f"{'a' * 201}.md", "a/" * 600 + "x.md", "~/x.md/../..",
    ],
)  # fmt: skip
def test_a_path_that_leads_elsewhere_or_to_no_text_is_refused(desk, path):
    before = outside(desk)
    with pytest.raises(Invalid), locked_workspace(desk) as workspace:
        workspace.append(path, note())
    with pytest.raises(Invalid), locked_workspace(desk) as workspace:
        workspace.replace(path, None, "x\n")
    assert outside(desk) == before and sorted(file.name for file in desk.rglob("*") if file.is_file()) == [
        "TRADING_MANUAL.md",
        "notes.md",
    ]


@pytest.mark.parametrize(
    "path",
    [
        "notes/x.md",
        "journal/2026/05/12.md",
        "memory/LEARNINGS.md",
        "learnings/a.txt",
        "Journal/x.md",
        "memory/TRADE-LOG.md",
        "notes/SOUL.md",
    ],
)
def test_an_agent_may_add_to_its_journal_its_notes_and_its_logs(path):
    check_note_path(path)


@pytest.mark.parametrize(
    "path",
    [
        "SOUL.md", "TRADING_MANUAL.md", "ideas.md", "memory/SOUL.md", "memory/Soul.MD", "Memory/soul.md", "memory/TRADING-STRATEGY.md", "memory/strategy.txt",
        "strategies/a.md", "reports/a.md", "backtests/a.md", "decisions/a.md", "runs/a.md", "research/a.md", "playbooks/a.md", "notes/a.rst",
        "memory/\uff33\uff2f\uff35\uff2c.md", "memory/\u017foul.md", "research/notes/a.md",
    ],
)  # fmt: skip
def test_an_agent_does_not_add_to_rules_strategies_reports_decisions_or_what_came_from_outside(path):
    with pytest.raises(Invalid) as refused:
        check_note_path(path)
    assert refused.value.field == "path"


def test_a_new_document_has_one_spelling_but_an_old_one_may_have_its_own(desk):
    decomposed = "notes/U\u0308berblick.md"  # as some systems write it
    with pytest.raises(Invalid, match="look like others"):
        check_new_path(decomposed)
    write(desk, {decomposed: "Alt.\n"})
    with open_workspace(desk) as workspace:
        assert workspace.read(decomposed).text == "Alt.\n"
    with pytest.raises(Invalid, match="new document"):
        check_new_path("notes/a.rst")
    assert split_path("notes/a.rst") == (("notes",), "a.rst")


# ---- links and other traps -----------------------------------------------------------------------------------------------


def trapped(desk: Path, trap: str) -> str:
    """A workspace with a way out; the path that would take it."""
    elsewhere = desk.parent / "elsewhere"
    if trap == "a file":
        (desk / "notes/out.md").symlink_to(desk.parent / "secret.md")
        return "notes/out.md"
    if trap == "a file that is not there":
        (desk / "notes/out.md").symlink_to(desk.parent / "new.md")
        return "notes/out.md"
    if trap == "a folder":
        (desk / "journal").symlink_to(elsewhere)
        return "journal/diary.md"
    if trap == "a folder within the workspace":
        (desk / "journal").symlink_to(desk / "notes")
        return "journal/notes.md"
    if trap == "a file in place of a folder":
        write(desk, {"journal": "x"})
        return "journal/diary.md"
    if trap == "a pipe":
        os.mkfifo(desk / "notes/out.md")
        return "notes/out.md"
    if trap == "a folder in place of a file":
        (desk / "notes/out.md").mkdir()
        return "notes/out.md"
    if trap == "a virtual environment":
        write(desk, {"journal/pyvenv.cfg": "home = /usr"})
        return "journal/x.md"
    os.link(desk.parent / "secret.md", desk / "notes/out.md")
    return "notes/out.md"


TRAPS = ["a file", "a file that is not there", "a folder", "a folder within the workspace", "a file in place of a folder", "a pipe", "a folder in place of a file",
         "a virtual environment", "a hard link"]  # fmt: skip


@pytest.mark.parametrize("trap", TRAPS)
def test_nothing_is_written_through_a_link_or_into_what_is_no_file(desk, trap):
    path = trapped(desk, trap)
    before = outside(desk)
    with pytest.raises(Invalid), locked_workspace(desk) as workspace:
        workspace.append(path, note())
    assert outside(desk) == before


@pytest.mark.parametrize("trap", [trap for trap in TRAPS if trap != "a hard link"])
def test_nothing_is_put_in_place_of_a_link_or_of_what_is_no_file(desk, trap):
    path = trapped(desk, trap)
    before = outside(desk)
    with pytest.raises(Invalid), locked_workspace(desk) as workspace:
        workspace.replace(path, None, "x\n")
    assert outside(desk) == before


def test_a_text_put_in_place_of_a_hard_link_leaves_the_other_name_as_it_was(desk):
    path = trapped(desk, "a hard link")
    with locked_workspace(desk) as workspace:
        workspace.replace(path, workspace.read(path), "new\n")
    assert (desk / path).read_text() == "new\n" and (desk.parent / "secret.md").read_text() == "the key\n"


@pytest.mark.parametrize("which", ["itself", "a folder above it"])
def test_a_workspace_that_became_a_link_is_not_entered(tmp_path, which):
    root = write(tmp_path / "home/desk", {"notes/notes.md": "x\n"})
    moved = root if which == "itself" else root.parent
    moved.rename(tmp_path / "moved")
    moved.symlink_to(tmp_path / "moved")
    with pytest.raises(Invalid, match="symbolic link"), locked_workspace(root) as workspace:
        workspace.append("notes/notes.md", note())
    assert "Waited" not in "".join(file.read_text() for file in tmp_path.rglob("*.md"))


def test_a_workspace_that_is_gone_is_told(tmp_path):
    with pytest.raises(Invalid, match="No such file"), open_workspace(tmp_path / "gone"):
        pass


def test_a_folder_that_becomes_a_link_while_it_is_walked_leads_nowhere(desk, monkeypatch):
    real, elsewhere = os.open, desk.parent / "elsewhere"

    def swapping(name, flags, mode=0o777, *, dir_fd=None):
        handle = real(name, flags, mode, dir_fd=dir_fd)
        if name == "notes":  # it was looked at and opened: now it is swapped
            (desk / "notes").rename(desk / "old")
            (desk / "notes").symlink_to(elsewhere)
        return handle

    with locked_workspace(desk) as workspace:
        monkeypatch.setattr(os, "open", swapping)
        workspace.append("notes/diary.md", note())
    assert (elsewhere / "diary.md").read_text() == "private\n" and HEADING in (desk / "old/diary.md").read_text()


# ---- adding --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "before, after",
    [
        (b"", f"{HEADING}\nWaited.\n"), (b"# Notes\n", f"# Notes\n\n{HEADING}\nWaited.\n"), (b"no newline", f"no newline\n\n{HEADING}\nWaited.\n"),
        (b"# Notes\n\n", f"# Notes\n\n{HEADING}\nWaited.\n"), (b"a\r\nb\r\n", f"a\r\nb\r\n\r\n{HEADING}\r\nWaited.\r\n"),
        (b"\xef\xbb\xbfa\n", f"\ufeffa\n\n{HEADING}\nWaited.\n"),
    ],
)  # fmt: skip
def test_an_entry_stands_by_itself_in_the_newlines_of_its_document(desk, before, after):
    (desk / "notes/notes.md").write_bytes(before)
    with locked_workspace(desk) as workspace:
        cited = workspace.append("notes/notes.md", note())
    raw = (desk / "notes/notes.md").read_bytes()
    assert raw == after.encode() and raw.startswith(before)
    with open_workspace(desk) as workspace:
        assert workspace.read("notes/notes.md").text.split("\n")[cited.start_line - 1 : cited.end_line] == [HEADING, "Waited."]


def test_folders_are_made_as_they_are_needed(desk):
    with locked_workspace(desk) as workspace:
        assert workspace.append("journal/2026/05/12.md", note()).start_line == 1
    assert [seen.path for seen in walk(DocumentFolder(desk))] == ["TRADING_MANUAL.md", "journal/2026/05/12.md", "notes/notes.md"]


@pytest.mark.parametrize("raw", ["Überkauft".encode("utf-16"), "Überkauft".encode("cp1252"), b"\x00\x01"])
def test_a_document_in_another_encoding_is_not_touched(desk, raw):
    (desk / "notes/notes.md").write_bytes(raw)
    with pytest.raises(Invalid, match="UTF-8"), locked_workspace(desk) as workspace:
        workspace.append("notes/notes.md", note())
    assert (desk / "notes/notes.md").read_bytes() == raw


def test_a_document_that_is_full_is_told_so(desk, monkeypatch):
    monkeypatch.setattr(workspace_files, "MAX_FILE_BYTES", 40)
    with pytest.raises(Invalid, match="is full"), locked_workspace(desk) as workspace:
        workspace.append("notes/notes.md", note())
    assert (desk / "notes/notes.md").read_text() == "# Notes\n"


@pytest.mark.parametrize("path", ["notes/notes.md", "notes/new.md"])
@pytest.mark.parametrize("fault", ["the disk is full", "only a part is written"])
def test_what_was_written_only_in_part_is_taken_away_again(desk, monkeypatch, path, fault):
    real = os.write

    def failing(handle, raw):
        real(handle, raw[:20])
        if fault == "the disk is full":
            os.ftruncate(handle, os.fstat(handle).st_size - 20)
            raise OSError(errno.ENOSPC, "No space left on device")
        return 20

    with locked_workspace(desk) as workspace:
        monkeypatch.setattr(os, "write", failing)
        with pytest.raises(DiskFull):
            workspace.append(path, note())
        monkeypatch.setattr(os, "write", real)
    assert (desk / "notes/notes.md").read_text() == "# Notes\n" and not (desk / "notes/new.md").exists()


def test_a_folder_that_may_not_be_written_is_told(desk, monkeypatch):
    def refusing(*_args, **_more):
        raise PermissionError(errno.EACCES, "Permission denied")

    with locked_workspace(desk) as workspace:
        monkeypatch.setattr(os, "mkdir", refusing)
        with pytest.raises(ReadOnly):
            workspace.append("journal/x.md", note())


def test_an_entry_goes_into_the_file_that_an_editor_put_there_meanwhile(desk, monkeypatch):
    real, saved = os.write, []

    def saving(handle, raw):
        done = real(handle, raw)
        if not saved:  # right after ours, the editor replaces the file by what it had on its screen
            saved.append(True)
            (desk / "notes/edited").write_text("# Notes\n\nThe owner's own line.\n")
            (desk / "notes/edited").rename(desk / "notes/notes.md")
        return done

    with locked_workspace(desk) as workspace:
        monkeypatch.setattr(os, "write", saving)
        cited = workspace.append("notes/notes.md", note())
        monkeypatch.setattr(os, "write", real)
    assert (
        desk / "notes/notes.md"
    ).read_text() == f"# Notes\n\nThe owner's own line.\n\n{HEADING}\nWaited.\n" and cited.start_line == 5


# ---- replacing -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "before, after",
    [
        (b"a\nb\n", b"a\nc\n"), (b"a\r\nb\r\n", b"a\r\nc\r\n"), (b"\xef\xbb\xbfa\nb\n", b"\xef\xbb\xbfa\nc\n"),
        (b"a\r\nb\n", b"a\r\nc\n"), (b"\xef\xbb\xbfa\r\nb\r\n", b"\xef\xbb\xbfa\r\nc\r\n"),
    ],
)  # fmt: skip
def test_newlines_mark_and_mode_of_a_document_stay_as_they_were(desk, before, after):
    file = desk / "SOUL.md"
    file.write_bytes(before)
    file.chmod(0o640)
    with locked_workspace(desk) as workspace:
        workspace.replace("SOUL.md", workspace.read("SOUL.md"), "a\nc\n")
    assert file.read_bytes() == after and stat.S_IMODE(file.stat().st_mode) == 0o640
    assert not list(desk.glob(".memtape*"))


def test_an_editor_that_saves_before_the_text_is_replaced_is_not_overwritten(desk, monkeypatch):
    file, real = desk / "TRADING_MANUAL.md", os.fsync

    def saving(handle):
        file.write_text("# Risk\nThe owner saved this.\n")
        real(handle)

    with locked_workspace(desk) as workspace:
        before = workspace.read("TRADING_MANUAL.md")
        monkeypatch.setattr(os, "fsync", saving)
        with pytest.raises(Conflict, match="just changed"):
            workspace.replace("TRADING_MANUAL.md", before, "# Risk\nNone.\n")
    assert file.read_text() == "# Risk\nThe owner saved this.\n" and not list(desk.glob(".memtape*"))


def test_a_new_document_does_not_take_the_place_of_one_that_came_first(desk, monkeypatch):
    real = os.link

    def beaten(*names, **more):
        (desk / "PLAN.md").write_text("mine\n")
        real(*names, **more)

    with locked_workspace(desk) as workspace:
        monkeypatch.setattr(os, "link", beaten)
        with pytest.raises(Invalid):
            workspace.replace("PLAN.md", None, "theirs\n")
    assert (desk / "PLAN.md").read_text() == "mine\n" and not list(desk.glob(".memtape*"))


def test_where_a_file_system_has_no_links_a_new_document_is_made_all_the_same(desk, monkeypatch):
    def without(*_names, **_more):
        raise OSError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "link", without)
    with locked_workspace(desk) as workspace:
        workspace.replace("PLAN.md", None, "new\n")
    assert (desk / "PLAN.md").read_text() == "new\n" and not list(desk.glob(".memtape*"))


def test_what_a_crash_left_half_written_is_cleared_away(desk):
    with locked_workspace(desk) as workspace:
        workspace.replace("PLAN.md", None, "one\n")
        name = f".memtape-{make_id('PLAN.md')}.part"
        (desk / name).symlink_to(desk.parent / "secret.md")
        workspace.replace("PLAN.md", workspace.read("PLAN.md"), "two\n")
    assert (desk / "PLAN.md").read_text() == "two\n" and not (desk / name).is_symlink()
    assert (desk.parent / "secret.md").read_text() == "the key\n"


# ---- together ------------------------------------------------------------------------------------------------------------


def test_a_second_writer_waits_for_the_first_and_gives_up_in_the_end(desk):
    with locked_workspace(desk), pytest.raises(Locked, match="has been locked"), locked_workspace(desk, wait_seconds=0.05):
        pass
    with locked_workspace(desk):  # and it was let go
        pass


def test_no_handle_is_left_open_whatever_happens(desk):
    trapped(desk, "a folder")

    def handles() -> int:
        return len(list(Path("/proc/self/fd").iterdir()))

    before = handles()
    for path in ("notes/notes.md", "journal/diary.md", "../x.md", "notes/x.md"):
        with suppress(Invalid), locked_workspace(desk) as workspace:
            workspace.append(path, note())
        with suppress(Invalid, Conflict), locked_workspace(desk) as workspace:
            workspace.replace(path, None, "x\n")
    assert handles() == before


def test_writers_and_editors_of_one_document_lose_nothing_of_each_other(desk):
    writers, each = 4, 40

    def adding(who: int):
        def work() -> None:
            for n in range(each):
                with locked_workspace(desk) as workspace:
                    workspace.append("notes/notes.md", note(f"w{who}-{n}", f"Words of {who}, {n}.\nAnd more."))

        return work

    def editing() -> None:
        for n in range(each):
            with locked_workspace(desk) as workspace:
                content = workspace.read("notes/notes.md")
                workspace.replace("notes/notes.md", content, content.text.replace("# Notes", f"# Notes\nedit {n}", 1))

    assert together([*(adding(who) for who in range(writers)), editing]) == [0] * (writers + 1)
    text = (desk / "notes/notes.md").read_text()
    for who in range(writers):
        for n in range(each):
            assert text.count(f"## 2026-05-12T12:00:00Z note by desk [w{who}-{n}]\nWords of {who}, {n}.\nAnd more.\n") == 1
    assert [text.count(f"edit {n}\n") for n in range(each)] == [1] * each
    assert len(text.split("\n")) == 1 + each + writers * each * 4 + 1
