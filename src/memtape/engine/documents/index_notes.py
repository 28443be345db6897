"""What an answer must say about its index: it is empty, a folder is missing, files changed, or files were left out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

from memtape.core.codec import time_text
from memtape.documents.index import IndexHealth, PendingFiles
from memtape.documents.sources import DocumentFolder, folder_problem

MAX_DOCUMENTS_LOOKED_AT = 2_000  # of a larger workspace a search does not look at the files
STALE_SECONDS = 86_400.0


class IndexedDocuments(Protocol):
    """Documents with an index, their own and the shared ones."""

    def health(self, *, shared: bool = False) -> IndexHealth: ...
    def folders(self, *, shared: bool = False) -> Sequence[DocumentFolder]: ...
    def pending(self, *, shared: bool = False) -> PendingFiles | None: ...


def index_notes(documents: IndexedDocuments, *, is_empty: bool) -> Iterator[str]:
    """Yields the notes for a search; `is_empty`: it found nothing."""
    for shared in (False, True):
        health = documents.health(shared=shared)
        whose = "shared documents: " if shared else ""
        synced = "never" if health.last_sync is None else time_text(health.last_sync.replace(microsecond=0))
        folders = documents.folders(shared=shared)
        missing = [f"{folder.root} {why}" for folder in folders if (why := folder_problem(folder.root))]
        if folders and health.last_sync is None:
            # The index is a cache: it is empty if it was deleted, or made by another version of memtape.
            yield f"{whose}{', '.join(str(folder.root) for folder in folders)} is not indexed at the moment: reindex_documents"
        elif missing:
            yield f"{whose}{', '.join(missing)}: answered from the index of {synced}"
        elif health.last_sync is not None and health.documents <= MAX_DOCUMENTS_LOOKED_AT:
            pending = documents.pending(shared=shared)
            if pending is not None and pending.total:
                files = "1 file" if pending.total == 1 else f"{pending.total:,} files"
                yield f"{whose}{files} changed since the index of {synced}: reindex_documents"
        elif (health.stale_seconds or 0.0) > STALE_SECONDS:
            yield f"{whose}the index is of {synced}: reindex_documents"
        if is_empty and health.left_out:
            reasons = ", ".join(f"{files:,} {reason}" for reason, files in health.left_out)
            yield f"{whose}not indexed: {reasons}"
