"""The commands about what an agent sees: `brief` and `lessons diff`."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from memtape.surfaces.cli.commands import context_object, perform_as_owner
from memtape.surfaces.cli.groups import Command, command_group
from memtape.surfaces.cli.options import AgentName, Db, Json, Owner, open_store
from memtape.surfaces.cli.printing import answer, print_sentence, reporting, say_on_lines

CONTEXT_HELP = "The situation, like session=london,regime=ranging, or JSON; default: the last known one."
lessons_app = command_group("The lessons of an agent: what its closed trades teach.")


def brief(
    agent: AgentName = None, db: Db = None, owner: Owner = None, as_json: Json = False,
    context: Annotated[str | None, typer.Option(metavar="NAME=VALUE,...", help=CONTEXT_HELP)] = None,
    symbol: Annotated[str | None, typer.Option(help="What the decision is about.")] = None,
    strategy: Annotated[str | None, typer.Option(help="Only memories of this strategy.")] = None,
    thesis: Annotated[str | None, typer.Option(help="What the agent considers, in words.")] = None,
    as_of: Annotated[str | None, typer.Option(help="As of this time.")] = None,
    head: Annotated[int | None, typer.Option(help="As of this log row.")] = None,
    owner_head: Annotated[int | None, typer.Option(help="As of this row of the owner's log.")] = None,
    budget: Annotated[int | None, typer.Option(help="Maximum tokens.")] = None,
    without_memory: Annotated[bool, typer.Option("--without-memory", help="Leave out everything from memory.")] = False,
    segments: Annotated[bool, typer.Option("--segments", help="Only the names and tokens of its segments.")] = False,
) -> None:  # fmt: skip
    """Print the agent's brief for its next decision, or for any past time."""
    with reporting(as_json), open_store(db, owner) as memory:
        question: dict[str, Any] = {
            "agent": agent, "symbol": symbol, "strategy": strategy, "thesis": thesis, "as_of": as_of, "head": head,
            "owner_head": owner_head, "without_memory": without_memory,
            "context": context_object(context) if context is not None else None,
        }  # fmt: skip
        found = perform_as_owner(memory, "get_brief", question | ({"budget": budget} if budget is not None else {}))
        if as_json:
            answer(found, True)
        elif segments:
            parts = [{name: part[name] for name in ("name", "role", "tokens", "left_out")} for part in found["segments"]]
            answer({"segments": parts, "tokens": found["tokens"], "counted_by": found["counted_by"]}, False)
        else:
            typer.echo(found["text"])
            about = (f"{found['tokens']} tokens ({found['counted_by']}), digest {found['digest'][:12]}, as of {found['as_of']}, "
                     f"head {found['head']}, owner_head {found['owner_head']}")  # fmt: skip
            for remark in (about, *found["warnings"], *found["notes"]):
                say_on_lines(remark)


@lessons_app.command("diff", cls=Command, short_help="Compare two notes of lessons.")
def lessons_diff(
    earlier: Annotated[str | None, typer.Argument(help="A note; default: the one before the active note.")] = None,
    later: Annotated[str | None, typer.Argument(help="A note; default: the active note.")] = None,
    agent: AgentName = None, db: Db = None, owner: Owner = None, as_json: Json = False,
) -> None:  # fmt: skip
    """Compare two notes of lessons, lesson by lesson."""
    with reporting(as_json), open_store(db, owner) as memory:
        found = perform_as_owner(memory, "diff_lessons", {"agent": agent, "earlier": earlier, "later": later})
        if as_json:
            answer(found, True)
            return
        typer.echo(f"--- {found['earlier']}\n+++ {found['later']}")
        signs = {"added": (("+", "after"),), "removed": (("-", "before"),), "changed": (("-", "before"), ("+", "after")),
                 "kept": ((" ", "after"),)}  # fmt: skip
        for change in found["changes"]:
            for sign, side in signs[change["what"]]:
                print_sentence(f"{sign} [{change['slot']}] {change[side]}", "  ")
