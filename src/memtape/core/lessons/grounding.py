"""Grounding: decides which of a model's lessons are accepted. A model words what was computed and adds nothing.

Each lesson names a candidate and trades that the candidate counts, and every number in its text is one of the candidate's own, at
the written precision. A lesson that could be chance says so. A lesson that breaks a rule is rejected with the reason, never
repaired; one that contradicts an `avoid` rule is flagged for the owner. If no lesson is left, the reflection has failed and the
one before it stays active.

>>> from memtape.core.lessons.reflection import Candidate
>>> shorts = Candidate(id="c1", slot="entry_timing", kind="cell", field="session", value="london", label="shorts in London",
...     unit="R", n=41, total=120, mean=-0.3812, interval=(-0.61, -0.15), rest=0.12, p_value=0.004, chance=False,
...     trades=("t1", "t2"))
>>> answer = {"slot": "entry_timing", "candidate": "c1", "trades": ["t2"], "n": 41, "mean": -0.38}
>>> true, wrong = "Shorts in London: -0.38R a trade (n = 41); ask more of the setup.", "Shorts in London: -0.9R a trade."
>>> answers = {"lessons": [answer | {"text": true}, answer | {"text": wrong}]}
>>> accepted, rejected = ground_lessons(answers, [shorts], ["t1", "t2"], [])
>>> [lesson.text for lesson in accepted], [one.why for one in rejected]
(['Shorts in London: -0.38R a trade (n = 41); ask more of the setup.'], ['-0.9R is none of the numbers of its candidate'])
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Annotated, Any

from pydantic import Field, ValidationError

from memtape.core.brief.budget import estimate_tokens
from memtape.core.brief.sanitize import HIDDEN, clean_line, one_line, redact_secrets
from memtape.core.codec import make_id
from memtape.core.lessons.answer import LONGEST_LESSON, LessonAnswer
from memtape.core.lessons.avoid_rules import contradicted_rule
from memtape.core.lessons.reflection import MAX_LESSON_CHARS, Candidate, Lesson

MAX_NOTE_TOKENS = 300  # of all lessons, as estimated
MAX_ANSWER_LESSONS = 32
MODEL_TIER = 3  # the tier of text written by a model
INTERVAL_PERCENT = 90  # per cent of the interval


@dataclass(frozen=True, slots=True)
class RejectedLesson:
    """A rejected lesson, and why."""

    text: str
    candidate: str
    why: str


class _CompleteLesson(LessonAnswer):
    """A lesson with stricter limits than the schema can state."""

    text: Annotated[str, Field(min_length=1)]
    trades: Annotated[list[str], Field(min_length=1, max_length=1_000)]
    mean: Annotated[float, Field(allow_inf_nan=False)]


def ground_lessons(
    answer: Mapping[str, Any], candidates: Sequence[Candidate], window_ids: Collection[str], avoid: Sequence[str]
) -> tuple[tuple[Lesson, ...], tuple[RejectedLesson, ...]]:
    """Returns the accepted lessons of an answer, flagged ones included, and the rejected ones."""
    found, window = {one.id: one for one in candidates}, frozenset(window_ids)
    given = answer.get("lessons")
    if not isinstance(given, list) or len(answer) != 1 or len(given) > MAX_ANSWER_LESSONS:
        return (), (RejectedLesson("", "", f"the answer is not one list of at most {MAX_ANSWER_LESSONS} lessons"),)
    accepted: list[Lesson] = []
    rejected: list[RejectedLesson] = []
    for one in given:
        lesson = _lesson(one, found, window, accepted)
        if isinstance(lesson, RejectedLesson):
            rejected.append(lesson)
        else:
            accepted.append(replace(lesson, flagged=contradicted_rule(lesson, avoid, found)))
    return tuple(accepted), tuple(rejected)


def rejection_summary(rejected: Sequence[RejectedLesson]) -> str:
    """Returns why no lesson of an answer was accepted, for the log.

    >>> linked = [RejectedLesson("Buy more.", "c1", "it holds a link"), RejectedLesson("Sell.", "c9", "it holds a link")]
    >>> rejection_summary([]), rejection_summary(linked)
    ('the model gave no lesson', '2 lessons, none grounded: it holds a link')
    """
    if not rejected:
        return "the model gave no lesson"
    count = "1 lesson, not" if len(rejected) == 1 else f"{len(rejected)} lessons, none"
    return f"{count} grounded: {'; '.join(dict.fromkeys(one.why for one in rejected))}"


def _lesson(
    one: object, found: Mapping[str, Candidate], window: frozenset[str], accepted: Sequence[Lesson]
) -> Lesson | RejectedLesson:
    try:
        answer = _CompleteLesson.model_validate(one)
    except ValidationError as problem:
        first = problem.errors(include_url=False)[0]
        return RejectedLesson(
            "", "", f"it does not fit the schema: {'.'.join(map(str, first['loc'])) or 'lesson'}: {first['msg']}"
        )
    candidate = found.get(answer.candidate)
    why = _problem(answer, candidate, window, accepted)
    if why is not None or candidate is None:
        return RejectedLesson(one_line(answer.text, 160), one_line(answer.candidate, 64), why or "")
    text = clean_line(answer.text)
    return Lesson(
        id=make_id(candidate.id, text), slot=candidate.slot, text=text, candidate=candidate.id, n=candidate.n,
        chance=candidate.chance, trades=tuple(dict.fromkeys(answer.trades)), regime=candidate.regime, tier=MODEL_TIER,
    )  # fmt: skip


def _problem(
    answer: _CompleteLesson, candidate: Candidate | None, window: frozenset[str], accepted: Sequence[Lesson]
) -> str | None:
    """Returns the first rule that a lesson breaks, or None."""
    if candidate is None:
        return "it names a candidate that was not computed"
    text = clean_line(answer.text)
    return (
        _uncited(answer, candidate, window) or _unplain(answer.text, text, candidate) or _commanding(text)
        or _overclaimed(text, candidate) or _uncounted(text, candidate) or _crowded(text, candidate, accepted)
    )  # fmt: skip


def _uncited(answer: _CompleteLesson, candidate: Candidate, window: frozenset[str]) -> str | None:
    if any(trade not in window for trade in answer.trades):
        return "it cites a trade that is not of the window"
    if any(trade not in candidate.trades for trade in answer.trades):
        return "it cites a trade that its candidate does not count"
    if answer.slot != candidate.slot:
        return f"its slot is not that of its candidate, {candidate.slot}"
    if answer.n != candidate.n or not _equal(Decimal(repr(answer.mean)), candidate.mean):
        return "its n or mean is not that of its candidate"
    return None


def _crowded(text: str, candidate: Candidate, accepted: Sequence[Lesson]) -> str | None:
    if any(one.candidate == candidate.id for one in accepted):
        return "another lesson speaks of the same candidate"
    note = "\n".join(f"- {line}" for line in (*(one.text for one in accepted), text))
    fits = len(note) <= MAX_LESSON_CHARS and estimate_tokens(note) <= MAX_NOTE_TOKENS
    return None if fits else "there is no room for it after the lessons before it"


# ---- its words ---------------------------------------------------------------------------------------------------------

_LINK = re.compile(r"://|\bwww\.|\b[\w-]+\.(?:com|net|org|io|ai|co|dev|app|xyz|me|ru|cn|gg|info|finance|exchange)\b|\w@\w", re.I)
_MARKS = frozenset("`{}[]|\\#*~^_")
_TAG = re.compile(r"<[/!?a-z]", re.I)
_LISTED = re.compile(r"^(?:[-*+•>]|\d{1,3}[.)])\s")
_ORDER = re.compile(
    r"\b(?:ignor|disregard|forget|overrid|overrul|bypass|circumvent|suspend|disabl|skip|lift|remov|cancel|violat|break|turn off"
    r"|switch off)\w*\s+(?:(?:the|your|any|all|every|its|our|these|those|previous|prior|earlier|above|hard|risk|of|position"
    r"|daily)\s+){0,4}(?:rules?|strateg(?:y|ies)|instructions?|limits?|leash|stops?|stop-loss(?:es)?|caps?|guard(?:rail)?s?"
    r"|prompts?|safety|avoid)\b", re.I,
)  # fmt: skip
_ROLE = re.compile(
    r"\b(?:system|assistant|user|developer|human)\s*:|\byou are now\b|\bnew instructions?\b|\bsystem prompt\b|\bfrom now on\b"
    r"|\bpretend\b|\bas an ai\b|\bact as\b|\bprevious (?:instruction|prompt)", re.I,
)  # fmt: skip
_PROMISE = re.compile(
    r"\bguarante|\brisk[- ]free\b|\b(?:cannot|can't|never) lose\b|\bsure thing\b|\bwill (?:win|profit|make money)\b", re.I
)  # fmt: skip


def _unplain(raw: str, text: str, candidate: Candidate) -> str | None:
    """Returns why the text is not one short line of plain words: hidden characters, links, markup or look-alike letters."""
    own = f"{candidate.label} {candidate.value}"
    if len(raw.splitlines()) > 1 or any(unicodedata.category(letter) in HIDDEN for letter in raw):
        return "it is more than one line, or holds characters that are not shown"
    if len(text) > LONGEST_LESSON:
        return f"it is longer than {LONGEST_LESSON} characters"
    if _LINK.search(text) or redact_secrets(text) != text:
        return "it holds a link or a key"
    if _TAG.search(text) or _LISTED.match(text) or any(letter in _MARKS and letter not in own for letter in text):
        return "it holds markup"
    if any(not _latin(letter) and letter not in own for letter in text):
        return "it holds letters or digits of another script"
    return None if any(letter.isalpha() for letter in text) else "it says nothing"


def _latin(letter: str) -> bool:
    return letter.isascii() or not letter.isalnum() or unicodedata.name(letter, "").startswith("LATIN")


def _commanding(text: str) -> str | None:
    if _ORDER.search(text) or _ROLE.search(text):
        return "it tells the agent to set rules aside, or poses as an instruction"
    return "it promises a profit" if _PROMISE.search(text) else None


_FILLED = r"(?:(?:well|also|still|easily|just|simply|only|due|down|to|by|a|matter|of|mere|pure|plain|bad|good|random)\s+)*"
_HEDGE = re.compile(
    rf"\b(?:could|may|might|can)\s+{_FILLED}be\s+{_FILLED}(?:chance|luck|noise|variance)\b"
    r"|\bnot\s+(?:yet\s+|clearly\s+)?(?:distinguishable|different|told apart)\s+from\s+(?:chance|luck|noise)\b", re.I,
)  # fmt: skip
_UNTESTED = re.compile(r"\bnot (?:been )?tested (?:against|for) chance\b", re.I)
_DENIAL = re.compile(
    r"(?:\bnot\b|n't\b|\bcannot\b|\bunlikely\b|\bhardly\b|\bmore than\b|\bbeyond\b|\brules? out\b)"
    r"[^.;,]{0,20}\b(?:chance|luck|noise|variance)\b", re.I,
)  # fmt: skip
_CERTAIN = re.compile(
    r"(?<!not )\b(?:clearly|certainly|definitely|surely|undoubtedly|undeniably|obviously|proven|proves?|always|never|every time"
    r"|without (?:a )?doubt|reliabl[ye]|consistent(?:ly)?|significant(?:ly)?|no question)\b", re.I,
)  # fmt: skip


def _overclaimed(text: str, candidate: Candidate) -> str | None:
    """Returns how the text claims more certainty than its candidate has, or None.

    A candidate without a comparison may also be said to be untested.
    """
    if not candidate.chance:
        return None
    rest = _HEDGE.sub("", text)
    rest = _UNTESTED.sub("", rest) if candidate.rest is None else rest
    if rest == text:
        return "its candidate could be chance, and it does not say so"
    return "its candidate could be chance, and it claims to be sure" if _DENIAL.search(rest) or _CERTAIN.search(rest) else None


# ---- its numbers -------------------------------------------------------------------------------------------------------


def numbers_in(candidate: Candidate) -> dict[str, float]:
    """Returns the numbers that a lesson about a candidate may use, to 6 digits, as the model sees them."""
    low, high = candidate.interval
    shown = {"n": candidate.n, "total": candidate.total, "share_pct": 100 * candidate.share, "mean": candidate.mean}
    shown |= {"low": low, "high": high}
    if candidate.rest is not None:
        shown |= {"rest": candidate.rest, "difference": candidate.mean - candidate.rest}
    return {name: value if isinstance(value, int) else float(f"{value:.6g}") for name, value in shown.items()} | {
        "p": float(f"{candidate.p_value:.6g}")
    }


_DASHES = str.maketrans("−–—‒", "----")
_UNITS = {"R": "R", "account": "money"}
TIMES = "size_after_losses"  # the kind of candidate whose amounts are multiples of the usual risk
_AMOUNTS = ("mean", "low", "high", "rest", "difference")
_NUMBER = re.compile(r"\d+(?:,\d{3})+(?:\.\d+)?|\d*\.\d+|\d+")
_PERCENT = re.compile(r"\s?(?:%|percent\b|per cent\b)")
_RANGE = r"(?:\s?(?:to|and|-)\s?[+-]?[\d.,]*\d)?"  # in a range the unit follows the second number: 0.1 to 0.3R
_IN_R = re.compile(rf"{_RANGE}\s?R\b")
_IN_TIMES = re.compile(rf"{_RANGE}\s?(?:x\b|×|times\b)")
_CODE = re.compile(r"\s?(?:USD[TC]?|EUR|GBP|JPY|CHF|dollars?|euros?)\b")
_LOSING = re.compile(r"\b(?:los[est]\w*|cost\w*|down|negative|minus|gave|giv\w+|heat|adverse\w*|bled)\b", re.I)
_LOST = re.compile(r"\b(?:lost|loses?|losing|minus|loss of|costs?)\s+(?:(?:about|roughly|on|an|average|of)\s+)*[$€£¥]?$", re.I)
_P = re.compile(r"\bp(?:-value)?\s?(?:=|of|is|:)\s?$", re.I)
_MEASURE = re.compile(  # units that a count of trades cannot have
    r"\s?(?:lots?|contracts?|shares?|coins?|units?|pips?|points?|ticks?|bps|min(?:ute)?s?|h(?:our)?s?|days?|weeks?|months?|bars?"
    r"|candles?)\b", re.I,
)  # fmt: skip
_IN_WORDS = re.compile(
    r"\b(?:zero|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|\w+teen|twenty|thirty|forty|fifty|sixty|seventy|eighty"
    r"|ninety|hundreds?|thousands?|millions?|dozens?|half|halves|quarters?|thirds|twofold|threefold|tenfold)\b", re.I,
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Number:
    """A number in a text, with its surroundings."""

    shown: str
    value: Decimal  # without its sign
    sign: str  # '+', '-' or none
    unit: str  # 'R', '%', 'money', 'times', none, or 'word' if it is part of a word
    before: str
    after: str


def _numbers(text: str) -> Iterator[_Number]:
    text = text.translate(_DASHES)
    for found in _NUMBER.finditer(text):
        before, after = text[: found.start()], text[found.end() :]
        bare = before.rstrip("$€£¥")
        # Between two letters or digits, a dash joins them and is no sign.
        signed = bare[-1:] in ("+", "-") and not bare[-2:-1].isalnum()
        unit = "money" if bare != before or _CODE.match(after) else ""
        for other, form in (("%", _PERCENT), ("R", _IN_R), ("times", _IN_TIMES)):
            unit = other if form.match(after) else unit
        if not unit and (before[-1:].isalpha() or after[:1].isalpha()):
            unit = "word"
        shown = _word(text[before.rfind(" ") + 1 :].split(" ")[0])
        yield _Number(shown, Decimal(found[0].replace(",", "")), bare[-1] if signed else "", unit, before, after)


def _word(token: str) -> str:
    return token.strip("()[]{},;:.!?'\"")


def _uncounted(text: str, candidate: Candidate) -> str | None:
    """Returns the problem with the first number that the candidate does not have, or None.

    Numbers of the candidate's label are allowed: 'after 2 losses', '12-16 UTC', 'US500'.
    """
    own = f"{candidate.label} {candidate.value}"
    labelled = list(_numbers(own))
    words = {_word(token) for token in own.lower().split()}
    for number in _numbers(text):
        if number.unit == "word":
            known = number.shown.lower() in words
        else:
            known = _computed(number, candidate) or any(_labelled(number, one) for one in labelled)
        if not known:
            return f"{number.shown} is none of the numbers of its candidate"
    for spelled in _IN_WORDS.findall(text):
        if spelled.lower() not in words:
            return f"'{spelled}' is a number in words, which cannot be checked"
    return None


def _computed(number: _Number, candidate: Candidate) -> bool:
    """Returns True if a number is the candidate's: a share by its %, an amount by unit or sign, otherwise a count or p-value."""
    shown = numbers_in(candidate)
    if number.unit == "%":
        return not number.sign and (number.value == INTERVAL_PERCENT or _equal(number.value, shown["share_pct"]))
    if not number.unit and not number.sign:
        if _P.search(number.before):
            return _equal(number.value, shown["p"])
        return number.value in (shown["n"], shown["total"]) and not _MEASURE.match(number.after)
    if number.unit not in ("", "times" if candidate.kind == TIMES else _UNITS[candidate.unit]):
        return False
    return any(_amount(number, name, shown[name], candidate.kind) for name in _AMOUNTS if name in shown)


