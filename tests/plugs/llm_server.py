"""A provider of models on this machine: it speaks Anthropic's and OpenAI's wire formats. The real SDKs, with their real retries,
talk to it.

    with llm_server() as server:
        server.plays(Fails(429), Says('{"lessons": []}'))
        model_of("anthropic/claude-haiku-4-5", base_url=server.url("anthropic"), api_key="k")
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain, count, zip_longest
from typing import Any

from tests.plugs.provider_rules import anthropic_problem, openai_problem
from tests.plugs.scripted import Asked, Fails, Scripted, Streams, open_on_a_port

SOON = (("retry-after", "0.01"),)  # seconds: real retries, not long ones
HALT_SECONDS = 30.0  # at most, until a reply that halts goes on
SIGNATURE = "c2lnbmVk"
_NUMBERS = count(1)
PATHS = {"/v1/messages": "anthropic", "/v1/chat/completions": "openai"}


@dataclass(frozen=True)
class Says:
    """A reply in good form; its text may be anything. `stop`: end, limit, refusal or window."""

    text: str | None
    stop: str = "end"
    tokens: tuple[int, int] | None = (900, 120)
    cached: int = 0  # of the tokens of the question, those found in the cache


@dataclass(frozen=True)
class Calls:
    """A reply that calls tools, each by name and input, after some text."""

    calls: tuple[tuple[str, dict[str, Any] | str], ...]  # an input as text is sent as it is
    text: str = ""
    tokens: tuple[int, int] | None = (900, 120)


@dataclass(frozen=True)
class Halts:
    """A streamed reply that halts after some events: until `until` is set; or for good, with an error or a broken connection."""

    reply: Says | Calls
    after: int  # events
    until: threading.Event | None = None
    error: dict[str, Any] | None = None  # as the provider tells it


class LlmServer(Scripted):
    """The provider, while it is open."""

    @property
    def providers(self) -> list[str]:
        """Who was asked, request by request."""
        return [provider_of(one) for one in self.asked]

    def url(self, provider: str) -> str:
        """The address for a provider's SDK, as one would set it."""
        return f"http://{self.host}" + ("/v1" if provider == "openai" else "")


@contextmanager
def llm_server() -> Iterator[LlmServer]:
    """A provider on a port of its own, closed in the end."""
    server = LlmServer(_reply, _refusal, [Says('{"lessons": []}')], SOON, _wrong)
    with open_on_a_port(server):
        yield server


def provider_of(asked: Asked) -> str:
    """Whose wire format was spoken."""
    return PATHS.get(asked.path.partition("?")[0], "nobody")


def _wrong(asked: Asked) -> str | None:
    return (anthropic_problem if provider_of(asked) == "anthropic" else openai_problem)(asked.body)


def _refusal(part: Fails) -> dict[str, Any]:
    return {"type": "error", "error": {"type": "some_error", "message": part.said, "code": None, "param": None}}


def _reply(part: Says | Calls | Halts, asked: Asked) -> dict[str, Any] | Streams:
    is_anthropic, said = provider_of(asked) == "anthropic", part.reply if isinstance(part, Halts) else part
    reply = (_as_anthropic if is_anthropic else _as_openai)(said, asked.body["model"])
    if not asked.body.get("stream"):
        assert said is part, "only a streamed reply halts"
        return reply
    if is_anthropic:
        events = [event_bytes(event) for event in anthropic_events(reply)]
    else:
        with_usage = asked.body.get("stream_options", {}).get("include_usage", False)
        events = [*map(chunk_bytes, _openai_chunks(reply, with_usage)), b"data: [DONE]\n\n"]
    return Streams(_played(part, events, is_anthropic))


def _played(part: Says | Calls | Halts, events: list[bytes], is_anthropic: bool) -> Iterator[bytes | None]:
    if not isinstance(part, Halts):
        yield from in_awkward_parts(events)
        return
    yield from in_awkward_parts(events[: part.after])
    if part.until is not None:
        assert part.until.wait(HALT_SECONDS), "nobody let it go on"
        yield from in_awkward_parts(events[part.after :])
    elif part.error is not None:
        error = {"error": part.error}
        yield event_bytes({"type": "error"} | error) if is_anthropic else chunk_bytes(error)
    else:
        yield None


# ---- streaming ---------------------------------------------------------------------------------------------------------


def event_bytes(event: dict[str, Any]) -> bytes:
    """An event as Anthropic writes it."""
    return f"event: {event['type']}\ndata: {json.dumps(event, ensure_ascii=False)}\n\n".encode()


def chunk_bytes(chunk: dict[str, Any]) -> bytes:
    """A chunk as OpenAI writes it."""
    return f"data: {json.dumps(chunk, ensure_ascii=False)}\n\n".encode()


def in_awkward_parts(events: Iterable[bytes]) -> Iterator[bytes]:
    """Each event in two parts, divided within a character of several bytes if it has one."""
    for event in events:
        wide = next((place for place, byte in enumerate(event) if byte >= 0x80), None)
        middle = wide + 1 if wide is not None else len(event) // 2
        yield event[:middle]
        yield event[middle:]


def _pieces(text: str, size: int = 5) -> list[str]:
    return [text[start : start + size] for start in range(0, len(text), size)]


