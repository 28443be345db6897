"""Files of fills -> `Fill` values, each with a decision if the file has a reason, a strategy or a stop."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal, localcontext
from typing import Any

from memtape.brokers.cells import EMPTY_WORDS, BadCell, shown_cell
from memtape.brokers.fill_profits import check_stated_profits
from memtape.brokers.headings import plain_name
from memtape.brokers.identity import RowContent, row_ids
from memtape.brokers.importer import FoundRow, ImportProblem
from memtape.brokers.mapped_table import MappedTable
from memtape.brokers.roundtrips import MAX_LABEL_CHARS, MAX_NOTE_CHARS, PROGRESS_ROWS, tag_list
from memtape.brokers.row_kinds import rows_of_fills, without_sums
from memtape.brokers.sides import BUY, NEITHER, SELL, SideWords, closes_position, names_positions
from memtape.brokers.texts import exit_trigger
from memtape.core.codec import micros
from memtape.core.fills import Fill
from memtape.core.observed import Decision
from memtape.core.values import MONEY, REASON_LENGTH, ZERO, read
from memtape.errors import Invalid

NOT_EXECUTED = frozenset({
    "cancelled", "canceled", "rejected", "expired", "pending", "new", "open", "working", "submitted", "accepted", "void",
})  # fmt: skip
FILLED_QTY_NAMES = frozenset({"filledqty", "filledquantity", "executedqty", "execqty", "lastqty", "filled", "executed"})
NET_LEG_WORDS = frozenset({"both", "net"}) | EMPTY_WORDS
DECISION_FIELDS = ("reason", "strategy", "stop", "target", "confidence", "tags", "note")


@dataclass(slots=True)
class _ExecutionRow:
    row: int
    line: int
    t: datetime
    symbol: str
    side: int
    qty: Decimal
    px: Decimal
    fee: Decimal
    fee_currency: str | None  # if it is not the account's, and its rate is unknown


def read_fills(table: MappedTable) -> list[FoundRow]:
    """Returns every row that is an execution. The others are reported in `table`."""
    _choose_legs(table)
    rows = _without_repeats(table, list(_execution_rows(table)))
    names = _fill_ids(table, rows)
    return check_stated_profits(table, list(_build_fills(table, rows, names, _fill_order(rows))))


def _choose_legs(table: MappedTable) -> None:
    """Separate the positions of several accounts in one file, which must not be netted against each other."""
    accounts = table.mapping.columns.get("account", ())
    own = table.mapping.columns.get("leg", table.mapping.columns.get("position", ()))
    if accounts and not set(accounts) & set(own) and table.mapping.by != "saved" and len(set(table.cells("account"))) > 1:
        own = (*accounts, *own)
        table.notes.append(f"positions are separated by {table.heading('account')}; to import only one, use --where")
    if own:
        table.mapping.columns["leg"] = own


def _execution_rows(table: MappedTable) -> Iterator[_ExecutionRow]:
    sides, amounts, prices = _trade_columns(table)
    columns: dict[str, Sequence[Any]] = {
        "symbol": table.cells("symbol"),
        "side": sides,
        "time": table.moments("time"),
        "qty": amounts,
        "price": prices,
        "fees": table.costs("fees"),
        "multiplier": _multipliers(table, amounts, prices),
    }
    names = list(columns)
    executed = [done and fill for done, fill in zip(_executed_rows(table), rows_of_fills(table), strict=True)]
    executed = without_sums(table, executed)
    currencies = table.fee_currencies()
    for row, values in enumerate(zip(*columns.values(), strict=True)):
        symbol, side, t, qty, px, fee, multiplier = values
        if side == NEITHER or not executed[row]:
            continue
        if qty == 0:
            table.skipped["quantity 0"] += 1
            continue
        bad, foreign = [], None
        if BadCell in map(type, values):
            bad = [(name, value) for name, value in zip(names, values, strict=True) if isinstance(value, BadCell)]
        bad += _missing_cells({"symbol": symbol, "side": side, "time": t, "qty": qty, "price": px})
        if not bad and currencies:
            paid = table.fee(fee or ZERO, currencies[row], symbol, px)
            if isinstance(paid, BadCell):
                # The fill counts all the same: without it the position would be wrong.
                foreign = currencies[row]
                unknown = BadCell(f"{paid.problem}: not counted", "To count it, convert it in the file")
                table.add_unreadable(row, "fees", unknown, blocks=False)
            else:
                fee = paid
        for name, cell in bad:
            table.add_unreadable(row, name, cell)
        if not bad:
            amount = abs(qty) * (multiplier or 1)
            yield _ExecutionRow(row, table.source.lines[row], t, symbol, side, amount, px, fee or ZERO, foreign)


def _missing_cells(needed: dict[str, object]) -> list[tuple[str, BadCell]]:
    empty = [name for name, value in needed.items() if value is None or value == ""]
    return [(name, BadCell("is empty", "Fill it in, or delete the row")) for name in empty]


def _trade_columns(
    table: MappedTable,
) -> tuple[list[int | BadCell | None], list[Decimal | BadCell | None], list[Decimal | BadCell | None]]:
    """Returns side, quantity and price. Some files have a pair of columns for buys and another for sells."""
    if {"buy_qty", "sell_qty"} <= table.mapping.columns.keys() and "qty" not in table:
        bought, sold = table.numbers("buy_qty"), table.numbers("sell_qty")
        sides: list[int | BadCell | None] = []
        for buy, sell in zip(bought, sold, strict=True):
            both = BadCell("the row has both a bought and a sold quantity", "Split it into two rows") if buy and sell else None
            sides.append(both or (BUY if buy else SELL if sell else NEITHER))
            if sides[-1] == NEITHER:
                table.skipped["nothing bought or sold"] += 1
        pairs = zip(table.numbers("buy_price"), table.numbers("sell_price"), sides, strict=True)
        amounts = [buy or sell for buy, sell in zip(bought, sold, strict=True)]
        return sides, amounts, [buy if side == BUY else sell for buy, sell, side in pairs]
    sides, prices = _sides(table), table.numbers("price")
    prices = _without_signs_of_cash(table, sides, prices)
    return sides, table.quantities(prices), prices


def _without_signs_of_cash(
    table: MappedTable, sides: Sequence[int | BadCell | None], prices: list[Decimal | BadCell | None]
) -> list[Decimal | BadCell | None]:
    """Returns the prices. Where those of all purchases are negative and of no sale, the sign is that of the cash."""
    every = zip(sides, prices, strict=True)
    priced = [(side, px) for side, px in every if side in (BUY, SELL) and isinstance(px, Decimal) and px]
    paid = [px < 0 for side, px in priced if side == BUY]
    if len(paid) in (0, len(priced)) or not all(paid) or any(px < 0 for side, px in priced if side == SELL):
        return prices
    table.notes.append(f"{table.heading('price')} is negative in all purchases and in no sale: the sign is that of the cash")
    return [abs(px) if isinstance(px, Decimal) else px for px in prices]


def _multipliers(
    table: MappedTable, amounts: Sequence[Decimal | BadCell | None], prices: Sequence[Decimal | BadCell | None]
) -> list[Decimal | BadCell | None]:
    """Returns the multipliers; none where the file's own value of each row shows that its prices contain them."""
    stated = table.numbers("multiplier")
    if "multiplier" not in table or "value" not in table or "qty" not in table:
        return stated
    rows = zip(stated, amounts, prices, table.numbers("value"), strict=True)
    known = [row for row in rows if all(isinstance(cell, Decimal) and cell for cell in row) and row[0] != 1]
    with localcontext(MONEY):
        worth = [(abs(qty * px), abs(value)) for _, qty, px, value in known]  # type: ignore[operator, arg-type]
    if not worth or not all(abs(own - value) <= value / 100 for own, value in worth):
        return stated
    table.notes.append(f"{table.heading('price')} x qty is {table.heading('value')}: the price contains the multiplier")
    return [None] * len(table)


