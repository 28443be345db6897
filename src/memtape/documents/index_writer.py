"""Writes documents into the index of one scope, inside one transaction of the caller."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from datetime import datetime
from typing import NamedTuple

from memtape.core.codec import digest, micros
from memtape.core.value_class import dataclass
from memtape.documents.cache import DocumentCache
from memtape.documents.chunks import Chunk, cut_document
from memtape.documents.citations import content_hash, lines_of
from memtape.documents.filters import date_in_path, nanoseconds
from memtape.documents.question import pair_text
from memtape.documents.reports import METRICS_SUFFIX, parse_report
from memtape.documents.sources import PAGE_TYPE, WATCH_PROBLEM, DocumentFolder, FileEntry, SkippedFile
from memtape.documents.text_files import NO_REPORT, NO_TRANSCRIPT
from memtape.documents.vectors import stored_models

_NEWLINE = re.compile(r"\r\n|\n|\r")
METRICS_ONLY = (METRICS_SUFFIX, ".html", ".htm", ".csv", ".tsv", ".zip")
COMPUTED_TIER = 2  # of reports that memtape computed


@dataclass(frozen=True, slots=True)
class Document:
    """A text to be indexed."""

    path: str
    type: str
    tier: int
    text: str
    name: str = ""  # words that name it, searched with every passage of it
    entry: FileEntry | None = None  # the file it was read from
    parts: Iterator[str] | None = None  # in place of `text`, for a large file
    hash: str = ""  # of its text; empty: computed


class StagedDocument(NamedTuple):
    """A document to be indexed, and whether exactly this text is indexed already."""

    document: Document
    unchanged: bool = False


class WriteCounts(NamedTuple):
    """How many documents a transaction added, changed and removed."""

    added: int = 0
    changed: int = 0
    removed: int = 0


def is_only_counted(skipped: SkippedFile) -> bool:
    """Returns True if nothing is wrong with a file that is not indexed: it is counted and not listed."""
    return skipped.is_ordinary or skipped.problem in (NO_TRANSCRIPT, NO_REPORT)


def type_and_tier(each: FileEntry | Document) -> str:
    """Returns type and tier as the path decides them. The tier of an indexed report may be better than that."""
    return f"{each.type} {each.tier}"


def look_text(entry: FileEntry) -> str:
    """Returns what a file looks like, as one text."""
    return f"{entry.signature} {type_and_tier(entry)}"


def _placed(document: Document) -> Iterator[tuple[str, tuple[int, int]]]:
    """Yields the parts of a document, each with how many lines and characters are before it."""
    line = start = 0
    for part in (document.text,) if document.parts is None else document.parts:
        yield part, (line, start)
        line, start = line + len(_NEWLINE.findall(part)), start + len(part)


class IndexWriter:
    """Writes to one scope. Create it inside a write transaction and use it only there."""

    def __init__(self, cache: DocumentCache, owner: str, agent: str, *, rebuild: bool = False) -> None:
        scope = cache.scope(owner, agent, make=True)
        assert scope is not None
        self.scope = scope
        self._cache, self._connection, self._rebuild = cache, cache.connection, rebuild

    def apply(self, staged: Iterable[StagedDocument], gone: set[str]) -> WriteCounts:
        """Removes documents, then indexes others. Of a document whose text is unchanged only the look of its file is stored."""
        added = changed = 0
        dropped_hashes = set[str]()
        for path in sorted(gone):
            dropped_hashes |= self._remove(path)
        for document, unchanged in staged:
            if unchanged:
                self._update_look(document)
                continue
            if (replaced := self._continue(document)) is not None:
                dropped_hashes |= replaced
                changed += 1
                continue
            before = self._remove(document.path)
            dropped_hashes |= before
            self._insert(document)
            added, changed = (added, changed + 1) if before else (added + 1, changed)
        self._drop_unused_vectors(dropped_hashes)
        return WriteCounts(added, changed, len(gone))

    def _drop_unused_vectors(self, hashes: set[str]) -> None:
        """Deletes the vectors of these texts that no passage of any scope has any more."""
        unused = "NOT EXISTS (SELECT 1 FROM chunks WHERE chunks.hash = vectors.hash)"
        sql = f"DELETE FROM vectors WHERE model = ? AND hash = ? AND {unused}"
        for model in stored_models(self._cache) if hashes else ():
            self._connection.executemany(sql, [(model, hash) for hash in sorted(hashes)])

    def _remove(self, path: str) -> set[str]:
        """Removes a document. Returns the hashes of its passages, `{""}` if it had none, and nothing if it was not indexed."""
        rows = self._connection.execute("SELECT id FROM documents WHERE scope = ? AND path = ?", (self.scope, path)).fetchall()
        if not rows:
            return set()
        number = int(rows[0][0])  # type: ignore[arg-type]
        hashes = self._remove_chunks(number, 0)
        self._connection.execute(f"DELETE FROM whole_{self.scope} WHERE rowid = ?", (number,))
        self._connection.execute("DELETE FROM parts WHERE document = ?", (number,))
        self._connection.execute("DELETE FROM documents WHERE id = ?", (number,))
        return hashes or {""}

    def _remove_chunks(self, number: int, start: int) -> set[str]:
        """Removes the passages of a document from this character on. Returns their hashes."""
        sql = "DELETE FROM chunks WHERE document = ? AND start >= ? RETURNING id, hash"
        chunks = self._connection.execute(sql, (number, start)).fetchall()
        self._connection.executemany(f"DELETE FROM words_{self.scope} WHERE rowid = ?", [(chunk,) for chunk, _ in chunks])
        return {str(hash) for _, hash in chunks}

    def _continue(self, document: Document) -> set[str] | None:
        """Indexes a large document from its first changed part on, as a log grows. Returns the hashes of the removed passages.

        Returns None if it was not indexed in parts, or with another type or tier, or if all is to be indexed again.
        """
        if document.parts is None or document.entry is None or self._rebuild:
            return None
        sql = "SELECT id FROM documents WHERE scope = ? AND path = ? AND given = ?"
        rows = self._connection.execute(sql, (self.scope, document.path, type_and_tier(document))).fetchall()
        if not rows:
            return None
        number = int(rows[0][0])  # type: ignore[arg-type]
        sql = "SELECT hash FROM parts WHERE document = ? ORDER BY part"
        known = [str(hash) for (hash,) in self._connection.execute(sql, (number,)).fetchall()]
        if not known:
            return None
        removed: set[str] | None = None
        count, end = 0, 0
        for part, at in _placed(document):
            # Behind the first difference every part may begin at another line.
            if removed is None and (count >= len(known) or known[count] != digest(part)):
                removed = self._remove_parts(number, count, at[1])
            if removed is not None:
                self._insert_part(number, count, document, part, at)
            count, end = count + 1, at[1] + len(part)
        if removed is None:
            removed = self._remove_parts(number, count, end)
        sql = "UPDATE documents SET hash = ?, chunks = (SELECT count(*) FROM chunks WHERE document = documents.id) WHERE id = ?"
        self._connection.execute(sql, (document.hash, number))
        if date_in_path(document.path) is None:
            self._connection.execute("UPDATE documents SET dated = ? WHERE id = ?", (document.entry.signature[1], number))
        self._update_look(document)
        return removed

    def _remove_parts(self, number: int, part: int, start: int) -> set[str]:
        """Removes the parts of a document from this one on, which begins at this character."""
        self._connection.execute("DELETE FROM parts WHERE document = ? AND part >= ?", (number, part))
        return self._remove_chunks(number, start)

    def _update_look(self, document: Document) -> None:
        assert document.entry is not None
        sql = "UPDATE documents SET file = ?, size = ?, mtime_ns = ?, ctime_ns = ?, inode = ? WHERE scope = ? AND path = ?"
        self._connection.execute(sql, (str(document.entry.file), *document.entry.signature, self.scope, document.path))

    def _insert(self, document: Document) -> None:
        text, entry = document.text, document.entry
        is_report = document.type in ("report", "decision") and document.parts is None
        report = parse_report(document.path, text) if is_report else None
        # A page with the form of a computed report is one, wherever it is; its figures are stored for comparison.
        computed = report is not None and report.is_computed and text.startswith("# ")
        tier = COMPUTED_TIER if computed and document.tier > COMPUTED_TIER else document.tier
        figures = None if report is None else json.dumps(asdict(report), sort_keys=True)
        file, signature = (str(entry.file), entry.signature) if entry else ("", (len(text), 0, 0, 0))
        sql = (
            "INSERT INTO documents (scope, path, file, type, tier, size, mtime_ns, ctime_ns, inode, given, hash, dated, figures) "
            "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) RETURNING id"
        )
        origin = (self.scope, document.path, file, document.type, tier, *signature)
        dated = date_in_path(document.path)
        day = signature[1] if dated is None else nanoseconds(dated)
        values = (*origin, type_and_tier(document), document.hash or digest(text), day, figures)
        number = int(self._connection.execute(sql, values).fetchall()[0][0])  # type: ignore[arg-type]
        count = sum(self._insert_part(number, part, document, text, at) for part, (text, at) in enumerate(_placed(document)))
        # The only passage of a document says all that the document says, and a document in parts is about too many things.
        if count > 1 and document.parts is None:
            whole = f"INSERT INTO whole_{self.scope} (rowid, head, body, pairs) VALUES (?, ?, ?, ?)"
            self._connection.execute(whole, (number, document.name, text, pair_text(text)))
        if count != 1:
            self._connection.execute("UPDATE documents SET chunks = ? WHERE id = ?", (count, number))

    def _insert_part(self, number: int, part: int, document: Document, text: str, at: tuple[int, int]) -> int:
        """Inserts the passages of a part of a document; returns how many they are."""
        if document.parts is not None:
            self._connection.execute("INSERT INTO parts VALUES (?, ?, ?, ?)", (self.scope, number, part, digest(text)))
        return self._insert_chunks(number, document, text, at)

    def _insert_chunks(self, number: int, document: Document, text: str, at: tuple[int, int]) -> int:
        """Cuts and inserts a text that begins behind so many lines and characters of its document."""
        # A passage of a page of the log leads back to its record, so it may not span two of them.
        # A page of HTML or a block of metrics is read for its metrics only: its markup is nothing to search in.
        chunks = () if document.path.lower().endswith(METRICS_ONLY) else cut_document(text, by_section=document.type == PAGE_TYPE)
        lines, (line, start) = lines_of(text), at
        hashed_lines, cited_hash = (0, 0), ""
        for chunk in chunks:
            # A long line is cut into many passages that all cite the whole line: it is hashed once.
            if (chunk.start_line, chunk.end_line) != hashed_lines:
                hashed_lines = chunk.start_line, chunk.end_line
                cited_hash = content_hash("\n".join(lines[chunk.start_line - 1 : chunk.end_line]))
            placed = replace(
                chunk, start_line=chunk.start_line + line, end_line=chunk.end_line + line, start=chunk.start + start,
                end=chunk.end + start,
            ) if start else chunk  # fmt: skip
            self._insert_chunk(number, document.name, placed, cited_hash)
        return len(chunks)

    def _insert_chunk(self, document: int, name: str, chunk: Chunk, cited_hash: str) -> None:
        sql = (
            "INSERT INTO chunks (scope, document, start_line, end_line, start, end, headings, hash, content_hash, text) "
            "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?) RETURNING id"
        )
        position = (chunk.start_line, chunk.end_line, chunk.start, chunk.end)
        values = (self.scope, document, *position, "\n".join(chunk.headings), chunk.hash, cited_hash, chunk.text)
        row = int(self._connection.execute(sql, values).fetchall()[0][0])  # type: ignore[arg-type]
        # A heading counts beside the text even if it stands in it too: it says what the passage, or a part of it, is about.
        head = " ".join((name, *chunk.headings, *chunk.inner_headings))
        words = f"INSERT INTO words_{self.scope} (rowid, head, body, pairs) VALUES (?, ?, ?, ?)"
        self._connection.execute(words, (row, head, chunk.text, pair_text(f"{head} {chunk.text}")))

    def record_sources(
        self, folders: Sequence[DocumentFolder], problems: Sequence[SkippedFile], entries: Mapping[str, FileEntry]
    ) -> None:
        """Records which folders the documents come from, and which files could not be read and what they look like."""
        for table in ("sources", "unread", "left_out"):
            self._connection.execute(f"DELETE FROM {table} WHERE scope = ?", (self.scope,))
        self._connection.execute("DELETE FROM problems WHERE scope = ? AND path <> ?", (self.scope, WATCH_PROBLEM))
        rows = [(self.scope, str(each.root), each.prefix, each.type, each.tier) for each in folders]
        self._connection.executemany("INSERT INTO sources VALUES (?, ?, ?, ?, ?)", rows)
        skipped = [(self.scope, each.path, each.problem) for each in problems if not is_only_counted(each)]
        reasons = Counter[str]()
        for each in problems:
            reasons[each.reason] += each.files
        counted = [(self.scope, reason, files) for reason, files in reasons.items()]
        self._connection.executemany("INSERT INTO left_out VALUES (?, ?, ?)", counted)
        self._connection.executemany("INSERT OR REPLACE INTO problems VALUES (?, ?, ?)", skipped)
        unread = [
            (self.scope, each.path, look_text(entries[each.path]), each.problem) for each in problems if each.path in entries
        ]
        self._connection.executemany("INSERT OR REPLACE INTO unread VALUES (?, ?, ?, ?)", unread)

    def finish(self, now: datetime | None, counts: WriteCounts) -> None:
        """Records the time of the sync; `None` leaves it. Increases the revision if anything changed.

        A new revision tells other processes that what they hold of this scope is outdated.
        """
        sql = "UPDATE scopes SET revision = revision + ?, synced_at = coalesce(?, synced_at) WHERE id = ?"
        self._connection.execute(sql, (int(any(counts)), None if now is None else micros(now), self.scope))
