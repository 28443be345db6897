"""Writes observed values: a log row each, and everything that follows from them, in one transaction.

READ which items are already stored, DECIDE with the pure ledger, WRITE the log rows, the items and the projections. What
comes in order is folded onto the open positions; what comes late derives its position again (`positions`).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import NamedTuple

from memtape.core.authors import MODEL_AUTHOR, OWNER_AUTHOR, VENUE_AUTHOR, LogAuthor, stamped
from memtape.core.codec import canonical, canonical_object, canonical_plain, chain_hash, digest, make_id, micros, time_text
from memtape.core.decisions.outcomes import outcome_card
from memtape.core.events import Event, StaleTick, TradeRevised, bar_differs, discrepancy_found, event_data, read_event
from memtape.core.fill_records import amended_fields, differing_deliveries, fill_discrepancy, fills_of
from memtape.core.fills import Dividend, Fill, FillCorrection, Instrument
from memtape.core.items import (
    TICK_BODY,
    Item,
    bars_digest,
    close_claim,
    delivery_digest,
    fill_references,
    items_of_quiet,
    observed_bars,
    unpack_items,
)
from memtape.core.ledger.position_events import FillEvent, FundingEvent
from memtape.core.ledger.rounds import KnownBar
from memtape.core.ledger.terms import RULES_VERSION
from memtape.core.memory.learn import account_change
from memtape.core.model_limits import MODEL_ROWS_PER_DAY, over_limit
from memtape.core.observed import Bar, Bars, Claim, ClosedTrade, Closing, EquityMark, Observed, Tick, occurred_at
from memtape.core.skills import Agent
from memtape.core.values import read
from memtape.engine.write.batch import Batch
from memtape.engine.write.fill_corrections import (
    fill_after_corrections,
    is_void,
    names_about_fills,
    refuse_inverse_prices,
    stored_contents,
    write_correction,
)
from memtape.engine.write.learn import learn_from_batch
from memtape.engine.write.plan_firing import fire_plans
from memtape.engine.write.positions import update_positions
from memtape.engine.write.price_checks import PriceChecks, is_far_off
from memtape.engine.write.quiet_ticks import QuietTicks, carry_over_bars, has_parts, names_of_quiet
from memtape.engine.write.reported_trades import put_reported
from memtape.engine.write.verification import is_broker_record
from memtape.errors import Conflict, Invalid, NeedsRebuild, PermissionDenied, Unknown
from memtape.store.cutoff import EVERYTHING
from memtape.store.rows import Head, LogRow, item_row
from memtape.store.tables import Tables

CLOCK_TOLERANCE = timedelta(minutes=5)
BARS_BACK = 4  # bar lengths: of daily bars as far as over a long weekend
CHUNK_VALUES = 500  # of an import, after which rows are written


@dataclass(frozen=True, slots=True)
class Receipt:
    """The result of an observation: its place in the log and the events that followed from it."""

    stream: str
    seq: int
    hash: str
    concluded: tuple[Event, ...]
    duplicate: bool = False
    reflection_due: bool = False  # enough trades have closed for new lessons

    @property
    def revised(self) -> bool:
        """True if it changed trades that were closed before."""
        return any(isinstance(event, TradeRevised) for event in self.concluded)

    def concluded_data(self) -> list[dict[str, object]]:
        """The events as plain data."""
        data = [event_data(event) for event in self.concluded]
        # The events of a duplicate come from the log, where canonical JSON sorts the keys, and answers keep that order.
        return [dict(sorted(each.items())) for each in data] if self.duplicate else data


@dataclass(frozen=True, slots=True)
class Arrival:
    """An observed value that is about to be recorded."""

    value: Observed
    known_at: datetime
    batch: str | None = None  # the import that it belongs to
    own_times: bool = False  # bars reported after the fact: each counts as known from its own close


def check_time(value: Observed, now: datetime) -> None:
    """Raises Invalid if a time in a value lies in the future."""
    latest = now + CLOCK_TOLERANCE
    at = occurred_at(value)
    if isinstance(value, Tick) and not has_parts(value) and value.t <= latest and all(bar.t1 <= latest for bar in value.bars):
        return
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


class ObservedJson(NamedTuple):
    """An observed value in canonical JSON."""

    log: str  # as its log row has it: bars only by count, range and digest
    item: str  # as its item has it: of a tick, without the parts that are items of their own


def observed_json(value: Observed, new_bars: Sequence[KnownBar]) -> ObservedJson:
    """What the log and the items store of a value, in canonical JSON."""
    if not isinstance(value, Tick | Bars):
        whole = canonical(value)
        return ObservedJson(whole, whole)
    members: dict[str, str] = {}
    for name in value.__slots__:
        part = getattr(value, name)
        if part is not None and name != "bars":
            members[name] = canonical(part)
    own = canonical_object({name: members[name] for name in TICK_BODY if name in members})
    return ObservedJson(canonical_object(members | {"bars": _bars_json(value.bars, new_bars)}), own)


def quiet_tick_json(tick: Tick, new_bars: Sequence[KnownBar]) -> ObservedJson:
    """The same as `observed_json` for a tick without parts. Its keys are few and fixed, so they are written out sorted."""
    equity = "" if tick.equity is None else f'"equity":{canonical(tick.equity)},'
    positions = "" if tick.positions is None else f'"positions":{canonical(tick.positions)},'
    rates = "" if tick.rates is None else f'"rates":{canonical(tick.rates)},'
    own = f'"id":{canonical(tick.id)},"marks":{canonical(tick.marks)},{positions}{rates}'
    bars, at = _bars_json(tick.bars, new_bars), time_text(tick.t)
    whole = f'{{"bars":{bars},"cash_flows":[],{equity}"fills":[],"funding":[],{own}'
    return ObservedJson(f'{whole}"t":"{at}"}}', f'{{{own}"t":"{at}"}}')


def _bars_json(bars: Sequence[Bar], new: Sequence[KnownBar]) -> str:
    """The bars of a value by count, range and digest."""
    if not bars:
        return "[]"
    counted = f'"count":{len(new)},"digest":"{delivery_digest(new)}"'
    if not new:
        return f"{{{counted}}}"
    first, last = min([known.bar.t0 for known in new]), max([known.bar.t1 for known in new])
    return f'{{{counted},"first":"{time_text(first)}","last":"{time_text(last)}"}}'


def payload_json(observed: str, concluded: Sequence[Event], skill_version: int, batch: str | None) -> str:
    """A whole payload in canonical JSON, around the observed value. Its keys are fixed, so they are written out sorted."""
    of_import = f'"batch":"{batch}",' if batch else ""
    events = canonical_plain([event_data(event) for event in concluded]) if concluded else "[]"
    return f'{{{of_import}"concluded":{events},"observed":{observed},"skill_version":{skill_version}}}'


class Writer:
    """Records values of one agent in one transaction."""

    def __init__(self, tables: Tables, agent: Agent, now: datetime, author: LogAuthor = OWNER_AUTHOR) -> None:
        self.tables, self.agent, self.now, self._recorded_at = tables, agent, now, micros(now)
        self.author = author
        self._by_models: dict[str, int] = {}  # by kind: how many rows models have written today
        self.start: Head = tables.head()
        self.seq, self.hash, self.known_at = self.start.seq, self.start.hash, self.start.known_at
        self.first_snapshot, self.last_tick = self.start.first_snapshot, self.start.last_tick
        self.verified_from = self.start.verified_from
        if self.start.seq and self.start.rules < RULES_VERSION:
            raise NeedsRebuild(stream=tables.stream)
        self.log: list[LogRow] = []
        self.batch = Batch()
        self._new_bars_of_value: list[KnownBar] = []  # of the value that is being recorded
        self._observed = ObservedJson("", "")  # that value
        self._open_claims: list[Item] = []  # of this transaction
        self._awaited: set[str] = set()  # fills that were corrected before they came
        self._prices = PriceChecks(tables)
        self._bars_before: dict[str, Bar] = {}  # by symbol, the stored bar before those that were last looked at

    @property
    def head(self) -> Head:
        """The head of the stream, with the values recorded so far."""
        return Head(self.seq, self.hash, self.first_snapshot, self.last_tick, self.known_at, self.verified_from)

    # ---- READ: is it new? --------------------------------------------------------------------------------------

    def one(self, arrival: Arrival) -> Receipt:
        """Record a single value. A value that was recorded before gets the receipt of that time."""
        value = arrival.value
        refuse_inverse_prices(self.tables, value, self.now)
        items, earlier = self._new_items(value, arrival.known_at)
        if earlier is not None:
            return earlier
        events: list[Event] = []
        self._take(arrival, items, events)
        events += self._conclude()
        if isinstance(value, Tick) and self.batch.ticks:
            events += fire_plans(self.tables, self.agent, value, self.start.last_tick)
        return self._append(arrival, events)

    def quiet(self, ticks: Iterable[tuple[Tick, datetime]]) -> list[Receipt]:
        """Record the first of these ticks, as far as nothing happens on them; each comes with the time at which it was known.

        Returns their receipts, none if something happens on the very first.
        """
        stretch: QuietTicks | None = None
        receipts: list[Receipt] = []
        for tick, known_at in ticks:
            if has_parts(tick):
                break
            stretch = stretch or QuietTicks(self.tables, self.agent, self.start)
            if not stretch.take(tick, known_at):
                break
            receipts.append(self._take_quiet(tick, known_at))
        if stretch is not None and receipts:
            self.tables.put_items(self.batch.item_rows)
            carry_over_bars(self.tables, self.agent, stretch.open, self.batch.bars)
            learn_from_batch(self.tables, self.agent, self.start, self.verified_from, self.batch)
            self.flush()
        return receipts

    def many(self, arrivals: Iterable[Arrival]) -> tuple[int, int]:
        """Record an import: one log row for each value, everything else once at the end.

        Returns how many values were new and how many were known.
        """
        new = known = 0
        listed = [(arrival, unpack_items(arrival.value)) for arrival in arrivals]
        fills = {fill.id: fill for arrival, _ in listed for fill in fills_of(arrival.value)}
        names = [(item.kind, item.key) for _, items in listed for item in items]
        keys = set(self.tables.log_rows_of([*names, *names_about_fills(fills.values())]))
        self._awaited = {key for kind, key in keys if kind == "awaited_fill"}
        stored = sorted(id_ for id_ in fills if ("fill", id_) in keys or ("void_fill", id_) in keys)
        versions = stored_contents(self.tables, stored)
        for arrival, items in listed:
            items = [item for item in items if (item.kind, item.key) not in keys and not is_void(item, keys)]
            differing = differing_deliveries(arrival.value, versions, arrival.known_at)
            items += [item for item in differing if not self._differs_known(item, keys)]
            for fill in fills_of(arrival.value):
                versions.setdefault(fill.id, [fill])
            # Bars are no items. The same bars twice in one file are one delivery, by their common key.
            own = (arrival.value.kind, key_of(arrival.value))
            if not items and (not observed_bars(arrival.value) or own in keys):
                known += 1
                continue
            keys.update([*((item.kind, item.key) for item in items), own])
            events: list[Event] = []
            self._take(arrival, items, events)
            self._append(arrival, events, flush=False)
            new += 1
            if new % CHUNK_VALUES == 0:
                self._write_early()
        self._conclude(report=False)
        self.flush()
        return new, known

    def _new_items(self, value: Observed, known_at: datetime) -> tuple[list[Item], Receipt | None]:
        """The items of a value that are not stored yet; or, if nothing in it is new, the receipt of its first delivery."""
        # Of two items with the same key in one value, the first counts.
        items = list({(item.kind, item.key): item for item in reversed(unpack_items(value))}.values())[::-1]
        logged = self.tables.logged(value.kind, key_of(value)) if isinstance(value, Tick | Bars) else None
        if logged is not None:
            items = independent_items(items)
        fills = fills_of(value)
        log_rows = self.tables.log_rows_of([*((item.kind, item.key) for item in items), *names_about_fills(fills)])
        self._awaited = {key for kind, key in log_rows if kind == "awaited_fill"}
        new = [item for item in items if (item.kind, item.key) not in log_rows and not is_void(item, log_rows)]
        known = {fill.id for fill in fills if ("fill", fill.id) in log_rows or ("void_fill", fill.id) in log_rows}
        if known or len({fill.id for fill in fills}) < len(fills):
            others = differing_deliveries(value, stored_contents(self.tables, sorted(known)), known_at)
            stored = self.tables.log_rows_of((item.kind, item.key) for item in others)
            new += [item for item in others if (item.kind, item.key) not in stored]
        if new:
            return new, None
        if observed_bars(value) and (logged is None or isinstance(value, Tick)):
            new_bars, differing = self._new_bars(observed_bars(value))
            if new_bars or (differing and logged is None):
                return [], None
        if logged is None:
            # Every part of it is stored, but came in other values: the receipt is that of the first part.
            # Of a fill that was taken back, the row that says so is known.
            names = [name for item in items for name in ((item.kind, item.key), ("void_fill", item.key)) if name in log_rows]
            seq = log_rows[names[0]] if names else self.tables.bar_row(observed_bars(value)[0])
            logged = next(iter(self.tables.log(after=seq - 1, chunk=1)))
        return [], _receipt_of(logged)

    def _differs_known(self, item: Item, keys: set[tuple[str, str]]) -> bool:
        """True if another content of a fill was reported before; it is then in `keys`."""
        name = (item.kind, item.key)
        if name not in keys and self.tables.log_rows_of([name]):
            keys.add(name)
        return name in keys

    def _new_bars(self, bars: Sequence[Bar]) -> tuple[list[Bar], list[Event]]:
        """The bars that are not stored yet. A bar that differs from the stored one is reported and ignored."""
        new: list[Bar] = []
        differing: list[Event] = []
        self._bars_before = {}
        by_symbol: dict[str, list[Bar]] = {}
        for bar in bars:
            by_symbol.setdefault(bar.symbol, []).append(bar)
        for symbol, own in sorted(by_symbol.items()):
            first = min(own, key=lambda bar: bar.t0)
            # Read a little further back: the prices of new bars are compared with the one before them.
            stored = self.tables.bars_between(symbol, first.t0 - BARS_BACK * (first.t1 - first.t0), max([b.t0 for b in own]))
            earlier_bars = [bar for bar in stored.values() if bar.t1 <= first.t0]
            if earlier_bars:
                self._bars_before[symbol] = max(earlier_bars, key=lambda bar: (bar.t1, -bar.frame))
            for bar in own:
                earlier = stored.get((bar.frame, bar.t0))
                if earlier is None:
                    stored[bar.frame, bar.t0] = bar
                    new.append(bar)
                elif earlier != bar:
                    differing.append(bar_differs(earlier, bar))
        return new, differing

    # ---- fill the batch ------------------------------------------------------------------------------------------------

    def _take(self, arrival: Arrival, items: list[Item], events: list[Event]) -> None:
        """Put the new parts of a value into the batch."""
        value, known_at, seq = arrival.value, arrival.known_at, self.seq + 1
        if isinstance(value, Tick) and any(item.kind == "tick" for item in items):
            items = self._take_tick(value, known_at, items, events)
        bars: list[KnownBar] = []
        self._bars_before = {}
        if observed := observed_bars(value):
            new_bars, differing = self._new_bars(observed)
            events += differing
            bars = [KnownBar(bar, bar.t1 if arrival.own_times else known_at) for bar in new_bars]
        batch = self.batch
        for item in items:
            if item.kind == "fill" and item.symbol not in batch.bars_end:
                # Asked for before the new bars are stored.
                batch.bars_end[item.symbol] = self._prices.last_bar_end(item.symbol)
        for known in bars:
            batch.bars.setdefault(known.bar.symbol, []).append(known)
        events += self._prices.far_off(value, items, (known.bar for known in bars), self._bars_before)
        self.tables.put_bars(bars, seq)
        self._observed = observed_json(value, bars)
        for item in sorted(items, key=lambda item: item.kind in ("amend_fill", "void_fill")):
            if item.kind in ("amend_fill", "void_fill"):
                # A correction may concern a fill of the same delivery, so those are written first.
                self._take_correction(item, arrival, seq)
                continue
            if item.kind == "fill" and item.key in self._awaited:
                item = fill_after_corrections(self.tables, item)
            self._take_item(item, arrival)
            # The body of an item that is the value itself is already written out.
            body = self._observed.item if item.body is value else None
            batch.item_rows.append(item_row(self.tables.owner, self.tables.stream, item, seq, known_at,
                                            self.agent.skill_version, arrival.batch, body))  # fmt: skip
        earliest = min([known_at, *(known.known_at for known in bars)]) if bars else known_at
        batch.known_at = earliest if batch.known_at is None else min(batch.known_at, earliest)
        self._new_bars_of_value = bars

    def _take_quiet(self, tick: Tick, known_at: datetime) -> Receipt:
        """Put a quiet tick into the batch and add its log row: the part of `_take` and `_append` that concerns it."""
        batch, seq, events = self.batch, self.seq + 1, list[Event]()
        new: Sequence[Bar] = tick.bars
        if not self._continues_bars(tick.bars):
            new, events = self._new_bars(tick.bars)
            events += PriceChecks(self.tables).far_off(tick, (), new, self._bars_before)
        bars = [KnownBar(bar, known_at) for bar in new]
        for known in bars:
            batch.bars.setdefault(known.bar.symbol, []).append(known)
        self.tables.put_bars(bars, seq)
        observed = quiet_tick_json(tick, bars)
        for item in self._take_tick(tick, known_at, items_of_quiet(tick), events):
            body = observed.item if item.kind == "tick" else None
            row = item_row(self.tables.owner, self.tables.stream, item, seq, known_at, self.agent.skill_version, None, body)
            batch.item_rows.append(row)
            if item.kind == "equity":
                batch.account_changes.append(account_change(item.kind, item.body, item.key, known_at))
        batch.known_at = known_at if batch.known_at is None else min(batch.known_at, known_at)
        payload = payload_json(observed.log, events, self.agent.skill_version, None)
        return self.state(tick.kind, tick.id, tick.t, known_at, payload, tuple(events), flush=False)

    def _continues_bars(self, bars: Sequence[Bar]) -> bool:
        """Returns True if each bar begins after all others of its symbol, and is priced like the last of them."""
        lasts = [self.tables.last_bar(bar.symbol, None, EVERYTHING) for bar in bars]
        return len({bar.symbol for bar in bars}) == len(bars) and all(
            last is not None and last.bar.t1 <= bar.t0 and not is_far_off(bar.c, last.bar.c)
            for bar, last in zip(bars, lasts, strict=True)
        )

    def _take_tick(self, tick: Tick, known_at: datetime, items: list[Item], events: list[Event]) -> list[Item]:
        """Take a tick and return the items that count: of a tick that is not later than the last, only some do."""
        if self.last_tick is not None and tick.t <= self.last_tick:
            events.append(StaleTick(tick.id, tick.t, self.last_tick))
            return independent_items(items)
        self.batch.ticks.append((tick, known_at))
        self.last_tick = tick.t
        if tick.positions is not None and self.first_snapshot is None:
            self.batch.first_snapshot, self.first_snapshot = tick, tick.t
        return items

    def _take_item(self, item: Item, arrival: Arrival) -> None:
        """Put an item into the batch, where its reader looks for it."""
        batch, known_at, position = self.batch, arrival.known_at, (item.symbol, item.leg)
        if item.kind == "fill":
            execution = FillEvent(item.body, known_at, self.agent.skill_version, imported=arrival.batch is not None)
            batch.position_events.setdefault(position, []).append(execution)
        elif item.kind in ("funding", "dividend"):
            batch.position_events.setdefault(position, []).append(FundingEvent(item.body, known_at))
        elif item.kind == "split":
            batch.stated.append((item.symbol, None, item.at))
        elif item.kind == "instrument":
            batch.stated.append((item.symbol, None, item.at))
            batch.terms_of.add(item.symbol)
        elif item.kind == "fill_differs":
            batch.differing.append(fill_discrepancy(item))
        elif item.kind == "trade" or (item.kind == "claim" and item.body.exit_price is not None):
            batch.reported_trades.append((item, known_at))
        elif item.kind == "claim":
            self._open_claims.append(item)
        elif item.kind == "closing":
            batch.reported_trades.append((self._closed_claim(item), known_at))
        elif item.kind == "decision":
            batch.decisions.append(item)
            if outcome_card(item.body) is not None:
                batch.followed.append(item.key)
        elif item.kind in ("equity", "flow"):
            batch.account_changes.append(account_change(item.kind, item.body, item.key, known_at))
        if is_broker_record(item) and (self.verified_from is None or known_at < self.verified_from):
            self.verified_from = known_at

    def _take_correction(self, item: Item, arrival: Arrival, seq: int) -> None:
        """Correct a fill, or take it back: its present content ends, and every position that it touched is derived again."""
        # The fill may have come with the same value: then it must be stored before it is corrected.
        self.tables.put_items(self.batch.item_rows)
        self.batch.item_rows = []
        # A venue may correct a fill in a tick before it delivers it; a correction on its own names a fill that is there.
        may_wait = not isinstance(arrival.value, FillCorrection)
        placed, fills = write_correction(
            self.tables, item, seq, arrival.known_at, self.agent.skill_version, arrival.batch, may_wait=may_wait
        )
        self.batch.stated += [(fill.symbol, fill.leg, placed.at) for fill in fills]

    def _closed_claim(self, closing: Item) -> Item:
        """The claim that a closing ends, complete with its end."""
        claim = next((item for item in self._open_claims if item.key == closing.key), None)
        if claim is None:
            claim = open_claim(self.tables, closing.key)
        return replace(claim, at=closing.at, body=close_claim(claim.body, closing.body))

    # ---- WRITE: the log ------------------------------------------------------------------------------------------

    def _append(self, arrival: Arrival, events: Sequence[Event], flush: bool = True) -> Receipt:
        """Add the log row of a value."""
        value = arrival.value
        kind, key = value.kind, key_of(value)
        if arrival.batch:
            key = f"{key}@{arrival.batch}"
        elif isinstance(value, Tick) and not self.batch.ticks and self.tables.logged(kind, key):
            # A known tick came again with new parts: a row of its own kind, with a key made from these parts.
            part = make_id([row["key"] for row in self.batch.item_rows], delivery_digest(self._new_bars_of_value))
            kind, key = "more", f"{key}:{part}"
        elif isinstance(value, Fill) and self.batch.differing:
            # A known fill came again with other content: a row of its own kind, so that the first one stays as it is.
            kind, key = "fill_again", f"{key}:{make_id(canonical(value))}"
        payload = payload_json(self._observed.log, events, self.agent.skill_version, arrival.batch)
        at = occurred_at(value) or arrival.known_at
        return self.state(kind, key, at, arrival.known_at, payload, tuple(events), flush)

    def state(
        self, kind: str, key: str, at: datetime, known_at: datetime, payload: str,
        concluded: tuple[Event, ...] = (), flush: bool = True,
    ) -> Receipt:  # fmt: skip
        """Add one row to the log; its payload is canonical JSON, to which author and tier are added."""
        self.refuse_over_limit(kind)
        if kind in self._by_models:
            self._by_models[kind] += 1
        payload = stamped(payload, self._author_of(kind))
        payload_hash = digest(payload)
        stream, before = self.tables.stream, self.hash
        self.seq += 1
        times = micros(at), micros(known_at), self._recorded_at
        self.hash = chain_hash(stream, self.seq, kind, key, *times, payload_hash, before)
        self.log.append(LogRow(stream, self.seq, kind, key, *times, payload, payload_hash, before, self.hash))
        self.known_at = known_at if self.known_at is None else max(self.known_at, known_at)
        if flush:
            self.flush()
        return Receipt(stream, self.seq, self.hash, concluded)

    def refuse_over_limit(self, kind: str) -> None:
        """Raises PermissionDenied if a model writes, and models have written as many rows of a kind today as they may."""
        if self.author.tier < MODEL_AUTHOR.tier or kind not in MODEL_ROWS_PER_DAY:
            return
        if kind not in self._by_models:
            since = micros(self.now.replace(hour=0, minute=0, second=0, microsecond=0))
            self._by_models[kind] = self.tables.rows_by_models(kind, since, MODEL_ROWS_PER_DAY[kind])
        if (problem := over_limit(kind, self._by_models[kind])) is not None:
            raise PermissionDenied("agent", problem, "Try again tomorrow, or ask the owner to record it")

    def _author_of(self, kind: str) -> LogAuthor:
        # The ticks of a simulation come from the paper broker, also if a person started it.
        simulated = kind in ("tick", "more") and self.agent.mode == "sim" and self.author == OWNER_AUTHOR
        return VENUE_AUTHOR if simulated else self.author

    def declare(self, item: Item, known_at: datetime, concluded: Sequence[Event] = ()) -> Receipt:
        """Record a statement, such as a skill, an agent, an import or its undo: an item and its log row."""
        row = item_row(self.tables.owner, self.tables.stream, item, self.seq + 1, known_at, 1, None)
        self.tables.put_items([row])
        payload = {"stated": item.body, "symbol": item.symbol, "concluded": [event_data(event) for event in concluded]}
        return self.state(item.kind, item.key, item.at, known_at, canonical_plain(payload), tuple(concluded))

    def declare_all(self, items: Sequence[tuple[Item, datetime]], batch: str | None = None) -> None:
        """Record many statements, each with the time from which it counts as known; those of an import name their batch."""
        rows: list[dict[str, object]] = []
        for item, known_at in items:
            rows.append(item_row(self.tables.owner, self.tables.stream, item, self.seq + 1, known_at, 1, batch))
            payload = {"stated": item.body, "symbol": item.symbol, "concluded": []} | ({"batch": batch} if batch else {})
            self.state(item.kind, item.key, item.at, known_at, canonical_plain(payload), flush=False)
        if rows:
            self.tables.put_items(rows)
            self.flush()

    def flush(self) -> None:
        """Write the log rows and move the head."""
        self.tables.append(self.log)
        self.tables.set_head(self.head)
        self.log = []

    def _write_early(self) -> None:
        """Write the rows that nothing else waits for, so that a long import does not fill the memory."""
        self.tables.put_items(self.batch.item_rows)
        put_reported(self.tables, self.agent, self.batch, report=False)
        self.tables.append(self.log)
        self.batch.item_rows, self.batch.reported_trades, self.log = [], [], []

    def _conclude(self, report: bool = True) -> list[Event]:
        """Write the items, bring every position that they touch up to date, and learn. Returns the events."""
        self.tables.put_items(self.batch.item_rows)
        events = update_positions(self.tables, self.agent, self.start, self.batch, report)
        self.tables.put_discrepancies(self.batch.differing)
        events += [discrepancy_found(found) for found in self.batch.differing]
        learn_from_batch(self.tables, self.agent, self.start, self.verified_from, self.batch)
        return events


def _receipt_of(row: LogRow) -> Receipt:
    payload = json.loads(row.payload) if row.payload else {}
    events = tuple(read_event(data) for data in payload.get("concluded", ()))
    return Receipt(row.stream, row.seq, row.hash, events, duplicate=True)
