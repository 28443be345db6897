"""A simulation writes many ticks in one transaction. The record is the one that a transaction for each tick would leave."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memtape.compose import open_database
from memtape.core.observed import Bar, Decision, Tick
from memtape.engine import AgentMemory, Memory
from memtape.errors import Invalid
from memtape.plugs.clock import FixedClock
from memtape.sim.funding import SteadyFunding
from memtape.sim.margin import Margin
from memtape.sim.paper import Order, Position
from memtape.sim.run import run_simulation
from memtape.sim.strategies import STRATEGIES, OrderProposal
from memtape.sim.venue import Venue
from memtape.store.schema import TABLES
from tests.effort import examples

D = Decimal
NOON = datetime(2026, 11, 15, 12, tzinfo=UTC)


def walk(seed: int, symbols: Sequence[str], n: int) -> list[Bar]:
    """Hourly bars of random walks, with jumps that stop a position out or liquidate it."""
    chance, bars = Random(seed), []
    for symbol in symbols:
        price = 100.0
        for hour in range(n):
            close = max(5.0, price * (1 + chance.gauss(0, 0.012) + (chance.choice((-0.12, 0.12)) if chance.random() < 0.02 else 0)))
            high, low = max(price, close) * (1 + chance.random() * 0.004), min(price, close) * (1 - chance.random() * 0.004)
            o, h, l, c = (D(f"{px:.2f}") for px in (price, high + 0.01, low - 0.01, close))  # noqa: E741
            t0 = datetime(2025, 3, 3, tzinfo=UTC).timestamp() + 3600 * hour
            start, end = (datetime.fromtimestamp(t, UTC) for t in (t0, t0 + 3600))
            bars.append(Bar(symbol=symbol, t0=start, t1=end, o=o, h=max(o, h, c), l=min(o, l, c), c=c, v=D(chance.randint(200, 900))))
            price = float(c)
    return bars


class Gambler:
    """Enters and leaves at random, by market, limit and stop orders, with and without stops; sometimes it passes."""

    name = "gambler"

    def __init__(self, seed: int) -> None:
        self._chance = Random(seed)

    def __call__(self, history: Sequence[Bar], position: Position, equity: Decimal) -> list[OrderProposal]:
        chance, bar = self._chance, history[-1]
        if chance.random() > 0.3 or equity <= 0:
            return []
        if position.qty and chance.random() < 0.5:
            side = "sell" if position.qty > 0 else "buy"
            part = abs(position.qty) if chance.random() < 0.6 else (abs(position.qty) / 2).quantize(D("0.01")) or abs(position.qty)
            decision = Decision(symbol=bar.symbol, action="close", reason=f"Enough at {bar.c}", qty=part)
            return [OrderProposal(decision, (Order(symbol=bar.symbol, side=side, qty=part, reduce_only=True),))]
        way = chance.choice((1, -1))
        protected = chance.random() < 0.7
        stop = (bar.c * (1 - D("0.03") * way)).quantize(D("0.01")) if protected else None
        target = (bar.c * (1 + D("0.04") * way)).quantize(D("0.01")) if protected and chance.random() < 0.7 else None
        side, about = ("buy", "long") if way > 0 else ("sell", "short")
        if chance.random() < 0.2:
            return [OrderProposal(Decision(symbol=bar.symbol, action="no_trade", side=about, stop=stop, target=target, reason="Too wild"))]
        qty = (equity * D(chance.choice(("0.5", "1", "9"))) / bar.c).quantize(D("0.01"))
        if qty <= 0:
            return []
        limit = (bar.c * (1 - D("0.004") * way)).quantize(D("0.01"))
        kind = {"kind": "limit", "px": limit, "bars": 3} if chance.random() < 0.4 else {}
        decision = Decision(symbol=bar.symbol, action=side, side=about, stop=stop, target=target, qty=qty, reason=f"Bar {len(history)}")
        return [OrderProposal(decision, (Order(symbol=bar.symbol, side=side, qty=qty, stop=stop, target=target, **kind),))]


def venue(symbols: Sequence[str]) -> Venue:
    return Venue(margin=Margin.at_leverage(D(10)), participation=D("0.3"), funding={s: SteadyFunding(rate=D("0.0003")) for s in symbols})


@contextmanager
def agent_of(url: str, owner: str) -> Iterator[AgentMemory]:
    with Memory(open_database(url), owner, FixedClock(NOON)) as memory:
        memory.create_skill("s")
        memory.create_agent("a", skill="s", mode="sim")
        yield memory.agent("a")


def stored(agent: AgentMemory) -> dict[str, list[Any]]:
    """Every row of the agent, without its owner."""
    with agent.resources.reading("a") as tables:
        return {table: [{k: v for k, v in row.items() if k != "owner"} for row in tables.rows(table)] for table in TABLES if table != "leases"}


@pytest.mark.parametrize("name", ["breakout", "gambler"])
def test_a_batch_of_many_ticks_leaves_the_rows_that_a_batch_of_one_leaves(store_url: str, name: str) -> None:
    symbols = ["BTC", "ETH"]
    bars = walk(11, symbols, 150)
    rows, results = [], []
    for owner, batch in (("one", 1), ("many", 60)):
        with agent_of(store_url, owner) as agent:
            strategy = Gambler(11) if name == "gambler" else STRATEGIES[name]()
            results.append(run_simulation(agent, bars, strategy, venue=venue(symbols), batch=batch))
            rows.append(stored(agent))
    assert rows[0]["log"] and rows[0].keys() == rows[1].keys()
    for table in rows[0]:
        assert rows[0][table] == rows[1][table], table
    assert results[0] == results[1]
    if name == "gambler":
        assert results[0].terms is not None and results[0].trades > 10 and results[0].terms.liquidations > 0


@settings(max_examples=examples(4, 200))
@given(seed=st.integers(0, 10_000), size=st.integers(2, 60))
def test_random_accounts_are_recorded_alike_in_batches_of_any_size(seed: int, size: int) -> None:
    symbols = ["BTC", "ETH", "SOL"][: 1 + seed % 3]
    bars, rows = walk(seed, symbols, 60), []
    for batch in (1, size):
        with agent_of(":memory:", "o") as agent:
            run_simulation(agent, bars, Gambler(seed), venue=venue(symbols), batch=batch)
            rows.append(stored(agent))
    for table in rows[0]:
        assert rows[0][table] == rows[1][table], table


def test_lessons_are_drawn_between_the_same_ticks() -> None:
    bars, rows = walk(8, ["BTC"], 240), []
    for batch in (1, 250):
        with agent_of(":memory:", "o") as agent:
            drawn: list[datetime] = []

            def after(tick: Tick, receipt: Any, agent: AgentMemory = agent, drawn: list[datetime] = drawn) -> None:
                if receipt.reflection_due and agent.lessons.reflect_if_due():
                    drawn.append(tick.t)

            run_simulation(agent, bars, Gambler(2), venue=venue(["BTC"]), batch=batch, after_tick=after)
            rows.append((drawn, stored(agent)))
    assert rows[0][0], "lessons became due"
    assert rows[0] == rows[1]


def test_a_strategy_that_reads_the_memory_finds_every_tick_before_its_own() -> None:
    bars = walk(1, ["BTC"], 40)
    with agent_of(":memory:", "o") as agent:
        seen: list[int] = []

        def reader(history: Sequence[Bar], position: Position, equity: Decimal) -> list[OrderProposal]:
            seen.append(agent.head().seq if len(history) % 5 == 0 else -1)
            return []

        run_simulation(agent, bars, reader, batch=250)
        assert [n for n in seen if n >= 0] == [4, 9, 14, 19, 24, 29, 34, 39]


def test_no_transaction_is_open_while_the_strategy_is_asked(tmp_path: Path) -> None:
    bars, url = walk(1, ["BTC"], 30), str(tmp_path / "a.db")
    with agent_of(url, "o") as agent, agent_of(url, "other") as other:
        def writer(history: Sequence[Bar], position: Position, equity: Decimal) -> list[OrderProposal]:
            # Another connection of the same file can write at any time.
            other.observe({"id": f"t{len(history)}", "t": history[-1].t1.isoformat(), "positions": {}})
            return []

        run_simulation(agent, bars, writer, batch=10)
        assert other.head().seq == 30 and agent.head().seq == 30


def test_a_wrong_bar_is_named_before_anything_is_written() -> None:
    bars = walk(1, ["BTC"], 30)
    bars[20] = replace(bars[20], h=bars[20].l - 1)
    with agent_of(":memory:", "o") as agent:
        with pytest.raises(Invalid, match=r"bars\.20: the low must not exceed open and close"):
            run_simulation(agent, bars, Gambler(1))
        assert agent.head().seq == 0


def test_an_error_of_the_strategy_loses_no_tick_before_it() -> None:
    bars = walk(1, ["BTC"], 30)
    with agent_of(":memory:", "o") as agent:
        def fails(history: Sequence[Bar], position: Position, equity: Decimal) -> list[OrderProposal]:
            if len(history) == 20:
                raise ZeroDivisionError
            return []

        with pytest.raises(ZeroDivisionError):
            run_simulation(agent, bars, fails, batch=250)
        assert agent.head().seq == 19


def test_a_run_that_was_cut_off_within_a_batch_continues_and_ends_with_the_same_rows() -> None:
    bars, symbols = walk(4, ["BTC", "ETH"], 120), ["BTC", "ETH"]
    with agent_of(":memory:", "o") as whole:
        run_simulation(whole, bars, Gambler(9), venue=venue(symbols))
        expected = stored(whole)

    class Killed(BaseException):
        """The process ends: nothing is written any more."""

    with agent_of(":memory:", "o") as agent:
        write, written = agent.observe_ticks, []

        def dies(ticks: Sequence[Tick], **how: Any) -> Any:
            if len(written) >= 3:
                raise Killed
            written.append(len(ticks))
            return write(ticks, **how)

        agent.observe_ticks = dies  # type: ignore[method-assign]
        with pytest.raises(Killed):
            run_simulation(agent, bars, Gambler(9), venue=venue(symbols), batch=20)
        agent.observe_ticks = write  # type: ignore[method-assign]
        assert agent.head().seq == 60
        run_simulation(agent, bars, Gambler(9), venue=venue(symbols), batch=20)
        assert stored(agent) == expected
