"""Files of invented trades, as a broker would export them."""

from __future__ import annotations

import csv
import random
from datetime import UTC, datetime, timedelta
from pathlib import Path

HEADER = ("trade_id", "symbol", "side", "entry_time", "exit_time", "entry_price", "exit_price", "qty", "stop", "pnl", "strategy", "regime")
START = datetime(2025, 1, 6, 9, tzinfo=UTC)  # a Monday


def trade_rows(n: int, *, seed: int = 1, won: float = 0.4, hours: float = 15.0) -> list[list[str]]:
    """Returns trades of one symbol with a stop 1 away: +2 or -1, each lasting an hour."""
    chance = random.Random(seed)
    rows = []
    for place in range(n):
        entry = START + timedelta(hours=hours * place)
        move = 2.0 if chance.random() < won else -1.0
        rows.append([
            f"t{place:04}", "XAUUSD", "long", entry.isoformat(), (entry + timedelta(hours=1)).isoformat(), "100", f"{100 + move}", "1",
            "99", f"{move}", chance.choice(("one", "two")), chance.choice(("ranging", "trending_up")),
        ])  # fmt: skip
    return rows


def write_trades(path: Path, rows: list[list[str]]) -> Path:
    """Writes trades as CSV."""
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([HEADER, *rows])
    return path
