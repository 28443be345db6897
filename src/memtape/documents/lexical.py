"""Ranking by words: BM25 of passages and of whole documents, and the passages that have a name exactly.

FTS5 ranks one table. Where an agent's own documents and shared ones are asked together, each table would weigh words by how
common they are in itself, and a word that fills the journal but is rare in the playbooks would bring the playbooks up. So the
best of both are ranked again by the same formula with the counts of both together; with one table it gives what FTS5 gives.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from memtape.documents.bm25 import term_weight
from memtape.documents.cache import Cache
from memtape.documents.question import ParsedQuestion, chosen_words, contains_exactly, disjunction, in_words, phrase

RARE = 3  # what more passages than these have is no name that finds a thing
LOOKED_AT = 50
NAMED = 4
FEW = 20  # passages that are quicker looked at than asked for again
# Rows that a full-text query has found are put through this afterwards: the plus keeps SQLite from looking each of them up.
AMONG = "AND +rowid IN (SELECT value FROM json_each(?))"
OF_TYPES = (
    "AND +rowid IN (SELECT c.id FROM documents d JOIN chunks c ON c.document = d.id "
    "WHERE d.scope = ? AND d.type IN (SELECT value FROM json_each(?)))"
)

Rows = list[Any]
Terms = tuple[tuple[str, int], ...]  # words, each with how often it was said
Passage = tuple[int, float, int, int]  # chunk, score, document, and whether it is all of its document


def terms(cache: Cache, scopes: Sequence[int], asked: ParsedQuestion) -> Terms:
    """The words of a question to look for; inside a transaction."""
    return chosen_words(asked, cache.stem, lambda stem: _frequency(cache, scopes, stem))


def _frequency(cache: Cache, scopes: Sequence[int], stem: str) -> int:
    """In how many passages a stem stands."""
    total = 0
    for scope in scopes:
        rows: Rows = cache.connection.execute(f"SELECT doc FROM vocabulary_{scope} WHERE term = ?", (stem,)).fetchall()
        total += rows[0][0] if rows else 0
    return total


def rank_by_words(cache: Cache, scopes: Sequence[int], words: Terms, pool: int, types: Sequence[str] = ()) -> dict[int, float]:
    """The best passages for the words of a question: BM25 of the passage, and of the document around it; inside a transaction.

    A document of one passage is that passage, and counts as such twice.
    """
    if not words:
        return {}
    best = {scope: _best(cache, scope, words if len(scopes) == 1 else _once(words), pool, types) for scope in scopes}
    around = {scope: list({document for _, _, document, alone in found if not alone}) for scope, found in best.items()}
    found = [each for several in best.values() for each in several]
    if len(scopes) > 1:
        together = _together(cache, "words", words, {scope: [chunk for chunk, *_ in found] for scope, found in best.items()})
        again = [(chunk, together[chunk], document, alone) for chunk, _, document, alone in found]
        found = sorted(again, key=lambda passage: (-passage[1], passage[0]))[:pool]
    are_all = len(found) < pool and not types
    wholes = _wholes(cache, words, around, are_all=are_all) if any(around.values()) else {}
    return {chunk: score + (score if alone else wholes.get(document, 0.0)) for chunk, score, document, alone in found}


def _once(words: Terms) -> Terms:
    return tuple((word, 1) for word, _ in words)


def _best(cache: Cache, scope: int, words: Terms, limit: int, types: Sequence[str]) -> list[Passage]:
    """The best rows of one table with the documents they are of.

    Asked for by `bm25()` and not by `rank`, which is the same figure at a higher price: FTS5 would run a second statement inside
    the first one to put its rows in order. Documents are looked up once the rows are in order, or they would be for every row.
    """
    table = f"words_{scope}"
    only, values = (OF_TYPES, (scope, json.dumps(list(types)))) if types else ("", ())
    sql = (
        f"SELECT found, -score, document, alone FROM (SELECT rowid AS found, bm25({table}) AS score FROM {table} "
        f"WHERE {table} MATCH ? {only} ORDER BY score, rowid LIMIT ?) CROSS JOIN chunks INDEXED BY chunks_in_short ON id = found"
    )
    found: list[Any] = cache.connection.execute(sql, (disjunction(words), *values, limit)).fetchall()
    return found


def _wholes(cache: Cache, words: Terms, wanted: Mapping[int, Sequence[int]], *, are_all: bool) -> dict[int, float]:
    """BM25 of whole documents, of those wanted in each scope: only of them, for to weigh a row costs more than to match it.

    Where every passage with one of the words was found, no other document has any: none need be kept out.
    """
    if len(wanted) > 1:
        return _together(cache, "whole", words, wanted)
    ((scope, documents),) = wanted.items()
    table = f"whole_{scope}"
    among, values = ("", ()) if are_all else (AMONG, (str(documents),))
    sql = f"SELECT rowid, -bm25({table}) FROM {table} WHERE {table} MATCH ? {among}"
    rows: Rows = cache.connection.execute(sql, (disjunction(words), *values)).fetchall()
    return dict(rows)


def _together(cache: Cache, kind: str, words: Terms, wanted: Mapping[int, Sequence[int]]) -> dict[int, float]:
    """Rows of several tables, weighed by the counts of all."""
    tables = {f"{kind}_{scope}": numbers for scope, numbers in wanted.items()}
    measured = {table: _measured(cache, table) for table in tables}
    size, length = (sum(each) for each in zip(*measured.values(), strict=True))
    weights = [
        times * term_weight(size, sum(_count(cache, table, f'"{word}"') for table, (n, _) in measured.items() if n))
        for word, times in words
    ]  # fmt: skip
    average, once = length / size if size else 1.0, disjunction(_once(words))
    found: dict[int, float] = {}
    for table, numbers in tables.items():
        sql = f"SELECT rowid, weighed({table}, ?, ?) FROM {table} WHERE {table} MATCH ? {AMONG}"
        given = (average, json.dumps(weights), once, str(list(numbers)))
        found.update(cache.connection.execute(sql, given) if numbers else ())
    return found


def _measured(cache: Cache, table: str) -> tuple[int, int]:
    """How many rows a table has and how many words they have together, as FTS5 keeps them."""
    rows: Rows = cache.connection.execute(f"SELECT block FROM {table}_data WHERE id = 1").fetchall()
    rows_then_words = _varints(rows[0][0]) if rows else []  # nothing at all while the table is empty
    return sum(rows_then_words[:1]), sum(rows_then_words[1:])


def _varints(block: bytes) -> list[int]:
    """SQLite's variable-length integers.

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


