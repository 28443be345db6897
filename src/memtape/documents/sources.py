"""Which files of a workspace are read into document memory, of what type they are, and who stands behind them.

A workspace is a folder that the owner and the agent share: the owner's rules at its top, the agent's journal and notes below,
reports that memtape computed, texts that came from outside. The path says which is which, and with that the tier: owner's rules
T1, computed reports T2, what a model wrote T3, what came from outside T4. A rule counts as the owner's only where the write
policy keeps an agent from writing: `journal/SOUL.md` is a note.

A walk follows no symbolic link, enters no version control, virtual environment or package folder, and reads regular files only,
up to a size: the workspace may hold anything, and what is left out for a reason is told.

Not all that is indexed lies in a folder: a source may list its documents itself, and they are made when they are read. Paths that
begin with `@decisions/` are kept for the pages that memtape makes of the log.

>>> classified("TRADING_MANUAL.md"), classified("journal/2026-05/12.md"), classified("journal/SOUL.md")
(('rules', 1), ('journal', 3), ('journal', 3))
>>> classified("research/web/fomc.md"), classified("memory/TRADE-LOG.md"), classified("runs/r1/transcript.jsonl")
(('external', 4), ('log', 3), ('transcript', 3))
"""

from __future__ import annotations

import os
import re
import stat
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from memtape.errors import Invalid

TEXTS = frozenset({".md", ".markdown", ".mdx", ".txt", ".rst"})
RECORDS = frozenset({".jsonl", ".json", ".ndjson"})  # read only where runs and decisions are kept
IGNORED = frozenset({
    "CVS", "node_modules", "bower_components", "__pycache__", "site-packages", "venv", "env", "virtualenv",
})  # and what begins with a dot  # fmt: skip
ENVIRONMENT = "pyvenv.cfg"  # a folder with this in it is a virtual environment, whatever its name
TRACES = "@decisions/"  # no file of a workspace may be named so
FILE_BYTES = 4_000_000
FILES = 200_000
RULES = frozenset({
    "SOUL.MD", "TRADING_MANUAL.MD", "TRADING-MANUAL.MD", "MANUAL.MD", "RULES.MD", "AVOID.MD", "LIMITS.MD", "CLAUDE.MD",
    "AGENTS.MD",
})  # fmt: skip
LOGS = frozenset({"TRADE-LOG.MD", "TRADE_LOG.MD", "RESEARCH-LOG.MD", "RESEARCH_LOG.MD", "WEEKLY-REVIEW.MD", "WEEKLY_REVIEW.MD"})
_STRATEGY = re.compile(r"(?:trading[-_])?strategy\b|strategy[-_.]|trading[-_]strategy", re.IGNORECASE)
# The folder that decides, as (type, tier); the first one on the path that is known does.
FOLDERS = {
    "journal": ("journal", 3), "journals": ("journal", 3), "diary": ("journal", 3),
    "runs": ("transcript", 3), "transcripts": ("transcript", 3), "sessions": ("transcript", 3), "traces": ("transcript", 3),
    "decisions": ("decision", 3), "decision": ("decision", 3),
    "reports": ("report", 3), "backtests": ("report", 3), "backtest": ("report", 3),
    "research": ("external", 4), "external": ("external", 4), "news": ("external", 4), "inbox": ("external", 4),
    "downloads": ("external", 4), "web": ("external", 4), "sources": ("external", 4),
    "memory": ("memory", 3), "notes": ("note", 3), "learnings": ("note", 3),
    "strategies": ("strategy", 1), "strategy": ("strategy", 1),
    "playbooks": ("playbook", 1), "playbook": ("playbook", 1), "runbooks": ("runbook", 1), "runbook": ("runbook", 1),
    "routines": ("playbook", 1),
}  # fmt: skip
SETTLED_NS = 10_000_000  # a file system's clock may tick as slowly as this


@dataclass(frozen=True, slots=True)
class DocumentFolder:
    """A folder to read. Documents of a shared one are named with its prefix, so that they cannot be taken for the agent's own."""

    root: Path
    prefix: str = ""
    type: str = ""  # of all its files, where the folder itself says it: report, playbook, transcript, ...
    tier: int | None = None
    listed: Callable[[], Iterable[FileEntry | SkippedFile]] | None = field(
        default=None, compare=False, repr=False
    )  # instead of a walk


@dataclass(frozen=True, slots=True)
class FileEntry:
    """A file as the file system tells of it, before anything of it is read."""

    path: str  # within the workspace, with /
    file: Path
    type: str
    tier: int
    size: int
    mtime_ns: int
    ctime_ns: int
    inode: int
    text: Callable[[], str | SkippedFile] | None = field(default=None, compare=False, repr=False)  # of what is not a file

    @property
    def signature(self) -> tuple[int, int, int, int]:
        """What cannot stay the same when the text changes."""
        return self.size, self.mtime_ns, self.ctime_ns, self.inode


