"""The demo: three agents that traded five years of real daily prices on paper.

The prices of AAPL, GOOG, IBM and MSFT are part of the package (`demo_prices.csv.gz`: Quandl WIKI, public domain), as they were
quoted, without dividends. Shares are bought whole and in the hours of New York. The trades are simulated, and every text of the
demo says so.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import time
from decimal import Decimal
from pathlib import Path
from typing import Any, Literal, Protocol

from memtape.core.observed import Bar
from memtape.sim.bars import read_bars
from memtape.sim.result import SimResult
from memtape.sim.run import BATCH_TICKS, Observer, run_simulation
from memtape.sim.strategies import Breakout, MeanReversion, Strategy
from memtape.sim.venue import TradingHours, Venue

DEMO_LABEL = "Simulated trades on real prices (AAPL, GOOG, IBM, MSFT, daily, 2008-2013); no claim about future returns."
PRICE_FILE = Path(__file__).with_name("demo_prices.csv.gz")
NEW_YORK = TradingHours(opens=time(9, 30), closes=time(16), zone="America/New_York")
ONE_SHARE = Decimal(1)
FEE_BPS, SLIPPAGE_BPS, STARTING_EQUITY = 5, 2, 10_000
Progress = Callable[[str, int, int], object]  # (agent, ticks done, ticks in all)


class LessonDrawer(Protocol):
    """Draws lessons from closed trades."""

    def reflect_if_due(self) -> object:
        """Draws lessons if enough trades have closed."""
        ...

    def reflect(self) -> object:
        """Draws lessons now."""
        ...

    def reflections(self) -> Sequence[Any]:
        """Returns what was drawn so far, each with its `note`."""
        ...


class ReflectingObserver(Observer, Protocol):
    """An observer that draws lessons."""

    @property
    def lessons(self) -> LessonDrawer:
        """Its lessons."""
        ...


class DemoMemory(Protocol):
    """The part of a memory that the demo uses."""

    def create_skill(
        self, name: str, /, *, strategy: str, avoid: list[str], limits: dict[str, str], memory: dict[str, Any]
    ) -> object:
        """Creates a skill."""
        ...

    def create_agent(self, name: str, /, *, skill: str, mode: Literal["sim"], settings: dict[str, Any]) -> object:
        """Creates an agent, or finds an equal one."""
        ...

    def agent(self, name: str, /) -> ReflectingObserver:
        """Returns an agent."""
        ...


@dataclass(frozen=True, slots=True)
class DemoSkill:
    """A strategy in words."""

    strategy: str
    avoid: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class DemoAgent:
    """One agent of the demo."""

    name: str
    skill: str
    strategy: Strategy
    symbols: tuple[str, ...]


DEMO_LIMITS = {"risk per trade": "1 % of equity", "position": "at most the equity, no leverage"}
DEMO_MEMORY = {"recentTradesK": 6}  # a brief that costs little
DEMO_SKILLS: Mapping[str, DemoSkill] = {
    "breakout": DemoSkill(
        "Buy a daily close above the highest high of the last 20 bars, sell short one below the lowest low. Stop 2 ATR "
        "away, target at twice the risk, 1 % of equity at risk. A breakout the other way closes the position. "
        "Simulated trades on real prices.",
        (
            "No entry while ATR(14) is more than 1.5 times its 60-bar average.",
            "No entry after a gap of half the stop distance.",
        ),
    ),
    "mean-reversion": DemoSkill(
        "Fade a daily close 2 standard deviations away from its 20-bar mean. Stop 2 ATR away, target the mean, 1 % of "
        "equity at risk; give up after 15 bars. Simulated trades on real prices.",
        (
            "No entry when the mean is nearer than 0.9 times the stop.",
            "No entry after a gap of half the stop distance.",
        ),
    ),
}
TECH_SYMBOLS = ("AAPL", "GOOG", "MSFT")
DEMO_AGENTS = (
    DemoAgent("tech-breakout", "breakout", Breakout(lot=ONE_SHARE), TECH_SYMBOLS),
    DemoAgent("tech-reversion", "mean-reversion", MeanReversion(lot=ONE_SHARE), TECH_SYMBOLS),
    DemoAgent("ibm-breakout", "breakout", Breakout(lot=ONE_SHARE), ("IBM",)),
)


def fill_demo(memory: DemoMemory, on_progress: Progress | None = None) -> list[SimResult]:
    """Creates the demo's skills and agents and runs them. A second call adds nothing, because its ticks are known."""
    bars = demo_bars()
    for name, skill in DEMO_SKILLS.items():
        memory.create_skill(
            name, strategy=skill.strategy, avoid=list(skill.avoid), limits=dict(DEMO_LIMITS), memory=dict(DEMO_MEMORY)
        )
    return [_run_agent(memory, demo_agent, bars, on_progress) for demo_agent in DEMO_AGENTS]


def _run_agent(memory: DemoMemory, demo_agent: DemoAgent, bars: Sequence[Bar], on_progress: Progress | None) -> SimResult:
    memory.create_agent(demo_agent.name, skill=demo_agent.skill, mode="sim", settings={"starting_equity": STARTING_EQUITY})
    agent = memory.agent(demo_agent.name)
    result = run_simulation(
        agent,
        [bar for bar in bars if bar.symbol in demo_agent.symbols],
        demo_agent.strategy,
        fee_bps=FEE_BPS,
        slippage_bps=SLIPPAGE_BPS,
        starting_equity=STARTING_EQUITY,
        on_progress=None if on_progress is None else lambda done, total: on_progress(demo_agent.name, done, total),
        name=demo_agent.name,
        venue=demo_venue(demo_agent),
        batch=BATCH_TICKS,
        after_tick=lambda _, receipt: agent.lessons.reflect_if_due() if getattr(receipt, "reflection_due", False) else None,
    )
    # Lessons lapse after three months, and the last ones may be older at the end of the run. A second filling adds none.
    if not any(each.note.generated_at >= result.last for each in agent.lessons.reflections()):
        agent.lessons.reflect()
    return result


def demo_venue(demo_agent: DemoAgent) -> Venue:
    """Returns the terms of an agent's account: its shares trade in the hours of New York."""
    return Venue(hours=dict.fromkeys(demo_agent.symbols, (NEW_YORK,)))


def demo_bars() -> list[Bar]:
    """Returns the demo's bars in order of time: as they were quoted, since none of these shares was split in these years."""
    return read_bars(PRICE_FILE)