def _sides(table: MappedTable) -> list[int | BadCell | None]:
    if "side" in table:
        cells = table.cells("side")
        words = SideWords(cells, held=False, name=plain_name(table.heading("side")))
        found: list[int | BadCell | None] = []
        for cell in cells:
            side = words.side(cell)
            if side == NEITHER:
                table.skipped[cell[:20]] += 1
            problem = f"{shown_cell(cell)} is neither buy nor sell" if cell else "is empty"
            found.append(BadCell(problem, "Write buy or sell, or map another column to side") if side is None else side)
        if "effect" in table and names_positions(cells):
            return _orders_of_positions(table, found)
        return found
    if "is_buyer" in table:
        return [None if flag is None else BUY if flag else SELL for flag in table.flags("is_buyer")]
    amounts = table.numbers("qty" if "qty" in table else "value")
    if not any(isinstance(value, Decimal) and value < 0 for value in amounts):
        fix = "Give the column with --map side=COLUMN, or --map side==buy if all are buys"
        return [BadCell("the file has no side column, and no negative quantity", fix)] * len(table)
    table.notes.append("there is no side column: a negative qty is a sale")
    return [(BUY if value > 0 else SELL) if isinstance(value, Decimal) and value else None for value in amounts]


def _orders_of_positions(table: MappedTable, sides: Sequence[int | BadCell | None]) -> list[int | BadCell | None]:
    """Returns what was bought and sold, where the side is that of the position: to close a long is a sale."""
    side, effect = table.heading("side"), table.heading("effect")
    table.notes.append(f"{side} is the side of the position; {effect} says what opened and closed it")
    found: list[int | BadCell | None] = []
    for held, word in zip(sides, table.cells("effect"), strict=True):
        closes = closes_position(word)
        if isinstance(held, int) and closes is None:
            problem = f"{shown_cell(word)} says neither open nor close" if word else f"{effect} is empty"
            found.append(BadCell(problem, "Write open or close; if the side is what was done, give --map effect="))
        else:
            found.append(-held if closes and isinstance(held, int) else held)
    return found


