"""Short words for the store contract: times, items, trades and bars as the tables take them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

from memtape.core.fills import Fill
from memtape.core.items import Item
from memtape.core.ledger.reported import reported_trade
from memtape.core.ledger.rounds import KnownBar
from memtape.core.ledger.terms import AccountTerms
from memtape.core.ledger.trades import Trade
from memtape.core.ledger.versions import TradeVersion
from memtape.core.observed import Bar, ClosedTrade, Decision
from memtape.store.rows import item_row

OPEN = datetime(2026, 3, 2, 14, 30, tzinfo=UTC)
TERMS = AccountTerms(agent="desk", skill_id="plain")


def minute(n: float) -> datetime:
    """So many minutes after the open."""
    return OPEN + timedelta(minutes=n)


def a_fill(id: str, at: float, side: str = "buy", qty: str = "1", px: str = "100", **more: Any) -> Fill:
    return Fill(id=id, t=minute(at), symbol="AAPL", side=side, qty=Decimal(qty), px=Decimal(px), **more)  # type: ignore[arg-type]


def a_tick(n: int, *fills: Fill, **more: Any) -> dict[str, Any]:
    """A tick at minute n as plain data."""
    from memtape.core.codec import plain

    return {"id": f"t{n}", "t": minute(n), "fills": plain(fills), **more}


def a_trade(id: str = "trade", entry: float = 0, exit_: float = 10, leg: str = "", **more: Any) -> Trade:
    """A closed trade."""
    told = ClosedTrade(
        trade_id=id, symbol="AAPL", side="long", entry_at=minute(entry), exit_at=minute(exit_), entry_price=Decimal(100),
        exit_price=Decimal(101), qty=Decimal(1),
    )  # fmt: skip
    about: dict[str, Any] = {"leg": leg, "close_cause": "close", "quality": "fills", **more}
    return reported_trade(TERMS, told, 1, id)._replace(**about)


def a_version(trade: Trade, known: float = 10, until: float | None = None, settled: float | None = 10) -> TradeVersion:
    """A trade as it was believed from one minute until another."""
    return TradeVersion(
        trade, minute(known), None if until is None else minute(until), None if settled is None else minute(settled)
    )


def a_bar(n: float, close: str = "100", minutes: float = 1, symbol: str = "AAPL", v: str | None = "7") -> Bar:
    """A bar that reaches a dollar beyond its close."""
    c, volume = Decimal(close), None if v is None else Decimal(v)
    return Bar(symbol=symbol, t0=minute(n), t1=minute(n + minutes), o=c, h=c + 1, l=c - 1, c=c, v=volume)


def seen(*bars: Bar, known: float) -> list[KnownBar]:
    """Bars as they became known at a minute."""
    return [KnownBar(bar, minute(known)) for bar in bars]


def a_decision_row(id: str, at: float, seq: int, known: float | None = None, symbol: str = "AAPL") -> dict[str, Any]:
    """The row of a decision that came with log row `seq`."""
    decision = Decision(id=id, t=minute(at), symbol=symbol, reason=f"because {id}")
    item = Item("decision", id, minute(at), decision, symbol, "", None)
    return item_row("local", "desk", item, seq, minute(at if known is None else known), 1, None)
