"""Hyperliquid's answers -> observed values. Pure functions from the venue's JSON to fills, funding, positions and bars.

The venue writes numbers as text and times in milliseconds. Four things need care:

- Fills have no id. `tid` is a hash, and 0 on system fills; only coin, tid, oid, time and size together identify a fill.
- Fills of one block have the same time, and neither list order nor ids show which came first. Each has the position before it
  (`startPosition`). So a block is a walk from one position to the next, and the order is the walk that uses every fill once.
- Deposits, withdrawals and transfers are rows without a common shape (`cash_flows_from_answer`). Only what enters or leaves the
  perpetuals account that is followed is a cash flow.
- A fee paid in the coin that was bought reduces the quantity: the fill is for the quantity received, at the price paid.

>>> bought = {"coin": "ETH", "px": "3410.0", "sz": "2.5", "side": "B", "time": 1780572600000, "startPosition": "0.0",
...           "dir": "Open Long", "closedPnl": "0.0", "oid": 91500213399, "fee": "3.83625", "tid": 418820013376000}
>>> sold = {**bought, "px": "3438.2", "sz": "1.5", "side": "A", "time": 1780576200000, "startPosition": "2.5",
...         "dir": "Close Long", "closedPnl": "42.3", "oid": 91500213411, "fee": "2.320785", "tid": 418820013377001}
>>> [(fill.side, str(fill.qty), str(fill.px), str(fill.fee)) for fill in fills_from_answer([sold, bought, sold], "0x" + "a" * 40)]
[('buy', '2.5', '3410.0', '3.83625'), ('sell', '1.5', '3438.2', '2.320785')]
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from decimal import Decimal, localcontext
from itertools import groupby
from typing import Annotated, Any, ClassVar, Final, Literal

from pydantic import ConfigDict, Field

from memtape.core.codec import EPOCH, canonical, decimal_text, make_id
from memtape.core.fills import Fill, Funding
from memtape.core.observed import Bar, CashFlow, CheckedBar, HeldPosition
from memtape.core.value_class import dataclass
from memtape.core.values import MONEY, ONE, ZERO, Number, Price, Symbol, Text, read
from memtape.errors import Invalid

MILLISECOND: Final = timedelta(milliseconds=1)
DOLLAR_TOKEN = "USDC"
MARK_STEP = Decimal("1e-10")
CLOCK_DIFFERENCE: Final = timedelta(minutes=5)  # by which the clock of this machine may be ahead of the venue's
# Candles with a fixed length. A calendar month has none.
INTERVALS: Final[Mapping[str, timedelta]] = {
    **{f"{n}m": timedelta(minutes=n) for n in (1, 3, 5, 15, 30)},
    **{f"{n}h": timedelta(hours=n) for n in (1, 2, 4, 8, 12)},
    "1d": timedelta(days=1), "3d": timedelta(days=3), "1w": timedelta(weeks=1),
}  # fmt: skip
# Fills that the venue makes by itself, by their `dir`.
VENUE_ACTIONS: Final[Mapping[str, str]] = {
    "Auto-Deleveraging": "auto_deleveraging", "Settlement": "settlement", "Spot Dust Conversion": "dust_conversion",
}  # fmt: skip

IGNORE_NEW_FIELDS = ConfigDict(extra="ignore")  # the venue may add fields at any time
Millis = Annotated[int, Field(ge=0, lt=7_258_118_400_000)]  # up to the year 2200
Coin = Annotated[Text, Field(min_length=1, max_length=64)]


# ---- the venue's rows ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Liquidation:
    """The account that was liquidated. The fills of both sides have it."""

    __pydantic_config__: ClassVar[ConfigDict] = IGNORE_NEW_FIELDS
    liquidatedUser: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FillRow:
    """One row of userFills and userFillsByTime: the fields that are used."""

    __pydantic_config__: ClassVar[ConfigDict] = IGNORE_NEW_FIELDS
    coin: Coin
    px: Price
    sz: Price
    side: Literal["B", "A"]
    time: Millis
    startPosition: Number
    oid: int
    tid: int
    closedPnl: Number | None = None  # realised by the fill, before fees
    fee: Number = ZERO  # includes the builder's fee
    feeToken: str = DOLLAR_TOKEN
    dir: str = ""
    liquidation: Liquidation | None = None

    @property
    def key(self) -> str:
        """Identifies the fill in its account."""
        return f"{self.coin}-{self.tid}-{self.oid}-{self.time}-{decimal_text(self.sz)}"

    @property
    def after(self) -> Decimal:
        """The position after the fill."""
        return MONEY.add(self.startPosition, self.sz if self.side == "B" else -self.sz)


@dataclass(frozen=True, slots=True, kw_only=True)
class FundingDelta:
    """A payment for one coin. `usdc` is negative if the account paid."""

    __pydantic_config__: ClassVar[ConfigDict] = IGNORE_NEW_FIELDS
    coin: Coin
    usdc: Number


@dataclass(frozen=True, slots=True, kw_only=True)
class FundingRow:
    """One row of userFunding."""

    __pydantic_config__: ClassVar[ConfigDict] = IGNORE_NEW_FIELDS
    time: Millis
    delta: FundingDelta


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateRow:
    """One row of userNonFundingLedgerUpdates. Its delta has a `type`, and fields that depend on it."""

    __pydantic_config__: ClassVar[ConfigDict] = IGNORE_NEW_FIELDS
    time: Millis
    hash: Annotated[Text, Field(max_length=128)]
    delta: dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Leverage:
    """The leverage of a position."""

    __pydantic_config__: ClassVar[ConfigDict] = IGNORE_NEW_FIELDS
    value: Price


@dataclass(frozen=True, slots=True, kw_only=True)
class VenuePosition:
    """A position of clearinghouseState: net, one per coin."""

    __pydantic_config__: ClassVar[ConfigDict] = IGNORE_NEW_FIELDS
    coin: Coin
    szi: Number
    entryPx: Price | None = None
    positionValue: Price | None = None
    leverage: Leverage | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AssetPosition:
    """The venue's wrapper of a position."""

    __pydantic_config__: ClassVar[ConfigDict] = IGNORE_NEW_FIELDS
    position: VenuePosition


