"""Random trading histories, as lists of golden-form ticks, for property tests of the ledger.

A small venue is simulated exactly: prices walk, positions are opened, added to, reduced, closed, flipped, liquidated.
What the agent is told of it is then spoilt the way brokers spoil it: fills that never arrive (the snapshot shows their
effect, so there is something to reconcile), fills and bars that arrive one or two ticks late, deliveries that come
twice, ticks that are replayed or stale, marks that are missing, ticks without a snapshot.

Prices and quantities have few digits, so that a failing history can be checked by hand.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from decimal import ROUND_HALF_EVEN, Decimal
from typing import Any

from hypothesis import strategies as st

Json = dict[str, Any]
Position = tuple[str, str]  # symbol and leg
Delivery = tuple[str, Json]

START = datetime(2026, 6, 4, 8, tzinfo=UTC)
# symbol: first price, smallest price step
MARKET = {
    "BTC": (Decimal("100"), Decimal("0.5")),
    "ETH": (Decimal("20"), Decimal("0.01")),
    "SOL": (Decimal("3"), Decimal("0.1")),
}
RATES = {"BTC": Decimal("1.25"), "ETH": Decimal("0.9"), "SOL": Decimal("0.007")}
SIZES = [Decimal(size) for size in ("0.1", "0.25", "0.5", "1", "1.3", "3")]
DEEDS = ["add", "close", "part", "flip", "add", "close", "part", "flip", "part liquidated", "liquidated"]
FEES = [Decimal(0), Decimal("0.00045"), Decimal("-0.0001")]  # none, taker, a maker's rebate
# Bars that come with a tick, in quarters of the time since the one before: whole, halves, across that tick, none.
FRAMES = [[(0, 4)], [(0, 2), (2, 4)], [(-2, 2), (2, 4)], [(-4, 4)], []]
FATES = ["in time", "in time", "in time", "in time", "in time", "in time", "in time", "one late", "two late", "never"]
CRUMB = Decimal("0.0004")


@dataclass
class Holding:
    """What the venue holds for one position: signed quantity and the venue's own average price."""

    qty: Decimal = Decimal(0)
    average: Decimal = Decimal(0)

    def trade(self, signed: Decimal, px: Decimal) -> None:
        after = self.qty + signed
        if self.qty * signed >= 0:
            self.average = (self.qty * self.average + signed * px) / after
        elif self.qty * after < 0:
            self.average = px
        self.qty = after


