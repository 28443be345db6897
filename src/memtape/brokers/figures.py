"""Do the money columns of closed trades agree with their prices? What a file leaves open is decided here, for all rows.

- A fee that most rows write with a minus is a cost (MetaTrader, IBKR); memtape writes costs with a plus.
- "pnl" may be before or after costs: where quantity and fees are there, the prices tell which.
- Quantity may be in lots or contracts: where profit is always 100 or 100,000 times price move x quantity, a unit holds
  as much. Where no such number exists, quantity is left out, because size and R from it would be wrong by orders of magnitude.
- A profit against an adverse move, or a loss against a favourable one, beyond what costs explain, is refused.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal, localcontext
from statistics import median

from memtape.brokers.importer import ImportProblem
from memtape.brokers.mapping import Chosen
from memtape.core.codec import decimal_text
from memtape.core.values import MONEY, ZERO

COSTS = Decimal("0.01")  # of the traded value: the most that costs may take from, or funding add to, a stated profit
AGREE = Decimal("0.02")  # how near to each other the ratios of one symbol must lie
ROUND = Decimal("0.005")
ENOUGH = 5  # rows that make a pattern
_EVEN = tuple(Decimal(d) for d in ("1", "1.25", "2", "2.5", "4", "4.2", "5", "6.25", "10"))


@dataclass(slots=True)
class Draft:
    """A closed trade on its way in."""

    row: int
    line: int
    symbol: str
    side: int | None  # 1 long, -1 short
    entry_at: datetime
    exit_at: datetime
    entry: Decimal
    exit: Decimal
    qty: Decimal | None
    pnl: Decimal | None
    net: Decimal | None
    fees: Decimal
    funding: Decimal
    stop: Decimal | None
    gross: Decimal | None = None

    @property
    def move(self) -> Decimal:
        """What one unit won, before costs."""
        return (self.exit - self.entry) * (self.side or 1)

    @property
    def stated(self) -> Decimal | None:
        """The profit as the file has it."""
        return self.pnl if self.net is None else self.net


def complete_figures(
    drafts: list[Draft], chosen: Chosen, pnl_is_gross: bool, notes: list[str], problems: list[ImportProblem]
) -> list[Draft]:
    """The trades whose figures hold together, with gross profit and quantity in units."""
    with localcontext(MONEY):
        drafts = _sided(drafts, notes, problems)
        has_fees = any(name in chosen for name in ("fees", "entry_fee", "exit_fee"))
        if "pnl" in chosen.columns and "net_pnl" not in chosen and has_fees and not pnl_is_gross and _fees_are_inside(drafts):
            chosen.columns["net_pnl"] = chosen.columns.pop("pnl")
            for draft in drafts:
                draft.net, draft.pnl = draft.pnl, None
            notes.append("pnl equals price move x qty less fees: read as net_pnl")
        _gross(drafts, has_fees, "funding" in chosen, notes)
        if "multiplier" not in chosen:
            _units(drafts, notes)
        wrong = _contradicting(drafts, costs_inside="net_pnl" in chosen and not has_fees and "pnl" not in chosen)
    problems += [_contradiction(draft) for draft in wrong]
    refused = {draft.row for draft in wrong}
    kept = [draft for draft in drafts if draft.row not in refused]
    _stops(kept, notes)
    return kept


def _sided(drafts: list[Draft], notes: list[str], problems: list[ImportProblem]) -> list[Draft]:
    """Where the file names no side, profit and price move do."""
    unknown = [draft for draft in drafts if draft.side is None]
    if not unknown:
        return drafts
    for draft in unknown:
        product = (draft.exit - draft.entry) * (draft.stated or ZERO)
        draft.side = 1 if product > 0 else -1 if product < 0 else None
    counts = Counter(draft.side for draft in unknown if draft.side)
    only = next(iter(counts)) if len(counts) == 1 else None
    for draft in unknown:
        draft.side = draft.side or only
    notes.append(f"there is no side column: side follows from prices and pnl ({counts[1]} long, {counts[-1]} short)")
    fix = "Say which column it is, --map side=COLUMN, or --map side==long if all are"
    problems += [
        ImportProblem(d.line, "side", "the row does not say whether it was long or short", fix) for d in drafts if not d.side
    ]
    return [draft for draft in drafts if draft.side]


def _fees_are_inside(drafts: list[Draft]) -> bool:
    """Whether pnl fits the prices better after fees than before."""
    before: list[Decimal] = []
    after: list[Decimal] = []
    for draft in drafts:
        if draft.qty is not None and draft.pnl is not None and draft.fees:
            gross = draft.move * draft.qty
            before.append(abs(draft.pnl - gross))
            after.append(abs(draft.pnl + draft.fees - draft.funding - gross))
    return bool(before) and 3 * median(after) < median(before)


def _gross(drafts: list[Draft], has_fees: bool, has_funding: bool, notes: list[str]) -> None:
    """Gross profit of each. Net and fees beat a gross that does not fit them: net is what the account got."""
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
            notes.append("net_pnl is taken whole: the file lists no fees")
    if differing:
        notes.append(f"the file's own gross differs from that in {differing} rows, by {decimal_text(by)} in all; net is kept")


def _units(drafts: list[Draft], notes: list[str]) -> None:
    """Quantity in units of the base: from lots or contracts, by what a point was worth."""
    by_symbol: dict[str, list[Draft]] = {}
    for draft in drafts:
        if draft.qty is not None and draft.gross is not None:
            by_symbol.setdefault(draft.symbol, []).append(draft)
    pooled = _unit([draft for several in by_symbol.values() for draft in several])
    told: dict[Decimal | None, list[str]] = {}
    for symbol, several in by_symbol.items():
        unit = _unit(several) or pooled
        if unit == 1:
            continue
        told.setdefault(unit, []).append(symbol)
        for draft in several:
            draft.qty = None if unit is None or draft.qty is None else draft.qty * unit
    for unit, symbols in told.items():
        names = ", ".join(symbols[:3]) + (f" and {len(symbols) - 3} more" if len(symbols) > 3 else "")
        if unit is None:
            notes.append(f"qty is left out for {names}: pnl is no fixed multiple of price move x qty")
        else:
            notes.append(f"pnl is {unit:,f} x price move x qty for {names}: qty is counted in units of {unit:,f}")


def _unit(drafts: list[Draft]) -> Decimal | None:
    """How many units one of the file's holds: 1, another even number, or None if the rows do not say."""
    ratios = [draft.gross / (draft.move * draft.qty) for draft in drafts if draft.qty and draft.gross and draft.move]
    if not ratios:
        return None
    middle = median(ratios)
    if middle > 0:
        near = sum(abs(ratio - middle) <= AGREE * middle for ratio in ratios)
        even = middle.scaleb(-middle.adjusted())
        nearest = min(_EVEN, key=lambda each: abs(each - even))
        unit = nearest.scaleb(middle.adjusted())
        tens = nearest in (1, 10) and abs(unit - middle) <= ROUND * unit
        if 5 * near >= 4 * len(ratios) and (tens or (len(ratios) >= ENOUGH and abs(unit - middle) <= AGREE * unit)):
            return unit
    plausible = sum(
        abs(ratio) > Decimal("0.1") and abs(ratio - 1) * abs(draft.move) <= max(COSTS * draft.entry, abs(draft.move) / 2)
        for ratio, draft in zip(ratios, (d for d in drafts if d.qty and d.gross and d.move), strict=True)
    )
    return Decimal(1) if 2 * plausible >= len(ratios) else None


