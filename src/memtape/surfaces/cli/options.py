"""What the commands share: the options of every command, the store, a progress bar."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from memtape.surfaces.cli.commands import COLUMNS_HELP, DB_HELP, OWNER_HELP

if TYPE_CHECKING:
    from memtape.engine import Memory

Db = Annotated[str | None, typer.Option("--db", metavar="STORE", help=DB_HELP)]
Owner = Annotated[str | None, typer.Option("--owner", help=OWNER_HELP)]
Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]
ColumnNames = Annotated[str | None, typer.Option("--columns", metavar="A,B", help=COLUMNS_HELP)]
# None, so that a write that names no agent is told from one that names "main": the first is refused where there are others.
AgentName = Annotated[str | None, typer.Option("--agent", help="The agent; default: 'main'.")]


def open_store(db: str | None, owner: str | None = None) -> Memory:
    """Open the memory at --db."""
    from memtape.compose import open_memory

    return open_memory(db, owner)


@contextmanager
def progress(title: str) -> Iterator[Callable[[int, int], None]]:
    """A progress bar on a terminal, nothing when piped. Close it before printing: the bar has the last line of the terminal."""
    if not sys.stderr.isatty():
        yield lambda done, total: None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(title, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


def say(text: str) -> None:
    """Print a line for people on stderr, separate from the data."""
    typer.echo(text, err=True)
