"""The commands to begin with: `init`, `doctor`, `import` and `imports`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from memtape.brokers.formats import FILE_KINDS, format_names
from memtape.surfaces.cli.commands import perform_as_owner, print_operation
from memtape.surfaces.cli.groups import Command, command_group
from memtape.surfaces.cli.options import AgentName, ColumnNames, Db, Json, Owner, open_store, progress, say
from memtape.surfaces.cli.printing import answer, print_sentence, reporting
from memtape.surfaces.cli.sentences import doctor_sentence
from memtape.surfaces.translate import json_text

imports_app = command_group("List the imported files, or undo an import.")


def init(db: Db = None, owner: Owner = None, as_json: Json = False) -> None:
    """Create the store and print its MCP configuration."""
    with reporting(as_json), open_store(db, owner) as memory:
        from memtape.surfaces.mcp_clients import server_entry

        block = server_entry(db, [agent.id for agent in memory.agents()], owner=owner)
        # For people it is JSON too: it is copied into the settings of a client.
        shown = block if as_json else json_text(block, indent=2)
        answer({"db": memory.url, "owner": memory.owner, "schema": memory.database.schema(), "mcp": shown}, as_json)


def doctor(
    db: Db = None, as_json: Json = False, columns: ColumnNames = None,
    quick: Annotated[bool, typer.Option("--quick", help="Do not verify the record: it takes long on a large store.")] = False,
) -> None:  # fmt: skip
    """Check Python, SQLite, lock, schema, record, disk and file system; report what is empty and why."""
    with reporting(as_json):
        from memtape.surfaces.cli.doctor import examine

        found = examine(db, quick=quick, on_slow=lambda n: say(f"Verifying {n:,} rows of the log; --quick leaves this out."))
        answer(found, as_json, wanted=columns)
        if not as_json:
            print_sentence(doctor_sentence(found))
        if not found["ok"]:
            raise typer.Exit(1)


def preview_or_import(
    file: Annotated[Path, typer.Argument(help="CSV or JSONL of trades, fills, decisions, equity or positions; tradememory .db.")],
    agent: AgentName = None,
    kind: Annotated[str | None, typer.Option(help=f"What it holds: {', '.join(FILE_KINDS)}; default: detected.")] = None,
    form: Annotated[str | None, typer.Option("--format", help=f"One of {', '.join(format_names())}; default: detected.")] = None,
    mapping: Annotated[list[str] | None, typer.Option("--map", help="field=column, to correct the detected mapping.")] = None,
    where: Annotated[list[str] | None, typer.Option("--where", help="column=value: only rows with this value.")] = None,
    zone: Annotated[str | None, typer.Option("--zone", "--tz", help="Zone of times without one, like Europe/Berlin.")] = None,
    symbol: Annotated[str | None, typer.Option(help="Symbol of a file without one.")] = None,
    currency: Annotated[str | None, typer.Option(help="Currency of the amounts, like EUR.")] = None,
    starting_equity: Annotated[str | None, typer.Option(help="What the account started with; for a new agent.")] = None,
    guess: Annotated[bool, typer.Option("--guess", help="Detect the columns, even if they were mapped before.")] = False,
    skip_bad: Annotated[bool, typer.Option("--skip-bad", help="Skip rows with problems.")] = False,
    commit: Annotated[bool, typer.Option("--commit", help="Import; without it only a preview is shown.")] = False,
    db: Db = None, owner: Owner = None, as_json: Json = False,
) -> None:  # fmt: skip
    """Preview a file of trades, fills, decisions, equity or positions; --commit imports it. Imports are idempotent."""
    with reporting(as_json), open_store(db, owner) as memory:
        from memtape.core.skills import DEFAULT_AGENT
        from memtape.surfaces.cli.imports import import_sentence, import_text, option_pairs, run_import

        with progress("import") as report:
            found = run_import(
                memory, file, agent=agent, format=form, kind=kind, mapping=option_pairs("map", mapping or []) or None,
                where=option_pairs("where", where or []) or None, zone=zone, symbol=symbol, skip_bad=skip_bad, commit=commit,
                on_progress=report, currency=currency, starting_equity=starting_equity, guess=guess,
            )  # fmt: skip
        answer(found if as_json else import_text(found), as_json)
        if commit and not as_json:
            print_sentence(import_sentence(found, file.name, agent or DEFAULT_AGENT, db))
        if not commit and not as_json:
            say("This is a preview; nothing was written. Add --commit to import.")


@imports_app.command("list", cls=Command)
def imports_list(
    agent: AgentName = None, db: Db = None, owner: Owner = None, as_json: Json = False, columns: ColumnNames = None
) -> None:
    """List the imports of an agent, oldest first."""
    with reporting(as_json), open_store(db, owner) as memory:
        print_operation(memory, "list_imports", {"agent": agent}, as_json, columns)


@imports_app.command("undo", cls=Command)
def imports_undo(
    batch: Annotated[str | None, typer.Argument(help="From: memtape imports list. The only import needs none.")] = None,
    agent: AgentName = None, db: Db = None, owner: Owner = None, as_json: Json = False,
) -> None:  # fmt: skip
    """Undo an import, and say what was taken back."""
    with reporting(as_json), open_store(db, owner) as memory:
        done = perform_as_owner(memory, "undo_import", {"agent": agent, "batch": batch})
        if as_json:
            answer(done, as_json)
        else:
            from memtape.surfaces.cli.imports import undo_sentence

            print_sentence(undo_sentence(done))
