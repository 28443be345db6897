"""The only code that writes into a workspace: it appends an entry to a document, or replaces a text by a new one.

A workspace is a folder that receives a model's words, so nothing is trusted. A path is plain and relative (`write_policy`). It is
opened folder by folder, each below the one before and never through a symbolic link, so that the file that was checked is the
file that is written.

No text is lost. Every write of memtape holds a lock on the folder of the workspace. An entry is appended by a single write at the
end of the file; then the file is searched for it, and it is appended again if an editor has saved another version meanwhile. A
new text is written to a file beside the old one, which is read once more right before it is replaced. Newlines, byte order mark
and mode stay as they were.

>>> import tempfile
>>> from datetime import UTC, datetime
>>> folder = tempfile.TemporaryDirectory()
>>> entry = NoteEntry(id="n1", kind="note", agent="desk", at=datetime(2026, 5, 4, tzinfo=UTC), text="Waited.")
>>> with locked_workspace(Path(folder.name).resolve()) as workspace:
...     first = workspace.append("notes/notes.md", entry)
...     second = workspace.append("notes/notes.md", entry)  # as after a crash: it is there, and is not appended again
>>> (first.start_line, first.end_line), second == first
((1, 2), True)
>>> folder.cleanup()
"""

from __future__ import annotations

import errno
import os
import stat
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from memtape.core.codec import make_id
from memtape.core.document_edits import NoteEntry
from memtape.core.text_diff import keep_newlines, main_newline, normalize_newlines
from memtape.documents.citations import Citation, cite
from memtape.documents.sources import MAX_FILE_BYTES, VENV_MARKER
from memtape.documents.write_policy import check_new_path, split_path
from memtape.errors import Conflict, DiskFull, Invalid, Locked, MemtapeError, ReadOnly, StoreFailure
from memtape.store.private_files import FILE_MODE, FOLDER_MODE, make_private_folder

LOCK_TIMEOUT_SECONDS = 30.0
MAX_APPEND_ATTEMPTS = 5  # while another program keeps saving the same file
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_HAS_DIR_FD = os.open in os.supports_dir_fd  # not on Windows
_SAFE = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)
_FOLDER = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | _SAFE
_FILE = getattr(os, "O_NONBLOCK", 0) | _SAFE  # opening a pipe must not block


@dataclass(frozen=True, slots=True)
class FileContent:
    """A document as it was read."""

    raw: bytes
    mode: int
    owner: tuple[int, int]
    inode: tuple[int, int]

    @property
    def has_byte_order_mark(self) -> bool:
        """True if it begins with a byte order mark."""
        return self.raw.startswith(BYTE_ORDER_MARK)

    @property
    def text_as_written(self) -> str:
        """Its text with its own newlines."""
        return self.raw.decode("utf-8-sig")

    @property
    def text(self) -> str:
        """Its text with plain newlines."""
        return normalize_newlines(self.text_as_written)

    def encode(self, text: str) -> bytes:
        """Returns another text as bytes, with the byte order mark and the newlines of this document."""
        mark = BYTE_ORDER_MARK if self.has_byte_order_mark else b""
        return mark + keep_newlines(self.text_as_written, text).encode()


# ---- the workspace -------------------------------------------------------------------------------------------------------


def create_workspace(root: Path) -> None:
    """Creates the folder of a workspace and those above it. Raises `Invalid` if it is a symbolic link."""
    with _translate_errors(str(root)):
        make_private_folder(root)
        if root.is_symlink():
            raise Invalid("workspace", f"{root} is a symbolic link", "Name the folder itself: memtape docs index DIR")


@contextmanager
def open_workspace(root: Path) -> Iterator[Workspace]:
    """Opens a workspace for reading, with the same care as for writing."""
    if not _HAS_DIR_FD:
        raise Invalid("workspace", "this system has no safe way to write into a folder", "Write notes on Linux or macOS")
    try:
        if root.resolve() != root:
            raise Invalid("workspace", f"{root} is behind a symbolic link now", "Put the folder back where it was")
        handle = os.open(root, _FOLDER)
    except OSError as error:
        problem = error.strerror or "cannot be opened"
        raise Invalid("workspace", f"{root}: {problem}", "Put the folder back, or index it where it is") from error
    try:
        yield Workspace(root, handle)
    finally:
        os.close(handle)


