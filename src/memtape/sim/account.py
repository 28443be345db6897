"""The whole account at a tick, as the guard, an agent and an account strategy see it: read-only values.

>>> account = AccountView(t=datetime(2024, 1, 8), equity=Decimal(970), day_equity=Decimal(1000), marks={"BTC": Decimal(100)})
>>> account.day_loss, account.price(Order(symbol="BTC", side="buy", qty=Decimal(1)))
(Decimal('30'), Decimal('100'))
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from decimal import Decimal

from memtape.core.observed import GuardVerdict
from memtape.core.values import ZERO
from memtape.sim.orders import Order, Position

FLAT_POSITION = Position()


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountView:
    """Positions, waiting entries, their value, and the verdict on the last proposal."""

    t: datetime
    equity: Decimal
    day_equity: Decimal  # at the start of the UTC day
    orders_today: int = 0  # entries accepted since then
    positions: Mapping[str, Position] = field(default_factory=dict)
    waiting: Mapping[str, tuple[Decimal, Decimal]] = field(
        default_factory=dict
    )  # quantities to buy and to sell by waiting entries
    marks: Mapping[str, Decimal] = field(default_factory=dict)
    power: Mapping[str, tuple[Decimal, Decimal]] = field(
        default_factory=dict
    )  # value that may be bought and sold; absent: unlimited
    verdict: GuardVerdict | None = None
    stops: Mapping[str, tuple[tuple[Decimal, Decimal], ...]] = field(
        default_factory=dict
    )  # stops of a position: quantities and prices
    entries: Mapping[str, tuple[Order, ...]] = field(default_factory=dict)  # waiting entries, each with its unfilled quantity

    @property
    def day_loss(self) -> Decimal:
        """The loss of the UTC day so far; 0 after a gain."""
        return max(ZERO, self.day_equity - self.equity)

    def position(self, symbol: str) -> Position:
        """Returns the position in a symbol."""
        return self.positions.get(symbol, FLAT_POSITION)

    def price(self, order: Order) -> Decimal | None:
        """Returns the price at which an order is judged: its own, or the last."""
        return self.marks.get(order.symbol) if order.px is None else order.px

    def opens(self, order: Order) -> Decimal:
        """Returns the part of an order that adds to a position or opens one, without the part that reduces."""
        if order.reduce_only:
            return ZERO
        held = self.position(order.symbol).qty * (1 if order.side == "buy" else -1)
        return max(ZERO, order.qty - max(ZERO, -held))

    def exposure(self, symbol: str) -> Decimal:
        """Returns the value of a symbol if all waiting entries of its larger side filled."""
        held, (buys, sells) = self.position(symbol).qty, self.waiting.get(symbol, (ZERO, ZERO))
        return max(abs(held + buys), abs(held - sells)) * self.marks.get(symbol, ZERO)

    def risk(self, order: Order) -> Decimal | None:
        """Returns the loss of the whole position after an order if all its stops are hit; None if a part has no stop.

        The whole position is what is held on the order's side, every entry that waits to add to it, and the order. The risk of
        what is held is measured from its entry price, that of an entry from the price at which it is judged.

        >>> held = {"BTC": Position(qty=Decimal(2), entry_px=Decimal(100))}
        >>> stops = {"BTC": ((Decimal(2), Decimal(95)),)}
        >>> t, cash, marks = datetime(2024, 1, 8), Decimal(1000), {"BTC": Decimal(104)}
        >>> account = AccountView(t=t, equity=cash, day_equity=cash, marks=marks, positions=held, stops=stops)
        >>> account.risk(Order(symbol="BTC", side="buy", qty=Decimal(1), stop=Decimal(100)))
        Decimal('14')
        """
        same_side = [entry for entry in self.entries.get(order.symbol, ()) if entry.side == order.side]
        held = self.position(order.symbol).qty * (1 if order.side == "buy" else -1)
        # What is held on the other side is closed first, and opens nothing.
        closes, total = max(ZERO, -held), self._held_risk(order.symbol) if held > 0 else ZERO
        for entry in (*same_side, order):
            px, opens = self.price(entry), max(ZERO, entry.qty - closes)
            closes = max(ZERO, closes - entry.qty)
            if not opens:
                continue
            if total is None or entry.stop is None or px is None:
                return None
            total += abs(px - entry.stop) * opens
        return total

    def _held_risk(self, symbol: str) -> Decimal | None:
        position, loss = self.position(symbol), ZERO
        left, sign = abs(position.qty), 1 if position.qty > 0 else -1
        # Stops may cover more than a position that was reduced; then the furthest ones count.
        for qty, px in sorted(self.stops.get(symbol, ()), key=lambda stop: sign * stop[1]):
            loss += sign * ((position.entry_px or ZERO) - px) * min(qty, left)
            left -= min(qty, left)
        return None if left else max(ZERO, loss)

    def after(self, order: Order) -> AccountView:
        """Returns the account with this order waiting."""
        if order.reduce_only:
            return self
        entries = {**self.entries, order.symbol: (*self.entries.get(order.symbol, ()), order)}
        buys, sells = self.waiting.get(order.symbol, (ZERO, ZERO))
        now = (buys + order.qty, sells) if order.side == "buy" else (buys, sells + order.qty)
        waiting = {**self.waiting, order.symbol: now}
        return replace(self, waiting=waiting, entries=entries, orders_today=self.orders_today + 1)
