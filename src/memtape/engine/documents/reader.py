"""An agent's documents as one transaction sees them: which folders there are, and what stands in a document now."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from memtape.core.items import OWNER_STREAM
from memtape.documents.citations import check_citation
from memtape.documents.document_list import list_by_type
from memtape.documents.moved_text import find_moved, indexed_candidates, new_files
from memtape.documents.pinned_rules import unreadable_reason
from memtape.documents.sources import LOG_PAGES, folder_problem
from memtape.documents.text_files import read_document, read_document_file
from memtape.documents.write_policy import split_path
from memtape.engine.documents.log_pages import log_page_text
from memtape.engine.documents.rules_seen import Place
from memtape.engine.documents.sync import folders_in
from memtape.errors import Invalid
from memtape.store.cutoff import EVERYTHING
from memtape.store.tables import Tables

if TYPE_CHECKING:
    from memtape.core.brief.inputs import RuleState
    from memtape.core.items import StoredItem
    from memtape.documents.citations import Citation, CitationVerdict
    from memtape.documents.document_list import DocumentGroup
    from memtape.documents.sources import DocumentFolder
    from memtape.engine.resources import Resources


class DocumentReader:
    """The documents of one agent and those shared with it, in one read transaction."""

    def __init__(self, resources: Resources, tables: Tables) -> None:
        self.resources, self.tables, self.agent = resources, tables, tables.stream

    @cached_property
    def own_folders(self) -> list[DocumentFolder]:
        """The folders of the agent."""
        return folders_in(self.tables)

    @cached_property
    def shared_folders(self) -> list[DocumentFolder]:
        """The folders that all agents share."""
        return folders_in(Tables(self.tables.session, self.tables.owner, OWNER_STREAM))

    @cached_property
    def _rule_items(self) -> list[StoredItem]:
        # One statement: a brief runs at most 45.
        return self.tables.items_of(("pin", "rules_seen"), EVERYTHING)

    @property
    def rules_recorded(self) -> list[StoredItem]:
        """The sizes that pinned rules have had, in the order in which they were recorded."""
        return [item for item in self._rule_items if item.kind == "rules_seen"]

    @cached_property
    def stated_pins(self) -> dict[Place, bool]:
        """What was pinned and unpinned, in the order in which each was last stated."""
        stated: dict[Place, bool] = {}
        for item in (item for item in self._rule_items if item.kind == "pin"):
            place = (str(item.body["path"]), item.body["section"])
            stated.pop(place, None)
            stated[place] = bool(item.body["pinned"])
        return stated

    def text(self, path: str) -> str | None:
        """A document as it is now: a page of the log, an indexed file, or a file in one of the folders; None if there is none."""
        if path.startswith(LOG_PAGES):
            return log_page_text(self.tables, path)
        file = self._indexed_file(path)
        return self._unindexed(path) if file is None else read_document_file(file, path)

    def _indexed_file(self, path: str) -> Path | None:
        resources = self.resources
        return resources.documents.file_path(resources.owner, self.agent, path) if resources.has_documents else None

    def _unindexed(self, path: str) -> str | None:
        """The text of a document that the index does not know: the index is a cache, and may have been deleted."""
        try:
            split_path(path)
        except Invalid:
            return None
        found = self.file_text(path)
        return None if found is None else found[0]

    def file_text(self, path: str) -> tuple[str, str] | None:
        """The text of a file in the agent's folders or the shared ones, and its path within its folder."""
        for folder in (*self.own_folders, *self.shared_folders):
            within = path.removeprefix(folder.prefix)
            if path.startswith(folder.prefix) and (text := read_document(folder.root, within)) is not None:
                return text, within
        return None

    def why_unreadable(self, path: str) -> tuple[RuleState, str]:
        """Why a file has no text now: what is wrong with it in the folder that it belongs to."""
        folders = [folder for folder in (*self.own_folders, *self.shared_folders) if path.startswith(folder.prefix)]
        if not folders:
            return "missing", "its folder is no longer indexed"
        folder = max(folders, key=lambda folder: len(folder.prefix))
        if problem := folder_problem(folder.root):
            return "missing", f"the folder {folder.root.name} {problem}"
        return unreadable_reason(folder.root, path.removeprefix(folder.prefix))

    def listing(self, alone: str = "", path: str | None = None) -> Sequence[DocumentGroup]:
        """The indexed documents by type; of the type `alone` more are listed, with `path` only that one."""
        resources = self.resources
        if not resources.has_documents:
            return []
        return list(list_by_type(resources.documents, resources.owner, self.agent, alone, path))

    def check(self, citation: Citation) -> CitationVerdict:
        """Whether cited lines still say what they said in their own document: valid, moved, changed or gone."""
        return check_citation(citation, self.text(citation.path))

    def check_everywhere(self, citation: Citation) -> CitationVerdict:
        """The same, but words that are not in their document any more are looked for in the others: it may have been renamed."""
        found = self.check(citation)
        if found.verdict in ("valid", "moved") or not citation.content_hash:
            return found
        return find_moved(citation, self._candidates(citation), self.text) or found

    def _candidates(self, citation: Citation) -> Iterator[str]:
        resources = self.resources
        if resources.has_documents:
            yield from indexed_candidates(resources.documents, resources.owner, self.agent, citation)
        folders = [folder for folder in (*self.own_folders, *self.shared_folders) if not folder_problem(folder.root)]
        yield from new_files(folders, lambda path: self._indexed_file(path) is not None)
