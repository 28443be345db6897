"""Real logs of traders, bots and models, where they lie beside the repository: the figures their owners would check."""

from __future__ import annotations

from collections import Counter
from decimal import Decimal
from typing import Any

import pytest

from memtape.errors import Invalid
from memtape.surfaces.cli.imports import run_import

from .desk import REAL, given_memory, ledger

pytestmark = pytest.mark.skipif(not REAL.is_dir(), reason=f"{REAL} is not here")


def looked_at(name: str, **options: Any) -> dict[str, Any]:
    return run_import(given_memory(), REAL / name, agent="desk", **options)


def test_sixteen_thousand_backtest_trades_on_gold_have_a_profit_and_no_quantity() -> None:
    answer = looked_at("backtest_xauusd_23variants_2023-08_2025-06.csv.gz")
    assert (answer["rows"], answer["trades"], answer["new"], answer["problems"]) == (16_656, 16_656, 16_656, [])
    assert answer["totals"]["net_pnl"] == "5793.82030994"
    assert answer["totals"]["by_symbol"] == {"XAUUSD": {"n": 16_656, "net_pnl": "5793.82030994"}}
    assert (answer["totals"]["first"], answer["totals"]["last"]) == ("2023-08-22T04:00:00Z", "2025-06-30T19:30:00Z")
    columns = answer["mapping"]["columns"]
    assert (columns["strategy"], columns["side"], columns["session"], columns["exit_reason"]) == (
        "variant", "direction", "session", "reason",
    )  # fmt: skip


def test_one_variant_of_the_backtest_can_be_imported_alone() -> None:
    memory = given_memory()
    options: dict[str, Any] = {"where": {"variant": "hybrid"}, "agent": "desk"}
    path = REAL / "backtest_xauusd_23variants_2023-08_2025-06.csv.gz"
    assert run_import(memory, path, commit=True, **options)["new"] == 490
    rows = ledger(memory)
    assert (len(rows), {row["strategy"] for row in rows}, {row["qty_entered"] for row in rows}) == (490, {"hybrid"}, {None})
    assert run_import(memory, path, commit=True, **options)["new"] == 0


def test_six_models_on_hyperliquid_end_with_the_net_that_their_file_states() -> None:
    memory = given_memory()
    answer = run_import(memory, REAL / "nof1_alpha_arena_s1_trades_2025-10.csv.gz", agent="desk", commit=True)
    assert (answer["trades"], answer["new"], answer["problems"]) == (269, 269, [])
    assert (answer["totals"]["net_pnl"], answer["totals"]["fees"]) == ("7671.76196918", "2995.39567682")
    rows = ledger(memory)
    assert sum(row["net_pnl_usd"] for row in rows) == Decimal("7671.76196918")
    assert Counter(row["strategy"] for row in rows)["gemini-2.5-pro"] == 116
    assert Counter(row["side"] for row in rows) == {"long": 165, "short": 104}


def test_a_humans_options_are_all_long_count_a_hundred_shares_and_lose_twenty_two_thousand() -> None:
    memory = given_memory()
    answer = run_import(
        memory, REAL / "human_options_roundtrips_2021_2023.csv.gz", agent="desk", zone="America/New_York", commit=True
    )
    assert (answer["rows"], answer["trades"], answer["totals"]["net_pnl"]) == (1221, 1198, "-22101")
    assert "warning" not in answer
    assert {p["problem"]: p["count"] for p in answer["problems"]} == {"still open, skipped": 23}
    rows = ledger(memory)
    assert ({row["side"] for row in rows}, sum(row["net_pnl_usd"] for row in rows)) == ({"long"}, -22101)
    first = min(rows, key=lambda row: row["entry_at"])
    assert (str(first["entry_at"]), first["qty_entered"], first["entry_size_usd"]) == ("2021-02-12 17:10:12+00:00", 100, 465)


