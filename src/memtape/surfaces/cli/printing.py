"""What commands print: answers as JSON, as fitted tables, or plain and complete into a pipe; errors."""

from __future__ import annotations

import shutil
import sys
import textwrap
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from difflib import get_close_matches
from typing import Any, TextIO

import typer

from memtape.errors import Invalid, MemtapeError
from memtape.surfaces.cli.groups import option_of
from memtape.surfaces.cli.tables import cell_text, column_names, printable, short_time, table_lines
from memtape.surfaces.translate import EVERY_TABLE, Columns, error_report, json_text, problem

INDENT = "  "
MAX_GROUPS = 24  # rows of a table of groups: all hours of a day, and not the thousand symbols that an account may have traded
MAX_SUPPORTING = 5  # rows of a table that only supports an answer
MAX_JOINED = 10  # values of an object that stand on one line
# Fields of an answer in which memtape speaks to its reader, and may name an operation.
SPOKEN = frozenset({"note", "notes", "summary"})
QUIET_WHEN_EMPTY = ("notes", "problems", "warnings")  # lists of which one only says something if there is something


@contextmanager
def reporting(as_json: bool = False) -> Iterator[None]:
    """Prints a `MemtapeError` on stderr and ends with its exit code. Several wrong fields have one line each."""
    try:
        yield
    except MemtapeError as error:
        typer.echo(json_text(problem(error)) if as_json else "\n".join(error_lines(error)), err=True)
        raise typer.Exit(error_report(error).exit_code) from None


def error_lines(error: MemtapeError) -> list[str]:
    """An error in the words of the command line: options instead of fields, commands instead of operations."""
    from memtape.surfaces.cli.commands import operation_names
    from memtape.surfaces.cli.layout import in_words_of_commands

    lines = []
    for each in error.errors if isinstance(error, Invalid) else (error,):
        text = " ".join(str(each).split())
        field = str(getattr(each, "field", "") or "")
        top, _, rest = field.partition(".")
        if field and (option := option_of(top)) and text.startswith(f"{field}:"):
            # What to write is named like the option too: `confirm=desk` is `--confirm desk` here.
            text = text.replace(f" {field}=", f" {option} ") if option.startswith("--") else text
            text = f"{option}{f' {rest}' if rest else ''}{text[len(field) :]}"
        lines += _on_lines(f"memtape: {printable(in_words_of_commands(text, operation_names()))}", "  ", sys.stderr)
    return lines


def _on_lines(text: str, indent: str, stream: TextIO) -> list[str]:
    """A text as lines that fit a terminal; one line, if the stream is none."""
    return _wrapped(text, terminal_width(), "", indent) if stream.isatty() else [text]


def answer(
    data: Mapping[str, Any], as_json: bool = False, columns: Columns | None = None, *, wanted: str | None = None,
    few: Collection[str] = (),
) -> None:  # fmt: skip
    """Print a result: as JSON, as tables of chosen columns on a terminal, or plain and complete into a pipe.

    `wanted` is the value of --columns: the columns of every table, wherever it is printed. Of the tables named in `few`, which
    support the answer but are not the answer, a terminal shows the first rows.
    """
    if as_json:
        # Bytes are UTF-8, whatever the console is set to.
        typer.echo(json_text(data).encode())
        return
    data = _in_words_of_commands(data)
    if wanted is not None:
        columns = {EVERY_TABLE: wanted_columns(data, wanted)}
    if on_terminal():
        lines = _terminal_lines(summary(data, columns or {}), terminal_width(), few=few)
    else:
        lines = _plain_lines(summary(data, columns or {}) if wanted is not None else data)
    typer.echo("\n".join(lines).encode())


def _in_words_of_commands(data: Mapping[str, Any]) -> Mapping[str, Any]:
    """The answer with commands in place of the operations that its notes name."""
    from memtape.surfaces.cli.layout import in_words_of_commands

    def reworded(value: Any) -> Any:
        if isinstance(value, list):
            return [reworded(each) for each in value]
        return in_words_of_commands(value) if isinstance(value, str) else value

    return {name: reworded(value) if name in SPOKEN else value for name, value in data.items()}


def print_sentence(text: str, indent: str = "") -> None:
    """Print a sentence; on a terminal it goes on below, after `indent`, and characters that steer it are shown."""
    text = printable(text)
    typer.echo("\n".join(_on_lines(text, indent, sys.stdout)).encode())


def say_on_lines(text: str) -> None:
    """Print a sentence for people on stderr, separate from the data, on lines that fit."""
    typer.echo("\n".join(_on_lines(printable(text), "", sys.stderr)), err=True)


def on_terminal() -> bool:
    """True if somebody looks at the output."""
    return sys.stdout.isatty()


def terminal_width() -> int:
    """The columns of the terminal; 80 if it does not say."""
    return shutil.get_terminal_size((80, 24)).columns


def wanted_columns(data: Mapping[str, Any], wanted: str) -> tuple[str, ...]:
    """The names of --columns. Raises `Invalid` for a name that no table of the answer has."""
    names = tuple(name.strip() for name in wanted.split(",") if name.strip())
    known = list(dict.fromkeys(name for table in _tables(data) for name in column_names(table)))
    for name in names:
        if known and name not in known:
            near = get_close_matches(name, known, n=3)
            fix = f"Did you mean {' or '.join(near)}?" if near else f"Choose from {', '.join(known)}"
            raise Invalid("columns", f"there is no column '{name}'", fix)
    return names


