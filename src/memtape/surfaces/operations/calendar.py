"""Operations on the calendar of scheduled events."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field

from memtape.core.calendar import CalendarEvent, upcoming_events
from memtape.core.codec import plain
from memtape.surfaces.answer_models import Answer, answer_model
from memtape.surfaces.answers import optional_time_text
from memtape.surfaces.questions import Ask, OfOwner
from memtape.surfaces.registry import operation

if TYPE_CHECKING:
    from memtape.engine import Memory
    from memtape.surfaces.caller import Caller


class RecordEvents(Ask):
    """Scheduled events."""

    events: Annotated[
        list[CalendarEvent], Field(min_length=1, max_length=5000, description="id, t, name, currency, impact, forecast, actual")
    ]
    backfill: Annotated[
        bool, Field(description="past events: a schedule counts as known a month ahead, its figure from the release on")
    ] = False


class RecordedEvents(Answer):
    """How many events were new."""

    new: Annotated[int, Field(description="new or changed events")]
    known: Annotated[int, Field(description="events that were known")]


@operation(writes=True)
def record_events(memory: Memory, ask: RecordEvents, caller: Caller) -> RecordedEvents:
    """Record scheduled events, or new facts about them such as the actual figure. Plans and checks use them."""
    new, known = memory.record_events(ask.events, backfill=ask.backfill)
    return RecordedEvents(new=new, known=known)


class GetEvents(OfOwner):
    """Which events."""

    hours: Annotated[float, Field(gt=0, le=8784, description="how many hours ahead")] = 24.0
    impact: Annotated[Literal["low", "medium", "high", "holiday"] | None, Field(description="only this impact")] = None
    currency: Annotated[str | None, Field(max_length=64, description="only this currency")] = None


EventRow = answer_model(CalendarEvent, {"t": "UTC"}, name="EventRow", sparse=True)


class EventsAnswer(Answer):
    """Upcoming events."""

    as_of: Annotated[str, Field(description="UTC")]
    events: Annotated[list[EventRow], Field(description="by time, UTC")]  # type: ignore[valid-type]
    n: Annotated[int, Field(description="how many")]


@operation(writes=False, tools={"coach"}, columns=("t", "name", "currency", "impact", "forecast", "actual"))
def get_upcoming_events(memory: Memory, ask: GetEvents, caller: Caller) -> EventsAnswer:
    """List upcoming scheduled events."""
    at = ask.as_of or memory.clock.now()
    found = [
        e for e in upcoming_events(memory.events(ask.cutoff), at, timedelta(hours=ask.hours))
        if ask.impact in (None, e.impact) and ask.currency in (None, e.currency)
    ]  # fmt: skip
    return EventsAnswer(as_of=optional_time_text(at) or "", events=[EventRow(**plain(e)) for e in found], n=len(found))
