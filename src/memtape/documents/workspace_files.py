"""The only hand that writes into a workspace: it adds an entry to a document, or puts a new text in place of an old one.

A workspace is a folder that a model's words come into, so nothing is taken on trust. A path is plain and relative; it is walked
folder by folder, each opened below the one before and never through a symbolic link, so that what was checked is what is written.
Hidden folders, those that a search leaves out, and what is no text are refused.

Nobody's text is lost. Every write of memtape holds a lock on the workspace's folder. An entry is added by one write at the end of
the file, looked for afterwards, and added again if an editor put another file there meanwhile. A new text is written beside the
old one, which is read once more right before it is replaced. Newlines, byte order mark and mode stay as they were.

>>> import tempfile
>>> from datetime import UTC, datetime
>>> folder = tempfile.TemporaryDirectory()
>>> entry = NoteEntry(id="n1", kind="note", agent="desk", at=datetime(2026, 5, 4, tzinfo=UTC), text="Waited.")
>>> with locked_workspace(Path(folder.name).resolve()) as workspace:
...     placed = workspace.append("notes/notes.md", entry)
...     again = workspace.append("notes/notes.md", entry)  # as after a crash: it is there, and is not added again
>>> (placed.start_line, placed.end_line), again == placed
((1, 2), True)
>>> folder.cleanup()
"""

from __future__ import annotations

import errno
import os
import stat
import time
import unicodedata
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from memtape.core.brief.sanitize import HIDDEN
from memtape.core.codec import make_id
from memtape.core.document_edits import NoteEntry, keep_newlines, main_newline, normalize_newlines
from memtape.documents.citations import Citation, cite
from memtape.documents.sources import FILE_BYTES, IGNORED, TEXTS, classified
from memtape.errors import Conflict, DiskFull, Invalid, Locked, MemtapeError, ReadOnly, StoreFailure

NEW = frozenset({".md", ".txt"})  # what a new document may be
NOTED = frozenset({"journal", "memory", "notes", "learnings"})  # folders whose documents an agent may add to
WAIT_SECONDS = 30.0
TRIES = 5  # an editor that saves all the time gives way sooner
PART_LENGTH = 200
MARK = b"\xef\xbb\xbf"
_STEP_BY_STEP = os.open in os.supports_dir_fd  # not on Windows
_SAFE = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)
_FOLDER = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | _SAFE
_FILE = getattr(os, "O_NONBLOCK", 0) | _SAFE  # a pipe must not keep us waiting
_IGNORED = frozenset(name.casefold() for name in IGNORED)


@dataclass(frozen=True, slots=True)
class FileContent:
    """A document as it was read."""

    raw: bytes
    mode: int
    owner: tuple[int, int]
    inode: tuple[int, int]

    @property
    def marked(self) -> bool:
        """Whether it begins with a byte order mark."""
        return self.raw.startswith(MARK)

    @property
    def written(self) -> str:
        """Its text with the newlines it has."""
        return self.raw.decode("utf-8-sig")

    @property
    def text(self) -> str:
        """Its text with plain newlines."""
        return normalize_newlines(self.written)

    def holding(self, text: str) -> bytes:
        """Another text in the form of this document."""
        return (MARK if self.marked else b"") + keep_newlines(self.written, text).encode()


# ---- which paths ---------------------------------------------------------------------------------------------------------


def confined(path: str) -> tuple[tuple[str, ...], str]:
    """The folders and the name of a path that stays within its workspace, or `Invalid`.

    >>> confined("journal/2026/may.md")
    (('journal', '2026'), 'may.md')
    >>> confined("journal/../SOUL.md")
    Traceback (most recent call last):
    memtape.errors.Invalid: path: '..' leads elsewhere. Name a document within the workspace, like journal/2026-05-04.md
    """
    parts = path.split("/")
    wrong = next((problem for part in parts if (problem := _problem(part))), None)
    if wrong or len(path) > 1_000:
        raise Invalid("path", wrong or "is too long", "Name a document within the workspace, like journal/2026-05-04.md")
    if _extension(parts[-1]) not in TEXTS:
        raise Invalid("path", f"'{parts[-1]}' is not a text document", f"Write to one that ends in {' or '.join(sorted(NEW))}")
    return tuple(parts[:-1]), parts[-1]


