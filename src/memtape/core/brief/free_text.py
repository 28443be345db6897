"""Words that others wrote, and how much room they get in a brief.

Reasons, notes, titles and passages of models and of external sources (tiers 3 and 4) may say anything. Besides being quoted they
are rationed, so that no author can fill a brief: all of them together get at most a quarter of it, one author at most a tenth. A
brief counts as 1,500 tokens at least. The rations below are fixed numbers, a little under these shares of 1,500, because the
tokens are estimated. The agent's own reasons on recorded trades are outside the tenth, not outside the quarter.

Recent trades have rations of their own: what is written further down must not change a line above it, or no provider could cache
the text before it. A line whose words find no room is shown without them, or left out if it has nothing else to say.

>>> few_words("break of the Asian high on rising volume and a lot more", 6)
'break of the Asian high...'
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from memtape.core.brief.budget import BriefLine, BriefSection, Count
from memtape.core.brief.sanitize import safe_line
from memtape.core.value_class import dataclass

AGENT, CALENDAR, EXTERNAL = "agent", "calendar", "external"
OWN_REASON = "own reason"  # the agent's reason on a trade that its account recorded
MAX_REASON_WORDS = 6
UNFINISHED = frozenset((
    "a", "above", "after", "an", "and", "as", "at", "below", "but", "by", "for", "from", "in", "into", "is", "its", "of", "on",
    "or", "over", "the", "to", "under", "with",
))  # words that no phrase ends with
MAX_REASON_CHARS = 42
CUT = "..."  # ends words that are not all that somebody wrote
UNSPACED_CHARS = 4  # so many go at once from the end of a text without spaces
CACHED_SECTION = "recent_trades"


@dataclass(frozen=True, slots=True)
class Ration:
    """Tokens for words of others: of one author, and of all authors together."""

    author: int
    everyone: int


CACHED_RATION = Ration(author=60, everyone=230)
CHANGING_RATION = Ration(author=60, everyone=120)
BYTES_PER_TOKEN = 3.3  # of prose in a language that a tokenizer knows less well than English
LETTERS_PER_TOKEN = 1.8  # of a word that no language has
MAX_NATURAL_LETTERS = 14
NATURAL_VOWELS = (0.22, 0.67)  # the share of vowels in the words of European languages


def few_words(text: str, words: int = MAX_REASON_WORDS, chars: int = MAX_REASON_CHARS) -> str:
    """Returns the first words of a text, made safe to be quoted."""
    clean = safe_line(text)
    cut = " ".join(clean.split()[:words])
    if len(cut) > chars:
        cut = cut[:chars].rsplit(" ", 1)[0] if " " in cut[:chars] else cut[:chars]
    return cut if len(cut) == len(clean) else _finished(cut)


def fewer_words(words: str) -> str:
    """Returns a phrase without its last word; nothing if a single word would be left. Chinese is written without spaces.

    >>> fewer_words("a break of the high"), fewer_words("late entry"), fewer_words("突破前高后回踩买入")
    ('a break...', '', '突破前高后...')
    """
    whole = words.removesuffix(CUT)
    if " " not in whole:
        return "" if whole.isascii() or len(whole) < 2 * UNSPACED_CHARS else f"{whole[:-UNSPACED_CHARS]}{CUT}"
    return _finished(whole.rpartition(" ")[0]) if whole.count(" ") > 1 else ""


def _finished(cut: str) -> str:
    """Returns a phrase that was cut, without what no phrase ends with: small words, and signs like the one of `RSI <`."""
    words = cut.split(" ")
    while len(words) > 1 and (words[-1].lower() in UNFINISHED or not any(char.isalnum() for char in words[-1])):
        words.pop()
    return " ".join(words).rstrip(" ,;:-(.…") + CUT


def quoted_words(text: str, words: int = MAX_REASON_WORDS) -> str:
    """Returns the first words of a text in quotes; nothing if it has none."""
    cut = few_words(text, words)
    return f'"{cut}"' if cut else ""


def cautious_tokens(words: str, count: Count) -> int:
    """Returns the tokens of words that others wrote, rather too many than too few: they may be in any language, or in none.

    >>> cautious_tokens("break of the high", lambda text: len(text.split())), cautious_tokens("zqxjkv wvrtplk", lambda text: 2)
    (6, 8)
    """
    strange = sum(len(word) / LETTERS_PER_TOKEN if _is_strange(word) else 1 for word in words.split())
    return max(count(words), math.ceil(len(words.encode()) / BYTES_PER_TOKEN), math.ceil(strange))


def tokens_with_words(line: str, words: str, count: Count) -> int:
    """Returns the tokens of a line that quotes words of others; words that no language has count by their letters.

    >>> tokens_with_words('BTC long "zqxjkv"', "zqxjkv", lambda text: len(text.split()))
    6
    """
    strange = [word for word in words.split() if _is_strange(word)]
    return count(line) + sum(max(math.ceil(len(word) / LETTERS_PER_TOKEN) - count(word), 0) for word in strange)


def _is_strange(word: str) -> bool:
    letters = [letter for letter in word.lower() if letter.isalpha()]
    if len(letters) <= 3 or not word.isascii():
        return False
    vowels = sum(letter in "aeiouy" for letter in letters) / len(letters)
    return len(word) > MAX_NATURAL_LETTERS or not NATURAL_VOWELS[0] <= vowels <= NATURAL_VOWELS[1]


def ration_free_text(sections: Sequence[BriefSection], count: Count) -> list[BriefSection]:
    """Returns the sections with no more words of others than their rations allow, lines of the highest priority first."""
    cached = [section for section in sections if section.name == CACHED_SECTION]
    changing = [section for section in sections if section.name != CACHED_SECTION]
    rationed = (*_rationed(cached, CACHED_RATION, count), *_rationed(changing, CHANGING_RATION, count))
    kept = {section.name: section for section in rationed}
    return [kept[section.name] for section in sections if kept[section.name].lines]


def _rationed(sections: Sequence[BriefSection], ration: Ration, count: Count) -> list[BriefSection]:
    places = [(line.keep, at, n) for at, section in enumerate(sections) for n, line in enumerate(section.lines)]
    used: dict[str, int] = {}
    lines: dict[tuple[int, int], BriefLine | None] = {}
    for _, at, n in sorted(places):
        line = sections[at].lines[n]
        lines[at, n] = line
        cost: dict[str, int] = {}
        for author, words in line.free:
            cost[author] = cost.get(author, 0) + cautious_tokens(words, count)
        over = any(author != OWN_REASON and used.get(author, 0) + tokens > ration.author for author, tokens in cost.items())
        if cost and (over or sum(used.values()) + sum(cost.values()) > ration.everyone):
            lines[at, n] = None if line.bare is None else replace(line, text=line.bare, free=(), bare=None)
            continue
        for author, tokens in cost.items():
            used[author] = used.get(author, 0) + tokens
    kept: list[BriefSection] = []
    for at, section in enumerate(sections):
        found = tuple(kept_line for n in range(len(section.lines)) if (kept_line := lines[at, n]) is not None)
        kept.append(replace(section, lines=found, left_out=section.left_out + len(section.lines) - len(found)))
    return kept
