"""A simulated account and the same account delivered live say the same, byte for byte, at any moment.

A random account is simulated: limit entries, partial fills, stops, targets, funding, liquidation, one to three symbols. Then its
fills, funding, bars and snapshots reach a live agent through `observe`, each on its own, at the moment at which the simulation knew
them: in order, doubled, or in any order within that moment, and with the engine closed and opened again in between. Whatever was
delivered late is delivered as a backfill of its tick, which counts as known from the tick. Then ledger, recall and brief are compared
at random moments: as of a time, and as of a time with the log as it stood.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from random import Random

import pytest

from memtape.compose import open_database
from memtape.core.codec import canonical
from memtape.core.fills import Fill
from memtape.core.ledger.trades import trade_json
from memtape.core.observed import Bars, Observed, Tick
from memtape.engine import AgentMemory, Memory
from memtape.plugs.clock import FixedClock
from memtape.sim.run import run_simulation
from tests.effort import SOAK
from tests.sim.test_batches import Gambler, venue, walk

# By feed: the seed of its history. Each of these accounts is liquidated once; most have several symbols.
FEEDS = {"in order": 5, "doubled": 13, "reordered": 47, "restarts": 34, "late": 56}
HOURS = 70
MOMENTS = 64 if SOAK else 32  # of each history: with six histories and two stores 384
MORE_SEEDS = [100, *range(102, 116)] if SOAK else []  # for each feed: more than 10,000 moments
# The last one has an entry between a fill and the tick that reported it: the fill was not known at that entry.
HISTORIES = [*FEEDS.items(), ("late", 101), *((how, seed) for how in FEEDS for seed in MORE_SEEDS)]


class Account:
    """A random account, simulated once, and what each of its ticks brought."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.symbols = ["BTC", "ETH", "SOL"][: 1 + seed % 3]
        self.bars = walk(seed, self.symbols, HOURS)
        self.ticks: list[Tick] = []
        self.heads: list[int] = []  # of the log, after each tick

    def simulate(self, agent: AgentMemory) -> None:
        def after(tick: Tick, receipt: object) -> None:
            self.ticks.append(tick)
            self.heads.append(agent.head().seq)

        run_simulation(agent, self.bars, Gambler(self.seed), venue=venue(self.symbols), name="main", after_tick=after)


@contextmanager
def opened(url: str, owner: str, mode: str, at: datetime) -> Iterator[AgentMemory]:
    with Memory(open_database(url), owner, FixedClock(at)) as memory:
        memory.create_skill("s")
        memory.create_agent("main", skill="s", mode=mode, settings={"starting_equity": "10000"})
        yield memory.agent("main")


def parts_of(tick: Tick) -> list[Observed]:
    """What a venue delivers one by one: fills, funding, bars."""
    return [*tick.fills, *tick.funding, *([Bars(bars=tick.bars)] if tick.bars else [])]


class LiveFeed:
    """Delivers the ticks of an account to a live agent, and notes the head of its log after each."""

    def __init__(self, url: str, how: str, seed: int) -> None:
        self.url, self.how, self.chance = url, how, Random(seed)
        self.heads: list[int] = []
        self._delayed: list[tuple[int, Observed]] = []

    def deliver(self, ticks: list[Tick]) -> None:
        n = 0
        while n < len(ticks):
            # A restart: another engine goes on where the last one ended.
            until = len(ticks) if self.how != "restarts" else min(len(ticks), n + self.chance.randint(1, 25))
            with opened(self.url, "live", "live", ticks[0].t) as agent:
                for number in range(n, until):
                    self._deliver_tick(agent, number, ticks[number], last=number == len(ticks) - 1)
            n = until

    def _deliver_tick(self, agent: AgentMemory, number: int, tick: Tick, last: bool) -> None:
        agent.resources.clock = FixedClock(tick.t)
        snapshot = replace(tick, fills=(), funding=(), bars=())
        arriving: list[Observed] = [*parts_of(tick), snapshot]
        if self.how == "reordered":
            self.chance.shuffle(arriving)
        if self.how in ("doubled", "restarts"):
            arriving = [value for value in arriving for _ in range(self.chance.choice((1, 2)))]
            if self.chance.random() < 0.3:
                arriving.append(tick)  # the whole again, with all its parts
        if self.how == "late":
            for value in [value for value in arriving if not isinstance(value, Tick) and self.chance.random() < 0.3]:
                arriving.remove(value)
                # A fill comes as a part of its tick, as the simulation had it. By itself it would count as known from its own
                # time, which lies before the tick.
                late = replace(snapshot, fills=(value,)) if isinstance(value, Fill) else value
                self._delayed.append((number + self.chance.randint(1, 4), late))
        for value in arriving:
            agent.observe(value)
        for due, value in list(self._delayed):
            if due <= number or last:
                self._delayed.remove((due, value))
                agent.observe(value, backfill=True)
        self.heads.append(agent.head().seq)


def answers(agent: AgentMemory, as_of: datetime, head: int | None) -> dict[str, str]:
    """What the agent says at a moment: its ledger, what it recalls, and its brief."""
    trades = agent.ledger.trades(as_of=as_of, head=head, newest=False)
    recalled, query, _ = agent.memories.recall(as_of=as_of, head=head)
    brief = agent.briefs.make(as_of=as_of, head=head).brief
    return {
        "ledger": canonical([trade_json(trade) for trade in trades]),
        "recall": canonical([recalled, query]),
        "brief": brief.of("system") + brief.of("user"),
    }


