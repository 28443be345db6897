"""A venue that speaks Hyperliquid's wire format, on a real loopback socket, and misbehaves the way venues do.

`Venue` holds what the account is and answers questions as POST /info would. A scripted world is shown to it tick by tick; a
block of fills may become visible only some looks later. `Server` puts it behind HTTP, where an answer can be refused, late,
cut short or no JSON at all.
"""

from __future__ import annotations

import json
import threading
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import Decimal
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from random import Random
from types import TracebackType
from typing import Any

from memtape.brokers.hyperliquid import INTERVALS, millis_of
from memtape.brokers.live import ReadRange
from memtape.core.codec import decimal_text
from memtape.core.fills import Fill, Funding
from memtape.core.observed import Bar, HeldPosition, Tick
from memtape.errors import MemtapeError
from memtape.plugs.clock import FixedClock

Json = dict[str, Any]
ADDRESS = "0x" + "ab" * 20
STRANGER = "0x" + "cd" * 20
ORDER_TYPES = {
    "stop": "Stop Market", "stop_entry": "Stop Market", "target": "Take Profit Market", "limit": "Limit", "market": "Market",
}  # fmt: skip


# ---- observed values as the venue would send them ------------------------------------------------------------------------


def fill_json(fill: Fill, start: Decimal, tid: int, closed_pnl: Decimal = Decimal(0)) -> Json:
    """A fill in the venue's words; `start` is what was held before it, `closed_pnl` what it realised before fees."""
    bought, held = fill.side == "buy", start != 0
    after = start + (fill.qty if bought else -fill.qty)
    side = "Long" if (start if held else after) > 0 else "Short"
    turned = start * after < 0
    closing = held and (start > 0) != bought
    words = f"{side} > {'Short' if side == 'Long' else 'Long'}" if turned else f"{'Close' if closing else 'Open'} {side}"
    row = {
        "coin": fill.symbol, "px": decimal_text(fill.px), "sz": decimal_text(fill.qty), "side": "B" if bought else "A",
        "time": millis_of(fill.t), "startPosition": decimal_text(start), "dir": words, "closedPnl": decimal_text(round(closed_pnl, 6)),
        "hash": "0x" + "0" * 64, "oid": int(fill.order_id or 0), "crossed": True, "fee": decimal_text(fill.fee), "tid": tid,
        "feeToken": "USDC", "twapId": None,
    }  # fmt: skip
    return row | ({"liquidation": {"liquidatedUser": ADDRESS, "markPx": row["px"], "method": "market"}} if fill.liq else {})


def order_json(fill: Fill) -> Json:
    """The order behind a fill, as orderStatus tells it."""
    kind = fill.trigger or "market"
    triggered = kind in ("stop", "target", "stop_entry")
    order = {
        "coin": fill.symbol, "side": "B" if fill.side == "buy" else "A", "limitPx": decimal_text(fill.px), "sz": "0.0",
        "oid": int(fill.order_id or 0), "timestamp": millis_of(fill.t), "triggerCondition": "N/A", "isTrigger": triggered,
        "triggerPx": decimal_text(fill.px) if triggered else "0.0", "children": [], "isPositionTpsl": False,
        "reduceOnly": kind in ("stop", "target"), "orderType": ORDER_TYPES[kind], "origSz": decimal_text(fill.qty),
        "tif": "Gtc" if kind == "limit" else None, "cloid": None,
    }  # fmt: skip
    return {"order": order, "status": "filled", "statusTimestamp": millis_of(fill.t)}


def funding_json(paid: Funding) -> Json:
    """A payment in the venue's words."""
    delta = {"type": "funding", "coin": paid.symbol, "usdc": decimal_text(paid.usd), "szi": "1.0", "fundingRate": "0.0000125",
             "nSamples": None}  # fmt: skip
    return {"time": millis_of(paid.t), "hash": "0x" + "0" * 64, "delta": delta}


def update_json(at: datetime, kind: str, n: int = 1, **delta: Any) -> Json:
    """A row of userNonFundingLedgerUpdates; `n` makes the hash of its transaction."""
    return {"time": millis_of(at), "hash": f"0x{n:064x}", "delta": {"type": kind, **delta}}


def candle_json(bar: Bar) -> Json:
    """A bar in the venue's words: its `T` is the last millisecond that belongs to it."""
    name = next(name for name, length in INTERVALS.items() if length == timedelta(seconds=bar.frame))
    prices = {letter: decimal_text(getattr(bar, letter)) for letter in "ohlc"}
    volume = decimal_text(bar.v) if bar.v is not None else None
    return {"t": millis_of(bar.t0), "T": millis_of(bar.t1) - 1, "s": bar.symbol, "i": name, **prices, "v": volume, "n": 7}


