"""Short ids: the first hex digits of an id, as many as it takes to tell the records of one brief apart, and at least four.

The ids of lines that seldom change (lessons, recent trades) are shortened among themselves, so that a line further down never
changes them. Ids that somebody chose, like `half-in-ranges`, stay as they are; very long ones are cut, which is still a prefix.

>>> short = ShortIds(["c0b4aa0000000000", "c0b4ab0000000000", "9e0efe87f44d7427", "half-in-ranges"])
>>> [short.reference(id) for id in ("c0b4aa0000000000", "9e0efe87f44d7427", "half-in-ranges")]
['[c0b4aa]', '[9e0e]', '[half-in-ranges]']
>>> long = ShortIds(["half-size-in-ranges-london", "half-size-in-ranges-asia"])
>>> long.reference("half-size-in-ranges-london"), ShortIds(["half-size-in-ranges-asia"]).reference("half-size-in-ranges-asia")
('[half-size-in-ranges-l]', '[half-size-in]')
>>> resolve_short_id("c0b4ab", ["c0b4aa0000000000", "c0b4ab0000000000"])
['c0b4ab0000000000']
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from memtape.core.brief.sanitize import safe_name

MIN_DIGITS = 4
MAX_CHOSEN_CHARS = 20  # of an id that somebody chose
CUT_CHOSEN_CHARS = 12  # of a longer one, or as many as it takes
_MADE = re.compile(r"[0-9a-f]{16}")
_AMONG_WORDS = re.compile(r"\[[0-9A-Fa-f]{4,16}\]|\b(?=[A-Fa-f]*[0-9])[0-9A-Fa-f]{4,16}\b")


class ShortIds:
    """The short forms of the ids of one brief, given in the order in which they are shortened."""

    def __init__(self, stable: Iterable[str] = (), changing: Iterable[str] = ()) -> None:
        self._short: dict[str, str] = {}
        self._shorten(dict.fromkeys(stable))
        self._shorten(dict.fromkeys(id for id in changing if id not in self._short))

    def _shorten(self, ids: Iterable[str]) -> None:
        made = [id for id in ids if _MADE.fullmatch(id)]
        taken = [*(id for id in self._short if _MADE.fullmatch(id)), *made]
        for id in made:
            others = [other for other in taken if other != id]
            self._short[id] = next(id[:n] for n in range(MIN_DIGITS, 17) if not any(o.startswith(id[:n]) for o in others))
        long = [id for id in ids if not _MADE.fullmatch(id) and len(safe_name(id)) > MAX_CHOSEN_CHARS]
        for id in long:
            others = [other for other in (*self._short, *long) if other != id]
            lengths = range(CUT_CHOSEN_CHARS, len(id))
            self._short[id] = safe_name(next((id[:n] for n in lengths if not any(o.startswith(id[:n]) for o in others)), id))

    def reference(self, id: str) -> str:
        """Returns an id in the form in which a line shows it and an answer cites it."""
        return f"[{self.of(id)}]"

    def of(self, id: str) -> str:
        """Returns the short form of an id."""
        if id in self._short:
            return self._short[id]
        if _MADE.fullmatch(id):
            return id[:MIN_DIGITS]
        name = safe_name(id)
        return name if len(name) <= MAX_CHOSEN_CHARS else safe_name(id[:CUT_CHOSEN_CHARS])


def expand_short_ids(said: str, ids: Iterable[str]) -> str:
    """Returns a list of ids, as an answer names them, with each short id that stands for one record written in full.

    Ids are separated by commas, or stand among other words: in square brackets, or with a digit in them ("fade" is a word).

    >>> expand_short_ids("[c0b4], 9e0e, unknown", ["c0b4aa0000000000", "9e0efe87f44d7427"])
    'c0b4aa0000000000, 9e0efe87f44d7427, unknown'
    >>> expand_short_ids("[C0B4] and 9e0e; fade the open", ["c0b4aa0000000000", "9e0efe87f44d7427", "fade000000000000"])
    'c0b4aa0000000000 and 9e0efe87f44d7427; fade the open'
    """
    known = list(ids)

    def full(given: str) -> str | None:
        found = resolve_short_id(given, known) or resolve_short_id(given.lower(), known)
        return found[0] if len(found) == 1 else None

    parts = [part.strip() for part in said.split(",")]
    return ", ".join(full(part) or _AMONG_WORDS.sub(lambda one: full(one[0]) or one[0], part) for part in parts)


def resolve_short_id(short: str, ids: Iterable[str]) -> list[str]:
    """Returns the ids that a short id may stand for: the id itself if it is one, else all that begin with it."""
    given = short.strip().strip("[]")
    known = list(dict.fromkeys(ids))
    if given in known:
        return [given]
    return [id for id in known if len(given) >= MIN_DIGITS and id.startswith(given)]
