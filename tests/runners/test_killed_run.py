"""A process that is killed in the middle of a run: the run is lost, nothing else is, and the next run goes on."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from datetime import timedelta
from pathlib import Path

import memtape
from memtape.engine.proof.audit import verify_store
from memtape.plugs.clock import FixedClock, SystemClock
from tests.runners.desk import BUY, ScriptedRunner

STARTED = 30.0  # seconds within which a process has begun its run
SLOW = """
import pathlib, time

def decide(question):
    if question.prompt.endswith("slowly"):
        pathlib.Path(__file__).with_name("asked").touch()
        time.sleep(120)
    return {"symbol": "BTC", "action": "wait", "thesis": "nothing to do"}
"""


def test_a_run_that_is_killed_is_lost_and_stores_no_session(tmp_path: Path) -> None:
    from memtape.runners.conduct import RunTask, conduct_run
    from memtape.surfaces.run_host import run_host

    db, file = tmp_path / "desk.db", tmp_path / "slow.py"
    file.write_text(SLOW, encoding="utf-8")
    with memtape.open(str(db)) as memory:
        memory.create_skill("breakout")
        memory.create_agent("gold", skill="breakout")
        memory.configure_agent("gold", {"runner": f"callable:{file}:decide", "active_memory": True})
        first = conduct_run(memory, run_host(memory), "gold", RunTask(kind="scheduled", prompt="Analyse."))
    command = [sys.executable, "-m", "memtape.surfaces.cli.main", "run", "--agent", "gold", "--prompt", "slowly", "--db", str(db)]
    process = subprocess.Popen(command, env=os.environ | {"PYTHONPATH": os.pathsep.join(p for p in sys.path if p)})
    until = time.monotonic() + STARTED
    while not (tmp_path / "asked").exists() and time.monotonic() < until:
        assert process.poll() is None
        time.sleep(0.05)
    process.send_signal(signal.SIGKILL)
    process.wait(10)

    with memtape.open(str(db)) as memory:
        assert memory.agent("gold").runs.newest()[0].result is None
        assert memory.agent("gold").runs.end_lost() is None, "its lease is not out yet"
    later = FixedClock(SystemClock().now() + timedelta(minutes=2))
    with memtape.open(str(db), clock=later) as memory:
        runner = ScriptedRunner(BUY)
        run = conduct_run(memory, run_host(memory, lambda config: runner), "gold", RunTask(kind="scheduled", prompt="Analyse."))
        newest, killed, earlier = memory.agent("gold").runs.newest()
        assert (newest.id, newest.result, killed.result, earlier.id) == (run.id, "ok", "lost", first.id)
        assert killed.start.prompt == "slowly" and killed.end.error == "its process ended without an answer"
        assert runner.questions[0].session == first.end.session_after
        assert len(memory.agent("gold").ledger.decisions()) == 2
        assert verify_store(memory).ok
