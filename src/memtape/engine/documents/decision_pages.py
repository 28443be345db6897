"""An agent's decisions as pages beside its documents, made from its log when they are needed.

The log is asked once for the days and how much each holds; only a day that looks different is made anew, so that a sync of an
agent with a hundred thousand decisions reads no decision at all when nothing was decided.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import date
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from memtape.core.items import OWNER_STREAM
from memtape.core.observed import Decision
from memtape.core.values import read
from memtape.documents.cache import GLOBAL
from memtape.documents.decision_pages import MOST, DecisionDay, bounds, day_of, decision_page, page_entry
from memtape.documents.index import Synced
from memtape.documents.index_health import sync_index
from memtape.documents.sources import TRACES, DocumentFolder, FileEntry, SkippedFile
from memtape.engine.deletion import refuse_deleted
from memtape.errors import Conflict, MemtapeError
from memtape.store.cutoff import EVERYTHING
from memtape.store.tables import Tables

if TYPE_CHECKING:
    from memtape.engine.documents.workspace import Documents
    from memtape.engine.memory import Memory


def sync_documents(handle: Documents, *, shared: bool = False, anew: bool = False, embed: bool = True) -> Synced:
    """Bring the index in step with an agent's folders and its decisions, or with the folders that all agents share.

    Without `embed` no vectors are made: who holds a lock makes them later. Of an agent that was deleted while this read its log,
    nothing may stay.
    """
    memory, scope = handle.memory, GLOBAL if shared else handle.agent.id
    if anew:
        memory.mend_documents()
    places = handle.workspaces(shared=shared) + ([] if shared else [decision_pages(memory, handle.agent.id)])
    embedder = memory.document_embedder(memory.slot) if embed else None
    done = sync_index(memory.documents, memory.owner, scope, places, now=memory.clock.now(), embedder=embedder, anew=anew)
    forget_deleted(memory, scope)
    return done


def forget_deleted(memory: Memory, scope: str) -> None:
    """After writing to the index of an agent: if it was deleted meanwhile, forget what was written, and refuse."""
    try:
        with memory.reading(OWNER_STREAM) as tables:
            refuse_deleted(tables, scope or OWNER_STREAM)
    except Conflict:
        memory.documents.forget(memory.owner, scope)
        raise


def refresh_pages(memory: Memory, agent: str) -> None:
    """Take decisions that no longer count off their pages at once, and look at no file for that.

    An index that cannot be written does not keep anything from being taken back: the next sync of it does this too.
    """
    try:
        if memory.has_documents:
            memory.documents.refresh(memory.owner, agent, decision_pages(memory, agent))
            forget_deleted(memory, agent)
    except MemtapeError:
        return


def is_worth_a_sync(handle: Documents, *, shared: bool = False) -> bool:
    """Whether there is anything to index, or anything indexed that may have to go; no index is made to find out."""
    if handle.workspaces(shared=shared):
        return True
    with handle.memory.reading(handle.agent.id) as tables:
        if not shared and tables.items("decision", EVERYTHING, limit=1):
            return True
    return handle.memory.has_documents and handle.document_health(shared=shared).last_sync is not None


def decision_pages(memory: Memory, agent: str) -> DocumentFolder:
    """The pages of an agent's decisions, as a source of documents."""

    def listed() -> Iterator[FileEntry | SkippedFile]:
        with memory.reading(agent) as tables:
            found = decision_days(tables)
        for day in found:
            yield replace(page_entry(day), text=partial(_made, memory, agent, day.path))
            if day.count > MOST:
                yield SkippedFile(day.path, f"{day.count - MOST:,} of its {day.count:,} decisions are not on the page")

    return DocumentFolder(Path(TRACES), TRACES, listed=listed)


def _made(memory: Memory, agent: str, path: str) -> str | SkippedFile:
    with memory.reading(agent) as tables:
        text = decision_page_text(tables, path)
    return SkippedFile(path, "its decisions were taken back meanwhile") if text is None else text


def decision_days(tables: Tables) -> list[DecisionDay]:
    """The days on which something was decided, in order."""
    return [DecisionDay(start.date(), count, last, hash) for start, count, last, hash in tables.days_of("decision")]


def decision_page_text(tables: Tables, path: str) -> str | None:
    """The page of a day's decisions as the log has them now; none where the path is no such page, or nothing was decided."""
    day = day_of(path)
    if day is None:
        return None
    start, end = bounds(day)
    kept = tables.items("decision", EVERYTHING, since=start, before=end, limit=MOST)
    if not kept:
        return None
    return decision_page(day, [read(Decision, item.body) for item in kept], _count(tables, day) if len(kept) == MOST else None)


def _count(tables: Tables, day: date) -> int:
    return next((each.count for each in decision_days(tables) if each.day == day), 0)
