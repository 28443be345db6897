"""Reflections on record at a view's moment: which one is active, which were superseded, which lessons the owner retired.

An agent's reflections are statements in its own stream, a skill's reflections in the owner's. Their status is not stored: the
newest reflection is the active one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Literal

from memtape.core.lessons.reflection import Reflection, lessons_shown_at
from memtape.core.value_class import dataclass
from memtape.core.values import read
from memtape.store.cutoff import EVERYTHING, Cutoff

if TYPE_CHECKING:
    from memtape.core.items import StoredItem
    from memtape.core.lessons.reflection import Lesson
    from memtape.engine.view.view import View
    from memtape.store.tables import Tables

Status = Literal["active", "superseded"]


@dataclass(frozen=True, slots=True)
class ReflectionView:
    """A reflection, its status, and which of its lessons the owner has retired."""

    note: Reflection
    status: Status
    retired: frozenset[str]  # ids of lessons

    def lessons_shown(self, at: datetime) -> tuple[Lesson, ...]:
        """The lessons that are shown at a moment."""
        return lessons_shown_at(self.note.lessons, at, self.retired)


def own_reflections(view: View, also_retired: Iterable[StoredItem] = ()) -> list[ReflectionView]:
    """The agent's reflections, the active one first."""
    return _newest_first(view.items("note", symbol=""), [*view.items("lesson_retired", symbol=""), *also_retired])


def skill_reflections(
    view: View, also_retired: Iterable[StoredItem] = (), retired: Sequence[StoredItem] | None = None
) -> list[ReflectionView]:
    """The reflections shown to every agent of the skill, the active one first."""
    items = view.owner_tables.items("note", _skill_cutoff(view), symbol=view.agent.skill)
    if view.agent.mode == "sim":
        # A simulated agent is shown nothing that trades after its moment taught.
        items = [item for item in items if (read(Reflection, item.body).window_end or item.known_at) <= view.as_of]
    return _newest_first(items, [*(_retired_for_skill(view) if retired is None else retired), *also_retired])


def active_lessons(view: View) -> tuple[ReflectionView | None, ReflectionView | None]:
    """The active reflection of the agent, and that of its skill. What is retired for one is not shown by the other."""
    retired = _retired_for_skill(view)
    own = own_reflections(view, retired)
    shared = skill_reflections(view, view.items("lesson_retired", symbol=""), retired)
    return (own[0] if own else None), (shared[0] if shared else None)


def _retired_for_skill(view: View) -> list[StoredItem]:
    return view.owner_tables.items("lesson_retired", _skill_cutoff(view), symbol=view.agent.skill)


def _skill_cutoff(view: View) -> Cutoff:
    # The owner's statements are made by another clock than a simulation's: only `owner_head` limits them.
    return Cutoff(head=view.cutoff.owner_head) if view.agent.mode == "sim" else view.cutoff.owners()


def _newest_first(items: Iterable[StoredItem], retired: Sequence[StoredItem]) -> list[ReflectionView]:
    newest = sorted(items, key=lambda item: item.seq, reverse=True)
    return [
        ReflectionView(note, "superseded" if n else "active", _retired(note, retired))
        for n, note in enumerate(read(Reflection, item.body) for item in newest)
    ]


def _retired(note: Reflection, retired: Sequence[StoredItem]) -> frozenset[str]:
    """A lesson that the owner retired stays retired when it is computed again with other numbers."""
    candidates, ids = {item.body["candidate"] for item in retired}, {item.body["lesson"] for item in retired}
    return frozenset(one.id for one in note.lessons if one.id in ids or one.candidate in candidates)


def last_reflection(tables: Tables) -> Reflection | None:
    """The newest reflection of an agent's stream."""
    found = tables.items("note", EVERYTHING, symbol="")
    return read(Reflection, max(found, key=lambda item: item.seq).body) if found else None
