"""What a decision rested on: the lines of a document, quoted, and whether they still stand there.

A citation keeps the words themselves and their hash, so that it proves what was read even when the file has changed since.
Checked against the file of today it is `valid` (the same lines say the same), `moved` (the same words stand on other lines),
`changed` (other words stand where they stood) or `gone` (no such document).

>>> cited = cite("TRADING_MANUAL.md", "# Risk\\nNever risk more than 1 %.\\n", 2, 2)
>>> check_citation(cited, "# Risk\\n\\nNever risk more than 1 %.\\n")
CitationVerdict(verdict='moved', start_line=3, end_line=3)
>>> check_citation(cited, "# Risk\\nNever risk more than 5 %.\\n").verdict, check_citation(cited, None).verdict
('changed', 'gone')
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from memtape.core.codec import digest
from memtape.errors import Invalid

Verdicts = Literal["valid", "moved", "changed", "gone"]
HASHED = 500_000  # lines, to find by their hash where words moved to: the places nearest to the old one
_NEWLINE = re.compile(r"\r\n|\n|\r")


@dataclass(frozen=True, slots=True)
class Citation:
    """Lines of a document, with their words as they were."""

    path: str
    start_line: int
    end_line: int
    content_hash: str
    quoted: str


@dataclass(frozen=True, slots=True)
class CitationVerdict:
    """How a citation stands; with the lines where its words stand now, if they do."""

    verdict: Verdicts
    start_line: int | None = None
    end_line: int | None = None


def lines_of(text: str) -> list[str]:
    """A text's lines, counted as editors count them: by newlines alone, not by form feeds or separators within a line.

    >>> lines_of("a\\x0cb\\r\\nc\\n")
    ['a\\x0cb', 'c']
    """
    lines = _NEWLINE.split(text)
    return lines[:-1] if lines[-1] == "" else lines


def quoted_lines(text: str, start_line: int, end_line: int) -> str:
    """The words on these lines, whatever newline the file uses."""
    return "\n".join(lines_of(text)[start_line - 1 : end_line])


def content_hash(words: str) -> str:
    """The hash of what was quoted; spaces at the end of a line say nothing."""
    return digest("\n".join(line.rstrip() for line in lines_of(words)))


def cite(path: str, text: str, start_line: int, end_line: int) -> Citation:
    """A citation of lines of a document as it is now."""
    if not 1 <= start_line <= end_line <= len(lines_of(text)):
        raise Invalid("lines", f"{path} has no lines {start_line} to {end_line}", "Cite lines that a search returned")
    words = quoted_lines(text, start_line, end_line)
    return Citation(path, start_line, end_line, content_hash(words), words)


def check_citation(citation: Citation, text: str | None) -> CitationVerdict:
    """How a citation stands against the document of today; `text` is none where there is no such document.

    Where the words stand more than once, the place nearest to the old one is named. Without the words the hash finds them.

    >>> known = cite("a.md", "one\\ntwo\\nthree", 2, 3)
    >>> check_citation(Citation("a.md", 2, 3, known.content_hash, ""), "zero\\none\\ntwo\\nthree")
    CitationVerdict(verdict='moved', start_line=3, end_line=4)
    """
    if text is None:
        return CitationVerdict("gone")
    first, last, lines = citation.start_line, citation.end_line, [line.rstrip() for line in lines_of(text)]
    if not 1 <= first <= last:
        return CitationVerdict("changed")
    if last <= len(lines) and content_hash("\n".join(lines[first - 1 : last])) == citation.content_hash:
        return CitationVerdict("valid", first, last)
    wanted = [line.rstrip() for line in lines_of(citation.quoted)]
    size = len(wanted) or last - first + 1
    starts = sorted(range(len(lines) - size + 1), key=lambda at: abs(at + 1 - first))
    if wanted:
        same = (at for at in starts if lines[at] == wanted[0] and lines[at : at + size] == wanted) if any(wanted) else iter(())
    else:
        looked_at = starts[: max(HASHED // size, 1)]
        same = (at for at in looked_at if content_hash("\n".join(lines[at : at + size])) == citation.content_hash)
    nearest = next(same, None)
    return CitationVerdict("changed") if nearest is None else CitationVerdict("moved", nearest + 1, nearest + size)
