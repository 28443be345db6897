"""A conversation with a model that calls tools, in terms that all providers share; and earlier runs as parts of one."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, Literal, Protocol

from memtape.core.decisions.runs import AgentRun, RunStep
from memtape.plugs.models import ModelAccess
from memtape.plugs.prices import NOT_CACHED, CachedTokens
from memtape.runners.protocol import RunQuestion, ToolOutput

NOTHING = "(nothing)"  # providers refuse an empty text
_NO_NAME = re.compile(r"[^a-zA-Z0-9_-]")  # not part of a tool's name at any provider


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A tool that the model wants to call."""

    id: str
    name: str
    input: Mapping[str, Any] | None  # None: what it sent is not a JSON object


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelTurn:
    """One reply of the model."""

    text: str
    calls: Sequence[ToolCall] = ()
    stop: Literal["ended", "cut_off", "refused", "overflow"] = "ended"
    input_tokens: int | None = None
    output_tokens: int | None = None
    cached: CachedTokens = NOT_CACHED


OnPiece = Callable[[str], None]  # called with the new text of each part of a streamed reply, which may be empty


class Conversation(Protocol):
    """The messages so far, in the form of one provider."""

    def ask(self, timeout: float, retries: int, on_piece: OnPiece | None = None) -> ModelTurn:
        """Send the messages and append the reply to them. Raises ModelFailed without one. The timeout is for each attempt.

        With `on_piece` the reply is streamed. Whatever that raises ends the stream and is raised.
        """

    def append_outputs(self, outputs: Sequence[tuple[ToolCall, ToolOutput]]) -> None:
        """Append what the tools of the last reply returned."""


class ConversationStart(Protocol):
    """Starts a conversation at a provider: the earlier runs, then the prompt."""

    def __call__(self, access: ModelAccess, question: RunQuestion) -> Conversation:
        """Returns the conversation, before the first reply."""


# ---- earlier runs ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class UserPart:
    """What the user said: the prompt of an earlier run."""

    text: str


@dataclass(frozen=True, slots=True)
class ModelPart:
    """What the model said, and the tools that it called with what they returned."""

    text: str
    calls: tuple[tuple[ToolCall, ToolOutput], ...] = ()


def earlier_parts(question: RunQuestion) -> Iterator[UserPart | ModelPart]:
    """Returns the runs of the session as parts of a conversation; user and model take turns.

    Only a run that ended well is part of its session. Calls get new numbers, since providers refuse an id that occurs twice,
    and another runner may have given them ids that this provider does not take. Without tools in the question the calls are told
    as text, since providers refuse calls of tools that are not offered.
    """
    number = 0
    for run in question.transcript:
        if run.end is None or run.end.result != "ok":
            continue
        yield UserPart(run.start.prompt.strip() or NOTHING)
        for part in _turns(run):
            calls = tuple(
                (ToolCall(f"call_{number + index}", call.name, call.input), output)
                for index, (call, output) in enumerate(part.calls, start=1)
            )
            number += len(calls)
            if calls and question.tools:
                yield ModelPart(part.text, calls)
        yield ModelPart(_final_text(run, with_calls=not question.tools))


def _turns(run: AgentRun) -> Iterator[ModelPart]:
    assert run.end is not None
    for _, steps in groupby(run.end.steps, key=lambda step: step.turn):
        yield _as_part(list(steps))


def _as_part(steps: Iterable[RunStep]) -> ModelPart:
    said, calls = [], []
    for step in steps:
        if step.kind == "text":
            said.append(step.text)
        else:
            name = _NO_NAME.sub("_", step.tool or "tool")[:64]
            calls.append((ToolCall("", name, step.input or {}), ToolOutput(step.text, step.is_error)))
    return ModelPart("\n".join(said).strip(), tuple(calls))


def _final_text(run: AgentRun, with_calls: bool) -> str:
    """Returns the answer of a run, after what it said where it called no tool, and after its calls if they are told as text."""
    assert run.end is not None
    told = []
    for part in _turns(run):
        if with_calls or not part.calls:
            told.append(part.text)
            told += [f"({call.name} returned: {output.text})" for call, output in part.calls]
    return "\n".join(filter(None, [*told, run.end.text.strip()])) or NOTHING
