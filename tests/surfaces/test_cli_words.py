"""The words of the command line: options as they are typed, lines that fit the terminal."""

from __future__ import annotations

import csv
import gc
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from memtape.surfaces.cli.groups import YOUNG_OBJECTS, Command
from tests.surfaces.terminal import on_terminal

TRADES = """symbol,side,entry time,exit time,entry price,exit price,quantity,pnl
XAUUSD,long,2026-03-02 09:00,2026-03-02 11:00,2000,1990,1,-10
XAUUSD,short,2026-03-03 09:00,2026-03-03 11:00,2000,1985,1,15
"""


@pytest.fixture
def desk(tmp_path: Path) -> tuple[str, str]:
    """A store with one agent, desk, and a file with two of its trades."""
    store, file = str(tmp_path / "memory.db"), tmp_path / "trades.csv"
    file.write_text(TRADES)
    ((code, shown),) = on_terminal(80, [["agents", "create", "desk", "--db", store]])
    assert code == 0, shown
    return store, str(file)


def test_an_argument_may_be_given_as_an_option_and_only_once(desk: tuple[str, str]) -> None:
    store, _ = desk
    (by_place, shown), (by_name, same), (twice, refused) = on_terminal(
        80,
        [
            ["check", "XAUUSD", "long", "--agent", "desk", "--db", store],
            ["check", "--symbol", "XAUUSD", "--side", "long", "--agent", "desk", "--db", store],
            ["check", "XAUUSD", "long", "--side", "short", "--agent", "desk", "--db", store],
        ],
    )
    assert (by_place, by_name) == (0, 0)
    assert shown.splitlines()[0] == same.splitlines()[0]
    assert twice != 0
    assert "is given twice" in refused


def test_a_refusal_names_the_option_to_type_and_fits_the_terminal(desk: tuple[str, str]) -> None:
    store, _ = desk
    (code, shown), (nobody, none) = on_terminal(
        80, [["agents", "delete", "desk", "--db", store], ["brief", "--agent", "nobody-with-a-name-like-this", "--db", store]]
    )
    assert code != 0
    assert "--confirm desk" in " ".join(shown.split())
    assert nobody != 0
    assert "There are: desk" in " ".join(none.split())
    assert max(len(line) for line in (shown + none).splitlines()) <= 80


def test_a_store_without_agents_says_how_to_create_one(tmp_path: Path) -> None:
    ((code, shown),) = on_terminal(80, [["brief", "--agent", "gold", "--db", str(tmp_path / "memory.db")]])
    assert code != 0
    assert "memtape agents create" in " ".join(shown.split())


def test_a_command_that_names_no_agent_invents_none_where_there_are_others(desk: tuple[str, str], tmp_path: Path) -> None:
    store, file = desk
    (tmp_path / "notes").mkdir()
    for words in (["docs", "index", str(tmp_path / "notes")], ["docs", "reindex"], ["import", file], ["import", file, "--commit"]):
        ((code, shown),) = on_terminal(80, [[*words, "--db", store]])
        assert code == 2, shown
        assert "there is no agent 'main'. There are: desk" in " ".join(shown.split())
    ((_, listed),) = on_terminal(80, [["agents", "--db", store, "--columns", "id"]])
    assert "desk" in listed and "main" not in listed


def test_an_agent_that_does_not_exist_is_not_asked_to_be_confirmed(desk: tuple[str, str]) -> None:
    ((code, shown),) = on_terminal(80, [["agents", "delete", "dask", "--db", desk[0]]])
    assert code == 2
    assert "there is no agent 'dask'. Did you mean desk?" in " ".join(shown.split())


def test_the_trades_of_one_agent_are_exported(desk: tuple[str, str], tmp_path: Path) -> None:
    store, file = desk
    out = tmp_path / "desk.csv"
    (_, _), (_, _), (code, shown), (everything, refused) = on_terminal(
        80,
        [
            ["import", file, "--agent", "desk", "--commit", "--db", store],
            ["import", file, "--agent", "other", "--commit", "--db", store],
            ["export", str(out), "--agent", "desk", "--db", store],
            ["export", str(tmp_path / "all.jsonl"), "--agent", "desk", "--db", store],
        ],
    )
    assert code == 0, shown
    rows = list(csv.DictReader(out.open()))
    assert [row["agent"] for row in rows] == ["desk", "desk"]
    assert everything == 2 and "an export of everything holds every agent" in " ".join(refused.split())


