"""A second opinion on the trade ledger: rules L1-L18 of `golden/ledger_golden.json` and M1-M15 of
`golden/ledger_money_golden.json`, as naive as they can be written.

It shares nothing with the product, not even its arithmetic: amounts are exact fractions, a trade is the plain list of
its steps, and every question (how much is held, at what cost) is answered by going through that list again. Nothing is
incremental: all ticks are read first (`record`), the whole history is walked once (`walk`), and each row is computed
from its own steps (`row`). Slow on purpose; what matters is that each rule can be found here and read.

Beyond the golden form it knows `leg` (a position is a symbol and a leg), and fills after the last tick. Where the rules
leave a choice, a comment says "Choice".
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import datetime, timedelta
from fractions import Fraction
from typing import Any

from tests.oracle.record import ZERO, Fill, Json, Terms, number, read
from tests.oracle.row import Row, excursions, pieces
from tests.oracle.walk import Walk

# What M1-M15 add to the columns of ledger_golden.json.
MONEY_COLUMNS = ("exit_trigger", "fee_unknown", "stop_price", "target_price", "initial_risk_usd", "pnl_r")


def ledger(ticks: Iterable[Json], config: Json, as_of: str | datetime | None = None) -> Json:
    """The ledger of a history of golden-form ticks, in the golden's own spelling; with `as_of` as it was known then.

    A row or discrepancy of a position with a leg has one key more than the golden ones: `leg`.
    """
    walk = Walk(read(ticks, config, as_of), config)
    trades = trade_rows(walk, config)
    return {
        "rows": [golden_row(row, walk, config.get("mfe_mode") or "hl_strict") for row in trades],
        "orphan_funding_usd": {symbol: spell(usd) for symbol, usd in walk.orphans.items()},
        "totals": {
            "closed": total([row for row in trades if row.closed]),
            "open": total([row for row in trades if not row.closed]),
            "all": total(trades),
        },
        "discrepancies": spell_discrepancies(walk.record.discrepancies + walk.discrepancies),
        "refused": walk.record.refused,
    }


def rows(ticks: Iterable[Json], config: Json) -> Json:
    """The rows and the orphan funding of a history, with the columns of `ledger_golden.json` only."""
    answer = ledger(ticks, config)
    plain = [{name: value for name, value in row.items() if name not in MONEY_COLUMNS} for row in answer["rows"]]
    return {"rows": plain, "orphan_funding_usd": answer["orphan_funding_usd"]}


def trade_rows(walk: Walk, config: Json) -> list[Row]:
    """Round trips, or the pieces of their lots (M12), by entry_at and symbol, then by creation (L18)."""
    trades = walk.rows
    if config.get("trade_unit") == "fifo_lots":
        trades = [piece for row in walk.rows for piece in pieces(row, walk.record)]
    return sorted(trades, key=lambda row: (row.entry_at, row.position[0]))


def golden_row(row: Row, walk: Walk, mode: str) -> Json:
    symbol, leg = row.position
    entered, exited, closed = row.entries(), row.exits(), row.closed
    first, last, state = row.parts()[0], row.parts()[-1], row.states()[-1]
    entry_price, entry_size, net = row.price(entered), row.entry_size(), row.net()
    mfe, mae = excursions(row, walk.record, lambda moment: walk.known_rate(symbol, moment), mode)
    entry_by = first.tick if first.decided else None
    exit_by = last.tick if closed and last.decided else None
    exit_reason = exit_by.decision.get("reason") if exit_by else None
    if closed and last.cause == "liquidation":
        exit_reason = "liquidation"
    elif closed and last.cause == "external" and last.trigger in ("stop", "target"):
        exit_reason = last.trigger
    lever = first.tick.shown(row.position).get("leverage") if first.tick else None
    quality = "inferred" if any(part.inferred for part in row.parts()) else "fills"
    answer = {
        "symbol": symbol,
        "side": "long" if row.side > 0 else "short",
        "status": "closed" if closed else "open",
        "entry_tick_at": spell_time(first.tick.t) if first.tick else None,
        "entry_at": spell_time(first.at),
        "entry_price": spell(entry_price),
        "entry_size_usd": spell(entry_size),
        "entry_leverage": None if lever is None else spell(number(lever)),
        "qty_entered": spell(row.quantity(entered)),
        "qty_exited": spell(row.quantity(exited)),
        "qty_open": spell(state.qty),
        "avg_cost": None if closed or entry_price is None else spell(state.avg_cost),
        "exit_tick_at": spell_time(last.tick.t) if closed and last.tick else None,
        "exit_at": spell_time(last.at) if closed else None,
        "exit_price": spell(row.price(exited)) if closed else None,
        "holding_minutes": spell(minutes(first.at, last.at)) if closed else None,
        "realized_pnl_usd": spell(row.realized()),
        "fees_usd": spell(row.fees()),
        "funding_usd": spell(row.funding()),
        "net_pnl_usd": spell(net),
        "pnl_pct": None if net is None or not entry_size else spell(100 * net / entry_size),
        "mfe_usd": spell(mfe),
        "mae_usd": spell(mae),
        "close_cause": last.cause if closed else None,
        "entry_reason": entry_by.decision.get("reason") if entry_by else None,
        "exit_reason": exit_reason,
        "entry_snapshot_id": entry_by.id if entry_by else None,
        "exit_snapshot_id": exit_by.id if exit_by else None,
        "liquidation_fills": sum(part.liq for part in exited),
        "quality": quality if row.priced() else "unpriced",
        "adopted": first.adopted,
        "exit_trigger": last.trigger if closed else None,
        "fee_unknown": any(part.fee_unknown for part in row.parts()),
    }
    if first.stop is not None or first.target is not None:
        answer |= risk_columns(row)
    return answer | ({"leg": leg} if leg else {})


def risk_columns(row: Row) -> Json:
    """M14: only in rows that had a stop or target with their first entry."""
    first, net, risk = row.parts()[0], row.net(), row.risk()
    return {
        "stop_price": None if first.stop is None else spell(first.stop / row.scale(first)),
        "target_price": None if first.target is None else spell(first.target / row.scale(first)),
        "initial_risk_usd": spell(risk),
        "pnl_r": spell(net / risk) if net is not None and risk else None,
    }


def total(trades: list[Row]) -> Json:
    """M13. Choice: `n`, like the sums, leaves out unpriced rows."""
    priced = [row for row in trades if row.priced()]
    return {
        "n": len(priced),
        "realized_pnl_usd": spell(sum((row.realized() or ZERO for row in priced), ZERO)),
        "fees_usd": spell(sum((row.fees() for row in priced), ZERO)),
        "funding_usd": spell(sum((row.funding() for row in priced), ZERO)),
        "net_pnl_usd": spell(sum((row.net() or ZERO for row in priced), ZERO)),
    }


def spell_discrepancies(found: list[Json]) -> list[Json]:
    """Sorted by (at, symbol, why). Choice: then by the rest; of identical ones, one (a repeated delivery adds none)."""
    spelled: list[Json] = []
    for one in sorted(found, key=lambda one: one["at"]):
        plain = {name: spell_value(value) for name, value in one.items()}
        if plain not in spelled:
            spelled.append(plain)
    at = {spell_time(one["at"]): one["at"] for one in found}
    return sorted(spelled, key=lambda one: (at[one["at"]], one["symbol"], one["why"], json.dumps(one, sort_keys=True)))


def spell_value(value: Any) -> Any:
    if isinstance(value, datetime):
        return spell_time(value)
    return spell(value) if isinstance(value, Fraction) else value


def spell(amount: Fraction | None) -> str | None:
    """Eight places, half to even, no trailing zeros (L1).

    >>> spell(Fraction(2, 3)), spell(Fraction("-1.000000005")), spell(Fraction("0.000000004")), spell(Fraction(1200))
    ('0.66666667', '-1', '0', '1200')
    """
    if amount is None:
        return None
    units = round(amount * 10**8)
    whole, rest = divmod(abs(units), 10**8)
    return ("-" if units < 0 else "") + f"{whole}.{rest:08d}".rstrip("0").rstrip(".")


def spell_time(moment: datetime) -> str:
    text = moment.replace(tzinfo=None).isoformat()
    return (text.rstrip("0") if "." in text else text) + "Z"


def minutes(start: datetime, end: datetime) -> Fraction:
    return Fraction((end - start) // timedelta(microseconds=1), 60 * 10**6)


def cash(ticks: Iterable[Json], config: Json) -> Fraction | None:
    """What all this did to the cash of the account, from the fills alone; None when a fill has no price.

    Cash accounting: every fill is paid or received in full, at its own rate. Margin and inverse: nothing is paid for a
    contract; each reduction settles its gain, at its own rate. Fees are paid, funding is received. It knows no rows and
    no running averages, only what is held and what that cost. It balances: cash + held_at_cost = the net PnL of all
    rows, closed and open, + orphan funding (`earned`).
    """
    walk = Walk(read(ticks, config), config)
    books: dict[tuple[str, str], Book] = {}
    total = sum((payment.usd for payment in walk.payments), ZERO)
    for event in walk.applied:
        if not isinstance(event, Fill):
            for position, book in books.items():
                if position[0] == event.symbol:
                    book.lots = [(qty * event.ratio, px / event.ratio, terms) for qty, px, terms in book.lots]
            continue
        book = books.setdefault(event.position, Book(walk, config))
        moved = book.take(event)
        if moved is None:
            return None
        total += moved - event.fee
    return total


class Book:
    """What is held of one position, and at what price: one lot with the average price, or FIFO lots (M12)."""

    def __init__(self, walk: Walk, config: Json) -> None:
        self.record, self.dust_qty = walk.record, walk.dust_qty
        self.fifo = config.get("trade_unit") == "fifo_lots"
        self.lots: list[tuple[Fraction, Fraction, Terms]] = []  # signed quantity, price, terms

    def take(self, fill: Fill) -> Fraction | None:
        """Book a fill; returns the cash that it moves, without its fee; None if it has no price."""
        terms = self.record.terms(fill.position[0], fill.at)
        if self.lots and not self.fifo:
            terms = self.lots[0][2]
        if fill.px is None or (terms.inverse and fill.px <= 0):
            return None
        moved, left = ZERO, fill.qty
        held = sum((qty for qty, _, _ in self.lots), ZERO)
        flat = held * fill.qty < 0 and abs(held + fill.qty) <= self.dust_qty
        while self.lots and self.lots[0][0] * left < 0:
            qty, px, old = self.lots.pop(0)
            closing = left if abs(left) <= abs(qty) or (flat and not self.lots) else -qty  # signed as the fill
            factor = old.multiplier * fill.rate
            if old.cash:
                moved -= closing * fill.px * factor
            elif old.inverse:
                moved -= closing * (1 / px - 1 / fill.px) * factor
            else:
                moved -= closing * (fill.px - px) * factor
            left -= closing
            if qty + closing and not flat:
                self.lots.insert(0, (qty + closing, px, old))
        if flat:
            self.lots = []
        elif left:
            self.lots.append((left, fill.px, terms if self.lots else self.record.terms(fill.position[0], fill.at)))
            terms = self.lots[-1][2]
            if terms.cash:
                moved -= left * fill.px * terms.multiplier * fill.rate
            if not self.fifo:
                self.average()
        return moved

    def average(self) -> None:
        """All lots as one."""
        total = sum((qty for qty, _, _ in self.lots), ZERO)
        terms = self.lots[0][2]
        if terms.inverse:
            self.lots = [(total, total / sum((qty / px for qty, px, _ in self.lots), ZERO), terms)]
        else:
            self.lots = [(total, sum((qty * px for qty, px, _ in self.lots), ZERO) / total, terms)]


def held_at_cost(ticks: Iterable[Json], config: Json) -> Fraction:
    """What the open positions that are paid in full, and the dust that closed rows left, cost: signed, exact."""
    walk = Walk(read(ticks, config), config)
    total = ZERO
    for row in trade_rows(walk, config):
        if row.terms.cash:
            last = row.states()[-1]
            total += row.side * (last.qty + row.dust()) * last.cost * row.terms.multiplier
    return total


def earned(ticks: Iterable[Json], config: Json) -> Fraction | None:
    """Net PnL of all rows plus orphan funding, exact; None when a row has no price."""
    walk = Walk(read(ticks, config), config)
    total = sum(walk.orphans.values(), ZERO)
    for row in trade_rows(walk, config):
        net = row.net()
        if net is None:
            return None
        total += net
    return total
