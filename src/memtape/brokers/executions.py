"""Files of fills -> `Fill` values, each with a decision where the file gives a reason, a strategy or a stop for it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any

from memtape.brokers.cells import EMPTY, BadCell, shown_cell
from memtape.brokers.headings import plain_name
from memtape.brokers.identity import row_ids
from memtape.brokers.importer import FoundRows
from memtape.brokers.roundtrips import LABEL, STEP, tag_list
from memtape.brokers.sheets import Sheet
from memtape.brokers.sides import BUY, NEITHER, SELL, Words
from memtape.core.codec import micros
from memtape.core.observed import Decision, Fill
from memtape.core.values import REASON_LENGTH, ZERO, read
from memtape.errors import Invalid

NOT_EXECUTED = frozenset({
    "cancelled", "canceled", "rejected", "expired", "pending", "new", "open", "working", "submitted", "accepted", "void",
})  # fmt: skip
FILLED = frozenset({"filledqty", "filledquantity", "executedqty", "execqty", "lastqty", "filled", "executed"})
BOTH_SIDES = frozenset({"both", "net"}) | EMPTY
DECIDED = ("reason", "strategy", "stop", "target", "confidence", "tags")


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


def fills(sheet: Sheet) -> list[FoundRows]:
    """Every row that is an execution; the others are told in `sheet`."""
    _legs(sheet)
    rows = list(_rows(sheet))
    names = _names(sheet, rows)
    return list(_built(sheet, rows, names, _places(rows)))


def _legs(sheet: Sheet) -> None:
    """Positions of several accounts in one file must not be netted against each other."""
    accounts = sheet.chosen.columns.get("account", ())
    own = sheet.chosen.columns.get("leg", sheet.chosen.columns.get("position", ()))
    if accounts and not set(accounts) & set(own) and sheet.chosen.by != "saved" and len(set(sheet.cells("account"))) > 1:
        own = (*accounts, *own)
        sheet.notes.append(f"positions are kept apart by {sheet.heading('account')}; to import one of them alone, use --where")
    if own:
        sheet.chosen.columns["leg"] = own


def _rows(sheet: Sheet) -> Iterator[_ExecutionRow]:
    sides, amounts, prices = _traded(sheet)
    columns: dict[str, Sequence[Any]] = {
        "symbol": sheet.cells("symbol"),
        "side": sides,
        "time": sheet.moments("time"),
        "qty": amounts,
        "price": prices,
        "fees": sheet.costs("fees"),
        "multiplier": sheet.numbers("multiplier"),
    }
    names = list(columns)
    executed = _executed(sheet)
    currencies = sheet.cells("fee_currency") if "fee_currency" in sheet else None
    for row, values in enumerate(zip(*columns.values(), strict=True)):
        symbol, side, t, qty, px, fee, multiplier = values
        if side == NEITHER or not executed[row]:
            continue
        if qty == 0:
            sheet.skipped["quantity 0"] += 1
            continue
        bad = None
        if BadCell in map(type, values):
            bad = next((name, value) for name, value in zip(names, values, strict=True) if isinstance(value, BadCell))
        if bad is None:
            bad = _absent({"symbol": symbol, "side": side, "time": t, "qty": qty, "price": px})
        if bad is None and currencies and isinstance(paid := sheet.fee(fee or ZERO, currencies[row], symbol, px), BadCell):
            bad = ("fees", paid)
        elif bad is None and currencies:
            fee = paid
        if bad:
            sheet.wrong(row, *bad)
        else:
            yield _ExecutionRow(row, sheet.table.lines[row], t, symbol, side, abs(qty) * (multiplier or 1), px, fee or ZERO)


def _absent(needed: dict[str, object]) -> tuple[str, BadCell] | None:
    empty = next((name for name, value in needed.items() if value is None or value == ""), None)
    return (empty, BadCell("is empty", "Fill it in, or delete the row")) if empty else None


def _traded(sheet: Sheet) -> tuple[list[int | BadCell | None], list[Decimal | BadCell | None], list[Decimal | BadCell | None]]:
    """Side, quantity and price; some logs have a pair of columns for buys and another for sells."""
    if {"buy_qty", "sell_qty"} <= sheet.chosen.columns.keys() and "qty" not in sheet:
        bought, sold = sheet.numbers("buy_qty"), sheet.numbers("sell_qty")
        sides: list[int | BadCell | None] = []
        for buy, sell in zip(bought, sold, strict=True):
            both = BadCell("the row has both a bought and a sold quantity", "Make two rows of it") if buy and sell else None
            sides.append(both or (BUY if buy else SELL if sell else NEITHER))
            if sides[-1] == NEITHER:
                sheet.skipped["nothing bought or sold"] += 1
        pairs = zip(sheet.numbers("buy_price"), sheet.numbers("sell_price"), sides, strict=True)
        amounts = [buy or sell for buy, sell in zip(bought, sold, strict=True)]
        return sides, amounts, [buy if side == BUY else sell for buy, sell, side in pairs]
    return _sides(sheet), sheet.numbers("qty"), sheet.numbers("price")


def _sides(sheet: Sheet) -> list[int | BadCell | None]:
    if "side" in sheet:
        cells = sheet.cells("side")
        words = Words(cells, held=False, name=plain_name(sheet.heading("side")))
        found: list[int | BadCell | None] = []
        for cell in cells:
            side = words.side(cell)
            if side == NEITHER:
                sheet.skipped[cell[:20]] += 1
            problem = f"{shown_cell(cell)} is neither buy nor sell" if cell else "is empty"
            found.append(BadCell(problem, "Write buy or sell; or map another column to side") if side is None else side)
        return found
    if "is_buyer" in sheet:
        return [None if flag is None else BUY if flag else SELL for flag in sheet.flags("is_buyer")]
    amounts = sheet.numbers("qty")
    if not any(isinstance(value, Decimal) and value < 0 for value in amounts):
        fix = "Say which column it is, --map side=COLUMN, or --map side==buy if all are"
        return [BadCell("the file has no side column, and no negative quantity", fix)] * len(sheet)
    sheet.notes.append("there is no side column: a negative qty is a sale")
    return [(BUY if value > 0 else SELL) if isinstance(value, Decimal) and value else None for value in amounts]


def _executed(sheet: Sheet) -> list[bool]:
    """Order lists hold orders that came to nothing; where the quantity is the filled one, it alone decides."""
    if "status" not in sheet or plain_name(sheet.heading("qty")) in FILLED:
        return [True] * len(sheet)
    found: list[bool] = []
    for cell in sheet.cells("status"):
        word = "".join(c for c in cell.lower() if c.isalpha())
        if word in NOT_EXECUTED:
            sheet.skipped[cell[:20]] += 1
        found.append(word not in NOT_EXECUTED)
    return found


def _names(sheet: Sheet, rows: Sequence[_ExecutionRow]) -> list[str]:
    accounts = sheet.cells("account") if "account" in sheet else [""] * len(sheet)
    orders = sheet.cells("order_id") if "order_id" in sheet else [""] * len(sheet)
    contents = [
        (r.symbol, r.side, micros(r.t), str(r.qty.normalize()), str(r.px.normalize()), orders[r.row], accounts[r.row])
        for r in rows
    ]
    return row_ids(sheet, [r.row for r in rows], contents, [r.t for r in rows])


def _places(rows: Sequence[_ExecutionRow]) -> list[int]:
    """The order among fills of one moment: as listed, or the other way round where the newest stand on top."""
    newest_first = len(rows) > 1 and rows[0].t > rows[-1].t
    seen: Counter[datetime] = Counter()
    places = [0] * len(rows)
    for n in reversed(range(len(rows))) if newest_first else range(len(rows)):
        places[n] = seen[rows[n].t]
        seen[rows[n].t] += 1
    return places


def _built(sheet: Sheet, rows: Sequence[_ExecutionRow], names: Sequence[str], places: Sequence[int]) -> Iterator[FoundRows]:
    orders = sheet.lines("order_id", 128)
    legs = _leg_names(sheet)
    rates = sheet.numbers("rate")
    liquidated = sheet.flags("liq")
    triggers = sheet.lines("trigger", LABEL)
    decided = _decisions(sheet)
    for done, (r, id_, place) in enumerate(zip(rows, names, places, strict=True)):
        if sheet.wishes.on_progress and done % STEP == 0:
            sheet.wishes.on_progress(done, len(rows))
        side = "buy" if r.side == BUY else "sell"
        data: dict[str, Any] = {"id": id_, "t": r.t, "symbol": r.symbol, "side": side, "qty": r.qty, "px": r.px}
        if isinstance(rate := rates[r.row], BadCell):
            sheet.wrong(r.row, "rate", rate)
            continue
        extra = {"fee": r.fee, "seq": place, "leg": legs[r.row], "order_id": orders[r.row], "rate": rate,
                 "liq": liquidated[r.row], "trigger": triggers[r.row]}  # fmt: skip
        data |= {name: value for name, value in extra.items() if value}
        about = {name: column[r.row] for name, column in decided.items() if column[r.row] not in (None, ())}
        if bad := next(((name, value) for name, value in about.items() if isinstance(value, BadCell)), None):
            sheet.wrong(r.row, *bad)
            continue
        try:
            decision = None
            if about:
                decision = read(Decision, {"id": id_, "t": r.t, "symbol": r.symbol, "action": side, **about})
                data["decision"] = id_
            yield FoundRows(r.line, read(Fill, data), decision)
        except Invalid as error:
            sheet.refused(r.line, error)


def _leg_names(sheet: Sheet) -> list[str]:
    legs = [""] * len(sheet)
    for at in sheet.chosen.columns.get("leg", ()):
        named = ["" if cell.lower() in BOTH_SIDES else cell for cell in sheet.table.column(at)]
        legs = [f"{leg}/{name}" if leg and name else leg or name for leg, name in zip(legs, named, strict=True)]
    return [sheet.texts.line(leg.upper() if leg.lower() in ("long", "short") else leg, 128) or "" for leg in legs]


def _decisions(sheet: Sheet) -> dict[str, Sequence[Any]]:
    """What the file says about why."""
    found: dict[str, Sequence[Any]] = {}
    for name in DECIDED:
        if name not in sheet:
            continue
        if name in ("stop", "target"):
            found[name] = [value or None for value in sheet.numbers(name)]
        elif name == "confidence":
            found[name] = sheet.numbers(name)
        elif name == "tags":
            found[name] = [tag_list(text) if text else () for text in sheet.lines(name, 1000)]
        else:
            found[name] = sheet.lines(name, REASON_LENGTH if name == "reason" else LABEL)
    return found
