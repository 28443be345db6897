"""Notes on record: which is active, which were superseded, what the owner retired; as of any moment and head.

An agent's notes are statements in its own stream, a skill's notes in the owner's. Nothing is stored of their standing: the newest
note is the active one, by construction exactly one.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from memtape.core.items import OWNER_STREAM, StoredItem
from memtape.core.lessons.reflection import Lesson, Reflection, lessons_shown_at
from memtape.core.skills import Agent
from memtape.core.values import read
from memtape.store.cutoff import EVERYTHING, Cutoff
from memtape.store.tables import Tables

Status = Literal["active", "superseded"]


@dataclass(frozen=True, slots=True)
class ReflectionView:
    """A note, where it stands, and which of its lessons the owner has retired."""

    note: Reflection
    status: Status
    retired: frozenset[str]  # ids of lessons

    def told(self, at: datetime) -> tuple[Lesson, ...]:
        """What of it is told at a moment."""
        return lessons_shown_at(self.note.lessons, at, self.retired)


def reflections_known(
    tables: Tables, known: Cutoff, scope: str = "", sim: bool = False, also_retired: Iterable[StoredItem] = ()
) -> list[ReflectionView]:
    """The notes of a stream, newest first. `scope` is '' in an agent's stream, the skill in the owner's.

    For a simulated agent the owner's notes count from what they are about: it is told nothing that later trades taught.
    """
    limits = Cutoff(head=known.head) if sim and scope else known
    items = tables.items("note", limits, symbol=scope)
    if sim and scope and known.as_of is not None:
        items = [item for item in items if (read(Reflection, item.body).window_end or item.known_at) <= known.as_of]
    gone = [*tables.items("lesson_retired", limits, symbol=scope), *also_retired]
    newest = sorted(items, key=lambda item: item.seq, reverse=True)
    return [
        ReflectionView(note, "superseded" if n else "active", _retired(note, gone))
        for n, note in enumerate(read(Reflection, item.body) for item in newest)
    ]


def _retired(note: Reflection, gone: Iterable[StoredItem]) -> frozenset[str]:
    """A lesson that the owner retired stays retired when it comes back with other numbers."""
    gone = list(gone)
    candidates, ids = {item.body["candidate"] for item in gone}, {item.body["lesson"] for item in gone}
    return frozenset(one.id for one in note.lessons if one.id in ids or one.candidate in candidates)


def lessons_at(tables: Tables, agent: Agent, known: Cutoff) -> tuple[ReflectionView | None, ReflectionView | None]:
    """The active note of an agent, and that of its skill, as far as a reader may know."""
    owners = Tables(tables.session, tables.owner, OWNER_STREAM)
    limits = Cutoff(head=known.owner_head) if agent.mode == "sim" else known.owners()
    own = reflections_known(tables, known, also_retired=owners.items("lesson_retired", limits, symbol=agent.skill))
    retired = tables.items("lesson_retired", known, symbol="")  # what is retired for an agent is not told by its skill either
    shared = reflections_known(owners, known.owners(), agent.skill, agent.mode == "sim", retired)
    return (own[0] if own else None), (shared[0] if shared else None)


def last_reflection(tables: Tables) -> Reflection | None:
    """The newest note of an agent."""
    found = tables.items("note", EVERYTHING, symbol="")
    return read(Reflection, max(found, key=lambda item: item.seq).body) if found else None