@contextmanager
def locked_workspace(root: Path, wait_seconds: float = LOCK_TIMEOUT_SECONDS) -> Iterator[Workspace]:
    """Opens a workspace for writing. No other process of memtape writes to it meanwhile."""
    with open_workspace(root) as workspace:
        # Missing on Windows, where `open_workspace` has already raised.
        import fcntl

        deadline = time.monotonic() + wait_seconds
        while True:
            try:
                fcntl.flock(workspace.handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise Locked(url=str(root), seconds=wait_seconds) from None
                time.sleep(0.01)
        # The lock is on the folder that was opened. If another folder has taken its place, the lock protects nothing.
        with _translate_errors(str(root)):
            locked, current = os.fstat(workspace.handle), os.stat(root, follow_symlinks=False)  # noqa: PTH116
        if not os.path.samestat(locked, current):
            raise Conflict("workspace", f"{root} was replaced during the wait for its lock", "Try again")
        # Closing the handle releases the lock.
        yield workspace


class Workspace:
    """The open folder of a workspace."""

    def __init__(self, root: Path, handle: int) -> None:
        self.root, self.handle = root, handle

    def read(self, path: str) -> FileContent | None:
        """Returns a document; None if there is no such file."""
        folders, name = split_path(path)
        with _translate_errors(path), self._open_folder(folders) as folder:
            return None if folder is None else _read(folder, name, path)

    def append(self, path: str, entry: NoteEntry) -> Citation:
        """Appends an entry to a document, unless it is there. Returns a citation of its lines."""
        folders, name = split_path(path)
        with _translate_errors(path), self._open_folder(folders, make=True) as folder:
            assert folder is not None
            for _ in range(MAX_APPEND_ATTEMPTS):
                content = _read(folder, name, path)
                if content is not None and (lines := entry.find_in(content.text)):
                    return cite(path, content.text, *lines)
                _append_entry(folder, name, path, content, entry)
        raise Conflict("path", f"another program keeps changing {path}", "Try again")

    def replace(self, path: str, before: FileContent | None, text: str) -> None:
        """Replaces what was read (None: no file) by a text. Raises `Conflict` if the file has changed since."""
        folders, name = split_path(path)
        if before is None:
            check_new_path(path)
        raw = text.encode() if before is None else before.encode(text)
        with _translate_errors(path), self._open_folder(folders, make=True) as folder:
            assert folder is not None
            _replace_file(folder, name, path, before, raw)

    @contextmanager
    def _open_folder(self, folders: Sequence[str], make: bool = False) -> Iterator[int | None]:
        """Opens a folder below the root, one step at a time; None if it is missing and not to be made."""
        handle: int | None = os.dup(self.handle)
        try:
            for name in folders:
                assert handle is not None
                inner = _open_subfolder(handle, name, make)
                os.close(handle)
                handle = inner
                if handle is None:
                    break
            yield handle
        finally:
            if handle is not None:
                os.close(handle)


# ---- folders and files by their handles ----------------------------------------------------------------------------------


def _open_subfolder(folder: int, name: str, make: bool) -> int | None:
    """Opens a folder in a folder, or makes it first; never through a link, nor into a virtual environment."""
    try:
        inner = os.open(name, _FOLDER, dir_fd=folder)
    except FileNotFoundError:
        if not make:
            return None
        with suppress(FileExistsError):
            os.mkdir(name, FOLDER_MODE, dir_fd=folder)
            os.fsync(folder)
        inner = os.open(name, _FOLDER, dir_fd=folder)
    if _exists(inner, VENV_MARKER):
        os.close(inner)
        raise Invalid("path", f"'{name}' is a virtual environment", "Write to another folder")
    return inner


def _exists(folder: int, name: str) -> bool:
    try:
        os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return True


def _open_file(folder: int, name: str, flags: int, path: str) -> int:
    """Opens a regular file in a folder. Raises `Invalid` for anything else, and for writing to a file with a second name."""
    handle = os.open(name, flags | _FILE, FILE_MODE, dir_fd=folder)
    status = os.fstat(handle)
    # A write would also change the file under its other name, which may be outside of the workspace.
    has_one_name = status.st_nlink == 1 or flags & os.O_ACCMODE == os.O_RDONLY
    if stat.S_ISREG(status.st_mode) and has_one_name:
        return handle
    os.close(handle)
    problem = "is another file too, by a hard link" if stat.S_ISREG(status.st_mode) else "is not a regular file"
    raise Invalid("path", f"{path} {problem}", "Write to another document")


def _read(folder: int, name: str, path: str) -> FileContent | None:
    """Returns a file of a folder; None if it is missing. Raises `Invalid` if it is too large or not UTF-8."""
    try:
        handle = _open_file(folder, name, os.O_RDONLY, path)
    except FileNotFoundError:
        return None
    with os.fdopen(handle, "rb") as file:
        status, raw = os.fstat(handle), file.read(MAX_FILE_BYTES + 1)
    if len(raw) > MAX_FILE_BYTES:
        raise Invalid("path", f"{path} has more than {MAX_FILE_BYTES:,} bytes", "Write to another document")
    try:
        if b"\x00" in raw or (raw[:2] in (b"\xff\xfe", b"\xfe\xff")):
            raise UnicodeError
        raw.decode("utf-8-sig")
    except UnicodeError:
        raise Invalid("path", f"{path} is not text in UTF-8", "Save it as UTF-8 first") from None
    return FileContent(raw, stat.S_IMODE(status.st_mode), (status.st_uid, status.st_gid), (status.st_dev, status.st_ino))


def _append_entry(folder: int, name: str, path: str, content: FileContent | None, entry: NoteEntry) -> None:
    """Appends an entry by one write at the end of a file.

    Does nothing if the file is no longer the one that was read (`content`; None: there was none). The caller then reads it again.
    """
    addition = normalize_newlines(entry.text_to_append(content.text if content else ""))
    raw = addition.replace("\n", main_newline(content.text_as_written) if content else "\n").encode()
    if len(raw) + len(content.raw if content else b"") > MAX_FILE_BYTES:
        raise Invalid("path", f"{path} is full: it would have more than {MAX_FILE_BYTES:,} bytes", "Name another path")
    flags = os.O_WRONLY | os.O_APPEND | (0 if content else os.O_CREAT | os.O_EXCL)
    # The error that means that the file was created or deleted since it was read.
    file_changed: type[OSError] = FileExistsError if content is None else FileNotFoundError
    try:
        handle = _open_file(folder, name, flags, path)
    except file_changed:
        return
    try:
        status = os.fstat(handle)
        if content and ((status.st_dev, status.st_ino) != content.inode or status.st_size != len(content.raw)):
            return
        _write_whole(handle, raw, status.st_size)
        if content is None:
            os.fsync(folder)
    except OSError:
        if content is None:
            os.unlink(name, dir_fd=folder)
        raise
    finally:
        os.close(handle)


def _write_whole(handle: int, raw: bytes, size: int) -> None:
    """Writes all bytes at once and syncs them to disk, or leaves the file as it was; `size` is its size before."""
    written = 0
    try:
        written = os.write(handle, raw)
        if written < len(raw):
            raise OSError(errno.ENOSPC, "No space left on device")
        os.fsync(handle)
    except OSError:
        # Only if nobody else has appended meanwhile: their words must not be cut off.
        if os.fstat(handle).st_size == size + written:
            os.ftruncate(handle, size)
        raise


def _replace_file(folder: int, name: str, path: str, before: FileContent | None, raw: bytes) -> None:
    """Replaces a file atomically. Raises `Conflict` if it is no longer what was read (`before`; None: there was none)."""
    part = f".memtape-{make_id(name)}.part"
    # Left over only by a crash.
    with suppress(FileNotFoundError):
        os.unlink(part, dir_fd=folder)
    handle = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _FILE, FILE_MODE, dir_fd=folder)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(raw)
            file.flush()
            if before is not None:
                with suppress(PermissionError):
                    os.fchown(handle, *before.owner)
                os.fchmod(handle, before.mode)
            os.fsync(handle)
        # Compare as late as possible: an editor may have saved while the new text was written.
        now = _read(folder, name, path)
        if (now and now.raw) != (before and before.raw):
            raise Conflict("path", f"another program has just changed {path}", "Look at it, and try again")
        # A rename would replace a file that has appeared in the meantime; a link never does.
        if before is None and _link(folder, part, name):
            os.unlink(part, dir_fd=folder)
        else:
            os.rename(part, name, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:
        with suppress(FileNotFoundError):
            os.unlink(part, dir_fd=folder)
        raise
    os.fsync(folder)


def _link(folder: int, part: str, name: str) -> bool:
    """Gives a file a name, never over another file. Returns False if the file system has no hard links."""
    try:
        os.link(part, name, src_dir_fd=folder, dst_dir_fd=folder, follow_symlinks=False)
    except OSError as error:
        if error.errno in (errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP):
            return False
        raise
    return True


# ---- errors of the system ------------------------------------------------------------------------------------------------


@contextmanager
def _translate_errors(path: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise _memtape_error(error, path) from error


def _memtape_error(error: OSError, path: str) -> MemtapeError:
    """Returns an error of the system as one of memtape's."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        return DiskFull(url=path)
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return ReadOnly(url=path)
    if error.errno in (errno.ELOOP, errno.ENOTDIR):
        return Invalid(
            "path", f"{path} leads through a symbolic link or something that is no folder", "Write to another document"
        )
    if error.errno in (errno.EISDIR, errno.ENXIO, errno.EEXIST, errno.ENAMETOOLONG, errno.ENODEV):
        return Invalid("path", f"{path} cannot be a document here: {error.strerror}", "Write to another document")
    return StoreFailure(url=path, problem=error.strerror or str(error))
