"""Re-examination: what is asked about an earlier decision, and how the answer is checked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from memtape.core.codec import canonical_plain
from memtape.core.decisions.cards import CardDefinition
from memtape.core.decisions.examination_prompt import reexamination_prompt
from memtape.core.decisions.examinations import Examination, examination_schema, read_examination
from memtape.core.decisions.runs import ANSWERED_BY, AgentRun, RunEnd
from memtape.core.observed import Decision
from memtape.engine.agent import AgentMemory
from memtape.engine.runs import BegunRun, BusyRun
from memtape.engine.view.decisions import decision_card, refuse_closed_gate
from memtape.errors import Conflict, Unknown


@dataclass(frozen=True, slots=True)
class ReexaminationTask:
    """What is asked of a run that examines a decision again."""

    decision: Decision
    run: str | None  # the run that took the decision
    card: CardDefinition
    watch_for: tuple[str, ...]
    prompt: str
    schema: Mapping[str, Any]

    def read(self, answer: Mapping[str, Any]) -> Examination:
        """The answer as an examination; raises Invalid with every wrong field."""
        return read_examination(answer, self.card.reExamineActions, self.watch_for)


def record_answer(agent: AgentMemory, id: str, answer: Mapping[str, Any], by: str) -> AgentRun:
    """Record an answer that was given without a runner, as a run of its own. Raises Invalid with every wrong field of it."""
    task = reexamination_task(agent, id)
    found = task.read(answer)
    begun = agent.runs.begin(
        "re-examination", task.prompt, runner=f"{ANSWERED_BY}{by}", parent=task.run, decision=id
    )
    if isinstance(begun, BusyRun):
        raise Conflict("agent", "another run is at work", "Try again when it has ended")
    assert isinstance(begun, BegunRun)
    asked = {name: value for name, value in answer.items() if name in task.schema["properties"]}
    end = RunEnd(run=begun.start.id, at=begun.start.at, result="ok", text=canonical_plain(asked))
    try:
        return agent.end_run(begun, end, examination=found)
    except Conflict as refused:
        # Its outcome has become known since the answer was read.
        agent.end_run(begun, replace(end, result="failed", error=str(refused)))
        raise


def reexamination_task(agent: AgentMemory, id: str) -> ReexaminationTask:
    """The question that examines a decision again. Raises Unknown without such a decision, Conflict if it is refused."""
    with agent.view() as view:
        card = decision_card(view, id)
    if card is None:
        raise Unknown("decision", "decision", id, "List them with get_my_decisions")
    decision, declared = card.decision, card.declared
    refuse_closed_gate(card)
    assert declared is not None, "only a declared card has an open gate"
    given = decision.slots.get("watch_for", ())
    watch_for = given if isinstance(given, tuple) else (given,)
    prompt = reexamination_prompt(
        card_type=declared.name, slots=card.slots, decided_at=card.at, action=decision.action, symbol=decision.symbol,
        reason=decision.reason, actions=declared.reExamineActions, watch_for=watch_for,
    )  # fmt: skip
    schema = examination_schema(declared.reExamineActions, watch_for)
    return ReexaminationTask(decision, decision.run.id if decision.run else None, declared, watch_for, prompt, schema)
