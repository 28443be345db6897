"""The text of documents on a page: matching words marked, a window of numbered lines, and the addresses of lines.

A document is data. Its text is shown letter by letter, never as HTML; matching words are marked by cutting the text into parts.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple
from urllib.parse import quote

from memtape.documents.question import parse_question
from memtape.surfaces.web.forms import query_text

WINDOW_LINES, LINES_BEFORE_CITED = 300, 15
MAX_LINE_CHARACTERS, MAX_PAGE_CHARACTERS = 2_000, 150_000  # a file may have 4 MB, all on one line

_WORD = re.compile(r"[^\W_]+")


def match_marker(query: str, stem: Callable[[str], str]) -> Callable[[str], Iterator[tuple[str, bool]]]:
    """A function that cuts a text into parts and tells of each whether it matches: words by their stem, as the index does.

    >>> marks = match_marker('stopped on "too high" ERR-4031 黄金突破', lambda word: word.lower()[:4])
    >>> "".join(f"[{part}]" if matches else part for part, matches in marks("The stops: too high <b>, ERR-4031, 看黄金突破了"))
    'The [stops]: [too high] <b>, [ERR-4031], 看[黄金突破]了'
    """
    parsed = parse_question(query)
    stems = {stem(word) for word, _ in parsed.words}
    exact = [r"\s+".join(map(re.escape, part.split())) for name in parsed.names for part in name.spellings]
    unspaced = [re.escape(word) for word, _ in parsed.words if not word.isascii()]
    names = re.compile("|".join((*exact, *unspaced)), re.IGNORECASE) if exact or unspaced else None

    def marks(text: str) -> Iterator[tuple[str, bool]]:
        spans = [match.span() for match in _WORD.finditer(text) if stem(match[0]) in stems]
        spans += _overlapping(names, text) if names else ()
        at = 0
        for start, end in _joined(spans):
            yield from ((part, matches) for part, matches in ((text[at:start], False), (text[start:end], True)) if part)
            at = end
        if text[at:]:
            yield text[at:], False

    return marks


def _overlapping(names: re.Pattern[str], text: str) -> Iterator[tuple[int, int]]:
    """All matches, also those that overlap: unspaced scripts are matched by pairs of characters."""
    found = names.search(text)
    while found is not None:
        yield found.span()
        found = names.search(text, found.start() + 1)


def _joined(spans: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    joined: list[tuple[int, int]] = []
    for start, end in sorted(spans):
        if joined and start <= joined[-1][1]:
            joined[-1] = joined[-1][0], max(joined[-1][1], end)
        else:
            joined.append((start, end))
    return joined


# ---- windows of a document -------------------------------------------------------------------------------------------------


class DocumentLine(NamedTuple):
    """A line as the page shows it: its beginning if it is very long, and whether it is cited."""

    number: int
    text: str
    left_out: int
    cited: bool


class DocumentWindow(NamedTuple):
    """Some lines of a document, and the first line of the windows before and after them."""

    lines: Sequence[DocumentLine]
    of: int
    earlier: int | None
    later: int | None


def document_window(lines: Sequence[str], cited: range, begin: int | None = None) -> DocumentWindow:
    """As much of a document as a page holds: from line `begin`, else from a little before the cited lines.

    >>> window = document_window([f"line {n}" for n in range(1, 1001)], range(500, 503))
    >>> window.lines[0].number, window.lines[-1].number, window.earlier, window.later, window.of
    (485, 784, 185, 785, 1000)
    >>> document_window(["x" * 5000], range(0)).lines[0].left_out
    3000
    """
    if begin is None:
        begin = cited[0] - LINES_BEFORE_CITED if cited and len(lines) > WINDOW_LINES else 1
    begin = max(1, min(begin, len(lines)))
    shown: list[DocumentLine] = []
    characters = 0
    for number, text in enumerate(lines[begin - 1 : begin - 1 + WINDOW_LINES], begin):
        if shown and characters > MAX_PAGE_CHARACTERS:
            break
        shown.append(DocumentLine(number, text[:MAX_LINE_CHARACTERS], max(0, len(text) - MAX_LINE_CHARACTERS), number in cited))
        characters += len(shown[-1].text)
    after = begin + len(shown)
    return DocumentWindow(
        shown, len(lines), max(1, begin - WINDOW_LINES) if begin > 1 else None, after if after <= len(lines) else None
    )


def lines_address(agent_path: str, document: str, start: int, end: int, content_hash: str = "") -> str:
    """The address of lines of a document; the page opens at them.

    >>> lines_address("/agents/gold", "journal/a b.md", 12, 14)
    '/agents/gold/documents/view?path=journal%2Fa+b.md&start=12&end=14#L12'
    """
    query = query_text({"path": document, "start": start, "end": end, "hash": content_hash})
    return f"{agent_path}/documents/view?{query}#L{start}"


def record_address(agent_path: str, run: str | None, decision: str | None) -> str:
    """The address of the run, or else of the decision, that lines of a page of the log are about; empty without either.

    >>> record_address("/agents/gold", "r7", "d1"), record_address("/agents/gold", None, "my plan/1")
    ('/agents/gold/runs/r7', '/agents/gold/decisions/my%20plan%2F1')
    """
    if run is not None:
        return f"{agent_path}/runs/{quote(run, safe='')}"
    return "" if decision is None else f"{agent_path}/decisions/{quote(decision, safe='')}"
