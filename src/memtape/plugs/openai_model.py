"""Models with the chat completions API: those of OpenAI, and of the many servers with the same API.

The schema is sent as `response_format`. OpenAI and OpenRouter enforce it, vLLM and Ollama mostly do, some servers ignore it.
The answer is checked strictly in every case.
"""

from __future__ import annotations

import json
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from pydantic import BaseModel, Field

from memtape.errors import ModelFailed
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

ADDRESS = "https://api.openai.com/v1"  # given to the SDK, which would otherwise look in the environment


# The status of an error that is told in mid-stream, after the status 200: by its code or type. Of others it is 500.
_ERROR_STATUSES: Mapping[str, int] = {
    "invalid_request_error": 400, "context_length_exceeded": 400, "rate_limit_exceeded": 429, "insufficient_quota": 429,
    "overloaded_error": 503,
}  # fmt: skip


class _OpenAIMessage(BaseModel):
    content: str | None = None
    refusal: str | None = None


class _Choice(BaseModel):
    message: _OpenAIMessage
    finish_reason: str | None = None


class _PromptTokens(BaseModel):
    cached_tokens: int | None = None


class OpenAIUsage(BaseModel):
    """The tokens of a reply. Those that the cache gave are among `prompt_tokens`."""

    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    prompt_tokens_details: _PromptTokens | None = None

    @property
    def cached(self) -> CachedTokens:
        """The tokens that the cache gave; it tells of none that it stored."""
        details = self.prompt_tokens_details
        return CachedTokens(read=min((details and details.cached_tokens) or 0, self.prompt_tokens or 0))


class _Completion(BaseModel):
    choices: Sequence[_Choice] = Field(min_length=1)
    model: str = ""
    usage: OpenAIUsage | None = None


class _ErrorDetail(BaseModel):
    code: int
    message: str = ""


class _ErrorBody(BaseModel):
    """OpenRouter answers 200 and reports in the body that the provider behind it failed."""

    error: _ErrorDetail | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenAIModel:
    """A model at OpenAI, or at a server with the same API."""

    name: str
    api_key: str = field(repr=False)
    base_url: str = ADDRESS
    timeout: float
    retries: int
    price: Price | None = None

    @property
    def id(self) -> str:
        """The provider and the name."""
        return f"openai/{self.name}"

    def answer(self, system: str, user: str, form: AnswerForm, *, max_tokens: int, stable_chars: int = 0) -> ModelAnswer:
        """Ask one question. The SDK retries where that may help."""
        completion = parse_reply(self.id, _Completion, self._ask(system, user, form, max_tokens))
        first, usage = completion.choices[0], completion.usage or OpenAIUsage()
        return ModelReply(
            model=self.id, answered_by=completion.model or self.name, text=first.message.content or first.message.refusal or "",
            input_tokens=usage.prompt_tokens, output_tokens=usage.completion_tokens,
            refused=bool(first.message.refusal) or first.finish_reason == "content_filter",
            cut_off=first.finish_reason == "length", cached=usage.cached, price=self.price,
        ).read(form)  # fmt: skip

    def _ask(self, system: str, user: str, form: AnswerForm, max_tokens: int) -> bytes:
        return post_completion(
            self.name, api_key=self.api_key, base_url=self.base_url, timeout=self.timeout, retries=self.retries,
            max_tokens=max_tokens, messages=[{"role": "system", "content": system}, {"role": "user", "content": user}],
            response_format=strict_format(enforceable_schema(form.model_json_schema(), all_required=True)),
        )  # fmt: skip


def strict_format(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the `response_format` that has the server enforce a schema."""
    return {"type": "json_schema", "json_schema": {"name": "answer", "strict": True, "schema": dict(schema)}}


def post_completion(
    name: str, *, api_key: str, base_url: str, timeout: float, retries: int, max_tokens: int, **body: Any
) -> bytes:  # fmt: skip
    """Send a request to the chat completions API. Returns the body of the reply; raises ModelFailed without one."""
    import openai

    model = f"openai/{name}"
    client = openai.OpenAI(api_key=api_key, base_url=base_url, timeout=timeout, max_retries=retries)
    with _failures_told(model, base_url, timeout), client:
        limit = _limit(base_url, max_tokens)
        content = client.chat.completions.with_raw_response.create(model=name, extra_body=limit, **body).http_response.content
    if (failed := _reported_failure(model, content)) is not None:
        raise failed
    return content


def stream_completion(
    name: str, *, api_key: str, base_url: str, timeout: float, retries: int, max_tokens: int, **body: Any
) -> Generator[object]:  # fmt: skip
    """Send a request to the chat completions API and yield the chunks of its reply as they arrive. Raises ModelFailed.

    The timeout is for each chunk. The SDK retries until the reply begins, and no more after that.
    """
    import openai

    model = f"openai/{name}"
    client = openai.OpenAI(api_key=api_key, base_url=base_url, timeout=timeout, max_retries=retries)
    body |= {"extra_body": _limit(base_url, max_tokens), "stream_options": {"include_usage": True}}
    create = client.chat.completions.create
    with _failures_told(model, base_url, timeout), client, create(model=name, stream=True, **body) as stream:
        if "text/event-stream" not in stream.response.headers.get("content-type", ""):
            raise unreadable_reply(model, "body: it is not a stream")
        yield from stream


def _limit(base_url: str, max_tokens: int) -> dict[str, int]:
    # OpenAI's newer models refuse the old name of this limit. Most other servers know only the old name.
    return {"max_completion_tokens" if base_url == ADDRESS else "max_tokens": max_tokens}


@contextmanager
def _failures_told(model: str, base_url: str, timeout: float) -> Iterator[None]:
    """Tell every failure of the SDK as a ModelFailed."""
    import openai

    try:
        yield
    except openai.APIStatusError as error:
        raise status_failure(model, error.status_code, error_message(error.body), error.code) from None
    except openai.APITimeoutError:
        raise timeout_failure(model, timeout) from None
    except openai.APIConnectionError:
        raise connection_failure(model, base_url) from None
    except openai.APIError as error:
        raise status_failure(model, _status_of(error.code, error.type), error_message(error.body), error.code) from None
    except json.JSONDecodeError:
        raise unreadable_reply(model, "chunk: it is not JSON") from None


def _status_of(code: str | None, type: str | None) -> int:
    """The status of an error that has none. OpenRouter tells it as the code."""
    if code is not None and code.isdecimal() and 400 <= int(code) < 600:
        return int(code)
    return next((_ERROR_STATUSES[name] for name in (code or "", type or "") if name in _ERROR_STATUSES), 500)


def _reported_failure(model: str, body: bytes) -> ModelFailed | None:
    try:
        error = _ErrorBody.model_validate_json(body).error
    except ValueError:
        return None  # it is read, or refused, as a completion
    return status_failure(model, error.code, error.message) if error else None