def _problem(part: str) -> str | None:
    """What is wrong with a part of a path."""
    if part == "":
        return "is empty, begins with a slash or has two in a row"
    if part in (".", ".."):
        return f"'{part}' leads elsewhere"
    if any(unicodedata.category(sign) in HIDDEN for sign in part):
        return "has characters that are not seen"
    if "\\" in part or part != part.strip() or part.endswith("."):
        return f"'{part}' is another name on other systems"
    if len(part.encode()) > PART_LENGTH:
        return "has a part that is too long"
    if part.startswith(".") or part.casefold() in _IGNORED:
        return f"'{part}' is hidden or left out of the documents"
    return None


def for_new(path: str) -> None:
    """Refuse a new document that is no plain text, or whose name some file systems take for another one.

    >>> for_new("memory/\uff33\uff2f\uff35\uff2c.md")
    Traceback (most recent call last):
    memtape.errors.Invalid: path: has characters that look like others. Write it in plain letters: memory/SOUL.md
    """
    _, name = confined(path)
    if (usual := unicodedata.normalize("NFKC", path)) != path:
        raise Invalid("path", "has characters that look like others", f"Write it in plain letters: {usual}")
    if _extension(name) not in NEW:
        raise Invalid("path", f"'{name}' would be a new document", f"Let it end in {' or '.join(sorted(NEW))}")


def for_notes(path: str) -> None:
    """Refuse a document that an agent may not add to: rules, strategies, reports, decisions, transcripts."""
    for_new(path)
    folders, _ = confined(path)
    if not folders or folders[0].lower() not in NOTED or classified(path)[1] != 3:
        raise Invalid("path", f"notes do not go into '{path}'",
                      "Name a .md below journal/, memory/, notes/ or learnings/, or use propose_edit")  # fmt: skip


def _extension(name: str) -> str:
    return os.path.splitext(name)[1].lower()  # noqa: PTH122  a name, not a path


# ---- the workspace -------------------------------------------------------------------------------------------------------


def make(root: Path) -> None:
    """A folder for a workspace, with those above it; never by way of a link of its name."""
    with _reported(str(root)):
        root.mkdir(parents=True, exist_ok=True)
        if root.is_symlink():
            raise Invalid("workspace", f"{root} is a symbolic link", "Name the folder itself: memtape docs index DIR")


@contextmanager
def open_workspace(root: Path) -> Iterator[Workspace]:
    """A workspace to read from as carefully as it is written to."""
    if not _STEP_BY_STEP:
        raise Invalid("workspace", "this system has no safe way to write into a folder", "Write notes on Linux or macOS")
    try:
        if root.resolve() != root:
            raise Invalid("workspace", f"{root} lies behind a symbolic link now", "Put the folder back where it was")
        handle = os.open(root, _FOLDER)
    except OSError as error:
        problem = error.strerror or "cannot be opened"
        raise Invalid("workspace", f"{root}: {problem}", "Put the folder back, or index it where it is") from error
    try:
        yield Workspace(root, handle)
    finally:
        os.close(handle)


