"""Which rows can have a place: all of them, and hardly any other, so that the reference need only rank these.

Given scores within a relative margin of the true ones, a row can be among the first m only if its score reaches the m-th
best less twice the margin. Every such row is taken. A group that may hold only part of a list (a source of tier 3 or 4,
trades that were decided against) is looked at on its own, for a row that it may not place makes room for one further down: its
places always go to its own best, so the first m of each group are enough.

Scores may also be equal by the thousand: trades of one import, without labels, closed at the same time. Of rows that are
alike in everything that a score is made from, the newest m, then by id, are enough.

>>> best(np.array([0.5, 0.9, 0.1, 0.9]), 2, 1e-9).tolist()
[1, 3]
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from memtape.columns.index import LEVELS, distinct
from memtape.columns.kernel import picked_rows
from memtape.core.recall.ranking import CAPPED_FROM_TIER

if TYPE_CHECKING:
    from memtape.columns.index import Columns, Floats, Rows

Places = NDArray[np.intp]
Parts = list[NDArray[Any]]
RANKED_DIRECTLY_ROWS = 256  # so many are ranked without a second look


def best(scores: Floats, m: int, margin: float) -> Places:
    """The places of all that may be among the first m."""
    if len(scores) <= m:
        return np.arange(len(scores))
    if m <= 0:
        return np.zeros(0, np.intp)
    return np.flatnonzero(scores >= nth(scores, m) * (1.0 - 2.0 * margin))


def nth(scores: Floats, m: int) -> float:
    """The m-th best, or what every score reaches if there are fewer."""
    return float(np.partition(scores, len(scores) - m)[len(scores) - m]) if 0 < m <= len(scores) else -np.inf


def leaders(scores: Floats, group: NDArray[np.int32], m: int, margin: float) -> Places:
    """The places of all that may be among the first m of a list in which group 0 is free and every other has a share.

    Group 0 and the best of each other group can always fill a list: whatever stays below the m-th of these has no place.
    """
    others = int(group.max(initial=0))
    if not others or m <= 0:
        return best(scores, m, margin)
    tops = np.full(others + 1, -np.inf)
    np.maximum.at(tops, group, scores)
    always = np.concatenate([scores[group == 0], tops[1:][np.isfinite(tops[1:])]])
    floor = nth(always, m)
    at = np.flatnonzero(scores >= floor * (1.0 - 2.0 * margin)) if np.isfinite(floor) else np.arange(len(scores))
    return of_each(scores, group, at, m, margin)


def of_each(scores: Floats, group: NDArray[np.int32], at: Places, m: int, margin: float) -> Places:
    """The places of all that may be among the first m of their own group."""
    held = group[at]
    found = [at[held == each] for each in distinct(held)]
    return np.concatenate([np.zeros(0, np.intp), *(some[best(scores[some], m, margin)] for some in found)])


def group_codes(columns: Columns, rows: Rows, claims_count: bool, shadows_apart: bool) -> NDArray[np.int32]:
    """0 for what may fill a list, a number of its own for each source that may not, and for trades that were decided against."""
    capped = columns.tier[rows] >= CAPPED_FROM_TIER
    if claims_count:
        capped &= ~columns.claimed[rows]
    codes = np.where(capped, columns.source_code[rows] + 1, 0).astype(np.int32)
    if shadows_apart:
        codes[columns.shadow[rows]] += len(columns.sources) + 1
    return codes


def drop_duplicates(columns: Columns, rows: Rows, at: Places, m: int, parts: Callable[[Places], Parts]) -> Places:
    """The same places without those that m equal ones come before; `parts` gives what must be the same for that."""
    if len(at) <= max(RANKED_DIRECTLY_ROWS, m):
        return at
    key = np.column_stack([column.astype(np.float64) for column in parts(at)])
    _, kind = np.unique(key, axis=0, return_inverse=True)
    order = np.argsort(kind.ravel(), kind="stable")
    kinds = np.split(at[order], np.flatnonzero(np.diff(kind.ravel()[order])) + 1)
    return np.concatenate([newest(columns, rows, equal, m) for equal in kinds])


def newest(columns: Columns, rows: Rows, at: Places, m: int) -> Places:
    """The m newest of these places, equal times by id."""
    if len(at) <= m:
        return at
    exits = columns.exit_us[picked_rows(rows, at)]
    cut = np.partition(exits, len(exits) - m)[len(exits) - m]
    at = at[exits >= cut]
    if len(at) == m:
        return at
    which = picked_rows(rows, at)
    first = heapq.nsmallest(m, range(len(at)), key=lambda n: (-int(columns.exit_us[which[n]]), columns.ids[which[n]]))
    return at[np.array(first, np.intp)]


def situation_parts(columns: Columns, rows: Rows) -> Parts:
    """All that likeness is made from."""
    levels = [part for name in LEVELS for part in (columns.state(name)[rows], columns.level(name)[rows])]
    return [columns.labels_code[rows], columns.symbol_code[rows], *levels]
