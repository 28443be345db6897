"""`memtape connect`: what it prints works, what it writes leaves the rest of a file alone, and what it undoes is undone."""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner, Result

import memtape
from memtape.errors import Invalid
from memtape.surfaces.cli.demo_store import demo_greeting, demo_progress
from memtape.surfaces.cli.main import app
from memtape.surfaces.config_text import add_server, plain_json, remove_server, undo_edit
from memtape.surfaces.mcp_clients import CLIENTS

PATH = ("mcpServers", "memtape")
SERVER = {"command": "/opt/memtape", "args": ["mcp", "--agent", "desk"]}


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home folder, which is also the folder of the project, with a store of one agent, desk."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("MEMTAPE_DB", "MEMTAPE_OWNER", "CODEX_HOME", "XDG_CONFIG_HOME"):
        monkeypatch.delenv(name, raising=False)
    with memtape.open(str(tmp_path / "desk.db")) as memory:
        memory.create_skill("breakout")
        memory.create_agent("desk", skill="breakout", mode="paper")
    return tmp_path


def run(*words: str, code: int = 0) -> Result:
    done = CliRunner().invoke(app, ["connect", *words])
    assert done.exit_code == code, done.output
    return done


def files(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and ".db" not in path.name
    }


def entry(client: str, text: str) -> dict:
    known = CLIENTS[client]
    return (tomllib.loads(text) if known.toml else json.loads(text))[known.group]["memtape"]


# ---- every program -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("client", CLIENTS)
def test_the_block_names_the_program_the_store_and_the_agent_by_absolute_paths(client: str, home: Path) -> None:
    found = entry(client, run(client, "--db", "desk.db").stdout)
    assert Path(found["command"]).is_absolute() and Path(found["command"]).is_file()
    assert found["args"] == ["mcp", "--agent", "desk", "--db", str(home / "desk.db")]
    assert files(home) == {}, "without --write nothing is written"


@pytest.mark.parametrize("client", CLIENTS)
def test_what_is_written_is_what_is_printed_and_undo_leaves_nothing_behind(client: str, home: Path) -> None:
    printed = run(client, "--db", "desk.db").stdout
    folders = {path for path in home.rglob("*") if path.is_dir()}
    run(client, "--db", "desk.db", "--write")
    assert CLIENTS[client].file().read_text() == printed
    assert "already" in run(client, "--db", "desk.db", "--write").stdout
    run(client, "--undo")
    assert files(home) == {}
    assert {path for path in home.rglob("*") if path.is_dir()} - folders <= {
        home / ".memtape",
        CLIENTS[client].file().parent.parent,
    }
    assert "nothing was changed" in run(client, "--undo").stdout


# Settings as people have them: other servers, odd spaces, line ends of Windows, an empty group, nothing at all.
JSON_TEXTS = (
    '{"theme": "dark"}',
    '{\n    "mcpServers": {\n        "other": {"command": "x",   "args": [1,2]}\n    },\n    "z": [ 1 ,2 ]\n}\n',
    '{\r\n\t"a": "\\u00e4",\r\n\t"mcpServers": {}\r\n}',
    '{ "mcpServers": {\n} }',
    "{}",
    "",
    ' {"mcpServers":{"a":{},"b":{"x":"}{,"}}} \n',
    '{"mcpServers": {"memtape": {"command": "by hand"}, "b": {}}}',
)


@pytest.mark.parametrize("text", JSON_TEXTS)
def test_settings_in_json_keep_everything_else_and_come_back_to_the_byte(text: str, home: Path) -> None:
    file = home / ".mcp.json"
    file.write_bytes(text.encode())
    file.chmod(0o640)
    run("claude-code", "--db", "desk.db", "--write")
    before, after = json.loads(text or "{}"), json.loads(file.read_bytes())
    assert after["mcpServers"].pop("memtape")["args"][:3] == ["mcp", "--agent", "desk"]
    before.get("mcpServers", {}).pop("memtape", None)
    assert after == {"mcpServers": {}} | before
    assert file.stat().st_mode & 0o777 == 0o640
    # Another agent, then back: the undo leads to what was there before memtape, not to its own first entry.
    run("claude-code", "--db", "desk.db", "--tools", "full", "--write")
    run("claude-code", "--undo")
    assert file.read_bytes() == text.encode() and file.stat().st_mode & 0o777 == 0o640


