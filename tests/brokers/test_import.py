"""Importing: a look first, then all readable rows or none, and nothing twice."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

import memtape
from memtape.errors import Invalid, Unknown
from memtape.plugs.clock import FixedClock
from memtape.surfaces.cli.imports import run_import

from .desk import FILLS, NOON, TRADES, given_memory, ledger, write_file

BTC = "BTC,long,2026-06-04T08:00:00Z,2026-06-04T09:00:00Z,100,110,2\n"
ETH = "ETH,short,2026-06-05T08:00:00Z,2026-06-05T09:00:00Z,50,55,3\n"
SOL = "SOL,long,2026-06-06T08:00:00Z,2026-06-06T09:00:00Z,20,21,5\n"


def test_a_preview_tells_everything_and_writes_nothing(tmp_path: Path) -> None:
    memory = given_memory()
    answer = run_import(memory, write_file(tmp_path, TRADES + BTC + ETH), agent="desk")
    assert set(answer) == {
        "format", "kind", "rows", "counts", "fills", "trades", "unpriced", "new", "duplicates", "problems", "account", "totals",
        "committed", "mapping", "batch",
    }  # fmt: skip
    assert {k: answer[k] for k in ("format", "rows", "fills", "trades", "new", "duplicates", "problems", "committed", "batch")} == {
        "format": "csv", "rows": 2, "fills": 0, "trades": 2, "new": 2, "duplicates": 0, "problems": [], "committed": False, "batch": None,
    }  # fmt: skip
    assert (answer["kind"], answer["counts"]) == ("trades", {"trades": 2})
    assert answer["totals"] == {
        "n": 2, "net_pnl": "5", "gross_pnl": "5", "fees": "0", "funding": "0", "first": "2026-06-04T08:00:00Z",
        "last": "2026-06-05T09:00:00Z", "open": {},
        "by_symbol": {"BTC": {"n": 1, "net_pnl": "20"}, "ETH": {"n": 1, "net_pnl": "-15"}},
    }  # fmt: skip
    assert (ledger(memory), memory.agent("desk").imports.all()) == ([], [])


def test_a_commit_remembers_every_trade_and_the_second_time_none(tmp_path: Path) -> None:
    memory = given_memory()
    path = write_file(tmp_path, TRADES + BTC + ETH)
    first = run_import(memory, path, agent="desk", commit=True)
    assert (first["committed"], first["new"]) == (True, 2)
    assert [(row["symbol"], str(row["net_pnl_usd"])) for row in ledger(memory)] == [("BTC", "20"), ("ETH", "-15")]
    before = memory.agent("desk").head()
    again = run_import(memory, path, agent="desk", commit=True)
    assert (again["new"], again["duplicates"], again["batch"]) == (0, 2, None)
    assert memory.agent("desk").head() == before


def test_a_later_export_that_overlaps_adds_only_what_is_new(tmp_path: Path) -> None:
    memory = given_memory()
    run_import(memory, write_file(tmp_path, TRADES + BTC + ETH), agent="desk", commit=True)
    later = (TRADES + SOL + ETH).replace(",", ";").replace("50;55", "50,0;55,00")
    answer = run_import(memory, write_file(tmp_path, later), agent="desk", commit=True)
    assert (answer["new"], answer["duplicates"]) == (1, 1)
    assert [row["symbol"] for row in ledger(memory)] == ["BTC", "ETH", "SOL"]


def test_equal_rows_are_trades_of_their_own_and_still_come_in_once(tmp_path: Path) -> None:
    memory = given_memory()
    path = write_file(tmp_path, TRADES + BTC + BTC)
    assert run_import(memory, path, agent="desk", commit=True)["new"] == 2
    assert run_import(memory, write_file(tmp_path, TRADES + BTC * 3), agent="desk", commit=True)["new"] == 1
    assert len(ledger(memory)) == 3


def test_undone_and_imported_again_the_ledger_is_the_same(tmp_path: Path) -> None:
    memory = given_memory()
    text = (
        "Date,Ticker,Shares Bought,Buy Price,Reason,Shares Sold,Sell Price\n2025-06-30,A,6,5,first,,\n2025-07-01,A,,,trim,2,6\n"
    )
    path = write_file(tmp_path, text + "2025-07-02,A,,,out,4,7\n2025-07-03,B,1,1,in,,\n")
    done = run_import(memory, path, agent="desk", commit=True)
    before = ledger(memory)
    assert [(row["symbol"], row["status"], row["entry_reason"], row["exit_reason"]) for row in before] == [
        ("A", "closed", "first", "out"), ("B", "open", "in", None),
    ]  # fmt: skip
    memory.agent("desk").imports.undo(done["batch"])
    assert ledger(memory) == []
    assert memory.agent("desk").ledger.decisions() == []
    assert run_import(memory, path, agent="desk", commit=True)["new"] == 4
    assert ledger(memory) == before


def test_fills_imported_in_any_order_of_rows_give_one_ledger(tmp_path: Path) -> None:
    rows = [
        "1,2026-06-04T08:00:00Z,A,buy,2,10,1\n",
        "2,2026-06-04T09:00:00Z,A,sell,1,12,1\n",
        "3,2026-06-04T10:00:00Z,A,sell,1,9,1\n",
    ]
    books = []
    for order in (rows, rows[::-1], [rows[1], rows[0], rows[2]]):
        memory = given_memory()
        answer = run_import(memory, write_file(tmp_path, FILLS + "".join(order)), agent="desk", commit=True)
        assert answer["totals"]["net_pnl"] == "-2"
        books.append(ledger(memory))
    assert books[0] == books[1] == books[2]


def test_a_bad_row_stops_the_commit_and_nothing_is_written(tmp_path: Path) -> None:
    memory = given_memory()
    path = write_file(tmp_path, TRADES + BTC + ETH.replace("short", "sideways") + SOL)
    with pytest.raises(Invalid) as error:
        run_import(memory, path, agent="desk", commit=True)
    assert str(error.value).split("\n") == [
        "file: 1 of 3 rows cannot be read. Nothing was written. Correct them, or import the other rows with --skip-bad",
        "side: line 3: 'sideways' is neither long nor short. Write long or short, buy or sell, or map another column to side",
    ]
    assert ledger(memory) == []
    answer = run_import(memory, path, agent="desk", commit=True, skip_bad=True)
    assert (answer["new"], [p["line"] for p in answer["problems"]]) == (2, [3])
    assert set(answer["problems"][0]) == {"count", "line", "field", "problem", "fix", "blocks", "examples"}


def test_an_open_position_and_a_missing_zone_are_told_and_stop_nothing(tmp_path: Path) -> None:
    memory = given_memory()
    text = TRADES + "BTC,long,2026-06-04 08:00,2026-06-04 09:00,100,110,2\nETH,long,2026-06-04 08:00,,100,,2\n"
    answer = run_import(memory, write_file(tmp_path, text), agent="desk", commit=True)
    assert (answer["committed"], answer["new"]) == (True, 1)
    assert [(p["line"], p["problem"]) for p in answer["problems"]] == [
        (None, "times have no zone; read as UTC"), (3, "still open, skipped"),
    ]  # fmt: skip
    assert run_import(memory, write_file(tmp_path, text), agent="desk", zone="UTC")["problems"][0]["line"] == 3


def test_a_file_without_a_single_readable_row_is_not_committed(tmp_path: Path) -> None:
    with pytest.raises(Invalid, match="has no rows to import"):
        run_import(given_memory(), write_file(tmp_path, TRADES), agent="desk", commit=True)


def test_a_trade_from_the_future_is_a_bad_row(tmp_path: Path) -> None:
    memory = given_memory(now=datetime(2026, 6, 5, 8, 30, tzinfo=UTC))
    answer = run_import(memory, write_file(tmp_path, TRADES + BTC + ETH), agent="desk")
    assert (answer["trades"], answer["problems"][0]["line"]) == (1, 3)
    assert answer["problems"][0]["problem"] == "2026-06-05T09:00:00Z is in the future"


def test_an_id_that_is_known_with_another_content_is_told_not_dropped(tmp_path: Path) -> None:
    memory = given_memory()
    run_import(memory, write_file(tmp_path, FILLS + "77,2026-06-04T08:00:00Z,BTCUSDT,buy,1,10,0\n"), agent="desk", commit=True)
    other = write_file(
        tmp_path, FILLS + "77,2026-06-04T08:00:00Z,ETHUSDT,buy,1,10,0\n78,2026-06-04T08:00:00Z,ETHUSDT,buy,1,10,0\n"
    )
    answer = run_import(memory, other, agent="desk")
    assert (answer["new"], answer["duplicates"]) == (1, 0)
    assert answer["problems"] == [{
        "count": 1, "line": 2, "field": "id", "problem": "id 77 is known with symbol BTCUSDT, here it is ETHUSDT",
        "fix": "If ids repeat across symbols or accounts, use --map id=symbol+id; if it is a correction, undo the earlier import",
        "blocks": True, "examples": [{"line": 2, "problem": "id 77 is known with symbol BTCUSDT, here it is ETHUSDT"}],
    }]  # fmt: skip
    assert run_import(memory, other, agent="desk", mapping={"id": "symbol+id"}, commit=True)["new"] == 2


def test_a_preview_for_the_default_agent_does_not_make_it_and_a_commit_does(tmp_path: Path) -> None:
    memory = memtape.open(":memory:", clock=FixedClock(NOON))
    path = write_file(tmp_path, TRADES + BTC + BTC)
    assert run_import(memory, path)["new"] == 2
    assert [agent.id for agent in memory.agents()] == []
    run_import(memory, path, commit=True)
    assert [agent.id for agent in memory.agents()] == ["main"]


def test_a_file_for_no_agent_is_refused_where_agents_are_but_no_default_one(tmp_path: Path) -> None:
    memory, path = given_memory(), write_file(tmp_path, TRADES + BTC)
    for commit in (False, True):
        with pytest.raises(Unknown, match="There are: desk"):
            run_import(memory, path, commit=commit)
    assert [agent.id for agent in memory.agents()] == ["desk"]


def test_an_agent_that_does_not_exist_is_named_in_the_preview_and_made_by_the_commit(tmp_path: Path) -> None:
    memory, path = given_memory(), write_file(tmp_path, TRADES + BTC)
    preview = run_import(memory, path, agent="newcomer")
    assert "there is no agent 'newcomer' yet" in preview["mapping"]["notes"][-1]
    assert [agent.id for agent in memory.agents()] == ["desk"]
    run_import(memory, path, agent="newcomer", commit=True)
    assert memory.agent("newcomer").agent.mode == "paper"
    with pytest.raises(Invalid, match="agent"):
        run_import(memory, path, agent="No Slug")


def test_the_log_keeps_where_an_import_came_from(tmp_path: Path) -> None:
    memory = given_memory()
    path = write_file(tmp_path, TRADES + BTC, "statement.csv.gz")
    answer = run_import(memory, path, agent="desk", commit=True)
    ((item, undone),) = memory.agent("desk").imports.all()
    assert (item.key, undone) == (answer["batch"], False)
    body: dict[str, Any] = item.body
    assert (body["file"], body["format"], body["header"][0], body["mapping"]["exit_at"]) == (
        "statement.csv.gz", "csv", "symbol", "exit_time",
    )  # fmt: skip
    assert len(body["digest"]) == 64


def test_progress_is_told_from_the_first_row_to_the_last(tmp_path: Path) -> None:
    seen: list[tuple[int, int]] = []
    run_import(
        given_memory(), write_file(tmp_path, TRADES + BTC + ETH), agent="desk", on_progress=lambda n, of: seen.append((n, of))
    )
    assert (seen[0], seen[-1]) == ((0, 2), (2, 2))


def test_all_problems_of_a_file_are_told_in_one_run_by_kind_with_their_count_and_three_examples(tmp_path: Path) -> None:
    bad = BTC.replace("100", "x") * 1500 + ETH.replace("short", "sideways").replace("55", "fifty") + SOL.replace("20,", "0x14,")
    text = TRADES + bad
    path = write_file(tmp_path, text)
    answer = run_import(given_memory(), path, agent="desk")
    told = [(each["field"], each["count"], [tuple(e.values()) for e in each["examples"]]) for each in answer["problems"]]
    assert told == [
        ("entry_price", 1501, [(line, "'x' is not a number") for line in (2, 3, 4)]),
        ("side", 1, [(1502, "'sideways' is neither long nor short")]),
        ("exit_price", 1, [(1502, "'fifty' is not a number")]),
    ]  # fmt: skip
    with pytest.raises(Invalid) as error:
        run_import(given_memory(), path, agent="desk", commit=True)
    lines = str(error.value).split("\n")
    assert lines[0].startswith("file: 1502 of 1502 rows cannot be read. Nothing was written")
    assert lines[1].startswith("entry_price: line 2: 'x' is not a number; line 3: 'x' is not a number; line 4:")
    assert "and 1498 more" in lines[1]
    assert [line.partition(":")[0] for line in lines] == ["file", "entry_price", "side", "exit_price"]


def test_the_account_currency_decides_whether_a_fee_needs_converting(tmp_path: Path) -> None:
    text = "id,time,symbol,side,qty,price,fee,fee_currency\n1,2026-06-04T08:00:00Z,DAX,buy,1,10,2,EUR\n"
    assert run_import(given_memory(currency="EUR"), write_file(tmp_path, text), agent="desk")["problems"] == []
    assert "account is in USD" in run_import(given_memory(), write_file(tmp_path, text), agent="desk")["problems"][0]["problem"]


def test_lots_and_stops_of_a_metatrader_export_give_the_right_r(tmp_path: Path) -> None:
    memory = given_memory()
    text = (
        "Time,Position,Symbol,Type,Volume,Price,S / L,T / P,Time,Price,Commission,Swap,Profit\n"
        "2026.06.04 10:00:00,7001,GBPUSD,sell,0.30,1.27450,1.27800,1.27000,2026.06.04 12:30:00,1.27110,-2.10,0.45,102.00\n"
    )
    run_import(memory, write_file(tmp_path, text), agent="desk", zone="UTC", commit=True)
    (trade,) = ledger(memory)
    assert (str(trade["net_pnl_usd"]), trade["initial_risk_usd"]) == ("100.35", 105)
    assert round(trade["pnl_r"], 4) == round(trade["net_pnl_usd"] / 105, 4)


def test_a_file_whose_profit_turned_out_to_be_after_costs_is_not_imported_twice(tmp_path: Path) -> None:
    memory = given_memory()
    text = "Opened,Closed,Symbol,Side,Quantity,Entry,Exit,Fees,Profit\n"
    text += "2026-06-04 10:00,2026-06-04 15:00,DAX,long,10,24000,24050,5,495\n"
    text += "2026-06-05 10:00,2026-06-05 15:00,DAX,short,2,24100,24200,5,-205\n"
    path = write_file(tmp_path, text)
    first = run_import(memory, path, agent="desk", commit=True)
    assert "pnl equals price move x qty less fees: read as net_pnl" in first["mapping"]["notes"]
    again = run_import(memory, path, agent="desk", commit=True)
    assert (again["new"], again["duplicates"]) == (0, 2)
    assert again["totals"]["net_pnl"] == first["totals"]["net_pnl"] == "290"
