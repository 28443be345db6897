"""The text of a file: read without following links, decoded, and refused if it is too large or not text."""

from __future__ import annotations

import os
import re
import stat
import time
from pathlib import Path, PurePosixPath

from memtape.documents.sources import MAX_FILE_BYTES, RECORD_SUFFIXES, FileEntry, SkippedFile

NOT_TEXT = "not text"  # a file with this problem is not read again until its entry changes
CLOCK_TICK_NS = 10_000_000  # the clock of a file system may be as coarse as this
_ESCAPE = re.compile(r"\\(?:([nrtbf])|((?:u[0-9a-fA-F]{4}(?:\\(?=u[0-9a-fA-F]{4}))?)+)|.)")


def read_text_file(entry: FileEntry) -> str | SkippedFile:
    """Returns the text of a file in any common encoding, or why it cannot be read."""
    if entry.make_text is not None:
        return entry.make_text()
    # A file written within the last tick of the file system's clock could change again and still look the same. Wait for the
    # next tick, so that the text that is read belongs to the entry.
    age = time.time_ns() - entry.ctime_ns
    if 0 <= age < CLOCK_TICK_NS:
        time.sleep((CLOCK_TICK_NS - age) / 1e9)
    try:
        # Between the walk and now, the file may have become a link or a pipe.
        handle = os.open(entry.file, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0))
    except OSError as error:
        return SkippedFile(entry.path, f"cannot be read: {error.strerror}")
    with os.fdopen(handle, "rb") as file:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            return SkippedFile(entry.path, "not a regular file")
        content = file.read(MAX_FILE_BYTES + 1)
    if len(content) > MAX_FILE_BYTES:
        return SkippedFile(entry.path, f"has more than {MAX_FILE_BYTES:,} bytes: larger files are not read")
    text = document_text(entry.path, content)
    return text if text is not None else SkippedFile(entry.path, NOT_TEXT)


def read_document(root: Path, path: str) -> str | None:
    """Returns the text of a document by its path in a workspace; None as `read_document_file` does, or if the path leads out."""
    parts = PurePosixPath(path).parts
    if not parts or path != "/".join(parts) or any(part in ("..", ".", "/") or "\\" in part or "\0" in part for part in parts):
        return None
    return read_document_file(root.joinpath(*parts), path)


def read_document_file(file: Path, path: str) -> str | None:
    """Returns the text of a file; None if it cannot be read, is not text, is too large, or is reached through a link."""
    try:
        if not file.is_file() or file.resolve() != file:
            return None
        with file.open("rb") as opened:
            content = opened.read(MAX_FILE_BYTES + 1)
    except OSError:
        return None
    return document_text(path, content) if len(content) <= MAX_FILE_BYTES else None


def document_text(path: str, content: bytes) -> str | None:
    """Returns the text of a file with this content; None if it is not text.

    In records, JSON escapes are replaced by what they stand for, else the word behind a `\\n` would begin with an n. A line stays
    a line, so that a citation names the same lines as the file.

    >>> print(document_text("runs/1.jsonl", b'{"say": "exit\\\\nnow \\\\u00fcber \\\\ud83d\\\\udcc8 C:\\\\\\\\new \\\\"x\\\\""}'))
    {"say": "exit now über 📈 C:\\\\new \\"x\\""}
    """
    text = decode_text(content)
    if text is None or PurePosixPath(path).suffix.lower() not in RECORD_SUFFIXES or "\\" not in text:
        return text
    return _ESCAPE.sub(_unescape, text)


def _unescape(match: re.Match[str]) -> str:
    if match[1]:
        return " "
    if not match[2]:
        # An escaped quotation mark or backslash stays: it is part of the record's syntax.
        return match[0]
    units = bytes.fromhex(match[2].replace("\\", "").replace("u", ""))
    text = units.decode("utf-16-be", "replace")
    return "".join(sign if sign.isprintable() and sign not in '\\"' else " " for sign in text)


def decode_text(content: bytes) -> str | None:
    """Returns bytes as text; None if they are not text.

    >>> decode_text("Überkauft".encode("utf-16")), decode_text("Überkauft".encode("cp1252")), decode_text(bytes([0, 1, 2]))
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
