"""Lists with two rows for a trade, one for its entry and one for its exit, as TradingView's strategy tester writes them.

Both rows state the trade's number and its result. They become one row, so that the result counts once and its costs with it.
"""

from __future__ import annotations

import re

from memtape.brokers.files import CellTable
from memtape.brokers.headings import FIELDS_BY_KIND, plain_name

_NUMBER_NAMES = frozenset({"trade", "tradeno", "tradenumber", "tradeid"})
_TYPE = re.compile(r"(entry|exit)\s+(long|short)", re.IGNORECASE)
_STILL_OPEN = "open"  # the signal of an exit that has not happened
_TIMES = frozenset(plain_name(name) for name in FIELDS_BY_KIND["fills"]["time"])
_RESULTS = frozenset(plain_name(name) for name in FIELDS_BY_KIND["trades"]["pnl"])


def join_entries_and_exits(table: CellTable) -> bool:
    """Join the two rows of each trade to one. Returns False, and changes nothing, for any other table."""
    plain = [plain_name(name) for name in table.header]
    number = next((at for at, name in enumerate(plain) if name in _NUMBER_NAMES), None)
    kind = next((at for at, name in enumerate(plain) if name == "type"), None)
    time = next((at for at, name in enumerate(plain) if name in _TIMES), None)
    price = next((at for at, name in enumerate(plain) if name == "price"), None)
    if number is None or kind is None or time is None or price is None or not table.rows:
        return False
    words = [_TYPE.fullmatch(cell) for cell in table.column(kind)]
    if not all(words):
        return False
    entries: dict[str, int] = {}  # by the trade's number
    exits: dict[str, int] = {}
    for row, word in enumerate(words):
        assert word is not None
        rows = entries if word[1].lower() == "entry" else exits
        if rows.setdefault(table.column(number)[row], row) != row:
            return False  # numbers that repeat do not show which rows belong together
    if entries.keys() < exits.keys():
        return False
    signal = next((at for at, name in enumerate(plain) if name == "signal"), None)
    both = {number, kind, time, price, signal}
    rest = [at for at in range(len(plain)) if at not in both]
    # The result is what the account received: the list has no column of costs.
    names = [f"Net {table.header[at]}" if plain[at] in _RESULTS else table.header[at] for at in rest]
    joined: list[list[str]] = []
    lines: list[int] = []
    for trade, row in entries.items():
        entry, end = table.rows[row], exits.get(trade)
        is_closed = end is not None and (signal is None or table.rows[end][signal].strip().lower() != _STILL_OPEN)
        leaves = table.rows[end] if end is not None and is_closed else None
        word = words[row]
        assert word is not None
        joined.append([
            trade, word[2], entry[time], entry[price], leaves[time] if leaves else "", leaves[price] if leaves else "",
            entry[signal] if signal is not None else "", leaves[signal] if leaves and signal is not None else "",
            *((leaves or entry)[at] for at in rest),
        ])  # fmt: skip
        lines.append(table.lines[row])
    unit = table.header[time]
    table.header = (
        table.header[number], "Side", _named("Entry time", unit), _named("Entry price", table.header[price]),
        _named("Exit time", unit), _named("Exit price", table.header[price]), "Entry signal", "Exit signal", *names,
    )  # fmt: skip
    table.rows, table.lines = joined, lines
    table.keep(range(len(joined)))
    return True


def _named(name: str, original: str) -> str:
    """Returns a column's name with the zone or the currency of the original.

    >>> _named("Exit price", "Price USD"), _named("Exit time", "Date and time (UTC+2)"), _named("Exit time", "Date/Time")
    ('Exit price USD', 'Exit time (UTC+2)', 'Exit time')
    """
    unit = re.search(r"\(.*\)$|(?<=\s)[A-Z]{3,4}$", original)
    return f"{name} {unit[0]}" if unit else name
