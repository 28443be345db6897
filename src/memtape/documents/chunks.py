"""A document cut into passages that can be cited: by its headings first, then into windows of about 400 tokens.

A passage is what a search finds and what a brief quotes, so it must stand by itself and say exactly where it stands: it knows
its first and last line (counted from 1), its place in the text, and the headings it lies under. Small sections that follow one
another are put together up to the size of a window, since a heading with one line below it says little alone; a long section
becomes several windows which overlap, so that what stands on a border is whole in one of them. Front matter, fenced code and
tables are kept in one piece where they fit. A line longer than a window is cut between sentences: such passages share their
line number.

Pure, and the same text gives the same passages everywhere.

>>> text = "# Gold\\nTrend only.\\n## Entries\\nBuy the breakout.\\n## Exits\\nTrail by 2 ATR.\\n"
>>> [(chunk.start_line, chunk.end_line, chunk.headings) for chunk in cut_document(text, Sizes(target=14, least=8, overlap=2))]
[(1, 4, ('Gold',)), (5, 6, ('Gold', 'Exits'))]
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from memtape.core.codec import digest

BYTES_PER_TOKEN = 4  # English prose; a figure to size windows by, not to bill by
_HEADING = re.compile(r" {0,3}(#{1,6})(?:[ \t]+(.*?))?(?:[ \t]+#+)?[ \t]*$")
_UNDERLINE = re.compile(r" {0,3}(=+|-{3,})[ \t]*$")
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")
_TABLE = re.compile(r" {0,3}\|")
_BLOCK = re.compile(r" {0,3}(?:[-*+>|]|\d{1,9}[.)])")  # a line that no underline makes a heading
_SENTENCE = re.compile(r"(?<=[.!?;])\s+|(?<=[。！？；])|\s+")
_NEWLINE = re.compile(r"\r\n|\n|\r")


@dataclass(frozen=True, slots=True)
class Sizes:
    """In tokens: what a window should hold, below what a section joins the next, and what neighbours share."""

    target: int = 400
    least: int = 120
    overlap: int = 50


@dataclass(frozen=True, slots=True)
class Chunk:
    """A passage, where it stands and under which headings."""

    start_line: int
    end_line: int
    start: int  # place of its first character in the text
    end: int
    headings: tuple[str, ...]
    text: str

    @property
    def hash(self) -> str:
        """Of what is searched: the passage with its headings. What has the same hash has the same embedding."""
        return digest("\n".join((*self.headings, "", self.text)))


@dataclass(frozen=True, slots=True)
class TextLine:
    """A line, or a part of one that is longer than a window."""

    number: int
    start: int
    end: int
    tokens: int


@dataclass(frozen=True, slots=True)
class TextSection:
    """What stands under one heading, as blocks that should not be torn."""

    level: int
    headings: tuple[str, ...]
    blocks: tuple[tuple[TextLine, ...], ...]

    @property
    def tokens(self) -> int:
        return sum(line.tokens for block in self.blocks for line in block)


def approximate_tokens(text: str) -> int:
    """About how many tokens a text is.

    >>> approximate_tokens("Trail the stop by two ATR."), approximate_tokens("")
    (7, 0)
    """
    size = len(text) if text.isascii() else len(text.encode("utf-8", "replace"))
    return -(-size // BYTES_PER_TOKEN)


def cut_document(text: str, sizes: Sizes | None = None) -> tuple[Chunk, ...]:
    """The passages of a document, in order. Blank ones are left out.

    >>> cut_document(" \\n\\n")
    ()
    """
    sizes = sizes or Sizes()
    found: list[Chunk] = []
    for group in _grouped(sections(text, sizes), sizes):
        blocks = [block for section in group for block in section.blocks]
        for window in _windows(blocks, sizes):
            if chunk := _chunk(text, window, _shared([section.headings for section in group])):
                found.append(chunk)
    return tuple(found)


def _chunk(text: str, window: Sequence[TextLine], headings: tuple[str, ...]) -> Chunk | None:
    """A passage of these lines without the blank ones around it."""
    lines = list(window)
    while lines and not text[lines[-1].start : lines[-1].end].strip():
        lines.pop()
    while lines and not text[lines[0].start : lines[0].end].strip():
        lines.pop(0)
    if not lines:
        return None
    first, last = lines[0], lines[-1]
    return Chunk(first.number, last.number, first.start, last.end, headings, text[first.start : last.end])


# --- lines, blocks, sections ------------------------------------------------------------------------------------------------


def _lines(text: str) -> list[tuple[int, int]]:
    """Where each line begins and ends, without its newline."""
    found, start = [], 0
    for newline in _NEWLINE.finditer(text):
        found.append((start, newline.start()))
        start = newline.end()
    if start < len(text):
        found.append((start, len(text)))
    return found


def sections(text: str, sizes: Sizes | None = None) -> list[TextSection]:
    """The text under each heading, in order; what stands before the first is under none."""
    places, sizes = _lines(text), sizes or Sizes()
    found: list[TextSection] = []
    path: list[tuple[int, str]] = []
    blocks: list[tuple[TextLine, ...]] = []
    level = 0

    def close() -> None:
        if blocks:
            found.append(TextSection(level, tuple(name for _, name in path), tuple(blocks)))
            blocks.clear()

    for first, last, heading in _blocks([text[start:end] for start, end in places]):
        if heading is not None:
            close()
            level, name = heading
            path = [(above, title) for above, title in path if above < level]
            path.append((level, name))
        block = tuple(part for row in range(first, last) for part in _parts(text, row + 1, *places[row], sizes))
        blocks.append(block)
    close()
    return found


def _blocks(lines: Sequence[str]) -> Iterator[tuple[int, int, tuple[int, str] | None]]:
    """Runs of lines that belong together, as (first, behind the last, heading with its level)."""
    at = 0
    while at < len(lines):
        end, heading = _block(lines, at)
        yield at, end, heading
        at = end


def _block(lines: Sequence[str], at: int) -> tuple[int, tuple[int, str] | None]:
    line = lines[at]
    if at == 0 and line.rstrip() == "---" and (close := _find(lines, 1, ("---", "..."))) is not None:
        return close + 1, None  # front matter
    if fence := _FENCE.match(line):
        return _fenced(lines, at, fence[1]), None
    if heading := _HEADING.match(line):
        return at + 1, (len(heading[1]), (heading[2] or "").strip())
    if _TABLE.match(line):
        return _run(lines, at, _TABLE), None
    under = _UNDERLINE.match(lines[at + 1]) if line.strip() and at + 1 < len(lines) else None
    if under and not _BLOCK.match(line):
        return at + 2, (1 if under[1][0] == "=" else 2, line.strip())
    end = at + 1
    if not line.strip():
        return end, None
    while end < len(lines) and lines[end].strip() and not _starts(lines, end):  # a paragraph or an item, to its blank line
        end += 1
    return end, None


def _starts(lines: Sequence[str], at: int) -> bool:
    """Whether a line begins something else than the paragraph above it goes on with."""
    line = lines[at]
    if _HEADING.match(line) or _FENCE.match(line) or _BLOCK.match(line):
        return True
    return at + 1 < len(lines) and bool(_UNDERLINE.match(lines[at + 1]))


def _find(lines: Sequence[str], at: int, marks: tuple[str, ...]) -> int | None:
    return next((row for row in range(at, len(lines)) if lines[row].rstrip() in marks), None)


def _fenced(lines: Sequence[str], at: int, mark: str) -> int:
    """Behind the line that closes the fence; one that is never closed reaches to the end."""
    for row in range(at + 1, len(lines)):
        bare = lines[row].strip()
        if bare.startswith(mark) and not bare.strip(mark[0]):
            return row + 1
    return len(lines)


def _run(lines: Sequence[str], at: int, form: re.Pattern[str]) -> int:
    end = at
    while end < len(lines) and form.match(lines[end]):
        end += 1
    return end


def _parts(text: str, number: int, start: int, end: int, sizes: Sizes) -> Iterator[TextLine]:
    """A line, cut between sentences (else words, else anywhere) where it is longer than a window."""
    while (size := approximate_tokens(text[start:end])) > sizes.target:
        width = max((end - start) * sizes.target // size, 1)
        cut = _cut(text[start : start + width])
        yield TextLine(number, start, start + cut, approximate_tokens(text[start : start + cut]))
        start += cut
    yield TextLine(number, start, end, approximate_tokens(text[start:end]))


def _cut(text: str) -> int:
    """Where to cut: behind the last sentence in the second half, else behind the last word, else at the end."""
    sentence = word = 0
    for gap in _SENTENCE.finditer(text, len(text) // 2):
        if gap.start() and text[gap.start() - 1] in ".!?;。！？；":
            sentence = gap.end()
        word = gap.end()
    return sentence or word or len(text)


# --- groups and windows -----------------------------------------------------------------------------------------------------


def _grouped(sections: Sequence[TextSection], sizes: Sizes) -> Iterator[list[TextSection]]:
    """Sections put together while they are small: a heading goes with what it is about, not with what went before."""
    group: list[TextSection] = []
    size = 0
    for section in sections:
        small = size < sizes.least or section.tokens < sizes.least // 4
        if group and not (small and size + section.tokens <= sizes.target and section.level >= group[0].level):
            yield group
            group, size = [], 0
        group.append(section)
        size += section.tokens
    if group:
        yield group


def _shared(paths: Sequence[tuple[str, ...]]) -> tuple[str, ...]:
    """The headings that all of a group lie under, or the first of them; what stands before any heading goes with the next."""
    paths = [path for path in paths if path] or [()]
    shared = paths[0]
    for path in paths[1:]:
        same = 0
        while same < min(len(shared), len(path)) and shared[same] == path[same]:
            same += 1
        shared = shared[:same]
    return shared or paths[0][:1]


def _windows(blocks: Sequence[Sequence[TextLine]], sizes: Sizes) -> Iterator[list[TextLine]]:
    """Lines up to the size of a window; a block that fits into one begins the next rather than being torn."""
    window: list[TextLine] = []
    size = fresh = 0  # tokens in all, and of lines that were in no window before
    for block in blocks:
        whole = sum(line.tokens for line in block)
        if fresh and size + whole > sizes.target and (whole <= sizes.target or size >= sizes.least):
            yield window
            window = _tail(window, sizes.overlap)
            size, fresh = sum(line.tokens for line in window), 0
        for line in block:
            if fresh and size + line.tokens > sizes.target:
                yield window
                window = _tail(window, sizes.overlap)
                size, fresh = sum(line.tokens for line in window), 0
            window.append(line)
            size += line.tokens
            fresh += line.tokens
    if fresh:
        yield window


def _tail(window: Sequence[TextLine], overlap: int) -> list[TextLine]:
    """The last lines of a window that the next repeats."""
    size, kept = 0, len(window)
    while kept and size + window[kept - 1].tokens <= overlap:
        kept -= 1
        size += window[kept].tokens
    return list(window[kept:]) if kept else []
