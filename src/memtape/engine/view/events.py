"""The owner's calendar at a view's moment."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from datetime import datetime
from typing import TYPE_CHECKING

from memtape.core.calendar import EVENT_HORIZON, LISTED_IMPORTANCE, standing_events, upcoming_events
from memtape.core.exposure import symbol_currencies
from memtape.engine.view.owner_stream import INSTANT

if TYPE_CHECKING:
    from memtape.core.calendar import CalendarEvent
    from memtape.core.items import StoredItem
    from memtape.engine.view.view import View
    from memtape.store.cutoff import Cutoff
    from memtape.store.tables import Tables


def latest_events(items: Iterable[StoredItem], kinds: Collection[str] | None = None) -> list[CalendarEvent]:
    """Calendar events, or those of some kinds, each as it stands after all that was stated about it."""
    return standing_events((item.body for item in sorted(items, key=lambda item: item.seq)), kinds)


def events_between(owner: Tables, first: datetime, last: datetime, cutoff: Cutoff) -> list[CalendarEvent]:
    """The events of a span of time. An event that was moved away is looked up where it went."""
    named = {item.symbol for item in owner.items("event", cutoff, since=first, before=last)}
    found = latest_events(owner.items("event", cutoff, symbols=sorted(named))) if named else []
    return [event for event in found if first <= event.t < last]


def nearby_events(view: View) -> list[CalendarEvent]:
    """The events that plans, checks and briefs may look at: those within a day that a venue or the operator stated."""
    first, last = view.as_of - EVENT_HORIZON, view.as_of + EVENT_HORIZON + INSTANT
    # The view keeps what it reads, because several sections of one answer ask for the same events.
    named = {item.symbol for item in view.owner_items("event", since=first, before=last)}
    found = latest_events(view.owner_items("event", symbols=tuple(sorted(named)))) if named else []
    return [event for event in found if event.is_trusted]


def events_concerning(view: View, symbol: str | None, held: Collection[str] = ()) -> tuple[CalendarEvent, ...]:
    """The events of the next day, of some importance, that touch a symbol or what is held, in order.

    An event that names neither currency nor symbol may concern anything, and so may a release for a symbol that no currency is
    known of: both are listed.
    """
    ahead = upcoming_events(nearby_events(view), view.as_of, EVENT_HORIZON)
    listed = [event for event in ahead if event.importance >= LISTED_IMPORTANCE]
    return tuple(event for event in listed if symbol is None or _concerns(event, {symbol, *held}))


def _concerns(event: CalendarEvent, symbols: Collection[str]) -> bool:
    if not event.currencies and not event.symbols:
        return True
    return any(event.touches(each) or (bool(event.currencies) and not symbol_currencies(each)) for each in symbols)
