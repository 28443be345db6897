"""A desk for runs: a store with one agent, a clock that is set by hand, and a runner that answers from a list."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

from memtape.core.decisions.runs import NO_USAGE, AgentRun, RunUsage
from memtape.engine import Memory
from memtape.plugs.clock import FixedClock
from memtape.runners.conduct import RunHost, RunTask, conduct_run, reexamine
from memtape.runners.protocol import RunnerAnswer, RunQuestion
from memtape.store.sqlite import SqliteDatabase
from memtape.surfaces.run_host import run_host

MONDAY = datetime(2026, 3, 2, 10, 0, tzinfo=UTC)
BUY = {"symbol": "BTC", "action": "buy", "side": "long", "thesis": "range broke upwards", "stop": 98, "target": 104,
       "watch_for": ["retest holds", "volume stays"]}  # fmt: skip
HELD = {"conviction_score": 62, "notes": "The retest held.", "suggested_action": "HOLD", "watch_for": [
    {"item": "retest holds", "grade": "played out"}, {"item": "volume stays", "grade": "pending"}]}  # fmt: skip

Reply = Callable[[RunQuestion], Any] | Mapping[str, Any] | str | RunnerAnswer


class ScriptedRunner:
    """Answers one reply after the other, and keeps every question."""

    name = "callable"

    def __init__(self, *replies: Reply, usage: RunUsage = NO_USAGE) -> None:
        self.replies, self.usage = list(replies), usage
        self.questions: list[RunQuestion] = []

    def run(self, question: RunQuestion) -> RunnerAnswer:
        self.questions.append(question)
        reply = self.replies.pop(0) if len(self.replies) > 1 else self.replies[0]
        answer = reply(question) if callable(reply) else reply
        if isinstance(answer, RunnerAnswer):
            return answer
        if isinstance(answer, str):
            return RunnerAnswer(text=answer, usage=self.usage)
        return RunnerAnswer(text="", data=dict(answer), usage=self.usage)


class RunDesk:
    """One agent, `gold`, that is run by a script."""

    def __init__(self, *replies: Reply, database: Any = None, usage: RunUsage = NO_USAGE) -> None:
        self.clock = FixedClock(MONDAY)
        self.memory = Memory(database or SqliteDatabase(":memory:"), clock=self.clock)
        self.memory.create_skill("breakout", strategy="Buy a close above the range.", avoid=["Never average down."])
        self.memory.create_agent("gold", skill="breakout")
        self.runner = ScriptedRunner(*replies, usage=usage)
        self.host: RunHost = run_host(self.memory, lambda config: self.runner)

    @property
    def agent(self) -> Any:
        return self.memory.agent("gold")

    def later(self, minutes: float) -> None:
        self.clock.at += timedelta(minutes=minutes)

    def configure(self, agent: str = "gold", **changes: Any) -> None:
        self.memory.configure_agent(agent, {"runner": "llm", **changes})

    def run(self, kind: Any = "manual", prompt: str = "Analyse BTC.", agent: str = "gold", **more: Any) -> AgentRun:
        return conduct_run(self.memory, self.host, agent, RunTask(kind=kind, prompt=prompt, **more), wait_seconds=0)

    def reexamine(self, decision: str) -> AgentRun:
        return reexamine(self.memory, self.host, "gold", decision, wait_seconds=0)

    def hash_of(self, kind: str) -> str:
        with self.agent.view() as view:
            return next(row.hash for row in view.tables.log() if row.kind == kind)

    def bar(self, hour: float, o: str, h: str, l: str, c: str, symbol: str = "BTC") -> None:  # noqa: E741
        start = MONDAY + timedelta(hours=hour)
        bar = {"symbol": symbol, "t0": start, "t1": start + timedelta(hours=1), "o": o, "h": h, "l": l, "c": c}
        self.clock.at = max(self.clock.at, start + timedelta(hours=1))
        self.agent.observe({"bars": [bar]}, kind="bars")


def cost(usd: str, session: str | None = None) -> RunUsage:
    return RunUsage(input_tokens=100, output_tokens=10, cost_usd=Decimal(usd), session_cost_usd=Decimal(session) if session else None)
