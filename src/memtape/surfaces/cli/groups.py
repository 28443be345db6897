"""How commands are grouped and helped: one style of help, a default command in a group, near names for a wrong one.

Help is plain text that fits 80 columns. Nothing in it is cut off: a long line goes on below.
"""

from __future__ import annotations

import inspect
import shutil
import sys
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from difflib import get_close_matches
from typing import Any

import typer
import typer.main
from typer._click.exceptions import MissingParameter, NoArgsIsHelpError, UsageError
from typer.core import TyperCommand, TyperGroup
from typer.models import CommandInfo

DEFAULT_VERB = "list"  # `memtape agents` is `memtape agents list`
PROGRAM = "memtape"
# The command that is running: errors name its options.
_running: ContextVar[typer.Context | None] = ContextVar("running", default=None)


class Command(TyperCommand):
    """A command that is known while it runs. A missing argument is reported with what belongs there."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        try:
            return super().parse_args(ctx, args)
        except MissingParameter as missing:
            param: Any = missing.param
            name = param.opts[0] if param is not None and param.opts else "an argument"
            raise UsageError(f"{name} is missing: {getattr(param, 'help', '') or 'it is required'}", ctx) from None

    def invoke(self, ctx: Any) -> Any:
        _running.set(ctx)
        return super().invoke(ctx)


class DeferredCommand(Command):
    """A command written by hand whose options are made when it is called: typer takes long to make those of forty."""

    def __init__(self, info: CommandInfo) -> None:
        function = info.callback
        assert function is not None
        super().__init__(
            info.name or function.__name__.replace("_", "-"), help=info.help or inspect.getdoc(function),
            short_help=info.short_help, hidden=info.hidden,
        )  # fmt: skip
        self._info = info

    def with_options(self) -> Any:
        """The command as typer makes it."""
        alone = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)
        alone.registered_commands.append(self._info)
        return typer.main.get_command(alone)

    def make_context(self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any) -> Any:
        return self.with_options().make_context(info_name, args, parent=parent, **extra)


def deferred_commands(group: typer.Typer) -> dict[str, Command]:
    """The commands written by hand in a group, taken out of it, so that typer does not make them all at each start."""
    commands = [DeferredCommand(info) for info in group.registered_commands]
    group.registered_commands.clear()
    return {str(each.name): each for each in commands}


def option_of(field: str) -> str | None:
    """The option or argument of the running command that sets a field, as the user types it; None if there is none."""
    ctx = _running.get()
    for param in ctx.command.params if ctx is not None else ():
        if param.name is not None and param.name.rstrip("_") == field:
            flags = [flag for flag in param.opts if flag.startswith("--")]
            return flags[0] if flags else (param.metavar or field.upper())
    return None


class Group(TyperGroup):
    """A group of commands. One with a command `list` calls it when no command is named."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        _running.set(None)
        if self._has_default() and (not args or (args[0].startswith("-") and args[0] != "--help")):
            args = [DEFAULT_VERB, *args]
        return super().parse_args(ctx, args)

    def _has_default(self) -> bool:
        return DEFAULT_VERB in self.commands

    def format_options(self, ctx: Any, formatter: Any) -> None:
        super().format_options(ctx, formatter)
        if self._has_default():
            formatter.write_paragraph()
            formatter.write_text(f"Without a command: {DEFAULT_VERB}. Its options: {ctx.command_path} {DEFAULT_VERB} --help")

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the commands with their whole lines."""
        self.write_section("Commands", self.list_commands(ctx), formatter)

    def write_section(self, title: str, names: Sequence[str], formatter: Any, width: int = 0) -> None:
        """Write some commands under a title; `width` aligns the lines of several sections."""
        shown = [(name, self.commands[name]) for name in names if name in self.commands and not self.commands[name].hidden]
        if shown:
            with formatter.section(title):
                formatter.write_dl([(name.ljust(width), each.short_help or _first_line(each.help)) for name, each in shown])

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        name = args[0]
        if self.get_command(ctx, name) is None and not name.startswith("-"):
            ctx.fail(unknown_command(name, ctx.command_path, [each for each in self.commands if not self.commands[each].hidden]))
        return super().resolve_command(ctx, args)


def unknown_command(name: str, path: str, known: Sequence[str]) -> str:
    """What is said about a command that does not exist.

    >>> unknown_command("trads", "memtape", ["trades", "brief"])
    "there is no command 'trads'. Did you mean: memtape trades?"
    """
    near = get_close_matches(name.replace("_", "-"), known, n=3, cutoff=0.6)
    near = near or [each for each in known if name.startswith(each) or each.startswith(name)][:3]
    if near:
        return f"there is no command '{name}'. Did you mean: {' or '.join(f'{path} {each}' for each in near)}?"
    return f"there is no command '{name}'. See: {path} --help"


def _first_line(text: str | None) -> str:
    return (text or "").partition("\n")[0].strip()


def root_group(
    panels: Mapping[str, Mapping[str, str]],
    elsewhere: Callable[[str], Sequence[str]],
    more_commands: Callable[[str], Mapping[str, Command]],
) -> type[Group]:
    """The group of the first level: its commands stand in panels. `elsewhere` names commands for a word that is none.

    `more_commands` are added to a group by its name, and to the first level (""): typer takes long to make a hundred commands.
    """

    class Root(Group):
        def __init__(self, **options: Any) -> None:
            super().__init__(**options)
            for name, group in self.commands.items():
                if isinstance(group, Group):
                    group.commands.update(more_commands(name))
            self.commands.update(more_commands(""))

        def make_context(self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any) -> Any:
            # Messages name the program as it is installed, also when it was started as a module.
            with _fitting_errors():
                return super().make_context(PROGRAM, args, parent=parent, **extra)

        def invoke(self, ctx: Any) -> Any:
            with _fitting_errors():
                return super().invoke(ctx)

        def list_commands(self, ctx: Any) -> list[str]:
            placed = [name for panel in panels.values() for name in panel if name in self.commands]
            return placed + [name for name in self.commands if name not in placed]

        def format_commands(self, ctx: Any, formatter: Any) -> None:
            width = max(len(name) for panel in panels.values() for name in panel)
            for title, panel in panels.items():
                self.write_section(title, list(panel), formatter, width)

        def resolve_command(self, ctx: Any, args: list[str]) -> Any:
            if self.get_command(ctx, args[0]) is None and (found := elsewhere(args[0])):
                ways = " or ".join(f"{PROGRAM} {each}" for each in found)
                ctx.fail(f"there is no command '{args[0]}'. Did you mean: {ways}?")
            return super().resolve_command(ctx, args)

    return Root


@contextmanager
def _fitting_errors() -> Iterator[None]:
    """Breaks the message of a wrong call into lines that fit a terminal."""
    try:
        yield
    except NoArgsIsHelpError:
        raise  # its message is the help
    except UsageError as error:
        if not sys.stderr.isatty():
            raise
        width = shutil.get_terminal_size((80, 24)).columns
        text = textwrap.fill(f"Error: {error.format_message()}", width, subsequent_indent="  ", break_on_hyphens=False)
        raise UsageError(text.removeprefix("Error: "), error.ctx) from None


def command_group(help: str, **more: Any) -> typer.Typer:
    """A group of commands in the style of all."""
    return typer.Typer(
        help=help, no_args_is_help=True, add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False,
        **({"cls": Group} | more),
    )  # fmt: skip
