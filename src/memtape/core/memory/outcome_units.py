"""In which unit outcomes are compared: R from stops, R from ATR, or typical losses in money. An answer uses one of them.

A trade with a stop has its outcome in R, and so has one whose source states R. Without a stop 1R is 1.5 ATR. Without an ATR there
is still money: one unit is the agent's typical loss, the median of what its losing trades lost. Money is the only unit that every
trade with a known result has, and it depends on the other trades: it is computed when an answer is made and never stored.

The unit of an answer is the best source with ten independent trades (stops, then ATR, then money); if none has ten, the source
with the most. `in_unit` gives the episodes with their outcomes in that unit, so that nothing behind it needs to know about units.

One signal counts once: trades of the same symbol and side that were entered in the same second are one observation.

>>> OutcomeUnit("money", 4.1).phrase("USD"), OutcomeUnit("stop").phrase("USD"), OutcomeUnit("atr_proxy").phrase("USD")
('typical losses of $4.10', 'R', 'R by ATR')
>>> OutcomeUnit("money", 3035.955).phrase("JPY") == OutcomeUnit("money", 3035.95).phrase("JPY")
True
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from decimal import Decimal
from math import fsum
from statistics import median
from typing import Protocol

from memtape.core.brief.number_format import format_price_of_unit
from memtape.core.memory.episodes import Episode, RSource
from memtape.core.value_class import dataclass

MIN_INDEPENDENT_TRADES = 10
MIN_LOSSES = 3  # losses from which their median is a typical loss
STOPS: tuple[RSource, ...] = ("stop", "stated")
Signal = tuple[str, str, int]


@dataclass(frozen=True, slots=True)
class OutcomeUnit:
    """The unit of the outcomes in one answer. `source` is None if no outcome is known at all."""

    source: RSource | None
    amount: float | None = None  # the typical loss in the account currency, if the source is money
    few_losses: bool = False  # the amount is the typical result of all trades, because too few lost

    def outcome(self, episode: Episode) -> float | None:
        """Returns the outcome of an episode in this unit; None if it has none."""
        if self.source == "money":
            if episode.kind != "trade" or episode.pnl_usd is None or not self.amount:
                return None
            return episode.pnl_usd / self.amount
        if self.source == "atr_proxy":
            return episode.pnl_r if episode.r_source == "atr_proxy" else None
        return episode.pnl_r if episode.r_source in STOPS else None

    def applied(self, episode: Episode) -> Episode:
        """Returns the episode with its outcome in this unit.

        What else is measured in R (best, worst, target, first partial) stays only if it is in the same unit.
        """
        r = self.outcome(episode)
        if r is not None and self.source != "money":
            return episode
        source: RSource | None = "money" if r is not None else None
        return episode._replace(pnl_r=r, r_source=source, mfe_r=None, mae_r=None, target_r=None, partial_r=None)

    @property
    def noun(self) -> str:
        """What one unit of money is, in words."""
        return "typical results" if self.few_losses else "typical losses"

    def phrase(self, currency: str) -> str:
        """Returns the unit in words: `R`, `R by ATR`, or `typical losses of $4.10`."""
        if self.source == "money" and self.amount is not None:
            # Answers are rounded to six digits before they leave: words made before and after must agree.
            return f"{self.noun} of {format_price_of_unit(Decimal(f'{self.amount:.6g}'), currency)}"
        return "R by ATR" if self.source == "atr_proxy" else "R"


NO_UNIT = OutcomeUnit(None)


@dataclass(frozen=True, slots=True)
class OutcomeFigures:
    """The mean outcome of some trades, in one unit."""

    unit: OutcomeUnit
    mean: float | None
    n: int  # trades with an outcome in the unit
    source: str = ""  # who reported them, in words

    @classmethod
    def of(cls, episodes: Sequence[Episode], claims_count: bool, money: OutcomeUnit, source: str) -> OutcomeFigures:
        """Returns the figures of these episodes; `money` is the agent's unit of money."""
        unit = choose_unit(episodes, claims_count, money)
        known = [r for e in episodes if _counts(e, claims_count) and (r := unit.outcome(e)) is not None]
        return cls(unit, fsum(known) / len(known) if known else None, len(known), source)