@dataclass(frozen=True, slots=True, kw_only=True)
class MarginSummary:
    """The value of the account."""

    __pydantic_config__: ClassVar[ConfigDict] = IGNORE_NEW_FIELDS
    accountValue: Number


@dataclass(frozen=True, slots=True, kw_only=True)
class StateRow:
    """The answer to clearinghouseState."""

    __pydantic_config__: ClassVar[ConfigDict] = IGNORE_NEW_FIELDS
    time: Millis
    marginSummary: MarginSummary
    assetPositions: list[AssetPosition]


@dataclass(frozen=True, slots=True, kw_only=True)
class CandleRow:
    """One row of candleSnapshot: `T` is its last millisecond."""

    __pydantic_config__: ClassVar[ConfigDict] = IGNORE_NEW_FIELDS
    t: Millis
    s: Coin
    i: str
    o: Price
    h: Price
    l: Price  # noqa: E741  the venue's own name
    c: Price
    v: Price | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderRow:
    """An order of orderStatus and historicalOrders."""

    __pydantic_config__: ClassVar[ConfigDict] = IGNORE_NEW_FIELDS
    oid: int
    orderType: str = ""
    isTrigger: bool = False
    reduceOnly: bool = False
    isPositionTpsl: bool = False
    tif: str | None = None


# ---- fills -------------------------------------------------------------------------------------------------------------


def time_from_millis(millis: int) -> datetime:
    """Returns a time from milliseconds."""
    return EPOCH + millis * MILLISECOND


def millis_of(moment: datetime) -> int:
    """Returns a time in milliseconds."""
    return (moment - EPOCH) // MILLISECOND


def is_spot(coin: str) -> bool:
    """Returns True for a spot pair: spot pairs are `@<index>` or `BASE/QUOTE`.

    >>> is_spot("@107"), is_spot("PURR/USDC"), is_spot("ETH"), is_spot("dex:GOLD")
    (True, True, False, False)
    """
    return coin.startswith("@") or "/" in coin


def dex_of(coin: str) -> str:
    """Returns the exchange within the venue on which a perpetual trades; '' for the venue's own."""
    return coin.partition(":")[0] if ":" in coin else ""


