"""Makes fixtures/tradememory.db, with the functions and tools of tradememory-protocol itself, at fixed times.

It needs that package, which memtape does not: in an environment of its own,

    python3 -m venv /tmp/tm && /tmp/tm/bin/pip install tradememory-protocol==0.5.6
    /tmp/tm/bin/python tests/brokers/make_tradememory.py

Each trade comes by another of its roads: the journal (decision, then outcome), the tool `remember_trade`, the synchronised
fills of a broker, an order that the proxy let through, a backtest, a replay. What its functions would refuse, and what is
found in files all the same, is put in by SQL at the end.
"""

from __future__ import annotations

import asyncio
import itertools
import sys
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace
from typing import Any

FIXTURE = Path(__file__).parent / "fixtures" / "tradememory.db"
START = datetime(2026, 3, 2, 8, 0, tzinfo=UTC)


class Clock(datetime):
    """The package's clock, set by hand."""

    moment = START

    @classmethod
    def now(cls, tz: Any = None) -> datetime:
        return cls.moment.astimezone(tz) if tz else cls.moment.replace(tzinfo=None)


def at(days: int, hours: float = 0.0) -> datetime:
    """Set the clock, that many days and hours after the start."""
    Clock.moment = START + timedelta(days=days, hours=hours)
    return Clock.moment


def hold_still() -> None:
    """No clock and no chance in the package."""
    import uuid

    numbers = itertools.count(1)
    uuid.uuid4 = lambda: SimpleNamespace(hex=f"{next(numbers):08x}" * 4)  # type: ignore[assignment,return-value]
    for name, module in list(sys.modules.items()):
        if name.startswith("tradememory") and getattr(module, "datetime", None) is datetime:
            module.datetime = Clock  # type: ignore[attr-defined]


def journal(db: Any) -> None:
    """A decision with its context, and its outcome later."""
    from tradememory.journal import TradeJournal

    book = TradeJournal(db)
    at(0)
    book.record_decision("T-2026-0001", "XAUUSD", "long", 0.05, "VolBreakout", 0.72, "London open above the 20-period high",
                         {"price": 2891.5, "atr": 28.3, "session": "london"})  # fmt: skip
    at(0, 3.5)
    book.record_outcome("T-2026-0001", 2907.9, 82.0, "target reached", pnl_r=1.64, hold_duration=210,
                        lessons="Breakouts at the London open deserve full size")  # fmt: skip
    at(1)
    book.record_decision("T-2026-0002", "XAUUSD", "short", 0.1, "MeanReversion", 0.4, "Overbought on H1",
                         {"price": 2910.0, "session": "newyork"}, ["T-2026-0001"])  # fmt: skip
    at(1, 1)
    book.record_outcome("T-2026-0002", 2920.0, -100.0, "stopped out", pnl_r=-1.0, hold_duration=60)
    at(20)
    book.record_decision("T-2026-0003", "XAUUSD", "long", 0.05, "VolBreakout", 0.6, "Second test of the high",
                         {"price": 2950.0, "session": "asian"})  # fmt: skip


async def tools(module: Any) -> None:
    """Trades and plans as an agent reports them."""
    at(2, 4)
    await module.remember_trade(
        "xauusd", "long", 2900.0, 2888.0, -60.0, "VolBreakout", "false break in a range", pnl_r=-1.2, context_regime="ranging",
        context_atr_d1=31.5, confidence=0.55, reflection="Do not buy breakouts in a range", max_adverse_excursion=-75.0,
        trade_id="R-1", timestamp="2026-03-04T10:00:00", lot_size=0.05,
    )  # fmt: skip
    at(3, 2)
    await module.remember_trade(
        "EURUSD", "short", 1.085, 1.081, 40.0, "Pullback", "lower high after the ECB", context_regime="trending_down",
        trade_id="R-2", timestamp="2026-03-05T14:00:00+01:00", entry_timestamp="2026-03-05T08:30:00+00:00",
        exit_timestamp="2026-03-05T13:00:00+00:00",
    )  # fmt: skip
    at(4)
    await module.remember_trade("XAUUSD", "long", 2915.0, 2931.0, 80.0, "VolBreakout", "trend day", pnl_r=1.6,
                                context_regime="trending_up", confidence=0.8, trade_id="R-3")  # fmt: skip
    at(5)
    skip = ("market_condition", '{"regime": "ranging", "strategy": "VolBreakout"}', '{"type": "skip_trade"}')
    await module.create_trading_plan(*skip, "Three false breaks in a range", expiry_days=3650, priority=0.8)
    wide = ("market_condition", '{"atr_d1_min": 60}', '{"type": "reduce_size", "size_factor": 0.5, "why": "gaps"}')
    await module.create_trading_plan(*wide, "Halve the size on wild days", expiry_days=3650)
    news = ("event", '{"nfp": "above 200K"}', '{"type": "alert"}')
    await module.create_trading_plan(*news, "Buy the dip in gold after a strong report", expiry_days=3650)
    await module.create_trading_plan(
        "drawdown", '{"regime": "volatile"}', '{"type": "alert"}', "It is over by now", expiry_days=1
    )
    await module.create_trading_plan("market_condition", '{"regime": "volatile"}', '{"note": "be careful"}', "No action in it",
                                     expiry_days=3650)  # fmt: skip


