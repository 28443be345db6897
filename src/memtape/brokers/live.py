"""Accounts that are read live: a source is asked again and again, and each time gives one tick, whole or not at all.

A tick is as of the venue's own clock: the state is read first, and of what is read after it only what the state can contain is
taken; the rest comes with the next tick. Venues show fills late, twice and in any order, so each poll reads back over an
overlap, and all since the beginning when a source is new and once a day. Whoever observes knows what it has seen already.

>>> said = {"clearinghouseState": {"time": 1780576260000, "marginSummary": {"accountValue": "5120.5"}, "assetPositions": []}}
>>> source = Hyperliquid("0x" + "a" * 40, ask=lambda question: said[question["type"]])
>>> tick = source.poll(None)
>>> tick.id, str(tick.equity), tick.positions
('hyperliquid-1780576260000', '5120.5', {})
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import Decimal
from http.client import HTTPException
from typing import Any, NamedTuple, Protocol
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit
from urllib.request import Request, urlopen

from memtape.brokers import hyperliquid as hl
from memtape.core.codec import EPOCH
from memtape.core.ids import TickId
from memtape.core.observed import Bar, Fill, Tick
from memtape.errors import Invalid, Unreachable

MAINNET = "https://api.hyperliquid.xyz"
MOST_BYTES = 64 * 2**20
PAGE = 500  # no page of the venue is shorter and yet followed by another
LOOKED_BACK = 720  # candles read when a coin is first followed: as many as are ever looked at for its situation
ASKED_AGAIN = timedelta(minutes=1)  # a candle that is not there yet: a minute without trades has none at all
Ask = Callable[[Mapping[str, Any]], Any]


class Since(NamedTuple):
    """What is known of an account already: from when on it was looked at, and until when it was seen."""

    began: datetime
    seen: datetime


class LiveSource(Protocol):
    """An account at a venue."""

    def poll(self, since: Since | None, /) -> Tick:
        """Its state now, with what happened since; on the first look (None) the state alone. Repeats itself on purpose."""
        ...

    def taken(self) -> None:
        """The last tick is safe: what it brought need not be brought again."""
        ...


# ---- asking ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A venue's door for questions in JSON. What passes (busy, down, slow, garbled) is tried again, later each time."""

    url: str
    timeout: float = 10.0
    attempts: int = 4
    sleep: Callable[[float], object] = time.sleep

    def __post_init__(self) -> None:
        parts = urlsplit(self.url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise Invalid("url", f"'{self.url[:80]}' is not an address of a venue", f"Give one like {MAINNET}")

    def __call__(self, question: Mapping[str, Any]) -> Any:
        """The answer to a question."""
        problem = ""
        for attempt in range(self.attempts):
            if attempt:
                self.sleep(float(2 ** (attempt - 1)))
            answer, problem = self._once(question)
            if not problem:
                return answer
        raise Unreachable(source=self.url, problem=f"{question.get('type')}: {problem} ({self.attempts} times)")

    def _once(self, question: Mapping[str, Any]) -> tuple[Any, str]:
        """The answer, or what stands in its way for now."""
        headers = {"Content-Type": "application/json", "Accept": "application/json"}
        request = Request(self.url, data=json.dumps(question).encode(), headers=headers, method="POST")
        try:
            with urlopen(request, timeout=self.timeout) as response:
                body = response.read(MOST_BYTES + 1)
        except HTTPError as error:
            with error:
                if error.code == 429 or error.code >= 500:
                    return None, f"status {error.code}"
                said = error.read(200).decode("utf-8", "replace")
            problem = f"{question.get('type')}: status {error.code}, {said!r}"
            raise Unreachable(source=self.url, problem=problem) from None
        except (URLError, TimeoutError, ConnectionError, HTTPException) as error:
            return None, str(getattr(error, "reason", "") or error) or type(error).__name__
        if len(body) > MOST_BYTES:
            return None, f"more than {MOST_BYTES} bytes"
        try:
            return json.loads(body, parse_float=Decimal), ""
        except ValueError:
            return None, f"no JSON but {body[:40]!r}"


# ---- Hyperliquid -------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class KnownIds:
    """What a source keeps from one tick to the next, to ask less: all of it could be asked for again."""

    read_all: datetime | None = None  # when all fills since the beginning were last read
    rows: dict[str, hl.FillRow] = field(default_factory=dict)  # of the overlap, and the last one of each coin before it
    triggers: dict[int, str | None] = field(default_factory=dict)  # by order id
    charted: dict[tuple[str, str], tuple[datetime, datetime]] = field(default_factory=dict)  # last candle's end, when asked

    def copy(self) -> KnownIds:
        """Another, to change."""
        return KnownIds(self.read_all, dict(self.rows), dict(self.triggers), dict(self.charted))


class Hyperliquid:
    """One account's perpetuals on Hyperliquid, read by its public address: no key, no signature, nothing to lose.

    Spot fills and those of other builders' exchanges are left out (`left_out` counts those of the last poll): the state that is
    read does not show what they hold, so it would contradict every one of them. Name the `coins` you trade to have their
    candles before the first trade; a coin that is held is followed anyway. `rates` are dollars per token for fees that are
    not in USDC.
    """

    def __init__(
        self, address: str, base_url: str = MAINNET, *, coins: Iterable[str] = (), intervals: Iterable[str] = ("5m", "1h"),
        overlap: timedelta = timedelta(hours=1), reread: timedelta = timedelta(days=1), dex: str = "",
        rates: Mapping[str, Decimal] | None = None, timeout: float = 10.0, attempts: int = 4,
        sleep: Callable[[float], object] = time.sleep, ask: Ask | None = None,
    ) -> None:  # fmt: skip
        if not re.fullmatch("0x[0-9a-fA-F]{40}", address):
            raise Invalid("address", f"'{address[:50]}' is not an account", "Give 0x and 40 hexadecimal digits")
        self.address, self.dex = address, dex
        self.coins = tuple(sorted(set(coins)))
        self.intervals = {name: hl.interval_of(name) for name in intervals}
        self.overlap, self.reread, self.rates = overlap, reread, dict(rates or {})
        self.left_out: dict[str, int] = {}
        self._ask = ask or Endpoint(f"{base_url.rstrip('/')}/info", timeout, attempts, sleep)
        self._kept, self._next = KnownIds(), KnownIds()

    def poll(self, since: Since | None, /) -> Tick:
        """The account now, and what happened since: all of it, or an error and nothing."""
        where = {"dex": self.dex} if self.dex else {}
        account = hl.account_of(self._ask({"type": "clearinghouseState", "user": self.address, **where}))
        memory = self._kept.copy()
        fills: list[Fill] = []
        paid: list[Any] = []
        if since is not None:
            fresh = max(since.began, since.seen - self.overlap)
            fills = self._fills(account, since.began, fresh, memory)
            paid = self._paged("userFunding", fresh, account.t)
        bars = self._bars(account, memory)
        closes = {bar.symbol: bar.c for bar in bars}
        self._next = memory
        return Tick(
            id=TickId(f"hyperliquid-{hl.millis_of(account.t)}"), t=account.t, equity=account.equity, positions=account.positions,
            marks=dict(sorted({**closes, **account.marks}.items())), fills=tuple(fills), bars=tuple(bars),
            funding=tuple(one for one in hl.funding_of(paid) if self._follows(one.symbol)),
        )  # fmt: skip

    def taken(self) -> None:
        """Remember what led to the last tick, now that it is safe."""
        self._kept = self._next

    def _follows(self, coin: str) -> bool:
        return not hl.is_spot(coin) and hl.dex_of(coin) == self.dex

    # ---- fills and funding -------------------------------------------------------------------------------------------

    def _fills(self, account: hl.VenueAccount, began: datetime, fresh: datetime, memory: KnownIds) -> list[Fill]:
        """The fills since a moment, in order; all since the beginning when that was not done for long."""
        start, now = fresh, account.t
        if memory.read_all is None or now - memory.read_all >= self.reread:
            start, memory.read_all = began, now
        found = hl.fill_rows(self._paged("userFillsByTime", start, now), "userFillsByTime")
        strangers = [row.coin for row in found if not self._follows(row.coin)]
        self.left_out = {coin: strangers.count(coin) for coin in sorted(set(strangers))}
        own = {row.key: row for row in found if self._follows(row.coin)}
        ordered = hl.oldest_first({**memory.rows, **own}.values(), account.held)
        self._explain([row for row in ordered if row.key in own], memory.triggers, fresh)
        fills = hl.fill_reason(ordered, self.address, memory.triggers, self.rates)
        last = {row.coin: row.key for row in ordered if hl.time_of_millis(row.time) <= fresh}
        memory.rows = {row.key: row for row in ordered if hl.time_of_millis(row.time) > fresh or last[row.coin] == row.key}
        needed = {row.oid for row in memory.rows.values()}
        memory.triggers = {oid: trigger for oid, trigger in memory.triggers.items() if oid in needed}
        return [fill for fill in fills if fill.id in own]

    def _explain(self, rows: Iterable[hl.FillRow], triggers: dict[int, str | None], fresh: datetime) -> None:
        """Find out what set orders off. One answer tells of the last 2,000; the rest are asked for singly, but only new ones."""
        unknown = {row.oid: row for row in rows if row.oid not in triggers}
        if not unknown:
            return
        triggers |= hl.triggers_of(self._ask({"type": "historicalOrders", "user": self.address}))
        for oid, row in sorted(unknown.items()):
            if oid not in triggers:
                recent = oid and hl.time_of_millis(row.time) > fresh
                question = {"type": "orderStatus", "user": self.address, "oid": oid}
                triggers[oid] = hl.triggers_of(self._ask(question)).get(oid) if recent else None

    def _paged(self, kind: str, start: datetime, until: datetime) -> list[Any]:
        """Every row of a kind after a moment: pages come oldest first, and the next begins where the last one ended."""
        first, end = hl.millis_of(start) + 1, hl.millis_of(until)
        found: dict[str, Any] = {}
        while first <= end:
            page = self._ask({"type": kind, "user": self.address, "startTime": first, "endTime": end})
            rows: list[Any] = page if isinstance(page, list) else [page]
            if not all(isinstance(row, Mapping) and isinstance(row.get("time"), int) for row in rows):
                raise Unreachable(source=self.address, problem=f"{kind}: no list of rows with their times")
            inside = [row for row in rows if first <= row["time"] <= end]
            found |= {json.dumps(row, sort_keys=True, default=str): row for row in inside}
            if len(rows) < PAGE or not inside:
                break
            last = max(row["time"] for row in inside)
            first = last if last > first else last + 1
        return list(found.values())

    # ---- candles -----------------------------------------------------------------------------------------------------

    def _bars(self, account: hl.VenueAccount, memory: KnownIds) -> list[Bar]:
        """The candles that have ended since the last ones read."""
        found: list[Bar] = []
        now = account.t
        for coin in sorted({*self.coins, *account.held, *(row.coin for row in memory.rows.values())}):
            for name, length in self.intervals.items():
                ended, asked = memory.charted.get((coin, name), (None, EPOCH))
                if ended is not None and now < max(ended + length, asked + min(length, ASKED_AGAIN)):
                    continue
                begin = ended or max(now - LOOKED_BACK * length, EPOCH)
                about = {"coin": coin, "interval": name, "startTime": hl.millis_of(begin), "endTime": hl.millis_of(now)}
                bars = hl.bars_from_candles(self._ask({"type": "candleSnapshot", "req": about}), until=now)
                bars = [bar for bar in bars if bar.t0 >= begin]
                memory.charted[coin, name] = max([bar.t1 for bar in bars], default=begin), now
                found += bars
        return sorted(found, key=lambda bar: (bar.t1, bar.symbol, bar.frame))
