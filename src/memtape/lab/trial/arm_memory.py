"""The memory of one arm, as a decision maker may ask it: advice before an entry, a brief, lessons.

It is an agent of the engine in a store of its own, in RAM. Ticks wait until something is asked and are written in one go, lessons
drawn between them as they are due, so a decision maker that never asks costs nothing. A question is answered as of the tick that
has just closed: the bar is known, and so are the trades that ended in it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from statistics import fmean
from typing import Any

from memtape.core.brief.inputs import Brief
from memtape.core.lessons.reflection import lessons_for_agent
from memtape.core.observed import Decision, Side, Tick
from memtape.core.trial.advice import TAKE, MemoryAdvice, advice_of, lessons_against
from memtape.core.trial.arms import LESSONS_ONLY, OFF, Arm
from memtape.core.trial.placebo import ShuffledOutcomes
from memtape.engine import AgentMemory
from memtape.engine.brief_question import AssembledBrief
from memtape.engine.view.situation import current_situation
from memtape.engine.write.log_writer import Receipt
from memtape.sim.run import BATCH_TICKS

LESSONS_SEGMENT = "lessons"
MEASURED_EVERY, MAX_MEASURED = 10, 20  # of the questions of a rule, for which briefs are also made to count their tokens


@dataclass(slots=True)
class ArmMemory:
    """What one arm knows. It is what a function gets as `memory`."""

    arm: Arm
    open_agent: Callable[[], AgentMemory]
    placebo: ShuffledOutcomes | None = None
    questions: int = 0
    advised: Counter[str] = field(default_factory=Counter)
    _agent: AgentMemory | None = None
    _waiting: list[Tick] = field(default_factory=list)
    _brief_tokens: list[tuple[int, int]] = field(default_factory=list)  # with the memory of this arm, and without memory

    # ---- what a decision maker may ask -------------------------------------------------------------------------------

    def advice(self, symbol: str, side: Side, strategy: str | None = None) -> MemoryAdvice:
        """What memory advises about an entry now: take, halve or skip, and why. Without memory always take."""
        if self.arm == OFF:
            return TAKE
        self.questions += 1
        agent = self._written()
        lessons = self._lessons_against(agent, symbol, side)
        if self.arm == LESSONS_ONLY:
            found = advice_of((), None, lessons)
        else:
            check = agent.memories.check_order(symbol=symbol, side=side, strategy=strategy)
            found = advice_of(check.reasons, check.recalled.evidence, lessons)
        self.advised[found.advised] += 1
        if self.questions % MEASURED_EVERY == 1 and len(self._brief_tokens) < MAX_MEASURED:
            self._brief_tokens.append((self.made_brief(symbol).brief.tokens, self._bare(agent, symbol).brief.tokens))
        return found

    def brief(self, symbol: str) -> str:
        """The brief as text, as far as this arm may know it; without memory: rules, limits and the account alone."""
        self.questions += self.arm != OFF
        return self.made_brief(symbol).brief.text

    def lessons(self) -> list[str]:
        """The active lessons; none without memory."""
        if self.arm == OFF:
            return []
        self.questions += 1
        agent = self._written()
        found, _ = agent.lessons.active()
        return [] if found is None else [one.text for one in lessons_for_agent(found.note.lessons, agent.now())]

    # ---- for the trial -----------------------------------------------------------------------------------------------

    @property
    def agent(self) -> AgentMemory:
        """The agent, opened when it is first needed."""
        if self._agent is None:
            self._agent = self.open_agent()
        return self._agent

    def observe(self, tick: Tick) -> None:
        """Take a tick, before anything is decided on it."""
        self._waiting.append(tick if self.placebo is None else self.placebo.tick(tick))

    def decided(self, decisions: tuple[Decision, ...]) -> None:
        """Take the decisions on the last tick: with it if it still waits, else by themselves."""
        if self.placebo is not None:
            decisions = tuple(self.placebo.decision(one) for one in decisions)
        if not decisions:
            return
        if self._waiting:
            self._waiting[-1] = replace(self._waiting[-1], decision=decisions)
        else:
            for decision in decisions:
                self.agent.observe(decision)

    def made_brief(self, symbol: str) -> AssembledBrief:
        """The brief of this arm, with what is needed to answer it."""
        agent = self._written()
        if self.arm == OFF:
            return self._bare(agent, symbol)
        whole = agent.briefs.make(symbol=symbol)
        if self.arm != LESSONS_ONLY:
            return whole
        bare = self._bare(agent, symbol)
        return replace(bare, brief=with_lessons(bare.brief, whole.brief))

    def tokens(self) -> dict[str, Any]:
        """Returns the mean tokens of a brief with the memory of this arm and without memory, and of how many briefs."""
        if not self._brief_tokens:
            return {"n": 0, "with": None, "without": None}
        own, bare = zip(*self._brief_tokens, strict=True)
        return {"n": len(own), "with": fmean(own), "without": fmean(bare)}

    def _bare(self, agent: AgentMemory, symbol: str) -> AssembledBrief:
        return agent.briefs.make(symbol=symbol, without_memory=True)

    def _lessons_against(self, agent: AgentMemory, symbol: str, side: Side) -> list[str]:
        found, _ = agent.lessons.active()
        if found is None:
            return []
        now = agent.now()
        shown = lessons_for_agent(found.lessons_shown(now), now)
        if not shown:
            return []
        with agent.view() as view:
            situation = current_situation(view, symbol)
        return lessons_against(shown, found.note.candidates, situation, at=now, symbol=symbol, side=side)

    def _written(self) -> AgentMemory:
        """The agent, with every tick so far on its record."""
        agent, waiting = self.agent, self._waiting
        self._waiting = []
        if waiting:
            with agent.waiting_ticks(self._draw_lessons, BATCH_TICKS) as ticks:
                for tick in waiting:
                    ticks.add(tick)
        return agent

    def _draw_lessons(self, tick: Tick, receipt: Receipt) -> None:
        if self.arm != OFF and receipt.reflection_due:
            self.agent.lessons.reflect_if_due()


def with_lessons(bare: Brief, whole: Brief) -> Brief:
    """Returns a brief without memory with the lessons of the whole one."""
    lessons = [one for one in whole.segments if one.name == LESSONS_SEGMENT]
    if not lessons:
        return bare
    place = next(n for n, one in enumerate(bare.segments) if one.name == "footer")
    segments = (*bare.segments[:place], *lessons, *bare.segments[place:])
    parts = [one.text for one in segments]
    cited = (*bare.citations, *(one for one in whole.citations if one.segment == LESSONS_SEGMENT))
    return replace(bare, segments=segments, text="\n\n".join(parts), tokens=bare.tokens + lessons[0].tokens, citations=cited)
