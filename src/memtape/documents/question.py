"""A question as words to search for: which words count, how often each occurs, and what must match exactly.

Words are joined by OR and ranked by BM25, so a question needs no syntax. Words that every text has are dropped. Of a long
question the 16 rarest words are used; a word that occurs twice counts as half as common, because a question repeats its subject.
What looks like a ticker, a rule id or an error code, and what is in quotation marks, is also searched for exactly.

Chinese, Japanese and Korean have no spaces: runs of their characters are indexed and searched as pairs.

>>> question = parse_question('Why did we stop trading XAUUSD after "slippage too high" and ERR-4031?')
>>> [word for word, _ in question.words]
['stop', 'trading', 'xauusd', 'slippage', 'high', 'err', '4031']
>>> question.exact
('slippage too high', 'XAUUSD', 'ERR-4031')
>>> parse_question("黄金突破").words
(('黄金', 1), ('金突', 1), ('突破', 1))
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator

from memtape.core.value_class import dataclass

MAX_WORDS = 16  # of a question, that are searched for
MIN_PAIRS = 4  # of these, reserved for character pairs if a question has both words and characters without spaces
MAX_REPEATS = 4  # a word that occurs more often counts as so often
STOP_WORDS = frozenset(re.findall(r"\w+", """
    a about after again all also am an and any are as at be because been before being between both but by can could did do does
    doing during each few for from further had has have having he her here hers herself him himself his how i if in into is it its
    itself just me more most my myself no nor not now of off on once only or other our ours ourselves out over own same she should
    so some such than that the their theirs them themselves then there these they this those through to too under until up very
    was we were what when where which while who whom why will with would you your yours yourself yourselves s t d ll re ve m don
    doesn didn isn wasn aren won shouldn couldn wouldn us
