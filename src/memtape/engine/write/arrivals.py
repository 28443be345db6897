"""Observed values as they arrive: checked, completed with the id and times that they may leave out."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

from memtape.core.codec import make_id, plain, time_text
from memtape.core.ids import DecisionId
from memtape.core.items import claim_content_id
from memtape.core.observed import READERS, Claim, Closing, Decision, Observed
from memtape.core.values import read
from memtape.errors import Conflict, Invalid
from memtape.store.tables import Tables

SAME_REPORT = timedelta(minutes=10)


def checked_value(seen: Observed) -> Observed:
    """A value made in Python, checked like any other."""
    if seen.kind not in READERS:
        raise Invalid("kind", f"'{seen.kind}' is not an observed kind", f"Use one of {', '.join(READERS)}")
    value: Observed = read(READERS[seen.kind], seen)
    return value


def complete_value(seen: Observed, now: datetime | None) -> Observed:
    """A decision on its own needs a time and an id; both have defaults."""
    if isinstance(seen, Decision):
        at = seen.t or now
        if at is None:
            raise Invalid("t", "is missing", "Give the time of the decision")
        return replace(seen, t=at, id=seen.id or DecisionId(make_id("decision", plain(seen), time_text(at))))
    if isinstance(seen, Claim):
        closed = seen.exit_price is not None
        at = seen.exit_at or (now if closed else None)
        entry_at = seen.entry_at or at or now
        if entry_at is None or (closed and at is None):
            raise Invalid("exit_at", "is missing", "Give the time at which the trade ended")
        seen = replace(seen, exit_at=at, entry_at=entry_at)
        return seen if now is not None or seen.trade_id else replace(seen, trade_id=claim_content_id(seen))
    if isinstance(seen, Closing):
        at = seen.exit_at or now
        if at is None:
            raise Invalid("exit_at", "is missing", "Give the time at which the trade ended")
        return replace(seen, exit_at=at)
    return seen


def named_claim(tables: Tables, claim: Claim) -> Claim:
    """A claim with its id: the one it came with, or that of the same report within ten minutes, or one of its own."""
    if claim.trade_id is not None:
        if (row := tables.logged("claim", claim.trade_id)) is not None and row.payload is None:
            raise Conflict("trade_id", f"the trade '{claim.trade_id}' was destroyed", "Report it under another id")
        return claim
    content = claim_content_id(claim)
    earlier = tables.items_about(f"c:{content}")
    at = claim.exit_at or claim.entry_at
    for item in earlier:
        if at is not None and abs(item.at - at) <= SAME_REPORT:
            return replace(claim, trade_id=item.key)
    number = len(earlier) + 1
    while tables.logged("claim", content if number == 1 else f"{content}-{number}") is not None:
        number += 1
    return replace(claim, trade_id=content if number == 1 else f"{content}-{number}")
