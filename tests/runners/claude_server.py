"""Anthropic's streaming Messages API on this machine, for the real Claude Code command line, and that command line.

with claude_server() as server:
    server.plays(calls("get_brief", {}), Says("WAIT"))
    answer = runner_at(server, folder).run(question(...))
    server.messages(1)  # of the second request
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from memtape.plugs.clock import SystemClock
from memtape.runners.claude import ClaudeRunner
from tests.plugs.llm_server import (
    SOON,
    Calls,
    Says,
    anthropic_content,
    anthropic_events,
    anthropic_stop,
    event_bytes,
    in_awkward_parts,
)
from tests.plugs.provider_rules import anthropic_problem
from tests.plugs.scripted import Asked, Fails, Scripted, Streams, open_on_a_port

TOKENS, PRICE = (100, 20), "0.0008"  # of one reply of claude-opus-5-5
MODEL = "claude-opus-5-5"
MADE_UP_KEY = "sk-ant-made-up-for-the-tests"


class ClaudeServer(Scripted):
    """The provider of Claude Code, while it is open."""

    def messages(self, request: int = -1) -> list[dict[str, Any]]:
        """The messages of a request, without those that the command line tool itself adds about the machine."""
        return [one for one in self.asked[request].body["messages"] if one["role"] != "system"]

    def user_texts(self, request: int = -1) -> list[str]:
        """What the user said in a request."""
        return [text for one in self.messages(request) if one["role"] == "user" for text in _texts(one["content"])]

    def assistant_texts(self, request: int = -1) -> list[str]:
        """What the model had said before, according to a request."""
        return [text for one in self.messages(request) if one["role"] == "assistant" for text in _texts(one["content"])]

    def tool_results(self, request: int = -1) -> list[dict[str, Any]]:
        """The results of tools in a request."""
        blocks = [block for one in self.messages(request) if isinstance(one["content"], list) for block in one["content"]]
        return [block for block in blocks if block["type"] == "tool_result"]

    def system(self, request: int = -1) -> str:
        """The system prompt of a request, after what the command line tool puts before it."""
        return "\n".join(block["text"] for block in self.asked[request].body["system"][2:])


@contextmanager
def claude_server() -> Iterator[ClaudeServer]:
    """A provider on a port of its own, closed in the end."""
    server = ClaudeServer(_reply, _refusal, [Says("WAIT", tokens=TOKENS)], SOON, _wrong)
    with open_on_a_port(server):
        yield server


def calls(tool: str, input: dict[str, Any], text: str = "") -> Calls:
    """A reply that calls one of memtape's tools."""
    return Calls(((f"mcp__memtape__{tool}", input),), text, TOKENS)


def says(text: str, stop: str = "end") -> Says:
    """A reply in words."""
    return Says(text, stop, TOKENS)


def answers(data: dict[str, Any]) -> Calls:
    """A reply in the form of the schema, in the way of the command line tool."""
    return Calls((("StructuredOutput", data),), tokens=TOKENS)


def bundled_claude() -> str | None:
    """The command line tool in the package `claude-agent-sdk`, if that is installed."""
    package = find_spec("claude_agent_sdk")
    if package is None or not package.submodule_search_locations:
        return None
    binary = Path(package.submodule_search_locations[0], "_bundled", "claude")
    return str(binary) if binary.is_file() else None


def environment_at(server: ClaudeServer, home: Path) -> dict[str, str]:
    """The environment of an owner whose Claude Code talks to this server."""
    home.mkdir(exist_ok=True)
    return {
        "PATH": os.environ["PATH"], "HOME": str(home), "ANTHROPIC_BASE_URL": f"http://{server.host}", "ANTHROPIC_API_KEY": MADE_UP_KEY,
        "CLAUDE_CODE_MAX_RETRIES": "1", "MEMTAPE_DB": "postgresql://ann:secret@host/desk", "OPENAI_API_KEY": "sk-other",
    }  # fmt: skip


def runner_at(server: ClaudeServer, folder: Path, **other: Any) -> ClaudeRunner:
    """The runner with the real command line tool, a home and a working folder of its own."""
    made = {"binary": bundled_claude(), "folder": folder / "runs", "environment": environment_at(server, folder / "home")}
    return ClaudeRunner(**{**made, "clock": SystemClock(), **other})


def session_files(folder: Path) -> list[Path]:
    """The sessions that the command line tool keeps."""
    return sorted((folder / "home" / ".claude" / "projects").rglob("*.jsonl"))


def _texts(content: str | list[dict[str, Any]]) -> list[str]:
    return [content.strip()] if isinstance(content, str) else [one["text"].strip() for one in content if one["type"] == "text"]


def _wrong(asked: Asked) -> str | None:
    # The tool describes the machine in messages of the role `system`, which a beta header allows.
    return anthropic_problem(asked.body | {"messages": [one for one in asked.body["messages"] if one["role"] != "system"]})


def _refusal(part: Fails) -> dict[str, Any]:
    return {"type": "error", "error": {"type": "invalid_request_error", "message": part.said}}


def _reply(part: Says | Calls, asked: Asked) -> Streams:
    usage = dict(zip(("input_tokens", "output_tokens"), part.tokens or TOKENS, strict=True))
    message = {
        "id": f"msg_{os.urandom(6).hex()}", "type": "message", "role": "assistant", "model": asked.body["model"],
        "content": anthropic_content(part), "stop_reason": anthropic_stop(part), "stop_sequence": None, "usage": usage,
    }  # fmt: skip
    return Streams(in_awkward_parts(map(event_bytes, anthropic_events(message))))
