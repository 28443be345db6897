"""Hyperliquid's answers -> observed values. Pure: what the venue said goes in, fills, funding, positions and bars come out.

The venue spells numbers as text and times in milliseconds. Three things need care:

- Fills have no id of their own. `tid` is a hash and 0 on system fills; only coin, tid, oid, time and size together name one.
- Fills of one block share one time, and neither list order nor ids say which came first. Each says what was held before it
  (`startPosition`), so a block is a walk from one position to the next, and the order is the walk that uses every fill once.
- A fee paid in the coin that was bought leaves less of it: the fill is then for what arrived, at the price that was paid.

>>> bought = {"coin": "ETH", "px": "3410.0", "sz": "2.5", "side": "B", "time": 1780572600000, "startPosition": "0.0",
...           "dir": "Open Long", "closedPnl": "0.0", "oid": 91500213399, "fee": "3.83625", "tid": 418820013376000}
>>> sold = {**bought, "px": "3438.2", "sz": "1.5", "side": "A", "time": 1780576200000, "startPosition": "2.5",
...         "dir": "Close Long", "closedPnl": "42.3", "oid": 91500213411, "fee": "2.320785", "tid": 418820013377001}
>>> [(fill.side, str(fill.qty), str(fill.px), str(fill.fee)) for fill in fills_of([sold, bought, sold], "0x" + "a" * 40)]
[('buy', '2.5', '3410.0', '3.83625'), ('sell', '1.5', '3438.2', '2.320785')]
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal, localcontext
from itertools import groupby
from typing import Annotated, Any, ClassVar, Final, Literal

from pydantic import ConfigDict, Field

from memtape.core.codec import EPOCH, decimal_text
from memtape.core.observed import Bar, CheckedBar, Fill, Funding, HeldPosition
from memtape.core.values import MONEY, ONE, ZERO, Number, Price, Symbol, Text, read
from memtape.errors import Invalid

MILLISECOND: Final = timedelta(milliseconds=1)
DOLLAR = "USDC"
MARK_STEP = Decimal("1e-10")
# Lengths of candles that have one: a calendar month has not.
INTERVALS: Final[Mapping[str, timedelta]] = {
    **{f"{n}m": timedelta(minutes=n) for n in (1, 3, 5, 15, 30)},
    **{f"{n}h": timedelta(hours=n) for n in (1, 2, 4, 8, 12)},
    "1d": timedelta(days=1), "3d": timedelta(days=3), "1w": timedelta(weeks=1),
}  # fmt: skip
FORCED: Final[Mapping[str, str]] = {  # what the venue does by itself, said in `dir`
    "Auto-Deleveraging": "auto_deleveraging", "Settlement": "settlement", "Spot Dust Conversion": "dust_conversion",
}  # fmt: skip

LENIENT = ConfigDict(extra="ignore")  # a venue adds fields whenever it likes
Millis = Annotated[int, Field(ge=0, lt=7_258_118_400_000)]  # up to the year 2200
Coin = Annotated[Text, Field(min_length=1, max_length=64)]


# ---- what the venue sends ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Liquidation:
    """Who was liquidated: it stands on the fills of both sides."""

    __pydantic_config__: ClassVar[ConfigDict] = LENIENT
    liquidatedUser: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FillRow:
    """One row of userFills and userFillsByTime; only what is used."""

    __pydantic_config__: ClassVar[ConfigDict] = LENIENT
    coin: Coin
    px: Price
    sz: Price
    side: Literal["B", "A"]
    time: Millis
    startPosition: Number
    oid: int
    tid: int
    fee: Number = ZERO  # the builder's part is in it
    feeToken: str = DOLLAR
    dir: str = ""
    liquidation: Liquidation | None = None

    @property
    def key(self) -> str:
        """What tells it from every other fill of the account."""
        return f"{self.coin}-{self.tid}-{self.oid}-{self.time}-{decimal_text(self.sz)}"

    @property
    def after(self) -> Decimal:
        """What is held after it."""
        return MONEY.add(self.startPosition, self.sz if self.side == "B" else -self.sz)


@dataclass(frozen=True, slots=True, kw_only=True)
class FundingDelta:
    """What was paid in one coin; `usdc` is signed, negative is paid."""

    __pydantic_config__: ClassVar[ConfigDict] = LENIENT
    coin: Coin
    usdc: Number


@dataclass(frozen=True, slots=True, kw_only=True)
class FundingRow:
    """One row of userFunding."""

    __pydantic_config__: ClassVar[ConfigDict] = LENIENT
    time: Millis
    delta: FundingDelta


@dataclass(frozen=True, slots=True, kw_only=True)
class Leverage:
    """How far a position is levered."""

    __pydantic_config__: ClassVar[ConfigDict] = LENIENT
    value: Price


@dataclass(frozen=True, slots=True, kw_only=True)
class VenuePosition:
    """A position of clearinghouseState: one a coin, net."""

    __pydantic_config__: ClassVar[ConfigDict] = LENIENT
    coin: Coin
    szi: Number
    entryPx: Price | None = None
    positionValue: Price | None = None
    leverage: Leverage | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AssetPosition:
    """The venue's wrapping of a position."""

    __pydantic_config__: ClassVar[ConfigDict] = LENIENT
    position: VenuePosition