def compare(url: str, how: str, seed: int, moments: int) -> int:
    """Simulates an account, delivers it live, and compares both at random moments. Returns how many moments were compared."""
    account, chance = Account(seed), Random(seed)
    with opened(url, "sim", "sim", account.bars[-1].t1) as simulated:
        account.simulate(simulated)
        feed = LiveFeed(url, how, seed)
        feed.deliver(account.ticks)
        with opened(url, "live", "live", account.bars[-1].t1) as live:
            for _ in range(moments):
                n = chance.randrange(len(account.ticks))
                as_of = account.ticks[n].t
                if how != "late":
                    as_of += timedelta(seconds=chance.choice((0, 1, 30, 1800, 3599)))
                heads = (None, None) if how == "late" or chance.random() < 0.5 else (account.heads[n], feed.heads[n])
                ours, theirs = answers(simulated, as_of, heads[0]), answers(live, as_of, heads[1])
                for what, said in ours.items():
                    assert said == theirs[what], f"{what} as of {as_of}, heads {heads}, {how}, seed {seed}"
    return moments


@pytest.mark.soak
@pytest.mark.parametrize(("how", "seed"), HISTORIES)
def test_a_live_feed_says_what_the_simulation_says_at_any_moment(store_url: str, how: str, seed: int) -> None:
    assert compare(store_url, how, seed, MOMENTS) == MOMENTS


@pytest.mark.parametrize(
    ("delivery", "losses"),
    [("in its tick", 0), ("late, in its tick", 0), ("late, when it arrived", 0), ("late, by itself as a backfill", 1)],
)
def test_the_losses_counted_at_an_entry_are_those_known_then(tmp_path: Path, delivery: str, losses: int) -> None:
    # BTC is stopped out at 09:10 and reported at 10:00. ETH is entered at 09:30. Only a backfill of the fill by itself says that the
    # loss was known at 09:10; a tick is known when it is taken, and what arrives late when it arrives.
    def fill(name: str, minute: int, symbol: str, side: str, price: str) -> Fill:
        return Fill(id=name, t=nine + timedelta(minutes=minute), symbol=symbol, side=side, qty=Decimal(1), px=Decimal(price))

    nine = datetime(2025, 3, 3, 9, tzinfo=UTC)
    stopped = fill("f2", 10, "BTC", "sell", "90")
    ticks = [
        Tick(id="t0", t=nine, fills=(fill("f1", -5, "BTC", "buy", "100"),)),
        Tick(id="t1", t=nine + timedelta(hours=1), fills=(stopped, fill("f3", 30, "ETH", "buy", "10"))),
        Tick(id="t2", t=nine + timedelta(hours=2), fills=(fill("f4", 90, "ETH", "sell", "11"),)),
    ]
    with opened(str(tmp_path / "a.db"), "live", "live", nine) as agent:
        for tick in ticks:
            agent.resources.clock = FixedClock(tick.t)
            late = stopped in tick.fills and delivery != "in its tick"
            agent.observe(replace(tick, fills=tick.fills[1:]) if late else tick)
        agent.resources.clock = FixedClock(nine + timedelta(hours=3))
        if delivery == "late, in its tick":
            agent.observe(replace(ticks[1], fills=(stopped,)), backfill=True)
        elif delivery == "late, when it arrived":
            agent.observe(stopped)
        elif delivery == "late, by itself as a backfill":
            agent.observe(stopped, backfill=True)
        (ether,) = [episode for episode in agent.memories.episodes() if episode.symbol == "ETH"]
        assert (ether.consecutive_losses or 0) == losses


def test_the_compared_accounts_have_everything_that_is_hard(tmp_path: Path) -> None:
    for seed in FEEDS.values():
        account = Account(seed)
        with opened(str(tmp_path / f"{seed}.db"), "sim", "sim", account.bars[-1].t1) as agent:
            account.simulate(agent)
        fills = [fill for tick in account.ticks for fill in tick.fills]
        assert {"market", "limit", "stop", "target", "liquidation"} == {fill.trigger for fill in fills}
        assert any(n > 1 for n in Counter(fill.order_id for fill in fills).values()), "an order that filled in parts"
        assert any(tick.funding for tick in account.ticks)
        assert len(account.symbols) > 1


@pytest.mark.parametrize("what", ["fill", "funding", "bars"])
def test_a_feed_that_loses_something_is_noticed(tmp_path: Path, what: str) -> None:
    account = Account(5)
    url = str(tmp_path / "a.db")
    with opened(url, "sim", "sim", account.bars[-1].t1) as simulated:
        account.simulate(simulated)
        field = {"fill": "fills", "funding": "funding", "bars": "bars"}[what]
        lost = next(n for n, tick in enumerate(account.ticks) if n > 30 and getattr(tick, field))
        ticks = [replace(tick, **{field: ()}) if n == lost else tick for n, tick in enumerate(account.ticks)]
        LiveFeed(url, "in order", 5).deliver(ticks)
        with opened(url, "live", "live", account.bars[-1].t1) as live:
            at = account.ticks[-1].t
            assert answers(simulated, at, None) != answers(live, at, None)