def _executed_rows(table: MappedTable) -> list[bool]:
    """Returns which rows were executed. Order lists contain unfilled orders; a column of filled quantities alone decides."""
    if "status" not in table or plain_name(table.heading("qty")) in FILLED_QTY_NAMES:
        return [True] * len(table)
    found: list[bool] = []
    for cell in table.cells("status"):
        word = "".join(c for c in cell.lower() if c.isalpha())
        if word in NOT_EXECUTED:
            table.skipped[cell[:20]] += 1
        found.append(word not in NOT_EXECUTED)
    return found


def _contents(table: MappedTable, rows: Sequence[_ExecutionRow]) -> list[RowContent]:
    """Returns what makes rows without an id equal."""
    accounts = table.cells("account") if "account" in table else [""] * len(table)
    orders = table.cells("order_id") if "order_id" in table else [""] * len(table)
    return [
        (r.symbol, r.side, micros(r.t), str(r.qty.normalize()), str(r.px.normalize()), orders[r.row], accounts[r.row])
        for r in rows
    ]


def _without_repeats(table: MappedTable, rows: list[_ExecutionRow]) -> list[_ExecutionRow]:
    """Returns the rows, without exact repetitions if the caller wants that. Reports repetitions that leave a position short.

    Equal rows may be two fills of one order. A log that lists a sale twice sells what was never bought.
    """
    if "id" in table:
        return rows
    seen: set[RowContent] = set()
    repeated: list[_ExecutionRow] = []
    for row, content in zip(rows, _contents(table, rows), strict=True):
        if content in seen:
            repeated.append(row)
        seen.add(content)
    dropped = {row.row for row in repeated}
    if repeated and table.mapping.settings.get("repeats") == "drop":
        table.notes.append(f"{len(repeated)} rows repeat another row exactly: left out")
        return [row for row in rows if row.row not in dropped]
    legs = _leg_names(table)
    ends: dict[tuple[str, str], Decimal] = {}
    extra: dict[tuple[str, str], Decimal] = {}
    for row in rows:
        position = row.symbol, legs[row.row]
        ends[position] = ends.get(position, ZERO) + row.side * row.qty
        extra[position] = extra.get(position, ZERO) + (row.side * row.qty if row.row in dropped else ZERO)
    for row in repeated:
        position = row.symbol, legs[row.row]
        if ends[position] < 0 and ends[position] == extra[position] and "repeats" not in table.mapping.settings:
            problem = f"the sale of {row.symbol} repeats another row exactly, and the position ends short by such repetitions"
            fix = "If the file lists sales twice, give --map repeats=drop; if they are sales of their own, --map repeats=keep"
            table.problems.append(ImportProblem(row.line, "row", problem, fix, blocks=False))
    return rows


