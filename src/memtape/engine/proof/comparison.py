"""Compares the rows of a table with those that follow from the log, row by row, so that few are in memory at a time."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Mapping
from hashlib import sha256
from typing import Any

from memtape.core.codec import canonical_plain, moment
from memtape.core.items import delivery_digest
from memtape.core.ledger.rounds import KnownBar
from memtape.core.observed import Bar
from memtape.core.values import read
from memtape.errors import Invalid
from memtape.store.database import Row
from memtape.store.rows import COLUMNS, KEYS, bar_values, row_of
from memtape.store.spilled_rows import SpilledRows
from memtape.store.tables import Tables

PlainRow = dict[str, Any]


class HashedRows:
    """Rows that are counted and hashed while somebody else reads them. The digest is that of all of them as one JSON list."""

    def __init__(self, rows: Iterable[PlainRow]) -> None:
        self._rows, self.count, self._hash = rows, 0, sha256(b"[")

    def __iter__(self) -> Iterator[PlainRow]:
        for row in self._rows:
            self._hash.update((("," if self.count else "") + canonical_plain(row)).encode())
            self.count += 1
            yield row

    def digest(self) -> str:
        """The digest of the rows that were read."""
        ended = self._hash.copy()
        ended.update(b"]")
        return ended.hexdigest()


def first_difference(table: str, expected: Iterator[Row], found: Iterator[PlainRow]) -> tuple[str, str] | None:
    """Returns the key and the problem of the first row that differs; None if all agree. Both are in the order of the key.

    >>> plans = [("me", "gold", id_, "active", 1, 0, None, None, "{}") for id_ in ("p1", "p2", "p3")]
    >>> stored = [row_of("plans", plan) for plan in plans]
    >>> first_difference("plans", iter(plans), iter(stored))
    >>> first_difference("plans", iter(plans), iter(stored[1:]))
    ('gold/p1', 'is missing')
    >>> first_difference("plans", iter(plans[:2]), iter(stored))
    ('gold/p3', 'follows from nothing in the log')
    >>> first_difference("plans", iter(plans), iter([stored[0], stored[1] | {"at": 2}, stored[2]]))
    ('gold/p2', 'at is 2, the log says 1')
    """
    while True:
        values, stored = next(expected, None), next(found, None)
        true = None if values is None else row_of(table, values)
        if true is None and stored is None:
            return None
        if stored is None or (true is not None and _key(table, true) < _key(table, stored)):
            assert true is not None
            return _name(table, true), "is missing"
        if true is None or _key(table, stored) < _key(table, true):
            return _name(table, stored), "follows from nothing in the log"
        for column, value in true.items():
            if stored[column] != value:
                return _name(table, stored), f"{column} is {stored[column]!r}, the log says {value!r}"


def _key(table: str, row: PlainRow) -> tuple[Any, ...]:
    return tuple(row[column] for column in KEYS[table])


def _name(table: str, row: PlainRow) -> str:
    return "/".join(str(part) for part in _key(table, row))


def bar_problems(tables: Tables, deliveries: Mapping[int, Mapping[str, Any]], rows: HashedRows) -> Iterator[tuple[str, str]]:
    """Compare the bars of each delivery with the count and the digest in its log row. Yields keys and problems."""
    bars = SpilledRows("bars")
    by_seq: dict[int, array[int]] = {}
    for index, row in enumerate(rows):
        bars.append(tuple(row.values()))
        by_seq.setdefault(row["seq"], array("Q")).append(index)
    for seq in sorted(by_seq.keys() | deliveries.keys()):
        delivery = deliveries.get(seq, {"count": 0, "digest": delivery_digest(())})
        stored = [row_of("bars", bars[index]) for index in by_seq.get(seq, ())]
        if len(stored) != delivery["count"]:
            yield f"log row {seq}", f"brought {delivery['count']} bars, {len(stored)} are here"
        elif _bars_differ(tables, stored, delivery["digest"]):
            yield f"log row {seq}", "its bars were altered"


def _bars_differ(tables: Tables, bars: list[PlainRow], expected_digest: str) -> bool:
    """Returns True if these rows do not have the digest of their delivery."""
    try:
        known = [_bar_of_row(row) for row in bars]
        # The digest is of values: each row must also be spelt as memtape writes it, `frame` included.
        spelt = [
            dict(zip(COLUMNS["bars"], bar_values(tables.owner, tables.stream, each.bar, row["seq"], each.known_at), strict=True))
            for row, each in zip(bars, known, strict=True)
        ]
        return spelt != bars or delivery_digest(known) != expected_digest
    except (Invalid, ArithmeticError):
        # An altered value may make the row no valid bar at all.
        return True


def _bar_of_row(row: PlainRow) -> KnownBar:
    bar = read(Bar, {"symbol": row["symbol"], "t0": moment(row["t0"]), "t1": moment(row["t1"]),
                     **{letter: row[letter] for letter in "ohlcv"}})  # fmt: skip
    return KnownBar(bar, moment(row["known_at"]))
