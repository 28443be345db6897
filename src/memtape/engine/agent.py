"""AgentMemory: what one agent remembers. `observe` writes; everything else hangs on it by name.

agent.ledger      trades, decisions, equity, performance        agent.documents   workspace, search, citations of lines
agent.memories    recall, beliefs, habits, affect, corrections  agent.rules       pinned rules, always in context
agent.plans       what is intended when                         agent.citations   what decisions rest on
agent.lessons     what closed trades taught                     agent.journal     notes that the agent adds
agent.briefs      what the agent is shown                       agent.proposals   edits that it proposes
agent.imports     files, previewed, committed, undone           agent.runs        executions, session, re-examinations
agent.outcomes    what became of decisions                      agent.events      exposure to the calendar
agent.view()      one transaction, one cutoff                   agent.simulation  terms of a simulation, answers of its model

A capability is imported when it is first used, so that a command starts with no more than it needs. What is recorded goes through
`recording.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any

from memtape.core.authors import LogAuthor
from memtape.core.skills import Agent
from memtape.engine.resources import Resources
from memtape.engine.scope import AgentScope
from memtape.store.rows import Head

if TYPE_CHECKING:
    from memtape.core.decisions.examinations import Examination
    from memtape.core.decisions.runs import AgentRun, RunEnd
    from memtape.core.observed import Claim, Closing, Decision, Observed, Tick
    from memtape.engine.agent_events import AgentEvents
    from memtape.engine.brief_cache import BriefCache
    from memtape.engine.brief_question import AssembledBrief
    from memtape.engine.briefs import Briefs
    from memtape.engine.documents.citations import Citations
    from memtape.engine.documents.journal import Journal
    from memtape.engine.documents.proposals import Proposals
    from memtape.engine.documents.rules import PinnedRules
    from memtape.engine.documents.workspace import Documents
    from memtape.engine.imports import Imports
    from memtape.engine.ledger import Ledger
    from memtape.engine.lessons import Lessons
    from memtape.engine.memories import Memories
    from memtape.engine.outcomes import DecisionOutcomes
    from memtape.engine.plans import Plans
    from memtape.engine.recording import Recording
    from memtape.engine.runs import BegunRun, Runs
    from memtape.engine.simulation import SimulationRecord
    from memtape.engine.view.view import View
    from memtape.engine.write.log_writer import Receipt
    from memtape.engine.write.waiting_ticks import WaitingTicks


class AgentMemory:
    """What one agent remembers."""

    def __init__(self, resources: Resources, agent: Agent, briefs: BriefCache) -> None:
        self.agent, self.resources, self._briefs = agent, resources, briefs
        self._scope = AgentScope(resources, agent)

    def said_by(self, author: LogAuthor) -> AgentMemory:
        """The same agent for another author: what is written through it is recorded as that author's."""
        return AgentMemory(self.resources.said_by(author), self.agent, self._briefs)

    # ---- capabilities ----------------------------------------------------------------------------------------------

    @cached_property
    def ledger(self) -> Ledger:
        """Trades, decisions, equity and performance."""
        from memtape.engine.ledger import Ledger

        return Ledger(self._scope)

    @cached_property
    def memories(self) -> Memories:
        """Recall, beliefs, habits, affect and their corrections."""
        from memtape.engine.memories import Memories

        return Memories(self._scope)

    @cached_property
    def plans(self) -> Plans:
        """What is intended when."""
        from memtape.engine.plans import Plans

        return Plans(self._scope)

    @cached_property
    def lessons(self) -> Lessons:
        """What closed trades taught."""
        from memtape.engine.lessons import Lessons

        return Lessons(self._scope)

    @cached_property
    def briefs(self) -> Briefs:
        """What the agent is shown."""
        from memtape.engine.briefs import Briefs

        return Briefs(self._scope, self._briefs)

    @cached_property
    def documents(self) -> Documents:
        """The workspace, and the search in it."""
        from memtape.engine.documents.workspace import Documents

        return Documents(self._scope)

    @cached_property
    def rules(self) -> PinnedRules:
        """Pinned rules, always in context."""
        from memtape.engine.documents.rules import PinnedRules

        return PinnedRules(self._scope)

    @cached_property
    def citations(self) -> Citations:
        """The lines of documents that decisions rest on."""
        from memtape.engine.documents.citations import Citations

        return Citations(self._scope)

    @cached_property
    def journal(self) -> Journal:
        """Notes that the agent adds."""
        from memtape.engine.documents.journal import Journal

        return Journal(self._scope)

    @cached_property
    def proposals(self) -> Proposals:
        """Edits that the agent proposes."""
        from memtape.engine.documents.proposals import Proposals

        return Proposals(self._scope)

    @cached_property
    def imports(self) -> Imports:
        """Files: previewed, committed, undone."""
        from memtape.engine.imports import Imports

        return Imports(self._scope)

    @cached_property
    def runs(self) -> Runs:
        """Executions, the session and re-examinations."""
        from memtape.engine.runs import Runs

        return Runs(self._scope)

    @cached_property
    def outcomes(self) -> DecisionOutcomes:
        """What became of decisions."""
        from memtape.engine.outcomes import DecisionOutcomes

        return DecisionOutcomes(self._scope)

    @cached_property
    def events(self) -> AgentEvents:
        """The exposure to the calendar."""
        from memtape.engine.agent_events import AgentEvents

        return AgentEvents(self._scope)

    @cached_property
    def simulation(self) -> SimulationRecord:
        """The terms of a simulation, and the answers of its model."""
        from memtape.engine.simulation import SimulationRecord

        return SimulationRecord(self._scope)

    @cached_property
    def recording(self) -> Recording:
        """What records observations and runs."""
        from memtape.engine.recording import Recording

        return Recording(self._scope, self.citations, self.runs)

    # ---- reading ---------------------------------------------------------------------------------------------------

    def view(
        self, as_of: datetime | None = None, head: int | None = None, owner_head: int | None = None
    ) -> AbstractContextManager[View]:
        """Open one read transaction with one cutoff; every read is a plain function of it."""
        return self._scope.view(as_of, head, owner_head)

    def head(self) -> Head:
        """The head of the agent's stream."""
        return self._scope.head()

    def now(self) -> datetime:
        """The moment that a question without one is about: in a simulation the last one observed, else the clock's."""
        return self._scope.now()

    # ---- writing ---------------------------------------------------------------------------------------------------

    def observe(
        self, observed: Observed | Mapping[str, Any], *, kind: str = "tick", backfill: bool = False,
        shown: AssembledBrief | None = None,
    ) -> Receipt:  # fmt: skip
        """Record a value of any observed kind: a tick, a fill, a decision, bars, the terms of an instrument, a correction, ...

        Plain data is read as a value of `kind`. With `backfill` it counts as known from its own time on, not from now. `shown`
        is the brief that the decision was taken on: that it was shown is recorded in the same transaction.
        """
        return self.recording.observe(observed, kind=kind, backfill=backfill, shown=shown)

    def record(
        self, value: Observed, *, backfill: bool = False, shown: AssembledBrief | None = None, run: str | None = None
    ) -> Receipt:
        """Record a value that has been validated; one write transaction, the record of what was shown included."""
        return self.recording.record(value, backfill=backfill, shown=shown, run=run)

    def waiting_ticks(self, on_receipt: Callable[[Tick, Receipt], object] | None, size: int) -> WaitingTicks:
        """Ticks that are written together, `size` at a time: see `WaitingTicks`."""
        from memtape.engine.write.waiting_ticks import WaitingTicks

        return WaitingTicks(self, on_receipt, size)

    def observe_ticks(
        self, ticks: Sequence[Tick], *, until_lessons_due: bool = False, simulated: bool = False
    ) -> list[Receipt]:  # fmt: skip
        """Record several ticks in one transaction, exactly as one after the other: see `Recording.observe_ticks`."""
        return self.recording.observe_ticks(ticks, until_lessons_due=until_lessons_due, simulated=simulated)

    def end_run(
        self, begun: BegunRun, end: RunEnd, *, decision: Decision | None = None, examination: Examination | None = None,
        shown: AssembledBrief | None = None,
    ) -> AgentRun:  # fmt: skip
        """Record how a run ended with everything that came of it, in one transaction."""
        return self.recording.end_run(begun, end, decision=decision, examination=examination, shown=shown)

    def remember_trade(self, claim: Claim | Mapping[str, Any], *, backfill: bool = False) -> Receipt:
        """Record a trade as the agent reports it, closed or still open."""
        return self.observe(claim, kind="claim", backfill=backfill)

    def close_trade(self, closing: Closing | Mapping[str, Any], *, backfill: bool = False) -> Receipt:
        """Record the end of a trade that the agent had reported open."""
        return self.observe(closing, kind="closing", backfill=backfill)