@dataclass(frozen=True, slots=True, kw_only=True)
class MarginSummary:
    """The account in money."""

    __pydantic_config__: ClassVar[ConfigDict] = LENIENT
    accountValue: Number


@dataclass(frozen=True, slots=True, kw_only=True)
class StateRow:
    """The answer to clearinghouseState."""

    __pydantic_config__: ClassVar[ConfigDict] = LENIENT
    time: Millis
    marginSummary: MarginSummary
    assetPositions: list[AssetPosition]


@dataclass(frozen=True, slots=True, kw_only=True)
class CandleRow:
    """One row of candleSnapshot: `T` is the last millisecond that belongs to it."""

    __pydantic_config__: ClassVar[ConfigDict] = LENIENT
    t: Millis
    s: Coin
    i: str
    o: Price
    h: Price
    l: Price  # noqa: E741  the candle's own letter
    c: Price
    v: Price | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderRow:
    """An order as orderStatus and historicalOrders give it."""

    __pydantic_config__: ClassVar[ConfigDict] = LENIENT
    oid: int
    orderType: str = ""
    isTrigger: bool = False
    reduceOnly: bool = False
    isPositionTpsl: bool = False
    tif: str | None = None


# ---- fills -------------------------------------------------------------------------------------------------------------


def time_of_millis(millis: int) -> datetime:
    """A time of the venue."""
    return EPOCH + millis * MILLISECOND


def millis_of(moment: datetime) -> int:
    """A time as the venue spells it."""
    return (moment - EPOCH) // MILLISECOND


def is_spot(coin: str) -> bool:
    """Whether a coin is held outright: spot pairs are `@<index>` or `BASE/QUOTE`.

    >>> is_spot("@107"), is_spot("PURR/USDC"), is_spot("ETH"), is_spot("dex:GOLD")
    (True, True, False, False)
    """
    return coin.startswith("@") or "/" in coin


def dex_of(coin: str) -> str:
    """The exchange within the venue on which a perpetual trades; '' is the venue's own."""
    return coin.partition(":")[0] if ":" in coin else ""


def coin_symbol(coin: str) -> str:
    """A coin as a symbol: those that the venue only numbers get a word before the number.

    >>> coin_symbol("ETH"), coin_symbol("@107"), coin_symbol("PURR/USDC")
    ('ETH', 'SPOT@107', 'PURR/USDC')
    """
    named = f"SPOT{coin}" if coin.startswith("@") else coin if coin[:1].isalnum() else f"HL{coin}"
    return read(Symbol, named, at="coin")


def fill_rows(payload: object, at: str = "userFills") -> list[FillRow]:
    """The rows of a list of fills, each once, in the order in which they happened."""
    rows = {row.key: row for row in read(list[FillRow], payload, at=at)}
    return oldest_first(row for row in rows.values() if row.sz)


def oldest_first(rows: Iterable[FillRow], held_now: Mapping[str, Decimal] | None = None) -> list[FillRow]:
    """Fills by time, and within one block by what each found held; `held_now` is what all of them led to, if that is known."""
    blocks = [list(block) for _, block in groupby(sorted(rows, key=_place), key=lambda row: (row.time, row.coin))]
    after: dict[int, Decimal | None] = {}
    following: dict[str, Decimal | None] = {}
    for n in range(len(blocks) - 1, -1, -1):
        coin = blocks[n][0].coin
        after[n] = following[coin] if coin in following else held_now.get(coin, ZERO) if held_now is not None else None
        following[coin] = _beginning(blocks[n])
    before: dict[str, Decimal] = {}
    ordered: list[FillRow] = []
    for n, block in enumerate(blocks):
        ordered += _walk(block, before.get(block[0].coin), after[n])
        before[block[0].coin] = ordered[-1].after
    return ordered


def _beginning(block: Sequence[FillRow]) -> Decimal | None:
    """The position that is left once more than it is reached; None where a block comes back to where it began."""
    surplus = Counter(row.startPosition for row in block)
    surplus.subtract(row.after for row in block)
    return next((row.startPosition for row in block if surplus[row.startPosition] > 0), None)


