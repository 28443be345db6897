"""What every runner is asked and answers. A runner asks its model and nothing else: it opens no store and writes nothing.

A runner keeps its own session (the Claude Code command line), or is given the transcript of the session from the log (`llm`).
Everything that goes wrong between the question and an answer is one `RunFailed`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Protocol

from memtape.core.decisions.runs import NO_USAGE, AgentRun, RunStep, RunUsage

RUN_TIMEOUT_SECONDS = 600.0
MAX_TOOL_ROUNDS = 24  # how often a model may call tools, one or several at a time, before it must answer
RESET_ADVICE = "Reset the agent's memory (reset_memory), or turn Active Memory off"  # where a session has become too long


@dataclass(frozen=True, slots=True)
class ToolOutput:
    """What a tool returned to the model; a refused call is text too, so that the model can correct it."""

    text: str
    is_error: bool = False


@dataclass(frozen=True, slots=True)
class RunTool:
    """A tool that the model may call during a run."""

    name: str
    description: str
    input_schema: Mapping[str, Any]  # a JSON schema
    call: Callable[[Mapping[str, Any]], ToolOutput]


@dataclass(frozen=True, slots=True)
class McpCommand:
    """The command that serves the agent's tools by MCP, for a runner that starts its own tools."""

    command: str  # an absolute path
    arguments: tuple[str, ...]
    # What must not stand in a list of processes, like a password, and what it needs besides PATH and HOME.
    environment: Mapping[str, str] = field(default_factory=dict, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunQuestion:
    """One question to a runner."""

    agent: str
    system: str
    prompt: str  # the run's own prompt stands last in it
    stable_chars: int = 0  # the beginning of the prompt that seldom changes from run to run, so that a provider may cache it
    model: str | None = None
    session: str | None = None  # the session to continue; None: a new one
    keep_session: bool = False  # False: the runner stores nothing of this run
    transcript: Sequence[AgentRun] = ()  # the runs of the session, oldest first, for a runner that keeps none itself
    tools: Sequence[RunTool] = ()
    mcp: McpCommand | None = None  # the same tools, served by MCP
    schema: Mapping[str, Any] | None = None  # the JSON schema of the answer; None: any text
    budget_usd: Decimal | None = None  # what may still be spent today
    session_cost_usd: Decimal | None = None  # what the session had cost before, as the runner reported it
    timeout_seconds: float = RUN_TIMEOUT_SECONDS
    max_tool_rounds: int = MAX_TOOL_ROUNDS
    # Asked before each step, and between the pieces of a streamed answer: True if nobody waits for the answer any more.
    is_stopped: Callable[[], bool] = lambda: False
    # Called with each piece of what the model says as it arrives, from the thread of the run: of the answer, and of what it says
    # before it calls tools, with an empty line after that. None: nothing is streamed. Only the runner `llm` streams.
    on_text: Callable[[str], None] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunnerAnswer:
    """What a runner answered."""

    text: str
    data: Mapping[str, Any] | None = None  # the answer in the form of the schema; None: it gave none
    session: str | None = None  # the session after the run
    steps: tuple[RunStep, ...] = ()
    usage: RunUsage = NO_USAGE
    note: str | None = field(default=None)  # what the owner should know: the session was lost and a new one began, ...


class Runner(Protocol):
    """Executes an agent once."""

    @property
    def name(self) -> str:
        """callable, llm or claude."""

    def run(self, question: RunQuestion) -> RunnerAnswer:
        """Ask the model and return its answer. Raises RunFailed without one."""
