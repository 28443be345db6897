"""Scheduled events: what they are, how a store keeps them, and what plans and decisions may know of them.

An event is stated with a title, and perhaps with a kind, an impact or an importance. The tables of `event_kinds` add what the
source leaves out. A stored event has only what was stated, under the names that stores have always used (`name` for the title,
`currency` for a single one), so that old and new rows read alike.

>>> from datetime import UTC, datetime, timedelta
>>> at = datetime(2026, 6, 5, 12, 0, tzinfo=UTC)
>>> nfp = read_calendar_event({"id": "nfp", "t": at + timedelta(minutes=30), "title": "NFP", "currencies": ["USD"],
...                            "impact": "high", "forecast": 180.0})
>>> nfp.kind, nfp.importance, nfp.touches("XAUUSD"), nfp.touches("EURGBP")
('nfp', 0.8, True, False)
>>> calendar_fields([nfp], at)
{'event': 'NFP', 'event_impact': 'high', 'event_currency': 'USD', 'minutes_to_event': 30.0}
>>> released = replace(nfp, actual=210.0)
>>> calendar_fields([released], at + timedelta(minutes=45))["event_surprise"]
30.0
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import fields, replace
from datetime import date, datetime, timedelta
from typing import Annotated, Any, ClassVar

from pydantic import BeforeValidator, ConfigDict, Field

from memtape.core.codec import plain
from memtape.core.event_kinds import IMPORTANCE_OF_IMPACT, UNKNOWN_IMPORTANCE, EventKind, Impact, kind_of_title
from memtape.core.exposure import CURRENCIES, ScheduledEvent
from memtape.core.value_class import dataclass
from memtape.core.values import STRICT, Key, Label, Symbol, Text, Time, read

MINUTE, DAY = timedelta(minutes=1), timedelta(days=1)
SCHEDULE_KNOWN_AHEAD = timedelta(days=30)  # how long before an event its schedule is known
EVENT_HORIZON = timedelta(days=1)  # events further away than this, before or after, are ignored
OPERATOR_TIER, MODEL_TIER = 1, 3
LISTED_IMPORTANCE = 0.4  # less important events are listed only if somebody asks for them
EVERY_CURRENCY = "ALL"  # how calendars mark what concerns every currency
_Figure = Annotated[float, Field(allow_inf_nan=False)]
_Title = Annotated[Text, Field(min_length=1, max_length=200)]
_OLD_NAMES: Mapping[str, str] = {"name": "title", "currency": "currencies"}


@dataclass(frozen=True, slots=True, kw_only=True)
class StatedEvent:
    """A scheduled release, meeting or date as its source states it. `actual` is known only after it."""

    __pydantic_config__: ClassVar[ConfigDict] = STRICT
    id: Key
    t: Time
    title: _Title
    kind: EventKind | None = None
    impact: Impact | None = None
    importance: Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)] | None = None
    currencies: Annotated[tuple[Label, ...], Field(max_length=32)] = ()
    symbols: Annotated[tuple[Symbol, ...], Field(max_length=100)] = ()
    actual: _Figure | None = None
    forecast: _Figure | None = None
    previous: _Figure | None = None
    source: Label | None = None
    all_day: bool = False  # only the date is known: `t` is its beginning in UTC


@dataclass(frozen=True, slots=True, kw_only=True)
class CalendarEvent:
    """A scheduled event with its kind, its importance from 0 to 1, and the tier of its author."""

    id: str
    t: datetime
    title: str
    kind: EventKind = "other"
    importance: float = UNKNOWN_IMPORTANCE
    impact: Impact | None = None
    currencies: tuple[str, ...] = ()
    symbols: tuple[str, ...] = ()
    actual: float | None = None
    forecast: float | None = None
    previous: float | None = None
    source: str | None = None
    all_day: bool = False
    tier: int = OPERATOR_TIER

    @property
    def surprise(self) -> float | None:
        """Actual minus forecast, in the unit of the release."""
        return None if self.actual is None or self.forecast is None else self.actual - self.forecast

    @property
    def ends(self) -> datetime:
        """Until when it is ahead: its time, or the end of its day if the time is not known."""
        return self.t + DAY - timedelta(microseconds=1) if self.all_day else self.t

    @property
    def is_trusted(self) -> bool:
        """True if a venue or the operator stated it. Plans, checks and figures use no other events."""
        return self.tier <= OPERATOR_TIER

    @property
    def is_important(self) -> bool:
        """True if it is at least as important as what sources call high."""
        return self.importance >= IMPORTANCE_OF_IMPACT["high"]

    @property
    def impact_text(self) -> str:
        """The source's word for its impact, else its importance if that was stated."""
        stated = self.importance != UNKNOWN_IMPORTANCE
        return self.impact or (f"importance {self.importance:g}" if stated else "impact unknown")

    @property
    def scheduled(self) -> ScheduledEvent:
        """The event as the computation of exposure sees it. Of no known kind, it is like events of the same title only."""
        concerned = CURRENCIES if EVERY_CURRENCY in self.currencies else frozenset(self.currencies)
        kind = f"other: {self.title.lower()}" if self.kind == "other" else self.kind
        return ScheduledEvent(id=self.id, kind=kind, t=self.t, currencies=concerned, symbols=frozenset(self.symbols))

    def touches(self, symbol: str) -> bool:
        """True if it names the symbol, or one of the symbol's currencies."""
        return self.scheduled.touches(symbol)


