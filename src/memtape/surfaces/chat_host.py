"""What the owner's chat is given by the surfaces: the configured model, and the tools of the set `coach`, called as a model."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import partial
from threading import Thread
from typing import TYPE_CHECKING, Any

from memtape.errors import Invalid, MemtapeError
from memtape.runners.chat_turn import ChatHost, OnText, answer_turn
from memtape.runners.protocol import RunTool, ToolOutput
from memtape.surfaces.caller import Caller
from memtape.surfaces.model_answers import answer_for_model
from memtape.surfaces.registry import Operation, all_operations, in_tool_set
from memtape.surfaces.tool_schema import tool_schema
from memtape.surfaces.translate import json_text

if TYPE_CHECKING:
    from memtape.core.chat_guard import ChatGuard
    from memtape.core.chats import Chat
    from memtape.engine import Memory

log = logging.getLogger(__name__)

HOW_TO_CONFIGURE = (
    "Set MEMTAPE_CHAT_MODEL, like MEMTAPE_CHAT_MODEL=anthropic/claude-haiku-4-5, and the key of its provider, "
    "like ANTHROPIC_API_KEY; then start memtape again"
)


def configured_model() -> str:
    """The model of the chat; raises Invalid with how to configure one if there is none."""
    from memtape.compose import chat_model

    model = chat_model()
    if not model:
        raise Invalid("MEMTAPE_CHAT_MODEL", "no model is configured for the chat", HOW_TO_CONFIGURE)
    return model


def chat_host(memory: Memory) -> ChatHost:
    """The host of this memory's chats, by the settings. Raises Invalid if no model is configured, or a setting is wrong."""
    from memtape.compose import chat_budget_usd, runner

    model = configured_model()
    return ChatHost(
        runner=runner("llm", model, memory.clock), model=model, budget_usd=chat_budget_usd(), tools_of=partial(chat_tools, memory)
    )


def chat_tools(memory: Memory, chat: Chat, guard: Callable[[], ChatGuard]) -> Sequence[RunTool]:
    """The tools of a chat: the set `coach`, called as a model, with what the owner has said in the chat so far."""

    def call(known: Operation, data: Mapping[str, Any]) -> ToolOutput:
        caller = Caller("model", chat.start.agent, guard(), chat_id=chat.id, chat_mode=chat.start.mode)
        try:
            return ToolOutput(json_text(answer_for_model(memory, known, dict(data), caller)))
        except MemtapeError as error:
            return ToolOutput(str(error), is_error=True)

    served = in_tool_set(all_operations(), "coach", Caller("model"))
    return [
        RunTool(name, known.doc, tool_schema(known, "coach", bound=False), partial(call, known))
        for name, known in served.items()
    ]


def send_in_background(
    memory: Memory, chat: str, text: str, hearing: Callable[[str], AbstractContextManager[OnText]]
) -> None:  # fmt: skip
    """Record the owner's message now, and let the model answer in a thread of its own: a page must not wait for it.

    `hearing` gets the id of the turn, and gives what hears the answer while it is written.
    """
    host = chat_host(memory)
    begun = memory.chats.begin_turn(chat, text, model=host.model)

    def work() -> None:
        try:
            with hearing(begun.turn.id) as on_text:
                answer_turn(memory, host, begun, on_text)
        except MemtapeError as problem:
            log.warning("the turn %s of chat %s was not recorded: %s", begun.turn.id, chat, problem)

    Thread(target=work, name=f"memtape-page-chat-{chat}", daemon=True).start()
