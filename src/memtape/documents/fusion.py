"""One score from several arms: words and vectors each score their candidates; this puts the scores together and explains them.

Two ways. `weighted`: a weighted sum of BM25 (as a share of the best) and cosine. `reciprocal`: the sum of reciprocal ranks, which
looks at the order alone (Cormack, Clarke & Büttcher 2009).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Mapping
from typing import Literal

from memtape.core.value_class import dataclass
from memtape.plugs.embedder import Embedder

Fusion = Literal["weighted", "reciprocal"]
Arm = Literal["fts", "vector", "both", "exact"]
FUSIONS = ("weighted", "reciprocal")
MODEL_WEIGHTS = (0.5, 0.5)  # of words and of vectors
STATIC_WEIGHTS = (0.6, 0.4)  # if the vectors come from a static table of words, which knows little that BM25 does not
RANK_CONSTANT = 60  # as in the paper
MIN_SIMILARITY = 0.1  # a passage that shares no word with the question and is less similar has nothing to do with it


@dataclass(frozen=True, slots=True)
class ArmScores:
    """The scores of each arm, by chunk."""

    words: Mapping[int, float]
    meaning: Mapping[int, float]
    exact: tuple[frozenset[int], ...] = ()  # for each thing that the question names, the chunks that have it
    defining: frozenset[int] = frozenset()  # those of them that say what it is
    weights: tuple[float, float] | None = None  # of words and of meaning; None if there was no vector to compare with
    without_vector: frozenset[int] = frozenset()  # chunks that have no vector yet


def arm_weights(embedder: Embedder) -> tuple[float, float]:
    """Returns the weights of words and of the vectors of a model: half each, except for a static table."""
    return STATIC_WEIGHTS if "static" in embedder.id else MODEL_WEIGHTS


def fuse_scores(scores: ArmScores, fusion: Fusion) -> dict[int, float]:
    """Returns one score from 0 to 1 for each candidate.

    >>> fuse_scores(ArmScores({1: 4.0, 2: 2.0}, {1: 0.0, 2: 0.9, 3: 0.4}, weights=(0.5, 0.5)), "weighted")
    {1: 0.5, 2: 0.7, 3: 0.2}
    """
    best_words = max(scores.words.values(), default=0.0) or 1.0
    if scores.weights is None:
        return {chunk: score / best_words for chunk, score in scores.words.items()}
    # Vectors give every passage some similarity; below the minimum it says nothing.
    similar = {chunk: score for chunk, score in scores.meaning.items() if score >= MIN_SIMILARITY}
    candidates = dict.fromkeys((*scores.words, *similar))
    # A passage without a vector would lose half of its score until the next fill. Its vector score is estimated from its words
    # instead: the share of the best word score times the best similarity, or the same rank as by words.
    if fusion == "weighted":
        word_weight, vector_weight = scores.weights
        best_similarity = max(similar.values(), default=0.0)
        estimated = [chunk for chunk in scores.without_vector if chunk in scores.words]
        similar |= {chunk: best_similarity * scores.words[chunk] / best_words for chunk in estimated}
        return {
            chunk: round(word_weight * scores.words.get(chunk, 0.0) / best_words + vector_weight * similar.get(chunk, 0.0), 9)
            for chunk in candidates
        }
    word_ranks, vector_ranks = _ranks(scores.words), _ranks(similar)
    vector_ranks |= {chunk: word_ranks[chunk] for chunk in scores.without_vector if chunk in word_ranks}
    arms = (word_ranks, vector_ranks)
    # The score of a passage that is first in both arms, so that the best possible score is 1.
    highest = len(arms) / (RANK_CONSTANT + 1)
    return {
        chunk: round(sum(1 / (RANK_CONSTANT + ranks[chunk]) for ranks in arms if chunk in ranks) / highest, 9)
        for chunk in candidates
    }


def _ranks(scores: Mapping[int, float]) -> dict[int, int]:
    """Returns the rank of each chunk, 1 for the best; equal scores share a rank."""
    order = sorted(scores, key=lambda chunk: -scores[chunk])
    ranks: dict[int, int] = {}
    for at, chunk in enumerate(order):
        tied = at > 0 and scores[order[at - 1]] == scores[chunk]
        ranks[chunk] = ranks[order[at - 1]] if tied else at + 1
    return ranks


def explain_scores(scores: ArmScores) -> Callable[[int], tuple[Arm, str]]:
    """Returns a function that tells which arms found a chunk, and at which rank each."""
    similar = {chunk: score for chunk, score in scores.meaning.items() if score >= MIN_SIMILARITY}
    # Sorted once: the rank of a score is then one binary search away.
    arms = [
        ("words", scores.words, sorted(scores.words.values())),
        ("meaning", similar, sorted(similar.values())),
    ]
    exact = {chunk for chunks in scores.exact for chunk in chunks}

    def explain(chunk: int) -> tuple[Arm, str]:
        reasons = [
            f"{name}: {ordinal(1 + len(in_order) - bisect_right(in_order, by_chunk[chunk]))}"
            for name, by_chunk, in_order in arms
            if chunk in by_chunk
        ]
        reasons += ["no vector yet"] if chunk in scores.without_vector else []
        if chunk in exact:
            return "exact", "; ".join(("named exactly", *reasons))
        arm: Arm = "both" if chunk in scores.words and chunk in similar else "fts" if chunk in scores.words else "vector"
        return arm, "; ".join(reasons)

    return explain


def ordinal(number: int) -> str:
    """Returns a number as an English ordinal.

    >>> [ordinal(number) for number in (1, 2, 3, 11, 22, 113)]
    ['1st', '2nd', '3rd', '11th', '22nd', '113th']
    """
    ending = "th" if number % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{ending}"
