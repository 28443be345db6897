"""Language models that a host may plug in: asked once, answered by schema, or failed with a clear record.

A model is named `provider/name`. `anthropic/...` speaks Anthropic's Messages, `openai/...` the chat completions that OpenAI,
OpenRouter, Ollama, vLLM and others serve: set the address. Neither SDK is imported before a question is asked. Whatever goes
wrong between the question and data that fits the schema is one `ModelFailed`; an answer is never repaired.

>>> model_of("stats")
Traceback (most recent call last):
memtape.errors.Invalid: model: 'stats' names no provider. Write anthropic/NAME or openai/NAME, like anthropic/claude-haiku-4-5
>>> cost("claude-haiku-4-5-20251001", 1_200, 300)
Decimal('0.0027')
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from importlib.util import find_spec
from typing import Any, NamedTuple, Protocol, TypeVar

from pydantic import BaseModel, ValidationError

from memtape.core.brief.sanitize import one_line, redact_secrets
from memtape.errors import Invalid, MissingExtra, ModelFailed

TIMEOUT_SECONDS = 60.0
RETRIES = 2
Schema = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ModelAnswer:
    """What a model said, as data that fits the schema, and what it cost. None: the provider or our price list does not say."""

    data: dict[str, Any]
    input_tokens: int | None
    output_tokens: int | None
    cost_usd: Decimal | None
    model: str  # as the provider names what answered


class Model(Protocol):
    """Something that answers a question by a schema."""

    @property
    def id(self) -> str:
        """Its name with its provider: anthropic/claude-haiku-4-5."""

    def answer(self, system: str, user: str, schema: Schema, *, max_tokens: int) -> ModelAnswer:
        """The answer, or `ModelFailed`."""


def model_of(
    name: str,
    *,
    base_url: str | None = None,
    api_key: str | None = None,
    timeout: float = TIMEOUT_SECONDS,
    retries: int = RETRIES,
) -> Model:
    """The model of a name. `timeout` is for each attempt; `retries` are those of the SDK, which waits between them.

    A model of one's own machine needs no key: `openai/...` with an address asks without one.
    """
    provider, _, short = name.partition("/")
    if provider not in KEYS or not short:
        fix = "Write anthropic/NAME or openai/NAME, like anthropic/claude-haiku-4-5"
        raise Invalid("model", f"'{name}' names no provider", fix)
    if find_spec(provider) is None:
        raise MissingExtra(what=f"The model {name}", extra="llm")
    key = _key(provider, api_key, needed=provider == "anthropic" or base_url is None)
    there = {"base_url": base_url} if base_url else {}
    if provider == "anthropic":
        from memtape.plugs.anthropic_model import AnthropicModel

        return AnthropicModel(name=short, api_key=key, timeout=timeout, retries=retries, **there)
    from memtape.plugs.openai_model import OpenAIModel

    return OpenAIModel(name=short, api_key=key, timeout=timeout, retries=retries, **there)


KEYS = {"anthropic": "ANTHROPIC_API_KEY", "openai": "OPENAI_API_KEY"}


def _key(provider: str, given: str | None, needed: bool) -> str:
    key = (given or "").strip()
    if not key and needed:
        raise Invalid("api_key", f"there is none for {provider}", f"Set {KEYS[provider]}")
    if not all("!" <= letter <= "~" for letter in key):
        raise Invalid("api_key", f"that of {provider} has a space or a letter that no key has", f"Check {KEYS[provider]}")
    return key or "none"


# ---- what it costs -----------------------------------------------------------------------------------------------------


class Price(NamedTuple):
    """US dollars for a million tokens."""

    input: Decimal
    output: Decimal
    up_to: int | None = None  # input tokens; a longer question has another price


def _price(input: str, output: str, up_to: int | None = None) -> Price:
    return Price(Decimal(input), Decimal(output), up_to)


# List prices, without discounts: Anthropic's of November 2026, OpenAI's of June 2026. A model that is not here costs None.
PRICES: Mapping[str, Price] = {
    "claude-haiku-4-5": _price("1", "5"), "claude-haiku-5-5": _price("0.10", "0.50", 100_000),
    "claude-sonnet-4-5": _price("3", "15"), "claude-sonnet-5-5": _price("2", "10"),
    "claude-opus-5": _price("5", "25"), "claude-opus-5-5": _price("4", "20"),
    "gpt-4o-mini": _price("0.15", "0.60"), "gpt-4.1": _price("2", "8"), "gpt-4.1-mini": _price("0.40", "1.60"),
    "gpt-5-mini": _price("0.25", "2"), "gpt-5-nano": _price("0.05", "0.40"),
    "gpt-5.4-mini": _price("0.75", "4.50"), "gpt-5.4-nano": _price("0.20", "1.25"),
}  # fmt: skip
_DATED = re.compile(r"-(\d{8}|\d{4}-\d{2}-\d{2})$")  # a snapshot costs what its model costs


def cost(name: str, input_tokens: int | None, output_tokens: int | None) -> Decimal | None:
    """What an answer costs by the list; None where the model or the tokens are not known."""
    price = PRICES.get(_DATED.sub("", name))
    if price is None or input_tokens is None or output_tokens is None or (price.up_to or input_tokens) < input_tokens:
        return None
    return (price.input * input_tokens + price.output * output_tokens) / 1_000_000


# ---- from a reply to data ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Reply:
    """What a provider sent back, in the words that both have in common."""

    model: str  # as we name it
    text: str
    answered_by: str
    input_tokens: int | None
    output_tokens: int | None
    refused: bool = False
    cut: bool = False  # stopped at the limit of tokens

    def read(self, schema: Schema) -> ModelAnswer:
        """The data, if all is well with it."""
        if self.refused:
            raise self.failed("refused", f"refused to answer{_said(self.text)}", retry_later=False)
        if self.cut:
            raise self.failed("cut_off", "the answer was cut off at the limit of tokens")
        if not self.text.strip():
            raise self.failed("empty", "the answer is empty")
        try:
            data = strict_json(self.text)
        except (ValueError, RecursionError) as problem:
            raise self.failed("not_json", f"the answer is not JSON ({one_line(str(problem), 120)})") from None
        if (wrong := misfit(data, schema)) is not None:
            raise self.failed("off_schema", f"the answer does not fit the schema: {wrong}")
        assert isinstance(data, dict)
        return ModelAnswer(data, self.input_tokens, self.output_tokens, self.cost, self.answered_by)

    @property
    def cost(self) -> Decimal | None:
        """What it cost, whatever it is worth."""
        return cost(self.model.partition("/")[2], self.input_tokens, self.output_tokens)

    def failed(self, what: str, problem: str, retry_later: bool = True) -> ModelFailed:
        """This reply, as a failure with what it cost."""
        return ModelFailed(
            self.model, problem, what=what, status=200, retry_later=retry_later,
            input_tokens=self.input_tokens, output_tokens=self.output_tokens, cost_usd=self.cost,
        )  # fmt: skip


_FENCED = re.compile(r"\A\s*```(?:json)?[ \t]*\n(.*)\n[ \t]*```\s*\Z", re.DOTALL)


def strict_json(text: str) -> Any:
    """JSON and nothing beside it; servers that ignore the schema may put a fence around the whole. No name twice, no NaN.

    >>> strict_json('```json\\n{"n": 3}\\n```'), strict_json(' [1.5] ')
    ({'n': 3}, [1.5])
    >>> strict_json('Here you are: {"n": 3}')
    Traceback (most recent call last):
    json.decoder.JSONDecodeError: Expecting value: line 1 column 1 (char 0)
    """
    fenced = _FENCED.match(text)
    data = json.loads(
        fenced[1] if fenced else text, object_pairs_hook=_each_once, parse_float=_finite, parse_constant=_finite
    )  # fmt: skip
    json.dumps(data, ensure_ascii=False).encode()  # half a surrogate pair, spelled as an escape, cannot be stored
    return data


def _each_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    data = dict(pairs)
    if len(data) < len(pairs):
        raise ValueError("a name stands twice in one object")
    return data


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text} is not a number")
    return number


_TYPES: Mapping[str, type | tuple[type, ...]] = {
    "object": dict, "array": list, "string": str, "number": (int, float), "integer": int, "boolean": bool, "null": type(None),
}  # fmt: skip


def misfit(value: object, schema: Schema, at: str = "answer") -> str | None:
    """The first place where data breaks a schema; None: it fits.

    Knows the words that both providers enforce: type, enum, properties, required, additionalProperties, items.

    >>> misfit({"n": "3"}, {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]})
    'answer.n is not of type integer'
    """
    kind = schema.get("type")
    if kind is not None and (not isinstance(value, _TYPES[kind]) or (isinstance(value, bool) and kind != "boolean")):
        return f"{at} is not of type {kind}"
    if "enum" in schema and value not in schema["enum"]:
        return f"{at} is none of {', '.join(map(str, schema['enum']))}"
    if isinstance(value, dict):
        return _misfit_object(value, schema, at)
    if isinstance(value, list) and "items" in schema:
        return next((wrong for n, one in enumerate(value) if (wrong := misfit(one, schema["items"], f"{at}[{n}]"))), None)
    return None


def _misfit_object(value: dict[str, Any], schema: Schema, at: str) -> str | None:
    known = schema.get("properties", {})
    missing = [name for name in schema.get("required", ()) if name not in value]
    if missing:
        return f"{at}.{missing[0]} is missing"
    beyond = [name for name in value if name not in known]
    if beyond and schema.get("additionalProperties") is False:
        return f"{at} has '{one_line(beyond[0], 40)}', which nobody asked for"
    return next((wrong for name in known if name in value if (wrong := misfit(value[name], known[name], f"{at}.{name}"))), None)


# ---- when there is no reply --------------------------------------------------------------------------------------------

W = TypeVar("W", bound=BaseModel)


def wire(model: str, form: type[W], body: bytes) -> W:
    """A reply in its provider's form; anything else (a proxy's page, half a body) is a failure."""
    try:
        return form.model_validate_json(body)
    except ValidationError as problem:
        first = problem.errors(include_url=False, include_input=False)[0]
        where = ".".join(map(str, first["loc"]))
        said = f"the reply is not in the provider's form ({where or 'body'}: {first['msg'][:80]})"
        raise ModelFailed(model, said, what="unreadable", status=200) from None


# Which statuses pass: the provider is busy or broken. With the others the question, the key or the name is at fault.
_PASSING = {408: "timed_out", 409: "busy", 425: "busy", 429: "rate_limited", 503: "overloaded", 529: "overloaded"}
_LASTING = {400: "bad_request", 401: "not_allowed", 402: "not_paid", 403: "not_allowed", 404: "not_found", 413: "too_long"}


def said_in(body: object) -> str:
    """The provider's own words in the body of an error; one SDK hands over the whole of it, the other its inner part.

    >>> said_in({"type": "error", "error": {"message": "slow down"}}), said_in({"message": "slow down"}), said_in(None)
    ('slow down', 'slow down', '')
    """
    inner = body.get("error", body) if isinstance(body, dict) else body
    return str((inner.get("message") or "") if isinstance(inner, dict) else (inner or ""))


def by_status(model: str, status: int, said: str) -> ModelFailed:
    """A refusal by the provider's server.

    >>> failed = by_status("openai/gpt-5-mini", 429, "slow down")
    >>> failed.what, failed.retry_later, str(failed)
    ('rate_limited', True, "openai/gpt-5-mini: rate limited (429): 'slow down'. Retrying may help")
    """
    passing = status in _PASSING or status >= 500
    what = _PASSING.get(status) or _LASTING.get(status) or ("server_error" if status >= 500 else "bad_request")
    return ModelFailed(model, f"{what.replace('_', ' ')} ({status}){_said(said)}", what=what, status=status, retry_later=passing)


def timed_out(model: str, seconds: float) -> ModelFailed:
    """No reply in time, at any attempt."""
    return ModelFailed(model, f"no reply within {seconds:g} s", what="timed_out")


def unreachable(model: str, address: str) -> ModelFailed:
    """No connection, or one that broke, at any attempt."""
    return ModelFailed(model, f"no connection to {address}", what="unreachable")


def _said(text: str) -> str:
    """The provider's own words: stored and shown, so short, in one line and without keys."""
    line = one_line(redact_secrets(text), 160)
    return f": '{line}'" if line else ""