@dataclass
class Venue:
    """The truth: prices, holdings, and everything that happened between two ticks."""

    draw: Callable[[st.SearchStrategy[Any]], Any]
    symbols: list[str]
    hedge: bool
    rates: bool
    crumbs: bool
    marked: bool = True  # whether marks come at all
    charted: list[str] = field(default_factory=list)  # the symbols that have bars
    price: dict[str, Decimal] = field(default_factory=dict)
    path: dict[str, list[tuple[datetime, Decimal]]] = field(default_factory=dict)
    held: dict[Position, Holding] = field(default_factory=dict)
    fills: int = 0
    funding: int = 0

    def __post_init__(self) -> None:
        self.marked = not self.chance(15)
        for symbol in self.symbols:
            self.price[symbol] = MARKET[symbol][0]
            self.path[symbol] = [(START, self.price[symbol])]
            if not self.chance(25):
                self.charted.append(symbol)
            for leg in ("LONG", "SHORT") if self.hedge else ("",):
                self.held[symbol, leg] = Holding()

    def chance(self, percent: int) -> bool:
        """True about `percent` times in a hundred; shrinks to False, the undisturbed course."""
        return bool(self.draw(st.integers(0, 99)) >= 100 - percent)

    def move(self, symbol: str) -> Decimal:
        step = MARKET[symbol][1]
        self.price[symbol] = max(self.price[symbol] + self.draw(st.integers(-9, 9)) * step, step)
        return self.price[symbol]

    def order(self, position: Position) -> tuple[Decimal, bool]:
        """The next signed quantity for a position, and whether the venue forces it."""
        leg, held = position[1], self.held[position].qty
        size = self.draw(st.sampled_from(SIZES))
        if abs(held) <= CRUMB:
            sides = {"LONG": [1], "SHORT": [-1]}.get(leg, [1, -1])
            return size * self.draw(st.sampled_from(sides)), False
        side = 1 if held > 0 else -1
        deed = self.draw(st.sampled_from(DEEDS))
        if deed == "flip" and leg:
            deed = "close"
        if deed == "add":
            return side * size, False
        if deed == "flip":
            return -side * (abs(held) + size), False
        if deed.startswith("part"):
            part = min(size, (abs(held) / 2).quantize(Decimal("0.01"), ROUND_HALF_EVEN)) or abs(held)
            return -side * part, deed == "part liquidated"
        left = CRUMB if self.crumbs and self.chance(40) else 0
        return -side * (abs(held) - left), deed == "liquidated"

    def trade(self, position: Position, at: datetime) -> Json:
        symbol, leg = position
        px = self.move(symbol)
        signed, liq = self.order(position)
        self.held[position].trade(signed, px)
        self.fills += 1
        rate = RATES[symbol] + self.draw(st.integers(0, 3)) * Decimal("0.01") if self.rates else Decimal(1)
        share = Decimal("0.005") if liq else self.draw(st.sampled_from(FEES))
        fee = (px * abs(signed) * rate * share).quantize(Decimal("0.000001"), ROUND_HALF_EVEN)
        fill = {
            "id": f"f{self.fills}",
            "t": spell_time(at),
            "seq": self.fills,
            "symbol": symbol,
            "side": "buy" if signed > 0 else "sell",
            "qty": spell(abs(signed)),
            "px": spell(px),
            "fee": spell(fee),
            "liq": liq,
        }
        return fill | ({"leg": leg} if leg else {}) | ({"rate": spell(rate)} if self.rates else {})

    def between(self, start: datetime, end: datetime) -> tuple[list[Json], list[Json], list[Json]]:
        """Fills, funding and bars of (start, end]. Things happen at its quarters, so often in one second."""
        quarter = (end - start) / 4
        moments = st.tuples(st.integers(1, 4), st.sampled_from(list(self.held)))
        fills: list[Json] = []
        for when, position in sorted(self.draw(st.lists(moments, max_size=5))):
            fills.append(self.trade(position, start + when * quarter))
            self.path[position[0]].append((start + when * quarter, self.price[position[0]]))
        funding = [self.pay(position, start, quarter) for position in self.held if self.chance(15)]
        bars: list[Json] = []
        for symbol in self.symbols:
            self.path[symbol].append((end, self.move(symbol)))
            for begin, stop in self.draw(st.sampled_from(FRAMES)) if symbol in self.charted else []:
                bars.append(self.bar(symbol, max(start + begin * quarter, START), start + stop * quarter))
        return fills, funding, bars

    def pay(self, position: Position, start: datetime, quarter: timedelta) -> Json:
        symbol, leg = position
        self.funding += 1
        at = start + self.draw(st.integers(1, 4)) * quarter
        usd = Decimal(self.draw(st.integers(-50, 50))) / 100
        funding = {"id": f"u{self.funding}", "t": spell_time(at), "symbol": symbol, "usd": spell(usd)}
        return funding | ({"leg": leg} if leg else {})

    def bar(self, symbol: str, t0: datetime, t1: datetime) -> Json:
        """A bar that contains the fills of its time, those at its end included."""
        opened = [px for at, px in self.path[symbol] if at <= t0][-1]
        prices = [opened] + [px for at, px in self.path[symbol] if t0 < at <= t1]
        wick = self.draw(st.integers(0, 3)) * MARKET[symbol][1]
        return {
            "symbol": symbol,
            "t0": spell_time(t0),
            "t1": spell_time(t1),
            "o": spell(opened),
            "h": spell(max(prices) + wick),
            "l": spell(max(min(prices) - wick, Decimal(0))),
            "c": spell(prices[-1]),
        }

    def marks(self) -> Json:
        given = self.draw(st.sampled_from([self.symbols, self.symbols[1:], []])) if self.marked else []
        return {symbol: spell(self.price[symbol]) for symbol in given}

    def snapshot(self) -> Json:
        """What the broker says is held. A mark may be missing, or the average; never both."""
        positions: Json = {}
        for (symbol, leg), holding in self.held.items():
            if holding.qty == 0 and not self.chance(10):
                continue
            average = holding.average.quantize(Decimal("0.00000001"), ROUND_HALF_EVEN) if holding.qty else Decimal(0)
            one: Json = {"qty": spell(holding.qty), "entry_px": spell(average), "leverage": "2"}
            one["mark"] = spell(self.price[symbol]) if self.marked else None
            missing = self.draw(st.sampled_from(["", "", "", "mark", "mark", "leverage", "entry_px"]))
            if missing and (missing != "entry_px" or self.marked):
                one[missing] = None
            if leg:
                one["leg"] = leg
                positions.setdefault(symbol, []).append(one)
            else:
                positions[symbol] = one
        if self.hedge:  # one leg may come as it is, two are a list
            return {name: legs[0] if len(legs) == 1 and self.chance(50) else legs for name, legs in positions.items()}
        return positions


