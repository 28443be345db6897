"""Conducts one run of an agent: begin it, ask its council, ask its runner, check the answer, record what came of it.

The model is asked outside any transaction, under the lease of the run. An answer that does not fit its form is asked for once
more; then the run fails and no decision is written. Council members run first and blind: they get their own skill and prompt, and
nothing of the account, the lead's brief, its prompt or its tools.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from threading import Event
from time import monotonic
from typing import Any

from memtape.core.authors import MODEL_AUTHOR, OWNER_AUTHOR, LogAuthor
from memtape.core.decisions.agent_config import AgentConfig
from memtape.core.decisions.cards import CardDefinition, card_schema, decision_from_answer
from memtape.core.decisions.examinations import Examination
from memtape.core.decisions.run_prompt import MemberAnswer, RunPrompt, member_prompt, member_system, records_of, run_prompt
from memtape.core.decisions.runs import (
    MAX_RUN_NOTE,
    MAX_RUN_STEPS,
    NO_USAGE,
    AgentRun,
    RunEnd,
    RunKind,
    RunResult,
    RunStep,
    RunUsage,
)
from memtape.core.ids import DecisionId
from memtape.core.observed import Decision, Run
from memtape.engine import AgentMemory, Memory
from memtape.engine.brief_question import AssembledBrief
from memtape.engine.reexamination import ReexaminationTask, reexamination_task
from memtape.engine.runs import LEASE_TIME, BegunRun, BusyRun
from memtape.errors import Conflict, Invalid, Locked, MemtapeError, RunFailed
from memtape.runners.lease import holding_lease
from memtape.runners.protocol import McpCommand, Runner, RunnerAnswer, RunQuestion, RunTool
from memtape.runners.steps import storable_text
from memtape.runners.storable import storable_answer, storable_failure

log = logging.getLogger(__name__)

WAIT_SECONDS = 600.0  # how long a message or a manual run waits for the run before it
POLL_SECONDS = 0.5
ATTEMPTS = 2  # an answer that does not fit is asked for once more
MAX_ERROR_LENGTH = 1_900
RECORD_SECONDS = 120.0  # how long the end of a run waits for a locked store


@dataclass(frozen=True, slots=True)
class RunHost:
    """What the host supplies to runs: who executes an agent, and its tools."""

    runner_of: Callable[[AgentConfig], Runner]
    tools_of: Callable[[str], Sequence[RunTool]] = lambda agent: ()
    mcp_of: Callable[[str], McpCommand | None] = lambda agent: None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunTask:
    """What a run is for."""

    kind: RunKind
    prompt: str
    slot: datetime | None = None
    parent: str | None = None
    examines: ReexaminationTask | None = None
    symbol: str | None = None  # what a re-examination is about; its council is told that and no more
    run_by: AgentConfig | None = None  # whose runner and model are used; None: the agent's own


@dataclass(frozen=True, slots=True)
class _Conclusion:
    """What an answer came to."""

    decision: Decision | None = None
    examination: Examination | None = None


def conduct_run(memory: Memory, host: RunHost, agent: str, task: RunTask, *, wait_seconds: float = WAIT_SECONDS) -> AgentRun:
    """Run an agent once and return the run with its end.

    Raises Conflict if another run is still at work after `wait_seconds`, Invalid if no runner is configured.
    """
    handle = memory.agent(agent)
    config = task.run_by or memory.agent_config(agent).config
    runner = host.runner_of(config)
    begun = _begin(handle, runner, config, task, wait_seconds)
    if isinstance(begun, AgentRun):
        return begun
    with holding_lease(lambda: handle.runs.extend(begun), LEASE_TIME, f"run {begun.start.id}"):
        return _Conductor(memory, host, handle, runner, begun, task).conduct()


def reexamine(memory: Memory, host: RunHost, agent: str, decision: str, *, wait_seconds: float = WAIT_SECONDS) -> AgentRun:
    """Examine a decision again in a fresh run of the same agent; a lead asks its council again."""
    examines = reexamination_task(memory.agent(agent), decision)
    task = RunTask(
        kind="re-examination", prompt=examines.prompt, parent=examines.run, examines=examines, symbol=examines.decision.symbol
    )
    return conduct_run(memory, host, agent, task, wait_seconds=wait_seconds)


def _begin(handle: AgentMemory, runner: Runner, config: AgentConfig, task: RunTask, wait_seconds: float) -> BegunRun | AgentRun:
    until = monotonic() + wait_seconds
    turn = Event()  # never set: it only waits
    while True:
        begun = handle.runs.begin(
            task.kind, task.prompt, runner=runner.name, model=config.model, parent=task.parent, slot=task.slot,
            decision=task.examines.decision.id if task.examines is not None else None,
        )  # fmt: skip
        if not isinstance(begun, BusyRun):
            return begun
        if monotonic() >= until:
            at_work = f"the run {begun.run.id} is at work" if begun.run is not None else "another run is at work"
            raise Conflict("agent", at_work, "Try again when it has ended")
        turn.wait(POLL_SECONDS)


class _Conductor:
    """One run, between its beginning and its end."""

    def __init__(
        self, memory: Memory, host: RunHost, handle: AgentMemory, runner: Runner, begun: BegunRun, task: RunTask
    ) -> None:
        self.memory, self.host, self.handle, self.runner, self.begun, self.task = memory, host, handle, runner, begun, task
        self.config = begun.config
        self.brief: AssembledBrief | None = None
        self.usage: RunUsage = NO_USAGE
        self.steps: tuple[RunStep, ...] = ()
        self.notes: list[str] = []
        self.text = ""  # the last answer, also of a run that fails

    def conduct(self) -> AgentRun:
        ended = False
        try:
            run = self._ended_run()
            ended = True
            return run
        finally:
            if not ended:
                # A bug, or ctrl-C: the run must not look as if it were still at work.
                self._fail("memtape or its host stopped before the run ended", "")

    def _ended_run(self) -> AgentRun:
        try:
            answer, conclusion = self._ask_until_it_fits()
        except RunFailed as failed:
            return self._fail(str(failed), failed.what)
        except Conflict:
            raise
        except MemtapeError as problem:
            return self._fail(str(problem), "")
        end = RunEnd(
            run=self.begun.start.id, at=self.begun.start.at, result="ok", text=answer.text, steps=self.steps, usage=self.usage,
            session_after=self._session_after(answer), note=self._note(),
        )  # fmt: skip
        try:
            return self._record(end, conclusion)
        except (Invalid, Conflict) as refused:
            return self._fail(f"what it concluded was refused: {refused}", "misfit")

    def _fail(self, why: str, what: str) -> AgentRun:
        result: RunResult = "stopped" if what == "budget_spent" else "failed"
        end = RunEnd(
            run=self.begun.start.id, at=self.begun.start.at, result=result, text=self.text, steps=self.steps, usage=self.usage,
            error=storable_text(why)[:MAX_ERROR_LENGTH], note=self._note(),
        )  # fmt: skip
        return self._record(end, _Conclusion())

    @property
    def _author(self) -> LogAuthor:
        # A Python function is the owner's own code; every other runner asks a model.
        return OWNER_AUTHOR if self.runner.name == "callable" else MODEL_AUTHOR

    def _record(self, end: RunEnd, conclusion: _Conclusion) -> AgentRun:
        """Record the end of the run. The answer is paid for: a locked store is tried again for a while."""
        until = monotonic() + RECORD_SECONDS
        while True:
            try:
                return self.handle.said_by(self._author).end_run(
                    self.begun, end, decision=conclusion.decision, examination=conclusion.examination, shown=self.brief
                )
            except Locked as locked:
                if monotonic() >= until:
                    log.error("the end of run %s cannot be recorded: %s Its answer: %s", self.begun.start.id, locked, end.text)
                    raise
                log.warning("the end of run %s waits: %s", self.begun.start.id, locked)

    def _session_after(self, answer: RunnerAnswer) -> str | None:
        before = self.begun.start.session_before
        if self.begun.keep_session and answer.session is None and before is not None and not self.begun.transcript:
            # The session is another runner's, and this one needs a transcript.
            self.notes.append(f"The session {before} is of another runner: a new one began, without the earlier runs.")
        # A runner that keeps no session itself is given the transcript from the log: its session is named after the run.
        return (answer.session or self.begun.start.id) if self.begun.keep_session else None

    def _note(self) -> str | None:
        return " ".join(self.notes)[:MAX_RUN_NOTE] or None

    # ---- asking ------------------------------------------------------------------------------------------------------

    def _ask_until_it_fits(self) -> tuple[RunnerAnswer, _Conclusion]:
        schema, conclude = self._form()
        council = self._council() if self.task.kind not in ("council", "chat") else ()
        misfit = ""
        for _ in range(ATTEMPTS):
            answer = self._ask(schema, council, misfit)
            try:
                return answer, conclude(answer)
            except Invalid as wrong:
                misfit = str(wrong)
        raise RunFailed(self.runner.name, f"its answer did not fit, twice: {misfit}", what="misfit")

    def _ask(self, schema: Mapping[str, Any] | None, council: Sequence[MemberAnswer], misfit: str) -> RunnerAnswer:
        question = self._question(schema, council, misfit)
        try:
            answer = storable_answer(self.runner.name, self.runner.run(question))
        except RunFailed as failed:
            self._add(*storable_failure(failed))
            raise
        self._add(answer.usage, answer.steps)
        self.text = answer.text
        if answer.note:
            self.notes.append(answer.note)
        if self.begun.budget_usd is not None and answer.usage.cost_usd is None:
            self.notes.append("The cost of this run is unknown, so it does not count towards budget_usd_per_day.")
        return answer

    def _add(self, usage: RunUsage, steps: tuple[RunStep, ...]) -> None:
        self.usage, self.steps = self.usage.plus(usage), (self.steps + steps)[:MAX_RUN_STEPS]

    def _question(self, schema: Mapping[str, Any] | None, council: Sequence[MemberAnswer], misfit: str) -> RunQuestion:
        begun, agent = self.begun, self.handle.agent.id
        left = None if begun.budget_usd is None else max(begun.budget_usd - (self.usage.cost_usd or 0), begun.budget_usd * 0)
        of_member = self.task.kind == "council"
        if of_member:
            skill, _ = self.memory.skill_of(self.handle.agent)
            system = member_system(agent, skill.name, skill.strategy, skill.avoid)
            parts = RunPrompt(prompt=self.task.prompt, misfit=misfit)
        else:
            self.brief = self.brief or self.handle.briefs.make(symbol=self.task.symbol)
            system = self.brief.brief.of("system")
            parts = RunPrompt(
                prompt=self.task.prompt, records=records_of(self.brief.brief), council=council, misfit=misfit,
                review=self.config.review_decisions and self.task.kind != "re-examination",
                has_heading=self.task.examines is not None,
                card=self.config.card if schema is not None and self.task.examines is None else None,
            )  # fmt: skip
        prompt = run_prompt(parts)
        return RunQuestion(
            agent=agent, system=system, prompt=prompt, stable_chars=self._stable_chars(prompt), model=begun.start.model,
            session=begun.start.session_before,
            keep_session=begun.keep_session, transcript=begun.transcript, tools=() if of_member else self.host.tools_of(agent),
            mcp=None if of_member else self.host.mcp_of(agent), schema=schema, budget_usd=left,
            session_cost_usd=begun.session_cost_usd,
        )  # fmt: skip

    def _stable_chars(self, prompt: str) -> int:
        """How far the prompt stays the same from run to run: to the end of the brief's recent trades."""
        stable = "" if self.brief is None else self.brief.brief.stable_records
        return prompt.index(stable) + len(stable) if stable and stable in prompt else 0

    # ---- the council -------------------------------------------------------------------------------------------------

    def _council(self) -> Sequence[MemberAnswer]:
        return [self._member_answer(member) for member in self.config.members]

    def _member_answer(self, member: str) -> MemberAnswer:
        try:
            run = self._member_run(member)
        except MemtapeError as problem:
            return MemberAnswer(member, "", str(problem))
        if run.end is None or run.end.result != "ok":
            return MemberAnswer(member, "", run.end.error or run.end.result if run.end is not None else "")
        return MemberAnswer(member, run.end.text)

    def _member_run(self, member: str) -> AgentRun:
        own = self.memory.agent_config(member).config
        if own.runner is None:
            # A specialist without a runner of its own is run by the lead's.
            own = replace(own, runner=self.config.runner, model=self.config.model)
        prompt = member_prompt(own.default_prompt, self.task.symbol)
        task = RunTask(kind="council", prompt=prompt, parent=self.begun.start.id, run_by=own)
        return conduct_run(self.memory, self.host, member, task)

    # ---- the form of the answer --------------------------------------------------------------------------------------

    def _form(self) -> tuple[Mapping[str, Any] | None, Callable[[RunnerAnswer], _Conclusion]]:
        """The schema of the answer, and what is made of it."""
        if (examines := self.task.examines) is not None:
            return examines.schema, lambda answer: _Conclusion(examination=examines.read(_answer_data(answer)))
        if self.task.kind in ("chat", "council") or not self.config.card:
            return None, lambda answer: _Conclusion()
        declared = self.memory.card_types()[self.config.card]
        return card_schema(declared), lambda answer: _Conclusion(decision=self._decision(declared, answer))

    def _decision(self, declared: CardDefinition, answer: RunnerAnswer) -> Decision:
        start, usage = self.begun.start, self.usage
        decision = decision_from_answer(declared, _answer_data(answer))
        run = Run(
            id=start.id, kind=start.kind, model=start.model, tokens_in=usage.input_tokens, tokens_out=usage.output_tokens,
            cost_usd=usage.cost_usd, digest=self.brief.brief.digest if self.brief is not None else None,
        )  # fmt: skip
        # One decision per run: it is named after its run.
        return replace(decision, id=DecisionId(start.id), run=run)


def _answer_data(answer: RunnerAnswer) -> Mapping[str, Any]:
    if answer.data is None:
        said = json.dumps(answer.text[:80], ensure_ascii=False)
        raise Invalid("answer", f"is not a JSON object in the given schema but {said}", "Answer with that object alone")
    return answer.data
