"""Real histories of at least 30 closed trades, imported as a user imports them: each is an agent of a store in memory.

They come from `../shared/data/trades`, which is not part of the repository: variants of one engine on gold, language models on
perpetuals and on shares, a human's options, and a log of microcaps kept by hand.
"""

from __future__ import annotations

import csv
import gzip
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

from memtape.engine import AgentMemory, Memory
from memtape.plugs.clock import FixedClock
from memtape.store.sqlite import SqliteDatabase
from memtape.surfaces.cli.imports import run_import

TRADES = Path(__file__).resolve().parents[2] / "shared" / "data" / "trades"
LATER = datetime(2026, 11, 15, 12, tzinfo=UTC)  # after every history
MIN_TRADES = 30
GOLD, ARENA = "backtest_xauusd_23variants_2023-08_2025-06.csv.gz", "nof1_alpha_arena_s1_trades_2025-10.csv.gz"
OPTIONS, SHARES = "human_options_roundtrips_2021_2023.csv.gz", "aitrader_us_nasdaq100_hourly_actions.csv.gz"
MICROCAPS = "chatgpt_microcap_trade_log_2025-06_2025-12.csv"
VARIANTS = (
    "hybrid", "dca1_mask", "e2_combo", "e3_combo", "e6_nodca", "final2", "gm_usdfx", "gold_soft22", "gov_atr", "kal_fx",
    "rs_base",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class RealHistory:
    """A file, which of its rows, and how it is imported."""

    name: str
    file: str
    options: dict[str, Any] = field(default_factory=dict)
    by_lots: bool = False  # the account is rarely flat, so each reduction is a trade


HISTORIES: tuple[RealHistory, ...] = (
    *(RealHistory(f"gold {variant}", GOLD, {"where": {"variant": variant}}) for variant in VARIANTS),
    *(RealHistory(f"perpetuals {model}", ARENA, {"where": {"model_id": model}}) for model in ("gemini-2.5-pro", "gpt-5")),
    RealHistory("perpetuals of six models", ARENA),
    *(
        RealHistory(f"options, {'SPX' if family == 'True' else 'single names'}", OPTIONS,
                    {"where": {"is_spx_family": family}, "zone": "America/New_York"})
        for family in ("True", "False")
    ),
    *(RealHistory(f"shares {model}", SHARES, {"where": {"model": model}}, by_lots=True)
      for model in ("MiniMax-M2", "claude-3.7-sonnet", "gemini-2.5-flash")),
    RealHistory("microcaps", MICROCAPS, {"zone": "America/New_York"}, by_lots=True),
)  # fmt: skip


def histories_available() -> bool:
    """Returns True if the real trade logs lie beside the checkout."""
    return TRADES.is_dir()


def imported(history: RealHistory) -> AgentMemory:
    """Returns an agent with the history, imported by the command that users have."""
    memory = Memory(SqliteDatabase(":memory:"), clock=FixedClock(LATER))
    memory.create_skill("main")
    memory.create_agent("main", skill="main", settings={"trade_unit": "fifo_lots"} if history.by_lots else {})
    with tempfile.TemporaryDirectory() as folder:
        path = TRADES / history.file if history.file != SHARES else _share_fills(Path(folder), history)
        options = {} if history.file == SHARES else history.options
        run_import(memory, path, agent="main", commit=True, skip_bad=True, **options)
    return memory.agent("main")


def _share_fills(folder: Path, history: RealHistory) -> Path:
    """Returns a file of a model's purchases and sales as a broker exports them; the log itself is of ticks, in New York time."""
    with gzip.open(TRADES / history.file, "rt", encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file) if row["model"] == history.options["where"]["model"]]
    path = folder / "fills.csv"
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(("id", "time", "symbol", "side", "qty", "price"))
        for row in rows:
            if row["action"] in ("buy", "sell") and row["implied_price"]:
                t = datetime.fromisoformat(row["time"]).replace(tzinfo=UTC) + timedelta(hours=4)
                price = Decimal(row["implied_price"])
                writer.writerow((row["id"], t.isoformat(), row["symbol"], row["action"], row["amount"], f"{price:.8f}"))
    return path


def moments(agent: AgentMemory) -> Iterator[datetime]:
    """Yields two moments of a history: shortly after its last trade, and in its middle."""
    ends = sorted(trade.exit_at for trade in agent.ledger.trades(status="closed") if trade.exit_at is not None)
    yield ends[-1] + timedelta(minutes=30)
    if len(ends) >= 2 * MIN_TRADES:
        yield ends[len(ends) // 2] + timedelta(minutes=30)
