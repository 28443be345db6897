"""The reference pages, generated from the program: operations, permissions, settings, errors, command line."""

from __future__ import annotations

import inspect
from pathlib import Path

import typer

from memtape import errors
from memtape.settings import SETTINGS
from memtape.surfaces.registry import all_operations, operations_page, permissions_page


def write_reference(folder: Path) -> list[Path]:
    """Write every page. Returns their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    operations = list(all_operations().values())
    pages = {"operations.md": operations_page(operations), "permissions.md": permissions_page(operations),
             "settings.md": settings_page(), "errors.md": errors_page(), "cli.md": cli_page()}  # fmt: skip
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
    lines = [
        "# Errors",
        "",
        "Words in braces are filled in when the error is raised. `Invalid` has one line for each wrong field.",
        "",
    ]
    for kind in sorted(found, key=lambda c: c.__name__):
        lines += [f"## {kind.__name__}", "", (kind.__doc__ or "").strip(), ""]
    return "\n".join(lines)


def cli_page() -> str:
    """Every command that is not just an operation, with its help; the operations have their own page."""
    from memtape.surfaces.cli.main import HOUSEKEEPING, app

    group = typer.main.get_command(app)
    lines = [
        "# Command line",
        "",
        "Every command that prints a result takes `--json`. Exit codes: 0 ok, 1 check failed, 2 usage or bad input, 3 locked or "
        "conflict, 4 integrity.",
        "",
        "Each operation is also a command: `get_trades` is `memtape get-trades` (see [operations](operations.md)). Short "
        "commands take the same options and print the chosen columns:",
        "",
        "| short command | operation |",
        "|---|---|",
        *(f"| `memtape {known.command}` | `{known.name}` |" for known in all_operations().values() if known.command),
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
