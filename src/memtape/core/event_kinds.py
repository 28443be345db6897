"""The kinds of scheduled events, and the words by which sources name a kind or an importance. One table each.

A source that states no kind is understood by the title of its event. The first rule that fits counts, so a rule that would take
too much stands after the narrower ones: a speech of a FOMC member is a speech, and average hourly earnings are no company's.

>>> [kind_of_title(title) for title in ("Core CPI m/m", "FOMC Statement", "FOMC Meeting Minutes", "Average Hourly Earnings m/m")]
['cpi', 'fomc', 'minutes', 'jobs']
>>> [kind_of_title(title) for title in ("AAPL Q3 earnings", "BTC options expiry", "ARB token unlock", "Village fair")]
['earnings', 'expiry', 'unlock', 'other']
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Literal, get_args

EventKind = Literal[
    "cpi", "nfp", "fomc", "rates", "gdp", "ppi", "pce", "pmi", "jobs", "retail", "production", "housing", "trade", "sentiment",
    "speech", "minutes", "auction", "election", "oil", "earnings", "dividend", "split", "expiry", "unlock", "holiday", "other",
]  # fmt: skip
EVENT_KINDS: tuple[EventKind, ...] = get_args(EventKind)
Impact = Literal["low", "medium", "high", "holiday"]
# How important an event is, 0 to 1, by the word of its source.
IMPORTANCE_OF_IMPACT: Mapping[Impact, float] = {"high": 0.8, "medium": 0.5, "low": 0.2, "holiday": 0.2}
UNKNOWN_IMPORTANCE = 0.5  # where the source does not say: as a medium one, so that it is neither hidden nor feared
# The words of sources, in lower case. Numbers are the stars or bulls of some calendars, of three.
IMPACT_WORDS: Mapping[str, Impact] = {
    "high": "high", "high impact expected": "high", "red": "high", "3": "high", "h": "high", "strong": "high", "critical": "high",
    "medium": "medium", "medium impact expected": "medium", "moderate": "medium", "med": "medium", "orange": "medium",
    "2": "medium", "m": "medium",
    "low": "low", "low impact expected": "low", "yellow": "low", "1": "low", "l": "low", "weak": "low",
    "holiday": "holiday", "non-economic": "holiday", "gray": "holiday", "grey": "holiday",
}  # fmt: skip

_TITLE_RULES: tuple[tuple[EventKind, str], ...] = (
    ("holiday", r"\b(bank )?holiday\b|\bmarkets? closed\b"),
    ("minutes", r"\bminutes\b|\bmeeting accounts\b"),
    ("speech", r"\bspeak(s|ing)?\b|\bspeech\b|\btestif|\btestimony\b|\bpress conference\b|\bhearings?\b|\bremarks\b"
               r"|\bsymposium\b"),
    ("jobs", r"\badp\b|\bhourly earnings\b|\baverage earnings\b|\bpayrolls? .*\brevision\b"),
    ("nfp", r"\bnon-?farm (employment|payrolls?)\b|\bnfp\b|\bemployment situation\b|\bpayrolls\b"),
    ("election", r"\belections?\b|\breferendum\b|\bconfidence vote\b"),
    ("ppi", r"\bppi\b|\bproducer prices?\b"),
    ("pce", r"\bpce\b|\bpersonal consumption expenditures?\b"),
    ("sentiment", r"\binflation expectations\b|\bconfidence\b|\bsentiment\b|\bifo\b|\bzew\b|\bbusiness (climate|outlook)\b"),
    ("cpi", r"\bcpi\b|\bhicp\b|\bconsumer prices?\b"),
    ("fomc", r"\bfomc\b|\bfederal funds\b|\bfed (interest )?(rate|funds)\b|\bfederal open market\b"),
    ("rates", r"\b(policy|cash|bank|refinancing|overnight|interest|loan prime|deposit facility|repo|benchmark) rate\b"
              r"|\brate (statement|decision)\b|\bmonetary policy\b|\basset purchase\b|\bboj outlook\b|\brate votes\b"),
    ("gdp", r"\bgdp\b|\bgross domestic product\b"),
    ("pmi", r"\bpmi\b|\bism\b|\bpurchasing managers\b|\bempire state\b|\bphilly fed\b"),
    ("jobs", r"employment|\bjobless\b|\bjolts\b|\bjob openings\b|\bclaimant\b|\bclaims\b|\bwages?\b|\blabou?r\b"),
    ("retail", r"\bretail sales\b|\bretail and food\b"),
    ("production", r"\bindustrial production\b|\bdurable goods\b|\bfactory orders\b|\bcapital expenditure\b"),
    ("housing", r"\bhome sales\b|\bhousing\b|\bbuilding (permits|approvals)\b|\bhpi\b"),
    ("trade", r"\btrade balance\b|\bcurrent account\b"),
    ("oil", r"\bopec\b|\bcrude oil\b|\boil inventories\b|\bnatural gas\b"),
    ("auction", r"\bauction\b"),
    ("unlock", r"\bunlocks?\b|\bvesting\b"),
    ("expiry", r"\bexpir(y|ies|ation|ing|es?)\b|\bopex\b|\bwitching\b"),
    ("dividend", r"\bdividends?\b"),
    ("split", r"\b(stock|share|reverse) split\b"),
    ("earnings", r"\bearnings\b|\b(quarterly|annual) results\b|\bq[1-4] results\b"),
)  # fmt: skip
_COMPILED_RULES = tuple((kind, re.compile(pattern, re.IGNORECASE)) for kind, pattern in _TITLE_RULES)


@lru_cache(maxsize=4096)
def kind_of_title(title: str) -> EventKind:
    """Returns the kind of an event by its title; `other` if no rule fits."""
    return next((kind for kind, rule in _COMPILED_RULES if rule.search(title)), "other")


def impact_of_word(word: str) -> Impact | None:
    """Returns the impact that a source's word means; None if the word is unknown.

    >>> impact_of_word("High Impact Expected"), impact_of_word("moderate"), impact_of_word("0.7")
    ('high', 'medium', None)
    """
    return IMPACT_WORDS.get(" ".join(word.lower().split()))
