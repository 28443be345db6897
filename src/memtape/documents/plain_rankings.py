"""Two plain rankings of the passages of an index, which document search is measured against.

`fts5` is SQLite's own `bm25()` with the Porter stemmer over the text of each passage. `bm25` is the textbook formula (k1 1.2,
b 0.75) over path, headings and text of each passage. Both drop the stop words of a question and join the rest by OR; neither
knows names, whole documents or vectors.

>>> passages = [IndexedPassage("a.md", 1, 1, 0, 9, "", "gold fell"), IndexedPassage("b.md", 1, 1, 0, 9, "", "oil rose")]
>>> [passage.path for passage in Bm25Baseline(passages).rank("why did gold fall or fell?", 5)]
['a.md']
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

import apsw

from memtape.documents.cache import TOKENIZER
from memtape.documents.index import DocumentIndex
from memtape.documents.question import STOP_WORDS, split_words

# The constants that most engines use.
K1, B = 1.2, 0.75


class IndexedPassage(NamedTuple):
    """A passage as the index has it."""

    path: str
    start_line: int
    end_line: int
    start: int
    end: int
    headings: str
    text: str


class RetrievalBaseline(Protocol):
    """A ranking of passages, built once for a set of them."""

    def __init__(self, passages: Sequence[IndexedPassage]) -> None: ...

    def rank(self, question: str, limit: int) -> list[IndexedPassage]:
        """Returns the best passages for a question."""
        ...


class Fts5Baseline:
    """SQLite's own ranking of passages."""

    def __init__(self, passages: Sequence[IndexedPassage]) -> None:
        self._passages = passages
        self._connection = apsw.Connection(":memory:")
        self._connection.execute(f"CREATE VIRTUAL TABLE passages USING fts5(text, tokenize='{TOKENIZER}')")
        rows = [(number, passage.text) for number, passage in enumerate(passages)]
        with self._connection:
            self._connection.executemany("INSERT INTO passages (rowid, text) VALUES (?, ?)", rows)

    def rank(self, question: str, limit: int) -> list[IndexedPassage]:
        """Returns the passages that FTS5 ranks first."""
        query = " OR ".join(f'"{word}"' for word in baseline_words(question))
        if not query:
            return []
        sql = "SELECT rowid FROM passages WHERE passages MATCH ? ORDER BY bm25(passages), rowid LIMIT ?"
        rows: list[Any] = self._connection.execute(sql, (query, limit)).fetchall()
        return [self._passages[number] for (number,) in rows]


class Bm25Baseline:
    """BM25 over path, headings and text of each passage."""

    def __init__(self, passages: Sequence[IndexedPassage]) -> None:
        self._passages = passages
        self._tokenize = apsw.Connection(":memory:").fts5_tokenizer("porter", ["unicode61"])
        self._postings: dict[str, list[tuple[int, int]]] = defaultdict(list)
        self._lengths: list[int] = []
        for number, passage in enumerate(passages):
            stems = self._stems(f"{passage.path}\n{passage.headings}\n{passage.text}")
            self._lengths.append(len(stems))
            for stem, count in Counter(stems).items():
                self._postings[stem].append((number, count))
        self._average_length = sum(self._lengths) / (len(passages) or 1) or 1.0

    def _stems(self, text: str) -> list[str]:
        tokens: Any = self._tokenize(text.encode("utf-8", "replace"), apsw.FTS5_TOKENIZE_DOCUMENT, None)
        return [str(token[2]) for token in tokens]

    def rank(self, question: str, limit: int) -> list[IndexedPassage]:
        """Returns the passages with the highest BM25."""
        scores: dict[int, float] = defaultdict(float)
        for stem in dict.fromkeys(stem for word in baseline_words(question) for stem in self._stems(word)):
            found = self._postings.get(stem, [])
            weight = math.log(1 + (len(self._passages) - len(found) + 0.5) / (len(found) + 0.5))
            for number, count in found:
                length_penalty = K1 * (1 - B + B * self._lengths[number] / self._average_length)
                scores[number] += weight * count * (K1 + 1) / (count + length_penalty)
        best = sorted(scores, key=lambda number: (-scores[number], number))[:limit]
        return [self._passages[number] for number in best]


BASELINES: dict[str, type[RetrievalBaseline]] = {"fts5": Fts5Baseline, "bm25": Bm25Baseline}


def baseline_words(question: str) -> list[str]:
    """Returns the words of a question without stop words; all of them if there are no others.

    >>> baseline_words("Why did we sell?"), baseline_words("why?")
    (['sell'], ['why'])
    """
    words = list(dict.fromkeys(split_words(question)))
    return [word for word in words if word not in STOP_WORDS] or words


def indexed_passages(index: DocumentIndex, owner: str, agent: str) -> list[IndexedPassage]:
    """Returns all passages of an agent's index."""
    sql = (
        "SELECT d.path, c.start_line, c.end_line, c.start, c.end, c.headings, c.text FROM chunks c "
        "JOIN documents d ON d.id = c.document WHERE c.scope = ? ORDER BY d.path, c.start"
    )
    with index.cache.reading() as connection:
        return [IndexedPassage._make(row) for row in connection.execute(sql, (index.cache.scope(owner, agent),)).fetchall()]