def test_the_command_that_takes_an_import_back_can_be_typed_as_it_is_shown(desk: tuple[str, str]) -> None:
    store, file = desk
    ((_, shown),) = on_terminal(80, [["import", file, "--agent", "desk", "--commit", "--db", store]])
    undo = shlex.split(" ".join(shown.split()).partition("memtape imports undo ")[2])
    ((code, taken_back),) = on_terminal(80, [["imports", "undo", *undo]])
    assert code == 0, taken_back


def test_a_check_ends_with_its_verdict_and_the_first_reason(desk: tuple[str, str]) -> None:
    store, file = desk
    (_, _), (_, shown) = on_terminal(
        80, [["import", file, "--agent", "desk", "--commit", "--db", store], ["check", "XAUUSD", "long", "--agent", "desk", "--db", store]]
    )
    assert " ".join(shown.split("In short:")[-1].split()).startswith(("clear: ", "caution: ", "against: "))


def test_what_an_undo_took_back_fits_the_terminal(desk: tuple[str, str]) -> None:
    store, file = desk
    (imported, _), (undone, shown) = on_terminal(
        80,
        [
            ["import", file, "--agent", "desk", "--currency", "USD", "--commit", "--db", store],
            ["imports", "undo", "--agent", "desk", "--db", store],
        ],
    )
    assert (imported, undone) == (0, 0)
    assert max(len(line) for line in shown.splitlines()) <= 80


def test_words_that_no_argument_takes_are_answered_with_where_they_belong() -> None:
    (_, situation), (_, bars), (_, search), (_, today), (_, order) = on_terminal(
        80,
        [
            ["recall", "London", "breakout"],
            ["sim", "xau.csv"],
            ["search", "stops"],
            ["today"],
            ["check", "buy", "0.1", "XAUUSD"],
        ],
    )
    assert "Did you mean --market-context 'London breakout'?" in " ".join(situation.split())
    assert "Did you mean --bars xau.csv?" in " ".join(bars.split())
    assert "Did you mean: memtape docs search?" in search
    assert "Did you mean: memtape brief?" in today
    assert "it takes SYMBOL, then SIDE, and options" in " ".join(order.split())


def test_a_trade_ends_with_how_its_result_comes_about(desk: tuple[str, str]) -> None:
    store, file = desk
    (imported, _), (_, listed) = on_terminal(
        80,
        [
            ["import", file, "--agent", "desk", "--commit", "--db", store],
            ["trades", "--agent", "desk", "--columns", "id", "--db", store],
        ],
    )
    assert imported == 0
    newest = listed.splitlines()[4]
    ((code, shown),) = on_terminal(80, [["trade", newest, "--agent", "desk", "--db", store]])
    assert code == 0, shown
    sentence = " ".join(shown.partition("In short:")[2].split())
    assert sentence == (
        "short 1 from 2000 to 1985 is 15 USD; without costs it is 15 net. It has no R, because no risk at entry is known."
    )


def test_an_answer_names_commands_and_not_operations(desk: tuple[str, str]) -> None:
    store, file = desk
    (_, _), (code, shown) = on_terminal(
        80,
        [
            ["import", file, "--agent", "desk", "--commit", "--db", store],
            ["ask", "losses", "--agent", "desk", "--by", "hour", "--db", store],
        ],
    )
    assert code == 0
    assert "memtape performance --detail lists every hour" in " ".join(shown.split())
    assert "get_strategy_performance" not in shown


def test_python_m_memtape_is_the_command() -> None:
    done = subprocess.run([sys.executable, "-m", "memtape", "--version"], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("memtape ")


@pytest.mark.parametrize("name", ["serve", "mcp", "sim"])
def test_a_command_that_runs_on_collects_garbage_as_python_does(name: str) -> None:
    usual, seen = gc.get_threshold(), []
    command = Command(name, callback=lambda: seen.append(gc.get_threshold()))
    command.invoke(command.make_context(name, []))
    assert (seen, gc.get_threshold()) == ([usual], usual)


def test_a_short_command_looks_for_cycles_rarely_and_leaves_the_setting_as_it_was() -> None:
    usual, seen = gc.get_threshold(), []
    command = Command("recall", callback=lambda: seen.append(gc.get_threshold()[0]))
    command.invoke(command.make_context("recall", []))
    assert (seen, gc.get_threshold()) == ([YOUNG_OBJECTS], usual)
