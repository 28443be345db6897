"""A workspace is watched: changes are told once they rest, at a cost that does not grow with the tree."""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path
from threading import Event, Thread

import pytest

from memtape.documents import file_watcher
from memtape.documents.file_watcher import FileWatcher
from tests.documents.desk import write

NEVER = Event()


@pytest.fixture
def work(tmp_path):
    return write(tmp_path / "work", {"SOUL.md": "Never move a stop.", "journal/1.md": "Gold broke out."})


@pytest.fixture
def watched():
    """Makes watchers that look every tenth of a second, so that a test is short."""
    made: list[FileWatcher] = []

    def make(*roots: Path, root_check_ms: int = 300, quiet_ms: int = 100) -> FileWatcher:
        made.append(FileWatcher(roots, poll_ms=50, quiet_ms=quiet_ms, root_check_ms=root_check_ms))
        return made[-1]

    yield make
    for watcher in made:
        watcher.close()


def descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def comes_to(held: int) -> bool:
    """Whether so many descriptors are held in the end: a watcher that was closed lets go of its own a moment later."""
    deadline = time.monotonic() + 10
    while descriptors() != held and time.monotonic() < deadline:
        time.sleep(0.02)
    return descriptors() == held


def folders_the_kernel_watches() -> int:
    found = 0
    for entry in Path("/proc/self/fdinfo").iterdir():
        try:
            found += entry.read_text().count("inotify wd")
        except OSError:
            continue
    return found


def is_told(watcher: FileWatcher, root: Path, within: int = 20) -> bool:
    """Whether a change is told, at the latest with so many looks."""
    return any(root in watcher.wait(NEVER) for _ in range(within))


def is_quiet(watcher: FileWatcher) -> bool:
    return not any(watcher.wait(NEVER) for _ in range(2))


def test_twenty_thousand_files_with_a_virtual_environment_take_three_descriptors_and_never_more(tmp_path, watched):
    root = tmp_path / "work"
    for kind, count in (("journal", 120), ("memory", 80), ("venv/lib/site-packages", 150), ("node_modules", 50)):
        for n in range(count):
            folder = root / kind / f"{n:03}"
            folder.mkdir(parents=True)
            for file in range(50):
                (folder / f"{file}.md").touch()
    assert sum(len(files) for *_, files in os.walk(root)) == 20_000
    before, watched_before = descriptors(), folders_the_kernel_watches()
    watcher = watched(root)
    assert descriptors() - before <= 4 and watcher.folder_count == folders_the_kernel_watches() - watched_before == 203
    held = descriptors()
    for n in range(5):
        write(root, {f"journal/new-{n}/{m}.md": "x" for m in range(20)})
        assert is_told(watcher, root) and comes_to(held)
    assert watcher.folder_count == 208
    write(root, {"venv/lib/site-packages/000/README.md": "changed", "node_modules/000/x.md": "changed"})
    assert is_quiet(watcher)
    watcher.close()
    assert comes_to(before)


def test_a_thousand_writes_in_a_row_are_told_once_or_twice(work, watched):
    watcher = watched(work, root_check_ms=1000, quiet_ms=file_watcher.QUIET_MS)
    told, over = [], Event()

    def watch() -> None:
        while not over.is_set():
            if watcher.wait(over):
                told.append(1)

    watching_it = Thread(target=watch)
    watching_it.start()
    for n in range(1000):
        (work / "journal" / f"{n % 100}.md").write_text(f"note {n}")
    time.sleep(2)
    over.set()
    watching_it.join()
    assert 1 <= len(told) <= 2


def test_an_editor_that_saves_by_renaming_is_followed(work, watched):
    watcher = watched(work)
    (work / "journal" / ".1.md.tmp").write_text("Gold failed.")
    (work / "journal" / ".1.md.tmp").rename(work / "journal" / "1.md")
    assert is_told(watcher, work)
    (work / "journal" / "1.md").write_text("And again, after the rename.")
    assert is_told(watcher, work)


@pytest.mark.parametrize(
    "happens",
    [
        lambda work: (work / "journal").rename(work / "diary"),
        lambda work: shutil.rmtree(work / "journal"),
        lambda work: (work / "journal" / "1.md").unlink(),
        lambda work: (work / "journal").rename(work.parent / "elsewhere"),
        lambda work: (work / "journal" / "1.md").rename(work / "1.md"),
        lambda work: (work / "a" / "b" / "c").mkdir(parents=True),
        lambda work: (work / "journal" / "pyvenv.cfg").touch(),
    ],
    ids=["folder renamed", "folder deleted", "file deleted", "folder moved away", "file moved", "folders made", "made an environment"],
)  # fmt: skip
def test_what_happens_to_files_and_folders_is_told(work, watched, happens):
    watcher = watched(work)
    happens(work)
    assert is_told(watcher, work)
    assert is_quiet(watcher)


