"""BM25 with given counts. FTS5's own `bm25()` counts the words of one table; this scores rows of several tables alike."""

from __future__ import annotations

import json
import math
from typing import Any

import apsw

# The same constants as FTS5.
K1, B = 1.2, 0.75
MIN_TERM_WEIGHT = 1e-6  # what FTS5 gives a word that more than half of the rows contain


def term_weight(rows: int, rows_with_term: int) -> float:
    """Returns the inverse document frequency of a word: the fewer rows contain it, the more it counts.

    >>> round(term_weight(1000, 1), 3), term_weight(10, 9)
    (6.502, 1e-06)
    """
    weight = math.log((rows - rows_with_term + 0.5) / (rows_with_term + 0.5)) if rows > rows_with_term else 0.0
    return weight if weight > 0 else MIN_TERM_WEIGHT


def bm25_score(api: apsw.FTS5ExtensionApi, /, *arguments: Any) -> float:
    """Returns the BM25 score of a row. In SQL: `weighed(table, average_length, weights)`, the weight of each phrase as JSON."""
    # FTS5 keeps `aux_data` for the whole statement, so the weights are parsed once and not once per row.
    if api.aux_data is None:
        api.aux_data = float(arguments[0]), list(enumerate(json.loads(arguments[1])))
    average_length, weights = api.aux_data
    length_penalty = K1 * (1 - B + B * api.column_size(-1) / average_length)
    total = 0.0
    for phrase, weight in weights:
        count = sum(map(len, api.phrase_locations(phrase)))
        if count:
            total += weight * count * (K1 + 1) / (count + length_penalty)
    return total
