"""The demo: three agents that traded five years of real daily prices on paper.

The prices are those of AAPL, GOOG, IBM and MSFT to March 2013 in the package bokeh_sampledata (Quandl WIKI, public domain),
adjusted for splits and dividends. The trades are simulated, and every text of the demo says so.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal, Protocol

from memtape.core.observed import Bar
from memtape.errors import MissingExtra
from memtape.sim.bars import read_bars
from memtape.sim.result import SimResult
from memtape.sim.run import Observer, run_simulation
from memtape.sim.strategies import STRATEGIES, Strategy

DEMO_LABEL = "Simulated trades on real prices (AAPL, GOOG, IBM, MSFT, daily, 2008-2013); no claim about future returns."
START, END = datetime(2008, 3, 1, tzinfo=UTC), datetime(2013, 3, 2, tzinfo=UTC)
FEE_BPS, SLIPPAGE_BPS, STARTING_EQUITY = 5, 2, 10_000
Progress = Callable[[str, int, int], object]  # (agent, ticks done, ticks in all)


class LessonDrawer(Protocol):
    """Draws lessons from closed trades."""

    def reflect_if_due(self) -> object:
        """Draws lessons if enough trades have closed."""
        ...


class ReflectingObserver(Observer, Protocol):
    """An observer that draws lessons."""

    @property
    def lessons(self) -> LessonDrawer:
        """Its lessons."""
        ...


class DemoMemory(Protocol):
    """The part of a memory that the demo uses."""

    def create_skill(self, name: str, /, *, strategy: str, avoid: list[str], limits: dict[str, str]) -> object:
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
    DemoAgent("tech-breakout", "breakout", STRATEGIES["breakout"](), TECH_SYMBOLS),
    DemoAgent("tech-reversion", "mean-reversion", STRATEGIES["mean_reversion"](), TECH_SYMBOLS),
    DemoAgent("ibm-breakout", "breakout", STRATEGIES["breakout"](), ("IBM",)),
)


def fill_demo(memory: DemoMemory, on_progress: Progress | None = None) -> list[SimResult]:
    """Creates the demo's skills and agents and runs them. A second call adds nothing, because its ticks are known."""
    bars = demo_bars()
    for name, skill in DEMO_SKILLS.items():
        memory.create_skill(name, strategy=skill.strategy, avoid=list(skill.avoid), limits=dict(DEMO_LIMITS))
    return [_run_agent(memory, demo_agent, bars, on_progress) for demo_agent in DEMO_AGENTS]


def _run_agent(memory: DemoMemory, demo_agent: DemoAgent, bars: Sequence[Bar], on_progress: Progress | None) -> SimResult:
    memory.create_agent(demo_agent.name, skill=demo_agent.skill, mode="sim", settings={"starting_equity": STARTING_EQUITY})
    agent = memory.agent(demo_agent.name)
    return run_simulation(
        agent,
        [bar for bar in bars if bar.symbol in demo_agent.symbols],
        demo_agent.strategy,
        fee_bps=FEE_BPS,
        slippage_bps=SLIPPAGE_BPS,
        starting_equity=STARTING_EQUITY,
        on_progress=None if on_progress is None else lambda done, total: on_progress(demo_agent.name, done, total),
        name=demo_agent.name,
        after_tick=lambda _, receipt: agent.lessons.reflect_if_due() if getattr(receipt, "reflection_due", False) else None,
    )


def demo_bars() -> list[Bar]:
    """Returns the demo's bars, adjusted, in order of time."""
    symbols = {symbol for demo_agent in DEMO_AGENTS for symbol in demo_agent.symbols}
    bars = [bar for file in _price_files(sorted(symbols)) for bar in read_bars(file, adjust=True)]
    wanted = [bar for bar in bars if bar.symbol in symbols and START <= bar.t0 < END]
    return sorted(wanted, key=lambda bar: (bar.t0, bar.symbol))


def _price_files(symbols: Sequence[str]) -> list[Path]:
    """Returns the price files of the package: one file since 2026, one per symbol before. The package is not imported."""
    package = find_spec("bokeh_sampledata")
    for folder in (package.submodule_search_locations or ()) if package else ():
        data = Path(folder) / "_data"
        if (data / "stocks.csv.gz").is_file():
            return [data / "stocks.csv.gz"]
        if all((data / f"{symbol}.csv").is_file() for symbol in symbols):
            return [data / f"{symbol}.csv" for symbol in symbols]
    raise MissingExtra(what="The demo, for its prices (package bokeh_sampledata),", extra="demo")
