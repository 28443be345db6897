"""The owner's calendar: scheduled events, recorded one by one or from files. An import is one transaction, and so is its undo."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

from memtape.core.calendar import (
    OPERATOR_TIER,
    CalendarEvent,
    backfilled_versions,
    event_payload,
    read_calendar_event,
)
from memtape.core.codec import canonical_plain, digest, make_id, plain, time_text
from memtape.core.items import OWNER_STREAM, Item
from memtape.core.skills import OWNER_AGENT
from memtape.engine.arguments import require_several
from memtape.engine.view.events import events_between, latest_events
from memtape.engine.write.log_writer import Receipt
from memtape.engine.write.writer import Writer
from memtape.errors import Unknown
from memtape.store.cutoff import EVERYTHING

if TYPE_CHECKING:
    from memtape.core.calendar import (
        StatedEvent,
    )
    from memtape.core.items import StoredItem
    from memtape.engine.resources import Resources
    from memtape.store.cutoff import Cutoff
    from memtape.store.tables import Tables

Versions = list[tuple[CalendarEvent, datetime]]  # an event as it was known from a moment on


@dataclass(frozen=True, slots=True)
class EventCounts:
    """How many events were new, how many said something new about a known event, and how many were known."""

    new: int
    changed: int
    known: int


@dataclass(frozen=True, slots=True)
class EventImport:
    """The result of an import of events: its batch, None if nothing was new."""

    batch: str | None
    counts: EventCounts


class Calendar:
    """The calendar of one owner."""

    def __init__(self, resources: Resources) -> None:
        self._resources = resources

    # ---- reading ---------------------------------------------------------------------------------------------------

    def events(self, cutoff: Cutoff = EVERYTHING) -> list[CalendarEvent]:
        """Every event, each as it stands."""
        with self._resources.reading(OWNER_STREAM) as tables:
            return latest_events(tables.items("event", cutoff))

    def between(self, first: datetime, last: datetime, cutoff: Cutoff = EVERYTHING) -> list[CalendarEvent]:
        """The events from a moment on, before another."""
        with self._resources.reading(OWNER_STREAM) as tables:
            return events_between(tables, first, last, cutoff)

    def imports(self, cutoff: Cutoff = EVERYTHING) -> list[tuple[StoredItem, bool]]:
        """The imported files, oldest first, each with True if its import was undone."""
        with self._resources.reading(OWNER_STREAM) as tables:
            undone = {item.key for item in tables.items("undo", cutoff)}
            return [(item, item.key in undone) for item in tables.items("import", cutoff)]

    # ---- writing ---------------------------------------------------------------------------------------------------

    def record(
        self, events: Iterable[StatedEvent | Mapping[str, Any]], *, backfill: bool = False, tier: int = OPERATOR_TIER
    ) -> EventCounts:
        """Record scheduled events, or new facts about them. `tier` is that of the author.

        With `backfill` a schedule counts as known a month ahead of its event, and the actual figure from its release on.
        """
        listed = [read_calendar_event(event, tier) for event in require_several("events", events)]
        now = self._resources.clock.now()
        with self._resources.writing(OWNER_STREAM) as tables:
            news, counts = compare_with_known(listed, latest_events(tables.items("event", EVERYTHING)))
            versions = [
                version for event, _ in news
                for version in (backfilled_versions(event, now) if backfill else [(event, now)])
            ]  # fmt: skip
            self._write(self._writer(tables), versions, None)
        return counts

    def preview(self, events: Sequence[CalendarEvent]) -> EventCounts:
        """How many of these events are new, changed or known; writes nothing."""
        with self._resources.reading(OWNER_STREAM) as tables:
            return compare_with_known(events, latest_events(tables.items("event", EVERYTHING)))[1]

    def commit(self, events: Sequence[CalendarEvent], source: Mapping[str, Any]) -> EventImport:
        """Record all events of a file or none of them. Each counts as known from the time at which it was."""
        now = self._resources.clock.now()
        with self._resources.writing(OWNER_STREAM) as tables:
            news, counts = compare_with_known(events, latest_events(tables.items("event", EVERYTHING)))
            if not news:
                return EventImport(None, counts)
            writer = self._writer(tables)
            # The count makes the id of a file that is imported a second time, after an undo, another one.
            earlier = len(tables.items("import", EVERYTHING))
            batch = make_id(OWNER_STREAM, "import", digest(canonical_plain(plain(dict(source)))), earlier)
            versions = [version for event, known in news for version in _imported_versions(event, known, now)]
            self._write(writer, versions, batch)
            body = {**plain(dict(source)), "new": counts.new, "changed": counts.changed, "duplicates": counts.known,
                    "recorded_at": time_text(now)}  # fmt: skip
            # The import counts as known when its last event does, so that no read shows it before its events.
            known_at = max(at for _, at in versions)
            writer.declare(Item("import", batch, known_at, body), known_at)
            return EventImport(batch, counts)

    def undo(self, batch: str) -> Receipt:
        """Undo an import: from now on what it stated does not count. It stays in the log."""
        with self._resources.writing(OWNER_STREAM) as tables:
            if not tables.items("import", EVERYTHING, keys=[batch]):
                raise Unknown("batch", "import of events", batch, "List them with list_event_imports")
            if earlier := tables.logged("undo", batch):
                return Receipt(earlier.stream, earlier.seq, earlier.hash, (), duplicate=True)
            now, writer = self._resources.clock.now(), self._writer(tables)
            # The events become void with the log row of the undo, which is the next one.
            voided = tables.void_batch(batch, writer.head.seq + 1, now)
            return writer.declare(Item("undo", batch, now, {"batch": batch, "items": len(voided)}), now)

    def _writer(self, tables: Tables) -> Writer:
        return Writer(tables, OWNER_AGENT, self._resources.clock.now(), self._resources.author)

    def _write(self, writer: Writer, versions: Versions, batch: str | None) -> None:
        first = writer.head.seq + 1
        writer.declare_all(
            [
                (Item("event", f"{event.id}#{first + n}", event.t, event_payload(event), event.id), known_at)
                for n, (event, known_at) in enumerate(versions)
            ],
            batch,
        )


def compare_with_known(
    events: Iterable[CalendarEvent], known: Iterable[CalendarEvent]
) -> tuple[list[tuple[CalendarEvent, CalendarEvent | None]], EventCounts]:
    """What these events state that is not known, each with what was known of it; and how many there are of each sort."""
    standing = {event.id: event for event in known}
    listed = list(events)
    # A file may state an event twice, moved or revised: the last statement counts, else every import of it would find news.
    last = {event.id: n for n, event in enumerate(listed)}
    news: list[tuple[CalendarEvent, CalendarEvent | None]] = []
    new = changed = repeated = 0
    for n, event in enumerate(listed):
        earlier = standing.get(event.id)
        # What a lower authority states about an event of a higher one is left out: it may add events, not change them. What a
        # higher one repeats is news: from now on the event is its own.
        if last[event.id] > n or (earlier is not None and (event.tier > earlier.tier or event == earlier)):
            repeated += 1
            continue
        new, changed = new + (earlier is None), changed + (earlier is not None)
        news.append((event, earlier))
    return news, EventCounts(new, changed, repeated)


def _imported_versions(event: CalendarEvent, known: CalendarEvent | None, now: datetime) -> Versions:
    """The versions of an event of a file. If only its actual figure is new, its schedule is not stated again."""
    versions = backfilled_versions(event, now)
    if known is not None and event.actual is not None and replace(event, actual=known.actual) == known:
        return versions[-1:]
    return versions
