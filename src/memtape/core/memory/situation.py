"""Situations: the market and the agent's own state at a moment, their labels from bars, and the similarity of two.

Labels come from completed bars only, so a situation contains only what could be known then. Volatility is the rank of ATR/close
among its own past. A trend is a path with a direction (efficiency ratio); it stays until the path has clearly lost its direction.
A session is a part of the UTC day.

`similarity` is symmetric: 1 for a situation with itself if everything is known, ½ for an unknown field, 1 for a
field that a belief leaves open (`ANY`). The original forms are in `core/original/likeness.py`.

>>> then = Situation(regime="ranging", atr_d1=80.0)
>>> round(similarity(then, then), 6)
0.7

References: Gower 1971 (mixed similarity); Wilder 1978 (ATR); Kaufman 1995 (efficiency ratio).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from itertools import pairwise
from typing import Literal, NamedTuple, Protocol

from memtape.core.observed import ANY, Bar, Level, Situation
from memtape.core.value_class import dataclass
from memtape.errors import Invalid

# Labels with their weight; numbers with their weight and their bandwidth as a fraction of the value.
Labels = tuple[tuple[str, float], ...]
Numbers = tuple[tuple[str, float, float], ...]
LABELS: Labels = (("regime", 0.25), ("volatility_regime", 0.15), ("session", 0.10))
NUMBERS: Numbers = (
    ("atr_d1", 0.15, 0.3),
    ("atr_h1", 0.10, 0.3),
    ("spread_as_atr_pct", 0.05, 0.5),
    ("drawdown_pct", 0.10, 0.1),
    ("price", 0.10, 0.2),
)
DRAWDOWN_BANDWIDTH = 0.05
UNKNOWN_MATCH = 0.5


def similarity(a: Situation, b: Situation, labels: Labels = LABELS, numbers: Numbers = NUMBERS) -> float:
    """Returns the similarity of two situations, 0 to 1; it is symmetric.

    Numbers above zero are compared by their ratio, so that 100 to 130 is as far as 130 to 100; drawdowns by their
    difference, so that 0.1 % and 0.2 % are nearly the same.

    >>> round(similarity(Situation(drawdown_pct=0.001), Situation(drawdown_pct=0.002)), 6)
    0.54998
    """
    parts = [weight * _label_match(getattr(a, name), getattr(b, name)) for name, weight in labels]
    parts += [weight * _level_match(name, getattr(a, name), getattr(b, name), width) for name, weight, width in numbers]
    return math.fsum(parts) / total_weight(labels, numbers)


def relative(situation: Situation) -> Situation:
    """Returns a situation relative to its own price, to compare across symbols: ATR per price, and no price level.

    >>> relative(Situation(symbol="XAU", price=5000.0, atr_d1=100.0)).atr_d1
    0.02
    """
    price = situation.price
    if not isinstance(price, float | int) or price <= 0:
        return replace(situation, price=None, atr_d1=None, atr_h1=None, atr_m5=None)
    return replace(
        situation,
        price=None,
        atr_d1=_divided(situation.atr_d1, price),
        atr_h1=_divided(situation.atr_h1, price),
        atr_m5=_divided(situation.atr_m5, price),
    )


def _divided(level: Level, price: float) -> Level:
    return level / price if isinstance(level, float | int) else level


def total_weight(labels: Labels, numbers: Numbers) -> float:
    """Returns the sum of all weights."""
    return math.fsum([weight for _, weight in labels] + [weight for _, weight, _ in numbers])


def gaussian(deviations: float) -> float:
    """Returns 1 at no deviation, falling on both sides."""
    return math.exp(-0.5 * deviations * deviations)


def _label_match(a: str | None, b: str | None) -> float:
    if ANY in (a, b):
        return 1.0
    return UNKNOWN_MATCH if a is None or b is None else float(a == b)


def _level_match(name: str, a: Level, b: Level, width: float) -> float:
    if a == ANY or b == ANY:
        return 1.0
    if a is None or b is None:
        return UNKNOWN_MATCH
    if name == "drawdown_pct":
        return gaussian((a - b) / DRAWDOWN_BANDWIDTH)
    if a <= 0 or b <= 0:
        return float(a <= 0 and b <= 0)
    return gaussian((math.log(a) - math.log(b)) / math.log1p(width))


# --- labels from bars ---------------------------------------------------------------------------------------------------

Session = Literal["asia", "london", "overlap", "newyork"]
Volatility = Literal["low", "normal", "high", "extreme"]
Regime = Literal["trending_up", "trending_down", "ranging", "volatile"]
TREND_ENTERED, TREND_HYSTERESIS = 0.45, 0.30
RANKED_AMONG, RANKED_AT_LEAST = 252, 20


class Candle(NamedTuple):
    """A completed bar in plain numbers."""

    open: float
    high: float
    low: float
    close: float


class HasPrices(Protocol):
    """A completed bar of any kind, in plain numbers."""

    @property
    def high(self) -> float: ...
    @property
    def low(self) -> float: ...
    @property
    def close(self) -> float: ...


@dataclass(frozen=True, slots=True)
class MarketLabels:
    """The labels of completed bars; None if there are too few bars."""

    atr: float | None
    efficiency: float | None
    volatility_rank: float | None
    volatility_regime: Volatility
    regime: Regime | None


def classify_market(bars: Sequence[Bar], now: datetime, atr_n: int = 14, er_n: int = 20) -> MarketLabels:
    """Returns the labels at `now`, from the bars that were complete by then, in order of time."""
    if now.tzinfo is None:
        raise Invalid("now", "has no time zone", "Add Z for UTC or an offset")
    known = sorted((bar for bar in bars if bar.t1 <= now), key=lambda bar: bar.t1)
    return market_labels([Candle(float(bar.o), float(bar.h), float(bar.l), float(bar.c)) for bar in known], atr_n, er_n)


def market_labels(candles: Sequence[HasPrices], atr_n: int = 14, er_n: int = 20) -> MarketLabels:
    """Returns the labels after the last of these completed candles.

    >>> rising = [Candle(n, n + 1.5, n - 0.5, n + 1.0) for n in range(100, 160)]
    >>> market = market_labels(rising)
    >>> market.atr, market.efficiency, market.volatility_regime, market.regime
    (2.0, 1.0, 'low', 'trending_up')
    """
    closes = [candle.close for candle in candles]
    atrs = average_true_range(candles, atr_n)
    shares = [None if atr is None or not close else atr / close for atr, close in zip(atrs, closes, strict=True)]
    if not candles:
        return MarketLabels(None, None, None, "normal", None)
    rank = _rank(shares)
    regime = "volatile" if volatility_of(rank) == "extreme" else _regime(closes, shares, er_n)
    return MarketLabels(atrs[-1], efficiency_ratio(closes, er_n), rank, volatility_of(rank), regime)


def average_true_range(candles: Sequence[HasPrices], n: int = 14) -> list[float | None]:
    """Returns Wilder's ATR after every candle; the first is the mean of the first n true ranges.

    >>> average_true_range([Candle(1, 3, 1, 2), Candle(2, 6, 2, 5), Candle(5, 6, 4, 5)], n=2)
    [None, 3.0, 2.5]
    """
    out: list[float | None] = []
    ranges: list[float] = []
    atr: float | None = None
    before: float | None = None
    for candle in candles:
        high, low, close = candle.high, candle.low, candle.close
        if high < low:
            high, low = low, high
        if before is not None:
            # The gap from the close before counts; written out, because this loop runs for every trade that closes.
            high, low = before if before > high else high, before if before < low else low
        reach, before = high - low, close
        if atr is not None:
            atr = (atr * (n - 1) + reach) / n
        else:
            ranges.append(reach)
            if len(ranges) == n:
                atr = math.fsum(ranges) / n
        out.append(atr)
    return out


def efficiency_ratio(closes: Sequence[float], n: int = 20) -> float | None:
    """Returns the net move over n steps as a share of the path length, 0 to 1.

    >>> efficiency_ratio([1.0, 2.0, 1.0, 2.0], n=3)
    0.3333333333333333
    """
    if len(closes) <= n:
        return None
    path = closes[len(closes) - n - 1 :]
    travelled = math.fsum(abs(b - a) for a, b in pairwise(path))
    return abs(path[-1] - path[0]) / travelled if travelled else 0.0


def volatility_of(rank: float | None) -> Volatility:
    """Returns the volatility label of a rank; without enough history it is normal."""
    if rank is None:
        return "normal"
    return "low" if rank < 0.25 else "normal" if rank < 0.75 else "high" if rank < 0.95 else "extreme"


def session_at(moment: datetime) -> Session:
    """Returns the session of a moment."""
    utc = _utc(moment)
    return session_of(utc.hour * 60 + utc.minute)


def session_of(minute_utc: int) -> Session:
    """Returns the session of a minute of the UTC day.

    >>> session_of(419), session_of(420), session_of(720), session_of(960), session_of(1260)
    ('asia', 'london', 'overlap', 'newyork', 'asia')
    """
    hour = minute_utc / 60
    if hour < 7 or hour >= 21:
        return "asia"
    return "london" if hour < 12 else "overlap" if hour < 16 else "newyork"


def is_weekend(moment: datetime) -> bool:
    """Returns True on Saturday and Sunday, UTC; it is independent of the session."""
    return _utc(moment).weekday() >= 5


def _utc(moment: datetime) -> datetime:
    if moment.tzinfo is None:
        raise Invalid("moment", "has no time zone", "Add Z for UTC or an offset")
    return moment.astimezone(UTC)


def _rank(shares: Sequence[float | None]) -> float | None:
    """Returns the rank of the last value among those before it, ties counted half; None with too few before it."""
    current = shares[-1]
    before = [share for share in shares[-RANKED_AMONG - 1 : -1] if share is not None]
    if current is None or len(before) < RANKED_AT_LEAST:
        return None
    return (len([share for share in before if share < current]) + 0.5 * before.count(current)) / len(before)


def _regime(closes: Sequence[float], shares: Sequence[float | None], er_n: int) -> Regime | None:
    """Returns the regime after a last close that is not volatile. It looks back only as long as a weakened trend may continue."""
    if len(closes) <= er_n:
        return None
    called = _direction(closes, len(closes), er_n)
    for end in range(len(closes), er_n, -1):
        efficiency = efficiency_ratio(closes[end - er_n - 1 : end], er_n)
        if efficiency is None or efficiency < TREND_HYSTERESIS or _direction(closes, end, er_n) != called:
            return "ranging"
        if volatility_of(_rank(shares[max(end - RANKED_AMONG - 1, 0) : end])) == "extreme":
            # A volatile bar ends a trend, and what follows it is not a trend yet.
            return "ranging"
        if efficiency >= TREND_ENTERED:
            return called
    return "ranging"


def _direction(closes: Sequence[float], end: int, er_n: int) -> Regime:
    return "trending_up" if closes[end - 1] > closes[end - 1 - er_n] else "trending_down"
