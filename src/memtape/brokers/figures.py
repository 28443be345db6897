"""Checks the money columns of closed trades against their prices, and decides for all rows what a file leaves open.

- "pnl" may be before or after costs: where the file has quantity and fees, the prices show which.
- Quantity may be in lots or contracts: where profit is always 100 or 100,000 times price move x quantity, that is the size of a
  lot. Where there is no such number, quantity is left out, because size and R from it would be wrong by orders of magnitude.
- A profit on an adverse move, or a loss on a favourable one, is refused if costs do not explain it.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal, localcontext
from statistics import median

from memtape.brokers.importer import ImportProblem
from memtape.brokers.mapping import ColumnMapping
from memtape.core.codec import decimal_text
from memtape.core.values import MONEY, ZERO

MAX_COST_SHARE = Decimal("0.01")  # of the traded value: costs and funding change a stated profit by at most this
RATIO_TOLERANCE = Decimal("0.02")  # between the ratios of one symbol
ROUND_TOLERANCE = Decimal("0.005")
SMALLEST_LOT, LOT_TOLERANCE = 10, Decimal("0.001")  # units; cents that a broker rounds
MIN_PATTERN_ROWS = 5  # fewer rows show no pattern
_ROUND_UNITS = tuple(Decimal(d) for d in ("1", "1.25", "2", "2.5", "4", "4.2", "5", "6.25", "10"))


@dataclass(slots=True)
class TradeDraft:
    """A closed trade while its figures are checked."""

    row: int
    line: int
    symbol: str
    side: int | None  # 1 long, -1 short
    entry_at: datetime
    exit_at: datetime
    entry: Decimal
    exit: Decimal | None  # None: closed without a price
    qty: Decimal | None
    pnl: Decimal | None
    net: Decimal | None
    fees: Decimal
    funding: Decimal
    stop: Decimal | None
    r: Decimal | None = None  # as written in the file
    gross: Decimal | None = None

    @property
    def move(self) -> Decimal:
        """The profit of one unit before costs."""
        assert self.exit is not None
        return (self.exit - self.entry) * (self.side or 1)

    @property
    def net_result(self) -> Decimal:
        """What the account received, if the profit is known."""
        return (self.gross or ZERO) - self.fees + self.funding

    @property
    def stated(self) -> Decimal | None:
        """The profit as written in the file."""
        return self.pnl if self.net is None else self.net


def complete_figures(
    drafts: list[TradeDraft], mapping: ColumnMapping, pnl_is_gross: bool, notes: list[str], problems: list[ImportProblem]
) -> list[TradeDraft]:
    """Returns the trades with consistent figures, with gross profit and quantity in units."""
    with localcontext(MONEY):
        drafts = _infer_sides(drafts, notes, problems)
        has_fees = any(name in mapping for name in ("fees", "entry_fee", "exit_fee"))
        priced = [draft for draft in drafts if draft.exit is not None]
        if "pnl" in mapping.columns and "net_pnl" not in mapping and has_fees and not pnl_is_gross and _fees_are_included(priced):
            mapping.columns["net_pnl"] = mapping.columns.pop("pnl")
            for draft in drafts:
                draft.net, draft.pnl = draft.pnl, None
            notes.append("pnl equals price move x qty less fees: read as net_pnl")
        _fill_gross(drafts, has_fees, "funding" in mapping, notes)
        if "multiplier" not in mapping:
            _convert_quantities(priced, [draft for draft in drafts if draft.exit is None], notes)
        wrong = _contradictions(priced, costs_inside="net_pnl" in mapping and not has_fees and "pnl" not in mapping)
    problems += [_contradiction_problem(draft) for draft in wrong]
    refused = {draft.row for draft in wrong}
    consistent = [draft for draft in drafts if draft.row not in refused]
    _drop_moved_stops(consistent, notes)
    _drop_contradicting_r(consistent, notes)
    return consistent


def _drop_contradicting_r(drafts: list[TradeDraft], notes: list[str]) -> None:
    """Leave out an R whose sign is not that of the profit: money says what the account received."""
    wrong = [draft for draft in drafts if draft.r is not None and draft.gross is not None and draft.r * draft.net_result < 0]
    for draft in wrong:
        draft.r = None
    if wrong:
        notes.append(f"R is left out in {len(wrong)} rows, from line {wrong[0].line}: it has the opposite sign of the profit")


def _infer_sides(drafts: list[TradeDraft], notes: list[str], problems: list[ImportProblem]) -> list[TradeDraft]:
    """Infer missing sides from profit and price move."""
    unknown = [draft for draft in drafts if draft.side is None]
    if not unknown:
        return drafts
    for draft in unknown:
        result = draft.r if draft.stated is None else draft.stated
        product = (draft.exit - draft.entry) * (result or ZERO) if draft.exit is not None else ZERO
        draft.side = 1 if product > 0 else -1 if product < 0 else None
    counts = Counter(draft.side for draft in unknown if draft.side)
    only = next(iter(counts)) if len(counts) == 1 else None
    for draft in unknown:
        draft.side = draft.side or only
    notes.append(f"there is no side column: side follows from prices and pnl ({counts[1]} long, {counts[-1]} short)")
    fix = "Give the column with --map side=COLUMN, or --map side==long if all are long"
    problems += [
        ImportProblem(d.line, "side", "the row does not show whether it was long or short", fix) for d in drafts if not d.side
    ]
    return [draft for draft in drafts if draft.side]


def _fees_are_included(drafts: list[TradeDraft]) -> bool:
    """Returns True if pnl fits the prices better after fees than before fees."""
    before: list[Decimal] = []
    after: list[Decimal] = []
    for draft in drafts:
        if draft.qty is not None and draft.pnl is not None and draft.fees:
            gross = draft.move * draft.qty
            before.append(abs(draft.pnl - gross))
            after.append(abs(draft.pnl + draft.fees - draft.funding - gross))
    return bool(before) and (3 * median(after) < median(before) or _fees_make_even_lots(drafts))


def _fees_make_even_lots(drafts: list[TradeDraft]) -> bool:
    """Returns True if quantities are lots of a round number of units, the same in all rows of a symbol, only if pnl is after
    fees. One row shows a lot of 10, 100, ... units, several also a contract of 5, 20 or 50.
    """
    by_symbol: dict[str, list[TradeDraft]] = {}
    for draft in drafts:
        if draft.qty and draft.pnl is not None and draft.fees and draft.move:
            by_symbol.setdefault(draft.symbol, []).append(draft)
    uneven = False
    for several in by_symbol.values():
        before = [draft.pnl / (draft.move * draft.qty) for draft in several]  # type: ignore[operator]
        after = [(draft.pnl + draft.fees - draft.funding) / (draft.move * draft.qty) for draft in several]  # type: ignore[operator]
        unit = median(after)
        lot = _round_lot(unit) if len(several) > 1 else Decimal(1).scaleb(unit.adjusted()) if unit > 0 else ZERO
        if lot < (SMALLEST_LOT if len(several) == 1 else 2) or any(abs(ratio - lot) > LOT_TOLERANCE * lot for ratio in after):
            return False
        uneven = uneven or any(abs(ratio - lot) > ROUND_TOLERANCE * lot for ratio in before)
    return uneven


def _round_lot(ratio: Decimal) -> Decimal:
    """Returns the round number of units that is nearest to a ratio; 0 if that is not positive."""
    if ratio <= 0:
        return ZERO
    even = ratio.scaleb(-ratio.adjusted())
    return min(_ROUND_UNITS, key=lambda each: abs(each - even)).scaleb(ratio.adjusted())


def _fill_gross(drafts: list[TradeDraft], has_fees: bool, has_funding: bool, notes: list[str]) -> None:
    """Compute each gross profit. Net and fees override a gross that does not match them: net is what the account received."""
    differing, by = 0, ZERO
    for draft in drafts:
        draft.gross = draft.stated
        if draft.net is None:
            continue
        if has_fees:
            draft.gross = draft.net + draft.fees - draft.funding
            if draft.pnl is not None and abs(draft.gross - draft.pnl) >= Decimal("0.005"):
                differing, by = differing + 1, by + draft.gross - draft.pnl
        elif draft.pnl is not None:
            draft.gross, draft.fees = draft.pnl, draft.pnl - draft.net + draft.funding
    if any(draft.net is not None for draft in drafts):
        if has_fees:
            notes.append(f"gross pnl = net_pnl + fees{' - funding' if has_funding else ''}")
        elif any(draft.pnl is not None for draft in drafts):
            notes.append(f"fees = pnl - net_pnl{' + funding' if has_funding else ''}")
        else:
            notes.append("net_pnl is used as it is: the file has no fees")
    if differing:
        notes.append(f"the file's own gross differs from that in {differing} rows, by {decimal_text(by)} in total; net is used")


def _convert_quantities(drafts: list[TradeDraft], unpriced: list[TradeDraft], notes: list[str]) -> None:
    """Convert quantities from lots or contracts to units, by the value of a price move; those of unpriced trades likewise."""
    by_symbol: dict[str, list[TradeDraft]] = {}
    for draft in drafts:
        if draft.qty is not None and draft.gross is not None:
            by_symbol.setdefault(draft.symbol, []).append(draft)
    pooled = unit_size([draft for several in by_symbol.values() for draft in several])
    by_unit: dict[Decimal | None, list[str]] = {}
    for symbol, several in by_symbol.items():
        unit = unit_size(several) or pooled
        if unit == 1:
            continue
        by_unit.setdefault(unit, []).append(symbol)
        for draft in [*several, *(draft for draft in unpriced if draft.symbol == symbol)]:
            draft.qty = None if unit is None or draft.qty is None else draft.qty * unit
    for unit, symbols in by_unit.items():
        names = ", ".join(symbols[:3]) + (f" and {len(symbols) - 3} more" if len(symbols) > 3 else "")
        if unit is None:
            notes.append(f"qty is left out for {names}: pnl is not a fixed multiple of price move x qty")
        else:
            notes.append(f"pnl is {unit:,f} x price move x qty for {names}: qty is counted in units of {unit:,f}")


def unit_size(drafts: list[TradeDraft]) -> Decimal | None:
    """Returns the units in one lot of the file: 1, another round number, or None if the rows do not show it."""
    ratios = [draft.gross / (draft.move * draft.qty) for draft in drafts if draft.qty and draft.gross and draft.move]
    if not ratios:
        return None
    middle = median(ratios)
    if middle > 0:
        near = sum(abs(ratio - middle) <= RATIO_TOLERANCE * middle for ratio in ratios)
        unit = _round_lot(middle)
        tens = unit == Decimal(1).scaleb(unit.adjusted()) and abs(unit - middle) <= ROUND_TOLERANCE * unit
        # Two rows that give the same round number to a thousandth show it as well as many that give it roughly.
        exact = len(ratios) > 1 and all(abs(ratio - unit) <= LOT_TOLERANCE * unit for ratio in ratios)
        if 5 * near >= 4 * len(ratios) and (
            tens or exact or (len(ratios) >= MIN_PATTERN_ROWS and abs(unit - middle) <= RATIO_TOLERANCE * unit)
        ):
            return unit
    plausible = sum(
        abs(ratio) > Decimal("0.1") and abs(ratio - 1) * abs(draft.move) <= max(MAX_COST_SHARE * draft.entry, abs(draft.move) / 2)
        for ratio, draft in zip(ratios, (d for d in drafts if d.qty and d.gross and d.move), strict=True)
    )
    return Decimal(1) if 2 * plausible >= len(ratios) else None


def _contradictions(drafts: list[TradeDraft], *, costs_inside: bool) -> list[TradeDraft]:
    """Returns trades whose profit contradicts side and prices by more than costs."""
    found: list[TradeDraft] = []
    points: dict[str, Decimal] = {}  # the usual value of a point, where the file has no quantity
    for draft in drafts:
        if draft.gross is None or draft.gross * draft.move >= 0 or (costs_inside and draft.gross < 0):
            continue
        units = draft.qty
        if units is None:
            if draft.symbol not in points:
                own = [abs(d.gross / d.move) for d in drafts if d.symbol == draft.symbol and d.gross is not None and d.move]
                points[draft.symbol] = median(own)
            units = points[draft.symbol]
        if abs(draft.gross - draft.move * units) > MAX_COST_SHARE * draft.entry * units:
            found.append(draft)
    return found


def _contradiction_problem(draft: TradeDraft) -> ImportProblem:
    side = "long" if draft.side == 1 else "short"
    assert draft.exit is not None
    way = "rose" if draft.exit > draft.entry else "fell"
    gross = decimal_text(draft.gross or ZERO)
    problem = f"{gross} contradicts a {side} whose price {way} from {draft.entry} to {draft.exit}"
    fix = (
        "Correct side or pnl; give --map sides=exit if the side is that of the closing order, "
        "--map net_pnl=COLUMN if costs are included"
    )
    return ImportProblem(draft.line, "pnl", problem, fix)


def _drop_moved_stops(drafts: list[TradeDraft], notes: list[str]) -> None:
    """Drop stops beyond the entry: they were moved there later and do not show the initial risk."""
    moved = 0
    for draft in drafts:
        if draft.stop is not None and (draft.stop == 0 or (draft.entry - draft.stop) * (draft.side or 1) <= 0):
            moved += draft.stop != 0
            draft.stop = None
    if moved:
        notes.append(f"stops of {moved} rows are beyond the entry, so they were moved later: left out")
