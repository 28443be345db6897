"""The reference pages, generated from the program: operations, permissions, settings, errors, command line."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import typer

from memtape import errors
from memtape.settings import SETTINGS
from memtape.surfaces.cli.groups import DeferredCommand
from memtape.surfaces.cli.layout import COMMANDS, PANELS, OperationCommand
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
    """Every command with its options, as `memtape --help` orders them; the options of operations have their own page."""
    from memtape.surfaces.cli.main import app

    root = typer.main.get_command(app)
    calls = {each.path: each for each in COMMANDS}
    lines = [
        "# Command line",
        "",
        "Every command that prints a result takes `--json`, and one that prints a table `--columns a,b`. Exit codes: 0 ok, "
        "1 check failed, 2 usage or bad input, 3 locked or conflict, 4 integrity.",
        "",
        "`memtape op NAME` calls any operation by its own name: `memtape op get_trades` is `memtape trades` "
        "(see [operations](operations.md)). A group with a command `list` calls it when no command is named.",
        "",
    ]
    for title, panel in PANELS.items():
        lines += [f"## {title}", ""]
        for name in panel:
            top = getattr(root, "commands", {})[name]
            for path, each in [(name, top), *((f"{name} {part}", sub) for part, sub in getattr(top, "commands", {}).items())]:
                lines += _paragraph(path, each, calls.get(path))
    return "\n".join(lines)


def _paragraph(path: str, command: Any, calls: OperationCommand | None) -> list[str]:
    """One command: its line, and its options unless they are those of an operation."""
    given = "".join(f" {field.upper()}" for field in calls.arguments) if calls else ""
    lines = [
        f"### memtape {path}{given}",
        "",
        (command.short_help if calls else command.help or command.short_help or "").strip(),
    ]
    if calls is not None:
        return [*lines, "", f"Calls [{calls.operation}](operations.md#{calls.operation}).", ""]
    if isinstance(command, DeferredCommand):
        command = command.with_options()
    options = [param for param in command.params if param.name != "help"]
    if options:
        lines += ["", "| option | meaning |", "|---|---|"]
        lines += [f"| `{' '.join(p.opts)}` | {_cell(getattr(p, 'help', '') or '')} |" for p in options]
    return [*lines, ""]


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
