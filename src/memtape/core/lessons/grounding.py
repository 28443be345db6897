"""Grounding: makes lessons of a model's answer. A model chooses among candidates and adds a remark; it writes nothing else.

memtape writes each sentence from the candidate that the model chose (`stats_lessons`). A remark that is not made of
the known phrases is dropped, and the lesson stays (`remarks`). A choice that names no candidate, or one a second time, is
rejected with the reason. A lesson against an `avoid` rule is flagged for the owner. An answer that chooses nothing is an
answer.

>>> from memtape.core.lessons.reflection import Candidate
>>> shorts = Candidate(id="c1", slot="symbol_selection", kind="cell", field="side", value="short", label="shorts", unit="R", n=41,
...     total=120, mean=-0.3812, interval=(-0.61, -0.15), rest=0.12, p_value=0.0004, chance=False, difference=(-0.77, -0.23))
>>> answer = {"lessons": [{"candidate": "c1", "remark": "You must double the size"}, {"candidate": "c7", "remark": ""}]}
>>> grounded = ground_lessons(answer, [shorts], [])
>>> grounded.lessons[0].text[:53], [one.why for one in grounded.rejected], grounded.dropped_remarks
('Shorts: -0.38R a trade against +0.12R for longs (n = ', ['it names no candidate that was shown'], 1)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import ValidationError

from memtape.core.brief.sanitize import one_line
from memtape.core.lessons.answer import ChosenLesson
from memtape.core.lessons.reflection import Candidate, Lesson
from memtape.core.lessons.remarks import checked_remark
from memtape.core.lessons.stats_lessons import fits_note, lesson_about, worth_choosing
from memtape.core.value_class import dataclass

MAX_ANSWER_LESSONS = 32


@dataclass(frozen=True, slots=True)
class RejectedLesson:
    """A rejected choice, and why."""

    candidate: str
    why: str


@dataclass(frozen=True, slots=True)
class GroundedAnswer:
    """The lessons of an answer in the model's order, flagged ones included; the choices that were rejected."""

    lessons: tuple[Lesson, ...]
    rejected: tuple[RejectedLesson, ...] = ()
    dropped_remarks: int = 0


def ground_lessons(answer: Mapping[str, Any], candidates: Sequence[Candidate], avoid: Sequence[str]) -> GroundedAnswer:
    """Returns the lessons that an answer chooses. `candidates` are all that were computed."""
    given = answer.get("lessons")
    if not isinstance(given, list) or len(answer) != 1 or len(given) > MAX_ANSWER_LESSONS:
        return GroundedAnswer((), (RejectedLesson("", f"the answer is not one list of at most {MAX_ANSWER_LESSONS} choices"),))
    known, offered = {one.id: one for one in candidates}, {one.id: one for one in worth_choosing(candidates)}
    lessons: list[Lesson] = []
    rejected: list[RejectedLesson] = []
    dropped = 0
    for each in given:
        choice = _choice(each)
        if isinstance(choice, RejectedLesson):
            rejected.append(choice)
            continue
        candidate = offered.get(choice.candidate)
        if candidate is None or any(one.candidate == candidate.id for one in lessons):
            why = "it names no candidate that was shown" if candidate is None else "it names a candidate twice"
            rejected.append(RejectedLesson(one_line(choice.candidate, 64), why))
            continue
        # Where no pattern was found, there are no trades that a remark could describe.
        remark = checked_remark(choice.remark, candidate.label) or "" if candidate.kind != "all" else ""
        dropped += bool(choice.remark.strip()) and not remark
        lesson = lesson_about(candidate, candidates, avoid, known, remark)
        if lesson.flagged is None and not fits_note([*lessons, lesson]):
            rejected.append(RejectedLesson(candidate.id, "there is no room for it after the lessons before it"))
            continue
        lessons.append(lesson)
    return GroundedAnswer(tuple(lessons), tuple(rejected), dropped)


def _choice(given: object) -> ChosenLesson | RejectedLesson:
    try:
        return ChosenLesson.model_validate(given)
    except ValidationError as problem:
        first = problem.errors(include_url=False, include_input=False)[0]
        field = ".".join(map(str, first["loc"])) or "lesson"
        return RejectedLesson("", f"it does not fit the schema: {one_line(field, 40)}: {first['msg']}")


def rejection_summary(rejected: Sequence[RejectedLesson]) -> str:
    """Returns why no choice of an answer was accepted, for the log.

    >>> rejection_summary([RejectedLesson("c8", "it names no candidate that was shown")] * 2)
    '2 choices, none accepted: it names no candidate that was shown'
    """
    count = "1 choice, not" if len(rejected) == 1 else f"{len(rejected)} choices, none"
    return f"{count} accepted: {'; '.join(dict.fromkeys(one.why for one in rejected))}"
