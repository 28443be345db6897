"""Real trade histories as memtape remembers them: each is recorded by the product, trade by trade, and read as episodes.

The files lie in ../shared/data and are never part of the repository. None of them has a stop, so their outcomes are in money.
"""

from __future__ import annotations

import csv
import gzip
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

from memtape.core.memory.episodes import Episode
from memtape.engine import Memory
from memtape.store.memories import MemoryTables
from memtape.store.sqlite import SqliteDatabase

DATA = Path(__file__).resolve().parents[2] / "shared" / "data" / "trades"
BACKTEST, OPTIONS = "backtest_xauusd_23variants_2023-08_2025-06.csv.gz", "human_options_roundtrips_2021_2023.csv.gz"
ARENA, SHARES = "nof1_alpha_arena_s1_trades_2025-10.csv.gz", "aitrader_us_nasdaq100_hourly_actions.csv.gz"
EXCHANGE_TIME = ZoneInfo("America/New_York")
TRENDING_ADX = 25.0
WINDOW = 500  # trades, as many as a reflection looks at


def rows_of(name: str) -> list[dict[str, str]]:
    """Returns the rows of a file of trades."""
    with gzip.open(DATA / name, "rt", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def remembered(trades: Iterable[dict[str, Any]], kind: str = "trade", **settings: Any) -> list[Episode]:
    """Records trades with the product and returns its episodes, in the order of their entries."""
    with Memory(SqliteDatabase(":memory:")) as memory:
        memory.create_skill("study")
        memory.create_agent("study", skill="study", mode="sim", settings=settings)
        agent = memory.agent("study")
        for trade in trades:
            agent.observe(trade, kind=kind)
        with memory.resources.reading("study") as tables:
            found = MemoryTables(tables).latest(datetime(2100, 1, 1, tzinfo=UTC), 100_000, None, None, trades=True, claims=True)
    return sorted(found, key=lambda e: (e.entry_at, e.exit_at, e.id))


def backtest(variant: str, first: int = 0) -> list[Episode]:
    """Returns trades of one variant of a gold strategy; market labels follow from the indicators at the entry."""
    rows = [row for row in rows_of(BACKTEST) if row["variant"] == variant]
    rows = sorted(rows, key=lambda row: row["entry_time"])[first : first + WINDOW]
    return remembered(
        {
            "trade_id": f"{variant}-{n}", "symbol": row["symbol"], "side": "long" if row["direction"] == "BUY" else "short",
            "entry_at": row["entry_time"], "exit_at": row["exit_time"], "entry_price": row["entry_price"],
            "exit_price": row["exit_price"], "qty": 1, "pnl": row["pnl"], "trigger": row["reason"],
            "situation": {"session": row["session"].lower(), "regime": _regime(row)},
        }
        for n, row in enumerate(rows)
    )  # fmt: skip


def _regime(row: dict[str, str]) -> str:
    if float(row["f_ADX"]) < TRENDING_ADX:
        return "ranging"
    return "trending_up" if float(row["f_RSI_H4"]) > 50 else "trending_down"


def options(first: int = 0) -> list[Episode]:
    """Returns option round trips of one person."""
    rows = sorted((row for row in rows_of(OPTIONS) if row["status"] == "closed"), key=lambda row: row["entry_time"])
    return remembered(
        {
            "trade_id": str(n), "symbol": row["underlier"], "side": "long", "entry_at": _local(row["entry_time"]),
            "exit_at": _local(row["exit_time"]), "entry_price": row["entry_px"], "exit_price": row["exit_px"],
            "qty": row["qty"], "pnl": row["pnl"], "tags": [row["bias"], *(["0dte"] if row["is_0dte"] == "True" else [])],
        }
        for n, row in enumerate(rows[first : first + WINDOW])
    )  # fmt: skip


def _local(text: str) -> str:
    return datetime.fromisoformat(text).replace(tzinfo=EXCHANGE_TIME).astimezone(UTC).isoformat()


def arena() -> list[Episode]:
    """Returns round trips of six language models that traded coins with real money, as one account. They span twelve days."""
    return remembered(
        {
            "trade_id": str(n), "symbol": row["symbol"], "side": row["side"], "entry_at": _seconds(row["entry_time"]),
            "exit_at": _seconds(row["exit_time"]), "entry_price": row["entry_price"], "exit_price": row["exit_price"],
            "qty": str(abs(float(row["quantity"]))), "pnl": row["realized_gross_pnl"], "tags": [row["model_id"]],
        }
        for n, row in enumerate(sorted(rows_of(ARENA), key=lambda row: float(row["entry_time"])))
    )  # fmt: skip


def _seconds(text: str) -> str:
    return datetime.fromtimestamp(float(text), UTC).isoformat()


def shares() -> list[Episode]:
    """Returns the closed lots of six language models that traded shares by the hour."""
    found: list[Episode] = []
    rows = [row for row in rows_of(SHARES) if row["action"] in ("buy", "sell") and row["implied_price"]]
    for model in sorted({row["model"] for row in rows}):
        fills = [
            {
                "id": row["id"], "t": (datetime.fromisoformat(row["time"]).replace(tzinfo=UTC) + timedelta(hours=4)).isoformat(),
                "seq": int(row["id"]), "symbol": row["symbol"], "side": row["action"], "qty": row["amount"],
                "px": f"{float(row['implied_price']):.8f}",
            }
            for row in rows if row["model"] == model
        ]  # fmt: skip
        lots = remembered(fills, "fill", trade_unit="fifo_lots")
        found += [e._replace(id=f"{model}-{e.id}", tags=(model,)) for e in lots]
    return sorted(found, key=lambda e: (e.entry_at, e.exit_at, e.id))
