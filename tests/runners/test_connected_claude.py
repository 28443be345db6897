"""The real Claude Code starts what `memtape connect` wrote, lists the tools, and works with them."""

from __future__ import annotations

import json
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import memtape
from memtape.surfaces.cli.main import app
from memtape.surfaces.registry import execute
from tests.plugs.llm_server import Calls
from tests.runners.claude_server import TOKENS, ClaudeServer, bundled_claude, calls, claude_server, environment_at, says

pytestmark = pytest.mark.skipif(
    bundled_claude() is None, reason="the package claude-agent-sdk, which has the command line, is absent"
)

TRADE = {
    "trade_id": "c1", "symbol": "BTC", "direction": "long", "entry_at": "2026-06-04T08:00:00Z", "exit_at": "2026-06-04T14:30:00Z",
    "entry_price": 65200, "exit_price": 66050, "stop": 64800, "qty": 0.5,
}  # fmt: skip


@pytest.fixture
def server() -> Iterator[ClaudeServer]:
    with claude_server() as opened:
        yield opened


def result_of(asked: Any) -> dict[str, Any]:
    """The last result of a tool in a request, as values."""
    blocks = [block for one in asked.body["messages"] if isinstance(one["content"], list) for block in one["content"]]
    content = [block for block in blocks if block["type"] == "tool_result"][-1]["content"]
    return json.loads(content if isinstance(content, str) else content[0]["text"])


def offered_by(asked: Any) -> set[str]:
    """The tools of memtape that a request shows to the model."""
    names = [tool["name"] for tool in asked.body.get("tools", [])]
    return {name.removeprefix("mcp__memtape__") for name in names if name.startswith("mcp__memtape__")}


def test_claude_code_makes_the_loop_with_the_block_that_connect_wrote(
    server: ClaudeServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project, home, store = tmp_path / "project", tmp_path / "home", tmp_path / "desk.db"
    for folder in (project, home):
        folder.mkdir()
    with memtape.open(str(store)) as memory:
        memory.create_skill("breakout", strategy="Buy a close above the 20-bar high.")
        for name in ("desk", "other"):
            memory.create_agent(name, skill="breakout", mode="paper")
    monkeypatch.chdir(project)
    monkeypatch.setenv("HOME", str(home))
    made = CliRunner().invoke(app, ["connect", "claude-code", "--agent", "desk", "--db", str(store), "--write"])
    assert made.exit_code == 0, made.output

    def decides(asked: Any) -> Calls:
        decision = {
            "symbol": "BTC",
            "action": "no_trade",
            "reason": "The range is unresolved.",
            "brief": result_of(asked)["receipt"],
        }
        return calls("record_decision", decision)

    steps = iter((calls("get_brief", {"symbol": "BTC"}), decides, calls("remember_trade", TRADE), says("Done for today.")))

    def trades(asked: Any) -> Any:
        # Claude Code shows a model the tools of a server when it searches for them and the server is connected.
        if not offered_by(asked):
            return Calls((("ToolSearch", {"query": "memtape", "max_results": 20}),), tokens=TOKENS)
        step = next(steps)
        return step(asked) if callable(step) else step

    server.plays(trades)
    # PATH without memtape, and the store of nobody: only what the block says counts.
    environment = environment_at(server, home) | {"PATH": "/usr/bin:/bin"}
    done = subprocess.run(
        [str(bundled_claude()), "-p", "--output-format", "stream-json", "--verbose", "--allowedTools", "mcp__memtape"],
        cwd=project, env=environment, input="Trade.", capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    offered = offered_by(server.asked[-1])
    assert {"get_brief", "record_decision", "remember_trade"} <= offered, server.tool_results()
    assert not {"delete_agent", "observe_fill"} & offered, "a model trades for its agent and does not run the desk"
    assert not any(one.get("is_error") for one in server.tool_results()), server.tool_results()
    with memtape.open(str(store)) as memory:
        desk, other = memory.agent("desk"), memory.agent("other")
        assert [trade.symbol for trade in desk.ledger.trades()] == ["BTC"]
        (decision,) = desk.ledger.decisions()
        shown = execute(memory, "list_shown_briefs", {"agent": "desk"})["shown"]
        assert len(shown) == 1 and (decision.decision.symbol, other.head().seq) == ("BTC", 0)


def test_claude_code_accepts_the_printed_command_and_reaches_the_server(
    server: ClaudeServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project, home = tmp_path / "project", tmp_path / "home with a blank"
    project.mkdir()
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    # A blank in a path must survive the shell.
    made = CliRunner().invoke(app, ["connect", "claude-code", "--db", str(home / "desk.db"), "--json"])
    program, *words = shlex.split(json.loads(made.stdout)["command"])
    environment = environment_at(server, home) | {"PATH": "/usr/bin:/bin"}

    def claude(*words: str) -> str:
        command = [str(bundled_claude()), *words]
        done = subprocess.run(command, cwd=project, env=environment, capture_output=True, text=True, timeout=120, check=True)
        return done.stdout

    assert program == "claude" and "memtape" in claude(*words)
    assert "Connected" in claude("mcp", "list")
