"""Live accounts: each poll of a source gives one complete tick, or an error.

A tick has the time of the venue's own clock. The state is read first; later answers count only up to the time of that state, and
the rest comes with the next tick. Venues show fills late, twice and in any order. So each poll reads back over an overlap, and
reads everything since the beginning when a source is new and once a day. The observer recognises what it already has.

A source also says what it could not read (`coverage`): coins that are left out, rows that the venue did not give.

>>> answers = {"clearinghouseState": {"time": 1780576260000, "marginSummary": {"accountValue": "5120.5"}, "assetPositions": []},
...            "userFillsByTime": []}
>>> source = Hyperliquid("0x" + "a" * 40, ask=lambda question: answers[question["type"]])
>>> tick = source.poll(None)
>>> tick.id, str(tick.equity), tick.positions
('hyperliquid-1780576260000', '5120.5', {})
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import field, replace
from datetime import datetime, timedelta
from decimal import Decimal
from http.client import HTTPException
from typing import Any, NamedTuple, Protocol, runtime_checkable
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit
from urllib.request import Request, urlopen

from memtape.brokers import hyperliquid as hl
from memtape.core.codec import EPOCH
from memtape.core.fills import Fill
from memtape.core.ids import TickId
from memtape.core.observed import Bar, Tick
from memtape.core.value_class import dataclass
from memtape.core.venue_coverage import ReadingGap, VenueCoverage
from memtape.errors import Invalid, Unreachable

MAINNET = "https://api.hyperliquid.xyz"
MAX_ANSWER_BYTES = 64 * 2**20
MIN_PAGE_ROWS = 500  # a shorter page is the last one
FILLS_PER_PAGE = 2_000  # at most
FILLS_KEPT = 10_000  # the venue forgets all but the most recent fills
ROW_NAMES = {"userFillsByTime": "fills", "userFunding": "funding", "userNonFundingLedgerUpdates": "account updates"}
FIRST_CANDLES = 720  # read when a coin is first followed: as many as a situation uses
CANDLES_PER_ANSWER = 5_000
CANDLE_RETRY = timedelta(minutes=1)  # after a candle was missing: a minute without trades has none
AskVenue = Callable[[Mapping[str, Any]], Any]


class ReadRange(NamedTuple):
    """The part of an account's history that was read before."""

    began: datetime
    last_read: datetime


class LiveSource(Protocol):
    """An account at a venue."""

    def poll(self, since: ReadRange | None, /) -> Tick:
        """Returns the present state and what happened since; at first (None) the state alone. It may repeat itself."""
        ...

    def confirm(self) -> None:
        """The caller has stored the last tick: its content need not be read again."""
        ...


@runtime_checkable
class CoveringSource(Protocol):
    """A source that knows what it does not read."""

    @property
    def coverage(self) -> VenueCoverage:
        """What the polls so far have read and could not read."""
        ...


