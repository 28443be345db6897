"""The operations as commands: `get_trades` is `memtape trades` and `memtape op get_trades`, each field of its params an option.

`layout.py` says which commands call which operation. Everything that `memtape --help` shows stands there, so it imports no
operation; `memtape op --help` reads names and first lines from the source of `operations/`. Only the command that is called
imports the operations and gets its options. All options are text and validated by the operation's params, so the same input
is refused for the same reason here as over HTTP and MCP.
"""

from __future__ import annotations

import ast
import inspect
import json
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from memtape.core.value_class import dataclass
from memtape.errors import Invalid, Unknown
from memtape.surfaces.cli.groups import Command, Group, command_group, unknown_command
from memtape.surfaces.cli.layout import COMMANDS, PANELS, OperationCommand, in_words_of_commands
from memtape.surfaces.cli.printing import answer, print_sentence, reporting
from memtape.surfaces.translate import Input, inputs, read_pairs

if TYPE_CHECKING:
    from memtape.engine import Memory
    from memtape.surfaces.registry import Operation

    OpenMemory = Callable[[str | None, str | None], Memory]
    Load = Callable[[], Mapping[str, Operation]]
    LoadOne = Callable[[str], Operation]

_OPERATION = re.compile(r"^@operation\(.*?^def (\w+)\(", re.MULTILINE | re.DOTALL)
LISTED_KEYWORDS = ("writes", "aliases")
OPERATIONS_FILE = Path(__file__).parents[1] / "operations"
INPUT_HELP = "All fields as one JSON object, @FILE or - (stdin). Options override its fields."
NAMED = "named_"  # before the parameter of an argument that was given as an option
OWNER_HELP = "The owner of the data (default: MEMTAPE_OWNER, then 'local')."
DB_HELP = "The store: a path, sqlite:///... or postgresql://... (default: MEMTAPE_DB, then ~/.memtape/memory.db)."
COLUMNS_HELP = "Only these columns of the tables: a,b,c."
# Tables beside the answer that can be long: beliefs about each of twenty strategies.
SUPPORTING_TABLES: Mapping[str, tuple[str, ...]] = {
    "pre_trade_check": ("beliefs",), "get_trade_reflection": ("confirms", "contradicts"),
    "recall_memories": ("beliefs", "near_misses", "worth_testing"),
}  # fmt: skip
FAILED_RESULTS = ("failed", "lost", "stopped")


@dataclass(frozen=True, slots=True)
class Listed:
    """What `memtape op --help` shows of an operation."""

    name: str
    noun: str  # the file that holds it
    summary: str
    writes: bool
    aliases: tuple[str, ...] = ()


def listing(file: Path = OPERATIONS_FILE) -> list[Listed]:
    """The operations of a source file or folder, read without importing anything."""
    folder = file.with_suffix("")
    files = [file] if file.is_file() else sorted(folder.glob("*.py"))
    return [found for each in files for found in _listed(ast.parse(each.read_text(encoding="utf-8")), each.stem)]


def _listed(module: ast.Module, noun: str) -> Iterator[Listed]:
    for node in module.body:
        if not isinstance(node, ast.FunctionDef):
            continue
        for mark in node.decorator_list:
            if isinstance(mark, ast.Call) and isinstance(mark.func, ast.Name) and mark.func.id == "operation":
                shown = {word.arg: ast.literal_eval(word.value) for word in mark.keywords if word.arg in LISTED_KEYWORDS}
                yield Listed(node.name, noun, (ast.get_docstring(node) or "").partition("\n")[0], **shown)


@lru_cache(maxsize=1)
def operation_names() -> frozenset[str]:
    """The names of all operations, read from their source."""
    texts = (each.read_text(encoding="utf-8") for each in OPERATIONS_FILE.glob("*.py"))
    return frozenset(name for text in texts for name in _OPERATION.findall(text))


def operation_commands(group: str, open_memory: OpenMemory) -> dict[str, Command]:
    """The commands of layout.py that call operations and stand in a group, or in the first level (""). None has options yet."""
    lines = {name: line for panel in PANELS.values() for name, line in panel.items()}
    found: dict[str, Command] = {}
    for each in COMMANDS:
        of, _, name = each.path.rpartition(" ")
        if of == group:
            lazy = _lazy(each.operation, open_memory, _load_one, each)
            found[name] = lazy(name=name, short_help=each.line or lines[each.path])
    return found


