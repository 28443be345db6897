"""The commands for what agents write: `docs proposals`, `docs accept` and `docs reject`."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from memtape.surfaces.cli.commands import perform_as_owner
from memtape.surfaces.cli.groups import Command
from memtape.surfaces.cli.options import AgentName, Db, Json, Owner, open_store
from memtape.surfaces.cli.printing import answer, reporting

ProposalId = Annotated[str, typer.Argument(metavar="ID", help="The proposal.")]
NoteText = Annotated[str, typer.Option("--note", help="A note for the record.")]


def proposals(
    agent: AgentName = None,
    status: Annotated[str | None, typer.Option(help="Only those proposed, accepted or rejected; default: all.")] = None,
    limit: Annotated[int, typer.Option(help="How many, newest first.")] = 50,
    db: Db = None, owner: Owner = None, as_json: Json = False,
) -> None:  # fmt: skip
    """List the edits proposed to an agent's documents, each with its diff."""
    found = _answer_of("list_proposals", {"agent": agent, "status": status, "limit": limit}, db, owner, as_json)
    for one in found["proposals"] if found is not None else ():
        shown = {name: one[name] for name in ("id", "path", "status", "state", "reason", "run", "at")}
        cut = f"\n({one['diff_left_out']:,} more characters)" if one["diff_left_out"] else ""
        answer({name: value for name, value in shown.items() if value is not None} | {"diff": f"{one['diff']}{cut}\n"})


def accept(
    proposal_id: ProposalId,
    agent: AgentName = None,
    note: NoteText = "",
    db: Db = None,
    owner: Owner = None,
    as_json: Json = False,
) -> None:
    """Accept a proposed edit: the document is changed now, unless the edit no longer applies."""
    _decide_proposal("accept_proposal", proposal_id, agent, note, db, owner, as_json)


def reject(
    proposal_id: ProposalId,
    agent: AgentName = None,
    note: NoteText = "",
    db: Db = None,
    owner: Owner = None,
    as_json: Json = False,
) -> None:
    """Reject a proposed edit: the document stays as it is."""
    _decide_proposal("reject_proposal", proposal_id, agent, note, db, owner, as_json)


def _decide_proposal(name: str, id: str, agent: str | None, note: str, db: str | None, owner: str | None, as_json: bool) -> None:
    found = _answer_of(name, {"agent": agent, "proposal_id": id, "note": note}, db, owner, as_json)
    if found is not None:
        shown = ("id", "path", "status", "applied", "note", "duplicate", "index_problem")
        answer({key: found[key] for key in shown if found[key] not in (None, "")})


def _answer_of(name: str, data: dict[str, Any], db: str | None, owner: str | None, as_json: bool) -> dict[str, Any] | None:
    """The answer of an operation, or None if it was printed as JSON."""
    with reporting(as_json), open_store(db, owner) as memory:
        found = perform_as_owner(memory, name, {key: value for key, value in data.items() if value is not None})
        if not as_json:
            return found
        answer(found, as_json)
    return None


def add_to(group: typer.Typer) -> None:
    """Add these commands to the group `docs`."""
    for command in (proposals, accept, reject):
        group.command(command.__name__, cls=Command)(command)
