"""The desk: a paper broker spoken to in short sentences, and a notebook that stands in for an agent with a ledger."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from memtape.core.codec import decimal_text
from memtape.core.fills import Fill
from memtape.core.observed import Bar, Decision, Tick
from memtape.sim.order_ids import OrderNaming
from memtape.sim.paper import Order, PaperBroker
from memtape.sim.venue import Venue

MONDAY = datetime(2024, 1, 8, tzinfo=UTC)
MARKET = Path("/work/shared/data/market")


def day(n: int, prices: str, symbol: str = "AAPL", hours: int = 24, volume: object = 1000) -> Bar:
    """The n-th bar, from "open high low close"."""
    o, h, l, c = (Decimal(p) for p in prices.split())  # noqa: E741
    t0 = MONDAY + timedelta(hours=hours * n)
    v = None if volume is None else Decimal(str(volume))
    return Bar(symbol=symbol, t0=t0, t1=t0 + timedelta(hours=hours), o=o, h=h, l=l, c=c, v=v)


def days(closes: Sequence[object], symbol: str = "AAPL", spread: str = "1") -> list[Bar]:
    """Bars that open at the last close and reach `spread` beyond open and close."""
    bars, last = [], Decimal(str(closes[0]))
    for n, close in enumerate(closes):
        c, s = Decimal(str(close)), Decimal(spread)
        bars.append(day(n, f"{last} {max(last, c) + s} {min(last, c) - s} {c}", symbol))
        last = c
    return bars


class Desk:
    """A paper broker that is told "buy 2 stop 95 target 110" and then what each day brought."""

    def __init__(
        self,
        cash: object = 10_000,
        fee: object = 0,
        slippage: object = 0,
        bar_hours: int = 24,
        naming: OrderNaming | None = None,
        **terms: Any,
    ) -> None:
        costs = {"fee_bps": Decimal(str(fee)), "slippage_bps": Decimal(str(slippage))}
        self.broker = PaperBroker(Decimal(str(cash)), naming=naming, venue=Venue(**terms), **costs)
        self.days = 0
        self.hours = bar_hours

    def order(self, words: str, symbol: str = "AAPL") -> str:
        """`buy|sell QTY [limit P | entry P | protect P] [up_to P] [stop P] [target P] [close] [bars N] [band LOW HIGH]`."""
        side, qty, *rest = words.split()
        about: dict[str, Any] = {"symbol": symbol, "side": side, "qty": Decimal(qty)}
        while rest:
            match rest.pop(0):
                case "limit":
                    about |= {"kind": "limit", "px": Decimal(rest.pop(0))}
                case "entry":
                    about |= {"kind": "stop", "px": Decimal(rest.pop(0))}
                case "protect":
                    about |= {"kind": "stop", "px": Decimal(rest.pop(0)), "reduce_only": True}
                case "up_to":
                    about |= {"limit": Decimal(rest.pop(0))}
                case "close":
                    about |= {"reduce_only": True}
                case "bars":
                    about |= {"bars": int(rest.pop(0))}
                case "band":
                    about |= {"band": (Decimal(rest.pop(0)), Decimal(rest.pop(0)))}
                case "stop" | "target" as which:
                    about |= {which: Decimal(rest.pop(0))}
                case other:
                    raise AssertionError(other)
        return self.broker.place(Order(**about))

    def day(self, prices: str, symbol: str = "AAPL", volume: object = 1000, **others: str) -> list[str]:
        """Lets a day happen, or a bar of so many hours; says what was filled."""
        told = {symbol: prices, **others}
        fills = self.broker.advance([day(self.days, p, name, self.hours, volume) for name, p in told.items()])
        self.days += 1
        return [said(fill) for fill in fills]

    def holds(self, symbol: str = "AAPL") -> str:
        """The position in words."""
        position = self.broker.position(symbol)
        return f"{decimal_text(position.qty)} @ {decimal_text(position.entry_px)}" if position.entry_px else "flat"


def said(fill: Fill) -> str:
    """A fill in words."""
    return f"{fill.side} {decimal_text(fill.qty)} @ {decimal_text(fill.px)} ({fill.trigger})"


@dataclass(frozen=True)
class Row:
    """A closed trade as the notebook knows it."""

    symbol: str
    side: str
    status: str
    entry_at: datetime
    exit_at: datetime | None
    entry_price: Decimal | None
    exit_price: Decimal | None
    net_pnl_usd: Decimal | None
    pnl_r: Decimal | None
    exit_trigger: str | None
    entry_reason: str | None
    id: str = ""
    qty_entered: Decimal | None = None
    stop_price: Decimal | None = None
    target_price: Decimal | None = None
    realized_pnl_usd: Decimal | None = None
    fees_usd: Decimal = Decimal(0)
    funding_usd: Decimal = Decimal(0)
    exit_reason: str | None = None


class Notebook:
    """Takes ticks, and pairs their fills flat to flat."""

    def __init__(self, id: str = "notebook") -> None:
        self.id = id
        self.ticks: list[Tick] = []

    def observe(self, tick: Tick, /) -> None:
        """Keeps the tick."""
        self.ticks.append(tick)

    @property
    def fills(self) -> list[Fill]:
        return [fill for tick in self.ticks for fill in tick.fills]

    @property
    def decisions(self) -> list[Decision]:
        return [decision for tick in self.ticks for decision in tick.decisions]

    @property
    def ledger(self) -> Notebook:
        return self

    def trades(self, *, status: str = "closed") -> list[Row]:
        """Closed trades, for strategies that enter and leave in one go. An open one is not kept."""
        if status == "open":
            return []
        by_order = {order: d for d in self.decisions for order in d.order_ids}
        entries: dict[str, Fill] = {}
        rows = []
        for fill in self.fills:
            entry = entries.pop(fill.symbol, None)
            if entry is None:
                entries[fill.symbol] = fill
                continue
            sign = 1 if entry.side == "buy" else -1
            net = sign * (fill.px - entry.px) * fill.qty - entry.fee - fill.fee
            decision = by_order[entry.order_id or ""]
            risk = abs(entry.px - decision.stop) * entry.qty if decision.stop else None
            side, r = "long" if sign > 0 else "short", net / risk if risk else None
            told = (entry.t, fill.t, entry.px, fill.px, net, r, fill.trigger, decision.reason)
            about = {"id": entry.id, "qty_entered": entry.qty, "fees_usd": entry.fee + fill.fee}
            rows.append(Row(fill.symbol, side, "closed", *told, **about))
        return rows


class Words:
    """What the tests speak with."""

    Desk = Desk
    Notebook = Notebook
    day = staticmethod(day)
    days = staticmethod(days)
    said = staticmethod(said)


@pytest.fixture(scope="session")
def words() -> type[Words]:
    return Words


@pytest.fixture(scope="session")
def market() -> Path:
    if not MARKET.is_dir():
        pytest.skip(f"{MARKET} is not there")
    return MARKET
