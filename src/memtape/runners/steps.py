"""Recording the steps of a run: what the model said and which tools it called, each with its time."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from memtape.core.decisions.runs import MAX_RUN_STEPS, MAX_RUN_TEXT, RunStep
from memtape.core.values import clean_text
from memtape.errors import MemtapeError
from memtape.plugs.clock import Clock
from memtape.runners.protocol import RunTool, ToolOutput

MILLISECOND = timedelta(milliseconds=1)
MAX_TOOL_NAME, MAX_CALL_ID = 64, 128  # characters, as in the log


@dataclass(slots=True)
class StepRecorder:
    """The steps of one run so far. The steps of one answer of the model have the same turn."""

    clock: Clock
    turn: int = 0
    _steps: list[RunStep] = field(default_factory=list)

    @property
    def steps(self) -> tuple[RunStep, ...]:
        """The recorded steps, as many as a log row may have."""
        return tuple(self._steps[:MAX_RUN_STEPS])

    def said(self, text: str, at: datetime | None = None) -> None:
        """Record what the model said beside its tool calls. Its final text is the answer, not a step."""
        if text.strip():
            self._steps.append(RunStep(at=at or self.clock.now(), turn=self.turn, kind="text", text=storable_text(text)))

    def called(
        self, tool: str, input: Mapping[str, Any], output: ToolOutput, *, began: datetime, ended: datetime,
        call_id: str | None = None,
    ) -> None:  # fmt: skip
        """Record a tool call with what came back."""
        self._steps.append(
            RunStep(
                at=began, turn=self.turn, kind="tool", text=storable_text(output.text), tool=_label(tool, MAX_TOOL_NAME),
                call_id=_label(call_id, MAX_CALL_ID) if call_id else None, input=storable_input(input),
                is_error=output.is_error, ms=max(0, (ended - began) // MILLISECOND),
            )
        )  # fmt: skip

    def call(self, tool: RunTool, input: Mapping[str, Any], call_id: str | None = None) -> ToolOutput:
        """Call a tool and record it. A refusal is text for the model, so that it can correct the call."""
        began = self.clock.now()
        try:
            output = tool.call(input)
        except MemtapeError as refused:
            output = ToolOutput(str(refused), is_error=True)
        self.called(tool.name, input, output, began=began, ended=self.clock.now(), call_id=call_id)
        return output

    def wrapped(self, tools: Sequence[RunTool]) -> tuple[RunTool, ...]:
        """Returns the tools such that each call is recorded as a turn of its own."""
        return tuple(replace(tool, call=partial(self._call_as_turn, tool)) for tool in tools)

    def _call_as_turn(self, tool: RunTool, input: Mapping[str, Any]) -> ToolOutput:
        output = self.call(tool, input, call_id=f"call_{len(self._steps) + 1}")
        self.turn += 1
        return output


def storable_text(text: str) -> str:
    """Returns a text that the log can hold: not too long, and valid Unicode.

    >>> storable_text("half a pair \\ud83d"), len(storable_text("x" * 300_000))
    ('half a pair ?', 200000)
    """
    return text[:MAX_RUN_TEXT].encode("utf-8", "replace").decode()


def storable_input(input: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the input of a tool call as JSON data. A model may send numbers that are not finite, or half characters.

    >>> storable_input({"symbol": "BTC"}), storable_input({"size": float("nan")})
    ({'symbol': 'BTC'}, {'unreadable': "{'size': nan}"})
    """
    try:
        text = json.dumps(dict(input), ensure_ascii=False, allow_nan=False)
        text.encode()
        if len(text) > MAX_RUN_TEXT:
            return {"unreadable": f"{len(text)} characters"}
    except (TypeError, ValueError, RecursionError):
        return {"unreadable": storable_text(repr(input))[:2_000]}
    data: dict[str, Any] = json.loads(text)
    return data


def _label(text: str, cap: int) -> str:
    """Returns a name that a model made up, in a form that the log takes."""
    try:
        return clean_text(text)[:cap] or "?"
    except ValueError:
        return ascii(text)[1:-1][:cap]