def add_operations(app: typer.Typer, open_memory: OpenMemory, *, file: Path = OPERATIONS_FILE, load: Load | None = None) -> None:
    """Add `op`, which calls every operation by its own name. `open_memory` gets the values of --db and --owner, or None."""
    line = PANELS["More"]["op"]
    app.add_typer(command_group(line, cls=_operation_group(open_memory, file, load)), name="op", short_help=line)


def _operation_group(open_memory: OpenMemory, file: Path, load: Load | None) -> type[Group]:
    def load_one(name: str) -> Operation:
        from memtape.surfaces.registry import find

        return _load_one(name) if load is None else find(name, load())

    class Operations(Group):
        """The operations, found when they are asked for."""

        def list_commands(self, ctx: Any) -> list[str]:
            return [found.name for found in listing(file)]

        def get_command(self, ctx: Any, cmd_name: str) -> Any:
            name = cmd_name.replace("-", "_")
            try:
                return _lazy(load_one(name).name, open_memory, load_one)(name=name)
            except Unknown:
                return None

        def resolve_command(self, ctx: Any, args: list[str]) -> Any:
            if self.get_command(ctx, args[0]) is None and not args[0].startswith("-"):
                ctx.fail(unknown_command(args[0].replace("-", "_"), ctx.command_path, self.list_commands(ctx)))
            return super().resolve_command(ctx, args)

        def format_commands(self, ctx: Any, formatter: Any) -> None:
            listed = listing(file)
            for noun in dict.fromkeys(found.noun for found in listed):
                with formatter.section(noun.replace("_", " ").capitalize()):
                    formatter.write_dl([(found.name, found.summary) for found in listed if found.noun == noun])

    return Operations


def _load_one(name: str) -> Operation:
    from memtape.surfaces.registry import operation_named  # imports pydantic and the engine

    return operation_named(name)


def _lazy(name: str, open_memory: OpenMemory, load: LoadOne, place: OperationCommand | None = None) -> type[Command]:
    class Lazy(Command):
        """Becomes the real command when its arguments are parsed, its help is shown or it is completed."""

        def make_context(self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any) -> Any:
            real = command(load(name), open_memory, place)
            return real.make_context(info_name, args, parent=parent, **extra)

    return Lazy


def command(known: Operation, open_memory: OpenMemory, place: OperationCommand | None = None) -> Any:
    """The click command of one operation, by its own name or at its place among the commands."""
    from memtape.surfaces.registry import params_schema

    fields = inputs(params_schema(known))

    def run(
        as_json: bool, db: str | None, owner: str | None, whole: str | None, columns: str | None = None, **typed: Any
    ) -> None:
        with reporting(as_json):
            _take_named_arguments(typed)
            given = {field.name: typed[f"{field.name}_"] for field in fields if typed[f"{field.name}_"] is not None}
            data = json_object(whole, "input") if whole is not None else {}
            data |= {field.name: _value(field, given[field.name]) for field in fields if field.name in given}
            with open_memory(db, owner) as memory:
                done = perform_as_owner(memory, known, data)
            answer(done, as_json, known.columns, wanted=columns, few=SUPPORTING_TABLES.get(known.name, ()))
            conclude(known, done, as_json)

    by_position = place.arguments if place is not None else ()
    in_order = sorted(fields, key=lambda field: by_position.index(field.name) if field.name in by_position else len(by_position))
    parameters = [
        *(_argument(each) if each.name in by_position else _option(each, _other_names(known, each.name)) for each in in_order),
        *(_named_argument(each) for each in in_order if each.name in by_position),
        _parameter("whole", str | None, typer.Option("--input", metavar="JSON", help=INPUT_HELP), None),
        _parameter("db", str | None, typer.Option("--db", metavar="STORE", help=DB_HELP), None),
        _parameter("owner", str | None, typer.Option("--owner", help=OWNER_HELP), None),
        _parameter("as_json", bool, typer.Option("--json", help="Print the result as JSON."), False),
    ]
    if not known.writes:
        parameters.append(_parameter("columns", str | None, typer.Option("--columns", metavar="A,B", help=COLUMNS_HELP), None))
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    alone = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)
    name = place.path.rpartition(" ")[2] if place is not None else known.name
    # Typer takes them for optional, because --input may have them.
    needed = frozenset(f"{each.name}_" for each in fields if each.required and each.name in by_position)
    kind = type("OperationCommand", (Command,), {"required_arguments": needed})
    alone.command(name, cls=kind, help=in_words_of_commands(known.doc))(run)
    return typer.main.get_command(alone)


