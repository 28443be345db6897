"""Hyperliquid's fills in their order, and what set them off.

- Fills have no id. `tid` is a hash, and 0 on system fills; only coin, tid, oid, time and size together identify a fill.
- Fills of one block have the same time, and neither list order nor ids show which came first. Each has the position before it
  (`startPosition`). So a block is a walk from one position to the next, and the order is the walk that uses every fill once.
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
from decimal import Decimal
from itertools import groupby
from typing import Any, Final

from memtape.brokers.hyperliquid.names import DOLLAR_TOKEN, coin_symbol, currency_code, is_spot, time_from_millis
from memtape.brokers.hyperliquid.rows import FillRow, OrderRow
from memtape.core.fills import Fill
from memtape.core.values import MONEY, ONE, ZERO, read

# Fills that the venue makes by itself, by their `dir`.
VENUE_ACTIONS: Final[Mapping[str, str]] = {
    "Auto-Deleveraging": "auto_deleveraging", "Settlement": "settlement", "Spot Dust Conversion": "dust_conversion",
}  # fmt: skip


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