def coin_symbol(coin: str) -> str:
    """Returns a coin as a symbol. A coin that has only a number gets a word before it.

    >>> coin_symbol("ETH"), coin_symbol("@107"), coin_symbol("PURR/USDC")
    ('ETH', 'SPOT@107', 'PURR/USDC')
    """
    named = f"SPOT{coin}" if coin.startswith("@") else coin if coin[:1].isalnum() else f"HL{coin}"
    return read(Symbol, named, at="coin")


def symbol_coin(symbol: str) -> str:
    """Returns the coin of a symbol; the inverse of `coin_symbol`.

    >>> symbol_coin("ETH"), symbol_coin("SPOT@107"), symbol_coin("PURR/USDC")
    ('ETH', '@107', 'PURR/USDC')
    """
    return symbol.removeprefix("SPOT") if symbol.startswith("SPOT@") else symbol


def fill_rows(payload: object, at: str = "userFills") -> list[FillRow]:
    """Returns the rows of a list of fills, each once, in order of time."""
    rows = {row.key: row for row in read(list[FillRow], payload, at=at)}
    return order_fills(row for row in rows.values() if row.sz)


def order_fills(rows: Iterable[FillRow], held_now: Mapping[str, Decimal] | None = None) -> list[FillRow]:
    """Returns fills in order: by time, and within one block by the position before each. `held_now` is the position after all."""
    blocks = [list(block) for _, block in groupby(sorted(rows, key=_sort_key), key=lambda row: (row.time, row.coin))]
    after: dict[int, Decimal | None] = {}
    following: dict[str, Decimal | None] = {}
    for n in range(len(blocks) - 1, -1, -1):
        coin = blocks[n][0].coin
        after[n] = following[coin] if coin in following else held_now.get(coin, ZERO) if held_now is not None else None
        following[coin] = _start_position(blocks[n])
    before: dict[str, Decimal] = {}
    ordered: list[FillRow] = []
    for n, block in enumerate(blocks):
        ordered += _order_block(block, before.get(block[0].coin), after[n])
        before[block[0].coin] = ordered[-1].after
    return ordered


def _start_position(block: Sequence[FillRow]) -> Decimal | None:
    """Returns the position that is left once more than it is reached; None if a block ends where it began."""
    surplus = Counter(row.startPosition for row in block)
    surplus.subtract(row.after for row in block)
    return next((row.startPosition for row in block if surplus[row.startPosition] > 0), None)


def _sort_key(row: FillRow) -> tuple[int, str, int, int]:
    return (row.time, row.coin, row.oid, row.tid)


def _order_block(block: Sequence[FillRow], before: Decimal | None, after: Decimal | None) -> list[FillRow]:
    """Returns the fills of one coin in one block as a walk over positions (Hierholzer 1873: a trail that uses every edge once).

    A walk that ends where it began (out and in again) can start at any of its positions. It starts at the position of the fills
    before and after it. Where these disagree, because one of them is late, the older order goes first.
    """
    if len(block) == 1:
        return list(block)
    leaving: dict[Decimal, list[FillRow]] = {}
    # Rows are popped from the end, so of two equal ways the older order goes first.
    for row in reversed(block):
        leaving.setdefault(row.startPosition, []).append(row)
    around = {held for held in (before, after) if held is not None}
    at = _start_position(block)
    if at is None and len(around) == 1:
        at = around.pop()
    ordered: list[FillRow] = []
    while any(leaving.values()):
        if at is None or not leaving.get(at):
            at = min((rows[-1] for rows in leaving.values() if rows), key=_sort_key).startPosition
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


def fills_from_answer(
    payload: object, address: str, *, triggers: Mapping[int, str | None] | None = None,
    rates: Mapping[str, Decimal] | None = None, at: str = "userFills",
) -> list[Fill]:  # fmt: skip
    """Returns an answer to userFills or userFillsByTime as fills, in order. `triggers` has the trigger of each order id."""
    return fills_from_rows(fill_rows(payload, at), address, triggers or {}, rates or {})


