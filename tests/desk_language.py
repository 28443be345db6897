'''The desk's language: a trading history in lines that a trader would write, replayed by the pure fold and by the engine.

    desk = replay("""
        08:00 buy  0.5 BTC @ 65000 stop 64000 "breakout"
        09:00 sell 0.7 BTC @ 66000
    """)
    assert desk.trades == ["BTC long +500.00 +1.0R closed 09:00", "BTC short 0.2 @ 66000 open"]

A line is one delivery. It begins with the time at which it happened; `known 12:00` at its end says that the agent learned
it only then. `#` begins a comment.

    08:00 buy 0.5 BTC @ 65000         a fill; it may go on with: fee 1, seq 2, rate 1.25, leg LONG, order o-1, trigger stop,
                                      decision d1, liquidated, id f7, at 07:59 (its own time, in a tick), fee_currency BNB,
                                      fee_rate 600, group g1
    08:00 buy 1 BTC @ 100 stop 90 "why"   a tick with the fill and the decision behind it: stop, target, tags a,b, regime R
    09:00 decide BTC stop 109 "why"   a decision alone; it may name orders: orders o-1,o-2; and its own id: id d1
    10:00 funding BTC -0.25           funding received (+) or paid (-)
    08:00 instrument USDJPY base USD  terms of a symbol: accounting cash, multiplier 50, payoff inverse, base USD, from 09:00
    10:00 split SAP 10                so many new units for one old
    10:00 dividend SAP 2.5 ex 09:00   paid now, due to who held before its ex-date; rate 1.1 if it is in another currency
    10:00 amend f2 px 108 fee 0.2     the venue corrects a fill; `void f2` takes it back
    08:00-09:00 bar BTC 1 2 1 2       a bar: open, high, low, close
    10:00 equity 1000                 what the account is worth
    10:00 deposit 500                 money paid in, or out with a minus
    10:00 flat                        a tick whose snapshot holds nothing
    10:00 tick BTC 0.5 @ 65000 mark 65200; buy 0.5 BTC @ 65000; decide BTC "why"
                                      a tick with parts: positions of a snapshot (`flat` for none; without either the tick has
                                      no snapshot), `mark BTC 65200`, and any line above without its time; `id s1` names it

Fills are named f1, f2, ... and ticks s1, s2, ... unless a line gives an `id`; a line with the id of another is a second
delivery of it. All times are of one day, 2026-06-04 UTC.

`replay` puts the history through the engine (a store in memory, an agent in mode `paper` whose clock follows the lines) and
through the pure fold, and compares the two, so that each history proves both.
'''

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from memtape.core.codec import decimal_text
from memtape.core.events import Discrepancy
from memtape.core.ledger.trades import Trade, entry_order
from memtape.engine import AgentMemory, Memory, Receipt
from memtape.lab.conform import golden_row
from tests.desk import fold_deliveries, given_agent, given_memory

DAY = datetime(2026, 6, 4, tzinfo=UTC)
FILL_WORDS = {
    "fee": "fee", "seq": "seq", "rate": "rate", "leg": "leg", "order": "order_id", "decision": "decision", "trigger": "trigger", "id": "id",
    "fee_currency": "fee_currency", "fee_rate": "fee_rate", "group": "group",
}  # fmt: skip
DECISION_WORDS = ("stop", "target", "tags", "orders", "regime", "confidence")


def clock_time(text: str) -> datetime:
    """A time of the day.

    >>> clock_time("08:05").isoformat()
    '2026-06-04T08:05:00+00:00'
    """
    return datetime.combine(DAY, datetime.strptime(text, "%H:%M:%S" if text.count(":") == 2 else "%H:%M").time(), UTC)


@dataclass(frozen=True)
class Delivery:
    """One line: a value of a kind, and when the agent learned of it."""

    kind: str
    data: dict[str, Any]
    known_at: datetime


def read_history(text: str) -> list[Delivery]:
    """The deliveries that a text in the desk's language describes."""
    reader = _Reader()
    return [reader.line(line) for line in text.splitlines() if line.split("#")[0].strip()]


