"""An agent's decisions with what came of them, at a view's moment: cards, outcomes, latest conviction."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from memtape.core.decisions.cards import CardDefinition, card_slots
from memtape.core.decisions.decision_outcomes import DecisionOutcome
from memtape.core.decisions.examinations import Gate, reexamination_gate
from memtape.core.decisions.reviews import ConvictionScore, ReviewedCard, review_lines
from memtape.core.value_class import dataclass
from memtape.engine.view.agent_config import card_types
from memtape.engine.view.examinations import RecordedExamination, examinations
from memtape.engine.view.ledger import RecordedDecision, recorded_decision, recorded_decisions
from memtape.engine.view.outcomes import decision_outcomes
from memtape.errors import Conflict

if TYPE_CHECKING:
    from memtape.core.decisions.reviews import Review
    from memtape.core.observed import Decision
    from memtape.engine.view.view import View

DEFAULT_CARD = "trade-decision"
MANY_DECISIONS = 500  # from so many on, reading the outcomes of all is cheaper than asking for each


@dataclass(frozen=True, slots=True)
class DecisionCard:
    """A decision with its card type, its outcome and its re-examinations."""

    recorded: RecordedDecision
    declared: CardDefinition | None  # None: it names no card, or one that is no longer declared
    outcome: DecisionOutcome | None
    examinations: Sequence[RecordedExamination]
    gate: Gate  # whether it may be examined again

    @property
    def decision(self) -> Decision:
        """The decision itself."""
        return self.recorded.decision

    @property
    def id(self) -> str:
        """Its id."""
        return self.decision.id or ""

    @property
    def at(self) -> datetime:
        """When it was taken."""
        return self.recorded.at

    @property
    def slots(self) -> dict[str, str | tuple[str, ...]]:
        """The slots of its card."""
        return card_slots(self.decision, self.declared)

    @property
    def conviction(self) -> int | None:
        """The score of its latest re-examination."""
        return self.examinations[-1].examination.conviction_score if self.examinations else None

    def reviewed(self) -> ReviewedCard:
        """The decision as a line of a review."""
        slots = {name: text for name, text in self.decision.slots.items() if isinstance(text, str)}
        outcome = self.outcome
        return ReviewedCard(
            id=self.id, decided_at=self.at, type=self.decision.card or DEFAULT_CARD, action=self.decision.action,
            thesis=slots.get("thesis"), reason=self.decision.reason, title=slots.get("title"),
            status=outcome.status if outcome is not None else None, cause=outcome.cause if outcome is not None else None,
            r=outcome.r if outcome is not None else None, counts=outcome is None or outcome.counts,
            examinations=tuple(ConvictionScore(one.at, one.examination.conviction_score) for one in self.examinations),
        )  # fmt: skip


def decision_cards(
    view: View, *, symbol: str | None = None, limit: int | None = None, before: datetime | None = None
) -> list[DecisionCard]:
    """Decisions with all that is known of them, newest first."""
    return _cards(view, recorded_decisions(view, symbol=symbol, limit=limit, before=before))


def decision_card(view: View, id: str) -> DecisionCard | None:
    """One decision with all that is known of it."""
    found = recorded_decision(view, id)
    return next(iter(_cards(view, [found])), None) if found is not None else None


def refuse_closed_gate(card: DecisionCard) -> None:
    """Raises Conflict if a decision may not be examined again."""
    if not card.gate.allowed:
        raise Conflict("decision", f"cannot be examined again: {card.gate.reason}", "Examine a decision that is still open")


def _cards(view: View, recorded: Iterable[RecordedDecision]) -> list[DecisionCard]:
    listed, declared = list(recorded), card_types(view.owner_tables, view.cutoff.owners())
    ids = [each.decision.id or "" for each in listed]
    outcomes = {each.decision: each for each in decision_outcomes(view, None if len(ids) > MANY_DECISIONS else ids)}
    examined: dict[str, list[RecordedExamination]] = {}
    for one in examinations(view):
        examined.setdefault(one.decision, []).append(one)
    found: list[DecisionCard] = []
    for each in listed:
        id_ = each.decision.id or ""
        card, outcome = declared.get(each.decision.card or ""), outcomes.get(id_)
        gate = reexamination_gate(card.reExaminable if card else None, outcome.status if outcome else None)
        found.append(DecisionCard(each, card, outcome, examined.get(id_, ()), gate))
    return found


def review(view: View, limit: int) -> tuple[Review, list[str], datetime]:
    """The agent's last decisions as lines, with tally and hit rate over all of them; their ids; and the moment."""
    cards = decision_cards(view)
    # The lines are in this order too: newest first, equal times by id.
    cards.sort(key=lambda card: card.id)
    cards.sort(key=lambda card: card.at, reverse=True)
    found = review_lines((card.reviewed() for card in cards), view.as_of, limit)
    return found, [card.id for card in cards if card.at <= view.as_of][: len(found.lines)], view.as_of