# ---- questions ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class JsonEndpoint:
    """A venue's address for questions in JSON. Temporary failures (busy, down, slow) are retried, with growing pauses."""

    url: str
    timeout: float = 10.0
    attempts: int = 4
    sleep: Callable[[float], object] = time.sleep

    def __post_init__(self) -> None:
        parts = urlsplit(self.url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise Invalid("url", f"'{self.url[:80]}' is not an address of a venue", f"Give one like {MAINNET}")

    def __call__(self, question: Mapping[str, Any]) -> Any:
        """Returns the answer to a question. Raises Unreachable after the last attempt."""
        problem = ""
        for attempt in range(self.attempts):
            if attempt:
                self.sleep(float(2 ** (attempt - 1)))
            answer, problem = self._once(question)
            if not problem:
                return answer
        times = f" ({self.attempts} times)" if self.attempts > 1 else ""
        raise Unreachable(source=self.url, problem=f"{question.get('type')}: {problem}{times}")

    def _once(self, question: Mapping[str, Any]) -> tuple[Any, str]:
        """Returns the answer, or the reason of a temporary failure."""
        headers = {"Content-Type": "application/json", "Accept": "application/json"}
        request = Request(self.url, data=json.dumps(question).encode(), headers=headers, method="POST")
        try:
            with urlopen(request, timeout=self.timeout) as response:
                body = response.read(MAX_ANSWER_BYTES + 1)
        except HTTPError as error:
            with error:
                if error.code == 429 or error.code >= 500:
                    return None, f"status {error.code}"
                text = error.read(200).decode("utf-8", "replace")
            problem = f"{question.get('type')}: status {error.code}, {text!r}"
            raise Unreachable(source=self.url, problem=problem) from None
        except (URLError, TimeoutError, ConnectionError, HTTPException) as error:
            return None, str(getattr(error, "reason", "") or error) or type(error).__name__
        if len(body) > MAX_ANSWER_BYTES:
            return None, f"more than {MAX_ANSWER_BYTES} bytes"
        try:
            return json.loads(body, parse_float=Decimal), ""
        except ValueError:
            return None, f"not JSON: {body[:40]!r}"


# ---- Hyperliquid -------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class SourceState:
    """What a source remembers between ticks to ask less. All of it can be read again."""

    read_all: datetime | None = None  # when all fills since the beginning were last read
    rows: dict[str, hl.FillRow] = field(default_factory=dict)  # of the overlap, and the last row of each coin before it
    triggers: dict[int, str | None] = field(default_factory=dict)  # by order id
    candles: dict[tuple[str, str], tuple[datetime, datetime]] = field(default_factory=dict)  # last candle's end, last question
    knows_oldest: bool = False  # the venue was asked for its oldest fill
    coverage: VenueCoverage = field(default_factory=VenueCoverage)

    def copy(self) -> SourceState:
        """Returns a copy."""
        return replace(self, rows=dict(self.rows), triggers=dict(self.triggers), candles=dict(self.candles))

    def add(self, coverage: VenueCoverage) -> None:
        """Note what one answer covered or left out."""
        self.coverage = self.coverage.joined(coverage)


class Hyperliquid:
    """One account's perpetuals on Hyperliquid, read by its public address, without key or signature.

    Spot fills and fills of other builders' exchanges are left out (`left_out` counts those of the last poll): the state does not
    show their positions, so it would contradict every one of them. `coverage` names them, and what the venue did not give.
    Name the `coins` you trade to get their candles before the first trade; a coin with a position is always followed. `rates` are
    dollars per token, for fees that are not in USDC.
    """

    def __init__(
        self, address: str, base_url: str = MAINNET, *, coins: Iterable[str] = (), intervals: Iterable[str] = ("5m", "1h"),
        overlap: timedelta = timedelta(hours=1), reread: timedelta = timedelta(days=1), dex: str = "",
        rates: Mapping[str, Decimal] | None = None, timeout: float = 10.0, attempts: int = 4,
        sleep: Callable[[float], object] = time.sleep, ask: AskVenue | None = None, page_rows: int = MIN_PAGE_ROWS,
    ) -> None:  # fmt: skip
        if not re.fullmatch("0x[0-9a-fA-F]{40}", address):
            raise Invalid("address", f"'{address[:50]}' is not an account", "Give 0x and 40 hexadecimal digits")
        self.address, self.dex = address, dex
        self.coins = tuple(sorted(set(coins)))
        self.intervals = {name: hl.candle_length(name) for name in intervals}
        self.overlap, self.reread, self.rates = overlap, reread, dict(rates or {})
        self.left_out: dict[str, int] = {}
        self._page_rows = page_rows
        self._ask = ask or JsonEndpoint(f"{base_url.rstrip('/')}/info", timeout, attempts, sleep)
        self._confirmed, self._pending = SourceState(), SourceState()

    def poll(self, since: ReadRange | None, /) -> Tick:
        """Returns the present state and everything that happened since. Raises Unreachable and returns nothing in part."""
        where = {"dex": self.dex} if self.dex else {}
        account = hl.account_from_answer(self._ask({"type": "clearinghouseState", "user": self.address, **where}))
        memory = self._confirmed.copy()
        fills: list[Fill] = []
        paid: list[Any] = []
        moved = hl.AccountFlows()
        if not memory.knows_oldest:
            self._find_oldest_fill(account.t, since, memory)
        if since is not None:
            fresh = max(since.began, since.last_read - self.overlap)
            fills = self._fills(account, since, fresh, memory)
            paid = self._paged("userFunding", fresh, account.t, memory)
            updates = self._paged("userNonFundingLedgerUpdates", fresh, account.t, memory)
            moved = hl.cash_flows_from_answer(updates, self.address, self.dex)
            memory.add(VenueCoverage(unread_updates=moved.unread))
        bars = self._bars(account, memory)
        closes = {bar.symbol: bar.c for bar in bars}
        self._pending = memory
        return Tick(
            id=TickId(f"hyperliquid-{hl.millis_of(account.t)}"), t=account.t, equity=account.equity, positions=account.positions,
            marks=dict(sorted({**closes, **account.marks}.items())), fills=tuple(fills), bars=tuple(bars),
            funding=tuple(one for one in hl.funding_from_answer(paid) if self._follows(one.symbol)), cash_flows=moved.flows,
        )  # fmt: skip

    def confirm(self) -> None:
        """Keep what the last poll remembered, because its tick is stored."""
        self._confirmed = self._pending

    @property
    def coverage(self) -> VenueCoverage:
        """What the polls so far have read and could not read."""
        return self._pending.coverage

    def _follows(self, coin: str) -> bool:
        return not hl.is_spot(coin) and hl.dex_of(coin) == self.dex

    # ---- fills and funding -------------------------------------------------------------------------------------------

    def _find_oldest_fill(self, now: datetime, since: ReadRange | None, memory: SourceState) -> None:
        """Note the oldest fill that the venue still has: one page from the beginning of time starts with it.

        A fill after the record began says nothing about the history before it.
        """
        question = {"type": "userFillsByTime", "user": self.address, "startTime": 0, "endTime": hl.millis_of(now)}
        rows = hl.fill_rows(self._ask(question), "userFillsByTime")
        oldest = min((hl.time_from_millis(row.time) for row in rows), default=None)
        if oldest is not None and since is not None and oldest > since.began:
            oldest = None
        memory.add(VenueCoverage(oldest_fill=oldest, left_out=tuple(self._foreign(rows))))
        memory.knows_oldest = True

    def _foreign(self, rows: Iterable[hl.FillRow]) -> dict[str, int]:
        """Returns the coins that are left out, with the number of their fills."""
        coins = [row.coin for row in rows if not self._follows(row.coin)]
        return {coin: coins.count(coin) for coin in sorted(set(coins))}

    def _fills(self, account: hl.VenueAccount, since: ReadRange, fresh: datetime, memory: SourceState) -> list[Fill]:
        """Returns the fills since a moment, in order; all since the beginning if that was not read for a day."""
        start, now = fresh, account.t
        if memory.read_all is None or now - memory.read_all >= self.reread:
            start, memory.read_all = since.began, now
        found = hl.fill_rows(self._paged("userFillsByTime", start, now, memory), "userFillsByTime")
        self.left_out = self._foreign(found)
        memory.add(VenueCoverage(left_out=tuple(self.left_out)))
        # The venue gave as many as it keeps: what happened between the last read and the oldest of them may be lost.
        if len(found) >= FILLS_KEPT and (oldest := hl.time_from_millis(found[0].time)) > since.last_read:
            memory.add(VenueCoverage(gaps=(ReadingGap(what="fills", since=since.last_read, until=oldest),)))
        own = {row.key: row for row in found if self._follows(row.coin)}
        ordered = hl.order_fills({**memory.rows, **own}.values(), account.held)
        self._find_triggers([row for row in ordered if row.key in own], memory.triggers, fresh)
        fills = hl.fills_from_rows(ordered, self.address, memory.triggers, self.rates)
        last = {row.coin: row.key for row in ordered if hl.time_from_millis(row.time) <= fresh}
        memory.rows = {row.key: row for row in ordered if hl.time_from_millis(row.time) > fresh or last[row.coin] == row.key}
        needed = {row.oid for row in memory.rows.values()}
        memory.triggers = {oid: trigger for oid, trigger in memory.triggers.items() if oid in needed}
        return [fill for fill in fills if fill.id in own]

    def _find_triggers(self, rows: Iterable[hl.FillRow], triggers: dict[int, str | None], fresh: datetime) -> None:
        """Find the triggers of orders. One answer covers the last 2,000 orders; other recent orders are asked for one by one."""
        unknown = {row.oid: row for row in rows if row.oid not in triggers}
        if not unknown:
            return
        triggers |= hl.triggers_from_answer(self._ask({"type": "historicalOrders", "user": self.address}))
        for oid, row in sorted(unknown.items()):
            if oid not in triggers:
                recent = oid and hl.time_from_millis(row.time) > fresh
                question = {"type": "orderStatus", "user": self.address, "oid": oid}
                triggers[oid] = hl.triggers_from_answer(self._ask(question)).get(oid) if recent else None

    def _paged(self, kind: str, start: datetime, until: datetime, memory: SourceState) -> list[Any]:
        """Returns every row of a kind after a moment. Pages come oldest first; the next begins where the last one ended."""
        first, end = hl.millis_of(start) + 1, hl.millis_of(until)
        found: dict[str, Any] = {}
        while first <= end:
            full, rows = self._page(kind, first, end)
            found |= rows
            if not full or not rows:
                break
            last = max(row["time"] for row in rows.values())
            if last == first:
                # The page has one millisecond only, so the next page would be the same.
                found |= self._crowded_millisecond(kind, first, rows, memory)
                last += 1
            first = last
        return list(found.values())

    def _page(self, kind: str, first: int, end: int, **more: Any) -> tuple[bool, dict[str, Any]]:
        """Returns True if more rows may follow, and the rows of one answer, each once by its content."""
        page = self._ask({"type": kind, "user": self.address, "startTime": first, "endTime": end, **more})
        rows: list[Any] = page if isinstance(page, list) else [page]
        if not all(isinstance(row, Mapping) and isinstance(row.get("time"), int) for row in rows):
            raise Unreachable(source=self.address, problem=f"{kind}: the answer is not a list of rows with times")
        inside = {json.dumps(row, sort_keys=True, default=str): row for row in rows if first <= row["time"] <= end}
        return len(rows) >= self._page_rows, inside

    def _crowded_millisecond(self, kind: str, millis: int, rows: Mapping[str, Any], memory: SourceState) -> dict[str, Any]:
        """Returns the other rows of a millisecond that fills a page, or notes that some may be missing.

        The venue has nothing finer than a millisecond to ask for. Of fills it gives a page from the other end too: if the two
        pages have a row in common, they have all of them. Two whole pages that are equal prove nothing: the venue may have
        ignored from which end it was asked.
        """
        others: dict[str, Any] = {}
        if kind == "userFillsByTime":
            others = self._page(kind, millis, millis, reversed=True)[1]
            same = rows.keys() == others.keys() and len(rows) >= FILLS_PER_PAGE
            if not same and not rows.keys().isdisjoint(others):
                return others
        at = hl.time_from_millis(millis)
        memory.add(VenueCoverage(gaps=(ReadingGap(what=ROW_NAMES[kind], since=at, until=at),)))
        return others

    # ---- candles -----------------------------------------------------------------------------------------------------

    def _bars(self, account: hl.VenueAccount, memory: SourceState) -> list[Bar]:
        """Returns the candles that have ended since the last poll."""
        found: list[Bar] = []
        now = account.t
        for coin in sorted({*self.coins, *account.held, *(row.coin for row in memory.rows.values())}):
            for name, length in self.intervals.items():
                ended, last_question = memory.candles.get((coin, name), (None, EPOCH))
                if ended is not None and now < max(ended + length, last_question + min(length, CANDLE_RETRY)):
                    continue
                begin = ended or max(now - FIRST_CANDLES * length, EPOCH)
                bars = [bar for bar in read_candles(self._ask, coin, name, begin, now) if bar.t1 <= now]
                memory.candles[coin, name] = max([bar.t1 for bar in bars], default=begin), now
                found += bars
        return sorted(found, key=lambda bar: (bar.t1, bar.symbol, bar.frame))


def read_candles(ask: AskVenue, coin: str, interval: str, since: datetime, now: datetime) -> list[Bar]:
    """Returns the candles of a coin that began in a time, in order; the last one may be incomplete.

    An answer has a limited number of candles, so a longer time is asked for in parts.
    """
    length = hl.candle_length(interval)
    found: dict[datetime, Bar] = {}
    while since <= now:
        until = min(since + CANDLES_PER_ANSWER * length - hl.MILLISECOND, now)
        about = {"coin": coin, "interval": interval, "startTime": hl.millis_of(since), "endTime": hl.millis_of(until)}
        bars = hl.bars_from_candles(ask({"type": "candleSnapshot", "req": about}))
        inside = {bar.t0: bar for bar in bars if since <= bar.t0 <= until and timedelta(seconds=bar.frame) == length}
        found |= inside
        # A full page that ends early was cut by the venue: the next one begins where it ended.
        cut = len(bars) >= MIN_PAGE_ROWS and inside and max(inside) + length <= until
        since = max(inside) + length if cut else until + hl.MILLISECOND
    return [found[t0] for t0 in sorted(found)]


class HyperliquidCandles:
    """The candles of any coin on Hyperliquid. They are public: no account is needed.

    A question is asked once: who reads candles regularly asks again the next time.
    """

    def __init__(self, base_url: str = MAINNET, *, timeout: float = 10.0, ask: AskVenue | None = None) -> None:
        self._ask = ask or JsonEndpoint(f"{base_url.rstrip('/')}/info", timeout, attempts=1)

    def completed(self, symbol: str, interval: str, since: datetime, now: datetime) -> list[Bar]:
        """Returns the completed candles of a symbol that began since a moment, in order. Raises Unreachable."""
        return hl.completed_bars(read_candles(self._ask, hl.symbol_coin(symbol), interval, since, now), now)
