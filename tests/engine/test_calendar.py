"""The owner's calendar in a store: recorded, imported, undone; past moments; who states an event; on both databases."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from memtape.core.calendar import MODEL_TIER, CalendarEvent, read_calendar_event
from memtape.engine import Memory
from memtape.engine.calendar import EventCounts
from memtape.engine.proof.audit import rebuild_store, verify_store
from memtape.errors import Unknown
from memtape.plugs.clock import FixedClock
from memtape.store.cutoff import Cutoff
from tests.conftest import NOON
from tests.desk import given_agent

HOUR, DAY = timedelta(hours=1), timedelta(days=1)
RELEASE = datetime(2026, 6, 10, 12, 30, tzinfo=UTC)


def cpi(n: int = 0, **more: object) -> CalendarEvent:
    at = RELEASE + n * 30 * DAY
    return read_calendar_event({"id": f"cpi{n}", "t": at, "title": "CPI m/m", "currencies": ["USD"], "impact": "high", **more})


def titles(memory: Memory, **cutoff: object) -> list[tuple[str, float | None]]:
    return sorted((event.id, event.actual) for event in memory.calendar.events(Cutoff(**cutoff)))  # type: ignore[arg-type]


def test_an_import_counts_from_when_its_events_were_known(memory: Memory) -> None:
    done = memory.calendar.commit([cpi(0, actual=0.4), cpi(7)], {"file": "a.csv"})
    assert done.counts == EventCounts(new=2, changed=0, known=0)
    assert titles(memory, as_of=RELEASE - 31 * DAY) == []
    assert titles(memory, as_of=RELEASE - HOUR) == [("cpi0", None)]
    assert titles(memory, as_of=RELEASE) == [("cpi0", 0.4)]
    # The release in January is known now, because the file that lists it is here.
    assert cpi(7).t - timedelta(days=30) > NOON - DAY
    assert titles(memory, as_of=NOON) == [("cpi0", 0.4), ("cpi7", None)]


def test_the_same_file_twice_changes_nothing_and_a_new_figure_is_one_change(memory: Memory) -> None:
    assert memory.calendar.commit([cpi(0)], {"file": "a.csv"}).counts == EventCounts(1, 0, 0)
    again = memory.calendar.commit([cpi(0)], {"file": "a.csv"})
    assert (again.batch, again.counts) == (None, EventCounts(0, 0, 1))
    assert memory.calendar.commit([cpi(0, actual=0.4)], {"file": "a.csv"}).counts == EventCounts(0, 1, 0)
    assert titles(memory) == [("cpi0", 0.4)]


def test_undoing_an_import_brings_back_what_was_stated_before(memory: Memory) -> None:
    memory.calendar.commit([cpi(0)], {"file": "a.csv"})
    second = memory.calendar.commit([cpi(0, actual=9.9), cpi(1)], {"file": "b.csv"})
    assert second.batch is not None
    receipt = memory.calendar.undo(second.batch)
    assert not receipt.duplicate and memory.calendar.undo(second.batch).duplicate
    assert titles(memory) == [("cpi0", None)]
    assert [(item.body["file"], undone) for item, undone in memory.calendar.imports()] == [("a.csv", False), ("b.csv", True)]
    assert titles(memory, head=receipt.seq - 1) == [("cpi0", 9.9), ("cpi1", None)], "the log row before still shows it"
    back = memory.calendar.commit([cpi(0, actual=0.4), cpi(1)], {"file": "b.csv"})
    assert back.batch not in (None, second.batch) and back.counts == EventCounts(new=1, changed=1, known=0)
    with pytest.raises(Unknown, match="batch"):
        memory.calendar.undo("nothing")


def test_a_store_with_undone_imports_verifies_and_rebuilds(memory: Memory) -> None:
    batch = memory.calendar.commit([cpi(n, actual=0.1) for n in range(3)], {"file": "a.csv"}).batch
    memory.calendar.commit([cpi(n, actual=0.2) for n in range(4)], {"file": "b.csv"})
    assert batch is not None
    memory.calendar.undo(batch)
    before = verify_store(memory)
    rebuild_store(memory)
    assert before.ok and verify_store(memory).digests == before.digests


def test_what_a_model_states_is_listed_with_its_tier_and_moves_no_gate(memory: Memory) -> None:
    agent = given_agent(memory, mode="paper")
    soon = {"id": "fomc", "t": NOON + HOUR, "title": "FOMC Statement", "currencies": ["USD"], "impact": "high"}
    assert memory.calendar.record([soon], tier=MODEL_TIER).new == 1
    [listed] = memory.calendar.between(NOON, NOON + DAY)
    assert listed.tier == MODEL_TIER
    assert agent.memories.check_order(symbol="XAUUSD", side="long", situation=None, strategy=None, risk_usd=None).events == ()
    memory.calendar.record([soon])
    [checked] = agent.memories.check_order(symbol="XAUUSD", side="long", situation=None, strategy=None, risk_usd=None).events
    assert checked.tier == 1
    assert memory.calendar.record([soon | {"title": "Nothing"}], tier=MODEL_TIER) == EventCounts(0, 0, 1)
    assert [event.title for event in memory.calendar.events()] == ["FOMC Statement"]


def test_an_event_that_was_moved_is_found_where_it_went(memory: Memory) -> None:
    stated = {"id": "cpi0", "t": RELEASE, "title": "CPI m/m"}
    memory.calendar.record([stated], backfill=True)
    memory.calendar.record([stated | {"t": RELEASE + 2 * DAY}], backfill=True)
    assert memory.calendar.between(RELEASE - HOUR, RELEASE + HOUR) == []
    assert [event.t for event in memory.calendar.between(RELEASE, RELEASE + 3 * DAY)] == [RELEASE + 2 * DAY]


def test_another_owner_sees_no_event(memory: Memory, store_url: str, opened) -> None:  # type: ignore[no-untyped-def]
    memory.calendar.commit([cpi(0)], {"file": "a.csv"})
    other = opened(store_url, owner="other")
    other.resources.clock = FixedClock(NOON)
    assert other.calendar.events() == [] and other.calendar.imports() == []
