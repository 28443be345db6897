"""The commands about what an agent is told: `brief`, `reflect`, `lessons` and `lessons diff`."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from memtape.surfaces.cli.commands import answer, json_object, perform_as_owner, reporting
from memtape.surfaces.cli.options import AgentName, Db, Json, Owner, open_store, say

lessons_app = typer.Typer(help="The lessons an agent is told.", invoke_without_command=True, rich_markup_mode=None)
Agent = Annotated[str | None, typer.Option("--agent", help="The agent.")]


def brief(
    agent: AgentName = "main", db: Db = None, owner: Owner = None, as_json: Json = False,
    context: Annotated[str | None, typer.Option(metavar="JSON", help="The situation; without it, the last one known.")] = None,
    symbol: Annotated[str | None, typer.Option(help="What the decision is about.")] = None,
    strategy: Annotated[str | None, typer.Option(help="Only memories of this strategy.")] = None,
    thesis: Annotated[str | None, typer.Option(help="What is considered, in words.")] = None,
    as_of: Annotated[str | None, typer.Option(help="What was known at this moment.")] = None,
    head: Annotated[int | None, typer.Option(help="What had been recorded by this log row.")] = None,
    owner_head: Annotated[int | None, typer.Option(help="What the owner had stated by this row of the owner's log.")] = None,
    budget: Annotated[int | None, typer.Option(help="Tokens at most.")] = None,
    without_memory: Annotated[bool, typer.Option("--without-memory", help="The same without anything from memory.")] = False,
    segments: Annotated[bool, typer.Option("--segments", help="Only the names and tokens of its parts.")] = False,
) -> None:  # fmt: skip
    """What the agent is told before its next decision, or was told at any past moment: the same bytes."""
    with reporting(as_json), open_store(db, owner) as memory:
        asked: dict[str, Any] = {
            "agent": agent, "symbol": symbol, "strategy": strategy, "thesis": thesis, "as_of": as_of, "head": head,
            "owner_head": owner_head, "without_memory": without_memory,
            "context": json_object(context, "context") if context is not None else None,
        }  # fmt: skip
        found = perform_as_owner(memory, "get_brief", asked | ({"budget": budget} if budget is not None else {}))
        if as_json:
            answer(found, True)
        elif segments:
            parts = [{name: part[name] for name in ("name", "role", "tokens", "left_out")} for part in found["segments"]]
            answer({"segments": parts, "tokens": found["tokens"], "counted_by": found["counted_by"]}, False)
        else:
            typer.echo(found["text"])
            say(f"{found['tokens']} tokens ({found['counted_by']}), digest {found['digest'][:12]}, as of {found['as_of']}, "
                f"head {found['head']}, owner_head {found['owner_head']}")  # fmt: skip
            for warning in found["warnings"]:
                say(warning)


def reflect(
    agent: AgentName = "main", db: Db = None, owner: Owner = None, as_json: Json = False,
    model: Annotated[str | None, typer.Option(help="stats, anthropic/... or openai/...; default: as the skill says.")] = None,
    if_due: Annotated[bool, typer.Option("--if-due", help="Only if the cadence says so.")] = False,
) -> None:  # fmt: skip
    """Draw lessons from the closed trades now; exit 1 if that came to nothing."""
    with reporting(as_json), open_store(db, owner) as memory:
        found = perform_as_owner(memory, "reflect_now", {"agent": agent, "model": model, "only_if_due": if_due})
        answer(found if as_json else told_note(found), as_json)
        if found["failed"]:
            raise typer.Exit(1)


def told_note(found: dict[str, Any]) -> dict[str, Any]:
    """A note for people: who, when, from what, and one line a lesson."""
    told = {name: found[name] for name in ("agent", "new", "failed", "waits", "due", "cadence") if found.get(name) is not None}
    for name in ("note", "skill_note"):
        if note := found.get(name):
            told[name] = {key: note[key] for key in ("id", "generated_at", "trades_considered", "scanned", "model_used")}
            told[f"{name}'s lessons"] = [{key: one[key] for key in ("status", "slot", "n", "text")} for one in note["lessons"]]
    return told


@lessons_app.callback()
def lessons(
    ctx: typer.Context, agent: Agent = None, db: Db = None, owner: Owner = None, as_json: Json = False,
    as_of: Annotated[str | None, typer.Option(help="What was known at this moment.")] = None,
    head: Annotated[int | None, typer.Option(help="What had been recorded by this log row.")] = None,
    history: Annotated[bool, typer.Option("--history", help="Every note, not only the active one.")] = False,
) -> None:  # fmt: skip
    """The lessons an agent is told, with what stands behind each."""
    if ctx.invoked_subcommand is not None:
        return
    with reporting(as_json), open_store(db, owner) as memory:
        asked = {"agent": agent or "main", "as_of": as_of, "head": head}
        if history:
            found = perform_as_owner(memory, "get_lesson_history", asked)
            if not as_json:
                found = {name: [_row(note) for note in found[name]] for name in ("notes", "skill_notes")} | {
                    "failures": found["failures"]
                }
            answer(found, as_json)
        else:
            found = perform_as_owner(memory, "get_lessons", asked)
            answer(found if as_json else told_note(found), as_json)


def _row(note: dict[str, Any]) -> dict[str, Any]:
    row = {name: note[name] for name in ("id", "status", "generated_at", "trades_considered", "model_used")}
    return row | {"lessons": len(note["lessons"])}


@lessons_app.command("diff")
def lessons_diff(
    earlier: Annotated[str | None, typer.Argument(help="A note; default: the one before the active note.")] = None,
    later: Annotated[str | None, typer.Argument(help="A note; default: the active note.")] = None,
    agent: AgentName = "main", db: Db = None, owner: Owner = None, as_json: Json = False,
) -> None:  # fmt: skip
    """What changed from one note to another, lesson by lesson."""
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
                typer.echo(f"{sign} [{change['slot']}] {change[side]}")