def fills_from_rows(
    rows: Sequence[FillRow], address: str, triggers: Mapping[int, str | None], rates: Mapping[str, Decimal]
) -> list[Fill]:
    """Returns ordered rows as fills. `seq` counts within one block."""
    found: list[Fill] = []
    place: Counter[tuple[int, str]] = Counter()
    for row in rows:
        qty, fee, fee_currency = _qty_and_fee(row, rates)
        own = row.liquidation is not None and (row.liquidation.liquidatedUser or "").lower() == address.lower()
        found.append(
            read(
                Fill,
                {
                    "id": row.key,
                    "venue": "hyperliquid",
                    "t": time_from_millis(row.time),
                    "symbol": coin_symbol(row.coin),
                    "side": "buy" if row.side == "B" else "sell",
                    "qty": qty,
                    "px": row.px,
                    "fee": fee,
                    "fee_currency": fee_currency,
                    "closed_pnl": None if is_spot(row.coin) else row.closedPnl,
                    "seq": place[row.time, row.coin],
                    "liq": own,
                    "order_id": str(row.oid),
                    "trigger": VENUE_ACTIONS.get(row.dir) or triggers.get(row.oid),
                },
                at=f"fill {row.key}",
            )
        )
        place[row.time, row.coin] += 1
    return found


def _qty_and_fee(row: FillRow, rates: Mapping[str, Decimal]) -> tuple[Decimal, Decimal, str | None]:
    """Returns the quantity, the fee, and its token if that has no known price; else the fee is in dollars.

    `rates` are dollars per unit of other tokens. A fee without a price is reported by the ledger as unknown, and reading goes on.
    """
    rate = ONE if row.feeToken == DOLLAR_TOKEN else rates.get(row.feeToken, rates.get(row.feeToken.upper()))
    if rate is not None or not row.fee:
        return row.sz, MONEY.multiply(row.fee, rate or ONE), None
    # The fee is paid from the coins that were bought.
    if is_spot(row.coin) and row.side == "B":
        return MONEY.subtract(row.sz, row.fee), MONEY.multiply(row.fee, row.px), None
    return row.sz, row.fee, currency_code(row.feeToken)


def currency_code(token: str) -> str:
    """The name of a token as a currency code.

    >>> currency_code("kPEPE"), currency_code("USDH")
    ('KPEPE', 'USDH')
    """
    code = "".join(letter for letter in token.upper() if letter.isascii() and letter.isalnum())[:10]
    return code if len(code) >= 2 else f"T{code or 'OKEN'}"


# ---- funding, positions, candles, orders -------------------------------------------------------------------------------


def funding_rows(payload: object) -> list[FundingRow]:
    """Returns the rows of an answer to userFunding."""
    return read(list[FundingRow], payload, at="userFunding")


def funding_from_answer(payload: object) -> list[Funding]:
    """Returns an answer to userFunding as payments, each once, by time. Coin and time identify a payment.

    >>> row = {"time": 1780574400000, "hash": "0x0", "delta": {"type": "funding", "coin": "ETH", "usdc": "-0.11"}}
    >>> [(paid.id, str(paid.usd)) for paid in funding_from_answer([row, row])]
    [('ETH-funding-1780574400000', '-0.11')]
    """
    paid = {(row.time, row.delta.coin): row for row in funding_rows(payload)}
    return [
        Funding(id=f"{coin}-funding-{time}", t=time_from_millis(time), symbol=coin_symbol(coin), usd=paid[time, coin].delta.usdc)
        for time, coin in sorted(paid)
    ]


@dataclass(frozen=True, slots=True)
class AccountFlows:
    """The cash flows of an account, and the kinds of updates whose effect on it is unknown."""

    flows: tuple[CashFlow, ...] = ()
    unread: tuple[str, ...] = ()


def cash_flows_from_answer(payload: object, address: str, dex: str = "") -> AccountFlows:
    """Returns an answer to userNonFundingLedgerUpdates as cash flows of one perpetuals account, each once, by time.

    One transaction may have several updates, so an update is identified by its time, its hash and its content. The venue adds
    kinds of updates without notice. A kind that is not known here, or a row of another shape, is named and not guessed at.

    >>> row = {"time": 1780574400000, "hash": "0xabc", "delta": {"type": "withdraw", "usdc": "499.0", "nonce": 1, "fee": "1.0"}}
    >>> [(flow.id, str(flow.usd)) for flow in cash_flows_from_answer([row, row], "0x" + "a" * 40).flows]
    [('withdraw-1780574400000-05c7ba6cbf70b3cb', '-500.0')]
    """
    found: dict[str, CashFlow] = {}
    unread: set[str] = set()
    for one in payload if isinstance(payload, list) else [payload]:
        delta = one.get("delta") if isinstance(one, Mapping) else None
        kind = str(delta.get("type", ""))[:64] if isinstance(delta, Mapping) else ""
        try:
            row = read(UpdateRow, one, at="userNonFundingLedgerUpdates")
            usd = _perpetuals_change(row.delta, address.lower(), dex)
        except (Invalid, KeyError):
            unread.add(kind or "without a kind")
            continue
        if usd:
            id_ = f"{row.delta['type']}-{row.time}-{make_id(row.hash, canonical(row.delta))}"
            found[id_] = CashFlow(id=id_, t=time_from_millis(row.time), usd=usd)
    return AccountFlows(tuple(sorted(found.values(), key=lambda flow: (flow.t, flow.id))), tuple(sorted(unread)))


