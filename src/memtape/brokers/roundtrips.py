"""Files of closed trades -> `ClosedTrade` values.

A row with a close time and no exit price is a trade that was closed without a price: its outcome is unknown, unless the file
states the profit.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from typing import Any

from memtape.brokers.cells import BadCell, shown_cell
from memtape.brokers.figures import TradeDraft, complete_figures
from memtape.brokers.headings import CLOSING_SIDE_NAMES, GROSS_PNL_NAMES, TRADE_FIELD_NAMES, plain_name
from memtape.brokers.identity import row_ids
from memtape.brokers.importer import FoundRow, ImportProblem
from memtape.brokers.mapped_table import MappedTable, sum_cells
from memtape.brokers.row_kinds import without_sums
from memtape.brokers.sides import NEITHER, SideWords
from memtape.brokers.texts import exit_trigger
from memtape.core.codec import micros
from memtape.core.labels import LabelKind
from memtape.core.observed import CheckedTrade, ClosedTrade
from memtape.core.values import REASON_LENGTH, ZERO, read
from memtape.errors import Invalid

_PNL_NAMES = frozenset(plain_name(name) for name in TRADE_FIELD_NAMES["pnl"])
MAX_LABEL_CHARS = 64
MAX_NOTE_CHARS = 2000
LABEL_FIELDS: tuple[LabelKind, ...] = ("regime", "volatility", "session")
MAX_TAGS = 16
MAX_SETUP_WORDS = 6  # of the name of a setup
OPEN_WORDS = frozenset({
    "open", "opened", "unclosed", "running", "active", "live", "pending", "partial", "partiallyclosed",
})  # fmt: skip
NEVER_FILLED_WORDS = frozenset({"cancelled", "canceled", "rejected", "void"})
PROGRESS_ROWS = 2000  # between two progress reports


def read_closed_trades(table: MappedTable) -> list[FoundRow]:
    """Returns every row that is a closed trade. The others are reported in `table`."""
    choose_strategy(table)
    drafts = list(_drafts(table))
    _report_unpriced(table, drafts)
    gross = plain_name(table.heading("pnl")) in {plain_name(name) for name in GROSS_PNL_NAMES}
    raw = {draft.row: (draft.side, draft.qty, *_stated_results(table, draft)) for draft in drafts}
    drafts = complete_figures(drafts, table.mapping, gross, table.notes, table.problems)
    names = _trade_ids(table, drafts, raw)
    return list(_build_trades(table, drafts, names))


def choose_strategy(table: MappedTable) -> None:
    """Use the account as the strategy if a file has several accounts and no strategy."""
    if "strategy" not in table and "account" in table and len(set(table.cells("account"))) > 1:
        table.mapping.columns["strategy"] = table.mapping.columns["account"]
        table.notes.append(f"strategy comes from {table.heading('account')}")


# ---- rows to drafts ------------------------------------------------------------------------------------------------


def _drafts(table: MappedTable) -> Iterator[TradeDraft]:
    entries = table.numbers("entry_price")
    columns: dict[str, Sequence[Any]] = {
        "symbol": table.cells("symbol"),
        "side": _sides(table),
        "entry_at": table.moments("entry_at"),
        "exit_at": table.moments("exit_at"),
        "entry_price": entries,
        "exit_price": table.numbers("exit_price"),
        "qty": table.quantities(entries),
        "pnl": table.numbers("pnl"),
        "net_pnl": table.numbers("net_pnl"),
        "fees": _fees(table),
        "funding": table.numbers("funding"),
        "stop": table.numbers("stop"),
        "pnl_r": table.numbers("pnl_r"),
        "multiplier": table.numbers("multiplier"),
    }
    names = list(columns)
    still_open = _still_open(table)
    counts = without_sums(table, [each is not None for each in still_open])
    bought_and_sold = _lists_purchase_and_sale(table)
    currencies = table.fee_currencies()
    for row, values in enumerate(zip(*columns.values(), strict=True)):
        symbol, side, entry_at, exit_at, entry, exit_, qty, pnl, net, fees, funding, stop, r, multiplier = values
        if side == NEITHER or not counts[row]:
            continue
        if still_open[row] or (exit_at is None and not exit_):
            fix = "Import again once it is closed"
            table.problems.append(ImportProblem(table.source.lines[row], "exit_at", "still open, skipped", fix, blocks=False))
            continue
        bad = []
        if BadCell in map(type, values):
            bad = [(name, value) for name, value in zip(names, values, strict=True) if isinstance(value, BadCell)]
        if bought_and_sold and side is None and isinstance(entry_at, datetime) and isinstance(exit_at, datetime):
            side = 1
            if exit_at < entry_at:
                side, entry_at, exit_at, entry, exit_ = -1, exit_at, entry_at, exit_, entry
        if entry == 0:
            bad.append(("entry_price", BadCell("is 0", "Fill in the price of the entry, or delete the row")))
        bad += _missing_cells(symbol, entry_at, exit_at, entry, exit_, qty, pnl if net is None else net, r)
        if not bad and currencies:
            paid = table.fee(fees or ZERO, currencies[row], symbol, entry if exit_ is None else exit_)
            if isinstance(paid, BadCell):
                bad.append(("fees", paid))
            fees = paid
        if bad:
            for name, cell in bad:
                table.add_unreadable(row, name, cell)
            continue
        if qty is not None:
            if side is None and "side" not in table and "is_short" not in table and qty < 0:
                side = -1
            qty = abs(qty) * (multiplier or 1) or None
        yield TradeDraft(row, table.source.lines[row], symbol, side, entry_at, exit_at, entry, exit_, qty, pnl, net, fees or ZERO,
                    funding or ZERO, stop, r)  # fmt: skip


def _missing_cells(
    symbol: str, entry_at: datetime | None, exit_at: datetime | None, entry: Decimal | None, exit_: Decimal | None,
    qty: Decimal | None, pnl: Decimal | None, r: Decimal | None,
) -> list[tuple[str, BadCell]]:  # fmt: skip
    """Returns the cells without which a row is no closed trade."""
    needed = (("symbol", symbol), ("entry_at", entry_at), ("exit_at", exit_at), ("entry_price", entry))
    bad = [(name, BadCell("is empty", "Fill it in, or delete the row")) for name, value in needed if value is None or value == ""]
    if not qty and pnl is None and r is None and exit_ is not None:
        bad.append(("qty", BadCell("neither qty nor pnl is given", "Fill in one of them, or delete the row")))
    return bad


def _lists_purchase_and_sale(table: MappedTable) -> bool:
    """Returns True if a row is a purchase and a sale: one that was sold before it was bought was short."""
    bought = plain_name(table.heading("entry_at")).startswith(("buy", "bought", "dateacquired", "acquired"))
    sold = plain_name(table.heading("exit_at")).startswith(("sell", "sold", "datesold"))
    return bought and sold and "side" not in table and "is_short" not in table


def _report_unpriced(table: MappedTable, drafts: Sequence[TradeDraft]) -> None:
    """Report the trades that were closed without a price."""
    without = [draft for draft in drafts if draft.exit is None]
    for draft in without:
        if draft.stated is None and draft.r is None:
            problem = "closed without a price: imported as a trade whose outcome is unknown"
            fix = "To know its outcome, fill in the exit price or the profit"
            table.problems.append(ImportProblem(draft.line, "exit_price", problem, fix, blocks=False))
    if stated := sum(draft.stated is not None for draft in without):
        table.notes.append(f"{stated} trades have a profit and no exit price: the profit is used as it is")


def _sides(table: MappedTable) -> list[int | BadCell | None]:
    if plain_name(table.heading("side")) in CLOSING_SIDE_NAMES:
        table.mapping.settings.setdefault("sides", "exit")
    turned = -1 if table.mapping.settings.get("sides") == "exit" else 1
    if "side" in table:
        cells = table.cells("side")
        words = SideWords(cells, held=True, name=plain_name(table.heading("side")))
        found: list[int | BadCell | None] = []
        for cell in cells:
            side = words.side(cell)
            if side == NEITHER and cell:
                table.skipped[cell[:20]] += 1
            found.append(turned * side if side is not None else _unknown_side(cell))
        return found
    if "is_short" in table:
        return [None if flag is None else (-1 if flag else 1) * turned for flag in table.flags("is_short")]
    amounts = table.numbers("qty" if "qty" in table else "value")
    if any(isinstance(value, Decimal) and value < 0 for value in amounts):
        table.notes.append("there is no side column: a negative qty is a short")
        return [(1 if value > 0 else -1) if isinstance(value, Decimal) and value else None for value in amounts]
    return [None] * len(table)


def _unknown_side(cell: str) -> BadCell:
    problem = f"{shown_cell(cell)} is neither long nor short" if cell else "is empty"
    return BadCell(problem, "Write long or short, buy or sell, or map another column to side")


def _still_open(table: MappedTable) -> list[bool | None]:
    """Returns True for an open trade, False for a closed one, None for an order that was never filled."""
    flags = table.flags("is_open")
    if "status" not in table:
        return [bool(flag) for flag in flags]
    found: list[bool | None] = []
    for flag, cell in zip(flags, table.cells("status"), strict=True):
        word = "".join(c for c in cell.lower() if c.isalpha())
        if word in NEVER_FILLED_WORDS:
            table.skipped[cell[:20]] += 1
        found.append(None if word in NEVER_FILLED_WORDS else bool(flag) or word in OPEN_WORDS)
    return found


def _fees(table: MappedTable) -> list[Decimal | BadCell | None]:
    if "fees" in table:
        return table.costs("fees")
    return [sum_cells(halves) for halves in zip(table.costs("entry_fee"), table.costs("exit_fee"), strict=True)]


# ---- drafts to trades ----------------------------------------------------------------------------------------------


def _trade_ids(table: MappedTable, drafts: Sequence[TradeDraft], raw: Mapping[int, tuple[object, ...]]) -> list[str]:
    """Returns ids made from the file's own values, before the other rows completed them."""
    strategies = table.cells("strategy") if "strategy" in table else [""] * len(table)
    contents = [
        (d.symbol, micros(d.entry_at), micros(d.exit_at), *(_plain_text(x) for x in (d.entry, d.exit, *raw[d.row])),
         strategies[d.row])
        for d in drafts
    ]  # fmt: skip
    return row_ids(table, [draft.row for draft in drafts], contents, [draft.exit_at for draft in drafts])


