"""How the markets of open positions reacted to past events like those ahead, from stored bars, at a view's moment.

Only events that a venue or the operator stated count, and of those with a known time of day. Bars are read around these events
alone: a symbol may have years of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from decimal import Decimal, localcontext
from typing import TYPE_CHECKING

from memtape.core.event_kinds import EVENT_KINDS, EventKind
from memtape.core.exposure import (
    REACTION_WINDOW,
    HeldSide,
    PositionExposure,
    ReactionSummary,
    bar_series,
    event_exposure,
    reaction_after,
    reaction_bars,
    reaction_window,
)
from memtape.core.ledger.open_position import open_notional
from memtape.core.observed import Side
from memtape.core.value_class import dataclass
from memtape.core.values import MONEY, ZERO
from memtape.engine.view.events import latest_events

if TYPE_CHECKING:
    from memtape.core.brief.inputs import OpenPosition
    from memtape.core.calendar import CalendarEvent
    from memtape.core.exposure import (
        ScheduledEvent,
    )
    from memtape.core.observed import Bar
    from memtape.engine.view.view import View

Notionals = Mapping[tuple[str, Side], Decimal | None]  # by symbol and side, the worth of what is held


@dataclass(frozen=True, slots=True)
class KindReaction:
    """How the market of a symbol reacted to past events of one kind."""

    kind: EventKind
    symbol: str
    summary: ReactionSummary


def position_exposures(view: View, events: Sequence[CalendarEvent], held: Notionals) -> tuple[PositionExposure, ...]:
    """A row for each event and each symbol and side that it touches, by event, symbol and side.

    Nothing is read unless an event touches a position.
    """
    sides = [HeldSide(symbol, side) for symbol, side in sorted(held)]
    touched = sorted({each.symbol for each in sides if any(event.touches(each.symbol) for event in events)})
    if not touched:
        return ()
    past = past_events(view, {event.kind for event in events})
    bars = {symbol: _bars_around(view, symbol, _moments_of(past, symbol)) for symbol in touched}
    found: list[PositionExposure] = []
    for event in events:
        ahead, alike = event.scheduled, [each for each in past if each.is_like(event.scheduled)]
        own = {symbol: reaction_bars(_moments_of(alike, symbol), bars[symbol]) for symbol in touched}
        for row in event_exposure(ahead, sides, alike, own, view.as_of):
            found.append(PositionExposure(row, held[row.symbol, row.side]))
    return tuple(found)


def past_reactions(view: View, symbols: Iterable[str], least_importance: float = 0.0) -> list[KindReaction]:
    """How each symbol reacted to past events of each known kind that touched it, by symbol and kind, where measured."""
    past = past_events(view, None, least_importance)
    found: list[KindReaction] = []
    for symbol in sorted(set(symbols)):
        touching = [event for event in past if event.kind in EVENT_KINDS and event.touches(symbol)]
        bars = _bars_around(view, symbol, _moments_of(touching, symbol))
        for kind in sorted({event.kind for event in touching}):
            moments = _moments_of([event for event in touching if event.kind == kind], symbol)
            series = bar_series(reaction_bars(moments, bars))
            reactions = [each for moment in moments if series and (each := reaction_after(moment, series)) is not None]
            if reactions:
                found.append(KindReaction(kind, symbol, ReactionSummary.of(reactions)))  # type: ignore[arg-type]
    return found


def past_events(view: View, kinds: Iterable[EventKind] | None, least_importance: float = 0.0) -> list[ScheduledEvent]:
    """The past events of some kinds, or of all, that figures may rest on and whose reaction was over by the moment."""
    wanted = None if kinds is None else set(kinds)
    return [
        event.scheduled for event in latest_events(view.owner_items("event"), wanted)
        if event.is_trusted and not event.all_day and event.importance >= least_importance
        and event.t + REACTION_WINDOW <= view.as_of
    ]  # fmt: skip


def held_notionals(held: Iterable[OpenPosition]) -> Notionals:
    """What is held of each symbol on each side, over all legs and lots; None where one of them has no known price."""
    found: dict[tuple[str, Side], Decimal | None] = {}
    for position in held:
        key, worth = (position.trade.symbol, position.trade.side), open_notional(position.trade, position.mark)
        with localcontext(MONEY):
            sum_so_far = found.get(key, ZERO)
            found[key] = None if worth is None or sum_so_far is None else sum_so_far + worth
    return found


def _moments_of(events: Iterable[ScheduledEvent], symbol: str) -> list[datetime]:
    return sorted({event.t for event in events if event.touches(symbol)})


def _bars_around(view: View, symbol: str, moments: Sequence[datetime]) -> list[Bar]:
    windows = [reaction_window(moment) for moment in moments]
    return [known.bar for known in view.tables.bars_in_windows(symbol, windows, view.cutoff) if known.bar.t1 <= view.as_of]
