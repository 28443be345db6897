"""The index of documents kept equal to an agent's folders, and to the decisions in its log.

Decisions are pages beside the documents (`@decisions/<day>.md`), rendered from the log when they are needed. The log is asked
once for the days and how much each holds; only a day that looks different is rendered again, so a sync of an agent with a
hundred thousand decisions reads no decision at all when nothing was decided.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import date
from functools import partial
from pathlib import Path

from memtape.core.items import OWNER_STREAM
from memtape.core.observed import Decision
from memtape.core.values import read
from memtape.documents.cache import SHARED_SCOPE
from memtape.documents.decision_pages import MAX_DECISIONS_PER_PAGE, DecisionDay, day_bounds, decision_page, page_day, page_entry
from memtape.documents.index import SyncResult
from memtape.documents.index_health import sync_index
from memtape.documents.sources import DECISION_PAGES, DocumentFolder, FileEntry, SkippedFile
from memtape.engine.resources import Resources, refuse_deleted
from memtape.errors import Conflict, MemtapeError
from memtape.store.cutoff import EVERYTHING
from memtape.store.tables import Tables


def folders_in(tables: Tables) -> list[DocumentFolder]:
    """The folders that a stream names: an agent's own, or in the owner's stream those that all agents share."""
    found = sorted(tables.items("workspace", EVERYTHING), key=lambda item: item.seq)
    return [DocumentFolder(Path(item.body["root"]), item.body["prefix"]) for item in found]


def sync_documents(
    resources: Resources, agent: str, *, shared: bool = False, rebuild: bool = False, embed: bool = True
) -> SyncResult:
    """Bring the index in step with an agent's folders and decisions, or with the folders that all agents share.

    Without `embed` no vectors are made: who holds a lock makes them later.
    """
    scope = SHARED_SCOPE if shared else agent
    if rebuild:
        resources.set_damaged_documents_aside()
    with resources.reading(OWNER_STREAM if shared else agent) as tables:
        folders = folders_in(tables)
    if not shared:
        folders.append(decision_pages(resources, agent))
    embedder = resources.document_embedder(resources.slot) if embed else None
    now = resources.clock.now()
    synced = sync_index(resources.documents, resources.owner, scope, folders, now=now, embedder=embedder, rebuild=rebuild)
    forget_deleted(resources, scope)
    return synced


def forget_deleted(resources: Resources, scope: str) -> None:
    """Drop what was just indexed if its agent was deleted meanwhile, and raise Conflict: nothing of it may stay."""
    try:
        with resources.reading(OWNER_STREAM) as tables:
            refuse_deleted(tables, scope or OWNER_STREAM)
    except Conflict:
        resources.documents.forget(resources.owner, scope)
        raise


def refresh_pages(resources: Resources, agent: str) -> None:
    """Remove decisions that no longer count from their pages at once, without looking at any file."""
    try:
        if resources.has_documents:
            resources.documents.refresh(resources.owner, agent, decision_pages(resources, agent))
            forget_deleted(resources, agent)
    except MemtapeError:
        # An index that cannot be written must not keep an import from being undone: the next sync removes them too.
        return


def needs_sync(resources: Resources, agent: str, *, shared: bool = False) -> bool:
    """True if there is anything to index, or anything indexed that may have to go; asking does not create an index."""
    with resources.reading(OWNER_STREAM if shared else agent) as tables:
        if tables.items("workspace", EVERYTHING, limit=1):
            return True
        if not shared and tables.items("decision", EVERYTHING, limit=1):
            return True
    if not resources.has_documents:
        return False
    scope = SHARED_SCOPE if shared else agent
    return resources.documents.health(resources.owner, scope, now=resources.clock.now()).last_sync is not None


# ---- decisions as pages --------------------------------------------------------------------------------------------------


def decision_pages(resources: Resources, agent: str) -> DocumentFolder:
    """The pages of an agent's decisions, as a folder of documents."""

    def list_entries() -> Iterator[FileEntry | SkippedFile]:
        with resources.reading(agent) as tables:
            found = decision_days(tables)
        for day in found:
            yield replace(page_entry(day), make_text=partial(_rendered, resources, agent, day.path))
            if day.count > MAX_DECISIONS_PER_PAGE:
                left_out = day.count - MAX_DECISIONS_PER_PAGE
                yield SkippedFile(day.path, f"{left_out:,} of its {day.count:,} decisions are not on the page")

    return DocumentFolder(Path(DECISION_PAGES), DECISION_PAGES, list_entries=list_entries)


def _rendered(resources: Resources, agent: str, path: str) -> str | SkippedFile:
    with resources.reading(agent) as tables:
        text = decision_page_text(tables, path)
    return SkippedFile(path, "its decisions were taken back meanwhile") if text is None else text


def decision_days(tables: Tables) -> list[DecisionDay]:
    """The days on which something was decided, in order."""
    return [DecisionDay(start.date(), count, last, hash) for start, count, last, hash in tables.days_of("decision")]


def decision_page_text(tables: Tables, path: str) -> str | None:
    """The page of a day's decisions; None where the path is no such page, or nothing was decided."""
    day = page_day(path)
    if day is None:
        return None
    start, end = day_bounds(day)
    items = tables.items("decision", EVERYTHING, since=start, before=end, limit=MAX_DECISIONS_PER_PAGE)
    if not items:
        return None
    count = _count(tables, day) if len(items) == MAX_DECISIONS_PER_PAGE else None
    return decision_page(day, [read(Decision, item.body) for item in items], count)


def _count(tables: Tables, day: date) -> int:
    return next((each.count for each in decision_days(tables) if each.day == day), 0)
