"""Runs: executions of an agent. A run is two items of the agent's stream, one when it begins and one when it ends.

The model is asked between the two, outside any transaction. A run that has begun and not ended is at work, or its process died:
then it ends as `lost`. A run has a session before it and one after it: the memory that the runner keeps from run to run.
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from pydantic import ConfigDict, Field

from memtape.core.ids import AgentId
from memtape.core.value_class import dataclass
from memtape.core.values import SLUG, STRICT, Key, Label, ModelName, Price, Time

RunKind = Literal["scheduled", "manual", "chat", "re-examination", "council"]
RunResult = Literal["ok", "failed", "lost", "stopped"]
MAX_RUN_TEXT = 200_000  # characters of a prompt, an answer or the output of one step
MAX_RUN_STEPS = 500
ANSWERED_BY = "answered by "  # in place of a runner: the owner, or a model over MCP
MAX_RUN_NOTE = 2_000  # characters of an error or a note
RunText = Annotated[str, Field(max_length=MAX_RUN_TEXT)]
Count = Annotated[int, Field(ge=0)]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunStep:
    """One step of a run: something that the model said, or a tool that it called with what came back.

    The steps of one answer of the model have the same `turn`, so that a transcript can be made of them again.
    """

    __pydantic_config__: ClassVar[ConfigDict] = STRICT
    at: Time  # when it began
    turn: Count
    kind: Literal["text", "tool"]
    text: RunText = ""  # what the model said, or what the tool returned
    tool: Label | None = None
    call_id: Key | None = None  # the provider's id of the tool call
    input: dict[str, Any] | None = None
    is_error: bool = False
    ms: Count = 0  # how long it took


@dataclass(frozen=True, slots=True, kw_only=True)
class RunUsage:
    """What a run cost. None: the provider or the price list does not say."""

    __pydantic_config__: ClassVar[ConfigDict] = STRICT
    input_tokens: Count | None = None
    output_tokens: Count | None = None
    cost_usd: Price | None = None
    session_cost_usd: Annotated[Price | None, Field(description="of the whole session so far, as the runner reports it")] = None

    def plus(self, other: RunUsage) -> RunUsage:
        """The usage of two attempts together; the session's cost is that of the later one."""
        return RunUsage(
            input_tokens=_sum(self.input_tokens, other.input_tokens), output_tokens=_sum(self.output_tokens, other.output_tokens),
            cost_usd=_sum(self.cost_usd, other.cost_usd), session_cost_usd=other.session_cost_usd or self.session_cost_usd,
        )  # fmt: skip


def _sum(a: Any, b: Any) -> Any:
    return b if a is None else a if b is None else a + b


NO_USAGE = RunUsage()


@dataclass(frozen=True, slots=True, kw_only=True)
class RunStart:
    """The item `run`: an execution of the agent began."""

    __pydantic_config__: ClassVar[ConfigDict] = STRICT
    id: Key
    agent: Annotated[AgentId, SLUG]
    kind: RunKind
    at: Time
    prompt: RunText
    runner: Label
    model: ModelName | None = None
    parent: Annotated[Key | None, Field(description="the run that it examines again; of a council member: the lead's run")] = None
    decision: Annotated[Key | None, Field(description="the decision that it examines again")] = None
    session_before: Key | None = None
    slot: Annotated[Time | None, Field(description="the moment of the schedule that it was started for")] = None
    brief: Annotated[Key | None, Field(description="digest of the brief that it was given")] = None

    @property
    def asks_model(self) -> bool:
        """False for an answer that was given without a runner: it costs nothing, and no budget limits it."""
        return not self.runner.startswith(ANSWERED_BY)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunEnd:
    """The item `run_end`: how a run ended."""

    __pydantic_config__: ClassVar[ConfigDict] = STRICT
    run: Key
    at: Time
    result: RunResult
    text: RunText = ""
    steps: Annotated[tuple[RunStep, ...], Field(max_length=MAX_RUN_STEPS)] = ()
    session_after: Key | None = None
    usage: RunUsage = NO_USAGE
    decision: Annotated[Key | None, Field(description="the decision that was recorded from its answer")] = None
    error: Annotated[str | None, Field(max_length=MAX_RUN_NOTE)] = None
    note: Annotated[str | None, Field(max_length=MAX_RUN_NOTE, description="what the owner should know: a lost session")] = None


@dataclass(frozen=True, slots=True)
class AgentRun:
    """A run as it is known at some moment; without an end it is still at work."""

    start: RunStart
    end: RunEnd | None = None

    @property
    def id(self) -> str:
        """Its id."""
        return self.start.id

    @property
    def result(self) -> RunResult | None:
        """How it ended; None while it is at work."""
        return self.end.result if self.end is not None else None
