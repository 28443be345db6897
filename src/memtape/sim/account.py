"""The whole account at a tick, as the guard, an agent and a strategy that asks for it see it: values, nothing to act on.

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

FLAT = Position()


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountView:
    """What is held and waits, what it is worth, and what was said to the last proposal."""

    t: datetime
    equity: Decimal
    day_equity: Decimal  # when the UTC day began
    orders_today: int = 0  # entries accepted since then
    positions: Mapping[str, Position] = field(default_factory=dict)
    waiting: Mapping[str, tuple[Decimal, Decimal]] = field(default_factory=dict)  # entries: quantities to buy, to sell
    marks: Mapping[str, Decimal] = field(default_factory=dict)
    power: Mapping[str, tuple[Decimal, Decimal]] = field(default_factory=dict)  # worth that may be bought, sold; absent: any
    verdict: GuardVerdict | None = None

    @property
    def day_loss(self) -> Decimal:
        """What the UTC day has cost so far; a gain is 0."""
        return max(ZERO, self.day_equity - self.equity)

    def position(self, symbol: str) -> Position:
        """What is held in a symbol."""
        return self.positions.get(symbol, FLAT)

    def price(self, order: Order) -> Decimal | None:
        """At what price an order is judged: its own, or the last."""
        return self.marks.get(order.symbol) if order.px is None else order.px

    def opens(self, order: Order) -> Decimal:
        """How much of an order adds to a position or makes a new one; what it takes off first does not count."""
        if order.reduce_only:
            return ZERO
        held = self.position(order.symbol).qty * (1 if order.side == "buy" else -1)
        return max(ZERO, order.qty - max(ZERO, -held))

    def exposure(self, symbol: str) -> Decimal:
        """What a symbol would be worth if all its waiting entries of its worse side filled."""
        held, (buys, sells) = self.position(symbol).qty, self.waiting.get(symbol, (ZERO, ZERO))
        return max(abs(held + buys), abs(held - sells)) * self.marks.get(symbol, ZERO)

    def after(self, order: Order) -> AccountView:
        """The account while the order waits."""
        if order.reduce_only:
            return self
        buys, sells = self.waiting.get(order.symbol, (ZERO, ZERO))
        now = (buys + order.qty, sells) if order.side == "buy" else (buys, sells + order.qty)
        return replace(self, waiting={**self.waiting, order.symbol: now}, orders_today=self.orders_today + 1)
