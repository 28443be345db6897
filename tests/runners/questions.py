"""Questions to runners, tools that remember their calls, and runs of an earlier session."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from memtape.core.decisions.runs import AgentRun, RunEnd, RunStart, RunStep
from memtape.runners.protocol import RunQuestion, RunTool, ToolOutput

EIGHT = datetime(2026, 11, 16, 8, tzinfo=UTC)
ACTION_SCHEMA = {
    "type": "object",
    "properties": {"action": {"type": "string", "enum": ["BUY", "WAIT"]}, "confidence": {"type": "number"}},
    "required": ["action", "confidence"],
    "additionalProperties": False,
}


@dataclass
class TickingClock:
    """A clock that moves on by a quarter of a second each time it is read."""

    at: datetime = EIGHT

    def now(self) -> datetime:
        self.at += timedelta(milliseconds=250)
        return self.at


@dataclass
class PriceFeed:
    """A tool `get_price` that writes down what it was asked. Unknown symbols are refused."""

    asked: list[dict[str, Any]] = field(default_factory=list)

    def tool(self) -> RunTool:
        schema = {"type": "object", "properties": {"symbol": {"type": "string"}}, "required": ["symbol"]}
        return RunTool("get_price", "The last price of a symbol.", schema, self.price)

    def price(self, input: Mapping[str, Any]) -> ToolOutput:
        self.asked.append(dict(input))
        if input.get("symbol") != "BTC":
            return ToolOutput(f"symbol: there is no '{input.get('symbol')}'. Ask for BTC", is_error=True)
        return ToolOutput("65000.5")


def question(prompt: str = "What now?", **other: Any) -> RunQuestion:
    """A question to the agent `breakout`."""
    return RunQuestion(**{"agent": "breakout", "system": "You trade BTC.", "prompt": prompt} | other)


def earlier_run(id: str, prompt: str, text: str, steps: Sequence[RunStep] = ()) -> AgentRun:
    """A run of the session that ended well."""
    start = RunStart(id=id, agent="breakout", kind="scheduled", at=EIGHT, prompt=prompt, runner="llm")
    return AgentRun(start, RunEnd(run=id, at=EIGHT, result="ok", text=text, steps=tuple(steps)))
