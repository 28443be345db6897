"""A conversation by Anthropic's Messages API.

Every tool call of a reply is answered in the very next message. A reply goes back as it came: the API refuses the calls of a
model that thought before them, if its thoughts are missing.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any

from pydantic import BaseModel

from memtape.core.brief.token_estimate import estimate_tokens
from memtape.plugs.answer_schema import enforceable_schema
from memtape.plugs.anthropic_model import ADDRESS, AnthropicUsage, post_message, stream_message
from memtape.plugs.models import ModelAccess, connection_failure, parse_event, parse_reply, strict_json
from memtape.plugs.prompt_cache import CacheMarks, tool_tokens
from memtape.runners.conversation import NOTHING, ModelTurn, OnPiece, ToolCall, UserPart, earlier_parts
from memtape.runners.protocol import RunQuestion, ToolOutput

MAX_ANSWER_TOKENS = 8_192
Block = dict[str, Any]


class _Reply(BaseModel):
    content: Sequence[Block]
    stop_reason: str | None = None
    usage: AnthropicUsage = AnthropicUsage()


class _Start(BaseModel):
    """A message that begins: the tokens of the question are known, and some of the answer's."""

    usage: Block | None = None


class _Event(BaseModel):
    """An event of a streamed reply; each type has some of these."""

    type: str
    index: int = 0
    message: Block = {}
    content_block: Block = {}
    delta: Block = {}
    usage: Block | None = None


@dataclass(slots=True)
class AnthropicConversation:
    """The messages so far, and what every request has besides them."""

    access: ModelAccess
    parameters: Mapping[str, Any]
    messages: list[dict[str, Any]] = field(default_factory=list)

    def ask(self, timeout: float, retries: int, on_piece: OnPiece | None = None) -> ModelTurn:
        """Send the messages and append the reply to them."""
        request: dict[str, Any] = {
            "api_key": self.access.api_key, "base_url": self.access.base_url or ADDRESS, "timeout": timeout, "retries": retries,
            "messages": self.messages, **self.parameters,
        }  # fmt: skip
        if on_piece is None:
            body = post_message(self.access.name, **request)
        else:
            with closing(stream_message(self.access.name, **request)) as events:
                body = _joined(self.access, events, on_piece)
        reply = parse_reply(self.access.id, _Reply, body)
        content = [block for block in reply.content if block.get("type") != "text" or str(block.get("text") or "").strip()]
        self.messages.append({"role": "assistant", "content": content})
        return ModelTurn(
            text="".join(str(block["text"]) for block in content if block.get("type") == "text"),
            calls=[_call(block) for block in content if block.get("type") == "tool_use"],
            stop="overflow" if reply.stop_reason == "model_context_window_exceeded"
            else "cut_off" if reply.stop_reason == "max_tokens" else "refused" if reply.stop_reason == "refusal" else "ended",
            input_tokens=reply.usage.all_input_tokens, output_tokens=reply.usage.output_tokens, cached=reply.usage.cached,
        )  # fmt: skip

    def append_outputs(self, outputs: Sequence[tuple[ToolCall, ToolOutput]]) -> None:
        """Append what the tools of the last reply returned, in one message."""
        self.messages.append({"role": "user", "content": [_result(call, output) for call, output in outputs]})


def start_anthropic(access: ModelAccess, question: RunQuestion) -> AnthropicConversation:
    """Returns a conversation with the earlier runs of the session and the prompt."""
    parameters: dict[str, Any] = {"max_tokens": MAX_ANSWER_TOKENS}
    tools = [
        {"name": tool.name, "description": tool.description, "input_schema": dict(tool.input_schema)} for tool in question.tools
    ]
    if tools:
        parameters["tools"] = tools
    marks = CacheMarks(access.name, question.system, tool_tokens(tools))
    if question.system.strip():
        parameters["system"] = marks.system_blocks()
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
    prompt = question.prompt.strip() or NOTHING
    earlier = estimate_tokens(json.dumps(conversation.messages)) if conversation.messages else 0
    conversation.messages.append({"role": "user", "content": marks.user_blocks(prompt, question.stable_chars, earlier)})
    return conversation


def _joined(access: ModelAccess, events: Iterator[object], on_piece: OnPiece) -> bytes:
    """Returns a streamed reply in the form of one that was not streamed."""
    message: Block = {}
    usage: Block = {}
    blocks: dict[int, Block] = {}
    inputs: dict[int, str] = {}  # of tools, as JSON that is still written
    for each in events:
        event = parse_event(access.id, _Event, each)
        piece = ""
        if event.type == "message_start":
            message, usage = event.message, dict(parse_event(access.id, _Start, event.message).usage or {})
        elif event.type == "content_block_start":
            blocks[event.index] = event.content_block
            piece = str(event.content_block.get("text") or "")
        elif event.type == "content_block_delta":
            piece = str(event.delta.get("text") or "")
            inputs[event.index] = inputs.get(event.index, "") + str(event.delta.get("partial_json") or "")
            block = blocks.setdefault(event.index, {})
            for name in ("text", "thinking", "signature"):
                if name in event.delta:
                    block[name] = str(block.get(name) or "") + str(event.delta[name] or "")
        elif event.type == "message_delta":
            message |= event.delta
            usage |= {name: tokens for name, tokens in (event.usage or {}).items() if tokens is not None}
        elif event.type == "message_stop":
            for index, block in blocks.items():
                if inputs.get(index):
                    block["input"] = _written(inputs[index])
            return json.dumps(message | {"content": [blocks[index] for index in sorted(blocks)], "usage": usage}).encode()
        on_piece(piece)
    raise connection_failure(access.id, access.base_url or ADDRESS)  # it was closed before the reply had ended


def _written(input: str) -> Any:
    try:
        return strict_json(input)
    except (ValueError, RecursionError):
        return input  # it is no JSON, and the call is refused


def _call(block: Mapping[str, Any]) -> ToolCall:
    input = block.get("input")
    return ToolCall(str(block.get("id")), str(block.get("name")), input if isinstance(input, dict) else None)


def _result(call: ToolCall, output: ToolOutput) -> Block:
    return {"type": "tool_result", "tool_use_id": call.id, "content": output.text or NOTHING, "is_error": output.is_error}
