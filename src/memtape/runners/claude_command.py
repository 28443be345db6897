"""The command line and the environment of a run by Claude Code.

The command line tool is made for a person at a terminal. It reads that person's notes, hooks and plugins, attaches files that a
prompt mentions, and summarises a conversation that grows too long. A run of an agent must depend on its question alone, so all
of that is off: the agent has memtape's tools and no others, and what it knows of earlier runs is its session.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from memtape.core.codec import decimal_text
from memtape.runners.protocol import McpCommand, RunQuestion

SERVER = "memtape"
TOOL_PREFIX = f"mcp__{SERVER}__"
MAX_ARGUMENT_BYTES = 100_000  # Linux refuses an argument of 128 KiB

# What the tool needs to find its files, its login and its provider. The rest of the environment may hold secrets of the
# machine, and is kept away from it: also MEMTAPE_..., since its tools are told their store in their own command.
PASSED = frozenset({
    "PATH", "HOME", "USER", "LOGNAME", "TMPDIR", "TEMP", "TMP", "LANG", "LANGUAGE", "TZ", "SYSTEMROOT",
    "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy",
    "SSL_CERT_FILE", "SSL_CERT_DIR", "NODE_EXTRA_CA_CERTS",
    "CLAUDE_CONFIG_DIR", "CLAUDE_CODE_OAUTH_TOKEN", "CLAUDE_CODE_CLIENT_CERT", "CLAUDE_CODE_CLIENT_KEY",
    "CLAUDE_CODE_CLIENT_KEY_PASSPHRASE", "CLAUDE_CODE_MAX_RETRIES", "CLAUDE_CODE_MAX_OUTPUT_TOKENS", "CLOUD_ML_REGION",
})  # fmt: skip
# The provider: Anthropic's own address and key, or a cloud with its credentials. Not all of CLAUDE_CODE_...: where memtape
# itself was started by Claude Code, those describe the session around it.
PASSED_PREFIXES = (
    "LC_", "ANTHROPIC_", "CLAUDE_CODE_USE_", "CLAUDE_CODE_SKIP_", "AWS_", "GOOGLE_", "GCLOUD_", "VERTEX_", "AZURE_",
)  # fmt: skip
# Set whatever the environment says.
FIXED: Mapping[str, str] = MappingProxyType({
    # A prompt quotes the words of others. A path after an at sign in it would be read and sent to the model.
    "CLAUDE_CODE_DISABLE_ATTACHMENTS": "1",
    "CLAUDE_CODE_DISABLE_FILE_MENTIONS": "1",
    # What the agent remembers is its session and its brief, not notes of the tool or of the person at the machine.
    "CLAUDE_CODE_DISABLE_AUTO_MEMORY": "1",
    "CLAUDE_CODE_DISABLE_CLAUDE_MDS": "1",
    # A session that is too long fails with advice. A summary would drop instructions without a word.
    "DISABLE_AUTO_COMPACT": "1",
    # Every tool is in every request: the tool that finds others by search is off, like all built-in ones.
    "ENABLE_TOOL_SEARCH": "false",
    # No updates, surveys or telemetry from an unattended process.
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
})  # fmt: skip
# By default the tool tries ten times over three minutes, also with a wrong key.
DEFAULTS: Mapping[str, str] = MappingProxyType({"CLAUDE_CODE_MAX_RETRIES": "3"})


def reduced_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """Returns the part of an environment that Claude Code needs, with what is always set.

    >>> reduced = reduced_environment({"HOME": "/home/ann", "MEMTAPE_DB": "/desk.db", "ANTHROPIC_API_KEY": "k", "GH_TOKEN": "t"})
    >>> sorted(reduced.keys() - FIXED.keys()), reduced["DISABLE_AUTO_COMPACT"]
    (['ANTHROPIC_API_KEY', 'CLAUDE_CODE_MAX_RETRIES', 'HOME'], '1')
    """
    passed = {name: value for name, value in environment.items() if name in PASSED or name.startswith(PASSED_PREFIXES)}
    return {**DEFAULTS, **passed, **FIXED}


def command_line(binary: str, question: RunQuestion, files: Path) -> list[str]:
    """Returns the command of a run. What is too long or too secret for a command line is written into the folder `files`."""
    command = [
        binary, "-p",
        # One line of JSON for each event: the tool calls with their times are in them, also of a run that is killed.
        "--output-format", "stream-json", "--verbose",
        *_system(question.system, files), "--system-prompt-snapshot", "off",
        "--setting-sources", "", "--disable-slash-commands",
        "--strict-mcp-config", "--mcp-config", _mcp_config(question.mcp, files),
        "--allowedTools", TOOL_PREFIX.rstrip("_"), "--tools", "",
    ]  # fmt: skip
    if question.model:
        command += ["--model", question.model.removeprefix("anthropic/")]
    if question.schema is not None:
        command += ["--json-schema", json.dumps(question.schema)]
    if question.budget_usd is not None:
        command += ["--max-budget-usd", decimal_text(question.budget_usd)]
    if not question.keep_session:
        command.append("--no-session-persistence")
    elif question.session is not None:
        # A fork: the session before the run stays as it was, and can be continued again if this run fails.
        command += ["--resume", question.session, "--fork-session"]
    return command


def _system(text: str, files: Path) -> list[str]:
    # No command line can hold it, and no text needs it.
    text = text.replace("\0", "")
    if len(text.encode()) <= MAX_ARGUMENT_BYTES:
        return ["--system-prompt", text]
    return ["--system-prompt-file", _written(files / "system.txt", text)]


def _mcp_config(mcp: McpCommand | None, files: Path) -> str:
    if mcp is None:
        return json.dumps({"mcpServers": {}})
    server: dict[str, Any] = {"command": mcp.command, "args": list(mcp.arguments)}
    if not mcp.environment:
        return json.dumps({"mcpServers": {SERVER: server}})
    # Other users of the machine can read command lines. An environment may hold the password of a store.
    return _written(files / "mcp.json", json.dumps({"mcpServers": {SERVER: server | {"env": dict(mcp.environment)}}}))


def _written(path: Path, text: str) -> str:
    path.touch(mode=0o600)
    path.write_text(text, encoding="utf-8")
    return str(path)
