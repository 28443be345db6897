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

from memtape.brokers.live import CoveringSource, LiveSource
from memtape.core.authors import VENUE_AUTHOR
from memtape.core.observed import Decision, Tick
from memtape.engine import AgentMemory, Receipt
from memtape.engine.account_polls import new_part_of_poll, next_read_range, state_venue_coverage
from memtape.errors import Conflict, Invalid, Locked, MemtapeError, Unreachable
from memtape.plugs.clock import StopSignal

# A poll of Hyperliquid costs about 62 of the 1,200 units that a machine may use in a minute. Every 10 s uses a third and leaves
# the rest to the agent's own orders. The venue stamps fills with their time, so a late poll loses nothing.
POLL_INTERVAL = timedelta(seconds=10)
MIN_POLL_INTERVAL, MAX_PAUSE = timedelta(seconds=1), timedelta(minutes=5)  # between two polls; after failures

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
    A source that fails raises before anything is written. What it could not read is stated in the log.
    """
    if agent.agent.mode == "sim":
        raise Conflict("agent", f"'{agent.agent.id}' is a simulation", "Follow with an agent of mode live or paper")
    since, last = next_read_range(agent)
    tick, has_news = new_part_of_poll(agent, source.poll(since))
    venue = agent.said_by(VENUE_AUTHOR)
    receipt = venue.observe(tick) if has_news else None
    source.confirm()
    if isinstance(source, CoveringSource):
        state_venue_coverage(venue, source.coverage)
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
