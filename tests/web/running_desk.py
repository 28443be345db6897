"""A desk whose agents run: a runner that answers by what it is asked, and that can be held in the middle of an answer."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from threading import Event
from time import monotonic, sleep
from typing import Any

import pytest

import memtape
from memtape.core.decisions.runs import RunStep, RunUsage
from memtape.engine import Memory
from memtape.errors import RunFailed
from memtape.plugs.clock import FixedClock
from memtape.runners.protocol import RunnerAnswer, RunQuestion
from memtape.surfaces.registry import execute
from tests.runners.desk import BUY, HELD

MONDAY = datetime(2026, 3, 2, 10, 0, tzinfo=UTC)
CARD = {**BUY, "entry": 100, "invalidation": "A close back below 99.", "confidence": 0.7, "horizon": "two days",
        "reason": "Range high broken on rising volume."}  # fmt: skip


class DeskRunner:
    """Fills the card that it is asked for, grades a decision, or chats. While `held`, it does not answer."""

    name = "callable"

    def __init__(self) -> None:
        self.go = Event()
        self.go.set()
        self.questions: list[RunQuestion] = []
        self.card: dict[str, Any] = dict(CARD)
        self.grade: dict[str, Any] = dict(HELD)
        self.failure = ""
        self.chat = "I bought BTC because the range broke upwards."

    def run(self, question: RunQuestion) -> RunnerAnswer:
        self.questions.append(question)
        assert self.go.wait(30), "the runner was never let go"
        if self.failure:
            raise RunFailed("callable", self.failure, what="failed")
        usage = RunUsage(input_tokens=1_850, output_tokens=240, cost_usd=Decimal("0.0125"))
        asked = (question.schema or {}).get("properties", {})
        data = self.grade if "conviction_score" in asked else self.card if "thesis" in asked else None
        step = RunStep(at=MONDAY, turn=0, kind="text", text="I look at the range first.", ms=420)
        call = replace(step, kind="tool", tool="recall_memories", text='{"ranked": []}', input={"symbol": "BTC"}, ms=35)
        return RunnerAnswer(text="" if data else self.chat, data=data, usage=usage, steps=(step, call))

    @contextmanager
    def held(self) -> Iterator[None]:
        """Nothing is answered during the block."""
        self.go.clear()
        try:
            yield
        finally:
            self.go.set()


class RunningDesk:
    """A memory with two agents, `gold` and `macro`, and the runner of both."""

    def __init__(self, memory: Memory, clock: FixedClock, runner: DeskRunner) -> None:
        self.memory, self.clock, self.runner = memory, clock, runner

    def ask(self, operation: str, agent: str | None = "gold", **asked: Any) -> dict[str, Any]:
        return execute(self.memory, operation, asked, agent=agent)

    def configure(self, agent: str = "gold", **changes: Any) -> None:
        self.memory.configure_agent(agent, {"runner": "callable:desk:run", **changes})

    def later(self, minutes: float) -> None:
        self.clock.at += timedelta(minutes=minutes)

    def hour(self, symbol: str, o: str, h: str, l: str, c: str, agent: str = "gold") -> None:  # noqa: E741
        """The bar of the hour that begins now; the clock stays where it is."""
        start, end = self.clock.at, self.clock.at + timedelta(hours=1)
        bar = {"symbol": symbol, "t0": start, "t1": end, "o": o, "h": h, "l": l, "c": c}
        self.clock.at = end
        self.memory.agent(agent).observe({"bars": [bar]}, kind="bars")
        self.clock.at = start

    def run(self, agent: str = "gold", **asked: Any) -> str:
        return str(self.ask("run_agent", agent, **asked)["id"])

    def runs(self, kind: str | None = None, agent: str = "gold") -> list[dict[str, Any]]:
        return list(self.ask("list_runs", agent, kind=kind)["runs"])

    def until_runs(self, n: int, result: str = "ok", kind: str | None = None, agent: str = "gold") -> list[dict[str, Any]]:
        """Wait until so many runs have that result; they are started by a thread."""
        deadline = monotonic() + 20
        while len(found := [run for run in self.runs(kind, agent) if run["result"] == result]) < n:
            assert monotonic() < deadline, f"{len(found)} runs are {result}, not {n}"
            sleep(0.02)
        return found


@contextmanager
def running_desk(path: Path, patch: pytest.MonkeyPatch) -> Iterator[RunningDesk]:
    """The desk, in a store of its own."""
    clock, runner = FixedClock(MONDAY), DeskRunner()

    def configured(config: Any) -> DeskRunner:
        if config.runner is None:
            return original(config)  # type: ignore[no-any-return]
        return runner

    from memtape.surfaces import run_host

    original = run_host.configured_runner
    patch.setattr(run_host, "configured_runner", configured)
    with memtape.open(str(path / "desk.db"), clock=clock) as memory:
        memory.create_skill("breakout", strategy="Buy a close above the range.", avoid=["Never average down."])
        for agent in ("gold", "macro"):
            memory.create_agent(agent, skill="breakout")
        yield RunningDesk(memory, clock, runner)
