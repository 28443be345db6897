"""A decision as pages show it: its card slot by slot, its outcome, and its conviction history with what is at work now."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import TYPE_CHECKING, NamedTuple, cast
from urllib.parse import quote

from memtape.core.decisions.cards import TRADE_DECISION
from memtape.errors import Invalid, Unknown
from memtape.surfaces.operations.cards import list_card_types
from memtape.surfaces.operations.decisions import DecisionAnswer, ExaminationRow, GetDecision, get_decision
from memtape.surfaces.operations.outcomes import NameDecision, OutcomeAnswer, get_outcome
from memtape.surfaces.operations.runs import ListRuns, RunRow, ShowConfig, get_agent_config, list_runs
from memtape.surfaces.questions import OfOwner
from memtape.surfaces.web.background import RequestedRun
from memtape.surfaces.web.forms import read_question

if TYPE_CHECKING:
    from memtape.core.decisions.agent_config import AgentConfig
    from memtape.core.decisions.cards import SlotDefinition
    from memtape.surfaces.web.site import PageRequest

NOT_ASKED = ""  # no run has this id
EXAMINATIONS_READ = 500  # runs that examined decisions of an agent again, the newest


class ShownSlot(NamedTuple):
    """One slot of a card with its value; of a card type that is not declared, every slot is a text or a list."""

    name: str
    kind: str  # text, number, list or choice
    help: str
    value: str | list[str]


class HistoryEntry(NamedTuple):
    """One re-examination: the run, and what it found; None while it is at work, and if it failed."""

    run: RunRow
    found: ExaminationRow | None


@dataclass(frozen=True, slots=True)
class ShownDecision:
    """A decision with everything that its page shows."""

    answer: DecisionAnswer
    slots: Sequence[ShownSlot]
    outcome: OutcomeAnswer
    history: Sequence[HistoryEntry]  # oldest first
    waiting: bool  # a re-examination was asked for and has not begun
    has_runner: bool
    path: str  # the page of the run that took it, else its own

    @property
    def is_trade(self) -> bool:
        """True if it can have an outcome in R."""
        return self.answer.card in (None, TRADE_DECISION.name)

    @property
    def busy(self) -> bool:
        """True if a re-examination was asked for and has not ended."""
        return self.waiting or any(entry.run.result == "running" for entry in self.history)

    def examination_by(self, run: str) -> ExaminationRow | None:
        """What one run found."""
        return next((entry.found for entry in self.history if entry.run.id == run), None)


def shown_decision(request: PageRequest, id: str) -> ShownDecision:
    """A decision of the agent that the address names; raises Unknown if there is none."""
    agent = request.agent.id
    asked = request.site.background.waiting(agent, "re-examination").get(RequestedRun(agent, "re-examination", id), NOT_ASKED)
    # Runs before the decision: what a run that has ended found is then in the answer, and one that ends in between is seen later.
    runs = request.ask(list_runs, ListRuns(agent=agent, kind="re-examination", limit=EXAMINATIONS_READ)).runs
    try:
        answer = request.ask(get_decision, read_question(GetDecision, agent=agent, decision=id))
    except (Invalid, Unknown):
        raise Unknown("decision", "decision", id, f"Choose one from the decisions of '{agent}'") from None
    found = {examination.run: examination for examination in answer.examinations}
    history = [HistoryEntry(run, found.get(run.id)) for run in reversed(runs) if run.decision == id]
    # The row has the fields of the configuration that it mirrors.
    config = cast("AgentConfig", request.ask(get_agent_config, ShowConfig(agent=agent)).config)
    return ShownDecision(
        answer, card_slots_shown(request, answer), request.ask(get_outcome, NameDecision(agent=agent, decision=id)), history,
        waiting=asked != NOT_ASKED and all(run.decision != id for run in takewhile(lambda run: run.id != asked, runs)),
        has_runner=config.runner is not None, path=decision_path(agent, answer.id, answer.run),
    )  # fmt: skip


def card_slots_shown(request: PageRequest, answer: DecisionAnswer) -> list[ShownSlot]:
    """The slots of a decision's card in the order of its type."""
    types = {card.name: card for card in request.ask(list_card_types, OfOwner()).card_types}
    declared: dict[str, SlotDefinition] = {}
    if answer.card in types:
        # The rows have the fields of the slots that they mirror.
        declared = {slot.name: slot for slot in cast("list[SlotDefinition]", types[answer.card].slots)}
    shown: list[ShownSlot] = []
    for name, value in answer.slots.items():
        slot = declared.get(name)
        kind = slot.kind if slot is not None else "list" if isinstance(value, list) else "text"
        shown.append(ShownSlot(name, kind, slot.help if slot is not None else "", value))
    return shown


def decision_path(agent: str, id: str, run: str | None) -> str:
    """The page of the run that took a decision, which memtape names after it; else the page of the decision itself.

    >>> decision_path("gold", "6f1c", "6f1c"), decision_path("gold", "d/1", "r7")
    ('/agents/gold/runs/6f1c', '/agents/gold/decisions/d%2F1')
    """
    return f"/agents/{agent}/runs/{id}" if run == id else f"/agents/{agent}/decisions/{quote(id, safe='')}"
