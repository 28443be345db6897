"""Invented worlds in which no label means anything: what luck may look like, and how trades may be spread over days.

A world is a calendar (when trades are entered) and luck (their outcomes). Labels never influence an outcome in any of them, so a
lesson without the mark "could be chance" is false. Outcomes may follow each other, have heavy tails, come from brackets, or
depend on a hidden state; days may be few and full or many and empty.
"""

from __future__ import annotations

import math
import random
from bisect import bisect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import pairwise

from memtape.core.memory.episodes import EPISODE_FIELDS, Episode

START = datetime(2026, 1, 5, tzinfo=UTC)  # a Monday
SESSIONS = ("asia", "london", "overlap", "newyork", "asia")  # from 0, 7, 12, 16 and 21 UTC
REGIMES, VOLATILITIES = ("ranging", "trending_up", "trending_down", "volatile"), ("low", "normal", "high")
SYMBOLS, TAGS = ("BTCUSDT", "ETHUSDT", "SOLUSDT", "XAUUSD"), ("breakout", "pullback", "fade")
Luck = Callable[[random.Random, Sequence[Episode]], list[float]]
PerDay = Callable[[random.Random, int], int]


@dataclass(frozen=True, slots=True)
class World:
    """How many trades, how many on each day, and their luck."""

    name: str
    luck: Luck
    per_day: PerDay
    trades: tuple[int, int] = (300, 300)
    burst: int = 1  # trades of one moment, of different symbols
    spell: float = 5.0  # days that regime and volatility last on average

    def history(self, seed: str) -> list[Episode]:
        """Returns the trades of one history, in the order of their entries."""
        chance = random.Random(f"{self.name} {seed}")
        wanted, day, found = chance.randint(*self.trades), 0, []
        regime, volatility = chance.choice(REGIMES), chance.choice(VOLATILITIES)
        while len(found) < wanted:
            if chance.random() < 1.0 / self.spell:
                regime = chance.choice(REGIMES)
            if chance.random() < 1.0 / self.spell:
                volatility = chance.choice(VOLATILITIES)
            count = self.per_day(chance, day)
            for minute in sorted(chance.sample(range(24 * 60), -(-count // self.burst))):
                at = START + timedelta(days=day, minutes=minute)
                for symbol in chance.sample(SYMBOLS, min(self.burst, count)):
                    found.append(_trade(len(found), at, symbol, regime, volatility, chance))
            day += 1
        found = found[:wanted]
        outcomes = self.luck(chance, found)
        return [e._replace(pnl_r=r, pnl_usd=100 * r) for e, r in zip(found, outcomes, strict=True)]


def _trade(n: int, at: datetime, symbol: str, regime: str, volatility: str, chance: random.Random) -> Episode:
    known = dict.fromkeys(EPISODE_FIELDS) | {
        "id": f"t{n:05}", "known_from": at + timedelta(hours=1), "kind": "trade", "strategy": "study", "tier": 0,
        "claimed": False, "symbol": symbol, "side": chance.choice(("long", "short")), "source": "broker", "entry_at": at,
        "exit_at": at + timedelta(hours=1), "r_source": "stop", "teach": "learn", "regime": regime,
        "volatility_regime": volatility, "tags": (chance.choice(TAGS),), "session": SESSIONS[bisect((7, 12, 16, 21), at.hour)],
        "consecutive_losses": chance.choice((0, 0, 1, 2)), "hold_minutes": 60.0,
    }  # fmt: skip
    return Episode(**known)  # type: ignore[arg-type]


# --- days ----------------------------------------------------------------------------------------------------------------


def about(low: int, high: int, days_a_week: int = 7) -> PerDay:
    """Returns between `low` and `high` trades on each day that is traded."""
    return lambda chance, day: chance.randint(low, high) if day % 7 < days_a_week else 0


def seasonal(chance: random.Random, day: int) -> int:
    """Returns many trades on Mondays and in some weeks, few on other days."""
    return chance.randint(4, 8) if day % 7 == 0 else chance.randint(0, 2 + 2 * (day // 21 % 2))


# --- luck ----------------------------------------------------------------------------------------------------------------


def follows(share: float, noise: float = 1.2) -> Luck:
    """Returns outcomes of which each keeps a share of the one before."""

    def luck(chance: random.Random, trades: Sequence[Episode]) -> list[float]:
        last = chance.gauss(0, noise / math.sqrt(1 - share * share))
        found = []
        for _ in trades:
            found.append(last)
            last = share * last + chance.gauss(0, noise)
        return found

    return luck


def days_follow(share: float, of_day: float = 0.8, noise: float = 1.0) -> Luck:
    """Returns outcomes around the mean of their day; each day's mean keeps a share of that of the day before."""

    def luck(chance: random.Random, trades: Sequence[Episode]) -> list[float]:
        middle, found = chance.gauss(0, of_day), []
        for before, e in pairwise([None, *trades]):
            for _ in range((e.entry_at.date() - before.entry_at.date()).days if before and e else 0):
                middle = share * middle + chance.gauss(0, of_day * math.sqrt(1 - share * share))
            found.append(middle + chance.gauss(0, noise))
        return found

    return luck


def states(of: Sequence[float], days: float, noise: float = 1.2) -> Luck:
    """Returns outcomes around the mean of a hidden state that lasts for some days on average."""

    def luck(chance: random.Random, trades: Sequence[Episode]) -> list[float]:
        state, today, found = chance.choice(of), None, []
        for e in trades:
            if e.entry_at.date() != today and chance.random() < 1.0 / days:
                state = chance.choice(of)
            today = e.entry_at.date()
            found.append(state + chance.gauss(0, noise))
        return found

    return luck


def bracket(target: float, wins: float) -> Luck:
    """Returns outcomes of -1R or the target."""
    return lambda chance, trades: [target if chance.random() < wins else -1.0 for _ in trades]


def heavy(freedom: int) -> Luck:
    """Returns outcomes by Student's t."""

    def one(chance: random.Random) -> float:
        return chance.gauss(0, 1) / math.sqrt(sum(chance.gauss(0, 1) ** 2 for _ in range(freedom)) / freedom)

    return lambda chance, trades: [one(chance) for _ in trades]


def calm_and_wild(again: float = 0.15, stays: float = 0.8) -> Luck:
    """Returns outcomes whose spread follows from the outcome before and from its own past (GARCH)."""

    def luck(chance: random.Random, trades: Sequence[Episode]) -> list[float]:
        square, found = 1.0, []
        for _ in trades:
            r = math.sqrt(square) * chance.gauss(0, 1)
            square = (1 - again - stays) + again * r * r + stays * square
            found.append(r)
        return found

    return luck


def skewed(chance: random.Random, trades: Sequence[Episode]) -> list[float]:
    """Returns outcomes with a long tail of gains around a mean of zero."""
    return [math.exp(chance.gauss(0, 0.9)) - math.exp(0.405) for _ in trades]


def of_a_moment(chance: random.Random, trades: Sequence[Episode]) -> list[float]:
    """Returns outcomes that trades of one moment share for the most part."""
    shared: dict[datetime, float] = {}
    return [shared.setdefault(e.entry_at, chance.gauss(0, 1.0)) + chance.gauss(0, 0.7) for e in trades]


# Worlds that were looked at while the tests of `memtape.core.lessons.significance` were made.
KNOWN_WORLDS: tuple[World, ...] = (
    World("each outcome keeps half of the one before, three trades a day", follows(0.5), about(3, 3)),
    World("each day keeps half of the day before", days_follow(0.5), about(2, 5)),
    World("heavy tails (t with 3 degrees of freedom), three trades a day", heavy(3), about(3, 3)),
    World("a hidden state of 4 days", states((-0.6, 0.6), 4), about(2, 5)),
    World("four trades of one moment share their luck", of_a_moment, about(4, 8), burst=4),
    World("33 full days", days_follow(0.3), about(12, 18), (450, 520)),
)
# Worlds that were invented when the tests were settled. Only the gate was made narrower afterwards, from 6 % to 5 %.
FRESH_WORLDS: tuple[World, ...] = (
    World("fresh: each outcome keeps 70 % of the one before", follows(0.7), about(1, 6)),
    World("fresh: each day keeps 60 % of the day before, five days a week", days_follow(0.6, 1.0), about(2, 4, 5)),
    World("fresh: calmer and wilder times", calm_and_wild(0.25, 0.7), about(1, 6)),
    World("fresh: heavy tails, many trades on Mondays", heavy(3), seasonal),
    World("fresh: brackets of -1R and +5R", bracket(5.0, 1 / 6), about(3, 3)),
    World("fresh: a long tail of gains", skewed, about(2, 5, 5)),
    World("fresh: three hidden states of 8 days, regimes of 10 days", states((-0.8, 0.0, 0.8), 8), about(2, 5), spell=10.0),
    World("fresh: 30 to 36 full days in a hidden state", states((-0.5, 0.5), 3), about(14, 22), (540, 640)),
    World("fresh: one trade a day, outcomes keep 60 %", follows(0.6), about(1, 1), (150, 400)),
    World("fresh: 60 to 100 trades by brackets of -1R and +3R", bracket(3.0, 0.25), about(1, 3), (60, 100)),
    World("fresh: 800 to 1,000 trades, each day keeps 70 %", days_follow(0.7), about(3, 8), (800, 1000)),
)
