"""Noticing that something was written in a workspace, without looking all the time.

The operating system tells of changes, folder by folder. Only folders that are read are watched, one by one: to watch a tree
whole would take in virtual environments and package folders (measured: 1,918 folders instead of 113, and through one symbolic
link to `/usr/lib` 13,281 folders and five seconds) and would follow links out of the workspace. A watcher holds three
descriptors, however many folders there are. New folders are taken in as they appear, and those that go are let go.

What is told is only where to look: which roots. The sync that follows finds out what changed, so a change that is told twice, or
told of a file that is not read, costs a look and nothing else. Changes are gathered until they rest, and for at most about ten
seconds. While nothing happens, the watcher wakes once a second to see whether it should end, and every few seconds it looks
whether each root is still the folder that it was: a drive that is mounted again announces itself to nobody. Where the system will
not tell (its limit of watched folders is reached), `problem` says so, and only the roots themselves are looked at.

>>> from tempfile import TemporaryDirectory
>>> from threading import Event
>>> with TemporaryDirectory() as desk:
...     root = Path(desk).resolve()
...     watcher = Watcher([root])
...     _ = (root / "note.md").write_text("Gold broke out.")
...     told = watcher.wait(Event()) == {root}
...     watcher.close()
>>> told
True
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from time import monotonic
from typing import Protocol

from watchfiles._rust_notify import RustNotify, WatchfilesRustInternalError

from memtape.documents.sources import folders, is_there, may_matter

STEP_MS = 1_000  # between two looks whether anything changed, or whether it is time to end
REST_MS = 500  # no change for so long is rest: the system's notices are of files, so a file written again and again is one
GATHER_MS = 5_000  # changes are gathered for so long, twice, if they do not come to rest
LOOK_MS = 5_000  # between two looks at the roots themselves
Identity = tuple[int, int] | None  # device and inode; none: not there


class StopSignal(Protocol):
    """Says when to end; a `threading.Event` is one."""

    def is_set(self) -> bool:
        """Whether it is time to end."""
        ...

    def wait(self, timeout: float, /) -> bool:
        """Wait so many seconds, or less if it is time to end; whether it is."""
        ...


class Watcher:
    """Watches some roots until it is closed. Roots that are not there are waited for."""

    def __init__(self, roots: Iterable[Path], *, step_ms: int = STEP_MS, rest_ms: int = REST_MS, look_ms: int = LOOK_MS) -> None:
        self.roots = tuple(sorted(set(roots)))
        self.problem = ""  # why the system does not tell of changes
        self._step_ms, self._rest_ms, self._look_ms = step_ms, rest_ms, look_ms
        self._notify: RustNotify | None = None
        self._watched: Mapping[str, frozenset[Path]] = {}
        self._known: Mapping[Path, Identity] = {}
        self._watch()

    @property
    def folders(self) -> int:
        """How many folders are watched."""
        return len(self._watched)

    def close(self) -> None:
        """Let go of all of them."""
        if self._notify is not None:
            self._notify.close()
            self._notify = None

    def wait(self, stop: StopSignal) -> frozenset[Path]:
        """The roots in which something may have changed; none of them if nothing did for a while, or if it is time to end."""
        paths = self._told(stop)
        touched = {root for path in paths for root in self._roots_of(path)}
        moved = {root for root, before in self._known.items() if _identity(root) != before}
        if moved or any(path in self._watched or _is_folder(path) or _makes_environment(path) for path in paths):
            self._watch()  # before anybody looks: what comes later than this is told again
        return frozenset(touched | moved)

    def _told(self, stop: StopSignal) -> list[str]:
        """What the system tells of."""
        if self._notify is None:
            stop.wait(self._look_ms / 1000)
            return []
        paths: set[str] = set()
        told = self._notify.watch(GATHER_MS, self._step_ms, self._look_ms, stop)
        until = monotonic() + GATHER_MS / 1000
        while not isinstance(told, str):
            paths |= {path for _, path in told}
            if monotonic() > until:
                break
            told = self._notify.watch(GATHER_MS, self._rest_ms // 2, self._rest_ms, stop)
        return sorted(paths)

    def _roots_of(self, path: str) -> frozenset[Path]:
        """Whose folder or file this is, if a change of it matters."""
        if path in self._watched:
            return self._watched[path]
        folder, _, name = path.rpartition("/")
        return self._watched.get(folder, frozenset()) if may_matter(name) or _is_folder(path) else frozenset()

    def _watch(self) -> None:
        """Watch the folders that are there now; the ones before are let go only then."""
        known = {root: _identity(root) for root in self.roots}
        watched: dict[str, frozenset[Path]] = {}
        for root in self.roots:
            for folder in folders(str(root)) if known[root] else ():
                watched[folder] = watched.get(folder, frozenset()) | {root}
        notify, self.problem = _notified(watched)
        self.close()
        self._notify, self._watched, self._known = notify, watched if notify else {}, known


def _identity(root: Path) -> Identity:
    try:
        found = root.stat()
        return (found.st_dev, found.st_ino) if is_there(root) else None
    except OSError:
        return None


def _is_folder(path: str) -> bool:
    return Path(path).is_dir()


def _makes_environment(path: str) -> bool:
    return path.endswith("/pyvenv.cfg")


def _notified(watched: Iterable[str]) -> tuple[RustNotify | None, str]:
    """The system's own notices of some folders, or why there are none."""
    listed, problem = list(watched), ""
    for _ in range(3):
        if not listed:
            break
        try:
            return RustNotify(listed, False, False, 0, False, True), ""
        except FileNotFoundError as error:  # one went away meanwhile: its parent tells of that
            listed, problem = [folder for folder in listed if _is_folder(folder)], str(error)
        except (OSError, WatchfilesRustInternalError) as error:
            return None, str(error)
    return None, problem if listed else ""
