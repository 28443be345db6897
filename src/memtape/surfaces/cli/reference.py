"""The reference pages, written from the program itself: operations, settings, errors, command line."""

from __future__ import annotations

import inspect
from pathlib import Path

import typer

from memtape import errors
from memtape.settings import SETTINGS
from memtape.surfaces.registry import all_operations, operations_page


def write_reference(folder: Path) -> list[Path]:
    """Write every page; which ones."""
    folder.mkdir(parents=True, exist_ok=True)
    pages = {"operations.md": operations_page(list(all_operations().values())), "settings.md": settings_page(),
             "errors.md": errors_page(), "cli.md": cli_page()}  # fmt: skip
    for name, text in pages.items():
        (folder / name).write_text(text, encoding="utf-8")
    return [folder / name for name in pages]


def settings_page() -> str:
    """Every setting."""
    rows = [f"| `{s.name}` | `{s.default}` | {s.help} |" for s in SETTINGS]
    head = ["# Settings", "", "Read from the environment.", "", "| name | default | meaning |", "|---|---|---|"]
    return "\n".join([*head, *rows, ""])


def errors_page() -> str:
    """Every error and its message."""
    found = [c for _, c in inspect.getmembers(errors, inspect.isclass) if issubclass(c, errors.MemtapeError)]
    lines = ["# Errors", "", "What is in braces is filled in when the error is raised.", ""]
    for kind in sorted(found, key=lambda c: c.__name__):
        lines += [f"## {kind.__name__}", "", (kind.__doc__ or "").strip(), ""]
    return "\n".join(lines)


def cli_page() -> str:
    """Every housekeeping command with its help; the operations have a page of their own."""
    from memtape.surfaces.cli.main import HOUSEKEEPING, app

    group = typer.main.get_command(app)
    lines = [
        "# Command line",
        "",
        "Every command that answers takes `--json`. Exit codes: 0 ok, 1 check failed, 2 usage or bad input, 3 locked or "
        "conflict, 4 integrity.",
        "",
        "Each operation is also a command: `get_trades` is `memtape get-trades` (see operations.md).",
        "",
    ]
    commands = getattr(group, "commands", {})
    chosen = [(name, commands[name]) for name in HOUSEKEEPING]
    chosen += [(f"{name} {part}", each) for name, group_ in chosen for part, each in getattr(group_, "commands", {}).items()]
    for name, command in chosen:
        lines += [f"## memtape {name}", "", (command.help or "").strip(), ""]
        options = [p for p in command.params if p.name != "help"]
        if options:
            lines += ["| option | meaning |", "|---|---|"]
            lines += [f"| `{' '.join(p.opts)}` | {getattr(p, 'help', '') or ''} |" for p in options]
            lines.append("")
    return "\n".join(lines)
