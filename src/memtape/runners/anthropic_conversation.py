"""A conversation by Anthropic's Messages API.

Every tool call of a reply is answered in the very next message. A reply goes back as it came: the API refuses the calls of a
model that thought before them, if its thoughts are missing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pydantic import BaseModel

from memtape.plugs.answer_schema import enforceable_schema
from memtape.plugs.anthropic_model import ADDRESS, post_message
from memtape.plugs.models import ModelAccess, parse_reply
from memtape.runners.conversation import NOTHING, ModelTurn, ToolCall, UserPart, earlier_parts
from memtape.runners.protocol import RunQuestion, ToolOutput

MAX_ANSWER_TOKENS = 8_192
Block = dict[str, Any]


class _Tokens(BaseModel):
    input_tokens: int | None = None
    output_tokens: int | None = None


class _Reply(BaseModel):
    content: Sequence[Block]
    stop_reason: str | None = None
    usage: _Tokens = _Tokens()


@dataclass(slots=True)
class AnthropicConversation:
    """The messages so far, and what every request has besides them."""

    access: ModelAccess
    parameters: Mapping[str, Any]
    messages: list[dict[str, Any]] = field(default_factory=list)

    def ask(self, timeout: float, retries: int) -> ModelTurn:
        """Send the messages and append the reply to them."""
        body = post_message(
            self.access.name, api_key=self.access.api_key, base_url=self.access.base_url or ADDRESS, timeout=timeout,
            retries=retries, messages=self.messages, **self.parameters,
        )  # fmt: skip
        reply = parse_reply(self.access.id, _Reply, body)
        content = [block for block in reply.content if block.get("type") != "text" or str(block.get("text") or "").strip()]
        self.messages.append({"role": "assistant", "content": content})
        return ModelTurn(
            text="".join(str(block["text"]) for block in content if block.get("type") == "text"),
            calls=[_call(block) for block in content if block.get("type") == "tool_use"],
            stop="overflow" if reply.stop_reason == "model_context_window_exceeded"
            else "cut_off" if reply.stop_reason == "max_tokens" else "refused" if reply.stop_reason == "refusal" else "ended",
            input_tokens=reply.usage.input_tokens, output_tokens=reply.usage.output_tokens,
        )  # fmt: skip

    def append_outputs(self, outputs: Sequence[tuple[ToolCall, ToolOutput]]) -> None:
        """Append what the tools of the last reply returned, in one message."""
        self.messages.append({"role": "user", "content": [_result(call, output) for call, output in outputs]})


def start_anthropic(access: ModelAccess, question: RunQuestion) -> AnthropicConversation:
    """Returns a conversation with the earlier runs of the session and the prompt."""
    parameters: dict[str, Any] = {"max_tokens": MAX_ANSWER_TOKENS}
    if question.system.strip():
        parameters["system"] = question.system
    if question.tools:
        parameters["tools"] = [
            {"name": tool.name, "description": tool.description, "input_schema": dict(tool.input_schema)}
            for tool in question.tools
        ]
    if question.schema is not None:
        parameters["output_config"] = {"format": {"type": "json_schema", "schema": enforceable_schema(question.schema)}}
    conversation = AnthropicConversation(access, parameters)
    for part in earlier_parts(question):
        if isinstance(part, UserPart):
            conversation.messages.append({"role": "user", "content": part.text})
            continue
        said: list[Block] = [{"type": "text", "text": part.text}] if part.text else []
        calls = [
            {"type": "tool_use", "id": call.id, "name": call.name, "input": dict(call.input or {})} for call, _ in part.calls
        ]
        conversation.messages.append({"role": "assistant", "content": [*said, *calls]})
        if part.calls:
            conversation.append_outputs(part.calls)
    conversation.messages.append({"role": "user", "content": question.prompt.strip() or NOTHING})
    return conversation


def _call(block: Mapping[str, Any]) -> ToolCall:
    input = block.get("input")
    return ToolCall(str(block.get("id")), str(block.get("name")), input if isinstance(input, dict) else None)


def _result(call: ToolCall, output: ToolOutput) -> Block:
    return {"type": "tool_result", "tool_use_id": call.id, "content": output.text or NOTHING, "is_error": output.is_error}
