"""Which files of a workspace are indexed, of what type they are, and who wrote them.

A workspace is a folder that the owner and the agent share: the owner's rules at its top, the agent's journal and notes below,
reports that memtape computed, texts from outside. The path decides the type and the tier: owner's rules T1, computed reports T2,
what a model wrote T3, what came from outside T4. A rule counts as the owner's only where the write policy keeps agents from
writing: `journal/SOUL.md` is a note.

A walk follows no symbolic link, enters no version control, virtual environment or package folder, and lists regular files only,
because a workspace may hold anything. What is left out is reported, or counted by its kind. A file of records is listed wherever
it lies: outside of the folders of runs, decisions and reports it is indexed if it turns out to be a transcript.

Not every document is a file: a source may list its documents itself, and their text is made when it is read. Paths that begin
with `@decisions/` or `@runs/` are reserved for the pages that memtape renders from the log.

>>> classify_path("TRADING_MANUAL.md"), classify_path("journal/2026-05/12.md"), classify_path("journal/SOUL.md")
(('rules', 1), ('journal', 3), ('journal', 3))
>>> classify_path("research/web/fomc.md"), classify_path("memory/TRADE-LOG.md"), classify_path("runs/r1/transcript.jsonl")
(('external', 4), ('log', 3), ('transcript', 3))
"""

from __future__ import annotations

import os
import re
import stat
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import field, replace
from pathlib import Path, PurePosixPath

from memtape.core.value_class import dataclass
from memtape.errors import Invalid

