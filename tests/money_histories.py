"""Random histories for the money rules M1-M15, in the form of `golden/ledger_money_golden.json`.

A small venue trades on a coarse grid of moments, so that fills, splits, payments, snapshots and bars often meet at one
time. Some symbols have a currency of their own, a multiplier, cash accounting, an inverse payoff or prices around zero.
What the agent is told is then spoilt the way brokers spoil it: fills that come late, twice, with another content or
never, corrections, snapshots that lag, run ahead or contradict, ticks without a snapshot or replayed.

`money_cases()` draws cases for hypothesis, `random_case(seed)` makes one from a seed. To read one, with its ledger:

    python -m tests.money_histories 7
    python -m tests.money_histories 7 small

Not drawn, because the rules do not say what happens: an inverse payoff that begins or ends later, an inverse instrument
whose base is the account currency, a split of an inverse instrument, hedge legs.
"""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from decimal import ROUND_HALF_EVEN, Decimal
from typing import Any, Protocol

from hypothesis import strategies as st

Json = dict[str, Any]
START = datetime(2026, 6, 4, 8, tzinfo=UTC)


class Chance(Protocol):
    """Where choices come from. The first option is the simplest: a failing case shrinks towards it."""

    def pick(self, options: Any) -> Any: ...


@dataclass
class Seeded:
    generator: random.Random

    def pick(self, options: Any) -> Any:
        return self.generator.choice(options)


@dataclass
class Drawn:
    draw: Callable[[st.SearchStrategy[Any]], Any]

    def pick(self, options: Any) -> Any:
        return self.draw(st.sampled_from(options))


@dataclass(frozen=True)
class Market:
    """A symbol: where its price starts and how it steps, its rate, and what is stated about it."""

    price: Decimal
    step: Decimal
    rate: Decimal | None = None
    terms: Json = field(default_factory=dict)
    below_zero: bool = False

    @property
    def inverse(self) -> bool:
        return self.terms.get("payoff") == "inverse"


MARKETS = {
    "BTC": Market(Decimal(100), Decimal(1)),
    "GER40": Market(Decimal(200), Decimal(2), Decimal("1.10")),
    "SAP": Market(Decimal(50), Decimal("0.5"), Decimal("1.20"), {"accounting": "cash"}),
    "USDJPY": Market(Decimal(150), Decimal("0.5"), Decimal("0.0067"), {"base": "USD"}),
    "XBT": Market(Decimal(50), Decimal(1), Decimal(50), {"payoff": "inverse", "multiplier": "10"}),
    "CL": Market(Decimal(2), Decimal(1), None, {"multiplier": "100"}, below_zero=True),
}
QUANTITIES = [Decimal(text) for text in ("1", "2", "3", "0.5")]
CRUMB = Decimal("0.0004")


@dataclass
class Holding:
    """What the venue holds of one symbol, and the state of its market, after the events of a moment."""

    price: Decimal
    rate: Decimal | None
    qty: Decimal = Decimal(0)
    average: Decimal = Decimal(0)


