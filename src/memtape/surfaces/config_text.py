"""Adds a server to the settings file of a program, and takes it out again. Everything else in the text stays as it is.

A text is edited where the entry belongs and nowhere else, so that the order, the spaces and the comments of its owner survive.
Every edit is checked: the new text must hold the same values as before, with the entry added or gone. A text that cannot be
edited so (broken JSON, TOML with inline tables) is refused, and nothing is written. JSON may have comments and commas too many,
as the settings of VS Code do.

>>> edit = add_server('{"theme": "dark"}', ("mcpServers", "memtape"), {"command": "memtape"})
>>> print(edit.text)
{"theme": "dark",
  "mcpServers": {
    "memtape": {
      "command": "memtape"
    }
  }}
>>> undo_edit(edit.text, edit)
'{"theme": "dark"}'
>>> remove_server(edit.text, ("mcpServers", "memtape"))
'{"theme": "dark",\\n  "mcpServers": {\\n  }}'
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Mapping
from typing import Any

from memtape.core.value_class import dataclass
from memtape.errors import Invalid

Path = tuple[str, str]  # the group of all servers, and the name of one
_BLANK = re.compile(r"[ \t\r\n]*")
_DECODER = json.JSONDecoder()
_STRING = r'"(?:[^"\\]|\\.)*"'
_COMMENT = re.compile(rf"{_STRING}|//[^\r\n]*|/\*.*?\*/", re.DOTALL)
_COMMA_TOO_MANY = re.compile(rf"{_STRING}|,(?=\s*[}}\]])")
PASTE = "Paste the block into it yourself"


@dataclass(frozen=True, slots=True)
class TextEdit:
    """A text with one part replaced. `old` is empty if the part was added."""

    text: str
    old: str
    new: str


def add_server(text: str, path: Path, server: Mapping[str, Any], *, toml: bool = False) -> TextEdit:
    """Returns the text with the server at its path: added, or in place of the server of that name."""
    values = _values(text, toml)
    group = values.get(path[0], {})
    if not isinstance(group, dict):
        raise Invalid("file", f"'{path[0]}' is not a group of servers in it", PASTE)
    edit = (_add_toml if toml else _add_json)(text, path, server)
    _check(edit.text, {**values, path[0]: {**group, path[1]: dict(server)}}, toml)
    return edit


def remove_server(text: str, path: Path, *, toml: bool = False) -> str:
    """Returns the text without the server at the path; the same text if there is none."""
    values = _values(text, toml)
    group = values.get(path[0], {})
    if not isinstance(group, dict) or path[1] not in group:
        return text
    left = {name: server for name, server in group.items() if name != path[1]}
    without = _cut_toml(text, path) if toml else _cut_json(text, path)
    # A TOML table that holds nothing any more does not exist.
    others = {name: value for name, value in values.items() if name != path[0]}
    _check(without, others if toml and not left else {**values, path[0]: left}, toml)
    return without


def undo_edit(text: str, edit: TextEdit) -> str | None:
    """Returns the text as before an edit, with what changed elsewhere since; None if the part itself is not as it was left."""
    return text.replace(edit.new, edit.old) if text.count(edit.new) == 1 else None


def server_block(path: Path, server: Mapping[str, Any], *, toml: bool = False) -> str:
    """Returns a whole settings file with nothing but the server."""
    return add_server("", path, server, toml=toml).text


def has_server(text: str, path: Path, server: Mapping[str, Any], *, toml: bool = False) -> bool:
    """Returns True if the text has this very server at the path."""
    group = _values(text, toml).get(path[0])
    return isinstance(group, dict) and group.get(path[1]) == dict(server)


def _values(text: str, toml: bool) -> dict[str, Any]:
    try:
        values = tomllib.loads(text) if toml else json.loads(plain) if (plain := plain_json(text)).strip() else {}
    except ValueError as error:
        raise Invalid("file", f"it cannot be read as {'TOML' if toml else 'JSON'}: {error}", PASTE) from None
    if not isinstance(values, dict):
        raise Invalid("file", "it is not an object with settings", PASTE)
    return values


def _check(text: str, wanted: Mapping[str, Any], toml: bool) -> None:
    try:
        found = tomllib.loads(text) if toml else json.loads(plain_json(text))
    except ValueError:
        found = None
    if found != wanted:
        raise Invalid("file", "it is written in a way that memtape cannot edit safely", PASTE)


# ---- JSON --------------------------------------------------------------------------------------------------------------


def plain_json(text: str) -> str:
    """Returns JSON with blanks in place of comments, of commas before a closing bracket and of a byte order mark.

    Everything else keeps its place, so what is found here stands at the same place in the text.

    >>> plain_json('{"a": "//", /* b */ "c": [1, ], // d' + chr(10) + "}")
    '{"a": "//",         "c": [1  ]      \\n}'
    """

    def blanks(found: re.Match[str]) -> str:
        return found[0] if found[0][0] == '"' else re.sub(r"[^\r\n]", " ", found[0])

    return _COMMA_TOO_MANY.sub(blanks, _COMMENT.sub(blanks, text.replace("\ufeff", " ", 1) if text[:1] == "\ufeff" else text))


@dataclass(frozen=True, slots=True)
class _Member:
    """A member of an object: where its name begins, and its value from start to end."""

    name: str
    at: int
    start: int
    end: int


def _members(text: str, at: int) -> tuple[list[_Member], int]:
    """Returns the members of the object that begins at a place, and the place of its closing brace. The text is valid JSON."""
    found: list[_Member] = []
    at = _after_blank(text, at + 1)
    while text[at] != "}":
        name, end = _DECODER.raw_decode(text, at)
        start = _after_blank(text, _after_blank(text, end) + 1)
        _, end = _DECODER.raw_decode(text, start)
        found.append(_Member(name, at, start, end))
        at = _after_blank(text, end)
        if text[at] == ",":
            at = _after_blank(text, at + 1)
    return found, at


def _after_blank(text: str, at: int) -> int:
    matched = _BLANK.match(text, at)
    return matched.end() if matched else at


def _named(members: list[_Member], name: str) -> _Member | None:
    # JSON keeps the last of two members with one name.
    return next((member for member in reversed(members) if member.name == name), None)


def _add_json(text: str, path: Path, server: Mapping[str, Any]) -> TextEdit:
    line = "\r\n" if "\r\n" in text else "\n"
    indented = re.search(r"\n([ \t]+)\S", text)
    step = indented[1] if indented else "  "
    plain = plain_json(text)
    if not text.strip():
        whole = json.dumps({path[0]: {path[1]: server}}, indent=step, ensure_ascii=False) + "\n"
        return TextEdit(whole, text, whole)

    def written(value: object, depth: int) -> str:
        return json.dumps(value, indent=step, ensure_ascii=False).replace("\n", line + depth * step)

    root = _after_blank(plain, 0)
    members, end = _members(plain, root)
    depth, name, value = 1, path[0], written({path[1]: server}, 1)
    if group := _named(members, path[0]):
        members, end = _members(plain, group.start)
        depth, name, value = 2, path[1], written(server, 2)
        if entry := _named(members, path[1]):
            return TextEdit(text[: entry.start] + value + text[entry.end :], text[entry.start : entry.end], value)
    member = f"{line}{depth * step}{json.dumps(name, ensure_ascii=False)}: {value}"
    if members and (rest := _rest_of_line(text, plain, members[-1].end)):
        # A comment behind the last member stays behind it; a comma that stands there already is not doubled.
        at = members[-1].end
        new = rest + member if rest.lstrip().startswith(",") else "," + rest + member
        return TextEdit(text[:at] + new + text[at + len(rest) :], rest, new)
    if members:
        at, new = members[-1].end, "," + member
    else:
        # In `{}` the brace needs a line of its own; in `{` newline `}` it has one.
        at = (group.start if group else root) + 1
        new = member + ("" if "\n" in text[at:end] else line + (depth - 1) * step)
    return TextEdit(text[:at] + new + text[at:], "", new)


def _rest_of_line(text: str, plain: str, at: int) -> str:
    """Returns what stands behind a place up to the end of its line, if that is a comment or a comma too many; else ""."""
    end = re.compile(r"[^\r\n]*").match(text, at)
    rest = end[0] if end else ""
    return rest if rest.strip() and not plain[at : at + len(rest)].strip() else ""


def _cut_json(text: str, path: Path) -> str:
    plain = plain_json(text)
    members, _ = _members(plain, _after_blank(plain, 0))
    group = _named(members, path[0])
    assert group is not None
    members, _ = _members(plain, group.start)
    entry = _named(members, path[1])
    assert entry is not None
    place = members.index(entry)
    if place:
        return text[: members[place - 1].end] + text[entry.end :]
    if len(members) > 1:
        return text[: entry.at] + text[members[1].at :]
    return text[: group.start + 1] + text[entry.end :]


# ---- TOML --------------------------------------------------------------------------------------------------------------


def _header(path: Path) -> re.Pattern[str]:
    """Finds the header of the server's table, or of a table below it."""
    group, name = (rf"(?:{re.escape(part)}|\"{re.escape(part)}\"|'{re.escape(part)}')" for part in path)
    return re.compile(rf"[ \t]*\[[ \t]*{group}[ \t]*\.[ \t]*{name}[ \t]*[\].]")


