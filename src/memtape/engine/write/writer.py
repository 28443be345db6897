"""The one way in: observed values -> a log row each, and everything concluded from them, in one transaction.

READ what is already known, DECIDE with the pure ledger, WRITE the log rows, the items and the projections. What comes
in order is folded onto what is held; what comes late re-derives its position from the last moment at which it was flat.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from memtape.core.codec import canonical, canonical_plain, chain_hash, digest, make_id, micros, plain, time_text
from memtape.core.items import Item, bars_digest, close_claim, delivery_digest, observed_bars, unpack_items
from memtape.core.ledger.fold import FillEvent, FundingEvent
from memtape.core.ledger.rounds import KnownBar
from memtape.core.memory.learn import account_change
from memtape.core.memory.shadows import is_followed
from memtape.core.observed import Bar, Bars, Claim, ClosedTrade, Closing, EquityMark, Observed, Tick, occurred_at
from memtape.core.skills import Agent
from memtape.core.values import read
from memtape.engine.write.learn import learn_from_batch
from memtape.engine.write.plan_firing import fire_plans
from memtape.engine.write.positions import Batch, EventData, put_reported, update_positions
from memtape.engine.write.verification import is_broker_record
from memtape.errors import Conflict, Invalid, Unknown
from memtape.store.cutoff import EVERYTHING
from memtape.store.rows import Head, LogRow, item_row
from memtape.store.tables import Tables

CLOCK_TOLERANCE = timedelta(minutes=5)
CHUNK = 500


@dataclass(frozen=True, slots=True)
class Receipt:
    """What an observation came to: its place in the log and what was concluded from it."""

    stream: str
    seq: int
    hash: str
    concluded: tuple[EventData, ...]
    duplicate: bool = False
    reflection_due: bool = False  # enough trades have closed for lessons to be drawn anew

    @property
    def revised(self) -> bool:
        """Whether it changed what had been concluded before."""
        return any(told_["event"] == "revised" for told_ in self.concluded)


@dataclass(frozen=True, slots=True)
class Arrival:
    """An observed value on its way in."""

    seen: Observed
    known_at: datetime
    batch: str | None = None
    own_times: bool = False  # a delivery of bars told after the fact: each counts as known from its own close


def check_time(seen: Observed, now: datetime) -> None:
    """Refuse what claims to come from the future."""
    latest = now + CLOCK_TOLERANCE
    at = occurred_at(seen)
    named: list[tuple[str, datetime | None]] = [("exit_at" if seen.kind in ("trade", "claim", "closing") else "t", at)]
    if isinstance(seen, Tick):
        named += [(f"fills.{n}.t", fill.t) for n, fill in enumerate(seen.fills)]
        named += [(f"funding.{n}.t", paid.t) for n, paid in enumerate(seen.funding)]
        named += [(f"cash_flows.{n}.t", flow.t) for n, flow in enumerate(seen.cash_flows)]
        named += [(f"bars.{n}.t1", bar.t1) for n, bar in enumerate(seen.bars)]
    if isinstance(seen, Bars):
        named = [(f"bars.{n}.t1", bar.t1) for n, bar in enumerate(seen.bars)]
    for name, time in named:
        if time is not None and time > latest:
            problem = f"{time_text(time)} is more than 5 minutes ahead of the clock"
            raise Invalid(name, problem, "Check the zone and the year, or this machine's clock")


def independent_items(items: Iterable[Item]) -> list[Item]:
    """The items of a tick that count even when the tick itself comes too late or a second time."""
    return [item for item in items if item.kind in ("fill", "funding", "flow", "equity")]


def open_claim(tables: Tables, key: str) -> Item:
    """A trade that the agent reported open, by the id it gave; refused if there is none or it has ended."""
    found = tables.items("claim", EVERYTHING, keys=[key])
    if not found:
        raise Unknown("trade_id", "open trade of this agent's own report", key, "Report it first with remember_trade")
    claim = read(Claim, found[0].body)
    if claim.exit_price is not None:
        raise Conflict("trade_id", f"the trade '{key}' was reported closed", "Correct it with correct_memory")
    return Item("claim", key, found[0].at, claim, found[0].symbol, found[0].leg, found[0].ref)


def key_of(seen: Observed) -> str:
    """The key under which a delivery is logged: its source's own."""
    match seen:
        case Bars():
            return bars_digest(seen.bars)
        case ClosedTrade() | Claim() | Closing():
            assert seen.trade_id is not None
            return seen.trade_id
        case EquityMark():
            return seen.id or time_text(seen.t)
        case _:
            assert seen.id is not None
            return seen.id


