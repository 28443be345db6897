"""The remark that a model may add to a lesson: a noun phrase of at most 15 words from a closed vocabulary.

memtape writes what a lesson says: which trades, their figures, and how sure they are. A model's remark may only describe those
trades, like "late breakouts against the trend". Words are checked against lists, and their order against a grammar:

    remark  = phrase, then any number of: link, phrase
    phrase  = article (if any), qualities (if any), nouns (one or more, only the last of them a plural)

So a remark has no verb, and without a verb it cannot order, promise or claim a cause. A plural before another noun would be read
as a verb ("volume signals reversals"). No word but articles and links stands twice. The lists have no numbers and no words of
amount ("most", "always"), judgement ("strong", "winning"), negation ("not", "without"), comparison ("more"), time to come or
person. Words that could be read as an order are missing too: nouns that are also verbs ("trade", "exit", "average", "support"),
forms in -ing ("closing positions"), exits, stops, targets and sizes. Market labels (sides, sessions, weekdays, regimes) are
allowed only if the label of the candidate has them, so that a remark cannot speak of other trades. Text that a user or an agent
wrote, like a tag or a symbol, is never allowed.

>>> checked_remark("Late breakouts against the trend line", "trades in London")
'late breakouts against the trend line'
>>> [checked_remark(text, "trades in London") for text in ("increase size", "London wins", "shorts in thin liquidity")]
[None, None, None]
>>> checked_remark("thin liquidity in London", "trades in London")
'thin liquidity in London'
"""

from __future__ import annotations

import re
from typing import Final

MAX_REMARK_WORDS = 15
MAX_REMARK_CHARS = 160


def _listed(*lines: str) -> frozenset[str]:
    return frozenset(" ".join(lines).split())


ARTICLES: Final = _listed("a an the")
LINKS: Final = _listed("in on of at near around before after during between against with within into beyond above below and")
QUALITIES: Final = _listed(
    "late early fast slow thin thick wide narrow tight steep shallow deep sudden gradual intraday recent previous nearby distant",
    "crowded extended compressed scheduled unscheduled local impulsive",
)
NOUNS: Final = _listed(
    "entries trades positions setups signals breakouts breakdowns pullbacks retracements retests reversals continuations",
    "moves swings spikes gaps wicks candles bars highs lows levels zones lines channels ranges consolidations momentum volume",
    "liquidity slippage spreads fees commissions news releases announcements headlines holidays rollover expiry session sessions",
    "trend trendline line chart charts price prices resistance indicator indicators oscillator conditions market markets",
    "liquidations timeframe timeframes moment moments",
)
# Words of labels. They are allowed only where the candidate's own label has them.
LABEL_NOUNS: Final = _listed(
    "longs shorts winners losses loss london overlap monday tuesday wednesday thursday friday saturday sunday",
)
LABEL_QUALITIES: Final = _listed("asian trending ranging volatile low normal high up down")
SPELLING: Final = {word: word.capitalize() for word in (
    "london", "asian", "monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday",
)}  # fmt: skip
SINGULAR_IN_S: Final = _listed("news loss")
# Singular nouns that take no "a".
UNCOUNTABLE: Final = _listed("momentum volume liquidity slippage news rollover expiry resistance london")
_GRAMMAR: Final = re.compile(r"A?Q*S*[SP](?:(?:,|,?L)A?Q*S*[SP])*")
_PLAIN: Final = re.compile(r"[A-Za-z]+(?:,? [A-Za-z]+)*\.?")


def checked_remark(text: str, label: str) -> str | None:
    """Returns the remark as it is shown, or None if it is not a phrase of the vocabulary. `label` is that of the candidate."""
    tokens = remark_tokens(text)
    # Text in quotes is a user's own, such as a tag.
    own = frozenset(re.findall(r"[a-z]+", re.sub(r'"[^"]*"', " ", label.lower())))
    kinds = "".join(_kind(token, own) for token in tokens)
    content = [token for token, kind in zip(tokens, kinds, strict=True) if kind in "QSP"]
    if not _GRAMMAR.fullmatch(kinds) or len(tokens) < 2 or len(set(content)) < len(content) or not _articles_fit(tokens, kinds):
        return None
    return " ".join(SPELLING.get(token, token) for token in tokens).replace(" ,", ",")


def remark_tokens(text: str) -> list[str]:
    """Returns the words of a remark in lower case, and its commas; none if it has anything but a few words of plain letters."""
    if len(text) > MAX_REMARK_CHARS or not _PLAIN.fullmatch(text):
        return []
    tokens = re.findall(r"[a-z]+|,", text.lower())
    return tokens if len(tokens) - tokens.count(",") <= MAX_REMARK_WORDS else []


def _kind(token: str, own: frozenset[str]) -> str:
    """Returns the part of speech: A article, Q quality, S singular noun, P plural, L link, or a comma; x if not allowed here."""
    if token == ",":
        return ","
    if token in ARTICLES:
        return "A"
    if token in LINKS:
        return "L"
    if token in NOUNS or (token in LABEL_NOUNS and token in own):
        return "P" if token.endswith("s") and token not in SINGULAR_IN_S else "S"
    return "Q" if token in QUALITIES or (token in LABEL_QUALITIES and token in own) else "x"


def _articles_fit(tokens: list[str], kinds: str) -> bool:
    """Returns True if every "a" and "an" has the right form and stands before a singular that can be counted."""
    for at, token in enumerate(tokens):
        if token in ("a", "an"):
            noun = next(n for n in range(at, len(tokens)) if n + 1 == len(tokens) or kinds[n + 1] in ",L")
            if (token == "an") != (tokens[at + 1][0] in "aeiou") or kinds[noun] == "P" or tokens[noun] in UNCOUNTABLE:
                return False
    return True
