"""A document cut into passages that can be cited: by its headings first, then into windows of about 400 tokens.

A passage is what a search finds and what a brief quotes. It must make sense alone and state exactly where it is: its first and
last line (counted from 1), its offset in the text, and the headings above it. Small neighbouring sections are joined up to the
size of a window, because a heading with one line below it says little alone. A long section becomes several overlapping windows,
so that a sentence on a border is complete in one of them. Front matter, fenced code and tables stay in one piece if they fit. A
line longer than a window is cut between sentences; the resulting passages share their line number.

Pure: the same text gives the same passages everywhere.

>>> text = "# Gold\\nTrend only.\\n## Entries\\nBuy the breakout.\\n## Exits\\nTrail by 2 ATR.\\n"
>>> sizes = ChunkSizes(target_tokens=14, min_tokens=8, overlap_tokens=2)
>>> [(chunk.start_line, chunk.end_line, chunk.headings) for chunk in cut_document(text, sizes)]
[(1, 4, ('Gold',)), (5, 6, ('Gold', 'Exits'))]
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from memtape.core.codec import digest
from memtape.core.value_class import dataclass

BYTES_PER_TOKEN = 4  # of English prose: good enough to size windows, not to compute costs
_HEADING = re.compile(r" {0,3}(#{1,6})(?:[ \t]+(.*?))?(?:[ \t]+#+)?[ \t]*$")
_UNDERLINE = re.compile(r" {0,3}(=+|-{3,})[ \t]*$")
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")
_TABLE = re.compile(r" {0,3}\|")
# A list item, a quote or a table row: a line below it of dashes does not make it a heading.
_ITEM = re.compile(r" {0,3}(?:[-*+>|]|\d{1,9}[.)])")
_SENTENCE = re.compile(r"(?<=[.!?;])\s+|(?<=[。！？；])|\s+")
_NEWLINE = re.compile(r"\r\n|\n|\r")


@dataclass(frozen=True, slots=True)
class ChunkSizes:
    """How large passages are, in tokens."""

    target_tokens: int = 400  # what a window holds at most
    min_tokens: int = 120  # a group of sections below this takes in the next section
    overlap_tokens: int = 50  # what neighbouring windows share at most


@dataclass(frozen=True, slots=True)
class Chunk:
    """A passage with its position and the headings above it."""

    start_line: int
    end_line: int
    start: int  # offset of its first character in the text
    end: int  # offset behind its last character
    headings: tuple[str, ...]
    text: str
    inner_headings: tuple[str, ...] = ()  # of the sections below that stand in the passage

    @property
    def hash(self) -> str:
        """The hash of what is searched: the passage and its headings. Passages with the same hash share one embedding."""
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
    """The text under one heading, as blocks that should stay in one piece."""

    level: int
    headings: tuple[str, ...]
    blocks: tuple[tuple[TextLine, ...], ...]

    @property
    def tokens(self) -> int:
        return sum(line.tokens for block in self.blocks for line in block)


def approximate_tokens(text: str) -> int:
    """Returns roughly how many tokens a text has.

    >>> approximate_tokens("Trail the stop by two ATR."), approximate_tokens("")
    (7, 0)
    """
    size = len(text) if text.isascii() else len(text.encode("utf-8", "replace"))
    return -(-size // BYTES_PER_TOKEN)


def cut_document(text: str, sizes: ChunkSizes | None = None, *, by_section: bool = False) -> tuple[Chunk, ...]:
    """Cuts a document into passages, in order. Blank passages are omitted.

    With `by_section`, each section is a passage of its own, however small, and a mere title above other sections is none: for
    pages whose sections are records that have nothing to do with each other.

    >>> cut_document(" \\n\\n")
    ()
    >>> [chunk.headings for chunk in cut_document("# Day\\n## One\\na\\n## Two\\nb", by_section=True)]
    [('Day', 'One'), ('Day', 'Two')]
    """
    sizes = sizes or ChunkSizes()
    chunks: list[Chunk] = []
    found = sections(text, sizes)
    for group in _single_sections(text, found) if by_section else _group_sections(found, sizes):
        blocks = [block for section in group for block in section.blocks]
        common = _common_headings([section.headings for section in group])
        below = {section.blocks[0][0].number: section.headings[-1] for section in group if len(section.headings) > len(common)}
        for window in _windows(blocks, sizes):
            if chunk := _chunk_of(text, window, common, below):
                chunks.append(chunk)
    return tuple(chunks)


def _chunk_of(text: str, window: Sequence[TextLine], headings: tuple[str, ...], below: Mapping[int, str]) -> Chunk | None:
    """Returns the passage of these lines without the blank lines around it; None if all are blank."""
    lines = list(window)
    while lines and not text[lines[-1].start : lines[-1].end].strip():
        lines.pop()
    while lines and not text[lines[0].start : lines[0].end].strip():
        lines.pop(0)
    if not lines:
        return None
    first, last = lines[0], lines[-1]
    inner = tuple(name for number, name in below.items() if first.number <= number <= last.number)
    return Chunk(first.number, last.number, first.start, last.end, headings, text[first.start : last.end], inner)


# --- lines, blocks, sections ------------------------------------------------------------------------------------------------


def _line_spans(text: str) -> list[tuple[int, int]]:
    """Returns the start and end offset of each line, without its newline."""
    spans, start = [], 0
    for newline in _NEWLINE.finditer(text):
        spans.append((start, newline.start()))
        start = newline.end()
    if start < len(text):
        spans.append((start, len(text)))
    return spans


def sections(text: str, sizes: ChunkSizes | None = None) -> list[TextSection]:
    """Returns the sections of a text, in order: one per heading. Text before the first heading has no headings."""
    spans, sizes = _line_spans(text), sizes or ChunkSizes()
    result: list[TextSection] = []
    path: list[tuple[int, str]] = []
    blocks: list[tuple[TextLine, ...]] = []
    level = 0

    def close() -> None:
        if blocks:
            result.append(TextSection(level, tuple(name for _, name in path), tuple(blocks)))
            blocks.clear()

    for first, last, heading in _blocks([text[start:end] for start, end in spans]):
        if heading is not None:
            close()
            level, name = heading
            # A heading ends those of its own level and below; it stays under the higher ones.
            path = [(above, title) for above, title in path if above < level]
            path.append((level, name))
        block = tuple(part for row in range(first, last) for part in _split_line(text, row + 1, *spans[row], sizes))
        blocks.append(block)
    close()
    return result


def _blocks(lines: Sequence[str]) -> Iterator[tuple[int, int, tuple[int, str] | None]]:
    """Yields runs of lines that belong together: first line, line behind the last, and level and text if it is a heading."""
    at = 0
    while at < len(lines):
        end, heading = _block_end(lines, at)
        yield at, end, heading
        at = end


def _block_end(lines: Sequence[str], at: int) -> tuple[int, tuple[int, str] | None]:
    """Returns the line behind the block that begins at a line, and level and text if the block is a heading."""
    line = lines[at]
    if at == 0 and line.rstrip() == "---" and (close := _find_line(lines, 1, ("---", "..."))) is not None:
        # Front matter.
        return close + 1, None
    if fence := _FENCE.match(line):
        return _fence_end(lines, at, fence[1]), None
    if heading := _HEADING.match(line):
        return at + 1, (len(heading[1]), (heading[2] or "").strip())
    if _TABLE.match(line):
        return _run_end(lines, at, _TABLE), None
    under = _UNDERLINE.match(lines[at + 1]) if line.strip() and at + 1 < len(lines) else None
    if under and not _ITEM.match(line):
        return at + 2, (1 if under[1][0] == "=" else 2, line.strip())
    end = at + 1
    if not line.strip():
        return end, None
    # A paragraph or a list item reaches to the next blank line or to the start of another block.
    while end < len(lines) and lines[end].strip() and not _starts_block(lines, end):
        end += 1
    return end, None


def _starts_block(lines: Sequence[str], at: int) -> bool:
    """Returns True if a line begins a new block instead of continuing the paragraph above it."""
    line = lines[at]
    if _HEADING.match(line) or _FENCE.match(line) or _ITEM.match(line):
        return True
    return at + 1 < len(lines) and bool(_UNDERLINE.match(lines[at + 1]))


def _find_line(lines: Sequence[str], at: int, marks: tuple[str, ...]) -> int | None:
    return next((row for row in range(at, len(lines)) if lines[row].rstrip() in marks), None)


def _fence_end(lines: Sequence[str], at: int, mark: str) -> int:
    """Returns the line behind the one that closes a fence; a fence that is never closed reaches to the end."""
    for row in range(at + 1, len(lines)):
        bare = lines[row].strip()
        if bare.startswith(mark) and not bare.strip(mark[0]):
            return row + 1
    return len(lines)


def _run_end(lines: Sequence[str], at: int, pattern: re.Pattern[str]) -> int:
    """Returns the line behind the last of consecutive lines that match."""
    end = at
    while end < len(lines) and pattern.match(lines[end]):
        end += 1
    return end


def _split_line(text: str, number: int, start: int, end: int, sizes: ChunkSizes) -> Iterator[TextLine]:
    """Yields a line; if it is longer than a window, its parts, cut between sentences, else words, else anywhere."""
    while (size := approximate_tokens(text[start:end])) > sizes.target_tokens:
        width = max((end - start) * sizes.target_tokens // size, 1)
        cut = _cut_position(text[start : start + width])
        yield TextLine(number, start, start + cut, approximate_tokens(text[start : start + cut]))
        start += cut
    yield TextLine(number, start, end, approximate_tokens(text[start:end]))


def _cut_position(text: str) -> int:
    """Returns where to cut: behind the last sentence in the second half, else behind the last word, else at the end."""
    sentence = word = 0
    for gap in _SENTENCE.finditer(text, len(text) // 2):
        if gap.start() and text[gap.start() - 1] in ".!?;。！？；":
            sentence = gap.end()
        word = gap.end()
    return sentence or word or len(text)


# --- groups and windows -----------------------------------------------------------------------------------------------------


def _group_sections(sections: Sequence[TextSection], sizes: ChunkSizes) -> Iterator[list[TextSection]]:
    """Yields groups of neighbouring sections. Small sections are joined, but never a section with one below a higher heading."""
    group: list[TextSection] = []
    size = 0
    for section in sections:
        # The group is still too small to make sense alone, or the next section is a mere remark.
        small = size < sizes.min_tokens or section.tokens < sizes.min_tokens // 4
        if group and not (small and size + section.tokens <= sizes.target_tokens and section.level >= group[0].level):
            yield group
            group, size = [], 0
        group.append(section)
        size += section.tokens
    if group:
        yield group


def _single_sections(text: str, sections: Sequence[TextSection]) -> Iterator[list[TextSection]]:
    """Yields each section as a group of its own, without titles: headings with no text before the first section below them."""
    for section, following in zip(sections, (*sections[1:], None), strict=True):
        has_text = any(text[line.start : line.end].strip() for block in section.blocks[1:] for line in block)
        if has_text or following is None or following.level <= section.level:
            yield [section]


def _common_headings(paths: Sequence[tuple[str, ...]]) -> tuple[str, ...]:
    """Returns the headings that all sections of a group share, else the first heading. Sections without any do not count."""
    paths = [path for path in paths if path] or [()]
    shared = paths[0]
    for path in paths[1:]:
        depth = 0
        while depth < min(len(shared), len(path)) and shared[depth] == path[depth]:
            depth += 1
        shared = shared[:depth]
    return shared or paths[0][:1]


def _windows(blocks: Sequence[Sequence[TextLine]], sizes: ChunkSizes) -> Iterator[list[TextLine]]:
    """Yields windows of lines. Each window begins with the last lines of the one before it."""
    window: list[TextLine] = []
    # Tokens of the whole window, and of those lines that no earlier window has. A window of repeated lines only is never yielded.
    size = fresh = 0
    for block in blocks:
        block_size = sum(line.tokens for line in block)
        # A block that fits into a window begins the next one instead of being split. A block that fits into none is split anyway;
        # it continues a window that would otherwise be too small.
        if fresh and size + block_size > sizes.target_tokens and (block_size <= sizes.target_tokens or size >= sizes.min_tokens):
            yield window
            window = _overlap_lines(window, sizes.overlap_tokens)
            size, fresh = sum(line.tokens for line in window), 0
        for line in block:
            if fresh and size + line.tokens > sizes.target_tokens:
                yield window
                window = _overlap_lines(window, sizes.overlap_tokens)
                size, fresh = sum(line.tokens for line in window), 0
            window.append(line)
            size += line.tokens
            fresh += line.tokens
    if fresh:
        yield window


def _overlap_lines(window: Sequence[TextLine], overlap_tokens: int) -> list[TextLine]:
    """Returns the last lines of a window, which the next window repeats; none if the whole window would fit."""
    size, start = 0, len(window)
    while start and size + window[start - 1].tokens <= overlap_tokens:
        start -= 1
        size += window[start].tokens
    return list(window[start:]) if start else []
