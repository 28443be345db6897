"""What a new user types in the first hours, and what the command line says to it on a terminal of 80 columns."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.surfaces.terminal import on_terminal

SYMBOLS = [f"S{n:02d}" for n in range(14)]


@pytest.fixture
def store(tmp_path: Path) -> str:
    """The address of a store that is not there yet."""
    return str(tmp_path / "memory.db")


@pytest.fixture
def file(tmp_path: Path) -> str:
    """A file with fourteen trades of fourteen symbols, each at its own hour, without ids and without a zone."""
    rows = ["symbol,side,entry time,exit time,entry price,exit price,quantity,pnl"]
    for n, symbol in enumerate(SYMBOLS):
        move = n - 9
        rows.append(f"{symbol},long,2026-03-02 {n:02d}:00,2026-03-02 {n:02d}:30,100,{100 + move},1,{move}")
    path = tmp_path / "trades.csv"
    path.write_text("\n".join(rows) + "\n")
    return str(path)


def test_an_import_of_many_symbols_is_read_on_one_screen_and_says_how_to_take_it_back(store: str, file: str) -> None:
    (_, preview), (code, shown), (_, again), (_, as_json) = on_terminal(
        80,
        [
            ["import", file, "--db", store],
            ["import", file, "--commit", "--db", store],
            ["import", file, "--commit", "--db", store],
            ["import", file, "--db", store, "--json"],
        ],
    )
    assert code == 0, shown
    listed = [symbol for symbol in SYMBOLS if f"    {symbol}:" in preview]
    # The largest amounts are those to compare with a statement first.
    assert len(listed) == 10 and "S00" in listed and "S09" not in listed
    assert "4 more symbols; --json lists all" in preview
    assert "Imported 14 trades of trades.csv for the agent main." in shown
    assert "Take it back: memtape imports undo" in " ".join(shown.split())
    assert "Nothing new: all 14 trades of trades.csv were known." in again
    assert len(json.loads(as_json[as_json.index("{") :])["totals"]["by_symbol"]) == 14


def test_a_file_that_is_read_in_another_zone_does_not_count_twice(store: str, file: str) -> None:
    (_, first), (_, preview), (refused, shown), (_, listed), *_, (code, other) = on_terminal(
        80,
        [
            ["import", file, "--commit", "--db", store],
            ["import", file, "--zone", "America/New_York", "--db", store],
            ["import", file, "--zone", "America/New_York", "--commit", "--db", store],
            ["trades", "--db", store, "--limit", "100", "--json"],
            ["imports", "undo", "--db", store],
            ["import", file, "--zone", "America/New_York", "--commit", "--db", store],
        ],
    )
    assert "Imported 14 trades" in first
    assert "was imported before" in preview
    assert refused == 2
    assert "memtape imports undo" in " ".join(shown.split())
    assert len(json.loads(listed)["trades"]) == 14
    assert code == 0 and "Imported 14 trades" in other


def test_parts_of_one_file_may_be_imported_one_after_the_other(store: str, file: str) -> None:
    (_, first), (code, second) = on_terminal(
        80, [["import", file, "--where", f"symbol={symbol}", "--commit", "--db", store] for symbol in SYMBOLS[:2]]
    )
    assert "Imported 1 trade of" in first
    assert code == 0 and "Imported 1 trade of" in second


def test_a_missing_argument_says_what_belongs_there() -> None:
    (code, backup), (_, sim), (_, connect), (_, search) = on_terminal(80, [["backup"], ["sim"], ["connect"], ["docs", "search"]])
    assert code == 2
    assert "path is missing: a new file" in backup.lower()
    assert "--bars is missing: CSV: time, open, high, low, close, volume" in " ".join(sim.split())
    assert "PROGRAM is missing: claude-code, claude-desktop, cursor, vscode, codex, gemini" in " ".join(connect.split())
    assert "is missing:" in search


def test_losses_may_be_asked_by_hour_alone(store: str, file: str) -> None:
    rows = Path(file).read_text().splitlines()
    more = [rows[0]]
    for day in range(3, 29):
        more += [row.replace("03-02", f"03-{day:02d}") for row in rows[1:]]
    Path(file).write_text("\n".join(more) + "\n")
    _, (code, by_hour), (_, whole), (_, wrong) = on_terminal(
        80,
        [
            ["import", file, "--commit", "--db", store],
            ["ask", "losses", "--by", "hour", "--db", store],
            ["ask", "losses", "--limit", "100", "--db", store, "--json"],
            ["ask", "losses", "--by", "hours", "--db", store],
        ],
    )
    groups = json.loads(whole)["groups"]
    hours = [row for row in groups if row["by"] == "hour"]
    assert code == 0 and hours and len(hours) < len(groups)
    shown = by_hour.split("groups:")[1].split("n_groups:")[0]
    assert all(row["group"] in shown for row in hours)
    assert "Mondays" not in shown
    # Luck is judged over all groups that were tested, whichever are shown.
    assert f"tested: {json.loads(whole)['tested']}" in by_hour
    assert "hour" in wrong and "--by" in wrong


def test_answers_without_trades_and_documents_say_what_to_type(store: str, file: str) -> None:
    _, (_, check), (_, search), _, (_, brief), (_, page), _, (_, doctor) = on_terminal(
        80,
        [
            ["agents", "create", "empty", "--db", store],
            ["check", "S00", "long", "--agent", "empty", "--db", store],
            ["docs", "search", "stop", "--agent", "empty", "--db", store],
            ["import", file, "--agent", "desk", "--commit", "--db", store],
            ["brief", "--agent", "desk", "--db", store],
            ["trades", "--agent", "desk", "--limit", "3", "--db", store],
            ["imports", "undo", "--agent", "desk", "--db", store],
            ["doctor", "--db", store],
        ],
    )
    assert "window: \n" not in check and "window:\n" not in check
    assert "memtape docs index FOLDER" in search
    assert all(len(line) <= 80 for line in brief.splitlines()[-3:])
    assert "More: memtape trades --agent desk --limit 3" in page and "--cursor" in page
    assert "agent desk has no trades now" in " ".join(doctor.split())


def test_a_simulation_says_what_it_made_and_where_to_look(tmp_path: Path, store: str) -> None:
    rows = ["time,open,high,low,close,volume"]
    for n in range(200):
        price = 100 + (n % 40 if n % 40 < 20 else 40 - n % 40)
        rows.append(f"2026-01-{1 + n // 24:02d}T{n % 24:02d}:00Z,{price},{price + 1},{price - 1},{price + 0.5},10")
    bars = tmp_path / "gold.csv"
    bars.write_text("\n".join(rows) + "\n")
    ((code, shown),) = on_terminal(80, [["sim", "--bars", str(bars), "--report", str(tmp_path / "report.md"), "--db", store]])
    assert code == 0, shown
    words = " ".join(shown.split())
    assert "the file names no symbol: GOLD, from its name. If it is another one: --symbol XAUUSD" in words
    assert "memtape trades --agent sim" in words and "simulated" in words


def test_a_trade_is_explained_also_where_more_was_lost_than_the_account_was_assumed_to_hold(tmp_path: Path, store: str) -> None:
    rows = ["symbol,side,entry time,exit time,entry price,exit price,quantity,pnl"]
    for day in range(1, 29):
        rows.append(f"XAUUSD,long,2026-02-{day:02d} 09:00,2026-02-{day:02d} 11:00,2000,{1000},1,-1000")
    file = tmp_path / "losses.csv"
    file.write_text("\n".join(rows) + "\n")
    _, (_, listed) = on_terminal(
        80, [["import", str(file), "--commit", "--db", store], ["trades", "--limit", "1", "--db", store, "--json"]]
    )
    last = json.loads(listed)["trades"][0]["id"]
    ((code, shown),) = on_terminal(80, [["trades", "explain", last, "--db", store]])
    assert code == 0, shown
    assert "drawdown" in shown
