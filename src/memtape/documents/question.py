"""A question as words to search for: which words count, how often each occurs, and what must match exactly.

Words are joined by OR and ranked by BM25, so a question needs no syntax. Words that every text has are dropped. Of a long
question the 24 rarest words are used; a word that occurs twice counts as half as common, because a question repeats its subject.
What names one thing, and what is in quotation marks, is also searched for as such (`names`). No word of a question is replaced;
what people write instead of "stop using", and where they give a reason, is added with a low weight.

Chinese, Japanese and Korean have no spaces: runs of their characters are indexed and searched as pairs.

>>> question = parse_question('Why did we stop trading XAUUSD after "slippage too high" and ERR-4031?')
>>> [word for word, _ in question.words]
['stop', 'trading', 'xauusd', 'slippage', 'high', 'err', '4031']
>>> [name.text for name in question.names]
['slippage too high', 'XAUUSD', 'ERR-4031']
>>> parse_question("黄金突破").words
(('黄金', 1), ('金突', 1), ('突破', 1))
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from itertools import pairwise

from memtape.core.value_class import dataclass
from memtape.documents.endings import ended_subject
from memtape.documents.names import Name, find_names

MAX_WORDS = 24  # of a question, that are searched for
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
# "Why did we stop using X" is often recorded as "dropped X", "disabled X" or "X was retired".
END_WORDS = ("drop", "disable", "retire", "abandon", "remove", "discontinue", "gave", "longer")
# What happened to the subject stands in a question in one of these words, and in the note that answers it perhaps in another.
_END_VERB = re.compile(
    r"stop(?:ped)?|quit|ceased?|(?:drop(?:p(?=ed|ing))?|retir|abandon|remov|disabl|discontinu|scrap(?:p(?=ed))?)(?:e|ed|ing)?|g[ai]ven?|"
    r"us(?:e|ed|ing)|longer|anymore"
)
_ENDED_USE = re.compile(r"\b(?:stop(?:ped)?|quit|ceased?|g[ai]ve up)\s+(?:using|running|doing|trading)\b", re.IGNORECASE)
# A note that answers "why" often says so in these words.
REASON_WORDS = ("because", "reason")
_WHY = re.compile(r"\s*(?:and |but |so )?why\b", re.IGNORECASE)
# Forms of one verb that a stemmer does not bring together.
VERB_FORMS = (
    "sell sold", "buy bought", "hold held", "lose lost", "win won", "rise rose risen", "fall fell fallen", "break broke broken",
    "pay paid", "take took taken", "leave left", "keep kept", "make made", "find found", "get got", "go went gone", "give gave",
    "write wrote written", "think thought", "choose chose chosen", "catch caught", "shrink shrank shrunk", "grow grew grown",
    "draw drew drawn", "begin began begun", "spend spent", "tell told", "mean meant", "feel felt", "drive drove driven",
)  # fmt: skip
_OTHER_FORMS = {form: tuple(other for other in verb.split() if other != form) for verb in VERB_FORMS for form in verb.split()}
_YEAR = re.compile(r"[a-z]{1,3}((?:19|20)\d\d)")  # FY2018 is also searched for as 2018

WordCounts = tuple[tuple[str, int], ...]  # words, each with how often it occurs in the question


@dataclass(frozen=True, slots=True)
class ParsedQuestion:
    """A question as words and the things that it names."""

    words: WordCounts  # in lower case
    names: tuple[Name, ...] = ()
    synonyms: tuple[str, ...] = ()  # that count for less than the words
    asides: frozenset[str] = frozenset()  # of the words, those that say what happened to the subject: they count for less too
    neighbours: tuple[tuple[str, str], ...] = ()  # words that follow each other
    ended: tuple[str, ...] = ()  # the words of what the question says was given up

    @property
    def is_empty(self) -> bool:
        return not self.words

    @property
    def words_beside_names(self) -> frozenset[str]:
        """What is asked for beside the named things.

        >>> sorted(parse_question("R-17").words_beside_names), sorted(parse_question("who broke R-17?").words_beside_names)
        ([], ['broke'])
        """
        return frozenset(word for word, _ in self.words).difference(*(split_words(name.text) for name in self.names))


def parse_question(question: str) -> ParsedQuestion:
    """Splits a question into words and names. Stop words count only if there are no others.

    >>> asked = parse_question("Why did we stop using the trend filter?")
    >>> [word for word, _ in asked.words], asked.neighbours[-1]
    (['stop', 'using', 'trend', 'filter'], ('trend', 'filter'))
    >>> asked.synonyms
    ('drop', 'disable', 'retire', 'abandon', 'remove', 'discontinue', 'gave', 'longer', 'because', 'reason')
    """
    question = question.replace("\x00", " ")
    all_words = list(split_words(question))
    words = [word for word in all_words if word not in STOP_WORDS] or all_words
    neighbours = tuple(dict.fromkeys((one, other) for one, other in pairwise(words) if one != other))
    words += [year for word in words for year in _YEAR.findall(word) if _YEAR.fullmatch(word)]
    subject = tuple(dict.fromkeys(word for word in split_words(ended_subject(question)) if word not in STOP_WORDS))
    ended = frozenset(word for phrase in _ENDED_USE.findall(question) for word in split_words(phrase))
    if subject:
        ended |= frozenset(word for word in words if _END_VERB.fullmatch(word) and word not in subject)
    added = [*(END_WORDS if ended or subject else ()), *(REASON_WORDS if _WHY.match(question) else ())]
    added += [form for word in words for form in other_forms(word)]
    synonyms = tuple(dict.fromkeys(word for word in added if word not in words))
    # Unless they are all that is asked about: "what did we stop doing?"
    asides = ended if not ended.issuperset(words) else frozenset[str]()
    counts = tuple((word, min(count, MAX_REPEATS)) for word, count in Counter(words).items())
    return ParsedQuestion(counts, find_names(question), synonyms, asides, neighbours, subject)


def _base_form(word: str) -> str:
    """Returns the form of a verb without the endings that a stemmer removes.

    >>> _base_form("sells"), _base_form("selling"), _base_form("sold")
    ('sell', 'sell', 'sold')
    """
    for ending in ("ing", "s"):
        if word.endswith(ending) and word.removesuffix(ending) in _OTHER_FORMS:
            return word.removesuffix(ending)
    return word


def other_forms(word: str) -> tuple[str, ...]:
    """Returns the other forms of the verb of a word.

    >>> other_forms("selling"), other_forms("gold")
    (('sold',), ())
    """
    return _OTHER_FORMS.get(_base_form(word), ())


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


def any_word_query(words: Iterable[str]) -> str:
    """Returns an FTS5 query for any of the words.

    >>> any_word_query(("stop", "loss"))
    '"stop" OR "loss"'
    """
    return " OR ".join(f'"{word}"' for word in words)