def _count(cache: Cache, table: str, match: str) -> int:
    rows: Rows = cache.connection.execute(f"SELECT count(*) FROM {table} WHERE {table} MATCH ?", (match,)).fetchall()
    return int(rows[0][0])


def exact(
    cache: Cache, scopes: Sequence[int], asked: ParsedQuestion, words: Terms = (), found: Collection[int] = ()
) -> tuple[tuple[int, ...], ...]:
    """For each name, code or phrase of a question, the passages that have it.

    None where so many have it that it singles out none; and none where a question names many things: it describes then, and
    does not ask for one of them. Where few passages have any of the words, `found` are all of them, and are looked at themselves.
    """
    if not asked.exact or len(asked.exact) > NAMED:
        return ()
    known = {word for word, _ in words} if 0 < len(found) <= FEW else set()
    having: list[tuple[int, ...]] = []
    for part in asked.exact:
        rows = _these(cache, found) if known & set(in_words(part)) else _matching(cache, scopes, part)
        having.append(tuple(chunk for chunk, headings, text in rows if contains_exactly(f"{headings}\n{text}", part)))
    return tuple(each for each in having if 0 < len(each) <= RARE)


def _these(cache: Cache, chunks: Collection[int]) -> Rows:
    sql = "SELECT id, headings, text FROM chunks WHERE id IN (SELECT value FROM json_each(?))"
    return cache.connection.execute(sql, (str(list(chunks)),)).fetchall()


def _matching(cache: Cache, scopes: Sequence[int], part: str) -> Rows:
    """The passages with the words of a name, code or phrase one after the other; none where there are many."""
    found: Rows = []
    for scope in scopes:
        table = f"words_{scope}"
        sql = (
            f"SELECT id, headings, text FROM (SELECT rowid AS found FROM {table} WHERE {table} MATCH ? LIMIT {LOOKED_AT}) "
            "CROSS JOIN chunks ON id = found"
        )
        rows: Rows = cache.connection.execute(sql, (phrase(part),)).fetchall()
        if len(rows) == LOOKED_AT:
            return []
        found += rows
    return found
