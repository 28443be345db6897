"""Ranking by words: BM25 of passages and of whole documents, and passages that contain a name exactly.

FTS5 ranks the rows of one table. If an agent's own documents and the shared ones are searched together, each table would weigh a
word by how common it is in that table alone, and a word that is common in the journal but rare in the playbooks would lift the
playbooks. So the best rows of both are scored again by the same formula with the counts of both tables together. With one table
this gives what FTS5 gives.

All public functions run inside a transaction of the caller.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from memtape.documents.bm25 import term_weight
from memtape.documents.cache import DocumentCache
from memtape.documents.question import (
    ParsedQuestion,
    WordCounts,
    any_word_query,
    choose_words,
    contains_exactly,
    phrase_query,
    split_words,
)

MAX_EXACT_PASSAGES = 3  # a name that more passages contain does not single any of them out
MAX_PHRASE_MATCHES = 50  # a phrase with so many matches is too common to look at each
MAX_EXACT_PARTS = 4  # a question with more names describes something and does not ask for one of them
MAX_SCANNED_PASSAGES = 20  # reading so many passages is faster than another query
# Filters the rows that a full-text query has found. The plus keeps SQLite from looking up each listed row instead.
_ONLY_ROWS = "AND +rowid IN (SELECT value FROM json_each(?))"
_ONLY_TYPES = (
    "AND +rowid IN (SELECT c.id FROM documents d JOIN chunks c ON c.document = d.id "
    "WHERE d.scope = ? AND d.type IN (SELECT value FROM json_each(?)))"
)

Rows = list[Any]
# Chunk, score, document, and 1 if the passage is its whole document. A plain tuple: hundreds are handled for each question.
ScoredPassage = tuple[int, float, int, int]


def search_terms(cache: DocumentCache, scopes: Sequence[int], question: ParsedQuestion) -> WordCounts:
    """Returns the words of a question to search for."""
    return choose_words(question, cache.stem, lambda stem: _frequency(cache, scopes, stem))


def _frequency(cache: DocumentCache, scopes: Sequence[int], stem: str) -> int:
    """Returns how many passages contain a stem."""
    total = 0
    for scope in scopes:
        rows: Rows = cache.connection.execute(f"SELECT doc FROM vocabulary_{scope} WHERE term = ?", (stem,)).fetchall()
        total += rows[0][0] if rows else 0
    return total


def rank_by_words(
    cache: DocumentCache, scopes: Sequence[int], words: WordCounts, pool: int, types: Sequence[str] = ()
) -> dict[int, float]:
    """Returns the best passages for some words: the score is BM25 of the passage plus BM25 of the document around it.

    If a document has a single passage, the two are the same, and the score of the passage counts twice.
    """
    if not words:
        return {}
    # Repetitions matter only to FTS5's own score. With several tables that score is replaced below, which adds them itself.
    query_words = words if len(scopes) == 1 else _without_counts(words)
    best = {scope: _best_passages(cache, scope, query_words, pool, types) for scope in scopes}
    around = {scope: list({document for _, _, document, alone in found if not alone}) for scope, found in best.items()}
    passages = [each for found in best.values() for each in found]
    if len(scopes) > 1:
        scores = _joint_scores(cache, "words", words, {scope: [chunk for chunk, *_ in found] for scope, found in best.items()})
        rescored = [(chunk, scores[chunk], document, alone) for chunk, _, document, alone in passages]
        passages = sorted(rescored, key=lambda passage: (-passage[1], passage[0]))[:pool]
    found_all = len(passages) < pool and not types
    document_scores = _document_scores(cache, words, around, found_all=found_all) if any(around.values()) else {}
    return {chunk: score + (score if alone else document_scores.get(document, 0.0)) for chunk, score, document, alone in passages}


def _without_counts(words: WordCounts) -> WordCounts:
    return tuple((word, 1) for word, _ in words)


def _best_passages(cache: DocumentCache, scope: int, words: WordCounts, limit: int, types: Sequence[str]) -> list[ScoredPassage]:
    """Returns the best passages of one scope."""
    table = f"words_{scope}"
    only, values = (_ONLY_TYPES, (scope, json.dumps(list(types)))) if types else ("", ())
    # `bm25()` and not `rank`, which is the same figure at a higher price: FTS5 would run a second statement inside the first one
    # to sort its rows. The documents are joined outside the subquery, so they are looked up only for the rows within the limit.
    sql = (
        f"SELECT found, -score, document, alone FROM (SELECT rowid AS found, bm25({table}) AS score FROM {table} "
        f"WHERE {table} MATCH ? {only} ORDER BY score, rowid LIMIT ?) CROSS JOIN chunks INDEXED BY chunks_in_short ON id = found"
    )
    rows: Rows = cache.connection.execute(sql, (any_word_query(words), *values, limit)).fetchall()
    return rows


def _document_scores(
    cache: DocumentCache, words: WordCounts, wanted: Mapping[int, Sequence[int]], *, found_all: bool
) -> dict[int, float]:
    """Returns BM25 of the wanted documents of each scope as whole texts.

    Only of these, because scoring a row costs more than matching it. If the search found every passage with any of the words
    (`found_all`), no other document matches, and the filter is not needed.
    """
    if len(wanted) > 1:
        return _joint_scores(cache, "whole", words, wanted)
    ((scope, documents),) = wanted.items()
    table = f"whole_{scope}"
    only, values = ("", ()) if found_all else (_ONLY_ROWS, (str(documents),))
    sql = f"SELECT rowid, -bm25({table}) FROM {table} WHERE {table} MATCH ? {only}"
    rows: Rows = cache.connection.execute(sql, (any_word_query(words), *values)).fetchall()
    return dict(rows)


def _joint_scores(cache: DocumentCache, kind: str, words: WordCounts, wanted: Mapping[int, Sequence[int]]) -> dict[int, float]:
    """Returns BM25 of the wanted rows of each scope, with the counts of all scopes together."""
    tables = {f"{kind}_{scope}": numbers for scope, numbers in wanted.items()}
    sizes = {table: _table_size(cache, table) for table in tables}
    row_count, word_count = (sum(each) for each in zip(*sizes.values(), strict=True))
    weights = [
        times * term_weight(row_count, sum(_count(cache, table, f'"{word}"') for table, (rows, _) in sizes.items() if rows))
        for word, times in words
    ]  # fmt: skip
    average_length, query = word_count / row_count if row_count else 1.0, any_word_query(_without_counts(words))
    scores: dict[int, float] = {}
    for table, numbers in tables.items():
        sql = f"SELECT rowid, weighed({table}, ?, ?) FROM {table} WHERE {table} MATCH ? {_ONLY_ROWS}"
        values = (average_length, json.dumps(weights), query, str(list(numbers)))
        scores.update(cache.connection.execute(sql, values) if numbers else ())
    return scores


def _table_size(cache: DocumentCache, table: str) -> tuple[int, int]:
    """Returns how many rows a full-text table has, and how many words they have together."""
    # FTS5 keeps both as the first numbers of its "averages" record, which is missing while the table is empty. Counting the rows
    # would take a scan.
    rows: Rows = cache.connection.execute(f"SELECT block FROM {table}_data WHERE id = 1").fetchall()
    numbers = _varints(rows[0][0]) if rows else []
    return sum(numbers[:1]), sum(numbers[1:])


def _varints(block: bytes) -> list[int]:
    """Decodes SQLite's variable-length integers.

    >>> _varints(bytes([5, 0x81, 0x00]))
    [5, 128]
    """
    numbers, value, length = [], 0, 0
    for byte in block:
        length += 1
        if length == 9:
            numbers.append(value << 8 | byte)
            value = length = 0
            continue
        value = value << 7 | byte & 0x7F
        if byte < 0x80:
            numbers.append(value)
            value = length = 0
    return numbers


def _count(cache: DocumentCache, table: str, query: str) -> int:
    rows: Rows = cache.connection.execute(f"SELECT count(*) FROM {table} WHERE {table} MATCH ?", (query,)).fetchall()
    return int(rows[0][0])


def find_exact(
    cache: DocumentCache,
    scopes: Sequence[int],
    question: ParsedQuestion,
    words: WordCounts = (),
    found: Collection[int] = (),
) -> tuple[tuple[int, ...], ...]:
    """Returns the passages that contain each name, code or phrase of a question.

    Parts that too many passages contain are left out, because they single out none. Returns nothing for a question with many
    names. `found` are the passages that `words` found: if they are few they are all there are, and are read instead of searched.
    """
    if not question.exact or len(question.exact) > MAX_EXACT_PARTS:
        return ()
    searched = {word for word, _ in words} if 0 < len(found) <= MAX_SCANNED_PASSAGES else set()
    matches: list[tuple[int, ...]] = []
    for part in question.exact:
        rows = _passage_texts(cache, found) if searched & set(split_words(part)) else _phrase_matches(cache, scopes, part)
        # The full-text table knows words only: punctuation and word borders are checked here.
        matches.append(tuple(chunk for chunk, headings, text in rows if contains_exactly(f"{headings}\n{text}", part)))
    return tuple(chunks for chunks in matches if 0 < len(chunks) <= MAX_EXACT_PASSAGES)


def _passage_texts(cache: DocumentCache, chunks: Collection[int]) -> Rows:
    sql = "SELECT id, headings, text FROM chunks WHERE id IN (SELECT value FROM json_each(?))"
    return cache.connection.execute(sql, (str(list(chunks)),)).fetchall()


def _phrase_matches(cache: DocumentCache, scopes: Sequence[int], part: str) -> Rows:
    """Returns the passages with the words of an exact part one after the other; none if there are too many."""
    matches: Rows = []
    for scope in scopes:
        table = f"words_{scope}"
        sql = (
            f"SELECT id, headings, text FROM (SELECT rowid AS found FROM {table} WHERE {table} MATCH ? "
            f"LIMIT {MAX_PHRASE_MATCHES}) CROSS JOIN chunks ON id = found"
        )
        rows: Rows = cache.connection.execute(sql, (phrase_query(part),)).fetchall()
        if len(rows) == MAX_PHRASE_MATCHES:
            return []
        matches += rows
    return matches
