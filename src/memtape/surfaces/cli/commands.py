"""The operations as commands: `get_trades` becomes `memtape get-trades`, and each field of its params an option.

An operation that names a short `command` has that one too: it prints the chosen columns of the register also into a pipe.

Listing the commands must be quick, so `memtape --help` reads the names and first lines of the operations from the source
of `operations/` without importing it. Only the command that is called imports the operations and gets its options.
All options are text and validated by the operation's params, so the same input is refused for the same reason here as over
HTTP and MCP.
"""

from __future__ import annotations

import ast
import inspect
import json
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand

from memtape.errors import Invalid, MemtapeError
from memtape.surfaces.translate import EVERY_TABLE, Columns, Input, error_report, inputs, json_text, problem

if TYPE_CHECKING:
    from memtape.engine import Memory
    from memtape.surfaces.registry import Operation

    OpenMemory = Callable[[str | None, str | None], Memory]
    Load = Callable[[], Mapping[str, Operation]]

FRACTION = re.compile(r"^(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)\.\d+Z$")
LISTED_KEYWORDS = ("writes", "aliases", "command")
GROUP_HELP = {"ask": "Ask the record a question."}  # of short commands of two words, like `ask losses`
OPERATIONS_FILE = Path(__file__).parents[1] / "operations"
INPUT_HELP = "All fields as one JSON object, @FILE or - (stdin). Options override its fields."
OWNER_HELP = "The owner of the data (default: MEMTAPE_OWNER, then 'local')."
DB_HELP = "The store: a path, sqlite:///... or postgresql://... (default: MEMTAPE_DB, then ~/.memtape/memory.db)."


@dataclass(frozen=True, slots=True)
class Listed:
    """What `memtape --help` shows of an operation."""

    name: str
    summary: str
    writes: bool
    aliases: tuple[str, ...] = ()
    command: str | None = None


def listing(file: Path = OPERATIONS_FILE) -> list[Listed]:
    """The operations of a source file or folder, read without importing anything."""
    folder = file.with_suffix("")
    files = [file] if file.is_file() else sorted(folder.glob("*.py"))
    return [found for each in files for found in _listed(ast.parse(each.read_text(encoding="utf-8")))]


def _listed(module: ast.Module) -> Iterator[Listed]:
    for node in module.body:
        if not isinstance(node, ast.FunctionDef):
            continue
        for mark in node.decorator_list:
            if isinstance(mark, ast.Call) and isinstance(mark.func, ast.Name) and mark.func.id == "operation":
                shown = {word.arg: ast.literal_eval(word.value) for word in mark.keywords if word.arg in LISTED_KEYWORDS}
                yield Listed(node.name, (ast.get_docstring(node) or "").partition("\n")[0], **shown)


def add_operations(app: typer.Typer, open_memory: OpenMemory, *, file: Path = OPERATIONS_FILE, load: Load | None = None) -> None:
    """Add the commands of every operation to `app`. `open_memory` gets the values of --db and --owner, or None."""
    listed = listing(file)
    groups: dict[str, typer.Typer] = {}
    for found in listed:
        if found.command is not None:
            lazy = _lazy(found.name, open_memory, load or _load, short=True)
            group, _, name = found.command.rpartition(" ")
            if group and group not in groups:
                groups[group] = typer.Typer(help=GROUP_HELP[group], no_args_is_help=True)
                app.add_typer(groups[group], name=group)
            (groups[group] if group else app).command(name, cls=lazy, help=_plain_markup(found.summary))(_unused)
    for found in listed:
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
    """A placeholder for a command until it is called."""


def _load() -> Mapping[str, Operation]:
    from memtape.surfaces.registry import all_operations  # imports pydantic and the engine

    return all_operations()


def _lazy(name: str, open_memory: OpenMemory, load: Load, *, short: bool = False) -> type[TyperCommand]:
    class Lazy(TyperCommand):
        """Becomes the real command when its arguments are parsed, its help is shown or it is completed."""

        def make_context(self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any) -> Any:
            real = command(load()[name], open_memory, short=short)
            return real.make_context(info_name, args, parent=parent, **extra)

    return Lazy


