"""The lines of a document that a decision rests on, quoted, and whether they still say the same.

A citation stores the words and their hash, so it proves what was read even after the file has changed. Checked against the file
of today it is `valid` (the same lines say the same), `moved` (the same words are on other lines, or in another document),
`changed` (other words are there now) or `gone` (there is no such document, nor are the words in another one).

>>> cited = cite("TRADING_MANUAL.md", "# Risk\\nNever risk more than 1 %.\\n", 2, 2)
>>> check_citation(cited, "# Risk\\n\\nNever risk more than 1 %.\\n")
CitationVerdict(verdict='moved', start_line=3, end_line=3, path=None)
>>> check_citation(cited, "# Risk\\nNever risk more than 5 %.\\n").verdict, check_citation(cited, None).verdict
('changed', 'gone')
"""

from __future__ import annotations

import re
from typing import Literal

from memtape.core.codec import digest
from memtape.core.value_class import dataclass
from memtape.errors import Invalid

CitationState = Literal["valid", "moved", "changed", "gone"]
MAX_HASHED_LINES = 500_000  # hashed at most when searching for moved lines by hash; the nearest positions are tried first
_NEWLINE = re.compile(r"\r\n|\n|\r")


@dataclass(frozen=True, slots=True)
class Citation:
    """Lines of a document with their words at the time of citing."""

    path: str
    start_line: int
    end_line: int
    content_hash: str
    quoted: str


@dataclass(frozen=True, slots=True)
class CitationVerdict:
    """The result of checking a citation; for `valid` and `moved` with the lines that hold the words now, and the document."""

    verdict: CitationState
    start_line: int | None = None
    end_line: int | None = None
    path: str | None = None  # the document, if it is another one now


def lines_of(text: str) -> list[str]:
    """Returns the lines of a text as editors count them: only newlines separate lines, form feeds and the like do not.

    >>> lines_of("a\\x0cb\\r\\nc\\n")
    ['a\\x0cb', 'c']
    """
    lines = _NEWLINE.split(text)
    return lines[:-1] if lines[-1] == "" else lines


def quoted_lines(text: str, start_line: int, end_line: int) -> str:
    """Returns the words on these lines, joined by plain newlines whatever newline the file uses."""
    return "\n".join(lines_of(text)[start_line - 1 : end_line])


def content_hash(words: str) -> str:
    """Returns the hash of quoted words; spaces at the end of a line do not count."""
    return digest("\n".join(line.rstrip() for line in lines_of(words)))


def cite(path: str, text: str, start_line: int, end_line: int) -> Citation:
    """Returns a citation of lines of a document as it is now. Raises `Invalid` if it has no such lines."""
    if not 1 <= start_line <= end_line <= len(lines_of(text)):
        raise Invalid("lines", f"{path} has no lines {start_line} to {end_line}", "Cite lines that a search returned")
    words = quoted_lines(text, start_line, end_line)
    return Citation(path, start_line, end_line, content_hash(words), words)


def check_citation(citation: Citation, text: str | None) -> CitationVerdict:
    """Checks a citation against the document of today; `text` is None if there is no such document.

    If the words occur more than once, the occurrence nearest to the old lines is returned. A citation without its words is
    searched for by its hash.

    >>> known = cite("a.md", "one\\ntwo\\nthree", 2, 3)
    >>> check_citation(Citation("a.md", 2, 3, known.content_hash, ""), "zero\\none\\ntwo\\nthree")
    CitationVerdict(verdict='moved', start_line=3, end_line=4, path=None)
    """
    if text is None:
        return CitationVerdict("gone")
    first, last, lines = citation.start_line, citation.end_line, [line.rstrip() for line in lines_of(text)]
    if not 1 <= first <= last:
        return CitationVerdict("changed")
    if last <= len(lines) and content_hash("\n".join(lines[first - 1 : last])) == citation.content_hash:
        return CitationVerdict("valid", first, last)
    wanted = [line.rstrip() for line in lines_of(citation.quoted)]
    # Blank lines are everywhere: finding some elsewhere does not mean that these moved there.
    if wanted and not any(wanted):
        return CitationVerdict("changed")
    size = len(wanted) or last - first + 1
    nearest_first = sorted(range(len(lines) - size + 1), key=lambda at: abs(at + 1 - first))
    if wanted:
        matches = (at for at in nearest_first if lines[at] == wanted[0] and lines[at : at + size] == wanted)
    else:
        # Hashing every position of a long document would take too long.
        tried = nearest_first[: max(MAX_HASHED_LINES // size, 1)]
        matches = (at for at in tried if content_hash("\n".join(lines[at : at + size])) == citation.content_hash)
    nearest = next(matches, None)
    return CitationVerdict("changed") if nearest is None else CitationVerdict("moved", nearest + 1, nearest + size)
