"""The index after memtape itself wrote to a document. What was written stays written even if a search does not find it yet."""

from __future__ import annotations

from typing import TYPE_CHECKING

from memtape.documents.cache import SHARED_SCOPE
from memtape.engine.documents.sync import sync_documents
from memtape.errors import MemtapeError

if TYPE_CHECKING:
    from memtape.engine.resources import Resources


def index_written(resources: Resources, agent: str, *, shared: bool = False) -> str:
    """Sync the index under the lock that the file was written under; returns the problem, if there was one.

    Without the lock, a sync that looked earlier could undo one that looked later.
    """
    try:
        sync_documents(resources, agent, shared=shared, embed=False)
    except MemtapeError as error:
        return str(error)
    return ""


def embed_documents(resources: Resources, agent: str, *, shared: bool = False) -> str:
    """Make the missing vectors, where there is an embedder; returns the problem. Holds no lock: the embedder may be remote."""
    try:
        if (embedder := resources.document_embedder(resources.slot)) is not None:
            return resources.documents.fill(resources.owner, SHARED_SCOPE if shared else agent, embedder).problem
    except MemtapeError as error:
        return str(error)
    return ""