@dataclass(frozen=True, slots=True)
class SkippedFile:
    """A file that should have been read and was not, or a folder (its path ends with /) that could not be entered."""

    path: str
    problem: str
    unseen: bool = field(default=False, compare=False)  # whether it is as it was cannot be told: what was indexed of it stays

    def hides(self, path: str) -> bool:
        """Whether a document may still be there though no walk came by it.

        >>> closed = SkippedFile("journal/", "cannot be entered: Permission denied", unseen=True)
        >>> closed.hides("journal/1.md"), closed.hides("journal.md"), SkippedFile("big.md", "too large").hides("big.md")
        (True, False, False)
        """
        return self.unseen and (path.startswith(self.path) if self.path.endswith("/") else path == self.path)


def classified(path: str) -> tuple[str, int]:
    """The type and the tier of a document, by its path in the workspace."""
    parts = PurePosixPath(path).parts
    name, folders = parts[-1].upper(), [part.lower() for part in parts[:-1]]
    where = next((FOLDERS[folder] for folder in folders if folder in FOLDERS), None)
    owned = where is None or folders == ["memory"]  # the top of the workspace, or the memory folder of the common layout
    if owned and name in RULES:
        return "rules", 1
    if owned and _STRATEGY.match(name) and not name.endswith(tuple(ext.upper() for ext in RECORDS)):
        return "strategy", 1
    if name in LOGS:
        return "log", 3
    if "decision" in name.lower() and where is not None and where[0] == "report":
        return "decision", 3
    return where or ("note", 3)


def walk(source: DocumentFolder) -> Iterator[FileEntry | SkippedFile]:
    """The files of a source in the order of their paths, and those that were left out with the reason."""
    if source.listed is not None:
        yield from source.listed()
        return
    root = source.root.absolute()
    if not root.is_dir():
        raise Invalid("dir", f"{root} is not a folder", "Name the folder of the workspace")
    count = posing = 0
    for entry, path in _entries(str(root), ""):
        if isinstance(entry, OSError):
            if not path:  # not an empty workspace, and nothing at all is known of it
                raise Invalid("dir", f"{root} cannot be entered ({entry.strerror})", "Let memtape read it")
            yield SkippedFile(f"{source.prefix}{path}", f"cannot be entered: {entry.strerror}", unseen=True)
            continue
        shown = f"{source.prefix}{path}"
        kind, tier = classified(path)
        if source.type:
            kind, tier = source.type, source.tier or tier
        if not _is_wanted(path, kind):
            continue
        if shown.startswith(TRACES):
            posing += 1
            continue
        found = _seen(entry, shown, kind, source.tier or tier)
        if found is None:
            continue
        count += 1
        if count > FILES:
            yield SkippedFile(shown, f"more than {FILES:,} files: this and those after it are not indexed")
            return
        yield found
    if posing:
        yield SkippedFile(TRACES, f"{posing:,} files named like memtape's own pages are not indexed: rename their folder")


def _is_wanted(path: str, kind: str) -> bool:
    extension = PurePosixPath(path).suffix.lower()
    return extension in TEXTS or (extension in RECORDS and kind in ("transcript", "decision", "report"))


def _entries(folder: str, path: str) -> Iterator[tuple[os.DirEntry[str] | OSError, str]]:
    """Files below a folder, sorted; links too, to be told of but never followed, and folders that are closed to us."""
    try:
        entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
    except OSError as error:
        if not path or not isinstance(error, FileNotFoundError | NotADirectoryError):  # one that went meanwhile is gone
            yield error, path
        return
    if any(entry.name == ENVIRONMENT for entry in entries):
        return
    for entry in entries:
        inner = f"{path}{entry.name}"
        if entry.is_dir(follow_symlinks=False):
            if _is_entered(entry.name):
                yield from _entries(entry.path, f"{inner}/")
        elif not entry.name.startswith("."):
            yield entry, inner


def _is_entered(name: str) -> bool:
    return name not in IGNORED and not name.startswith(".")


def is_there(root: Path) -> bool:
    """Whether a root is the folder that it was when it was named, and can be looked into."""
    return not hindrance(root)


def hindrance(root: Path) -> str:
    """Why a root cannot be read: it is gone, a link to another place now, or closed to us; nothing where it can.

    >>> hindrance(Path("/proc/nothing")), hindrance(Path("/"))
    ('is not there', '')
    """
    try:
        if not root.is_dir():
            return "is not there"
        if root.resolve() != root.absolute():
            return "is a link to another place now"
        os.scandir(root).close()
    except OSError as error:
        return f"cannot be entered: {error.strerror}"
    return ""


