"""The functions that answer the golden vectors of decisions: reviews, sessions, re-examinations, schedules, facts, exposure.

An adapter only converts a vector's inputs to values, and an answer to the vector's names. It computes nothing. What is refused is
answered by the names of the wrong fields.

>>> vector = {"schedule": "every 0m", "now": "2026-03-02T10:00:00Z", "configured_at": "2026-03-01T00:00:00Z"}
>>> CARD_FORMULAS["schedule_due"](vector)
{'refused': ['schedule']}
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from decimal import Decimal
from functools import wraps
from typing import Any

from memtape.core.codec import read_time, time_text
from memtape.core.decisions.examinations import check_examination, reexamination_gate
from memtape.core.decisions.reviews import DEFAULT_LINES, ConvictionScore, ReviewedCard, review_lines
from memtape.core.decisions.runs import AgentRun, RunEnd, RunStart
from memtape.core.decisions.schedules import parse_schedule, schedule_due
from memtape.core.decisions.sessions import MemorySwitched, SessionEvent, SessionReset, session_status
from memtape.core.exposure import Exposure, HeldSide, ScheduledEvent, event_exposure
from memtape.core.facts import Fact, choose_facts
from memtape.core.ids import AgentId
from memtape.core.observed import Bar
from memtape.errors import Invalid
from memtape.lab.formulas import Inputs, VectorAnswer
from memtape.lab.outcome_formulas import outcome_vector

Formula = Callable[[Inputs], VectorAnswer]


def or_refused(formula: Formula) -> Formula:
    """Returns a function that answers a refusal with the names of the wrong fields."""

    @wraps(formula)
    def answer(i: Inputs) -> VectorAnswer:
        try:
            return formula(i)
        except Invalid as error:
            return {"refused": [each.field for each in error.errors]}

    return answer


def _time_or_none(text: str | None) -> datetime | None:
    return read_time(text) if text is not None else None


def _text_or_none(moment: datetime | None) -> str | None:
    return time_text(moment) if moment is not None else None


def _card(card: Inputs) -> ReviewedCard:
    return ReviewedCard(
        id=card["id"],
        decided_at=read_time(card["decided_at"]),
        type=card.get("type") or "trade-decision",
        action=card.get("action"),
        thesis=card.get("thesis"),
        reason=card.get("reason"),
        title=card.get("title"),
        status=card.get("status"),
        cause=card.get("cause"),
        r=Decimal(card["r"]) if card.get("r") is not None else None,
        examinations=tuple(
            ConvictionScore(read_time(each["t"]), each["conviction_score"]) for each in card.get("examinations") or ()
        ),
    )


def _review_lines(i: Inputs) -> VectorAnswer:
    limit = i["limit"] if i.get("limit") is not None else DEFAULT_LINES
    review = review_lines([_card(card) for card in i["cards"]], read_time(i["now"]), limit)
    return {"lines": list(review.lines), "tally": review.tally, "hit_rate": review.hit_rate, "n": review.n}


def _session_event(number: int, event: Inputs) -> SessionEvent | None:
    """Returns an event of the vectors; None for a configuration that says nothing of Active Memory."""
    if event["kind"] == "reset":
        return SessionReset(read_time(event["t"]))
    if event["kind"] == "configure":
        on = event.get("active_memory")
        return MemorySwitched(read_time(event["t"]), on) if on is not None else None
    if event["kind"] != "run":
        raise Invalid("kind", f"'{event['kind']}' is unknown", "Give configure, reset or run")
    id = f"run-{number}"
    start = RunStart(
        id=id, agent=AgentId("golden"), kind=event["run"], at=read_time(event["started"]), prompt="", runner="callable"
    )
    if event.get("ended") is None:
        return AgentRun(start)
    end = RunEnd(run=id, at=read_time(event["ended"]), result=event["result"], session_after=event.get("session_after"))
    return AgentRun(start, end)


def _session_status(i: Inputs) -> VectorAnswer:
    events = [_session_event(n, event) for n, event in enumerate(i["events"])]
    found = session_status([event for event in events if event is not None], read_time(i["now"]))
    return {
        "status": found.status,
        "runs_since_reset": found.runs_since_reset,
        "amber": found.amber,
        "session_age": found.session_age,
        "resume": found.resume,
        "stored": found.stored,
        "anchor": _text_or_none(found.anchor),
        "updated_at": _text_or_none(found.updated_at),
    }


def _reexamine_allowed(i: Inputs) -> VectorAnswer:
    kind: Mapping[str, Any] = i.get("card_type") or {}
    gate = reexamination_gate(kind.get("reExaminable"), i.get("resolution_status"))
    answer: VectorAnswer = {"allowed": gate.allowed, "reason": gate.reason}
    if not gate.allowed or i.get("answer") is None:
        return answer
    wrong = check_examination(i["answer"], kind.get("reExamineActions") or (), i.get("watch_for") or ())
    return {"refused": wrong} if wrong else answer | {"accepted": True}


def _fact(fact: Inputs) -> Fact:
    return Fact(
        id=fact["id"],
        text=fact["text"],
        topic=fact.get("topic"),
        asserted=fact.get("confidence") == "asserted",
        created=read_time(fact["created"]),
        skill=fact.get("skill"),
        last_referenced=_time_or_none(fact.get("last_referenced")),
        archived=_time_or_none(fact.get("archived")),
        shown=tuple(map(read_time, fact.get("shown") or ())),
    )


def _choose_facts(i: Inputs) -> VectorAnswer:
    choice = choose_facts([_fact(fact) for fact in i["facts"]], read_time(i["now"]), i.get("focus_skill"))
    return {"chosen": [fact.id for fact in choice.chosen], "block": choice.block, "stale": list(choice.stale)}


def _event(event: Inputs) -> ScheduledEvent:
    currencies, symbols = frozenset(event.get("currencies") or ()), frozenset(event.get("symbols") or ())
    return ScheduledEvent(id=event["id"], kind=event["kind"], t=read_time(event["t"]), currencies=currencies, symbols=symbols)


def _bars(symbol: str, bars: Inputs) -> list[Bar]:
    frame = timedelta(minutes=bars["frame_minutes"])
    return [
        Bar(symbol=symbol, t0=read_time(t), t1=read_time(t) + frame, o=Decimal(o), h=Decimal(h), l=Decimal(low), c=Decimal(c))
        for t, o, h, low, c in bars["rows"]
    ]


def _exposure_row(row: Exposure) -> VectorAnswer:
    return {
        "event_id": row.event_id,
        "symbol": row.symbol,
        "position_side": row.side,
        "similar_events_back": row.similar_events,
        "median_abs_move_pct": row.median_abs_move,
        "worst_move_pct": row.worst_move,
        "two_hour_range": {"median": row.median_range, "n": row.similar_events},
    }


def _exposure(i: Inputs) -> VectorAnswer:
    rows = event_exposure(
        event=_event(i["event"]),
        positions=[HeldSide(held["symbol"], held["side"]) for held in i.get("positions") or ()],
        past_events=[_event(event) for event in i.get("past_events") or ()],
        bars={symbol: _bars(symbol, bars) for symbol, bars in (i.get("bars") or {}).items()},
        as_of=read_time(i["as_of"]),
    )
    return {"your_exposure": [_exposure_row(row) for row in rows]}


def _schedule_due(i: Inputs) -> VectorAnswer:
    schedule = parse_schedule(str(i["schedule"]))
    found = schedule_due(schedule, read_time(i["now"]), read_time(i["configured_at"]), _time_or_none(i.get("last_run")))
    return {"due": found.due, "slot": _text_or_none(found.slot), "next": time_text(found.next)}


CARD_FORMULAS: Mapping[str, Formula] = {
    "review_lines": or_refused(_review_lines),
    "session_status": or_refused(_session_status),
    "reexamine_allowed": or_refused(_reexamine_allowed),
    "choose_facts": or_refused(_choose_facts),
    "exposure": or_refused(_exposure),
    "schedule_due": or_refused(_schedule_due),
    "outcome": outcome_vector,
}
