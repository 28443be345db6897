"""How commands are grouped and helped: one style of help, a default command in a group, near names for a wrong one.

Help is plain text that fits 80 columns. Nothing in it is cut off: a long line goes on below.
"""

from __future__ import annotations

import gc
import inspect
import re
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
from typer._coercion import build_runtime_param
from typer.core import TyperCommand, TyperGroup
from typer.models import CommandInfo

YOUNG_OBJECTS = 200_000  # new objects after which Python looks for cycles among them; some 20 MB
# Commands that run for long, with Python's own collection of garbage.
RUNS_ON = frozenset({
    "serve", "mcp", "follow", "watch", "chat", "run", "sim", "validate", "trial", "bench", "attack", "rebuild", "import",
})  # fmt: skip
DEFAULT_VERB = "list"  # `memtape agents` is `memtape agents list`
PROGRAM = "memtape"
# The command that is running: errors name its options.
_running: ContextVar[typer.Context | None] = ContextVar("running", default=None)


class Command(TyperCommand):
    """A command that is known while it runs. A missing argument is reported with what belongs there.

    All commands have one style of help, whether they are written by hand or made from an operation.
    """

    required_arguments: frozenset[str] = frozenset()  # those that typer cannot know, because --input can have them too

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        arguments = [param for param in self.get_params(ctx) if param.param_type_name == "argument"]
        return ["[OPTIONS]", *(self._argument_form(param) for param in arguments)]

    def _argument_form(self, param: Any) -> str:
        return str(_argument_name(param) if self._is_required(param) else f"[{_argument_name(param)}]")

    def _is_required(self, param: Any) -> bool:
        return bool(param.required) or param.name in self.required_arguments

    def format_options(self, ctx: Any, formatter: Any) -> None:
        records: dict[str, list[tuple[str, str]]] = {"argument": [], "option": []}
        for param in self.get_params(ctx):
            if (record := param.get_help_record(ctx)) is not None:
                form = _argument_name(param) if param.param_type_name == "argument" else _option_form(record[0])
                records[param.param_type_name].append((form, help_sentence(record[1] or "")))
        for title, rows in (("Arguments", records["argument"]), ("Options", records["option"])):
            if rows:
                with formatter.section(title):
                    formatter.write_dl(rows)

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        for each in self.params:
            _coerce_only_what_is_given(each)
        first = args[0] if args else None
        try:
            return super().parse_args(ctx, args)
        except MissingParameter as missing:
            param: Any = missing.param
            is_argument = param is not None and param.param_type_name == "argument"
            name = _argument_name(param) if is_argument else param.opts[0] if param is not None and param.opts else "an argument"
            text = f"{name} is missing: {getattr(param, 'help', '') or 'it is required'}"
            # The value was typed without its option: `memtape sim bars.csv`.
            bare = first if not is_argument and first is not None and not first.startswith("-") else None
            raise UsageError(f"{text.rstrip('.')}. Did you mean {name} {bare}?" if bare else text, ctx) from None
        except UsageError as error:
            if (extra := _EXTRA.match(error.format_message())) is None:
                raise
            raise UsageError(self._too_many(extra[1], ctx), ctx) from None

    def _too_many(self, extra: str, ctx: Any) -> str:
        """What is said about words that no argument takes. A situation in words belongs to an option of its own."""
        params = self.get_params(ctx)
        places = [_argument_name(param) for param in params if param.param_type_name == "argument"]
        takes = f"it takes {', then '.join(places)}, and options" if places else "it takes options only"
        by_words = not places and any(param.name == "market_context_" for param in params)
        fix = f"Did you mean --market-context '{extra}'?" if by_words else f"See: {ctx.command_path} --help"
        return f"'{extra}' is more than this command takes: {takes}. {fix}"

    def invoke(self, ctx: Any) -> Any:
        _running.set(ctx)
        gc.enable()  # `main` turned it off while the command was found
        usual = gc.get_threshold()
        if ctx.info_name not in RUNS_ON:
            # What it imports from here on is kept too: look through it rarely.
            gc.set_threshold(YOUNG_OBJECTS, *usual[1:])
        try:
            return super().invoke(ctx)
        finally:
            gc.set_threshold(*usual)


class _CoercionWhenGiven:
    """Typer's coercion of one parameter, made when there is a value to coerce: making it for thirty options takes long."""

    def __init__(self, descriptor: Any) -> None:
        self._descriptor = descriptor

    def coerce(self, value: Any, param: Any, ctx: Any) -> Any:
        if value is None:
            return () if param.multiple or param.nargs == -1 else None
        if isinstance(value, str) and self._descriptor.annotation is str:
            return value
        return build_runtime_param(self._descriptor).coerce(value, param=param, ctx=ctx)


def _coerce_only_what_is_given(param: Any) -> None:
    if getattr(param, "_runtime_param", param) is None:
        param._runtime_param = _CoercionWhenGiven(param.type_descriptor)


# What typer calls the type of a value, and what every command calls it.
_FORMS = {"str": "TEXT", "path": "PATH", "int": "INTEGER", "int range": "INTEGER", "float": "NUMBER", "float range": "NUMBER"}
_TYPE = re.compile(r"<(?:list\[)?([a-z ]+)\]?>")
_EXTRA = re.compile(r"Got unexpected extra argument\(s\) \((.*)\)$")
_NOTES = re.compile(r"\s*\[([^\[\]]*)\]$")
# A word that is a value of the program and not of English: `sqlite_fts`, `field=column`, `scratch:`.
_VALUE = re.compile(r"\S*[_=:|.`*]|--|\d")


def _argument_name(param: Any) -> str:
    return str(param.metavar or param.name.rstrip("_").upper())


def _option_form(form: str) -> str:
    return _TYPE.sub(lambda found: _FORMS.get(found[1], found[1].upper()), form)


def help_sentence(text: str) -> str:
    """The help of an option as a sentence: a capital, a full stop, and notes such as its default in brackets at its end.

    >>> help_sentence("Fee in basis points.  [default: 5]"), help_sentence("only this symbol (required)")
    ('Fee in basis points (default: 5).', 'Only this symbol (required).')
    >>> help_sentence("sqlite_fts or hybrid_embeddings"), help_sentence("")
    ('sqlite_fts or hybrid_embeddings.', '')
    """
    notes = _NOTES.search(text.replace("x>=", "at least "))
    text = _NOTES.sub("", text)
    if not text:
        return f"({notes[1]})" if notes else ""
    text = text.rstrip().removesuffix(".") + (f" ({notes[1]})" if notes else "")
    first = text.partition(" ")[0]
    text = text if _VALUE.match(first) and first != "default:" else text[0].upper() + text[1:]
    return text if text.endswith((".", "?", "!")) else f"{text}."


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
        for param in self.params:
            _coerce_only_what_is_given(param)
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
