"""Writes observed values: a log row each, and everything that follows from them, in one transaction.

READ which items are already stored, DECIDE with the pure ledger, WRITE the log rows, the items and the projections. What
comes in order is folded onto the open positions; what comes late derives its position again (`positions`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime

from memtape.core.authors import OWNER_AUTHOR, LogAuthor
from memtape.core.codec import canonical, make_id
from memtape.core.decisions.outcomes import outcome_card
from memtape.core.events import Event, StaleTick, discrepancy_found
from memtape.core.fill_records import differing_deliveries, fill_discrepancy, fills_of
from memtape.core.fills import Fill, FillCorrection
from memtape.core.items import Item, close_claim, delivery_digest, observed_bars, unpack_items
from memtape.core.ledger.position_events import FillEvent, FundingEvent
from memtape.core.ledger.rounds import KnownBar
from memtape.core.memory.learn import account_change
from memtape.core.observed import Bars, Decision, Observed, Tick, occurred_at
from memtape.core.skills import Agent
from memtape.engine.write.arrivals import Arrival, independent_items, key_of, open_claim
from memtape.engine.write.bar_arrivals import sort_out_bars
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
from memtape.engine.write.log_writer import LogWriter, Receipt, earlier_receipt
from memtape.engine.write.observed_json import ObservedJson, observed_json, payload_json
from memtape.engine.write.plan_firing import fire_plans
from memtape.engine.write.positions import update_positions
from memtape.engine.write.price_checks import PriceChecks
from memtape.engine.write.reported_trades import put_reported
from memtape.engine.write.verification import is_broker_record
from memtape.store.rows import item_row
from memtape.store.tables import Tables

CHUNK_VALUES = 500  # of an import, after which rows are written


class Writer(LogWriter):
    """Records values of one agent in one transaction."""

    def __init__(self, tables: Tables, agent: Agent, now: datetime, author: LogAuthor = OWNER_AUTHOR) -> None:
        super().__init__(tables, agent, now, author)
        self.batch = Batch()
        self._new_bars_of_value: list[KnownBar] = []  # of the value that is being recorded
        self._observed = ObservedJson("", "")  # that value
        self._open_claims: list[Item] = []  # of this transaction
        self._awaited: set[str] = set()  # fills that were corrected before they came
        self._prices = PriceChecks(tables)

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
            compared = sort_out_bars(self.tables, observed_bars(value))
            if compared.new or (compared.differing and logged is None):
                return [], None
        if logged is None:
            # Every part of it is stored, but came in other values: the receipt is that of the first part.
            # Of a fill that was taken back, the row that says so is known.
            names = [name for item in items for name in ((item.kind, item.key), ("void_fill", item.key)) if name in log_rows]
            seq = log_rows[names[0]] if names else self.tables.bar_row(observed_bars(value)[0])
            logged = next(iter(self.tables.log(after=seq - 1, chunk=1)))
        return [], earlier_receipt(logged)

    def _differs_known(self, item: Item, keys: set[tuple[str, str]]) -> bool:
        """True if another content of a fill was reported before; it is then in `keys`."""
        name = (item.kind, item.key)
        if name not in keys and self.tables.log_rows_of([name]):
            keys.add(name)
        return name in keys

    # ---- fill the batch ------------------------------------------------------------------------------------------------

    def _take(self, arrival: Arrival, items: list[Item], events: list[Event]) -> None:
        """Put the new parts of a value into the batch."""
        value, known_at, seq = arrival.value, arrival.known_at, self.seq + 1
        if isinstance(value, Tick) and any(item.kind == "tick" for item in items):
            items = self._take_tick(value, known_at, items, events)
        compared = sort_out_bars(self.tables, observed_bars(value))
        events += compared.differing
        bars = [KnownBar(bar, bar.t1 if arrival.own_times else known_at) for bar in compared.new]
        batch = self.batch
        for item in items:
            if item.kind == "fill" and item.symbol not in batch.bars_end:
                # Asked for before the new bars are stored.
                batch.bars_end[item.symbol] = self._prices.last_bar_end(item.symbol)
        for known in bars:
            batch.bars.setdefault(known.bar.symbol, []).append(known)
        events += self._prices.far_off(value, items, compared.new, compared.before)
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
        elif item.kind == "order":
            batch.orders.append(item)
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
        elif isinstance(value, Decision) and not self.batch.decisions:
            # A known decision came again with more orders: a row of its own kind, so that the first one stays as it is.
            kind, key = "decision_again", f"{key}:{make_id([order.key for order in self.batch.orders])}"
        elif isinstance(value, Fill) and self.batch.differing:
            # A known fill came again with other content: a row of its own kind, so that the first one stays as it is.
            kind, key = "fill_again", f"{key}:{make_id(canonical(value))}"
        payload = payload_json(self._observed.log, events, self.agent.skill_version, arrival.batch)
        at = occurred_at(value) or arrival.known_at
        return self.state(kind, key, at, arrival.known_at, payload, tuple(events), flush)

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