"""))  # fmt: skip
CJK = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff\uff66-\uff9d"
_WORD = re.compile(r"[^\W_]+")
_RUN = re.compile(f"[{CJK}\U00020000-\U0002fa1f]+")
_QUOTED = re.compile(r'"([^"\n]{2,120})"|“([^”\n]{2,120})”|「([^」\n]{1,60})」')
_CODE = re.compile(r"(?<![\w$])\$?[A-Za-z0-9]+(?:[-_./:#=^][A-Za-z0-9]+)*(?!\w)")
_END_PHRASE = re.compile(r"\b(?:stop(?:ped)?|quit|ceased?|g[ai]ve up)\s+(?:using|running|doing)\b", re.IGNORECASE)
# "Why did we stop using X" is recorded as "dropped X" or "disabled X"; the word "stop" would find stop orders instead.
END_WORDS = " drop disable "
_YEAR = re.compile(r"[a-z]{1,3}((?:19|20)\d\d)")  # FY2018 is also searched for as 2018

WordCounts = tuple[tuple[str, int], ...]  # words, each with how often it occurs in the question


@dataclass(frozen=True, slots=True)
class ParsedQuestion:
    """A question as words and exact parts."""

    words: WordCounts  # in lower case
    exact: tuple[str, ...]  # phrases and codes, as written

    @property
    def is_empty(self) -> bool:
        return not self.words

    @property
    def only_names(self) -> bool:
        """True if the question consists only of parts that must match exactly.

        >>> parse_question("R-17").only_names, parse_question("who broke R-17?").only_names
        (True, False)
        """
        return {word for word, _ in self.words} <= {word for part in self.exact for word in split_words(part)}


def parse_question(question: str) -> ParsedQuestion:
    """Splits a question into words and exact parts. Stop words count only if there are no others.

    >>> [word for word, _ in parse_question("Why did we stop using the trend filter?").words]
    ['drop', 'disable', 'trend', 'filter']
    """
    question = question.replace("\x00", " ")
    all_words = list(split_words(_END_PHRASE.sub(END_WORDS, question)))
    words = [word for word in all_words if word not in STOP_WORDS] or all_words
    words += [year for word in words for year in _YEAR.findall(word) if _YEAR.fullmatch(word)]
    phrases = [" ".join(next(part for part in match if part).split()) for match in _QUOTED.findall(question)]
    codes = [code for code in _CODE.findall(question) if is_code(code)]
    exact = tuple(dict.fromkeys(part for part in (*phrases, *codes) if _WORD.search(part)))
    return ParsedQuestion(tuple((word, min(count, MAX_REPEATS)) for word, count in Counter(words).items()), exact)


def split_words(text: str) -> Iterator[str]:
    """Yields the words of a text in the form in which they are searched for.

    >>> list(split_words("ERR-4031 破前高"))
    ['err', '4031', '破前', '前高']
    """
    for word in _WORD.findall(text.lower()):
        if _RUN.search(word):
            yield from _split_mixed(word)
        else:
            yield word


def _split_mixed(word: str) -> Iterator[str]:
    """Yields the parts of a word that contains characters written without spaces: these as pairs, the rest unchanged."""
    end = 0
    for run in _RUN.finditer(word):
        if word[end : run.start()]:
            yield word[end : run.start()]
        yield from character_pairs(run[0])
        end = run.end()
    if word[end:]:
        yield word[end:]


def character_pairs(run: str) -> list[str]:
    """Returns overlapping pairs of characters; a single character stays alone.

    >>> character_pairs("突破前高"), character_pairs("金")
    (['突破', '破前', '前高'], ['金'])
    """
    return [run[at : at + 2] for at in range(len(run) - 1)] or [run]


def pair_text(text: str) -> str:
    """Returns what is indexed beside the words of a text: runs of unspaced characters as pairs and as single characters."""
    if text.isascii():
        return ""
    return " ".join(
        part for run in _RUN.findall(text.lower()) for part in (*character_pairs(run), *(run if len(run) > 1 else ()))
    )


def is_code(word: str) -> bool:
    """Returns True if a word is the name of one thing: a ticker, an id, a code.

    >>> [is_code(word) for word in ("BTC", "R-17", "ERR_4031", "10004", "$tsla", "EUR/USD", "order_rejected", "BRK.B")]
    [True, True, True, True, True, True, True, True]
    >>> [is_code(word) for word in ("I", "stop", "Gold", "12", "buy/sell", "e.g")]
    [False, False, False, False, False, False]
    """
    bare = word.removeprefix("$")
    letters = any(sign.isalpha() for sign in bare)
    if word != bare and letters:
        return True
    if any(sign.isdigit() for sign in bare):
        return letters or len(re.sub(r"\D", "", bare)) >= 4
    if bare.upper() == bare:
        return len(bare) >= 2
    return "_" in bare


def choose_words(question: ParsedQuestion, stem: Callable[[str], str], frequency: Callable[[str], int]) -> WordCounts:
    """Returns the words to search for; words with the same stem count as one. Calls `frequency` only if there are too many.

    >>> choose_words(parse_question("backtests and backtesting"), lambda word: word[:8], lambda stem: 1)
    (('backtests', 2),)
    """
    by_stem: dict[str, tuple[str, int]] = {}
    for word, count in question.words:
        stemmed = stem(word)
        first, earlier = by_stem.get(stemmed, (word, 0))
        by_stem[stemmed] = first, min(earlier + count, MAX_REPEATS)
    if len(by_stem) <= MAX_WORDS:
        return tuple(by_stem.values())
    passages = {stemmed: frequency(stemmed) for stemmed in by_stem}
    indexed = [stemmed for stemmed in by_stem if passages[stemmed]]
    rarest = sorted(indexed, key=lambda stemmed: (passages[stemmed] / by_stem[stemmed][1], stemmed))
    # A few characters without spaces give many pairs, each of them rare. They must not push out all words, nor be pushed out.
    pairs = [stemmed for stemmed in rarest if _RUN.search(stemmed)]
    spaced = [stemmed for stemmed in rarest if not _RUN.search(stemmed)]
    words = spaced[: max(MAX_WORDS - len(pairs), MAX_WORDS - MIN_PAIRS)]
    return tuple(by_stem[stemmed] for stemmed in (*words, *pairs[: MAX_WORDS - len(words)]))


def any_word_query(words: WordCounts) -> str:
    """Returns an FTS5 query for any of the words, each as often as it occurs in the question.

    >>> any_word_query((("stop", 2), ("loss", 1)))
    '"stop" OR "stop" OR "loss"'
    """
    return " OR ".join(f'"{word}"' for word, count in words for _ in range(count))


def phrase_query(exact: str) -> str:
    """Returns an FTS5 query for an exact part: its words one after the other.

    >>> phrase_query("ERR-4031")
    '"err 4031"'
    """
    return f'"{" ".join(split_words(exact))}"'


def contains_exactly(text: str, exact: str) -> bool:
    """Returns True if a text contains an exact part: the same letters apart from case and spacing, not inside a longer word.

    >>> (contains_exactly("rule R-17 applies", "r-17"), contains_exactly("rule R-171 applies", "R-17"),
    ...  contains_exactly("stop too\\n  tight", "stop too tight"))
    (True, False, True)
    """
    wanted = r"\s+".join(re.escape(part) for part in exact.lower().removeprefix("$").split())
    return re.search(rf"(?<![^\W_]){wanted}(?![^\W_])", text.lower()) is not None
