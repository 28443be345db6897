"""The linter of lessons: decides whether a lesson must be flagged for the owner before an agent reads it.

A lesson is flagged if it
- tells the agent to override rules or limits, gives an order or promises profit: "ignore", "double", "always", "skip stops";
- contradicts the ledger: praises trades that lost, criticises the best ones, or gives a number that is not its candidate's;
- encourages what an `avoid` rule forbids, in any words: rule and lesson are compared by word stems and a few synonyms (chop,
  range and sideways are one; so are long and buy), each clause with its negations ("do not take", "think twice").

The linter does not parse grammar. In doubt it flags: a good lesson that waits for its owner costs little.

>>> rule = "No longs in chop"
>>> [forbids(rule, text) for text in ("Take more longs in a range", "Longs in a range lose", "Shorts in a range work")]
[True, False, False]
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Final

from memtape.core.brief.number_format import signed_figure
from memtape.core.brief.sanitize import quote_text
from memtape.core.lessons.candidates import MIN_TRADING_DAYS, tested_count
from memtape.core.lessons.reflection import Candidate, Lesson

SAME: Final = {
    "range": "range rangebound ranging chop choppy choppiness sideways consolidation consolidating flat",
    "trend": "trend trending trendy trends",
    "volatile": "volatile volatility vol",
    "long": "long longs buy buys buying bought longing",
    "short": "short shorts sell sells selling sold shorting",
    "asia": "asia asian tokyo sydney",
    "london": "london european europe",
    "newyork": "newyork ny american",
    "nfp": "nfp payroll payrolls nonfarm",
    "news": "news release releases announcement announcements event events data headline headlines",
    "fomc": "fomc fed",
    "weekend": "weekend weekends saturday sunday",
    "loss": "loss losses loser losers losing",
    "win": "win wins winner winners winning",
    "add": "add adds adding averaging average pyramid pyramiding",
    "overnight": "overnight night",
    "hold": "hold holds holding held",
    "reverse": "reverse reversal reversals counter countertrend fade fades fading",
}  # fmt: skip
STEM_OF: Final = {word: stem for stem, words in SAME.items() for word in words.split()}
OPPOSITES: Final = (("long", "short"), ("before", "after"), ("above", "below"), ("up", "down"), ("high", "low"), ("win", "loss"),
                    ("range", "trend"), ("first", "last"))  # fmt: skip
AGAINST: Final = {a: b for pair in OPPOSITES for a, b in (pair, pair[::-1])}
# Words of one kind exclude each other in a rule that allows only one of them.
KINDS: Final = (
    frozenset({"long", "short"}), frozenset({"asia", "london", "overlap", "newyork"}), frozenset({"range", "trend", "volatile"}),
    frozenset({"monday", "tuesday", "wednesday", "thursday", "friday", "weekend"}),
)  # fmt: skip
SIDES: Final = KINDS[0]


def _each(*words: str) -> frozenset[str]:
    """Returns the words of some lines."""
    return frozenset(" ".join(words).split())


PLAIN: Final = _each(
    "a an the in on of at to and or is are be it its this that these those with for from by as we our your you my i any all",
    "trade trades trading entry entries enter entering position positions take taking open opening new market markets setup",
    "setups session sessions while when during if whenever within into there their them they which was were has have had will",
    "would",
    "look looks think so very too also only then than against elsewhere otherwise n r mean per hour hours minute minutes min h",
    "could chance do does did done stay keep go going get make let well each time",
)
NOT: Final = _each("no not never dont cannot without avoid avoids stop hardly nor neither refrain")
FORBIDDING: Final = NOT | _each("skip forbidden prohibited banned disallowed out aside away forbid ban allowed")
ONLY: Final = _each("only unless except outside but")
URGING: Final = _each(
    "prefer lean press increase more take trust continue repeat focus buy sell enter seek prioritise prioritize embrace allow",
    "encourage add use",
)
GOOD: Final = URGING | _each(
    "work works worked working strong stronger strongest edge better best good great favour favor favourable favorable",
    "profitable fine safe win wins won outperform outperforms gain gains gained pay pays paid like love excel excels",
    "excellent shine shines reliable reliably ok okay worth",
)
BAD: Final = _each(
    "worse worst poor poorly weak weaker weakest avoid skip caution cautious careful lose loses lost hurt hurts reduce less",
    "fewer wait bad cut cost costs bleed bleeds underperform underperforms drop halve smaller beware rarely twice trim",
    "struggle struggles fail fails failed gave mistake mistakes",
)
NEUTRAL: Final = (
    (r"ask(ing)? more of", "caution"), (r"\blos(e|es|ing) less\b", "differ"), (r"\bno longer\b", "not"),
    (r"\bnew york\b", "newyork"),
    (r"\bdown[- ]?trend\w*|\b(falling|declining|bear|bearish) (market|markets|prices?|trend)\b", "trend down"),
    (r"\bup[- ]?trend\w*|\b(rising|bull|bullish) (market|markets|prices?|trend)\b", "trend up"),
    (r"\bor more\b|\bmore than\b|\bor better\b|\bat (its |their )?best\b", " "), (r"\bnot always\b", " "),
    (r"\bcounter[- ]?trend\b", "countertrend"), (r"\bnon-?farm\b", "nfp"), (r"\bout of\b", "out"),
    (r"\bthough not losing\b", " "), (r"\bgive back\b|\bgave back\b", "gave"), (r"n['’]t\b", " not"),
    (r"\btrade[sd]? well\b", "good"), (r"\bstand out\b|\bstands out\b", " "), (r"\b(do|does|did) well\b", "good"),
)  # fmt: skip

# Each pattern is matched within a clause; a negation shortly before it reverses the meaning ("never double").
OVERRIDES: Final = tuple(re.compile(pattern) for pattern in (
    r"\b(ignor(e|es|ing)|overrid(e|es|ing)|bypass\w*|disregard\w*|circumvent\w*)\b",
    r"\b(break|breaking|relax|relaxing|loosen|exceed|exceeding|lift|forget)\b.{0,24}\b(rules?|limits?|strategy|leash|caps?)\b",
    r"\bdoubl(e|es|ing)\b(?! (top|bottom))",
    r"\balways\b(?! (use|keep|place|set|respect|honou?r|follow|have)\b.{0,12}\b(stops?|rules?|limits?|plan|strategy)\b)",
    r"\b(skip|skipping|remov(e|ing)|drop|cancel|delet(e|ing)|widen|widening|disabl(e|ing)|turn off)\b.{0,16}"
    r"\b(stops?|stop-loss|limits?|rules?|caps?)\b",
    r"\b(all[- ]in|martingale|(max|maximum|full) (size|leverage|risk))\b",
    r"\b(increas(e|ing)|rais(e|ing)|bigger|larger|more|up|max out)\b.{0,12}"
    r"\b(size|sizes|leverage|risk|stakes?)\b(?! (reward|is|was))",
    r"\b(risk|size) (more|up)\b",
    r"\b(guarantee\w*|risk[- ]free|can(not|'t| not) lose|sure (thing|win)|certain to|will (win|profit|pay|make|earn))\b",
    r"\b(must|have to|need to|be sure to)\b.{0,20}\b(buy|sell|enter|trade|long|short|hold|add)\b",
    r"\b(previous|prior|earlier|above) instructions?\b|\bsystem prompt\b|\byou are now\b",
))  # fmt: skip
UNPROTECTED: Final = re.compile(r"\b(without|no) (a |any )?(stops?|stop-loss|limits?)\b")
NUMBER: Final = re.compile(r"(?<![\w.])[-+−]?\d+(?:,\d{3})*(?:\.\d+)?")
NEGATION_REACH_WORDS = 4  # words after a negation that it applies to


def contradicted_rule(lesson: Lesson, avoid: Sequence[str], found: Mapping[str, Candidate]) -> str | None:
    """Returns why a lesson must be flagged, or None if it may be shown."""
    candidate = found.get(lesson.candidate)
    if candidate is None:
        return "It rests on nothing that was computed"
    if phrase := _overriding(lesson.text, candidate):
        return f"It reads as an order past rules or limits, or as a promise: {quote_text(phrase, 60)}"
    if problem := _against_ledger(lesson.text, candidate, tested_count(list(found.values()))):
        return problem
    good = candidate.kind == "cell" and candidate.mean > 0
    for rule in avoid:
        if forbids(rule, lesson.text, good) or _not_the_only(rule, lesson.text, good, candidate):
            return f"It encourages what a rule forbids: {quote_text(rule, 120)}"
    return None


# --- orders and promises --------------------------------------------------------------------------------------------------


def _overriding(text: str, candidate: Candidate) -> str | None:
    """Returns the words that override rules or limits, or make a promise; None if there are none."""
    for clause in _clauses(text):
        for pattern in OVERRIDES:
            for match in pattern.finditer(clause):
                if not _denied(_words(clause[: match.start()])):
                    return match.group()
        is_praise = (_leaning(clause) or math.copysign(1, candidate.mean)) > 0
        bare = UNPROTECTED.search(clause)
        if bare and is_praise and not _denied(_words(clause[: bare.start()])):
            return bare.group()
    return None


# --- the ledger -----------------------------------------------------------------------------------------------------------


def _against_ledger(text: str, candidate: Candidate, cells: int) -> str | None:
    """Returns how a text contradicts the numbers; None if it does not."""
    for written in NUMBER.findall(text):
        if not _is_figure_of(written, candidate, cells):
            return f"It gives {written}, which is no figure of what it rests on"
    if candidate.kind != "cell":
        return None
    first = next((way for clause in _clauses(text) if (way := _leaning(clause))), 0)
    blamed = next((way for clause in _clauses(text) if (way := _leaning(clause, GOOD - URGING))), 0) < 0
    figure = f"{signed_figure(candidate.mean)}{'R' if candidate.unit.startswith('R') else ''}"
    if first > 0 and candidate.mean < 0:
        return f"It speaks well of trades whose mean is {figure}"
    if blamed and candidate.mean > 0 and candidate.mean >= (candidate.rest or 0.0):
        return f"It speaks ill of trades whose mean is {figure}, no worse than the rest"
    return None


def _is_figure_of(written: str, candidate: Candidate, cells: int) -> bool:
    """Returns True if a number is one of the candidate's at the written precision; if it has a sign, the sign must match."""
    plain = written.replace(",", "").replace("−", "-")
    value, half = float(plain), 0.5 * 10.0 ** -len(plain.partition(".")[2]) + 1e-9
    if any(abs(abs(value) - abs(float(phrase.replace(",", "").replace("−", "-")))) < 1e-9
           for phrase in NUMBER.findall(f"{candidate.label} {candidate.value} {candidate.unit}")):  # fmt: skip
        return True
    one = candidate
    outside = () if one.rest is None else (one.rest, one.mean - one.rest)
    # The risk after losses is shown as a multiple: 1 and what lies beyond.
    apart = () if one.difference is None else (*one.difference, *(1.0 + end for end in one.difference))
    figures = (one.n, one.total, one.total - one.n, one.mean, *one.interval, *outside, *apart, 100 * one.share, one.p_value,
               100 * one.p_value, 90, cells, one.days or 0, MIN_TRADING_DAYS)  # fmt: skip
    signed = plain[0] in "+-"
    return any(abs(figure - value) <= half or (not signed and abs(abs(figure) - value) <= half) for figure in figures)


