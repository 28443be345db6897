"""What changed in the folders of an index: the files that differ, their texts, and the documents that are gone."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import apsw

from memtape.core.codec import digest
from memtape.documents import sources, text_files
from memtape.documents.filters import date_in_path
from memtape.documents.index_writer import Document, StagedDocument, look_text, type_and_tier
from memtape.documents.sources import DocumentFolder, FileEntry, SkippedFile
from memtape.documents.text_files import TextParts


class IndexedFile(NamedTuple):
    """A file as it was when it was indexed."""

    look: tuple[object, ...] = ()
    hash: str = ""  # of its text


class UnreadableFile(NamedTuple):
    """A file that could not be read, as it was then."""

    look: str
    problem: str


class _ReadFile(NamedTuple):
    look: str
    result: str | SkippedFile  # the hash of its text, or why there is none


_NOT_INDEXED = IndexedFile()


def walk_all(folders: Sequence[DocumentFolder]) -> tuple[dict[str, FileEntry], list[SkippedFile]]:
    """Returns the files of all folders by path, and what is skipped. Reads no file."""
    entries: dict[str, FileEntry] = {}
    problems: list[SkippedFile] = []
    for folder in folders:
        for each in sources.walk(folder):
            if isinstance(each, SkippedFile):
                problems.append(each)
            else:
                entries[each.path] = each
    return entries, problems


def changed_entries(entries: Mapping[str, FileEntry], indexed: Mapping[str, IndexedFile]) -> list[FileEntry]:
    """Returns the files that do not look as they did when they were indexed."""
    return [
        entry
        for entry in entries.values()
        if indexed.get(entry.path, _NOT_INDEXED).look != (*entry.signature, type_and_tier(entry))
    ]


def certainly_gone(paths: Iterable[str], problems: Sequence[SkippedFile]) -> set[str]:
    """Returns those of the missing documents that are really gone: not those in a folder that could not be entered."""
    inaccessible = [each for each in problems if each.inaccessible]
    return {path for path in paths if not any(each.hides(path) for each in inaccessible)}


class StagedFiles:
    """Texts that were read and wait for the transaction that indexes them. They are dropped when it is closed.

    Files are read before the transaction begins, so no lock is held meanwhile. The texts wait in a temporary database, which
    SQLite moves to disk when it grows: a workspace may be larger than the memory.
    """

    def __init__(self) -> None:
        self.read = 0  # files whose text was read
        self._texts = apsw.Connection("")
        self._texts.execute("CREATE TABLE texts (path TEXT, part INTEGER, text TEXT, PRIMARY KEY (path, part)); BEGIN")
        self._files: dict[str, _ReadFile] = {}

    def close(self) -> None:
        """Drops the texts."""
        self._texts.close()

    def read_files(
        self, entries: Iterable[FileEntry], on_progress: Callable[[int], object] = lambda done: None
    ) -> list[SkippedFile]:
        """Reads files, except those that an earlier attempt read and that look the same. Returns those that cannot be read."""
        for number, entry in enumerate(entries):
            on_progress(number)
            look = look_text(entry)
            if entry.path in self._files and self._files[entry.path].look == look:
                continue
            text = text_files.read_text_file(entry)
            self.read += 1
            self._files[entry.path] = _ReadFile(look, text if isinstance(text, SkippedFile) else self._stage(entry.path, text))
        return [result for entry in entries if isinstance(result := self._files[entry.path].result, SkippedFile)]

    def documents(self, entries: Iterable[FileEntry], indexed: Mapping[str, IndexedFile]) -> Iterator[StagedDocument]:
        """Yields each file that could be read as a document, and whether exactly this text is indexed already."""
        for entry in entries:
            result = self._files[entry.path].result
            if isinstance(result, SkippedFile):
                continue
            before = indexed.get(entry.path, _NOT_INDEXED)
            # The same text with another type or tier is indexed again: both are stored with the document.
            unchanged = before.hash == result and before.look[-1] == type_and_tier(entry)
            yield StagedDocument(self._document(entry, result), unchanged)

    def _stage(self, path: str, text: str | TextParts) -> str:
        """Stores a text until it is indexed. Returns its hash; of a text in parts, the hash of the hashes of its parts."""
        self._texts.execute("DELETE FROM texts WHERE path = ?", (path,))
        hashes = []
        for number, part in enumerate((text,) if isinstance(text, str) else text.parts):
            self._texts.execute("INSERT INTO texts VALUES (?, ?, ?)", (path, number, part))
            hashes.append(digest(part))
        return hashes[0] if isinstance(text, str) else digest("\n".join(hashes))

    def _document(self, entry: FileEntry, hash: str) -> Document:
        sql = "SELECT text FROM texts WHERE path = ? ORDER BY part"
        name = path_words(entry.path)
        if entry.size <= sources.MAX_FILE_BYTES:
            rows: list[Any] = self._texts.execute(sql, (entry.path,)).fetchall()
            return Document(entry.path, entry.type, entry.tier, "".join(text for (text,) in rows), name, entry, hash=hash)
        parts = (str(text) for (text,) in self._texts.execute(sql, (entry.path,)))
        return Document(entry.path, entry.type, entry.tier, "", name, entry, parts, hash)


# Not those of `calendar`, which follow the locale.
MONTH_NAMES = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November", "December",
)  # fmt: skip


def path_words(path: str) -> str:
    """Returns the words of a path, which are searched with every passage of the document.

    The month of a date is among them: what a note of 2026-04-30 tells is asked for as "in April".

    >>> path_words("memory/TRADE-LOG.md"), path_words("D1:3"), path_words("notes/2026-04-30-fix.md")
    ('memory TRADE LOG', 'D1:3', 'notes 2026 04 30 fix April')
    """
    stem = path.rpartition(".")[0] or path
    words = stem.replace("_", " ").replace("-", " ").split("/")
    dated = date_in_path(path)
    return " ".join(words if dated is None else [*words, MONTH_NAMES[dated.month - 1]])