def anthropic_events(message: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """A message of the Messages API as its events."""
    usage = message["usage"]
    began = {"usage": usage | {"output_tokens": 1} if usage else {}, "content": [], "stop_reason": None}
    yield {"type": "message_start", "message": message | began}
    yield {"type": "ping"}
    for index, block in enumerate(message["content"]):
        if block["type"] == "text":
            begin, deltas = {"text": ""}, [{"type": "text_delta", "text": piece} for piece in _pieces(block["text"])]
        elif block["type"] == "thinking":
            begin = {"thinking": "", "signature": ""}
            deltas = [{"type": "thinking_delta", "thinking": piece} for piece in _pieces(block["thinking"])]
            deltas.append({"type": "signature_delta", "signature": block["signature"]})
        else:
            input = block["input"] if isinstance(block["input"], str) else json.dumps(block["input"], ensure_ascii=False)
            begin, deltas = {"input": {}}, [{"type": "input_json_delta", "partial_json": piece} for piece in ["", *_pieces(input)]]
        yield {"type": "content_block_start", "index": index, "content_block": block | begin}
        yield from ({"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas)
        yield {"type": "content_block_stop", "index": index}
    told = {"usage": {"output_tokens": usage["output_tokens"]} if usage else {}}
    yield {"type": "message_delta", "delta": {"stop_reason": message["stop_reason"], "stop_sequence": None}} | told
    yield {"type": "message_stop"}


def _openai_chunks(reply: dict[str, Any], with_usage: bool) -> Iterator[dict[str, Any]]:
    """A completion as its chunks. The calls of several tools are written in turns, so that only the index tells them apart."""
    (choice,) = reply["choices"]
    message, calls = choice["message"], choice["message"].get("tool_calls", [])
    written = [
        [{"index": index, **call, "function": call["function"] | {"arguments": ""}}]
        + [{"index": index, "function": {"arguments": piece}} for piece in _pieces(call["function"]["arguments"])]
        for index, call in enumerate(calls)
    ]
    deltas: list[dict[str, Any]] = [{"role": "assistant", "content": ""}]
    deltas += [{name: piece} for name in ("content", "refusal") for piece in _pieces(message[name] or "")]
    deltas += [{"tool_calls": [part]} for part in chain.from_iterable(zip_longest(*written)) if part is not None]
    head = {key: reply[key] for key in ("id", "created", "model")} | {"object": "chat.completion.chunk"}
    head |= {"usage": None} if with_usage else {}
    for delta in deltas:
        yield head | {"choices": [{"index": 0, "delta": delta, "finish_reason": None}]}
    yield head | {"choices": [{"index": 0, "delta": {}, "finish_reason": choice["finish_reason"]}]}
    if with_usage and "usage" in reply:
        yield head | {"choices": [], "usage": reply["usage"]}


# ---- replies -----------------------------------------------------------------------------------------------------------


def call_ids(part: Calls, prefix: str) -> list[str]:
    """An id for each call, new in every reply."""
    return [f"{prefix}_{next(_NUMBERS)}" for _ in part.calls]


def anthropic_content(part: Says | Calls) -> list[dict[str, Any]]:
    """The blocks of a message."""
    said = [{"type": "text", "text": part.text}] if part.text or (part.text == "" and isinstance(part, Says)) else []
    if isinstance(part, Says):
        return said
    ids = call_ids(part, "toolu")
    return [
        *said,
        *(
            {"type": "tool_use", "id": id, "name": name, "input": input}
            for id, (name, input) in zip(ids, part.calls, strict=True)
        ),
    ]


def anthropic_stop(part: Says | Calls) -> str:
    """Why a message ended."""
    if isinstance(part, Calls):
        return "tool_use"
    return {"end": "end_turn", "limit": "max_tokens", "refusal": "refusal", "window": "model_context_window_exceeded"}[part.stop]


def _as_anthropic(part: Says | Calls, model: str) -> dict[str, Any]:
    thought = {"type": "thinking", "thinking": "Which of them matter?", "signature": SIGNATURE}
    usage, cached = {}, part.cached if isinstance(part, Says) else 0
    if part.tokens:
        usage = {"input_tokens": part.tokens[0] - cached, "output_tokens": part.tokens[1]}
        usage |= {"cache_creation_input_tokens": 0, "cache_read_input_tokens": cached} if cached else {}
    return {
        "id": "msg_1", "type": "message", "role": "assistant", "model": model, "content": [thought, *anthropic_content(part)],
        "stop_reason": anthropic_stop(part), "stop_sequence": None, "usage": usage,
    }  # fmt: skip


def _as_openai(part: Says | Calls, model: str) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": part.text, "refusal": None}
    if isinstance(part, Calls):
        stop = "tool_calls"
        arguments = [input if isinstance(input, str) else json.dumps(input) for _, input in part.calls]
        functions = [{"name": name, "arguments": text} for (name, _), text in zip(part.calls, arguments, strict=True)]
        ids = call_ids(part, "call")
        message |= {
            "content": part.text or None,
            "tool_calls": [{"id": id, "type": "function", "function": one} for id, one in zip(ids, functions, strict=True)],
        }
    else:
        stop = {"end": "stop", "limit": "length", "refusal": "stop"}[part.stop]
        if part.stop == "refusal":
            message |= {"content": None, "refusal": part.text or "I cannot help with that."}
    said = {
        "id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": model,
        "choices": [{"index": 0, "message": message, "finish_reason": stop, "logprobs": None}],
    }  # fmt: skip
    if part.tokens:
        said["usage"] = {"prompt_tokens": part.tokens[0], "completion_tokens": part.tokens[1], "total_tokens": sum(part.tokens)}
        if isinstance(part, Says) and part.cached:
            said["usage"]["prompt_tokens_details"] = {"cached_tokens": part.cached, "audio_tokens": 0}
    return said
