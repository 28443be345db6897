"""Files of positions: what the account held at certain moments. The ledger concludes the trades, and invents nothing."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memtape.core.observed import Tick
from memtape.engine.proof.audit import rebuild_store, verify_store
from memtape.surfaces.cli.imports import run_import

from .desk import FILLS, REAL, given_memory, ledger, read, write_file

HEADER = "time,symbol,qty,avg entry price,mark price,total equity\n"
MONDAY = "2026-06-01T20:00:00Z,BTC,0.5,65000,65200,10100\n2026-06-01T20:00:00Z,ETH,-2,3500,3490,10100\n"
TUESDAY = "2026-06-02T20:00:00Z,BTC,0.5,65000,66000,10520\n"
WEDNESDAY = "2026-06-03T20:00:00Z,BTC,0,,66100,10550\n"


def test_snapshots_open_and_close_what_they_show(tmp_path: Path) -> None:
    memory = given_memory()
    answer = run_import(memory, write_file(tmp_path, HEADER + MONDAY + TUESDAY + WEDNESDAY), agent="desk", commit=True)
    assert {name: answer[name] for name in ("kind", "rows", "counts", "new", "duplicates", "problems")} == {
        "kind": "positions", "rows": 4, "counts": {"equity_marks": 3, "snapshots": 3}, "new": 3, "duplicates": 0, "problems": [],
    }  # fmt: skip
    assert (answer["totals"]["n"], answer["totals"]["by_symbol"], answer["totals"]["open"]) == (3, {"BTC": 2, "ETH": 1}, {})
    assert (answer["totals"]["first_equity"], answer["totals"]["last_equity"]) == ("10100", "10550")
    assert [(row["symbol"], row["side"], row["status"], row["entry_price"], row["quality"]) for row in ledger(memory)] == [
        # The file has no price of ETH when it was gone, so nobody knows what it brought.
        ("ETH", "short", "closed", 3500, "unpriced"), ("BTC", "long", "closed", 65000, "inferred"),
    ]  # fmt: skip
    assert verify_store(memory).ok


def test_a_snapshot_that_agrees_with_the_fills_changes_nothing(tmp_path: Path) -> None:
    memory = given_memory()
    fills = FILLS + "1,2026-06-01T08:00:00Z,BTC,buy,0.5,65000,0\n2,2026-06-03T08:00:00Z,BTC,sell,0.5,66000,0\n"
    run_import(memory, write_file(tmp_path, fills), agent="desk", commit=True)
    before = ledger(memory)
    only_btc = HEADER + MONDAY.splitlines(keepends=True)[0] + TUESDAY + WEDNESDAY
    run_import(memory, write_file(tmp_path, only_btc), agent="desk", commit=True)
    kept = ("symbol", "entry_price", "exit_price", "net_pnl_usd", "quality")
    assert [[row[name] for name in kept] for row in ledger(memory)] == [[row[name] for name in kept] for row in before]
    assert memory.agent("desk").ledger.discrepancies() == []


def test_a_second_import_adds_nothing_also_reordered_and_a_grown_file_adds_its_last_snapshot(tmp_path: Path) -> None:
    memory = given_memory()
    run_import(memory, write_file(tmp_path, HEADER + MONDAY + TUESDAY), agent="desk", commit=True)
    head = memory.agent("desk").head()
    mixed = HEADER + TUESDAY + "".join(MONDAY.splitlines(keepends=True)[::-1])
    again = run_import(memory, write_file(tmp_path, mixed), agent="desk", commit=True)
    assert (again["new"], again["duplicates"], again["problems"], memory.agent("desk").head()) == (0, 2, [], head)
    grown = run_import(memory, write_file(tmp_path, HEADER + MONDAY + TUESDAY + WEDNESDAY), agent="desk", commit=True)
    assert (grown["new"], grown["duplicates"]) == (1, 2)


def test_undone_and_imported_again_the_ledger_is_the_same(tmp_path: Path) -> None:
    memory = given_memory()
    path = write_file(tmp_path, HEADER + MONDAY + TUESDAY + WEDNESDAY)
    run_import(memory, path, agent="desk", commit=True)
    desk, before = memory.agent("desk"), ledger(memory)
    assert dict(desk.imports.undo().took_back) == {"equity": 3, "tick": 3}
    assert (ledger(memory), desk.head().last_tick, desk.head().first_snapshot) == ([], None, None)
    assert verify_store(memory).ok
    assert run_import(memory, path, agent="desk", commit=True)["new"] == 3
    assert ledger(memory) == before
    assert verify_store(memory).ok
    rebuild_store(memory)
    assert ledger(memory) == before


def test_after_an_undo_the_ticks_that_are_left_are_the_last_ones(tmp_path: Path) -> None:
    memory, only = given_memory(), given_memory()
    live = {"id": "t1", "t": "2026-06-02T08:00:00Z", "positions": {"SOL": {"qty": "3", "entry_px": "150"}}, "marks": {"SOL": "151"}}
    memory.agent("desk").observe(live)
    run_import(memory, write_file(tmp_path, HEADER + TUESDAY + WEDNESDAY), agent="desk", commit=True)
    memory.agent("desk").imports.undo()
    assert memory.agent("desk").head().last_tick == datetime(2026, 6, 2, 8, tzinfo=UTC)
    only.agent("desk").observe(live)
    later = live | {"id": "t2", "t": "2026-06-02T21:00:00Z", "marks": {"SOL": "152"}}
    for each in (memory, only):
        each.agent("desk").observe(later)
    assert ledger(memory) == ledger(only)
    assert verify_store(memory).ok


def test_snapshots_older_than_the_last_tick_are_left_out_and_their_equity_is_not(tmp_path: Path) -> None:
    memory = given_memory()
    memory.agent("desk").observe({"id": "t1", "t": "2026-06-02T08:00:00Z", "positions": {}})
    path = write_file(tmp_path, HEADER + MONDAY + TUESDAY)
    answer = run_import(memory, path, agent="desk", commit=True)
    (problem,) = answer["problems"]
    assert (problem["count"], problem["blocks"]) == (1, False)
    assert problem["problem"].startswith("the snapshot of 2026-06-01T20:00:00Z is not later than the last one of the agent")
    assert (answer["counts"], answer["new"]) == ({"equity_marks": 2, "snapshots": 1}, 2)
    assert [row["symbol"] for row in ledger(memory)] == ["BTC"]
    assert run_import(memory, path, agent="desk", commit=True)["new"] == 0


def test_a_total_is_no_position_and_a_total_of_nothing_is_a_flat_account() -> None:
    found = read(
        "Date,Ticker,Shares,Buy Price,Current Price,Total Value,Action,Cash Balance,Total Equity\n"
        "2025-06-30,ABEO,6,5.77,5.68,34.08,HOLD,,\n2025-06-30,CADL,5,5.04,4.03,20.15,SELL - Stop Loss Triggered,,\n"
        "2025-06-30,TOTAL,,,,34.08,,20.1,54.18\n2025-07-01,TOTAL,,,,0,,54.3,54.3\n"
    )
    first, flat = (each.value for each in found.found)
    assert isinstance(first, Tick) and isinstance(flat, Tick)
    assert (list(first.positions or {}), first.equity, first.marks) == (
        ["ABEO"], Decimal("54.18"), {"ABEO": Decimal("5.68"), "CADL": Decimal("4.03")},
    )  # fmt: skip
    assert (flat.positions, flat.equity, found.starting_equity) == ({}, Decimal("54.3"), Decimal("54.18"))
    assert "1 rows say that the position was sold: it is not held in that snapshot" in found.notes


def test_a_row_that_cannot_be_read_leaves_out_its_whole_snapshot_so_that_nothing_seems_closed(tmp_path: Path) -> None:
    memory = given_memory()
    text = HEADER + MONDAY + TUESDAY + TUESDAY.replace("BTC,0.5", "ETH,many")
    answer = run_import(memory, write_file(tmp_path, text), agent="desk", commit=True, skip_bad=True)
    assert [(p["field"], p["line"]) for p in answer["problems"]] == [("row", 4), ("qty", 5)]
    assert [(row["symbol"], row["status"]) for row in ledger(memory)] == [("ETH", "open"), ("BTC", "open")]


def test_positions_by_side_and_two_of_one_symbol() -> None:
    text = "time,symbol,side,size,entry price,mark price,unrealized pnl\n2026-06-01T20:00:00Z,BTC,short,0.5,65000,64000,500\n"
    (row,) = read(text).found
    assert isinstance(row.value, Tick) and row.value.positions is not None
    assert row.value.positions["BTC"][0].qty == Decimal("-0.5")
    twice = read(text + "2026-06-01T20:00:00Z,BTC,long,0.2,65000,64000,500\n")
    assert (twice.found, twice.problems[-1].problem) == ([], "line 2 has another position of BTC at this moment")


def test_a_position_of_a_thousand_times_the_equity_is_named_in_the_first_line(tmp_path: Path) -> None:
    text = HEADER + MONDAY.replace("BTC,0.5", "BTC,5000")
    answer = run_import(given_memory(), write_file(tmp_path, text), agent="desk")
    assert next(iter(answer)) == "warning" and "on an equity of 10,100.00" in answer["warning"]


@settings(max_examples=20, deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from("AB"), st.integers(-2, 2)), min_size=2, max_size=6),
    st.lists(st.integers(0, 6), min_size=1, max_size=3, unique=True),
)
def test_after_an_undo_the_store_verifies_and_goes_on_as_if_the_file_had_never_come(
    rows: list[tuple[str, int]], live_hours: list[int]
) -> None:
    lines = [f"2026-06-01T{hour + 1:02}:30:00Z,{symbol},{qty},100,{101 + hour},1000\n" for hour, (symbol, qty) in enumerate(rows)]

    def live(hour: int) -> dict[str, object]:
        return {"id": f"t{hour}", "t": f"2026-06-01T{hour + 1:02}:00:00Z", "positions": {"A": {"qty": "1", "entry_px": "99"}},
                "marks": {"A": "100"}}  # fmt: skip

    with TemporaryDirectory() as folder:
        path = write_file(Path(folder), HEADER + "".join(lines))
        memory, only = given_memory(), given_memory()
        for each in (memory, only):
            each.agent("desk").observe(live(0) | {"t": "2026-06-01T00:00:00Z", "id": "first"})
        run_import(memory, path, agent="desk", commit=True)
        memory.agent("desk").imports.undo()
        for hour in sorted(live_hours):
            for each in (memory, only):
                each.agent("desk").observe(live(hour))
        assert verify_store(memory).ok, verify_store(memory).problems
        assert ledger(memory) == ledger(only)
        run_import(memory, path, agent="desk", commit=True)
        run_import(only, path, agent="desk", commit=True)
        assert verify_store(memory).ok, verify_store(memory).problems
        assert ledger(memory) == ledger(only)


@pytest.mark.skipif(not REAL.is_dir(), reason=f"{REAL} is not here")
def test_half_a_year_of_daily_marks_of_a_real_account_ends_flat_at_the_equity_that_it_states(tmp_path: Path) -> None:
    memory = given_memory()
    path = REAL / "chatgpt_microcap_daily_updates.csv"
    answer = run_import(memory, path, agent="desk", zone="America/New_York", commit=True)
    assert (answer["kind"], answer["rows"], answer["problems"]) == ("positions", 510, [])
    assert (answer["counts"], answer["new"]) == ({"equity_marks": 125, "snapshots": 125}, 125)
    assert (answer["totals"]["first_equity"], answer["totals"]["last_equity"]) == ("104.21", "84.48")
    rows = ledger(memory)
    assert {row["status"] for row in rows} == {"closed"}
    equity = run_import(given_memory(), path, agent="desk", kind="equity", zone="America/New_York", commit=True)
    assert (equity["new"], equity["problems"][0]["count"], equity["problems"][0]["blocks"]) == (125, 385, False)
    # A stock that a day no longer lists has no price on that day: snapshots invent none.
    qualities = Counter(row["quality"] for row in rows)
    assert (qualities["inferred"], qualities["unpriced"]) == (8, 19)
    assert verify_store(memory).ok
