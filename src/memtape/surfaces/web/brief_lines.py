"""The text of a brief as a page shows it: line by line with the source of each line, and two texts compared.

>>> [(line.sign, line.text) for line in diff_lines("a\\nb\\n", "a\\nc\\nb\\n")]
[(' ', 'a'), ('+', 'c'), (' ', 'b')]
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from difflib import SequenceMatcher
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import quote

if TYPE_CHECKING:
    from memtape.surfaces.operations.briefs import BriefAnswer, CitationRow

_PAGES: Mapping[str, str] = {
    "trade": "/trades/", "episode": "/trades/", "belief": "/beliefs/", "plan": "/plans#plan-", "lesson": "/lessons#lesson-",
}  # fmt: skip


class LineOrigin(NamedTuple):
    """The source of a line: its kind and id, the address that shows it (or none), and its tier."""

    kind: str
    id: str
    to: str
    tier: int


class BriefTextLine(NamedTuple):
    """A line of a brief. The first line of a segment names it; `sign` is what a comparison found."""

    number: int
    text: str
    segment: str = ""
    sources: tuple[LineOrigin, ...] = ()
    sign: str = " "


def brief_text_lines(brief: BriefAnswer, path: str) -> list[BriefTextLine]:
    """The text of a brief, each line with its sources. Joined by line breaks, the lines are its exact bytes."""
    sources: dict[int, list[LineOrigin]] = {}
    for cited in brief.citations:
        sources.setdefault(cited.line, []).append(_origin(cited, path))
    starts = segment_starts(brief.text, ((segment.name, segment.text) for segment in brief.segments))
    return [
        BriefTextLine(n, text, starts.get(n, ""), tuple(sources.get(n, ())))
        for n, text in enumerate(brief.text.removesuffix("\n").split("\n"), 1)
    ]


def _origin(cited: CitationRow, path: str) -> LineOrigin:
    if cited.kind == "discrepancy":
        return LineOrigin(cited.kind, cited.id, f"{path}#discrepancies", cited.tier)
    to = f"{path}{_PAGES[cited.kind]}{quote(cited.id, safe='')}" if cited.kind in _PAGES else ""
    return LineOrigin(cited.kind, cited.id, to, cited.tier)


def segment_starts(text: str, segments: Iterable[tuple[str, str]]) -> dict[int, str]:
    """The line on which each segment starts, from names and texts in their order.

    >>> segment_starts("=== system ===\\nYou are.\\n\\nDecide.\\n", [("header", "You are."), ("footer", "Decide.")])
    {2: 'header', 4: 'footer'}
    """
    found: dict[int, str] = {}
    at = 0
    for name, part in segments:
        place = text.find(part, at)
        if place >= 0:
            found[text.count("\n", 0, place) + 1] = name
            at = place + len(part)
    return found


def diff_lines(before: str, after: str) -> list[BriefTextLine]:
    """Two texts compared line by line: `+` is only in the second, `-` only in the first. Numbers are those of the second."""
    old, new = (text.removesuffix("\n").split("\n") for text in (before, after))
    found: list[BriefTextLine] = []
    for change, i1, i2, j1, j2 in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if change == "equal":
            found += [BriefTextLine(n + 1, new[n]) for n in range(j1, j2)]
            continue
        found += [BriefTextLine(0, old[n], sign="-") for n in range(i1, i2)]
        found += [BriefTextLine(n + 1, new[n], sign="+") for n in range(j1, j2)]
    return found
