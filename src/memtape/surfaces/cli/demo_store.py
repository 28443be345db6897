"""The store of the demo: filled once, with words about how far it is, and what to try with it."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING

from memtape.surfaces.cli.options import open_store, progress, say

if TYPE_CHECKING:
    from memtape.engine import Memory

LINE_SECONDS = 5.0  # between two lines about the progress, where there is no terminal


def fill_demo_store(db: str | None, owner: str | None) -> str:
    """Fill the store of the demo, if it is not there. It is filled before it gets its name, so an interrupted run starts over."""
    from memtape.sim.demo import DEMO_AGENTS, fill_demo

    target = Path(db or Path.home() / ".memtape" / "demo.db").expanduser().absolute()
    if target.exists():
        return str(target)
    say(f"Filling the demo store {target}:")
    say(f"{len(DEMO_AGENTS)} simulated agents on five years of daily prices, in under a minute.")
    part = target.with_name(target.name + ".part")
    for leftover in target.parent.glob(part.name + "*"):
        leftover.unlink()
    with progress("demo") as report, open_store(str(part), owner) as memory:
        fill_demo(memory, demo_progress(report, [agent.name for agent in DEMO_AGENTS]))
    part.rename(target)
    return str(target)


def demo_progress(report: Callable[[int, int], None], agents: list[str]) -> Callable[[str, int, int], None]:
    """Report the ticks of one agent after the other as parts of one whole: a bar on a terminal, else a line now and then."""
    said_at = monotonic()

    def ticks(agent: str, done: int, total: int) -> None:
        nonlocal said_at
        before = agents.index(agent)
        report(before * total + done, len(agents) * total)
        if not sys.stderr.isatty() and (done == total or monotonic() - said_at >= LINE_SECONDS):
            said_at = monotonic()
            say(f"  {agent} ({before + 1} of {len(agents)}): {100 * done // total} %")

    return ticks


def fill_demo_documents(memory: Memory, where: str) -> None:
    """Give the demo a workspace. The store must have its name: the index is named after it."""
    from memtape.sim.demo_documents import fill_documents

    fill_documents(memory, Path(where).with_suffix(".workspace") / "tech-breakout")


def program_here() -> str:
    """Return how this program is called from here: by its path if it lies below the current folder, as in a checkout."""
    here = Path(sys.argv[0]).absolute()
    return str(here.relative_to(Path.cwd())) if here.name == "memtape" and here.is_relative_to(Path.cwd()) else "memtape"


def demo_greeting(at: str, store: str) -> list[str]:
    """Return what to try with the demo. The MCP line is the one of `memtape connect`."""
    from memtape.sim.demo import DEMO_AGENTS
    from memtape.surfaces.mcp_clients import claude_command_line, server_command

    agent, program = DEMO_AGENTS[0].name, program_here()
    return [
        "Next:",
        f"  1. open {at}/ and look at an agent's trades",
        f"  2. {program} trades --agent {agent} --db {store}",
        "  3. connect Claude Code:",
        f"     {claude_command_line(server_command(store, agent))}",
        "     or another program:",
        f"     {program} connect cursor --agent {agent} --db {store}",
    ]
