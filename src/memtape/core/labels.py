"""The vocabularies of labels, and the other words that people and files use for the same label.

Two memories are compared by their labels, so `London`, `LDN` and `london session` must be one. Case, spaces and common synonyms
are folded. A value that no vocabulary knows is kept as written: it may be a label of the owner's own.

>>> [fold_label("session", word) for word in ("London", "LDN", "london session", "OVERLAP_EU_US", "Tokyo open")]
['london', 'london', 'london', 'overlap', 'asia']
>>> fold_label("regime", "Up-Trend"), fold_label("volatility", "very high"), fold_label("side", "BUY")
('trending_up', 'extreme', 'long')
>>> fold_label("regime", "Witching Hour"), fold_label("regime", "unknown")
('Witching Hour', None)
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator

from memtape.errors import Invalid

LabelKind = Literal["regime", "volatility", "session", "side"]

# Each label with its other names. Words are compared in lower case; every separator counts as one blank.
VOCABULARIES: Mapping[LabelKind, Mapping[str, tuple[str, ...]]] = {
    "regime": {
        "trending_up": (
            "trending up", "trend up", "uptrend", "up trend", "uptrending", "bull", "bullish", "bull trend", "bullish trend",
            "bull market", "rising", "up",
        ),
        "trending_down": (
            "trending down", "trend down", "downtrend", "down trend", "downtrending", "bear", "bearish", "bear trend",
            "bearish trend", "bear market", "falling", "down",
        ),
        "ranging": (
            "range", "range bound", "rangebound", "sideways", "side ways", "chop", "choppy", "consolidation", "consolidating",
            "flat", "lateral", "mean reverting", "no trend", "non trending",
        ),
        "volatile": ("volatile market", "high volatility", "turbulent", "crisis"),
    },
    "volatility": {
        "low": ("l", "lo", "calm", "quiet", "very low", "compressed"),
        "normal": ("n", "norm", "medium", "med", "mid", "middle", "moderate", "average", "avg", "regular"),
        "high": ("h", "hi", "elevated", "expanded", "above average"),
        "extreme": ("x", "very high", "extremely high", "ultra high", "crisis"),
    },
    "session": {
        "asia": ("asian", "asia pacific", "apac", "tokyo", "sydney", "tky", "tyo", "jp", "japan", "far east"),
        "london": ("ldn", "lon", "lnd", "uk", "eu", "europe", "european", "frankfurt"),
        "overlap": (
            "london new york", "london newyork", "london ny", "ldn ny", "lon ny", "ny london", "new york london",
            "london new york overlap", "london newyork overlap", "london ny overlap", "ny london overlap", "overlap eu us",
            "eu us overlap", "overlap london ny", "us eu", "eu us",
        ),
        "newyork": ("new york", "ny", "nyc", "us", "usa", "american", "america", "north america", "wall street"),
    },
    "side": {
        "long": ("buy", "b", "bot", "bought", "l", "bull", "bullish", "up", "buy long", "go long"),
        "short": ("sell", "s", "sld", "sold", "sell short", "short sell", "bear", "bearish", "down", "go short"),
    },
}  # fmt: skip
# Words that name the kind of a label and not the label, like `session` in `london session`.
_KIND_WORDS: Mapping[LabelKind, frozenset[str]] = {
    "regime": frozenset({"regime", "market"}),
    "volatility": frozenset({"volatility", "vol", "regime"}),
    "session": frozenset({"session", "hours", "open", "time", "killzone"}),
    "side": frozenset({"side", "position"}),
}
UNKNOWN_WORDS = frozenset({"", "unknown", "none", "null", "nan", "n a", "na", "not available", "undefined"})
_PUNCTUATION = re.compile(r"[^\w\s_/+&.,:>|-]")
_SEPARATORS = re.compile(r"[\s_\-/+&.,:>|]+")


def _folded(text: str) -> str:
    return _SEPARATORS.sub(" ", text.lower()).strip()


_LABELS: Mapping[LabelKind, Mapping[str, str]] = {
    kind: {_folded(word): label for label, others in labels.items() for word in (label, *others)}
    for kind, labels in VOCABULARIES.items()
}


@lru_cache(maxsize=4096)
def fold_label(kind: LabelKind, text: str) -> str | None:
    """Returns the label of the vocabulary that a text means, else the text as written; None if it says that it is unknown."""
    words = _folded(text)
    if words in UNKNOWN_WORDS:
        return None
    known = _LABELS[kind]
    if words in known:
        return known[words]
    bare = " ".join(word for word in words.split() if word not in _KIND_WORDS[kind])
    return known.get(bare, text.strip())


# The fields that hold labels, by their names in situations, episodes, predicates and trades.
LABEL_FIELDS: Mapping[str, LabelKind] = {
    "regime": "regime", "volatility_regime": "volatility", "volatility": "volatility", "session": "session", "side": "side",
}  # fmt: skip


def fold_field(name: str, value: Any) -> Any:
    """Returns a value of a field as its vocabulary writes it; a value of another field, or of another type, as it is.

    >>> fold_field("volatility_regime", "Very High"), fold_field("symbol", "BUY"), fold_field("session", None)
    ('extreme', 'BUY', None)
    """
    if name not in LABEL_FIELDS or not isinstance(value, str):
        return value
    # A word like `unknown` says nothing about the market, but a condition on it must keep saying something.
    return fold_label(LABEL_FIELDS[name], value) or value


# Words that mean a label where a label is asked for, but something else in a sentence.
_NOT_IN_SENTENCES = frozenset({
    "up", "down", "rising", "falling", "flat", "range", "bull", "bear", "lateral", "crisis", "us", "usa", "uk", "eu", "jp", "lon",
    "america", "european", "low", "high", "normal", "extreme", "very low", "very high", "medium", "average", "regular", "middle",
    "open", "mid", "med", "avg", "norm", "high volatility",
})  # fmt: skip


def labels_in_text(text: str) -> dict[str, str]:
    """Returns the labels that a description of the market names, by field of a situation; none of a kind that it names twice.

    >>> labels_in_text("London open, choppy tape, high volatility"), labels_in_text("broke out of the range")
    ({'regime': 'ranging', 'volatility_regime': 'high', 'session': 'london'}, {})
    >>> labels_in_text("uptrend in Asia, downtrend in London")
    {}
    """
    words = f" {_folded(_PUNCTUATION.sub(' ', text))} "
    found: dict[str, str] = {}
    for name in ("regime", "volatility_regime", "session"):
        kind, rest, labels = LABEL_FIELDS[name], words, set[str]()
        spoken = {word: label for word, label in _LABELS[kind].items() if word not in _NOT_IN_SENTENCES and len(word) > 1}
        if kind == "volatility":
            # A sentence says `high volatility`; `high` alone is a price.
            spoken |= {f"{word} {of}": label for word, label in _LABELS[kind].items() for of in ("volatility", "vol")}
        # The longest first: `london new york` is the overlap, not London.
        for word in sorted(spoken, key=len, reverse=True):
            if f" {word} " in rest:
                labels.add(spoken[word])
                rest = rest.replace(f" {word} ", "  ")
        if len(labels) == 1:
            found[name] = labels.pop()
    return found


def fold_fields(values: Mapping[str, Any]) -> dict[str, Any]:
    """Returns values by field, with the labels among them folded."""
    return {name: fold_field(name, value) for name, value in values.items()}


def folded(kind: LabelKind) -> Any:
    """Returns the annotation of a label that is folded when it is read; a word that says nothing becomes None."""
    return AfterValidator(lambda value: value if value is None else fold_label(kind, value))


# Words for an opinion about the market. They are no side of a trade that somebody records or asks for.
_OPINIONS = frozenset({"up", "down", "bull", "bullish", "bear", "bearish"})


def _fold_side(value: object) -> object:
    if not isinstance(value, str) or _folded(value) in _OPINIONS:
        return value
    return fold_label("side", value) or value


def _fold_order_side(value: object) -> object:
    return {"long": "buy", "short": "sell"}.get(str(_fold_side(value)), value)


Side = Literal["long", "short"]


def read_side(text: str) -> Side:
    """Returns the side that a text names. Raises `Invalid` if it names none.

    >>> read_side("Long"), read_side("SELL")
    ('long', 'short')
    """
    match _fold_side(text):
        case "long":
            return "long"
        case "short":
            return "short"
    raise Invalid("side", f"'{text}' is neither long nor short", "Write long or short")


# The side of a trade, or of an order, in any of the words for it: BUY is long, SHORT is sell.
StatedSide = Annotated[Side, BeforeValidator(_fold_side)]
# The same, for a question whose schema names the words of an order too.
StatedDirection = Annotated[Literal["long", "short", "buy", "sell"], BeforeValidator(_fold_side)]
OrderSide = Annotated[Literal["buy", "sell"], BeforeValidator(_fold_order_side)]
