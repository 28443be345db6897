"""What runs are given by the surfaces: the configured runner, and the agent's tools, called as a model and bound to the agent."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from memtape.errors import Invalid, MemtapeError
from memtape.runners.conduct import RunHost
from memtape.runners.protocol import McpCommand, Runner, RunTool, ToolOutput
from memtape.surfaces.caller import Caller
from memtape.surfaces.model_answers import answer_for_model
from memtape.surfaces.registry import Operation, all_operations, tools_for_agent
from memtape.surfaces.tool_schema import tool_schema
from memtape.surfaces.translate import json_text

if TYPE_CHECKING:
    from memtape.core.decisions.agent_config import AgentConfig
    from memtape.engine import Memory


def run_host(memory: Memory, runner_of: Callable[[AgentConfig], Runner] | None = None) -> RunHost:
    """The host of this memory's runs; `runner_of` takes the place of the configured runners, in tests and in Python."""
    return RunHost(runner_of or configured_runner, partial(run_tools, memory), partial(mcp_command, memory))


def checked_runner_name(name: str, model: str | None, *, current: str | None = None, over_network: bool = False) -> str:
    """The name of a runner as it is stored: a relative path to a file made absolute.

    Raises Invalid if it names no runner, or one that needs a model without having one. A Python function runs inside memtape with
    all rights of its user, so over the network (HTTP, the pages) only the function that is `current` may stay.
    """
    from memtape.compose import runner

    kind, _, target = name.partition(":")
    path, _, function = target.rpartition(":")
    if kind == "callable" and path.endswith(".py"):
        file = Path(path).expanduser().absolute()
        if not file.is_file():
            raise Invalid("runner", f"there is no file {file}", "Write callable:/path/file.py:FUNCTION")
        name = f"callable:{file}:{function}"
    if kind == "callable" and over_network and name != current:
        fix = "Set it on the machine itself: memtape agents configure NAME --runner callable:..."
        raise Invalid("runner", "a Python function cannot be set over HTTP or on a page, because it runs inside memtape", fix)
    runner(name, model)
    return name


def configured_runner(config: AgentConfig) -> Runner:
    """The runner that an agent's configuration names; raises Invalid if it names none."""
    if config.runner is None:
        raise Invalid("runner", "is not configured for this agent", "Set it with configure_agent: callable:..., llm or claude")
    from memtape.compose import runner

    return runner(config.runner, config.model)


def run_tools(memory: Memory, agent: str) -> Sequence[RunTool]:
    """The tools of a run: the set `trader`, called as a model that is bound to the agent."""
    caller = Caller("model", agent, bound=True)
    review = memory.agent_config(agent).config.review_decisions
    served = tools_for_agent(all_operations(), "trader", caller, review=review)
    return [
        RunTool(name, known.doc, tool_schema(known, "trader", bound=True), partial(_call, memory, known, caller))
        for name, known in served.items()
    ]


def _call(memory: Memory, known: Operation, caller: Caller, data: Mapping[str, Any]) -> ToolOutput:
    try:
        return ToolOutput(json_text(answer_for_model(memory, known, dict(data), caller)))
    except MemtapeError as error:
        return ToolOutput(str(error), is_error=True)


def mcp_command(memory: Memory, agent: str) -> McpCommand | None:
    """The command that serves the agent's tools by MCP; None for a store that only this process has."""
    if memory.url == ":memory:":
        return None
    from memtape.compose import settings_in_force

    where, environment = memory.database.address, settings_in_force()
    arguments = ["-m", "memtape.surfaces.cli.main", "mcp", "--agent", agent, "--tools", "trader", "--owner", memory.owner]
    if where.startswith("sqlite"):
        return McpCommand(sys.executable, (*arguments, "--db", where), environment)
    # The address of a server may have a password in it.
    return McpCommand(sys.executable, tuple(arguments), environment | {"MEMTAPE_DB": where})
