"""What an open trade has gained by a price, and what it is worth, by its own terms, in the account's currency."""

from __future__ import annotations

from decimal import Decimal, localcontext

from memtape.core.ledger.terms import ContractTerms
from memtape.core.ledger.trades import Trade
from memtape.core.values import MONEY, ONE


def open_value(trade: Trade, mark: Decimal | None) -> Decimal | None:
    """The gain not yet taken, before the fees of leaving; None where cost, quantity or price is of no use.

    It is converted at the last rate known. What was paid in full is compared with what it cost in the account's currency.
    """
    if mark is None or trade.avg_cost is None or trade.qty_open is None:
        return None
    terms = _terms_of(trade)
    if not (terms.admits(mark) and terms.admits(trade.avg_cost)):
        return None
    side, rate = 1 if trade.side == "long" else -1, ONE if trade.rate is None else trade.rate
    with localcontext(MONEY):
        now = terms.weight(mark, trade.qty_open)
        if terms.is_cash and trade.cost_usd is not None:
            return side * (now * rate - trade.cost_usd) * terms.multiplier
        return terms.gain(side, terms.weight(trade.avg_cost, trade.qty_open), now) * rate


def open_notional(trade: Trade, mark: Decimal | None) -> Decimal | None:
    """The worth of what is open, at the last price known or else at its cost; None where quantity or price is of no use.

    A claimed trade states no open quantity: what was entered is open.
    """
    price = mark if mark is not None else trade.avg_cost if trade.avg_cost is not None else trade.entry_price
    qty = trade.qty_open if trade.qty_open is not None else trade.qty_entered
    terms = _terms_of(trade)
    if price is None or qty is None or not terms.admits(price):
        return None
    with localcontext(MONEY):
        return abs(terms.weight(price, qty) * terms.multiplier) * (ONE if trade.rate is None else trade.rate)


def _terms_of(trade: Trade) -> ContractTerms:
    return ContractTerms(
        "cash" if trade.accounting == "cash" else "margin", trade.multiplier, "inverse" if trade.payoff == "inverse" else "linear"
    )