def _place(row: FillRow) -> tuple[int, str, int, int]:
    return (row.time, row.coin, row.oid, row.tid)


def _walk(block: Sequence[FillRow], before: Decimal | None, after: Decimal | None) -> list[FillRow]:
    """The fills of one coin in one block as a walk over positions (Hierholzer 1873: a trail that uses every edge once).

    A walk that comes back to where it began (out and in again) starts where the fills around it stand; where these disagree,
    for one of them is late, the older order goes first.
    """
    if len(block) == 1:
        return list(block)
    leaving: dict[Decimal, list[FillRow]] = {}
    for row in reversed(block):  # taken from the end: of two equal ways the older order goes first
        leaving.setdefault(row.startPosition, []).append(row)
    around = {held for held in (before, after) if held is not None}
    at = _beginning(block)
    if at is None and len(around) == 1:
        at = around.pop()
    ordered: list[FillRow] = []
    while any(leaving.values()):
        if at is None or not leaving.get(at):
            at = min((rows[-1] for rows in leaving.values() if rows), key=_place).startPosition
        ordered += _trail(leaving, at)
        at = ordered[-1].after
    return ordered


def _trail(leaving: Mapping[Decimal, list[FillRow]], start: Decimal) -> list[FillRow]:
    way: list[tuple[Decimal, FillRow | None]] = [(start, None)]
    trail: list[FillRow] = []
    while way:
        at, by = way[-1]
        if rows := leaving.get(at):
            row = rows.pop()
            way.append((row.after, row))
        else:
            way.pop()
            trail += [by] if by is not None else []
    return trail[::-1]


def fills_of(
    payload: object, address: str, *, triggers: Mapping[int, str | None] | None = None,
    rates: Mapping[str, Decimal] | None = None, at: str = "userFills",
) -> list[Fill]:  # fmt: skip
    """An answer to userFills or userFillsByTime as fills, in order; `triggers` says by order id what set each off."""
    return fill_reason(fill_rows(payload, at), address, triggers or {}, rates or {})


def fill_reason(
    rows: Sequence[FillRow], address: str, triggers: Mapping[int, str | None], rates: Mapping[str, Decimal]
) -> list[Fill]:
    """Rows that are in order, as fills; `seq` counts within one block."""
    found: list[Fill] = []
    place: Counter[tuple[int, str]] = Counter()
    for row in rows:
        qty, fee = _charged(row, rates)
        own = row.liquidation is not None and (row.liquidation.liquidatedUser or "").lower() == address.lower()
        found.append(
            read(
                Fill,
                {
                    "id": row.key,
                    "t": time_of_millis(row.time),
                    "symbol": coin_symbol(row.coin),
                    "side": "buy" if row.side == "B" else "sell",
                    "qty": qty,
                    "px": row.px,
                    "fee": fee,
                    "seq": place[row.time, row.coin],
                    "liq": own,
                    "order_id": str(row.oid),
                    "trigger": FORCED.get(row.dir) or triggers.get(row.oid),
                },
                at=f"fill {row.key}",
            )
        )
        place[row.time, row.coin] += 1
    return found


def _charged(row: FillRow, rates: Mapping[str, Decimal]) -> tuple[Decimal, Decimal]:
    """What was traded, and the fee in dollars; `rates` are dollars per unit of other tokens."""
    rate = ONE if row.feeToken == DOLLAR else rates.get(row.feeToken)
    if rate is not None or not row.fee:
        return row.sz, MONEY.multiply(row.fee, rate or ONE)
    if is_spot(row.coin) and row.side == "B":  # paid out of what was bought
        return MONEY.subtract(row.sz, row.fee), MONEY.multiply(row.fee, row.px)
    raise Invalid("feeToken", f"the fee of {row.key} is in {row.feeToken[:20]}, whose price is not known",
                  f"Give its price in {DOLLAR} among the rates")  # fmt: skip


# ---- funding, positions, candles, orders -------------------------------------------------------------------------------


def funding_rows(payload: object) -> list[FundingRow]:
    """The rows of an answer to userFunding."""
    return read(list[FundingRow], payload, at="userFunding")


def funding_of(payload: object) -> list[Funding]:
    """An answer to userFunding as payments, each once, by time. One coin is paid once at a time, which names it.

    >>> row = {"time": 1780574400000, "hash": "0x0", "delta": {"type": "funding", "coin": "ETH", "usdc": "-0.11"}}
    >>> [(paid.id, str(paid.usd)) for paid in funding_of([row, row])]
    [('ETH-funding-1780574400000', '-0.11')]
    """
    paid = {(row.time, row.delta.coin): row for row in funding_rows(payload)}
    return [
        Funding(id=f"{coin}-funding-{time}", t=time_of_millis(time), symbol=coin_symbol(coin), usd=paid[time, coin].delta.usdc)
        for time, coin in sorted(paid)
    ]


