"""What the bars of one time do to an account, moment by moment: the open, the way to the worst, the rest, the close.

Each bar is a `Play`. All plays of one time share the account, so they go through each moment together: a gap liquidates
before any order fills at the open, stops and liquidations come in the order of their prices, and targets and entries only
after the worst is over. The rules are those that `paper.py` states.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from decimal import ROUND_CEILING, ROUND_DOWN, ROUND_FLOOR, ROUND_UP, Decimal
from typing import Literal

from memtape.core.observed import Bar, Fill
from memtape.core.values import ONE, ZERO
from memtape.sim.book import Book
from memtape.sim.margin import Stake, breach
from memtape.sim.orders import BUYING_POWER, LIQUIDATED, Order, Working, order_refusal, reached, within_limit
from memtape.sim.venue import BASIS_POINTS

PRICE_STEP = Decimal("1e-10")
MONEY_STEP = LOT = Decimal("1e-8")
# Inside a bar: first what protects, then what takes profit, then what enters.
PESSIMISM = {(True, "stop"): 0, (True, "limit"): 1, (False, "stop"): 2, (False, "limit"): 3}


@dataclass(slots=True, eq=False, kw_only=True)
class Play:
    """One bar while it happens: its moments, what waits for it, and what came of it."""

    bar: Bar
    trades: bool  # whether the symbol is open in it
    opening: datetime
    middle: datetime
    late: datetime
    old: list[Working]  # placed before it opened
    start: Decimal  # where the way to its worst price begins: the open, or the price of an entry inside the bar
    room: Decimal | None  # how much its volume still lets us trade; None: no limit
    held: Decimal  # before it
    ready: list[Working] = field(default_factory=list)
    slice: Decimal | None = None  # what one step of a liquidation takes off
    fills: list[Fill] = field(default_factory=list)  # not yet named


@dataclass(frozen=True, slots=True, kw_only=True)
class Costs:
    """Shares of the price."""

    fee: Decimal
    slippage: Decimal


class Matching:
    """The account on its way through the bars of one time. `name_exit` names a stop or target: (entry, trigger) -> id."""

    def __init__(self, book: Book, costs: Costs, plays: Sequence[Play], name_exit: Callable[[str, str], str]) -> None:
        self._book, self._costs, self._name_exit = book, costs, name_exit
        self._plays = [play for play in plays if play.trades]

    def open(self) -> None:
        """The open: liquidations that the price gapped into, then what it sets off."""
        self._call(ZERO, lambda play: play.opening)
        for play in self._plays:
            working = self._book.working[play.bar.symbol]
            for w in play.old:
                if w in working and reached(w.order, play.bar.o, play.bar.o):
                    self._fill(play, w, play.bar.o, play.opening)
            # What still waits, now with the stops and targets of what the open filled.
            play.ready = [w for w in working if (w.group is not None or w in play.old) and w.order.kind != "market"]

    def inside(self) -> None:
        """The worst first: stops and liquidations; then targets, then entries with what they run into."""
        stops = [(play, w) for play in self._plays for w in play.ready if _protects(w.order)]
        if self._book.venue.on_margin:
            stops.sort(key=lambda stop: self._way_to(*stop))
        for play, w in stops:
            self._stop(play, w, lambda play: play.middle)
        self._call(ONE, lambda play: play.middle)
        for play in self._plays:
            self._trade(play)
        self._call(ONE, lambda play: play.late)

    def _trade(self, play: Play) -> None:
        """Targets and entries inside the bar; an entry may meet its stop, not its target."""
        bar, working = play.bar, self._book.working[play.bar.symbol]
        rest = [w for w in play.ready if w.order.kind != "market" and not _protects(w.order)]
        for w in sorted(rest, key=lambda w: PESSIMISM[w.order.reduce_only, w.order.kind]):
            px = w.order.px
            if w not in working or px is None or not reached(w.order, bar.l, bar.h):
                continue
            filled = self._fill(play, w, px, play.middle)
            if filled and not w.order.reduce_only:
                play.start = px
            for child in [c for c in working if c.group == w.id and _protects(c.order)]:
                self._stop(play, child, lambda play: play.late)

    def _stop(self, play: Play, w: Working, moment: Callable[[Play], datetime]) -> None:
        """One protecting stop, unless the account is liquidated before its price."""
        if w.order.px is None or not reached(w.order, play.bar.l, play.bar.h):
            return
        if self._book.venue.on_margin:
            self._call(self._way_to(play, w), moment)
        if w in self._book.working[play.bar.symbol]:
            self._fill(play, w, w.order.px, moment(play))

    # ---- orders -------------------------------------------------------------------------------------------------------

    def _fill(self, play: Play, w: Working, px: Decimal, t: datetime) -> bool:
        """Carries an order out at a price as far as can be, or drops it where it has become impossible."""
        order, sign = w.order, ONE if w.order.side == "buy" else -ONE
        held = self._book.held(order.symbol).qty
        if order.reduce_only and held * sign >= 0:
            self._book.withdraw(w)
            return False
        if not order.reduce_only and (why := order_refusal(order, px)):
            self._book.refuse(w, *why)
            return False
        if not within_limit(order, px):
            w.order = replace(order, kind="limit", px=order.limit, limit=None)
            return False
        qty = min(w.left, abs(held)) if order.reduce_only else w.left
        qty = qty if play.room is None else min(qty, play.room)
        if qty <= 0:
            self._wait(w)
            return False
        px = self._slipped(order, px, sign)
        fee = (px * qty * self._costs.fee).quantize(MONEY_STEP)
        if not order.reduce_only and not self._book.affords(order.symbol, sign * qty, px, fee, self._prices(ZERO)):
            self._book.refuse(w, BUYING_POWER, f"{qty} at {px} asks for more margin than the account has")
            return False
        self._settle(play, w, qty, px, fee, t)
        return True

    def _wait(self, w: Working) -> None:
        """An order whose price was reached in a bar without room for it."""
        if w.group is not None and w.order.kind == "stop":
            _one_cancels_the_other(self._book.working[w.order.symbol], w, ZERO)
        w.order = _set_off(w.order)

    def _slipped(self, order: Order, px: Decimal, sign: Decimal) -> Decimal:
        if order.kind == "limit" or not self._costs.slippage:
            return px
        slipped = (px * (ONE + sign * self._costs.slippage)).quantize(PRICE_STEP)
        return slipped if order.limit is None or within_limit(order, slipped) else order.limit

    def _settle(self, play: Play, w: Working, qty: Decimal, px: Decimal, fee: Decimal, t: datetime) -> None:
        """Books a fill, and what it means for the other orders of its symbol."""
        order, working = w.order, self._book.working[w.order.symbol]
        signed = qty if order.side == "buy" else -qty
        before, now = self._book.take(order.symbol, signed, px, fee, t)
        w.left -= qty
        play.room = None if play.room is None else play.room - qty
        whole = not w.left
        turned = before.qty != 0 and now.qty * before.qty <= 0
        if w.group is not None:
            _one_cancels_the_other(working, w, qty)
        working[:] = [o for o in working if not (turned and o.order.reduce_only) and not (whole and o is w)]
        if not whole:
            w.order = _set_off(order)
        if now.qty * signed > 0:  # an order that only took part of a position off has nothing to protect
            self._attach(w, min(qty, abs(now.qty)))
        self._write(play, order.side, qty, px, fee, t, order_id=w.id, trigger=w.trigger)

    def _attach(self, w: Working, qty: Decimal) -> None:
        """The stop and target of an entry, or more of them when it is filled in parts."""
        working = self._book.working[w.order.symbol]
        present = {o.trigger: o for o in working if o.group == w.id}
        side: Literal["buy", "sell"] = "sell" if w.order.side == "buy" else "buy"
        exits = Order(symbol=w.order.symbol, side=side, qty=qty, reduce_only=True)
        protecting, taking = replace(exits, kind="stop", px=w.order.stop), replace(exits, kind="limit", px=w.order.target)
        for trigger, order in (("stop", protecting), ("target", taking)):
            if trigger in present:
                present[trigger].left += qty
            elif order.px is not None:
                working.append(Working(self._name_exit(w.id, trigger), order, None, trigger, qty, group=w.id))

    def _write(
        self, play: Play, side: Literal["buy", "sell"], qty: Decimal, px: Decimal, fee: Decimal, t: datetime, *,
        order_id: str, trigger: str, liq: bool = False,
    ) -> None:  # fmt: skip
        fill = Fill(
            id="-", t=t, symbol=play.bar.symbol, side=side, qty=qty, px=px, fee=fee, liq=liq, order_id=order_id, trigger=trigger
        )
        play.fills.append(fill)

    # ---- liquidation --------------------------------------------------------------------------------------------------

    def _stakes(self) -> dict[str, Stake]:
        """Every position on its way through its bar; one without a bar, or closed, stands where it stood."""
        plays = {play.bar.symbol: play for play in self._plays}
        stakes = {}
        for symbol, position in self._book.positions.items():
            margin, play = self._book.venue.margin_of(symbol), plays.get(symbol)
            if play is None:
                start = worst = self._book.marks[symbol]
            else:
                start, worst = play.start, play.bar.l if position.qty > 0 else play.bar.h
            keep = ZERO if margin is None else margin.maintenance
            stakes[symbol] = Stake(qty=position.qty, start=start, worst=worst, maintenance=keep)
        return stakes

    def _prices(self, way: Decimal) -> dict[str, Decimal]:
        return {symbol: stake.at(way) for symbol, stake in self._stakes().items()}

    def _way_to(self, play: Play, w: Working) -> Decimal:
        stake = self._stakes().get(play.bar.symbol)
        return ZERO if stake is None or w.order.px is None else stake.way_to(w.order.px)

    def _call(self, until: Decimal, moment: Callable[[Play], datetime]) -> None:
        """The margin call: liquidates what must be on the way up to `until`, the position that ties up most first."""
        if not self._book.venue.on_margin:
            return
        way = ZERO
        while True:
            stakes = self._stakes()
            found = breach(self._book.cash, stakes.values())
            ours = [play for play in self._plays if play.bar.symbol in stakes]
            if found is None or found > until or not ours:
                return
            way = max(way, found)
            self._withdraw_entries()
            largest = max(ours, key=lambda play: _tied_up(stakes[play.bar.symbol], way))
            self._liquidate(largest, stakes[largest.bar.symbol].at(way), self._book.equity(self._prices(way)), moment(largest))

    def _withdraw_entries(self) -> None:
        for working in self._book.working.values():
            for w in [w for w in working if not w.order.reduce_only]:
                self._book.refuse(w, LIQUIDATED, "the account was liquidated")

    def _liquidate(self, play: Play, px: Decimal, equity: Decimal, t: datetime) -> None:
        """Takes a position off, whole or by a step; slippage and fees take no more than there is."""
        symbol, held = play.bar.symbol, self._book.held(play.bar.symbol).qty
        if play.slice is None:
            play.slice = (abs(held) / self._book.venue.liquidation_steps).quantize(LOT, rounding=ROUND_UP)
        qty = min(abs(held), play.slice)
        sign, kindly = (-ONE, ROUND_CEILING) if held > 0 else (ONE, ROUND_FLOOR)
        left = max(ZERO, equity)
        slip = min(px * self._costs.slippage, left / qty)
        px, left = (px + sign * slip).quantize(PRICE_STEP, rounding=kindly), left - slip * qty
        fee = (px * qty * (self._costs.fee + self._book.venue.liquidation_fee_bps / BASIS_POINTS)).quantize(MONEY_STEP)
        fee = min(fee, left.quantize(MONEY_STEP, rounding=ROUND_DOWN))
        _, now = self._book.take(symbol, sign * qty, px, fee, t)
        if not now.qty:
            working = self._book.working[symbol]
            working[:] = [w for w in working if not w.order.reduce_only]
        self._write(
            play, "sell" if held > 0 else "buy", qty, px, fee, t, order_id=self._name_exit("", "liquidation"),
            trigger="liquidation", liq=True,
        )  # fmt: skip


def _protects(order: Order) -> bool:
    return order.reduce_only and order.kind == "stop"


def _tied_up(stake: Stake, way: Decimal) -> Decimal:
    return abs(stake.qty) * stake.at(way) * stake.maintenance


def _set_off(order: Order) -> Order:
    """What is left of an order whose price was reached: a stop is a market order now, or a limit order if it has a limit."""
    if order.kind != "stop":
        return order
    if order.limit is not None:
        return replace(order, kind="limit", px=order.limit, limit=None)
    return replace(order, kind="market", px=None)


def _one_cancels_the_other(working: list[Working], w: Working, qty: Decimal) -> None:
    """An exit was filled: the rest of its entry is withdrawn; a stop ends its target, a target in parts shrinks its stop."""
    for other in list(working):
        if other.id == w.group:
            working.remove(other)
        elif other is not w and other.group == w.group:
            other.left -= qty
            if w.trigger == "stop" or not w.left or other.left <= 0:
                working.remove(other)
