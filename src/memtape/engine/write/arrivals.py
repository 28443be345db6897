"""Checks observed values as they arrive and completes them with the id and times that they may leave out."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

from memtape.core.codec import make_id, plain, time_text
from memtape.core.fills import Instrument
from memtape.core.ids import DecisionId
from memtape.core.items import claim_content_id
from memtape.core.observed import READERS, Claim, Closing, Decision, Observed
from memtape.core.values import read
from memtape.errors import Conflict, Invalid
from memtape.store.tables import Tables

SAME_REPORT_WITHIN = timedelta(minutes=10)


def checked_value(value: Observed) -> Observed:
    """A value made in Python, checked like data from outside."""
    if value.kind not in READERS:
        raise Invalid("kind", f"'{value.kind}' is not an observed kind", f"Use one of {', '.join(READERS)}")
    checked: Observed = read(READERS[value.kind], value)
    return checked


def complete_value(value: Observed, now: datetime | None) -> Observed:
    """A value with the times and the id that it left out: the present time, and an id made from its content.

    Raises Invalid if a time is missing and there is no clock.
    """
    if isinstance(value, Decision):
        at = value.t or now
        if at is None:
            raise Invalid("t", "is missing", "Give the time of the decision")
        return replace(value, t=at, id=value.id or DecisionId(make_id("decision", plain(value), time_text(at))))
    if isinstance(value, Claim):
        closed = value.exit_price is not None
        at = value.exit_at or (now if closed else None)
        entry_at = value.entry_at or at or now
        if entry_at is None or (closed and at is None):
            raise Invalid("exit_at", "is missing", "Give the time at which the trade ended")
        value = replace(value, exit_at=at, entry_at=entry_at)
        return value if now is not None or value.trade_id else replace(value, trade_id=claim_content_id(value))
    if isinstance(value, Instrument) and value.id is None:
        return replace(value, id=make_id("instrument", plain(value), time_text(now) if now else ""))
    if isinstance(value, Closing):
        at = value.exit_at or now
        if at is None:
            raise Invalid("exit_at", "is missing", "Give the time at which the trade ended")
        return replace(value, exit_at=at)
    return value


def named_claim(tables: Tables, claim: Claim) -> Claim:
    """A claim with its id: the one it came with, else that of the same report within ten minutes, else a new one.

    Raises Conflict if the id belongs to a claim that was destroyed.
    """
    if claim.trade_id is not None:
        if (row := tables.logged("claim", claim.trade_id)) is not None and row.payload is None:
            raise Conflict("trade_id", f"the trade '{claim.trade_id}' was destroyed", "Report it under another id")
        return claim
    content = claim_content_id(claim)
    earlier = tables.items_about(f"c:{content}")
    at = claim.exit_at or claim.entry_at
    for item in earlier:
        if at is not None and abs(item.at - at) <= SAME_REPORT_WITHIN:
            return replace(claim, trade_id=item.key)
    number = len(earlier) + 1
    while tables.logged("claim", content if number == 1 else f"{content}-{number}") is not None:
        number += 1
    return replace(claim, trade_id=content if number == 1 else f"{content}-{number}")
