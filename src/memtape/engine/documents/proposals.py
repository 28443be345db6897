"""Edits that an agent proposes to its documents, and that the owner accepts or rejects. No file changes before that.

>>> import tempfile
>>> import memtape
>>> memory, folder = memtape.open(":memory:"), tempfile.TemporaryDirectory()
>>> agent = memory.agent_for_writing("main")
>>> _ = agent.documents.add(folder.name)
>>> edit = agent.proposals.propose("RULES.md", text="No entries at rollover.", reason="spreads", run="r-17")
>>> edit.status, agent.proposals.accept(edit.id).status, agent.documents.read("RULES.md")[0]
('proposed', 'accepted', 'No entries at rollover.')
>>> memory.close(); folder.cleanup()

The lock on the workspace is always taken before the transaction, never within one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

from memtape.core.codec import digest, make_id, plain
from memtape.core.document_edits import Edit, EditState, ProposalStatus, evaluate_edit, make_edit
from memtape.core.events import EditProposed, proposal_event
from memtape.core.ids import ProposalId
from memtape.core.items import Item
from memtape.core.text_diff import unified_diff
from memtape.core.values import Key, Line, read
from memtape.documents import workspace_files, write_policy
from memtape.engine.arguments import require_text
from memtape.engine.documents.index_update import embed_documents, index_written
from memtape.engine.documents.journal import MODEL_TIER, receipt_of
from memtape.engine.documents.rules import PinnedRules
from memtape.engine.documents.workspace import Documents
from memtape.engine.write.log_writer import Receipt
from memtape.errors import Conflict, Invalid, MemtapeError, Unknown
from memtape.store.cutoff import EVERYTHING

if TYPE_CHECKING:
    from memtape.core.items import StoredItem
    from memtape.documents.sources import DocumentFolder
    from memtape.engine.scope import AgentScope
    from memtape.store.tables import Tables

MAX_OPEN_PROPOSALS = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """A proposed edit and what became of it. While it is undecided, `state` and `diff` describe the document as it is now."""

    id: str
    edit: Edit
    prefix: str  # of the folder the document is in
    shared: bool
    reason: str
    run: str | None
    at: datetime
    receipt: Receipt  # of the latest statement about it
    status: ProposalStatus = "proposed"
    decided_at: datetime | None = None
    note: str = ""
    applied: EditState | None = None  # the state of the edit when it was accepted
    intended: str | None = None  # what an acceptance that was interrupted was about to write
    state: EditState | None = None
    diff: str = ""
    index_problem: str = ""


class Proposals:
    """The edits that one agent proposed."""

    def __init__(self, scope: AgentScope) -> None:
        self._scope, self._documents = scope, Documents(scope)

    def propose(
        self, path: str, *, reason: str, old: str | None = None, new: str | None = None, text: str | None = None,
        run: str | None = None,
    ) -> Proposal:  # fmt: skip
        """Propose to change a document or to add one: a fragment that occurs once, or the whole text. No file changes."""
        scope = self._scope
        reason, run = read(Line, reason, at="reason"), (None if run is None else read(Key, run, at="run"))
        for field, stated in (("old", old), ("new", new), ("text", text)):
            if stated is not None:
                require_text(field, stated)
        folder, shared, before = self._find(require_text("path", path))
        edit = make_edit(path, before, old=old, new=new, text=text)
        write_policy.check_size(path, evaluate_edit(edit, before).text or "")
        body = plain(edit) | {"prefix": folder.prefix, "shared": shared, "reason": reason, "run": run, "tier": MODEL_TIER}
        key = make_id("proposal", scope.agent.id, body)
        with scope.writing() as tables:
            known = bool(tables.items("proposal", EVERYTHING, keys=[key]))
            if not known:
                if (waiting := len(_proposal_ids(tables, "proposed"))) >= MAX_OPEN_PROPOSALS:
                    raise Conflict("agent", f"{waiting} proposals wait for the owner", "Ask the owner to decide some first")
                at = scope.stated_at(tables)
                event = EditProposed(ProposalId(key), path)
                scope.writer(tables).declare(Item("proposal", key, at, body), at, [event])
            proposal = _proposal(tables, key, duplicate=known)
        return self._against_now(proposal)

    def _find(self, path: str) -> tuple[DocumentFolder, bool, str | None]:
        """The folder a document is in, whether that is shared, and its text; of several folders the one that has it."""
        write_policy.split_path(path)
        folders = [(folder, shared) for shared in (False, True) for folder in self._documents.folders(shared=shared)]
        fitting = [(folder, shared) for folder, shared in folders if path.startswith(folder.prefix)]
        if not fitting:
            raise Invalid("path", f"'{path}' is in no folder of the agent", "Name its folder: memtape docs index DIR")
        for folder, shared in fitting:
            with workspace_files.open_workspace(folder.root) as workspace:
                found = workspace.read(path.removeprefix(folder.prefix))
            if found is not None:
                return folder, shared, found.text
        folder, shared = max(fitting, key=lambda each: len(each[0].prefix))
        write_policy.check_new_path(path.removeprefix(folder.prefix))
        return folder, shared, None

    def all(self, status: ProposalStatus | None = None, limit: int | None = None) -> list[Proposal]:
        """The proposed edits, newest first; undecided ones with their state against the document of now."""
        with self._scope.reading() as tables:
            wanted = _proposal_ids(tables, status)[:limit]
            found = _proposals(tables, wanted) if wanted else []
        return [self._against_now(proposal) for proposal in reversed(found)]

    def count(self, status: ProposalStatus | None = None) -> int:
        """How many edits were proposed, or have a status; no document is read for that."""
        with self._scope.reading() as tables:
            return len(_proposal_ids(tables, status))

    def get(self, id: str) -> Proposal:
        """One proposed edit, with its difference from the document as it is now."""
        with self._scope.reading() as tables:
            found = _proposal(tables, id)
        return self._against_now(found)

    def accept(self, id: str, note: str = "") -> Proposal:
        """Apply a proposed edit, if it still fits the document as it is now. Owner only."""
        note, scope = read(Line, note, at="note"), self._scope
        with scope.reading() as tables:
            proposal = _proposal(tables, id)
        folder, inner = self._folder_of(proposal)
        with workspace_files.locked_workspace(folder.root) as workspace:
            self._intend(proposal, workspace, inner)
            with scope.writing() as tables:
                proposal = _proposal(tables, id)
                known = _is_decided(proposal, "accepted")
                if not known:
                    applied = _apply(proposal, workspace, inner)
                    self._state(tables, id, {"status": "accepted", "note": note, "applied": applied})
                accepted = _proposal(tables, id, duplicate=known)
            problem = index_written(scope.resources, scope.agent.id, shared=proposal.shared)
        # A rule that the owner takes out by accepting an edit is not missing.
        PinnedRules(scope).confirm(proposal.edit.path)
        problem = problem or embed_documents(scope.resources, scope.agent.id, shared=proposal.shared)
        return replace(accepted, index_problem=problem)

    def reject(self, id: str, note: str = "") -> Proposal:
        """Reject a proposed edit. No file changes. Owner only."""
        note = read(Line, note, at="note")
        with self._scope.writing() as tables:
            known = _is_decided(_proposal(tables, id), "rejected")
            if not known:
                self._state(tables, id, {"status": "rejected", "note": note})
            return _proposal(tables, id, duplicate=known)

    def _intend(self, proposal: Proposal, workspace: workspace_files.Workspace, inner: str) -> None:
        """State what is about to be written where the document has changed since the proposal."""
        # Should a crash come between the file and the log, the retry recognises its own text by this statement and does not apply
        # the same edit twice: the new text may well contain the old fragment.
        found = workspace.read(inner)
        result = evaluate_edit(proposal.edit, None if found is None else found.text, proposal.intended)
        if proposal.status == "proposed" and result.state == "moved" and result.text is not None:
            with self._scope.writing() as tables:
                self._state(tables, proposal.id, {"status": "accepting", "result": digest(result.text)})

    def _state(self, tables: Tables, id: str, stated: dict[str, Any]) -> None:
        at = self._scope.stated_at(tables)
        number = len(tables.items("proposal_status", EVERYTHING, symbol=id)) + 1
        item = Item("proposal_status", f"{id}#{number}", at, {"proposal": id, **stated}, id)
        self._scope.writer(tables).declare(item, at, [proposal_event(stated["status"], ProposalId(id))])

    def _folder_of(self, proposal: Proposal) -> tuple[DocumentFolder, str]:
        """The folder of a proposed edit, and the document's path in it."""
        for folder in self._documents.folders(shared=proposal.shared):
            if folder.prefix == proposal.prefix:
                return folder, proposal.edit.path.removeprefix(folder.prefix)
        raise Conflict("proposal_id", "its folder is no longer among the documents", "Index the folder again")

    def _against_now(self, proposal: Proposal) -> Proposal:
        """A proposal with its state against the document of now; against one that cannot be read it is stale."""
        if proposal.status != "proposed":
            return replace(proposal, diff=proposal.edit.diff)
        try:
            folder, inner = self._folder_of(proposal)
            with workspace_files.open_workspace(folder.root) as workspace:
                found = workspace.read(inner)
        except MemtapeError:
            return replace(proposal, state="stale", diff=proposal.edit.diff)
        now = None if found is None else found.text
        result = evaluate_edit(proposal.edit, now, proposal.intended)
        diff = proposal.edit.diff if result.text is None else unified_diff(proposal.edit.path, now, result.text)
        return replace(proposal, state=result.state, diff=diff)