def _table(text: str, path: Path) -> tuple[int, int] | None:
    """Returns where the server's table begins and ends, with the tables below it."""
    header, lines = _header(path), text.splitlines(keepends=True)
    first = next((n for n, line in enumerate(lines) if header.match(line)), None)
    if first is None:
        return None
    # A line of a nested array begins like a header; `_check` refuses the edit if such a line was taken for one.
    others = (n for n, line in enumerate(lines) if n > first and line.lstrip().startswith("[") and not header.match(line))
    end = next(others, len(lines))
    # Comments and empty lines before the next table belong to that table.
    while not lines[end - 1].strip() or lines[end - 1].lstrip().startswith("#"):
        end -= 1
    return len("".join(lines[:first])), len("".join(lines[:end]))


def _add_toml(text: str, path: Path, server: Mapping[str, Any]) -> TextEdit:
    line = "\r\n" if "\r\n" in text else "\n"
    rows = [f"[{path[0]}.{path[1]}]", *(f"{name} = {json.dumps(value, ensure_ascii=False)}" for name, value in server.items())]
    new = line.join(rows) + line
    if place := _table(text, path):
        start, end = place
        return TextEdit(text[:start] + new + text[end:], text[start:end], new)
    if text:
        new = ("" if text.endswith("\n") else line) + line + new
    return TextEdit(text + new, "", new)


def _cut_toml(text: str, path: Path) -> str:
    place = _table(text, path)
    if place is None:
        raise Invalid("file", "it is written in a way that memtape cannot edit safely", "Remove the entry yourself")
    return text[: place[0]] + text[place[1] :]