# Updates that do not touch a perpetuals account: they move spot tokens, or repeat what the fills of a liquidation say.
_NOT_OF_PERPETUALS: Final = frozenset(("spotTransfer", "spotGenesis", "cStakingTransfer", "liquidation"))


def _perpetuals_change(delta: Mapping[str, Any], address: str, dex: str) -> Decimal:
    """Returns what an update adds to the perpetuals account. Raises KeyError if its kind or a field of it is not known."""
    kind = delta["type"]
    if kind in _NOT_OF_PERPETUALS:
        return ZERO
    if kind == "send":
        return _sent(delta, address, dex)
    if kind == "perpDexClassTransfer":
        own = delta["dex"] == dex and delta["token"] == DOLLAR_TOKEN
        return _signed(_amount(delta, "amount"), delta["toPerp"]) if own else ZERO
    # All other kinds move dollars of the venue's own exchange.
    change = _dollar_change(kind, delta, address)
    return change if dex == "" else ZERO


def _dollar_change(kind: str, delta: Mapping[str, Any], address: str) -> Decimal:
    vault = str(delta.get("vault", "")).lower() == address
    match kind:
        case "deposit":
            return _amount(delta, "usdc")
        case "withdraw":
            # `usdc` is what arrives outside: the fee leaves the account as well.
            return -MONEY.add(abs(_amount(delta, "usdc")), _fee_of(delta))
        case "accountClassTransfer":
            return _signed(_amount(delta, "usdc"), delta["toPerp"])
        case "internalTransfer" | "subAccountTransfer":
            usd, leaves, arrives = _amount(delta, "usdc"), _is(delta, "user", address), _is(delta, "destination", address)
            return MONEY.subtract(usd if arrives else ZERO, MONEY.add(usd, _fee_of(delta)) if leaves else ZERO)
        case "vaultCreate":
            return _amount(delta, "usdc") if vault else -MONEY.add(_amount(delta, "usdc"), _fee_of(delta))
        case "vaultDeposit":
            return _signed(_amount(delta, "usdc"), vault)
        case "vaultWithdraw":
            # The leader's commission leaves the vault with what the depositor gets.
            net = _amount(delta, "netWithdrawnUsd")
            return -MONEY.add(net, _amount(delta, "commission")) if vault else net
        case "vaultDistribution":
            return _signed(_amount(delta, "usdc"), not vault)
        case "vaultLeaderCommission":
            return _amount(delta, "usdc")
        case "rewardsClaim":
            # Rewards in another token than dollars are paid to the spot account.
            return _amount(delta, "amount") if delta.get("token") in (None, "", DOLLAR_TOKEN) else ZERO
    raise KeyError(kind)


def _sent(delta: Mapping[str, Any], address: str, dex: str) -> Decimal:
    """Returns the part of a send between accounts, exchanges and spot that concerns this account. The sender pays the fee."""
    leaves = _is(delta, "user", address) and delta["sourceDex"] == dex
    arrives = _is(delta, "destination", address) and delta["destinationDex"] == dex
    if not leaves and not arrives:
        return ZERO
    usd = _amount(delta, "amount" if delta["token"] == DOLLAR_TOKEN else "usdcValue")
    fee = _fee_of(delta) if delta.get("feeToken") in (None, "", DOLLAR_TOKEN) else ZERO
    return MONEY.subtract(usd if arrives else ZERO, MONEY.add(usd, fee) if leaves else ZERO)


def _is(delta: Mapping[str, Any], field: str, address: str) -> bool:
    return str(delta[field]).lower() == address


