"""When two facts say the same in other words: case, punctuation, small words and the place of an adverb do not matter.

Two facts are near-equal if their keys are equal. A key is made of the words in their order, without words that carry nothing here
(the, I, you, is), without the plural s, with `n't` written out; words like `only` count wherever they stand. Order, numbers,
negations and signs are part of the key: of two facts that look alike and mean the opposite, the second must not be lost.

>>> same_statement("I don't take leverage above 5x.", "You do not take  leverage above 5×")
True
>>> same_statement("You trade BTC and ETH only.", "you only trade BTC and ETH")
True
>>> same_statement("You prefer BTC over ETH.", "You prefer ETH over BTC.")
False
>>> same_statement("You use stops.", "You never use stops.")
False
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable

from memtape.core.brief.sanitize import clean_line
from memtape.core.facts import Fact

# Not `us`: it is also the name of a session.
SMALL_WORDS = frozenset((
    "a", "an", "the", "this", "that", "these", "those", "i", "you", "we", "me", "my", "your", "our", "mine", "yours",
    "user", "owner", "trader", "am", "is", "are", "be", "being", "been", "do", "does", "will", "would", "have", "has", "in",
    "on", "at", "of", "for", "per", "with", "within", "during", "by", "really", "very", "just", "quite", "any", "some",
    "please",
))  # fmt: skip
FLOATING_WORDS = frozenset((
    "only", "usually", "always", "mostly", "often", "sometimes", "typically", "generally", "normally", "still", "now",
    "also", "currently",
))  # fmt: skip

_WRITTEN_OUT = (
    (re.compile(r"[’‘ʼ`]"), "'"),
    (re.compile(r"\bcan(?:'t|not)\b"), "can not"),
    (re.compile(r"\bwon't\b"), "will not"),
    (re.compile(r"n't\b"), " not"),
    (re.compile(r"'(?:m|re|ve|s|ll|d)\b"), ""),
    (re.compile(r"×"), "x"),
    (re.compile(r"−|–(?=\d)"), "-"),
    (re.compile(r"⁄"), "/"),
    (re.compile(r"(?<=\d),(?=\d{3}\b)"), ""),
)
# Numbers, words, the signs that change what a number means, and whatever is not ASCII; of the latter punctuation is left out.
_WORD = re.compile(r"\d+(?:\.\d+)*|[^\W\d_]+|[%$<>=+]|(?<![\d\s])-(?=\d)|(?<=\s)-(?=\d)|^-(?=\d)|[^\w\s\x00-\x7f]")

StatementKey = tuple[tuple[str, ...], tuple[str, ...]]


def statement_key(text: str) -> StatementKey:
    """Returns what is compared of a fact: its words in order, and those that count wherever they stand.

    >>> statement_key("Usually, I risk 1 % a trade!")
    (('risk', '1', '%', 'trade'), ('usually',))
    """
    folded = clean_line(text).casefold()
    for pattern, written in _WRITTEN_OUT:
        folded = pattern.sub(written, folded)
    words = [word for word in _WORD.findall(folded) if not _is_punctuation(word)]
    telling = [word for word in words if word not in SMALL_WORDS]
    in_order = tuple(_singular(word) for word in telling if word not in FLOATING_WORDS)
    # A text of nothing but small words is compared by all of them.
    return (in_order, tuple(sorted(word for word in telling if word in FLOATING_WORDS))) if in_order else (tuple(words), ())


def _is_punctuation(word: str) -> bool:
    """Arrows, emoji, signs such as ≠ and the vowel signs of some scripts carry meaning; quotation marks and dashes do not."""
    return not word.isascii() and unicodedata.category(word[0])[0] not in "LNMS"


def _singular(word: str) -> str:
    return word[:-1] if len(word) > 3 and word.endswith("s") and not word.endswith("ss") else word


def same_statement(one: str, other: str) -> bool:
    """Returns True if two facts are equal or near-equal."""
    return statement_key(one) == statement_key(other)


def find_same_fact(facts: Iterable[Fact], text: str, skill: str | None) -> Fact | None:
    """Returns the fact that says the same for this skill, or for every skill; one that is not archived before one that is."""
    key = statement_key(text)
    same = [fact for fact in facts if fact.skill in (None, skill) and statement_key(fact.text) == key]
    return min(same, key=lambda fact: (fact.archived is not None, fact.created, fact.id), default=None)
