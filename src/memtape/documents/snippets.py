"""The part of a passage that is shown with a hit: where most words of the question occur, on one line, without secrets.

>>> from memtape.documents.question import parse_question
>>> snippet("# Log\\n" + "nothing here\\n" * 40 + "moved the stop and lost", parse_question("stop lost"), 100)
'moved the stop and lost'
"""

from __future__ import annotations

from memtape.core.brief.sanitize import one_line
from memtape.documents.question import ParsedQuestion

SNIPPET_LENGTH = 300  # characters
STEM_LENGTH = 5  # so many first letters stand for all forms of a word


def snippet(text: str, question: ParsedQuestion, max_length: int = SNIPPET_LENGTH) -> str:
    """Returns the part of a passage that has most words of the question, on one line."""
    if len(text) <= max_length:
        return one_line(text, max_length)
    positions = _positions(text.lower(), {word[:STEM_LENGTH] for word, _ in question.words})
    # Slide a window of three quarters of the length over the positions and remember where it holds most of them.
    start, most, last = 0, 0, 0
    for first, position in enumerate(positions):
        while last < len(positions) and positions[last] < position + max_length * 3 // 4:
            last += 1
        if last - first > most:
            start, most = position, last - first
    # Begin up to a quarter of the length before it, at the start of a line, else of a word.
    earliest = max(start - max_length // 4, 0)
    begin = text.rfind("\n", earliest, start) + 1 or (text.find(" ", earliest, start) + 1 if earliest else 0)
    return one_line(text[begin : begin + 2 * max_length], max_length)


def _positions(text: str, stems: set[str]) -> list[int]:
    """Returns where any of the stems occurs, in order."""
    positions: list[int] = []
    for stem in stems:
        at = text.find(stem)
        while at >= 0:
            positions.append(at)
            at = text.find(stem, at + len(stem))
    return sorted(positions)
