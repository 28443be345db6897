"""One operation, asked four ways: in Python, over HTTP, over MCP by stdio and on the command line.

Each way is the real one: a server process with a socket, a process that speaks MCP with the SDK's own client, a command
with its exit code. Each function returns the JSON data that came out, so a test can say that they are all the same.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import anyio
import httpx
from typer.testing import CliRunner

STARTED_WITHIN_SECONDS = 60.0
# One client for all requests: making a client reads all certificates, which takes longer than most answers.
HTTP = httpx.Client(timeout=30)
MEMTAPE = (sys.executable, "-c", "from memtape.surfaces.cli.main import main; main()")


@dataclass(frozen=True)
class Asked:
    """What came back: the data, or the refusal."""

    data: dict[str, Any] | None
    error: str | None = None  # the message, as this surface gives it
    code: int = 0  # the HTTP status or the exit code


@dataclass(frozen=True)
class Program:
    """A command line with `serve --db D --port P`, `mcp --db D` and `op NAME` for each operation."""

    argv: Sequence[str] = MEMTAPE
    db_option: Sequence[str] = ("--db",)  # what stands before the store for serve and mcp
    mcp_options: Sequence[str] = ("--tools", "full", "--any-agent", "--reports", "operator")

    def environment(self) -> dict[str, str]:
        return {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}

    @contextmanager
    def serving(self, db: str, stop: signal.Signals = signal.SIGTERM, options: Sequence[str] = ()) -> Iterator[str]:
        """The address of a real server on that store; it must end well when it is told to stop."""
        port = _free_port()
        argv = [*self.argv, "serve", *self.db_option, db, "--port", str(port), *options]
        process = subprocess.Popen(argv, env=self.environment())
        try:
            _wait_until_alive(process, port)
            yield f"http://127.0.0.1:{port}"
        finally:
            process.send_signal(stop)
            code = process.wait(timeout=20)
        assert code == 0, f"the server ended with exit code {code}"


def through_python(memory: Any, name: str, data: Mapping[str, Any], operations: Any = None) -> dict[str, Any]:
    from memtape.surfaces.registry import execute

    return execute(memory, name, dict(data), operations=operations)


def through_http(address: str, name: str, data: Mapping[str, Any], *, by_query: bool = False) -> Asked:
    """POST with a JSON body; or GET, with what is not plain spelt as JSON."""
    if by_query:
        spelt = {key: value if isinstance(value, str) else json.dumps(value) for key, value in data.items()}
        answer = HTTP.get(f"{address}/v1/{name}", params=spelt)
    else:
        answer = HTTP.post(f"{address}/v1/{name}", json=dict(data))
    body = answer.json()
    if answer.is_success:
        return Asked(body, code=answer.status_code)
    return Asked(None, body["detail"], answer.status_code)


def through_mcp(program: Program, db: str, calls: Sequence[tuple[str, Mapping[str, Any]]], *, era: str = "auto") -> list[Asked]:
    """All calls in one session with one process.

    `era` is "legacy" for the 2025 handshake, "auto" for what the client would choose (2026-07-28).
    """
    from mcp import Client, StdioServerParameters

    server = StdioServerParameters(
        command=program.argv[0],
        args=[*program.argv[1:], "mcp", *program.db_option, db, *program.mcp_options],
        env=program.environment(),
    )

    async def ask() -> list[Asked]:
        found: list[Asked] = []
        async with Client(server, mode=era) as client:
            await client.list_tools()  # then the client checks the result against the output schema itself
            for name, data in calls:
                result = await client.call_tool(name, dict(data))
                text = "".join(getattr(block, "text", "") for block in result.content)
                if result.is_error:
                    found.append(Asked(None, text))
                else:
                    assert json.loads(text) == result.structured_content
                    found.append(Asked(result.structured_content))
        return found

    return anyio.run(ask)


def through_cli(program: Program, db: str, name: str, data: Mapping[str, Any]) -> Asked:
    argv = [*program.argv, *_command(db, name, data)]
    done = subprocess.run(argv, env=program.environment(), capture_output=True, text=True, timeout=60)
    return _printed(done.returncode, done.stdout, done.stderr)


def through_command(db: str, name: str, data: Mapping[str, Any]) -> Asked:
    """As `through_cli`, in this process: what starts one takes longer than most operations."""
    from memtape.surfaces.cli.main import app

    done = CliRunner().invoke(app, _command(db, name, data))
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return _printed(done.exit_code, done.stdout, done.stderr)


def _command(db: str, name: str, data: Mapping[str, Any]) -> list[str]:
    argv = ["op", name, "--db", db, "--json"]
    for key, value in data.items():
        option = key.replace("_", "-")
        if isinstance(value, bool):
            argv.append(f"--{option}" if value else f"--no-{option}")
        else:
            argv += [f"--{option}", value if isinstance(value, str) else json.dumps(value)]
    return argv


def _printed(code: int, out: str, err: str) -> Asked:
    if code == 0:
        return Asked(json.loads(out))
    assert out == "", out
    return Asked(None, json.loads(err)["detail"], code)


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def _wait_until_alive(process: subprocess.Popen[bytes], port: int) -> None:
    until = time.monotonic() + STARTED_WITHIN_SECONDS
    while time.monotonic() < until:
        assert process.poll() is None, f"the server ended with exit code {process.returncode}"
        try:
            if HTTP.get(f"http://127.0.0.1:{port}/healthz", timeout=2).is_success:
                return
        except httpx.TransportError:
            time.sleep(0.05)
    raise AssertionError("the server did not start")
