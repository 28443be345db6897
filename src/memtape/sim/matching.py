"""The effect of the bars of one time on an account, in this order: the open, the path to the worst price, the rest, the close.

Each bar is a `BarPlay`. All plays of one time share the account, so they go through each moment together: a gap liquidates before
any order fills at the open, stops and liquidations come in the order of their prices, and targets and entries come after the
worst price. `paper.py` states the rules.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from decimal import ROUND_CEILING, ROUND_DOWN, ROUND_FLOOR, ROUND_UP, Decimal
from typing import Literal

from memtape.core.fills import Fill
from memtape.core.observed import Bar
from memtape.core.sources import PAPER_BROKER
from memtape.core.values import ONE, ZERO
from memtape.sim.book import Book
from memtape.sim.margin import MarginPath, breach_point
from memtape.sim.orders import BUYING_POWER, LIQUIDATED, LOT, Order, WorkingOrder, is_reached, order_refusal, within_limit
from memtape.sim.venue import BASIS_POINTS

PRICE_STEP = Decimal("1e-10")
MONEY_STEP = Decimal("1e-8")
# Inside a bar: first protecting stops, then targets, then entries.
EXECUTION_ORDER = {(True, "stop"): 0, (True, "limit"): 1, (False, "stop"): 2, (False, "limit"): 3}


@dataclass(slots=True, eq=False, kw_only=True)
class BarPlay:
    """One bar while it happens: its moments, its waiting orders and its fills."""

    bar: Bar
    trades: bool  # True if the symbol is open during the bar
    opening: datetime
    middle: datetime
    late: datetime
    old: list[WorkingOrder]  # placed before it opened
    start: Decimal  # where the way to its worst price begins: the open, or the price of an entry inside the bar
    room: Decimal | None  # quantity that its volume still allows; None: no limit
    held: Decimal  # before the bar
    ready: list[WorkingOrder] = field(default_factory=list)
    slice: Decimal | None = None  # quantity of one step of a liquidation
    fills: list[Fill] = field(default_factory=list)  # still without ids


@dataclass(frozen=True, slots=True, kw_only=True)
class TradingCosts:
    """Shares of the price."""

    fee: Decimal
    slippage: Decimal


class OrderMatching:
    """Plays the bars of one time on an account. `name_exit` makes the id of a stop or target: (entry, trigger) -> id."""

    def __init__(self, book: Book, costs: TradingCosts, plays: Sequence[BarPlay], name_exit: Callable[[str, str], str]) -> None:
        self._book, self._costs, self._name_exit = book, costs, name_exit
        self._plays = [play for play in plays if play.trades]

    def open(self) -> None:
        """Play the open: liquidations by a gap, then orders that the open triggers."""
        self._margin_call(ZERO, lambda play: play.opening)
        for play in self._plays:
            working = self._book.working[play.bar.symbol]
            for w in play.old:
                if w in working and is_reached(w.order, play.bar.o, play.bar.o):
                    self._fill(play, w, play.bar.o, play.opening)
            # Waiting orders, now with the stops and targets of entries that the open filled.
            play.ready = [w for w in working if (w.group is not None or w in play.old) and w.order.kind != "market"]

    def inside(self) -> None:
        """Play the inside of the bars: stops and liquidations first, then targets, then entries with their stops."""
        stops = [(play, w) for play in self._plays for w in play.ready if _protects(w.order)]
        if self._book.venue.on_margin:
            stops.sort(key=lambda stop: self._share_at(*stop))
        for play, w in stops:
            self._stop(play, w, lambda play: play.middle)
        self._margin_call(ONE, lambda play: play.middle)
        for play in self._plays:
            self._trade(play)
        self._margin_call(ONE, lambda play: play.late)

    def _trade(self, play: BarPlay) -> None:
        """Fill targets and entries inside the bar. An entry may be stopped out in it, but not reach its target."""
        bar, working = play.bar, self._book.working[play.bar.symbol]
        rest = [w for w in play.ready if w.order.kind != "market" and not _protects(w.order)]
        for w in sorted(rest, key=lambda w: EXECUTION_ORDER[w.order.reduce_only, w.order.kind]):
            px = w.order.px
            if w not in working or px is None or not is_reached(w.order, bar.l, bar.h):
                continue
            filled = self._fill(play, w, px, play.middle)
            if filled and not w.order.reduce_only:
                play.start = px
            for child in [c for c in working if c.group == w.id and _protects(c.order)]:
                self._stop(play, child, lambda play: play.late)

    def _stop(self, play: BarPlay, w: WorkingOrder, moment: Callable[[BarPlay], datetime]) -> None:
        """Fill one protecting stop, unless the account is liquidated before its price."""
        if w.order.px is None or not is_reached(w.order, play.bar.l, play.bar.h):
            return
        if self._book.venue.on_margin:
            self._margin_call(self._share_at(play, w), moment)
        if w in self._book.working[play.bar.symbol]:
            self._fill(play, w, w.order.px, moment(play))

    # ---- orders -------------------------------------------------------------------------------------------------------

    def _fill(self, play: BarPlay, w: WorkingOrder, px: Decimal, t: datetime) -> bool:
        """Fills an order at a price as far as possible, or drops it if it has become impossible. Returns True if it filled."""
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
        if order.reduce_only and self._book.is_dust(abs(held) - qty, px):
            # What would be left is no position: it goes with the rest.
            qty = abs(held)
        qty = qty if play.room is None else min(qty, play.room)
        if qty <= 0 or (qty < w.left and not order.reduce_only and self._book.is_dust(qty, px)):
            self._wait(w)
            return False
        reached, px = px, self._slipped(order, px, sign)
        fee = (px * qty * self._costs.fee).quantize(MONEY_STEP)
        if not order.reduce_only and not self._book.affords(order.symbol, sign * qty, px, fee, self._prices(ZERO)):
            self._book.refuse(w, BUYING_POWER, f"{qty} at {px} asks for more margin than the account has")
            return False
        self._settle(play, w, qty, px, fee, t)
        self._book.slippage += abs(px - reached) * qty
        return True

    def _wait(self, w: WorkingOrder) -> None:
        """Keep an order waiting whose price was reached in a bar without volume left."""
        if w.group is not None and w.order.kind == "stop":
            _one_cancels_the_other(self._book.working[w.order.symbol], w, ZERO)
        w.order = _triggered(w.order)

    def _slipped(self, order: Order, px: Decimal, sign: Decimal) -> Decimal:
        if order.kind == "limit" or not self._costs.slippage:
            return px
        slipped = (px * (ONE + sign * self._costs.slippage)).quantize(PRICE_STEP)
        return slipped if order.limit is None or within_limit(order, slipped) else order.limit

    def _settle(self, play: BarPlay, w: WorkingOrder, qty: Decimal, px: Decimal, fee: Decimal, t: datetime) -> None:
        """Books a fill and adjusts the other orders of its symbol."""
        order, working = w.order, self._book.working[w.order.symbol]
        signed = qty if order.side == "buy" else -qty
        before, now = self._book.take(order.symbol, signed, px, fee, t)
        w.left = max(ZERO, w.left - qty)
        if not order.reduce_only and self._book.is_dust(w.left, px):
            w.left = ZERO
        play.room = None if play.room is None else play.room - qty
        whole = not w.left
        turned = before.qty != 0 and now.qty * before.qty <= 0
        if w.group is not None:
            _one_cancels_the_other(working, w, qty)
        working[:] = [o for o in working if not (turned and o.order.reduce_only) and not (whole and o is w)]
        if not whole:
            w.order = _triggered(order)
        # An order that only reduced a position has nothing to protect.
        if now.qty * signed > 0:
            self._attach(w, min(qty, abs(now.qty)))
        self._write(play, order.side, qty, px, fee, t, order_id=w.id, trigger=w.trigger)

    def _attach(self, w: WorkingOrder, qty: Decimal) -> None:
        """Adds the stop and target of an entry; enlarges them if the entry fills in parts."""
        working = self._book.working[w.order.symbol]
        present = {o.trigger: o for o in working if o.group == w.id}
        side: Literal["buy", "sell"] = "sell" if w.order.side == "buy" else "buy"
        exits = Order(symbol=w.order.symbol, side=side, qty=qty, reduce_only=True)
        protecting, taking = replace(exits, kind="stop", px=w.order.stop), replace(exits, kind="limit", px=w.order.target)
        for trigger, order in (("stop", protecting), ("target", taking)):
            if trigger in present:
                present[trigger].left += qty
            elif order.px is not None:
                working.append(WorkingOrder(self._name_exit(w.id, trigger), order, None, trigger, qty, group=w.id))

    def _write(
        self, play: BarPlay, side: Literal["buy", "sell"], qty: Decimal, px: Decimal, fee: Decimal, t: datetime, *,
        order_id: str, trigger: str, liq: bool = False,
    ) -> None:  # fmt: skip
        fill = Fill(
            id="-", t=t, symbol=play.bar.symbol, side=side, qty=qty, px=px, fee=fee, liq=liq, order_id=order_id, trigger=trigger,
            venue=PAPER_BROKER,
        )  # fmt: skip
        play.fills.append(fill)

    # ---- liquidation --------------------------------------------------------------------------------------------------

    def _margin_paths(self) -> dict[str, MarginPath]:
        """Returns the path of every position through its bar. Without a bar, or while closed, the price does not move."""
        plays = {play.bar.symbol: play for play in self._plays}
        paths = {}
        for symbol, position in self._book.positions.items():
            margin, play = self._book.venue.margin_of(symbol), plays.get(symbol)
            if play is None:
                start = worst = self._book.marks[symbol]
            else:
                start, worst = play.start, play.bar.l if position.qty > 0 else play.bar.h
            keep = ZERO if margin is None else margin.maintenance
            paths[symbol] = MarginPath(qty=position.qty, start=start, worst=worst, maintenance=keep)
        return paths

    def _prices(self, share: Decimal) -> dict[str, Decimal]:
        return {symbol: path.at(share) for symbol, path in self._margin_paths().items()}

    def _share_at(self, play: BarPlay, w: WorkingOrder) -> Decimal:
        path = self._margin_paths().get(play.bar.symbol)
        return ZERO if path is None or w.order.px is None else path.share_at(w.order.px)

    def _margin_call(self, until: Decimal, moment: Callable[[BarPlay], datetime]) -> None:
        """Liquidates what must be liquidated on the path up to `until`, the position with the largest margin first."""
        if not self._book.venue.on_margin:
            return
        share = ZERO
        while True:
            paths = self._margin_paths()
            found = breach_point(self._book.cash, paths.values())
            ours = [play for play in self._plays if play.bar.symbol in paths]
            if found is None or found > until or not ours:
                return
            share = max(share, found)
            self._withdraw_entries()
            largest = max(ours, key=lambda play: _margin_used(paths[play.bar.symbol], share))
            self._liquidate(largest, paths[largest.bar.symbol].at(share), self._book.equity(self._prices(share)), moment(largest))

    def _withdraw_entries(self) -> None:
        for working in self._book.working.values():
            for w in [w for w in working if not w.order.reduce_only]:
                self._book.refuse(w, LIQUIDATED, "the account was liquidated")

    def _liquidate(self, play: BarPlay, px: Decimal, equity: Decimal, t: datetime) -> None:
        """Closes a position, at once or by a step. Slippage and fees take at most the remaining equity."""
        symbol, held = play.bar.symbol, self._book.held(play.bar.symbol).qty
        if play.slice is None:
            play.slice = (abs(held) / self._book.venue.liquidation_steps).quantize(LOT, rounding=ROUND_UP)
        qty = min(abs(held), play.slice)
        sign, rounding = (-ONE, ROUND_CEILING) if held > 0 else (ONE, ROUND_FLOOR)
        left = max(ZERO, equity)
        slip = min(px * self._costs.slippage, left / qty)
        reached, left = px, left - slip * qty
        px = (px + sign * slip).quantize(PRICE_STEP, rounding=rounding)
        self._book.slippage += abs(px - reached) * qty
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


def _margin_used(path: MarginPath, share: Decimal) -> Decimal:
    return abs(path.qty) * path.at(share) * path.maintenance


def _triggered(order: Order) -> Order:
    """Returns an order after its price was reached: a stop becomes a market order, or a limit order if it has a limit."""
    if order.kind != "stop":
        return order
    if order.limit is not None:
        return replace(order, kind="limit", px=order.limit, limit=None)
    return replace(order, kind="market", px=None)


def _one_cancels_the_other(working: list[WorkingOrder], w: WorkingOrder, qty: Decimal) -> None:
    """After an exit filled: withdraw the rest of its entry. A stop removes its target; a partial target reduces its stop."""
    for other in list(working):
        if other.id == w.group:
            working.remove(other)
        elif other is not w and other.group == w.group:
            other.left -= qty
            if w.trigger == "stop" or not w.left or other.left <= 0:
                working.remove(other)
