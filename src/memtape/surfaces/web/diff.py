"""The unified diff of a proposed edit, read line by line.

A page shows each line as text, so nothing that a model wrote in a diff becomes HTML.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import groupby, pairwise
from typing import NamedTuple

from memtape.surfaces.web.document_text import MAX_LINE_CHARACTERS

MAX_DIFF_CHARACTERS = 400_000
_HUNK = re.compile(r"@@ -(\d+)(?:,\d+)? \+(\d+)(?:,\d+)? @@")


class DiffLine(NamedTuple):
    """A line of a diff. Its sign: `+` only in the new text, `-` only in the old, ` ` in both, `@` where a hunk begins.

    The number is the line's place in the new text, or in the old text for a line that is only there.
    """

    sign: str
    number: int | None
    text: str
    left_out: int = 0
    # The first and last character that differ from the line that it replaces.
    differs: tuple[int, int] = (0, 0)


def read_diff(diff: str) -> Iterator[DiffLine]:
    """The lines of a unified diff.

    >>> diff = ["--- a.md", "+++ a.md", "@@ -4,2 +4,3 @@", " # Risk", "-1 %", "+0.5 %", "++ up", "\\\\ No newline at end of file"]
    >>> for line in read_diff("\\n".join(diff)): print(line.sign, line.number, line.text)
    @ None from line 4
      4 # Risk
    - 5 1 %
    + 5 0.5 %
    + 6 + up
    @ None No newline at end of file
    """
    old = new = 0
    # The first two lines name the document.
    for line in diff.split("\n")[2:]:
        sign, text = line[:1] or " ", line[1:]
        if sign == "@" and (hunk := _HUNK.fullmatch(line)):
            old, new = int(hunk[1]), int(hunk[2])
            yield DiffLine("@", None, f"from line {max(new, 1)}")
        elif sign == "\\":
            yield DiffLine("@", None, text.strip())
        else:
            yield DiffLine(sign, old if sign == "-" else new, text[:MAX_LINE_CHARACTERS], max(0, len(text) - MAX_LINE_CHARACTERS))
            old, new = old + (sign != "+"), new + (sign != "-")


class DiffExcerpt(NamedTuple):
    """A diff as a page shows it: its first lines, how many lines it has, and how many it adds and removes."""

    lines: Sequence[DiffLine]
    of: int
    added: int
    removed: int


def diff_excerpt(diff: str, limit: int) -> DiffExcerpt:
    """At most `limit` lines of a diff, and no more characters than a page can hold.

    >>> found = diff_excerpt("--- a\\n+++ a\\n@@ -1 +1 @@\\n-1 %\\n+2 %", 2)
    >>> [line.sign for line in found.lines], found.of, found.added, found.removed
    (['@', '-'], 3, 1, 1)
    """
    every = _paired(list(read_diff(diff)))
    shown: list[DiffLine] = []
    characters = 0
    for line in every[:limit]:
        characters += len(line.text)
        if characters > MAX_DIFF_CHARACTERS:
            break
        shown.append(line)
    signs = [line.sign for line in every]
    return DiffExcerpt(shown, len(every), signs.count("+"), signs.count("-"))


def _paired(lines: list[DiffLine]) -> list[DiffLine]:
    """The lines, with the part that differs marked where a run of lines is replaced by a run of the same length."""
    runs = [list(run) for _, run in groupby(lines, key=lambda line: line.sign)]
    for before, after in pairwise(runs):
        if (before[0].sign, after[0].sign) == ("-", "+") and len(before) == len(after):
            for n, (old, new) in enumerate(zip(before, after, strict=True)):
                ends = differing_words(old.text, new.text)
                before[n], after[n] = old._replace(differs=ends[0]), new._replace(differs=ends[1])
    return [line for run in runs for line in run]


def differing_words(old: str, new: str) -> tuple[tuple[int, int], tuple[int, int]]:
    """Where two lines differ, in whole words; (0, 0) twice if they share neither the first nor the last word.

    >>> old, new = "Risk 1 % of equity.", "Risk 0.5 % of equity."
    >>> [line[slice(*ends)] for line, ends in zip((old, new), differing_words(old, new))]
    ['1', '0.5']
    >>> differing_words("Buy.", "Sell.")
    ((0, 0), (0, 0))
    """
    start = old.rfind(" ", 0, _shared_length(old, new)) + 1
    tail = _shared_length(old[start:][::-1], new[start:][::-1])
    space = old.find(" ", len(old) - tail)
    tail = len(old) - space if tail and space >= 0 else 0
    if not start and not tail:
        return (0, 0), (0, 0)
    return (start, len(old) - tail), (start, len(new) - tail)


def _shared_length(one: str, other: str) -> int:
    """The number of first characters that two texts share."""
    return next((n for n, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))