def command(known: Operation, open_memory: OpenMemory, *, short: bool = False) -> Any:
    """The click command of one operation, or its short form."""
    from memtape.surfaces.registry import params_schema

    fields = inputs(params_schema(known))

    def run(as_json: bool, db: str | None, owner: str | None, whole: str | None, **typed: Any) -> None:
        with reporting(as_json):
            given = {field.name: typed[f"{field.name}_"] for field in fields if typed[f"{field.name}_"] is not None}
            data = json_object(whole, "input") if whole is not None else {}
            data |= {field.name: _value(field, given[field.name]) for field in fields if field.name in given}
            with open_memory(db, owner) as memory:
                done = perform_as_owner(memory, known, data)
            answer(done, as_json, known.columns, chosen_in_pipes=short)
        if known.waits and done.get("result") in ("failed", "lost", "stopped"):
            # The run is on record; a script that called it must notice all the same.
            raise typer.Exit(1)

    parameters = [
        *(_option(field, _other_names(known, field.name)) for field in fields),
        _parameter("whole", str | None, typer.Option("--input", metavar="JSON", help=INPUT_HELP), None),
        _parameter("db", str | None, typer.Option("--db", metavar="STORE", help=DB_HELP), None),
        _parameter("owner", str | None, typer.Option("--owner", help=OWNER_HELP), None),
        _parameter("as_json", bool, typer.Option("--json", help="Print the result as JSON."), False),
    ]
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    alone = typer.Typer(add_completion=False)
    alone.command(known.command if short else known.name.replace("_", "-"), help=_plain_markup(known.doc))(run)
    return typer.main.get_command(alone)


def print_operation(memory: Memory, name: str, data: dict[str, Any], as_json: bool) -> dict[str, Any]:
    """Perform an operation and print its chosen columns, or all of it as JSON. Returns the answer."""
    from memtape.surfaces.registry import find

    known = find(name)
    done = perform_as_owner(memory, known, data)
    answer(done, as_json, known.columns, chosen_in_pipes=True)
    return done


def perform_as_owner(memory: Memory, known: Operation | str, data: dict[str, Any]) -> dict[str, Any]:
    """The answer of an operation, given itself or by name. The command line calls as the owner, bound to no agent."""
    from memtape.surfaces.caller import Caller
    from memtape.surfaces.registry import find, perform

    return perform(memory, find(known) if isinstance(known, str) else known, data, Caller("owner"))


def _other_names(known: Operation, name: str) -> tuple[str, ...]:
    """The other names by which the params accept a field."""
    alias = getattr(known.params.model_fields.get(name), "validation_alias", None)
    return tuple(str(choice) for choice in getattr(alias, "choices", ()) if choice != name)


def _option(field: Input, other_names: tuple[str, ...] = ()) -> inspect.Parameter:
    flags = ["--" + name.replace("_", "-") for name in (field.name, *other_names)]
    notes = ["required"] if field.required else []
    if field.default not in (None, "", [], {}) and field.default is not False:
        notes.append(f"default: {field.default}")
    if field.kind in ("json", "either"):
        notes.append("@FILE or - (stdin)")
    if field.kind == "list":
        notes.append("repeat it, or give a JSON list")
    text = _plain_markup(field.help + (f" ({'; '.join(notes)})" if notes else ""))
    if field.kind == "flag":
        pairs = [f"{flag}/--no-{flag[2:]}" for flag in flags]
        return _parameter(f"{field.name}_", bool | None, typer.Option(*pairs, help=text), None)
    kind = list[str] | None if field.kind == "list" else str | None
    return _parameter(f"{field.name}_", kind, typer.Option(*flags, metavar=field.form, help=text), None)


def _parameter(name: str, kind: Any, option: Any, default: object) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation=Annotated[kind, option], default=default)


def _plain_markup(text: str) -> str:
    return text.replace("[", r"\[")  # in rich markup, [x] is a style


def _value(field: Input, given: Any) -> object:
    if isinstance(given, bool):
        return given
    texts = given if isinstance(given, list) else [given]
    if field.kind in ("json", "either", "list"):
        texts = [_fetched(field.name, text) for text in texts]
    return field.read(texts)


def json_object(text: str, option: str) -> dict[str, Any]:
    """The JSON object of an option."""
    try:
        found = json.loads(_fetched(option, text))
    except ValueError:
        raise Invalid(option, "is not JSON", "Write one JSON object" + ("" if text.startswith("@") else ", or @FILE")) from None
    if not isinstance(found, dict):
        raise Invalid(option, "is not a JSON object", 'Write the fields by name, like {"agent": "main"}')
    return found


