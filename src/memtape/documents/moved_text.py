"""Where cited words stand now that their file was renamed, moved or taken apart: the content hash is looked up in the index.

A passage that a search returned is found by its hash. Other lines are found by their words, and lines of a file that the index
does not know yet by a look into the new files. A few words that many documents have prove nothing: then the file must have kept
its name.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import PurePosixPath
from typing import Any

from memtape.documents.cache import SHARED_SCOPE
from memtape.documents.citations import Citation, CitationVerdict, check_citation, lines_of
from memtape.documents.index import DocumentIndex
from memtape.documents.sources import DocumentFolder, FileEntry, walk

MAX_CANDIDATES, MAX_HASHED_DOCUMENTS = 50, 300  # documents that are read
MAX_NEW_FILES, MAX_NEW_BYTES = 500, 1_000_000
TELLING_SIGNS = 40  # of words that are hardly found twice by chance


def indexed_candidates(index: DocumentIndex, owner: str, agent: str, citation: Citation) -> list[str]:
    """Returns the documents in the index that have a passage with this hash, or else a passage with the longest cited line."""
    line = max(lines_of(citation.quoted), key=len, default="").strip()
    questions: list[tuple[str, str | int, int]] = [("chunks.content_hash = ?", citation.content_hash, MAX_CANDIDATES)]
    # Without its words, lines inside a passage can only be found by the hash of all lines of that number.
    by_words: tuple[str, str | int, int] = ("instr(chunks.text, ?) > 0", line, MAX_CANDIDATES)
    by_reading = ("chunks.start = ?", 0, MAX_HASHED_DOCUMENTS)
    questions.append(by_words if line else by_reading)
    with index.cache.reading() as connection:
        scopes = [index.cache.scope(owner, whose) for whose in dict.fromkeys((agent, SHARED_SCOPE))]
        for condition, value, limit in questions:
            sql = (
                "SELECT DISTINCT documents.path FROM chunks JOIN documents ON documents.id = chunks.document "
                f"WHERE chunks.scope IN (SELECT value FROM json_each(?)) AND {condition} ORDER BY documents.path LIMIT ?"
            )
            wanted = json.dumps([scope for scope in scopes if scope is not None])
            rows: list[Any] = connection.execute(sql, (wanted, value, limit)).fetchall()
            if rows:
                return [str(path) for (path,) in rows]
    return []


def new_files(folders: Iterable[DocumentFolder], is_indexed: Callable[[str], bool]) -> Iterator[str]:
    """Yields the files that the index does not know yet."""
    left = MAX_NEW_FILES
    for folder in folders:
        for entry in walk(folder):
            if isinstance(entry, FileEntry) and entry.size <= MAX_NEW_BYTES and left and not is_indexed(entry.path):
                left -= 1
                yield entry.path


def find_moved(citation: Citation, paths: Iterable[str], text_of: Callable[[str], str | None]) -> CitationVerdict | None:
    """Returns where the cited words stand now, in the first document that has them; one of the same name comes first.

    >>> from memtape.documents.citations import cite
    >>> text = "# Note\\n\\nThe spread ate the edge at the open, every Friday.\\n"
    >>> cited, files = cite("journal/a.md", text, 3, 3), {"journal/old/a.md": f"Moved.\\n{text}", "b.md": "-\\n"}
    >>> find_moved(cited, files, files.get)
    CitationVerdict(verdict='moved', start_line=4, end_line=4, path='journal/old/a.md')
    >>> find_moved(cite("c.md", "-\\n", 1, 1), files, files.get)
    """
    name = PurePosixPath(citation.path).name
    is_long = len("".join(citation.quoted.split())) >= TELLING_SIGNS
    telling = is_long or (not citation.quoted and citation.end_line > citation.start_line)
    others = [path for path in dict.fromkeys(paths) if path != citation.path]
    for path in sorted(others, key=lambda path: (PurePosixPath(path).name != name, path)):
        if PurePosixPath(path).name != name and not telling:
            return None
        found = check_citation(replace(citation, path=path), text_of(path))
        if found.verdict in ("valid", "moved"):
            return CitationVerdict("moved", found.start_line, found.end_line, path)
    return None