def test_a_microcap_log_keeps_its_reasons_and_pairs_partial_sells() -> None:
    memory = given_memory()
    path = REAL / "chatgpt_microcap_trade_log_2025-06_2025-12.csv"
    answer = run_import(memory, path, agent="desk", zone="America/New_York", commit=True)
    repeated, profits = sorted(answer["problems"], key=lambda problem: problem["field"], reverse=True)
    # Its log lists some sells twice, and computes some profits from a wrong cost.
    assert (profits["field"], profits["blocks"]) == ("pnl", False)
    assert "the file states a profit of 8.5 for CADL, its fills give 7.75" in [each["problem"] for each in profits["examples"]]
    assert (answer["fills"], answer["new"], repeated["count"], repeated["blocks"]) == (74, 74, 3, False)
    rows = ledger(memory)
    first = next(row for row in rows if row["symbol"] == "ABEO")
    assert (first["entry_reason"], first["exit_reason"]) == (
        "MANUAL BUY - INTIAL POSITION",
        "AUTOMATED SELL - STOPLOSS TRIGGERED",
    )
    assert first["realized_pnl_usd"] == Decimal("3.72")
    realised = sum(row["realized_pnl_usd"] for row in rows)
    assert abs(realised - Decimal(answer["totals"]["gross_pnl"])) < Decimal("0.0000001")
    assert answer["totals"]["open"] == {"ALDX": "-6", "FBIO": "0.36", "TLSA": "-2"}
    once = looked_at("chatgpt_microcap_trade_log_2025-06_2025-12.csv", mapping={"repeats": "drop"}, zone="America/New_York")
    assert (once["totals"]["open"], [problem["field"] for problem in once["problems"]]) == ({"FBIO": "0.36"}, ["pnl"])


def test_six_models_on_the_nasdaq_hold_what_their_own_log_says_they_hold() -> None:
    memory = given_memory()
    answer = run_import(
        memory, REAL / "aitrader_us_nasdaq100_hourly_actions.csv.gz", agent="desk", zone="America/New_York", commit=True
    )
    assert (answer["rows"], answer["fills"], answer["new"], answer["problems"]) == (1326, 533, 533, [])
    assert "793 rows are not executions and were skipped: no_trade 781, init 6, quantity 0 6" in answer["mapping"]["notes"]
    held = {(row["leg"], row["symbol"]): row["qty_open"] for row in ledger(memory) if row["status"] == "open"}
    assert {symbol: int(qty) for (model, symbol), qty in held.items() if model == "gpt-5"} == {
        "AMD": 11, "CRWD": 1, "MRVL": 17, "MSFT": 6, "NVDA": 13,
    }  # fmt: skip
    realised = sum(row["realized_pnl_usd"] for row in ledger(memory))
    assert abs(realised - Decimal(answer["totals"]["gross_pnl"])) < Decimal("0.0000001")


def test_decisions_of_models_to_buy_are_fills_at_their_prices_by_experiment() -> None:
    # Each row has a price and a quantity, and those that hold give a reason: fills or decisions, only the owner knows.
    with pytest.raises(Invalid, match="Say what it holds: --kind fills or --kind decisions"):
        looked_at("deepfund_decisions.jsonl.gz")
    answer = looked_at("deepfund_decisions.jsonl.gz", zone="America/New_York", kind="fills")
    assert (answer["rows"], answer["fills"]) == (24, 8)
    assert answer["totals"]["open"]["MSFT (planner-test)"] == "166"


def test_a_file_of_daily_marks_is_not_taken_for_trades() -> None:
    answer = looked_at("chatgpt_microcap_daily_updates.csv")
    assert (answer["kind"], answer["trades"], answer["fills"]) == ("positions", 0, 0)
    with pytest.raises(Invalid, match="no column was found for"):
        looked_at("chatgpt_microcap_daily_updates.csv", kind="trades")


def test_a_log_of_chats_without_decisions_is_refused_with_the_choices() -> None:
    with pytest.raises(Invalid, match="If the file holds no trades, say what it holds"):
        looked_at("aitrader_us_nasdaq100_hourly_reasoning.jsonl.gz")