TEXT_SUFFIXES = frozenset({".md", ".markdown", ".mdx", ".txt", ".rst", ".log"})
RECORD_SUFFIXES = frozenset({".jsonl", ".json", ".ndjson"})  # in folders of runs, decisions and reports, and transcripts
# Indexed for their metrics only, in folders of reports and if their content is the report of an engine.
STATISTICS_SUFFIXES = frozenset({".csv", ".tsv", ".html", ".htm", ".zip"})
_STATISTICS = re.compile(r"stats|statistics|metrics|summary|tearsheet|report|quantstats|vectorbt|backtest")
# Folders whose name begins with a dot are ignored too.
IGNORED_FOLDERS = frozenset({
    "CVS", "node_modules", "bower_components", "__pycache__", "site-packages", "venv", "env", "virtualenv",
})  # fmt: skip
VENV_MARKER = "pyvenv.cfg"  # a folder that contains this file is a virtual environment, whatever its name
# Prefixes of the pages that are rendered from the log, and what they are; no file of a workspace may have such a path.
DECISION_PAGES, RUN_PAGES = "@decisions/", "@runs/"
LOG_PAGES = (DECISION_PAGES, RUN_PAGES)
PAGE_TYPE, PAGE_TIER = "trace", 3
# Problems of the whole index are stored like those of files, under these names instead of a path.
SYNC_PROBLEM, WATCH_PROBLEM = "@sync", "@watch"
MAX_FILE_BYTES = 4_000_000  # larger files are read in parts
MAX_LARGE_FILE_BYTES = 2_000_000_000
RECORD_TYPES = ("transcript", "decision", "report")
MAX_FILES = 200_000
RULE_FILES = frozenset({
    "SOUL.MD", "TRADING_MANUAL.MD", "TRADING-MANUAL.MD", "MANUAL.MD", "RULES.MD", "AVOID.MD", "LIMITS.MD", "CLAUDE.MD",
    "AGENTS.MD",
})  # fmt: skip
LOG_FILES = frozenset(
    {"TRADE-LOG.MD", "TRADE_LOG.MD", "RESEARCH-LOG.MD", "RESEARCH_LOG.MD", "WEEKLY-REVIEW.MD", "WEEKLY_REVIEW.MD"}
)
_STRATEGY = re.compile(r"(?:trading[-_])?strategy\b|strategy[-_.]|trading[-_]strategy", re.IGNORECASE)
# What an agent keeps about a strategy is its own, whatever the file is called.
_WORKING_FILE = re.compile(
    r"[-_. ](?:log|notes?|journal|reviews?|results?|status|ideas?|draft|todo|scratch|performance|report|summary)\b",
    re.IGNORECASE,
)
# Type and tier by folder; the first folder on the path that is listed here decides.
FOLDER_TYPES = {
    "journal": ("journal", 3), "journals": ("journal", 3), "diary": ("journal", 3),
    "runs": ("transcript", 3), "transcripts": ("transcript", 3), "sessions": ("transcript", 3), "traces": ("transcript", 3),
    "decisions": ("decision", 3), "decision": ("decision", 3),
    "backtest_results": ("report", 3), "backtest-results": ("report", 3),
    "reports": ("report", 3), "backtests": ("report", 3), "backtest": ("report", 3),
    "research": ("external", 4), "external": ("external", 4), "news": ("external", 4), "inbox": ("external", 4),
    "downloads": ("external", 4), "web": ("external", 4), "sources": ("external", 4),
    "memory": ("memory", 3), "notes": ("note", 3), "learnings": ("note", 3),
    "strategies": ("strategy", 1), "strategy": ("strategy", 1),
    "playbooks": ("playbook", 1), "playbook": ("playbook", 1), "runbooks": ("runbook", 1), "runbook": ("runbook", 1),
    "routines": ("playbook", 1),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class DocumentFolder:
    """A folder to index. The paths of a shared folder begin with its prefix, so they cannot be taken for the agent's own."""

    root: Path
    prefix: str = ""
    type: str = ""  # of all its files, if the folder itself decides: report, playbook, transcript, ...
    tier: int | None = None
    # Lists the documents of a source that is not a folder on disk; replaces the walk.
    list_entries: Callable[[], Iterable[FileEntry | SkippedFile]] | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class FileEntry:
    """A file as the file system describes it, before its text is read."""

    path: str  # within the workspace, with /
    file: Path
    type: str
    tier: int
    size: int
    mtime_ns: int
    ctime_ns: int
    inode: int
    if_transcript: bool = False  # it is indexed only if its content is a transcript
    if_report: bool = False  # it is indexed only if its content is the report of a backtest
    # Makes the text of a document that is not a file.
    make_text: Callable[[], str | SkippedFile] | None = field(default=None, compare=False, repr=False)

    @property
    def signature(self) -> tuple[int, int, int, int]:
        """Values of which at least one changes whenever the text changes."""
        return self.size, self.mtime_ns, self.ctime_ns, self.inode


@dataclass(frozen=True, slots=True)
class SkippedFile:
    """A file that should have been indexed and was not, or a folder (its path ends with /) that could not be entered."""

    path: str
    problem: str
    # Nobody can tell if it is still there. What was indexed of it stays.
    inaccessible: bool = field(default=False, compare=False)
    files: int = 1  # how many files it stands for
    is_ordinary: bool = False  # nothing is wrong with the file: it is only counted

    @property
    def reason(self) -> str:
        """Why it was skipped, in words that many files share.

        >>> SkippedFile("a.md", "cannot be read: Permission denied").reason, SkippedFile("b.md", "not text").reason
        ('cannot be read', 'not text')
        >>> SkippedFile("c.md", "has 9,000,000,000 bytes: files over 2,000,000,000 are not read").reason
        'too large'
        >>> SkippedFile("/desk", "this folder is not there; since 2026-05-12T12:00:00Z").reason
        'this folder is not there'
        """
        if self.problem.startswith("has "):
            return "too large"
        return "too many files" if self.problem.startswith("more than ") else re.split("[:;]", self.problem, maxsplit=1)[0]

    def hides(self, path: str) -> bool:
        """Returns True if a document may still exist although the walk did not find it.

        >>> closed = SkippedFile("journal/", "cannot be entered: Permission denied", inaccessible=True)
        >>> closed.hides("journal/1.md"), closed.hides("journal.md"), SkippedFile("big.md", "too large").hides("big.md")
        (True, False, False)
        """
        return self.inaccessible and (path.startswith(self.path) if self.path.endswith("/") else path == self.path)


def classify_path(path: str) -> tuple[str, int]:
    """Returns the type and the tier of a document by its path in the workspace."""
    parts = PurePosixPath(path).parts
    name, folders = parts[-1].upper(), [part.lower() for part in parts[:-1]]
    by_folder = None
    for folder in folders:
        # The first folder decides, but an agent's journal below the owner's strategies is still the agent's.
        if folder in FOLDER_TYPES and (by_folder is None or FOLDER_TYPES[folder][1] > max(by_folder[1], 2)):
            by_folder = FOLDER_TYPES[folder]
    # The top of the workspace, or the memory folder of the common layout.
    is_owners = by_folder is None or folders == ["memory"]
    if is_owners and name in RULE_FILES:
        return "rules", 1
    is_strategy = bool(_STRATEGY.match(name)) and not _WORKING_FILE.search(name)
    if is_owners and is_strategy and not name.endswith(tuple(suffix.upper() for suffix in RECORD_SUFFIXES)):
        return "strategy", 1
    if name in LOG_FILES:
        return "log", 3
    if "decision" in name.lower() and by_folder is not None and by_folder[0] == "report":
        return "decision", 3
    return by_folder or ("note", 3)


def walk(source: DocumentFolder) -> Iterator[FileEntry | SkippedFile]:
    """Yields the files of a source in the order of their paths, and those that are left out with the reason."""
    if source.list_entries is not None:
        yield from source.list_entries()
        return
    root = source.root.absolute()
    if not root.is_dir():
        raise Invalid("dir", f"{root} is not a folder", "Name the folder of the workspace")
    count, reserved_names, other_kinds = 0, Counter[str](), Counter[str]()
    for entry, path in _entries(str(root), ""):
        if isinstance(entry, OSError):
            # A root that cannot be entered is not an empty workspace: without this error all of its documents would be dropped.
            if not path:
                raise Invalid("dir", f"{root} cannot be entered ({entry.strerror})", "Let memtape read it")
            yield SkippedFile(f"{source.prefix}{path}", f"cannot be entered: {entry.strerror}", inaccessible=True)
            continue
        shown_path = f"{source.prefix}{path}"
        kind, tier = classify_path(path)
        if source.type:
            kind, tier = source.type, source.tier or tier
        suffix = PurePosixPath(path).suffix.lower()
        may_be_report = kind == "report" and suffix in STATISTICS_SUFFIXES
        if suffix not in TEXT_SUFFIXES | RECORD_SUFFIXES and not may_be_report:
            other_kinds[suffix] += entry.is_file(follow_symlinks=False)
            continue
        if shown_path.startswith(LOG_PAGES):
            reserved_names[f"{shown_path.partition('/')[0]}/"] += 1
            continue
        found = _file_entry(entry, shown_path, kind, source.tier or tier)
        if found is None:
            continue
        if isinstance(found, FileEntry) and suffix in RECORD_SUFFIXES and kind not in RECORD_TYPES:
            # Whatever its folder says of notes: a conversation is no rule of the owner.
            found = replace(found, type="transcript", tier=max(found.tier, 3), if_transcript=True)
        if isinstance(found, FileEntry) and may_be_report:
            found = replace(found, if_report=True)
        count += 1
        if count > MAX_FILES:
            yield SkippedFile(shown_path, f"more than {MAX_FILES:,} files: this one and those after it are not indexed")
            return
        yield found
    for suffix, files in sorted((+other_kinds).items()):
        problem = f"no kind of text that is indexed: {suffix or 'no ending'}"
        yield SkippedFile(f"{source.prefix}*{suffix}", problem, files=files, is_ordinary=True)
    for reserved, files in reserved_names.items():
        yield SkippedFile(reserved, f"{files:,} files named like memtape's own pages are not indexed: rename their folder")


def _is_statistics(path: str) -> bool:
    """Returns True if a table or page is called like a report of a backtest."""
    name = PurePosixPath(path)
    return name.suffix.lower() in STATISTICS_SUFFIXES and bool(_STATISTICS.search(name.stem.lower()))


def _entries(folder: str, path: str) -> Iterator[tuple[os.DirEntry[str] | OSError, str]]:
    """Yields the files below a folder, sorted; symbolic links too, to be reported but never followed.

    Yields the error in place of the entries of a folder that cannot be entered.
    """
    try:
        entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
    except OSError as error:
        # A subfolder that was deleted since its parent was listed is simply gone.
        if not path or not isinstance(error, FileNotFoundError | NotADirectoryError):
            yield error, path
        return
    if any(entry.name == VENV_MARKER for entry in entries):
        return
    for entry in entries:
        inner_path = f"{path}{entry.name}"
        if entry.is_dir(follow_symlinks=False):
            if _is_entered(entry.name):
                yield from _entries(entry.path, f"{inner_path}/")
        elif not entry.name.startswith("."):
            yield entry, inner_path


def _is_entered(name: str) -> bool:
    return name not in IGNORED_FOLDERS and not name.startswith(".")


def is_readable_folder(root: Path) -> bool:
    """Returns True if a root is still the folder that was named, and can be entered."""
    return not folder_problem(root)


def folder_problem(root: Path) -> str:
    """Returns why a root cannot be indexed: it is missing, is now a link, or cannot be entered. Empty if it can.

    >>> folder_problem(Path("/proc/nothing")), folder_problem(Path("/"))
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


def walked_folders(root: str) -> Iterator[str]:
    """Yields the folders that a walk enters, the root first; not those that are missing or cannot be entered."""
    waiting = [root]
    while waiting:
        folder = waiting.pop()
        try:
            with os.scandir(folder) as entries:
                inner = [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries]
        except OSError:
            continue
        if (VENV_MARKER, False) in inner:
            continue
        yield folder
        waiting += [f"{folder}/{name}" for name, is_folder in inner if is_folder and _is_entered(name)]


def affects_index(name: str) -> bool:
    """Returns True if a change of a file with this name can change the index: not a database, a program or an editor's own file.

    Tables change often and are rarely reports: one that is not called like a report waits for the next sync.

    >>> [affects_index(name) for name in ("12.md", "run.jsonl", "pyvenv.cfg", "desk.docs.db-wal", ".12.md.swp", "12.md~")]
    [True, True, True, False, False, False]
    """
    suffix = PurePosixPath(name).suffix.lower()
    is_read = suffix in TEXT_SUFFIXES | RECORD_SUFFIXES or _is_statistics(name)
    return name == VENV_MARKER or (not name.startswith(".") and is_read)


def _file_entry(entry: os.DirEntry[str], path: str, kind: str, tier: int) -> FileEntry | SkippedFile | None:
    """Returns a file to index or why it is skipped; None if it is not a regular file or was deleted meanwhile."""
    try:
        path.encode()
        status = entry.stat(follow_symlinks=False)
    except UnicodeEncodeError:
        return SkippedFile(path.encode("utf-8", "replace").decode(), "its name is not valid UTF-8")
    except FileNotFoundError:
        return None
    except OSError as error:
        # A folder may allow listing names and nothing else.
        return SkippedFile(path, f"cannot be looked at: {error.strerror}", inaccessible=True)
    if stat.S_ISLNK(status.st_mode):
        return SkippedFile(path, "a symbolic link: not followed")
    if not stat.S_ISREG(status.st_mode):
        return None
    if status.st_size > MAX_LARGE_FILE_BYTES:
        return SkippedFile(path, f"has {status.st_size:,} bytes: files over {MAX_LARGE_FILE_BYTES:,} are not read")
    return FileEntry(path, Path(entry.path), kind, tier, status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino)
