"""Language models that a host may plug in. One question gives one answer in a given form, or one `ModelFailed`.

A model is named `provider/name`. `anthropic/...` uses Anthropic's Messages API. `openai/...` uses the chat completions API of
OpenAI, OpenRouter, Ollama, vLLM and others; a setting gives the address. Neither SDK is imported before the first question.
Everything that goes wrong between the question and a valid answer is a `ModelFailed`. An answer is never repaired.

>>> model_of("stats")
Traceback (most recent call last):
memtape.errors.Invalid: model: 'stats' names no provider. Write anthropic/NAME or openai/NAME, like anthropic/claude-haiku-4-5
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import field
from decimal import Decimal
from difflib import get_close_matches
from importlib.util import find_spec
from typing import Any, Protocol, TypeVar

from pydantic import BaseModel, ValidationError

from memtape.core.brief.sanitize import one_line, redact_secrets
from memtape.core.near_names import meant
from memtape.core.value_class import dataclass
from memtape.core.values import read
from memtape.errors import Invalid, MissingExtra, ModelFailed
from memtape.plugs.answer_schema import without_optional_nulls
from memtape.plugs.prices import LIST_PRICES, NOT_CACHED, CachedTokens, Price, answer_cost, price_of

TIMEOUT_SECONDS = 60.0
RETRIES = 2
AnswerForm = type[BaseModel]  # its JSON schema goes to the provider; it checks the answer


@dataclass(frozen=True, slots=True)
class ModelAnswer:
    """A valid answer and its cost. None: the provider or the price list does not say."""

    data: dict[str, Any]  # JSON that was checked against the form
    input_tokens: int | None
    output_tokens: int | None
    cost_usd: Decimal | None
    model: str  # the provider's name of the model that answered
    cached_tokens: int | None = None  # of the input tokens, those that the provider found in its cache


class Model(Protocol):
    """A language model that answers in a given form."""

    @property
    def id(self) -> str:
        """The provider and the name: anthropic/claude-haiku-4-5."""

    @property
    def price(self) -> Price | None:
        """What its tokens cost; None if nobody says."""

    def answer(self, system: str, user: str, form: AnswerForm, *, max_tokens: int, stable_chars: int = 0) -> ModelAnswer:
        """Ask one question. Raises ModelFailed without a valid answer.

        The first `stable_chars` characters of `user` seldom change from one question to the next: a provider may cache them.
        """


@dataclass(frozen=True, slots=True)
class ModelAccess:
    """A model at its provider, with what its SDK needs to reach it."""

    provider: str
    name: str  # without its provider
    base_url: str | None  # None: the provider's own
    api_key: str = field(repr=False)
    price: Price | None = None  # None: not known

    @property
    def id(self) -> str:
        """The provider and the name."""
        return f"{self.provider}/{self.name}"


def model_access(
    name: str, *, base_url: str | None = None, api_key: str | None = None, prices: Mapping[str, Price] | None = None
) -> ModelAccess:
    """Returns how to reach the model of a name. Raises Invalid if the name or the key is wrong, MissingExtra without its SDK.

    `openai/...` with an address of its own needs no key: servers on the own machine often have none. `prices` by name come before
    the list prices.
    """
    provider, _, short = name.partition("/")
    if provider not in KEY_SETTINGS or not short:
        fix = "Write anthropic/NAME or openai/NAME, like anthropic/claude-haiku-4-5"
        raise Invalid("model", f"'{name}' names no provider", fix)
    if find_spec(provider) is None:
        raise MissingExtra(what=f"The model {name}", extra="llm")
    key = _key(provider, api_key, needed=provider == "anthropic" or base_url is None)
    return ModelAccess(provider, short, base_url, key, price_of(name, prices))


def model_of(
    name: str,
    *,
    base_url: str | None = None,
    api_key: str | None = None,
    timeout: float = TIMEOUT_SECONDS,
    retries: int = RETRIES,
    prices: Mapping[str, Price] | None = None,
) -> Model:
    """Returns the model of a name. `timeout` holds for each attempt; the SDK makes the `retries` and waits between them."""
    access = model_access(name, base_url=base_url, api_key=api_key, prices=prices)
    address = {"base_url": access.base_url} if access.base_url else {}
    if access.provider == "anthropic":
        from memtape.plugs.anthropic_model import AnthropicModel

        return AnthropicModel(
            name=access.name, api_key=access.api_key, timeout=timeout, retries=retries, price=access.price, **address
        )
    from memtape.plugs.openai_model import OpenAIModel

    return OpenAIModel(
        name=access.name, api_key=access.api_key, timeout=timeout, retries=retries, price=access.price, **address
    )


STATS_REFLECTOR = "stats"  # memtape itself: no model
LIKE_A_FAMILY = 0.85  # claude-hiaku is like claude-haiku; claude-opal, which may come one day, is not like claude-opus
_WORDS = re.compile("[a-z]+")


def check_reflector(name: str) -> None:
    """Raises Invalid unless a name is `stats` or that of a model at a known provider. It needs no SDK and no key.

    Providers add models, so a name that is new is accepted; one that is a slip of the keyboard in a known name is not.

    >>> check_reflector("stats"), check_reflector("openai/qwen3:8b"), check_reflector("anthropic/claude-haiku-9")
    (None, None, None)
    >>> check_reflector("anthropic/claude-sonet-4-5")
    Traceback (most recent call last):
    memtape.errors.Invalid: memory.reflection.model: 'claude-sonet-4-5' is no known model. Did you mean claude-sonnet-4-5 or ...?
    """
    provider, _, short = name.partition("/")
    if name != STATS_REFLECTOR and (provider not in KEY_SETTINGS or not short.strip()):
        fix = "Write stats (memtape itself), anthropic/NAME or openai/NAME, like anthropic/claude-haiku-4-5"
        raise Invalid("memory.reflection.model", f"'{name}' names no reflector", fix)
    if provider == "anthropic" and (near := _meant_family(short)):
        raise Invalid("memory.reflection.model", f"'{short}' is no known model", near)


def _meant_family(short: str) -> str:
    """Returns which model of Anthropic may be meant; empty if the words of the name are known, or like no known ones."""

    def words(of: str) -> str:
        return "-".join(_WORDS.findall(of))

    families = {words(known): known for known in sorted(LIST_PRICES, reverse=True) if known.startswith("claude")}
    near = [] if words(short) in families else get_close_matches(words(short), families, n=1, cutoff=LIKE_A_FAMILY)
    return meant(short, [known for known in LIST_PRICES if words(known) == near[0]]) if near else ""


KEY_SETTINGS = {"anthropic": "ANTHROPIC_API_KEY", "openai": "OPENAI_API_KEY"}


def _key(provider: str, given: str | None, needed: bool) -> str:
    key = (given or "").strip()
    if not key and needed:
        raise Invalid("api_key", f"is missing for {provider}", f"Set {KEY_SETTINGS[provider]}")
    if not all("!" <= letter <= "~" for letter in key):
        raise Invalid(
            "api_key", f"of {provider} contains a space or a character that no key has", f"Check {KEY_SETTINGS[provider]}"
        )
    return key or "none"


# ---- reading a reply ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ModelReply:
    """The reply of a provider, in terms that all providers share."""

    model: str  # with its provider
    text: str
    answered_by: str
    input_tokens: int | None
    output_tokens: int | None
    refused: bool = False
    cut_off: bool = False  # stopped at the limit of tokens
    cached: CachedTokens = NOT_CACHED
    price: Price | None = None

    def read(self, form: AnswerForm) -> ModelAnswer:
        """Returns the answer. Raises ModelFailed if it is not valid JSON of this form."""
        if self.refused:
            raise self.failed("refused", f"refused to answer{_quoted(self.text)}", retry_later=False)
        if self.cut_off:
            raise self.failed("cut_off", "the answer was cut off at the token limit")
        if not self.text.strip():
            raise self.failed("empty", "the answer is empty")
        try:
            # A provider that wants every field writes null for one that is optional.
            data = without_optional_nulls(strict_json(self.text), form.model_json_schema())
        except (ValueError, RecursionError) as problem:
            raise self.failed("not_json", f"the answer is not JSON ({one_line(str(problem), 120)})") from None
        try:
            read(form, data, at="answer")
        except Invalid as wrong:
            # The text quotes the answer.
            line = one_line(redact_secrets(str(wrong)), 300).rstrip(".")
            raise self.failed("off_schema", f"the answer does not fit the schema: {line}") from None
        assert isinstance(data, dict)
        return ModelAnswer(data, self.input_tokens, self.output_tokens, self.cost, self.answered_by, self.cached.read)

    @property
    def cost(self) -> Decimal | None:
        """The cost of this reply, valid or not."""
        return answer_cost(self.price, self.input_tokens, self.output_tokens, self.cached)

    def failed(self, what: str, problem: str, retry_later: bool = True) -> ModelFailed:
        """Returns a failure with the tokens and the cost of this reply."""
        return ModelFailed(
            self.model, problem, what=what, status=200, retry_later=retry_later,
            input_tokens=self.input_tokens, output_tokens=self.output_tokens, cost_usd=self.cost, cached_tokens=self.cached.read,
        )  # fmt: skip


_FENCED = re.compile(r"\A\s*```(?:json)?[ \t]*\n(.*)\n[ \t]*```\s*\Z", re.DOTALL)


def strict_json(text: str) -> Any:
    """Parses a text that is one JSON value, perhaps in a code fence. Refuses duplicate names and numbers that are not finite.

    >>> strict_json('```json\\n{"n": 3}\\n```'), strict_json(' [1.5] ')
    ({'n': 3}, [1.5])
    >>> strict_json('Here you are: {"n": 3}')
    Traceback (most recent call last):
    json.decoder.JSONDecodeError: Expecting value: line 1 column 1 (char 0)
    """
    fenced = _FENCED.match(text)
    data = json.loads(
        fenced[1] if fenced else text, object_pairs_hook=_unique_names, parse_float=_finite, parse_constant=_finite
    )  # fmt: skip
    # Half a surrogate pair, written as an escape, cannot be stored: encoding raises ValueError.
    json.dumps(data, ensure_ascii=False).encode()
    return data


def _unique_names(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    data = dict(pairs)
    if len(data) < len(pairs):
        raise ValueError("a name occurs twice in one object")
    return data


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text} is not a number")
    return number


# ---- failures --------------------------------------------------------------------------------------------

W = TypeVar("W", bound=BaseModel)


def parse_reply(model: str, form: type[W], body: bytes) -> W:
    """Parses a body in the provider's form. Raises ModelFailed for anything else, like a proxy's page or half a body."""
    try:
        return form.model_validate_json(body)
    except ValidationError as error:
        raise _unreadable(model, error) from None


def parse_event(model: str, form: type[W], event: object) -> W:
    """Parses one event of a streamed reply, as its SDK gives it. Raises ModelFailed if it is not in the provider's form."""
    # The SDKs check nothing: what is not an object comes as it is.
    data = event.model_dump(exclude_unset=True, warnings=False) if isinstance(event, BaseModel) else event
    try:
        return form.model_validate(data)
    except ValidationError as error:
        raise _unreadable(model, error) from None


