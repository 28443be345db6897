"""A conversation by the chat completions API of OpenAI, OpenRouter, Ollama, vLLM and others.

Every tool call of a reply is answered by a message of its own, before anything else is said. The API has no mark for a refused
call, so its text says so.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any

from pydantic import BaseModel, Field

from memtape.plugs.answer_schema import enforceable_schema
from memtape.plugs.models import ModelAccess, connection_failure, parse_event, parse_reply, strict_json
from memtape.plugs.openai_model import ADDRESS, OpenAIUsage, post_completion, stream_completion, strict_format
from memtape.runners.conversation import NOTHING, ModelTurn, OnPiece, ToolCall, UserPart, earlier_parts
from memtape.runners.protocol import RunQuestion, ToolOutput

MAX_ANSWER_TOKENS = 8_192
Message = dict[str, Any]


class _Function(BaseModel):
    name: str
    arguments: str | None = None


class _FunctionCall(BaseModel):
    id: str
    function: _Function


class _ReplyMessage(BaseModel):
    content: str | None = None
    refusal: str | None = None
    tool_calls: Sequence[_FunctionCall] | None = None


class _ReplyChoice(BaseModel):
    message: _ReplyMessage
    finish_reason: str | None = None


class _CompletionReply(BaseModel):
    choices: Sequence[_ReplyChoice] = Field(min_length=1)
    usage: OpenAIUsage | None = None


class _CallDelta(BaseModel):
    index: int | None = None
    id: str | None = None
    function: Message = {}


class _MessageDelta(BaseModel):
    content: Any = None
    refusal: Any = None
    tool_calls: Sequence[_CallDelta] | None = None


class _ChunkChoice(BaseModel):
    index: int = 0
    delta: _MessageDelta | None = None
    finish_reason: str | None = None


class _Chunk(BaseModel):
    """A part of a streamed reply. The last one has the usage and no choice."""

    choices: Sequence[_ChunkChoice] | None = None
    usage: Message | None = None


@dataclass(slots=True)
class OpenAIConversation:
    """The messages so far, and what every request has besides them."""

    access: ModelAccess
    parameters: Mapping[str, Any]
    messages: list[Message] = field(default_factory=list)

    def ask(self, timeout: float, retries: int, on_piece: OnPiece | None = None) -> ModelTurn:
        """Send the messages and append the reply to them."""
        request: dict[str, Any] = {
            "api_key": self.access.api_key, "base_url": self.access.base_url or ADDRESS, "timeout": timeout, "retries": retries,
            "max_tokens": MAX_ANSWER_TOKENS, "messages": self.messages, **self.parameters,
        }  # fmt: skip
        if on_piece is None:
            body = post_completion(self.access.name, **request)
        else:
            with closing(stream_completion(self.access.name, **request)) as chunks:
                body = _joined(self.access, chunks, on_piece)
        reply = parse_reply(self.access.id, _CompletionReply, body)
        first, usage = reply.choices[0], reply.usage or OpenAIUsage()
        calls = [ToolCall(call.id, call.function.name, _input(call.function)) for call in first.message.tool_calls or ()]
        refused = bool(first.message.refusal) or first.finish_reason == "content_filter"
        text = first.message.content or first.message.refusal or ""
        self.messages.append(_assistant(text, calls))
        return ModelTurn(
            text=text, calls=calls,
            stop="refused" if refused else "cut_off" if first.finish_reason == "length" else "ended",
            input_tokens=usage.prompt_tokens, output_tokens=usage.completion_tokens, cached=usage.cached,
        )  # fmt: skip

    def append_outputs(self, outputs: Sequence[tuple[ToolCall, ToolOutput]]) -> None:
        """Append what the tools of the last reply returned, each in a message."""
        for call, output in outputs:
            text = f"Refused: {output.text}" if output.is_error else output.text
            self.messages.append({"role": "tool", "tool_call_id": call.id, "content": text or NOTHING})


def start_openai(access: ModelAccess, question: RunQuestion) -> OpenAIConversation:
    """Returns a conversation with the earlier runs of the session and the prompt."""
    parameters: dict[str, Any] = {}
    if question.tools:
        parameters["tools"] = [
            {
                "type": "function",
                "function": {"name": tool.name, "description": tool.description, "parameters": dict(tool.input_schema)},
            }
            for tool in question.tools
        ]
    if question.schema is not None:
        parameters["response_format"] = strict_format(enforceable_schema(question.schema, all_required=True))
    conversation = OpenAIConversation(access, parameters)
    if question.system.strip():
        conversation.messages.append({"role": "system", "content": question.system})
    for part in earlier_parts(question):
        if isinstance(part, UserPart):
            conversation.messages.append({"role": "user", "content": part.text})
        else:
            conversation.messages.append(_assistant(part.text, [call for call, _ in part.calls]))
            conversation.append_outputs(part.calls)
    conversation.messages.append({"role": "user", "content": question.prompt.strip() or NOTHING})
    return conversation


def _joined(access: ModelAccess, chunks: Iterator[object], on_piece: OnPiece) -> bytes:
    """Returns a streamed reply in the form of one that was not streamed."""
    content, refusal, finish, usage = "", "", None, None
    calls: dict[int, Message] = {}
    for each in chunks:
        chunk = parse_event(access.id, _Chunk, each)
        piece = ""
        usage = chunk.usage or usage
        for choice in chunk.choices or ():
            delta = choice.delta or _MessageDelta()
            piece += str(delta.content or "")
            refusal += str(delta.refusal or "")
            finish = choice.finish_reason or finish
            for part in delta.tool_calls or ():
                # Some servers send each call whole and do not number them.
                index = part.index if part.index is not None else len(calls)
                call = calls.setdefault(index, {"id": None, "function": {"name": "", "arguments": ""}})
                call["id"] = call["id"] or part.id
                for name, text in call["function"].items():
                    call["function"][name] = text + str(part.function.get(name) or "")
        content += piece
        on_piece(piece)
    if finish is None:
        raise connection_failure(access.id, access.base_url or ADDRESS)  # it was closed before the reply had ended
    message = {"content": content or None, "refusal": refusal or None, "tool_calls": [calls[index] for index in sorted(calls)]}
    return json.dumps({"choices": [{"message": message, "finish_reason": finish}], "usage": usage}).encode()


def _assistant(text: str, calls: Sequence[ToolCall]) -> Message:
    if not calls:
        return {"role": "assistant", "content": text or NOTHING}
    functions = [{"name": call.name, "arguments": json.dumps(dict(call.input or {}))} for call in calls]
    listed = [{"id": call.id, "type": "function", "function": one} for call, one in zip(calls, functions, strict=True)]
    return {"role": "assistant", "content": text or None, "tool_calls": listed}


def _input(function: _Function) -> dict[str, Any] | None:
    try:
        # Some servers send nothing where a tool takes nothing.
        data = strict_json(function.arguments or "{}")
    except (ValueError, RecursionError):
        return None
    return data if isinstance(data, dict) else None