def replay(text: str, *, mode: str = "paper", backfill: bool = False, **settings: Any) -> Desk:
    """Puts a history through the engine and through the pure fold, which must agree.

    `settings` are the agent's, such as dust_qty; with `backfill` everything counts as known from its own time on.
    """
    memory = given_memory(now=DAY)
    desk = Desk(memory, given_agent(memory, settings, mode=mode), settings)
    desk.observe(text, backfill=backfill)
    return desk


@dataclass
class Desk:
    """An agent that has traded a history, and what its ledger says of it in words."""

    memory: Memory
    agent: AgentMemory
    settings: dict[str, Any] = field(default_factory=dict)
    deliveries: list[Delivery] = field(default_factory=list)
    receipts: list[Receipt] = field(default_factory=list)

    def observe(self, text: str, *, backfill: bool = False) -> list[Receipt]:
        """Trades on, and returns the receipts of these lines."""
        new = read_history(text)
        for delivery in new:
            self.memory.clock.at = delivery.known_at  # type: ignore[attr-defined]
            self.receipts.append(self.agent.observe(delivery.data, kind=delivery.kind, backfill=backfill))
        self.deliveries += new
        settings = {**self.settings, "settle_seconds": self.agent.agent.settle_seconds}
        folded = fold_deliveries([(delivery.kind, delivery.data) for delivery in self.deliveries], settings)
        assert [golden_row(trade) for trade in folded.trades] == [golden_row(trade) for trade in self.rows], (
            "fold and engine differ"
        )
        return self.receipts[-len(new) :]

    @property
    def rows(self) -> list[Trade]:
        """All trades with all their columns, oldest entry first."""
        # As the ledger has them, without the labels that bars add when a row is shown.
        with self.agent.view() as view:
            return sorted(view.trades(), key=entry_order)

    @property
    def trade(self) -> Trade:
        """The only trade."""
        (only,) = self.rows
        return only

    @property
    def trades(self) -> list[str]:
        """All trades in words, oldest entry first."""
        return [trade_words(trade) for trade in self.rows]

    def trades_known_at(self, time: str) -> list[str]:
        """All trades in words, as they were known at a time of the day."""
        return [trade_words(trade) for trade in sorted(self.agent.ledger.trades(as_of=clock_time(time)), key=entry_order)]

    @property
    def discrepancies(self) -> list[str]:
        """Where the broker's snapshots differ from its fills, in words, oldest first."""
        return [discrepancy_words(each) for each in reversed(self.agent.ledger.discrepancies())]


def trade_words(trade: Trade) -> str:
    """A trade in words: symbol, side, then outcome and exit, or quantity and price if it is open, then what is unusual."""
    name = f"{trade.symbol} {trade.leg}" if trade.leg else trade.symbol
    unusual = [word for word, applies in (
        ("inferred", trade.quality == "inferred"), ("adopted", trade.adopted), ("liquidated", trade.liquidation_fills > 0),
    ) if applies]  # fmt: skip
    if trade.status == "open":
        cost = "unpriced" if trade.avg_cost is None else f"@ {decimal_text(trade.avg_cost)}"
        words = f"{name} {trade.side} {decimal_text(trade.qty_open)} {cost} open"
    else:
        net = "unpriced" if trade.net_pnl_usd is None else f"{trade.net_pnl_usd:+.2f}"
        r = "" if trade.pnl_r is None else f" {trade.pnl_r:+.1f}R"
        assert trade.exit_at is not None
        words = f"{name} {trade.side} {net}{r} closed {trade.exit_at:%H:%M}"
    return ", ".join([words, *unusual])


def discrepancy_words(found: Discrepancy) -> str:
    """A discrepancy in words."""
    name = f"{found.symbol} {found.leg}" if found.leg else found.symbol
    price = "" if found.price is None else f" @ {decimal_text(found.price)}"
    if found.ledger_qty is None or found.broker_qty is None:
        told = {
            "fill_differs": f"fill {found.fill_id} came again with another {', '.join(found.fields or ())}",
            "fee_unknown": f"fee of {found.fill_id} unknown: {found.fee} {found.fee_currency}",
            "stop_wrong_side": f"stop {found.stop} on the wrong side of {found.price}",
        }
        return f"{found.at:%H:%M} {name} {told[found.why]}"
    if found.why == "fill_twice":
        return f"{found.at:%H:%M} {name} {found.fill_id} and {found.other} may be one fill"
    words = f"{found.at:%H:%M} {name} fills {decimal_text(found.ledger_qty)}, broker {decimal_text(found.broker_qty)}{price}"
    return f"{words}, {found.why}" if found.why != "snapshot" else words