TOML_TEXTS = (
    'model = "o3"  # my model\n',
    '# mine\n[mcp_servers.other]\ncommand = "x"\nargs = [\n  "a",\n]\n\n[profiles.fast]\nmodel = "y"',
    'model = "o3"\r\n\r\n[mcp_servers.other.env]\r\nA = "1"\r\n',
    '[mcp_servers.memtape]\ncommand = "by hand"\n[mcp_servers.memtape.env]\nA = "1"\n\n# of the other\n[mcp_servers.z]\ncommand = "z"\n',
    "",
)


@pytest.mark.parametrize("text", TOML_TEXTS)
def test_settings_in_toml_keep_every_byte_beside_the_entry(text: str, home: Path) -> None:
    file = home / ".codex" / "config.toml"
    file.parent.mkdir()
    file.write_bytes(text.encode())
    run("codex", "--db", "desk.db", "--write")
    before, after = tomllib.loads(text), tomllib.loads(file.read_bytes().decode())
    assert after["mcp_servers"].pop("memtape")["args"][:3] == ["mcp", "--agent", "desk"]
    before.get("mcp_servers", {}).pop("memtape", None)
    assert after == {"mcp_servers": {}} | before
    theirs = [line for line in text.splitlines() if not re.search("memtape|by hand|^A =", line)]
    assert [line for line in theirs if line not in file.read_bytes().decode()] == []
    run("codex", "--undo")
    assert file.read_bytes() == text.encode()


COMMENTED_TEXTS = (
    '{\n  // my servers\n  "servers": {}\n}\n',
    '{"servers": {},}',
    '\ufeff{\n\t"servers": {\n\t\t"other": {"command": "x"}, // keep, "it\n\t},\n\t/* later */\n}\n',
    '{\n  "inputs": [], "servers": {\n    "a": {"command": "//no"} // the first\n  } /* all */\n  // end\n}',
    '// nothing yet\n{ /* empty */ }\n',
    '{\r\n  "servers": {\r\n    "a": {"args": ["x", ], }, // b\r\n  }\r\n}\r\n',
)


@pytest.mark.parametrize("text", COMMENTED_TEXTS)
def test_comments_and_commas_too_many_stay_where_they_are(text: str, home: Path) -> None:
    file = home / ".vscode" / "mcp.json"
    file.parent.mkdir()
    file.write_bytes(text.encode())
    run("vscode", "--db", "desk.db", "--write")
    after = file.read_bytes().decode()
    found, before = json.loads(plain_json(after)), json.loads(plain_json(text))
    assert found["servers"].pop("memtape")["args"][:3] == ["mcp", "--agent", "desk"] and found == {"servers": {}} | before
    for comment in re.findall(r"(?<!\")//[^\r\n]*|/\*.*?\*/", text):
        assert comment in after
    run("vscode", "--db", "desk.db", "--write")
    run("vscode", "--undo")
    assert file.read_bytes() == text.encode()


def test_a_read_only_file_is_not_replaced(home: Path) -> None:
    file = home / ".mcp.json"
    file.write_text("{}")
    file.chmod(0o444)
    done = run("claude-code", "--db", "desk.db", "--write", code=2)
    assert "it is read-only" in done.stderr and file.read_text() == "{}" and '"mcpServers"' in done.stdout


def test_undo_takes_only_its_own_entry_out_of_a_file_that_changed_since(home: Path) -> None:
    file = home / ".mcp.json"
    file.write_text('{"mcpServers": {"other": {"command": "x"}}}')
    run("claude-code", "--db", "desk.db", "--write")
    # Claude Code writes the whole file anew, in a form of its own.
    values = json.loads(file.read_text())
    values["mcpServers"]["third"] = {"command": "y"}
    file.write_text(json.dumps(values, indent=8))
    run("claude-code", "--undo")
    assert json.loads(file.read_text()) == {"mcpServers": {"other": {"command": "x"}, "third": {"command": "y"}}}