def _fetched(name: str, text: str) -> str:
    """The text of an option: itself, the file after @, or stdin for -."""
    try:
        if text == "-":
            return sys.stdin.buffer.read().decode("utf-8-sig")
        return Path(text[1:]).read_text(encoding="utf-8-sig") if text.startswith("@") else text
    except UnicodeError:
        raise Invalid(name, "is not Unicode text", "Save it in UTF-8") from None
    except OSError as error:
        raise Invalid(name, f"the file cannot be read: {error.strerror}", f"Check the path (got {text[1:]!r})") from None


# What every command prints


@contextmanager
def reporting(as_json: bool = False) -> Iterator[None]:
    """Prints a `MemtapeError` on stderr and ends with its exit code. Several wrong fields have one line each."""
    try:
        yield
    except MemtapeError as error:
        problems = error.errors if isinstance(error, Invalid) else (error,)
        lines = "\n".join(f"memtape: {printable(' '.join(str(each).split()))}" for each in problems)
        typer.echo(json_text(problem(error)) if as_json else lines, err=True)
        raise typer.Exit(error_report(error).exit_code) from None


def answer(
    data: Mapping[str, Any], as_json: bool = False, columns: Columns | None = None, *, chosen_in_pipes: bool = False
) -> None:
    """Print a result: as JSON, as tables of chosen columns on a terminal, or as plain lines into a pipe."""
    if as_json:
        # Bytes are UTF-8, whatever the console is set to.
        typer.echo(json_text(data).encode())
    elif sys.stdout.isatty():
        _show(summary(data, columns or {}))
    else:
        typer.echo("\n".join(_lines(summary(data, columns or {}) if chosen_in_pipes else data)).encode())


def summary(data: Mapping[str, Any], columns: Columns) -> dict[str, Any]:
    """The answer for people: the chosen columns of its tables and objects, without empty values, with short figures.

    >>> summary({"agent": "desk", "note": None, "rows": [{"id": "a", "r": 0.12345678, "x": 1}]}, {"rows": ("r", "id")})
    {'agent': 'desk', 'rows': [{'r': 0.123457, 'id': 'a'}]}
    """
    shown: dict[str, Any] = {}
    for name, value in data.items():
        names = columns.get(name)
        if _is_table(value):
            shown[name] = [_chosen(row, names or columns.get(EVERY_TABLE)) for row in value]
        elif isinstance(value, Mapping):
            parts = summary(_chosen(value, names), columns)
            shown[name] = {key: part for key, part in parts.items() if part not in ([], {})}
        elif value is not None:
            shown[name] = _short_figures(value)
    return shown


def _chosen(row: Mapping[str, Any], names: tuple[str, ...] | None) -> dict[str, Any]:
    """The named entries of a row. A table without any of the names is shown whole."""
    chosen = [name for name in names or () if name in row] or list(row)
    return {name: _short_figures(row[name]) for name in chosen}


def _short_figures(value: Any) -> Any:
    return float(f"{value:.6g}") if isinstance(value, float) else value


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
            yield from (indent + printable(line) for line in value.split("\n"))
        else:
            yield f"{indent}{name}: {_cell(value)}".rstrip()


def _show(data: Mapping[str, Any]) -> None:
    from rich import box
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
            table = Table(title=name, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
            for column in columns:
                # Ids and dates are never cut.
                table.add_column(column, no_wrap=column in ("id", "at", "run", "decision") or column.endswith(("_id", "_at")))
            for row in value:
                table.add_row(*(Text(_to_the_second(_cell(row.get(column)))) for column in columns))
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
    return printable(value.replace("\n", " ").replace("\t", " ") if isinstance(value, str) else json_text(value))


def _to_the_second(text: str) -> str:
    """A time without its fraction, which takes the place of a whole column; other texts as they are.

    >>> _to_the_second("2026-03-02T10:00:00.123456Z"), _to_the_second("0.123456Z")
    ('2026-03-02T10:00:00Z', '0.123456Z')
    """
    return FRACTION.sub(r"\1Z", text)


def printable(text: str) -> str:
    """Text that a terminal shows but does not interpret: notes may come from anywhere."""
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in text)