def _contradicting(drafts: list[Draft], *, costs_inside: bool) -> list[Draft]:
    """Profits and losses that go against side and prices by more than costs."""
    found: list[Draft] = []
    points: dict[str, Decimal] = {}  # what a point was usually worth, where the file gives no quantity
    for draft in drafts:
        if draft.gross is None or draft.gross * draft.move >= 0 or (costs_inside and draft.gross < 0):
            continue
        units = draft.qty
        if units is None:
            if draft.symbol not in points:
                own = [abs(d.gross / d.move) for d in drafts if d.symbol == draft.symbol and d.gross is not None and d.move]
                points[draft.symbol] = median(own)
            units = points[draft.symbol]
        if abs(draft.gross - draft.move * units) > COSTS * draft.entry * units:
            found.append(draft)
    return found


def _contradiction(draft: Draft) -> ImportProblem:
    side = "long" if draft.side == 1 else "short"
    way = "rose" if draft.exit > draft.entry else "fell"
    gross = decimal_text(draft.gross or ZERO)
    problem = f"{gross} contradicts a {side} whose price {way} from {draft.entry} to {draft.exit}"
    fix = (
        "Correct side or pnl; say --map sides=exit if the side is that of the closing order, "
        "--map net_pnl=COLUMN if costs are inside"
    )
    return ImportProblem(draft.line, "pnl", problem, fix)


def _stops(drafts: list[Draft], notes: list[str]) -> None:
    """A stop beyond the entry was moved there later, so it is not what was risked."""
    moved = 0
    for draft in drafts:
        if draft.stop is not None and (draft.stop == 0 or (draft.entry - draft.stop) * (draft.side or 1) <= 0):
            moved += draft.stop != 0
            draft.stop = None
    if moved:
        notes.append(f"stops of {moved} rows lie beyond the entry: moved there later, left out")
