"""Orders and positions of the paper broker: valid terms, trigger prices, and positions after a fill.

>>> order = Order(symbol="AAPL", side="buy", qty=Decimal(2), kind="limit", px=Decimal(98), stop=Decimal(95))
>>> is_reached(order, low=Decimal(97), high=Decimal(101)), is_reached(order, low=Decimal(99), high=Decimal(101))
(True, False)
>>> order_refusal(order, Decimal(94))
('B2_BEYOND_EXIT', 'the price 94 is already beyond the stop 95 or the target None')
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime
from decimal import Decimal
from typing import Literal

from memtape.core.values import ZERO, Quantity, read
from memtape.errors import Invalid

LOT = Decimal("1e-8")  # the smallest quantity, and the step of all that memtape computes
# Codes of orders that the broker refuses. The guard has its own codes; both use the code for buying power.
BAND, BEYOND_EXIT, LIQUIDATED, DUST = "B1_BAND", "B2_BEYOND_EXIT", "B3_LIQUIDATED", "B4_DUST"
BUYING_POWER = "R9_BUYING_POWER"


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """An order. A stop order that is not `reduce_only` is a stop entry.

    `stop` and `target` belong to an entry: they become active with its fill, and one cancels the other.
    """

    symbol: str
    side: Literal["buy", "sell"]
    qty: Decimal
    kind: Literal["market", "limit", "stop"] = "market"
    px: Decimal | None = None  # of a limit or stop order
    limit: Decimal | None = None  # of a stop order: once triggered it is a limit order at this price
    stop: Decimal | None = None
    target: Decimal | None = None
    reduce_only: bool = False  # reduces a position, never opens or reverses one
    band: tuple[Decimal, Decimal] | None = None  # an entry at a price outside is refused
    bars: int | None = None  # valid for so many bars; None: until filled


@dataclass(frozen=True, slots=True, kw_only=True)
class Position:
    """The position in one symbol. `working` counts its unfilled entry orders."""

    qty: Decimal = ZERO  # signed: short is negative
    entry_px: Decimal | None = None  # average cost
    since: datetime | None = None
    working: int = 0


@dataclass(slots=True, eq=False)
class WorkingOrder:
    """A waiting order. `left` is its unfilled quantity."""

    id: str
    order: Order
    placed_at: datetime | None
    trigger: str
    left: Decimal
    group: str | None = None  # the id of its entry: only one order of a group fills
    bars_left: int | None = None


def is_reached(order: Order, low: Decimal, high: Decimal) -> bool:
    """Returns True if a price between low and high triggers the order. At the open, both are the open."""
    if order.px is None:
        return True
    waits_above = (order.side == "buy") == (order.kind == "stop")
    return high >= order.px if waits_above else low <= order.px


def position_after(held: Position, signed: Decimal, px: Decimal, t: datetime) -> Position:
    """Returns the position after a fill, at average cost."""
    qty = held.qty + signed
    if held.entry_px is None or held.qty * qty < 0:
        return Position(qty=qty, entry_px=px, since=t)
    if held.qty * signed < 0:
        return replace(held, qty=qty)
    return replace(held, qty=qty, entry_px=(held.entry_px * held.qty + px * signed) / qty)


def order_refusal(order: Order, px: Decimal) -> tuple[str, str] | None:
    """Returns code and reason of a refusal at a price, or None."""
    if order.band is not None and not order.band[0] <= px <= order.band[1]:
        return BAND, f"the price {px} lies outside the band {order.band[0]} to {order.band[1]}"
    low, high = (order.stop, order.target) if order.side == "buy" else (order.target, order.stop)
    if (low is not None and px <= low) or (high is not None and px >= high):
        return BEYOND_EXIT, f"the price {px} is already beyond the stop {order.stop} or the target {order.target}"
    return None


def check_order_terms(order: Order) -> None:
    """Raises Invalid for an order whose terms contradict each other."""
    prices = (("px", order.px), ("limit", order.limit), ("stop", order.stop), ("target", order.target))
    for name, value in (("qty", order.qty), *prices):
        if value is not None:
            read(Quantity, value, at=f"order.{name}")
    if (order.kind == "market") != (order.px is None):
        fix = "Limit and stop orders have a price, market orders none"
        raise Invalid("order.px", f"a {order.kind} order with px {order.px}", fix)
    if order.limit is not None and (order.kind != "stop" or not within_limit(order, order.px or ZERO)):
        fix = "Only a stop order has a limit: for buying at or above its px, for selling at or below"
        raise Invalid("order.limit", f"{order.limit} does not suit a {order.kind} order at {order.px}", fix)
    if order.reduce_only and (order.stop is not None or order.target is not None):
        raise Invalid("order.stop", "an order that only reduces opens nothing to protect", "Leave stop and target out")
    if order.px is not None and (why := order_refusal(replace(order, band=None), order.px)):
        fix = "A long has its stop below and its target above the entry, a short the other way round"
        raise Invalid("order.stop", why[1], fix)
    if order.stop is not None and order.target is not None and (order.stop < order.target) != (order.side == "buy"):
        raise Invalid("order.stop", "stop and target are on the wrong sides", "A long has its stop below its target")


def within_limit(order: Order, px: Decimal) -> bool:
    """Returns True if a price is not worse than the limit of a stop order, or if it has no limit."""
    if order.limit is None:
        return True
    return px <= order.limit if order.side == "buy" else px >= order.limit
