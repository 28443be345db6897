"""The programs that memtape can be connected to as an MCP server, where each keeps its servers, and what to write there.

The command has absolute paths: such a program starts it from a folder of its own and with a PATH of its own. `init`, `connect`
and the greeting of `serve --demo` all take the command from here.
"""

from __future__ import annotations

import os
import re
import shlex
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from memtape.core.value_class import dataclass

SERVER_NAME = "memtape"
PASSWORD = re.compile(r"(//[^:/@]+):[^@]*@")  # of a database, in its address


@dataclass(frozen=True, slots=True)
class McpClient:
    """A program, its settings file, and what its user does next."""

    name: str
    title: str
    group: str  # of the servers in its settings file
    next_step: str
    typed: bool = False  # its servers say that they talk on standard input and output
    toml: bool = False

    def file(self) -> Path:
        """Returns its settings file: in this folder for what belongs to a project, else in the home folder."""
        home = Path.home()
        return {
            "claude-code": Path.cwd() / ".mcp.json",
            "claude-desktop": _desktop_folder(home) / "Claude" / "claude_desktop_config.json",
            "cursor": home / ".cursor" / "mcp.json",
            "vscode": Path.cwd() / ".vscode" / "mcp.json",
            "codex": Path(os.environ.get("CODEX_HOME") or home / ".codex") / "config.toml",
            "gemini": home / ".gemini" / "settings.json",
        }[self.name]

    def server(self, command: Sequence[str]) -> dict[str, Any]:
        """Returns the entry of a server that is started with a command."""
        program, *arguments = command
        return {**({"type": "stdio"} if self.typed else {}), "command": program, "args": arguments}

    def block(self, command: Sequence[str], name: str = SERVER_NAME) -> str:
        """Returns its settings file with this server alone."""
        from memtape.surfaces.config_text import server_block

        return server_block((self.group, name), self.server(command), toml=self.toml)


def _desktop_folder(home: Path) -> Path:
    if sys.platform == "darwin":
        return home / "Library" / "Application Support"
    if sys.platform == "win32":
        return Path(os.environ.get("APPDATA") or home / "AppData" / "Roaming")
    return Path(os.environ.get("XDG_CONFIG_HOME") or home / ".config")


CLIENTS: Mapping[str, McpClient] = {
    client.name: client
    for client in (
        McpClient("claude-code", "Claude Code", "mcpServers", "Start claude in this folder and allow the server when it asks."),
        McpClient("claude-desktop", "Claude Desktop", "mcpServers", "Quit Claude Desktop and start it again."),
        McpClient("cursor", "Cursor", "mcpServers", "Open Cursor's settings, MCP, and switch the server on."),
        McpClient("vscode", "VS Code", "servers", "Open this folder in VS Code and start the server in the file.", typed=True),
        McpClient("codex", "Codex", "mcp_servers", "Start codex; /mcp lists the server.", toml=True),
        McpClient("gemini", "Gemini CLI", "mcpServers", "Start gemini; /mcp lists the server."),
    )
}


def server_command(db: str | None, agent: str, *, owner: str | None = None, tools: str | None = None) -> list[str]:
    """Returns the command of an MCP server for one agent of a store, with absolute paths and without a password."""
    # Imported when needed: `memtape --help` reads this module too.
    from memtape.compose import store_address

    command = [*program_command(), "mcp", "--agent", agent, "--db", re.sub(PASSWORD, r"\1@", store_address(db))]
    return [*command, *(["--owner", owner] if owner else []), *(["--tools", tools] if tools else [])]


def server_entry(db: str | None, agents: Sequence[str], *, owner: str | None = None) -> dict[str, Any]:
    """Returns the block of most programs as values, for the agent of a store that a model most likely uses."""
    from memtape.core.skills import DEFAULT_AGENT

    agent = agents[0] if agents and DEFAULT_AGENT not in agents else DEFAULT_AGENT
    client = CLIENTS["claude-code"]
    return {client.group: {SERVER_NAME: client.server(server_command(db, agent, owner=owner))}}


def program_command() -> list[str]:
    """Returns how this memtape is started from anywhere: the script beside the interpreter in use, else its module."""
    # Not resolved: the interpreter of a virtual environment is a link to one that knows no memtape.
    here = Path(sys.executable).absolute()
    script = here.with_name("memtape.exe" if sys.platform == "win32" else "memtape")
    return [str(script)] if script.is_file() else [str(here), "-m", "memtape.surfaces.cli.main"]


def claude_command_line(command: Sequence[str], name: str = SERVER_NAME) -> str:
    """Returns the line for a shell that adds a server to Claude Code.

    >>> claude_command_line(["/opt/my tools/memtape", "mcp", "--agent", "desk"])
    "claude mcp add memtape -- '/opt/my tools/memtape' mcp --agent desk"
    """
    return shlex.join(["claude", "mcp", "add", name, "--", *command])