# --- the owner's rules ----------------------------------------------------------------------------------------------------


def forbids(rule: str, text: str, good: bool = False) -> bool:
    """Returns True if a text encourages what a rule forbids. `good` is the direction of a clause that states none."""
    for part in _clauses(rule):
        words = _words(part)
        if ONLY & set(words):
            continue
        forbidden = _content(words) - FORBIDDING
        if any(_covered(forbidden, about, text) for about in _encouraged(text, good)):
            return True
    return False


def _encouraged(text: str, good: bool) -> list[frozenset[str]]:
    """Returns the subject of each encouraging clause: its own words and those of the clauses leading up to it.

    For example "in a range, longs work". A clause without a subject ("take more of them") has the subject of the clause before.
    """
    found: list[frozenset[str]] = []
    about, leading = frozenset[str](), frozenset[str]()
    for clause in _clauses(text):
        own = _content(_words(clause)) - FORBIDDING
        leaning, denies = _leaning(clause), bool(NOT & set(_words(clause)))
        leading |= own
        if any(word.isalpha() and word not in GOOD | BAD for word in leading):
            about = leading
        if leaning > 0 or (leaning == 0 and good and not denies):
            found.append(about)
        if leaning or denies:
            leading = frozenset()
    return found


def _covered(forbidden: frozenset[str], about: frozenset[str], text: str) -> bool:
    """Returns True if a clause is about what a rule names: its side (or no side), and at least half of its other words."""
    if any(AGAINST.get(word) in about and word not in about for word in forbidden):
        return False
    rest = forbidden - SIDES
    if not rest:
        return not forbidden or bool(forbidden & about)
    met = sum(word in about or _ticker(word, text) for word in rest)
    return 2 * met >= len(rest)


