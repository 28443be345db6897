"""The runner `claude`: the Claude Code command line, with memtape's tools served by MCP.

The command line tool keeps the session itself, in a file of its own that belongs to the folder in which it runs. So each agent
has one folder for all its runs. Seen with version 2.1.326, and relied on here:

- without `--allowedTools` every tool call is denied, and the run still ends well;
- a resumed session keeps the system prompt of its first run, unless its snapshot is off;
- the cost of a result is that of the whole session, its tokens are those of the run, and a budget is for the run;
- an unknown session ends with exit code 1 and `No conversation found`;
- an answer that does not fit the schema ends well, without data.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory

from memtape.core.brief.sanitize import one_line, redact_secrets
from memtape.errors import RunFailed
from memtape.plugs.clock import Clock
from memtape.runners.claude_command import command_line, reduced_environment
from memtape.runners.claude_events import ClaudeEvents
from memtape.runners.claude_process import ProcessEnd, run_process
from memtape.runners.protocol import RESET_ADVICE, RunnerAnswer, RunQuestion
from memtape.runners.steps import storable_text

INSTALL = "Install Claude Code, or set MEMTAPE_CLAUDE to its path"
LOGIN = "Run `claude` once and log in, or set ANTHROPIC_API_KEY"
UPGRADE = "Upgrade Claude Code to 2.1.325 or later"
MAX_ERROR_LINES, MAX_PROBLEM_CHARS = 5, 600

_LOST = re.compile(r"no conversation found|--resume requires a valid session", re.IGNORECASE)
_OVERFLOW = re.compile(r"prompt is too long|context window limit|context_length_exceeded", re.IGNORECASE)
_NO_LOGIN = re.compile(r"not logged in|/login|invalid api key|authentication", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaudeRunner:
    """Runs an agent by the Claude Code command line."""

    binary: str
    folder: Path  # one folder for each agent is made in it
    environment: Mapping[str, str] = field(repr=False)  # of which a part is passed on
    clock: Clock

    @property
    def name(self) -> str:
        """Its name."""
        return "claude"

    def run(self, question: RunQuestion) -> RunnerAnswer:
        """Run the agent once. A session that is lost is replaced by a new one, and the answer says so."""
        if question.budget_usd is not None and question.budget_usd <= 0:
            raise RunFailed("claude", "nothing is left of the budget", what="budget_spent")
        try:
            return self._run_once(question)
        except RunFailed as failed:
            if failed.what != "session_lost":
                raise
        answer = self._run_once(replace(question, session=None, session_cost_usd=None))
        return replace(answer, note=f"The session {question.session} was not found: a new one began, without the earlier runs")

    def _run_once(self, question: RunQuestion) -> RunnerAnswer:
        events = ClaudeEvents(self.clock)
        end = self._execute(question, events)
        continued = question.keep_session and question.session is not None
        usage = events.usage(question.session_cost_usd if continued else None)
        if (failed := _failure(question, events, end)) is not None:
            what, problem, fix = failed
            raise RunFailed("claude", problem, fix, what=what, usage=usage, steps=events.steps())
        result = events.result or {}
        data, session = result.get("structured_output"), result.get("session_id")
        return RunnerAnswer(
            text=storable_text(events.text), data=data if isinstance(data, dict) else None,
            session=str(session) if session and question.keep_session else None, steps=events.steps(), usage=usage,
        )  # fmt: skip

    def _execute(self, question: RunQuestion, events: ClaudeEvents) -> ProcessEnd:
        def read(line: bytes) -> bool:
            events.read(line)
            # Without its tools the agent would answer from nothing, and the answer would be paid for.
            return not events.tools_failed

        folder = self.folder / question.agent
        try:
            folder.mkdir(parents=True, exist_ok=True)
            with TemporaryDirectory(prefix="memtape-") as files:
                return run_process(
                    command_line(self.binary, question, Path(files)), _not_a_command(question.prompt), read,
                    folder=folder.resolve(), environment=reduced_environment(self.environment),
                    timeout_seconds=question.timeout_seconds,
                )  # fmt: skip
        except (OSError, subprocess.SubprocessError) as error:
            problem = f"{self.binary} cannot be started: {error.strerror if isinstance(error, OSError) else error}"
            raise RunFailed("claude", problem, INSTALL, what="not_configured") from error


def _not_a_command(prompt: str) -> str:
    """Returns the prompt such that a slash at its beginning does not make it a command of the tool."""
    return f"\n{prompt}" if prompt.startswith("/") else prompt


def _failure(question: RunQuestion, events: ClaudeEvents, end: ProcessEnd) -> tuple[str, str, str] | None:
    """Returns what failed, the problem and the fix; None if the run ended well."""
    if events.tools_failed:
        command = " ".join((question.mcp.command, *question.mcp.arguments)) if question.mcp else ""
        return "not_configured", "the server of its tools could not be started", f"See what it prints: {redact_secrets(command)}"
    # A process that printed its result and then hangs has answered.
    if end.timed_out and events.result is None:
        return "timed_out", f"no answer within {question.timeout_seconds:g} s", ""
    if events.result is None:
        return _crash(events, end)
    subtype, said = str(events.result.get("subtype")), events.text
    if subtype == "success" and events.result.get("is_error") is not True and (end.code == 0 or end.timed_out):
        return None
    problem = one_line(redact_secrets(said), MAX_PROBLEM_CHARS).rstrip(".") or f"it ended with exit code {end.code}"
    status, reason = events.result.get("api_error_status"), events.result.get("terminal_reason")
    if _LOST.search(said):
        return "session_lost", problem, RESET_ADVICE
    if reason == "prompt_too_long" or _OVERFLOW.search(said):
        return "context_overflow", problem, RESET_ADVICE
    if subtype == "error_max_budget_usd":
        return "budget_spent", problem, ""
    if subtype == "error_max_structured_output_retries":
        return "misfit", problem, ""
    if events.result.get("stop_reason") == "refusal":
        return "refused", problem, ""
    if status in (401, 402, 403, 404) or _NO_LOGIN.search(said):
        return "not_configured", problem, LOGIN if status != 404 else "Name another model"
    if isinstance(status, int) and (status in (408, 409, 429) or status >= 500):
        return "unavailable", problem, "Retrying may help"
    return "bad_answer", problem, ""


def _crash(events: ClaudeEvents, end: ProcessEnd) -> tuple[str, str, str]:
    """Returns the failure of a process that printed no result."""
    printed = end.errors.strip() or events.printed.strip()
    lines = [one_line(redact_secrets(line), 200) for line in printed.splitlines()[:MAX_ERROR_LINES]]
    problem = f"it ended with exit code {end.code} and no result" + (f": {' / '.join(lines)}" if lines else "")
    if "unknown option" in printed or "option '--" in printed:
        return "not_configured", problem, UPGRADE
    return "crashed", problem, ""