def state_json(tick: Tick) -> Json:
    """A snapshot in the venue's words."""
    equity = decimal_text(tick.equity or Decimal(0))
    summary = {"accountValue": equity, "totalNtlPos": "0.0", "totalRawUsd": equity, "totalMarginUsed": "0.0"}
    positions = []
    for symbol, (held,) in sorted((tick.positions or {}).items()):
        worth = abs(held.qty) * (held.mark or Decimal(0))
        positions.append({"type": "oneWay", "position": {
            "coin": symbol, "szi": decimal_text(held.qty), "positionValue": decimal_text(worth), "unrealizedPnl": "0.0",
            "entryPx": None if held.entry_px is None else decimal_text(held.entry_px), "returnOnEquity": "0.0",
            "liquidationPx": None, "marginUsed": "0.0", "maxLeverage": 25,
            "leverage": {"type": "cross", "value": int(held.leverage or 1)},
            "cumFunding": {"allTime": "0.0", "sinceOpen": "0.0", "sinceChange": "0.0"},
        }})  # fmt: skip
    return {"marginSummary": summary, "crossMarginSummary": summary, "crossMaintenanceMarginUsed": "0.0",
            "withdrawable": equity, "time": millis_of(tick.t), "assetPositions": positions}  # fmt: skip


# ---- the venue -----------------------------------------------------------------------------------------------------------


class Refused(Exception):
    """The venue does not answer a question: a status and a body instead."""

    def __init__(self, status: int, body: Any) -> None:
        super().__init__(status, body)
        self.status, self.body = status, body


CANDLE_QUESTION = {"coin": str, "interval": str, "startTime": int, "endTime": int}


@dataclass
class Venue:
    """An account as it is to be seen at a moment, and how it is told."""

    page: int = 2000  # of fills
    fills_kept: int = 10_000  # the venue forgets all but the most recent ones
    payment_page: int = 500  # of funding and of other updates of the account
    candle_page: int = 5000
    unlisted: set[str] = field(default_factory=set)  # coins that the venue does not have
    state: Json = field(default_factory=lambda: {"time": 0, "marginSummary": {"accountValue": "0.0"}, "assetPositions": []})
    fills: list[Json] = field(default_factory=list)  # those that are visible
    funding: list[Json] = field(default_factory=list)
    updates: list[Json] = field(default_factory=list)  # deposits, withdrawals, transfers and others
    candles: list[Json] = field(default_factory=list)
    orders: dict[int, Json] = field(default_factory=dict)
    forgotten_orders: bool = False  # historicalOrders no longer tells of them, orderStatus does
    doubled: bool = False
    knows_reversed: bool = True  # False: it ignores from which end fills are asked for
    shuffled: int | None = None  # the seed of the disorder in which rows come
    asked: list[Json] = field(default_factory=list)
    held: dict[str, Decimal] = field(default_factory=dict)
    cost: dict[str, Decimal] = field(default_factory=dict)  # the average price of what is held
    waiting: list[tuple[int, Json]] = field(default_factory=list)  # looks until it is visible, and what
    _tids: int = 0

    def show(self, tick: Tick, delays: dict[tuple[str, int], int] | None = None) -> None:
        """Let the scripted world move on to a tick. A block of fills, (coin, time), may stay hidden for some looks."""
        self.state = state_json(tick)
        for fill in tick.fills:
            self._tids += 1
            start = self.held.get(fill.symbol, Decimal(0))
            realized = self._book(fill, start)
            self.orders[int(fill.order_id or 0)] = order_json(fill)
            delay = (delays or {}).get((fill.symbol, millis_of(fill.t)), 0)
            self.waiting.append((delay, fill_json(fill, start, self._tids, realized)))
        self.funding += [funding_json(paid) for paid in tick.funding]
        self.candles += [candle_json(bar) for bar in tick.bars]
        self._reveal()

    def _book(self, fill: Fill, start: Decimal) -> Decimal:
        """Count a fill at average cost, as the venue does. Returns what it realised before fees."""
        after = start + (fill.qty if fill.side == "buy" else -fill.qty)
        cost, realized = self.cost.get(fill.symbol, fill.px), Decimal(0)
        if start * after < 0 or abs(after) < abs(start):
            realized = (fill.px - cost) * (start if start * after <= 0 else start - after)
        if start * after < 0 or not start:
            cost = fill.px
        elif abs(after) > abs(start):
            cost = (cost * abs(start) + fill.px * fill.qty) / abs(after)
        self.held[fill.symbol], self.cost[fill.symbol] = after, cost
        return realized

    def pass_by(self) -> None:
        """One look more has gone by."""
        self.waiting = [(delay - 1, row) for delay, row in self.waiting]
        self._reveal()

    def _reveal(self) -> None:
        self.fills += [row for delay, row in self.waiting if delay <= 0]
        self.waiting = [(delay, row) for delay, row in self.waiting if delay > 0]

    def info(self, question: Json) -> Any:
        """The answer to a question, as POST /info gives it."""
        self.asked.append(question)
        match question["type"]:
            case "clearinghouseState":
                return self.state
            case "userFills":
                return self._told(self._recent_fills()[-self.page :][::-1])
            case "userFillsByTime":
                found = self._between(self._recent_fills(), question)
                return self._told(found[-self.page :][::-1] if question.get("reversed") and self.knows_reversed else found[: self.page])
            case "userFunding":
                return self._told(self._between(self.funding, question)[: self.payment_page])
            case "userNonFundingLedgerUpdates":
                return self._told(self._between(self.updates, question)[: self.payment_page])
            case "candleSnapshot":
                return self._candles(question)
            case "historicalOrders":
                return [] if self.forgotten_orders else [self.orders[oid] for oid in sorted(self.orders, reverse=True)][:2000]
            case "orderStatus":
                found = self.orders.get(question["oid"])
                return {"status": "order", "order": found} if found else {"status": "unknownOid"}
        raise KeyError(question["type"])

    def _recent_fills(self) -> list[Json]:
        return sorted(self.fills, key=lambda row: row["time"])[-self.fills_kept :]

    def _candles(self, question: Json) -> list[Json]:
        """Candles by their begin, the oldest first, so many at most. A question in another form is not read at all."""
        about = question.get("req")
        fits = set(question) == {"type", "req"} and isinstance(about, dict) and set(about) == set(CANDLE_QUESTION)
        if not fits or not all(type(about[name]) is kind for name, kind in CANDLE_QUESTION.items()):
            raise Refused(422, "Failed to deserialize the JSON body into the target type")
        if about["interval"] not in INTERVALS or about["startTime"] > about["endTime"]:
            raise Refused(422, "Failed to deserialize the JSON body into the target type")
        if about["coin"] in self.unlisted:
            raise Refused(500, None)
        found = [row for row in self.candles if (row["s"], row["i"]) == (about["coin"], about["interval"])
                 and about["startTime"] <= row["t"] <= about["endTime"]]  # fmt: skip
        return sorted(found, key=lambda row: row["t"])[: self.candle_page]

    def _between(self, rows: Iterable[Json], question: Json) -> list[Json]:
        if question.get("user") != ADDRESS or type(question.get("startTime")) is not int:
            raise Refused(422, "Failed to deserialize the JSON body into the target type")
        end = question.get("endTime", 2**62)
        return sorted((row for row in rows if question["startTime"] <= row["time"] <= end), key=lambda row: row["time"])

    def _told(self, rows: list[Json]) -> list[Json]:
        """Rows as they arrive: twice, or in disorder."""
        told = rows + rows if self.doubled else list(rows)
        if self.shuffled is not None:
            Random(self.shuffled).shuffle(told)
        return told


