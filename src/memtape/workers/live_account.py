"""Following a live account: poll the source, leave out what is known, observe the rest. All state is in the store.

    the store's last tick -> source.poll -> what is new -> agent.observe -> the run's decisions, recorded after it

The agent's own head (its first and last tick) decides from where to read. So a restart, a second follower or a lost answer costs
only a repetition, and the venue's own ids identify repetitions. A poll without news writes nothing, except once an hour: then
the record shows that the account did not change.

Decisions are recorded separately, after the tick that they answer and under its name, as a simulation names the decisions inside
its ticks. The run decides by the content of the tick; if it fails, the tick is stored and no order was placed twice. A fill finds
its decision by the order ids that the decision names.

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
...     def confirm(self):
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

from memtape.brokers.live import LiveSource, ReadRange
from memtape.core.observed import Bar, Decision, EquityMark, Tick
from memtape.core.values import read
from memtape.engine import AgentMemory, Receipt
from memtape.errors import Conflict, Invalid, Locked, MemtapeError, Unreachable
from memtape.plugs.clock import StopSignal
from memtape.store.cutoff import EVERYTHING
from memtape.store.tables import Tables

# A poll of Hyperliquid costs about 42 of the 1,200 units that a machine may use in a minute. Every 10 s uses a fifth and leaves
# the rest to the agent's own orders. The venue stamps fills with their time, so a late poll loses nothing.
POLL_INTERVAL = timedelta(seconds=10)
MIN_POLL_INTERVAL, MAX_PAUSE = timedelta(seconds=1), timedelta(minutes=5)  # between two polls; after failures
MAX_SILENCE = timedelta(hours=1)  # after it a tick is written even if nothing happened
EQUITY_MOVE_SHARE = Decimal("0.005")  # a larger move of equity is news, because drawdown depends on it
MISSING_FILL_AGE, MAX_MISSING_FILLS = timedelta(days=7), 100  # limits of the search for missing fills

DecideOnTick = Callable[[Tick], Iterable[Decision]]


@dataclass(frozen=True, slots=True)
class FollowStep:
    """The result of one poll of an account."""

    tick: Tick  # without what was already known
    receipt: Receipt | None  # None: nothing new, nothing written
    decisions: tuple[Receipt, ...] = ()

    @property
    def written(self) -> bool:
        """True if the tick was written."""
        return self.receipt is not None


def follow_account(agent: AgentMemory, source: LiveSource, *, decide: DecideOnTick | None = None) -> FollowStep:
    """Poll the account once, observe what is new, then let the run decide and record its decisions.

    `decide` is called with each new tick, after it was observed. It returns the decisions with the ids of the orders it placed.
    A source that fails raises before anything is written.
    """
    if agent.agent.mode == "sim":
        raise Conflict("agent", f"'{agent.agent.id}' is a simulation", "Follow with an agent of mode live or paper")
    with agent.reading() as tables:
        since, last = read_range(tables), tables.head().last_tick
    polled = source.poll(since)
    with agent.reading() as tables:
        tick = without_known(tables, polled)
        due = _is_news(tables, tick)
    receipt = agent.observe(tick) if due else None
    source.confirm()
    if receipt is None:
        return FollowStep(tick, None)
    later = last is None or tick.t > last
    decided = replace(tick, decision=tuple(decide(tick))).decisions if decide is not None and later else ()
    return FollowStep(tick, receipt, tuple(agent.observe(decision) for decision in decided))


def follow_until(
    agent: AgentMemory, source: LiveSource, stop: StopSignal, *, every: timedelta = POLL_INTERVAL,
    decide: DecideOnTick | None = None, on_step: Callable[[FollowStep | MemtapeError], object] = lambda step: None,
) -> None:  # fmt: skip
    """Poll until the stop signal. A temporary failure is reported, and the pause after it grows."""
    if every < MIN_POLL_INTERVAL:
        raise Invalid("every", f"{every.total_seconds():g} s is too short", "Poll at most once a second")
    pause = every
    while True:
        try:
            on_step(follow_account(agent, source, decide=decide))
            pause = every
        # The venue is down, the store is busy, or an answer or a clock is wrong.
        except (Unreachable, Locked, Invalid) as problem:
            on_step(problem)
            pause = min(2 * pause, max(MAX_PAUSE, every))
        if stop.wait(pause.total_seconds()):
            return


def read_range(tables: Tables) -> ReadRange | None:
    """Returns from when to read: the last tick, or an earlier snapshot that no fill explains yet, because that fill is late."""
    head = tables.head()
    if head.first_snapshot is None or head.last_tick is None:
        return None
    oldest = head.last_tick - MISSING_FILL_AGE
    unexplained = [found.at for found in tables.discrepancies(MAX_MISSING_FILLS) if found.why == "snapshot" and found.at > oldest]
    return ReadRange(head.first_snapshot, min([head.last_tick, *unexplained]))


def without_known(tables: Tables, tick: Tick) -> Tick:
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


def _is_news(tables: Tables, tick: Tick) -> bool:
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
