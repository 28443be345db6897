"""Which documents may be written: a plain relative path to a text, and for notes only in the folders of an agent."""

from __future__ import annotations

import os
import unicodedata

from memtape.core.brief.sanitize import HIDDEN
from memtape.documents.sources import IGNORED_FOLDERS, MAX_FILE_BYTES, TEXT_SUFFIXES, classify_path
from memtape.errors import Invalid

NEW_SUFFIXES = frozenset({".md", ".txt"})  # of new documents
NOTE_FOLDERS = frozenset({"journal", "memory", "notes", "learnings"})  # whose documents an agent may append to
MAX_PATH_LENGTH = 1_000  # characters
MAX_PART_BYTES = 200
_IGNORED = frozenset(name.casefold() for name in IGNORED_FOLDERS)


def split_path(path: str) -> tuple[tuple[str, ...], str]:
    """Returns the folders and the name of a path. Raises `Invalid` if it leads out of the workspace or is not a text document.

    >>> split_path("journal/2026/may.md")
    (('journal', '2026'), 'may.md')
    >>> split_path("journal/../SOUL.md")
    Traceback (most recent call last):
    memtape.errors.Invalid: path: '..' leads elsewhere. Name a document within the workspace, like journal/2026-05-04.md
    """
    parts = path.split("/")
    problem = next((problem for part in parts if (problem := _part_problem(part))), None)
    if problem or len(path) > MAX_PATH_LENGTH:
        raise Invalid("path", problem or "is too long", "Name a document within the workspace, like journal/2026-05-04.md")
    if _suffix(parts[-1]) not in TEXT_SUFFIXES:
        endings = " or ".join(sorted(NEW_SUFFIXES))
        raise Invalid("path", f"'{parts[-1]}' is not a text document", f"Write to one that ends in {endings}")
    return tuple(parts[:-1]), parts[-1]


def _part_problem(part: str) -> str | None:
    """Returns what is wrong with a part of a path; None if nothing is."""
    if part == "":
        return "is empty, begins with a slash or has two in a row"
    if part in (".", ".."):
        return f"'{part}' leads elsewhere"
    if any(unicodedata.category(sign) in HIDDEN for sign in part):
        return "has invisible characters"
    if "\\" in part or part != part.strip() or part.endswith("."):
        return f"'{part}' means another file on other systems"
    if len(part.encode()) > MAX_PART_BYTES:
        return f"has a part of more than {MAX_PART_BYTES} bytes"
    if part.startswith(".") or part.casefold() in _IGNORED:
        return f"'{part}' is hidden or not indexed"
    return None


def check_new_path(path: str) -> None:
    """Raises `Invalid` if a new document would not be plain text, or if some file systems take its name for another one.

    >>> check_new_path("memory/\uff33\uff2f\uff35\uff2c.md")
    Traceback (most recent call last):
    memtape.errors.Invalid: path: has characters that look like others. Write it in plain letters: memory/SOUL.md
    """
    _, name = split_path(path)
    if (plain := unicodedata.normalize("NFKC", path)) != path:
        raise Invalid("path", "has characters that look like others", f"Write it in plain letters: {plain}")
    if _suffix(name) not in NEW_SUFFIXES:
        raise Invalid("path", f"'{name}' would be a new document", f"Let it end in {' or '.join(sorted(NEW_SUFFIXES))}")


def check_note_path(path: str) -> None:
    """Raises `Invalid` if an agent may not append to a document: rules, strategies, reports, decisions, transcripts."""
    check_new_path(path)
    folders, _ = split_path(path)
    if not folders or folders[0].lower() not in NOTE_FOLDERS or classify_path(path)[1] != 3:
        raise Invalid("path", f"notes do not go into '{path}'",
                      "Name a .md below journal/, memory/, notes/ or learnings/, or use propose_edit")  # fmt: skip


def check_size(path: str, text: str) -> None:
    """Raises `Invalid` if a text is too large to be indexed."""
    if len(text.encode()) > MAX_FILE_BYTES:
        raise Invalid("path", f"{path} would have more than {MAX_FILE_BYTES:,} bytes", "Write to another document")


def _suffix(name: str) -> str:
    return os.path.splitext(name)[1].lower()  # noqa: PTH122  a name, not a path
