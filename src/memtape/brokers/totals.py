"""The sums of a file, to be held against the broker's own statement before anything is committed.

Closed trades bring their figures with them. Fills are matched by average cost within the file alone: what was held
before its first row is not in it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal, localcontext

from memtape.brokers.importer import FoundRows
from memtape.core.observed import ClosedTrade, Fill
from memtape.core.values import MONEY, ZERO


@dataclass(slots=True)
class Sums:
    """Sums in the account currency."""

    n: int = 0
    gross: Decimal = ZERO
    fees: Decimal = ZERO
    funding: Decimal = ZERO
    first: datetime | None = None
    last: datetime | None = None

    @property
    def net(self) -> Decimal:
        """What was earned after all costs."""
        return self.gross - self.fees + self.funding

    def add(self, gross: Decimal, fees: Decimal, funding: Decimal, first: datetime, last: datetime) -> None:
        """One more trade or fill."""
        self.n += 1
        self.gross += gross
        self.fees += fees
        self.funding += funding
        self.first = first if self.first is None else min(self.first, first)
        self.last = last if self.last is None else max(self.last, last)


@dataclass(slots=True)
class Totals(Sums):
    """Sums of a file, whole and by symbol; for fills also what is left open at its end."""

    by_symbol: dict[str, Sums] = field(default_factory=dict)
    open: dict[str, Decimal] = field(default_factory=dict)


def totals(found: Sequence[FoundRows]) -> Totals:
    """The sums of what was read."""
    whole = Totals()
    with localcontext(MONEY):
        for value, gross in _realised(found):
            fees, funding = (value.fee, ZERO) if isinstance(value, Fill) else (value.fees, value.funding)
            first, last = (value.t, value.t) if isinstance(value, Fill) else (value.entry_at, value.exit_at)
            whole.add(gross, fees, funding, first, last)
            whole.by_symbol.setdefault(value.symbol, Sums()).add(gross, fees, funding, first, last)
        for each in found:
            if isinstance(each.value, Fill):
                position = f"{each.value.symbol} ({each.value.leg})" if each.value.leg else each.value.symbol
                traded = each.value.qty if each.value.side == "buy" else -each.value.qty
                whole.open[position] = whole.open.get(position, ZERO) + traded
    whole.open = {position: qty for position, qty in sorted(whole.open.items()) if qty}
    whole.by_symbol = dict(sorted(whole.by_symbol.items()))
    return whole


def _realised(found: Sequence[FoundRows]) -> Iterable[tuple[Fill | ClosedTrade, Decimal]]:
    """Each value with the gross profit it realised."""
    held: dict[tuple[str, str], tuple[Decimal, Decimal]] = {}  # signed quantity, average cost
    fills = [each.value for each in found if isinstance(each.value, Fill)]
    for each in found:
        if isinstance(each.value, ClosedTrade):
            yield each.value, _stated(each.value)
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


def _stated(trade: ClosedTrade) -> Decimal:
    if trade.pnl is not None:
        return trade.pnl
    side = 1 if trade.side == "long" else -1
    return (trade.exit_price - trade.entry_price) * side * (trade.qty or ZERO) * trade.rate
