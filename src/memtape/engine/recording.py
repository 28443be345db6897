"""What an agent records: observations, decisions, reports of trades and the ends of runs, each in one write transaction."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, cast

from memtape.core.authors import MODEL_AUTHOR
from memtape.core.codec import make_id
from memtape.core.decisions.cards import fit_card
from memtape.core.decisions.outcomes import check_decision
from memtape.core.events import CardMisfit, DecisionRenamed, TradeClosed
from memtape.core.ids import DecisionId
from memtape.core.items import OWNER_STREAM
from memtape.core.observed import READERS, Bars, Claim, Closing, Decision, Tick, occurred_at
from memtape.core.values import read
from memtape.engine.briefs import write_shown
from memtape.engine.reflection import due_after
from memtape.engine.runs import write_examination
from memtape.engine.view import open_view
from memtape.engine.view.agent_config import card_type
from memtape.engine.view.decisions import decision_card, refuse_closed_gate
from memtape.engine.view.owner_stream import skill_from_item
from memtape.engine.write.arrivals import Arrival, check_time, checked_value, complete_value, expected_names, named_claim
from memtape.engine.write.decision_names import renamed_decisions, with_owners_names
from memtape.engine.write.quiet_ticks import changes_account, has_parts
from memtape.errors import Conflict, Invalid, Unknown
from memtape.store.cutoff import EVERYTHING
from memtape.store.tables import Tables

if TYPE_CHECKING:
    from memtape.core.decisions.examinations import Examination
    from memtape.core.decisions.runs import AgentRun, RunEnd
    from memtape.core.events import Event
    from memtape.core.observed import Observed
    from memtape.core.skills import Skill
    from memtape.engine.brief_question import AssembledBrief
    from memtape.engine.documents.citations import Citations
    from memtape.engine.runs import BegunRun, Runs
    from memtape.engine.scope import AgentScope
    from memtape.engine.write.log_writer import Receipt
    from memtape.engine.write.writer import Writer


class Recording:
    """What one agent records."""

    def __init__(self, scope: AgentScope, citations: Citations, runs: Runs) -> None:
        self._scope, self._citations, self._runs = scope, citations, runs
        self._skill: Skill | None = None  # once it was asked for

    def observe(
        self, observed: Observed | Mapping[str, Any], *, kind: str = "tick", backfill: bool = False,
        shown: AssembledBrief | None = None,
    ) -> Receipt:  # fmt: skip
        """Record a value of any observed kind: a tick, a fill, a decision, bars, the terms of an instrument, a correction, ...

        Plain data is read as a value of `kind`. With `backfill` it counts as known from its own time on, not from now. `shown`
        is the brief that the decision was taken on: that it was shown is recorded in the same transaction.
        """
        if not isinstance(kind, str) or kind not in READERS:
            raise Invalid("kind", "is not an observed kind", f"Use one of {', '.join(READERS)}")
        value: Observed = read(READERS[kind], observed) if isinstance(observed, Mapping) else checked_value(observed)
        return self.record(value, backfill=backfill, shown=shown)

    def record(
        self, value: Observed, *, backfill: bool = False, shown: AssembledBrief | None = None, run: str | None = None
    ) -> Receipt:
        """Record a value that has been validated; one write transaction, the record of what was shown included."""
        now = self._scope.resources.clock.now()
        misfits: list[Event] = []
        if isinstance(value, Tick):
            value, misfits = self._with_cards(value)
        value = self._completed(value, now)
        with self._scope.writing() as tables:
            receipt = self._write(tables, value, now, backfill, shown, run)
        return replace(receipt, concluded=(*receipt.concluded, *misfits)) if misfits else receipt

    def observe_ticks(
        self, ticks: Sequence[Tick], *, until_lessons_due: bool = False, simulated: bool = False
    ) -> list[Receipt]:  # fmt: skip
        """Record several ticks in one transaction, exactly as one after the other. Returns a receipt for each.

        With `until_lessons_due`, the transaction ends after a tick that makes lessons due, and the rest is left to the caller:
        lessons are drawn between two ticks. Then there are fewer receipts than ticks. `simulated` ticks are made by the paper
        broker from bars that were checked: those in which it did nothing, and nobody decided anything, are not checked again.
        """
        clock = self._scope.resources.clock
        prepared: list[tuple[Tick, Sequence[Event], datetime]] = []
        for tick in ticks:
            now = clock.now()
            if simulated and not has_parts(tick):
                check_time(tick, now)
                prepared.append((tick, (), now))
                continue
            fitted, misfitting = self._with_cards(cast(Tick, checked_value(tick)))
            prepared.append((cast(Tick, self._completed(fitted, now)), misfitting, now))
        receipts: list[Receipt] = []
        with self._scope.resources.writing_many(self._scope.agent.id) as tables:
            tables.expect(*expected_names(tick for tick, _, _ in prepared))
            while len(receipts) < len(prepared):
                # As many as possible together, then one on which something happens.
                tick, misfits, now = prepared[len(receipts)]
                if not changes_account(tick):
                    rest = range(len(receipts), len(prepared))
                    following = ((prepared[n][0], self._known_at(prepared[n][0], prepared[n][2], False)) for n in rest)
                    if quiet := self._scope.quiet_writer(tables).record(following):
                        receipts += quiet
                        continue
                receipt = self._write(tables, tick, now, False, None, None)
                receipts.append(replace(receipt, concluded=(*receipt.concluded, *misfits)) if misfits else receipt)
                if until_lessons_due and receipt.reflection_due:
                    break
        return receipts

    def _with_cards(self, tick: Tick) -> tuple[Tick, list[Event]]:
        """A tick whose decisions fit their cards. What comes with a tick is never refused for a decision's words: a decision that
        does not fit stays as it is stated, and an event says so.
        """
        misfits: list[Event] = []
        if not any(decision.card for decision in tick.decisions):
            return tick, misfits
        fitted: list[Decision] = []
        with self._scope.resources.reading(OWNER_STREAM) as owner:
            for stated, named in zip(tick.decision or (), tick.decisions, strict=True):
                try:
                    fitted.append(fit_card(card_type(owner, stated.card), stated) if stated.card else stated)
                except (Invalid, Unknown) as wrong:
                    misfits.append(CardMisfit(named.id or "", str(wrong)))
                    fitted.append(stated)
        return replace(tick, decision=tuple(fitted)), misfits

    def _completed(self, value: Observed, now: datetime) -> Observed:
        """A value with all that must be looked up before it is written; raises Invalid if it cannot be recorded."""
        if isinstance(value, Decision):
            if value.card is not None:
                with self._scope.resources.reading(OWNER_STREAM) as owner:
                    value = fit_card(card_type(owner, value.card), value)
            check_decision(value)
            if value.t is None and self._scope.agent.mode == "sim":
                # In a simulation the agent's own clock counts, not that of the machine.
                value = replace(value, t=self._scope.now())
        value = self._citations.add_quotes(complete_value(value, now))
        check_time(value, now)
        return value

    def _write(
        self, tables: Tables, value: Observed, now: datetime, backfill: bool, shown: AssembledBrief | None, run: str | None
    ) -> Receipt:
        """Write a completed value in an open transaction."""
        renamed: dict[str, str] = {}
        if isinstance(value, Claim):
            value = named_claim(tables, value)
        elif isinstance(value, Decision | Tick):
            stated = [value]
            (value,) = with_owners_names(tables, stated, self._scope.resources.author)
            renamed = renamed_decisions(stated, [value])
        writer = self._scope.writer(tables)
        known_at = self._known_at(value, now, backfill)
        if isinstance(value, Claim | Closing) and self._is_backdated(writer, known_at):
            known_at = now
        own_times = isinstance(value, Bars) and (backfill or self._scope.agent.mode == "sim")
        receipt = writer.one(Arrival(value, known_at, own_times=own_times))
        if self._reflection_due(tables, receipt):
            receipt = replace(receipt, reflection_due=True)
        if renamed:
            receipt = replace(receipt, concluded=(*receipt.concluded, *(DecisionRenamed(*ids) for ids in renamed.items())))
        if shown is not None:
            decision = _first_decision(value)
            run = decision.run.id if decision is not None and decision.run is not None else run
            of = decision.id if decision is not None else None
            write_shown(self._scope.writer(tables), shown, self._scope.stated_at(tables), decision=of, run=run)
        return receipt

    def end_run(
        self, begun: BegunRun, end: RunEnd, *, decision: Decision | None = None, examination: Examination | None = None,
        shown: AssembledBrief | None = None,
    ) -> AgentRun:  # fmt: skip
        """Record how a run ended with everything that came of it, in one transaction: its decision, or what it found when it
        examined a decision again, and that it was shown a brief.
        """
        now = self._scope.resources.clock.now()
        value = self._completed(decision, now) if decision is not None else None
        examined = begun.start.decision

        def write(tables: Tables) -> str | None:
            recorded: str | None = None
            if isinstance(value, Decision):
                named = replace(value, id=_free_name(tables, value))
                renamed = renamed_decisions([named], with_owners_names(tables, [named], self._scope.resources.author))
                self._write(tables, named, now, False, shown, begun.start.id)
                recorded = renamed.get(named.id or "", named.id)
            elif shown is not None:
                at = self._scope.stated_at(tables)
                write_shown(self._scope.writer(tables), shown, at, decision=examined, run=begun.start.id)
            if examination is not None and examined is not None:
                # The outcome may have become known while the model worked.
                with open_view(self._scope.resources, tables, self._scope.agent) as view:
                    if (card := decision_card(view, examined)) is None:
                        raise Conflict("decision", f"'{examined}' was taken back meanwhile", "Examine another decision")
                    refuse_closed_gate(card)
                write_examination(self._scope, tables, begun.start.id, examined, examination)
            return recorded

        return self._runs.end(begun, end, write)

    def _known_at(self, value: Observed, now: datetime, backfill: bool) -> datetime:
        # The agent knew of its own trade when it happened, whenever it reports it.
        is_claim = isinstance(value, Claim | Closing)
        if self._scope.agent.mode != "sim" and not backfill and not is_claim:
            return now
        at = occurred_at(value) or now
        if not isinstance(value, Tick) or not has_parts(value):
            return at
        parts = [fill.t for fill in value.fills] + [paid.t for paid in value.funding] + [flow.t for flow in value.cash_flows]
        return max([at, *parts])

    def _is_backdated(self, writer: Writer, known_at: datetime) -> bool:
        """True if a model claims to have known a trade before the account's first record, now that there is one.

        Claims count until the first record. One that is put before it would change the equity, and so the risk, of true trades.
        """
        first_record = writer.start.verified_from
        said_by_model = self._scope.resources.author.tier >= MODEL_AUTHOR.tier
        return said_by_model and self._scope.agent.mode != "sim" and first_record is not None and known_at < first_record

    def _reflection_due(self, tables: Tables, receipt: Receipt) -> bool:
        """True if a trade that just closed makes lessons due."""
        if receipt.duplicate or not any(isinstance(event, TradeClosed) for event in receipt.concluded):
            return False
        if self._skill is None:
            # A version of a skill never changes.
            owner = Tables(tables.session, tables.owner, OWNER_STREAM)
            stated = owner.items("skill", EVERYTHING, keys=[f"{self._scope.agent.skill}@{self._scope.agent.skill_version}"])
            self._skill = skill_from_item(stated[0])[0] if stated else None
        return self._skill is not None and due_after(tables, self._skill, self._scope.stated_at(tables))


def _free_name(tables: Tables, decision: Decision) -> DecisionId | None:
    """The id of a run's decision: its own, unless somebody has recorded another decision under that id before."""
    name = decision.id
    if name is None or not tables.items("decision", EVERYTHING, keys=[name], voided=True):
        return name
    return DecisionId(make_id(name, tables.head().seq))


def _first_decision(value: Observed) -> Decision | None:
    if isinstance(value, Decision):
        return value
    return next(iter(value.decisions), None) if isinstance(value, Tick) else None
