"""Sessions of an agent through any history of switches, resets and runs: the engine's answers compared with rules S1-S7 by hand."""

from __future__ import annotations

import random
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from hypothesis import given, settings
from hypothesis import strategies as st

from memtape.core.codec import time_text
from memtape.core.decisions.runs import RunEnd
from memtape.engine import AgentMemory, Memory
from memtape.engine.proof.audit import rebuild_store, verify_store
from memtape.engine.runs import BegunRun
from memtape.plugs.clock import FixedClock
from memtape.surfaces.caller import Caller
from memtape.surfaces.registry import find, perform
from tests.desk import given_memory
from tests.effort import examples

TEN = datetime.fromisoformat("2026-03-02T10:00:00Z")
KINDS = ("scheduled", "scheduled", "scheduled", "manual", "chat", "re-examination", "council")
OWNER = Caller("owner")


class Happened(NamedTuple):
    """One thing that happened: a switch (on or off), a reset, or a run with its end."""

    what: str
    at: datetime
    kind: str = ""
    ended: datetime | None = None
    result: str = ""
    session: str | None = None


def by_hand(history: list[Happened], now: datetime) -> dict[str, Any]:
    """Rules S1-S7, read off one by one."""
    on_since: list[tuple[datetime, bool]] = [(datetime.min.replace(tzinfo=TEN.tzinfo), False)]
    for one in sorted((one for one in history if one.what in ("on", "off") and one.at <= now), key=lambda one: one.at):
        if (one.what == "on") != on_since[-1][1]:
            on_since.append((one.at, one.what == "on"))

    def is_on(moment: datetime) -> bool:
        return [on for at, on in on_since if at <= moment][-1]

    anchors = [at for at, on in on_since if on] + [one.at for one in history if one.what == "reset" and one.at <= now]
    belonging = [
        one for one in history
        if one.what == "run" and one.ended is not None and one.ended <= now and one.result == "ok"
        and one.kind in ("scheduled", "manual", "chat") and anchors and one.at >= max(anchors) and is_on(one.at)
    ]  # fmt: skip
    written = sorted((one for one in belonging if one.session), key=lambda one: one.ended or now)
    if not is_on(now):
        return {"status": "Off", "runs_since_reset": None, "amber": False, "session_age": None, "resume": None}
    runs = sum(one.kind == "scheduled" for one in belonging)
    age = None if not written else _age(now - (written[-1].ended or now))
    return {
        "status": "Carrying context" if written else "Fresh", "runs_since_reset": runs, "amber": runs > 20, "session_age": age,
        "resume": written[-1].session if written else None,
    }  # fmt: skip


