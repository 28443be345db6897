"""The four doors, each as a function that makes calls and returns what went wrong: anything but an answer or memtape's own error."""

from __future__ import annotations

import json
import traceback
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import anyio
from mcp import Client
from mcp.shared.exceptions import MCPError
from starlette.testclient import TestClient
from typer.testing import CliRunner

import memtape
from memtape.engine import Memory
from memtape.errors import MemtapeError
from memtape.lab.attack.doors import BUG_TEXT, DEFECTS
from memtape.plugs.clock import FixedClock
from memtape.surfaces.caller import Caller
from memtape.surfaces.cli.main import app
from memtape.surfaces.http import build_app
from memtape.surfaces.mcp import build_server
from memtape.surfaces.model_answers import answer_for_model
from memtape.surfaces.registry import execute, find
from tests.fuzz.calls import AGENT, FuzzedCall

EXIT_CODES = range(5)
DEEP_TEXT = 200 * "["  # the client itself refuses to write more levels


def fuzzed_store(folder: Path) -> Memory:
    """A store with one agent, open."""
    memory = memtape.open(str(folder / "fuzz.db"), clock=FixedClock(datetime(2026, 6, 1, 9, tzinfo=UTC)))
    memory.create_skill("breakout")
    memory.create_agent(AGENT, skill="breakout", mode="live")
    return memory


def by_python(memory: Memory, calls: Iterable[FuzzedCall]) -> list[str]:
    """Calls operations as Python does."""
    run = partial(execute, memory, agent=AGENT)
    return [found for call in calls if (found := _foreign(str(call), partial(run, call.operation, call.data)))]


def by_methods(memory: Memory, calls: Iterable[tuple[str, Callable[[Memory], object]]]) -> list[str]:
    """Calls methods of the Python surface."""
    return [found for said, call in calls if (found := _foreign(said, partial(call, memory)))]


def _foreign(said: str, call: Callable[[], object]) -> str | None:
    try:
        call()
    except MemtapeError as error:
        return None if str(error).strip() else f"{said}: an error without words"
    except DEFECTS:
        return f"{said}\n{traceback.format_exc(limit=-3)}"
    return None


def by_command_line(memory: Memory, calls: Iterable[FuzzedCall]) -> list[str]:
    """Calls `memtape op` in this process. What JSON cannot write, such as half a character, it writes as an escape."""
    found: list[str] = []
    for call in calls:
        done = CliRunner().invoke(app, ["op", call.operation, "--db", memory.url, "--json", "--input", json.dumps(call.data)])
        if done.exit_code not in EXIT_CODES or (done.exception is not None and not isinstance(done.exception, SystemExit)):
            trace = "".join(traceback.format_exception(done.exception, limit=-3)) if done.exception else done.output[-300:]
            found.append(f"{call}: exit code {done.exit_code}\n{trace}")
    return found


def by_http(memory: Memory, calls: Iterable[FuzzedCall]) -> list[str]:
    """Posts each call as its JSON."""
    found: list[str] = []
    with TestClient(build_app(memory), base_url="http://127.0.0.1", raise_server_exceptions=False) as client:
        for call in calls:
            body = json.dumps(call.data).encode()
            answer = client.post(f"/v1/{call.operation}", content=body, headers={"content-type": "application/json"})
            if answer.status_code >= 500 or BUG_TEXT in answer.text:
                found.append(f"{call}: {answer.status_code} {answer.text[:300]}")
    return found


def by_mcp(memory: Memory, calls: Iterable[FuzzedCall]) -> list[str]:
    """Calls tools with an MCP client that may report for the account; what the client cannot write goes past it to the server's own
    function.
    """
    found: list[str] = []
    model = Caller("model", AGENT, bound=True, reports=True)

    async def talk() -> None:
        async with Client(build_server(lambda: memory, tools="full", agent=AGENT, reports=True)) as client:
            for call in calls:
                if not _is_writable(call.data):
                    run = partial(answer_for_model, memory, find(call.operation), call.data, model)
                    found.extend(filter(None, [_foreign(str(call), run)]))
                    continue
                try:
                    answer = await client.call_tool(call.operation, call.data)
                except MCPError:
                    continue  # refused by the protocol
                text = "".join(getattr(block, "text", "") for block in answer.content)
                if BUG_TEXT in text or (answer.is_error and not text.strip()):
                    found.append(f"{call}: {text[:300]}")

    anyio.run(talk)
    return found


def _is_writable(data: object) -> bool:
    """True if a client can write the data as JSON in UTF-8."""
    try:
        json.dumps(data, ensure_ascii=False, allow_nan=False).encode()
    except ValueError:
        return False
    return DEEP_TEXT not in json.dumps(data)
