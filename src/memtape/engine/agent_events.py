"""What the owner's calendar means to one agent: its exposure to events ahead, and how its markets reacted to past ones."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from memtape.engine.view.exposure import held_notionals, past_reactions, position_exposures
from memtape.engine.view.open_positions import open_positions

if TYPE_CHECKING:
    from memtape.core.calendar import CalendarEvent
    from memtape.core.exposure import PositionExposure
    from memtape.engine.scope import AgentScope
    from memtape.engine.view.exposure import KindReaction


class AgentEvents:
    """Scheduled events as one agent is concerned by them."""

    def __init__(self, scope: AgentScope) -> None:
        self._scope = scope

    def exposures(
        self, events: Sequence[CalendarEvent], *, as_of: datetime | None = None, owner_head: int | None = None
    ) -> tuple[PositionExposure, ...]:
        """A row for each event and each open position that it touches, by event, symbol and side."""
        with self._scope.view(as_of) as view:
            if owner_head is not None:
                view.limit_owner(owner_head)
            return position_exposures(view, events, held_notionals(open_positions(view)))

    def reactions(
        self, *, as_of: datetime | None = None, head: int | None = None, least_importance: float = 0.0
    ) -> list[KindReaction]:
        """How the agent's markets reacted to past events, for each kind and each symbol of which it has bars."""
        with self._scope.view(as_of, head) as view:
            return past_reactions(view, view.tables.bar_symbols(view.cutoff), least_importance)
