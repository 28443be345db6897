"""A brief as a page shows it: line by line with what each line rests on, what memory adds to it, and what its parts weigh.

>>> [(line.sign, line.text) for line in diff_lines("a\\nb\\n", "a\\nc\\nb\\n")]
[(' ', 'a'), ('+', 'c'), (' ', 'b')]
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from difflib import SequenceMatcher
from typing import Any, NamedTuple
from urllib.parse import quote

from memtape.core.brief.sections import FROM_MEMORY
from memtape.errors import Invalid

VIEWS: Mapping[str, str] = {"with": "with memory", "without": "without memory", "difference": "what memory adds"}
_PAGES: Mapping[str, str] = {
    "trade": "/trades/", "episode": "/trades/", "belief": "/beliefs/", "plan": "/plans#plan-", "lesson": "/lessons#lesson-",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class BriefForm:
    """What the form asks; everything is text as it was typed, times in UTC."""

    as_of: str = ""
    head: str = ""
    symbol: str = ""
    budget: str = ""
    view: str = "with"

    @classmethod
    def read(cls, query: Mapping[str, str]) -> BriefForm:
        """From an address.

        >>> BriefForm.read({"as_of": "2026-06-04T08:00", "view": "sideways"})
        BriefForm(as_of='2026-06-04T08:00', head='', symbol='', budget='', view='with')
        """
        given = {field.name: query[field.name].strip() for field in fields(cls) if field.name in query}
        return cls(**{name: text for name, text in given.items() if text and (name != "view" or text in VIEWS)})

    def asking(self) -> dict[str, Any]:
        """As the operation takes it. A time without a zone is UTC, as the form says.

        >>> BriefForm(as_of="2026-06-04T08:00", head="12").asking()
        {'as_of': '2026-06-04T08:00Z', 'head': 12}
        """
        asked: dict[str, Any] = {"as_of": _zoned(self.as_of), "symbol": self.symbol}
        asked |= {name: whole(name, getattr(self, name)) for name in ("head", "budget")}
        return {name: value for name, value in asked.items() if value not in (None, "")}

    @property
    def picked(self) -> str:
        """The moment as the browser's picker takes it: to the second, without a zone."""
        return self.as_of[:19].rstrip("Z")


def _zoned(time: str) -> str:
    bare = bool(time) and not time.endswith(("Z", "z")) and "+" not in time and "-" not in time[10:]
    return f"{time}Z" if bare else time


def whole(name: str, text: str) -> int | None:
    """A whole number as it was typed; nothing typed is None."""
    if not text:
        return None
    if not (text.isascii() and text.isdigit() and len(text) < 10):
        raise Invalid(name, "is not a whole number", "Write it like 12")
    return int(text)


# ---- the lines ----------------------------------------------------------------------------------------------------------


class LineOrigin(NamedTuple):
    """What a line rests on: in words, where that is told in full (or nowhere), and where it comes from."""

    kind: str
    id: str
    to: str
    tier: int


class BriefTextLine(NamedTuple):
    """A line of a brief. `segment` is named on the first line of each; `sign` says what a comparison found."""

    number: int
    text: str
    segment: str = ""
    rests: tuple[LineOrigin, ...] = ()
    sign: str = " "


def brief_text_lines(brief: Mapping[str, Any], path: str) -> list[BriefTextLine]:
    """The text of a brief, each line with what it rests on. Joined by line breaks they are its very bytes."""
    rests: dict[int, list[LineOrigin]] = {}
    for cited in brief["citations"]:
        rests.setdefault(cited["line"], []).append(_rests(cited, path))
    begins = _begins(brief["text"], brief["segments"])
    return [
        BriefTextLine(n, text, begins.get(n, ""), tuple(rests.get(n, ())))
        for n, text in enumerate(brief["text"].removesuffix("\n").split("\n"), 1)
    ]