def _amount(delta: Mapping[str, Any], field: str) -> Decimal:
    return read(Number, delta[field], at=field)


def _fee_of(delta: Mapping[str, Any]) -> Decimal:
    return _amount(delta, "fee") if "fee" in delta else ZERO


def _signed(usd: Decimal, arrives: bool) -> Decimal:
    return usd if arrives else -usd


@dataclass(frozen=True, slots=True)
class VenueAccount:
    """An account's positions and equity at a moment."""

    t: datetime
    equity: Decimal
    positions: dict[str, tuple[HeldPosition, ...]]
    held: dict[str, Decimal]  # by coin

    @property
    def marks(self) -> dict[str, Decimal]:
        """The mark prices of the positions."""
        return {symbol: held[0].mark for symbol, held in self.positions.items() if held[0].mark is not None}


def account_from_answer(payload: object) -> VenueAccount:
    """Returns an answer to clearinghouseState. It has no mark price; the value of the position gives it."""
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
        time_from_millis(state.time), state.marginSummary.accountValue, positions, {row.coin: row.szi for row in rows}
    )


def _mark(row: VenuePosition) -> Decimal | None:
    if row.positionValue is None:
        return None
    with localcontext(MONEY):
        return Decimal(decimal_text((row.positionValue / abs(row.szi)).quantize(MARK_STEP)))


def bars_from_candles(payload: object, until: datetime | None = None) -> list[Bar]:
    """Returns an answer to candleSnapshot as bars, by time. Bars that are incomplete at `until` are left out.

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
        t0, symbol = time_from_millis(row.t), coin_symbol(row.s)
        t1 = t0 + candle_length(row.i)
        if until is None or t1 <= until:
            data = {"symbol": symbol, "t0": t0, "t1": t1, "o": row.o, "h": row.h, "l": row.l, "c": row.c, "v": row.v}
            found[symbol, row.i, row.t] = read(CheckedBar, data, at="candleSnapshot")
    return sorted(found.values(), key=lambda bar: (bar.t1, bar.symbol, bar.frame))


def completed_bars(bars: Sequence[Bar], now: datetime) -> list[Bar]:
    """Returns the candles that will not change any more, of one coin and interval.

    The last candle of an answer may still be at work, and `now` is a clock that may be a little ahead of the venue's. So a candle
    is complete once a later one has begun, or some minutes after its end: a coin without trades has no later one.

    >>> first, second = (Bar(symbol="ETH", t0=time_from_millis(n * 60_000), t1=time_from_millis((n + 1) * 60_000), o=ONE, h=ONE,
    ...     l=ONE, c=ONE) for n in (0, 1))
    >>> [len(completed_bars([first, second], second.t1 + wait)) for wait in (timedelta(0), CLOCK_DIFFERENCE)]
    [1, 2]
    """
    newest = max((bar.t0 for bar in bars), default=now)
    return [bar for bar in bars if bar.t1 <= now and (bar.t0 < newest or bar.t1 + CLOCK_DIFFERENCE <= now)]


def candle_length(name: str) -> timedelta:
    """Returns the length of a candle."""
    if name not in INTERVALS:
        raise Invalid("interval", f"'{name[:20]}' is not a candle interval", f"Use one of {', '.join(INTERVALS)}")
    return INTERVALS[name]


def triggers_from_answer(payload: object) -> dict[int, str]:
    """Returns the triggers of orders, by order id, from historicalOrders, from orderStatus, or from several answers to it.

    >>> order = {"oid": 77, "orderType": "Stop Market", "isTrigger": True, "reduceOnly": True, "triggerPx": "3300.0"}
    >>> triggers_from_answer({"status": "order", "order": {"order": order, "status": "triggered", "statusTimestamp": 1}})
    {77: 'stop'}
    >>> triggers_from_answer({"status": "unknownOid"})
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
    """Returns the trigger in the paper broker's words, so that simulated and live trades are described alike."""
    closes = order.reduceOnly or order.isPositionTpsl
    if order.orderType.startswith("Stop"):
        return "stop" if closes else "stop_entry"
    if order.orderType.startswith("Take Profit"):
        return "target" if closes else "limit"
    if order.orderType == "Market" or order.tif in ("Ioc", "FrontendMarket", "LiquidationMarket"):
        return "market"
    return "limit" if order.orderType == "Limit" else None
