"""Brings positions up to date with what a transaction brought.

What comes after everything already folded is folded onto the open position. Anything else (a late fill, a bar that ended
after the exit, the tick or the decision that explains an earlier fill) derives its position again, from the last moment at
which it was flat in every belief. Both ways run through the same fold and end in the same rows.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime, timedelta

from memtape.core.codec import EPOCH
from memtape.core.events import (
    OF_SNAPSHOTS,
    DiscrepancyFound,
    Event,
    discrepancy_found,
    trade_closed,
    trade_opened,
    trade_revised,
)
from memtape.core.fills import Fill
from memtape.core.items import (
    NamedDecisions,
    Position,
    fill_references,
    names_by_authority,
    names_in_fills,
    position_events,
    read_terms,
)
from memtape.core.ledger.fold import NOTHING_EARLIER, Earlier, fold_onto
from memtape.core.ledger.position_events import FillEvent, FundingEvent, PositionEvent
from memtape.core.ledger.rounds import Round, is_dust, trade_from_round, trades_of_open_round
from memtape.core.ledger.terms import AccountTerms
from memtape.core.ledger.versions import DerivedPosition, TradeVersion, derive_versions
from memtape.core.observed import Bar, Decision
from memtape.core.skills import Agent
from memtape.core.values import read
from memtape.engine.write.batch import Batch, note_changed_trades
from memtape.engine.write.reported_trades import put_reported, revise_reported
from memtape.engine.write.tick_views import says_nothing_new, shows_ledger_quantity, states_other_rate, view_of_tick
from memtape.store.cutoff import EVERYTHING, Cutoff, FlatPoint
from memtape.store.memories import MemoryTables
from memtape.store.rows import Head, PositionRow
from memtape.store.tables import Tables

JUST_AFTER = timedelta(microseconds=1)


def update_positions(tables: Tables, agent: Agent, start: Head, batch: Batch, report: bool = True) -> list[Event]:
    """Bring every position that a batch touches up to date. Its items are already stored; `start` is the head before them.

    Returns the events. Without `report`, trades that a source reports whole are stored and not reported.
    """
    events = put_reported(tables, agent, batch, report)
    events += revise_reported(tables, agent, batch)
    if batch.position_events or batch.ticks or batch.bars or batch.decisions or batch.orders or batch.stated:
        shown = [positions.items() for tick, _ in batch.ticks if (positions := tick.positions) is not None]
        named = set(batch.position_events) | {(symbol, one.leg) for held in shown for symbol, each in held for one in each}
        explained = _last_explained(tables, start, batch)
        since = (explained or EPOCH) if batch.ticks else None
        stored = tables.positions({symbol for symbol, _ in named}, since, legs={leg for _, leg in named})
        if batch.stated:
            stored |= tables.positions({symbol for symbol, _, _ in batch.stated})
        late = _late(tables, agent, start, batch, stored, explained)
        updated: list[PositionRow] = []
        for position in sorted(_touched(batch, stored) | late.keys()):
            row = stored.get(position)
            folded = None if position in late else _fold_onto(tables, agent, batch, position, row, updated)
            if folded is not None:
                events += folded
                continue
            assert batch.known_at is not None
            first = batch.first_snapshot.t if batch.first_snapshot else start.first_snapshot
            # A snapshot that contradicts the ledger is judged by the history of the position.
            changed_from = late[position] if position in late else _first_moment(batch, position) - _settling(agent)
            events += rederive(tables, agent, position, row, changed_from, batch.known_at, first, batch.changed)
        tables.put_positions(updated)
    return _worth_reporting(tables, events)


def _worth_reporting(tables: Tables, events: list[Event]) -> list[Event]:
    """The events without what is normal: an agent that only ever sends snapshots changes its positions by them."""
    of_snapshots = [event for event in events if isinstance(event, DiscrepancyFound) and event.why in OF_SNAPSHOTS]
    if of_snapshots and not tables.has_fill():
        return [event for event in events if event not in of_snapshots]
    return events


def _touched(batch: Batch, stored: dict[Position, PositionRow]) -> set[Position]:
    """The positions that something new concerns."""
    touched = set(batch.position_events)
    open_ = {position for position, row in stored.items() if row.round is not None}
    for tick, _ in batch.ticks:
        if tick.positions is not None:
            # A snapshot also speaks of the positions that it does not show: they are flat.
            touched |= open_
            touched |= {(symbol, held.leg) for symbol, several in tick.positions.items() for held in several}
        # Also without a snapshot, a tick may move the stop of what is open, and say at which rate it is worth something.
        named = {item.symbol for item in batch.decisions if item.ref == tick.id} | (tick.rates or {}).keys() | tick.marks.keys()
        touched |= {position for position in open_ if position[0] in named}
    return touched | {position for position in open_ if position[0] in batch.bars}


def _settling(agent: Agent) -> timedelta:
    return timedelta(seconds=agent.settle_seconds)


def _first_moment(batch: Batch, position: Position) -> datetime:
    """The earliest moment that something new about a position concerns."""
    moments = [tick.t for tick, _ in batch.ticks] + [event.order[0] for event in batch.position_events.get(position, ())]
    return min(moments)


def _last_explained(tables: Tables, start: Head, batch: Batch) -> datetime | None:
    """The time of the last earlier tick that still counts: it has explained the fills before it."""
    if not batch.ticks or start.last_tick is None or not tables.items("undo", EVERYTHING, limit=1):
        return start.last_tick
    # After an undo, the last tick may be one that was taken back: then the head's time is too late.
    new = {tick.id for tick, _ in batch.ticks}
    ticks = tables.items("tick", EVERYTHING, newest=True, limit=len(new) + 1)
    return next((item.at for item in ticks if item.key not in new), None)


# ---- what must be derived again ---------------------------------------------------------------------------------------


def _late(
    tables: Tables, agent: Agent, start: Head, batch: Batch, stored: dict[Position, PositionRow], explained: datetime | None
) -> dict[Position, datetime]:
    """The positions that cannot be folded onward, each with the earliest moment that something new concerns.

    The fold takes events in their own order, and a row of `positions` is its state after the last of them. A position is
    folded onward only if everything new about it comes after that state, and if it was not known before something that the
    stored versions of its trades already take into account. In every other case the stored state is wrong or its versions
    are incomplete, and the position is derived again.
    """
    late: dict[Position, datetime] = {}

    def add(position: Position, at: datetime) -> None:
        late[position] = min(late.get(position, at), at)

    # A backfill: known earlier than the latest news in the store. Beliefs between the two moments did not contain it and
    # should have, so the versions of the trades that it concerns change even if its own time lies at the end.
    backfilled = start.known_at is not None and batch.known_at is not None and batch.known_at < start.known_at
    settling = _settling(agent)
    for symbol, leg, at in batch.stated:
        # Splits, terms and corrections change what is already there, and what was once believed of positions that are gone.
        for position in [*stored, *batch.position_events, *tables.positions_ever(EVERYTHING, symbol)]:
            if position[0] == symbol and leg in (None, position[1]):
                add(position, at)
        if leg is not None:
            add((symbol, leg), at)
    for position, events in batch.position_events.items():
        first = min(event.order for event in events)
        row, bars_end = stored.get(position), batch.bars_end.get(position[0])
        if (
            backfilled
            # A dividend belongs to who held before its ex-date.
            or any(isinstance(event, FundingEvent) and event.order[0] < event.funding.t for event in events)
            # A snapshot within the settling time before it was reconciled: this fill may explain it after all.
            or (settling and _was_reconciled(tables, start, position, first[0] - settling))
            # The position has already been folded beyond it.
            or (row is not None and first <= row.last)
            # A tick after it has passed: its snapshot was compared with a ledger that lacked this fill.
            or (start.last_tick is not None and first[0] <= start.last_tick)
            # Bars that ended after it are stored: they were folded without this fill.
            or (bars_end is not None and bars_end > first[0])
            # Bars that ended with it show the position at the rate of this fill.
            or (bars_end == first[0] and row is not None and row.round is not None and _has_other_rate(events, row.round))
        ):
            add(position, first[0] - settling)
    if batch.ticks:
        for position, row in stored.items():
            # Fills between two ticks take reason and stop from the decision of the tick that follows them. This tick is the
            # first after them, so what was folded since the last tick gets its decision only now.
            if row.last[0] > (explained or EPOCH):
                add(position, explained + JUST_AFTER if explained else EPOCH)
        first_tick, last_tick = batch.ticks[0][0].t, batch.ticks[-1][0].t
        for position in _overtaken_by_bars(tables, agent, start, batch, stored):
            add(position, first_tick - settling)
        if backfilled:
            assert batch.known_at is not None
            # The snapshot also contradicts or confirms positions that were believed otherwise at that time: those it names,
            # and those of which something up to that moment was learned, or taken back, after it was known.
            unsettled = MemoryTables(tables).unsettled_since(batch.known_at, last_tick)
            for position in _touched(batch, stored) | unsettled | _shown_until(tables, batch.known_at, last_tick):
                add(position, first_tick - settling)
    for position, at in _changed_by_bars(tables, start, batch, stored, backfilled):
        add(position, at)
    for item in batch.decisions:
        # Fills stored earlier that name this decision, or one of its orders, did not find it then.
        for position, at in tables.fills_naming(fill_references(item.body), upto=start.seq).items():
            add(position, at)
    decided = {item.key for item in batch.decisions}
    if ordered := [f"o:{name}" for item in batch.orders if item.ref not in decided for name in names_in_fills(item.key)]:
        for position, at in tables.fills_naming(ordered, upto=start.seq).items():
            add(position, at)
    return late


def _shown_until(tables: Tables, known_at: datetime, by: datetime) -> set[Position]:
    """The positions in snapshots up to the moment `by` that were taken back after `known_at`: until then they were believed."""
    if not tables.items("undo", EVERYTHING, limit=1):
        return set()
    ticks = tables.items("tick", EVERYTHING, before=by + JUST_AFTER, voided=True)
    return {
        (symbol, held.get("leg", ""))
        for item in ticks if item.voided_at is not None and item.voided_at > known_at
        for symbol, several in (item.body.get("positions") or {}).items() for held in several
    }  # fmt: skip


def _was_reconciled(tables: Tables, start: Head, position: Position, since: datetime) -> bool:
    """Returns True if a snapshot since a moment contradicted the ledger of a position."""
    if start.last_tick is None or start.last_tick < since:
        return False
    return any(found.why in OF_SNAPSHOTS for found in tables.discrepancies_of(position, since - JUST_AFTER))


def _changed_by_bars(
    tables: Tables, start: Head, batch: Batch, stored: dict[Position, PositionRow], backfilled: bool
) -> Iterable[tuple[Position, datetime]]:
    """The positions whose trades new bars change in a way that cannot be folded onward, and from when."""
    for symbol, bars in batch.bars.items():
        t0, t1 = min(known.bar.t0 for known in bars), max(known.bar.t1 for known in bars)
        first_end = min(known.bar.t1 for known in bars)
        # Closed trades that overlap the bars: their excursions, or the price of an inferred exit, may change.
        yield from tables.watched_trades(symbol, t0, t1)
        if backfilled:
            yield from MemoryTables(tables).replaced_since(symbol, t0, t1, min(known.known_at for known in bars))
        for position, row in stored.items():
            if position[0] == symbol and row.round is not None:
                # What a snapshot implied was judged by the bars before it, which may be among these.
                judged = row.round.inferred or row.round.entry_moved
                reprices = judged and start.last_tick is not None and first_end <= start.last_tick
                # An open round remembers its quantities only for a while: bars before that need the whole history.
                if backfilled or reprices or not row.round.covers(t0):
                    yield position, row.round.entry_at


def _overtaken_by_bars(
    tables: Tables, agent: Agent, start: Head, batch: Batch, stored: dict[Position, PositionRow]
) -> Iterable[Position]:
    """The positions that a tick changes although bars after it are stored: these were folded with the old quantity or rate."""
    (first, known_at), several = batch.ticks[0], len(batch.ticks) > 1
    for position in _touched(batch, stored):
        open_ = stored[position].round if position in stored else None
        view = view_of_tick(agent, first, known_at, position, None, first=first is batch.first_snapshot)
        if several or not shows_ledger_quantity(agent, open_, view):
            bars_end = tables.bars_end(position[0])
            if bars_end is not None and bars_end > first.t:
                yield position
                continue
        if open_ is not None and (several or states_other_rate(agent, open_, view)):
            bars = tables.bars(position[0], Cutoff(head=start.seq), ending_after=first.t - JUST_AFTER)
            if any(_is_valued_after(agent, open_, known.bar, first.t) for known in bars):
                yield position


def _is_valued_after(agent: Agent, round_: Round, bar: Bar, at: datetime) -> bool:
    """Returns True if a bar that ends at or after a moment shows an open round at a rate of that moment or later."""
    # An opening price and extremes are valued at the rate of the bar's beginning, a close at that of its end.
    return agent.settings.mfe_mode == "close" or bar.t0 >= at or any(e.entry_at > bar.t0 for e in (round_, *round_.lots))


# ---- in order ---------------------------------------------------------------------------------------------------------


def _fold_onto(
    tables: Tables, agent: Agent, batch: Batch, position: Position, row: PositionRow | None, updated: list[PositionRow]
) -> list[Event] | None:
    """Fold what is new onto the open position; its new row is added to `updated`. None if that needs the history."""
    symbol, leg = position
    executions = [*batch.position_events.get(position, ())]
    # By tick: the decisions of ticks that are new with them. The first decision for a symbol counts.
    decided = {item.ref: item.body for item in reversed(batch.decisions) if item.symbol == symbol}
    views = [
        view_of_tick(agent, tick, known_at, position, decided.get(tick.id), first=tick is batch.first_snapshot)
        for tick, known_at in batch.ticks
    ]
    bars = batch.bars.get(symbol, [])
    open_ = row.round if row else None
    if not executions and not bars and all(says_nothing_new(agent, open_, view) for view in views):
        return []
    terms = agent.terms()
    opened_before = _opened(terms, open_)
    named = _decisions_named_by(tables, [e.fill for e in executions if isinstance(e, FillEvent)], EVERYTHING)
    happened = [_with_decision(execution, named) for execution in executions]
    stated = tables.statements([symbol], EVERYTHING, splits=True) if happened or bars else []
    splits = [item.at for item in stated if item.kind == "split" and item.voided_at is None]
    if happened and splits and max(splits) >= min(event.order[0] for event in happened):
        # A split after it: the position is to be counted in new units.
        return None
    said = [read_terms(item) for item in stated if item.kind == "instrument" and item.voided_at is None]
    folded = fold_onto(terms, symbol, leg, open_, [*said, *happened, *views], bars, splits)
    if folded is None:
        return None
    rounds = folded.closed_trades(terms)
    closed = [TradeVersion(trade_from_round(terms, symbol, leg, r), r.known_at, None, r.settled_at) for r in rounds]
    tables.put_versions(closed)
    batch.add_closed(closed)
    tables.put_discrepancies(folded.discrepancies)
    last = folded.last or (row.last if row else None)
    if last is not None:
        updated.append(PositionRow(symbol, leg, last, folded.open))
    events: list[Event] = [trade_closed(version.trade) for version in closed]
    events += _opened_events(agent, position, folded.open, opened_before)
    return events + [discrepancy_found(found) for found in folded.discrepancies]


def _opened(terms: AccountTerms, open_: Round | None) -> set[str]:
    """What opened the trades of a position that are open: its round trip, or each of its lots."""
    if open_ is None or is_dust(terms, open_):
        return set()
    return {each.opened_by for each in (open_.lots or [open_])}


def _opened_events(agent: Agent, position: Position, open_: Round | None, before: set[str]) -> list[Event]:
    """The events of trades that are open now and were not before."""
    if open_ is None or (not open_.lots and open_.opened_by in before):
        return []
    # Of many lots that are open, only the new ones are computed.
    new = replace(open_, lots=[lot for lot in open_.lots if lot.opened_by not in before]) if open_.lots else open_
    trades = trades_of_open_round(agent.terms(), *position, new)
    return [trade_opened(trade) for trade in trades if trade.entry_item not in before]


def _has_other_rate(events: Iterable[PositionEvent], open_: Round) -> bool:
    return any(isinstance(event, FillEvent) and event.fill.rate != open_.rate for event in events)


def _with_decision(event: PositionEvent, named: NamedDecisions) -> PositionEvent:
    if isinstance(event, FillEvent):
        decision, decided_at = named.of(event.fill)
        if decision is not None:
            return replace(event, decision=decision, decided_at=decided_at)
    return event


def _decisions_named_by(tables: Tables, fills: Iterable[Fill], known: Cutoff) -> NamedDecisions:
    """The decisions that fills name, by id or by the order to which they belong."""
    fills = list(fills)
    orders, named = {fill.order_id for fill in fills if fill.order_id}, {fill.decision for fill in fills if fill.decision}
    keys = sorted(key for order in orders for key in names_by_authority(order))
    of_orders = {item.key: item for item in tables.items("order", known, keys=keys)} if keys else {}
    ids = sorted({key for id_ in named for key in names_by_authority(id_)} | {item.ref or "" for item in of_orders.values()})
    decisions = tables.items("decision", known, keys=ids) if ids else []
    found = {item.key: (read(Decision, item.body), item.known_at) for item in decisions}
    by_name: dict[str, tuple[Decision, datetime]] = {}
    for id_ in named:
        by_name |= {f"d:{id_}": found[key] for key in names_by_authority(id_)[::-1] if key in found}
    for order in orders:
        for key in names_by_authority(order)[::-1]:
            if (item := of_orders.get(key)) is not None and (decided := found.get(item.ref or "")) is not None:
                # An order may have been added to a decision that was known before.
                by_name[f"o:{order}"] = decided[0], max(decided[1], item.known_at)
    return NamedDecisions(by_name)


# ---- out of order -----------------------------------------------------------------------------------------------------


def rederive(
    tables: Tables, agent: Agent, position: Position, row: PositionRow | None, since: datetime, known_at: datetime,
    first_snapshot: datetime | None, changed: dict[str, datetime | None],
) -> list[Event]:  # fmt: skip
    """Derive a position again because something about it changed from `since` on, and replace its rows.

    Not the whole history is folded: only what follows the last flat point before `since`. `known_at` is the earliest moment
    at which the news was known. The flat point must have been settled by then, or a belief between the two could have seen
    the position open across it. Trades that change are added to `changed`.
    """
    open_at = row.round.entry_at if row and row.round else None
    flat = tables.boundary(position, since, known_at, open_at, agent.settle_seconds)
    after = flat.at if flat else None
    before = tables.versions(position, after)
    derived = derive_position(tables, agent, position, flat, EVERYTHING, first_snapshot)
    if derived.last is None and flat is not None and row is not None and row.last[0] > flat.at:
        # Nothing is left after the flat point: what the last event was before it, only the whole history tells.
        flat = after = None
        before = tables.versions(position, None)
        derived = derive_position(tables, agent, position, None, EVERYTHING, first_snapshot)
    known = set(tables.discrepancies_of(position, after))
    # All versions after the flat point are replaced, those that ended too: the news may lie inside an earlier belief.
    tables.drop_versions(position, after)
    tables.put_versions(derived.versions)
    tables.put_discrepancies(derived.discrepancies)
    if derived.last is not None:
        tables.put_positions([PositionRow(*position, derived.last, derived.open)])
    elif row is not None and flat is None:
        tables.drop_position(position)
    # Learning must see both: trades that were there and are gone, and trades that are there now.
    note_changed_trades(changed, before, derived.versions)
    was = {version.trade.id: version.trade for version in before if version.known_to is None}
    now = {version.trade.id: version.trade for version in derived.versions if version.known_to is None}
    events: list[Event] = [trade_closed(trade) for id_, trade in now.items() if id_ not in was]
    events += [trade_revised(id_, *position, now.get(id_)) for id_, trade in was.items() if now.get(id_) != trade]
    events += _opened_events(agent, position, derived.open, _opened(agent.terms(), row.round if row else None))
    return events + [discrepancy_found(found) for found in derived.discrepancies if found not in known]


def derive_position(
    tables: Tables, agent: Agent, position: Position, flat: FlatPoint | None, known: Cutoff, first_snapshot: datetime | None
) -> DerivedPosition:
    """Derive a position from a flat point (None: from its beginning), out of what a reader may know.

    Items that were taken back are read too: they were believed until then, and versions of trades rest on them.
    """
    after = flat.at if flat else None
    items = tables.span(position, after, known)
    bars = tables.bars(position[0], known, ending_after=after)
    if flat is not None:
        # Closes before the flat point may price what follows it, where no bar has ended in between.
        bars = [*tables.bars_before(position[0], flat, known), *bars]
        # A fill before the flat point may have been corrected after it: snapshots in between showed the uncorrected account.
        items += tables.corrections_before(flat.at, known)
    named = _decisions_named_by(tables, (read(Fill, item.body) for item in items if item.kind == "fill"), known)
    # Fills before the flat point say that this is not the beginning: what a snapshot shows first was not adopted.
    earlier = Earlier(tables.has_fill(position, until=after), flat.rate) if flat else NOTHING_EARLIER
    items += tables.statements([position[0]], known)
    events = position_events(position, items, named, first_snapshot)
    return derive_versions(agent.terms(), *position, events, bars, earlier)
