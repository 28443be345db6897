"""BM25 of rows by counts that are given: what FTS5's own `bm25()` does with the counts of one table, for several together."""

from __future__ import annotations

import json
import math
from typing import Any

import apsw

K1, B = 1.2, 0.75  # those of FTS5
LEAST = 1e-6  # what FTS5 gives a word that is in more than half of the rows


def term_weight(rows: int, holding: int) -> float:
    """How much a word tells: the fewer have it, the more.

    >>> round(term_weight(1000, 1), 3), term_weight(10, 9)
    (6.502, 1e-06)
    """
    found = math.log((rows - holding + 0.5) / (holding + 0.5)) if rows > holding else 0.0
    return found if found > 0 else LEAST


def bm25_score(api: apsw.FTS5ExtensionApi, /, *given: Any) -> float:
    """BM25 of a row, as `weighed(table, average, weights)` in SQL: the average length, and the weight of each part as JSON."""
    if api.aux_data is None:
        api.aux_data = float(given[0]), list(enumerate(json.loads(given[1])))
    average, weights = api.aux_data
    room = K1 * (1 - B + B * api.column_size(-1) / average)
    total = 0.0
    for part, each in weights:
        count = sum(map(len, api.phrase_locations(part)))
        if count:
            total += each * count * (K1 + 1) / (count + room)
    return total
