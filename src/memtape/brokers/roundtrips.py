"""Files of closed trades -> `ClosedTrade` values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from typing import Any

from memtape.brokers.cells import BadCell, shown_cell
from memtape.brokers.figures import Draft, complete_figures
from memtape.brokers.headings import GROSS, plain_name
from memtape.brokers.identity import row_ids
from memtape.brokers.importer import FoundRows, ImportProblem
from memtape.brokers.sheets import Sheet, total
from memtape.brokers.sides import NEITHER, Words
from memtape.core.codec import micros
from memtape.core.observed import CheckedTrade, ClosedTrade
from memtape.core.values import REASON_LENGTH, ZERO, read
from memtape.errors import Invalid

LABEL = 64
TAGS = 16
OPEN = frozenset({
    "open", "opened", "unclosed", "running", "active", "live", "pending", "partial", "partiallyclosed",
})  # fmt: skip
NEVER_WAS = frozenset({"cancelled", "canceled", "rejected", "void"})
STEP = 2000  # rows between two words of progress


def closed_trades(sheet: Sheet) -> list[FoundRows]:
    """Every row that is a closed trade; the others are told in `sheet`."""
    _strategies(sheet)
    drafts = list(_drafts(sheet))
    gross = plain_name(sheet.heading("pnl")) in {plain_name(name) for name in GROSS}
    raw = {draft.row: (draft.side, draft.qty, draft.pnl, draft.net) for draft in drafts}
    drafts = complete_figures(drafts, sheet.chosen, gross, sheet.notes, sheet.problems)
    names = _names(sheet, drafts, raw)
    return list(_built(sheet, drafts, names))


def _strategies(sheet: Sheet) -> None:
    """Trades of several accounts or models in one file are told apart by strategy, if nothing else does."""
    if "strategy" not in sheet and "account" in sheet and len(set(sheet.cells("account"))) > 1:
        sheet.chosen.columns["strategy"] = sheet.chosen.columns["account"]
        sheet.notes.append(f"strategy is taken from {sheet.heading('account')}")


# ---- rows to drafts ------------------------------------------------------------------------------------------------


def _drafts(sheet: Sheet) -> Iterator[Draft]:
    symbols = sheet.cells("symbol")
    columns: dict[str, Sequence[Any]] = {
        "symbol": symbols,
        "side": _sides(sheet),
        "entry_at": sheet.moments("entry_at"),
        "exit_at": sheet.moments("exit_at"),
        "entry_price": sheet.numbers("entry_price"),
        "exit_price": sheet.numbers("exit_price"),
        "qty": sheet.numbers("qty"),
        "pnl": sheet.numbers("pnl"),
        "net_pnl": sheet.numbers("net_pnl"),
        "fees": _fees(sheet),
        "funding": sheet.numbers("funding"),
        "stop": sheet.numbers("stop"),
        "multiplier": sheet.numbers("multiplier"),
    }
    names = list(columns)
    still_open = _still_open(sheet)
    currencies = sheet.cells("fee_currency") if "fee_currency" in sheet else None
    for row, values in enumerate(zip(*columns.values(), strict=True)):
        symbol, side, entry_at, exit_at, entry, exit_, qty, pnl, net, fees, funding, stop, multiplier = values
        if side == NEITHER or still_open[row] is None:
            continue
        if still_open[row] or exit_at is None or exit_ is None:
            fix = "Import again once it is closed"
            sheet.problems.append(ImportProblem(sheet.table.lines[row], "exit_at", "still open, skipped", fix, blocks=False))
            continue
        bad = None
        if BadCell in map(type, values):
            bad = next((name, value) for name, value in zip(names, values, strict=True) if isinstance(value, BadCell))
        bad = bad or _absent(symbol, entry_at, entry, qty, pnl if net is None else net)
        if bad is None and currencies and isinstance(paid := sheet.fee(fees or ZERO, currencies[row], symbol, exit_), BadCell):
            bad = ("fees", paid)
        elif bad is None and currencies:
            fees = paid
        if bad:
            sheet.wrong(row, *bad)
            continue
        if qty is not None:
            if side is None and "side" not in sheet and "is_short" not in sheet and qty < 0:
                side = -1
            qty = abs(qty) * (multiplier or 1) or None
        yield Draft(row, sheet.table.lines[row], symbol, side, entry_at, exit_at, entry, exit_, qty, pnl, net, fees or ZERO,
                    funding or ZERO, stop)  # fmt: skip


def _absent(symbol: str, entry_at: datetime | None, entry: Decimal | None, qty: Decimal | None,
            pnl: Decimal | None) -> tuple[str, BadCell] | None:  # fmt: skip
    for name, value in (("symbol", symbol), ("entry_at", entry_at), ("entry_price", entry)):
        if value is None or value == "":
            return name, BadCell("is empty", "Fill it in, or delete the row")
    if not qty and pnl is None:
        return "qty", BadCell("neither qty nor pnl is given", "Fill in one of them, or delete the row")
    return None


def _sides(sheet: Sheet) -> list[int | BadCell | None]:
    turned = -1 if sheet.chosen.settings.get("sides") == "exit" else 1
    if "side" in sheet:
        cells = sheet.cells("side")
        words = Words(cells, held=True, name=plain_name(sheet.heading("side")))
        found: list[int | BadCell | None] = []
        for cell in cells:
            side = words.side(cell)
            if side == NEITHER and cell:
                sheet.skipped[cell[:20]] += 1
            found.append(turned * side if side is not None else _no_side(cell))
        return found
    if "is_short" in sheet:
        return [None if flag is None else (-1 if flag else 1) * turned for flag in sheet.flags("is_short")]
    amounts = sheet.numbers("qty")
    if any(isinstance(value, Decimal) and value < 0 for value in amounts):
        sheet.notes.append("there is no side column: a negative qty is a short")
        return [(1 if value > 0 else -1) if isinstance(value, Decimal) and value else None for value in amounts]
    return [None] * len(sheet)


def _no_side(cell: str) -> BadCell:
    problem = f"{shown_cell(cell)} is neither long nor short" if cell else "is empty"
    return BadCell(problem, "Write long or short, buy or sell; or map another column to side")


def _still_open(sheet: Sheet) -> list[bool | None]:
    """True for an open trade, None for a row that never became one."""
    flags = sheet.flags("is_open")
    if "status" not in sheet:
        return [bool(flag) for flag in flags]
    found: list[bool | None] = []
    for flag, cell in zip(flags, sheet.cells("status"), strict=True):
        word = "".join(c for c in cell.lower() if c.isalpha())
        if word in NEVER_WAS:
            sheet.skipped[cell[:20]] += 1
        found.append(None if word in NEVER_WAS else bool(flag) or word in OPEN)
    return found


def _fees(sheet: Sheet) -> list[Decimal | BadCell | None]:
    if "fees" in sheet:
        return sheet.costs("fees")
    return [total(halves) for halves in zip(sheet.costs("entry_fee"), sheet.costs("exit_fee"), strict=True)]


# ---- drafts to trades ----------------------------------------------------------------------------------------------


def _names(sheet: Sheet, drafts: Sequence[Draft], raw: Mapping[int, tuple[object, ...]]) -> list[str]:
    """From what the file says, before anything was concluded from the other rows."""
    strategies = sheet.cells("strategy") if "strategy" in sheet else [""] * len(sheet)
    contents = [
        (d.symbol, micros(d.entry_at), micros(d.exit_at), *(_spelled(x) for x in (d.entry, d.exit, *raw[d.row])),
         strategies[d.row])
        for d in drafts
    ]  # fmt: skip
    return row_ids(sheet, [draft.row for draft in drafts], contents, [draft.exit_at for draft in drafts])


def _spelled(value: object) -> str:
    return str(value.normalize()) if isinstance(value, Decimal) else str(value)


def _built(sheet: Sheet, drafts: Sequence[Draft], names: Sequence[str]) -> Iterator[FoundRows]:
    optional: dict[str, Sequence[Any]] = {
        "target": [value or None for value in sheet.numbers("target")],
        "leverage": sheet.numbers("leverage"),
        "rate": sheet.numbers("rate"),
        "entry_reason": sheet.lines("entry_reason", REASON_LENGTH),
        "exit_reason": sheet.lines("exit_reason", REASON_LENGTH),
        "trigger": sheet.lines("trigger", LABEL),
        "strategy": sheet.lines("strategy", LABEL),
    }
    optional = {name: column for name, column in optional.items() if name in sheet}
    situation: dict[str, list[Any]] = {
        name: sheet.lines(name, LABEL) for name in ("regime", "volatility", "session") if name in sheet
    }
    for name in ("atr_d1", "atr_h1", "atr_m5"):
        if name in sheet:
            situation[name] = [float(v) if isinstance(v, Decimal) and v > 0 else None for v in sheet.numbers(name)]
    tags = sheet.lines("tags", 1000) if "tags" in sheet else None
    for done, (draft, id_) in enumerate(zip(drafts, names, strict=True)):
        row = draft.row
        if sheet.wishes.on_progress and done % STEP == 0:
            sheet.wishes.on_progress(done, len(drafts))
        data: dict[str, Any] = {
            "trade_id": id_, "symbol": draft.symbol, "side": "long" if draft.side == 1 else "short", "entry_at": draft.entry_at,
            "exit_at": draft.exit_at, "entry_price": draft.entry, "exit_price": draft.exit,
        }  # fmt: skip
        for name, value in (("qty", draft.qty), ("pnl", draft.gross), ("stop", draft.stop)):
            if value is not None:
                data[name] = value
        if draft.fees:
            data["fees"] = draft.fees
        if draft.funding:
            data["funding"] = draft.funding
        bad = None
        for name, column in optional.items():
            if isinstance(value := column[row], BadCell):
                bad = bad or (name, value)
            elif value is not None:
                data[name] = value
        if seen := {name: column[row] for name, column in situation.items() if column[row]}:
            data["situation"] = seen
        if tags and (text := tags[row]):
            data["tags"] = tag_list(text)
        try:
            if bad:
                sheet.wrong(row, *bad)
            else:
                trade: ClosedTrade = read(CheckedTrade, data)
                yield FoundRows(draft.line, trade)
        except Invalid as error:
            sheet.refused(draft.line, error)


def tag_list(text: str) -> tuple[str, ...]:
    """Tags of one cell.

    >>> tag_list("breakout; london|A+")
    ('breakout', 'london', 'A+')
    """
    parts = [part.strip()[:LABEL] for part in text.replace(";", ",").replace("|", ",").split(",")]
    return tuple(dict.fromkeys(part for part in parts if part))[:TAGS]
