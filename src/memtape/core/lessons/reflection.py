"""Lessons: what an agent learns from its own record, and the numbers behind each lesson.

A candidate is a computed statement about closed trades: its numbers, the trades it counts, and whether it could be chance. A
lesson is a sentence about one candidate, written by code; a model may choose it and add a remark of a few words. A reflection
holds the lessons of one run. An agent's newest reflection is active; the earlier ones are superseded and stay on record.

>>> thin = Lesson(id="a1", slot="regime_fit", text="Longs in a range: -0.42R a trade (n = 31).", candidate="c1", n=31)
>>> lesson_lines([thin])
'- Longs in a range: -0.42R a trade (n = 31).'
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Annotated, Any, ClassVar, Final, Literal, get_args

from pydantic import ConfigDict, Field

from memtape.core.value_class import dataclass
from memtape.core.values import STRICT, Key, Label, Line, Price, Slug, Text, Time

Slot = Literal["entry_timing", "sizing", "symbol_selection", "exit_timing", "regime_fit"]
SLOTS: Final[tuple[Slot, ...]] = get_args(Slot)
AskedBy = Literal["cadence", "owner", "model"]
MAX_LESSON_CHARS = 2_000  # of all lessons of a reflection
_Figure = Annotated[float, Field(allow_inf_nan=False)]
Ids = tuple[Key, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A computed statement about closed trades; `trades` are those it counts."""

    __pydantic_config__: ClassVar[ConfigDict] = STRICT
    id: Key  # from slot, kind, field and value: the same thing has the same id in every reflection
    slot: Slot
    kind: Label  # cell, give_back, heat, stopped_then_right, size_after_losses
    field: Label  # what it looks at: symbol, side, regime, session, hour, tag, hold, exit, ...
    value: Text  # which of them: ETHUSDT, short, range, london, 13-16 UTC, ...
    label: Text  # the trades it counts, in words: "shorts in London"
    unit: Label  # of mean, interval and rest: R, R by ATR, typical losses of $4.10; in old notes also "account"
    n: Annotated[int, Field(ge=1)]  # trades; those of one signal count once
    total: Annotated[int, Field(ge=1)]  # trades considered
    mean: _Figure
    interval: tuple[_Figure, _Figure]  # 90 % of the mean
    rest: _Figure | None = None  # mean of the other trades
    p_value: Annotated[float, Field(ge=0, le=1)]  # how often chance gives at least this difference
    chance: bool  # True if it did not pass the false-discovery gate of its family
    trades: Ids = ()
    regime: Label | None = None  # the only regime it is about; None: any
    difference: tuple[_Figure, _Figure] | None = None  # 90 % of mean - rest; None if nothing was compared, and in old notes
    days: Annotated[int, Field(ge=1)] | None = None  # its trading days; None in old notes

    @property
    def share(self) -> float:
        """The share of all trades that it counts."""
        return self.n / self.total


@dataclass(frozen=True, slots=True, kw_only=True)
class Lesson:
    """One line for the agent, its source, and until when it is shown."""

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
    hint: bool = False  # it could be chance, or says that nothing was found: shown to the owner, not to the agent


@dataclass(frozen=True, slots=True, kw_only=True)
class Reflection:
    """The result of one reflection. `agent` is None if it is for every agent of its skill."""

    __pydantic_config__: ClassVar[ConfigDict] = STRICT
    id: Key
    agent: Slug | None = None
    skill: Slug
    skill_version: Annotated[int, Field(ge=1)]
    generated_at: Time
    window_start: Time | None = None
    window_end: Time | None = None
    trades_considered: Annotated[int, Field(ge=0)]
    closed: Annotated[int, Field(ge=0)]  # trades closed by then, from which the cadence counts
    model_used: Label
    asked_by: AskedBy
    lessons: Annotated[tuple[Lesson, ...], Field(max_length=32)] = ()
    candidates: Annotated[tuple[Candidate, ...], Field(max_length=200)] = ()
    scanned: Annotated[int, Field(ge=0)] = 0  # number of candidates computed
    input_tokens: Annotated[int, Field(ge=0)] | None = None
    output_tokens: Annotated[int, Field(ge=0)] | None = None
    cost_usd: Price | None = None
    from_note: Key | None = None  # for a reflection of the skill: the agent's reflection it was promoted from
    failed_model: Label | None = None  # the model that failed before memtape chose the lessons in its place
    failures: Annotated[int, Field(ge=0)] = 0  # of that model, in a row

    @property
    def text(self) -> str:
        """The lessons as the owner reads them."""
        return lesson_lines(self.lessons)

    @property
    def chosen_by(self) -> str:
        """Who chose the lessons, in words."""
        if self.failed_model is not None:
            return f"memtape, because {self.failed_model} failed {self.failures} times in a row"
        return "memtape" if self.model_used == "stats" else self.model_used


def lesson_lines(lessons: Iterable[Lesson]) -> str:
    """Returns the lessons, one per line, without those that are flagged."""
    return "\n".join(f"- {lesson.text}" for lesson in lessons if lesson.flagged is None)


def lessons_shown_at(lessons: Iterable[Lesson], at: datetime, retired: frozenset[str] = frozenset()) -> tuple[Lesson, ...]:
    """Returns the lessons that are shown at a moment: not flagged, not retired by the owner, not expired."""
    return tuple(
        one for one in lessons
        if one.flagged is None and one.id not in retired and (one.expires_at is None or at < one.expires_at)
    )  # fmt: skip


def lessons_for_agent(lessons: Iterable[Lesson], at: datetime) -> tuple[Lesson, ...]:
    """Returns the lessons that an agent reads at a moment: without hints, which are for the owner."""
    # Notes from before hints were marked say it in their words.
    return tuple(one for one in lessons_shown_at(lessons, at) if not one.hint and "could be chance" not in one.text)


def with_expiry(lessons: Iterable[Lesson], at: datetime, days: int) -> tuple[Lesson, ...]:
    """Returns the lessons with an expiry this many days from a moment; 0: shown until they are superseded."""
    return tuple(replace(one, expires_at=at + timedelta(days=days) if days else None) for one in lessons)


@dataclass(frozen=True, slots=True)
class LessonChange:
    """How the lesson about one candidate differs between two reflections."""

    what: Literal["added", "removed", "changed", "kept"]
    slot: Slot
    before: str | None
    after: str | None


def compare_lessons(earlier: Reflection, later: Reflection) -> tuple[LessonChange, ...]:
    """Returns the changes from one reflection to another. Two lessons correspond if they have the same candidate.

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


@dataclass(frozen=True, slots=True)
class LessonUse:
    """What one question to a model for lessons used."""

    input_tokens: int
    output_tokens: int
    cost_usd: Decimal | None  # None: its price is unknown


def lesson_use_of(body: Mapping[str, Any]) -> LessonUse:
    """Returns what a reflection on record, or a failed one, used."""
    cost = body.get("cost_usd")
    return LessonUse(int(body["input_tokens"]), int(body.get("output_tokens") or 0), None if cost is None else Decimal(cost))