def _fill_ids(table: MappedTable, rows: Sequence[_ExecutionRow]) -> list[str]:
    return row_ids(table, [r.row for r in rows], _contents(table, rows), [r.t for r in rows])


def _fill_order(rows: Sequence[_ExecutionRow]) -> list[int]:
    """Returns the order among fills of one moment: as listed, or reversed if the file lists the newest first."""
    newest_first = len(rows) > 1 and rows[0].t > rows[-1].t
    counts: Counter[datetime] = Counter()
    places = [0] * len(rows)
    for n in reversed(range(len(rows))) if newest_first else range(len(rows)):
        places[n] = counts[rows[n].t]
        counts[rows[n].t] += 1
    return places


def _build_fills(
    table: MappedTable, rows: Sequence[_ExecutionRow], names: Sequence[str], places: Sequence[int]
) -> Iterator[FoundRow]:
    orders = table.lines("order_id", 128)
    legs = _leg_names(table)
    rates = table.numbers("rate")
    liquidated = table.flags("liq")
    triggers = _triggers(table)
    decided = _decisions(table)
    for done, (r, id_, place) in enumerate(zip(rows, names, places, strict=True)):
        if table.options.on_progress and done % PROGRESS_ROWS == 0:
            table.options.on_progress(done, len(rows))
        side = "buy" if r.side == BUY else "sell"
        data: dict[str, Any] = {"id": id_, "t": r.t, "symbol": r.symbol, "side": side, "qty": r.qty, "px": r.px}
        if isinstance(rate := rates[r.row], BadCell):
            table.add_unreadable(r.row, "rate", rate)
            continue
        extra = {"fee": r.fee, "fee_currency": r.fee_currency, "seq": place, "leg": legs[r.row], "order_id": orders[r.row],
                 "rate": rate, "liq": liquidated[r.row], "trigger": triggers[r.row]}  # fmt: skip
        data |= {name: value for name, value in extra.items() if value}
        about = {name: column[r.row] for name, column in decided.items() if column[r.row] not in (None, ())}
        if bad := [(name, value) for name, value in about.items() if isinstance(value, BadCell)]:
            for name, cell in bad:
                table.add_unreadable(r.row, name, cell)
            continue
        # A comment is a note about the decision: on a fill that closes a trade, it is not the reason of the exit.
        if note := about.pop("note", None):
            about["slots"] = {"note": note}
        try:
            decision = None
            if about:
                decision = read(Decision, {"id": id_, "t": r.t, "symbol": r.symbol, "action": side, **about})
                data["decision"] = id_
            yield FoundRow(r.line, read(Fill, data), decision)
        except Invalid as error:
            table.add_refused(r.line, error)


def _triggers(table: MappedTable) -> list[str | None]:
    """Returns what set off each fill: its own column, else a comment that a terminal writes by itself, like `[sl]`."""
    if "trigger" in table or "note" not in table:
        return table.lines("trigger", MAX_LABEL_CHARS)
    return [exit_trigger(note) if note else None for note in table.lines("note", MAX_NOTE_CHARS)]


def _leg_names(table: MappedTable) -> list[str]:
    legs = [""] * len(table)
    for at in table.mapping.columns.get("leg", ()):
        named = ["" if cell.lower() in NET_LEG_WORDS else cell for cell in table.source.column(at)]
        legs = [f"{leg}/{name}" if leg and name else leg or name for leg, name in zip(legs, named, strict=True)]
    return [table.texts.line(leg.upper() if leg.lower() in ("long", "short") else leg, 128) or "" for leg in legs]


def _decisions(table: MappedTable) -> dict[str, Sequence[Any]]:
    """Returns the columns of the decisions behind the fills."""
    found: dict[str, Sequence[Any]] = {}
    for name in DECISION_FIELDS:
        if name not in table:
            continue
        if name in ("stop", "target"):
            found[name] = [value or None for value in table.numbers(name)]
        elif name == "confidence":
            found[name] = table.confidences()
        elif name == "note":
            found[name] = [None if note and exit_trigger(note) else note for note in table.lines(name, MAX_NOTE_CHARS)]
        elif name == "tags":
            found[name] = [tag_list(text) if text else () for text in table.lines(name, 1000)]
        else:
            found[name] = table.lines(name, REASON_LENGTH if name == "reason" else MAX_LABEL_CHARS)
    return found
