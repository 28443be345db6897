"""What an open position is worth by a price: the running average against the mark, in the account's currency.

>>> from decimal import Decimal
>>> str(unrealized_pnl(side="long", avg_cost=Decimal(3410), qty=Decimal("0.5"), mark=Decimal(3438), rate=Decimal(1)))
'14.0'
"""

from __future__ import annotations

from decimal import Decimal, localcontext

from memtape.core.ledger.trades import Trade
from memtape.core.observed import Side
from memtape.core.values import MONEY, ONE


def unrealized_pnl(*, side: Side, avg_cost: Decimal, qty: Decimal, mark: Decimal, rate: Decimal) -> Decimal:
    """The gain not yet taken, before the fees of leaving."""
    with localcontext(MONEY):
        return (1 if side == "long" else -1) * (mark - avg_cost) * qty * rate


def open_value(trade: Trade, mark: Decimal | None) -> Decimal | None:
    """What an open trade has gained by a price; None where its cost or quantity is not known."""
    if mark is None or trade.avg_cost is None or trade.qty_open is None:
        return None
    rate = ONE
    with localcontext(MONEY):
        if trade.entry_size_usd is not None and trade.entry_price and trade.qty_entered:
            rate = trade.entry_size_usd / (trade.entry_price * trade.qty_entered)
    return unrealized_pnl(side=trade.side, avg_cost=trade.avg_cost, qty=trade.qty_open, mark=mark, rate=rate)
