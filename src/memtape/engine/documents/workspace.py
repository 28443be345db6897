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
from memtape.documents import workspace_files
from memtape.documents.age_decay import AgeDecay
from memtape.documents.backtests import similar_reports
from memtape.documents.cache import SHARED_SCOPE
from memtape.documents.citations import cite, lines_of
from memtape.documents.filters import choose_documents
from memtape.documents.result_caps import ResultCaps
from memtape.documents.search import SearchResult, search_index
from memtape.documents.sources import LOG_PAGES, is_readable_folder
from memtape.engine.arguments import require_row, require_text
from memtape.engine.documents.authors import authors_of
from memtape.engine.documents.index_notes import index_notes
from memtape.engine.documents.log_pages import log_page_folders, page_record
from memtape.engine.documents.reader import DocumentReader
from memtape.engine.documents.rules import PinnedRules
from memtape.engine.documents.sync import folders_in, sync_documents
from memtape.errors import Invalid, Unknown
from memtape.plugs.embedder import StaticEmbedder
from memtape.store.cutoff import EVERYTHING

if TYPE_CHECKING:
    from datetime import datetime

    from memtape.documents.backtests import SimilarReport
    from memtape.documents.citations import Citation, CitationVerdict
    from memtape.documents.document_list import DocumentGroup
    from memtape.documents.fusion import Fusion
    from memtape.documents.index import IndexHealth, PendingFiles, SyncResult
    from memtape.documents.search import SearchHit
    from memtape.documents.slots import Slot
    from memtape.documents.sources import DocumentFolder
    from memtape.engine.documents.log_pages import PageRecord
    from memtape.engine.scope import AgentScope


