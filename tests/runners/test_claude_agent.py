"""An agent run by the real Claude Code command line, from `run_agent` to the decision on record, against a server on this machine."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import memtape
from memtape.engine import Memory
from memtape.engine.proof.audit import verify_store
from memtape.surfaces.caller import Caller
from memtape.surfaces.registry import find, perform
from tests.runners.claude_server import ClaudeServer, answers, bundled_claude, calls, claude_server, environment_at, says
from tests.runners.desk import BUY, HELD

pytestmark = pytest.mark.skipif(
    bundled_claude() is None, reason="the package claude-agent-sdk, which has the command line, is absent"
)
NOTHING = dict.fromkeys(("reason", "frame", "expiry_bars", "entry", "size", "invalidation", "confidence", "horizon"))
CARD = {**NOTHING, **BUY}


@pytest.fixture(scope="module")
def server() -> Iterator[ClaudeServer]:
    with claude_server() as opened:
        yield opened


@pytest.fixture
def memory(server: ClaudeServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Memory]:
    for name, value in environment_at(server, tmp_path).items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("MEMTAPE_CLAUDE", bundled_claude() or "")
    with memtape.open(str(tmp_path / "desk.db")) as opened:
        opened.create_skill("breakout", strategy="Buy a close above the range.", avoid=["Never average down."])
        opened.create_agent("gold", skill="breakout")
        opened.configure_agent("gold", {"runner": "claude"})
        yield opened


def call(memory: Memory, name: str, **data: Any) -> dict[str, Any]:
    return perform(memory, find(name), {"agent": "gold", **data}, Caller("owner"))


def test_two_runs_and_a_chat_share_a_session_and_a_changed_avoid_rule_stands_in_the_next_request(
    memory: Memory, server: ClaudeServer
) -> None:
    memory.configure_agent("gold", {"active_memory": True})
    server.plays(answers(CARD), answers(CARD), says("It broke out."))
    first = call(memory, "run_agent", prompt="Run at 08:00")
    assert first["result"] == "ok", first["error"]
    _, version = memory.create_skill("breakout", strategy="Buy a close above the range.", avoid=["Never trade on Fridays."])
    memory.use_skill_version("gold", version)
    second = call(memory, "run_agent", prompt="Run at 09:00")
    assert "Never trade on Fridays." in server.system() and "Never average down." not in server.system()
    texts = server.user_texts()
    assert "Run at 08:00" in texts[0] and "Run at 09:00" in texts[-1] and "Never trade on Fridays." in texts[-1]
    chat = call(memory, "send_message", text="Why did you buy?")
    assert chat["text"] == "It broke out." and "Run at 09:00" in "".join(server.user_texts())
    assert [first["session_after"], second["session_after"]] == [second["session_before"], chat["session_before"]]
    assert call(memory, "get_session")["status"] == "Carrying context"
    assert [str(each.decision.stop) for each in memory.agent("gold").ledger.decisions()] == ["98", "98"]
    assert verify_store(memory).ok


def test_off_every_request_has_one_user_message_and_nothing_of_the_run_before(memory: Memory, server: ClaudeServer) -> None:
    server.plays(answers(CARD))
    call(memory, "run_agent", prompt="Run at 08:00")
    call(memory, "run_agent", prompt="Run at 09:00")
    first_of_second = next(n for n, asked in enumerate(server.asked) if "Run at 09:00" in json.dumps(asked.body))
    texts = server.user_texts(first_of_second)
    assert len([text for text in texts if text.strip()]) == 1 and "Run at 08:00" not in texts[0]


def test_the_agent_reads_its_memory_over_mcp_and_the_steps_are_on_record(memory: Memory, server: ClaudeServer) -> None:
    server.plays(calls("recall_memories", {"symbol": "BTC"}), answers(CARD))
    run = call(memory, "run_agent")
    assert run["result"] == "ok", run["error"]
    [step] = [step for step in run["steps"] if step.get("tool") == "recall_memories"]
    assert step["input"] == {"symbol": "BTC"} and json.loads(step["text"])["agent"] == "gold", step


def test_a_lost_session_starts_fresh_and_the_run_says_so(memory: Memory, server: ClaudeServer, tmp_path: Path) -> None:
    memory.configure_agent("gold", {"active_memory": True})
    server.plays(answers(CARD))
    call(memory, "run_agent")
    for file in tmp_path.rglob("*.jsonl"):
        file.unlink()
    run = call(memory, "run_agent")
    assert run["result"] == "ok" and "was not found: a new one began" in run["note"]


def test_a_reexamination_by_the_command_line_is_on_record(memory: Memory, server: ClaudeServer) -> None:
    server.plays(answers(CARD))
    first = call(memory, "run_agent")
    server.plays(answers(HELD))
    again = call(memory, "reexamine_decision", decision=first["decision"])
    assert again["result"] == "ok" and again["examination"]["conviction_score"] == 62, again
    assert "range broke upwards" in "".join(server.user_texts())


def test_no_byte_of_the_position_reaches_a_council_member(memory: Memory, server: ClaudeServer) -> None:
    memory.create_skill("macro", strategy="Read the dollar.")
    memory.create_agent("macro", skill="macro")
    server.plays(answers(CARD))
    first = call(memory, "run_agent")
    held = {"id": "f1", "t": "2026-03-02T10:00:00Z", "symbol": "BTC", "side": "buy", "qty": "7.25", "px": "100.125"}
    memory.agent("gold").observe(held, kind="fill", backfill=True)
    memory.configure_agent("gold", {"members": ["macro"]})
    server.plays(says("The dollar is weak."), answers(HELD))
    before = len(server.asked)
    call(memory, "reexamine_decision", decision=first["decision"])
    member = next(asked for asked in server.asked[before if before < len(server.asked) else 0 :])
    whole = json.dumps(member.body)
    for told in ("7.25", "100.125", '"98"', "range broke", first["decision"], "HOLD", "mcp__memtape"):
        assert told not in whole
    assert "The dollar is weak." in json.dumps(server.asked[-1].body) and "100.125" in json.dumps(server.asked[-1].body)