@contextmanager
def locked_workspace(root: Path, wait_seconds: float = WAIT_SECONDS) -> Iterator[Workspace]:
    """A workspace to write to: nobody else who asks writes to it meanwhile."""
    with open_workspace(root) as workspace:
        import fcntl  # not there on Windows, where `open_workspace` has refused already

        until = time.monotonic() + wait_seconds
        while True:
            try:
                fcntl.flock(workspace.handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > until:
                    raise Locked(url=str(root), seconds=wait_seconds) from None
                time.sleep(0.01)
        with _reported(str(root)):
            here, there = os.fstat(workspace.handle), os.stat(root, follow_symlinks=False)  # noqa: PTH116
        if not os.path.samestat(here, there):
            raise Conflict("workspace", f"{root} was replaced while it was waited for", "Try again")
        yield workspace  # the lock goes with the handle


class Workspace:
    """The open folder of a workspace."""

    def __init__(self, root: Path, handle: int) -> None:
        self.root, self.handle = root, handle

    def read(self, path: str) -> FileContent | None:
        """A document, or none where there is no such file."""
        folders, name = confined(path)
        with _reported(path), self._folder(folders) as folder:
            return None if folder is None else _read(folder, name, path)

    def append(self, path: str, entry: NoteEntry) -> Citation:
        """Add an entry to a document, unless it is there; the lines on which it stands."""
        folders, name = confined(path)
        with _reported(path), self._folder(folders, make=True) as folder:
            assert folder is not None
            for _ in range(TRIES):
                content = _read(folder, name, path)
                if content is not None and (lines := entry.found_in(content.text)):
                    return cite(path, content.text, *lines)
                _add(folder, name, path, content, entry)
        raise Conflict("path", f"{path} is being changed by another program", "Try again")

    def replace(self, path: str, before: FileContent | None, text: str) -> None:
        """Put a text in place of what was read, or of nothing; refused if that is no longer what is there."""
        folders, name = confined(path)
        if before is None:
            for_new(path)
        raw = text.encode() if before is None else before.holding(text)
        with _reported(path), self._folder(folders, make=True) as folder:
            assert folder is not None
            _put(folder, name, path, before, raw)

    @contextmanager
    def _folder(self, folders: Sequence[str], make: bool = False) -> Iterator[int | None]:
        """A folder below, opened step by step; none where it is not there."""
        handle: int | None = os.dup(self.handle)
        try:
            for name in folders:
                assert handle is not None
                inner = _enter(handle, name, make)
                os.close(handle)
                handle = inner
                if handle is None:
                    break
            yield handle
        finally:
            if handle is not None:
                os.close(handle)


def fits(path: str, text: str) -> None:
    """Refuse a text that would not be read again for its size."""
    if len(text.encode()) > FILE_BYTES:
        raise Invalid("path", f"{path} would have more than {FILE_BYTES:,} bytes", "Write to another document")


# ---- folders and files by their handles ----------------------------------------------------------------------------------


def _enter(folder: int, name: str, make: bool) -> int | None:
    """A folder in a folder, made if it is asked for; never through a link, nor into a virtual environment."""
    try:
        inner = os.open(name, _FOLDER, dir_fd=folder)
    except FileNotFoundError:
        if not make:
            return None
        with suppress(FileExistsError):
            os.mkdir(name, dir_fd=folder)
            os.fsync(folder)
        inner = os.open(name, _FOLDER, dir_fd=folder)
    if _is_there(inner, "pyvenv.cfg"):
        os.close(inner)
        raise Invalid("path", f"'{name}' is a virtual environment", "Write to another folder")
    return inner


def _is_there(folder: int, name: str) -> bool:
    try:
        os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return True


def _open(folder: int, name: str, flags: int, path: str) -> int:
    """A regular file by its name in a folder; one to be written in place must have no other name elsewhere."""
    handle = os.open(name, flags | _FILE, 0o666, dir_fd=folder)
    found = os.fstat(handle)
    alone = found.st_nlink == 1 or flags & os.O_ACCMODE == os.O_RDONLY
    if stat.S_ISREG(found.st_mode) and alone:
        return handle
    os.close(handle)
    problem = "is another file too, by a hard link" if stat.S_ISREG(found.st_mode) else "is not a regular file"
    raise Invalid("path", f"{path} {problem}", "Write to another document")


def _read(folder: int, name: str, path: str) -> FileContent | None:
    try:
        handle = _open(folder, name, os.O_RDONLY, path)
    except FileNotFoundError:
        return None
    with os.fdopen(handle, "rb") as file:
        found, raw = os.fstat(handle), file.read(FILE_BYTES + 1)
    if len(raw) > FILE_BYTES:
        raise Invalid("path", f"{path} has more than {FILE_BYTES:,} bytes", "Write to another document")
    try:
        if b"\x00" in raw or (raw[:2] in (b"\xff\xfe", b"\xfe\xff")):
            raise UnicodeError
        raw.decode("utf-8-sig")
    except UnicodeError:
        raise Invalid("path", f"{path} is not text in UTF-8", "Save it as UTF-8 first") from None
    return FileContent(raw, stat.S_IMODE(found.st_mode), (found.st_uid, found.st_gid), (found.st_dev, found.st_ino))


def _add(folder: int, name: str, path: str, content: FileContent | None, entry: NoteEntry) -> None:
    """One write at the end of a file; what was written only in part is taken away again. If the file is not the one that was
    read, nothing is done: the caller looks again."""
    added = normalize_newlines(entry.after(content.text if content else ""))
    raw = added.replace("\n", main_newline(content.written) if content else "\n").encode()
    if len(raw) + len(content.raw if content else b"") > FILE_BYTES:
        raise Invalid("path", f"{path} is full: it would have more than {FILE_BYTES:,} bytes", "Name another path")
    flags = os.O_WRONLY | os.O_APPEND | (0 if content else os.O_CREAT | os.O_EXCL)
    another: type[OSError] = FileExistsError if content is None else FileNotFoundError
    try:
        handle = _open(folder, name, flags, path)
    except another:
        return
    try:
        found = os.fstat(handle)
        if content and ((found.st_dev, found.st_ino) != content.inode or found.st_size != len(content.raw)):
            return
        _write_whole(handle, raw, found.st_size)
        if content is None:
            os.fsync(folder)
    except OSError:
        if content is None:
            os.unlink(name, dir_fd=folder)
        raise
    finally:
        os.close(handle)


def _write_whole(handle: int, raw: bytes, size: int) -> None:
    """All of it in one write, safe on the disk; or none of it."""
    written = 0
    try:
        written = os.write(handle, raw)
        if written < len(raw):
            raise OSError(errno.ENOSPC, "No space left on device")
        os.fsync(handle)
    except OSError:
        if os.fstat(handle).st_size == size + written:  # nobody else has added to it
            os.ftruncate(handle, size)
        raise


def _put(folder: int, name: str, path: str, before: FileContent | None, raw: bytes) -> None:
    """A file in place of another, at once; its part of a name is left over only by a crash, and cleared away here."""
    part = f".memtape-{make_id(name)}.part"
    with suppress(FileNotFoundError):
        os.unlink(part, dir_fd=folder)
    handle = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _FILE, 0o666 if before is None else 0o600, dir_fd=folder)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(raw)
            file.flush()
            if before is not None:
                with suppress(PermissionError):
                    os.fchown(handle, *before.owner)
                os.fchmod(handle, before.mode)
            os.fsync(handle)
        now = _read(folder, name, path)
        if (now and now.raw) != (before and before.raw):
            raise Conflict("path", f"{path} was changed by another program just now", "Look at it, and try again")
        if before is None and _linked(folder, part, name):
            os.unlink(part, dir_fd=folder)
        else:
            os.rename(part, name, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:
        with suppress(FileNotFoundError):
            os.unlink(part, dir_fd=folder)
        raise
    os.fsync(folder)


def _linked(folder: int, part: str, name: str) -> bool:
    """Give a file its name, never over another file; not where the file system has no links."""
    try:
        os.link(part, name, src_dir_fd=folder, dst_dir_fd=folder, follow_symlinks=False)
    except OSError as error:
        if error.errno in (errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP):
            return False
        raise
    return True


# ---- what the system reports ---------------------------------------------------------------------------------------------


@contextmanager
def _reported(path: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise _as_ours(error, path) from error


def _as_ours(error: OSError, path: str) -> MemtapeError:
    if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        return DiskFull(url=path)
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return ReadOnly(url=path)
    if error.errno in (errno.ELOOP, errno.ENOTDIR):
        return Invalid("path", f"{path} leads through a symbolic link, or through what is no folder", "Write to another document")
    if error.errno in (errno.EISDIR, errno.ENXIO, errno.EEXIST, errno.ENAMETOOLONG, errno.ENODEV):
        return Invalid("path", f"{path} cannot be a document here: {error.strerror}", "Write to another document")
    return StoreFailure(url=path, problem=error.strerror or str(error))
