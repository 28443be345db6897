"""The section "lessons": what was learned from recent trades."""

from __future__ import annotations

from memtape.core.brief.budget import BriefLine, LinePriority
from memtape.core.brief.inputs import BriefInputs, SourceRef
from memtape.core.brief.references import brief_short_ids
from memtape.core.brief.sanitize import safe_line, without_list_marker
from memtape.core.brief.section_register import section
from memtape.core.brief.short_ids import ShortIds
from memtape.core.lessons.reflection import Lesson, lessons_for_agent

LESSONS_HEADING = "Lessons from your recent trades on this skill (auto-generated; signal, not strategy):"


@section(
    "lessons", role="system", order=30, heading=LESSONS_HEADING, max_tokens=700, from_memory=True, citable=True, stable=True
)
def lessons_section(inputs: BriefInputs) -> list[BriefLine]:
    """Returns the lessons that are active now, the agent's own first. Hints that could be chance are on the page only."""
    short, known = brief_short_ids(inputs), {each.id for each in inputs.lessons}
    own = lessons_for_agent(inputs.lessons, inputs.as_of)
    shared = [each for each in lessons_for_agent(inputs.skill_lessons, inputs.as_of) if each.id not in known]
    return [*(_lesson(each, short) for each in own), *(_lesson(each, short, " (from the skill)") for each in shared)]


def _lesson(lesson: Lesson, short: ShortIds, origin: str = "") -> BriefLine:
    text = f"- {without_list_marker(safe_line(lesson.text))}{origin} {short.reference(lesson.id)}"
    return BriefLine(text, (SourceRef("lesson", lesson.id, lesson.tier),), LinePriority.LESSON)
