"""`memtape serve`, `memtape mcp` and `memtape demo`."""

from __future__ import annotations

from contextlib import AbstractContextManager
from datetime import datetime
from typing import TYPE_CHECKING, Annotated

import typer

from memtape.surfaces.cli.demo_store import demo_greeting, fill_demo_documents, fill_demo_store, program_here
from memtape.surfaces.cli.documents import sync_minutes
from memtape.surfaces.cli.options import Db, Owner, open_store, say
from memtape.surfaces.cli.printing import reporting

if TYPE_CHECKING:
    from memtape.engine import Memory

PORT = 8765
DEMO_STEPS = (
    "trades --agent tech-breakout", "brief --agent tech-breakout", "check MSFT long --agent tech-breakout",
    "ask losses --agent tech-breakout", "serve --demo",
)  # fmt: skip


def serve(
    db: Db = None, owner: Owner = None,
    host: Annotated[str, typer.Option(help="A loopback address.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="0 takes a free port.", min=0, max=65535)] = PORT,
    agent: Annotated[str | None, typer.Option(help="The agent of /mcp, and of /v1 where a call names none.")] = None,
    tools: Annotated[str, typer.Option(help="Tool set of /mcp: trader, coach or full.")] = "trader",
    any_agent: Annotated[bool, typer.Option("--any-agent", help="Let a model on /mcp reach every agent.")] = False,
    reports: Annotated[str | None, typer.Option(help="'operator': let a model on /mcp report fills, bars, equity.")] = None,
    demo: Annotated[bool, typer.Option("--demo", help="Serve simulated agents on real prices, from a separate store.")] = False,
) -> None:  # fmt: skip
    """Serve the pages, HTTP (/v1) and MCP (/mcp) on loopback."""
    with reporting():
        from functools import partial

        from memtape.engine.proof.projection_health import StoreHealth
        from memtape.surfaces.http import build_app, listen, run_http
        from memtape.surfaces.registry import reports_as_operator, tool_set
        from memtape.surfaces.web import add_pages
        from memtape.workers.decision_bars import fetching_decision_bars
        from memtape.workers.documents import syncing_documents
        from memtape.workers.run_schedule import running_agents
        from memtape.workers.schedule import running_schedule
        from memtape.workers.verification import verifying_store

        minutes = sync_minutes()
        # The port comes first: if it is busy, nobody waits for the demo in vain.
        listener = listen(host, port)
        where = fill_demo_store(db, owner) if demo else db
        with open_store(where, owner) as memory:
            if demo:
                fill_demo_documents(memory, str(where))
            at = f"http://{host}:{listener.getsockname()[1]}"
            say(_greeting(at, memory.url, agent, demo))

            def rows() -> int:
                return sum(memory.agent(each.id).head().seq for each in memory.agents())

            health = StoreHealth(memory)
            application = build_app(
                memory, web=partial(add_pages, memory=memory, health=health), agent=agent, tools=tool_set(tools),
                any_agent=any_agent, reports=reports_as_operator(reports), ready=memory.agents,
                log_rows=rows,
            )  # fmt: skip
            runs = running_agents(memory, partial(_scheduled_run, memory))
            bars = fetching_decision_bars(memory)
            with running_schedule(memory), syncing_documents(memory, minutes), bars, runs, verifying_store(health):
                run_http(application, listener)


def demo(
    db: Annotated[str | None, typer.Option("--db", metavar="STORE", help="The demo (default: ~/.memtape/demo.db).")] = None,
    owner: Owner = None,
) -> None:
    """Fill a demo store with simulated trades on real prices, and say what to try. A store that is filled stays as it is."""
    with reporting():
        where = fill_demo_store(db, owner)
        with open_store(where, owner) as memory:
            fill_demo_documents(memory, where)
            agents = ", ".join(agent.id for agent in memory.agents())
        typer.echo(f"The demo is in {where} (agents: {agents}). Try:")
        for words in DEMO_STEPS:
            typer.echo(f"  {program_here()} {words} --db {where}")


def _scheduled_run(memory: Memory, agent: str, slot: datetime) -> None:
    """Run an agent for a moment of its schedule."""
    from memtape.runners.conduct import RunTask, conduct_run
    from memtape.surfaces.run_host import run_host

    prompt = memory.agent_config(agent).config.default_prompt
    conduct_run(memory, run_host(memory), agent, RunTask(kind="scheduled", prompt=prompt, slot=slot), wait_seconds=0)


def _greeting(at: str, url: str, agent: str | None, demo: bool) -> str:
    lines = [
        f"memtape serves {at}",
        f"  data   {url}",
        f"  pages  {at}/",
        f"  HTTP   {at}/v1 (explained at /docs)",
        f"  MCP    {at}/mcp" + (f" (agent {agent})" if agent else "?agent=NAME"),
    ]
    if demo:
        lines += demo_greeting(at, url.removeprefix("sqlite:///"))
    return "\n".join(lines)


def mcp(
    db: Db = None, owner: Owner = None,
    agent: Annotated[str | None, typer.Option(help="The agent of the tools: no other can be reached. Default: main.")] = None,
    tools: Annotated[str, typer.Option("--tools", "--profile", help="One of trader, coach, full.")] = "trader",
    any_agent: Annotated[bool, typer.Option("--any-agent", help="Let the model reach every agent.")] = False,
    reports: Annotated[str | None, typer.Option(help="'operator': let the model report fills, bars, equity.")] = None,
) -> None:  # fmt: skip
    """Serve MCP on standard input and output, for Claude Code, Cursor and others."""
    with reporting():
        from memtape.surfaces.mcp import run_stdio
        from memtape.surfaces.registry import reports_as_operator, tool_set

        minutes = sync_minutes()

        def background(memory: Memory) -> AbstractContextManager[None]:
            from memtape.workers.documents import syncing_documents

            return syncing_documents(memory, minutes, ends_seconds=0.2)  # closing the pipe does not wait for a sync

        run_stdio(
            lambda: open_store(db, owner), tools=tool_set(tools), agent=agent, any_agent=any_agent,
            reports=reports_as_operator(reports), background=background,
        )  # fmt: skip
