"""Polls of a live account, compared with the store: from when to read, and which part of the answer is new.

Which venue an agent follows is a statement in its log, so that other processes know where its market is.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timedelta
from decimal import Decimal

from memtape.brokers.live import ReadRange
from memtape.core.codec import EPOCH, make_id
from memtape.core.items import Item
from memtape.core.observed import Bar, EquityMark, Tick
from memtape.core.values import read
from memtape.engine.agent import AgentMemory
from memtape.engine.scope import AgentScope
from memtape.store.cutoff import EVERYTHING
from memtape.store.tables import Tables

MICROSECOND = timedelta(microseconds=1)
MAX_SILENCE = timedelta(hours=1)  # after it a tick is written even if nothing happened
EQUITY_MOVE_SHARE = Decimal("0.005")  # a larger move of equity is news, because drawdown depends on it
MISSING_FILL_AGE, MAX_MISSING_FILLS = timedelta(days=7), 100  # limits of the search for missing fills


@dataclass(frozen=True, slots=True)
class FollowedVenue:
    """A venue whose account an agent follows."""

    source: str  # hyperliquid
    url: str  # a test network has other prices than the venue itself


def state_followed_venue(agent: AgentMemory, venue: FollowedVenue) -> None:
    """State which venue an agent follows, unless that is what was stated last."""
    if followed_venue(agent) == venue:
        return
    scope = AgentScope(agent.resources, agent.agent)
    with scope.writing() as tables:
        body, at = asdict(venue), scope.stated_at(tables)
        key = make_id("followed_venue", body, tables.head().seq + 1)
        scope.writer(tables).declare(Item("followed_venue", key, at, body), at)


def followed_venue(agent: AgentMemory) -> FollowedVenue | None:
    """The venue that an agent follows, as it was stated last; None if it follows none."""
    with agent.resources.reading(agent.agent.id) as tables:
        return _followed(tables)


def _followed(tables: Tables) -> FollowedVenue | None:
    stated = max(tables.items("followed_venue", EVERYTHING), key=lambda item: item.seq, default=None)
    return None if stated is None else FollowedVenue(**stated.body)


def missing_bars_from(agent: AgentMemory, symbol: str, length: timedelta, since: datetime, now: datetime) -> datetime:
    """The open time of the first bar that began at or after a moment and is not stored."""
    step = length // MICROSECOND
    first = EPOCH + -(-((since - EPOCH) // MICROSECOND) // step) * length
    with agent.resources.reading(agent.agent.id) as tables:
        stored = tables.bars_between(symbol, first, max(first, now))
    while (int(length.total_seconds()), first) in stored:
        first += length
    return first


def unstored_bars(agent: AgentMemory, bars: Iterable[Bar]) -> list[Bar]:
    """The bars that are not stored yet."""
    with agent.resources.reading(agent.agent.id) as tables:
        return _new_bars(tables, bars)


def next_read_range(agent: AgentMemory) -> tuple[ReadRange | None, datetime | None]:
    """Returns from when to read the account, and the time of the last tick that is stored."""
    with agent.resources.reading(agent.agent.id) as tables:
        return _read_range(tables), tables.head().last_tick


def new_part_of_poll(agent: AgentMemory, polled: Tick) -> tuple[Tick, bool]:
    """Returns the tick without what is stored already, and True if the rest has news and should be written."""
    with agent.resources.reading(agent.agent.id) as tables:
        tick = _without_known(tables, polled)
        return tick, _has_news(tables, tick)


def _read_range(tables: Tables) -> ReadRange | None:
    """Returns from when to read: the last tick, or an earlier snapshot that no fill explains yet, because that fill is late."""
    head = tables.head()
    if head.first_snapshot is None or head.last_tick is None:
        return None
    oldest = head.last_tick - MISSING_FILL_AGE
    unexplained = [found.at for found in tables.discrepancies(MAX_MISSING_FILLS) if found.why == "snapshot" and found.at > oldest]
    return ReadRange(head.first_snapshot, min([head.last_tick, *unexplained]))


def _without_known(tables: Tables, tick: Tick) -> Tick:
    """Returns a tick without the fills, funding and bars that are already stored."""
    names = [("fill", fill.id) for fill in tick.fills] + [("funding", paid.id) for paid in tick.funding]
    known = tables.log_rows_of(names)
    return replace(
        tick,
        fills=tuple(fill for fill in tick.fills if ("fill", fill.id) not in known),
        funding=tuple(paid for paid in tick.funding if ("funding", paid.id) not in known),
        bars=tuple(_new_bars(tables, tick.bars)),
    )


def _new_bars(tables: Tables, bars: Iterable[Bar]) -> list[Bar]:
    """Returns the bars that are not stored yet. The first version of a bar counts."""
    found: list[Bar] = []
    listed = list(bars)
    for symbol in sorted({bar.symbol for bar in listed}):
        own = [bar for bar in listed if bar.symbol == symbol]
        stored = tables.bars_between(symbol, min(bar.t0 for bar in own), max(bar.t0 for bar in own))
        found += [bar for bar in own if (bar.frame, bar.t0) not in stored]
    return sorted(found, key=lambda bar: (bar.t1, bar.symbol, bar.frame))


def _has_news(tables: Tables, tick: Tick) -> bool:
    """Returns True if a tick has news: something happened, the account changed, or an hour has passed."""
    if tick.fills or tick.funding or tick.bars:
        return True
    ticks = tables.items("tick", EVERYTHING, newest=True, limit=1)
    if not ticks:
        return True
    last = read(Tick, ticks[0].body)
    if tick.t <= last.t:
        return False
    return tick.t - last.t >= MAX_SILENCE or _held_quantities(tick) != _held_quantities(last) or _equity_moved(tables, tick)


def _held_quantities(tick: Tick) -> dict[tuple[str, str], tuple[Decimal, Decimal | None]] | None:
    """Returns quantities and average prices of positions. Their value changes all the time and is no news."""
    if tick.positions is None:
        return None
    return {(symbol, held.leg): (held.qty, held.entry_px) for symbol, legs in tick.positions.items() for held in legs}


def _equity_moved(tables: Tables, tick: Tick) -> bool:
    marks = tables.items("equity", EVERYTHING, newest=True, limit=1)
    if tick.equity is None or not marks:
        return tick.equity is not None
    before = read(EquityMark, marks[0].body).equity
    return abs(tick.equity - before) >= EQUITY_MOVE_SHARE * abs(before)