def _ticker(word: str, text: str) -> bool:
    """Returns True if a short name of a rule ("btc") begins a symbol of the text ("BTCUSDT")."""
    return 3 <= len(word) <= 5 and re.search(rf"\b{re.escape(word.upper())}[A-Z0-9]", text) is not None


def _not_the_only(rule: str, text: str, good: bool, candidate: Candidate) -> bool:
    """Returns True if a text encourages another one where a rule allows only one: "only London", "no trade outside London"."""
    words = [word for clause in _clauses(rule) for word in _words(clause)]
    place = next((at for at, word in enumerate(words) if word in ONLY), None)
    if place is None:
        return False
    allowed = _content(words[place + 1 :]) or _content(words[:place])
    encouraged = [about for about in _encouraged(text, good) if not allowed & about]
    for kind in KINDS:
        if allowed & kind and any(about & kind for about in encouraged):
            return True
    named = [word for word in allowed if not any(word in kind for kind in KINDS)]
    other_symbol = candidate.field.startswith("symbol") and not any(_ticker(w, text) or w in text.lower() for w in named)
    return bool(named) and other_symbol and len(named) == len(allowed) and bool(encouraged)


# --- words ----------------------------------------------------------------------------------------------------------------


@lru_cache(maxsize=512)
def _clauses(text: str) -> tuple[str, ...]:
    """Returns the clauses of a text in lower case, with misleading phrases replaced."""
    plain = text.lower().replace("’", "'").replace("_", " ")
    for pattern, word in NEUTRAL:
        plain = re.sub(pattern, word, plain)
    return tuple(part for part in re.split(r"[;:!?]|\.(?!\d)|, |,? but ", plain) if part.strip())


