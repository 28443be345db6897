"""What fits into a brief: every line says how dear it is, and the dearest that fit are kept.

A section has a budget of its own, so that no kind of memory crowds out the others; then the whole has one. What is given up
first is fixed (`LinePriority`, from its end), and lines are kept strictly in that order: a longer budget only ever adds.
Header, limits, strategy, rules, open positions, risk state, footer and the first warning are never given up.

>>> one = BriefSection("similar", "user",
...     (BriefLine("- a", keep=LinePriority.SIMILAR), BriefLine("- b", keep=LinePriority.SIMILAR)), "## Similar")
>>> kept = fit_sections([one], 5, lambda sections: estimate_tokens("".join(section.text for section in sections)))
>>> [(section.text, section.left_out) for section in kept]
[('## Similar\\n- a', 1)]
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum

from memtape.core.brief.inputs import Role, SourceRef

Count = Callable[[str], int]
ESTIMATE = "estimate: 1 token for 3 bytes"
# Tokens that a section may take, whatever the whole may.
SECTION_TOKENS = {"rules": 800, "lessons": 700, "recent_trades": 1_600, "memory": 1_600, "similar": 500}


class LinePriority(IntEnum):
    """How dear a line is: the first is kept to the end, the last is given up first."""

    ALWAYS = 0
    LESSON = 1
    EVIDENCE = 2
    WARNING = 3  # those after the first
    PLAN = 4
    CONVICTION = 5
    FIRST_EVENT = 6
    REASON = 7  # why a plan was made
    RECENT = 8
    RANKED = 9
    EVENT = 10
    DOCUMENT = 11
    SIMILAR = 12


@dataclass(frozen=True, slots=True)
class BriefLine:
    """One line, what it rests on, and how dear it is; `more` follows it while there is room for a `Keep.REASON`."""

    text: str
    sources: tuple[SourceRef, ...] = ()
    keep: LinePriority = LinePriority.ALWAYS
    more: str = ""


@dataclass(frozen=True, slots=True)
class BriefSection:
    """The lines of one segment, under its heading. Without lines there is no heading either."""

    name: str
    role: Role
    lines: tuple[BriefLine, ...]
    heading: str = ""
    left_out: int = 0

    @property
    def text(self) -> str:
        """As it is read."""
        return "\n".join([*([self.heading] if self.heading else []), *(line.text + line.more for line in self.lines)])


def estimate_tokens(text: str) -> int:
    """Tokens, by a rule of thumb that errs on the high side for prose and on the low side for figures.

    A closed trade comes to some 45, prose to four thirds of what tokenizers count; a Chinese character is one.

    >>> estimate_tokens('- 2026-06-04T08:15 → 09:00 ETH short $180 @ 3,420 → 3,455 -$9.70 (-0.5%) 45m "funding extreme"')
    33
    """
    return -(-len(text.encode()) // 3)


def fit_section(section: BriefSection, count: Count) -> BriefSection:
    """A section cut to its own budget: the dearest lines first, in their order. Cut rules say that they are cut."""
    most = SECTION_TOKENS.get(section.name)
    if most is None:
        return section
    dear_first = sorted(range(len(section.lines)), key=lambda at: (section.lines[at].keep, at))
    fitted: set[int] = set()
    taken = 0
    for at in dear_first:
        line = section.lines[at]
        taken += count(f"{line.text}{line.more}\n")
        if taken > most and (line.keep or section.name == "rules"):
            break
        fitted.add(at)
    lines = tuple(line for at, line in enumerate(section.lines) if at in fitted)
    missing = len(section.lines) - len(lines)
    if missing and section.name == "rules":
        lines += (BriefLine(f"- (cut here: {missing} more lines of rules are over their budget of {most} tokens)"),)
    return replace(section, lines=lines, left_out=section.left_out + missing)


_Piece = tuple[int, int, bool]  # section, line, and whether it is only what follows the line


def fit_sections(
    sections: Sequence[BriefSection], budget: int, cost: Callable[[Sequence[BriefSection]], int]
) -> tuple[BriefSection, ...]:
    """The sections with as many lines as the budget holds, the dearest first; what may not be left out stays in any case.

    `cost` must not fall when lines are added. The longest affordable beginning is found by halving, for counting may be slow.
    """
    order = _dear_first(sections)
    if cost(sections) <= budget:
        return tuple(sections)
    fits, over = 0, len(order)
    while over - fits > 1:
        middle = (fits + over) // 2
        if cost(_with(sections, order[:middle])) <= budget:
            fits = middle
        else:
            over = middle
    return _with(sections, order[:fits])


def _dear_first(sections: Sequence[BriefSection]) -> list[_Piece]:
    """Everything that may be left out, the dearest first."""
    found: list[tuple[LinePriority, _Piece]] = []
    for at, section in enumerate(sections):
        for place, line in enumerate(section.lines):
            if line.keep:
                found.append((line.keep, (at, place, False)))
            if line.more:
                found.append((max(line.keep, LinePriority.REASON), (at, place, True)))
    return [piece for _, piece in sorted(found)]


def _with(sections: Sequence[BriefSection], pieces: Collection[_Piece]) -> tuple[BriefSection, ...]:
    """The sections with these pieces and what may not be left out; a section without lines is gone."""
    chosen = frozenset(pieces)
    fitted: list[BriefSection] = []
    for at, section in enumerate(sections):
        lines = tuple(
            line if not line.more or (at, place, True) in chosen else replace(line, more="")
            for place, line in enumerate(section.lines)
            if not line.keep or (at, place, False) in chosen
        )
        if lines:
            fitted.append(replace(section, lines=lines, left_out=section.left_out + len(section.lines) - len(lines)))
    return tuple(fitted)
