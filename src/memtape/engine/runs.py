"""An agent's runs: beginning one, ending it, its session and its budget. The model is asked in between, by `runners/conduct.py`.

One run at a time: a lease, extended while the model works, says who runs the agent now. It is taken in the same transaction that
records the start of the run, and given back in the one that records its end. A run whose lease ran out, because its process died,
is ended as `lost` by the next process that looks; the late answer of such a run is refused, so its session is never stored.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from memtape.core.codec import EPOCH, MICROSECOND, make_id, plain
from memtape.core.decisions.agent_config import AgentConfig
from memtape.core.decisions.runs import AgentRun, RunEnd, RunStart
from memtape.core.decisions.sessions import (
    SESSION_KINDS,
    MemorySwitched,
    SessionReset,
    chat_session,
    session_status,
)
from memtape.core.items import Item
from memtape.core.values import read
from memtape.engine.view import open_view
from memtape.engine.view.agent_config import configured_agent, stated_configs
from memtape.engine.view.examinations import examination_of_run, examinations
from memtape.engine.view.runs import (
    agent_run,
    agent_runs,
    last_run,
    last_scheduled_start,
    spending_on_day,
    transcript,
)
from memtape.errors import Conflict, Unknown
from memtape.store.cutoff import EVERYTHING
from memtape.store.leases import Leases

if TYPE_CHECKING:
    from memtape.core.decisions.agent_config import ConfiguredAgent
    from memtape.core.decisions.examinations import Examination
    from memtape.core.decisions.runs import RunKind
    from memtape.core.decisions.sessions import (
        SessionEvent,
        SessionStatus,
    )
    from memtape.engine.scope import AgentScope
    from memtape.engine.view.examinations import RecordedExamination
    from memtape.engine.view.runs import (
        DaySpending,
    )
    from memtape.engine.view.view import View
    from memtape.store.tables import Tables

RUN_LEASE = "run"
LEASE_TIME = timedelta(seconds=60)  # a process that dies is noticed after this time
CHAT_RUNS_LOOKED_AT = 50


@dataclass(frozen=True, slots=True)
class BegunRun:
    """A run that has begun: what it may use, and the lease that it holds."""

    start: RunStart
    holder: str
    config: AgentConfig
    keep_session: bool
    transcript: Sequence[AgentRun]
    session_cost_usd: Decimal | None  # what its session had cost before
    budget_usd: Decimal | None  # what is left of the day's budget; None: no limit


@dataclass(frozen=True, slots=True)
class BusyRun:
    """Another run of the agent is at work."""

    run: AgentRun | None


class Runs:
    """The runs of one agent."""

    def __init__(self, scope: AgentScope) -> None:
        self._scope = scope

    # ---- reading -----------------------------------------------------------------------------------------------------

    def newest(
        self, *, limit: int = 50, kind: str | None = None, before: datetime | None = None, as_of: datetime | None = None,
        head: int | None = None,
    ) -> list[AgentRun]:  # fmt: skip
        """Runs, the newest first."""
        with self._scope.view(as_of, head) as view:
            return agent_runs(view, limit=limit, kind=kind, before=before)

    def find(self, id: str, *, as_of: datetime | None = None, head: int | None = None) -> AgentRun | None:
        """One run, if it exists."""
        with self._scope.view(as_of, head) as view:
            return agent_run(view, id)

    def get(self, id: str, *, as_of: datetime | None = None, head: int | None = None) -> AgentRun:
        """One run; raises Unknown if there is none."""
        found = self.find(id, as_of=as_of, head=head)
        if found is None:
            raise Unknown("run", "run", id, "List them with list_runs")
        return found

    def configured(self) -> ConfiguredAgent:
        """The configuration in force."""
        with self._scope.view() as view:
            return configured_agent(view.owner_tables, self._scope.agent.id)

    def session(self, as_of: datetime | None = None, head: int | None = None) -> SessionStatus:
        """The agent's session: off, fresh, or carrying context."""
        with self._scope.view(as_of, head) as view:
            return agent_session(view)

    def session_breaks(self) -> list[MemorySwitched | SessionReset]:
        """When chat did not go on with the session before: every reset and every switch of Active Memory, oldest first."""
        with self._scope.view() as view:
            switches, resets = _stated_switches(view), [SessionReset(item.at) for item in view.items("session_reset")]
        changed = [new for old, new in itertools.pairwise([MemorySwitched(EPOCH, False), *switches]) if new.on != old.on]
        return sorted([*changed, *resets], key=lambda each: each.at)

    def spending(self) -> DaySpending:
        """What the runs of today came to."""
        with self._scope.view() as view:
            return spending_on_day(view, view.as_of)

    def last_scheduled(self) -> datetime | None:
        """When the last scheduled run began."""
        with self._scope.view() as view:
            return last_scheduled_start(view)

    def examinations(self, decision: str | None = None) -> list[RecordedExamination]:
        """The re-examinations of one decision, or of all, oldest first."""
        with self._scope.view() as view:
            return examinations(view, decision)

    def examinations_of_run(self, id: str) -> list[RecordedExamination]:
        """The re-examinations of what a run decided, oldest first; `id` is the run, or the decision itself.

        memtape names a decision after its run. One that an agent recorded by itself may name a run of the agent's own.
        """
        with self._scope.view() as view:
            if found := examinations(view, id):
                return found
            examining = {run.id for run in agent_runs(view, kind="re-examination") if run.start.parent == id}
            return [one for one in examinations(view) if one.run in examining] if examining else []

    def examination(self, run: str) -> RecordedExamination | None:
        """What a re-examination found."""
        with self._scope.view() as view:
            return examination_of_run(view, run)

    # ---- writing -----------------------------------------------------------------------------------------------------

    def reset_session(self) -> SessionStatus:
        """Start the session afresh; messages and runs stay on record."""
        with self._scope.writing() as tables:
            at = self._stated_at(tables)
            key = f"reset#{tables.head().seq + 1}"
            self._scope.writer(tables).declare(Item("session_reset", key, at, {"at": plain(at)}), at)
        return self.session()

    def begin(
        self, kind: RunKind, prompt: str, *, runner: str, model: str | None = None, parent: str | None = None,
        decision: str | None = None, slot: datetime | None = None,
    ) -> BegunRun | BusyRun | AgentRun:  # fmt: skip
        """Take the lease and record that a run began.

        Returns BusyRun if another run is at work or has had this slot of the schedule, and the ended run if the budget of the day
        is spent. A run left behind by a process that died is ended first, as lost. An answer without a runner needs no budget.
        """
        holder, now = uuid4().hex, self._scope.resources.clock.now()
        with self._scope.writing() as tables:
            with open_view(self._scope.resources, tables, self._scope.agent) as view:
                if slot is not None and (last := last_scheduled_start(view)) is not None and last >= slot:
                    # Another process has run the agent for this moment of its schedule.
                    return BusyRun(last_run(view))
                if not Leases(tables).take(RUN_LEASE, holder, now, now + LEASE_TIME):
                    return BusyRun(last_run(view))
                begun = self._begun(view, holder, kind, prompt, runner, model, parent, decision, slot)
                left_behind = last_run(view)
                spent = ""
                if begun.start.asks_model:
                    spent = _spent_budget(spending_on_day(view, begun.start.at), begun.config)
            writer, at = self._scope.writer(tables), begun.start.at
            if left_behind is not None and left_behind.end is None:
                writer.declare(_end_item(_lost(left_behind.start, at)), at)
                begun = replace(begun, start=replace(begun.start, id=make_id(self._scope.agent.id, "run", writer.seq + 1)))
            # What cannot be read again must not be written: the agent could not be run any more.
            start = plain(read(RunStart, plain(begun.start)))
            writer.declare(Item("run", begun.start.id, at, start, kind), at)
            if not spent:
                return begun
            stopped = RunEnd(run=begun.start.id, at=at, result="stopped", error=spent)
            writer.declare(_end_item(stopped), at)
            Leases(tables).release(RUN_LEASE, holder)
            return AgentRun(begun.start, stopped)

    def _begun(
        self, view: View, holder: str, kind: RunKind, prompt: str, runner: str, model: str | None, parent: str | None,
        decision: str | None, slot: datetime | None,
    ) -> BegunRun:  # fmt: skip
        config = configured_agent(view.owner_tables, self._scope.agent.id).config
        shares, session = kind in SESSION_KINDS, None
        events = session_events(view)
        if shares and config.active_memory:
            session = session_status(events, view.as_of).resume
        elif kind == "chat":
            session = chat_session(events, view.as_of)
        at = self._stated_at(view.tables)
        start = RunStart(
            id=make_id(self._scope.agent.id, "run", view.tables.head().seq + 1), agent=self._scope.agent.id, kind=kind, at=at,
            prompt=prompt, runner=runner, model=model, parent=parent, decision=decision, session_before=session, slot=slot,
        )  # fmt: skip
        spent = spending_on_day(view, at).cost_usd
        left = None if config.budget_usd_per_day is None else max(config.budget_usd_per_day - spent, Decimal(0))
        return BegunRun(
            start, holder, config, keep_session=kind == "chat" or (shares and config.active_memory),
            transcript=transcript(view, session, [each for each in events if isinstance(each, AgentRun)]),
            session_cost_usd=_session_cost(events, session), budget_usd=left,
        )  # fmt: skip

    def _stated_at(self, tables: Tables) -> datetime:
        """When something begins or ends: now; if the clock was set back, right after what is on record of runs and resets.

        Which session is continued, and which run was left behind, follow from the order of these times.
        """
        newest = [tables.items(kind, EVERYTHING, newest=True, limit=1) for kind in ("run", "run_end", "session_reset")]
        now, last = self._scope.stated_at(tables), max((item.at for found in newest for item in found), default=EPOCH)
        return now if now >= last else last + MICROSECOND

    def extend(self, begun: BegunRun) -> bool:
        """Keep the lease while the model works. Returns False if it was lost meanwhile."""
        now = self._scope.resources.clock.now()
        with self._scope.resources.repairing(self._scope.agent.id) as tables:
            return Leases(tables).extend(RUN_LEASE, begun.holder, now + LEASE_TIME)

    def end(self, begun: BegunRun, end: RunEnd, write: Callable[[Tables], str | None] = lambda tables: None) -> AgentRun:
        """Record how a run ended, give the lease back, and `write` what it concluded: one transaction.

        `write` returns the id of the decision that it recorded. Raises Conflict if the run was ended as lost meanwhile: nothing
        of it is written then.
        """
        with self._scope.writing() as tables:
            if _has_ended(tables, begun.start.id):
                raise Conflict("run", f"the run {begun.start.id} was ended as lost meanwhile", "Run the agent again")
            decision = write(tables)
            at = max(begun.start.at, self._stated_at(tables))
            end = read(RunEnd, plain(replace(end, at=at, decision=decision)))
            self._scope.writer(tables).declare(_end_item(end), at)
            Leases(tables).release(RUN_LEASE, begun.holder)
        return AgentRun(begun.start, end)

    def end_lost(self) -> AgentRun | None:
        """End the last run as lost if its process died; returns it. Otherwise nothing is written."""
        holder, now = uuid4().hex, self._scope.resources.clock.now()
        with self._scope.view() as view:
            found = last_run(view)
        if found is None or found.end is not None:
            return None
        with self._scope.writing() as tables:
            if not Leases(tables).take(RUN_LEASE, holder, now, now + LEASE_TIME):
                return None
            Leases(tables).release(RUN_LEASE, holder)
            if _has_ended(tables, found.id):
                return None
            lost = _lost(found.start, self._stated_at(tables))
            self._scope.writer(tables).declare(_end_item(lost), lost.at)
        return AgentRun(found.start, lost)


