"""The re-examinations of an agent's decisions, at a view's moment."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

from memtape.core.decisions.examinations import Examination
from memtape.core.value_class import dataclass
from memtape.core.values import read

if TYPE_CHECKING:
    from memtape.core.items import StoredItem
    from memtape.engine.view.view import View


@dataclass(frozen=True, slots=True)
class RecordedExamination:
    """A re-examination: of which decision, by which run, and what it found."""

    run: str
    decision: str
    at: datetime
    examination: Examination


def examinations(view: View, decision: str | None = None) -> list[RecordedExamination]:
    """The re-examinations of one decision, or of all, oldest first."""
    found = sorted(view.items("examination", symbol=decision), key=lambda item: item.seq)
    return [_recorded_examination(item) for item in found]


def examination_of_run(view: View, run: str) -> RecordedExamination | None:
    """The re-examination that a run made."""
    return next((_recorded_examination(item) for item in view.items("examination", keys=[run])), None)


def _recorded_examination(item: StoredItem) -> RecordedExamination:
    body: dict[str, Any] = dict(item.body)
    decision = body.pop("decision")
    return RecordedExamination(item.key, decision, item.at, read(Examination, body))
