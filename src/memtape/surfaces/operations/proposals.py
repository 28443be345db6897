"""Operations on proposed edits of documents: an agent proposes, the owner accepts or rejects."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from memtape.core.document_edits import FRAGMENT_LENGTH, TEXT_LENGTH, State, Status
from memtape.core.values import Key, Line
from memtape.surfaces.answers import Answer, optional_time_text
from memtape.surfaces.questions import OfAgent, agent_of
from memtape.surfaces.registry import operation

if TYPE_CHECKING:
    from memtape.engine import Memory
    from memtape.engine.documents.journal import Proposal
    from memtape.surfaces.caller import Caller


DIFF_LISTED = 20_000  # characters of a diff, where many are listed


class ProposeEdit(OfAgent):
    """Which document is to say what."""

    path: Annotated[Line, Field(min_length=1, description="the document, as search_documents gives it; or a new .md or .txt")]
    old: Annotated[str | None, Field(max_length=MAX_FRAGMENT_LENGTH, description="what stands there, exactly once")] = None
    new: Annotated[str | None, Field(max_length=MAX_FRAGMENT_LENGTH, description="what should stand there instead")] = None
    text: Annotated[str | None, Field(max_length=MAX_TEXT_LENGTH, description="the whole new text, in place of old and new")] = (
        None
    )
    reason: Annotated[Line, Field(min_length=1, description="why, for the owner to judge")]
    run: Annotated[Key | None, Field(description="the run that proposes it")] = None


class ProposalAnswer(Answer):
    """A proposed edit and what became of it."""

    agent: Annotated[str, Field(description="whose")]
    id: Annotated[str, Field(description="the proposal")]
    path: Annotated[str, Field(description="the document")]
    status: Annotated[ProposalStatus, Field(description="proposed until the owner accepts or rejects it")]
    state: Annotated[EditState | None, Field(description="how it stands now: clean; moved, the document changed elsewhere; done, "
                                         "it says so already; stale, propose it again; null: decided")]  # fmt: skip
    applies: Annotated[bool, Field(description="whether it can be accepted as it is")]
    diff: Annotated[str, Field(description="unified, against the document of now; if decided or stale, as proposed")]
    diff_left_out: Annotated[int, Field(description="characters at its end that a list leaves out: see get_proposal")] = 0
    new_document: Annotated[bool, Field(description="true when there was no such document")]
    reason: Annotated[str, Field(description="why, in the words of whoever proposed it")]
    run: Annotated[str | None, Field(description="the run that proposed it")]
    tier: Annotated[int, Field(description="3: a model's words")]
    at: Annotated[str | None, Field(description="UTC")]
    decided_at: Annotated[str | None, Field(description="UTC; null: not decided")]
    note: Annotated[str, Field(description="what the owner said")]
    applied: Annotated[
        EditState | None, Field(description="how it stood when accepted: moved, the document had changed elsewhere")
    ]
    seq: Annotated[int, Field(description="the log row of the last that was said of it")]
    hash: Annotated[str, Field(description="its link in the chain")]
    duplicate: Annotated[bool, Field(description="true when it was so already: nothing was written")]
    index_problem: Annotated[str | None, Field(description="why a search does not find the change yet; null: it does")]


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
    """Propose to change a document, or a new one. Nothing on disk changes until the owner accepts it."""
    handle = memory.agent_for_writing(ask.agent)
    made = handle.proposals.propose(ask.path, old=ask.old, new=ask.new, text=ask.text, reason=ask.reason, run=ask.run)
    return _answer(handle.agent.id, made)


class ListProposals(OfAgent):
    """Which proposals."""

    status: Annotated[ProposalStatus | None, Field(description="only these; default: all")] = None
    limit: Annotated[int, Field(ge=1, le=200, description="how many, the newest first")] = 50


class ProposalsAnswer(Answer):
    """Proposed edits, the newest first."""

    agent: Annotated[str, Field(description="whose")]
    proposals: Annotated[list[ProposalAnswer], Field(description="each with how it stands now, and the beginning of its diff")]
    n: Annotated[int, Field(description="how many are listed")]
    total: Annotated[int, Field(description="how many there are of that status")]


@operation(writes=False)
def list_proposals(memory: Memory, ask: ListProposals, caller: Caller) -> ProposalsAnswer:
    """The edits that were proposed to an agent's documents: those to be decided, and what became of the others."""
    handle = agent_of(memory, ask)
    found = [_in_short(_answer(handle.agent.id, one)) for one in handle.proposals(ask.status, ask.limit)]
    total = handle.proposals_made(ask.status)
    return ProposalsAnswer(agent=handle.agent.id, proposals=found, n=len(found), total=total)


def _in_short(answer: ProposalAnswer) -> ProposalAnswer:
    """A proposal among others: of a long diff, its first lines."""
    if len(answer.diff) <= DIFF_LISTED:
        return answer
    kept = answer.diff[:DIFF_LISTED].rpartition("\n")[0]
    return answer.model_copy(update={"diff": kept, "diff_left_out": len(answer.diff) - len(kept)})


class NameProposal(OfAgent):
    """Which proposal."""

    proposal_id: Annotated[Key, Field(description="its id")]


@operation(writes=False)
def get_proposal(memory: Memory, ask: NameProposal, caller: Caller) -> ProposalAnswer:
    """One proposed edit, with its difference from the document as it is now and whether it still applies."""
    handle = agent_of(memory, ask)
    return _answer(handle.agent.id, handle.proposal(ask.proposal_id))


class DecideProposal(NameProposal):
    """Which proposal, and why so."""

    note: Annotated[Line, Field(description="a word for the record")] = ""


@operation(writes=True)
def accept_proposal(memory: Memory, ask: DecideProposal, caller: Caller) -> ProposalAnswer:
    """Accept a proposed edit as the owner: the document is changed now. Refused if it no longer applies; a model cannot."""
    caller.require_owner("accept an edit")
    handle = agent_of(memory, ask)
    return _answer(handle.agent.id, handle.accept_proposal(ask.proposal_id, ask.note))


@operation(writes=True)
def reject_proposal(memory: Memory, ask: DecideProposal, caller: Caller) -> ProposalAnswer:
    """Reject a proposed edit as the owner: the document stays as it is. A model cannot."""
    caller.require_owner("reject an edit")
    handle = agent_of(memory, ask)
    return _answer(handle.agent.id, handle.reject_proposal(ask.proposal_id, ask.note))
