"""Which rows of a file of fills are fills: some brokers list payments, closed lots and sums too, and say so in a column."""

from __future__ import annotations

from memtape.brokers.headings import ROW_KIND_NAMES, plain_name
from memtape.brokers.mapped_table import MappedTable

NOT_FILLS = frozenset({
    "funding", "settlement", "closedlot", "closedlots", "lot", "symbolsummary", "assetsummary", "washsale", "subtotal", "total",
    "notes", "header", "summary",
})  # fmt: skip
# The same trades at two levels of detail: where both are listed, the executions count and not the orders.
_ORDERS, _EXECUTIONS = frozenset({"order", "orders"}), frozenset({"execution", "executions", "trade", "trades"})


def rows_of_fills(table: MappedTable) -> list[bool]:
    """Returns which rows are fills, and counts the others."""
    found = [True] * len(table)
    for at, name in enumerate(table.source.header):
        if plain_name(name) not in ROW_KIND_NAMES:
            continue
        cells = table.source.column(at)
        words = ["".join(c for c in cell.lower() if c.isalpha()) for cell in cells]
        left_out = NOT_FILLS | (_ORDERS if set(words) & _ORDERS and set(words) & _EXECUTIONS else set())
        for row, word in enumerate(words):
            if found[row] and word in left_out:
                found[row] = False
                table.skipped[cells[row][:20]] += 1
    return found
