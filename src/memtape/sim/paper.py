"""A paper broker: orders and bars in, fills and a snapshot out. No clock and no chance, so a replay is exact.

A bar says four prices and not their order, so every doubt is settled against the trader:

- An order placed at one bar's close can fill from the next bar on, first at that bar's open.
- Whatever the open already triggers fills at the open: market orders, stops that the price gapped through, limits and
  targets that it gapped beyond (to the trader's good). Inside the bar a stop is reached before a target.
- An entry that fills inside a bar can be stopped out in that bar; its target counts from the next bar on.
- Market and stop orders pay slippage, limits do not. Every fill pays the fee. Both are in basis points.
- An entry that the open carried beyond its own stop or target, or out of the band it allows, is refused, as brokers do.

A fill at the open is stamped a moment after it, for the snapshot at the last close must not contain it; one inside the
bar is stamped at its middle, the stop that follows an entry of the same bar at three quarters.

>>> from datetime import UTC
>>> broker = PaperBroker(cash=Decimal(1000))
>>> broker.place(Order(symbol="AAPL", side="buy", qty=Decimal(2), stop=Decimal(95), target=Decimal(110)))
'p-order-000001'
>>> monday = datetime(2024, 1, 8, tzinfo=UTC)
>>> prices = {"o": Decimal(100), "h": Decimal(111), "l": Decimal(99), "c": Decimal(108)}
>>> bar = Bar(symbol="AAPL", t0=monday, t1=monday + timedelta(days=1), **prices)
>>> [(fill.trigger, fill.side, str(fill.px)) for fill in broker.advance([bar])]
[('market', 'buy', '100'), ('target', 'sell', '110')]
>>> broker.equity == 1020
True
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from decimal import Decimal, localcontext
from typing import Literal

from memtape.core.codec import spell_time
from memtape.core.observed import Bar, Fill, Held
from memtape.core.values import MONEY, ONE, ZERO, Quantity, read
from memtape.errors import Invalid

LATENCY = timedelta(seconds=1)
PRICE_STEP = Decimal("1e-10")
MONEY_STEP = Decimal("1e-8")
# Inside a bar: first what protects, then what takes profit, then what enters.
PESSIMISM = {(True, "stop"): 0, (True, "limit"): 1, (False, "stop"): 2, (False, "limit"): 3}
BASIS_POINTS = Decimal(10_000)


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """What the broker is asked to do. A stop order that is not `reduce_only` is a stop entry.

    `stop` and `target` are attached to an entry: they come to life with its fill, and one cancels the other.
    """

    symbol: str
    side: Literal["buy", "sell"]
    qty: Decimal
    kind: Literal["market", "limit", "stop"] = "market"
    px: Decimal | None = None  # of a limit or stop order
    stop: Decimal | None = None
    target: Decimal | None = None
    reduce_only: bool = False  # closes what is held, never opens or turns
    band: tuple[Decimal, Decimal] | None = None  # an entry whose price would lie outside is refused
    bars: int | None = None  # how many bars it stays valid; None: until filled


@dataclass(frozen=True, slots=True, kw_only=True)
class Position:
    """What is held in one symbol; `working` counts its entry orders not yet filled."""

    qty: Decimal = ZERO  # signed: short is negative
    entry_px: Decimal | None = None  # average cost of what is held
    since: datetime | None = None
    working: int = 0


@dataclass(slots=True, eq=False)
class _Working:
    """An order that waits."""

    id: str
    order: Order
    placed_at: datetime | None
    trigger: str
    group: str | None = None  # the entry it protects: of one group only one order fills
    bars_left: int | None = None


class PaperBroker:
    """One net account on recorded bars: cash, positions, working orders."""

    def __init__(
        self, cash: Decimal, *, fee_bps: Decimal = ZERO, slippage_bps: Decimal = ZERO, prefix: str = "p"
    ) -> None:
        for name, value in (("fee_bps", fee_bps), ("slippage_bps", slippage_bps)):
            if not ZERO <= value < BASIS_POINTS:
                raise Invalid(name, f"{value} lies outside 0..10000", "Give basis points: 5 means 0.05 %")
        if not cash > 0:
            raise Invalid("starting_equity", f"{cash} is not above 0", "Give the money the account starts with")
        self.cash = cash
        self.marks: dict[str, Decimal] = {}
        self.refused: dict[str, str] = {}  # order id -> why
        self.at: datetime | None = None  # up to when the market has been seen
        self._fee = fee_bps / BASIS_POINTS
        self._slippage = slippage_bps / BASIS_POINTS
        self._prefix = prefix
        self._orders = 0
        self._fills = 0
        self._working: dict[str, list[_Working]] = {}
        self._positions: dict[str, Position] = {}

    @property
    def equity(self) -> Decimal:
        """Cash and what the positions are worth at the last close."""
        with localcontext(MONEY):
            return self.cash + sum((p.qty * self.marks[symbol] for symbol, p in self._positions.items()), ZERO)

    def position(self, symbol: str) -> Position:
        """What is held, and how many entries wait."""
        working = sum(not w.order.reduce_only for w in self._working.get(symbol, ()))
        return replace(self._positions.get(symbol, Position()), working=working)

    def snapshot(self) -> dict[str, tuple[Held, ...]]:
        """The open positions as a broker reports them; flat is {}."""
        return {
            symbol: (Held(qty=p.qty, entry_px=_stepped(p.entry_px, PRICE_STEP), mark=self.marks[symbol]),)
            for symbol, p in sorted(self._positions.items())
            if p.entry_px is not None
        }

    def place(self, order: Order) -> str:
        """Takes an order, valid from the next bar on; gives its id, which its fill will carry."""
        _check(order)
        self._orders += 1
        trigger = "stop_entry" if order.kind == "stop" and not order.reduce_only else order.kind
        working = _Working(f"{self._prefix}-order-{self._orders:06d}", order, self.at, trigger, bars_left=order.bars)
        self._working.setdefault(order.symbol, []).append(working)
        return working.id

    def cancel(self, order_id: str) -> bool:
        """Withdraws a working order; False when there is none of that id any more."""
        for working in self._working.values():
            for w in working:
                if w.id == order_id:
                    working.remove(w)
                    return True
        return False

    def advance(self, bars: Iterable[Bar]) -> tuple[Fill, ...]:
        """Lets completed bars happen, at most one a symbol, and gives the fills in the order of their time."""
        fills: list[Fill] = []
        seen = sorted(bars, key=lambda bar: bar.symbol)
        with localcontext(MONEY):
            for bar in seen:
                if self.at is not None and bar.t1 <= self.at:
                    problem = f"{bar.symbol} closes at {spell_time(bar.t1)}, not after {spell_time(self.at)}"
                    raise Invalid("bars", problem, "Give bars in time order")
                fills += self._happen(bar)
        self.at = max((bar.t1 for bar in seen), default=self.at)
        return tuple(sorted(fills, key=lambda fill: (fill.t, fill.seq)))

    def _happen(self, bar: Bar) -> list[Fill]:
        begins = bar.t0 if self.at is None else max(bar.t0, self.at)
        span = bar.t1 - begins
        opening, middle, late = begins + min(LATENCY, span / 4), begins + span / 2, begins + span * 3 / 4
        working = self._working.setdefault(bar.symbol, [])
        old = [w for w in working if w.placed_at is None or w.placed_at <= bar.t0]
        fills: list[Fill | None] = []
        for w in old:
            if w in working and _reached(w.order, bar.o, bar.o):
                fills.append(self._fill(w, bar.o, opening))
        # What still waits, now with the stops and targets of what the open filled.
        ready = [w for w in working if (w.group is not None or w in old) and w.order.kind != "market"]
        for w in sorted(ready, key=lambda w: PESSIMISM[w.order.reduce_only, w.order.kind]):
            if w not in working or w.order.px is None or not _reached(w.order, bar.l, bar.h):
                continue
            fills.append(self._fill(w, w.order.px, middle))
            for child in [c for c in working if c.group == w.id and c.order.kind == "stop"]:
                if child.order.px is not None and _reached(child.order, bar.l, bar.h):
                    fills.append(self._fill(child, child.order.px, late))
        for w in old:
            if w.bars_left is not None and w in working:
                w.bars_left -= 1
                if w.bars_left <= 0:
                    working.remove(w)
        self.marks[bar.symbol] = bar.c
        return [fill for fill in fills if fill is not None]

    def _fill(self, w: _Working, px: Decimal, t: datetime) -> Fill | None:
        """Carries an order out at a price, or drops it where it has become impossible."""
        order, working = w.order, self._working[w.order.symbol]
        held = self._positions.get(order.symbol, Position())
        sign = ONE if order.side == "buy" else -ONE
        working.remove(w)
        qty = order.qty
        if order.reduce_only:
            if held.qty * sign >= 0:
                return None
            qty = min(qty, abs(held.qty))
        elif why := _refusal(order, px):
            self.refused[w.id] = why
            return None
        if order.kind != "limit" and self._slippage:
            px = (px * (ONE + sign * self._slippage)).quantize(PRICE_STEP)
        fee = (px * qty * self._fee).quantize(MONEY_STEP)
        self.cash -= sign * px * qty + fee
        after = _after(held, sign * qty, px, t)
        turned = held.qty != 0 and after.qty * held.qty <= 0
        working[:] = [o for o in working if not (turned and o.order.reduce_only) and o.group != (w.group or w.id)]
        if after.qty:
            self._positions[order.symbol] = after
            if after.qty * sign > 0:  # an order that only took part of a position off has nothing to protect
                self._attach(w, min(qty, abs(after.qty)))
        else:
            del self._positions[order.symbol]
        self._fills += 1
        return Fill(
            id=f"{self._prefix}-{self._fills:06d}", t=t, symbol=order.symbol, side=order.side, qty=qty, px=px, fee=fee,
            seq=self._fills, order_id=w.id, trigger=w.trigger,
        )  # fmt: skip

    def _attach(self, w: _Working, qty: Decimal) -> None:
        side: Literal["buy", "sell"] = "sell" if w.order.side == "buy" else "buy"
        exits = Order(symbol=w.order.symbol, side=side, qty=qty, reduce_only=True)
        working = self._working[exits.symbol]
        if (stop := w.order.stop) is not None:
            order = replace(exits, kind="stop", px=stop)
            working.append(_Working(f"{w.id}-stop", order, None, "stop", group=w.id))
        if (target := w.order.target) is not None:
            order = replace(exits, kind="limit", px=target)
            working.append(_Working(f"{w.id}-target", order, None, "target", group=w.id))


def _reached(order: Order, low: Decimal, high: Decimal) -> bool:
    """Whether prices between low and high set the order off; at the open both are the open."""
    if order.px is None:
        return True
    waits_above = (order.side == "buy") == (order.kind == "stop")
    return high >= order.px if waits_above else low <= order.px


def _after(held: Position, signed: Decimal, px: Decimal, t: datetime) -> Position:
    """The position after a fill, at average cost."""
    qty = held.qty + signed
    if held.entry_px is None or held.qty * qty < 0:
        return Position(qty=qty, entry_px=px, since=t)
    if held.qty * signed < 0:
        return replace(held, qty=qty)
    return replace(held, qty=qty, entry_px=(held.entry_px * held.qty + px * signed) / qty)


def _refusal(order: Order, px: Decimal) -> str | None:
    if order.band is not None and not order.band[0] <= px <= order.band[1]:
        return f"the price {px} lies outside the band {order.band[0]} to {order.band[1]}"
    low, high = (order.stop, order.target) if order.side == "buy" else (order.target, order.stop)
    if (low is not None and px <= low) or (high is not None and px >= high):
        return f"the price {px} is already beyond the stop {order.stop} or the target {order.target}"
    return None


def _check(order: Order) -> None:
    for name, value in (("qty", order.qty), ("px", order.px), ("stop", order.stop), ("target", order.target)):
        if value is not None:
            read(Quantity, value, at=f"order.{name}")
    if (order.kind == "market") != (order.px is None):
        fix = "Limit and stop orders have a price, market orders none"
        raise Invalid("order.px", f"a {order.kind} order with px {order.px}", fix)
    if order.reduce_only and (order.stop is not None or order.target is not None):
        raise Invalid("order.stop", "an order that only reduces opens nothing to protect", "Leave stop and target out")
    if order.px is not None and (why := _refusal(replace(order, band=None), order.px)):
        fix = "A long has its stop below and its target above the entry, a short the other way round"
        raise Invalid("order.stop", why, fix)
    if order.stop is not None and order.target is not None and (order.stop < order.target) != (order.side == "buy"):
        raise Invalid("order.stop", "stop and target are on the wrong sides", "A long has its stop below its target")


def _stepped(px: Decimal | None, step: Decimal) -> Decimal | None:
    """Rounded to what a snapshot can hold, and left alone where it already fits."""
    if px is None:
        return None
    with localcontext(MONEY):
        exponent = px.as_tuple().exponent
        return px if isinstance(exponent, int) and exponent >= -18 else px.quantize(step)
