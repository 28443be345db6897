"""The pages of the edits that an agent proposes to its documents, for the owner to accept or reject.

/agents/{agent}/proposals                         the open ones first, the decided ones below
/agents/{agent}/proposals/{proposal}              one proposal with its whole diff
POST /agents/{agent}/proposals/accept, /reject    decides on the proposal in the field `proposal_id`; `note` states why
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import quote

from starlette.responses import RedirectResponse, Response

from memtape.errors import Invalid, MemtapeError, Unknown
from memtape.surfaces.operations.proposals import (
    DecideProposal,
    ListProposals,
    NameProposal,
    ProposalAnswer,
    accept_proposal,
    get_proposal,
    list_proposals,
    reject_proposal,
)
from memtape.surfaces.translate import error_report
from memtape.surfaces.web.diff import DiffExcerpt, diff_excerpt
from memtape.surfaces.web.forms import chosen_fields, read_question
from memtape.surfaces.web.register import form, page
from memtape.surfaces.web.site import PageRequest, Site

if TYPE_CHECKING:
    from memtape.surfaces.web.site import OperationFunction

MAX_PROPOSALS = 200  # read, of each status
DECIDED_LISTED = 50
LINES_IN_THE_LIST, LINES_ALONE = 120, 5_000  # of a diff
STATES: Mapping[str, tuple[str, str]] = {
    "clean": ("applies", "The document has not changed since this was proposed."),
    "moved": ("applies", "The document has changed elsewhere; the text to replace is still there, once."),
    "done": ("already done", "The document already contains this change: accepting it only records the decision."),
    "stale": ("no longer applies", "The document has changed in the same place. Reject it; the agent can propose again."),
}
DONE: Mapping[str, str] = {
    "accepted": "Accepted: the document was changed.",
    "unindexed": "Accepted: the document was changed, but a search does not find the change yet. Look at the index.",
    "rejected": "Rejected: the document stays as it is.",
    "before": "Nothing was done: this decision was already recorded.",
}


class ProposalView(NamedTuple):
    """A proposal, and as much of its diff as the page shows."""

    answer: ProposalAnswer
    diff: DiffExcerpt


def open_proposals(site: Site, agent: str) -> int:
    """The number of proposals that the owner has not decided."""
    return site.memory.agent(agent).proposals.count("proposed")


def open_proposals_badge(site: Site, agent: str) -> int:
    """The number of open proposals, counted again only when the agent's log has grown."""
    return site.by_log(agent, open_proposals)


# ---- reading -------------------------------------------------------------------------------------------------------------


@page("/agents/{agent}/proposals", nav="Proposals", order=90, badge=open_proposals_badge)
def proposals_page(request: PageRequest) -> Response:
    """Open and decided proposals."""
    return _proposals_shown(request, done=DONE.get(request.query.get("done", ""), ""))


def _proposals_shown(request: PageRequest, status: int = 200, *, done: str = "", problem: str = "") -> Response:
    def listed(state: str) -> tuple[list[ProposalView], int]:
        found = request.ask(
            list_proposals, read_question(ListProposals, agent=request.agent.id, status=state, limit=MAX_PROPOSALS)
        )
        return [_in_the_list(request, one) for one in found.proposals], found.total

    opened, _ = listed("proposed")
    (accepted, n_accepted), (rejected, n_rejected) = listed("accepted"), listed("rejected")
    decided = sorted([*accepted, *rejected], key=lambda one: one.answer.decided_at or "", reverse=True)
    return request.show(
        "proposals.html", status, states=STATES, done=done, problem=problem, open=opened,
        n_decided=n_accepted + n_rejected, decided=decided[:DECIDED_LISTED],
    )  # fmt: skip


def _in_the_list(request: PageRequest, one: ProposalAnswer) -> ProposalView:
    """A proposal with the first lines of its diff. Only the whole diff tells how many lines there are."""
    if one.diff_left_out:
        one = request.ask(get_proposal, NameProposal(agent=request.agent.id, proposal_id=one.id))
    return ProposalView(one, diff_excerpt(one.diff, LINES_IN_THE_LIST))


@page("/agents/{agent}/proposals/{proposal}", within="Proposals")
def proposal_page(request: PageRequest) -> Response:
    """One proposal with its whole diff."""
    agent, id_ = request.agent.id, request.value("proposal")
    try:
        found = request.ask(get_proposal, read_question(NameProposal, agent=agent, proposal_id=id_))
    except (Invalid, Unknown):
        raise Unknown("proposal", "proposal", id_, f"Choose one from the proposals of '{agent}'") from None
    return request.show("proposal.html", one=ProposalView(found, diff_excerpt(found.diff, LINES_ALONE)), states=STATES)


# ---- writing -------------------------------------------------------------------------------------------------------------


def _with_problem(request: PageRequest, error: MemtapeError) -> Response:
    return _proposals_shown(request, error_report(error).status, problem=str(error))


@form("/agents/{agent}/proposals/accept", within="Proposals", on_error=_with_problem)
def accept_proposal_form(request: PageRequest) -> Response:
    """Accepts a proposal: the document changes."""
    return _decide(request, accept_proposal, "accepted")


@form("/agents/{agent}/proposals/reject", within="Proposals", on_error=_with_problem)
def reject_proposal_form(request: PageRequest) -> Response:
    """Rejects a proposal: the document stays as it is."""
    return _decide(request, reject_proposal, "rejected")


def _decide(request: PageRequest, operation: OperationFunction[DecideProposal, ProposalAnswer], done: str) -> Response:
    fields = chosen_fields(request.form, "proposal_id", "note")
    result = request.ask(operation, read_question(DecideProposal, agent=request.agent.id, **fields))
    done = "before" if result.duplicate else "unindexed" if result.index_problem else done
    return RedirectResponse(f"{request.agent_path}/proposals?done={done}#proposal-{quote(result.id, safe='')}", 303)