def _apply(proposal: Proposal, workspace: workspace_files.Workspace, inner: str) -> EditState:
    """Write an edit, if it has to be and can be written; returns its state before."""
    found = workspace.read(inner)
    result = evaluate_edit(proposal.edit, None if found is None else found.text, proposal.intended)
    if result.state == "stale":
        problem = f"{proposal.edit.path} has changed where the edit would change it"
        raise Conflict("proposal_id", problem, "Reject it, and ask the agent to propose it again")
    if result.text is not None:
        write_policy.check_size(proposal.edit.path, result.text)
        workspace.replace(inner, found, result.text)
    return result.state


def _proposal_ids(tables: Tables, status: ProposalStatus | None = None) -> list[str]:
    """The ids of proposals, newest first, without what they say."""
    ids = tables.item_keys("proposal")
    if status is None:
        return ids
    stated = tables.items("proposal_status", EVERYTHING)
    decided = {item.symbol: item.body["status"] for item in stated if item.body["status"] != "accepting"}
    return [id for id in ids if decided.get(id, "proposed") == status]


def _proposals(tables: Tables, ids: Sequence[str] | None = None, duplicate: bool = False) -> list[Proposal]:
    """Proposals with every later statement about them, in the order in which they were made."""
    found = []
    for item in sorted(tables.items("proposal", EVERYTHING, keys=ids), key=lambda item: item.seq):
        stated = sorted(tables.items("proposal_status", EVERYTHING, symbol=item.key), key=lambda item: item.seq)
        last = ("proposal_status", stated[-1].key) if stated else ("proposal", item.key)
        body = item.body
        edit = Edit(**{name: body.get(name) for name in ("path", "base", "result", "diff", "old", "new", "text")})
        proposal = Proposal(
            id=item.key, edit=edit, prefix=body["prefix"], shared=body["shared"], reason=body["reason"], run=body["run"],
            at=item.at, receipt=receipt_of(tables, *last, duplicate),
        )  # fmt: skip
        found.append(_with_statements(proposal, stated))
    return found


def _with_statements(proposal: Proposal, stated: Sequence[StoredItem]) -> Proposal:
    """A proposal with the later statements about it."""
    for item in stated:
        if item.body["status"] == "accepting":
            proposal = replace(proposal, intended=item.body["result"])
        else:
            proposal = replace(
                proposal, status=item.body["status"], decided_at=item.at, note=item.body["note"], applied=item.body.get("applied")
            )
    return proposal


def _proposal(tables: Tables, id: str, duplicate: bool = False) -> Proposal:
    found = _proposals(tables, [id], duplicate)
    if not found:
        raise Unknown("proposal_id", "proposal", id, "List them with list_proposals")
    return found[0]


def _is_decided(proposal: Proposal, status: ProposalStatus) -> bool:
    """True if a proposal has this status already; raises Conflict if it was decided otherwise."""
    if proposal.status not in ("proposed", status):
        problem = f"the proposal '{proposal.id}' was {proposal.status}"
        raise Conflict("proposal_id", problem, "Ask the agent to propose it again")
    return proposal.status == status
