"""What a provider can cache: two consecutive prompts begin with the same bytes, up to the end of the recent trades."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from itertools import pairwise
from typing import Any

import pytest

from memtape.core.observed import Bar
from memtape.engine import AgentMemory
from memtape.sim.bars import read_bars
from memtape.sim.demo import demo_bars
from memtape.sim.model_trader import ModelQuestion, ModelTrader
from memtape.sim.run import run_simulation
from tests.desk import given_memory
from tests.sim.conftest import MARKET

REAL_BARS = MARKET / "xauusd_h1_2025-01_2025-06.csv.gz"
REASONS = ("broke the range of the night", "failed at the high again", "pullback to the mean of the day", "")


@dataclass(frozen=True)
class Prompt:
    """One prompt as it is sent, how far it is meant to stay, and what may change it: closed trades and lessons."""

    sent: str
    stable: str
    closed: tuple[str, ...]
    lessons: tuple[str, ...]


class ScriptedTrader:
    """Answers at every tick in turn: goes long, waits, goes short, closes; keeps every prompt that it was sent."""

    def __init__(self, agent: AgentMemory) -> None:
        self.agent, self.prompts = agent, list[Prompt]()
        self.made: Any = None
        self.n = 0

    def brief(self, symbol: str, _: datetime) -> str:
        self.made = self.agent.briefs.make(symbol=symbol).brief
        return str(self.made.of("user"))

    def decide(self, question: ModelQuestion) -> object:
        system = self.made.of("system")
        closed = tuple(trade.id for trade in self.agent.ledger.trades(status="closed"))
        note = self.agent.lessons.active()[0]
        # A new note may say the same lesson with other figures.
        lessons = (note.note.id, *(one.id for one in note.lessons_shown(self.agent.now()))) if note else ()
        self.prompts.append(Prompt(system + question.prompt, system + self.made.stable_records, closed, lessons))
        self.n += 1
        px, held = question.bars[-1].c, question.account.position(question.symbol).qty
        about = {"symbol": question.symbol, "reason": REASONS[self.n % 4] or "nothing to do"}
        if held:
            return {**about, "action": "close"} if self.n % 5 == 0 else {**about, "action": "no_trade"}
        if self.n % 7 in (0, 3):
            side, sign = ("buy", 1) if self.n % 2 else ("sell", -1)
            risk = px / 200
            return {**about, "action": side, "qty": 1, "stop": px - sign * risk, "target": px + 2 * sign * risk}
        return {**about, "action": "no_trade", "side": "long", "stop": px - 5, "target": px + 9} if self.n % 3 else None


def prompts_of(bars: Sequence[Bar], **memory: Any) -> list[Prompt]:
    """Every prompt of a simulation, with events ahead and lessons on the way."""
    store = given_memory()
    store.create_skill("breakout", strategy="Buy strength.", avoid=["Never add to a loser."], limits={"orders per day": "40"},
                       memory={"reflection": {"everyNTrades": 5}, **memory})  # fmt: skip
    store.create_agent("desk", skill="breakout", mode="sim")
    agent = store.agent("desk")
    store.record_events(
        [{"id": f"e{n}", "t": bars[0].t1 + n * timedelta(hours=17), "title": f"Release {n}", "impact": "high"} for n in range(20)],
        backfill=True,
    )
    trader = ScriptedTrader(agent)

    def after_tick(_: Any, receipt: Any) -> None:
        if receipt.reflection_due:
            agent.lessons.reflect_if_due()

    run_simulation(
        agent, bars, ModelTrader(trader.decide, trader.brief), starting_equity=Decimal(100_000), name="desk", prefix="p",
        after_tick=after_tick, observe_first=True,
    )  # fmt: skip
    return trader.prompts


def shared_bars(hours: int) -> list[Bar]:
    """Real hours of gold, where the data lies beside the checkout; else the demo's."""
    bars = read_bars(REAL_BARS, symbol="XAUUSD") if REAL_BARS.exists() else demo_bars()
    return [bar for bar in bars if bar.symbol == bars[0].symbol][:hours]


@pytest.mark.parametrize(
    ("memory", "hours"), [({}, 150), ({"recentTradesK": 30, "similarSituations": True}, 90), ({"rows": "seed"}, 60)]
)
def test_unless_a_trade_closed_or_a_note_changed_two_prompts_share_all_up_to_the_end_of_the_recent_trades(
    memory: Any, hours: int
) -> None:
    prompts = prompts_of(shared_bars(hours), **memory)
    with_trades = 0
    for one, other in pairwise(prompts):
        assert one.sent.startswith(one.stable)
        if (one.closed, one.lessons) != (other.closed, other.lessons) or not one.closed:
            continue
        with_trades += 1
        assert one.stable == other.stable
        assert other.sent.startswith(one.stable)
        assert one.stable.rstrip().endswith("]") or "seed" in memory.values()
    # The first hours have no mark yet; every later prompt is another one.
    assert len({prompt.sent for prompt in prompts}) == len(prompts) > hours - 5 and with_trades > hours / 3


def test_the_system_part_is_the_same_from_the_first_tick_on_while_no_lesson_is_drawn() -> None:
    prompts = prompts_of(shared_bars(40), reflection={"cadence": "off"})
    systems = {prompt.sent.partition("BEGIN RECORDS")[0].partition("## ")[0] for prompt in prompts}
    assert len(systems) == 1