def _stated_results(table: MappedTable, draft: TradeDraft) -> tuple[Decimal | None, Decimal | None]:
    """Returns profit and net profit under the names that the file's own columns have.

    A first import may find that `profit` is after costs, and the next one knows it: the id must be the same in both.
    """
    if "pnl" not in table and plain_name(table.heading("net_pnl")) in _PNL_NAMES:
        return draft.net, None
    return draft.pnl, draft.net


def _plain_text(value: object) -> str:
    return str(value.normalize()) if isinstance(value, Decimal) else str(value)


def _build_trades(table: MappedTable, drafts: Sequence[TradeDraft], names: Sequence[str]) -> Iterator[FoundRow]:
    optional: dict[str, Sequence[Any]] = {
        "target": [value or None for value in table.numbers("target")],
        "leverage": table.numbers("leverage"),
        "rate": table.numbers("rate"),
        "entry_reason": table.lines("entry_reason", REASON_LENGTH),
        "exit_reason": table.lines("exit_reason", REASON_LENGTH),
        "trigger": table.lines("trigger", MAX_LABEL_CHARS),
        "strategy": table.lines("strategy", MAX_LABEL_CHARS),
        "note": table.lines("note", MAX_NOTE_CHARS),
        "confidence": table.confidences(),
    }
    optional = {name: column for name, column in optional.items() if name in table}
    if "note" in table and "trigger" not in table:
        optional["trigger"] = [exit_trigger(note) if note else None for note in optional["note"]]
    situation: dict[str, list[Any]] = {name: table.labels(name, MAX_LABEL_CHARS) for name in LABEL_FIELDS if name in table}
    for name in ("atr_d1", "atr_h1", "atr_m5"):
        if name in table:
            situation[name] = [float(v) if isinstance(v, Decimal) and v > 0 else None for v in table.numbers(name)]
    tags = _tags(table)
    if "setup" in table and "entry_reason" not in table:
        optional["entry_reason"] = table.lines("setup", REASON_LENGTH)
    for done, (draft, id_) in enumerate(zip(drafts, names, strict=True)):
        row = draft.row
        if table.options.on_progress and done % PROGRESS_ROWS == 0:
            table.options.on_progress(done, len(drafts))
        data: dict[str, Any] = {
            "trade_id": id_, "symbol": draft.symbol, "side": "long" if draft.side == 1 else "short", "entry_at": draft.entry_at,
            "exit_at": draft.exit_at, "entry_price": draft.entry,
        }  # fmt: skip
        for name, value in (("exit_price", draft.exit), ("qty", draft.qty), ("pnl", draft.gross), ("stop", draft.stop)):
            if value is not None:
                data[name] = value
        if draft.r is not None:
            data["pnl_r"] = float(draft.r)
        if draft.fees:
            data["fees"] = draft.fees
        if draft.funding:
            data["funding"] = draft.funding
        bad: list[tuple[str, BadCell]] = []
        for name, column in optional.items():
            if isinstance(value := column[row], BadCell):
                bad.append((name, value))
            elif value is not None:
                data[name] = value
        if known := {name: column[row] for name, column in situation.items() if column[row]}:
            data["situation"] = known
        if tags[row]:
            data["tags"] = tags[row]
        try:
            for name, cell in bad:
                table.add_unreadable(row, name, cell)
            if not bad:
                trade: ClosedTrade = read(CheckedTrade, data)
                yield FoundRow(draft.line, trade)
        except Invalid as error:
            table.add_refused(draft.line, error)


def _tags(table: MappedTable) -> list[tuple[str, ...]]:
    """Returns the tags of each row, and its setups where they are named in a few words. A sentence is a reason only."""
    both = zip(table.lines("tags", 1000), table.lines("setup", 1000), strict=True)
    return [
        tuple(dict.fromkeys((*tag_list(tags or ""), *(one for one in tag_list(setup or "") if is_setup_name(one)))))[:MAX_TAGS]
        for tags, setup in both
    ]


def is_setup_name(text: str) -> bool:
    """Returns True for the name of a setup, and not for a sentence.

    >>> is_setup_name("Opening range breakout"), is_setup_name("I waited for the close above the range and then bought")
    (True, False)
    """
    return len(text.split()) <= MAX_SETUP_WORDS


def tag_list(text: str) -> tuple[str, ...]:
    """Returns the tags in one cell.

    >>> tag_list("breakout; london|A+")
    ('breakout', 'london', 'A+')
    """
    parts = [part.strip()[:MAX_LABEL_CHARS] for part in text.replace(";", ",").replace("|", ",").split(",")]
    return tuple(dict.fromkeys(part for part in parts if part))[:MAX_TAGS]
