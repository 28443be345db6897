"""Sessions: events in any order, against an oracle that lives through them one after the other."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from memtape.core.decisions.runs import AgentRun, RunEnd, RunStart
from memtape.core.decisions.sessions import MemorySwitched, SessionEvent, SessionReset, chat_session, session_status
from tests.effort import examples

MIDNIGHT = datetime(2026, 4, 1, tzinfo=UTC)


def at(minute: float) -> datetime:
    return MIDNIGHT + timedelta(minutes=minute)


def run(kind: str, began: float, ended: float | None, session: str | None = None, result: str = "ok") -> AgentRun:
    id = f"{kind}-{began}-{ended}"
    start = RunStart(id=id, agent="gold", kind=kind, at=at(began), prompt="Analyse gold.", runner="callable")
    return AgentRun(start, RunEnd(run=id, at=at(ended), result=result, session_after=session) if ended is not None else None)


# ---- the oracle: one thing after the other, as it happened ----------------------------------------------------------


def lived_through(events: list[SessionEvent], now: datetime) -> dict[str, Any]:
    """Switches and resets come before the runs of their minute."""
    happened = []
    for event in events:
        if isinstance(event, AgentRun):
            happened.append((event.start.at, 1, "start", event))
            if event.end is not None:
                happened.append((event.end.at, 2, "end", event))
        else:
            happened.append((event.at, 0, "state", event))
    on, era, eras, scheduled, session, written = False, 0, {}, 0, None, None
    chat_era, chat_eras, chat = 0, {}, None
    for moment, _, what, event in sorted(happened, key=lambda each: each[:2]):
        if moment > now:
            break
        if what == "state":
            if isinstance(event, SessionReset):
                era, chat_era, scheduled, session, written, chat = era + 1, chat_era + 1, 0, None, None, None
            elif event.on != on:
                on, chat_era, chat = event.on, chat_era + 1, None
                if on:
                    era, scheduled, session, written = era + 1, 0, None, None
        elif what == "start":
            if on and event.start.kind in ("scheduled", "manual", "chat"):
                eras[event.id] = era
            if not on and event.start.kind == "chat":
                chat_eras[event.id] = chat_era
        elif event.end.result == "ok":
            if eras.get(event.id) == era:
                scheduled += event.start.kind == "scheduled"
                if event.end.session_after is not None:
                    session, written = event.end.session_after, moment
            if chat_eras.get(event.id) == chat_era and event.end.session_after is not None:
                chat = event.end.session_after
    return {"on": on, "runs": scheduled if on else None, "stored": session, "written": written, "chat": None if on else chat}


@st.composite
def histories(draw: st.DrawFn) -> list[SessionEvent]:
    """Events at different minutes, so that no order of delivery decides anything; runs overlap freely."""
    minutes = draw(st.lists(st.integers(0, 400), unique=True, min_size=2, max_size=40))
    events: list[SessionEvent] = []
    while len(minutes) >= 2:
        what = draw(st.sampled_from(["on", "off", "reset", "run", "run", "run", "run"]))
        if what == "run":
            began, ended = sorted((minutes.pop(), minutes.pop()))
            kind = draw(st.sampled_from(["scheduled", "manual", "chat", "re-examination", "council"]))
            result = draw(st.sampled_from(["ok", "ok", "ok", "failed", "lost", "stopped"]))
            session = draw(st.sampled_from([f"s{began}", None]))
            events.append(run(kind, began, draw(st.sampled_from([ended, ended, ended, None])), session, result))
        elif what == "reset":
            events.append(SessionReset(at(minutes.pop())))
        else:
            events.append(MemorySwitched(at(minutes.pop()), what == "on"))
    return events


@settings(max_examples=examples(150, 5_000))
@given(histories(), st.integers(0, 420), st.randoms(use_true_random=False))
def test_the_session_follows_from_the_events_in_whatever_order_they_are_delivered(events, minute, order):
    now = at(minute)
    found, lived = session_status(events, now), lived_through(events, now)
    assert (found.status == "Off") == (not lived["on"])
    assert (found.runs_since_reset, found.stored, found.updated_at) == (lived["runs"], lived["stored"], lived["written"])
    assert found.resume == (lived["stored"] if lived["on"] else None)
    assert chat_session(events, now) == lived["chat"]
    shuffled = events[:]
    order.shuffle(shuffled)
    assert session_status(shuffled, now) == found
    assert chat_session(shuffled, now) == lived["chat"]


def test_a_run_that_begins_at_the_very_moment_of_a_reset_belongs_to_the_new_session():
    events = [MemorySwitched(at(0), True), SessionReset(at(10)), run("scheduled", 10, 12, "s1")]
    assert session_status(events, at(20)).resume == "s1"


def test_of_two_runs_that_end_together_the_one_given_last_counts():
    events = [MemorySwitched(at(0), True), run("chat", 5, 10, "first"), run("scheduled", 6, 10, "second")]
    assert session_status(events, at(20)).resume == "second"


def test_a_run_without_a_session_counts_and_leaves_the_stored_one():
    events = [MemorySwitched(at(0), True), run("scheduled", 1, 2, "s1"), run("scheduled", 3, 4)]
    found = session_status(events, at(10))
    assert (found.runs_since_reset, found.resume, found.updated_at) == (2, "s1", at(2))


def test_a_run_of_the_old_session_that_ends_after_switching_off_is_still_kept():
    events = [MemorySwitched(at(0), True), run("chat", 5, 15, "s1"), MemorySwitched(at(10), False)]
    found = session_status(events, at(20))
    assert (found.status, found.stored, found.resume) == ("Off", "s1", None)


def test_chat_while_memory_is_off_continues_its_own_session_and_no_run_joins_it():
    events = [run("chat", 1, 2, "c1"), run("scheduled", 3, 4, "s1"), run("chat", 5, 6, "c2"), run("chat", 7, 8, "c3", "failed")]
    assert chat_session(events, at(10)) == "c2"
    assert chat_session([*events, SessionReset(at(9))], at(10)) is None
    assert chat_session([*events, MemorySwitched(at(9), True)], at(10)) is None
    assert chat_session([*events, MemorySwitched(at(9), True), MemorySwitched(at(9.5), False)], at(10)) is None
    assert chat_session([*events, MemorySwitched(at(9), False)], at(10)) == "c2"
    switched_on_in_between = [*events, MemorySwitched(at(4.5), True), MemorySwitched(at(6.5), False)]
    assert chat_session(switched_on_in_between, at(10)) is None
