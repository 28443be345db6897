"""The ids of rows: the source's own id where it has one, else an id made from the row's content.

The same file, or a later export that overlaps it, must give the same ids. So a made id depends on the content alone, not on the
position in the file. Equal rows are numbered: the second is `...#2`. An own id that occurs again with other content (MetaTrader
lists each partial close under the number of its position) is numbered too, in order of time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import datetime
from hashlib import sha256

from memtape.brokers.cells import EMPTY_WORDS
from memtape.brokers.mapped_table import MappedTable
from memtape.brokers.texts import TextCleaner

MAX_ID_CHARS = 120
RowContent = tuple[object, ...]


def row_ids(table: MappedTable, rows: Sequence[int], contents: Sequence[RowContent], times: Sequence[datetime]) -> list[str]:
    """Returns an id for each of these rows."""
    if "id" not in table:
        own = [""] * len(rows)
    else:
        if table.mapping.by != "saved" and (with_ := _id_scope(table, rows)):
            table.mapping.columns["id"] = (*table.mapping.columns[with_], *table.mapping.columns["id"])
            table.notes.append(f"ids repeat from one {table.heading(with_)} to another: both together identify a row")
        cells = table.cells("id", ":")
        own = own_ids([cells[row] for row in rows], table.texts)
    names, alike, shared = name_rows(own, contents, times)
    if alike:
        table.notes.append(f"{alike} rows repeat another row exactly: each is imported")
    if shared:
        table.notes.append(f"{shared} rows share their id with a different row: numbered #2, #3, ... in order of time")
    return names


def _id_scope(table: MappedTable, rows: Sequence[int]) -> str | None:
    """Returns the field within which ids are unique, if they are not in the whole file: an account, or a symbol as on Binance."""
    ids = table.cells("id", ":")
    for field in ("account", "symbol"):
        if not table.mapping.columns.get(field) or not table.mapping.columns.get("id"):
            continue
        cells = table.cells(field)
        first: dict[str, str] = {}
        if any(ids[row] and first.setdefault(ids[row], cells[row]) != cells[row] for row in rows):
            return field
    return None


def own_ids(cells: Sequence[str], texts: TextCleaner) -> list[str]:
    """Returns the ids in a column; empty where there is none. Hyperliquid gives 0 to actions of the system."""
    found: list[str] = []
    for cell in cells:
        text = "" if cell in ("0", "0.0") or cell.lower() in EMPTY_WORDS else texts.line(cell, 10_000) or ""
        found.append(text if len(text) <= MAX_ID_CHARS else f"{text[:40]}-{sha256(text.encode()).hexdigest()[:24]}")
    return found


def name_rows(own: Sequence[str], contents: Sequence[RowContent], times: Sequence[datetime]) -> tuple[list[str], int, int]:
    """Returns an id for each row, the number of rows that repeat another exactly, and of those that share an id with another."""
    if all(own) and len(set(own)) == len(own):
        return list(own), 0, 0
    names = list(own)
    counted: Counter[RowContent] = Counter()
    alike = shared = 0
    by_id: dict[str, list[int]] = {}
    for n, (id_, content) in enumerate(zip(own, contents, strict=True)):
        if id_:
            by_id.setdefault(id_, []).append(n)
            continue
        counted[content] += 1
        alike += counted[content] > 1
        names[n] = _numbered(f"row-{sha256('|'.join(map(str, content)).encode()).hexdigest()[:16]}", counted[content])
    for id_, several in by_id.items():
        if len(several) > 1:
            different = sorted({(times[n], contents[n]) for n in several}, key=lambda pair: (pair[0], str(pair[1])))
            shared += len(different) - 1
            place = {pair: at for at, pair in enumerate(different, start=1)}
            for n in several:
                names[n] = _numbered(id_, place[times[n], contents[n]])
    return names, alike, shared


def _numbered(name: str, number: int) -> str:
    return name if number == 1 else f"{name}#{number}"
