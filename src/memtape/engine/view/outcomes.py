from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal

from memtape.core.decisions.reviews import OutcomeStatus
from memtape.core.observed import Decision
from memtape.engine.view.view import View


@dataclass(frozen=True, slots=True)
class DecisionOutcome:
    status: OutcomeStatus | None
    cause: str | None
    r: Decimal | None
    counts: bool = True
    source: str = 'bars'


def decision_outcomes(view: View, decisions: Iterable[Decision]) -> dict[str, DecisionOutcome]:
    return {}
