"""Several processes that write one file at once: each gets its turn, and none is told that the store is locked."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

import memtape
from tests.effort import SOAK

WRITER = """
import json, sys, time
import memtape

db, name, seconds = sys.argv[1], sys.argv[2], float(sys.argv[3])
with memtape.open(db) as memory:
    agent, written = memory.agent("desk"), 0
    print("ready", flush=True)
    sys.stdin.readline()
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        day, minute = divmod(written, 1440)
        at = f"2026-06-{1 + day:02d}T{minute // 60:02d}:{minute % 60:02d}:00Z"
        agent.observe({"id": f"{name}-{written}", "t": at, "equity": "1000"}, kind="equity")
        written += 1
print(json.dumps(written))
"""


@pytest.mark.soak
@pytest.mark.parametrize("seconds", [60.0 if SOAK else 4.0])
def test_four_writers_wait_in_turn_and_none_starves(tmp_path: Path, seconds: float) -> None:
    db = str(tmp_path / "desk.db")
    with memtape.open(db) as memory:
        memory.create_skill("plain")
        memory.create_agent("desk", skill="plain")
    running = [
        subprocess.Popen([sys.executable, "-c", WRITER, db, name, str(seconds)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                         stderr=subprocess.PIPE, text=True)
        for name in "abcd"
    ]
    # They start together: on a busy machine one would else write alone while another still imports.
    for process in running:
        assert process.stdout and process.stdout.readline() == "ready\n"
    for process in running:
        assert process.stdin
        process.stdin.write("\n")
        process.stdin.flush()
    answers = [process.communicate(timeout=300) for process in running]
    assert [process.returncode for process in running] == [0, 0, 0, 0], [errors[-300:] for _, errors in answers]
    written = [json.loads(answer) for answer, _ in answers]
    with memtape.open(db) as memory:
        assert memory.agent("desk").head().seq == sum(written)
    assert min(written) > 0.2 * max(written), written
