"""Checks observed values as they arrive, and completes them with the id and times that they may leave out."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime, timedelta

from memtape.core.codec import make_id, plain, time_text
from memtape.core.fill_records import amended_fields, fills_of
from memtape.core.fills import Dividend, Instrument
from memtape.core.ids import DecisionId
from memtape.core.items import Item, bars_digest, claim_content_id, fill_references, names_by_authority, unpack_items
from memtape.core.observed import (
    READERS,
    Bars,
    Claim,
    ClosedTrade,
    Closing,
    Decision,
    EquityMark,
    Observed,
    Tick,
    occurred_at,
)
from memtape.core.value_class import dataclass
from memtape.core.values import read
from memtape.engine.write.fill_corrections import names_about_fills
from memtape.engine.write.quiet_ticks import has_parts, names_of_quiet
from memtape.errors import Conflict, Invalid, Unknown
from memtape.store.cutoff import EVERYTHING
from memtape.store.tables import Tables

CLOCK_TOLERANCE = timedelta(minutes=5)
SAME_REPORT_WITHIN = timedelta(minutes=10)


@dataclass(frozen=True, slots=True)
class Arrival:
    """An observed value that is about to be recorded."""

    value: Observed
    known_at: datetime
    batch: str | None = None  # the import that it belongs to
    own_times: bool = False  # bars reported after the fact: each counts as known from its own close


def key_of(value: Observed) -> str:
    """The key under which a value is logged: its source's own."""
    match value:
        case Bars():
            return bars_digest(value.bars)
        case ClosedTrade() | Claim() | Closing():
            assert value.trade_id is not None
            return value.trade_id
        case EquityMark():
            return value.id or time_text(value.t)
        case _:
            assert value.id is not None
            return value.id


def checked_value(value: Observed) -> Observed:
    """A value made in Python, checked like data from outside."""
    if not hasattr(value, "kind"):
        raise Invalid("observed", f"is no observed value, it is {type(value).__name__}", "Give a mapping, or a Fill")
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


def check_time(value: Observed, now: datetime) -> None:
    """Raises Invalid if a time in a value lies in the future."""
    latest = now + CLOCK_TOLERANCE
    if isinstance(value, Tick) and value.t <= latest and not has_parts(value) and all(bar.t1 <= latest for bar in value.bars):
        return
    at = occurred_at(value)
    named: list[tuple[str, datetime | None]] = [("exit_at" if value.kind in ("trade", "claim", "closing") else "t", at)]
    if isinstance(value, Tick):
        named += [(f"fills.{n}.t", fill.t) for n, fill in enumerate(value.fills)]
        named += [(f"funding.{n}.t", paid.t) for n, paid in enumerate(value.funding)]
        named += [(f"cash_flows.{n}.t", flow.t) for n, flow in enumerate(value.cash_flows)]
        named += [(f"bars.{n}.t1", bar.t1) for n, bar in enumerate(value.bars)]
        named += [(f"splits.{n}.t", split.t) for n, split in enumerate(value.splits or ())]
        named += [(f"dividends.{n}.ex_date", paid.ex_date) for n, paid in enumerate(value.dividends or ())]
        named += [(f"corrections.{n}.t", correction.t) for n, correction in enumerate(value.corrections or ())]
    if isinstance(value, Bars):
        named = [(f"bars.{n}.t1", bar.t1) for n, bar in enumerate(value.bars)]
    if isinstance(value, Instrument):
        # Terms may be stated before they come into force.
        return
    if isinstance(value, Dividend):
        # A dividend is announced, and is due to who held before its ex-date, before it is paid.
        named = [("ex_date", value.ex_date)]
    named += [(f"{field}.t", fill.t) for field, fill in amended_fields(value)]
    for name, time in named:
        if time is not None and time > latest:
            problem = f"{time_text(time)} is more than 5 minutes ahead of the clock"
            raise Invalid(name, problem, "Check the zone and the year, or this machine's clock")


def independent_items(items: Iterable[Item]) -> list[Item]:
    """The items of a tick that count even if the tick itself comes too late or a second time."""
    return [item for item in items if item.kind not in ("tick", "decision", "order")]


def expected_names(ticks: Iterable[Tick]) -> tuple[list[str], list[tuple[str, str]], list[str]]:
    """The keys of ticks, the names of all items that decide whether anything in them is new, and by what fills may name what
    they decide.
    """
    keys: list[str] = []
    names: list[tuple[str, str]] = []
    decided: list[str] = []
    for tick in ticks:
        keys.append(tick.id)
        if not has_parts(tick):
            names += names_of_quiet(tick)
            continue
        names += [(item.kind, item.key) for item in unpack_items(tick)]
        names += names_about_fills(fills_of(tick))
        for fill in fills_of(tick):
            # What it names is looked for under the owner's name too.
            names += [("decision", name) for name in names_by_authority(fill.decision or "")[:1] if fill.decision]
            names += [("order", name) for name in names_by_authority(fill.order_id or "")[:1] if fill.order_id]
        for decision in tick.decisions:
            decided += fill_references(decision)
    return keys, names, decided


def open_claim(tables: Tables, key: str) -> Item:
    """The trade that the agent reported open under this id.

    Raises Unknown if there is none, Conflict if it was reported closed.
    """
    found = tables.items("claim", EVERYTHING, keys=[key])
    if not found:
        raise Unknown("trade_id", "open trade of this agent's own report", key, "Report it first with remember_trade")
    claim = read(Claim, found[0].body)
    if claim.exit_price is not None:
        raise Conflict("trade_id", f"the trade '{key}' was reported closed", "Correct it with correct_memory")
    return Item("claim", key, found[0].at, claim, found[0].symbol, found[0].leg, found[0].ref)
