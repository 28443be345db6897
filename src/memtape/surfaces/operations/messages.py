"""The operation that reads the chat with an agent. `send_message` writes to it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from memtape.core.codec import time_text
from memtape.core.decisions.sessions import MemorySwitched
from memtape.surfaces.answer_models import Answer
from memtape.surfaces.answers import optional_time_text
from memtape.surfaces.questions import OfAgent, agent_of
from memtape.surfaces.registry import operation

if TYPE_CHECKING:
    from memtape.core.decisions.sessions import SessionReset
    from memtape.engine import Memory
    from memtape.surfaces.caller import Caller


class GetMessages(OfAgent):
    """How many messages."""

    limit: Annotated[int, Field(ge=1, le=500, description="the newest messages")] = 20


class AgentMessage(Answer):
    """A message of the owner, and the agent's answer."""

    run: Annotated[str, Field(description="the run that answers it")]
    at: Annotated[str, Field(description="UTC; when the agent began to answer")]
    text: Annotated[str, Field(description="the owner's message")]
    result: Annotated[str, Field(description="running, ok, failed, lost or stopped")]
    ended_at: Annotated[str | None, Field(description="UTC")]
    answer: Annotated[str, Field(description="the agent's answer")]
    error: Annotated[str | None, Field(description="why there is no answer")]


class MemoryBreak(Answer):
    """A moment from which on the agent does not remember earlier messages."""

    at: Annotated[str, Field(description="UTC")]
    why: Annotated[str, Field(description="reset, switched on, or switched off")]


class MessagesAnswer(Answer):
    """The chat with an agent."""

    agent: Annotated[str, Field(description="the agent")]
    messages: Annotated[list[AgentMessage], Field(description="oldest first; messages from before a reset stay")]
    breaks: Annotated[list[MemoryBreak], Field(description="where a new session began, oldest first")]
    n: Annotated[int, Field(description="how many messages")]


@operation(writes=False, columns={"messages": ("at", "text", "answer", "result"), "breaks": ("at", "why")})
def get_messages(memory: Memory, ask: GetMessages, caller: Caller) -> MessagesAnswer:
    """Get the chat with an agent: messages and answers, oldest first, and where its memory was reset."""
    handle = agent_of(memory, ask)
    messages = [
        AgentMessage(
            run=run.id, at=time_text(run.start.at), text=run.start.prompt, result=run.result or "running",
            ended_at=optional_time_text(run.end.at if run.end else None), answer=run.end.text if run.end else "",
            error=run.end.error if run.end else None,
        )
        for run in reversed(handle.runs.newest(limit=ask.limit, kind="chat"))
    ]  # fmt: skip
    breaks = [MemoryBreak(at=time_text(each.at), why=_why(each)) for each in handle.runs.session_breaks()]
    return MessagesAnswer(agent=handle.agent.id, messages=messages, breaks=breaks, n=len(messages))


def _why(each: MemorySwitched | SessionReset) -> str:
    return ("switched on" if each.on else "switched off") if isinstance(each, MemorySwitched) else "reset"
