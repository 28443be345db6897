"""Files of positions -> one `Tick` for each moment: what was held then, at which prices, and the equity where the file has it.

All rows of one moment are one snapshot of the whole account, so what a snapshot does not list was not held. A row of totals is no
position; without any position beside it, it shows a flat account if its value is 0, and nothing but the equity otherwise.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from typing import Any

from memtape.brokers.cells import BadCell
from memtape.brokers.equity_rows import (
    cash_flows,
    flow_ids,
    is_first_funding,
    mark_times,
    refuse_several_accounts,
    starting_mark,
)
from memtape.brokers.headings import plain_name
from memtape.brokers.importer import FoundRow, ImportProblem
from memtape.brokers.mapped_table import MappedTable
from memtape.brokers.roundtrips import PROGRESS_ROWS
from memtape.brokers.sides import SELL, SideWords
from memtape.core.codec import decimal_text, time_text
from memtape.core.observed import CheckedTick, EquityMark, Tick
from memtape.core.values import ZERO, read
from memtape.errors import Invalid

TOTAL_WORDS = frozenset({"total", "totals", "grandtotal", "sum", "portfolio", "account", "all", ""})
CASH_WORDS = frozenset({"cash", "cashbalance", "usdcash"})
_SOLD_WORDS = ("sell", "sold", "close", "closed", "exit", "exited", "liquidated")


@dataclass(slots=True)
class _Moment:
    """The rows of one moment."""

    line: int
    held: dict[str, tuple[int, dict[str, Any]]] = field(default_factory=dict)  # by symbol, with the line
    gone: set[str] = field(default_factory=set)
    marks: dict[str, Decimal] = field(default_factory=dict)
    total_value: Decimal | None = None
    equity: Decimal | None = None
    flow: Decimal = ZERO
    bad: bool = False

    @property
    def positions(self) -> dict[str, dict[str, Any]] | None:
        """What was held; None if the rows do not say."""
        if self.held or self.gone or self.total_value == 0:
            return {symbol: position for symbol, (_, position) in self.held.items()}
        return None


def read_positions(table: MappedTable) -> tuple[list[FoundRow], Decimal | None]:
    """Returns the snapshots of a file, and the money that the account started with. Bad rows are reported in `table`."""
    refuse_several_accounts(table)
    moments = dict(sorted(_moments(table).items()))
    start = starting_mark([(each.equity, each.flow) for each in moments.values()])
    found: list[FoundRow] = []
    for done, (t, each) in enumerate(moments.items()):
        if table.options.on_progress and done % PROGRESS_ROWS == 0:
            table.options.on_progress(done, len(moments))
        if each.bad:
            # A snapshot without one of its positions would say that this one was closed.
            problem = "a row of this snapshot cannot be read, so the whole snapshot is left out"
            table.problems.append(ImportProblem(each.line, "row", problem, "Correct the row: a snapshot shows the whole account"))
            continue
        is_funding = done == 0 and start is not None and is_first_funding(each.equity, each.flow)
        try:
            found += _values(t, each, with_flow=bool(each.flow) and not is_funding)
        except Invalid as error:
            table.add_refused(each.line, error)
    return found, start


def _values(t: datetime, each: _Moment, *, with_flow: bool) -> Iterator[FoundRow]:
    positions = each.positions
    if positions is None and not each.marks and not with_flow:
        yield FoundRow(each.line, read(EquityMark, {"t": t, "equity": each.equity}))
        return
    data: dict[str, Any] = {"id": snapshot_id(t), "t": t, "marks": each.marks}
    if positions is not None:
        data["positions"] = positions
    if each.equity is not None:
        data["equity"] = each.equity
    if with_flow:
        data["cash_flows"] = [{"id": flow_ids([(t, each.flow)])[0], "t": t, "usd": each.flow}]
    tick: Tick = read(CheckedTick, data)
    yield FoundRow(each.line, tick)


def snapshot_id(t: datetime) -> str:
    """Returns the id of the snapshot of a moment: the same from whichever file it comes."""
    return f"snapshot-{time_text(t)}"


# ---- rows ----------------------------------------------------------------------------------------------------------------


def _moments(table: MappedTable) -> dict[datetime, _Moment]:
    times, symbols, marks = mark_times(table), table.cells("symbol"), table.numbers("mark")
    columns: dict[str, Sequence[Decimal | BadCell | None]] = {
        "qty": table.numbers("qty"), "entry_price": table.numbers("entry_price"), "mark": marks, "value": table.numbers("value"),
        "leverage": table.numbers("leverage"), "rate": table.numbers("rate"), "equity": table.numbers("equity"),
        "flow": cash_flows(table),
    }  # fmt: skip
    short, sold = _shorts(table), _sold(table)
    found: dict[datetime, _Moment] = {}
    for row, (t, symbol) in enumerate(zip(times, symbols, strict=True)):
        cells = {name: column[row] for name, column in columns.items()}
        bad = [(name, cell) for name, cell in (("time", t), *cells.items()) if isinstance(cell, BadCell)]
        if t is None:
            bad.append(("time", BadCell("is empty", "Fill it in, or delete the row")))
        for name, cell in bad:
            table.add_unreadable(row, name, cell)
        if not isinstance(t, datetime):
            continue
        moment = found.setdefault(t, _Moment(table.source.lines[row]))
        if bad:
            moment.bad = True
            continue
        _add_row(table, moment, row, symbol, {n: c for n, c in cells.items() if isinstance(c, Decimal)}, short[row], sold[row])
    if gone := sum(sold):
        table.notes.append(f"{gone} rows say that the position was sold: it is not held in that snapshot")
    return found


def _add_row(
    table: MappedTable, moment: _Moment, row: int, symbol: str, numbers: Mapping[str, Decimal], short: bool, sold: bool
) -> None:
    """Add a row to its moment."""
    line, word = table.source.lines[row], plain_name(symbol) if symbol else ""
    if (equity := numbers.get("equity")) is not None:
        if moment.equity not in (None, equity):
            problem = f"another row of this moment has an equity of {decimal_text(moment.equity or ZERO)}"
            table.problems.append(ImportProblem(line, "equity", problem, "Correct one of them"))
        moment.equity = equity
    # A flow that a file repeats on every row of a moment is one flow.
    moment.flow = numbers.get("flow") or moment.flow
    qty = numbers.get("qty")
    if word in CASH_WORDS or (word in TOTAL_WORDS and not qty):
        if word in TOTAL_WORDS and "value" in numbers:
            moment.total_value = numbers["value"]
        return
    if qty is None:
        table.add_unreadable(row, "qty", BadCell("is empty", "Fill it in, or delete the row"))
        moment.bad = True
        return
    if (mark := numbers.get("mark")) is not None and mark > 0:
        moment.marks[symbol] = mark
    if not qty or sold:
        moment.gone.add(symbol)
        return
    position: dict[str, Any] = {"qty": -abs(qty) if short else qty}
    for name, own in (("entry_price", "entry_px"), ("leverage", "leverage"), ("rate", "rate")):
        if numbers.get(name):
            position[own] = numbers[name]
    if symbol in moment.held:
        first_line, earlier = moment.held[symbol]
        if earlier != position:
            problem = f"line {first_line} has another position of {symbol} at this moment"
            table.problems.append(ImportProblem(line, "symbol", problem, "Keep one row for each symbol and moment"))
            moment.bad = True
        return
    moment.held[symbol] = line, position


def _shorts(table: MappedTable) -> list[bool]:
    """Returns which rows are short positions by their side. Without a side, the sign of the quantity says so."""
    if "side" not in table:
        return [False] * len(table)
    cells = table.cells("side")
    words = SideWords(cells, held=True, name=plain_name(table.heading("side")))
    return [words.side(cell) == SELL for cell in cells]


def _sold(table: MappedTable) -> list[bool]:
    """Returns which rows list a position that was sold at that moment, like `SELL - Stop Loss Triggered`."""
    if "action" not in table:
        return [False] * len(table)
    return [cell.lower().startswith(_SOLD_WORDS) for cell in table.cells("action")]
