"""The part of a passage that is shown with a hit: where most of what was asked for stands, on one line, without secrets.

A snippet is somebody's own words in front of a model, so it passes through `core.text.one_line` like all such words. Most of
that work is to look for keys, tokens and passwords at every character, and ten snippets would cost more than the search. Few
texts have any of the marks without which none of those is known: there the looking is left out. The line is the same either way.

>>> from memtape.documents.words import parse
>>> snippet("# Log\\n" + "nothing here\\n" * 40 + "moved the stop and lost", parse("stop lost"), 100)
'moved the stop and lost'
>>> line("set the api_key = 'a8f3-22kd-99zz'\\nthen run", 100)
"set the api_key = '(redacted)' then run"
"""

from __future__ import annotations

import re
import unicodedata

from memtape.core.text import capped, one_line
from memtape.documents.words import Asked

SNIPPET = 300
STEM = 5  # so many letters stand for a word in its other forms
MARGIN, NEEDED = 100, 60  # signs read behind what is shown, and how many must be left to know a secret that begins before them
# What secrets of a known form have in them, each of them one of these, or many signs in a row, or many numbered words.
FORMS = (
    "-----BEGIN", "sk-", "k_live_", "k_test_", "AKIA", "ASIA", "gho_", "ghp_", "ghs_", "ghu_", "ghr_", "github_pat_", "glpat-",
    "xox", "AIza", "eyJ",
)  # fmt: skip
LONGEST_WORD = 43
ANNOUNCING = ("bearer", "seed", "mnemonic", "recovery", "backup", "secret", "://", "basic")
_ANNOUNCED = re.compile(r"(?:key|secret|passwd|password|passphrase|token)[\"']?\s*[:=]")
_NUMBERED = re.compile(r"(?:\d[.):]?\s+[a-z]{3,8}[\s,;]+\d?){3}")
# A tag; letters that show nothing, or change the one before them; an i that only looks like one.
_MARKED = re.compile(
    "<[/!?|a-zA-Z]|[\x1f\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0\u180b-\u180f\ufe00-\ufe0f\u0130\u0131"
    "\U000e0100-\U000e01ef]"
)


def snippet(text: str, asked: Asked, cap: int = SNIPPET) -> str:
    """The part of a passage that has most of what was asked for, on one line."""
    if len(text) <= cap:
        return line(text, cap)
    places = _places(text.lower(), {word[:STEM] for word, _ in asked.words})
    start, most, last = 0, 0, 0
    for first, place in enumerate(places):
        while last < len(places) and places[last] < place + cap * 3 // 4:
            last += 1
        if last - first > most:
            start, most = place, last - first
    before = max(start - cap // 4, 0)
    begin = text.rfind("\n", before, start) + 1 or (text.find(" ", before, start) + 1 if before else 0)
    return line(text[begin : begin + 2 * cap], cap)


def _places(text: str, stems: set[str]) -> list[int]:
    """Where any of these stand."""
    found: list[int] = []
    for stem in stems:
        at = text.find(stem)
        while at >= 0:
            found.append(at)
            at = text.find(stem, at + len(stem))
    return sorted(found)


def line(text: str, cap: int) -> str:
    """A text as `one_line` gives it, quickly where there is nothing in it to be taken out."""
    begins = text[: cap + MARGIN]
    flat = " ".join(begins.split())
    if len(flat) < cap + NEEDED and len(begins) < len(text):  # much white space: what is shown reaches further
        begins, flat = text, " ".join(text.split())
    if not flat.isprintable() or _MARKED.search(begins):
        return one_line(text, cap)
    if not flat.isascii():  # which makes some longer, and of some pairs one
        flat = " ".join(unicodedata.normalize("NFKC", flat).split())
    cut = len(flat) < cap + NEEDED and len(begins) < len(text)
    return one_line(text, cap) if cut or may_be_secret(flat) else capped(flat, cap)


def may_be_secret(text: str) -> bool:
    """Whether anything on a line has a mark of a secret. Rather once too often: then it is looked at closely.

    >>> [may_be_secret(text) for text in ("the key level held", "key: the level held", "sk-abcdefabcdefabcdef", "a" * 64)]
    [False, True, True, True]
    """
    lower = text.lower()
    return (
        any(form in text for form in FORMS) or any(word in lower for word in ANNOUNCING)
        or max(map(len, text.split(" "))) > LONGEST_WORD or _ANNOUNCED.search(lower) is not None
        or _NUMBERED.search(text) is not None
    )  # fmt: skip