def folders(root: str) -> Iterator[str]:
    """The folders that a walk enters, the root first; those that went away or are closed to us are left out."""
    waiting = [root]
    while waiting:
        folder = waiting.pop()
        try:
            with os.scandir(folder) as entries:
                inner = [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries]
        except OSError:
            continue
        if (ENVIRONMENT, False) in inner:
            continue
        yield folder
        waiting += [f"{folder}/{name}" for name, is_folder in inner if is_folder and _is_entered(name)]


def may_matter(name: str) -> bool:
    """Whether a change of a file so named can change what is indexed: not one of a database, a program or an editor's own.

    >>> [may_matter(name) for name in ("12.md", "run.jsonl", "pyvenv.cfg", "desk.docs.db-wal", ".12.md.swp", "12.md~")]
    [True, True, True, False, False, False]
    """
    return name == ENVIRONMENT or (not name.startswith(".") and PurePosixPath(name).suffix.lower() in TEXTS | RECORDS)


def _seen(entry: os.DirEntry[str], path: str, kind: str, tier: int) -> FileEntry | SkippedFile | None:
    try:
        path.encode()
        found = entry.stat(follow_symlinks=False)
    except UnicodeEncodeError:
        return SkippedFile(path.encode("utf-8", "replace").decode(), "its name is not text")
    except FileNotFoundError:
        return None  # it went away between two looks
    except OSError as error:  # its name may be read and nothing else, as in a folder that may be listed and not entered
        return SkippedFile(path, f"cannot be looked at: {error.strerror}", unseen=True)
    if stat.S_ISLNK(found.st_mode):
        return SkippedFile(path, "a symbolic link: not followed")
    if not stat.S_ISREG(found.st_mode):
        return None
    if found.st_size > FILE_BYTES:
        return SkippedFile(path, f"{found.st_size:,} bytes: more than {FILE_BYTES:,} are not read")
    return FileEntry(path, Path(entry.path), kind, tier, found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino)


def read_text_file(seen: FileEntry) -> str | SkippedFile:
    """The text of a file, in whatever common encoding it is.

    A file written within the last tick of the file system's clock could change again and look the same: that tick is waited for.
    """
    if seen.text is not None:
        return seen.text()
    age = time.time_ns() - seen.ctime_ns
    if 0 <= age < SETTLED_NS:
        time.sleep((SETTLED_NS - age) / 1e9)
    try:
        handle = os.open(seen.file, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0))
    except OSError as error:
        return SkippedFile(seen.path, f"cannot be read: {error.strerror}")
    with os.fdopen(handle, "rb") as file:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            return SkippedFile(seen.path, "not a regular file")
        content = file.read(FILE_BYTES + 1)
    if len(content) > FILE_BYTES:
        return SkippedFile(seen.path, f"more than {FILE_BYTES:,} bytes are not read")
    text = text_of(seen.path, content)
    return text if text is not None else SkippedFile(seen.path, "not text")


_ESCAPE = re.compile(r"\\(?:([nrtbf])|((?:u[0-9a-fA-F]{4}(?:\\(?=u[0-9a-fA-F]{4}))?)+)|.)")


def text_of(path: str, content: bytes) -> str | None:
    """What a file says. In records the escapes of JSON are read as what they stand for: the word behind a `\\n` begins with no n.

    A line stays a line, so that what is cited is found in the file where the citation says.

    >>> print(text_of("runs/1.jsonl", b'{"say": "exit\\\\nnow \\\\u00fcber \\\\ud83d\\\\udcc8 C:\\\\\\\\new \\\\"x\\\\""}'))
    {"say": "exit now über 📈 C:\\\\new \\"x\\""}
    """
    text = decoded(content)
    if text is None or PurePosixPath(path).suffix.lower() not in RECORDS or "\\" not in text:
        return text
    return _ESCAPE.sub(_unescaped, text)


def _unescaped(found: re.Match[str]) -> str:
    if found[1]:
        return " "
    if not found[2]:
        return found[0]  # an escaped quotation mark or backslash: what holds the record together stays
    units = bytes.fromhex(found[2].replace("\\", "").replace("u", ""))
    text = units.decode("utf-16-be", "replace")
    return "".join(each if each.isprintable() and each not in '\\"' else " " for each in text)


def decoded(content: bytes) -> str | None:
    """Bytes as text; nothing where they are none.

    >>> decoded("Überkauft".encode("utf-16")), decoded("Überkauft".encode("cp1252")), decoded(bytes([0, 1, 2]))
    ('Überkauft', 'Überkauft', None)
    """
    for mark, encoding in ((b"\xef\xbb\xbf", "utf-8-sig"), (b"\xff\xfe", "utf-16"), (b"\xfe\xff", "utf-16")):
        if content.startswith(mark):
            return content.decode(encoding, "replace")
    if b"\x00" in content:
        return None
    try:
        return content.decode()
    except UnicodeDecodeError:
        return content.decode("cp1252", "replace")
