"""A provider of models on this machine: it speaks Anthropic's and OpenAI's wire formats. The real SDKs, with their real retries,
talk to it.

    with llm_server() as server:
        server.plays(Fails(429), Says('{"lessons": []}'))
        model_of("anthropic/claude-haiku-4-5", base_url=server.url("anthropic"), api_key="k")
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from typing import Any

from tests.plugs.provider_rules import anthropic_problem, openai_problem
from tests.plugs.scripted import Asked, Fails, Scripted, open_on_a_port

SOON = (("retry-after", "0.01"),)  # seconds: real retries, not long ones
SIGNATURE = "c2lnbmVk"
_NUMBERS = count(1)
PATHS = {"/v1/messages": "anthropic", "/v1/chat/completions": "openai"}


@dataclass(frozen=True)
class Says:
    """A reply in good form; its text may be anything. `stop`: end, limit, refusal or window."""

    text: str | None
    stop: str = "end"
    tokens: tuple[int, int] | None = (900, 120)


@dataclass(frozen=True)
class Calls:
    """A reply that calls tools, each by name and input, after some text."""

    calls: tuple[tuple[str, dict[str, Any] | str], ...]  # an input as text is sent as it is
    text: str = ""
    tokens: tuple[int, int] | None = (900, 120)


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


def _reply(part: Says | Calls, asked: Asked) -> dict[str, Any]:
    return (_as_anthropic if provider_of(asked) == "anthropic" else _as_openai)(part, asked.body["model"])


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
    usage = {"input_tokens": part.tokens[0], "output_tokens": part.tokens[1]} if part.tokens else {}
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
    return said
