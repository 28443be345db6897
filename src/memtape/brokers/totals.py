"""The sums of a file, for comparison with the broker's own statement before a commit.

Closed trades contain their figures. Fills are matched by average cost within the file alone, so positions that were open before
its first row are not included.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal, localcontext

from memtape.brokers.importer import FoundRow
from memtape.core.codec import EPOCH
from memtape.core.fills import Fill
from memtape.core.observed import ClosedTrade, occurred_at
from memtape.core.values import MONEY, ZERO

MAX_LOSS_POSITIONS = 10  # a loss of more than so many of the largest position is absurd
MAX_QTY = 1_000_000_000


@dataclass(slots=True)
class AccountSums:
    """Sums in the account currency."""

    n: int = 0
    gross: Decimal = ZERO
    fees: Decimal = ZERO
    funding: Decimal = ZERO
    first: datetime | None = None
    last: datetime | None = None

    @property
    def net(self) -> Decimal:
        """The profit after all costs."""
        return self.gross - self.fees + self.funding

    def add(self, gross: Decimal, fees: Decimal, funding: Decimal, first: datetime, last: datetime) -> None:
        """Add a trade or a fill."""
        self.n += 1
        self.gross += gross
        self.fees += fees
        self.funding += funding
        self.first = first if self.first is None else min(self.first, first)
        self.last = last if self.last is None else max(self.last, last)


@dataclass(slots=True)
class FileTotals(AccountSums):
    """Sums of a file, in total and by symbol; for fills also the positions open at its end."""

    by_symbol: dict[str, AccountSums] = field(default_factory=dict)
    open: dict[str, Decimal] = field(default_factory=dict)


def file_totals(rows: Sequence[FoundRow]) -> FileTotals:
    """Returns the sums of all rows; a row that repeats another one with its id counts once, as it does when it is imported."""
    whole = FileTotals()
    found = list({_identity(each): each for each in reversed(rows)}.values())[::-1]
    with localcontext(MONEY):
        for value, gross in _realised_profits(found):
            fees, funding = (_known_fee(value), ZERO) if isinstance(value, Fill) else (value.fees, value.funding)
            first, last = (value.t, value.t) if isinstance(value, Fill) else (value.entry_at, value.exit_at)
            whole.add(gross, fees, funding, first, last)
            whole.by_symbol.setdefault(value.symbol, AccountSums()).add(gross, fees, funding, first, last)
        for each in found:
            if isinstance(each.value, Fill):
                position = f"{each.value.symbol} ({each.value.leg})" if each.value.leg else each.value.symbol
                traded = each.value.qty if each.value.side == "buy" else -each.value.qty
                whole.open[position] = whole.open.get(position, ZERO) + traded
    whole.open = {position: qty for position, qty in sorted(whole.open.items()) if qty}
    whole.by_symbol = dict(sorted(whole.by_symbol.items()))
    return whole


def absurd_totals(found: Sequence[FoundRow], totals: FileTotals) -> list[str]:
    """Returns what cannot be true of these sums; it usually means that a column is something else than it was taken for."""
    largest = largest_qty = traded_value = ZERO
    held: dict[tuple[str, str], Decimal] = {}
    with localcontext(MONEY):
        for each in sorted(found, key=lambda row: occurred_at(row.value) or EPOCH):
            value = each.value
            if isinstance(value, Fill):
                traded = value.qty if value.side == "buy" else -value.qty
                size = held[value.symbol, value.leg] = held.get((value.symbol, value.leg), ZERO) + traded
                largest = max(largest, abs(size * value.px) * value.rate)
                traded_value += abs(value.qty * value.px) * value.rate
                largest_qty = max(largest_qty, value.qty)
            elif isinstance(value, ClosedTrade) and value.qty is not None:
                position = abs(value.qty * value.entry_price) * value.rate
                largest, traded_value = max(largest, position), traded_value + position
                largest_qty = max(largest_qty, value.qty)
        absurd: list[str] = []
        # Many small positions may lose more than ten times the largest one, but not more than all of them together.
        if largest and -totals.net > max(MAX_LOSS_POSITIONS * largest, traded_value):
            absurd.append(f"the loss of {-totals.net:,.2f} is more than ten times the largest position, {largest:,.2f}")
        if largest_qty > MAX_QTY:
            absurd.append(f"a quantity of {largest_qty:,.0f} is above {MAX_QTY:,}")
    return absurd


def _realised_profits(found: Sequence[FoundRow]) -> Iterable[tuple[Fill | ClosedTrade, Decimal]]:
    """Yields each value with the gross profit that it realised."""
    held: dict[tuple[str, str], tuple[Decimal, Decimal]] = {}  # signed quantity, average cost
    fills = [each.value for each in found if isinstance(each.value, Fill)]
    for each in found:
        if isinstance(each.value, ClosedTrade) and (gross := _stated_profit(each.value)) is not None:
            yield each.value, gross
    for fill in sorted(fills, key=lambda fill: (fill.t, fill.seq)):
        qty, cost = held.get((fill.symbol, fill.leg), (ZERO, ZERO))
        traded = fill.qty if fill.side == "buy" else -fill.qty
        after, gross = qty + traded, ZERO
        if qty * traded >= 0:
            cost = (qty * cost + traded * fill.px) / after
        else:
            closed = min(abs(traded), abs(qty))
            gross = (fill.px - cost) * closed * (1 if qty > 0 else -1) * fill.rate
            cost = fill.px if qty * after < 0 else cost
        held[fill.symbol, fill.leg] = (after, cost)
        yield fill, gross


def _identity(row: FoundRow) -> tuple[str, object]:
    value = row.value
    return value.kind, value.id if isinstance(value, Fill) else value.trade_id if isinstance(value, ClosedTrade) else id(row)


def _known_fee(fill: Fill) -> Decimal:
    """Returns the fee of a fill in the account's currency; 0 if its rate is unknown."""
    if fill.fee_currency is None:
        return fill.fee
    return ZERO if fill.fee_rate is None else fill.fee * fill.fee_rate


def _stated_profit(trade: ClosedTrade) -> Decimal | None:
    """Returns the gross profit of a closed trade; None if it was closed without a price."""
    if trade.pnl is not None or trade.exit_price is None:
        return trade.pnl
    side = 1 if trade.side == "long" else -1
    return (trade.exit_price - trade.entry_price) * side * (trade.qty or ZERO) * trade.rate
