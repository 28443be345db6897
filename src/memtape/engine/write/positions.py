"""Bringing positions up to date with what a transaction brought.

What comes after everything already folded is folded onto what is held. Anything else (a late fill, a bar that ended after
the exit, the tick or the decision that explains a fill seen before it) derives its position again, from the last moment at
which it was flat whatever was known. Both roads run through the same fold and end in the same rows.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

from memtape.core.codec import EPOCH, make_id
from memtape.core.events import Discrepancy, Event, discrepancy_found, trade_closed, trade_opened, trade_revised
from memtape.core.ids import MemoryId, TradeId
from memtape.core.items import Item, NamedDecisions, Position, claimed_trade, position_events, reported_trade
from memtape.core.ledger.fold import FillEvent, PositionEvent, SnapshotView, fold_events
from memtape.core.ledger.rounds import KnownBar, Round, trade_from_round
from memtape.core.ledger.versions import TradeVersion, derive_versions
from memtape.core.memory.affect import AccountChange
from memtape.core.observed import Decision, Fill, Tick
from memtape.core.skills import Agent
from memtape.core.values import ZERO, read
from memtape.store.cutoff import EVERYTHING, Cutoff, FlatPoint
from memtape.store.memories import MemoryTables
from memtape.store.rows import Head, PositionRow
from memtape.store.tables import Tables

JUST_AFTER = timedelta(microseconds=1)


@dataclass(slots=True)
class Batch:
    """What a transaction brings that was not there before."""

    happened: dict[Position, list[PositionEvent]] = field(default_factory=dict)
    ticks: list[tuple[Tick, datetime]] = field(default_factory=list)  # with when they were known
    first_snapshot: Tick | None = None  # if it is among them
    bars: dict[str, list[KnownBar]] = field(default_factory=dict)
    bars_ended: dict[str, datetime | None] = field(default_factory=dict)  # by symbol, before these came
    trades: list[tuple[Item, datetime]] = field(default_factory=list)
    decisions: list[Item] = field(default_factory=list)
    rows: list[dict[str, Any]] = field(default_factory=list)
    account: list[AccountChange] = field(default_factory=list)  # equity marks and cash flows
    shadows: list[Decision] = field(default_factory=list)  # decisions not to trade that can be followed
    changed: dict[str, datetime | None] = field(default_factory=dict)  # closed trades, and the earliest exit concerned
    versions: list[TradeVersion] = field(default_factory=list)  # of those that are new
    known_at: datetime | None = None  # the least

    def learn_of(self, closed: Iterable[TradeVersion]) -> None:
        """Note trades that closed just now."""
        for version in closed:
            self.versions.append(version)
            self.changed[version.trade.id] = version.trade.exit_at


def note_changed_trades(changed: dict[str, datetime | None], *several: Iterable[TradeVersion]) -> None:
    """Remember which closed trades are not what they were, and the earliest exit that this concerns."""
    for versions in several:
        for version in versions:
            exit_at, earlier = version.trade.exit_at, changed.get(version.trade.id)
            changed[version.trade.id] = exit_at if earlier is None or exit_at is None else min(exit_at, earlier)


def update_positions(tables: Tables, agent: Agent, start: Head, fresh: Batch, tell: bool = True) -> list[Event]:
    """Conclude what follows from fresh items that are already in their table; `start` is the head before them."""
    concluded = put_reported(tables, agent, fresh, tell)
    if fresh.happened or fresh.ticks or fresh.bars or fresh.decisions:
        named = set(fresh.happened) | {
            (s, h.leg) for t, _ in fresh.ticks for s, several in (t.positions or {}).items() for h in several
        }
        explained = _explained(tables, start, fresh)
        since = (explained or EPOCH) if fresh.ticks else None
        held = tables.positions({s for s, _ in named}, since, legs={leg for _, leg in named})
        late = _late(tables, agent, start, fresh, held, explained)
        put: list[PositionRow] = []
        for position in sorted(_touched(fresh, held) | late.keys()):
            row = held.get(position)
            if position in late:
                assert fresh.known_at is not None
                first = fresh.first_snapshot.t if fresh.first_snapshot else start.first_snapshot
                concluded += rederive(tables, agent, position, row, late[position], fresh.known_at, first, fresh.changed)
            else:
                concluded += _fold_onto(tables, agent, start, fresh, position, row, put)
        tables.put_positions(put)
    return concluded


def _touched(fresh: Batch, held: dict[Position, PositionRow]) -> set[Position]:
    """The positions that something new says something about."""
    touched = set(fresh.happened)
    open_ = {position for position, row in held.items() if row.round is not None}
    for tick, _ in fresh.ticks:
        if tick.positions is not None:
            touched |= open_
            touched |= {(symbol, held_.leg) for symbol, several in tick.positions.items() for held_ in several}
    return touched | {position for position in open_ if position[0] in fresh.bars}


def _explained(tables: Tables, start: Head, fresh: Batch) -> datetime | None:
    """When the last tick was that still stands: it has explained the fills before it."""
    if not fresh.ticks or start.last_tick is None or not tables.items("undo", EVERYTHING, limit=1):
        return start.last_tick
    new = {tick.id for tick, _ in fresh.ticks}
    ticks = tables.items("tick", EVERYTHING, newest=True, limit=len(new) + 1)
    return next((item.at for item in ticks if item.key not in new), None)


def _late(
    tables: Tables, agent: Agent, start: Head, fresh: Batch, held: dict[Position, PositionRow], explained: datetime | None
) -> dict[Position, datetime]:
    """The positions to derive again, and from when: something new about them lies before what was folded."""
    late: dict[Position, datetime] = {}

    def since(position: Position, at: datetime) -> None:
        late[position] = min(late.get(position, at), at)

    surprising = start.known_at is not None and fresh.known_at is not None and fresh.known_at < start.known_at
    for position, happened in fresh.happened.items():
        first = min(h.order for h in happened)
        row, bars_ended = held.get(position), fresh.bars_ended.get(position[0])
        if (
            surprising
            or (row is not None and first <= row.last)
            or (start.last_tick is not None and first[0] <= start.last_tick)
            or (bars_ended is not None and bars_ended > first[0])
        ):
            since(position, first[0])
    if fresh.ticks:
        for position, row in held.items():
            if row.last[0] > (explained or EPOCH):  # seen between ticks: only now is there a run that explains it
                since(position, explained + JUST_AFTER if explained else EPOCH)
        first_tick, last_tick = fresh.ticks[0][0].t, fresh.ticks[-1][0].t
        for position in _outrun(tables, agent, fresh, held):
            since(position, first_tick)
        if surprising:  # it also speaks to what was believed otherwise then
            assert fresh.known_at is not None
            for position in _touched(fresh, held) | MemoryTables(tables).unsettled_since(fresh.known_at, last_tick):
                since(position, first_tick)
    for position, at in _watched(tables, fresh, held, surprising):
        since(position, at)
    for item in fresh.decisions:
        names = [f"d:{item.key}", *(f"o:{order}" for order in item.body.order_ids)]
        for position, at in tables.fills_naming(names, upto=start.seq).items():
            since(position, at)
    return late


def _watched(
    tables: Tables, fresh: Batch, held: dict[Position, PositionRow], surprising: bool
) -> Iterable[tuple[Position, datetime]]:
    """The positions whose trades new bars tell something about that could not be folded on, and since when."""
    for symbol, watched in fresh.bars.items():
        t0, t1 = min(seen.bar.t0 for seen in watched), max(seen.bar.t1 for seen in watched)
        ends = min(seen.bar.t1 for seen in watched)
        yield from tables.watched_trades(symbol, t0, t1)
        if surprising:
            yield from MemoryTables(tables).replaced_since(symbol, t0, t1, min(seen.known_at for seen in watched))
        for position, row in held.items():
            if position[0] == symbol and row.round is not None:
                priced = row.round.inferred and ends <= row.last[0]  # its close may be the price that was missing
                if surprising or priced or not row.round.covers(t0):
                    yield position, row.round.entry_at


def _outrun(tables: Tables, agent: Agent, fresh: Batch, held: dict[Position, PositionRow]) -> Iterable[Position]:
    """The positions that late ticks change although bars after them are here, which were watched as if nothing changed."""
    (first, known_at), several = fresh.ticks[0], len(fresh.ticks) > 1
    for position in _touched(fresh, held):
        open_ = held[position].round if position in held else None
        if several or not _agrees(agent, open_, _glance(agent, fresh, first, known_at, position, None)):
            ended = tables.bars_end(position[0])
            if ended is not None and ended > first.t:
                yield position


# ---- in order ---------------------------------------------------------------------------------------------------------


def _fold_onto(
    tables: Tables, agent: Agent, start: Head, fresh: Batch, position: Position, row: PositionRow | None,
    put: list[PositionRow],
) -> list[Event]:  # fmt: skip
    """Fold what is new onto what is held."""
    symbol, leg = position
    happened = [*fresh.happened.get(position, ())]
    decided = {item.ref: item.body for item in reversed(fresh.decisions) if item.symbol == symbol}  # by tick, if it is new
    glances = [_glance(agent, fresh, tick, known_at, position, decided.get(tick.id)) for tick, known_at in fresh.ticks]
    bars = fresh.bars.get(symbol, [])
    open_ = row.round if row else None
    if not happened and not bars and all(_agrees(agent, open_, glance) for glance in glances):
        return []
    terms = agent.terms()
    opened_before = open_.opened_by if open_ else None
    unmarked = any(g.snapshot and g.mark is None and (g.held is None or g.held.mark is None) for g in glances)
    earlier = tables.last_bar(symbol, max(g.t for g in glances), EVERYTHING) if unmarked else None
    named = _named(tables, [h.fill for h in happened if isinstance(h, FillEvent)], EVERYTHING)
    events = [_with_decision(h, named) for h in happened]
    before = tables.last_fill(position, upto=start.seq) if open_ is None and any(g.held for g in glances) else None
    folded = fold_events(terms, symbol, leg, open_, [*events, *glances], bars, earlier, before)
    closed = [TradeVersion(trade_from_round(terms, symbol, leg, r), r.known_at, None, r.settled_at) for r in folded.closed]
    tables.put_versions(closed)
    fresh.learn_of(closed)
    tables.put_discrepancies(folded.discrepancies)
    last = folded.last or (row.last if row else None)
    if last is not None:
        put.append(PositionRow(symbol, leg, last, folded.open))
    concluded: list[Event] = [trade_closed(version.trade) for version in closed]
    if folded.open is not None and folded.open.opened_by != opened_before:
        concluded.append(trade_opened(trade_from_round(terms, symbol, leg, folded.open)))
    return concluded + [discrepancy_found(found) for found in folded.discrepancies]


def _glance(
    agent: Agent, fresh: Batch, tick: Tick, known_at: datetime, position: Position, decision: Decision | None
) -> SnapshotView:
    symbol, leg = position
    return SnapshotView(
        id=tick.id, t=tick.t, known_at=known_at, skill_version=agent.skill_version,
        first=tick is fresh.first_snapshot, snapshot=tick.positions is not None,
        held=next((h for h in (tick.positions or {}).get(symbol, ()) if h.leg == leg), None),
        mark=tick.marks.get(symbol), decision=decision,
    )  # fmt: skip


def _agrees(agent: Agent, open_: Round | None, glance: SnapshotView) -> bool:
    """Whether a tick tells nothing new of a position."""
    if not glance.snapshot:
        return True
    dust = agent.settings.dust_qty
    seen = glance.held.qty if glance.held and abs(glance.held.qty) > dust else ZERO
    have = open_.qty * open_.side if open_ else ZERO
    return abs(seen - have) <= dust


def _with_decision(happened: PositionEvent, named: NamedDecisions) -> PositionEvent:
    if isinstance(happened, FillEvent):
        decision, decided_at = named.of(happened.fill)
        if decision is not None:
            return replace(happened, decision=decision, decided_at=decided_at)
    return happened


def _named(tables: Tables, fills: Iterable[Fill], known: Cutoff) -> NamedDecisions:
    """The decisions that fills name, by id or by the order they belong to."""
    fills = list(fills)
    orders = sorted({fill.order_id for fill in fills if fill.order_id})
    decided = {item.key: item.ref or "" for item in tables.items("order", known, keys=orders)} if orders else {}
    ids = sorted({fill.decision for fill in fills if fill.decision} | set(decided.values()))
    decisions = tables.items("decision", known, keys=ids) if ids else []
    found = {item.key: (read(Decision, item.body), item.known_at) for item in decisions}
    names = {f"d:{id_}": decision for id_, decision in found.items()}
    return NamedDecisions(names | {f"o:{order}": found[id_] for order, id_ in decided.items() if id_ in found})


# ---- out of order -----------------------------------------------------------------------------------------------------


def rederive(
    tables: Tables, agent: Agent, position: Position, row: PositionRow | None, since: datetime, known_at: datetime,
    first_snapshot: datetime | None, changed: dict[str, datetime | None],
) -> list[Event]:  # fmt: skip
    """Derive a position again from the last moment before `since` at which it was flat."""
    open_at = row.round.entry_at if row and row.round else None
    flat = tables.boundary(position, since, known_at, open_at)
    after = flat.at if flat else None
    before = tables.versions(position, after)
    versions, open_, discrepancies, last = derive_position(tables, agent, position, flat, EVERYTHING, first_snapshot)
    tables.drop_versions(position, after)
    tables.put_versions(versions)
    tables.put_discrepancies(discrepancies)
    if last is not None:
        tables.put_positions([PositionRow(*position, last, open_)])
    elif row is not None:
        tables.drop_position(position)
    note_changed_trades(changed, before, versions)
    was = {v.trade.id: v.trade for v in before if v.known_to is None}
    now = {v.trade.id: v.trade for v in versions if v.known_to is None}
    concluded: list[Event] = [trade_closed(trade) for id_, trade in now.items() if id_ not in was]
    concluded += [trade_revised(id_, *position, now.get(id_)) for id_, trade in was.items() if now.get(id_) != trade]
    opened_before = row.round.opened_by if row and row.round else None
    if open_ is not None and open_.opened_by != opened_before:
        concluded.append(trade_opened(trade_from_round(agent.terms(), *position, open_)))
    return concluded + [discrepancy_found(found) for found in discrepancies]


def derive_position(
    tables: Tables, agent: Agent, position: Position, flat: FlatPoint | None, known: Cutoff, first_snapshot: datetime | None
) -> tuple[tuple[TradeVersion, ...], Round | None, tuple[Discrepancy, ...], Any]:
    """A position from a moment at which it was flat, out of what a reader may know."""
    after = flat.at if flat else None
    kept = tables.span(position, after, known)
    bars = tables.bars(position[0], known, ending_after=after)
    if flat is not None:
        bars = [*tables.bars_before(position[0], flat, known), *bars]
    named = _named(tables, (read(Fill, item.body) for item in kept if item.kind == "fill"), known)
    before = tables.last_fill(position, until=after) if after else None
    happened = position_events(position, kept, named, first_snapshot)
    derived = derive_versions(agent.terms(), *position, happened, bars, before)
    return derived.versions, derived.open, derived.discrepancies, derived.last


# ---- trades that a source reports whole ---------------------------------------------------------------------------------


def reported_version(agent: Agent, item: Item, known_at: datetime, skill_version: int) -> TradeVersion:
    """A reported trade as the one version it has."""
    tell = claimed_trade if item.kind == "claim" else reported_trade
    trade = tell(agent.terms(), item.body, skill_version, reported_id(agent.id, item.kind, item.key, (item.symbol, item.leg)))
    return TradeVersion(trade, known_at, None, None)


def reported_id(agent: str, kind: str, key: str, position: Position) -> TradeId:
    """The id of a trade that is reported whole, by a source or by the agent itself."""
    return TradeId(MemoryId(make_id(agent, f"{kind}:{key}", *position)))


def put_reported(tables: Tables, agent: Agent, fresh: Batch, tell: bool) -> list[Event]:
    """Write the trades that a source reports whole."""
    versions = [reported_version(agent, item, known_at, agent.skill_version) for item, known_at in fresh.trades]
    replaced = tables.replace_versions(versions)
    fresh.learn_of([version for version in versions if version.trade.id not in replaced])
    note_changed_trades(fresh.changed, [version for version in versions if version.trade.id in replaced])
    return [trade_closed(version.trade) for version in versions] if tell else []
