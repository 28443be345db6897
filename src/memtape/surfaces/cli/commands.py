"""The operations as commands: `get_trades` becomes `memtape get-trades`, each field of its params an option.

Listing the commands must be quick, so `memtape --help` reads the names and first lines of the operations off the source
of `operations/`, without importing it; only the command that is called imports the operations and grows its options.
All options are read as text and judged by the operation's params: the same words are refused for the same reason here
as over HTTP and MCP.
"""

from __future__ import annotations

import ast
import inspect
import json
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand

from memtape.errors import Invalid, MemtapeError
from memtape.surfaces.translate import Input, error_report, inputs, json_text, problem

if TYPE_CHECKING:
    from memtape.engine import Memory
    from memtape.surfaces.registry import Operation

    OpenMemory = Callable[[str | None, str | None], Memory]
    Load = Callable[[], Mapping[str, Operation]]

OPERATIONS_FILE = Path(__file__).parents[1] / "operations"
INPUT_HELP = "All fields as one JSON object; @FILE reads a file, - reads stdin. Options add to it."
OWNER_HELP = "Whose memory (default: MEMTAPE_OWNER, then 'local')."
DB_HELP = "The store: a path, sqlite:///... or postgresql://... (default: MEMTAPE_DB, then ~/.memtape/memory.db)."


@dataclass(frozen=True, slots=True)
class Listed:
    """What `memtape --help` needs to know of an operation."""

    name: str
    summary: str
    writes: bool
    aliases: tuple[str, ...]


def listing(file: Path = OPERATIONS_FILE) -> list[Listed]:
    """The operations of a source file (or of a folder of them), read without importing anything."""
    folder = file.with_suffix("")
    files = [file] if file.is_file() else sorted(folder.glob("*.py"))
    return [found for each in files for found in _listed(ast.parse(each.read_text(encoding="utf-8")))]


def _listed(module: ast.Module) -> Iterator[Listed]:
    for node in module.body:
        if not isinstance(node, ast.FunctionDef):
            continue
        for mark in node.decorator_list:
            if isinstance(mark, ast.Call) and isinstance(mark.func, ast.Name) and mark.func.id == "operation":
                written = {word.arg: word.value for word in mark.keywords}
                said = {name: ast.literal_eval(written[name]) for name in ("writes", "aliases") if name in written}
                summary = (ast.get_docstring(node) or "").partition("\n")[0]
                yield Listed(node.name, summary, said["writes"], tuple(said.get("aliases", ())))


def add_operations(app: typer.Typer, open_memory: OpenMemory, *, file: Path = OPERATIONS_FILE, load: Load | None = None) -> None:
    """Add one command per operation to `app`. `open_memory` is given what --db and --owner say, or None."""
    for found in listing(file):
        lazy = _lazy(found.name, open_memory, load or _load)
        for name in (found.name, *found.aliases):
            app.command(
                name.replace("_", "-"),
                cls=lazy,
                help=_plain_markup(found.summary),
                hidden=name != found.name,
                rich_help_panel="Operations that write" if found.writes else "Operations that read",
            )(_unused)


def _unused() -> None:
    """Stands in for a command until it is called."""


def _load() -> Mapping[str, Operation]:
    from memtape.surfaces.registry import all_operations  # imports pydantic and the engine

    return all_operations()


def _lazy(name: str, open_memory: OpenMemory, load: Load) -> type[TyperCommand]:
    class Lazy(TyperCommand):
        """Becomes the real command as soon as someone parses its arguments, asks for its help or completes it."""

        def make_context(self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any) -> Any:
            real = command(load()[name], open_memory)
            return real.make_context(info_name, args, parent=parent, **extra)

    return Lazy


def command(known: Operation, open_memory: OpenMemory) -> Any:
    """The click command of one operation."""
    from memtape.surfaces.registry import params_schema

    fields = inputs(params_schema(known))

    def run(as_json: bool, db: str | None, owner: str | None, whole: str | None, **typed: Any) -> None:
        with reporting(as_json):
            given = {field.name: typed[f"{field.name}_"] for field in fields if typed[f"{field.name}_"] is not None}
            data = json_object(whole, "input") if whole is not None else {}
            data |= {field.name: _value(field, given[field.name]) for field in fields if field.name in given}
            with open_memory(db, owner) as memory:
                done = perform_as_owner(memory, known, data)
            answer(done, as_json)

    parameters = [
        *(_option(field) for field in fields),
        _parameter("whole", str | None, typer.Option("--input", metavar="JSON", help=INPUT_HELP), None),
        _parameter("db", str | None, typer.Option("--db", metavar="STORE", help=DB_HELP), None),
        _parameter("owner", str | None, typer.Option("--owner", help=OWNER_HELP), None),
        _parameter("as_json", bool, typer.Option("--json", help="Print the result as JSON."), False),
    ]
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    alone = typer.Typer(add_completion=False)
    alone.command(known.name.replace("_", "-"), help=_plain_markup(known.doc))(run)
    return typer.main.get_command(alone)


def perform_as_owner(memory: Memory, known: Operation | str, data: dict[str, Any]) -> dict[str, Any]:
    """The answer of an operation, or of the operation of that name. The command line calls as the owner, for no one agent."""
    from memtape.surfaces.caller import Caller
    from memtape.surfaces.registry import find, perform

    return perform(memory, find(known) if isinstance(known, str) else known, data, Caller("owner"))