def _unreadable(model: str, error: ValidationError) -> ModelFailed:
    first = error.errors(include_url=False, include_input=False)[0]
    where = ".".join(map(str, first["loc"]))
    return unreadable_reply(model, f"{where or 'body'}: {first['msg'][:80]}")


def unreadable_reply(model: str, why: str) -> ModelFailed:
    """Returns the failure when a reply is not in the provider's form."""
    return ModelFailed(model, f"the reply is not in the provider's form ({why})", what="unreadable", status=200)


# With these and all of 500 and above the provider is busy or broken. With others the question, the key or the name is wrong.
_TEMPORARY = {408: "timed_out", 409: "busy", 425: "busy", 429: "rate_limited", 503: "overloaded", 529: "overloaded"}
_PERMANENT = {400: "bad_request", 401: "not_allowed", 402: "not_paid", 403: "not_allowed", 404: "not_found", 413: "too_long"}


def error_message(body: object) -> str:
    """Returns the provider's message in the body of an error. One SDK passes the whole body, the other its inner part.

    >>> error_message({"type": "error", "error": {"message": "slow down"}}), error_message({"message": "slow down"})
    ('slow down', 'slow down')
    """
    inner = body.get("error", body) if isinstance(body, dict) else body
    return str((inner.get("message") or "") if isinstance(inner, dict) else (inner or ""))


