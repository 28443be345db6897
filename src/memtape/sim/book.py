"""The account's book: cash, positions, marks and waiting orders, exact to the last digit, and the margin in use.

>>> book = Book(Decimal(1000))
>>> _ = book.take("AAPL", Decimal(5), Decimal(100), Decimal(1), datetime(2024, 1, 8))
>>> book.marks["AAPL"] = Decimal(110)
>>> book.cash, book.equity()
(Decimal('499'), Decimal('1049'))
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from decimal import Decimal, localcontext

from memtape.core.values import MONEY, ZERO
from memtape.sim.account import FLAT_POSITION
from memtape.sim.margin import buying_power
from memtape.sim.orders import LOT, Order, Position, WorkingOrder, position_after
from memtape.sim.venue import PLAIN_VENUE, Venue

DUST_SHARE = Decimal("0.000001")  # of the starting equity: what is worth less, or risks less, is dust


class Book:
    """Cash, positions, their last marks, waiting orders and refused orders."""

    def __init__(self, cash: Decimal, venue: Venue = PLAIN_VENUE) -> None:
        self.cash = cash
        self.venue = venue
        self.marks: dict[str, Decimal] = {}
        self.positions: dict[str, Position] = {}
        self.working: dict[str, list[WorkingOrder]] = {}
        self.refused: dict[str, str] = {}  # order id -> reason
        self.codes: dict[str, str] = {}  # order id -> the code of its refusal
        self.slippage = ZERO  # paid so far, in money
        self._least = cash * DUST_SHARE

    def held(self, symbol: str) -> Position:
        """Returns the position in a symbol."""
        return self.positions.get(symbol, FLAT_POSITION)

    def equity(self, prices: Mapping[str, Decimal] | None = None) -> Decimal:
        """Returns cash and the value of positions, at these prices or else at the last marks."""
        at = self.marks if prices is None else {**self.marks, **prices}
        worth = ZERO
        for symbol, position in self.positions.items():
            worth = MONEY.add(worth, MONEY.multiply(position.qty, at[symbol]))
        return MONEY.add(self.cash, worth)

    def take(self, symbol: str, signed: Decimal, px: Decimal, fee: Decimal, t: datetime) -> tuple[Position, Position]:
        """Books a fill. Returns the position before and after it."""
        before = self.held(symbol)
        now = position_after(before, signed, px, t)
        self.cash -= signed * px + fee
        if now.qty:
            self.positions[symbol] = now
        else:
            self.positions.pop(symbol, None)
        return before, now

    def is_dust(self, qty: Decimal, px: Decimal) -> bool:
        """Returns True for a quantity above zero that is too small to be a trade."""
        return qty > ZERO and (qty < LOT or qty <= self.venue.dust_qty or qty * abs(px) < self._least)

    def dust_refusal(self, order: Order, px: Decimal) -> str | None:
        """Returns why an entry is too small to be a trade, or None. Its result in R would count as much as that of any other."""
        if order.qty < LOT or order.qty <= self.venue.dust_qty:
            return f"a quantity of {order.qty:f} is too small; it must be above {max(self.venue.dust_qty, LOT):f}"
        for what, amount in (("the order is worth", abs(px)), ("its stop costs", abs(px - order.stop) if order.stop else None)):
            if amount is not None and order.qty * amount < self._least:
                least = f"the least is {self._least.normalize():f}, a millionth of the starting equity"
                return f"{what} {order.qty * amount:.3g}; {least}"
        return None

    def stops(self, symbol: str) -> tuple[tuple[Decimal, Decimal], ...]:
        """Returns the stops of a position: quantities and prices. A stop that was reached and waits counts at the mark."""
        found = [w for w in self.working.get(symbol, ()) if w.order.reduce_only and w.trigger == "stop"]
        return tuple((w.left, self.marks[symbol] if w.order.px is None else w.order.px) for w in found)

    def entries(self, symbol: str) -> tuple[Order, ...]:
        """Returns the waiting entries of a symbol, each with its unfilled quantity."""
        return tuple(replace(w.order, qty=w.left) for w in self.working.get(symbol, ()) if not w.order.reduce_only)

    def waits(self, symbol: str) -> tuple[Decimal, Decimal]:
        """Returns the quantities that waiting entries of a symbol would buy and sell."""
        entries = [w for w in self.working.get(symbol, ()) if not w.order.reduce_only]
        buys, sells = (sum((w.left for w in entries if w.order.side == side), ZERO) for side in ("buy", "sell"))
        return buys, sells

    def withdraw(self, w: WorkingOrder) -> None:
        """Remove a waiting order."""
        waiting = self.working.get(w.order.symbol, [])
        if w in waiting:
            waiting.remove(w)

    def refuse(self, w: WorkingOrder, code: str, why: str) -> None:
        """Refuse an order, or the rest of it."""
        self.withdraw(w)
        self.codes[w.id], self.refused[w.id] = code, why

    def affords(self, symbol: str, signed: Decimal, px: Decimal, fee: Decimal, prices: Mapping[str, Decimal]) -> bool:
        """Returns True if equity covers the initial margin after a fill. A fill that only reduces a position always may."""
        before = self.held(symbol).qty
        now = before + signed
        if not self.venue.on_margin or (abs(now) <= abs(before) and now * before >= 0):
            return True
        at = {**self.marks, **prices, symbol: px}
        held = {name: p.qty for name, p in self.positions.items()} | {symbol: now}
        needed = sum((self._initial(name) * abs(qty) * at[name] for name, qty in held.items()), ZERO)
        return self.cash - signed * px - fee + sum((qty * at[name] for name, qty in held.items()), ZERO) >= needed

    def power(self, order: Order) -> Decimal | None:
        """Returns the value that may still be opened on an order's side of its symbol, with margin reserved for waiting entries.

        None: there is no limit, or no price yet.
        """
        initial = self._initial(order.symbol)
        if not initial or (order.symbol not in self.marks and order.px is None):
            return None
        with localcontext(MONEY):
            exposed = {name: self._exposed(name) for name in {*self.positions, *self.working}}
            elsewhere = sum((self._initial(n) * max(sides) for n, sides in exposed.items() if n != order.symbol), ZERO)
            long, short = exposed.get(order.symbol, (ZERO, ZERO))
            return buying_power(self.equity(), elsewhere, initial, long if order.side == "buy" else short)

    def _exposed(self, symbol: str) -> tuple[Decimal, Decimal]:
        """Returns the value of a symbol, long and short, if all waiting entries of that side filled."""
        mark = self.marks.get(symbol, ZERO)
        sides = {"buy": self.held(symbol).qty * mark, "sell": -self.held(symbol).qty * mark}
        for w in self.working.get(symbol, ()):
            if not w.order.reduce_only:
                sides[w.order.side] += w.left * (mark if w.order.px is None else w.order.px)
        return sides["buy"], sides["sell"]

    def _initial(self, symbol: str) -> Decimal:
        margin = self.venue.margin_of(symbol)
        return ZERO if margin is None else margin.initial
