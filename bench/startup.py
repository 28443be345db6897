"""The time memtape takes to start: `memtape --help`, commands on a small store, and `memtape mcp` until it lists its tools.

Commands are compared with `python -c "import numpy"`. Both run from compiled bytecode, as an installed package does.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from functools import partial
from threading import Timer
from typing import Any

from bench.desk import AGENT, BenchRun, desk
from bench.timing import Result, Work, children_cpu, judge, time_in_turn, wall

MEMTAPE = (sys.executable, "-m", "memtape.surfaces.cli.main")
HEAVY_PACKAGES = frozenset({"numpy", "mcp", "fastapi", "apsw", "anthropic", "openai"})  # `--help` must not import them
TIMEOUT_SECONDS = 60.0
ONE_TOOL = '''
from mcp.server import MCPServer

server = MCPServer("one")


@server.tool()
def add(a: int, b: int) -> int:
    """The sum."""
    return a + b


server.run("stdio")
'''
CLIENT: dict[str, Any] = {
    "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "bench", "version": "1"},
}  # fmt: skip
HANDSHAKE: tuple[dict[str, Any], ...] = (
    {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": CLIENT},
    {"jsonrpc": "2.0", "method": "notifications/initialized"},
    {"jsonrpc": "2.0", "id": 2, "method": "tools/list", "params": {}},
)


# Commands that need no recall, and those that do; each with how much it may take of an import of numpy.
PLAIN_COMMANDS = (("agents",), ("trades", "--agent", AGENT), ("decisions", "--agent", AGENT))
RECALLING_COMMANDS = (("recall", "--agent", AGENT), ("brief", "--agent", AGENT), ("check", "BTC", "long", "--agent", AGENT))
PLAIN_BAR, RECALLING_BAR = 2.5, 3.5


def run(*command: str, environment: dict[str, str] | None = None) -> str:
    """Run a command to its end and return what it wrote to stderr."""
    done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, check=True, env=environment)
    return done.stderr


def measure_starts(bench: BenchRun) -> dict[str, Result]:
    """Measure `start` and `start_recall`: the slowest command of each kind."""
    path = str(bench.folder / "start.db")
    fill_desk(path)
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    environment["PYTHONPYCACHEPREFIX"] = str(bench.folder / "bytecode")
    plain = "that needs no recall; it must not import numpy"
    return {
        "start": _slowest_start(bench, PLAIN_COMMANDS, PLAIN_BAR, path, environment, plain),
        "start_recall": _slowest_start(bench, RECALLING_COMMANDS, RECALLING_BAR, path, environment, "that recalls"),
    }


def _slowest_start(
    bench: BenchRun, commands: Sequence[tuple[str, ...]], bar: float, path: str, environment: dict[str, str], which: str
) -> Result:
    found: list[Result] = []
    numpy = partial(run, sys.executable, "-c", "import numpy", environment=environment)
    for words in commands:
        ours = partial(run, *MEMTAPE, *words, "--db", path, environment=environment)
        traced = run(sys.executable, "-X", "importtime", *MEMTAPE[1:], *words, "--db", path, environment=environment)
        numpy()
        (cpus,) = time_in_turn([(numpy, ours)] * bench.scale.starts, children_cpu)
        imports_numpy = "numpy" in imported_packages(traced)
        result = judge(f"CPU of a command {which}, compared with `python -c 'import numpy'`.", bench.scale.starts, cpus, bar,
                       command=" ".join(words), imports_numpy=imports_numpy)  # fmt: skip
        found.append(result | {"ok": result["ok"] and (bar == RECALLING_BAR or not imports_numpy)})
    slowest = max(found, key=lambda result: (not result["ok"], result["ratio"]))
    return slowest | {"others": {result["command"]: result["ratio"] for result in found}}


def fill_desk(path: str) -> None:
    """A store whose agent has a few trades."""
    with desk(path) as (_, agent):
        for n in range(20):
            day = f"2025-01-{n + 1:02d}"
            agent.remember_trade({
                "symbol": "BTC", "side": "long", "entry_price": "100", "exit_price": str(96 + n % 8), "stop": "98", "qty": "1",
                "entry_at": f"{day}T08:00:00Z", "exit_at": f"{day}T12:00:00Z",
            })  # fmt: skip


def measure_help(bench: BenchRun) -> dict[str, Result]:
    """Measure `help`."""
    typer, ours = partial(run, sys.executable, "-c", "import typer"), partial(run, *MEMTAPE, "--help")
    cpus, walls = time_in_turn([(typer, ours)] * bench.scale.starts, children_cpu, wall)
    heavy = sorted(HEAVY_PACKAGES & imported_packages(run(sys.executable, "-X", "importtime", *MEMTAPE[1:], "--help")))
    result = judge(
        "CPU of `memtape --help`, compared with `python -c 'import typer'`; it must import no heavy package.",
        bench.scale.starts, cpus, 5.0, wall_ratio=round(walls.ratio, 3), heavy=heavy,
    )  # fmt: skip
    return {"help": result | {"ok": result["ok"] and not heavy}}


def imported_packages(importtime: str) -> set[str]:
    """Returns the packages named in the output of `-X importtime`.

    >>> sorted(imported_packages("import time: self | cumulative | imported package\\nimport time:  1 |  2 |   json.decoder"))
    ['imported package', 'json']
    """
    return {line.rpartition("|")[2].strip().split(".")[0] for line in importtime.splitlines() if "|" in line}


def measure_mcp(bench: BenchRun) -> dict[str, Result]:
    """Measure `mcp_ready`."""
    script, path = bench.folder / "one_tool.py", bench.folder / "mcp.db"
    script.write_text(ONE_TOOL, encoding="utf-8")
    with desk(path):
        pass
    one, ours = Server(sys.executable, str(script)), Server(*MEMTAPE, "mcp", "--db", str(path))

    def rounds() -> Iterator[tuple[Work, Work]]:
        for _ in range(bench.scale.starts):
            yield one.answer, ours.answer
            one.stop()
            ours.stop()

    (sides,) = time_in_turn(rounds(), wall)
    result = judge("From the start of `memtape mcp` to its list of tools, compared with an MCPServer with one tool.",
                   bench.scale.starts, sides, 2.5, tools=ours.tools)  # fmt: skip
    return {"mcp_ready": result}


class Server:
    """An MCP server on standard input and output, one JSON message per line."""

    def __init__(self, *command: str) -> None:
        self.command = command
        self.tools = 0
        self._process: subprocess.Popen[str] | None = None

    def answer(self) -> None:
        """Start the server and list its tools."""
        self._process = process = subprocess.Popen(
            self.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        assert process.stdin is not None and process.stdout is not None
        timeout = Timer(TIMEOUT_SECONDS, process.kill)
        timeout.start()
        try:
            process.stdin.writelines(json.dumps(message) + "\n" for message in HANDSHAKE)
            process.stdin.flush()
            answers = (json.loads(line) for line in process.stdout)
            self.tools = next(len(answer["result"]["tools"]) for answer in answers if answer.get("id") == 2)
        finally:
            timeout.cancel()

    def stop(self) -> None:
        """Close the server's input and wait for its end."""
        if self._process is not None:
            self._process.communicate(timeout=TIMEOUT_SECONDS)