def test_two_agents_are_two_servers_under_two_names(home: Path) -> None:
    run("cursor", "--db", "desk.db", "--write")
    run("cursor", "--db", "desk.db", "--tools", "coach", "--name", "coach", "--write")
    found = json.loads((home / ".cursor" / "mcp.json").read_text())["mcpServers"]
    assert list(found) == ["memtape", "coach"] and found["coach"]["args"][-2:] == ["--tools", "coach"]
    run("cursor", "--undo")
    assert list(json.loads((home / ".cursor" / "mcp.json").read_text())["mcpServers"]) == ["coach"]


@pytest.mark.parametrize(
    ("client", "text"),
    [
        ("vscode", '{\n  // my servers\n  "servers": {\n'),
        ("vscode", '{"servers": {},, "inputs": []}'),
        ("gemini", '{"theme": "dark"} /* not closed'),
        ("cursor", "[]"),
        ("cursor", '{"mcpServers": []}'),
        ("codex", "mcp_servers = {a = {command = 'x'}}\n"),
        ("codex", "model = \n"),
    ],
)
def test_a_file_that_cannot_be_edited_stays_as_it_is_and_the_block_is_printed(client: str, text: str, home: Path) -> None:
    file = CLIENTS[client].file()
    file.parent.mkdir()
    file.write_text(text)
    done = run(client, "--db", "desk.db", "--write", code=2)
    assert "Paste the block into it yourself" in done.stderr
    assert entry(client, done.stdout)["args"][2] == "desk"
    assert files(home) == {str(file.relative_to(home)): text.encode()}


def test_a_link_to_the_settings_stays_a_link(home: Path) -> None:
    real = home / "dotfiles.json"
    real.write_text("{}")
    (home / ".mcp.json").symlink_to(real)
    run("claude-code", "--db", "desk.db", "--write")
    assert (home / ".mcp.json").is_symlink() and "memtape" in real.read_text()


# ---- which agent -------------------------------------------------------------------------------------------------------


def test_a_missing_agent_is_refused_with_the_names_of_those_that_exist(home: Path) -> None:
    assert "There are: desk" in run("cursor", "--db", "desk.db", "--agent", "dusk", "--write", code=2).stderr
    assert "memtape init" in run("cursor", "--db", "none.db", "--agent", "desk", code=2).stderr
    with memtape.open(str(home / "desk.db")) as memory:
        memory.create_agent("night", skill="breakout", mode="paper")
    assert "desk, night. Choose one with --agent" in run("cursor", "--db", "desk.db", "--write", code=2).stderr
    assert files(home) == {} and not (home / "none.db").exists()


def test_wrong_words_are_refused(home: Path) -> None:
    assert "Choose one of claude-code" in run("emacs", code=2).stderr
    assert "Choose one" in run("cursor", "--write", "--undo", code=2).stderr
    assert "letters" in run("cursor", "--name", "a b", code=2).stderr
    assert "full" in run("cursor", "--tools", "all", "--db", "desk.db", code=2).stderr


def test_a_password_is_not_put_into_a_file_of_another_program() -> None:
    from memtape.surfaces.mcp_clients import server_command

    assert server_command("postgresql://ann:secret@host/desk", "desk")[-1] == "postgresql://ann@host/desk"


# ---- one block everywhere ----------------------------------------------------------------------------------------------


def test_init_prints_the_block_of_connect(home: Path) -> None:
    shown = json.loads(CliRunner().invoke(app, ["init", "--db", "desk.db", "--json"]).stdout)["mcp"]
    assert shown == json.loads(run("claude-code", "--db", "desk.db").stdout)


def test_the_greeting_of_the_demo_has_the_command_of_connect(home: Path) -> None:
    store = str(home / "demo.db")
    with memtape.open(store) as memory:
        memory.create_skill("breakout")
        memory.create_agent("tech-breakout", skill="breakout", mode="sim")
    command = json.loads(run("claude-code", "--agent", "tech-breakout", "--db", store, "--json").stdout)["command"]
    assert command in [line.strip() for line in demo_greeting("http://127.0.0.1:8765", store)]


