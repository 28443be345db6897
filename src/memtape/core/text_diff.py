"""Two versions of a text: their difference as a unified diff, and the newlines of the one carried over to the other."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from itertools import chain, repeat

Opcode = tuple[str, int, int, int, int]  # as in difflib: what is done, and to which lines of either text
CONTEXT_LINES = 3  # around a change
MAX_COMPARED_LINES = 4_000  # between the first and the last difference; if there are more, all count as replaced
_NEWLINE = re.compile(r"\r\n|\n|\r")


def normalize_newlines(text: str) -> str:
    """Returns a text with every newline as `\\n`.

    >>> normalize_newlines("a\\r\\nb\\rc")
    'a\\nb\\nc'
    """
    return _NEWLINE.sub("\n", text)


def main_newline(text: str) -> str:
    """Returns the newline that a text uses most."""
    newlines: list[str] = _NEWLINE.findall(text)
    return Counter(newlines).most_common(1)[0][0] if newlines else "\n"


def keep_newlines(before: str, after: str) -> str:
    """Returns a new text, given with plain newlines, with the newlines of the old one: unchanged lines keep their own.

    >>> keep_newlines("a\\r\\nb\\r\\n", "a\\nc\\nb\\n")
    'a\\r\\nc\\r\\nb\\r\\n'
    """
    old, new = list(_lines_with_ends(before)), list(_lines_with_ends(after))
    usual = main_newline(before)
    head = _common_start(old, new)
    tail = _common_start(old[head:][::-1], new[head:][::-1])
    # A changed line takes the newline of the line in its place, an added one the usual newline.
    ends = chain((end or usual for _, end in old[head : len(old) - tail]), repeat(usual))
    middle = [(line, newline if end else "") for (line, end), newline in zip(new[head : len(new) - tail], ends, strict=False)]
    return "".join(line + end for line, end in (*old[:head], *middle, *old[len(old) - tail :]))


def _lines_with_ends(text: str) -> Iterator[tuple[str, str]]:
    """Yields the lines of a text, each with its newline; the last may have none."""
    start = 0
    for newline in _NEWLINE.finditer(text):
        yield text[start : newline.start()], newline[0]
        start = newline.end()
    if start < len(text):
        yield text[start:], ""


def _common_start(one: Sequence[tuple[str, str]], other: Sequence[tuple[str, str]]) -> int:
    """Returns how many first lines are the same, whatever their newline is."""
    pairs = zip(one, other, strict=False)
    return next((n for n, (a, b) in enumerate(pairs) if a[0] != b[0] or bool(a[1]) != bool(b[1])), min(len(one), len(other)))


def unified_diff(path: str, before: str | None, after: str) -> str:
    """Returns the difference of two texts as a unified diff; a new document is compared with /dev/null."""
    a, b = _diff_lines(before or ""), _diff_lines(after)
    # Equal lines at the start are skipped: the search for differences is slow in a long log.
    head = max(_equal_start(a, b) - CONTEXT_LINES, 0)
    lines = [f"--- {path if before is not None else '/dev/null'}", f"+++ {path}"]
    for group in _change_groups(a[head:], b[head:]):
        lines.append(f"@@ -{_hunk_range(group[0][1], group[-1][2], head)} +{_hunk_range(group[0][3], group[-1][4], head)} @@")
        for tag, a1, a2, b1, b2 in group:
            if tag == "equal":
                lines += [f" {line}" for line in a[head + a1 : head + a2]]
                continue
            lines += [f"-{line}" for line in a[head + a1 : head + a2]]
            lines += [f"+{line}" for line in b[head + b1 : head + b2]]
    return "\n".join(lines)


def _change_groups(a: Sequence[str], b: Sequence[str]) -> list[list[Opcode]]:
    """Returns the changes in groups with a few lines around each. Searches only between the first and the last difference.

    >>> _change_groups(["x", "y"], ["x", "z", "y"])
    [[('equal', 0, 1, 0, 1), ('insert', 1, 1, 1, 2), ('equal', 1, 2, 2, 3)]]
    """
    top = _equal_start(a, b)
    below = _equal_start(a[top:][::-1], b[top:][::-1])
    ends = len(a) - below, len(b) - below
    around = min(below, CONTEXT_LINES)
    if max(ends) - top <= MAX_COMPARED_LINES:
        matcher = SequenceMatcher(None, a[: ends[0] + around], b[: ends[1] + around])
        return list(matcher.get_grouped_opcodes(CONTEXT_LINES))
    opcodes: list[Opcode] = [
        ("equal", max(top - CONTEXT_LINES, 0), top, max(top - CONTEXT_LINES, 0), top),
        ("replace", top, ends[0], top, ends[1]),
        ("equal", ends[0], ends[0] + around, ends[1], ends[1] + around),
    ]
    return [[each for each in opcodes if each[2] > each[1] or each[4] > each[3]]]


def _equal_start(a: Sequence[str], b: Sequence[str]) -> int:
    """Returns how many first lines are equal."""
    return next((n for n, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))


def _diff_lines(text: str) -> list[str]:
    """Returns the lines to compare. A missing newline at the end is part of the last line, as diff shows it."""
    return [line if end else f"{line}\n\\ No newline at end of file" for line, end in _lines_with_ends(text)]


def _hunk_range(first: int, last: int, head: int) -> str:
    size = last - first
    start = head + first + (1 if size else 0)
    return f"{start}" if size == 1 else f"{start},{size}"
