"""The commands of runs on a terminal of 80 columns: every id and every time is whole; a run that fails is an exit code."""

from __future__ import annotations

import fcntl
import os
import pty
import struct
import subprocess
import termios
from pathlib import Path

import pytest

import memtape
from memtape.runners.conduct import RunTask, conduct_run, reexamine
from memtape.surfaces.run_host import run_host
from tests.runners.desk import BUY, HELD, ScriptedRunner
from tests.surfaces.parity import Program


@pytest.fixture
def store(tmp_path: Path) -> tuple[str, list[str]]:
    db = str(tmp_path / "desk.db")
    with memtape.open(db) as memory:
        memory.create_skill("breakout")
        memory.create_agent("gold", skill="breakout")
        memory.configure_agent("gold", {"runner": "llm"})
        runner = ScriptedRunner(BUY, HELD)
        host = run_host(memory, lambda config: runner)
        first = conduct_run(memory, host, "gold", RunTask(kind="scheduled", prompt="Analyse."))
        again = reexamine(memory, host, "gold", first.id)
    return db, [first.id, again.id]


def shown(*words: str) -> str:
    """What a command prints on a terminal of 80 columns."""
    parent, child = pty.openpty()
    fcntl.ioctl(child, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 80, 0, 0))
    environment = {name: value for name, value in Program().environment().items() if name != "COLUMNS"} | {"TERM": "xterm"}
    with subprocess.Popen([*Program().argv, *words], stdin=child, stdout=child, stderr=child, env=environment) as process:
        os.close(child)
        seen = b""
        try:
            while part := os.read(parent, 65536):
                seen += part
        except OSError:
            pass  # so Linux says that the other end is gone
        process.wait(timeout=60)
    os.close(parent)
    return seen.decode()


def test_tables_of_runs_and_examinations_fit_a_terminal(store: tuple[str, list[str]]) -> None:
    db, ids = store
    listed = shown("runs", "--agent", "gold", "--db", db)
    assert all(id_ in listed for id_ in ids) and "re-examination" in listed and "…" not in listed
    examined = shown("decisions", "reexaminations", ids[0], "--agent", "gold", "--db", db)
    decided = shown("decisions", "show", ids[0], "--agent", "gold", "--db", db)
    cards = shown("cards", "list", "--db", db)
    for text in (examined, decided, cards):
        assert "…" not in text and max(map(len, text.splitlines())) <= 240  # styles take room, columns do not
    assert "The retest" in examined and "conviction_score" in examined


def test_a_run_that_fails_or_is_stopped_ends_the_command_with_exit_code_1(store: tuple[str, list[str]], tmp_path: Path) -> None:
    db, _ = store
    file = tmp_path / "desk.py"
    file.write_text("def decide(question):\n    raise ValueError('no market data')\n", encoding="utf-8")
    with memtape.open(db) as memory:
        memory.configure_agent("gold", {"runner": f"callable:{file}:decide"})

    def run() -> subprocess.CompletedProcess[str]:
        words = [*Program().argv, "run", "--agent", "gold", "--db", db]
        return subprocess.run(words, env=Program().environment(), capture_output=True, text=True, timeout=60)

    failed = run()
    assert failed.returncode == 1 and "no market data" in failed.stdout
    with memtape.open(db) as memory:
        memory.configure_agent("gold", {"budget_usd_per_day": 0})
    stopped = run()
    assert stopped.returncode == 1 and "budget_usd_per_day" in stopped.stdout
