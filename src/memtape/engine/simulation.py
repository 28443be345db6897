"""What a simulation records of itself in its agent's stream: its terms, once, and every answer of the model that trades.

Both are statements of the log like any other, so `verify` covers them and a rebuild makes them again.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime

from memtape.core.codec import plain
from memtape.core.decisions.tick_answers import TickAnswer
from memtape.core.events import TradeClosed, read_event
from memtape.core.items import Item, StoredItem
from memtape.core.lessons.reflection import LessonUse, lesson_use_of
from memtape.core.values import read
from memtape.engine.brief_question import AssembledBrief
from memtape.engine.briefs import write_shown
from memtape.engine.reflection import LEASE
from memtape.engine.scope import AgentScope
from memtape.store.cutoff import EVERYTHING
from memtape.store.leases import Leases

TERMS_KEY = "terms"


class SimulationRecord:
    """The record of the simulation that an agent runs."""

    def __init__(self, scope: AgentScope) -> None:
        self._scope = scope

    def terms(self) -> dict[str, str] | None:
        """The terms of the simulation; None if none are stated."""
        with self._scope.reading() as tables:
            found = tables.items("simulation", EVERYTHING, keys=[TERMS_KEY])
        return dict(found[0].body) if found else None

    def state_terms(self, terms: Mapping[str, str], at: datetime) -> None:
        """State the terms, before the first tick."""
        with self._scope.writing() as tables:
            if not tables.items("simulation", EVERYTHING, keys=[TERMS_KEY]):
                known_at = max(at, tables.head().known_at or at)
                self._scope.writer(tables).declare(Item("simulation", TERMS_KEY, at, dict(terms)), known_at)

    def answers(self) -> dict[str, TickAnswer]:
        """Every recorded answer by its key."""
        with self._scope.reading() as tables:
            return {item.key: read(TickAnswer, item.body) for item in tables.items("tick_answer", EVERYTHING)}

    def record_answer(self, answer: TickAnswer, shown: AssembledBrief) -> TickAnswer:
        """Record an answer and the brief that the model was shown, in one transaction. Returns the answer on record.

        That is the first one for its tick and symbol: another process may have been given one meanwhile.
        """
        with self._scope.writing() as tables:
            if earlier := tables.items("tick_answer", EVERYTHING, keys=[answer.key]):
                return read(TickAnswer, earlier[0].body)
            writer, at = self._scope.writer(tables), self._scope.stated_at(tables)
            # What cannot be read again must not be written: the run could not be continued.
            checked = read(TickAnswer, plain(answer))
            writer.declare(Item("tick_answer", answer.key, answer.at, plain(checked), answer.symbol), at)
            write_shown(writer, shown, at, decision=answer.decision, run=answer.tick)
            return checked

    def lesson_use(self) -> tuple[LessonUse, ...]:
        """What lessons that a model chose have used, failed attempts included."""
        with self._scope.reading() as tables:
            found = [item.body for kind in ("note", "reflection_failed") for item in tables.items(kind, EVERYTHING)]
        return tuple(lesson_use_of(body) for body in found if body.get("input_tokens") is not None)

    def last_tick(self) -> StoredItem | None:
        """The last recorded tick."""
        with self._scope.reading() as tables:
            return next(iter(tables.items("tick", EVERYTHING, newest=True, limit=1)), None)

    def closed_trade_at_last_tick(self) -> bool:
        """Returns True if the last recorded tick closed a trade: a run that was killed right then has not drawn its lessons."""
        last = self.last_tick()
        if last is None:
            return False
        with self._scope.reading() as tables:
            row = tables.logged("tick", last.key)
        concluded = json.loads(row.payload)["concluded"] if row is not None and row.payload is not None else []
        return any(isinstance(read_event(event), TradeClosed) for event in concluded)

    def drop_lesson_lease(self) -> None:
        """Take the lease for drawing lessons from a run that was killed. The same lessons are recorded only once."""
        with self._scope.resources.repairing(self._scope.agent.id) as tables:
            Leases(tables).drop(LEASE)