@lru_cache(maxsize=512)
def _words(clause: str) -> tuple[str, ...]:
    return tuple(re.findall(r"[a-z][a-z'-]*[a-z]|[a-z]|\d+", clause))


def _content(words: Sequence[str]) -> frozenset[str]:
    """Returns the stems of the words that carry the subject of a clause."""
    return frozenset(_stem(word) for word in words if word not in PLAIN)


def _stem(word: str) -> str:
    """Returns a word without its ending, or the stem of its synonyms.

    >>> [_stem(word) for word in ("shorting", "choppy", "breakouts", "friday")]
    ['short', 'range', 'breakout', 'friday']
    """
    if word in STEM_OF:
        return STEM_OF[word]
    for ending in ("ing", "ed", "es", "s"):
        if word.endswith(ending) and len(word) - len(ending) >= 4:
            bare = word.removesuffix(ending)
            return STEM_OF.get(bare, bare)
    return word


def _leaning(clause: str, good: frozenset[str] = GOOD) -> int:
    """Returns a score above 0 if a clause encourages, below 0 if it discourages. A negation before a word reverses it."""
    words = _words(clause)
    score = 0
    for at, word in enumerate(words):
        way = (word in good) - (word in BAD)
        score += -way if way and word not in NOT and _denied(words[:at]) else way
    return score


def _denied(before: Sequence[str]) -> bool:
    """Returns True if an odd number of negations comes shortly before the next word."""
    return sum(word in NOT for word in before[-NEGATION_REACH_WORDS:]) % 2 == 1