# ---- reading and storing ---------------------------------------------------------------------------------------------------


def todays_names(data: object) -> object:
    """Returns stored or stated data under the names of `StatedEvent`. A store calls the title `name`."""
    if not isinstance(data, Mapping):
        return data
    named = {_OLD_NAMES.get(name, name): value for name, value in data.items() if not (name in _OLD_NAMES and value is None)}
    if isinstance(named.get("currencies"), str):
        named["currencies"] = [named["currencies"]]
    return named


EventStatement = Annotated[StatedEvent, BeforeValidator(todays_names)]


def read_calendar_event(data: Mapping[str, Any] | StatedEvent, tier: int = OPERATOR_TIER) -> CalendarEvent:
    """Returns a checked event. Raises Invalid with every wrong field."""
    stated: StatedEvent = read(EventStatement, data)
    return complete_event(stated, tier)


def complete_event(stated: StatedEvent, tier: int = OPERATOR_TIER) -> CalendarEvent:
    """Returns an event with the kind and the importance that its source left out."""
    given = {field.name: getattr(stated, field.name) for field in fields(StatedEvent)}
    kind = stated.kind or _implied_kind(stated.title, stated.impact)
    importance = stated.importance if stated.importance is not None else _implied_importance(stated.impact)
    return CalendarEvent(**{**given, "kind": kind, "importance": importance, "tier": tier})


def stored_event(body: Mapping[str, Any]) -> CalendarEvent:
    """Returns the event of a stored row."""
    stated = dict(body)
    return read_calendar_event(stated, int(stated.pop("tier", OPERATOR_TIER)))


def event_payload(event: CalendarEvent) -> dict[str, Any]:
    """Returns an event as it is stored: what the tables imply is left out, so that a better table serves old rows too."""
    body: dict[str, Any] = plain(event)
    body["name"] = body.pop("title")
    if len(event.currencies) == 1:
        body["currency"] = body["currencies"][0]
    implied = {
        "kind": event.kind == _implied_kind(event.title, event.impact), "tier": event.tier == OPERATOR_TIER,
        "importance": event.importance == _implied_importance(event.impact), "currencies": len(event.currencies) <= 1,
        "symbols": not event.symbols, "all_day": not event.all_day,
    }  # fmt: skip
    return {name: value for name, value in body.items() if not implied.get(name, False)}


def _implied_kind(title: str, impact: Impact | None) -> EventKind:
    return "holiday" if impact == "holiday" else kind_of_title(title)


def _implied_importance(impact: Impact | None) -> float:
    return UNKNOWN_IMPORTANCE if impact is None else IMPORTANCE_OF_IMPACT[impact]


