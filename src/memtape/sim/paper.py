"""A paper broker: orders and bars in; fills, funding and a snapshot out. It uses no clock and no chance, so a replay is exact.

A bar has four prices without their order, so every doubt is decided against the trader:

- An order placed at one bar's close can fill from the next bar on, first at that bar's open.
- An order that the open triggers fills at the open: market orders, stops that the price gapped through, limits and targets that
  it gapped beyond (to the trader's advantage). Inside the bar a stop is reached before a target.
- An entry that fills inside a bar can be stopped out in that bar; its target counts from the next bar on.
- Market and stop orders pay slippage, limits do not. Every fill pays the fee. Both are in basis points.
- An entry is refused if the open is beyond its own stop or target, or outside its band, as brokers do.
- Dust is no trade: an entry that is worth, or risks, less than a millionth of the starting equity is refused, and what a fill
  would leave of that size goes with it.

The terms of a venue (`venue.py`) add:

- An entry beyond the account's margin is refused, when it is placed and again when it would fill.
- An account whose equity falls to its maintenance margin is liquidated: at the open if the price gapped there, else at that
  price, before any stop further away. Slippage and fees then take at most the remaining equity, so only a gap leaves a shortfall.
  Waiting entries are withdrawn.
- Funding is paid at its hour on the position of that moment. Inside a bar, a payer pays on the high, a receiver gets paid on the
  low.
- An order gets only a share of a bar's volume. The rest waits for the next bar; the rest of a stop is then a market order.
- Outside a symbol's hours nothing fills.

A fill at the open has a time just after it, because the snapshot at the last close must not contain it. A fill inside the bar has
the time of its middle; a stop after an entry in the same bar has the time of three quarters.

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

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from decimal import ROUND_DOWN, ROUND_FLOOR, Decimal, localcontext
from operator import attrgetter

from memtape.core.codec import time_text
from memtape.core.fills import Fill, Funding
from memtape.core.observed import Bar, HeldPosition
from memtape.core.values import MONEY, ONE, ZERO
from memtape.errors import Invalid
from memtape.sim.book import Book
from memtape.sim.matching import MONEY_STEP, PRICE_STEP, BarPlay, OrderMatching, TradingCosts
from memtape.sim.order_ids import NumberedNaming, OrderNaming, exit_name, funding_name
from memtape.sim.orders import BUYING_POWER, DUST, LOT, Order, Position, WorkingOrder, check_order_terms
from memtape.sim.venue import BASIS_POINTS, PLAIN_VENUE, Venue

__all__ = ["Order", "PaperBroker", "Position"]

LATENCY = timedelta(seconds=1)


class PaperBroker:
    """One net account on recorded bars: cash, positions, working orders."""

    def __init__(
        self, cash: Decimal, *, fee_bps: Decimal = ZERO, slippage_bps: Decimal = ZERO, prefix: str = "p",
        naming: OrderNaming | None = None, venue: Venue = PLAIN_VENUE,
    ) -> None:  # fmt: skip
        for name, value in (("fee_bps", fee_bps), ("slippage_bps", slippage_bps)):
            if not ZERO <= value < BASIS_POINTS:
                raise Invalid(name, f"{value} is outside 0 to 10000", "Give basis points: 5 means 0.05 %")
        if not cash > 0:
            raise Invalid("starting_equity", f"{cash} is not above 0", "Give the money the account starts with")
        self.venue = venue
        self.at: datetime | None = None  # the close of the last bar
        self.funding: tuple[Funding, ...] = ()  # payments in the last advance
        self._book = Book(cash, venue)
        self._costs = TradingCosts(fee=fee_bps / BASIS_POINTS, slippage=slippage_bps / BASIS_POINTS)
        self._naming = naming or NumberedNaming(prefix)
        self._orders = self._exits = self._fills = self._payments = 0
        # By symbol: the position last shown, and its entry price and leverage as a snapshot has them.
        self._shown: dict[str, tuple[Position, Decimal | None, Decimal | None]] = {}
        self._funded_until: dict[str, datetime] = {}  # by symbol

    @property
    def cash(self) -> Decimal:
        """Money in the account besides positions; negative if positions were bought on margin."""
        return self._book.cash

    @property
    def marks(self) -> dict[str, Decimal]:
        """The last close of each symbol."""
        return self._book.marks

    @property
    def refused(self) -> dict[str, str]:
        """Refused orders by id, with the reason."""
        return self._book.refused

    @property
    def codes(self) -> dict[str, str]:
        """Refused orders by id, with the code of the reason."""
        return self._book.codes

    @property
    def equity(self) -> Decimal:
        """Cash and the value of positions at the last close."""
        return self._book.equity()

    @property
    def shortfall(self) -> Decimal:
        """The debt of the account, after a gap beyond its liquidation."""
        return max(ZERO, -self.equity)

    @property
    def slippage(self) -> Decimal:
        """What slippage has cost so far."""
        return self._book.slippage

    def position(self, symbol: str) -> Position:
        """Returns the position and the number of waiting entries."""
        working, held = self._book.working.get(symbol), self._book.held(symbol)
        return replace(held, working=sum(not w.order.reduce_only for w in working)) if working else held

    def positions(self) -> dict[str, Position]:
        """Returns positions and waiting entries by symbol."""
        every = {symbol: self.position(symbol) for symbol in sorted({*self._book.positions, *self._book.working})}
        return {symbol: position for symbol, position in every.items() if position.qty or position.working}

    def waiting(self) -> dict[str, tuple[Decimal, Decimal]]:
        """Returns waiting entries by symbol: quantities to buy and to sell."""
        return {symbol: pair for symbol in self._book.working if any(pair := self._book.waits(symbol))}

    def stops(self) -> dict[str, tuple[tuple[Decimal, Decimal], ...]]:
        """Returns the stops of positions by symbol: quantities and prices."""
        return {symbol: found for symbol in self._book.working if (found := self._book.stops(symbol))}

    def entries(self) -> dict[str, tuple[Order, ...]]:
        """Returns waiting entries by symbol, each with its unfilled quantity."""
        return {symbol: found for symbol in self._book.working if (found := self._book.entries(symbol))}

    def snapshot(self) -> dict[str, tuple[HeldPosition, ...]]:
        """Returns the open positions as a broker reports them; {} when flat."""
        held = sorted(self._book.positions.items())
        return {symbol: (self._held(symbol, position),) for symbol, position in held}

    def _held(self, symbol: str, position: Position) -> HeldPosition:
        shown = self._shown.get(symbol)
        if shown is None or shown[0] is not position:
            margin = self.venue.margin_of(symbol)
            shown = position, _rounded_price(position.entry_px, PRICE_STEP), None if margin is None else margin.leverage
            self._shown[symbol] = shown
        return HeldPosition(qty=position.qty, entry_px=shown[1], leverage=shown[2], mark=self.marks[symbol])

    def buying_power(self, order: Order) -> Decimal | None:
        """Returns the value that may still be opened on the order's side of its symbol; None: no limit."""
        return self._book.power(order)

    def powers(self) -> dict[str, tuple[Decimal, Decimal]]:
        """Returns the values that may still be bought and sold to open, by symbol, where margin limits them."""
        powers: dict[str, tuple[Decimal, Decimal]] = {}
        for symbol in self.marks if self.venue.on_margin else ():
            buy, sell = (self.buying_power(Order(symbol=symbol, side=side, qty=ONE)) for side in ("buy", "sell"))
            if buy is not None and sell is not None:
                powers[symbol] = (buy, sell)
        return powers

    def place(self, order: Order) -> str:
        """Place an order, valid from the next bar on. Returns its id, which its fills will have.

        An entry beyond the buying power, or too small to be a trade, is refused at once: its id is in `refused` and `codes`.
        """
        check_order_terms(order)
        self._orders += 1
        trigger = "stop_entry" if order.kind == "stop" and not order.reduce_only else order.kind
        id_ = self._naming.order_id(self._orders)
        w = WorkingOrder(id_, order, self.at, trigger, order.qty, bars_left=order.bars)
        if why := self._too_small(order):
            self._book.refuse(w, DUST, why)
        elif why := self._beyond_power(order):
            self._book.refuse(w, BUYING_POWER, why)
        else:
            self._book.working.setdefault(order.symbol, []).append(w)
        return id_

    def _too_small(self, order: Order) -> str | None:
        px = self.marks.get(order.symbol) if order.px is None else order.px
        if order.reduce_only or px is None:
            return None
        with localcontext(MONEY):
            return self._book.dust_refusal(order, px)

    def _beyond_power(self, order: Order) -> str | None:
        power = None if order.reduce_only else self.buying_power(order)
        if power is None:
            return None
        with localcontext(MONEY):
            worth = order.qty * (self.marks[order.symbol] if order.px is None else order.px)
            return f"worth {worth:.2f}, and the margin carries {power:.2f} more" if worth > power else None

    def cancel(self, order_id: str) -> bool:
        """Withdraws a working order. Returns False if there is none with this id."""
        for working in self._book.working.values():
            for w in working:
                if w.id == order_id:
                    working.remove(w)
                    return True
        return False

    def advance(self, bars: Iterable[Bar]) -> tuple[Fill, ...]:
        """Play completed bars, at most one per symbol. Returns the fills in order of time."""
        ordered = sorted(bars, key=attrgetter("symbol"))
        for bar in ordered:
            if self.at is not None and bar.t1 <= self.at:
                problem = f"{bar.symbol} closes at {time_text(bar.t1)}, not after {time_text(self.at)}"
                raise Invalid("bars", problem, "Give bars in time order")
        self.funding = ()
        if self._is_idle(ordered):
            self.marks.update({bar.symbol: bar.c for bar in ordered})
            self.at = max([bar.t1 for bar in ordered], default=self.at)
            return ()
        with localcontext(MONEY):
            plays = [self._play(bar) for bar in ordered]
            self._play_bars(plays)
            fills = [self._named(fill) for play in plays for fill in play.fills]
        self.at = max((bar.t1 for bar in ordered), default=self.at)
        return tuple(sorted(fills, key=lambda fill: (fill.t, fill.seq)))

    def _is_idle(self, bars: Sequence[Bar]) -> bool:
        """True if bars can change nothing but the marks: no order waits, and nothing is paid or called in."""
        venue, working = self.venue, self._book.working
        return not venue.on_margin and not venue.funding and not any(working.get(bar.symbol) for bar in bars)

    def _play(self, bar: Bar) -> BarPlay:
        hours = self.venue.trading(bar.symbol, bar.t0, bar.t1)
        first, last = hours or (bar.t0, bar.t1)
        begins = first if self.at is None else max(first, self.at)
        span = (last if last > begins else bar.t1) - begins
        share = self.venue.participation
        working = self._book.working.setdefault(bar.symbol, [])
        return BarPlay(
            bar=bar, trades=hours is not None, start=bar.o, held=self._book.held(bar.symbol).qty,
            opening=begins + min(LATENCY, span / 4), middle=begins + span / 2, late=begins + span * 3 / 4,
            old=[w for w in working if w.placed_at is None or w.placed_at <= bar.t0],
            room=None if share is None or bar.v is None else (bar.v * share).quantize(LOT, rounding=ROUND_DOWN),
        )  # fmt: skip

    def _play_bars(self, plays: Sequence[BarPlay]) -> None:
        """Play all bars of one time together, because they share one account."""
        matching = OrderMatching(self._book, self._costs, plays, self._name_exit)
        self._pay_funding(plays, [play.bar.t0 for play in plays])
        matching.open()
        self._pay_funding(plays, [play.middle for play in plays])
        matching.inside()
        self._pay_funding(plays, [play.bar.t1 for play in plays])
        for play in plays:
            self._expire_orders(play)
            self.marks[play.bar.symbol] = play.bar.c

    def _expire_orders(self, play: BarPlay) -> None:
        """Withdraw orders whose number of bars is over. A bar in which the symbol is closed does not count."""
        for w in play.old if play.trades else ():
            if w.bars_left is not None:
                w.bars_left -= 1
                if w.bars_left <= 0:
                    self._book.withdraw(w)

    def _pay_funding(self, plays: Sequence[BarPlay], until: Sequence[datetime]) -> None:
        """Pay funding up to a moment of each bar, on the position at its hour."""
        if not self.venue.funding:
            return
        for play, end in zip(plays, until, strict=True):
            symbol, rates = play.bar.symbol, self.venue.funding.get(play.bar.symbol)
            settled = self._funded_until.get(symbol, play.bar.t0)
            for t, rate in () if rates is None else rates.due(settled, end):
                self._pay(play, t, rate)
            self._funded_until[symbol] = max(settled, end)

    def _pay(self, play: BarPlay, t: datetime, rate: Decimal) -> None:
        # The ledger books funding before the fills of the same moment, so these fills do not count yet.
        signed = (fill.qty if fill.side == "buy" else -fill.qty for fill in play.fills if fill.t < t)
        qty, bar = play.held + sum(signed, ZERO), play.bar
        if t <= bar.t0:
            px = self.marks.get(bar.symbol, bar.o)
        elif t == bar.t1:
            px = bar.c
        else:
            px = bar.h if qty * rate > 0 else bar.l
        usd = (-qty * px * rate).quantize(MONEY_STEP, rounding=ROUND_FLOOR)
        if usd:
            self._payments += 1
            self._book.cash += usd
            id_ = funding_name(self._naming, self._payments, bar.symbol, t)
            self.funding += (Funding(id=id_, t=t, symbol=bar.symbol, usd=usd),)

    def _named(self, fill: Fill) -> Fill:
        self._fills += 1
        numbered = replace(fill, id=str(self._fills), seq=self._fills)
        return replace(numbered, id=self._naming.fill_id(self._fills, numbered))

    def _name_exit(self, entry: str, trigger: str) -> str:
        self._exits += 1
        return exit_name(self._naming, entry, self._exits, trigger)


def _rounded_price(px: Decimal | None, step: Decimal) -> Decimal | None:
    """Rounds to what a snapshot can hold; leaves a price alone that fits."""
    if px is None:
        return None
    with localcontext(MONEY):
        exponent = px.as_tuple().exponent
        return px if isinstance(exponent, int) and exponent >= -18 else px.quantize(step)
