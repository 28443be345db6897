"""Lessons: what an agent is told of its own record, and what stands behind each word of it.

A candidate is a statement about closed trades that code has computed: its numbers, the trades it counts, and whether chance would
do as much. A lesson is the sentence made of one, by us or by a model; it never says more than its candidate. A note holds the
lessons of one reflection. Of an agent's notes the newest is active, the others are superseded and stay on record.

>>> thin = Lesson(id="a1", slot="regime_fit", text="Longs in a range: -0.42R a trade (n = 31).", candidate="c1", n=31)
>>> lesson_lines([thin])
'- Longs in a range: -0.42R a trade (n = 31).'
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Annotated, ClassVar, Final, Literal, get_args

from pydantic import ConfigDict, Field

from memtape.core.values import STRICT, Key, Label, Line, Price, Slug, Text, Time

Slot = Literal["entry_timing", "sizing", "symbol_selection", "exit_timing", "regime_fit"]
SLOTS: Final[tuple[Slot, ...]] = get_args(Slot)
AskedBy = Literal["cadence", "owner", "model"]
MAX_LESSON_CHARS = 2_000  # characters of a note's lessons
_Figure = Annotated[float, Field(allow_inf_nan=False)]
Ids = tuple[Key, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """What closed trades say about one thing, in numbers; `trades` are those it counts."""

    __pydantic_config__: ClassVar[ConfigDict] = STRICT
    id: Key  # from slot, kind, field and value: the same thing has the same id in every reflection
    slot: Slot
    kind: Label  # cell, give_back, heat, stopped_then_right, size_after_losses
    field: Label  # what it looks at: symbol, side, regime, session, hour, tag, hold, exit, ...
    value: Text  # which of them: ETHUSDT, short, range, london, 13-16 UTC, ...
    label: Text  # the trades it counts, in words: "shorts in London"
    unit: Literal["R", "account"]  # of mean, interval and rest: R, or the account's currency where no trade has R
    n: Annotated[int, Field(ge=1)]
    total: Annotated[int, Field(ge=1)]  # trades looked at
    mean: _Figure
    interval: tuple[_Figure, _Figure]  # 90 % of the mean
    rest: _Figure | None = None  # mean of the trades it does not count
    p_value: Annotated[float, Field(ge=0, le=1)]  # how often shuffled outcomes do as much
    chance: bool  # it could be chance: it did not pass the false-discovery gate over all that was looked at
    trades: Ids = ()
    regime: Label | None = None  # the only regime it speaks of; None: any

    @property
    def share(self) -> float:
        """How many of all trades it counts."""
        return self.n / self.total


@dataclass(frozen=True, slots=True, kw_only=True)
class Lesson:
    """One line for the agent, what it rests on, and until when it is told."""

    __pydantic_config__: ClassVar[ConfigDict] = STRICT
    id: Key
    slot: Slot
    text: Line
    candidate: Key
    n: Annotated[int, Field(ge=1)]
    chance: bool = False
    trades: Ids = ()
    regime: Label | None = None
    tier: int = 2  # 2 computed by us, 3 written by a model
    expires_at: Time | None = None
    flagged: Annotated[Line | None, Field(description="why it is held back for the owner; None: it is told")] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Reflection:
    """What one reflection came to. `agent` is None for a note that speaks to every agent of its skill."""

    __pydantic_config__: ClassVar[ConfigDict] = STRICT
    id: Key
    agent: Slug | None = None
    skill: Slug
    skill_version: Annotated[int, Field(ge=1)]
    generated_at: Time
    window_start: Time | None = None
    window_end: Time | None = None
    trades_considered: Annotated[int, Field(ge=0)]
    closed: Annotated[int, Field(ge=0)]  # trades closed by then: what the cadence counts from
    model_used: Label
    asked_by: AskedBy
    lessons: Annotated[tuple[Lesson, ...], Field(max_length=32)] = ()
    candidates: Annotated[tuple[Candidate, ...], Field(max_length=200)] = ()
    scanned: Annotated[int, Field(ge=0)] = 0  # how many candidates were looked at
    input_tokens: Annotated[int, Field(ge=0)] | None = None
    output_tokens: Annotated[int, Field(ge=0)] | None = None
    cost_usd: Price | None = None
    from_note: Key | None = None  # a note of the skill: the agent's note it was promoted from

    @property
    def text(self) -> str:
        """The lessons as the agent reads them."""
        return lesson_lines(self.lessons)


def lesson_lines(lessons: Iterable[Lesson]) -> str:
    """Lessons one to a line; those that are held back are left out."""
    return "\n".join(f"- {lesson.text}" for lesson in lessons if lesson.flagged is None)


def lessons_shown_at(lessons: Iterable[Lesson], at: datetime, retired: frozenset[str] = frozenset()) -> tuple[Lesson, ...]:
    """The lessons that are told at a moment: not held back, not retired by the owner, not expired."""
    return tuple(
        one for one in lessons
        if one.flagged is None and one.id not in retired and (one.expires_at is None or at < one.expires_at)
    )  # fmt: skip


def with_expiry(lessons: Iterable[Lesson], at: datetime, days: int) -> tuple[Lesson, ...]:
    """The same lessons, told for so many days from a moment; 0: until they are superseded."""
    return tuple(replace(one, expires_at=at + timedelta(days=days) if days else None) for one in lessons)


@dataclass(frozen=True, slots=True)
class LessonChange:
    """How one thing that lessons speak of differs between two notes: it came, went, says something else, or stayed."""

    what: Literal["added", "removed", "changed", "kept"]
    slot: Slot
    before: str | None
    after: str | None


def compare_lessons(earlier: Reflection, later: Reflection) -> tuple[LessonChange, ...]:
    """What changed from one note to another, thing by thing: a lesson is the same as another if its candidate is.

    >>> one = Lesson(id="a", slot="sizing", text="Half the size after two losses (n = 12).", candidate="c", n=12)
    >>> from datetime import UTC
    >>> at = datetime(2026, 6, 4, tzinfo=UTC)
    >>> note = Reflection(id="n", agent="desk", skill="breakout", skill_version=1, generated_at=at, window_start=at,
    ...     window_end=at,
    ...             trades_considered=30, closed=30, model_used="stats", asked_by="cadence", lessons=(one,))
    >>> later = replace(note, lessons=(replace(one, text="Half the size after two losses (n = 15).", n=15),))
    >>> [(change.what, change.after) for change in compare_lessons(note, later)]
    [('changed', 'Half the size after two losses (n = 15).')]
    """
    old, new = ({one.candidate: one for one in note.lessons} for note in (earlier, later))
    found: list[LessonChange] = []
    for candidate in [*new, *(key for key in old if key not in new)]:
        before, after = old.get(candidate), new.get(candidate)
        lesson = after or before
        assert lesson is not None
        what: Literal["added", "removed", "changed", "kept"] = (
            "added" if before is None else "removed" if after is None else "kept" if before.text == after.text else "changed"
        )
        found.append(LessonChange(what, lesson.slot, before.text if before else None, after.text if after else None))
    return tuple(found)