def _labelled(number: _Number, own: _Number) -> bool:
    """Returns True if a number is the label's number: the same, or an amount of R with its sign in words."""
    if (number.sign, number.value, number.unit) == (own.sign, own.value, own.unit):
        return True
    return number.unit == own.unit == "R" and _amount(number, "label", float(f"{own.sign}{own.value}"), "label")


def _amount(number: _Number, name: str, figure: float, kind: str) -> bool:
    """Returns True if a number is this amount. Without a sign it is a gain, unless words next to it say that it was lost."""
    if number.sign:
        return _equal(Decimal(f"{number.sign}{number.value}"), figure)
    if not _equal(number.value, abs(figure)):
        return False
    if name == "difference" or figure == 0:
        return True
    if figure > 0:
        return kind != "cell" or not _LOST.search(number.before)
    return bool(_LOSING.search(number.before[-48:]) or _LOSING.search(number.after[:24]))


def _equal(written: Decimal, figure: float) -> bool:
    """Returns True if a number equals a computed value at the written precision, and is not too coarse to be meaningful.

    >>> [_equal(Decimal(w), -0.4194) for w in ("-0.42", "-0.4", "-0.43", "0", "0.42")]
    [True, True, False, False, False]
    >>> _equal(Decimal("1"), 0.6), _equal(Decimal("12"), 12.34)
    (False, True)
    """
    exact = Decimal(repr(figure))
    places = max(-int(written.as_tuple().exponent), 0)
    off = abs(written - exact)
    if off > Decimal(5).scaleb(-places - 1):
        return False
    if written == 0:
        return abs(exact) < Decimal("0.005")
    return places >= 1 or off <= abs(exact) / 10
