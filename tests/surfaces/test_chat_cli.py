"""`memtape chat`: one message and its answer, a conversation line by line, and what it says without a model."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import Result
from typer.testing import CliRunner

from memtape.surfaces.cli.main import app
from tests.plugs.coach_model import coach
from tests.plugs.llm_server import Halts, LlmServer, Says, llm_server
from tests.plugs.scripted import Fails


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LlmServer]:
    with llm_server() as opened:
        monkeypatch.setenv("MEMTAPE_DB", str(tmp_path / "desk.db"))
        monkeypatch.setenv("MEMTAPE_CHAT_MODEL", "openai/gpt-5-mini")
        monkeypatch.setenv("MEMTAPE_OPENAI_URL", opened.url("openai"))
        opened.plays(coach)
        yield opened


def memtape(*words: str, typed: str | None = None) -> Result:
    return CliRunner().invoke(app, list(words), input=typed)


def test_a_message_is_answered_with_its_cost_and_the_chat_goes_on_by_its_id(server):
    done = memtape("chat", "-m", "I never trade alts.")
    assert done.exit_code == 0 and done.stdout == "Noted.\n" and "tools: remember" in done.stderr and "$0.0" in done.stderr
    chat = done.stderr.split()[1]
    turn = json.loads(memtape("chat", "--chat", chat, "-m", "Hello.", "--json").stdout)
    assert (turn["chat"], turn["answer"], turn["result"]) == (chat, "You said: Hello.", "ok")


def test_a_conversation_is_typed_line_by_line_until_it_is_left(server):
    done = memtape("chat", "--level", "beginner", typed="I never trade alts.\nGold rose.\n/quit\nNever sent.\n")
    assert done.exit_code == 0 and done.stdout == "Noted.\nYou said: Gold rose.\n"
    assert "memtape chat --chat" in done.stderr and len(server.asked) == 3


def test_an_answer_cannot_steer_the_terminal(server):
    server.plays(Says("\x1b[31mred\nnext"))
    assert memtape("chat", "-m", "Hello.").stdout == "\\x1b[31mred\nnext\n"


def read_until(terminal: int, words: str) -> str:
    shown = ""
    while words not in shown:
        shown += os.read(terminal, 4_096).decode()
    return shown


def test_on_a_terminal_the_answer_is_printed_while_it_is_written_and_once(server):
    go_on = threading.Event()
    server.plays(Halts(Says("\x1b[31mGold rose.\nKeep half."), after=4, until=go_on))
    terminal, other_end = pty.openpty()
    command = [sys.executable, "-m", "memtape.surfaces.cli.main", "chat", "-m", "How is gold?"]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    process = subprocess.Popen(command, stdout=other_end, stderr=subprocess.PIPE, env=environment)
    os.close(other_end)
    shown = read_until(terminal, "Gold")
    assert "Keep" not in shown and process.poll() is None
    go_on.set()
    shown += read_until(terminal, "half.\r\n")
    _, told = process.communicate(timeout=30)
    os.close(terminal)
    assert (process.returncode, shown) == (0, "\\x1b[31mGold rose.\r\nKeep half.\r\n") and b"($0.0" in told


def test_no_answer_is_said_so_and_the_exit_code_is_1(server):
    server.plays(Fails(400, "no"))
    done = memtape("chat", "-m", "Hello.")
    assert (done.exit_code, done.stdout) == (1, "") and "No answer (failed)" in done.stderr


def test_what_is_wrong_is_refused_by_name(server, monkeypatch):
    assert memtape("chat", "--mode", "gossip", "-m", "Hi.").exit_code == 2
    assert "chat" in memtape("chat", "--chat", "nothing", "-m", "Hi.").stderr
    monkeypatch.delenv("MEMTAPE_CHAT_MODEL")
    done = memtape("chat", "-m", "Hi.")
    assert done.exit_code == 2 and "MEMTAPE_CHAT_MODEL=anthropic/claude-haiku-4-5" in done.stderr
