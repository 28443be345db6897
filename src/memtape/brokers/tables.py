"""Any table of trades, fills, decisions, equity marks or positions. Start here to see how a file becomes values.

`mapping` finds the columns, `kinds` what the file holds, `mapped_table` decides what concerns the whole file. The rows are read
by `roundtrips`, `executions`, `decision_rows`, `equity_rows` and `position_rows`, one for each kind.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from decimal import Decimal

from memtape.brokers.account import starting_equity
from memtape.brokers.decision_rows import read_decisions
from memtape.brokers.equity_rows import read_equity
from memtape.brokers.executions import read_fills
from memtape.brokers.files import CellTable, clean_name
from memtape.brokers.headings import plain_name
from memtape.brokers.importer import FoundRow, ImportOptions, ImportProblem, ImportResult
from memtape.brokers.mapped_table import MappedTable
from memtape.brokers.mapping import choose_mapping
from memtape.brokers.paired_rows import join_entries_and_exits
from memtape.brokers.position_rows import read_positions
from memtape.brokers.roundtrips import read_closed_trades
from memtape.core.codec import decimal_text
from memtape.core.observed import ClosedTrade
from memtape.errors import Invalid

MAX_NAMED_SECTIONS = 12
_COSTS = ("fees", "entry_fee", "exit_fee")
_COST_NAME = re.compile(
    r"(?:fee|commission|kommission|provision|gebuhr|brokerage|courtage|frais)"
    r"(?!.*(?:rate|percent|pct|bps|tier|currency|ccy|coin|asset|token|type))"
)
_COST_CELL = re.compile(r"^[^A-Za-z%]*[1-9][^A-Za-z%]*(?:[A-Z]{3,5})?$")  # an amount that is not zero


def read_table(source: CellTable, options: ImportOptions) -> ImportResult:
    """Read a table of texts as observed values."""
    rows = len(source.rows) + len(source.bad) + source.other_sections.total()
    left_out = filter_rows(source, options.where)
    # A caller who maps the columns of the file itself wants its rows as they are.
    joined = not (set(options.mapping.values()) & set(source.header)) and join_entries_and_exits(source)
    mapping = choose_mapping(source, options)
    table = MappedTable.of(source, mapping, options)
    if joined:
        table.notes.append("each trade has a row for its entry and one for its exit: read together; its result is after costs")
    if source.other_sections:
        named = ", ".join(f"{section} {n}" for section, n in source.other_sections.most_common(MAX_NAMED_SECTIONS))
        table.notes.append(f"rows of other sections of the statement are left out, with any money in them: {named}")
    if left_out:
        table.notes.append(f"{left_out} rows do not match --where and were left out")
    table.problems += [ImportProblem(line, "row", problem, fix) for line, problem, fix in source.bad]
    found, start = _read_rows(table)
    _name_unused_costs(table)
    table.finish()
    table.problems.sort(key=lambda problem: problem.line or 0)
    trades = [each.value for each in found if isinstance(each.value, ClosedTrade)]
    used = {at for places in mapping.columns.values() for at in places}
    if options.on_progress:
        options.on_progress(len(source.rows), len(source.rows))
    return ImportResult(
        header=source.header, rows=rows, kind=mapping.kind, mapping=mapping.spelled(source.header), mapped_by=mapping.by,
        unused=[name for at, name in enumerate(source.header) if at not in used], found=found, problems=table.problems,
        notes=table.notes, currency=table.currency.stated, starting_equity=start,
        unpriced=sum(trade.exit_price is None and trade.pnl is None for trade in trades),
    )  # fmt: skip


def _name_unused_costs(table: MappedTable) -> None:
    """Report columns that look like costs, if the file's trades or fills are read without any."""
    if table.mapping.kind not in ("trades", "fills") or any(name in table for name in (*_COSTS, "net_pnl")):
        return
    if any(name in table.options.mapping for name in _COSTS):
        return  # left out by the caller
    for at, name in enumerate(table.source.header):
        if _COST_NAME.search(plain_name(name)) and any(_COST_CELL.search(cell) for cell in table.source.column(at)):
            problem = f"'{name}' may be a cost and is not counted"
            fix = f"If it is the cost of the row, give --map fees={name!r}; if not, --map fees="
            table.problems.append(ImportProblem(None, "fees", problem, fix, blocks=False))


def _read_rows(table: MappedTable) -> tuple[list[FoundRow], Decimal | None]:
    """Returns the values of a file, and the money that the account started with, if the file shows it."""
    match table.mapping.kind:
        case "trades":
            found = read_closed_trades(table)
            return found, _starting_equity(table, found)
        case "fills":
            return read_fills(table), None
        case "decisions":
            return read_decisions(table), None
        case "equity":
            return read_equity(table)
        case _:
            return read_positions(table)


def _starting_equity(table: MappedTable, found: Sequence[FoundRow]) -> Decimal | None:
    """Returns the money that the account started with, if a column of balances shows it."""
    if "balance" not in table:
        return None
    by_line = dict(zip(table.source.lines, table.numbers("balance"), strict=True))
    trades = [(each.value, by_line[each.line]) for each in found if isinstance(each.value, ClosedTrade)]
    balances = [balance if isinstance(balance, Decimal) else None for _, balance in trades]
    start = starting_equity(balances, [trade for trade, _ in trades])
    if start is not None:
        table.notes.append(f"{table.heading('balance')} moves by the profits: the account started with {decimal_text(start)}")
    return start


def filter_rows(table: CellTable, where: Mapping[str, str]) -> int:
    """Keep the rows that have these values in these columns. Returns the number of rows dropped."""
    before = len(table.rows)
    for name, value in where.items():
        if name not in table.header:
            names = ", ".join(table.header)[:300]
            raise Invalid("where", f"there is no column '{clean_name(name)}'", f"The columns are: {names}")
        at = table.header.index(name)
        table.keep([n for n, cell in enumerate(table.column(at)) if cell == value.strip()])
    return before - len(table.rows)
