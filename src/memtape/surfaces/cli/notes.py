"""The commands with which the owner looks at what agents write: `docs notes`, `docs proposals`, `docs accept`, `docs reject`."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from memtape.surfaces.cli.commands import answer, perform_as_owner, reporting
from memtape.surfaces.cli.options import AgentName, Db, Json, Owner, open_store

ProposalId = Annotated[str, typer.Argument(metavar="ID", help="The proposal.")]
Word = Annotated[str, typer.Option("--note", help="A word for the record.")]


def notes(
    agent: AgentName = "main", limit: Annotated[int, typer.Option(help="How many, the newest first.")] = 20,
    run: Annotated[str | None, typer.Option(help="Only of this run.")] = None,
    db: Db = None, owner: Owner = None, as_json: Json = False,
) -> None:  # fmt: skip
    """What an agent has written into its documents by itself."""
    found = _asked("list_notes", {"agent": agent, "limit": limit, "run": run}, db, owner, as_json)
    if found is not None:
        rows = [
            {"at": one["at"], "kind": one["kind"], "run": one["run"],
             "where": f"{one['path']}:{one['start_line']}-{one['end_line']}", "text": " ".join(one["text"].split())[:80]}
            for one in found["notes"]
        ]  # fmt: skip
        answer({"agent": found["agent"], "notes": rows})


def proposals(
    agent: AgentName = "main",
    status: Annotated[str | None, typer.Option(help="proposed, accepted or rejected; default: all.")] = None,
    limit: Annotated[int, typer.Option(help="How many, the newest first.")] = 50,
    db: Db = None, owner: Owner = None, as_json: Json = False,
) -> None:  # fmt: skip
    """The edits that were proposed to an agent's documents, each with its diff."""
    found = _asked("list_proposals", {"agent": agent, "status": status, "limit": limit}, db, owner, as_json)
    for one in found["proposals"] if found is not None else ():
        shown = {name: one[name] for name in ("id", "path", "status", "state", "reason", "run", "at")}
        cut = f"\n({one['diff_left_out']:,} characters more)" if one["diff_left_out"] else ""
        answer({name: value for name, value in shown.items() if value is not None} | {"diff": f"{one['diff']}{cut}\n"})


def accept(
    proposal_id: ProposalId, agent: AgentName = "main", note: Word = "", db: Db = None, owner: Owner = None, as_json: Json = False
) -> None:
    """Accept a proposed edit: the document is changed now, unless it has changed since where the edit would change it."""
    _decided("accept_proposal", proposal_id, agent, note, db, owner, as_json)


def reject(
    proposal_id: ProposalId, agent: AgentName = "main", note: Word = "", db: Db = None, owner: Owner = None, as_json: Json = False
) -> None:
    """Reject a proposed edit: the document stays as it is."""
    _decided("reject_proposal", proposal_id, agent, note, db, owner, as_json)


def _decided(name: str, id: str, agent: str, note: str, db: str | None, owner: str | None, as_json: bool) -> None:
    found = _asked(name, {"agent": agent, "proposal_id": id, "note": note}, db, owner, as_json)
    if found is not None:
        told = ("id", "path", "status", "applied", "note", "duplicate", "index_problem")
        answer({key: found[key] for key in told if found[key] not in (None, "")})


def _asked(name: str, data: dict[str, Any], db: str | None, owner: str | None, as_json: bool) -> dict[str, Any] | None:
    """The answer of an operation; none where it was printed as JSON already."""
    with reporting(as_json), open_store(db, owner) as memory:
        found = perform_as_owner(memory, name, {key: value for key, value in data.items() if value is not None})
        if not as_json:
            return found
        answer(found, as_json)
    return None


def add_to(group: typer.Typer) -> None:
    """Add these commands to the group of those about documents."""
    for command in (notes, proposals, accept, reject):
        group.command(command.__name__)(command)
