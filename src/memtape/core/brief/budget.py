"""Decides which lines fit into a brief: every line has a priority, and the lines of the highest priority are kept.

A section can have a budget of its own, so that no kind of memory crowds out the others; the whole brief has one too. Lines are
kept strictly in the order of `LinePriority`, so a larger budget only adds lines. Header, limits, strategy, open positions, risk
state, footer and the first warning are never left out; pinned rules only where the budget has no room for them (`rule_room`).

>>> one = BriefSection("similar", "user",
...     (BriefLine("- a", keep=LinePriority.SIMILAR), BriefLine("- b", keep=LinePriority.SIMILAR)), "## Similar")
>>> fitted = fit_sections([one], 5, lambda sections: estimate_tokens("".join(section.text for section in sections)))
>>> [(section.text, section.left_out) for section in fitted]
[('## Similar\\n- a', 1)]
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from enum import IntEnum

from memtape.core.brief.inputs import Role, SourceRef
from memtape.core.brief.token_estimate import ESTIMATE, estimate_tokens
from memtape.core.value_class import dataclass

__all__ = ["ESTIMATE", "BriefLine", "BriefSection", "Count", "LinePriority", "estimate_tokens", "fit_section", "fit_sections"]
Count = Callable[[str], int]


class LinePriority(IntEnum):
    """The priority of a line: the first is always kept, the last is left out first."""

    ALWAYS = 0
    LESSON = 1
    EVIDENCE = 2
    WARNING = 3  # every warning after the first
    PLAN = 4
    CONVICTION = 5
    FIRST_EVENT = 6
    REASON = 7  # the reason of a plan
    RECENT = 8
    RANKED = 9
    EVENT = 10
    DOCUMENT = 11
    SIMILAR = 12


@dataclass(frozen=True, slots=True)
class BriefLine:
    """One line, its sources and its priority. `more` is added to the line if there is room for `LinePriority.REASON`.

    `free` are the words in it that a model or an external source wrote, each with its author; `bare` is the line without them. A
    line without a bare form is left out if the words find no room (`free_text`). A line of a document has the name of its
    `part` and its `number` there, by which it is named if it finds no room.
    """

    text: str
    sources: tuple[SourceRef, ...] = ()
    keep: LinePriority = LinePriority.ALWAYS
    more: str = ""
    free: tuple[tuple[str, str], ...] = ()  # author, words
    bare: str | None = None
    part: str = ""
    number: int = 0


@dataclass(frozen=True, slots=True)
class BriefSection:
    """The lines of one segment under its heading. A section without lines is omitted, heading included."""

    name: str
    role: Role
    lines: tuple[BriefLine, ...]
    heading: str = ""
    left_out: int = 0
    unshown: tuple[str, ...] = ()  # the parts of pinned rules that found no room, by name

    @property
    def text(self) -> str:
        """The section as the model reads it."""
        return "\n".join([*([self.heading] if self.heading else []), *(line.text + line.more for line in self.lines)])


def fit_section(section: BriefSection, count: Count, *, max_tokens: int | None) -> BriefSection:
    """Returns the section cut to its own budget: the lines of the highest priority, in their order.

    Lines that are always kept may exceed the budget.
    """
    if max_tokens is None:
        return section
    by_priority = sorted(range(len(section.lines)), key=lambda at: (section.lines[at].keep, at))
    fitted: set[int] = set()
    taken = 0
    for at in by_priority:
        line = section.lines[at]
        taken += count(f"{line.text}{line.more}\n")
        if taken > max_tokens and line.keep:
            break
        fitted.add(at)
    lines = tuple(line for at, line in enumerate(section.lines) if at in fitted)
    return replace(section, lines=lines, left_out=section.left_out + len(section.lines) - len(lines))


_Piece = tuple[int, int, bool]  # index of the section, index of the line, True for the `more` of the line


def fit_sections(
    sections: Sequence[BriefSection], budget: int, cost: Callable[[Sequence[BriefSection]], int]
) -> tuple[BriefSection, ...]:
    """Returns the sections with as many lines as the budget allows, by priority. Lines with `ALWAYS` stay in any case.

    `cost` must not fall when lines are added. The number of lines is found by bisection, because counting tokens may be slow.
    """
    order = _by_priority(sections)
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


def _by_priority(sections: Sequence[BriefSection]) -> list[_Piece]:
    """Returns everything that may be left out, the highest priority first."""
    found: list[tuple[LinePriority, _Piece]] = []
    for at, section in enumerate(sections):
        for place, line in enumerate(section.lines):
            if line.keep:
                found.append((line.keep, (at, place, False)))
            if line.more:
                found.append((max(line.keep, LinePriority.REASON), (at, place, True)))
    return [piece for _, piece in sorted(found)]


def _with(sections: Sequence[BriefSection], pieces: Collection[_Piece]) -> tuple[BriefSection, ...]:
    """Returns the sections with these pieces and the lines that are always kept; a section without lines is dropped."""
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
