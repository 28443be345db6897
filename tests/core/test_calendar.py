"""What a calendar event is: its kind and importance by tables, whom it touches, who may change it, and how it is stored."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from memtape.core.calendar import (
    MODEL_TIER,
    CalendarEvent,
    backfilled_versions,
    calendar_fields,
    event_payload,
    read_calendar_event,
    standing_events,
    stored_event,
    upcoming_events,
)
from memtape.core.event_kinds import EVENT_KINDS, IMPACT_WORDS, IMPORTANCE_OF_IMPACT, impact_of_word, kind_of_title
from memtape.errors import Invalid

NOON = datetime(2026, 6, 5, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)


def event(title: str = "CPI m/m", **more: object) -> CalendarEvent:
    return read_calendar_event({"id": "e1", "t": NOON, "title": title, **more})


@pytest.mark.parametrize(
    ("title", "kind"),
    [
        ("CPI y/y", "cpi"), ("Consumer Price Index", "cpi"), ("Non-Farm Employment Change", "nfp"),
        ("Employment Situation (NFP)", "nfp"), ("ADP Non-Farm Employment Change", "jobs"), ("Average Hourly Earnings m/m", "jobs"),
        ("FOMC Statement", "fomc"), ("Federal Funds Rate", "fomc"), ("FOMC Press Conference", "speech"),
        ("FOMC Member Waller Speaks", "speech"), ("FOMC Meeting Minutes", "minutes"), ("Official Bank Rate", "rates"),
        ("Unemployment Rate", "jobs"), ("Advance GDP q/q", "gdp"), ("Core PPI m/m", "ppi"), ("AAPL earnings", "earnings"),
        ("BTC options expiry", "expiry"), ("ARB token unlock", "unlock"), ("UoM Inflation Expectations", "sentiment"),
        ("Bank Holiday", "holiday"), ("Village fair", "other"),
    ],
)  # fmt: skip
def test_a_title_tells_the_kind_where_the_source_states_none(title: str, kind: str) -> None:
    assert kind_of_title(title) == kind == event(title).kind
    assert kind in EVENT_KINDS


def test_a_kind_that_the_source_states_stands_before_the_title() -> None:
    assert event("CPI m/m", kind="other").kind == "other"


def test_the_words_of_a_source_become_an_importance_by_one_table() -> None:
    assert [event(impact=word).importance for word in ("high", "medium", "low")] == [0.8, 0.5, 0.2]
    assert {word: IMPORTANCE_OF_IMPACT[IMPACT_WORDS[word]] for word in ("red", "moderate", "1")} == {
        "red": 0.8,
        "moderate": 0.5,
        "1": 0.2,
    }
    assert impact_of_word("lunch") is None
    assert event().importance == 0.5, "an event whose importance nobody stated is neither hidden nor feared"
    assert event(impact="low", importance=0.95).importance == 0.95


def test_an_event_touches_the_symbols_of_its_currencies_and_those_it_names() -> None:
    cpi = event(currencies=["USD"])
    assert [cpi.touches(symbol) for symbol in ("XAUUSD", "BTCUSDT", "US500", "EURGBP", "TSLA")] == [
        True,
        True,
        True,
        False,
        False,
    ]
    assert event("TSLA earnings", symbols=["TSLA"]).touches("TSLA")
    assert event("G7 Meetings", currencies=["ALL"]).touches("EURGBP")


def test_events_of_no_known_kind_are_alike_only_if_they_have_one_title() -> None:
    budget, fair = event("Annual Budget Release", currencies=["USD"]), event("Village fair", currencies=["USD"])
    assert budget.kind == fair.kind == "other"
    assert budget.scheduled.is_like(replace(budget, id="e2").scheduled) and not budget.scheduled.is_like(fair.scheduled)


def test_every_wrong_field_of_an_event_is_named() -> None:
    with pytest.raises(Invalid) as refused:
        read_calendar_event(
            {"id": "e", "t": "2026-06-05T12:00:00", "title": "", "kind": "lunch", "importance": 2, "colour": "red"}
        )
    assert [each.field for each in refused.value.errors] == ["t", "title", "kind", "importance", "colour"]


def test_a_row_of_an_old_store_reads_as_an_event_of_today() -> None:
    old = {"id": "nfp", "t": "2026-06-05T12:00:00Z", "name": "NFP", "currency": "USD", "impact": "high", "forecast": 180.0}
    read = stored_event(old)
    assert (read.title, read.currencies, read.kind, read.importance, read.tier) == ("NFP", ("USD",), "nfp", 0.8, 1)
    assert event_payload(read) == old, "and is written in the same words"


def test_what_an_event_states_beyond_the_old_names_is_stored_and_read_back() -> None:
    rich = replace(
        event(currencies=["USD", "EUR"], symbols=["TSLA"], kind="other", importance=0.7, source="desk", all_day=True),
        tier=MODEL_TIER,
    )
    assert stored_event(event_payload(rich)) == rich
    assert event_payload(rich).keys() == {
        "id",
        "t",
        "name",
        "kind",
        "importance",
        "currencies",
        "symbols",
        "source",
        "all_day",
        "tier",
    }


def test_a_model_adds_events_and_never_changes_those_of_the_owner() -> None:
    own, forged = event(impact="high"), replace(event("Nothing today", impact="low"), tier=MODEL_TIER)
    added = replace(forged, id="e2")
    assert standing_events(map(event_payload, [own, forged, added])) == [own, added]
    assert standing_events(map(event_payload, [forged, own])) == [own], "the owner may replace what a model stated"
    assert standing_events(map(event_payload, [own, added]), {"cpi"}) == [own]


def test_a_schedule_is_known_a_month_ahead_and_a_figure_from_its_release_on() -> None:
    past = event(actual=0.3)
    schedule, released = backfilled_versions(past, NOON + 100 * HOUR)
    assert schedule == (replace(past, actual=None), NOON - timedelta(days=30)) and released == (past, NOON)
    assert backfilled_versions(event(), NOON - timedelta(days=90)) == [(event(), NOON - timedelta(days=90))]


def test_an_event_without_a_time_is_ahead_until_its_day_is_over_and_sets_off_no_plan() -> None:
    day = event(all_day=True, currencies=["USD"])
    at = NOON.replace(hour=0)
    day = replace(day, t=at)
    assert upcoming_events([day], at + 20 * HOUR, HOUR) == [day]
    assert upcoming_events([day], at + 24 * HOUR, HOUR) == []
    assert calendar_fields([day], at + HOUR) == {}
    timed = replace(day, id="e2", t=at + 12 * HOUR, all_day=False)
    assert upcoming_events([day, timed], at + HOUR, 24 * HOUR) == [timed], "a calendar that knows the time says it better"