def _tables(data: Mapping[str, Any]) -> Iterator[Sequence[Mapping[str, Any]]]:
    for value in data.values():
        if is_table(value):
            yield value
        elif isinstance(value, Mapping):
            yield from _tables(value)


def summary(data: Mapping[str, Any], columns: Columns) -> dict[str, Any]:
    """The answer with the chosen columns of its tables and objects.

    >>> summary({"agent": "desk", "rows": [{"id": "a", "r": 0.5, "x": 1}]}, {"rows": ("r", "id")})
    {'agent': 'desk', 'rows': [{'r': 0.5, 'id': 'a'}]}
    """
    shown: dict[str, Any] = {}
    for name, value in data.items():
        names = columns.get(name)
        if is_table(value):
            known = column_names(value)
            chosen = [each for each in names or columns.get(EVERY_TABLE, ()) if each in known] or known
            shown[name] = [{each: row.get(each) for each in chosen} for row in value]
        elif isinstance(value, Mapping):
            chosen = [each for each in names or () if each in value] or list(value)
            shown[name] = summary({each: value[each] for each in chosen}, columns)
        else:
            shown[name] = value
    return shown


def is_table(value: object) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(row, Mapping) for row in value)


def _plain_lines(data: Mapping[str, Any], indent: str = "") -> Iterator[str]:
    """Every value, one per line; tables with tabs between the cells."""
    for name, value in data.items():
        if isinstance(value, Mapping) and value:
            yield f"{indent}{name}:"
            yield from _plain_lines(value, indent + INDENT)
        elif is_table(value):
            columns = column_names(value)
            yield f"{indent}{name}:"
            yield indent + "\t".join(columns)
            yield from (indent + "\t".join(_plain_cell(row.get(column)) for column in columns) for row in value)
        elif _is_list_of_lines(value):
            yield f"{indent}{name}:"
            yield from (f"{indent}{INDENT}{_plain_cell(line)}" for line in value)
        elif isinstance(value, str) and "\n" in value:
            yield f"{indent}{name}:"
            yield from (indent + printable(line) for line in value.split("\n"))
        else:
            yield f"{indent}{name}: {_plain_cell(value)}".rstrip()


def _plain_cell(value: object) -> str:
    if value is None:
        return ""
    return printable(value.replace("\n", " ").replace("\t", " ") if isinstance(value, str) else json_text(value))


def _is_list_of_lines(value: object) -> bool:
    """True for a list of sentences; a list of single words stays on one line."""
    return isinstance(value, list) and bool(value) and all(isinstance(each, str) for each in value) and " " in "".join(value)


def _terminal_lines(data: Mapping[str, Any], width: int, indent: str = "", few: Collection[str] = ()) -> Iterator[str]:
    """What there is to read, none of the lines wider than the terminal."""
    for name, value in data.items():
        if value is None or value in ("", {}, [None, None]) or (value == [] and (indent or name in QUIET_WHEN_EMPTY)):
            continue
        if isinstance(value, Mapping):
            yield from _object_lines(name, value, width, indent)
        elif is_table(value):
            rows = value[:MAX_GROUPS] if name.startswith("by_") else value[:MAX_SUPPORTING] if name in few else value
            yield f"{indent}{name}:"
            yield from (f"{indent}{line}" for line in table_lines(rows, width=width - len(indent)))
            if len(rows) < len(value):
                yield f"{indent}{INDENT}{len(value) - len(rows)} more; --json shows all"
        elif _is_list_of_lines(value):
            yield f"{indent}{name}:"
            for line in value:
                yield from _wrapped(f"- {cell_text(line)}", width, indent + INDENT, indent + INDENT * 2)
        elif isinstance(value, str) and "\n" in value:
            yield f"{indent}{name}:"
            yield from (indent + printable(line) for line in value.split("\n"))
        else:
            text = "none" if value == [] else cell_text(_with_short_times(value))
            yield from _wrapped(f"{name}: {text}", width, indent, indent + INDENT)


def _object_lines(name: str, value: Mapping[str, Any], width: int, indent: str) -> Iterator[str]:
    """An object: a few short values on one line, with its tables and objects below; many values one by one."""
    short = {key: part for key, part in value.items() if not isinstance(part, Mapping | list) and part not in (None, "")}
    below: Mapping[str, Any] = {key: part for key, part in value.items() if key not in short}
    if len(short) > MAX_JOINED or any("\n" in str(part) for part in short.values()):
        short, below = {}, value
    parts = list(_terminal_lines(below, width, indent + INDENT))
    if short:
        yield from _wrapped(f"{name}: {cell_text(_with_short_times(short))}", width, indent, indent + INDENT)
        yield from parts
    elif parts:
        yield from (f"{indent}{name}:", *parts)


def _with_short_times(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _with_short_times(part) for key, part in value.items()}
    if isinstance(value, list):
        return [_with_short_times(part) for part in value]
    return short_time(value) if isinstance(value, str) else value


def _wrapped(text: str, width: int, first: str, others: str) -> list[str]:
    if len(first) + len(text) <= width:
        return [first + text]
    return textwrap.wrap(
        text, width, initial_indent=first, subsequent_indent=others, break_long_words=False, break_on_hyphens=False
    )
