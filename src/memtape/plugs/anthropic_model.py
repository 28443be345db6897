"""Claude by Anthropic's Messages API. The API itself enforces the JSON schema of the answer (`output_config.format`).

A forced tool call would work on older models too. Newer models think before they answer, and then no tool can be forced. The
answer is plain text in either case, so the answer of a server that ignores the schema is checked in the same way.
"""

from __future__ import annotations

import json
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from pydantic import BaseModel

from memtape.plugs.answer_schema import enforceable_schema
from memtape.plugs.models import (
    AnswerForm,
    ModelAnswer,
    ModelReply,
    connection_failure,
    error_message,
    parse_reply,
    status_failure,
    timeout_failure,
    unreadable_reply,
)
from memtape.plugs.prices import CachedTokens, Price
from memtape.plugs.prompt_cache import CacheMarks

ADDRESS = "https://api.anthropic.com"  # given to the SDK, which would otherwise look in the environment


# The status of an error that is told in mid-stream, after the status 200: by its type. Of other types it is 500.
_ERROR_STATUSES: Mapping[str, int] = {
    "invalid_request_error": 400, "authentication_error": 401, "billing_error": 402, "permission_error": 403,
    "not_found_error": 404, "request_too_large": 413, "rate_limit_error": 429, "timeout_error": 504, "overloaded_error": 529,
}  # fmt: skip


class _Block(BaseModel):
    type: str
    text: str | None = None


class AnthropicUsage(BaseModel):
    """The tokens of a reply. Those that the cache stored or gave are not among `input_tokens`."""

    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_creation_input_tokens: int | None = None
    cache_read_input_tokens: int | None = None

    @property
    def cached(self) -> CachedTokens:
        """The tokens that the cache stored and gave."""
        return CachedTokens(self.cache_creation_input_tokens or 0, self.cache_read_input_tokens or 0)

    @property
    def all_input_tokens(self) -> int | None:
        """The tokens of the whole question."""
        return None if self.input_tokens is None else self.input_tokens + sum(self.cached)


class _AnthropicMessage(BaseModel):
    content: Sequence[_Block]
    model: str = ""
    stop_reason: str | None = None
    usage: AnthropicUsage = AnthropicUsage()


@dataclass(frozen=True, slots=True, kw_only=True)
class AnthropicModel:
    """A model at Anthropic, or at a server with the same API."""

    name: str
    api_key: str = field(repr=False)
    base_url: str = ADDRESS
    timeout: float
    retries: int
    price: Price | None = None

    @property
    def id(self) -> str:
        """The provider and the name."""
        return f"anthropic/{self.name}"

    def answer(self, system: str, user: str, form: AnswerForm, *, max_tokens: int, stable_chars: int = 0) -> ModelAnswer:
        """Ask one question. The SDK retries where that may help."""
        message = parse_reply(self.id, _AnthropicMessage, self._ask(system, user, form, max_tokens, stable_chars))
        return ModelReply(
            model=self.id, answered_by=message.model or self.name,
            text="".join(block.text or "" for block in message.content if block.type == "text"),
            input_tokens=message.usage.all_input_tokens, output_tokens=message.usage.output_tokens, cached=message.usage.cached,
            refused=message.stop_reason == "refusal", price=self.price,
            cut_off=message.stop_reason in ("max_tokens", "model_context_window_exceeded"),
        ).read(form)  # fmt: skip

    def _ask(self, system: str, user: str, form: AnswerForm, max_tokens: int, stable_chars: int) -> bytes:
        marks = CacheMarks(self.name, system)
        # A model that must write every field, if only as null, forgets none.
        schema = enforceable_schema(form.model_json_schema(), all_required=True)
        return post_message(
            self.name, api_key=self.api_key, base_url=self.base_url, timeout=self.timeout, retries=self.retries,
            max_tokens=max_tokens, system=marks.system_blocks(),
            messages=[{"role": "user", "content": marks.user_blocks(user, stable_chars)}],
            output_config={"format": {"type": "json_schema", "schema": schema}},
        )  # fmt: skip


def post_message(name: str, *, api_key: str, base_url: str, timeout: float, retries: int, **body: Any) -> bytes:
    """Send a request to the Messages API. Returns the body of the reply; raises ModelFailed without one."""
    import anthropic

    client = anthropic.Anthropic(api_key=api_key, base_url=base_url, timeout=timeout, max_retries=retries)
    with _failures_told(f"anthropic/{name}", base_url, timeout), client:
        return client.messages.with_raw_response.create(model=name, **body).http_response.content


def stream_message(
    name: str, *, api_key: str, base_url: str, timeout: float, retries: int, **body: Any
) -> Generator[object]:  # fmt: skip
    """Send a request to the Messages API and yield the events of its reply as they arrive. Raises ModelFailed.

    The timeout is for each event. The SDK retries until the reply begins, and no more after that.
    """
    import anthropic

    model = f"anthropic/{name}"
    client = anthropic.Anthropic(api_key=api_key, base_url=base_url, timeout=timeout, max_retries=retries)
    with _failures_told(model, base_url, timeout), client, client.messages.create(model=name, stream=True, **body) as stream:
        if "text/event-stream" not in stream.response.headers.get("content-type", ""):
            raise unreadable_reply(model, "body: it is not a stream")
        yield from stream


@contextmanager
def _failures_told(model: str, base_url: str, timeout: float) -> Iterator[None]:
    """Tell every failure of the SDK as a ModelFailed."""
    import anthropic
    import httpx2  # of the SDK, which lets its errors through once a reply has begun

    try:
        yield
    except anthropic.APIStatusError as error:
        raise status_failure(model, _status_of(error.status_code, error.body), error_message(error.body)) from None
    except (anthropic.APITimeoutError, httpx2.TimeoutException):
        raise timeout_failure(model, timeout) from None
    except (anthropic.APIConnectionError, httpx2.TransportError):
        raise connection_failure(model, base_url) from None
    except json.JSONDecodeError:
        raise unreadable_reply(model, "event: it is not JSON") from None


def _status_of(status: int, body: object) -> int:
    if status >= 400:
        return status
    inner = body.get("error") if isinstance(body, dict) else None
    return _ERROR_STATUSES.get(str(inner.get("type")), 500) if isinstance(inner, dict) else 500
