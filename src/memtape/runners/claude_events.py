"""What Claude Code prints during a run: one line of JSON for each event.

The first event says which tools were found. Then come the model's messages, each block of a message in an event of its own, and
the results of tools. The last event is the result of the run.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal, InvalidOperation
from typing import Any

from memtape.core.decisions.runs import RunStep, RunUsage
from memtape.core.values import ZERO
from memtape.plugs.clock import Clock
from memtape.runners.claude_command import SERVER, TOOL_PREFIX
from memtape.runners.protocol import ToolOutput
from memtape.runners.steps import StepRecorder

ANSWER_TOOL = "StructuredOutput"  # how the command line tool has the model answer in the form of a schema
NO_RESULT = ToolOutput("(the run ended before the tool answered)", is_error=True)
MAX_PRINTED_CHARS = 2_000  # kept of lines that are not events
NANO = Decimal("1e-9")  # dollars; the tool adds binary floats


@dataclass(slots=True)
class _Said:
    at: datetime
    turn: int
    text: str


@dataclass(slots=True)
class _Called:
    at: datetime
    turn: int
    id: str
    name: str
    input: Mapping[str, Any]
    output: ToolOutput = NO_RESULT
    ended: datetime | None = None


@dataclass(slots=True)
class ClaudeEvents:
    """The events of a run so far."""

    clock: Clock
    result: Mapping[str, Any] | None = None
    tools_failed: bool = False  # the server of the tools could not be started
    printed: str = ""  # lines that are not events
    _moments: list[_Said | _Called] = field(default_factory=list)
    _message: str | None = None
    _turn: int = -1

    def read(self, line: bytes) -> None:
        """Read one printed line."""
        try:
            event = json.loads(line)
        except (ValueError, RecursionError):
            event = None
        if not isinstance(event, dict):
            self.printed = (self.printed + line.decode("utf-8", "replace"))[:MAX_PRINTED_CHARS]
            return
        match event.get("type"):
            case "system" if event.get("subtype") == "init":
                servers = {each.get("name"): each.get("status") for each in _objects(event.get("mcp_servers"))}
                self.tools_failed = servers.get(SERVER) == "failed"
            # A message with an error was written by the tool itself, and its text is in the result too.
            case "assistant" if event.get("error") is None and event.get("parent_tool_use_id") is None:
                self._read_message(event)
            case "user":
                self._read_results(event)
            case "result":
                self.result = event

    def _read_message(self, event: Mapping[str, Any]) -> None:
        message = _object(event.get("message"))
        # The blocks of one message arrive one by one, each with the id of the message.
        if message.get("id") != self._message or self._message is None:
            self._message, self._turn = message.get("id"), self._turn + 1
        for block in _objects(message.get("content")):
            if block.get("type") == "text":
                self._moments.append(_Said(self._at(event), self._turn, str(block.get("text") or "")))
            elif block.get("type") == "tool_use":
                name, input = str(block.get("name") or ""), _object(block.get("input"))
                self._moments.append(_Called(self._at(event), self._turn, str(block.get("id") or ""), name, input))

    def _read_results(self, event: Mapping[str, Any]) -> None:
        for block in _objects(_object(event.get("message")).get("content")):
            for call in self._moments:
                if isinstance(call, _Called) and call.ended is None and call.id == block.get("tool_use_id"):
                    call.output = ToolOutput(_block_text(block.get("content")), is_error=block.get("is_error") is True)
                    call.ended = self._at(event)

    def _at(self, event: Mapping[str, Any]) -> datetime:
        """When something happened, as the event says; else now, when it is read."""
        try:
            at = datetime.fromisoformat(str(event.get("timestamp")))
        except ValueError:
            return self.clock.now()
        return at if at.tzinfo is not None else self.clock.now()

    def steps(self) -> tuple[RunStep, ...]:
        """The steps of the run: what the model said before its answer, and its calls of memtape's tools."""
        recorder = StepRecorder(self.clock)
        answer = self.text.strip()
        for moment in self._moments:
            recorder.turn = moment.turn
            if isinstance(moment, _Called):
                if moment.name != ANSWER_TOOL or moment.output.is_error:
                    recorder.called(
                        moment.name.removeprefix(TOOL_PREFIX), moment.input, moment.output, began=moment.at,
                        ended=moment.ended or moment.at, call_id=moment.id or None,
                    )  # fmt: skip
            elif moment.turn < self._turn or moment.text.strip() != answer:
                recorder.said(moment.text, moment.at)
        return recorder.steps

    @property
    def text(self) -> str:
        """The text of the result: the answer, or the message of a failure."""
        result = self.result or {}
        errors = result.get("errors")
        return str(result.get("result") or "") or "; ".join(map(str, errors if isinstance(errors, list) else ()))

    def usage(self, session_cost_before: Decimal | None) -> RunUsage:
        """What the run cost. The tool reports the tokens of the run, but the cost of the whole session."""
        result = self.result or {}
        total = _dollars(result.get("total_cost_usd"))
        tokens = _object(result.get("usage"))
        counted = [tokens.get(f"{kind}input_tokens") for kind in ("", "cache_creation_", "cache_read_")]
        known = [count for count in counted if isinstance(count, int) and count >= 0]
        output = tokens.get("output_tokens")
        return RunUsage(
            input_tokens=sum(known) if known else None,
            output_tokens=output if isinstance(output, int) and output >= 0 else None,
            cost_usd=None if total is None else max(total - (session_cost_before or ZERO), ZERO), session_cost_usd=total,
        )  # fmt: skip


def _dollars(amount: object) -> Decimal | None:
    """Returns an amount without the noise of binary floats.

    >>> _dollars(0.0024000000000000002), _dollars(None)
    (Decimal('0.0024'), None)
    """
    if isinstance(amount, bool) or not isinstance(amount, int | float):
        return None
    try:
        rounded = Decimal(str(amount)).quantize(NANO)
    except InvalidOperation:
        return None
    return rounded.normalize() if rounded > 0 else ZERO


def _block_text(content: object) -> str:
    if isinstance(content, str):
        return content
    return "\n".join(str(block.get("text") or f"({block.get('type')})") for block in _objects(content))


def _object(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _objects(value: object) -> Sequence[Mapping[str, Any]]:
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []
