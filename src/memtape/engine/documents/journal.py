"""Notes that an agent adds to its documents by itself: only appended, attributed, confined.

Files are the authority on what a document says; the log is the authority on who wrote what. A note is written into its file
first and into the log then, under one lock and in one transaction: if the second fails, a retry finds the entry in the file and
only logs it.

>>> import tempfile
>>> import memtape
>>> memory, folder = memtape.open(":memory:"), tempfile.TemporaryDirectory()
>>> agent = memory.agent_for_writing("main")
>>> _ = agent.documents.add(folder.name)
>>> agent.journal.append("learning", "Spreads widen at rollover.", run="r-17").path
'memory/LEARNINGS.md'
>>> memory.close(); folder.cleanup()

The lock on the workspace is always taken before the transaction, never within one.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field

from memtape.core.codec import EPOCH, make_id
from memtape.core.document_edits import NoteEntry, NoteKind, note_text
from memtape.core.events import NoteAppended
from memtape.core.ids import JournalNoteId
from memtape.core.items import Item
from memtape.core.values import Key, read
from memtape.documents import workspace_files, write_policy
from memtape.engine.arguments import require_text
from memtape.engine.documents.index_update import embed_documents, index_written
from memtape.engine.documents.workspace import Documents
from memtape.engine.write.log_writer import Receipt
from memtape.errors import Conflict
from memtape.store.cutoff import EVERYTHING

if TYPE_CHECKING:
    from memtape.core.items import StoredItem
    from memtape.engine.scope import AgentScope
    from memtape.store.tables import Tables

SAME_NOTE_WITHIN = timedelta(minutes=10)
NoteId = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._:-]{0,63}$")]
FIXED_PATHS = {"learning": "memory/LEARNINGS.md", "note": "notes/notes.md"}
MODEL_TIER = 3  # whose words these are


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalNote:
    """A note, the lines on which it stands, and its place in the log."""

    id: str
    kind: NoteKind
    at: datetime
    path: str
    start_line: int
    end_line: int
    content_hash: str
    text: str
    run: str | None
    receipt: Receipt
    index_problem: str = ""  # why a search does not find it yet


class Journal:
    """The notes of one agent."""

    def __init__(self, scope: AgentScope) -> None:
        self._scope = scope

    def append(
        self, kind: NoteKind, text: str, *, run: str | None = None, id: str | None = None, path: str | None = None
    ) -> JournalNote:
        """Add a note to the agent's documents. Idempotent by id, or by its words within ten minutes."""
        scope, agent = self._scope, self._scope.agent.id
        run, id = (None if run is None else read(Key, run, at="run")), (None if id is None else read(NoteId, id, at="id"))
        kind = read(NoteKind, kind, at="kind")  # type: ignore[arg-type]
        content = {"kind": kind, "text": note_text(require_text("text", text)), "run": run, "path": path}
        if path is not None:
            write_policy.split_path(require_text("path", path))
        folder = Documents(scope).writable_folder(path)
        inner = None if path is None else path.removeprefix(folder.prefix)
        if inner is not None:
            write_policy.check_note_path(inner)
        with workspace_files.locked_workspace(folder.root) as workspace:
            with scope.writing() as tables:
                at = scope.stated_at(tables)
                key, known = _note_key(tables, agent, id, content, at)
                if not known:
                    # The file is written before the log.
                    scope.writer(tables).refuse_over_limit("document_note")
                    entry = NoteEntry(id=key, kind=kind, agent=agent, at=self._written_at(at), run=run, text=str(content["text"]))
                    cited = workspace.append(inner or _path_of(workspace, entry), entry)
                    written = f"{folder.prefix}{cited.path}"
                    place = {"path": written, "start_line": cited.start_line, "end_line": cited.end_line,
                             "content_hash": cited.content_hash}  # fmt: skip
                    item = Item("document_note", key, at, content | place | {"tier": MODEL_TIER}, _content_id(content))
                    lines = (cited.start_line, cited.end_line)
                    event = NoteAppended(JournalNoteId(key), written, *lines, cited.content_hash)
                    scope.writer(tables).declare(item, at, [event])
                note = _note(tables, tables.items("document_note", EVERYTHING, keys=[key])[0], duplicate=known)
            problem = index_written(scope.resources, agent)
        return replace(note, index_problem=problem or embed_documents(scope.resources, agent))

    def notes(self, limit: int = 50, run: str | None = None) -> list[JournalNote]:
        """The notes that were added, newest first; only those of one run, if it is named."""
        with self._scope.reading() as tables:
            items = tables.items("document_note", EVERYTHING, newest=True, limit=limit if run is None else None)
            return [_note(tables, item) for item in items if run is None or item.body["run"] == run][:limit]

    def _written_at(self, at: datetime) -> datetime:
        """The time that a note carries; a simulation that has observed nothing has no time of its own."""
        return at if at > EPOCH else self._scope.resources.clock.now()


def _path_of(workspace: workspace_files.Workspace, entry: NoteEntry) -> str:
    """The document that a note goes into."""
    if entry.kind in FIXED_PATHS:
        return FIXED_PATHS[entry.kind]
    # A crash before midnight may have left the entry in the journal of that day: it is found there and not written twice.
    today, before = (f"journal/{at:%Y-%m-%d}.md" for at in (entry.at, entry.at - timedelta(days=1)))
    left = workspace.read(before)
    return before if left is not None and entry.find_in(left.text) else today


def _content_id(content: dict[str, Any]) -> str:
    """The id of what a note says, whatever its own id and time: a repetition is recognised by it."""
    return make_id("document_note", content)


def _note_key(tables: Tables, agent: str, id: str | None, content: dict[str, Any], at: datetime) -> tuple[str, bool]:
    """The id of a note, and whether it is recorded already."""
    content_id = _content_id(content)
    if id is not None:
        found = tables.items("document_note", EVERYTHING, keys=[id])
        if found and found[0].symbol != content_id:
            raise Conflict("id", f"the note '{id}' has another content", "Choose another id: notes are not rewritten")
        return id, bool(found)
    same = tables.items("document_note", EVERYTHING, symbol=content_id)
    recent = [item.key for item in same if abs(item.at - at) <= SAME_NOTE_WITHIN]
    return (recent[0], True) if recent else (make_id(agent, content_id, len(same)), False)


def _note(tables: Tables, item: StoredItem, duplicate: bool = False) -> JournalNote:
    fields = {name: item.body[name] for name in ("kind", "path", "start_line", "end_line", "content_hash", "text", "run")}
    return JournalNote(id=item.key, at=item.at, receipt=receipt_of(tables, "document_note", item.key, duplicate), **fields)


def receipt_of(tables: Tables, kind: str, key: str, duplicate: bool) -> Receipt:
    """The receipt of a statement that is recorded."""
    row = tables.logged(kind, key)
    assert row is not None
    return Receipt(row.stream, row.seq, row.hash, (), duplicate)
