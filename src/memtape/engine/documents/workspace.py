"""An agent's documents: its workspace and what is shared with it, searched with citations.

Files are the authority and the index is a cache beside the store. Which folders belong to an agent is stated in its log, so that
another machine or a new index knows it too; a shared folder is stated by the owner for all agents.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from memtape.core.codec import make_id
from memtape.core.items import OWNER_STREAM, Item
from memtape.documents.backtests import SimilarReport, similar_reports
from memtape.documents.cache import GLOBAL
from memtape.documents.citations import Citation, CitationVerdict, check_citation, cite, lines_of
from memtape.documents.index import Health, Pending, Synced
from memtape.documents.pinned_rules import text_at, text_in
from memtape.documents.search import Fusion, SearchResult, Slot, search_index
from memtape.documents.shelves import Shelf, shelved
from memtape.documents.sources import TRACES, DocumentFolder, is_there
from memtape.documents.workspace_files import confined
from memtape.engine.documents.decision_pages import decision_page_text, decision_pages, sync_documents
from memtape.engine.view.ledger import Reading
from memtape.engine.write.writer import Writer
from memtape.errors import Invalid, Unknown
from memtape.plugs.embedder import StaticEmbedder
from memtape.store.cutoff import EVERYTHING

if TYPE_CHECKING:
    from memtape.engine.memory import Memory


class Documents(Reading):
    """The documents of one agent."""

    memory: Memory

    def add_documents(self, folder: str | Path, *, shared: bool = False, prefix: str = "", anew: bool = False) -> Synced:
        """Let a folder belong to the agent, or to all agents, and index it."""
        try:
            root = Path(folder).expanduser().resolve()
            is_folder = root.is_dir()
        except (OSError, RuntimeError, ValueError):  # a name too long, a user who is not there, a byte that no name has
            root, is_folder = Path(folder), False
        if not is_folder:
            raise Invalid("folder", f"{root} is not a folder", "Name the folder of the workspace")
        stream, now = (OWNER_STREAM if shared else self.agent.id), self.memory.clock.now()
        with self.memory.writing(stream) as tables:
            body = {"root": str(root), "prefix": prefix or (f"{root.name}/" if shared else "")}
            stated = tables.items("workspace", EVERYTHING)
            if not any(item.body == body for item in stated):
                if any(item.body["prefix"] == body["prefix"] for item in stated):
                    raise Invalid("folder", "another one names its documents alike", "Index one for an agent, or share this one")
                at = now if shared else self._said_at(tables)
                Writer(tables, self.agent, now).declare(Item("workspace", make_id("workspace", body), at, body), at)
        return self.sync_documents(shared=shared, anew=anew)

    def workspaces(self, *, shared: bool = False) -> list[DocumentFolder]:
        """The folders of the agent, or those shared by all."""
        with self.memory.reading(OWNER_STREAM if shared else self.agent.id) as tables:
            found = sorted(tables.items("workspace", EVERYTHING), key=lambda item: item.seq)
        return [DocumentFolder(Path(item.body["root"]), item.body["prefix"]) for item in found]

    def sync_documents(self, *, shared: bool = False, anew: bool = False) -> Synced:
        """Bring the index in step with the files; unchanged ones are not read."""
        return sync_documents(self, shared=shared, anew=anew)

    def search_documents(
        self, question: str, *, slot: Slot | None = None, limit: int = 10, minimum: float = 0.0, types: Sequence[str] = (),
        fusion: Fusion = "weighted",
    ) -> SearchResult:  # fmt: skip
        """What the documents have on a question, each with its path, lines and reason; by the slot that is set, or another."""
        chosen, memory = slot or self.memory.slot, self.memory
        if not memory.has_documents:
            return SearchResult((), chosen, "nothing is indexed yet")
        embedder = memory.document_embedder(chosen) if chosen == "hybrid_embeddings" else None
        if embedder is not None and memory.document_embedder(memory.slot) is None and isinstance(embedder, StaticEmbedder):
            for scope in (GLOBAL, self.agent.id):  # words alone are set, so no sync makes vectors; those of a table cost little
                memory.documents.fill(memory.owner, scope, embedder)
        return search_index(
            memory.documents, question, owner=memory.owner, agent=self.agent.id, slot=chosen, embedder=embedder,
            previous=memory.embedder_by_id, limit=limit, minimum=minimum, types=types, fusion=fusion,
        )  # fmt: skip

    def shelves(self, alone: str = "", path: str | None = None) -> list[Shelf]:
        """The documents that are indexed, by type; of the type `alone` more are named, with `path` only that one."""
        if not self.memory.has_documents:
            return []
        return list(shelved(self.memory.documents, self.memory.owner, self.agent.id, alone, path))

    def reports_like(self, path: str, limit: int = 10) -> tuple[SimilarReport, ...]:
        """The reports of simulations most like one of them, by what they tested and what came of it."""
        return similar_reports(self.memory.documents, path, owner=self.memory.owner, agent=self.agent.id, limit=limit)

    def _text(self, path: str) -> str | None:
        """A document as it is now: a page of the log, a file that is indexed, or one that lies where documents lie."""
        if path.startswith(TRACES):
            with self.memory.reading(self.agent.id) as tables:
                return decision_page_text(tables, path)
        file = self._indexed(path)
        return self._lying(path) if file is None else text_at(file, path)

    def _indexed(self, path: str) -> Path | None:
        return self.memory.documents.file(self.memory.owner, self.agent.id, path) if self.memory.has_documents else None

    def _lying(self, path: str) -> str | None:
        """The text of a document that the index does not know: it is a cache, and may have been deleted."""
        try:
            confined(path)
        except Invalid:
            return None
        found = self._paper(path)
        return None if found is None else found[0]

    def _paper(self, path: str) -> tuple[str, str] | None:
        """The text of a document of the agent's folders or the shared ones, and its path within its folder."""
        for source in (*self.workspaces(), *self.workspaces(shared=True)):
            within = path.removeprefix(source.prefix)
            if path.startswith(source.prefix) and (text := text_in(source.root, within)) is not None:
                return text, within
        return None

    def document(self, path: str, start_line: int = 1, end_line: int | None = None) -> tuple[str, int, int]:
        """The text of a document, or of some lines of it, and which lines they are."""
        text = self._text(path)
        if text is None:
            raise Unknown("path", "document", path, "Find it with search_documents")
        lines = lines_of(text)
        last = len(lines) if end_line is None else min(end_line, len(lines))
        if not 1 <= start_line <= max(last, 1):
            raise Invalid("start_line", f"{path} has {len(lines)} lines", "Give a line that is there")
        return "\n".join(lines[start_line - 1 : last]), start_line, last

    def cite_document(self, path: str, start_line: int, end_line: int) -> Citation:
        """Lines of a document as they are now, to be verified later."""
        text = self._text(path)
        if text is None:
            raise Unknown("path", "document", path, "Find it with search_documents")
        return cite(path, text, start_line, end_line)

    def verify_citation(self, citation: Citation) -> CitationVerdict:
        """Whether cited lines still stand: valid, moved, changed or gone."""
        return check_citation(citation, self._text(citation.path))

    def documents_pending(self, *, shared: bool = False) -> Pending | None:
        """How many files differ from the index now, by a look at all of them; nothing where a folder is missing."""
        places = self.workspaces(shared=shared)
        if not all(is_there(place.root) for place in places):
            return None
        scope, there = (GLOBAL, places) if shared else (self.agent.id, [*places, decision_pages(self.memory, self.agent.id)])
        return self.memory.documents.pending(self.memory.owner, scope, there)

    def document_health(self, *, shared: bool = False) -> Health:
        """How the index stands: when it was last in step, how much it holds, what could not be read."""
        scope = GLOBAL if shared else self.agent.id
        health = self.memory.documents.health(self.memory.owner, scope, now=self.memory.clock.now())
        return replace(health, roots=tuple(root for root in health.roots if not root.startswith("@")))