def observed_json(seen: Observed, new_bars: Sequence[KnownBar]) -> str:
    """What the log keeps of a delivery, in canonical JSON; bars only by count, range and digest."""
    if not isinstance(seen, Tick | Bars):
        return canonical(seen)
    observed = plain(replace(seen, bars=()))
    if seen.bars:
        observed["bars"] = {
            "count": len(new_bars),
            "digest": delivery_digest(new_bars),
        }
        if new_bars:
            first, last = min(seen.bar.t0 for seen in new_bars), max(seen.bar.t1 for seen in new_bars)
            observed["bars"] |= {"first": plain(first), "last": plain(last)}
    return canonical_plain(observed)


def payload_json(observed: str, concluded: Sequence[EventData], skill_version: int, batch: str | None) -> str:
    """A whole payload in canonical JSON, around what was observed: its keys are known and sorted."""
    came_with = f'"batch":"{batch}",' if batch else ""
    told = canonical_plain(concluded) if concluded else "[]"
    return f'{{{came_with}"concluded":{told},"observed":{observed},"skill_version":{skill_version}}}'


class Writer:
    """Observations of one agent in one transaction."""

    def __init__(self, tables: Tables, agent: Agent, now: datetime) -> None:
        self.tables, self.agent, self.now = tables, agent, now
        self.start: Head = tables.head()
        self.seq, self.hash, self.known_at = self.start.seq, self.start.hash, self.start.known_at
        self.first_snapshot, self.last_tick = self.start.first_snapshot, self.start.last_tick
        self.verified_from = self.start.verified_from
        self.log: list[LogRow] = []
        self.fresh = Batch()
        self._new_here: list[KnownBar] = []  # the new bars of the value being taken
        self._observed = ""  # that value in canonical JSON
        self._open_claims: list[tuple[Item, datetime]] = []  # of this transaction

    @property
    def head(self) -> Head:
        """Where the stream stands with what was taken so far."""
        return Head(self.seq, self.hash, self.first_snapshot, self.last_tick, self.known_at, self.verified_from)

    # ---- READ: is it new? --------------------------------------------------------------------------------------

    def one(self, entry: Arrival) -> Receipt:
        """Record a single observation."""
        seen = entry.seen
        items, earlier = self._unseen(seen)
        if earlier is not None:
            return earlier
        concluded: list[EventData] = []
        self._take(entry, items, concluded)
        concluded += self._conclude()
        if isinstance(seen, Tick) and self.fresh.ticks:
            concluded += fire_plans(self.tables, self.agent, seen, self.start.last_tick)
        return self._append(entry, concluded)

    def many(self, entries: Iterable[Arrival]) -> tuple[int, int]:
        """Record a batch: one log row each, concluded together. How many were new, how many known."""
        new = known = 0
        listed = [(entry, unpack_items(entry.seen)) for entry in entries]
        keys: set[tuple[str, str]] = set(self.tables.seen((item.kind, item.key) for _, items in listed for item in items))
        for entry, items in listed:
            items = [item for item in items if (item.kind, item.key) not in keys]
            own = (entry.seen.kind, key_of(entry.seen))  # the same bars twice in one file are one delivery
            if not items and (not observed_bars(entry.seen) or own in keys):
                known += 1
                continue
            keys.update([*((item.kind, item.key) for item in items), own])
            concluded: list[EventData] = []
            self._take(entry, items, concluded)
            self._append(entry, concluded, flush=False)
            new += 1
            if new % CHUNK == 0:
                self._spill()
        self._conclude(tell=False)
        self.flush()
        return new, known

    def _unseen(self, seen: Observed) -> tuple[list[Item], Receipt | None]:
        """The items of a delivery that are not here yet; or the receipt of the first, if there are none."""
        items = list({(item.kind, item.key): item for item in reversed(unpack_items(seen))}.values())[::-1]  # the first of two
        logged = self.tables.logged(seen.kind, key_of(seen)) if isinstance(seen, Tick | Bars) else None
        if logged is not None:
            items = independent_items(items)
        places = self.tables.seen((item.kind, item.key) for item in items)
        fresh = [item for item in items if (item.kind, item.key) not in places]
        if fresh:
            return fresh, None
        if observed_bars(seen) and (logged is None or isinstance(seen, Tick)):
            new, differing = self._new_bars(observed_bars(seen))
            if new or (differing and logged is None):
                return [], None
        if logged is None:  # every part of it came before, by another road
            came_in = places[items[0].kind, items[0].key] if items else self.tables.bar_row(observed_bars(seen)[0])
            logged = next(iter(self.tables.log(after=came_in - 1, chunk=1)))
        return [], _receipt_of(logged)

    def _new_bars(self, bars: Sequence[Bar]) -> tuple[list[Bar], list[EventData]]:
        """The bars not yet here; one that differs from what is here is told and not taken."""
        fresh: list[Bar] = []
        differing: list[EventData] = []
        for symbol in sorted({bar.symbol for bar in bars}):
            own = [bar for bar in bars if bar.symbol == symbol]
            here = self.tables.bars_between(symbol, min(b.t0 for b in own), max(b.t0 for b in own))
            for bar in own:
                known = here.get((bar.frame, bar.t0))
                if known is None:
                    here[bar.frame, bar.t0] = bar
                    fresh.append(bar)
                elif known != bar:
                    differing.append({"event": "bar_differs", "symbol": symbol, "t0": time_text(bar.t0),
                                      "kept": plain([known.o, known.h, known.l, known.c]),
                                      "given": plain([bar.o, bar.h, bar.l, bar.c])})  # fmt: skip
        return fresh, differing

    def _take(self, entry: Arrival, items: list[Item], concluded: list[EventData]) -> None:
        """Note what is new: rows to write, and what happened to which position."""
        seen, known_at, seq = entry.seen, entry.known_at, self.seq + 1
        fresh = self.fresh
        if isinstance(seen, Tick) and any(item.kind == "tick" for item in items):
            if self.last_tick is not None and seen.t <= self.last_tick:
                concluded.append({"event": "stale", "tick": seen.id, "t": time_text(seen.t),
                                  "last_tick": time_text(self.last_tick)})  # fmt: skip
                items = independent_items(items)
            else:
                fresh.ticks.append((seen, known_at))
                self.last_tick = seen.t
                if seen.positions is not None and self.first_snapshot is None:
                    fresh.first_snapshot, self.first_snapshot = seen, seen.t
        watched: list[KnownBar] = []
        if bars := observed_bars(seen):
            new_bars, differing = self._new_bars(bars)
            concluded += differing
            watched = [KnownBar(bar, bar.t1 if entry.own_times else known_at) for bar in new_bars]
        for item in items:
            if item.kind == "fill" and item.symbol not in fresh.bars_ended:  # before the new ones are there
                fresh.bars_ended[item.symbol] = self.tables.bars_end(item.symbol)
        for one in watched:
            fresh.bars.setdefault(one.bar.symbol, []).append(one)
        self.tables.put_bars(watched, seq)
        self._observed = observed_json(seen, watched)
        for item in items:
            position = (item.symbol, item.leg)
            if item.kind == "fill":
                execution = FillEvent(item.body, known_at, self.agent.skill_version, imported=entry.batch is not None)
                fresh.happened.setdefault(position, []).append(execution)
            elif item.kind == "funding":
                fresh.happened.setdefault(position, []).append(FundingEvent(item.body, known_at))
            elif item.kind == "trade" or (item.kind == "claim" and item.body.exit_price is not None):
                fresh.trades.append((item, known_at))
            elif item.kind == "claim":
                self._open_claims.append((item, known_at))
            elif item.kind == "closing":
                fresh.trades.append((self._closed(item), known_at))
            elif item.kind == "decision":
                fresh.decisions.append(item)
                if is_followed(item.body):
                    fresh.shadows.append(item.body)
            elif item.kind in ("equity", "flow"):
                fresh.account.append(account_change(item.kind, item.body, item.key, known_at))
            if is_broker_record(item) and (self.verified_from is None or known_at < self.verified_from):
                self.verified_from = known_at
            body = self._observed if item.body is seen and item.kind != "tick" else None
            fresh.rows.append(item_row(self.tables.owner, self.tables.stream, item, seq, known_at,
                                       self.agent.skill_version, entry.batch, body))  # fmt: skip
        least = min([known_at, *(one.known_at for one in watched)]) if watched else known_at
        fresh.known_at = least if fresh.known_at is None else min(fresh.known_at, least)
        self._new_here = watched

    def _closed(self, closing: Item) -> Item:
        """The claim that a closing ends, whole."""
        claim = next((item for item, _ in self._open_claims if item.key == closing.key), None)
        if claim is None:
            claim = open_claim(self.tables, closing.key)
        return replace(claim, at=closing.at, body=close_claim(claim.body, closing.body))

    # ---- WRITE: the log ------------------------------------------------------------------------------------------

    def _append(self, entry: Arrival, concluded: Sequence[EventData], flush: bool = True) -> Receipt:
        seen = entry.seen
        kind, key = seen.kind, key_of(seen)
        if entry.batch:
            key = f"{key}@{entry.batch}"
        elif isinstance(seen, Tick) and not self.fresh.ticks and self.tables.logged(kind, key):
            part = make_id([row["key"] for row in self.fresh.rows], delivery_digest(self._new_here))
            kind, key = "more", f"{key}:{part}"
        payload = payload_json(self._observed, concluded, self.agent.skill_version, entry.batch)
        at = occurred_at(seen) or entry.known_at
        return self.state(kind, key, at, entry.known_at, payload, tuple(concluded), flush)

    def state(
        self, kind: str, key: str, at: datetime, known_at: datetime, payload: str,
        concluded: tuple[EventData, ...] = (), flush: bool = True,
    ) -> Receipt:  # fmt: skip
        """Add one row to the log; its payload is canonical JSON."""
        payload_hash = digest(payload)
        stream, before = self.tables.stream, self.hash
        self.seq += 1
        times = micros(at), micros(known_at), micros(self.now)
        self.hash = chain_hash(stream, self.seq, kind, key, *times, payload_hash, before)
        self.log.append(LogRow(stream, self.seq, kind, key, *times, payload, payload_hash, before, self.hash))
        self.known_at = known_at if self.known_at is None else max(self.known_at, known_at)
        if flush:
            self.flush()
        return Receipt(stream, self.seq, self.hash, concluded)

    def declare(self, item: Item, known_at: datetime, concluded: Sequence[EventData] = ()) -> Receipt:
        """Record a statement, like a skill, an agent, an import or its undoing: an item and its log row."""
        row = item_row(self.tables.owner, self.tables.stream, item, self.seq + 1, known_at, 1, None)
        self.tables.put_items([row])
        payload = {"stated": item.body, "symbol": item.symbol, "concluded": list(concluded)}
        return self.state(item.kind, item.key, item.at, known_at, canonical_plain(payload), tuple(concluded))

    def flush(self) -> None:
        """Write the log rows and move the head."""
        self.tables.append(self.log)
        self.tables.set_head(self.head)
        self.log = []

    def _spill(self) -> None:
        """Write what nothing else waits for, so that a long batch does not pile up."""
        self.tables.put_items(self.fresh.rows)
        put_reported(self.tables, self.agent, self.fresh, tell=False)
        self.tables.append(self.log)
        self.fresh.rows, self.fresh.trades, self.log = [], [], []

    def _conclude(self, tell: bool = True) -> list[EventData]:
        """Write the items, then bring every position they touch up to date."""
        self.tables.put_items(self.fresh.rows)
        concluded = update_positions(self.tables, self.agent, self.start, self.fresh, tell)
        learn_from_batch(self.tables, self.agent, self.start, self.verified_from, self.fresh)
        return concluded


def _receipt_of(row: LogRow) -> Receipt:
    payload = json.loads(row.payload) if row.payload else {}
    return Receipt(row.stream, row.seq, row.hash, tuple(payload.get("concluded", ())), duplicate=True)