@dataclass
class Courier:
    """How the truth reaches the agent: at once, late, twice or never."""

    venue: Venue
    last: int  # index of the last tick
    waiting: list[tuple[int, str, Json]] = field(default_factory=list)
    brought: list[tuple[str, Json]] = field(default_factory=list)

    def post(self, index: int, fills: list[Json], funding: list[Json], bars: list[Json]) -> None:
        for fill in fills:
            fate = self.venue.draw(st.sampled_from(FATES))
            if fate != "never":
                self.waiting.append((index + {"in time": 0, "one late": 1, "two late": 2}[fate], "fills", fill))
        late = 1 if self.venue.chance(15) else 0
        self.waiting += [(index + late, "funding", one) for one in funding]
        self.waiting += [(index + late, "bars", one) for one in bars]

    def bring(self, index: int) -> Json:
        """What comes with the tick `index`; the last one brings all that is still on the way."""
        due = [(kind, one) for when, kind, one in self.waiting if when <= index or index == self.last]
        self.waiting = [item for item in self.waiting if (item[1], item[2]) not in due]
        if self.brought and self.venue.chance(15):
            due.append(self.venue.draw(st.sampled_from(self.brought)))
        self.brought += due
        return {name: [dict(one) for kind, one in due if kind == name] for name in ("fills", "funding", "bars")}


@st.composite
def histories(
    draw: Callable[[st.SearchStrategy[Any]], Any],
    *,
    hedge: bool = False,
    rates: bool = False,
    crumbs: bool = False,
    max_symbols: int = 3,
    max_ticks: int = 12,
) -> list[Json]:
    """A history of up to `max_ticks` ticks, and a few replayed ones.

    `hedge` gives each symbol a LONG and a SHORT leg; `rates` gives each fill its own rate; `crumbs` lets closing fills
    leave 0.0004, for a `dust_qty` between that and 0.01.
    """
    symbols = list(MARKET)[: draw(st.integers(1, max_symbols))]
    venue = Venue(draw, symbols, hedge, rates, crumbs)
    every = timedelta(minutes=draw(st.sampled_from([1, 10, 60])))
    count = draw(st.integers(1, max_ticks))
    courier = Courier(venue, last=count)
    ticks: list[Json] = []
    if venue.chance(25):  # something is held before the agent first looks
        venue.trade(next(iter(venue.held)), START)
    for index in range(1, count + 1):
        at = START + index * every
        courier.post(index, *venue.between(at - every, at))
        tick = {
            "t": spell_time(at),
            "snapshot_id": f"s{index}",
            "decision": decide(venue, f"r{index}"),
            "positions": None if venue.chance(15) else venue.snapshot(),
            "marks": venue.marks(),
        } | courier.bring(index)
        ticks.append(tick)
        if venue.chance(12):
            ticks.append(replayed(venue, ticks, index))
    if venue.chance(20):  # the venue trades on after the last tick; a replay of that tick brings the news
        fills, funding, _ = venue.between(at, at + every)
        ticks.append(ticks[-1] | {"bars": [], "fills": fills, "funding": funding})
    return ticks


def decide(venue: Venue, reason: str) -> Json | None:
    """A decision about one of the symbols, traded or not; often none."""
    symbol = venue.draw(st.sampled_from([None, *venue.symbols]))
    return None if symbol is None else {"symbol": symbol, "reason": reason}


def replayed(venue: Venue, ticks: list[Json], index: int) -> Json:
    """A tick that must not count: the same once more, an id seen before, or a time that is past."""
    latest = ticks[-1]
    kind = venue.draw(st.sampled_from(["same", "seen", "stale"]))
    if kind == "same":
        return dict(latest)
    lie = latest | {"positions": {}, "decision": decide(venue, "never said"), "marks": {}}
    if kind == "seen":
        return lie | {"t": spell_time(datetime.fromisoformat(latest["t"]) + timedelta(seconds=1))}
    return lie | {"snapshot_id": f"stale{index}", "t": venue.draw(st.sampled_from([tick["t"] for tick in ticks]))}


def shuffled_deliveries(draw: Callable[[st.SearchStrategy[Any]], Any], ticks: list[Json]) -> list[Delivery]:
    """The same history with every fill, funding and bars delivered alone, in any order among the ticks.

    The ticks, stripped, keep their order: which of them count depends on it. Everything else may come at any time.
    """
    bare = [("tick", tick | {"fills": [], "funding": [], "bars": []}) for tick in ticks]
    loose: list[Delivery] = []
    for tick in ticks:
        loose += [("fill", fill) for fill in tick.get("fills") or []]
        loose += [("funding", funding) for funding in tick.get("funding") or []]
        if tick.get("bars"):
            loose.append(("bars", {"bars": tick["bars"]}))
    order = draw(st.permutations(range(len(bare) + len(loose))))
    in_turn = iter(bare)
    return [next(in_turn) if place < len(bare) else loose[place - len(bare)] for place in order]


def spell(amount: Decimal) -> str:
    """Plain, without trailing zeros.

    >>> spell(Decimal("1.500")), spell(Decimal("100")), spell(Decimal("-0.0"))
    ('1.5', '100', '0')
    """
    text = format(amount, "f")
    if "." in text:
        text = text.rstrip("0").rstrip(".")
    return "0" if text in ("-0", "") else text


def spell_time(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")