def standing_events(bodies: Iterable[Mapping[str, Any]], kinds: Collection[str] | None = None) -> list[CalendarEvent]:
    """Returns each event, or each of some kinds, as it stands after all that was stated, in the order of the statements.

    A later statement replaces an earlier one, unless its author has a lower authority: what a model states adds events, and never
    changes those of the operator.
    """
    standing: dict[str, Mapping[str, Any]] = {}
    for body in bodies:
        earlier = standing.get(body["id"])
        if earlier is None or body.get("tier", OPERATOR_TIER) <= earlier.get("tier", OPERATOR_TIER):
            standing[body["id"]] = body
    # A calendar has thousands of events, and most questions are about one kind: only those are read.
    return [stored_event(body) for body in standing.values() if kinds is None or _stored_kind(body) in kinds]


def _stored_kind(body: Mapping[str, Any]) -> str:
    return body.get("kind") or _implied_kind(body["name"], body.get("impact"))


def backfilled_versions(event: CalendarEvent, now: datetime) -> list[tuple[CalendarEvent, datetime]]:
    """Returns an event as it became known: its schedule a month ahead (or now, if that is earlier), its actual at its release."""
    schedule = [(replace(event, actual=None), min(event.t - SCHEDULE_KNOWN_AHEAD, now))]
    return schedule if event.actual is None else [*schedule, (event, event.t)]


# ---- what is near ----------------------------------------------------------------------------------------------------------


def calendar_fields(events: Iterable[CalendarEvent], at: datetime) -> dict[str, object]:
    """Returns the calendar fields that a trigger can use: the next event within a day, else the last one."""
    near = [e for e in events if abs(e.t - at) <= EVENT_HORIZON and not e.all_day]
    ahead = sorted((e for e in near if e.t > at), key=lambda e: (e.t, _weight(e), e.id))
    behind = sorted((e for e in near if e.t <= at), key=lambda e: (e.t, -_weight(e), e.id))
    found: dict[str, object] = {}
    if ahead:
        found["minutes_to_event"] = (ahead[0].t - at) / MINUTE
    if behind:
        found["minutes_since_event"] = (at - behind[-1].t) / MINUTE
        if behind[-1].surprise is not None:
            found["event_surprise"] = behind[-1].surprise
    nearest: Sequence[CalendarEvent] = ahead[:1] or behind[-1:]
    for event in nearest:
        named = {"event": event.title, "event_impact": event.impact, "event_currency": next(iter(event.currencies), None)}
        found = {**{name: value for name, value in named.items() if value is not None}, **found}
    return found


def _weight(event: CalendarEvent) -> int:
    """Returns the rank of an event among events at the same time: the highest impact first."""
    return ("high", "medium", "low", "holiday", None).index(event.impact)


def upcoming_events(events: Iterable[CalendarEvent], at: datetime, within: timedelta) -> list[CalendarEvent]:
    """Returns the events from a moment on, within a duration, in order.

    An event of which only the day is known counts until that day is over, unless the same event is listed with its time by
    somebody of the same authority: a model that states a time hides no event of the operator.
    """
    ahead = sorted((e for e in events if at <= e.ends and e.t <= at + within), key=lambda e: (e.t, e.id))
    timed: dict[tuple[EventKind, str, date], int] = {}  # the tier of the most trusted one
    for e in ahead:
        for currency in () if e.all_day else e.currencies:
            key = e.kind, currency, e.t.date()
            timed[key] = min(e.tier, timed.get(key, e.tier))
    return [
        e for e in ahead
        if not (e.all_day and any(timed.get((e.kind, each, e.t.date()), e.tier + 1) <= e.tier for each in e.currencies))
    ]  # fmt: skip


def most_trusted(events: Sequence[CalendarEvent], limit: int) -> list[CalendarEvent]:
    """Returns so many events of an ordered list, in its order. Those of the operator come before those of a model.

    A model can state thousands of events; they must not displace the few that the operator stated.
    """
    chosen = sorted(range(len(events)), key=lambda n: (not events[n].is_trusted, n))[:limit]
    return [events[n] for n in sorted(chosen)]
