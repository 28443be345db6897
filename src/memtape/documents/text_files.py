"""The text of a file: read without following links, decoded, and refused if it is not text.

A large file is read in parts, each a piece of its text that ends with a line, so that a log of any size needs little memory.
"""

from __future__ import annotations

import codecs
import os
import re
import stat
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from memtape.documents.encodings import detect_encoding
from memtape.documents.report_archives import ARCHIVE_SUFFIX, archived_report
from memtape.documents.reports import parse_report
from memtape.documents.sources import MAX_FILE_BYTES, RECORD_SUFFIXES, FileEntry, SkippedFile
from memtape.documents.transcripts import is_transcript

# Files with these problems are not read again until they look different.
LASTING_PROBLEMS = NOT_TEXT, NO_TRANSCRIPT, NO_REPORT = (
    "not text", "records that are no transcript", "tables, pages or archives that are no report of a known engine",
)  # fmt: skip
PART_CHARACTERS = 1_000_000
MAX_LINE_CHARACTERS = 8_000_000  # a longer line is cut into parts, and cannot be cited
_READ = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
CLOCK_TICK_NS = 10_000_000  # the clock of a file system may be as coarse as this
_ESCAPE = re.compile(r"\\(?:([nrtbf])|((?:u[0-9a-fA-F]{4}(?:\\(?=u[0-9a-fA-F]{4}))?)+)|.)")


@dataclass(frozen=True, slots=True)
class TextParts:
    """The text of a large file, part by part. Read it once."""

    parts: Iterator[str]


def read_text_file(entry: FileEntry) -> str | TextParts | SkippedFile:
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
        handle = os.open(entry.file, _READ)
    except OSError as error:
        return SkippedFile(entry.path, f"cannot be read: {error.strerror}")
    with os.fdopen(handle, "rb") as file:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            return SkippedFile(entry.path, "not a regular file")
        content = file.read(MAX_FILE_BYTES + 1)
    is_large = len(content) > MAX_FILE_BYTES
    if entry.path.lower().endswith(ARCHIVE_SUFFIX):
        block = None if is_large else archived_report(content)
        return SkippedFile(entry.path, NO_REPORT) if block is None else block
    text = document_text(entry.path, content, is_whole=not is_large)
    if text is None:
        return SkippedFile(entry.path, NOT_TEXT)
    if entry.if_transcript and not is_transcript(text):
        return SkippedFile(entry.path, NO_TRANSCRIPT)
    if entry.if_report and (is_large or parse_report(entry.path, text) is None):
        return SkippedFile(entry.path, NO_REPORT)
    return TextParts(_parts(entry.file, entry.path)) if is_large else text


def _parts(file: Path, path: str) -> Iterator[str]:
    """Yields the text of a file in parts of about `PART_CHARACTERS`, each up to the end of a line if it has one."""
    with os.fdopen(os.open(file, _READ), "rb") as opened:
        content, rest = opened.read(PART_CHARACTERS), ""
        decoder = codecs.getincrementaldecoder(detect_encoding(content, is_whole=False) or "utf-8")("replace")
        while content:
            text = rest + decoder.decode(content)
            cut = text.rfind("\n") + 1 or (len(text) if len(text) > MAX_LINE_CHARACTERS else 0)
            if cut:
                yield _without_escapes(path, text[:cut])
            rest, content = text[cut:], opened.read(PART_CHARACTERS)
        if rest := rest + decoder.decode(b"", final=True):
            yield _without_escapes(path, rest)


def read_document(root: Path, path: str) -> str | None:
    """Returns the text of a document by its path in a workspace; None as `read_document_file` does, or if the path leads out."""
    parts = PurePosixPath(path).parts
    if not parts or path != "/".join(parts) or any(part in ("..", ".", "/") or "\\" in part or "\0" in part for part in parts):
        return None
    return read_document_file(root.joinpath(*parts), path)


def read_document_file(file: Path, path: str) -> str | None:
    """Returns the text of a file; None if it cannot be read, is not text, or is reached through a link."""
    try:
        if not file.is_file() or file.resolve() != file:
            return None
        with file.open("rb") as opened:
            content = opened.read(MAX_FILE_BYTES + 1)
        if path.lower().endswith(ARCHIVE_SUFFIX):
            return archived_report(content)
        if len(content) <= MAX_FILE_BYTES:
            return document_text(path, content)
        return "".join(_parts(file, path)) if document_text(path, content, is_whole=False) is not None else None
    except OSError:
        return None


def document_text(path: str, content: bytes, *, is_whole: bool = True) -> str | None:
    """Returns the text of a file with this content; None if it is not text.

    In records, JSON escapes are replaced by what they stand for, else the word behind a `\\n` would begin with an n. A line stays
    a line, so that a citation names the same lines as the file.

    >>> print(document_text("runs/1.jsonl", b'{"say": "exit\\\\nnow \\\\u00fcber \\\\ud83d\\\\udcc8 C:\\\\\\\\new \\\\"x\\\\""}'))
    {"say": "exit now über 📈 C:\\\\new \\"x\\""}
    """
    text = decode_text(content, is_whole=is_whole)
    return None if text is None else _without_escapes(path, text)


def is_record(path: str) -> bool:
    """Returns True for the path of a file of JSON records."""
    return PurePosixPath(path).suffix.lower() in RECORD_SUFFIXES


def _without_escapes(path: str, text: str) -> str:
    return _ESCAPE.sub(_unescape, text) if is_record(path) and "\\" in text else text


def _unescape(match: re.Match[str]) -> str:
    if match[1]:
        return " "
    if not match[2]:
        # An escaped quotation mark or backslash stays: it is part of the record's syntax.
        return match[0]
    units = bytes.fromhex(match[2].replace("\\", "").replace("u", ""))
    text = units.decode("utf-16-be", "replace")
    return "".join(sign if sign.isprintable() and sign not in '\\"' else " " for sign in text)


def decode_text(content: bytes, *, is_whole: bool = True) -> str | None:
    """Returns bytes as text; None if they are not text.

    >>> decode_text("Überkauft".encode("utf-16")), decode_text("Überkauft".encode("cp1252")), decode_text(bytes([0, 1, 2]))
    ('Überkauft', 'Überkauft', None)
    """
    encoding = detect_encoding(content, is_whole=is_whole)
    return None if encoding is None else content.decode(encoding, "replace")
