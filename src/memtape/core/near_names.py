"""Names that may be meant by one that does not exist: a spelling mistake is answered with what there is.

>>> meant("tech-brakout", ["tech-breakout", "tech-reversion", "gold"])
'Did you mean tech-breakout?'
>>> meant("xyzzy", ["gold"])
''
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from difflib import get_close_matches

MAX_NEAR = 3  # how many are named
NEAR_RATIO = 0.7  # how alike two names are of which one may be meant for the other; 1 is equal


def near_names(asked: str, known: Iterable[str]) -> list[str]:
    """The names that may be meant, the nearest first. Case does not count; a beginning counts as near.

    >>> near_names("Gold", ["gold-swing", "silver"]), near_names("rangin", ["ranging", "volatile"])
    (['gold-swing'], ['ranging'])
    >>> near_names("market_context", ["symbol", "context"])
    ['context']
    """
    by_lower = {each.lower(): each for each in known}
    near = get_close_matches(asked.lower(), by_lower, n=MAX_NEAR, cutoff=NEAR_RATIO)
    near += [each for each in sorted(by_lower) if len(asked) >= 2 and each.startswith(asked.lower()) and each not in near]
    # A field that other tools call by a longer name: `symbol_name` for `symbol`.
    near += [each for each in by_lower if each in asked.lower().split("_") and each not in near]
    return [by_lower[each] for each in near[:MAX_NEAR]]


def either(names: Sequence[str]) -> str:
    """Names as alternatives.

    >>> either(["a"]), either(["a", "b", "c"])
    ('a', 'a, b or c')
    """
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} or {names[-1]}"


def meant(asked: str, known: Iterable[str]) -> str:
    """The question whether a near name was meant; "" if none is near."""
    near = near_names(asked, known)
    return f"Did you mean {either(near)}?" if near else ""
