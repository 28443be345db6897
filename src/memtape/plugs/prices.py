"""What the tokens of a model cost: list prices, and the owner's own. Everything that asks a model computes its cost here.

>>> answer_cost(price_of("anthropic/claude-haiku-4-5-20251001"), 1_200, 300)
Decimal('0.0027')
>>> price_of("openai/llama3.2") is None
True
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from decimal import Decimal, InvalidOperation
from typing import NamedTuple

from memtape.errors import Invalid

MILLION = 1_000_000
CACHE_WRITE_FACTOR, CACHE_READ_FACTOR = Decimal("1.25"), Decimal("0.1")  # of the price of an input token, at Anthropic
PRICES_SETTING = "MEMTAPE_PRICES"


class Price(NamedTuple):
    """US dollars for a million tokens."""

    input: Decimal
    output: Decimal
    max_input_tokens: int | None = None  # a longer question has another price
    cached_input: Decimal | None = None  # of tokens that the provider found in its cache; None: as other input

    def at_most(self, input_tokens: int, output_tokens: int) -> Decimal | None:
        """Returns the most that an answer with so many tokens costs; None if a question of this length has another price."""
        return answer_cost(self, input_tokens, output_tokens, CachedTokens(written=input_tokens))


def _claude(input: str, output: str, max_input_tokens: int | None = None) -> Price:
    return Price(Decimal(input), Decimal(output), max_input_tokens, Decimal(input) * CACHE_READ_FACTOR)


def _gpt(input: str, output: str, cached_input: str | None = None) -> Price:
    return Price(Decimal(input), Decimal(output), None, None if cached_input is None else Decimal(cached_input))


# List prices without discounts: Anthropic's of November 2026, OpenAI's of June 2026. The cost of other models is None.
LIST_PRICES: Mapping[str, Price] = {
    "claude-haiku-4-5": _claude("1", "5"), "claude-haiku-5-5": _claude("0.10", "0.50", 100_000),
    "claude-sonnet-4-5": _claude("3", "15"), "claude-sonnet-5-5": _claude("2", "10"),
    "claude-opus-5": _claude("5", "25"), "claude-opus-5-5": _claude("4", "20"),
    "gpt-4o-mini": _gpt("0.15", "0.60", "0.075"), "gpt-4.1": _gpt("2", "8", "0.50"), "gpt-4.1-mini": _gpt("0.40", "1.60", "0.10"),
    "gpt-5-mini": _gpt("0.25", "2", "0.025"), "gpt-5-nano": _gpt("0.05", "0.40", "0.005"),
    "gpt-5.4-mini": _gpt("0.75", "4.50"), "gpt-5.4-nano": _gpt("0.20", "1.25"),
}  # fmt: skip
_SNAPSHOT_DATE = re.compile(r"-(\d{8}|\d{4}-\d{2}-\d{2})$")  # a dated snapshot has the price of its model


class CachedTokens(NamedTuple):
    """The input tokens of a question that the provider stored in its cache, and those it found there."""

    written: int = 0
    read: int = 0


NOT_CACHED = CachedTokens()


def price_of(name: str, own: Mapping[str, Price] | None = None) -> Price | None:
    """Returns the price of a model, `provider/name`: the owner's own, else the list price; None if neither names it."""
    undated, short = _SNAPSHOT_DATE.sub("", name), name.partition("/")[2]
    for prices, names in ((own or {}, (name, undated)), (LIST_PRICES, (short, _SNAPSHOT_DATE.sub("", short)))):
        if (found := next((prices[each] for each in names if each in prices), None)) is not None:
            return found
    return None


def answer_cost(
    price: Price | None, input_tokens: int | None, output_tokens: int | None, cached: CachedTokens = NOT_CACHED
) -> Decimal | None:
    """Returns the cost of an answer; None if the price or the tokens are unknown.

    `input_tokens` are all of them; the cached ones among them have prices of their own.

    >>> answer_cost(price_of("anthropic/claude-haiku-4-5"), 1_200, 300, CachedTokens(read=1_000))
    Decimal('0.0018')
    """
    if price is None or input_tokens is None or output_tokens is None or (price.max_input_tokens or input_tokens) < input_tokens:
        return None
    plain = input_tokens - cached.written - cached.read
    read = price.input if price.cached_input is None else price.cached_input
    billed = price.input * (plain + CACHE_WRITE_FACTOR * cached.written) + read * cached.read
    return (billed + price.output * output_tokens).normalize() / MILLION


def parse_prices(text: str) -> dict[str, Price]:
    """Reads prices as a setting states them: `provider/name=INPUT/OUTPUT`, or with the price of cached input as a third number.

    >>> parse_prices("openai/qwen3:8b=0.1/0.4, anthropic/claude-next=2/10/0.2")["openai/qwen3:8b"].output
    Decimal('0.4')
    >>> parse_prices("qwen3=cheap")
    Traceback (most recent call last):
    memtape.errors.Invalid: MEMTAPE_PRICES: 'qwen3=cheap' is no price. Write provider/name=INPUT/OUTPUT in US dollars for a ...
    """
    found: dict[str, Price] = {}
    for part in filter(None, (each.strip() for each in text.split(","))):
        name, _, amounts = part.rpartition("=")
        try:
            numbers = [Decimal(amount.strip()) for amount in amounts.split("/")]
        except InvalidOperation:
            numbers = []
        provider, _, short = name.strip().partition("/")
        if len(numbers) not in (2, 3) or not all(n.is_finite() and n >= 0 for n in numbers) or not short:
            fix = "Write provider/name=INPUT/OUTPUT in US dollars for a million tokens, like openai/qwen3:8b=0.10/0.40"
            raise Invalid(PRICES_SETTING, f"'{part}' is no price", fix)
        usual = numbers[0] * CACHE_READ_FACTOR if provider == "anthropic" else None
        found[name.strip()] = Price(numbers[0], numbers[1], None, numbers[2] if len(numbers) == 3 else usual)
    return found
