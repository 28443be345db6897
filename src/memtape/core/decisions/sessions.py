"""Sessions: what an agent carries from one run to the next while its Active Memory is on.

A runner gives every session an id; the id that a run ends with is the session of the next run. No state is stored: the session
follows from three kinds of events. Reset, and switching Active Memory from off to on, set the anchor: only runs that began at or
after it belong to the session, so a run that was under way during a Reset does not bring the old session back.

>>> from datetime import UTC, datetime
>>> from memtape.core.decisions.runs import RunEnd, RunStart
>>> def at(hour, minute=0):
...     return datetime(2026, 4, 1, hour, minute, tzinfo=UTC)
>>> start = RunStart(id="r1", agent="gold", kind="scheduled", at=at(9), prompt="Analyse gold.", runner="callable")
>>> run = AgentRun(start, RunEnd(run="r1", at=at(9, 1), result="ok", session_after="s1"))
>>> found = session_status([MemorySwitched(at(8), True), run], now=at(11, 16))
>>> found.status, found.runs_since_reset, found.session_age, found.resume
('Carrying context', 1, '2h 15m', 's1')
>>> found = session_status([MemorySwitched(at(8), True), run, SessionReset(at(10))], now=at(11, 16))
>>> found.status, found.runs_since_reset, found.resume
('Fresh', 0, None)
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal

from memtape.core.decisions.runs import AgentRun, RunEnd

AMBER_ABOVE = 20  # scheduled runs in one session; past it the context has grown so much that a reset is advised
SESSION_KINDS = ("scheduled", "manual", "chat")  # re-examinations and council runs are always fresh
MemoryState = Literal["Off", "Fresh", "Carrying context"]
MINUTES_PER_DAY = 24 * 60


@dataclass(frozen=True, slots=True)
class MemorySwitched:
    """The owner stated whether Active Memory is on. Stating what already holds changes nothing."""

    at: datetime
    on: bool


@dataclass(frozen=True, slots=True)
class SessionReset:
    """The owner reset the memory: the next run starts fresh."""

    at: datetime


SessionEvent = MemorySwitched | SessionReset | AgentRun


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionStatus:
    """The session of an agent at a moment, as its page and `get_session` show it."""

    status: MemoryState
    runs_since_reset: int | None  # scheduled runs of the session; None while memory is off
    amber: bool  # so many runs that a reset is advised
    session_age: str | None  # since the session was last written, like `2h 15m`
    resume: str | None  # the session that the next run continues
    stored: str | None  # the session on record; while memory is off it is kept and not used
    anchor: datetime | None  # the last reset, or the last time that memory was switched on
    updated_at: datetime | None  # when the stored session was written


@dataclass(frozen=True, slots=True)
class _History:
    """What is known at a moment: the real changes of Active Memory, the resets, and the runs that ended ok, by their end."""

    changes: Sequence[MemorySwitched]
    resets: Sequence[SessionReset]
    ended: Sequence[tuple[AgentRun, RunEnd]]

    def memory_on(self, moment: datetime) -> bool:
        """Returns True if Active Memory was on; a change at this very moment counts."""
        return next((change.on for change in reversed(self.changes) if change.at <= moment), False)


def session_status(events: Iterable[SessionEvent], now: datetime) -> SessionStatus:
    """Returns the session of an agent at a moment. Events may come in any order; equal times count in the order given."""
    history = _known_history(events, now)
    anchor = _latest([*history.resets, *(change for change in history.changes if change.on)])
    runs = [
        (run, end)
        for run, end in history.ended
        if run.start.kind in SESSION_KINDS
        and anchor is not None and run.start.at >= anchor and history.memory_on(run.start.at)
    ]  # fmt: skip
    written = [end for _, end in runs if end.session_after is not None]
    stored = written[-1].session_after if written else None
    updated_at = written[-1].at if written else None
    on = history.memory_on(now)
    count = sum(run.start.kind == "scheduled" for run, _ in runs)
    return SessionStatus(
        status="Off" if not on else "Fresh" if stored is None else "Carrying context",
        runs_since_reset=count if on else None,
        amber=on and count > AMBER_ABOVE,
        session_age=age_text(now - updated_at) if on and updated_at is not None else None,
        resume=stored if on else None,
        stored=stored,
        anchor=anchor,
        updated_at=updated_at,
    )


def chat_session(events: Iterable[SessionEvent], now: datetime) -> str | None:
    """Returns the session that chat continues while Active Memory is off: that of its own last run, and of no other kind of run.

    A reset, and every switch of Active Memory in either direction, starts it fresh. While memory is on there is none.
    """
    history = _known_history(events, now)
    anchor = _latest([*history.resets, *history.changes])
    written = [
        end.session_after
        for run, end in history.ended
        if run.start.kind == "chat" and end.session_after is not None
        and (anchor is None or run.start.at >= anchor) and not history.memory_on(run.start.at)
    ]  # fmt: skip
    return written[-1] if written and not history.memory_on(now) else None


def age_text(age: timedelta) -> str:
    """Returns a duration in its two largest units, rounded down; the second is left out when it is zero.

    >>> [age_text(timedelta(minutes=m)) for m in (0.9, 45, 135, 120, 4560, 4325)]
    ['0m', '45m', '2h 15m', '2h', '3d 4h', '3d']
    """
    minutes = age // timedelta(minutes=1)
    days, hours = minutes // MINUTES_PER_DAY, minutes % MINUTES_PER_DAY // 60
    units = [(days, "d"), (hours, "h")] if days else [(hours, "h"), (minutes % 60, "m")]
    return " ".join(f"{n}{unit}" for n, unit in units if n) or "0m"


def _known_history(events: Iterable[SessionEvent], now: datetime) -> _History:
    switches: list[MemorySwitched] = []
    resets: list[SessionReset] = []
    ended: list[tuple[AgentRun, RunEnd]] = []
    for event in events:
        if isinstance(event, AgentRun):
            if event.end is not None and event.end.result == "ok" and event.end.at <= now:
                ended.append((event, event.end))
        elif event.at > now:
            continue
        elif isinstance(event, MemorySwitched):
            switches.append(event)
        else:
            resets.append(event)
    changes: list[MemorySwitched] = []
    on = False
    # Sorting is stable: what has equal times stays in the order given.
    for switch in sorted(switches, key=lambda switch: switch.at):
        if switch.on != on:
            changes.append(switch)
            on = switch.on
    return _History(changes, resets, sorted(ended, key=lambda pair: pair[1].at))


def _latest(events: Sequence[MemorySwitched | SessionReset]) -> datetime | None:
    return max((event.at for event in events), default=None)