def session_events(view: View) -> list[SessionEvent]:
    """Everything that an agent's session follows from: its switch, its resets, and its runs since it was last begun afresh."""
    switches = _stated_switches(view)
    resets = [SessionReset(item.at) for item in view.items("session_reset")]
    begun = [reset.at for reset in resets]
    begun += [new.at for old, new in itertools.pairwise([MemorySwitched(EPOCH, False), *switches]) if new.on and not old.on]
    # Runs before that are no part of any session. An agent whose memory was never on has only the session of its chat.
    runs = agent_runs(view, since=max(begun)) if begun else agent_runs(view, kind="chat", limit=CHAT_RUNS_LOOKED_AT)
    return [*switches, *resets, *runs]


def _stated_switches(view: View) -> list[MemorySwitched]:
    if view.agent.mode == "sim":
        # The owner's statements are made by another clock than the agent's: what was stated last holds for all of its time.
        stated = stated_configs(view.owner_tables, view.agent.id, replace(view.cutoff.owners(), as_of=None))
        return [MemorySwitched(EPOCH, bool(item.body.get("active_memory"))) for item in stated[-1:]]
    stated = stated_configs(view.owner_tables, view.agent.id, view.cutoff.owners())
    return [MemorySwitched(item.known_at, bool(item.body.get("active_memory"))) for item in stated]


