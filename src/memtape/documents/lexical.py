"""Ranking by words: BM25 of passages and of whole documents, and the passages that have a name exactly.

FTS5 ranks one table. Where an agent's own documents and shared ones are asked together, each table would weigh words by how
common they are in itself, and a word that fills the journal but is rare in the playbooks would bring the playbooks up. So the
best of both are ranked again by the same formula with the counts of both together; with one table it gives what FTS5 gives.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from memtape.documents.cache import Cache
from memtape.documents.words import Asked, chosen, disjunction, holds, phrase

K1, B = 1.2, 0.75  # those of FTS5
LEAST = 1e-6  # what FTS5 gives a word that is in more than half of the rows
DOCUMENTS = 1000
RARE = 3  # what more passages than these have is no name that finds a thing
LOOKED_AT = 50
NAMED = 4

Rows = list[Any]


@dataclass(frozen=True, slots=True)
class Words:
    """BM25 by chunk, and by document."""

    chunks: dict[int, float]
    documents: dict[int, float]


def ranked(cache: Cache, scopes: Sequence[int], asked: Asked, pool: int) -> Words:
    """The best passages and documents for the words of a question; inside a transaction."""
    words = chosen(asked, cache.stem, lambda stem: _frequency(cache, scopes, stem))
    if not words or not scopes:
        return Words({}, {})
    if len(scopes) == 1:
        match = disjunction(words)
        return Words(_plain(cache, f"words_{scopes[0]}", match, pool), _plain(cache, f"whole_{scopes[0]}", match, DOCUMENTS))
    return Words(_together(cache, scopes, "words", words, pool), _together(cache, scopes, "whole", words, DOCUMENTS))


def _plain(cache: Cache, table: str, match: str, limit: int) -> dict[int, float]:
    sql = f"SELECT rowid, -rank FROM {table} WHERE {table} MATCH ? ORDER BY rank LIMIT ?"
    rows: Rows = cache.connection.execute(sql, (match, limit)).fetchall()
    return dict(rows)


def _frequency(cache: Cache, scopes: Sequence[int], stem: str) -> int:
    """In how many passages a stem stands."""
    total = 0
    for scope in scopes:
        rows: Rows = cache.connection.execute(f"SELECT doc FROM vocabulary_{scope} WHERE term = ?", (stem,)).fetchall()
        total += rows[0][0] if rows else 0
    return total


def _together(cache: Cache, scopes: Sequence[int], kind: str, words: tuple[tuple[str, int], ...], limit: int) -> dict[int, float]:
    """The best rows of several tables, ranked by the counts of all."""
    once = disjunction(tuple((word, 1) for word, _ in words))
    told: list[tuple[int, list[int]]] = []
    size = length = 0
    holding = [0] * len(words)
    for scope in scopes:
        table = f"{kind}_{scope}"
        sql = f"SELECT rowid, told({table}) FROM {table} WHERE {table} MATCH ? ORDER BY rank LIMIT ?"
        rows: Rows = cache.connection.execute(sql, (once, limit)).fetchall()
        told += [(row, [int(part) for part in text.split()]) for row, text in rows]
        n, tokens = _measured(cache, table)
        size, length = size + n, length + tokens
        for at, (word, _) in enumerate(words):
            holding[at] += _count(cache, table, f'"{word}"')
    weights = [times * weight(size, n) for (_, times), n in zip(words, holding, strict=True)]
    average = length / size if size else 1.0
    found = {row: _bm25(counts[0], counts[1:], weights, average) for row, counts in told}
    return dict(sorted(found.items(), key=lambda item: (-item[1], item[0]))[:limit])


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


def weight(rows: int, holding: int) -> float:
    """How much a word tells: the fewer have it, the more.

    >>> round(weight(1000, 1), 3), weight(10, 9)
    (6.502, 1e-06)
    """
    found = math.log((rows - holding + 0.5) / (holding + 0.5)) if rows > holding else 0.0
    return found if found > 0 else LEAST


def _bm25(length: int, counts: Sequence[int], weights: Sequence[float], average: float) -> float:
    room = K1 * (1 - B + B * length / average)
    return sum(each * count * (K1 + 1) / (count + room) for count, each in zip(counts, weights, strict=True))


def exact(cache: Cache, scopes: Sequence[int], asked: Asked) -> tuple[tuple[int, ...], ...]:
    """For each name, code or phrase of a question, the passages that have it.

    None where so many have it that it singles out none; and none where a question names many things: it describes then, and
    does not ask for one of them.
    """
    if len(asked.exact) > NAMED:
        return ()
    return tuple(found for part in asked.exact if (found := _having(cache, scopes, part)))


def _having(cache: Cache, scopes: Sequence[int], part: str) -> tuple[int, ...]:
    found: list[int] = []
    for scope in scopes:
        table = f"words_{scope}"
        sql = f"SELECT rowid FROM {table} WHERE {table} MATCH ? LIMIT {LOOKED_AT}"
        rows: Rows = cache.connection.execute(sql, (phrase(part),)).fetchall()
        if len(rows) == LOOKED_AT:
            return ()
        for (chunk,) in rows:
            text: Rows = cache.connection.execute("SELECT headings, text FROM chunks WHERE id = ?", (chunk,)).fetchall()
            if holds("\n".join(text[0]), part):
                found.append(chunk)
    return tuple(found) if len(found) <= RARE else ()