class _Reader:
    """Reads lines, and names what they leave nameless."""

    def __init__(self) -> None:
        self.fills = self.ticks = self.others = 0

    def line(self, line: str) -> Delivery:
        words = _words(line)
        when = words.pop(0)
        known = None
        if len(words) > 2 and words[-2] == "known":
            known, words = clock_time(words[-1]), words[:-2]
        start, _, end = when.partition("-")
        at = clock_time(end or start)
        kind, data = self._value(words, at, clock_time(start))
        return Delivery(kind, data, known or at)

    def _value(self, words: list[str], at: datetime, start: datetime) -> tuple[str, dict[str, Any]]:
        match words[0]:
            case "buy" | "sell":
                fill, decision = self._fill(words, at)
                return ("tick", self._tick(at, fills=[fill], decision=decision)) if decision else ("fill", fill)
            case "funding":
                return "funding", self._funding(words, at)
            case "bar":
                return "bars", {"bars": [_bar(words, start, at)]}
            case "decide":
                self.others += 1
                return "decision", {"id": f"d{self.others}", "t": at, **_decision(words[1:])}
            case "instrument":
                stated = self._instrument(words, at)
                return "instrument", stated
            case "split":
                return "split", self._split(words, at)
            case "dividend":
                return "dividend", self._dividend(words, at)
            case "amend" | "void":
                correction = _correction(words, at)
                return correction["kind"], correction
            case "equity":
                return "equity", {"t": at, "equity": words[1]}
            case "deposit":
                self.others += 1
                return "flow", {"id": f"c{self.others}", "t": at, "usd": words[1]}
            case "flat":
                return "tick", self._tick(at, positions={})
            case "tick":
                return "tick", self._tick_of_parts(words[1:], at)
            case other:
                raise ValueError(f"the desk does not know the word {other!r} in: {' '.join(words)}")

    def _tick_of_parts(self, words: list[str], at: datetime) -> dict[str, Any]:
        tick: dict[str, Any] = {"fills": [], "funding": [], "bars": [], "decision": []}
        for part in _parts(words):
            match part:
                case ["flat"]:
                    tick.setdefault("positions", {})
                case ["id", name]:
                    tick["id"] = name
                case ["mark", symbol, price]:
                    tick.setdefault("marks", {})[symbol] = price
                case ["mark", symbol, price, "rate", rate]:
                    tick.setdefault("marks", {})[symbol] = {"px": price, "rate": rate}
                case ["amend" | "void", *_]:
                    tick.setdefault("corrections", []).append(_correction(part, at))
                case ["equity", amount]:
                    tick["equity"] = amount
                case ["buy" | "sell", *_]:
                    fill, decision = self._fill(part, at)
                    tick["fills"].append(fill)
                    tick["decision"] += [decision] if decision else []
                case ["funding", *_]:
                    tick["funding"].append(self._funding(part, at))
                case ["bar", span, *rest]:
                    start, _, end = span.partition("-")
                    tick["bars"].append(_bar(["bar", *rest], clock_time(start), clock_time(end)))
                case ["decide", *rest]:
                    tick["decision"].append(_decision(rest))
                case [symbol, quantity, *rest]:
                    about = _pairs(["entry_px" if word == "@" else word for word in rest])
                    tick.setdefault("positions", {}).setdefault(symbol, []).append({"qty": quantity, **about})
                case _:
                    raise ValueError(f"the desk does not know this part of a tick: {' '.join(part)}")
        return self._tick(at, **{name: value for name, value in tick.items() if value or name == "positions"})

    def _tick(self, at: datetime, **parts: Any) -> dict[str, Any]:
        self.ticks += 1
        return {"id": f"s{self.ticks}", "t": at, **{name: part for name, part in parts.items() if part is not None}}

    def _fill(self, words: Sequence[str], at: datetime) -> tuple[dict[str, Any], dict[str, Any] | None]:
        """A fill, and the decision behind it if the line gives one."""
        self.fills += 1
        side, quantity, symbol, sign, price, *rest = words
        assert sign == "@", f"write SIDE QUANTITY SYMBOL @ PRICE: {' '.join(words)}"
        fill: dict[str, Any] = {"id": f"f{self.fills}", "t": at, "symbol": symbol, "side": side, "qty": quantity, "px": price}
        decided: list[str] = []
        while rest:
            word = rest.pop(0)
            if word == "liquidated":
                fill["liq"] = True
            elif word == "at":
                fill["t"] = clock_time(rest.pop(0))
            elif word in FILL_WORDS:
                fill[FILL_WORDS[word]] = rest.pop(0)
            else:
                decided += [word, rest.pop(0)] if word in DECISION_WORDS else [word]
        return fill, _decision([symbol, *decided]) if decided else None

    def _instrument(self, words: Sequence[str], at: datetime) -> dict[str, Any]:
        self.others += 1
        _, symbol, *rest = words
        terms: dict[str, Any] = _pairs(rest)
        if "from" in terms:
            terms["valid_from"] = clock_time(terms.pop("from"))
        return {"id": f"i{self.others}", "symbol": symbol, **terms}

    def _split(self, words: Sequence[str], at: datetime) -> dict[str, Any]:
        self.others += 1
        return {"id": f"x{self.others}", "t": at, "symbol": words[1], "ratio": words[2]}

    def _dividend(self, words: Sequence[str], at: datetime) -> dict[str, Any]:
        self.others += 1
        _, symbol, usd, *rest = words
        about: dict[str, Any] = _pairs(rest)
        return {"id": f"v{self.others}", "t": at, "symbol": symbol, "usd": usd, "ex_date": clock_time(about.pop("ex")), **about}

    def _funding(self, words: Sequence[str], at: datetime) -> dict[str, Any]:
        self.others += 1
        _, symbol, usd, *rest = words
        return {"id": f"u{self.others}", "t": at, "symbol": symbol, "usd": usd, **_pairs(rest)}


