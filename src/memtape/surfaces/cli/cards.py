"""The command `memtape cards`: card types from files."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from memtape.surfaces.cli.commands import json_object, print_operation, reporting
from memtape.surfaces.cli.options import Db, Json, Owner, open_store

cards_app = typer.Typer(help="Card types: the forms of decisions.", no_args_is_help=True, rich_markup_mode=None)


@cards_app.command("add")
def cards_add(
    file: Annotated[Path, typer.Argument(help="A JSON file with name, slots, reExaminable and reExamineActions.")],
    db: Db = None, owner: Owner = None, as_json: Json = False,
) -> None:  # fmt: skip
    """Declare a card type from a JSON file, or change it."""
    with reporting(as_json), open_store(db, owner) as memory:
        print_operation(memory, "declare_card_type", {"card": json_object(f"@{file}", "FILE")}, as_json)


@cards_app.command("list")
def cards_list(db: Db = None, owner: Owner = None, as_json: Json = False) -> None:
    """List the card types."""
    with reporting(as_json), open_store(db, owner) as memory:
        print_operation(memory, "list_card_types", {}, as_json)
