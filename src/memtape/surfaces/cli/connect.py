"""`memtape connect`: print the settings that connect a program to an agent over MCP, write them, or take them back.

A settings file belongs to somebody else. It is written beside itself and renamed, so a reader sees the old file or the new one;
its mode stays; and what was put in is noted in ~/.memtape/connections.json, so that `--undo` restores the very bytes.
"""

from __future__ import annotations

import json
import os
import re
from contextlib import suppress
from errno import EACCES
from pathlib import Path
from typing import Annotated, Any

import typer

from memtape.errors import Invalid, NoStore, Unknown
from memtape.surfaces.cli.options import Db, Json, Owner, open_store, say
from memtape.surfaces.cli.printing import reporting
from memtape.surfaces.mcp_clients import CLIENTS, PASSWORD, SERVER_NAME, McpClient, claude_command_line, server_command
from memtape.surfaces.translate import json_text


def connect(
    program: Annotated[str, typer.Argument(help=f"{', '.join(CLIENTS)}.")],
    agent: Annotated[str | None, typer.Option("--agent", help="The agent. Default: the only one of the store, or main.")] = None,
    write: Annotated[bool, typer.Option("--write", help="Write it into the program's settings; all else in them stays.")] = False,
    undo: Annotated[bool, typer.Option("--undo", help="Take it out of the program's settings.")] = False,
    file: Annotated[Path | None, typer.Option("--file", help="Another settings file, like a project's .cursor/mcp.json.")] = None,
    tools: Annotated[str, typer.Option("--tools", help="One of trader, coach, full.")] = "trader",
    name: Annotated[str, typer.Option("--name", help="The name of the server there; for a second agent.")] = SERVER_NAME,
    db: Db = None, owner: Owner = None, as_json: Json = False,
) -> None:  # fmt: skip
    """Connect a program to an agent over MCP: print the block for its settings, write it there, or undo that."""
    with reporting(as_json):
        client = _client(program, name, write, undo)
        settings = SettingsFile(file or client.file(), client, name)
        if undo:
            _report({"program": client.name, "file": str(settings.path), "removed": settings.undo()}, as_json)
            return
        from memtape.surfaces.registry import tool_set

        command = server_command(
            db, _agent(db, owner, agent), owner=owner, tools=tools if tool_set(tools) != tool_set("trader") else None
        )
        made: dict[str, Any] = {"program": client.name, "file": str(settings.path), "block": client.block(command, name)}
        if client.name == "claude-code":
            made["command"] = claude_command_line(command, name)
        if write:
            try:
                made["written"] = settings.add(client.server(command))
            except Invalid:
                # What cannot be written can be pasted.
                if not as_json:
                    typer.echo(made["block"].encode(), nl=False)
                raise
        _report(made, as_json, client, _again(program, name, file))
        if PASSWORD.search(db or os.environ.get("MEMTAPE_DB", "")):
            say("The password of the database is not in it: put it into ~/.pgpass.")


def _client(program: str, name: str, write: bool, undo: bool) -> McpClient:
    if program not in CLIENTS:
        raise Invalid("program", f"'{program}' is not one that memtape knows", f"Choose one of {', '.join(CLIENTS)}")
    if not re.fullmatch(r"[A-Za-z0-9_-]{1,64}", name):
        raise Invalid("name", f"'{name}' cannot be the name of a server", "Use letters, digits, - and _")
    if write and undo:
        raise Invalid("undo", "cannot be given together with --write", "Choose one")
    return CLIENTS[program]


def _agent(db: str | None, owner: str | None, agent: str | None) -> str:
    """Returns the agent to bind to: one that exists, or the default agent of a store without agents."""
    from memtape.compose import store_address
    from memtape.core.skills import DEFAULT_AGENT

    where = store_address(db)
    if where == ":memory:":
        raise Invalid("db", "a store in memory ends with this command", "Name a file")
    if not where.startswith("postgres") and not Path(where).exists():
        if agent not in (None, DEFAULT_AGENT):
            problem = f"there is no such file, so it has no agent '{agent}'. Run: memtape init --db {where}"
            raise NoStore(url=where, problem=problem)
        return DEFAULT_AGENT
    with open_store(db, owner) as memory:
        known = [each.id for each in memory.agents()]
    if agent is None:
        if len(known) > 1 and DEFAULT_AGENT not in known:
            raise Invalid("agent", f"the store has several: {', '.join(known)}", "Choose one with --agent")
        return known[0] if len(known) == 1 else DEFAULT_AGENT
    if agent not in known and (known or agent != DEFAULT_AGENT):
        raise Unknown(
            "agent",
            "agent",
            agent,
            f"There are: {', '.join(known)}" if known else "There is none yet: create one with create_agent",
        )
    return agent


def _again(program: str, name: str, file: Path | None) -> str:
    """Returns the words that name the same settings once more."""
    named, at = "" if name == SERVER_NAME else f" --name {name}", f" --file {file}" if file else ""
    return f"memtape connect {program}{named}{at}"


