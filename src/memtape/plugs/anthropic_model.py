"""Claude by Anthropic's Messages API, its answer held to a JSON schema by the API itself (`output_config.format`).

A forced tool would do on older models too, but newer ones think before they answer, and then no tool can be forced. The format
comes back as plain text either way, so that a server that ignores it is read in the same strict manner.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from pydantic import BaseModel

from memtape.plugs.models import ModelAnswer, Reply, Schema, by_status, said_in, timed_out, unreachable, wire

ADDRESS = "https://api.anthropic.com"  # said to the SDK, which would else look for one in the environment


class _Block(BaseModel):
    type: str
    text: str | None = None


class _AnthropicUsage(BaseModel):
    input_tokens: int | None = None
    output_tokens: int | None = None


class _AnthropicMessage(BaseModel):
    content: Sequence[_Block]
    model: str = ""
    stop_reason: str | None = None
    usage: _AnthropicUsage = _AnthropicUsage()


@dataclass(frozen=True, slots=True, kw_only=True)
class AnthropicModel:
    """A model at Anthropic's address, or at one that speaks like it."""

    name: str
    api_key: str = field(repr=False)
    base_url: str = ADDRESS
    timeout: float
    retries: int

    @property
    def id(self) -> str:
        """Its name with its provider."""
        return f"anthropic/{self.name}"

    def answer(self, system: str, user: str, schema: Schema, *, max_tokens: int) -> ModelAnswer:
        """One question, one answer; the SDK tries again where that may help."""
        message = wire(self.id, _AnthropicMessage, self._ask(system, user, schema, max_tokens))
        return Reply(
            model=self.id, answered_by=message.model or self.name,
            text="".join(block.text or "" for block in message.content if block.type == "text"),
            input_tokens=message.usage.input_tokens, output_tokens=message.usage.output_tokens,
            refused=message.stop_reason == "refusal",
            cut=message.stop_reason in ("max_tokens", "model_context_window_exceeded"),
        ).read(schema)  # fmt: skip

    def _ask(self, system: str, user: str, schema: Schema, max_tokens: int) -> bytes:
        import anthropic

        client = anthropic.Anthropic(
            api_key=self.api_key, base_url=self.base_url, timeout=self.timeout, max_retries=self.retries
        )  # fmt: skip
        try:
            with client:
                return client.messages.with_raw_response.create(
                    model=self.name, max_tokens=max_tokens, system=system, messages=[{"role": "user", "content": user}],
                    output_config={"format": {"type": "json_schema", "schema": dict(schema)}},
                ).http_response.content  # fmt: skip
        except anthropic.APIStatusError as error:
            raise by_status(self.id, error.status_code, said_in(error.body)) from None
        except anthropic.APITimeoutError:
            raise timed_out(self.id, self.timeout) from None
        except anthropic.APIConnectionError:
            raise unreachable(self.id, self.base_url) from None
