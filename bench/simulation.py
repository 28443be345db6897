"""A simulation, compared with the package `backtesting` on the same bars and the same rule.

The rule crosses two moving averages and is always in the market after the first cross. Both sides pay the same fee and no
slippage, fill at the next open and size every position by one unit, so that trades and equity must agree. `backtesting` keeps its
trades in memory; memtape records every tick, decision, fill and memory in a store on disk.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from functools import partial
from random import Random
from typing import Any

from bench.desk import BenchRun
from bench.timing import Result, cpu, judge, time_in_turn
from memtape.compose import open_database
from memtape.core.observed import Bar, Decision
from memtape.engine import Memory
from memtape.plugs.clock import FixedClock
from memtape.sim.paper import Order, Position
from memtape.sim.run import SimResult, run_simulation
from memtape.sim.strategies import OrderProposal

FAST, SLOW = 10, 30
CASH, FEE_BPS = 1_000_000, 5
RATIO_BAR = 20.0


class MovingAverageCross:
    """Buys when the fast mean crosses above the slow one and sells when it crosses below."""

    name = "cross"

    def __init__(self) -> None:
        self._fast = self._slow = Decimal(0)

    def __call__(self, history: Sequence[Bar], position: Position, equity: Decimal) -> list[OrderProposal]:
        """Returns one order after a cross."""
        n, last = len(history), history[-1]
        self._fast += last.c - (history[-FAST - 1].c if n > FAST else 0)
        self._slow += last.c - (history[-SLOW - 1].c if n > SLOW else 0)
        if n <= SLOW:
            return []
        # The means of the bar before, from the running sums.
        fast, slow = self._fast * SLOW, self._slow * FAST
        earlier_fast = (self._fast - last.c + history[-FAST - 1].c) * SLOW
        earlier_slow = (self._slow - last.c + history[-SLOW - 1].c) * FAST
        way = 1 if earlier_fast < earlier_slow and fast > slow else -1 if earlier_fast > earlier_slow and fast < slow else 0
        if not way:
            return []
        qty = 1 + abs(position.qty)
        side = "buy" if way > 0 else "sell"
        about = "long" if way > 0 else "short"
        decision = Decision(symbol=last.symbol, action=side, side=about, qty=qty, reason="The means cross")
        return [OrderProposal(decision, (Order(symbol=last.symbol, side=side, qty=qty),))]


def walk(n: int) -> list[Bar]:
    """Returns hourly bars of a random walk."""
    chance, price, bars = Random(17), 20_000.0, []
    for hour in range(n):
        t0 = datetime(2024, 1, 1, tzinfo=UTC) + timedelta(hours=hour)
        close = price * (1 + chance.gauss(0, 0.004))
        high, low = max(price, close) * 1.001, min(price, close) * 0.999
        o, h, l, c = (Decimal(f"{px:.1f}") for px in (price, high, low, close))  # noqa: E741
        bars.append(Bar(symbol="BTC", t0=t0, t1=t0 + timedelta(hours=1), o=o, h=h, l=l, c=c, v=Decimal(100)))
        price = float(c)
    return bars


def measure_simulation(bench: BenchRun) -> dict[str, Result]:
    """Measure `sim_vs_backtesting`."""
    bars = walk(bench.scale.bars)
    plain = _backtest_of(bars)
    found: dict[str, Any] = {}

    def run_plain() -> None:
        found["plain"] = plain()

    def run_memtape(n: int) -> None:
        found["memtape"] = _simulate(bench, bars, n)

    run_plain()
    (sides,) = time_in_turn([(run_plain, partial(run_memtape, n)) for n in range(bench.scale.rounds)], cpu)
    trades, equity = int(found["plain"]["# Trades"]), Decimal(str(found["plain"]["Equity Final [$]"]))
    result: SimResult = found["memtape"]
    assert trades == result.trades, (trades, result.trades)
    assert abs(equity - result.ending_equity) < Decimal("0.01"), (equity, result.ending_equity)
    return {
        "sim_vs_backtesting": judge(
            "A simulation recorded on disk, compared with the CPU of the package backtesting on the same rule and bars.",
            len(bars), sides, RATIO_BAR, trades=result.trades, backtesting_trades=trades,
        )
    }  # fmt: skip


def _simulate(bench: BenchRun, bars: Sequence[Bar], n: int) -> SimResult:
    clock = FixedClock(bars[-1].t1)
    with Memory(open_database(str(bench.folder / f"simulation-{n}.db")), clock=clock) as memory:
        memory.create_skill("cross")
        memory.create_agent("cross", skill="cross", mode="sim", settings={"starting_equity": str(CASH)})
        agent = memory.agent("cross")
        return run_simulation(agent, bars, MovingAverageCross(), fee_bps=FEE_BPS, slippage_bps=0, starting_equity=CASH)


def _backtest_of(bars: Sequence[Bar]) -> Any:
    """Returns a function that runs the rule on `backtesting`."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import pandas
        from backtesting import Backtest, Strategy
        from backtesting.lib import crossover

    class Cross(Strategy):  # type: ignore[misc]
        def init(self) -> None:
            self.fast = self.I(lambda closes: pandas.Series(closes).rolling(FAST).mean(), self.data.Close)
            self.slow = self.I(lambda closes: pandas.Series(closes).rolling(SLOW).mean(), self.data.Close)

        def next(self) -> None:
            if crossover(self.fast, self.slow):
                self.position.close()
                self.buy(size=1)
            elif crossover(self.slow, self.fast):
                self.position.close()
                self.sell(size=1)

    columns = {name: [float(getattr(bar, at)) for bar in bars] for name, at in
               (("Open", "o"), ("High", "h"), ("Low", "l"), ("Close", "c"), ("Volume", "v"))}  # fmt: skip
    table = pandas.DataFrame(columns, index=pandas.DatetimeIndex([bar.t0.replace(tzinfo=None) for bar in bars]))
    tested = Backtest(table, Cross, cash=CASH, commission=FEE_BPS / 10_000)

    def run() -> Any:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return tested.run()

    return run
