"""The names of rows: the source's own id where it gives one, else one made from what the row says.

The same file again, or a later export that overlaps it, must give the same names. So a made name depends on the trade
alone, not on its place in the file; rows that say exactly the same are counted: the second is `...#2`. An own id that
comes back with another content (MetaTrader lists each partial close under its position's number) is counted likewise,
in order of time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import datetime
from hashlib import sha256

from memtape.brokers.cells import EMPTY
from memtape.brokers.sheets import Sheet
from memtape.brokers.texts import Texts

LONGEST = 120
Content = tuple[object, ...]


def row_ids(sheet: Sheet, rows: Sequence[int], contents: Sequence[Content], times: Sequence[datetime]) -> list[str]:
    """A name for each of these rows of a file."""
    if "id" not in sheet:
        own = [""] * len(rows)
    else:
        if sheet.chosen.by != "saved" and (with_ := _scope(sheet, rows)):
            sheet.chosen.columns["id"] = (*sheet.chosen.columns[with_], *sheet.chosen.columns["id"])
            sheet.notes.append(f"ids repeat from one {sheet.heading(with_)} to another: both together name a row")
        cells = sheet.cells("id", ":")
        own = own_ids([cells[row] for row in rows], sheet.texts)
    names, alike, shared = name_rows(own, contents, times)
    if alike:
        sheet.notes.append(f"{alike} rows repeat another row exactly: each is taken")
    if shared:
        sheet.notes.append(f"{shared} rows share their id with a different row: numbered #2, #3, ... in order of time")
    return names


def _scope(sheet: Sheet, rows: Sequence[int]) -> str | None:
    """Within what ids are unique, if not in the whole file: an account, or a symbol as on Binance."""
    ids = sheet.cells("id", ":")
    for field in ("account", "symbol"):
        if not sheet.chosen.columns.get(field) or not sheet.chosen.columns.get("id"):
            continue
        cells = sheet.cells(field)
        first: dict[str, str] = {}
        if any(ids[row] and first.setdefault(ids[row], cells[row]) != cells[row] for row in rows):
            return field
    return None


def own_ids(cells: Sequence[str], texts: Texts) -> list[str]:
    """The ids that a column holds; nothing where it has none. Hyperliquid numbers what the system did with 0."""
    found: list[str] = []
    for cell in cells:
        text = "" if cell in ("0", "0.0") or cell.lower() in EMPTY else texts.line(cell, 10_000) or ""
        found.append(text if len(text) <= LONGEST else f"{text[:40]}-{sha256(text.encode()).hexdigest()[:24]}")
    return found


def name_rows(own: Sequence[str], contents: Sequence[Content], times: Sequence[datetime]) -> tuple[list[str], int, int]:
    """A name for each row; how many repeat another row exactly, and how many share their id with a different row."""
    if all(own) and len(set(own)) == len(own):
        return list(own), 0, 0
    names = list(own)
    counted: Counter[Content] = Counter()
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
