"""Nearly identical passages: the same words apart from a few, such as a template filled in every day.

>>> day = "Checklist: spread below two points, no release within the hour, risk under one percent, stop set. {}"
>>> passages = [("mon", day.format("Done 1")), ("tue", day.format("Done 2")), ("wed", "Gold broke out.")]
>>> split_repeats([(*each, MIN_SHARED) for each in passages]), split_repeats([(*each, 1.0) for each in passages])
((['mon', 'wed'], ['tue']), (['mon', 'tue', 'wed'], []))
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

MIN_SHARED = 0.8  # of the words of two passages that are nearly identical
MIN_WORDS = 8  # shorter passages differ by what few words they have

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
        if len(words) >= MIN_WORDS and any(_is_repeat(words, other, min_shared) for other in seen):
            behind.append(item)
        else:
            first.append(item)
            seen.append(words)
    return first, behind


def _is_repeat(words: frozenset[str], other: frozenset[str], min_shared: float) -> bool:
    fewer, more = sorted((len(words), len(other)))
    # Most pairs differ in length already.
    if fewer < min_shared * more:
        return False
    shared = len(words & other)
    return shared >= min_shared * (fewer + more - shared)
