"""Nearly identical passages: the same words apart from a few, such as a template filled in every day.

>>> day = "Checklist: spread below two points, no release within the hour, risk under one percent, stop set. {}"
>>> passages = [("mon", day.format("Done 1")), ("tue", day.format("Done 2")), ("wed", "Gold broke out.")]
>>> split_repeats([(*each, MIN_SHARED) for each in passages]), split_repeats([(*each, 1.0) for each in passages])
((['mon', 'wed'], ['tue']), (['mon', 'tue', 'wed'], []))
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import TypeVar

MIN_SHARED = 0.8  # of the words of two passages that are nearly identical
MIN_WORDS = 8  # shorter passages differ by what few words they have
SAMPLE = 24  # words that are compared before all are

Item = TypeVar("Item")


def split_repeats(passages: Sequence[tuple[Item, str, float]]) -> tuple[list[Item], list[Item]]:
    """Returns the passages that repeat no better one, and those that do.

    Each is given with its text and the share of its words that it has in common with one that it repeats; best first.
    """
    first: list[Item] = []
    behind: list[Item] = []
    seen: list[frozenset[str]] = []
    for item, text, min_shared in passages:
        words = frozenset(text.split())
        if len(words) >= MIN_WORDS and _repeats_any(words, seen, min_shared):
            behind.append(item)
        else:
            first.append(item)
            seen.append(words)
    return first, behind


def _repeats_any(words: frozenset[str], seen: Sequence[frozenset[str]], min_shared: float) -> bool:
    """Returns True if so large a share of the words of both stands in one of those seen."""
    count, some = len(words), frozenset(islice(words, SAMPLE))
    for other in seen:
        total = count + len(other)
        needed = min_shared * total / (1 + min_shared)  # words in both: their share of the words in either
        # Most pairs differ in length already, and most others lack too many of a few words: the whole need not be compared.
        if needed > count or needed > len(other) or len(some) - len(some & other) > count - needed:
            continue
        shared = len(words & other)
        if shared >= min_shared * (total - shared):
            return True
    return False