class Documents:
    """The documents of one agent."""

    def __init__(self, scope: AgentScope) -> None:
        self._scope = scope

    def add(self, folder: str | Path, *, shared: bool = False, prefix: str = "", rebuild: bool = False) -> SyncResult:
        """Add a folder to the agent's documents, or to those of all agents, and index it."""
        try:
            root = Path(folder).expanduser().resolve()
            is_folder = root.is_dir()
        except (OSError, RuntimeError, ValueError):
            # A name that is too long, a home of a user who does not exist, a byte that no name may have.
            root, is_folder = Path(folder), False
        if not is_folder:
            raise Invalid("folder", f"{root} is not a folder", "Name the folder of the workspace")
        scope, now = self._scope, self._scope.resources.clock.now()
        with scope.resources.writing(OWNER_STREAM if shared else scope.agent.id) as tables:
            body = {"root": str(root), "prefix": prefix or (f"{root.name}/" if shared else "")}
            stated = tables.items("workspace", EVERYTHING)
            if not any(item.body == body for item in stated):
                if any(item.body["prefix"] == body["prefix"] for item in stated):
                    problem = "another folder gives its documents the same names"
                    raise Invalid("folder", problem, "Index one folder per agent, or share this one")
                at = now if shared else scope.stated_at(tables)
                scope.writer(tables).declare(Item("workspace", make_id("workspace", body), at, body), at)
        return self.sync(shared=shared, rebuild=rebuild)

    def folders(self, *, shared: bool = False) -> list[DocumentFolder]:
        """The folders of the agent, or those that all agents share."""
        with self._scope.resources.reading(OWNER_STREAM if shared else self._scope.agent.id) as tables:
            return folders_in(tables)

    def writable_folder(self, path: str | None) -> DocumentFolder:
        """The agent's own folder that a new document goes into; one is made where it has none."""
        home, own = self._scope.resources.workspace_home, self.folders()
        if not own:
            if home is None:
                problem = f"'{self._scope.agent.id}' has no workspace"
                raise Invalid("agent", problem, "Name its folder: memtape docs index DIR")
            root = home / self._scope.agent.id
            workspace_files.create_workspace(root)
            self.add(root)
            own = self.folders()
        fitting = [folder for folder in own if path is None or path.startswith(folder.prefix)]
        if not fitting:
            raise Invalid("path", f"'{path}' is in no folder of the agent", f"Begin it with {own[0].prefix}")
        return (min if path is None else max)(fitting, key=lambda folder: len(folder.prefix))

    def keep_report(self, name: str, text: str) -> str:
        """Write a report of memtape among the agent's documents and index it. Returns its path."""
        folder = self.writable_folder(None)
        inner = f"reports/{name}.md"
        with workspace_files.locked_workspace(folder.root) as workspace:
            before = workspace.read(inner)
            if before is None or before.text != text:
                workspace.replace(inner, before, text)
            sync_documents(self._scope.resources, self._scope.agent.id, embed=False)
        return f"{folder.prefix}{inner}"

    def sync(self, *, shared: bool = False, rebuild: bool = False, embed: bool = True) -> SyncResult:
        """Bring the index in step with the files; unchanged files are not read."""
        synced = sync_documents(self._scope.resources, self._scope.agent.id, shared=shared, rebuild=rebuild, embed=embed)
        if not shared:
            PinnedRules(self._scope).record_seen()
        return synced

    def search(
        self, question: str, *, slot: Slot | None = None, limit: int = 10, minimum: float = 0.0, types: Sequence[str] = (),
        fusion: Fusion = "weighted", path: str = "", since: datetime | None = None, until: datetime | None = None,
        half_life_days: float | None = None,
    ) -> SearchResult:  # fmt: skip
        """What the documents have on a question, each with its path, lines and reason; the note says what may be missing."""
        resources, agent = self._scope.resources, self._scope.agent.id
        # A zero separates words like a space; anything else that no text has is refused.
        question = require_text("query", question.replace("\x00", " ") if isinstance(question, str) else question)
        chosen = slot or resources.slot
        if not resources.has_documents:
            known = any(self.folders(shared=shared) for shared in (False, True))
            todo = "memtape docs reindex" if known else "memtape docs index FOLDER"
            return SearchResult((), chosen, f"nothing is indexed yet: run {todo}")
        embedder = resources.document_embedder(chosen) if chosen == "hybrid_embeddings" else None
        if embedder is not None and resources.document_embedder(resources.slot) is None and isinstance(embedder, StaticEmbedder):
            # The configured slot searches by words, so no sync makes vectors; those of a static table cost little to make here.
            for scope in (SHARED_SCOPE, agent):
                resources.documents.fill(resources.owner, scope, embedder)
        with self._scope.reading() as tables:
            noted = frozenset(str(body["path"]) for body in tables.item_bodies("document_note"))
        found = search_index(
            resources.documents, question, owner=resources.owner, agent=agent, slot=chosen, embedder=embedder,
            previous=resources.embedder_by_id, limit=limit, minimum=minimum, fusion=fusion,
            caps=ResultCaps(written_by_agent=noted),
            only=choose_documents(types=types, path=path, since=since, until=until),
            decay=None if half_life_days is None else AgeDecay(resources.clock.now(), half_life_days),
        )  # fmt: skip
        restricted = types or path or since or until
        nothing = "no document has the path, type and days that were asked for, and these words"
        notes = [found.note, nothing if restricted and not found.hits else "", *index_notes(self, is_empty=not found.hits)]
        return replace(found, note="; ".join(note for note in notes if note))

    def records_of(self, hits: Sequence[SearchHit]) -> list[PageRecord | None]:
        """The run or decision that each hit is about; None for those that are not on a page of the log."""
        if not any(hit.path.startswith(LOG_PAGES) and not hit.shared for hit in hits):
            return [None] * len(hits)
        with self._scope.reading() as tables:
            return [None if hit.shared else page_record(tables, hit.path, hit.headings) for hit in hits]

    def authors_of(self, hits: Sequence[SearchHit]) -> list[str]:
        """Who wrote each passage, as far as is known."""
        with self._scope.reading() as tables:
            return authors_of(tables, hits, DocumentReader(self._scope.resources, tables).text)

    def listing(self, alone: str = "", path: str | None = None) -> Sequence[DocumentGroup]:
        """The indexed documents by type; of the type `alone` more are listed, with `path` only that one."""
        with self._scope.reading() as tables:
            return DocumentReader(self._scope.resources, tables).listing(alone, path)

    def similar_reports(
        self, path: str | None = None, limit: int = 10, where: Sequence[str] = ()
    ) -> tuple[SimilarReport, ...]:
        """The backtest reports most similar to one of them, by what they tested and what came of it, that meet all conditions."""
        resources, agent = self._scope.resources, self._scope.agent.id
        return similar_reports(resources.documents, path, owner=resources.owner, agent=agent, limit=limit, where=where)

    def read(self, path: str, start_line: int = 1, end_line: int | None = None) -> tuple[str, int, int]:
        """The text of a document, or of some of its lines, and which lines they are."""
        lines, start_line = lines_of(self._text(path)), require_row("start_line", start_line)
        end_line = None if end_line is None else require_row("end_line", end_line)
        last = len(lines) if end_line is None else min(end_line, len(lines))
        if not 1 <= start_line <= max(last, 1):
            raise Invalid("start_line", f"{path} has {len(lines)} lines", "Give a line that is there")
        return "\n".join(lines[start_line - 1 : last]), start_line, last

    def cite(self, path: str, start_line: int, end_line: int) -> Citation:
        """Lines of a document as they are now, to be verified later."""
        return cite(path, self._text(path), start_line, end_line)

    def _text(self, path: str) -> str:
        path = require_text("path", path)
        with self._scope.reading() as tables:
            text = DocumentReader(self._scope.resources, tables).text(path)
        if text is None:
            raise Unknown("path", "document", path, "Find it with search_documents")
        return text

    def verify_citation(self, citation: Citation) -> CitationVerdict:
        """Whether cited lines still say what they said: valid, moved (also to another document), changed or gone."""
        with self._scope.reading() as tables:
            return DocumentReader(self._scope.resources, tables).check_everywhere(citation)

    def pending(self, *, shared: bool = False) -> PendingFiles | None:
        """How many files differ from the index now, by a look at all of them; None where a folder is missing."""
        resources, agent = self._scope.resources, self._scope.agent.id
        folders = self.folders(shared=shared)
        if not all(is_readable_folder(folder.root) for folder in folders):
            return None
        if shared:
            return resources.documents.pending(resources.owner, SHARED_SCOPE, folders)
        return resources.documents.pending(resources.owner, agent, [*folders, *log_page_folders(resources, agent)])

    def health(self, *, shared: bool = False) -> IndexHealth:
        """The health of the index: when it was last in step, how much it holds, what could not be read."""
        resources = self._scope.resources
        health = resources.documents.health(
            resources.owner, SHARED_SCOPE if shared else self._scope.agent.id, now=resources.clock.now()
        )
        return replace(health, roots=tuple(root for root in health.roots if not root.startswith("@")))
