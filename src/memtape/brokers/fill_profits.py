"""Compares what a broker says that its fills realised with what they give by their prices.

MetaTrader counts in lots and IBKR's statements in contracts, and neither says how many units one has. Where the stated profit is
always 100 or 100,000 times price move x quantity, that is the size of a lot. Any other difference is reported, because the fills
alone are then not the whole account.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal, localcontext

from memtape.brokers.figures import TradeDraft, unit_size
from memtape.brokers.importer import FoundRow, ImportProblem
from memtape.brokers.mapped_table import MappedTable
from memtape.core.codec import decimal_text
from memtape.core.fills import Fill
from memtape.core.values import MONEY, ONE, ZERO

TOLERANCE_SHARE = Decimal("0.01")  # of the amount: brokers round, and some count the fees of both sides
TOLERANCE = Decimal("0.01")  # account currency, for each fill that closes


def check_stated_profits(table: MappedTable, found: list[FoundRow]) -> list[FoundRow]:
    """Returns the fills with quantities in units. Reports symbols whose stated profit is not what their fills give."""
    if "pnl" not in table:
        return found
    rows = {line: row for row, line in enumerate(table.source.lines)}
    stated = table.numbers("pnl")
    by_symbol: dict[str, list[tuple[TradeDraft, Decimal]]] = {}  # what each fill closed, and its fee
    with localcontext(MONEY):
        for draft, fee in _closings(found):
            amount = stated[rows[draft.line]]
            if isinstance(amount, Decimal):
                draft.gross = amount
                by_symbol.setdefault(draft.symbol, []).append((draft, fee))
        units: dict[str, Decimal] = {}
        for symbol, closings in by_symbol.items():
            # A multiplier that the file states is in the quantities already.
            unit = ONE if "multiplier" in table else _unit(closings)
            if unit != ONE:
                units[symbol] = unit
            _compare(table, symbol, closings, unit)
    for unit in sorted(set(units.values())):
        names = ", ".join(symbol for symbol, own in units.items() if own == unit)
        table.notes.append(f"pnl is {unit:,f} x price move x qty for {names}: qty is counted in units of {unit:,f}")
    return [_in_units(each, units) for each in found] if units else found


def _unit(closings: Sequence[tuple[TradeDraft, Decimal]]) -> Decimal:
    """Returns the units in one lot; 1 if the profits do not show it. They may be stated before fees, after one or after both."""
    for times in (ZERO, ONE, ONE + ONE):
        drafts = [replace(draft, gross=(draft.gross or ZERO) + times * fee) for draft, fee in closings]
        if (unit := unit_size(drafts)) is not None:
            return unit
    return ONE


def _closings(found: Sequence[FoundRow]) -> list[tuple[TradeDraft, Decimal]]:
    """What each fill closed at average cost within the file, in order of time, with its fee."""
    held: dict[tuple[str, str], tuple[Decimal, Decimal]] = {}  # signed quantity, average cost
    closings: list[tuple[TradeDraft, Decimal]] = []
    fills = [(each.line, each.value) for each in found if isinstance(each.value, Fill)]
    for line, fill in sorted(fills, key=lambda pair: (pair[1].t, pair[1].seq)):
        qty, cost = held.get((fill.symbol, fill.leg), (ZERO, ZERO))
        traded = fill.qty if fill.side == "buy" else -fill.qty
        after = qty + traded
        if qty * traded >= 0:
            cost = (qty * cost + traded * fill.px) / after
        else:
            closed, side = min(abs(traded), abs(qty)), 1 if qty > 0 else -1
            closings.append((
                TradeDraft(line, line, fill.symbol, side, fill.t, fill.t, cost, fill.px, closed, None, None, ZERO, ZERO, None),
                fill.fee,
            ))  # fmt: skip
            cost = fill.px if qty * after < 0 else cost
        held[fill.symbol, fill.leg] = (after, cost)
    return closings


def _compare(table: MappedTable, symbol: str, closings: Sequence[tuple[TradeDraft, Decimal]], unit: Decimal) -> None:
    """Report a symbol whose stated profit is neither the gross nor the net profit of its fills."""
    said = sum((draft.gross or ZERO for draft, _ in closings), ZERO)
    given = sum((draft.move * (draft.qty or ZERO) * unit for draft, _ in closings), ZERO)
    fees = sum((fee for _, fee in closings), ZERO)
    allowed = TOLERANCE * len(closings) + TOLERANCE_SHARE * sum((abs(draft.gross or ZERO) for draft, _ in closings), ZERO)
    # The fees of the entries were paid too; a stated net may contain them.
    if min(abs(said - given), abs(said - given + fees), abs(said - given + 2 * fees)) > allowed:
        stated, found = decimal_text(round(said, 8)), decimal_text(round(given, 8))
        problem = f"the file states a profit of {stated} for {symbol}, its fills give {found}"
        fix = "Fills before its first row may be missing, or a contract has a size: give the column, like --map multiplier=COLUMN"
        table.problems.append(ImportProblem(closings[0][0].line, "pnl", problem, fix, blocks=False))


def _in_units(found: FoundRow, units: dict[str, Decimal]) -> FoundRow:
    if not isinstance(found.value, Fill) or found.value.symbol not in units:
        return found
    return replace(found, value=replace(found.value, qty=found.value.qty * units[found.value.symbol]))
