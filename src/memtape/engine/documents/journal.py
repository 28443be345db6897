"""Writing to documents: notes that an agent adds by itself, and edits that it proposes and the owner accepts or rejects.

Files are the authority on what a document says; the log is the authority on who wrote what. A note is put into its file first and
into the log then, under one lock and in one transaction: if the second fails, a retry finds the entry in the file and only logs
it. A proposal is in the log alone until the owner accepts it.

>>> import tempfile
>>> import memtape
>>> memory, folder = memtape.open(":memory:"), tempfile.TemporaryDirectory()
>>> agent = memory.agent_for_writing("main")
>>> _ = agent.add_documents(folder.name)
>>> agent.append_note("learning", "Spreads widen at rollover.", run="r-17").path
'memory/LEARNINGS.md'
>>> edit = agent.propose_edit("RULES.md", text="No entries at rollover.", reason="spreads", run="r-17")
>>> edit.status, agent.accept_proposal(edit.id).status, agent.document("RULES.md")[0]
('proposed', 'accepted', 'No entries at rollover.')
>>> memory.close(); folder.cleanup()

The lock on the workspace is always taken before the transaction, never within one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Annotated, Any

from pydantic import Field

from memtape.core.codec import EPOCH, digest, make_id, plain
from memtape.core.document_edits import (
    Edit,
    NoteEntry,
    NoteKind,
    State,
    Status,
    evaluate_edit,
    make_edit,
    note_text,
    unified_diff,
)
from memtape.core.events import EditProposed, Event, NoteAppended, proposal_event
from memtape.core.ids import JournalNoteId, ProposalId
from memtape.core.items import Item, StoredItem
from memtape.core.values import Key, Line, read
from memtape.documents import workspace_files
from memtape.documents.cache import GLOBAL
from memtape.documents.sources import DocumentFolder
from memtape.engine.documents.decision_pages import sync_documents
from memtape.engine.documents.workspace import Documents
from memtape.engine.write.writer import Receipt, Writer
from memtape.errors import Conflict, Invalid, MemtapeError, Unknown
from memtape.store.cutoff import EVERYTHING, MINE
from memtape.store.tables import Tables

SAME_NOTE = timedelta(minutes=10)
NoteId = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._:-]{0,63}$")]
OPEN = 100  # proposals that may wait for the owner's word
STAYING = {"learning": "memory/LEARNINGS.md", "note": "notes/notes.md"}
TIER = 3  # whose words these are: a model's


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalNote:
    """A note, the lines on which it was put, and its place in the log."""

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """A proposed edit and what became of it. While it is undecided, `state` and `diff` tell of the document as it is now."""

    id: str
    edit: Edit
    prefix: str  # of the folder the document is in
    shared: bool
    reason: str
    run: str | None
    at: datetime
    receipt: Receipt  # of the last that was said of it
    status: Status = "proposed"
    decided_at: datetime | None = None
    note: str = ""
    applied: State | None = None  # how it stood when it was accepted
    intended: str | None = None  # what an acceptance that was interrupted was about to write
    state: State | None = None
    diff: str = ""
    index_problem: str = ""


class Noting(Documents):
    """What is written to one agent's documents."""

    # ---- notes ---------------------------------------------------------------------------------------------------------

    def append_note(
        self, kind: NoteKind, text: str, *, run: str | None = None, id: str | None = None, path: str | None = None
    ) -> JournalNote:
        """Add a note to the agent's documents. The same again, by id or by its words within ten minutes, is the same note."""
        words = note_text(text)
        run, id = (None if run is None else read(Key, run, at="run")), (None if id is None else read(NoteId, id, at="id"))
        asked = {"kind": kind, "text": words, "run": run, "path": path}
        if path is not None:
            workspace_files.confined(path)
        source = self._workspace_for_notes(path)
        inner = None if path is None else path.removeprefix(source.prefix)
        if inner is not None:
            workspace_files.for_notes(inner)
        with workspace_files.locked_workspace(source.root) as workspace:
            with self.memory.writing(self.agent.id) as tables:
                at = self._said_at(tables)
                key, known = _named(tables, self.agent.id, id, asked, at)
                if not known:
                    entry = NoteEntry(id=key, kind=kind, agent=self.agent.id, at=self._told_at(at), run=run, text=words)
                    cited = workspace.append(inner or self._place(workspace, entry), entry)
                    place = f"{source.prefix}{cited.path}"
                    told = {"path": place, "start_line": cited.start_line, "end_line": cited.end_line,
                            "content_hash": cited.content_hash}  # fmt: skip
                    item = Item("document_note", key, at, asked | told | {"tier": TIER}, _content(asked))
                    event = NoteAppended(JournalNoteId(key), place, cited.start_line, cited.end_line, cited.content_hash)
                    self._declare(tables, item, event)
                noted = _noted(tables, tables.items("document_note", EVERYTHING, keys=[key])[0], duplicate=known)
            problem = self._index()
        return replace(noted, index_problem=problem or self._embed())

    def notes_written(self, limit: int = 50, run: str | None = None) -> list[JournalNote]:
        """The notes that were added, newest first; of one run, if it is named."""
        with self.memory.reading(self.agent.id) as tables:
            kept = tables.items("document_note", EVERYTHING, newest=True, limit=limit if run is None else None)
            return [_noted(tables, item) for item in kept if run is None or item.body["run"] == run][:limit]

    def _told_at(self, at: datetime) -> datetime:
        """When a note says it was written; a simulation that has observed nothing has no time of its own."""
        return at if at > EPOCH else self.memory.clock.now()

    def _place(self, workspace: workspace_files.Workspace, entry: NoteEntry) -> str:
        """The document a note goes into; one that a crash before midnight left in the journal of that day is found there."""
        if entry.kind in STAYING:
            return STAYING[entry.kind]
        today, before = (f"journal/{at:%Y-%m-%d}.md" for at in (entry.at, entry.at - timedelta(days=1)))
        left = workspace.read(before)
        return before if left is not None and entry.found_in(left.text) else today

    def _workspace_for_notes(self, path: str | None) -> DocumentFolder:
        """The agent's own folder that a note goes into; one is made where it has none."""
        own = self.workspaces()
        if not own:
            if self.memory.workspace_home is None:
                raise Invalid("agent", f"'{self.agent.id}' has no workspace", "Name its folder: memtape docs index DIR")
            root = self.memory.workspace_home / self.agent.id
            workspace_files.make(root)
            self.add_documents(root)
            own = self.workspaces()
        fitting = [source for source in own if path is None or path.startswith(source.prefix)]
        if not fitting:
            raise Invalid("path", f"'{path}' is in no folder of the agent", f"Begin it with {own[0].prefix}")
        return (min if path is None else max)(fitting, key=lambda source: len(source.prefix))

    # ---- proposals -----------------------------------------------------------------------------------------------------

    def propose_edit(
        self, path: str, *, reason: str, old: str | None = None, new: str | None = None, text: str | None = None,
        run: str | None = None,
    ) -> Proposal:  # fmt: skip
        """Propose to change a document, or a new one: a fragment that stands once, or the whole text. No file changes."""
        reason, run = read(Line, reason, at="reason"), (None if run is None else read(Key, run, at="run"))
        source, shared, before = self._looked_up(path)
        edit = make_edit(path, before, old=old, new=new, text=text)
        workspace_files.fits(path, evaluate_edit(edit, before).text or "")
        body = plain(edit) | {"prefix": source.prefix, "shared": shared, "reason": reason, "run": run, "tier": TIER}
        key = make_id("proposal", self.agent.id, body)
        with self.memory.writing(self.agent.id) as tables:
            known = bool(tables.items("proposal", EVERYTHING, keys=[key]))
            if not known:
                if (waiting := len(_listed(tables, "proposed"))) >= OPEN:
                    raise Conflict("agent", f"{waiting} proposals wait for the owner's word", "Let the owner decide some first")
                at = self._said_at(tables)
                self._declare(tables, Item("proposal", key, at, body), EditProposed(ProposalId(key), path))
            made = _proposal(tables, key, duplicate=known)
        return self._against_now(made)

    def _looked_up(self, path: str) -> tuple[DocumentFolder, bool, str | None]:
        """The folder a document is in, whether that is shared, and its text; of several that could have it, the one that has."""
        workspace_files.confined(path)
        places = [(source, shared) for shared in (False, True) for source in self.workspaces(shared=shared)]
        fitting = [(source, shared) for source, shared in places if path.startswith(source.prefix)]
        if not fitting:
            raise Invalid("path", f"'{path}' is in no folder of the agent", "Name its folder: memtape docs index DIR")
        for source, shared in fitting:
            with workspace_files.open_workspace(source.root) as workspace:
                found = workspace.read(path.removeprefix(source.prefix))
            if found is not None:
                return source, shared, found.text
        source, shared = max(fitting, key=lambda each: len(each[0].prefix))
        workspace_files.for_new(path.removeprefix(source.prefix))
        return source, shared, None

    def proposals(self, status: Status | None = None, limit: int | None = None) -> list[Proposal]:
        """The edits that were proposed, newest first; those that are undecided with how they stand now."""
        with self.memory.reading(self.agent.id) as tables:
            wanted = _listed(tables, status)[:limit]
            found = _proposals(tables, wanted) if wanted else []
        return [self._against_now(one) for one in reversed(found)]

    def proposals_made(self, status: Status | None = None) -> int:
        """How many edits were proposed, or stand so; no document is looked at for that."""
        with self.memory.reading(self.agent.id) as tables:
            return len(_listed(tables, status))

    def proposal(self, id: str) -> Proposal:
        """One proposed edit, with its difference from the document as it is now."""
        with self.memory.reading(self.agent.id) as tables:
            found = _proposal(tables, id)
        return self._against_now(found)

    def accept_proposal(self, id: str, note: str = "") -> Proposal:
        """Make a proposed edit, if it can be made on the document as it is now: the owner's word."""
        note = read(Line, note, at="note")
        with self.memory.reading(self.agent.id) as tables:
            known = _proposal(tables, id)
        source, inner = self._source_of(known)
        with workspace_files.locked_workspace(source.root) as workspace:
            self._intend(known, workspace, inner)
            with self.memory.writing(self.agent.id) as tables:
                known = _proposal(tables, id)
                again = _is_decided(known, "accepted")
                if not again:
                    applied = _applied(known, workspace, inner)
                    self._say_of(tables, id, {"status": "accepted", "note": note, "applied": applied})
                accepted = _proposal(tables, id, duplicate=again)
            problem = self._index(shared=known.shared)
        return replace(accepted, index_problem=problem or self._embed(shared=known.shared))

    def reject_proposal(self, id: str, note: str = "") -> Proposal:
        """Let a proposed edit be: the owner's word. No file changes."""
        note = read(Line, note, at="note")
        with self.memory.writing(self.agent.id) as tables:
            known = _is_decided(_proposal(tables, id), "rejected")
            if not known:
                self._say_of(tables, id, {"status": "rejected", "note": note})
            return _proposal(tables, id, duplicate=known)

    def _intend(self, known: Proposal, workspace: workspace_files.Workspace, inner: str) -> None:
        """State what is about to be written where the document has changed since. Should a crash come between the file and the
        log, the retry knows it by this and does not make the same edit twice: what is new may well contain what was old."""
        found = workspace.read(inner)
        made = evaluate_edit(known.edit, None if found is None else found.text, known.intended)
        if known.status == "proposed" and made.state == "moved" and made.text is not None:
            with self.memory.writing(self.agent.id) as tables:
                self._say_of(tables, known.id, {"status": "accepting", "result": digest(made.text)})

    def _say_of(self, tables: Tables, id: str, said: dict[str, Any]) -> None:
        at, number = self._said_at(tables), len(tables.items("proposal_status", EVERYTHING, symbol=id)) + 1
        item = Item("proposal_status", f"{id}#{number}", at, {"proposal": id, **said}, id)
        self._declare(tables, item, proposal_event(said["status"], ProposalId(id)))

    def _declare(self, tables: Tables, item: Item, told: Event) -> None:
        Writer(tables, self.agent, self.memory.clock.now()).declare(item, item.at, [told])

    def _source_of(self, one: Proposal) -> tuple[DocumentFolder, str]:
        """The folder of a proposed edit, and the document's path in it."""
        for source in self.workspaces(shared=one.shared):
            if source.prefix == one.prefix:
                return source, one.edit.path.removeprefix(source.prefix)
        raise Conflict("proposal_id", "its folder is no longer among the documents", "Index the folder again")

    def _against_now(self, one: Proposal) -> Proposal:
        """A proposal with how it stands against its document now; against one that cannot be read, it does not."""
        if one.status != "proposed":
            return replace(one, diff=one.edit.diff)
        try:
            source, inner = self._source_of(one)
            with workspace_files.open_workspace(source.root) as workspace:
                found = workspace.read(inner)
        except MemtapeError:
            return replace(one, state="stale", diff=one.edit.diff)
        now = None if found is None else found.text
        made = evaluate_edit(one.edit, now, one.intended)
        diff = one.edit.diff if made.text is None else unified_diff(one.edit.path, now, made.text)
        return replace(one, state=made.state, diff=diff)

    # ---- the index -----------------------------------------------------------------------------------------------------

    def _index(self, shared: bool = False) -> str:
        """Bring the index in step with the files, under the lock that they were written under, so that none who was quicker is
        undone; what went wrong. What was written stays written even if it is not found yet."""
        try:
            sync_documents(self, shared=shared, embed=False)
        except MemtapeError as error:
            return str(error)
        return ""

    def _embed(self, shared: bool = False) -> str:
        """Make the vectors that are missing, where there is an embedder: without any lock, for it may be far away."""
        try:
            if (embedder := self.memory.document_embedder(self.memory.slot)) is not None:
                return self.memory.documents.fill(self.memory.owner, GLOBAL if shared else self.agent.id, embedder).problem
        except MemtapeError as error:
            return str(error)
        return ""


