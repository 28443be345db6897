"""The remark that a model may add to a lesson: which kind of entries its trades were, in phrases that memtape knows.

memtape writes what a lesson says: which trades, their figures, and how sure they are. What is left for a model is what it reads
in the reasons of those trades, like "late breakouts against the trend". So a remark names the entries, and where or when they
were:

    remark       = (early or late,) entries, (circumstance,) ("and", a comma or nothing, then a second circumstance)
    entries      = "entries", "breakouts", "pullback entries", ...; "longs" or "shorts" if these are the candidate's own
    circumstance = a whole phrase of the list: "near the session highs", "around news", "against the trend", ...

A bag of allowed words is not enough: "high momentum in longs" and "price gaps above resistance" are made of harmless words, and
claim something. With whole phrases a remark is about the trades of its candidate. There is no way to say another subject, a
verb, an order, a comparison, an amount, a cause, a forecast, a judgement or a negation. The phrases are few enough to be read one
by one.

Two circumstances answer different questions (where, when, after what, in which market), so that they do not contradict each
other. None answers what the label of the candidate already says. The phrase of the label itself ("in London", "on a Friday") may
be repeated whole, if the remark adds something to it. Text that a user or an agent wrote, like a tag or a symbol, is never
allowed; of trades with a tag, which names their setup, only "entries" is said. Trades entered after a loss get no remark: it
would read as a reason to enter.

>>> checked_remark("Late breakouts against the trend", "trades in London")
'late breakouts against the trend'
>>> checked_remark("shorts near the session lows, in london.", "shorts in London")
'shorts near the session lows, in London'
>>> [checked_remark(text, "trades in London") for text in ("increase size", "shorts around news", "late London")]
[None, None, None]
>>> checked_remark("entries against the trend", "longs in a trending up market") is None
True
"""

from __future__ import annotations

import re
from typing import Final

TIMING: Final = ("early", "late")
ENTRIES: Final = (
    "entries", "breakouts", "pullbacks", "breakout entries", "pullback entries", "retest entries", "reversal entries",
    "continuation entries",
)  # fmt: skip
SIDES: Final = ("longs", "shorts")
# The circumstances by the question that they answer.
CIRCUMSTANCES: Final = {
    "where": (
        "near the highs", "near the lows", "near the session highs", "near the session lows", "near the previous highs",
        "near the previous lows", "near resistance", "near support", "near a trend line",
    ),
    "when": (
        "around news", "around scheduled news", "around news releases", "around rollover", "around expiry", "around a holiday",
        "around the open", "around the close", "early in the session", "late in the session",
    ),
    "after what": (
        "after a gap", "after a spike", "after a fast move", "after an extended move", "after a retest", "before a retest",
        "before the candle close",
    ),
    "trend": ("against the trend", "with the trend", "against momentum", "with momentum", "in a narrow range", "inside a range"),
    "conditions": ("in thin liquidity", "in thin volume", "at wide spreads"),
}  # fmt: skip
# Phrases of labels. They are allowed only where the candidate's own label has them, and answer the question of their list.
LABEL_PHRASES: Final = {
    "session": ("in London", "in New York", "in the Asian session", "in the London-New York overlap"),
    "weekday": tuple(
        f"on a {day}" for day in ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
    ),
    "trend": tuple(f"in a {regime} market" for regime in ("trending up", "trending down", "ranging", "volatile")),
    "volatility": tuple(f"in {level} volatility" for level in ("low", "normal", "high")),
}  # fmt: skip
_QUESTIONS: Final = {
    phrase.lower(): (question, phrase)
    for phrases in (CIRCUMSTANCES, LABEL_PHRASES) for question, group in phrases.items() for phrase in group
}  # fmt: skip
_CIRCUMSTANCE: Final = "|".join(_QUESTIONS)
_REMARK: Final = re.compile(
    rf"(?:(?P<timing>{'|'.join(TIMING)}) )?(?P<entries>{'|'.join((*ENTRIES, *SIDES))})"
    rf"(?: (?P<first>{_CIRCUMSTANCE})(?:(?P<link> and|,|) (?P<second>{_CIRCUMSTANCE}))?)?\.?"
)


def checked_remark(text: str, label: str) -> str | None:
    """Returns the remark as it is shown, or None if it is not one of the phrases. `label` is that of the candidate."""
    # Letters of other scripts must not pass as the small letter of an English one.
    found = _REMARK.fullmatch(text.lower()) if text.isascii() else None
    # Text in quotes is a user's own, such as a tag.
    own = re.sub(r'"[^"]*"', '""', label.lower())
    if found is None or "loss" in own or not _entries_fit(found["entries"], own):
        return None
    places = [_QUESTIONS[one] for one in (found["first"], found["second"]) if one]
    questions = {question for question, _ in places}
    if len(questions) < len(places) or not all(_circumstance_fits(question, phrase, own) for question, phrase in places):
        return None
    new = any(phrase not in LABEL_PHRASES.get(question, ()) for question, phrase in places)
    if not (new or found["timing"] or found["entries"] not in ("entries", *SIDES)):
        return None
    shown = f"{found['link'] or ''} ".join(phrase for _, phrase in places)
    return " ".join(part for part in (found["timing"], found["entries"], shown) if part)


def _entries_fit(entries: str, own: str) -> bool:
    if entries in SIDES:
        return entries in own.split()
    return entries == "entries" or '""' not in own


def _circumstance_fits(question: str, phrase: str, own: str) -> bool:
    """Returns True for a phrase of the candidate's own label, or for an answer to a question on which the label is silent."""
    if phrase in LABEL_PHRASES.get(question, ()):
        return _is_in(phrase, own)
    return not any(_is_in(stated, own) for stated in LABEL_PHRASES.get(question, ()))


def _is_in(phrase: str, own: str) -> bool:
    return re.search(rf"\b{re.escape(phrase.lower())}\b", own) is not None
