"""A memory to look at: three agents that traded five years of real daily prices on paper.

The prices are those of AAPL, GOOG, IBM and MSFT to March 2013 in the package bokeh_sampledata (Quandl WIKI, public
domain), adjusted for splits and dividends. The trades are simulated, and everything made here says so.
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
from memtape.sim.run import Observer, SimResult, run_simulation
from memtape.sim.strategies import STRATEGIES, Strategy

LABEL = "Simulated trades on real prices (AAPL, GOOG, IBM, MSFT, daily, 2008-2013); no claim about future returns."
START, END = datetime(2008, 3, 1, tzinfo=UTC), datetime(2013, 3, 2, tzinfo=UTC)
FEE_BPS, SLIPPAGE_BPS, STARTING_EQUITY = 5, 2, 10_000
Progress = Callable[[str, int, int], object]  # (agent, ticks done, ticks in all)


class DrawsLessons(Protocol):
    """What draws lessons from closed trades."""

    def reflect_if_due(self) -> object:
        """Draws them, if enough trades have closed."""
        ...


class Reflects(Observer, Protocol):
    """An observer that draws lessons from what it saw."""

    @property
    def lessons(self) -> DrawsLessons:
        """What draws them."""
        ...


class DemoMemory(Protocol):
    """What the demo asks of a memory."""

    def create_skill(self, name: str, /, *, strategy: str, avoid: list[str], limits: dict[str, str]) -> object:
        """Makes a skill."""
        ...

    def create_agent(self, name: str, /, *, skill: str, mode: Literal["sim"], settings: dict[str, Any]) -> object:
        """Makes an agent, or finds the equal one."""
        ...

    def agent(self, name: str, /) -> Reflects:
        """Its handle."""
        ...


@dataclass(frozen=True, slots=True)
class DemoSkill:
    """A strategy in words."""

    strategy: str
    avoid: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Player:
    """One agent of the demo."""

    name: str
    skill: str
    strategy: Strategy
    symbols: tuple[str, ...]


LIMITS = {"risk per trade": "1 % of equity", "position": "at most the equity, no leverage"}
SKILLS: Mapping[str, DemoSkill] = {
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
TECH = ("AAPL", "GOOG", "MSFT")
PLAYERS = (
    Player("tech-breakout", "breakout", STRATEGIES["breakout"](), TECH),
    Player("tech-reversion", "mean-reversion", STRATEGIES["mean_reversion"](), TECH),
    Player("ibm-breakout", "breakout", STRATEGIES["breakout"](), ("IBM",)),
)


def fill_demo(memory: DemoMemory, on_progress: Progress | None = None) -> list[SimResult]:
    """Creates the demo's skills and agents and lets them trade. A second call adds nothing: its ticks are known."""
    bars = prices()
    for name, skill in SKILLS.items():
        memory.create_skill(name, strategy=skill.strategy, avoid=list(skill.avoid), limits=dict(LIMITS))
    return [_play(memory, player, bars, on_progress) for player in PLAYERS]


def _play(memory: DemoMemory, player: Player, bars: Sequence[Bar], on_progress: Progress | None) -> SimResult:
    memory.create_agent(player.name, skill=player.skill, mode="sim", settings={"starting_equity": STARTING_EQUITY})
    agent = memory.agent(player.name)
    return run_simulation(
        agent,
        [bar for bar in bars if bar.symbol in player.symbols],
        player.strategy,
        fee_bps=FEE_BPS,
        slippage_bps=SLIPPAGE_BPS,
        starting_equity=STARTING_EQUITY,
        on_progress=None if on_progress is None else lambda done, total: on_progress(player.name, done, total),
        name=player.name,
        after_tick=lambda _, receipt: agent.lessons.reflect_if_due() if getattr(receipt, "reflection_due", False) else None,
    )


def prices() -> list[Bar]:
    """The demo's bars, adjusted, in time order."""
    symbols = {symbol for player in PLAYERS for symbol in player.symbols}
    bars = [bar for file in _files(sorted(symbols)) for bar in read_bars(file, adjust=True)]
    wanted = [bar for bar in bars if bar.symbol in symbols and START <= bar.t0 < END]
    return sorted(wanted, key=lambda bar: (bar.t0, bar.symbol))


def _files(symbols: Sequence[str]) -> list[Path]:
    """Where the package keeps its prices: one file since 2026, one a symbol before. It is found, not imported."""
    package = find_spec("bokeh_sampledata")
    for folder in (package.submodule_search_locations or ()) if package else ():
        data = Path(folder) / "_data"
        if (data / "stocks.csv.gz").is_file():
            return [data / "stocks.csv.gz"]
        if all((data / f"{symbol}.csv").is_file() for symbol in symbols):
            return [data / f"{symbol}.csv" for symbol in symbols]
    raise MissingExtra(what="The demo, for its prices (package bokeh_sampledata),", extra="demo")