def _applied(known: Proposal, workspace: workspace_files.Workspace, inner: str) -> State:
    """Make an edit, if it has to be and can be made; how it stood."""
    found = workspace.read(inner)
    made = evaluate_edit(known.edit, None if found is None else found.text, known.intended)
    if made.state == "stale":
        problem = f"{known.edit.path} has changed since, where this would change it"
        raise Conflict("proposal_id", problem, "Reject it, and let it be proposed again")
    if made.text is not None:
        workspace_files.fits(known.edit.path, made.text)
        workspace.replace(inner, found, made.text)
    return made.state


# ---- from the log ------------------------------------------------------------------------------------------------------


def _content(asked: dict[str, Any]) -> str:
    """What a note says, whatever id and time it has: by this a repetition is recognised."""
    return make_id("document_note", asked)


def _named(tables: Tables, agent: str, id: str | None, asked: dict[str, Any], at: datetime) -> tuple[str, bool]:
    """The id of a note, and whether it is there already."""
    content = _content(asked)
    if id is not None:
        found = tables.items("document_note", EVERYTHING, keys=[id])
        if found and found[0].symbol != content:
            raise Conflict("id", f"the note '{id}' says something else", "Choose another id: notes are not rewritten")
        return id, bool(found)
    alike = tables.items("document_note", EVERYTHING, symbol=content)
    lately = [item.key for item in alike if abs(item.at - at) <= SAME_NOTE]
    return (lately[0], True) if lately else (make_id(agent, content, len(alike)), False)