class Venue:
    """What really happens, at the moments 0 to `last`."""

    def __init__(self, chance: Chance, small: bool) -> None:
        self.chance = chance
        names = list(MARKETS)
        first = chance.pick(range(len(names)))
        self.symbols = [names[(first + 2 * step) % len(names)] for step in range(1 if small else chance.pick([1, 1, 2, 3]))]
        self.config = {
            "mfe_mode": chance.pick(["hl_strict", "hl_strict", "close"]),
            "dust_qty": chance.pick(["0", "0", "0", "0.001"]),
            "currency": "USD",
            "settle_seconds": chance.pick([0, 0, 30]),
            "trade_unit": chance.pick(["flat_to_flat", "flat_to_flat", "fifo_lots"]),
        }
        self.unmarked = self.percent(10)  # neither marks nor bars: some prices are then known from nowhere
        self.grid = timedelta(seconds=10) if self.config["settle_seconds"] else timedelta(minutes=10)
        self.last = chance.pick(range(2, 6) if small else range(3, 15))
        self.fills: list[tuple[int, str, Json]] = []  # moment, what becomes of its delivery, fill
        self.items: list[tuple[int, str, Json]] = []  # moment from which on it can be delivered, kind, item
        self.now = {name: Holding(MARKETS[name].price, MARKETS[name].rate) for name in self.symbols}
        self.history: list[dict[str, Holding]] = []
        for moment in range(self.last + 1):
            for symbol in self.symbols:
                self.step(symbol, moment)
            self.history.append({name: Holding(**vars(held)) for name, held in self.now.items()})
        for symbol in [] if self.unmarked else self.symbols:
            self.chart(symbol)

    def percent(self, share: int) -> bool:
        return bool(self.chance.pick(range(100)) >= 100 - share)

    def at(self, moment: int) -> str:
        return spell_time(START + moment * self.grid)

    def number_of(self, kind: str) -> int:
        return 1 + sum(name == kind for _, name, _ in self.items)

    # One moment of one symbol

    def step(self, symbol: str, moment: int) -> None:
        market, held = MARKETS[symbol], self.now[symbol]
        held.price += market.step * self.chance.pick([0, 1, -1, 2, -2, 5, -5])
        if not market.below_zero:
            held.price = max(held.price, market.step)
        if held.rate is not None and market.rate is not None:
            held.rate = max(market.rate + market.rate / 20 * self.chance.pick([0, 1, -1, 2, -2]), market.rate / 2)
        if moment and not market.inverse and self.percent(4):
            self.split(symbol, moment)
        if self.percent(8):
            self.pay(symbol, moment)
        for _ in range(self.chance.pick([0, 0, 0, 1, 1, 2])):
            self.trade(symbol, moment)

    def split(self, symbol: str, moment: int) -> None:
        held, ratio = self.now[symbol], Decimal(self.chance.pick(["2", "0.5", "4"]))
        held.qty, held.average, held.price = held.qty * ratio, held.average / ratio, held.price / ratio
        item = {"id": f"x{self.number_of('splits')}", "symbol": symbol, "t": self.at(moment), "ratio": spell(ratio)}
        self.items.append((moment, "splits", item))

    def pay(self, symbol: str, moment: int) -> None:
        usd = Decimal(self.chance.pick(range(-4, 5))) / 4
        rate = self.chance.pick([{}, {}, {"rate": "1.5"}])
        if self.percent(40):
            paid = moment + self.chance.pick([0, 1, 3])
            item = {"id": f"d{self.number_of('dividends')}", "symbol": symbol, "ex_date": self.at(moment)}
            item |= {"t": self.at(paid), "usd": spell(usd)} | rate
            self.items.append((self.chance.pick([paid, moment]), "dividends", item))
        else:
            item = {"id": f"u{self.number_of('funding')}", "symbol": symbol, "t": self.at(moment), "usd": spell(usd)}
            self.items.append((moment, "funding", item | rate))

    def trade(self, symbol: str, moment: int) -> None:
        qty = self.now[symbol].qty
        size = self.chance.pick(QUANTITIES)
        if qty == 0:
            self.fill(symbol, moment, size * self.chance.pick([1, -1]))
            return
        side = 1 if qty > 0 else -1
        match self.chance.pick(["close", "add", "add", "reduce", "flip", "reopen", "liquidation"]):
            case "add":
                self.fill(symbol, moment, side * size)
            case "close":
                crumb = self.chance.pick([0, CRUMB, -CRUMB]) if self.config["dust_qty"] != "0" else 0
                trigger = self.chance.pick([None, None, "stop", "target", "manual"])
                self.fill(symbol, moment, -qty + crumb, trigger=trigger)
                self.now[symbol].qty = Decimal(0)
            case "reduce":
                self.fill(symbol, moment, -qty / 2, trigger=self.chance.pick([None, "stop", "target"]))
            case "flip":
                self.fill(symbol, moment, -qty - side * size, trigger=self.chance.pick([None, None, "stop"]))
            case "reopen":
                seen = self.chance.pick(["never", "in time"])
                self.fill(symbol, moment, -qty, fate=seen)
                self.now[symbol].price += MARKETS[symbol].step
                self.fill(symbol, moment, side * self.chance.pick([abs(qty), size, abs(qty) / 2]), fate=seen)
            case "liquidation":
                self.fill(symbol, moment, -qty / self.chance.pick([1, 2]), liq=True)

    def fill(self, symbol: str, moment: int, signed: Decimal, fate: str | None = None, **more: Any) -> None:
        held = self.now[symbol]
        px = held.price
        if held.qty * signed >= 0:
            held.average = self.average(symbol, held, abs(signed), px)
        elif abs(signed) > abs(held.qty):
            held.average = px
        held.qty += signed
        place = len(self.fills) + 1
        fill: Json = {
            "id": f"f{place}",
            "t": self.at(moment),
            "seq": place,
            "symbol": symbol,
            "side": "buy" if signed > 0 else "sell",
            "qty": spell(abs(signed)),
            "px": spell(px),
            "liq": False,
        }
        fill |= self.chance.pick(
            [
                {"fee": "0"},
                {"fee": "0.25"},
                {"fee": "-0.1"},
                {"fee": "0.5", "fee_currency": "USD"},
                {"fee": "0.01", "fee_currency": "BNB", "fee_rate": "600"},
                {"fee": "0.02", "fee_currency": "BNB"},
                {"fee": "0", "fee_currency": "BNB"},
                {"fee": "0.5", "fee_rate": "1.1"},
            ]
        )
        if held.rate is not None and not self.percent(10):
            fill["rate"] = spell(held.rate)
        fill |= {name: value for name, value in more.items() if value is not None}
        fate = fate or self.chance.pick(["in time"] * 6 + ["one late", "two late", "never"])
        self.fills.append((moment, fate, fill))

    def average(self, symbol: str, held: Holding, more: Decimal, px: Decimal) -> Decimal:
        old = abs(held.qty)
        if not old:
            return px
        if MARKETS[symbol].inverse:
            return (old + more) / (old / held.average + more / px)
        return (old * held.average + more * px) / (old + more)

    def chart(self, symbol: str) -> None:
        """Bars of none, one or two frames, all aligned with the grid."""
        for width in self.chance.pick([[], [1], [2], [3], [1, 3], [2, 3]]):
            for begin in range(self.chance.pick([0, 1]), self.last - width + 1, width):
                path = [self.history[moment][symbol].price for moment in range(begin, begin + width + 1)]
                wick = MARKETS[symbol].step * self.chance.pick([0, 1, 3])
                low = min(path) - wick
                bar = {
                    "symbol": symbol,
                    "t0": self.at(begin),
                    "t1": self.at(begin + width),
                    "o": spell(path[0]),
                    "h": spell(max(path) + wick),
                    "l": spell(low if MARKETS[symbol].below_zero or low > 0 else min(path)),
                    "c": spell(path[-1]),
                }
                self.items.append((begin + width, "bars", bar))


