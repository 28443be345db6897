"""Operations on proposed edits of documents: an agent proposes, the owner accepts or rejects."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from memtape.core.document_edits import MAX_FRAGMENT_LENGTH, MAX_TEXT_LENGTH, EditState, ProposalStatus
from memtape.core.values import Key, Line
from memtape.surfaces.answer_models import Answer
from memtape.surfaces.answers import optional_time_text
from memtape.surfaces.questions import OfAgent, agent_of
from memtape.surfaces.registry import operation

if TYPE_CHECKING:
    from memtape.engine import Memory
    from memtape.engine.documents.proposals import Proposal
    from memtape.surfaces.caller import Caller


# In a list, a longer diff is cut.
MAX_LISTED_DIFF_LENGTH = 20_000


class ProposeEdit(OfAgent):
    """Which document, and how to change it."""

    path: Annotated[Line, Field(min_length=1, description="path from search_documents, or a new .md or .txt file")]
    old: Annotated[
        str | None, Field(max_length=MAX_FRAGMENT_LENGTH, description="the text to replace; must occur exactly once")
    ] = None
    new: Annotated[str | None, Field(max_length=MAX_FRAGMENT_LENGTH, description="the replacement")] = None
    text: Annotated[
        str | None, Field(max_length=MAX_TEXT_LENGTH, description="the whole new document, instead of old and new")
    ] = None
    reason: Annotated[Line, Field(min_length=1, description="why, for the owner to decide")]
    run: Annotated[Key | None, Field(description="your run")] = None


class ProposalAnswer(Answer):
    """A proposed edit and its status."""

    agent: Annotated[str, Field(description="the agent")]
    id: Annotated[str, Field(description="the proposal")]
    path: Annotated[str, Field(description="the document")]
    status: Annotated[ProposalStatus, Field(description="proposed, until the owner accepts or rejects it")]
    state: Annotated[EditState | None, Field(description="clean; moved: the document changed elsewhere; done: it has the edit; "
                                         "stale: propose it again; null: already decided")]  # fmt: skip
    applies: Annotated[bool, Field(description="true: it can be accepted")]
    diff: Annotated[str, Field(description="unified diff against the current document; if decided or stale, as proposed")]
    diff_left_out: Annotated[int, Field(description="characters cut from its end in a list; get_proposal has all")] = 0
    new_document: Annotated[bool, Field(description="true: the document did not exist")]
    reason: Annotated[str, Field(description="the proposer's reason")]
    run: Annotated[str | None, Field(description="the run that proposed it")]
    tier: Annotated[int, Field(description="3: written by a model")]
    at: Annotated[str | None, Field(description="UTC")]
    decided_at: Annotated[str | None, Field(description="UTC; null: not decided yet")]
    note: Annotated[str, Field(description="the owner's note")]
    applied: Annotated[EditState | None, Field(description="its state when it was accepted")]
    seq: Annotated[int, Field(description="the log row of its last change")]
    hash: Annotated[str, Field(description="its hash in the chain")]
    duplicate: Annotated[bool, Field(description="true: it was so before, nothing was written")]
    index_problem: Annotated[str | None, Field(description="why search does not find the change yet; null: it does")]


def _answer(agent: str, one: Proposal) -> ProposalAnswer:
    return ProposalAnswer(
        agent=agent,
        id=one.id,
        path=one.edit.path,
        status=one.status,
        state=one.state,
        applies=one.state not in (None, "stale"),
        diff=one.diff or one.edit.diff,
        new_document=one.edit.base is None,
        reason=one.reason,
        run=one.run,
        tier=3,
        at=optional_time_text(one.at),
        decided_at=optional_time_text(one.decided_at),
        note=one.note,
        applied=one.applied,
        seq=one.receipt.seq,
        hash=one.receipt.hash,
        duplicate=one.receipt.duplicate,
        index_problem=one.index_problem or None,
    )


@operation(writes=True, tools={"trader", "coach"})
def propose_edit(memory: Memory, ask: ProposeEdit, caller: Caller) -> ProposalAnswer:
    """Propose a change of a document, or a new document. Nothing on disk changes until the owner accepts it."""
    handle = memory.agent_for_writing(ask.agent)
    made = handle.proposals.propose(ask.path, old=ask.old, new=ask.new, text=ask.text, reason=ask.reason, run=ask.run)
    return _answer(handle.agent.id, made)


class ListProposals(OfAgent):
    """Which proposals."""

    status: Annotated[ProposalStatus | None, Field(description="only this status; default: all")] = None
    limit: Annotated[int, Field(ge=1, le=200, description="how many, newest first")] = 50


class ProposalsAnswer(Answer):
    """Proposed edits, newest first."""

    agent: Annotated[str, Field(description="the agent")]
    proposals: Annotated[list[ProposalAnswer], Field(description="each with its state and the beginning of its diff")]
    n: Annotated[int, Field(description="how many")]
    total: Annotated[int, Field(description="how many have that status")]


@operation(writes=False, columns=("id", "at", "status", "state", "path", "run", "reason"))
def list_proposals(memory: Memory, ask: ListProposals, caller: Caller) -> ProposalsAnswer:
    """List the edits proposed to an agent's documents, pending and decided."""
    handle = agent_of(memory, ask)
    found = [_shortened_for_list(_answer(handle.agent.id, one)) for one in handle.proposals.all(ask.status, ask.limit)]
    total = handle.proposals.count(ask.status)
    return ProposalsAnswer(agent=handle.agent.id, proposals=found, n=len(found), total=total)


def _shortened_for_list(answer: ProposalAnswer) -> ProposalAnswer:
    """A proposal in a list: of a long diff only the first lines."""
    if len(answer.diff) <= MAX_LISTED_DIFF_LENGTH:
        return answer
    beginning = answer.diff[:MAX_LISTED_DIFF_LENGTH].rpartition("\n")[0]
    return answer.model_copy(update={"diff": beginning, "diff_left_out": len(answer.diff) - len(beginning)})


class NameProposal(OfAgent):
    """Which proposal."""

    proposal_id: Annotated[Key, Field(description="an id from list_proposals")]


@operation(writes=False)
def get_proposal(memory: Memory, ask: NameProposal, caller: Caller) -> ProposalAnswer:
    """Get one proposed edit with its diff against the current document, and whether it still applies."""
    handle = agent_of(memory, ask)
    return _answer(handle.agent.id, handle.proposals.get(ask.proposal_id))


class DecideProposal(NameProposal):
    """Which proposal, and a note."""

    note: Annotated[Line, Field(description="a note for the record")] = ""


@operation(writes=True)
def accept_proposal(memory: Memory, ask: DecideProposal, caller: Caller) -> ProposalAnswer:
    """Accept a proposed edit: the document is changed now, unless the edit no longer applies. Owner only."""
    handle = agent_of(memory, ask)
    return _answer(handle.agent.id, handle.proposals.accept(ask.proposal_id, ask.note))


@operation(writes=True)
def reject_proposal(memory: Memory, ask: DecideProposal, caller: Caller) -> ProposalAnswer:
    """Reject a proposed edit: the document stays as it is. Owner only."""
    handle = agent_of(memory, ask)
    return _answer(handle.agent.id, handle.proposals.reject(ask.proposal_id, ask.note))
