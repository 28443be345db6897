"""An agent's lessons: the reflections on record, drawing new ones, and what the owner retires or promotes."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING

from memtape.core.codec import make_id, plain
from memtape.core.events import LessonRetired, LessonsPromoted
from memtape.core.ids import LessonId, ReflectionId
from memtape.core.items import OWNER_STREAM, Item
from memtape.core.lessons.reflection import with_expiry
from memtape.engine.reflection import Reflector, failed_reflections
from memtape.engine.view.lessons import active_lessons, own_reflections, skill_reflections
from memtape.engine.view.owner_stream import skill_of
from memtape.engine.write.log_writer import Receipt
from memtape.errors import Invalid, Unknown
from memtape.store.cutoff import EVERYTHING

if TYPE_CHECKING:
    from memtape.core.lessons.cadence import ReflectionTrigger
    from memtape.core.lessons.reflection import AskedBy, Reflection
    from memtape.core.skills import Skill
    from memtape.engine.reflection import DueQuestion, FailedReflection, ReflectionResult
    from memtape.engine.scope import AgentScope
    from memtape.engine.view.lessons import ReflectionView


class Lessons:
    """The lessons of one agent."""

    def __init__(self, scope: AgentScope) -> None:
        self._scope, self._reflector = scope, Reflector(scope)

    # ---- what is on record -------------------------------------------------------------------------------------------

    def reflections(self, *, as_of: datetime | None = None, head: int | None = None) -> list[ReflectionView]:
        """The agent's reflections, the active one first."""
        with self._scope.view(as_of, head) as view:
            return own_reflections(view)

    def skill_reflections(self, *, as_of: datetime | None = None) -> list[ReflectionView]:
        """The reflections shown to every agent of its skill, the active one first."""
        with self._scope.view(as_of) as view:
            return skill_reflections(view)

    def reflection(self, id: str) -> ReflectionView:
        """One reflection, the agent's own or its skill's."""
        with self._scope.view() as view:
            found = [*own_reflections(view), *skill_reflections(view)]
        for one in found:
            if one.note.id == id:
                return one
        raise Unknown("note_id", "note", id, "List them with get_lesson_history")

    def active(
        self, *, as_of: datetime | None = None, head: int | None = None
    ) -> tuple[ReflectionView | None, ReflectionView | None]:
        """The active reflection of the agent, and that of its skill."""
        with self._scope.view(as_of, head) as view:
            return active_lessons(view)

    def failures(self) -> list[FailedReflection]:
        """The reflections that failed, newest first."""
        with self._scope.reading() as tables:
            return failed_reflections(tables)

    # ---- drawing new ones --------------------------------------------------------------------------------------------

    def due(self) -> ReflectionTrigger | None:
        """What makes a reflection due now; None if nothing does."""
        return self._reflector.due()

    def reflect_if_due(self) -> ReflectionResult:
        """Draw lessons if they are due, no other worker does it, and the last failure is long enough ago."""
        return self._reflector.reflect_if_due()

    def due_question(self) -> DueQuestion | None:
        """What `reflect_if_due` would ask a model now; None if it asks none."""
        return self._reflector.due_question()

    def reflect(self, *, model: str | None = None, asked_by: AskedBy = "owner") -> ReflectionResult:
        """Draw lessons now, whatever the cadence says. The same trades and model give the reflection that is there."""
        return self._reflector.reflect(model=model, asked_by=asked_by)

    # ---- owner only --------------------------------------------------------------------------------------------

    def retire(self, lesson: str, reason: str = "", *, scope: str | None = None) -> Receipt:
        """Stop showing a lesson, even if it is recomputed with new figures; it stays on record.

        By default it is retired for this agent, or for all agents of the skill where only the skill's reflection has it.
        """
        mine = next((n for n in self.reflections() if any(one.id == lesson for one in n.note.lessons)), None)
        skills = next((n for n in self.skill_reflections() if any(one.id == lesson for one in n.note.lessons)), None)
        if scope == "skill":
            mine = None
        found = mine or (skills if scope != "agent" else None)
        if found is None:
            raise Unknown("lesson_id", "lesson", lesson, "List them with get_lessons")
        one = next(each for each in found.note.lessons if each.id == lesson)
        stream, scope_ = (self._scope.agent.id, "") if mine else (OWNER_STREAM, self._scope.agent.skill)
        with self._scope.resources.writing(stream) as tables:
            key = f"{scope_}:{lesson}" if scope_ else lesson
            if earlier := tables.logged("lesson_retired", key):
                return Receipt(earlier.stream, earlier.seq, earlier.hash, (), duplicate=True)
            at = self._scope.stated_at(tables) if mine else self._scope.resources.clock.now()
            body = {"lesson": lesson, "note": found.note.id, "candidate": one.candidate, "text": one.text, "reason": reason}
            writer = self._scope.writer(tables)
            return writer.declare(Item("lesson_retired", key, at, body, scope_), at, [LessonRetired(LessonId(lesson))])

    def promote(self, note_id: str) -> Reflection:
        """Show the lessons of a reflection to every agent of the skill from now on; the skill's earlier one is superseded."""
        promoted = next((one for one in self.reflections() if one.note.id == note_id), None)
        if promoted is None:
            raise Unknown("note_id", "note of this agent", note_id, "List them with get_lesson_history")
        now = self._scope.resources.clock.now()
        days = self._skill().context.memory.reflection.expireDays
        lessons = with_expiry(promoted.lessons_shown(promoted.note.generated_at), now, days)
        if not lessons:
            raise Invalid("note_id", "shows nothing: its lessons are retired or held back", "Promote another note")
        active = next(iter(self.skill_reflections()), None)
        content = (note_id, [one.id for one in lessons])
        if active is not None and (active.note.from_note, [one.id for one in active.note.lessons]) == content:
            return active.note
        key = f"{self._scope.agent.skill}:{note_id}:{make_id(content[1], len(self.skill_reflections()))}"
        note = replace(promoted.note, id=make_id(self._scope.agent.skill, "note", key), agent=None, lessons=lessons,
                       from_note=note_id, generated_at=now, asked_by="owner")  # fmt: skip
        with self._scope.resources.writing(OWNER_STREAM) as tables:
            if not tables.items("note", EVERYTHING, keys=[key]):
                writer = self._scope.writer(tables)
                writer.declare(
                    Item("note", key, now, plain(note), self._scope.agent.skill), now, [LessonsPromoted(ReflectionId(note.id))]
                )
        return note

    def _skill(self) -> Skill:
        with self._scope.resources.reading(OWNER_STREAM) as tables:
            return skill_of(tables, self._scope.agent)[0]
