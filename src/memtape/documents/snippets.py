"""The part of a passage that is shown with a hit: where most of what was asked for stands, on one line, without secrets.

>>> from memtape.documents.question import parse_question
>>> snippet("# Log\\n" + "nothing here\\n" * 40 + "moved the stop and lost", parse_question("stop lost"), 100)
'moved the stop and lost'
"""

from __future__ import annotations

from memtape.core.brief.sanitize import one_line
from memtape.documents.question import ParsedQuestion

SNIPPET = 300
STEM = 5  # so many letters stand for a word in its other forms


def snippet(text: str, asked: ParsedQuestion, cap: int = SNIPPET) -> str:
    """The part of a passage that has most of what was asked for, on one line."""
    if len(text) <= cap:
        return one_line(text, cap)
    places = _places(text.lower(), {word[:STEM] for word, _ in asked.words})
    start, most, last = 0, 0, 0
    for first, place in enumerate(places):
        while last < len(places) and places[last] < place + cap * 3 // 4:
            last += 1
        if last - first > most:
            start, most = place, last - first
    before = max(start - cap // 4, 0)
    begin = text.rfind("\n", before, start) + 1 or (text.find(" ", before, start) + 1 if before else 0)
    return one_line(text[begin : begin + 2 * cap], cap)


def _places(text: str, stems: set[str]) -> list[int]:
    """Where any of these stand."""
    found: list[int] = []
    for stem in stems:
        at = text.find(stem)
        while at >= 0:
            found.append(at)
            at = text.find(stem, at + len(stem))
    return sorted(found)
