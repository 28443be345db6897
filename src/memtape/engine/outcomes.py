"""The outcomes of an agent's decisions: what became of each, as of any moment; and what the owner states about it."""

from __future__ import annotations

import builtins
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from memtape.core.codec import plain
from memtape.core.decisions.decision_outcomes import StatedOutcome, complete_statement
from memtape.core.items import Item
from memtape.core.observed import Decision
from memtape.core.values import read
from memtape.engine.view.outcomes import decision_outcomes
from memtape.engine.write.log_writer import Receipt
from memtape.errors import Unknown
from memtape.store.cutoff import EVERYTHING

if TYPE_CHECKING:
    from memtape.core.decisions.decision_outcomes import DecisionOutcome
    from memtape.engine.scope import AgentScope


class DecisionOutcomes:
    """The outcomes of one agent's decisions."""

    def __init__(self, scope: AgentScope) -> None:
        self._scope = scope

    def of(self, decision: str, *, as_of: datetime | None = None, head: int | None = None) -> DecisionOutcome | None:
        """What became of a decision; None if it states too little to be followed, and entered no trade.

        Raises Unknown if there is no such decision.
        """
        with self._scope.view(as_of, head) as view:
            if not view.items("decision", keys=[decision]):
                raise _no_decision(decision)
            return next(iter(decision_outcomes(view, [decision])), None)

    def list(
        self, ids: Sequence[str] | None = None, *, symbol: str | None = None, since: datetime | None = None,
        limit: int | None = None, as_of: datetime | None = None, head: int | None = None,
    ) -> builtins.list[DecisionOutcome]:  # fmt: skip
        """What became of decisions, the newest first; `limit` is the number of decisions that are looked at."""
        with self._scope.view(as_of, head) as view:
            return decision_outcomes(view, ids, symbol=symbol, since=since, limit=limit)

    def record(self, stated: StatedOutcome | Mapping[str, Any]) -> Receipt:
        """Record the outcome of a decision as its owner states it. The last statement counts; the bars' own stays beside it.

        Stating the same again changes nothing.
        """
        statement = read(StatedOutcome, stated if isinstance(stated, Mapping) else plain(stated))
        with self._scope.writing() as tables:
            found = tables.items("decision", EVERYTHING, keys=[statement.decision])
            if not found:
                raise _no_decision(statement.decision)
            statement = complete_statement(statement, read(Decision, found[0].body))
            now, body = self._scope.stated_at(tables), plain(statement)
            earlier = tables.items("outcome_stated", EVERYTHING, symbol=statement.decision)
            last = max(earlier, key=lambda item: item.seq, default=None)
            if last is not None and last.body == body and (row := tables.logged(last.kind, last.key)) is not None:
                return Receipt(row.stream, row.seq, row.hash, (), duplicate=True)
            # Also what was taken back with an import has its row in the log.
            number = len(tables.items("outcome_stated", EVERYTHING, symbol=statement.decision, voided=True)) + 1
            item = Item("outcome_stated", f"{statement.decision}#{number}", now, body, statement.decision)
            return self._scope.writer(tables).declare(item, now)


def _no_decision(id: str) -> Unknown:
    return Unknown("decision", "decision", id, "List them with get_decisions")
