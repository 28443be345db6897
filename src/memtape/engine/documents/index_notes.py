"""What an answer must say about the index it came from: a folder is missing, files changed, or files were left out."""

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
        synced = "never" if health.last_sync is None else time_text(health.last_sync)
        missing = [f"{folder.root} {why}" for folder in documents.folders(shared=shared) if (why := folder_problem(folder.root))]
        if missing:
            yield f"{whose}{', '.join(missing)}: answered from the index of {synced}"
        elif health.last_sync is not None and health.documents <= MAX_DOCUMENTS_LOOKED_AT:
            pending = documents.pending(shared=shared)
            if pending is not None and pending.total:
                yield f"{whose}{pending.total:,} files changed since the index of {synced}: reindex_documents"
        elif (health.stale_seconds or 0.0) > STALE_SECONDS:
            yield f"{whose}the index is of {synced}: reindex_documents"
        if is_empty and health.left_out:
            reasons = ", ".join(f"{files:,} {reason}" for reason, files in health.left_out)
            yield f"{whose}not indexed: {reasons}"