def _rests(cited: Mapping[str, Any], path: str) -> LineOrigin:
    kind, id_ = cited["kind"], cited["id"]
    if kind == "discrepancy":
        return LineOrigin(kind, id_, f"{path}#discrepancies", cited["tier"])
    to = f"{path}{_PAGES[kind]}{quote(id_, safe='')}" if kind in _PAGES else ""
    return LineOrigin(kind, id_, to, cited["tier"])


def _begins(text: str, segments: Sequence[Mapping[str, Any]]) -> dict[int, str]:
    """The line on which each segment begins.

    >>> two = [{"name": "header", "text": "You are."}, {"name": "footer", "text": "Decide."}]
    >>> _begins("=== system ===\\nYou are.\\n\\nDecide.\\n", two)
    {2: 'header', 4: 'footer'}
    """
    found: dict[int, str] = {}
    at = 0
    for segment in segments:
        place = text.find(segment["text"], at)
        if place >= 0:
            found[text.count("\n", 0, place) + 1] = segment["name"]
            at = place + len(segment["text"])
    return found


def diff_lines(before: str, after: str) -> list[BriefTextLine]:
    """Two texts line by line: `+` stands only in the second, `-` only in the first. The numbers are those of the second."""
    old, new = (text.removesuffix("\n").split("\n") for text in (before, after))
    found: list[BriefTextLine] = []
    for what, i1, i2, j1, j2 in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if what == "equal":
            found += [BriefTextLine(n + 1, new[n]) for n in range(j1, j2)]
            continue
        found += [BriefTextLine(0, old[n], sign="-") for n in range(i1, i2)]
        found += [BriefTextLine(n + 1, new[n], sign="+") for n in range(j1, j2)]
    return found


# ---- what the parts weigh -------------------------------------------------------------------------------------------------


class TokenShare(NamedTuple):
    """A part of a brief and its tokens; `x` and `width` are its place on the bar of the whole, in %."""

    name: str
    role: str
    tokens: int
    left_out: int
    memory: bool
    x: float
    width: float


class TokenBar(NamedTuple):
    """What a brief weighs: its parts one after the other, and where on their bar the warning begins."""

    parts: Sequence[TokenShare]
    total: int
    threshold: int
    mark: float
    past: bool
    warnings: Sequence[str]


def token_bar(brief: Mapping[str, Any]) -> TokenBar:
    """The parts on one bar that takes in both the whole and the threshold.

    >>> segments = [{"name": "header", "role": "system", "tokens": 500, "left_out": 0},
    ...             {"name": "memory", "role": "user", "tokens": 1400, "left_out": 2}]
    >>> found = token_bar({"segments": segments, "tokens": 2000, "threshold": 1500,
    ...     "warnings": ["2,000 tokens, more than 1,500"]})
    >>> [(part.name, part.x, part.width) for part in found.parts], found.mark, found.past
    ([('header', 0.0, 25.0), ('memory', 25.0, 70.0), ('', 95.0, 5.0)], 75.0, True)
    """
    total, threshold = brief["tokens"], brief["threshold"]
    told = [(s["name"], s["role"], s["tokens"], s["left_out"]) for s in brief["segments"] if s["tokens"]]
    around = total - sum(tokens for _, _, tokens, _ in told)
    told += [("", "", around, 0)] if around > 0 else []
    scale = 100 / max(sum(tokens for _, _, tokens, _ in told), threshold, 1)
    parts, at = [], 0
    for name, role, tokens, left_out in told:
        parts.append(
            TokenShare(name, role, tokens, left_out, name in FROM_MEMORY, round(at * scale, 3), round(tokens * scale, 3))
        )
        at += tokens
    return TokenBar(parts, total, threshold, round(threshold * scale, 3), total > threshold, _other_warnings(brief))


def _other_warnings(brief: Mapping[str, Any]) -> list[str]:
    """What is to be known of a brief besides its length, which the bar tells."""
    length = f"{brief['tokens']:,} tokens, more than"
    return [warning for warning in brief["warnings"] if not warning.startswith(length)]