# ---- the socket ----------------------------------------------------------------------------------------------------------


class Server:
    """A venue behind HTTP. `trouble` is what the next answers suffer: a status, 'silent', 'cut', 'garbage' or 'fine'."""

    def __init__(self, venue: Venue | None = None) -> None:
        self.venue = venue or Venue()
        self.trouble: deque[str] = deque()
        self._over = threading.Event()
        owner = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                question = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                trouble = owner.trouble.popleft() if owner.trouble else "fine"
                if trouble == "silent":
                    owner._over.wait(30)  # longer than any client waits; ends with the server
                    return
                status = int(trouble) if trouble.isdigit() else 200 if self.path == "/info" else 404
                try:
                    body = json.dumps(owner.venue.info(question) if status == 200 else None).encode()
                except Refused as refused:
                    status, body = refused.status, json.dumps(refused.body).encode()
                if trouble == "garbage":
                    body = b"<html>502 Bad Gateway</html>"
                self.send_response(status)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body[: len(body) // 2] if trouble == "cut" else body)

            def log_message(self, format: str, *args: object) -> None:
                """Keep quiet."""

        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._http.daemon_threads = True
        self._thread = threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self._http.server_address[1]}"

    def __enter__(self) -> Server:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._over.set()
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()


# ---- without a socket ----------------------------------------------------------------------------------------------------


class Account:
    """A source that shows what it is told to show."""

    def __init__(self, clock: FixedClock) -> None:
        self.clock, self.took = clock, 0
        self.asked: list[ReadRange | None] = []
        self.problems: list[MemtapeError] = []
        self.fills: tuple[Fill, ...] = ()
        self.positions: dict[str, tuple[HeldPosition, ...]] = {}
        self.equity = Decimal(5000)

    def poll(self, since: ReadRange | None, /) -> Tick:
        self.asked.append(since)
        if self.problems:
            raise self.problems.pop(0)
        t = self.clock.at
        return Tick(id=f"s{t:%d%H%M%S}", t=t, positions=self.positions, fills=self.fills, equity=self.equity)

    def confirm(self) -> None:
        self.took += 1


class Nights:
    """Lets time pass, and ends after so many waits."""

    def __init__(self, clock: FixedClock, waits: int) -> None:
        self.clock, self.waits = clock, waits
        self.waited: list[float] = []

    def wait(self, timeout: float, /) -> bool:
        self.waited.append(timeout)
        self.clock.at += timedelta(seconds=timeout)
        return len(self.waited) == self.waits