def _age(age: timedelta) -> str:
    minutes = int(age.total_seconds() // 60)
    days, hours, rest = minutes // 1440, minutes % 1440 // 60, minutes % 60
    first, second = (f"{days}d", f"{hours}h" if hours else "") if days else (f"{hours}h" if hours else "", f"{rest}m" if rest else "")
    return f"{first} {second}".strip() or "0m"


class Desk:
    """An agent whose clock goes on by at least a second with whatever happens."""

    def __init__(self, memory: Memory, dice: random.Random) -> None:
        self.memory, self.dice, self.history = memory, dice, []  # type: Memory, random.Random, list[Happened]
        self.heads: list[tuple[int, datetime, list[Happened]]] = []
        self.clock = FixedClock(TEN)
        memory.resources.clock = self.clock
        memory.create_skill("plain")
        memory.create_agent("gold", skill="plain")

    @property
    def agent(self) -> AgentMemory:
        return self.memory.agent("gold")

    def later(self) -> datetime:
        self.clock.at += timedelta(seconds=self.dice.choice((1, 20, 61, 3_000, 90_000)))
        return self.clock.at

    def state(self) -> None:
        """The owner switches, resets, or changes something else."""
        at, what = self.later(), self.dice.choice(("on", "on", "off", "reset", "other"))
        if what == "reset":
            self.agent.runs.reset_session()
            self.history.append(Happened("reset", at))
        elif what == "other":
            self.memory.configure_agent("gold", {"default_prompt": f"At {at}."})
        else:
            self.memory.configure_agent("gold", {"active_memory": what == "on"})
            self.history.append(Happened(what, at))

    def run(self) -> None:
        at, kind = self.later(), self.dice.choice(KINDS)
        wanted = by_hand(self.history, at)
        begun = self.agent.runs.begin(kind, "Analyse.", runner="llm")
        assert isinstance(begun, BegunRun)
        if kind in ("re-examination", "council"):
            assert begun.start.session_before is None and not begun.keep_session
        elif wanted["status"] != "Off":
            assert begun.start.session_before == wanted["resume"] and begun.keep_session
        elif kind != "chat":
            assert begun.start.session_before is None and not begun.keep_session
        while self.dice.random() < 0.25:
            self.state()
        result = self.dice.choice(("ok", "ok", "ok", "failed", "stopped", "lost"))
        if result == "lost":
            # Its process died: whoever looks after its lease is out ends it.
            self.clock.at += timedelta(minutes=2)
            lost = self.agent.runs.end_lost()
            assert lost is not None and lost.end is not None
            self.history.append(Happened("run", at, kind, lost.end.at, "lost"))
            return
        ended = self.later()
        kept = begun.start.id if result == "ok" and begun.keep_session and self.dice.random() < 0.9 else None
        end = RunEnd(run=begun.start.id, at=ended, result=result, session_after=kept)  # type: ignore[arg-type]
        self.agent.end_run(begun, end)
        self.history.append(Happened("run", at, kind, ended, result, kept))

    def compare(self) -> None:
        """At the present, and as of every moment in between."""
        moments = {self.clock.at, *(one.at for one in self.history), *(one.ended for one in self.history if one.ended)}
        for moment in sorted(moments):
            asked = {"agent": "gold", "as_of": time_text(moment)}
            found = perform(self.memory, find("get_session"), asked, OWNER)
            assert {name: found[name] for name in by_hand([], moment)} == by_hand(self.history, moment), moment
            listed = perform(self.memory, find("list_runs"), {**asked, "limit": 500}, OWNER)["runs"]
            begun = [one for one in self.history if one.what == "run" and one.at <= moment]
            known = [one.result if one.ended and one.ended <= moment else "running" for one in begun]
            assert [run["result"] for run in reversed(listed)] == known


def play(memory: Memory, seed: int) -> None:
    desk = Desk(memory, random.Random(seed))
    for _ in range(desk.dice.randint(3, 14)):
        desk.dice.choice((desk.state, desk.run, desk.run))()
        found = desk.agent.runs.session()
        assert (found.status, found.resume) == (by_hand(desk.history, desk.clock.at)["status"], by_hand(desk.history, desk.clock.at)["resume"])
        desk.heads.append((desk.agent.head().seq, desk.clock.at, list(desk.history)))
    desk.compare()
    for head, at, history in desk.heads:
        # A row of the agent's log, and the moment at which it was the last: nothing that came later is seen.
        found = desk.agent.runs.session(as_of=at, head=head)
        assert (found.status, found.runs_since_reset, found.resume) == tuple(by_hand(history, at)[name] for name in ("status", "runs_since_reset", "resume"))
    assert verify_store(memory).ok
    rebuild_store(memory)
    desk.compare()


@given(st.integers(0, 2**32))
@settings(max_examples=examples(40, 3_000))
def test_any_history_of_switches_resets_and_runs_gives_the_session_of_the_rules_at_every_moment(seed: int) -> None:
    with given_memory() as memory:
        play(memory, seed)


def test_both_stores_give_the_session_of_the_rules(memory: Memory) -> None:
    play(memory, 77)


def test_past_twenty_scheduled_runs_the_session_is_amber(memory: Memory) -> None:
    desk = Desk(memory, random.Random(1))
    memory.configure_agent("gold", {"active_memory": True})
    for number in range(21):
        desk.clock.at += timedelta(minutes=15)
        begun = desk.agent.runs.begin("scheduled", "Analyse.", runner="llm")
        desk.agent.end_run(begun, RunEnd(run=begun.start.id, at=desk.clock.at, result="ok", session_after=begun.start.id))
        assert desk.agent.runs.session().amber == (number == 20)