def conclude(known: Operation, done: Mapping[str, Any], as_json: bool) -> None:
    """End a command: with the sentence of its operation, and with exit code 1 if what it did failed."""
    from memtape.surfaces.cli.sentences import concluding_sentence

    sentence = concluding_sentence(known.name, done)
    if sentence and not as_json:
        print_sentence(sentence)
    # The failure is on record; a script that called the command must notice all the same.
    if (known.waits and done.get("result") in FAILED_RESULTS) or (known.name == "reflect_now" and done.get("failed")):
        raise typer.Exit(1)


def print_operation(memory: Memory, name: str, data: dict[str, Any], as_json: bool, columns: str | None = None) -> dict[str, Any]:
    """Perform an operation and print its answer. Returns the answer."""
    from memtape.surfaces.registry import operation_named

    known = operation_named(name)
    done = perform_as_owner(memory, known, data)
    answer(done, as_json, known.columns, wanted=columns)
    return done


def perform_as_owner(memory: Memory, known: Operation | str, data: dict[str, Any]) -> dict[str, Any]:
    """The answer of an operation, given itself or by name. The command line calls as the owner, bound to no agent."""
    from memtape.surfaces.caller import Caller
    from memtape.surfaces.registry import operation_named, perform

    return perform(memory, operation_named(known) if isinstance(known, str) else known, data, Caller("owner"))


def _other_names(known: Operation, name: str) -> tuple[str, ...]:
    """The other names by which the params accept a field."""
    alias = getattr(known.params.model_fields.get(name), "validation_alias", None)
    return tuple(str(choice) for choice in getattr(alias, "choices", ()) if choice != name)


def _option(field: Input, other_names: tuple[str, ...] = ()) -> inspect.Parameter:
    flags = ["--" + name.replace("_", "-") for name in (field.name, *other_names)]
    if field.kind == "flag":
        pairs = [f"{flag}/--no-{flag[2:]}" for flag in flags]
        return _parameter(f"{field.name}_", bool | None, typer.Option(*pairs, help=_help(field)), None)
    kind = list[str] | None if field.kind == "list" else str | None
    form = "NAME=VALUE,..." if field.takes_pairs else field.form
    return _parameter(f"{field.name}_", kind, typer.Option(*flags, metavar=form, help=_help(field)), None)


def _argument(field: Input) -> inspect.Parameter:
    """A field that is given by position. It may be missing here, since --input can have it."""
    return _parameter(f"{field.name}_", str | None, typer.Argument(metavar=field.name.upper(), help=_help(field)), None)


def _named_argument(field: Input) -> inspect.Parameter:
    """The same field as an option, because others take it so; the help shows it by position only."""
    flag = "--" + field.name.replace("_", "-")
    return _parameter(f"{NAMED}{field.name}_", str | None, typer.Option(flag, hidden=True), None)


def _take_named_arguments(typed: dict[str, Any]) -> None:
    """Move arguments that were given as options to their place. Raises `Invalid` for one that was given twice."""
    for name in [name for name in typed if name.startswith(NAMED)]:
        value, place = typed.pop(name), name.removeprefix(NAMED)
        if value is None:
            continue
        if typed[place] is not None:
            raise Invalid(place.rstrip("_"), "is given twice", "Give it once")
        typed[place] = value


def _help(field: Input) -> str:
    notes = ["required"] if field.required else []
    if field.default not in (None, "", [], {}) and field.default is not False:
        notes.append(f"default: {field.default}")
    if field.takes_pairs:
        notes.append("or JSON, @FILE, - for stdin")
    elif field.kind in ("json", "either"):
        notes.append("@FILE or - (stdin)")
    if field.kind == "list":
        notes.append("repeat it, or give a JSON list")
    return in_words_of_commands(field.help) + (f" ({'; '.join(notes)})" if notes else "")


def _parameter(name: str, kind: Any, option: Any, default: object) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation=Annotated[kind, option], default=default)


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


def context_object(text: str) -> dict[str, Any]:
    """The value of --context: pairs like session=london,regime=ranging, a JSON object, @FILE or - for stdin."""
    found = _fetched("context", text)
    return json_object(found, "context") if found.lstrip()[:1] in ("{", "[") else read_pairs(found, "context")


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
