"""The index of documents kept equal to an agent's folders, and to the decisions and runs in its log (`log_pages`)."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from memtape.core.items import OWNER_STREAM
from memtape.documents.cache import SHARED_SCOPE
from memtape.documents.index_health import sync_index
from memtape.documents.sources import DocumentFolder
from memtape.engine.documents.log_pages import decision_page_folder, has_log_pages, log_page_folders
from memtape.engine.resources import refuse_deleted
from memtape.errors import Conflict, MemtapeError
from memtape.store.cutoff import EVERYTHING

if TYPE_CHECKING:
    from memtape.documents.index import SyncResult
    from memtape.engine.resources import Resources
    from memtape.store.tables import Tables


def folders_in(tables: Tables) -> list[DocumentFolder]:
    """The folders that a stream names: an agent's own, or in the owner's stream those that all agents share."""
    found = sorted(tables.items("workspace", EVERYTHING), key=lambda item: item.seq)
    return [DocumentFolder(Path(item.body["root"]), item.body["prefix"]) for item in found]


def sync_documents(
    resources: Resources, agent: str, *, shared: bool = False, rebuild: bool = False, embed: bool = True
) -> SyncResult:
    """Bring the index in step with an agent's folders, decisions and runs, or with the folders that all agents share.

    Without `embed` no vectors are made: who holds a lock makes them later.
    """
    scope = SHARED_SCOPE if shared else agent
    if rebuild:
        resources.set_damaged_documents_aside()
    with resources.reading(OWNER_STREAM if shared else agent) as tables:
        folders = folders_in(tables)
    if not shared:
        folders += log_page_folders(resources, agent)
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
            resources.documents.refresh(resources.owner, agent, decision_page_folder(resources, agent))
            forget_deleted(resources, agent)
    except MemtapeError:
        # An index that cannot be written must not keep an import from being undone: the next sync removes them too.
        return


def needs_sync(resources: Resources, agent: str, *, shared: bool = False) -> bool:
    """True if there is anything to index, or anything indexed that may have to go; asking does not create an index."""
    with resources.reading(OWNER_STREAM if shared else agent) as tables:
        if tables.items("workspace", EVERYTHING, limit=1):
            return True
        if not shared and has_log_pages(tables):
            return True
    if not resources.has_documents:
        return False
    scope = SHARED_SCOPE if shared else agent
    return resources.documents.health(resources.owner, scope, now=resources.clock.now()).last_sync is not None