def test_a_folder_that_was_made_or_renamed_or_replaced_is_watched_from_then_on(work, watched):
    watcher = watched(work)
    (work / "a" / "b").mkdir(parents=True)
    assert is_told(watcher, work)
    write(work, {"a/b/1.md": "deep"})
    assert is_told(watcher, work)
    (work / "a").rename(work / "z")
    assert is_told(watcher, work)
    write(work, {"z/b/1.md": "renamed"})
    assert is_told(watcher, work)
    shutil.rmtree(work / "z")
    (work / "z").mkdir()  # the same name, and on many file systems the same inode
    assert is_told(watcher, work)
    write(work, {"z/2.md": "replaced"})
    assert is_told(watcher, work)


def test_a_file_written_into_a_new_folder_before_it_is_watched_is_still_looked_for(work, watched):
    watcher = watched(work)
    write(work, {"new/deep/1.md": "made in one go"})
    assert is_told(watcher, work), "the root is told, and the sync that follows finds the file"


def test_a_link_out_of_the_workspace_is_not_watched(tmp_path, work, watched):
    other = write(tmp_path / "home", {"secret/1.md": "x"})
    (work / "link").symlink_to(other)
    watcher = watched(work)
    assert watcher.folder_count == 2
    write(other, {"secret/2.md": "y"})
    assert is_quiet(watcher)


def test_a_workspace_that_became_a_link_is_watched_no_more(tmp_path, work, watched):
    other = write(tmp_path / "home", {"secret/1.md": "x"})
    watcher = watched(work)
    work.rename(tmp_path / "old")
    work.symlink_to(other)
    assert is_told(watcher, work) and watcher.folder_count == 0
    write(other, {"secret/2.md": "y"})
    assert is_quiet(watcher)


def test_a_database_or_a_program_beside_the_notes_wakes_nobody(work, watched):
    watcher = watched(work)
    for name in ("memory.db", "memory.docs.db-wal", "bot.py", ".1.md.swp", "1.md~", "bars.csv"):
        (work / name).write_text("x")
    assert is_quiet(watcher)


def test_a_workspace_that_vanishes_and_comes_back_is_told_both_times_and_watched_again(work, watched):
    watcher = watched(work)
    away = work.parent / "unmounted"
    work.rename(away)
    assert is_told(watcher, work) and watcher.folder_count == 0
    assert is_quiet(watcher)
    away.rename(work)
    assert is_told(watcher, work) and watcher.folder_count == 2
    write(work, {"journal/2.md": "back"})
    assert is_told(watcher, work)


def test_a_workspace_that_is_not_there_yet_is_waited_for(tmp_path, watched):
    watcher = watched(tmp_path / "later")
    assert is_quiet(watcher) and not watcher.problem
    write(tmp_path / "later", {"SOUL.md": "x"})
    assert is_told(watcher, tmp_path / "later")


def test_only_the_workspace_that_was_touched_is_told_and_both_of_two_that_share_a_folder(tmp_path, work, watched):
    other = write(tmp_path / "other", {"1.md": "x"})
    watcher = watched(work, work / "journal", other)
    write(other, {"2.md": "x"})
    assert watcher.wait(NEVER) == {other}
    write(work, {"journal/2.md": "x"})
    assert watcher.wait(NEVER) == {work, work / "journal"}


def test_an_idle_watcher_wakes_once_a_second_and_no_more(work):
    class Counting(Event):
        asked = 0

        def is_set(self) -> bool:
            self.asked += 1
            return super().is_set()

    stop = Counting()
    watcher = FileWatcher([work], root_check_ms=3_000)
    assert watcher.wait(stop) == frozenset()
    watcher.close()
    assert 1 <= stop.asked <= 4


@pytest.mark.parametrize(
    "refusal", [OSError(28, "OS file watch limit reached"), file_watcher.WatchfilesRustInternalError("Too many open files")]
)
def test_a_system_that_refuses_to_watch_is_told_and_the_roots_are_still_looked_at(work, watched, monkeypatch, refusal):
    def refuse(*_: object) -> None:
        raise refusal

    monkeypatch.setattr(file_watcher, "RustNotify", refuse)
    watcher = watched(work)
    assert str(refusal) in watcher.problem and watcher.folder_count == 0 and is_quiet(watcher)
    work.rename(work.parent / "gone")
    assert is_told(watcher, work)
