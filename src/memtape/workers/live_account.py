"""Following a live account: ask the source, leave out what is known, observe the rest. Nothing is kept but in the store.

    where the store stands -> source.poll -> what is new -> agent.observe -> the run's decisions, recorded after it

The point to read from is the agent's own head (its first and last tick), so a restart, a second follower or a lost answer
costs nothing but a repetition, and repetitions are recognised by the venue's own ids. A poll that found nothing new writes
nothing, except once an hour: that the account stood still is then on record.

Decisions are recorded on their own, after the tick they answer and under its name, as a simulation names those inside its
ticks: the run decides by what the tick brought, and should it fail, the tick is kept and no order was placed twice. A fill
finds its decision by the order ids that the decision names.

>>> from datetime import UTC, datetime
>>> from decimal import Decimal
>>> import memtape
>>> from memtape.plugs.clock import FixedClock
>>> clock = FixedClock(datetime(2026, 6, 4, 8, tzinfo=UTC))
>>> memory = memtape.open(":memory:", clock=clock)
>>> _ = memory.create_skill("breakout")
>>> _ = memory.create_agent("desk", skill="breakout", mode="live")
>>> class Still:
...     def poll(self, since):
...         return Tick(id=f"s{clock.at:%H%M}", t=clock.at, positions={}, equity=Decimal(5000))
...     def taken(self):
...         pass
>>> follow_account(memory.agent("desk"), Still()).written
True
>>> clock.at += timedelta(minutes=30)
>>> follow_account(memory.agent("desk"), Still()).written
False
>>> clock.at += timedelta(minutes=30)
>>> follow_account(memory.agent("desk"), Still()).written
True
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from datetime import timedelta
from decimal import Decimal
from typing import Protocol

from memtape.brokers.live import LiveSource, Since
from memtape.core.observed import Bar, Decision, EquityMark, Tick
from memtape.core.values import read
from memtape.engine import AgentMemory, Receipt
from memtape.errors import Conflict, Invalid, Locked, MemtapeError, Unreachable
from memtape.store.cutoff import EVERYTHING
from memtape.store.tables import Tables

# A poll of Hyperliquid weighs about 42 of the 1,200 that a machine may spend in a minute. Every 10 s takes a fifth of that and
# leaves the rest to the agent's own orders, and fills are stamped by the venue, so a late look loses nothing.
EVERY = timedelta(seconds=10)
LEAST, MOST = timedelta(seconds=1), timedelta(minutes=5)  # between two polls; the longest wait after failures
AT_LEAST = timedelta(hours=1)  # a tick is written so often even when nothing happens
MOVED = Decimal("0.005")  # equity that moved by this share is news: drawdowns are measured by it
PATIENCE, HOW_MANY = timedelta(days=7), 100  # how long and for how many missing fills the venue is searched

Decide = Callable[[Tick], Iterable[Decision]]


class FollowStop(Protocol):
    """Says when to end; a `threading.Event` is one."""

    def wait(self, timeout: float, /) -> bool:
        """Wait so many seconds, or less if it is time to end; whether it is."""
        ...


@dataclass(frozen=True, slots=True)
class Step:
    """What one look at an account came to."""

    tick: Tick  # without what was known already
    receipt: Receipt | None  # None: nothing new, nothing written
    decisions: tuple[Receipt, ...] = ()

    @property
    def written(self) -> bool:
        """Whether the look is on record."""
        return self.receipt is not None


def follow_account(agent: AgentMemory, source: LiveSource, *, decide: Decide | None = None) -> Step:
    """Look at the account once; observe what is new, then let the run decide and record what it decided.

    `decide` is called with each new tick, after it was observed, and gives the decisions with the ids of the orders it placed.
    A failing source raises before anything is written.
    """
    if agent.agent.mode == "sim":
        raise Conflict("agent", f"'{agent.agent.id}' is a simulation", "Follow with an agent of mode live or paper")
    with agent.reading() as tables:
        since, last = since_when(tables), tables.head().last_tick
    polled = source.poll(since)
    with agent.reading() as tables:
        tick = unseen(tables, polled)
        due = _is_news(tables, tick)
    receipt = agent.observe(tick) if due else None
    source.taken()
    if receipt is None:
        return Step(tick, None)
    later = last is None or tick.t > last
    decided = replace(tick, decision=tuple(decide(tick))).decisions if decide is not None and later else ()
    return Step(tick, receipt, tuple(agent.observe(decision) for decision in decided))


def follow_until(
    agent: AgentMemory, source: LiveSource, stop: FollowStop, *, every: timedelta = EVERY, decide: Decide | None = None,
    tell: Callable[[Step | MemtapeError], object] = lambda told: None,
) -> None:  # fmt: skip
    """Look again and again until told to stop. A failure that may pass is told, and waited for longer each time."""
    if every < LEAST:
        raise Invalid("every", f"{every.total_seconds():g} s is too often", "Poll at most once a second")
    pause = every
    while True:
        try:
            tell(follow_account(agent, source, decide=decide))
            pause = every
        except (Unreachable, Locked, Invalid) as problem:  # venue down, store busy, an answer or a clock that is wrong
            tell(problem)
            pause = min(2 * pause, max(MOST, every))
        if stop.wait(pause.total_seconds()):
            return


def since_when(tables: Tables) -> Since | None:
    """From when on to read: the last tick, or what the broker showed before it and no fill explains yet: that fill is late."""
    head = tables.head()
    if head.first_snapshot is None or head.last_tick is None:
        return None
    oldest = head.last_tick - PATIENCE
    unexplained = [found.at for found in tables.discrepancies(HOW_MANY) if found.why == "snapshot" and found.at > oldest]
    return Since(head.first_snapshot, min([head.last_tick, *unexplained]))


def unseen(tables: Tables, tick: Tick) -> Tick:
    """A tick without the fills, funding and bars that are in the store already."""
    names = [("fill", fill.id) for fill in tick.fills] + [("funding", paid.id) for paid in tick.funding]
    known = tables.log_rows_of(names)
    return replace(
        tick,
        fills=tuple(fill for fill in tick.fills if ("fill", fill.id) not in known),
        funding=tuple(paid for paid in tick.funding if ("funding", paid.id) not in known),
        bars=tuple(_new_bars(tables, tick.bars)),
    )


def _new_bars(tables: Tables, bars: Iterable[Bar]) -> list[Bar]:
    """The bars of which there is none yet; of two that differ the first one counts."""
    found: list[Bar] = []
    listed = list(bars)
    for symbol in sorted({bar.symbol for bar in listed}):
        own = [bar for bar in listed if bar.symbol == symbol]
        here = tables.bars_between(symbol, min(bar.t0 for bar in own), max(bar.t0 for bar in own))
        found += [bar for bar in own if (bar.frame, bar.t0) not in here]
    return sorted(found, key=lambda bar: (bar.t1, bar.symbol, bar.frame))


def _is_news(tables: Tables, tick: Tick) -> bool:
    """Whether a tick tells anything: something happened, the account is not what it was, or it is time to say so."""
    if tick.fills or tick.funding or tick.bars:
        return True
    ticks = tables.items("tick", EVERYTHING, newest=True, limit=1)
    if not ticks:
        return True
    last = read(Tick, ticks[0].body)
    if tick.t <= last.t:
        return False
    return tick.t - last.t >= AT_LEAST or _held(tick) != _held(last) or _has_moved(tables, tick)


def _held(tick: Tick) -> dict[tuple[str, str], tuple[Decimal, Decimal | None]] | None:
    """What is held and at which average price; what it is worth changes all the time."""
    if tick.positions is None:
        return None
    return {(symbol, held.leg): (held.qty, held.entry_px) for symbol, legs in tick.positions.items() for held in legs}


def _has_moved(tables: Tables, tick: Tick) -> bool:
    marks = tables.items("equity", EVERYTHING, newest=True, limit=1)
    if tick.equity is None or not marks:
        return tick.equity is not None
    before = read(EquityMark, marks[0].body).equity
    return abs(tick.equity - before) >= MOVED * abs(before)
