"""The real programs keep documents in step: `memtape serve` for all agents, `memtape docs watch` for one, and both end well."""

from __future__ import annotations

import itertools
import json
import os
import signal
import subprocess
import threading
import time
from pathlib import Path
from typing import Any

import httpx
import pytest
from typer.testing import CliRunner

import memtape
from memtape.errors import Invalid
from memtape.surfaces.cli.documents import sync_minutes
from memtape.surfaces.cli.main import app
from tests.documents.desk import write
from tests.surfaces.parity import Program

MEMTAPE = Program()


@pytest.fixture
def store(tmp_path: Path) -> str:
    """A store whose agent has a workspace, in which a virtual environment lies."""
    db = str(tmp_path / "desk.db")
    with memtape.open(db) as memory:
        memory.agent_for_writing("main").documents.add(
            write(tmp_path / "work", {"SOUL.md": "Never move a stop.", "env/pyvenv.cfg": "", "env/lib/README.md": "x"})
        )
    return db


def soon(happens) -> bool:
    deadline = time.monotonic() + 40
    while not (found := happens()) and time.monotonic() < deadline:
        time.sleep(0.2)
    return bool(found)


def test_a_served_agent_finds_a_note_that_was_written_a_moment_ago(store, tmp_path):
    def finds(words: str) -> bool:
        answer = httpx.post(f"{address}/v1/search_documents", json={"agent": "main", "query": words}, timeout=30)
        assert answer.status_code == 200, answer.text
        return bool(answer.json()["results"])

    with MEMTAPE.serving(store, stop=signal.SIGINT) as address:
        write(tmp_path / "work", {"journal/1.md": "Silver broke down."})
        assert soon(lambda: finds("silver"))
        (tmp_path / "work" / "journal" / "1.md").unlink()
        assert soon(lambda: not finds("silver"))


def test_docs_watch_tells_what_it_took_in_and_ends_with_ctrl_c(store, tmp_path):
    argv = [*MEMTAPE.argv, "docs", "watch", "--agent", "main", "--db", store, "--json"]
    process = subprocess.Popen(
        argv, env=MEMTAPE.environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # a shell that runs the tests in the background ignores it
    )  # fmt: skip
    lines: list[str] = []
    assert process.stdout is not None and process.stderr is not None
    reading = threading.Thread(target=lambda: lines.extend(iter(process.stdout.readline, "")))  # type: ignore[union-attr]
    reading.start()
    assert "Syncing the documents of main" in process.stderr.readline()
    for n in range(100):  # until one comes after the watcher has begun
        write(tmp_path / "work", {f"journal/{n}.md": f"note {n}"})
        if soon_enough := (bool(lines) or time.sleep(0.3)):
            break
    assert soon_enough
    process.send_signal(signal.SIGINT)
    assert (process.wait(timeout=60), process.stderr.read().strip()) == (0, "Stopped.")
    reading.join()
    process.stdout.close(), process.stderr.close()
    told = json.loads(lines[0])
    assert told["agent"] == "main" and told["added"] >= 1


def test_the_setting_of_the_timed_sync_is_checked(monkeypatch, store):
    monkeypatch.delenv("MEMTAPE_SYNC_MINUTES", raising=False)
    assert sync_minutes() == 5
    monkeypatch.setenv("MEMTAPE_SYNC_MINUTES", "0")
    assert sync_minutes() == 0
    for wrong in ("-1", "often", "nan", "inf"):
        monkeypatch.setenv("MEMTAPE_SYNC_MINUTES", wrong)
        with pytest.raises(Invalid, match="MEMTAPE_SYNC_MINUTES"):
            sync_minutes()
    refused = CliRunner().invoke(app, ["serve", "--db", store, "--port", "0"], env=dict(os.environ))
    assert refused.exit_code == 2 and "MEMTAPE_SYNC_MINUTES" in refused.output


def test_over_stdio_what_is_written_in_the_workspace_is_found_soon_after(tmp_path):
    """Nobody serves: the server of an MCP client keeps the index in step by itself."""
    desk = tmp_path / "desk"
    desk.mkdir()
    (desk / "SOUL.md").write_text("Patience.\n")
    with memtape.open(str(tmp_path / "a.db")) as memory:
        memory.agent_for_writing(None).documents.add(desk)
    argv = [*MEMTAPE.argv, "mcp", "--tools", "full", "--db", str(tmp_path / "a.db")]
    with subprocess.Popen(argv, env=MEMTAPE.environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        numbers = itertools.count(1)

        def call(method: str, **params: Any) -> Any:
            process.stdin.write(json.dumps({"jsonrpc": "2.0", "id": next(numbers), "method": method, "params": params}) + "\n")
            process.stdin.flush()
            return json.loads(process.stdout.readline())["result"]

        def found() -> Any:
            return call("tools/call", name="search_documents", arguments={"query": "zebra gapped"})["structuredContent"][
                "results"
            ]

        call("initialize", protocolVersion="2025-06-18", capabilities={}, clientInfo={"name": "x", "version": "1"})
        process.stdin.write('{"jsonrpc": "2.0", "method": "notifications/initialized"}\n')
        assert found() == []
        (desk / "journal").mkdir()
        (desk / "journal" / "x.md").write_text("# Note\n\nZebra gapped at the open.\n")
        assert soon(lambda: [hit["path"] for hit in found()] == ["journal/x.md"])
        process.stdin.close()
    assert process.returncode == 0
