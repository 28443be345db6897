"""Notices changes in a workspace without polling its files.

The operating system reports changes folder by folder. Only folders that are indexed are watched, one by one. Watching whole trees
would include virtual environments and package folders (measured: 1,918 folders instead of 113, and through one symbolic link to
`/usr/lib` 13,281 folders and five seconds) and would follow links out of the workspace. A watcher holds three descriptors,
however many folders there are. New folders are added when they appear, and deleted ones are dropped.

A watcher reports only which roots to look at. The sync that follows finds out what changed, so a change that is reported twice,
or of a file that is not indexed, costs one look and nothing else. Changes are collected until none arrives for a while, at most
for about ten seconds. While nothing happens the watcher wakes once a second to see if it should stop, and every few seconds it
checks that each root is still the same folder: the system does not report that a drive was mounted again. If the system cannot
report changes (its limit of watched folders is reached), `problem` says so and only the roots themselves are checked.

>>> from tempfile import TemporaryDirectory
>>> from threading import Event
>>> with TemporaryDirectory() as desk:
...     root = Path(desk).resolve()
...     watcher = FileWatcher([root])
...     _ = (root / "note.md").write_text("Gold broke out.")
...     changed = watcher.wait(Event())
...     watcher.close()
>>> changed == {root}
True
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from time import monotonic

from watchfiles._rust_notify import RustNotify, WatchfilesRustInternalError

from memtape.documents.sources import VENV_MARKER, affects_index, is_readable_folder, walked_folders
from memtape.plugs.clock import StopSignal

POLL_MS = 1_000  # between two checks for changes and for the stop signal
QUIET_MS = 500  # a burst of changes is over when none arrives for so long; a file written again and again is one burst
GATHER_MS = 5_000  # a burst that does not end is collected for at most twice as long
ROOT_CHECK_MS = 5_000  # between two checks of the roots themselves
FolderIdentity = tuple[int, int] | None  # device and inode; None if the folder is missing


class FileWatcher:
    """Watches some roots until it is closed. A missing root is watched as soon as it appears."""

    def __init__(
        self, roots: Iterable[Path], *, poll_ms: int = POLL_MS, quiet_ms: int = QUIET_MS, root_check_ms: int = ROOT_CHECK_MS
    ) -> None:
        self.roots = tuple(sorted(set(roots)))
        self.problem = ""  # why the system reports no changes
        self._poll_ms, self._quiet_ms, self._root_check_ms = poll_ms, quiet_ms, root_check_ms
        self._notify: RustNotify | None = None
        self._roots_by_folder: Mapping[str, frozenset[Path]] = {}
        self._identities: Mapping[Path, FolderIdentity] = {}
        self._watch()

    @property
    def folder_count(self) -> int:
        """How many folders are watched."""
        return len(self._roots_by_folder)

    def close(self) -> None:
        """Stops watching."""
        if self._notify is not None:
            self._notify.close()
            self._notify = None

    def wait(self, stop: StopSignal) -> frozenset[Path]:
        """Returns the roots in which something may have changed; none if nothing did for a while, or if it is time to stop."""
        paths = self._changed_paths(stop)
        touched = {root for path in paths for root in self._roots_of(path)}
        replaced = {root for root, identity in self._identities.items() if _folder_identity(root) != identity}
        # Watch again before the caller looks at the files: a change after that look is then reported again, and none is missed.
        if replaced or any(path in self._roots_by_folder or _is_folder(path) or _marks_environment(path) for path in paths):
            self._watch()
        return frozenset(touched | replaced)

    def _changed_paths(self, stop: StopSignal) -> list[str]:
        """Waits for changes and returns their paths, collected until they end."""
        if self._notify is None:
            stop.wait(self._root_check_ms / 1000)
            return []
        paths: set[str] = set()
        # The answer is a set of changes, or a word: the wait timed out or was stopped.
        changes = self._notify.watch(GATHER_MS, self._poll_ms, self._root_check_ms, stop)
        deadline = monotonic() + GATHER_MS / 1000
        while not isinstance(changes, str):
            paths |= {path for _, path in changes}
            if monotonic() > deadline:
                break
            changes = self._notify.watch(GATHER_MS, self._quiet_ms // 2, self._quiet_ms, stop)
        return sorted(paths)

    def _roots_of(self, path: str) -> frozenset[Path]:
        """Returns the roots that a changed folder or file belongs to; none if the change cannot affect the index."""
        if path in self._roots_by_folder:
            return self._roots_by_folder[path]
        folder, _, name = path.rpartition("/")
        return self._roots_by_folder.get(folder, frozenset()) if affects_index(name) or _is_folder(path) else frozenset()

    def _watch(self) -> None:
        """Watches the folders that exist now. The earlier notifications are closed only after that, so no change is missed."""
        identities = {root: _folder_identity(root) for root in self.roots}
        roots_by_folder: dict[str, frozenset[Path]] = {}
        for root in self.roots:
            for folder in walked_folders(str(root)) if identities[root] else ():
                roots_by_folder[folder] = roots_by_folder.get(folder, frozenset()) | {root}
        notify, self.problem = _start_notifications(roots_by_folder)
        self.close()
        self._notify, self._roots_by_folder, self._identities = notify, roots_by_folder if notify else {}, identities


def _folder_identity(root: Path) -> FolderIdentity:
    try:
        status = root.stat()
        return (status.st_dev, status.st_ino) if is_readable_folder(root) else None
    except OSError:
        return None


def _is_folder(path: str) -> bool:
    return Path(path).is_dir()


def _marks_environment(path: str) -> bool:
    """Returns True for the file that makes its folder a virtual environment, which is not watched."""
    return path.endswith(f"/{VENV_MARKER}")


def _start_notifications(folders: Iterable[str]) -> tuple[RustNotify | None, str]:
    """Returns the system's notifications for some folders, or None and the reason."""
    watched, problem = list(folders), ""
    for _ in range(3):
        if not watched:
            break
        try:
            return RustNotify(watched, False, False, 0, False, True), ""
        except FileNotFoundError as error:
            # A folder was deleted meanwhile; its parent reports that. Try without it.
            watched, problem = [folder for folder in watched if _is_folder(folder)], str(error)
        except (OSError, WatchfilesRustInternalError) as error:
            return None, str(error)
    return None, problem if watched else ""