@dataclass(frozen=True, slots=True)
class VenueAccount:
    """What the venue says is held at a moment."""

    t: datetime
    equity: Decimal
    positions: dict[str, tuple[HeldPosition, ...]]
    held: dict[str, Decimal]  # by coin

    @property
    def marks(self) -> dict[str, Decimal]:
        """The prices at which the positions are valued."""
        return {symbol: held[0].mark for symbol, held in self.positions.items() if held[0].mark is not None}


def account_of(payload: object) -> VenueAccount:
    """An answer to clearinghouseState. The mark price is not in it, but what the position is worth is."""
    state = read(StateRow, payload, at="clearinghouseState")
    rows = sorted((one.position for one in state.assetPositions if one.position.szi), key=lambda row: row.coin)
    positions: dict[str, tuple[HeldPosition, ...]] = {
        coin_symbol(row.coin): (
            HeldPosition(
                qty=row.szi, entry_px=row.entryPx, leverage=row.leverage.value if row.leverage else None, mark=_mark(row)
            ),
        )
        for row in rows
    }
    return VenueAccount(
        time_of_millis(state.time), state.marginSummary.accountValue, positions, {row.coin: row.szi for row in rows}
    )


def _mark(row: VenuePosition) -> Decimal | None:
    if row.positionValue is None:
        return None
    with localcontext(MONEY):
        return Decimal(decimal_text((row.positionValue / abs(row.szi)).quantize(MARK_STEP)))


def bars_from_candles(payload: object, until: datetime | None = None) -> list[Bar]:
    """An answer to candleSnapshot as bars, by time; those not complete by a moment are left out.

    >>> candle = {"t": 1780574400000, "T": 1780577999999, "s": "ETH", "i": "1h", "o": "3431.0", "c": "3438.2",
    ...           "h": "3440.5", "l": "3429.9", "v": "812.4", "n": 391}
    >>> bar = bars_from_candles([candle])[0]
    >>> bar.t1.isoformat(), str(bar.c), bar.frame
    ('2026-06-04T13:00:00+00:00', '3438.2', 3600)
    >>> bars_from_candles([candle], until=bar.t1 - MILLISECOND)
    []
    """
    found: dict[tuple[str, str, int], Bar] = {}
    for row in read(list[CandleRow], payload, at="candleSnapshot"):
        t0, symbol = time_of_millis(row.t), coin_symbol(row.s)
        t1 = t0 + interval_of(row.i)
        if until is None or t1 <= until:
            data = {"symbol": symbol, "t0": t0, "t1": t1, "o": row.o, "h": row.h, "l": row.l, "c": row.c, "v": row.v}
            found[symbol, row.i, row.t] = read(CheckedBar, data, at="candleSnapshot")
    return sorted(found.values(), key=lambda bar: (bar.t1, bar.symbol, bar.frame))


def interval_of(name: str) -> timedelta:
    """The length of a candle."""
    if name not in INTERVALS:
        raise Invalid("interval", f"'{name[:20]}' is not a length of candles", f"Use one of {', '.join(INTERVALS)}")
    return INTERVALS[name]


def triggers_of(payload: object) -> dict[int, str]:
    """What sets orders off, by order id, from historicalOrders, from orderStatus, or from several answers to it.

    >>> order = {"oid": 77, "orderType": "Stop Market", "isTrigger": True, "reduceOnly": True, "triggerPx": "3300.0"}
    >>> triggers_of({"status": "order", "order": {"order": order, "status": "triggered", "statusTimestamp": 1}})
    {77: 'stop'}
    >>> triggers_of({"status": "unknownOid"})
    {}
    """
    several: list[Any] = payload if isinstance(payload, list) else [payload]
    found: dict[int, str] = {}
    for one in several:
        while isinstance(one, Mapping) and "oid" not in one and "order" in one:
            one = one["order"]
        if isinstance(one, Mapping) and "oid" in one:
            order = read(OrderRow, one, at="order")
            if trigger := _trigger(order):
                found[order.oid] = trigger
    return found


def _trigger(order: OrderRow) -> str | None:
    """In the paper broker's own words, so that a simulation and its live twin tell a trade alike."""
    closes = order.reduceOnly or order.isPositionTpsl
    if order.orderType.startswith("Stop"):
        return "stop" if closes else "stop_entry"
    if order.orderType.startswith("Take Profit"):
        return "target" if closes else "limit"
    if order.orderType == "Market" or order.tif in ("Ioc", "FrontendMarket", "LiquidationMarket"):
        return "market"
    return "limit" if order.orderType == "Limit" else None