def _option(field: Input) -> inspect.Parameter:
    flag = "--" + field.name.replace("_", "-")
    notes = ["required"] if field.required else []
    if field.default not in (None, "", [], {}) and field.default is not False:
        notes.append(f"default: {field.default}")
    if field.kind in ("json", "either"):
        notes.append("@FILE reads a file, - reads stdin")
    if field.kind == "list":
        notes.append("repeat it, or give a JSON list")
    text = _plain_markup(field.help + (f" ({'; '.join(notes)})" if notes else ""))
    if field.kind == "flag":
        return _parameter(f"{field.name}_", bool | None, typer.Option(f"{flag}/--no-{flag[2:]}", help=text), None)
    kind = list[str] | None if field.kind == "list" else str | None
    return _parameter(f"{field.name}_", kind, typer.Option(flag, metavar=field.form, help=text), None)


def _parameter(name: str, kind: Any, option: Any, default: object) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation=Annotated[kind, option], default=default)


def _plain_markup(text: str) -> str:
    return text.replace("[", r"\[")  # typer reads help as rich markup, where [x] would be a style


def _value(field: Input, given: Any) -> object:
    if isinstance(given, bool):
        return given
    texts = given if isinstance(given, list) else [given]
    if field.kind in ("json", "either", "list"):
        texts = [_fetched(field.name, text) for text in texts]
    return field.read(texts)


def json_object(text: str, option: str) -> dict[str, Any]:
    """What an option says: one JSON object."""
    try:
        found = json.loads(_fetched(option, text))
    except ValueError:
        raise Invalid(option, "is not JSON", "Write one JSON object, or @FILE") from None
    if not isinstance(found, dict):
        raise Invalid(option, "is not a JSON object", 'Write the fields by name, like {"agent": "main"}')
    return found


def _fetched(name: str, text: str) -> str:
    """What an option says: itself, the file it names after an @, or stdin for -."""
    try:
        if text == "-":
            return sys.stdin.buffer.read().decode("utf-8-sig")
        return Path(text[1:]).read_text(encoding="utf-8-sig") if text.startswith("@") else text
    except UnicodeError:
        raise Invalid(name, "is not Unicode text", "Save it in UTF-8") from None
    except OSError as error:
        raise Invalid(name, f"the file cannot be read: {error.strerror}", f"Check the path (got {text[1:]!r})") from None


# What a command says, for these commands and for the others of the command line


@contextmanager
def reporting(as_json: bool = False) -> Iterator[None]:
    """Prints a `MemtapeError` on stderr and ends with its exit code. Several wrong fields have one line each."""
    try:
        yield
    except MemtapeError as error:
        problems = error.errors if isinstance(error, Invalid) else (error,)
        lines = "\n".join(f"memtape: {_printable(' '.join(str(each).split()))}" for each in problems)
        typer.echo(json_text(problem(error)) if as_json else lines, err=True)
        raise typer.Exit(error_report(error).exit_code) from None


def answer(data: Mapping[str, Any], as_json: bool = False) -> None:
    """Print a result: as JSON, as tables on a terminal, or as plain lines into a pipe."""
    if as_json:
        typer.echo(json_text(data).encode())  # bytes: UTF-8 whatever the console is set to
    elif sys.stdout.isatty():
        _show(data)
    else:
        typer.echo("\n".join(_lines(data)).encode())


def _lines(data: Mapping[str, Any], indent: str = "") -> Iterator[str]:
    for name, value in data.items():
        if isinstance(value, Mapping):
            yield f"{indent}{name}:"
            yield from _lines(value, indent + "  ")
        elif _is_table(value):
            columns = _columns(value)
            yield f"{indent}{name}:"
            yield indent + "\t".join(columns)
            yield from (indent + "\t".join(_cell(row.get(column)) for column in columns) for row in value)
        elif isinstance(value, str) and "\n" in value:
            yield f"{indent}{name}:"
            yield from (indent + _printable(line) for line in value.split("\n"))
        else:
            yield f"{indent}{name}: {_cell(value)}".rstrip()


def _show(data: Mapping[str, Any]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console()
    plain = Table.grid(padding=(0, 2))
    for name, value in data.items():
        if not (isinstance(value, Mapping) or _is_table(value) or (isinstance(value, str) and "\n" in value)):
            plain.add_row(Text(name, style="bold"), Text(_cell(value)))
    if plain.row_count:
        console.print(plain)
    for name, value in data.items():
        if _is_table(value):
            columns = _columns(value)
            table = Table(*columns, title=name, title_justify="left")
            for row in value:
                table.add_row(*(Text(_cell(row.get(column))) for column in columns))
            console.print(table)
        elif isinstance(value, Mapping) or (isinstance(value, str) and "\n" in value):
            console.print(Text("\n".join(_lines({name: value}))))


def _is_table(value: object) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(row, Mapping) for row in value)


def _columns(rows: Iterable[Mapping[str, Any]]) -> list[str]:
    return list(dict.fromkeys(name for row in rows for name in row))


def _cell(value: object) -> str:
    if value is None:
        return ""
    return _printable(value.replace("\n", " ").replace("\t", " ") if isinstance(value, str) else json_text(value))


def _printable(text: str) -> str:
    """Text that a terminal shows and does not obey: notes may come from anywhere."""
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in text)