def _receipt(tables: Tables, kind: str, key: str, duplicate: bool) -> Receipt:
    row = tables.logged(kind, key)
    assert row is not None
    return Receipt(row.stream, row.seq, row.hash, (), duplicate)


def _noted(tables: Tables, item: StoredItem, duplicate: bool = False) -> JournalNote:
    said = {name: item.body[name] for name in ("kind", "path", "start_line", "end_line", "content_hash", "text", "run")}
    return JournalNote(id=item.key, at=item.at, receipt=_receipt(tables, "document_note", item.key, duplicate), **said)


def _listed(tables: Tables, status: Status | None = None) -> list[str]:
    """The ids of proposals, newest first, without what they say."""
    rows = tables.session.all(
        f"SELECT key FROM items WHERE {MINE} AND kind = 'proposal' AND void_seq IS NULL ORDER BY seq DESC",
        {"owner": tables.owner, "stream": tables.stream},
    )
    if status is None:
        return [key for (key,) in rows]
    said = tables.items("proposal_status", EVERYTHING)
    decided = {item.symbol: item.body["status"] for item in said if item.body["status"] != "accepting"}
    return [key for (key,) in rows if decided.get(key, "proposed") == status]


def _proposals(tables: Tables, ids: Sequence[str] | None = None, duplicate: bool = False) -> list[Proposal]:
    """Proposals with what was said of each since, in the order in which they were made."""
    found = []
    for item in sorted(tables.items("proposal", EVERYTHING, keys=ids), key=lambda item: item.seq):
        said = sorted(tables.items("proposal_status", EVERYTHING, symbol=item.key), key=lambda item: item.seq)
        last = ("proposal_status", said[-1].key) if said else ("proposal", item.key)
        body = item.body
        edit = Edit(**{name: body.get(name) for name in ("path", "base", "result", "diff", "old", "new", "text")})
        made = Proposal(
            id=item.key, edit=edit, prefix=body["prefix"], shared=body["shared"], reason=body["reason"], run=body["run"],
            at=item.at, receipt=_receipt(tables, *last, duplicate),
        )  # fmt: skip
        found.append(_with(made, said))
    return found


def _with(made: Proposal, said: Sequence[StoredItem]) -> Proposal:
    """A proposal with what was said of it."""
    for item in said:
        if item.body["status"] == "accepting":
            made = replace(made, intended=item.body["result"])
        else:
            made = replace(made, status=item.body["status"], decided_at=item.at, note=item.body["note"],
                           applied=item.body.get("applied"))  # fmt: skip
    return made


def _proposal(tables: Tables, id: str, duplicate: bool = False) -> Proposal:
    found = _proposals(tables, [id], duplicate)
    if not found:
        raise Unknown("proposal_id", "proposal", id, "List them with list_proposals")
    return found[0]


def _is_decided(one: Proposal, wanted: Status) -> bool:
    """Whether a proposal was decided as is wanted now; refused if it was decided otherwise."""
    if one.status not in ("proposed", wanted):
        raise Conflict("proposal_id", f"the proposal '{one.id}' was {one.status}", "Let it be proposed again")
    return one.status == wanted
