"""Notes on what a question asks for and no memory has: a label, a strategy or a symbol that nobody ever traded by.

Such a question is legal and its answer is true, but a spelling mistake looks the same as an absence. The note names what exists.

>>> from dataclasses import replace
>>> known = KnownValues(symbols=("BTC-USD", "BTCUSDT", "EURUSD"), sessions=("asia", "london"))
>>> label_notes({"session": "frankfurtt", "regime": None}, known)
["no memory has session 'frankfurtt'; known: asia, london"]
>>> symbol_notes("BTCUSD", known), symbol_notes("EURUSD", known)
(['no memory of BTCUSD; did you mean BTC-USD or BTCUSDT?'], [])
>>> label_notes({"session": "lonon"}, known), strategy_notes("brekout", replace(known, strategies=("breakout",)))
(["no memory has session 'lonon'; did you mean london?"], ["no memory of the strategy 'brekout'; did you mean breakout?"])
>>> label_notes({"regime": "ranging"}, known)
['no memory has a regime']
>>> symbol_notes("XAUUSD", known)
['no memory of XAUUSD; known: BTC-USD, BTCUSDT, EURUSD']
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from difflib import SequenceMatcher

from memtape.core.near_names import MAX_NEAR, either, near_names
from memtape.core.observed import ANY
from memtape.core.value_class import dataclass

NEAR_SYMBOL_RATIO = 0.75  # how alike two symbols are, letters and digits only, of which one may be meant for the other
MAX_KNOWN = 8  # how many are named
_FIELDS = (("regime", "regimes"), ("volatility_regime", "volatilities"), ("session", "sessions"))


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownValues:
    """The symbols, strategies and labels of an agent's memories, each in order of the alphabet."""

    symbols: tuple[str, ...] = ()
    strategies: tuple[str, ...] = ()
    regimes: tuple[str, ...] = ()
    volatilities: tuple[str, ...] = ()
    sessions: tuple[str, ...] = ()


def label_notes(asked: Mapping[str, object], known: KnownValues) -> list[str]:
    """Returns a note for each label of a question that no memory has; none while there are no memories to compare with."""
    if not known.symbols:
        return []
    found: list[str] = []
    for field, values in _FIELDS:
        value, existing = asked.get(field), getattr(known, values)
        if isinstance(value, str) and value != ANY and value not in existing:
            name = field.removesuffix("_regime")
            if near := near_names(value, existing):
                found.append(f"no memory has {name} '{value}'; did you mean {either(near)}?")
            else:
                found.append(f"no memory has {name} '{value}'; {_known(existing)}" if existing else f"no memory has a {name}")
    return found


def symbol_notes(asked: str | None, known: KnownValues) -> list[str]:
    """Returns a note if no memory has the symbol of a question: with those that may be meant, else with those that exist."""
    if asked is None or asked in known.symbols or not known.symbols:
        return []
    if near := near_symbols(asked, known.symbols):
        return [f"no memory of {asked}; did you mean {either(near)}?"]
    return [f"no memory of {asked}; {_known(known.symbols)}"]


def strategy_notes(asked: str | None, known: KnownValues) -> list[str]:
    """Returns a note if no memory has the strategy of a question."""
    if asked is None or asked in known.strategies or not known.strategies:
        return []
    if near := near_names(asked, known.strategies):
        return [f"no memory of the strategy '{asked}'; did you mean {either(near)}?"]
    return [f"no memory of the strategy '{asked}'; {_known(known.strategies)}"]


def tag_notes(asked: str | None, tags: Sequence[str]) -> list[str]:
    """Returns a note if no trade has the tag of a question.

    >>> tag_notes("breakfast", ["fomc", "news"]), tag_notes("news", ["news"]), tag_notes("news", [])
    (["no trade has the tag 'breakfast'; known: fomc, news"], [], ["no trade has the tag 'news'; no trade has any"])
    """
    if asked is None or asked in tags:
        return []
    if near := near_names(asked, tags):
        return [f"no trade has the tag '{asked}'; did you mean {either(near)}?"]
    return [f"no trade has the tag '{asked}'; {_known(tags) if tags else 'no trade has any'}"]


def near_symbols(asked: str, symbols: Sequence[str]) -> list[str]:
    """Returns the symbols that may be meant, the nearest first. Separators and case do not count; a pair may lack its quote.

    >>> near_symbols("btc", ["BTCUSDT", "BTC-PERP", "ETHUSDT"]), near_symbols("EURUDS", ["EURUSD", "USDJPY"])
    (['BTC-PERP', 'BTCUSDT'], ['EURUSD'])
    """
    plain = _letters(asked)
    rated = [(SequenceMatcher(None, plain, _letters(each)).ratio(), each) for each in symbols]
    near = [(-ratio, each) for ratio, each in rated if ratio >= NEAR_SYMBOL_RATIO or _begins(plain, _letters(each))]
    return [each for _, each in sorted(near)][:MAX_NEAR]


def _begins(a: str, b: str) -> bool:
    shorter, longer = sorted((a, b), key=len)
    return len(shorter) >= 2 and longer.startswith(shorter)


def _letters(symbol: str) -> str:
    return "".join(letter for letter in symbol.upper() if letter.isalnum())


def _known(values: Sequence[str]) -> str:
    values = sorted(values, key=lambda value: (value.lower(), value))
    more = f" and {len(values) - MAX_KNOWN} more" if len(values) > MAX_KNOWN else ""
    return f"known: {', '.join(values[:MAX_KNOWN])}{more}"
