"""Reports of MetaTrader as web pages: one table with several sections, each with a row of column names.

The first section whose column names are those of trades is read. Hidden cells carry comments and stand outside the columns; rows
of sums and of cash have fewer cells than the column names and are counted.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html.parser import HTMLParser

from memtape.brokers.files import MAX_ROWS, CellTable, unique_names
from memtape.errors import Invalid

MIN_NAMES = 5  # of a row of column names
MAX_CELL_CHARS = 10_000
# "Currency: USD" of MetaTrader 4, "12345678 (USD, Broker-Server, demo, Hedge)" of MetaTrader 5.
_ACCOUNT_CURRENCY = re.compile(r"Currency: ([A-Z]{3})\b|\d+ \(([A-Z]{3}),")


def is_web_page(text: str) -> bool:
    """Returns True if a text is a web page.

    >>> is_web_page("<!DOCTYPE html><table>"), is_web_page("time,price")
    (True, False)
    """
    start = text[:2000].lstrip("\ufeff \r\n\t").lower()
    return start.startswith("<") and ("<html" in start or "<!doctype html" in start or "<table" in start)


class _Rows(HTMLParser):
    """The rows of all tables of a page, with the line on which each begins."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.rows: list[tuple[int, list[str]]] = []
        self._cell: list[str] | None = None
        self._hidden = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "tr":
            self._end_cell()
            self.rows.append((self.getpos()[0], []))
        elif tag in ("td", "th"):
            self._end_cell()
            self._cell, self._hidden = [], "hidden" in (dict(attrs).get("class") or "").split()

    def handle_endtag(self, tag: str) -> None:
        if tag in ("td", "th", "tr", "table"):
            self._end_cell()

    def handle_data(self, data: str) -> None:
        if self._cell is not None:
            self._cell.append(data)

    def _end_cell(self) -> None:
        if self._cell is not None and self.rows and not self._hidden:
            self.rows[-1][1].append(" ".join("".join(self._cell).split())[:MAX_CELL_CHARS])
        self._cell = None


@dataclass(frozen=True, slots=True)
class TradesSection:
    """The section of a report that lists trades."""

    table: CellTable
    left_out: int  # rows of sums and of cash, which have fewer cells
    currency: str | None  # of the account, if the head of the report states it


def section_of_trades(name: str, text: str, known: Callable[[Sequence[str]], int]) -> TradesSection:
    """Returns the first section with column names of trades."""
    page = _Rows()
    page.feed(text)
    page.close()
    # A row of a trade has few cells that are names of columns.
    headings = [n for n, (_, cells) in enumerate(page.rows) if known(cells) >= MIN_NAMES]
    if not headings:
        fix = "Give MetaTrader's report of the account history, or save the table as CSV"
        raise Invalid(name, "is a web page without a table of trades", fix)
    first, end = headings[0], headings[1] if len(headings) > 1 else len(page.rows)
    header = page.rows[first][1]
    table, left_out = CellTable(unique_names(header)), 0
    for line, cells in page.rows[first + 1 : end]:
        if len(cells) == len(header) and any(cells):
            table.rows.append(cells)
            table.lines.append(line)
        elif len(cells) <= 1 and any(cells):
            break  # the name of the next section
        elif any(cells):
            left_out += 1
    if len(table.rows) > MAX_ROWS:
        raise Invalid(name, f"has more than {MAX_ROWS:,} rows", "Report one year at a time")
    head = " ".join(cell for _, cells in page.rows[:first] for cell in cells)
    stated = _ACCOUNT_CURRENCY.search(head)
    return TradesSection(table, left_out, stated[1] or stated[2] if stated else None)