def _words(line: str) -> list[str]:
    split = shlex.shlex(line, posix=True, punctuation_chars=";")
    split.whitespace_split = True
    return list(split)


def _parts(words: Sequence[str]) -> Iterator[list[str]]:
    part: list[str] = []
    for word in [*words, ";"]:
        if word == ";":
            if part:
                yield part
            part = []
        else:
            part.append(word)


def _decision(words: Sequence[str]) -> dict[str, Any]:
    symbol, *rest = words
    decision: dict[str, Any] = {"symbol": symbol}
    while rest:
        match rest.pop(0):
            case "tags":
                decision["tags"] = rest.pop(0).split(",")
            case "orders":
                decision["order_ids"] = rest.pop(0).split(",")
            case "regime":
                decision["situation"] = {"regime": rest.pop(0)}
            case "stop" | "target" | "confidence" | "id" as word:
                decision[word] = rest.pop(0)
            case reason:
                decision["reason"] = reason
    return decision


def _correction(words: Sequence[str], at: datetime) -> dict[str, Any]:
    word, fill, *rest = words
    content: dict[str, Any] = _pairs(rest)
    if "t" in content:
        content["t"] = clock_time(content["t"]).isoformat()
    return {"kind": f"{word}_fill", "fill_id": fill, "t": at, **({"content": content} if word == "amend" else {})}


def _bar(words: Sequence[str], start: datetime, end: datetime) -> dict[str, Any]:
    _, symbol, opened, high, low, close = words
    return {"symbol": symbol, "t0": start, "t1": end, "o": opened, "h": high, "l": low, "c": close}


def _pairs(words: Sequence[str]) -> dict[str, str]:
    assert len(words) % 2 == 0, f"a word without its value: {' '.join(words)}"
    return dict(zip(words[::2], words[1::2], strict=True))