def broker(db: Any) -> None:
    """Two round trips from fills; the first goes on an order that the proxy had let through with its stop."""
    from tradememory.sync.fills import RoundTrip
    from tradememory.sync.store import store_round_trips

    def order(id: str, when: datetime, price: float, stop: float) -> None:
        context = {"entry_price": price, "protective_stop_price": stop, "broker": "alpaca"}
        db.insert_trade(empty(id, when, "BTC/USD", "long", 0.5, "Dip", context) | {"tags": ["proxy", "alpaca"]})

    def trip(days: int, entry: str, exit: str, gross: str, fill: str) -> Any:
        start = START + timedelta(days=days)
        return RoundTrip("alpaca", "A1", "BTCUSD", "long", start, start + timedelta(hours=6), Decimal("0.5"), Decimal("0.5"),
                         Decimal(entry), Decimal(exit), Decimal(gross), Decimal("3.25"), 0, [fill], [f"o-{fill}"])  # fmt: skip

    order("ord-1", at(6), 65000.0, 64000.0)
    order("ord-2", at(21), 66000.0, 65000.0)
    trips = [trip(6, "65000", "66500", "750", "f1"), trip(7, "66400", "66000", "-200", "f2")]
    linked = trips[0]
    store_round_trips(db, trips, venue="Alpaca", strategy="Dip", link=lambda t: db.get_trade("ord-1") if t is linked else None)


def empty(id: str, when: Any, symbol: str, direction: str, size: float, strategy: str, context: dict[str, Any]) -> dict[str, Any]:
    """A row of trade_records without an outcome."""
    nothing = dict.fromkeys(("exit_timestamp", "exit_price", "pnl", "pnl_r", "hold_duration", "exit_reasoning", "slippage",
                             "execution_quality", "lessons", "grade"))  # fmt: skip
    return {"id": id, "timestamp": when, "symbol": symbol, "direction": direction, "lot_size": size, "strategy": strategy,
            "confidence": 0.5, "reasoning": "", "market_context": context, "references": [], "tags": [], **nothing}  # fmt: skip


def backtest(db: Any) -> None:
    """A backtest's trades have naive times; the patterns found in them name no situation, one made by hand does."""
    from tradememory.backtest_importer import build_trade_records
    from tradememory.reflection import ReflectionEngine

    def done(hour: int, exit_price: float, pnl: float) -> dict[str, Any]:
        entry = datetime(2026, 2, 3, hour, 0)
        return {"entry_time": entry, "exit_time": entry + timedelta(minutes=90), "entry_price": 2800.0, "exit_price": exit_price,
                "symbol": "XAUUSD", "direction": "long", "volume": 0.1, "pnl": pnl, "hold_duration_min": 90}  # fmt: skip

    for record in build_trade_records([done(9, 2812.0, 120.0), done(14, 2794.0, -60.0)], "VB_XAUUSD_BUY_RR3"):
        db.insert_trade(record)
    at(8)
    ReflectionEngine(SimpleNamespace(db=db)).discover_patterns_from_backtest(db)
    by_hand = {"pattern_type": "session", "date_range": "2026-01-01 to 2026-03-01", "source": "manual",
               "validation_status": "VALIDATED", "discovered_at": Clock.now().isoformat()}  # fmt: skip
    db.insert_pattern({"pattern_id": "P-1", "description": "VolBreakout wins in London", "confidence": 0.72, "sample_size": 25,
                       "strategy": "VolBreakout", "symbol": "XAUUSD", "metrics": {"session": "london", "win_rate": 72.0},
                       **by_hand})  # fmt: skip
    db.insert_adjustment({"adjustment_id": "A-1", "adjustment_type": "session_reduce", "parameter": "asia.lot", "old_value": "1",
                          "new_value": "0.5", "reason": "Asia loses", "source_pattern_id": "P-1", "confidence": 0.7,
                          "status": "proposed", "created_at": Clock.now().isoformat(), "applied_at": None})  # fmt: skip


