"""How soon memtape is there: `memtape --help`, and `memtape mcp` up to its list of tools."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from threading import Timer
from typing import Any

from memtape.lab.benches.desk import Bench, desk
from memtape.lab.benches.timing import Result, Work, children_cpu, in_turn, judged, wall

MEMTAPE = (sys.executable, "-m", "memtape.surfaces.cli.main")
HEAVY = frozenset({"numpy", "mcp", "fastapi", "apsw", "anthropic", "openai"})  # nothing that help may import
GIVE_UP_SECONDS = 60.0
ONE_TOOL = '''
from mcp.server import MCPServer

server = MCPServer("one")


@server.tool()
def add(a: int, b: int) -> int:
    """The sum."""
    return a + b


server.run("stdio")
'''
HELLO: dict[str, Any] = {
    "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "bench", "version": "1"},
}  # fmt: skip
GREETING: tuple[dict[str, Any], ...] = (
    {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": HELLO},
    {"jsonrpc": "2.0", "method": "notifications/initialized"},
    {"jsonrpc": "2.0", "id": 2, "method": "tools/list", "params": {}},
)


def run(*command: str) -> str:
    """A command to its end; what it wrote to stderr."""
    done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, check=True)
    return done.stderr


def measure_help(bench: Bench) -> dict[str, Result]:
    """`help`."""
    typer, ours = partial(run, sys.executable, "-c", "import typer"), partial(run, *MEMTAPE, "--help")
    cpus, walls = in_turn([(typer, ours)] * bench.scale.starts, children_cpu, wall)
    heavy = sorted(HEAVY & imported(run(sys.executable, "-X", "importtime", *MEMTAPE[1:], "--help")))
    found = judged(
        "CPU of `memtape --help` against `python -c 'import typer'`; it must import nothing heavy.", bench.scale.starts, cpus,
        5.0, wall_ratio=round(walls.ratio, 3), heavy=heavy,
    )  # fmt: skip
    return {"help": found | {"ok": found["ok"] and not heavy}}


def imported(importtime: str) -> set[str]:
    """The packages in what `-X importtime` writes.

    >>> sorted(imported("import time: self [us] | cumulative | imported package\\nimport time:  1 |  2 |   json.decoder"))
    ['imported package', 'json']
    """
    return {line.rpartition("|")[2].strip().split(".")[0] for line in importtime.splitlines() if "|" in line}


def measure_mcp(bench: Bench) -> dict[str, Result]:
    """`mcp_ready`."""
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

    (sides,) = in_turn(rounds(), wall)
    found = judged("From starting `memtape mcp` to its list of tools, against an MCPServer with one tool.", bench.scale.starts,
                   sides, 2.5, tools=ours.tools)  # fmt: skip
    return {"mcp_ready": found}


class Server:
    """An MCP server on standard input and output, spoken to line by line."""

    def __init__(self, *command: str) -> None:
        self.command = command
        self.tools = 0
        self._process: subprocess.Popen[str] | None = None

    def answer(self) -> None:
        """Start it and ask for its tools."""
        self._process = process = subprocess.Popen(
            self.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        assert process.stdin is not None and process.stdout is not None
        impatience = Timer(GIVE_UP_SECONDS, process.kill)
        impatience.start()
        try:
            process.stdin.writelines(json.dumps(message) + "\n" for message in GREETING)
            process.stdin.flush()
            answers = (json.loads(line) for line in process.stdout)
            self.tools = next(len(told["result"]["tools"]) for told in answers if told.get("id") == 2)
        finally:
            impatience.cancel()

    def stop(self) -> None:
        """Close its input and let it end."""
        if self._process is not None:
            self._process.communicate(timeout=GIVE_UP_SECONDS)
