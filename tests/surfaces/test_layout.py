"""The commands: grouped by task, each thing once, help that fits 80 columns, near names for a wrong one."""

from __future__ import annotations

import gc
import re
from importlib.metadata import version
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from memtape.surfaces.cli.layout import BY_HAND, COMMANDS, PANELS, command_of
from memtape.surfaces.cli.main import app
from memtape.surfaces.registry import all_operations

ROOT: Any = typer.main.get_command(app)
GROUPS = {name: each for name, each in ROOT.commands.items() if hasattr(each, "commands")}


def typed(*words: str) -> Any:
    return CliRunner().invoke(app, list(words), env={"COLUMNS": "80"})


def test_the_help_lists_each_command_once_in_the_groups_of_the_tasks_and_fits_80_columns():
    text = typed("--help").output
    titles = [line[:-1] for line in text.splitlines() if line.endswith(":") and not line.startswith(" ")]
    assert titles == ["Options", "Start", "Ask", "Record", "Own", "Run", "Keep", "More"]
    listed = [
        line.split()[0] for line in text.splitlines() if line.startswith("  ") and not line.startswith(("  -", "  memtape:"))
    ]
    placed = [name for panel in PANELS.values() for name in panel]
    assert listed == placed and len(placed) == len(set(placed))
    assert all(f"{line}\n" in text for panel in PANELS.values() for line in panel.values()), "no line is cut or broken"
    assert max(map(len, text.splitlines())) <= 80


def test_every_listed_command_exists_and_every_command_is_listed():
    placed = {name for panel in PANELS.values() for name in panel}
    assert placed == {name for name, each in ROOT.commands.items() if not each.hidden}


@pytest.mark.parametrize("name", sorted({name for panel in PANELS.values() for name in panel}))
def test_every_help_has_one_style_and_fits_80_columns(name):
    pages = [typed(name, "--help")]
    if name != "op":
        pages += [typed(name, part, "--help") for part in getattr(GROUPS.get(name), "commands", {})]
    for page in pages:
        assert page.exit_code == 0 and page.output.startswith("Usage: "), page.output
        assert "╭" not in page.output
        wide = [line for line in page.output.splitlines() if len(line) > 80]
        assert not wide, wide
        assert not re.search(r"<\w+>|\[(required|default)|\{\w+\}", page.output), "typer's own words for types and defaults"
    text = " ".join(pages[0].output.split())
    assert all(" ".join(each.short_help.split()) in text for each in getattr(GROUPS.get(name), "commands", {}).values()
               if each.short_help), "no line is cut"  # fmt: skip


def test_no_operation_stands_at_the_first_level_under_its_own_name():
    assert not {name.replace("_", "-") for name in all_operations() if "_" in name} & ROOT.commands.keys()


def test_each_operation_has_at_most_one_command_and_each_command_an_operation():
    calls = [each.operation for each in COMMANDS] + list(BY_HAND)
    assert len(calls) == len(set(calls)) and set(calls) <= all_operations().keys()
    paths = [each.path for each in COMMANDS]
    assert len(paths) == len(set(paths)) and not set(paths) & set(BY_HAND.values())
    for each in COMMANDS:
        assert set(each.arguments) <= all_operations()[each.operation].params.model_fields.keys(), each.path


def test_op_lists_every_operation_by_noun_and_takes_dashes_too():
    text = typed("op", "--help").output
    assert all(f"  {name} " in text or f"  {name}\n" in text for name in all_operations())
    assert "Decisions:" in text and max(map(len, text.splitlines())) <= 80
    assert (
        typed("op", "get-trades", "--help").output.splitlines()[1:] == typed("op", "get_trades", "--help").output.splitlines()[1:]
    )


def test_the_version_is_that_of_the_package():
    assert typed("--version").output == f"memtape {version('memtape')}\n"


def test_a_group_without_a_command_lists(tmp_path):
    db = str(tmp_path / "desk.db")
    typed("skills", "create", "trend", "--db", db)
    assert typed("skills", "--db", db, "--json").output == typed("skills", "list", "--db", db, "--json").output
    assert '"trend"' in typed("skills", "--db", db, "--json").output


def test_a_field_may_come_by_position_or_in_the_input(tmp_path):
    db = str(tmp_path / "desk.db")
    assert typed("skills", "create", "--input", '{"id": "trend"}', "--db", db).exit_code == 0
    assert typed("agents", "create", "desk", "--skill", "trend", "--mode", "sim", "--db", db).exit_code == 0
    missing = typed("check", "--agent", "desk", "--db", db)
    assert missing.exit_code == 2
    assert [line.partition(": ")[2].partition(":")[0] for line in missing.stderr.splitlines()] == ["SYMBOL", "SIDE"]


@pytest.mark.parametrize(
    ("words", "near"),
    [
        (["trads"], "memtape trades"),
        (["get-trades"], "memtape trades"),
        (["create-agent"], "memtape agents create"),
        (["list_shown_briefs"], "memtape op list_shown_briefs"),
        (["agents", "crate"], "memtape agents create"),
        (["op", "get_trade_s"], "memtape op get_trades"),
        (["xyzzy"], "memtape --help"),
    ],
)
def test_an_unknown_command_gets_the_nearest_ones(words, near):
    done = typed(*words)
    assert done.exit_code == 2 and near in done.stderr and "there is no command" in done.stderr


def test_an_operation_is_named_by_its_command_on_the_command_line(tmp_path):
    db = str(tmp_path / "desk.db")
    typed("skills", "create", "trend", "--db", db)
    typed("agents", "create", "desk", "--skill", "trend", "--db", db)
    done = typed("trade", "nosuch", "--agent", "desk", "--db", db)
    assert done.stderr == "memtape: TRADE_ID: there is no trade 'nosuch'. List them with memtape trades\n"
    assert command_of("get_trades") == "trades"


def test_the_collector_works_while_a_command_runs(tmp_path):
    gc.disable()
    try:
        typed("agents", "--db", str(tmp_path / "memory.db"))
        assert gc.isenabled()
    finally:
        gc.enable()