def memories(db: Any) -> None:
    """Episodes without a trade record, beliefs with and without conditions."""
    row = {"context_volatility_regime": "high", "context_session": "new_york", "context_atr_d1": 30.0, "context_atr_h1": 0.0,
           "strategy": "VolBreakout", "direction": "long", "entry_price": 2850.0, "lot_size": 0.1, "exit_price": 2871.0,
           "pnl": 210.0, "pnl_r": 2.1, "hold_duration_seconds": 7200, "max_adverse_excursion": 4.0, "reflection": "Held to target",
           "confidence": 0.7, "tags": ["replay"], "retrieval_strength": 1.0, "retrieval_count": 0,
           "last_retrieved": None}  # fmt: skip
    when = START - timedelta(days=10)
    named = {"source": "replay_engine", "symbol": "XAUUSD"}
    db.insert_episodic(
        row | {"id": "replay_1", "timestamp": when.isoformat(), "context_json": named, "context_regime": "volatile"}
    )
    db.insert_episodic(row | {"id": "replay_2", "timestamp": (when + timedelta(days=1)).isoformat(), "context_regime": "ranging",
                              "context_json": {"source": "replay_engine", "data_file": "xau.csv"}})  # fmt: skip
    belief = {"strategy": "Pullback", "symbol": "EURUSD", "regime": None, "volatility_regime": None, "last_confirmed": None,
              "last_contradicted": None, "source": "manual", "sample_size": 12}  # fmt: skip
    db.insert_semantic(belief | {"id": "S-1", "proposition": "Pullbacks pay in a calm downtrend", "alpha": 9.0, "beta": 5.0,
                                 "regime": "trending_down", "volatility_regime": "low",
                                 "validity_conditions": {"symbol": "EURUSD", "session": "london"}})  # fmt: skip
    db.insert_semantic(belief | {"id": "S-2", "proposition": "Pullback works", "alpha": 7.0, "beta": 3.0,
                                 "validity_conditions": {"symbol": "EURUSD", "strategy": "Pullback"}})  # fmt: skip
    db.insert_semantic(belief | {"id": "S-3", "proposition": "Pullbacks pay at full moon", "alpha": 3.0, "beta": 1.0,
                                 "regime": "trending_down", "validity_conditions": {"moon": "full"}})  # fmt: skip


def damage(db: Any) -> None:
    """Rows that no function would write, and that files have all the same."""
    db.insert_trade(empty("T-2026-0004", at(9), "XAUUSD", "long", 0.1, "VolBreakout", {}) | {"exit_price": 2900.0, "pnl": 10.0})
    db.insert_trade(empty("T-2026-0005", at(10), "XAUUSD", "long", 0.1, "VolBreakout", {"price": 2900.0}))
    with db.get_connection() as connection:
        connection.execute("UPDATE trade_records SET market_context = '{oops' WHERE id = 'T-2026-0005'")


def make(path: Path = FIXTURE) -> None:
    """The whole file, in small pages."""
    from tradememory import backtest_importer, db, mcp_server, reflection, trade_store
    from tradememory import journal as journal_
    from tradememory.owm.migration import migrate_patterns_to_semantic
    from tradememory.sync import store

    assert all((backtest_importer, journal_, reflection, trade_store, store))  # loaded before their clock is set
    hold_still()
    path.parent.mkdir(exist_ok=True)
    path.unlink(missing_ok=True)
    mcp_server._db = base = db.Database(str(path))
    journal(base)
    asyncio.run(tools(mcp_server))
    broker(base)
    backtest(base)
    memories(base)
    migrate_patterns_to_semantic(base)
    damage(base)
    with base.get_connection() as connection:
        connection.commit()
        connection.executescript("PRAGMA page_size = 512; VACUUM")


if __name__ == "__main__":
    make()