class Teller:
    """What the agent is told of it, tick by tick."""

    def __init__(self, venue: Venue) -> None:
        self.venue, self.chance = venue, venue.chance
        self.ticks: list[Json] = []
        self.told: list[Json] = []  # fills that were delivered
        moments = [self.chance.pick([0, 0, 1])]
        while moments[-1] < venue.last and len(moments) < 8:
            moments.append(min(moments[-1] + self.chance.pick([1, 1, 2, 3]), venue.last))
        for place, moment in enumerate(moments):
            self.tick(place, moment, final=place == len(moments) - 1)
            if venue.percent(8):
                self.replay(place)

    def tick(self, place: int, moment: int, final: bool) -> None:
        venue = self.venue
        tick: Json = {"t": venue.at(moment), "snapshot_id": f"s{place + 1}", "decision": self.decide(moment, place)}
        if not venue.percent(15):
            tick["positions"] = self.snapshot(moment)
        tick["marks"] = self.marks(moment)
        tick["fills"] = self.fills(place, moment, final)
        for kind in ("funding", "dividends", "splits", "bars"):
            due = [item for when, name, item in venue.items if name == kind and (when <= moment or final)]
            if due or kind in ("funding", "bars"):
                tick[kind] = due
        venue.items = [item for item in venue.items if not (item[0] <= moment or final)]
        if stated := self.instruments(place, moment):
            tick["instruments"] = stated
        if corrections := self.corrections(moment):
            tick["corrections"] = corrections
        inverse = [symbol for symbol in venue.symbols if MARKETS[symbol].inverse]
        if inverse and venue.percent(3):
            bad = {"id": f"bad{place}", "t": venue.at(moment), "seq": 0, "symbol": inverse[0], "side": "buy", "qty": "1"}
            tick["fills"].append(bad | {"px": self.chance.pick(["0", "-1"]), "fee": "0", "liq": False})
        self.ticks.append(tick)

    def replay(self, place: int) -> None:
        """A tick that is none: the same again, or a time that is past. What it brings for the first time counts."""
        latest = self.ticks[-1]
        lie = latest | {"positions": {}, "decision": None, "marks": {}}
        self.ticks.append(self.chance.pick([latest, lie, lie | {"snapshot_id": f"stale{place}"}]))

    def decide(self, moment: int, place: int) -> Json | None:
        symbol = self.chance.pick([None, *self.venue.symbols, *self.venue.symbols])
        if symbol is None:
            return None
        held, step = self.venue.history[moment][symbol], MARKETS[symbol].step
        decision = {"symbol": symbol, "reason": f"r{place + 1}"}
        side = 1 if held.qty >= 0 else -1
        for name, away in (("stop", -side), ("target", side)):
            steps = self.chance.pick([None, 3, 1, 6, 0, -2])  # none, on the right side, at the price, on the wrong side
            level = None if steps is None else held.price + away * steps * step
            if level is not None and (level > 0 or not MARKETS[symbol].inverse):
                decision[name] = spell(level)
        return decision

    # Snapshots and marks

    def snapshot(self, moment: int) -> Json:
        venue = self.venue
        lag = self.chance.pick([0, 0, 0, -1, -2, 1, 2]) if venue.config["settle_seconds"] else 0
        shown = venue.history[min(max(moment + lag, 0), venue.last)]
        positions = {symbol: self.position(symbol, shown[symbol], venue.history[moment][symbol]) for symbol in venue.symbols}
        return {symbol: one for symbol, one in positions.items() if one}

    def position(self, symbol: str, held: Holding, now: Holding) -> Json | None:
        """The truth most of the time; else another quantity, another entry price, or both."""
        qty, entry, step = held.qty, held.average, MARKETS[symbol].step
        match self.chance.pick(["true"] * 14 + ["other entry", "grown", "shrunk", "vanished", "flipped", "appeared"]):
            case "other entry":
                entry += step * self.chance.pick([1, -1, 3, 20])
            case "grown" if qty:
                qty += qty / abs(qty) * self.chance.pick(QUANTITIES)
                entry = self.chance.pick([now.price, entry, (entry + now.price) / 2, entry + 20 * step])
            case "shrunk":
                qty, entry = qty / 2, self.chance.pick([entry, now.price])
            case "vanished":
                qty = Decimal(0)
            case "flipped":
                qty, entry = -qty, self.chance.pick([now.price, entry])
            case "appeared" if not qty:
                qty, entry = self.chance.pick([Decimal(1), Decimal(-2)]), now.price
        if MARKETS[symbol].inverse:
            entry = max(entry, step)
        if qty == 0 and not self.venue.percent(10):
            return None
        one = {"qty": spell(qty), "entry_px": spell(entry), "leverage": "2", "mark": spell(now.price)}
        if now.rate is not None and not self.venue.percent(40):
            one["rate"] = spell(now.rate)
        missing = [self.chance.pick(["", "", "", "", "mark", "leverage", "entry_px"]), "mark" if self.venue.unmarked else ""]
        return {name: value for name, value in one.items() if name not in missing}

    def marks(self, moment: int) -> Json:
        given: Json = {}
        for symbol in [] if self.venue.unmarked else self.venue.symbols:
            held = self.venue.history[moment][symbol]
            form = self.chance.pick(["none", "price", "with rate"])
            if form == "price" or (form == "with rate" and held.rate is None):
                given[symbol] = spell(held.price)
            elif form == "with rate" and held.rate is not None:
                given[symbol] = {"px": spell(held.price), "rate": spell(held.rate)}
        return given

    # Fills and what is said about them later

    def fills(self, place: int, moment: int, final: bool) -> list[Json]:
        """What is due, at times a fill of the near future, and at times an old one again, also with another content."""
        ahead = self.chance.pick([0, 0, 0, 0, 1])
        due: list[Json] = []
        rest: list[tuple[int, str, Json]] = []
        for when, fate, fill in self.venue.fills:
            if fate == "never":
                continue
            later = {"in time": 0, "one late": 1, "two late": 3}[fate]
            if final or when + later <= moment + (ahead if fate == "in time" else 0):
                due.append(fill)
            else:
                rest.append((when, fate, fill))
        self.venue.fills = rest
        if self.told and self.venue.percent(12):
            again = self.chance.pick(self.told)
            other = self.chance.pick([{}, {"px": spell(Decimal(again["px"]) + 1)}, {"fee": "7"}, {"qty": "9", "trigger": "stop"}])
            due = [*due, again | other]
        self.told += [fill for fill in due if fill["id"] not in {one["id"] for one in self.told}]
        return due

    def corrections(self, moment: int) -> list[Json]:
        if not self.told or not self.venue.percent(15):
            return []
        fill = self.chance.pick(self.told)
        t = self.venue.at(moment)
        if self.venue.percent(35):
            return [{"kind": "void_fill", "fill_id": fill["id"], "t": t}]
        earlier = spell_time(datetime.fromisoformat(fill["t"]) - self.venue.grid)
        content = self.chance.pick(
            [
                {"px": spell(Decimal(fill["px"]) + MARKETS[fill["symbol"]].step)},
                {"fee": "0.75", "fee_currency": "USD", "fee_rate": None},
                {"qty": spell(Decimal(fill["qty"]) * 2)},
                {"side": "sell" if fill["side"] == "buy" else "buy"},
                {"t": earlier},
                {"symbol": self.venue.symbols[-1]},
                {"trigger": "stop", "rate": "1.3"},
            ]
        )
        return [{"kind": "amend_fill", "fill_id": fill["id"], "t": t, "content": content}]

    # Terms

    def instruments(self, place: int, moment: int) -> list[Json]:
        """What is known of the symbols from the start, and at times something else, from then on or from another time."""
        stated = []
        for symbol in self.venue.symbols:
            terms = {"symbol": symbol} | MARKETS[symbol].terms
            if place == 0 and (MARKETS[symbol].inverse or (MARKETS[symbol].terms and not self.venue.percent(30))):
                stated.append(terms)
            elif place and self.venue.percent(8):
                # A multiplier that no other tick states: a later statement is never a repetition of an earlier one.
                terms |= {"multiplier": str(place + 1)}
                if not MARKETS[symbol].inverse:
                    terms |= self.chance.pick([{}, {"accounting": "cash"}, {"accounting": "margin"}])
                since = self.chance.pick([None, moment, max(moment - 3, 0), moment + 2])
                stated.append(terms if since is None else terms | {"valid_from": self.venue.at(since)})
        return stated