def agent_session(view: View) -> SessionStatus:
    """The session at the moment of a view."""
    return session_status(session_events(view), view.as_of)


def write_examination(scope: AgentScope, tables: Tables, run: str, decision: str, found: Examination) -> None:
    """Record what a re-examination found; the decision's own row stays as it is."""
    body: Mapping[str, Any] = {"decision": decision, **plain(found)}
    at = scope.stated_at(tables)
    scope.writer(tables).declare(Item("examination", run, at, dict(body), decision), at)


def _has_ended(tables: Tables, run: str) -> bool:
    return bool(tables.items("run_end", EVERYTHING, keys=[run], limit=1))


def _end_item(end: RunEnd) -> Item:
    return Item("run_end", end.run, end.at, plain(end))


def _lost(start: RunStart, at: datetime) -> RunEnd:
    return RunEnd(run=start.id, at=max(at, start.at), result="lost", error="its process ended without an answer")


def _spent_budget(spending: DaySpending, config: AgentConfig) -> str:
    """Why no further run may begin today; empty if one may."""
    if config.runs_per_day is not None and spending.runs >= config.runs_per_day:
        return f"runs_per_day: {spending.runs} of {config.runs_per_day} runs of this UTC day are used"
    if config.budget_usd_per_day is not None and spending.cost_usd >= config.budget_usd_per_day:
        return f"budget_usd_per_day: ${spending.cost_usd:.2f} of ${config.budget_usd_per_day:.2f} of this UTC day are spent"
    return ""


def _session_cost(events: Sequence[SessionEvent], session: str | None) -> Decimal | None:
    """What a session had cost, as the run that wrote it reported."""
    ends = [event.end for event in events if isinstance(event, AgentRun) and event.end is not None]
    return next((end.usage.session_cost_usd for end in ends if session is not None and end.session_after == session), None)