def test_without_a_script_beside_the_interpreter_the_module_is_started(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bare = home / "python"
    bare.symlink_to(sys.executable)
    monkeypatch.setattr(sys, "executable", str(bare))
    found = entry("cursor", run("cursor", "--db", "desk.db").stdout)
    assert found["command"] == str(bare) and found["args"][:3] == ["-m", "memtape.surfaces.cli.main", "mcp"]


def test_the_printed_command_starts_from_any_folder_without_a_path(home: Path) -> None:
    found = entry("cursor", run("cursor", "--db", "desk.db").stdout)
    hello = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}}  # fmt: skip
    done = subprocess.run(
        [found["command"], *found["args"]], cwd="/", env={"HOME": os.environ["HOME"], "PATH": "/nowhere"},
        input=json.dumps(hello) + "\n", capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert json.loads(done.stdout.splitlines()[0])["result"]["serverInfo"]["name"] == "memtape", done.stderr


# ---- the first minutes -------------------------------------------------------------------------------------------------


def test_filling_the_demo_counts_all_agents_as_one_whole_and_says_so_without_a_terminal(
    capsys: pytest.CaptureFixture[str],
) -> None:
    seen: list[tuple[int, int]] = []
    ticks = demo_progress(lambda done, total: seen.append((done, total)), ["a", "b"])
    for agent in ("a", "b"):
        for done in (5, 10):
            ticks(agent, done, 10)
    assert seen == [(5, 20), (10, 20), (15, 20), (20, 20)]
    assert capsys.readouterr().err.splitlines() == ["  a (1 of 2): 100 %", "  b (2 of 2): 100 %"]


def test_a_busy_port_is_reported_before_the_demo_is_filled(home: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as busy:
        port = busy.getsockname()[1]
        done = CliRunner().invoke(app, ["serve", "--demo", "--db", "demo.db", "--port", str(port)])
    assert done.exit_code == 3 and f"make run PORT={port + 1}" in done.output
    assert not list(home.glob("demo.db*"))


@pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")
def test_make_run_takes_a_port_and_installs_only_what_running_needs(tmp_path: Path) -> None:
    root = Path(__file__).parents[2]
    for name in (
        "Makefile",
        "pyproject.toml",
        "requirements.lock",
        "requirements-run.lock",
        "tools/setup.sh",
        "tools/build_minilm.py",
    ):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        shutil.copy(root / name, tmp_path / name)
    done = subprocess.run(["make", "-n", "run", "PORT=9000"], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert "setup.sh run" in done.stdout and "setup.sh test" not in done.stdout and "--port 9000" in done.stdout
    assert (
        "setup.sh test" in subprocess.run(["make", "-n", "test"], cwd=tmp_path, capture_output=True, text=True, check=True).stdout
    )


# ---- any text ----------------------------------------------------------------------------------------------------------

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=8,
)
SERVERS = st.dictionaries(st.sampled_from(["memtape", "other", "a}b", "ä"]), VALUES, max_size=3)


@given(st.dictionaries(st.text(max_size=5), VALUES, max_size=4), st.none() | SERVERS, st.sampled_from([None, 1, "\t"]))
def test_any_json_comes_back_to_the_byte(others: dict, servers: dict | None, indent: int | str | None) -> None:
    values = others if servers is None else others | {"mcpServers": servers}
    text = json.dumps(values, indent=indent, ensure_ascii=False)
    try:
        edit = add_server(text, PATH, SERVER)
    except Invalid:
        assert not isinstance(values.get("mcpServers", {}), dict)
        return
    assert json.loads(edit.text)["mcpServers"]["memtape"] == SERVER
    if edit.text.count(edit.new) == 1:
        assert undo_edit(edit.text, edit) == text
    left = json.loads(remove_server(edit.text, PATH))
    assert left == values | {"mcpServers": {name: one for name, one in (servers or {}).items() if name != "memtape"}}
