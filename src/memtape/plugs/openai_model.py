"""Models that are asked by chat completions: OpenAI's own, and those of the many servers that speak like OpenAI's.

The schema goes along as `response_format`; OpenAI and OpenRouter enforce it, vLLM and Ollama mostly do, some servers ignore it.
The answer is read strictly in every case.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from pydantic import BaseModel, Field

from memtape.errors import ModelFailed
from memtape.plugs.models import ModelAnswer, Reply, Schema, by_status, said_in, timed_out, unreachable, wire

ADDRESS = "https://api.openai.com/v1"  # said to the SDK, which would else look for one in the environment


class _OpenAIMessage(BaseModel):
    content: str | None = None
    refusal: str | None = None


class _Choice(BaseModel):
    message: _OpenAIMessage
    finish_reason: str | None = None


class _OpenAIUsage(BaseModel):
    prompt_tokens: int | None = None
    completion_tokens: int | None = None


class _Completion(BaseModel):
    choices: Sequence[_Choice] = Field(min_length=1)
    model: str = ""
    usage: _OpenAIUsage | None = None


class _Fault(BaseModel):
    code: int
    message: str = ""


class _Faulty(BaseModel):
    """OpenRouter says 200 and then, in the body, that the provider behind it failed."""

    error: _Fault | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenAIModel:
    """A model at OpenAI's address, or at one that speaks like it."""

    name: str
    api_key: str = field(repr=False)
    base_url: str = ADDRESS
    timeout: float
    retries: int

    @property
    def id(self) -> str:
        """Its name with its provider."""
        return f"openai/{self.name}"

    def answer(self, system: str, user: str, schema: Schema, *, max_tokens: int) -> ModelAnswer:
        """One question, one answer; the SDK tries again where that may help."""
        body = self._ask(system, user, schema, max_tokens)
        if (failed := self._fault(body)) is not None:
            raise failed
        completion = wire(self.id, _Completion, body)
        first, usage = completion.choices[0], completion.usage or _OpenAIUsage()
        return Reply(
            model=self.id, answered_by=completion.model or self.name, text=first.message.content or first.message.refusal or "",
            input_tokens=usage.prompt_tokens, output_tokens=usage.completion_tokens,
            refused=bool(first.message.refusal) or first.finish_reason == "content_filter", cut=first.finish_reason == "length",
        ).read(schema)  # fmt: skip

    def _ask(self, system: str, user: str, schema: Schema, max_tokens: int) -> bytes:
        import openai

        client = openai.OpenAI(api_key=self.api_key, base_url=self.base_url, timeout=self.timeout, max_retries=self.retries)
        # OpenAI's newer models refuse the old name of this limit; most other servers know only that.
        limit = "max_completion_tokens" if self.base_url == ADDRESS else "max_tokens"
        try:
            with client:
                return client.chat.completions.with_raw_response.create(
                    model=self.name, messages=[{"role": "system", "content": system}, {"role": "user", "content": user}],
                    response_format={
                        "type": "json_schema", "json_schema": {"name": "answer", "strict": True, "schema": dict(schema)},
                    },
                    extra_body={limit: max_tokens},
                ).http_response.content  # fmt: skip
        except openai.APIStatusError as error:
            raise by_status(self.id, error.status_code, said_in(error.body)) from None
        except openai.APITimeoutError:
            raise timed_out(self.id, self.timeout) from None
        except openai.APIConnectionError:
            raise unreachable(self.id, self.base_url) from None

    def _fault(self, body: bytes) -> ModelFailed | None:
        try:
            fault = _Faulty.model_validate_json(body).error
        except ValueError:
            return None  # not of this form: read, or refused, as a completion
        return by_status(self.id, fault.code, fault.message) if fault else None
