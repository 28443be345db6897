"""The operations as commands: options from their fields, answers as JSON or for the eye, errors as one line."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from memtape.errors import Locked, Tampered
from memtape.surfaces.cli.printing import answer, reporting

from .desk import DESK, Desk, program
from .parity import Program

DESK_FILE = Path(__file__).with_name("desk.py")
PROGRAM = Program((sys.executable, str(DESK_FILE)), db_option=())
ORDER = ["--symbol", "BTC", "--side", "long", "--qty", "0.5"]


@pytest.fixture
def db(tmp_path: Path) -> str:
    return str(tmp_path / "desk.json")


def say(*words: str, stdin: bytes | None = None) -> Any:
    return CliRunner().invoke(program(), ["op", *words], input=stdin)


def test_every_operation_is_a_command_with_an_option_for_each_field():
    helped = say("--help").output
    for name, known in DESK.items():
        assert name in helped and known.summary in helped
        text = say(name, "--help").output
        assert all(f"--{field.replace('_', '-')}" in text for field in [*known.params.model_fields, "json", "db"])
    assert "submit_order" not in helped, "an alias answers, but is not listed"
    text = say("place-order", "--help").output
    assert "long|short" in text and "(required)" in text and "[and says so]" in text


def test_json_is_the_result_and_nothing_else(db):
    placed = say("place-order", "--db", db, *ORDER, "--tags", "trend", "--tags", "café", "--json")
    assert placed.exit_code == 0 and placed.stderr == ""
    assert json.loads(placed.stdout)["tags"] == ["trend", "café"]
    assert json.loads(say("submit-order", "--db", db, *ORDER, "--json").stdout)["id"] == "o2"


def test_what_is_not_plain_comes_as_json_from_a_file_or_from_stdin(db, tmp_path):
    legs = '[{"symbol": "BTC", "ratio": 2}]'
    file = tmp_path / "legs.json"
    file.write_bytes(b"\xef\xbb\xbf" + legs.encode())
    for word in (legs, f"@{file}", "-"):
        placed = say("place-order", "--db", db, *ORDER, "--legs", word, "--json", stdin=legs.encode())
        assert json.loads(placed.stdout)["legs"] == [{"ratio": 2, "symbol": "BTC"}]
    listed = say("list-orders", "--db", db, "--tags", '["none", "such"]', "--where", '{"a": null}', "--json")
    assert json.loads(listed.stdout) == {"orders": [], "where": {"a": None}, "next_cursor": None}


def test_flags_and_negative_numbers_are_read(db):
    assert say("list-orders", "--db", db, "--open-only", "--json").exit_code == 0
    assert say("list-orders", "--db", db, "--no-open-only", "--json").exit_code == 0
    assert "--qty: should be greater than 0" in say("place-order", "--db", db, *ORDER[:-1], "-5").stderr


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["place-order", *ORDER[:-1], "x"], 2, "qty: "),
        (["place-order", "--side", "long", "--qty", "1"], 2, "symbol: required"),
        (["list-orders", "--where", "{"], 2, "where: is not JSON"),
        (["list-orders", "--where", "@no-such-file"], 2, "where: the file cannot be read: No such file or directory"),
        (["list-orders", "--limit", "0"], 2, "limit: should be greater than or equal to 1"),
        (["make-trouble", "--kind", "unknown"], 2, "agent: there is no agent 'nobody'. Create it first"),
        (["make-trouble", "--kind", "conflict"], 3, "note: differs from before. Use another id"),
        (["make-trouble", "--kind", "locked"], 3, "The store desk.db has been locked by another writer"),
    ],
)
def test_an_error_is_one_line_on_stderr_and_an_exit_code(db, words, code, said):
    told = say(*words, "--db", db)
    assert told.exit_code == code and told.stdout == ""
    option = f"--{said}" if f"--{said.partition(':')[0]}" in say(words[0], "--help").output else said
    assert told.stderr.startswith(f"memtape: {option}") and told.stderr.count("\n") == 1
    told = say(*words, "--db", db, "--json")
    assert told.exit_code == code and told.stdout == ""
    assert json.loads(told.stderr)["detail"].startswith(said)


def test_every_wrong_field_has_its_line(db):
    words = ["place-order", "--side", "up", "--legs", '[{"ratio": 1}, {"symbol": "ETH", "ratio": "x"}]', "--db", db]
    fields = ["symbol", "side", "qty", "legs.0.symbol", "legs.1.ratio"]
    told = say(*words)
    assert told.exit_code == 2
    options = ["--symbol", "--side", "--qty", "--legs 0.symbol", "--legs 1.ratio"]
    assert [line.split(": ")[:2] for line in told.stderr.splitlines()] == [["memtape", option] for option in options]
    found = json.loads(say(*words, "--json").stderr)
    assert [each["field"] for each in found["errors"]] == fields and found["field"] == "symbol"
    assert found["errors"][1] == {"field": "side", "problem": "should be 'long' or 'short'", "fix": found["errors"][1]["fix"]}


def test_an_unknown_option_is_a_usage_error():
    assert say("place-order", "--sybmol", "BTC").exit_code == 2
    assert say("plaice-order").exit_code == 2


def test_a_bug_is_not_hidden(db):
    told = say("make-trouble", "--db", db, "--kind", "bug")
    assert isinstance(told.exception, ZeroDivisionError) and told.exit_code == 1


def test_the_memory_is_closed_after_the_command(db, monkeypatch):
    closed: list[str] = []
    monkeypatch.setattr(Desk, "close", lambda self: closed.append("closed"))
    say("list-orders", "--db", db)
    say("make-trouble", "--db", db, "--kind", "conflict")
    assert closed == ["closed", "closed"]


def test_into_a_pipe_goes_plain_text(db):
    say("place-order", "--db", db, *ORDER)
    told = say("list-orders", "--db", db).stdout.splitlines()
    assert told[:2] == ["orders:", "id\tsymbol\tside\tqty\tlegs\ttags\tat\tagent\tduplicate"]
    assert told[2].startswith("o1\tBTC\tlong\t0.5")


def test_on_a_terminal_there_are_tables_and_no_text_can_command_it(db):
    say("place-order", "--db", db, *ORDER, "--tags", "[bold]x[/bold]", "--tags", "\x1b[2J\x9b31m")
    shown = on_a_terminal("op", "list_orders", "--db", db)
    assert "------" in shown and "[bold]x[/bold]" in shown.replace("\n", "")
    assert "\x1b[2J" not in shown and "\x9b" not in shown


def on_a_terminal(*words: str) -> str:
    parent, child = pty.openpty()
    env = PROGRAM.environment() | {"COLUMNS": "240", "TERM": "xterm"}
    with subprocess.Popen([*PROGRAM.argv, *words], stdout=child, stderr=child, env=env) as process:
        os.close(child)
        seen = b""
        while True:
            try:
                part = os.read(parent, 65536)
            except OSError:  # Linux says the other end is gone with an error
                break
            if not part:
                break
            seen += part
        process.wait(timeout=60)
    os.close(parent)
    return seen.decode()


def test_other_commands_report_the_same_way(capfd):
    with pytest.raises(typer.Exit) as stopped, reporting():
        raise Tampered(url="x.db", problem="row 7\nwas changed")
    assert stopped.value.exit_code == 4
    assert capfd.readouterr().err == (
        "memtape: The store x.db does not agree with its log: row 7 was changed. Run: memtape verify\n"
    )
    with pytest.raises(typer.Exit), reporting(as_json=True):
        raise Locked(url="x.db", seconds=5)
    assert json.loads(capfd.readouterr().err)["type"] == "urn:memtape:problem:locked"
    answer({"ok": True, "problems": [], "totals": {"net": "1.5"}, "text": "two\nlines"})
    assert capfd.readouterr().out == "ok: true\nproblems: []\ntotals:\n  net: 1.5\ntext:\ntwo\nlines\n"


def test_listing_the_commands_imports_nothing_heavy():
    code = """
import sys, typer
from pathlib import Path
from memtape.surfaces.cli.commands import add_operations
app = typer.Typer(rich_markup_mode=None)
app.command("other")(lambda: None)
add_operations(app, lambda db, owner: None, file=Path(sys.argv.pop(1)))
try:
    app(["op", "--help"])
except SystemExit:
    pass
heavy = {"numpy", "mcp", "fastapi", "starlette", "apsw", "uvicorn", "anyio", "httpx", "memtape.surfaces.registry"}
print("HEAVY", sorted(heavy & set(sys.modules)))
"""
    argv = [sys.executable, "-c", code, str(DESK_FILE)]
    done = subprocess.run(argv, capture_output=True, text=True, env=PROGRAM.environment(), timeout=60)
    assert "place_order" in done.stdout and "HEAVY []" in done.stdout, done.stdout + done.stderr
