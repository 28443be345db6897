"""The account's book: cash, positions, marks and waiting orders, exact to the last digit, and what is tied up as margin.

>>> book = Book(Decimal(1000))
>>> _ = book.take("AAPL", Decimal(5), Decimal(100), Decimal(1), datetime(2024, 1, 8))
>>> book.marks["AAPL"] = Decimal(110)
>>> book.cash, book.equity()
(Decimal('499'), Decimal('1049'))
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from decimal import Decimal, localcontext

from memtape.core.values import MONEY, ZERO
from memtape.sim.margin import buying_power
from memtape.sim.orders import Order, Position, Working, after
from memtape.sim.venue import PLAIN, Venue

NOTHING = Position()


class Book:
    """Cash, what is held and what it was last worth, what waits, and what was refused."""

    def __init__(self, cash: Decimal, venue: Venue = PLAIN) -> None:
        self.cash = cash
        self.venue = venue
        self.marks: dict[str, Decimal] = {}
        self.positions: dict[str, Position] = {}
        self.working: dict[str, list[Working]] = {}
        self.refused: dict[str, str] = {}  # order id -> why
        self.codes: dict[str, str] = {}  # order id -> the code of its refusal

    def held(self, symbol: str) -> Position:
        """What is held in a symbol."""
        return self.positions.get(symbol, NOTHING)

    def equity(self, prices: Mapping[str, Decimal] | None = None) -> Decimal:
        """Cash and what the positions are worth, at these prices and else at the last marks."""
        at = self.marks if prices is None else {**self.marks, **prices}
        with localcontext(MONEY):
            return self.cash + sum((p.qty * at[symbol] for symbol, p in self.positions.items()), ZERO)

    def take(self, symbol: str, signed: Decimal, px: Decimal, fee: Decimal, t: datetime) -> tuple[Position, Position]:
        """Books a fill; what was held before it and after it."""
        before = self.held(symbol)
        now = after(before, signed, px, t)
        self.cash -= signed * px + fee
        if now.qty:
            self.positions[symbol] = now
        else:
            self.positions.pop(symbol, None)
        return before, now

    def waits(self, symbol: str) -> tuple[Decimal, Decimal]:
        """What entries of a symbol would still buy and sell."""
        entries = [w for w in self.working.get(symbol, ()) if not w.order.reduce_only]
        buys, sells = (sum((w.left for w in entries if w.order.side == side), ZERO) for side in ("buy", "sell"))
        return buys, sells

    def withdraw(self, w: Working) -> None:
        """An order waits no longer."""
        waiting = self.working.get(w.order.symbol, [])
        if w in waiting:
            waiting.remove(w)

    def refuse(self, w: Working, code: str, why: str) -> None:
        """An order is not carried out, or not the rest of it."""
        self.withdraw(w)
        self.codes[w.id], self.refused[w.id] = code, why

    def affords(self, symbol: str, signed: Decimal, px: Decimal, fee: Decimal, prices: Mapping[str, Decimal]) -> bool:
        """Whether the initial margin is covered after a fill; what only makes a position smaller always may."""
        before = self.held(symbol).qty
        now = before + signed
        if not self.venue.on_margin or (abs(now) <= abs(before) and now * before >= 0):
            return True
        at = {**self.marks, **prices, symbol: px}
        held = {name: p.qty for name, p in self.positions.items()} | {symbol: now}
        needed = sum((self._initial(name) * abs(qty) * at[name] for name, qty in held.items()), ZERO)
        return self.cash - signed * px - fee + sum((qty * at[name] for name, qty in held.items()), ZERO) >= needed

    def power(self, order: Order) -> Decimal | None:
        """What may still be opened on an order's side of its symbol, by worth, with the margin of waiting entries kept.

        None: there is no limit, or no price yet to tell it by.
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
        """What a symbol would be worth, long and short, if all its waiting entries of that side filled."""
        mark = self.marks.get(symbol, ZERO)
        sides = {"buy": self.held(symbol).qty * mark, "sell": -self.held(symbol).qty * mark}
        for w in self.working.get(symbol, ()):
            if not w.order.reduce_only:
                sides[w.order.side] += w.left * (mark if w.order.px is None else w.order.px)
        return sides["buy"], sides["sell"]

    def _initial(self, symbol: str) -> Decimal:
        margin = self.venue.margin_of(symbol)
        return ZERO if margin is None else margin.initial