# A question with too many tokens is a bad request in these words; the status 413 is for too many bytes.
_TOO_LONG = re.compile(r"prompt is too long|context_length_exceeded|maximum context length|context window", re.IGNORECASE)


def status_failure(model: str, status: int, message: str, code: str | None = None) -> ModelFailed:
    """Returns the failure for an HTTP status of the provider, and perhaps a code of its own.

    >>> failed = status_failure("openai/gpt-5-mini", 429, "slow down")
    >>> failed.what, failed.retry_later, str(failed)
    ('rate_limited', True, "openai/gpt-5-mini: rate limited (429): 'slow down'. Retrying may help")
    """
    temporary = status in _TEMPORARY or status >= 500
    what = _TEMPORARY.get(status) or _PERMANENT.get(status) or ("server_error" if status >= 500 else "bad_request")
    if what == "bad_request" and _TOO_LONG.search(f"{message} {code}"):
        what = "too_long"
    return ModelFailed(
        model, f"{what.replace('_', ' ')} ({status}){_quoted(message)}", what=what, status=status, retry_later=temporary
    )


def timeout_failure(model: str, seconds: float) -> ModelFailed:
    """Returns the failure when no attempt got a reply in time."""
    return ModelFailed(model, f"no reply within {seconds:g} s", what="timed_out")


def connection_failure(model: str, address: str) -> ModelFailed:
    """Returns the failure when no attempt could connect, or every connection broke."""
    return ModelFailed(model, f"no connection to {address}", what="unreachable")


def _quoted(text: str) -> str:
    """Quotes a provider's text. It is stored and shown, so it is short, in one line and without keys."""
    line = one_line(redact_secrets(text), 160)
    return f": '{line}'" if line else ""
