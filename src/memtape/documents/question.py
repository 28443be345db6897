"""A question as words to look for: what counts, how often it was said, what must be matched exactly.

Terms are OR-ed and ranked by BM25, so a question needs no syntax. Words that every text has are dropped. Of a long question
the 16 rarest are kept; a word said twice counts as half as common, for a question repeats what it is about. What looks like
a ticker, a rule id or an error code, and what stands between quotation marks, is also looked for exactly.

Chinese, Japanese and Korean have no spaces: runs of their characters are indexed and searched as pairs.

>>> asked = parse_question('Why did we stop trading XAUUSD after "slippage too high" and ERR-4031?')
>>> [word for word, _ in asked.words]
['stop', 'trading', 'xauusd', 'slippage', 'high', 'err', '4031']
>>> asked.exact
('slippage too high', 'XAUUSD', 'ERR-4031')
>>> parse_question("黄金突破").words
(('黄金', 1), ('金突', 1), ('突破', 1))
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass

KEPT = 16
PAIRS = 4  # of them, at least, where a question has words and characters without spaces
SAID = 4  # a word said more often counts as said so often
STOP = frozenset(re.findall(r"\w+", """
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
_ENDED = re.compile(r"\b(?:stop(?:ped)?|quit|ceased?|g[ai]ve up)\s+(?:using|running|doing)\b", re.IGNORECASE)
ENDED = " drop disable "  # what a record of it says: "stop" is another word in trading
_YEAR = re.compile(r"[a-z]{1,3}((?:19|20)\d\d)")  # FY2018 is written 2018 elsewhere


@dataclass(frozen=True, slots=True)
class ParsedQuestion:
    """A question, taken apart."""

    words: tuple[tuple[str, int], ...]  # in lower case, each with how often it was said
    exact: tuple[str, ...]  # phrases and codes, as they were written

    @property
    def is_empty(self) -> bool:
        return not self.words

    @property
    def only_names(self) -> bool:
        """Whether nothing is asked but what must be matched exactly.

        >>> parse_question("R-17").only_names, parse_question("who broke R-17?").only_names
        (True, False)
        """
        return {word for word, _ in self.words} <= {word for part in self.exact for word in in_words(part)}


def parse_question(question: str) -> ParsedQuestion:
    """The words and the exact parts of a question. If it has none but stop words, those count.

    >>> [word for word, _ in parse_question("Why did we stop using the trend filter?").words]
    ['drop', 'disable', 'trend', 'filter']
    """
    question = question.replace("\x00", " ")
    said = list(in_words(_ENDED.sub(ENDED, question)))
    telling = [word for word in said if word not in STOP] or said
    telling += [year for word in telling for year in _YEAR.findall(word) if _YEAR.fullmatch(word)]
    phrases = [" ".join(next(part for part in match if part).split()) for match in _QUOTED.findall(question)]
    codes = [code for code in _CODE.findall(question) if is_code(code)]
    exact = tuple(dict.fromkeys(part for part in (*phrases, *codes) if _WORD.search(part)))
    return ParsedQuestion(tuple((word, min(times, SAID)) for word, times in Counter(telling).items()), exact)


def in_words(text: str) -> Iterator[str]:
    """The words of a text, as they are looked for.

    >>> list(in_words("ERR-4031 破前高"))
    ['err', '4031', '破前', '前高']
    """
    for word in _WORD.findall(text.lower()):
        if _RUN.search(word):
            yield from _mixed(word)
        else:
            yield word


def _mixed(word: str) -> Iterator[str]:
    """A word with characters that are written without spaces: those in pairs, the rest as it is."""
    end = 0
    for run in _RUN.finditer(word):
        if word[end : run.start()]:
            yield word[end : run.start()]
        yield from character_pairs(run[0])
        end = run.end()
    if word[end:]:
        yield word[end:]


def character_pairs(run: str) -> list[str]:
    """Characters two by two; a single one as it is.

    >>> character_pairs("突破前高"), character_pairs("金")
    (['突破', '破前', '前高'], ['金'])
    """
    return [run[at : at + 2] for at in range(len(run) - 1)] or [run]


def paired(text: str) -> str:
    """What is indexed of a text beside its words: every run of unspaced characters in pairs, and one by one."""
    if text.isascii():
        return ""
    return " ".join(
        part for run in _RUN.findall(text.lower()) for part in (*character_pairs(run), *(run if len(run) > 1 else ()))
    )


def is_code(word: str) -> bool:
    """Whether a word names one thing and nothing else: a ticker, an id, a code.

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


def chosen_words(
    asked: ParsedQuestion, stem: Callable[[str], str], frequency: Callable[[str], int]
) -> tuple[tuple[str, int], ...]:
    """The words to look for, those of one stem together. How common a word is, is asked only if there are too many.

    >>> chosen_words(parse_question("backtests and backtesting"), lambda word: word[:8], lambda stem: 1)
    (('backtests', 2),)
    """
    together: dict[str, tuple[str, int]] = {}
    for word, times in asked.words:
        stemmed = stem(word)
        first, before = together.get(stemmed, (word, 0))
        together[stemmed] = first, min(before + times, SAID)
    if len(together) <= KEPT:
        return tuple(together.values())
    found = {stemmed: frequency(stemmed) for stemmed in together}
    known = [stemmed for stemmed in together if found[stemmed]]
    rarest = sorted(known, key=lambda stemmed: (found[stemmed] / together[stemmed][1], stemmed))
    paired_up = [stemmed for stemmed in rarest if _RUN.search(stemmed)]
    spaced = [stemmed for stemmed in rarest if not _RUN.search(stemmed)]
    words = spaced[: max(KEPT - len(paired_up), KEPT - PAIRS)]  # a few characters make many pairs, each of them rare
    return tuple(together[stemmed] for stemmed in (*words, *paired_up[: KEPT - len(words)]))


def disjunction(words: tuple[tuple[str, int], ...]) -> str:
    """The words for FTS5, each as often as it was said.

    >>> disjunction((("stop", 2), ("loss", 1)))
    '"stop" OR "stop" OR "loss"'
    """
    return " OR ".join(f'"{word}"' for word, times in words for _ in range(times))


def phrase(exact: str) -> str:
    """An exact part for FTS5: its words one after the other.

    >>> phrase("ERR-4031")
    '"err 4031"'
    """
    return f'"{" ".join(in_words(exact))}"'


def contains_exactly(text: str, exact: str) -> bool:
    """Whether a text has an exact part: letter by letter but for case and spacing, and not inside a longer word.

    >>> (contains_exactly("rule R-17 applies", "r-17"), contains_exactly("rule R-171 applies", "R-17"),
    ...  contains_exactly("stop too\\n  tight", "stop too tight"))
    (True, False, True)
    """
    wanted = r"\s+".join(re.escape(part) for part in exact.lower().removeprefix("$").split())
    return re.search(rf"(?<![^\W_]){wanted}(?![^\W_])", text.lower()) is not None
