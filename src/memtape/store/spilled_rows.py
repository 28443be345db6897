"""Many rows of plain values in little memory: the first few in memory, the others in a temporary file.

`verify` and `rebuild` compute every row that a store must have before they compare or write them. The file has no name, can be
read by nobody else, and is gone when the rows are.
"""

from __future__ import annotations

import marshal
import tempfile
from array import array
from collections.abc import Iterator
from typing import Any, BinaryIO

from memtape.store.database import Row
from memtape.store.rows import COLUMNS, KEYS

BYTES_IN_MEMORY = 1 << 20  # what is written to the file at once
READ_AT_ONCE = 2048  # bytes


class SpilledRows:
    """Rows of a table in the order in which they were added, each with the values of its columns.

    >>> rows = SpilledRows("plans")
    >>> first = rows.append(("me", "gold", "p2", "active"))
    >>> _ = rows.append(("me", "gold", "p1", "active"))
    >>> rows[0] = ("me", "gold", "p2", "done")
    >>> len(rows), rows[0], rows.read(first)[3], [row[2] for row in rows.in_order()]
    (2, ('me', 'gold', 'p2', 'done'), 'active', ['p1', 'p2'])
    """

    def __init__(self, table: str) -> None:
        self.table = table
        self._places = array("Q")  # of each row: where its values begin
        self._file: BinaryIO | None = None
        self._tail = bytearray()  # what is not yet in the file
        self._written = 0  # bytes in the file

    def __len__(self) -> int:
        return len(self._places)

    def append(self, values: Row) -> int:
        """Add a row. Returns where its values stand: `read` finds them there even after the row was replaced."""
        place = self._add(values)
        self._places.append(place)
        return place

    def __getitem__(self, index: int) -> Row:
        return self.read(self._places[index])

    def __setitem__(self, index: int, values: Row) -> None:
        self._places[index] = self._add(values)

    def __iter__(self) -> Iterator[Row]:
        return map(self.read, self._places)

    def place(self, index: int) -> int:
        """Returns where the values of a row stand now."""
        return self._places[index]

    def in_order(self) -> Iterator[Row]:
        """The rows in the order of the table's key. Only their keys are held in memory."""
        columns = [COLUMNS[self.table].index(name) for name in KEYS[self.table] if name != "stream"]
        keys = [(*(values[column] for column in columns), index) for index, values in enumerate(self)]
        keys.sort()
        return (self[key[-1]] for key in keys)

    def _add(self, values: Row) -> int:
        place = self._written + len(self._tail)
        packed = marshal.dumps(values)
        self._tail += len(packed).to_bytes(4, "little")
        self._tail += packed
        if len(self._tail) >= BYTES_IN_MEMORY:
            if self._file is None:
                self._file = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115 - it lives as long as the rows
            self._file.seek(self._written)
            self._file.write(self._tail)
            self._written += len(self._tail)
            self._tail = bytearray()
        return place

    def read(self, place: int) -> Row:
        """The values that stand at a place."""
        if place >= self._written:
            start = place - self._written
            length = int.from_bytes(self._tail[start : start + 4], "little")
            return self._values(self._tail[start + 4 : start + 4 + length])
        assert self._file is not None
        # Most rows are short: mostly one read fetches the length and the values.
        self._file.seek(place)
        found = self._file.read(READ_AT_ONCE)
        length = int.from_bytes(found[:4], "little")
        if length > len(found) - 4:
            self._file.seek(place)
            found = self._file.read(length + 4)
        return self._values(found[4 : 4 + length])

    @staticmethod
    def _values(packed: bytes | bytearray) -> Row:
        values: Any = marshal.loads(packed)
        return tuple(values)
