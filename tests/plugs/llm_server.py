"""A provider of models on this machine: it speaks Anthropic's and OpenAI's wire formats. The real SDKs, with their real retries,
talk to it.

    with llm_server() as server:
        server.plays(Fails(429), Says('{"lessons": []}'))
        model_of("anthropic/claude-haiku-4-5", base_url=server.url("anthropic"), api_key="k")
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from tests.plugs.scripted import Asked, Fails, Scripted, open_on_a_port

SOON = (("retry-after", "0.01"),)  # seconds: real retries, not long ones
PATHS = {"/v1/messages": "anthropic", "/v1/chat/completions": "openai"}


@dataclass(frozen=True)
class Says:
    """A reply in good form; its text may be anything. `stop`: end, limit or refusal."""

    text: str | None
    stop: str = "end"
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
    server = LlmServer(_reply, _refusal, [Says('{"lessons": []}')], SOON)
    with open_on_a_port(server):
        yield server


def provider_of(asked: Asked) -> str:
    """Whose wire format was spoken."""
    return PATHS.get(asked.path.partition("?")[0], "nobody")


def _refusal(part: Fails) -> dict[str, Any]:
    return {"type": "error", "error": {"type": "some_error", "message": part.said, "code": None, "param": None}}


def _reply(part: Says, asked: Asked) -> dict[str, Any]:
    return (_as_anthropic if provider_of(asked) == "anthropic" else _as_openai)(part, asked.body["model"])


def _as_anthropic(part: Says, model: str) -> dict[str, Any]:
    stop = {"end": "end_turn", "limit": "max_tokens", "refusal": "refusal"}[part.stop]
    said = [] if part.text is None else [{"type": "text", "text": part.text}]
    thought = {"type": "thinking", "thinking": "Which of them matter?", "signature": "s"}
    usage = {"input_tokens": part.tokens[0], "output_tokens": part.tokens[1]} if part.tokens else {}
    return {
        "id": "msg_1", "type": "message", "role": "assistant", "model": model, "content": [thought, *said], "stop_reason": stop,
        "stop_sequence": None, "usage": usage,
    }  # fmt: skip


def _as_openai(part: Says, model: str) -> dict[str, Any]:
    stop = {"end": "stop", "limit": "length", "refusal": "stop"}[part.stop]
    message: dict[str, Any] = {"role": "assistant", "content": part.text, "refusal": None}
    if part.stop == "refusal":
        message |= {"content": None, "refusal": part.text or "I cannot help with that."}
    said = {
        "id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": model,
        "choices": [{"index": 0, "message": message, "finish_reason": stop, "logprobs": None}],
    }  # fmt: skip
    if part.tokens:
        said["usage"] = {"prompt_tokens": part.tokens[0], "completion_tokens": part.tokens[1], "total_tokens": sum(part.tokens)}
    return said