def typical_loss(results: Iterable[float]) -> float | None:
    """Returns the median absolute loss of results in money; with fewer than three losses, of all results. None without any.

    >>> typical_loss([-2.0, 5.0, -4.0, -9.0]), typical_loss([-2.0, 6.0, 4.0]), typical_loss([0.0])
    (4.0, 4.0, None)
    """
    known = [result for result in results if result]
    losses = [-result for result in known if result < 0]
    sizes = losses if len(losses) >= MIN_LOSSES else [abs(result) for result in known]
    return median(sizes) if sizes else None


def money_unit(episodes: Iterable[Episode], claims_count: bool) -> OutcomeUnit:
    """Returns the unit of money of an agent, from all its trades known at a moment."""
    return money_unit_of_results(e.pnl_usd for e in episodes if e.pnl_usd is not None and _counts(e, claims_count))


def money_unit_of_results(results: Iterable[float]) -> OutcomeUnit:
    """Returns the unit of money of an agent, from the results of all its trades that count."""
    known = list(results)
    amount = typical_loss(known)
    return OutcomeUnit("money", amount, sum(result < 0 for result in known) < MIN_LOSSES) if amount else NO_UNIT


class Entered(Protocol):
    """What is read of a trade or an episode to know its signal."""

    @property
    def symbol(self) -> str:
        """What was traded."""
        ...

    @property
    def side(self) -> str:
        """Long or short."""
        ...

    @property
    def entry_at(self) -> datetime:
        """When it was entered."""
        ...


def signal_of(trade: Entered) -> Signal:
    """Returns the signal of a trade: symbol, side and the second of its entry."""
    return trade.symbol, trade.side, int(trade.entry_at.timestamp() // 1)


def choose_unit(
    episodes: Sequence[Episode], claims_count: bool, money: OutcomeUnit | None = None,
    independent: Callable[[Sequence[Episode]], float] | None = None,
) -> OutcomeUnit:  # fmt: skip
    """Returns the unit for an answer over these episodes.

    `money` is the agent's unit of money, if these are not all its episodes. `independent` says how many independent trades some
    episodes are worth; by default, the number of their signals.
    """
    count = independent or (lambda some: float(len({signal_of(e) for e in some})))
    teaching = [e for e in episodes if _counts(e, claims_count)]
    units = (stop_unit(teaching), OutcomeUnit("atr_proxy"), money or money_unit(episodes, claims_count))
    worth = [(unit, count([e for e in teaching if unit.outcome(e) is not None])) for unit in units if unit.source]
    return pick_unit(worth)


def stop_unit(episodes: Iterable[Episode]) -> OutcomeUnit:
    """Returns the unit of stops. It is called `stated` if no episode has an R from a stop, only R as stated by the source."""
    sources = {e.r_source for e in episodes if e.pnl_r is not None}
    return OutcomeUnit("stated" if "stated" in sources and "stop" not in sources else "stop")


def pick_unit(worth: Sequence[tuple[OutcomeUnit, float]]) -> OutcomeUnit:
    """Returns the first unit that is worth ten independent trades, else the one that is worth most; best sources come first.

    >>> stops, money = OutcomeUnit("stop"), OutcomeUnit("money", 4.1)
    >>> pick_unit([(stops, 4.0), (money, 30.0)]).source, pick_unit([(stops, 10.0), (money, 30.0)]).source, pick_unit([]).source
    ('money', 'stop', None)
    """
    enough = [unit for unit, n in worth if n >= MIN_INDEPENDENT_TRADES]
    if enough:
        return enough[0]
    most = max((n for _, n in worth), default=0.0)
    return next((unit for unit, n in worth if n == most), NO_UNIT) if most > 0 else NO_UNIT


def in_unit(episodes: Iterable[Episode], unit: OutcomeUnit) -> list[Episode]:
    """Returns the episodes with their outcomes in one unit; those that have none in it keep no outcome."""
    return [unit.applied(episode) for episode in episodes]


def _counts(episode: Episode, claims_count: bool) -> bool:
    return episode.teaches and (claims_count or not episode.claimed)