def _report(made: dict[str, Any], as_json: bool, client: McpClient | None = None, again: str = "") -> None:
    """Print what was made. The block alone goes to stdout, so that it can be piped; the words around it to stderr."""
    if as_json:
        typer.echo(json_text(made).encode())
    elif client is None:
        typer.echo(f"Taken out of {made['file']}." if made["removed"] else f"It was not in {made['file']}; nothing was changed.")
    elif "written" in made:
        typer.echo(f"Written to {made['file']}." if made["written"] else f"It is in {made['file']} already; nothing was changed.")
        say(f"{client.next_step}\nTo take it back: {again} --undo")
    else:
        say(f"For {client.title}, in {made['file']}:\n")
        typer.echo(made["block"].encode(), nl=False)
        if "command" in made:
            say(f"\nOr as a command:\n\n{made['command']}")
        say("\nAdd --write to put it there; what else is in the file stays.")


class SettingsFile:
    """The settings file of a program, with the note of what memtape put into it."""

    def __init__(self, path: Path, client: McpClient, name: str) -> None:
        # A link stays a link: the file that it points to is written.
        self.path = path.expanduser().absolute().resolve()
        self.client, self.place = client, (client.group, name)
        self.notes = Path.home() / ".memtape" / "connections.json"
        self.key = f"{self.path}#{name}"

    def add(self, server: dict[str, Any]) -> bool:
        """Put the server in. Returns False if it is there already."""
        from memtape.surfaces.config_text import add_server, has_server

        text = self._read()
        if text is not None and has_server(text, self.place, server, toml=self.client.toml):
            return False
        # A server that memtape wrote earlier goes first, so that an undo leads back to what was there before it.
        before = self._without_ours(text)
        edit = add_server(before or "", self.place, server, toml=self.client.toml)
        notes = self._notes()
        made_folder = bool(notes.get(self.key, {}).get("made_folder")) or not self.path.parent.exists()
        self.path.parent.mkdir(parents=True, exist_ok=True)
        _replace(self.path, edit.text)
        notes[self.key] = {"old": None if before is None else edit.old, "new": edit.new, "made_folder": made_folder}
        self._write_notes(notes)
        return True

    def undo(self) -> bool:
        """Take the server out. Returns False if it is not there."""
        from memtape.surfaces.config_text import remove_server

        text = self._read()
        before = self._without_ours(text)
        if text is not None and before == text:
            before = remove_server(text, self.place, toml=self.client.toml)
        notes = self._notes()
        note = notes.pop(self.key, None)
        if before is None and text is not None:
            self.path.unlink()
            if note and note["made_folder"]:
                with suppress(OSError):  # somebody else has put something there
                    self.path.parent.rmdir()
        elif before is not None and before != text:
            _replace(self.path, before)
        if note is not None:
            self._write_notes(notes)
        return before != text

    def _without_ours(self, text: str | None) -> str | None:
        """Returns the text without what memtape noted; None if there was no file before. Otherwise the same text."""
        from memtape.surfaces.config_text import TextEdit, undo_edit

        note = self._notes().get(self.key)
        if text is None or note is None:
            return text
        if note["old"] is None:
            return None if text == note["new"] else text
        before = undo_edit(text, TextEdit("", note["old"], note["new"]))
        return text if before is None else before

    def _read(self) -> str | None:
        try:
            return self.path.read_bytes().decode("utf-8")
        except FileNotFoundError:
            return None
        except UnicodeDecodeError:
            raise Invalid("file", f"{self.path} is not UTF-8 text", "Paste the block into it yourself") from None
        except OSError as error:
            raise Invalid("file", f"{self.path} cannot be read ({error.strerror})", "Check its permissions") from None

    def _notes(self) -> dict[str, dict[str, Any]]:
        with suppress(FileNotFoundError, ValueError):
            found = json.loads(self.notes.read_text(encoding="utf-8"))
            if isinstance(found, dict):
                return found
        return {}

    def _write_notes(self, notes: dict[str, dict[str, Any]]) -> None:
        if notes:
            self.notes.parent.mkdir(parents=True, exist_ok=True)
            _replace(self.notes, json.dumps(notes, indent=1) + "\n", mode=0o600)
        else:
            self.notes.unlink(missing_ok=True)


def _replace(path: Path, text: str, mode: int | None = None) -> None:
    """Write a file beside itself and rename it, with the mode that it had."""
    try:
        if path.exists() and not path.stat().st_mode & 0o222:
            raise PermissionError(EACCES, "it is read-only")
        import tempfile  # every command imports this module

        number, beside = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        try:
            with os.fdopen(number, "wb") as out:
                out.write(text.encode())
                out.flush()
                os.fsync(out.fileno())
            Path(beside).chmod(path.stat().st_mode & 0o7777 if path.exists() else mode or 0o644)
            Path(beside).replace(path)
        finally:
            Path(beside).unlink(missing_ok=True)
    except OSError as error:
        fix = "Nothing was changed; check its permissions"
        raise Invalid("file", f"{path} cannot be written ({error.strerror})", fix) from None
