"""The command `memtape cards add`: card types from files."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from memtape.surfaces.cli.commands import json_object, print_operation
from memtape.surfaces.cli.groups import Command, command_group
from memtape.surfaces.cli.options import Db, Json, Owner, open_store
from memtape.surfaces.cli.printing import reporting

cards_app = command_group("Card types: the forms of decisions.")


@cards_app.command("add", cls=Command)
def cards_add(
    file: Annotated[Path, typer.Argument(help="A JSON file with name, slots, reExaminable and reExamineActions.")],
    db: Db = None, owner: Owner = None, as_json: Json = False,
) -> None:  # fmt: skip
    """Declare a card type from a JSON file, or change it."""
    with reporting(as_json), open_store(db, owner) as memory:
        print_operation(memory, "declare_card_type", {"card": json_object(f"@{file}", "FILE")}, as_json)
