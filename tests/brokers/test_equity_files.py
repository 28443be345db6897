"""Files of equity marks: the account as its owner wrote it down, with deposits and withdrawals."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import memtape
from memtape.core.observed import CashFlow, EquityMark
from memtape.engine import Memory
from memtape.engine.proof.audit import verify_store
from memtape.errors import Invalid
from memtape.plugs.clock import FixedClock
from memtape.surfaces.cli.imports import run_import

from .desk import NOON, given_memory, read, write_file

HEADER = "time,equity,deposit,withdrawal\n"
ROWS = [
    "2026-06-01T20:00:00Z,10000,,\n",
    "2026-06-02T20:00:00Z,10200,,\n",
    "2026-06-03T20:00:00Z,15200,5000,\n",
    "2026-06-04T20:00:00Z,12900,,2500\n",
]


def account(memory: Memory, agent: str = "desk", **at: Any) -> tuple[list[str], list[str]]:
    """The marks and the flows of an agent."""
    with memory.agent(agent).view(**at) as view:
        marks = [str(item.body["equity"]) for item in view.items("equity")]
        flows = [str(item.body["usd"]) for item in view.items("flow")]
    return marks, flows


def test_marks_and_deposits_come_in_and_a_withdrawal_is_no_loss(tmp_path: Path) -> None:
    memory = given_memory(starting_equity="10000")
    answer = run_import(memory, write_file(tmp_path, HEADER + "".join(ROWS)), agent="desk", commit=True)
    assert {name: answer[name] for name in ("format", "kind", "rows", "counts", "new", "duplicates", "problems")} == {
        "format": "csv", "kind": "equity", "rows": 4, "counts": {"cash_flows": 2, "equity_marks": 4}, "new": 6, "duplicates": 0,
        "problems": [],
    }  # fmt: skip
    assert answer["totals"] == {
        "n": 6, "first": "2026-06-01T20:00:00Z", "last": "2026-06-04T20:00:00Z", "first_equity": "10000",
        "last_equity": "12900", "lowest_equity": "10000", "highest_equity": "15200", "flows": "2500",
    }  # fmt: skip
    assert account(memory) == (["10000", "10200", "15200", "12900"], ["5000", "-2500"])
    curve = memory.agent("desk").ledger.equity()
    assert [str(nav) for _, nav in curve.points] == ["10000", "10200", "10200", "10400"]
    assert verify_store(memory).ok


def test_a_second_import_adds_nothing_also_reordered_and_a_grown_file_adds_its_last_day(tmp_path: Path) -> None:
    memory = given_memory()
    run_import(memory, write_file(tmp_path, HEADER + "".join(ROWS[:3])), agent="desk", commit=True)
    again = run_import(memory, write_file(tmp_path, HEADER + "".join(ROWS[2::-1])), agent="desk", commit=True)
    assert (again["new"], again["duplicates"], again["batch"]) == (0, 4, None)
    grown = run_import(memory, write_file(tmp_path, HEADER + "".join(ROWS)), agent="desk", commit=True)
    assert (grown["new"], grown["duplicates"]) == (2, 4)


def test_an_undo_takes_back_exactly_what_came_and_affect_with_it(tmp_path: Path) -> None:
    memory = given_memory(starting_equity="10000")
    desk = memory.agent("desk")
    desk.observe({"t": "2026-05-31T20:00:00Z", "equity": "9900"}, kind="equity")
    before = desk.memories.affect()
    run_import(memory, write_file(tmp_path, HEADER + "".join(ROWS)), agent="desk", commit=True)
    assert desk.memories.affect() != before
    assert dict(desk.imports.undo().took_back) == {"equity": 4, "flow": 2}
    assert (account(memory), desk.memories.affect()) == ((["9900"], []), before)
    assert run_import(memory, tmp_path / "trades.csv", agent="desk", commit=True)["new"] == 6
    assert verify_store(memory).ok


def test_a_mark_counts_as_known_from_its_own_time_and_a_date_is_the_end_of_that_day(tmp_path: Path) -> None:
    memory = given_memory()
    path = write_file(tmp_path, "Date,Balance\n2026-06-01,10000\n2026-06-02,10200\n")
    answer = run_import(memory, path, agent="desk", zone="America/New_York", commit=True)
    assert "a date without a time of day is read as the end of that day, 23:59:59" in answer["mapping"]["notes"]
    assert answer["totals"]["first"] == "2026-06-02T03:59:59Z"
    # At noon of the day nobody knew how it would close.
    assert account(memory, as_of=datetime(2026, 6, 2, 16, tzinfo=UTC)) == (["10000"], [])


def test_a_file_creates_its_account_with_the_currency_and_the_equity_that_it_shows(tmp_path: Path) -> None:
    memory = memtape.open(":memory:", clock=FixedClock(NOON))
    text = "date;nav (EUR);cash flow\n2026-06-01;25.000,00;25.000,00\n2026-06-02;25.300,50;\n2026-06-03;26.300,50;1.000,00\n"
    answer = run_import(memory, write_file(tmp_path, text), agent="fresh", zone="Europe/Berlin", commit=True)
    assert (answer["account"], answer["problems"]) == ({"currency": "EUR", "starting_equity": "25000"}, [])
    assert "the first deposit, 25000, is what the account started with" in answer["mapping"]["notes"]
    # The first deposit is the account itself, so it is no flow beside it.
    assert account(memory, "fresh") == (["25000", "25300.5", "26300.5"], ["1000"])


def test_two_marks_of_one_moment_and_a_known_mark_with_another_figure_are_reported(tmp_path: Path) -> None:
    memory = given_memory()
    run_import(memory, write_file(tmp_path, HEADER + ROWS[0]), agent="desk", commit=True)
    text = HEADER + ROWS[0].replace("10000", "10001") + ROWS[1] + ROWS[1].replace("10200", "1") + "x,5,,\n" + "2026-06-05,,,\n"
    answer = run_import(memory, write_file(tmp_path, text), agent="desk")
    assert [(p["field"], p["line"], p["problem"]) for p in answer["problems"]] == [
        ("zone", None, "times have no zone; read as UTC"),
        ("time", 2, "equity of 2026-06-01T20:00:00Z is known with equity 10000, here it is 10001"),
        ("equity", 4, "line 3 has another equity for 2026-06-02T20:00:00Z: 10200"),
        ("time", 5, "'x' is not a time"),
        ("equity", 6, "is empty: the row is no mark and is skipped"),
    ]


def test_several_accounts_in_one_file_are_imported_one_at_a_time(tmp_path: Path) -> None:
    memory = given_memory()
    path = write_file(tmp_path, "time,model,equity\n2026-06-01T20:00:00Z,gpt,100\n2026-06-01T20:00:00Z,qwen,120\n")
    (problem,) = [p for p in run_import(memory, path, agent="desk")["problems"] if p["field"] == "account"]
    assert problem["problem"] == "the file holds 2 accounts (model: gpt, qwen)"
    with pytest.raises(Invalid, match="with --where model=gpt"):
        run_import(memory, path, agent="desk", commit=True, skip_bad=True)
    assert run_import(memory, path, agent="desk", where={"model": "qwen"}, commit=True)["new"] == 1


def test_an_equity_that_jumps_a_hundredfold_is_named_in_the_first_line(tmp_path: Path) -> None:
    path = write_file(tmp_path, "time,equity\n2026-06-01T20:00:00Z,10000\n2026-06-02T20:00:00Z,1020000\n2026-06-03T20:00:00Z,10300\n")
    answer = run_import(given_memory(), path, agent="desk")
    assert next(iter(answer)) == "warning"
    assert "the equity goes from 10,000.00 to 1,020,000.00" in answer["warning"]
    deposit = write_file(tmp_path, "time,equity,flow\n2026-06-01T20:00:00Z,100,\n2026-06-02T20:00:00Z,1020000,1019900\n")
    assert "warning" not in run_import(given_memory(), deposit, agent="desk")


def test_a_file_with_a_column_that_no_kind_knows_is_asked_about() -> None:
    with pytest.raises(Invalid, match="--kind decisions, --kind equity or --kind positions"):
        read("time,how much\n2026-06-01,5\n")
    found = read("time,worth\n2026-06-01T20:00:00Z,5\n", kind="equity", mapping={"equity": "worth"})
    assert (found.kind, [each.value for each in found.found]) == (
        "equity", [EquityMark(t=datetime(2026, 6, 1, 20, tzinfo=UTC), equity=Decimal(5))],
    )  # fmt: skip


@settings(max_examples=30, deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(0, 20), st.integers(1, 10**6), st.integers(-500, 500)), min_size=1, max_size=12, unique_by=lambda r: r[0]
    ),
    st.randoms(use_true_random=False),
)
def test_any_order_of_rows_gives_the_same_marks_and_flows(rows: list[tuple[int, int, int]], chance: Any) -> None:
    lines = [f"2026-06-01T{hour:02}:00:00Z,{equity},{flow}\n" for hour, equity, flow in rows]
    mixed = list(lines)
    chance.shuffle(mixed)

    def values(several: list[str]) -> list[EquityMark | CashFlow]:
        return [each.value for each in read("time,equity,flow\n" + "".join(several)).found if not hasattr(each.value, "symbol")]  # type: ignore[misc]

    assert values(mixed) == values(lines)
    assert sum(isinstance(value, EquityMark) for value in values(lines)) == len(rows)
