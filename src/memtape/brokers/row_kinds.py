"""Which rows are trades: some brokers list payments, closed lots and sums too, and say so in a column or in the first cell."""

from __future__ import annotations

import re
from collections.abc import Sequence

from memtape.brokers.headings import ROW_KIND_NAMES, plain_name
from memtape.brokers.mapped_table import MappedTable
from memtape.brokers.mapping import TIME_FIELDS
from memtape.brokers.sides import is_no_trade

NOT_FILLS = frozenset({
    "funding", "settlement", "closedlot", "closedlots", "lot", "symbolsummary", "assetsummary", "washsale", "subtotal", "total",
    "notes", "header", "summary",
    # Alpaca's activities beside FILL.
    "div", "divnra", "int", "csd", "csw", "jnlc", "jnls", "fee", "cfee", "ptc", "split", "spin", "opasn", "opexp", "opexc",
})  # fmt: skip
_KIND_NAMES = frozenset({"type", "category", "kind", "event", "eventtype", "operation", "transactiontype", "activity", "rowtype"})
# The same trades at two levels of detail: where both are listed, the executions count and not the orders.
_ORDERS, _EXECUTIONS = frozenset({"order", "orders"}), frozenset({"execution", "executions", "trade", "trades"})


def rows_of_fills(table: MappedTable) -> list[bool]:
    """Returns which rows are fills, and counts the others."""
    found = [True] * len(table)
    for at, name in enumerate(table.source.header):
        if plain_name(name) not in ROW_KIND_NAMES:
            continue
        cells = table.source.column(at)
        words = [_letters(cell) for cell in cells]
        left_out = NOT_FILLS | (_ORDERS if set(words) & _ORDERS and set(words) & _EXECUTIONS else set())
        for row, word in enumerate(words):
            if found[row] and word in left_out:
                found[row] = False
                table.skipped[cells[row][:20]] += 1
    for row, word in _payments(table):
        if found[row]:
            found[row] = False
            table.skipped[word[:20]] += 1
    for row in _exits_to_come(table):
        if found[row]:
            found[row] = False
            table.skipped["still open"] += 1
    return found


def _payments(table: MappedTable) -> list[tuple[int, str]]:
    """Returns the rows that have neither side nor quantity nor price and say what else they are, like funding or a deposit."""
    columns = table.mapping.columns
    parts = [table.source.column(at) for name in ("side", "qty", "value", "price") for at in columns.get(name, ())]
    used = {at for places in columns.values() for at in places}
    kinds = [at for at, name in enumerate(table.source.header) if at not in used and plain_name(name) in _KIND_NAMES]
    if not kinds or not parts:
        return []
    empty = [row for row in range(len(table)) if not any(column[row] for column in parts)]
    said = [(row, table.source.column(at)[row]) for row in empty for at in kinds[:1]]
    return [(row, word) for row, word in said if is_no_trade(word) or _letters(word) in NOT_FILLS]


def _letters(cell: str) -> str:
    return "".join(c for c in cell.lower() if c.isalpha())


def _exits_to_come(table: MappedTable) -> list[int]:
    """Returns the rows of exits that have not happened: TradingView ends its list with one for the trade that is still open."""
    signals = next((at for at, name in enumerate(table.source.header) if plain_name(name) == "signal"), None)
    if signals is None or "side" not in table:
        return []
    rows = zip(table.cells("side"), table.source.column(signals), strict=True)
    return [row for row, (side, signal) in enumerate(rows) if side.lower().startswith("exit") and signal.lower() == "open"]


_SUM = re.compile(r"(?:\w+ )?(?:sub)?(?:totals?|sums?|summe|gesamt|gesamtsumme|zwischensumme|total général)\s*:?", re.IGNORECASE)
_FIRST_CELLS = 3  # a sum is named at the beginning of its row


def without_sums(table: MappedTable, counted: Sequence[bool]) -> list[bool]:
    """Returns which of the rows that count are no sums of others. A sum has no time, and says so or has no part of a trade."""
    columns = table.mapping.columns
    times = [table.source.column(at) for name in TIME_FIELDS & columns.keys() for at in columns[name]]
    parts = ("symbol", "side", "qty", "value", "price", "entry_price", "exit_price")
    own = [table.source.column(at) for name in parts for at in columns.get(name, ())]
    found = list(counted)
    for row, cells in enumerate(table.source.rows):
        if not found[row]:
            continue
        has_time = any(any(c.isdigit() for c in column[row]) for column in times)
        named = any(_SUM.fullmatch(cell.strip()) for cell in cells[:_FIRST_CELLS])
        if not has_time and times and (named or not any(column[row] for column in own)):
            found[row] = False
            table.skipped["total"] += 1
    return found
