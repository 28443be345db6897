"""BM25 with given counts, and how near to each other the words of a question are.

FTS5's own `bm25()` counts the words of one table; this scores rows of several tables alike. Two words that follow each other in
the question and are near each other in the passage count like a further word: the nearer and the more often, the more
(Rasolofo & Savoy 2003).

>>> round(times_near([[3, 40]], [[4, 90]]), 3), times_near([[3]], [[30]])
(1.0, 0.0)
"""

from __future__ import annotations

import json
import math
from bisect import bisect_left
from collections.abc import Sequence
from typing import Any, NamedTuple

import apsw

K1, B = 1.2, 0.75
NEARNESS_WEIGHT = 0.2  # of a pair of words compared with a word
WINDOW = 5  # words farther apart than this are not near


class Weights(NamedTuple):
    """What the score of a row depends on beside the row: the weight of each phrase of the query, and the pairs of phrases."""

    average_length: float
    terms: list[float]
    pairs: list[tuple[int, int]]


def term_weight(rows: int, rows_with_term: int) -> float:
    """Returns the inverse document frequency of a word: the fewer rows contain it, the more it counts; never below zero.

    >>> round(term_weight(1000, 1), 3), round(term_weight(10, 9), 3)
    (6.503, 0.147)
    """
    return math.log1p((rows - rows_with_term + 0.5) / (rows_with_term + 0.5))


def times_near(first: Sequence[Sequence[int]], second: Sequence[Sequence[int]]) -> float:
    """Returns how often two words are near each other: 1 for each time that they touch, less for each time farther apart.

    Each word is given by its positions in each column.
    """
    total = 0.0
    for here, there in zip(first, second, strict=True):
        if not there:
            continue
        for position in here:
            at = bisect_left(there, position - WINDOW)
            while at < len(there) and there[at] <= position + WINDOW:
                if there[at] != position:
                    total += 1 / (there[at] - position) ** 2
                at += 1
    return total


def passage_score(api: apsw.FTS5ExtensionApi, /, *arguments: Any) -> float:
    """Returns the score of a row. In SQL: `weighed(table, average_length, weights, pairs)`, the last two as JSON."""
    # FTS5 keeps `aux_data` for the whole statement, so the weights are parsed once and not once per row.
    weights: Weights | None = api.aux_data
    if weights is None:
        weights = api.aux_data = Weights(float(arguments[0]), json.loads(arguments[1]), json.loads(arguments[2]))
    length_penalty = K1 * (1 - B + B * api.column_size(-1) / weights.average_length)
    # Plain loops: this is called for some hundred rows of each search.
    places, counts, total = list[Any](), list[int](), 0.0
    for phrase, weight in enumerate(weights.terms):
        columns, count = api.phrase_locations(phrase), 0
        for column in columns:
            count += len(column)
        places.append(columns)
        counts.append(count)
        if count:
            total += weight * count * (K1 + 1) / (count + length_penalty)
    for first, second in weights.pairs:
        if counts[first] and counts[second] and (near := times_near(places[first], places[second])):
            weight = NEARNESS_WEIGHT * min(weights.terms[first], weights.terms[second])
            total += weight * near * (K1 + 1) / (near + length_penalty)
    return total
