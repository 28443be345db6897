"""Real accounts, as their models traded them: snapshots alone, and an account that is never flat. Skipped without the data."""

from __future__ import annotations

import csv
import gzip
from collections import defaultdict
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from memtape.core.ledger.trades import money_text
from memtape.core.values import MONEY
from memtape.engine.proof.audit import verify_store
from memtape.engine.view.ledger import ledger_totals
from tests import desk

DATA = Path(__file__).resolve().parents[3] / "shared" / "data"
pytestmark = pytest.mark.skipif(not DATA.exists(), reason="the real trade logs are not beside this checkout")
HOUR = timedelta(hours=1)


def rows_of_file(name: str) -> list[dict[str, str]]:
    with gzip.open(DATA / name, "rt", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def seconds(text: str) -> datetime:
    return datetime.fromtimestamp(float(text), UTC)


# ---- snapshots alone ---------------------------------------------------------------------------------------------------


def hourly_snapshots(model: str) -> tuple[list[dict[str, Any]], Decimal]:
    """What an hourly look at a model's account shows: its positions at their average entry, and what it really earned by fills.

    A position is the sum of the round trips that are open; the broker's entry price is their average.
    """
    trades = [row for row in rows_of_file("trades/nof1_alpha_arena_s1_trades_2025-10.csv.gz") if row["model_id"] == model]
    bars: dict[datetime, dict[str, dict[str, str]]] = defaultdict(dict)
    for row in rows_of_file("market/binance_perp_6coins_1h_2025-10.csv.gz"):
        bars[datetime.fromisoformat(row["time"])][row["symbol"]] = row
    first = seconds(min(row["entry_time"] for row in trades)).replace(minute=0, second=0, microsecond=0)
    last = seconds(max(row["exit_time"] for row in trades)) + HOUR
    ticks: list[dict[str, Any]] = []
    at = first
    while at <= last:
        positions: dict[str, Any] = {}
        for symbol in {row["symbol"] for row in trades}:
            held = [r for r in trades if r["symbol"] == symbol and seconds(r["entry_time"]) <= at < seconds(r["exit_time"])]
            qty = sum((Decimal(r["quantity"]) for r in held), Decimal(0))
            if held and qty:
                paid = sum((Decimal(r["quantity"]) * Decimal(r["entry_price"]) for r in held), Decimal(0))
                positions[symbol] = {"qty": f"{qty:.10f}", "entry_px": f"{paid / qty:.8f}", "mark": bars[at][symbol]["open"]}
        done = [
            {"symbol": s, "t0": (at - HOUR).isoformat(), "t1": at.isoformat(), "o": b["open"], "h": b["high"], "l": b["low"], "c": b["close"]}
            for s, b in bars[at - HOUR].items()
        ]  # fmt: skip
        marks = {symbol: bar["open"] for symbol, bar in bars[at].items()}
        ticks.append({"id": at.isoformat(), "t": at.isoformat(), "positions": positions, "marks": marks, "bars": done})
        at += HOUR
    return ticks, sum((Decimal(row["realized_gross_pnl"]) for row in trades), Decimal(0))


@pytest.mark.parametrize("model", ["gpt-5", "grok-4", "claude-sonnet-4-5"])
def test_what_snapshots_of_a_real_account_imply_was_traded_at_prices_that_the_market_had(model: str) -> None:
    ticks, _ = hourly_snapshots(model)
    memory = desk.given_memory()
    agent = desk.given_agent(memory)
    # One fill, so that what snapshots imply is listed.
    agent.observe({"id": "f0", "t": ticks[0]["t"], "symbol": "ADA", "side": "buy", "qty": 1, "px": 1}, kind="fill")
    for tick in ticks:
        agent.observe({**tick, "positions": {**tick["positions"], "ADA": {"qty": 1}}})
    stated = {(tick["t"], symbol): Decimal(held["entry_px"]) for tick in ticks for symbol, held in tick["positions"].items()}
    lows = {(tick["t"], bar["symbol"]): (Decimal(bar["l"]), Decimal(bar["h"])) for tick in ticks for bar in tick["bars"]}
    computed = 0
    for found in agent.ledger.discrepancies(10_000):
        if found.why != "snapshot" or found.price is None:
            continue
        key = (found.at.isoformat(), found.symbol)
        if found.price == stated.get(key):
            continue
        computed += 1
        low, high = lows[key]
        assert low * Decimal("0.98") <= found.price <= high * Decimal("1.02"), found
    assert computed > 0
    assert verify_store(memory).problems == []


# ---- an account that is never flat -------------------------------------------------------------------------------------


def fills_of(model: str) -> list[dict[str, Any]]:
    """The purchases and sales of a model that trades hundred shares hour by hour; local New York time is UTC-4."""
    found = []
    for row in rows_of_file("trades/aitrader_us_nasdaq100_hourly_actions.csv.gz"):
        if row["model"] == model and row["action"] in ("buy", "sell") and row["implied_price"]:
            t = datetime.fromisoformat(row["time"]).replace(tzinfo=UTC) + timedelta(hours=4)
            found.append({"id": f"{row['id']}", "t": t.isoformat(), "seq": int(row["id"]), "symbol": row["symbol"],
                          "side": row["action"], "qty": row["amount"], "px": f"{Decimal(row['implied_price']):.8f}"})  # fmt: skip
    return found


def test_an_account_that_is_never_flat_learns_from_each_of_its_reductions() -> None:
    models = {row["model"] for row in rows_of_file("trades/aitrader_us_nasdaq100_hourly_actions.csv.gz")}
    by_lots = by_trips = sales = 0
    for model in sorted(models):
        fills = fills_of(model)
        sales += sum(fill["side"] == "sell" for fill in fills)
        realized = {}
        for unit in ("fifo_lots", "flat_to_flat"):
            memory = desk.given_memory()
            agent = desk.given_agent(memory, {"trade_unit": unit})
            for fill in fills:
                agent.observe(fill, kind="fill")
            trades = agent.ledger.trades()
            totals = ledger_totals(trades)
            assert MONEY.add(totals.closed.net_pnl_usd, totals.open.net_pnl_usd) == totals.all.net_pnl_usd
            realized[unit] = totals
            with agent.view() as view:
                learned = len(view.episodes())
            assert learned == totals.closed.n
            assert verify_store(memory).problems == []
        by_lots += realized["fifo_lots"].closed.n
        by_trips += realized["flat_to_flat"].closed.n
        # What is held in the end is held at another cost, but no money appears or vanishes.
        assert money_text(realized["fifo_lots"].all.fees_usd) == money_text(realized["flat_to_flat"].all.fees_usd)
    assert by_lots >= sales > by_trips, (by_lots, sales, by_trips)