def make_case(chance: Chance, small: bool) -> Json:
    venue = Venue(chance, small)
    return {"config": venue.config, "ticks": Teller(venue).ticks}


def random_case(seed: int | str, small: bool = False) -> Json:
    """One case, always the same for a seed. A small one has one symbol and few moments, and can be checked by hand."""
    return make_case(Seeded(random.Random(str(seed))), small)


@st.composite
def money_cases(draw: Callable[[st.SearchStrategy[Any]], Any], *, small: bool = False) -> Json:
    """Cases for hypothesis, which makes a failing one smaller."""
    return make_case(Drawn(draw), small)


PARTS = {"funding": "funding", "dividends": "dividend", "splits": "split"}


def shuffled_deliveries(draw: Callable[[st.SearchStrategy[Any]], Any], case: Json) -> list[tuple[str, Json]]:
    """A case with everything in it delivered alone, in any order that keeps its sense.

    Ticks keep their order, statements of terms too, and a correction follows its fill. What comes a second time is left out: of
    two contents the first delivered counts.
    """
    queues: dict[str, list[tuple[str, Json]]] = {"ticks": [], "terms": []}
    for tick in case["ticks"]:
        own = ("fills", *PARTS, "bars", "instruments", "corrections")
        queues["ticks"].append(("tick", {name: value for name, value in tick.items() if name not in own}))
        for name, kind in PARTS.items():
            for part in tick.get(name) or []:
                queues.setdefault(f"{kind} {part['id']}", [(kind, part)])
        for fill in tick["fills"]:
            if not fill["id"].startswith("bad"):
                queues.setdefault(f"fill {fill['id']}", [("fill", fill)])
        for correction in tick.get("corrections") or []:
            queue = queues[f"fill {correction['fill_id']}"]
            queue += [(correction["kind"], correction)] if (correction["kind"], correction) not in queue else []
        for n, terms in enumerate(tick.get("instruments") or []):
            stated = ("instrument", terms | {"id": f"{tick['snapshot_id']}-{n}"})
            queues["terms"] += [stated] if stated not in queues["terms"] else []
        if tick["bars"]:
            queues[f"bars {len(queues)}"] = [("bars", {"bars": tick["bars"]})]
    order = draw(st.permutations([name for name, queue in queues.items() for _ in queue]))
    turns = {name: iter(queue) for name, queue in queues.items()}
    return [next(turns[name]) for name in order]


def spell(amount: Decimal) -> str:
    """Plain, at most eight places, without trailing zeros.

    >>> spell(Decimal("1.500")), spell(Decimal(1) / 3), spell(Decimal("-0.0"))
    ('1.5', '0.33333333', '0')
    """
    text = format(amount.quantize(Decimal("0.00000001"), ROUND_HALF_EVEN), "f").rstrip("0").rstrip(".")
    return "0" if text in ("-0", "") else text


def spell_time(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def show(case: Json) -> str:
    """A case one tick to a paragraph, for reading."""
    lines = [json.dumps(case["config"])]
    for tick in case["ticks"]:
        lines.append(f"{tick['t']} {tick['snapshot_id']}")
        for name, value in tick.items():
            if name not in ("t", "snapshot_id") and value not in ([], None):
                for one in value if isinstance(value, list) else [value]:
                    lines.append(f"    {name}: {json.dumps(one)}")
    return "\n".join(lines)


if __name__ == "__main__":
    from tests import oracle

    chosen = random_case(sys.argv[1], small="small" in sys.argv[2:])
    print(show(chosen))
    print(json.dumps(oracle.ledger(chosen["ticks"], chosen["config"]), indent=1))
