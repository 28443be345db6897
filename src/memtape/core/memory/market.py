"""The market state of one symbol at any moment, from completed bars: ATR on three frames, regime, volatility, momentum.

Only bars that had ended and were known at that moment are used, and never more than a fixed number of them, so the answer does
not depend on what else is stored. A frame uses bars of its own length, or is built from the longest shorter ones that fit into
it; days are UTC days. Labels come from hourly bars, else from the next longer ones, else from five-minute bars.

>>> from datetime import UTC, datetime, timedelta
>>> from decimal import Decimal
>>> from memtape.core.observed import Bar
>>> start = datetime(2026, 1, 5, tzinfo=UTC)
>>> def bar(n):
...     t0, o = start + timedelta(hours=n), Decimal(100 + n)
...     return Bar(symbol="XAU", t0=t0, t1=t0 + timedelta(hours=1), o=o, h=o + 2, l=o - 1, c=o + 1)
>>> market = Market(completed_bar(KnownBar(bar(n), bar(n).t1)) for n in range(60))
>>> state = market.at(start + timedelta(hours=60))
>>> state.regime, state.atr_h1, state.atr_d1, state.price
('trending_up', 3.0, None, 160.0)
>>> market.at(start + timedelta(hours=5)).atr_h1 is None
True
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from operator import attrgetter
from typing import NamedTuple

from memtape.core.codec import micros
from memtape.core.ledger.rounds import KnownBar
from memtape.core.memory.situation import Candle, HasPrices, MarketLabels, average_true_range, market_labels
from memtape.core.value_class import dataclass

W1, D1, H1, M5 = 604_800, 86_400, 3_600, 300
FRAMES = (W1, D1, 14_400, 7_200, H1, 1_800, 900, 600, M5, 180, 120, 60)  # lengths in seconds, longest first
LABELLED_BY = (H1, 14_400, D1, M5)  # labels use the first of these lengths that has bars
CANDLES, DAYS = 300, 30  # the bars used for labels and ATR, and for the daily ATR
MAX_BARS = 720  # bars of one length in a state; the limit keeps the cost of a close constant
MAX_BARS_PER_BAR = 24  # at most this many are joined into one: minutes make five minutes, not an hour
MOMENTUM_BARS = 20


class CompletedBar(NamedTuple):
    """A completed bar in plain numbers; times in microseconds."""

    frame: int
    start: int
    end: int
    known: int
    open: float
    high: float
    low: float
    close: float


def completed_bar(known: KnownBar) -> CompletedBar:
    """Returns an observed bar in plain numbers."""
    bar = known.bar
    return CompletedBar(
        bar.frame, micros(bar.t0), micros(bar.t1), micros(known.known_at), float(bar.o), float(bar.h), float(bar.l), float(bar.c)
    )


@dataclass(frozen=True, slots=True)
class MarketState:
    """The market at a moment; None for a value that needs more bars."""

    price: float | None = None
    atr_d1: float | None = None
    atr_h1: float | None = None
    atr_m5: float | None = None
    regime: str | None = None
    volatility_regime: str | None = None
    move_atr: float | None = None  # over the last 20 bars, in ATR
    shortest_frame: int | None = None  # the length of the shortest bars that were known, in seconds; None without bars

    @property
    def is_daily(self) -> bool:
        """True if only bars of a day or longer were known: the time within the day means nothing then."""
        return self.shortest_frame is not None and self.shortest_frame >= D1


def sources(present: Collection[int]) -> dict[int, tuple[int, int]]:
    """Returns for each needed frame the length of the bars that it uses, and how many of them.

    >>> sources({3600})
    {86400: (3600, 720), 3600: (3600, 300)}
    >>> sources({86400, 900})
    {86400: (86400, 30), 3600: (900, 720)}
    """
    found: dict[int, tuple[int, int]] = {}
    for wanted, many in ((D1, DAYS), (14_400, CANDLES), (H1, CANDLES), (M5, CANDLES)):
        if wanted == 14_400 and wanted not in present:
            continue
        source = next((f for f in FRAMES if f <= wanted <= MAX_BARS_PER_BAR * f and wanted % f == 0 and f in present), None)
        if source is not None:
            found[wanted] = (source, min(many * (wanted // source), MAX_BARS))
    return found


def bars_needed(present: Collection[int]) -> dict[int, int]:
    """Returns how many of the last bars of each length are used; at least one of every length, for its price."""
    most = {frame: 1 for frame in FRAMES if frame in present}
    for source, many in sources(present).values():
        most[source] = max(most[source], many)
    return most


# Candles that were built from shorter bars: by the length wanted and theirs, the start of the first one and the end of the last.
_Joined = dict[tuple[int, int, int, int], Candle]


class _Series:
    """The bars of one length, by their end."""

    def __init__(self) -> None:
        self.bars: list[CompletedBar] = []
        self.ends: list[int] = []
        self.in_order = True  # True if each bar was known no later than the next

    def add(self, bar: CompletedBar) -> None:
        self.in_order &= not self.bars or bar.known >= self.bars[-1].known
        self.bars.append(bar)
        self.ends.append(bar.end)

    def known(self, at: int, most: int) -> list[CompletedBar]:
        """Returns the last bars that had ended and were known at a moment, oldest first."""
        upto = bisect_right(self.ends, at)
        if self.in_order:
            while upto and self.bars[upto - 1].known > at:
                upto -= 1
            return self.bars[max(0, upto - most) : upto]
        return [bar for bar in self.bars[:upto] if bar.known <= at][-most:]


class Market:
    """The bars of one symbol, and its market state at any moment."""

    def __init__(self, bars: Iterable[CompletedBar]) -> None:
        self._series: dict[int, _Series] = {}
        self._states: dict[tuple[int, ...], MarketState] = {}
        self._joined: _Joined = {}
        for bar in sorted((bar for bar in bars if bar.frame in FRAMES), key=lambda bar: bar.end):
            self._series.setdefault(bar.frame, _Series()).add(bar)
        self._in_order = all(series.in_order for series in self._series.values())

    def extend(self, bar: CompletedBar) -> bool:
        """Add a bar that ended after all others of its length. Returns False if it did not: then it has no place here."""
        if bar.frame not in FRAMES:
            return True
        series = self._series.setdefault(bar.frame, _Series())
        if series.ends and bar.end <= series.ends[-1]:
            return False
        series.add(bar)
        self._in_order &= series.in_order
        return True

    def at(self, moment: datetime) -> MarketState:
        """Returns the market state at a moment."""
        at = micros(moment)
        last = {frame: bars[-1].end for frame, series in self._series.items() if (bars := series.known(at, 1))}
        if not last:
            return MarketState()
        # The same last bars and the same whole days give the same answer.
        key = (*tuple(last.get(frame, 0) for frame in FRAMES), at // (M5 * 1_000_000))
        if not self._in_order or key not in self._states:
            most = bars_needed(last)
            known = {frame: self._series[frame].known(at, most[frame]) for frame in last}
            # As long as bars only follow each other, the same first and last bar enclose the same bars.
            self._states[key] = _market_state(known, at, self._joined if self._in_order else {})
        return self._states[key]


def _market_state(known: Mapping[int, Sequence[CompletedBar]], at: int, joined: _Joined) -> MarketState:
    latest = max((bars[-1] for bars in known.values()), key=lambda bar: (bar.end, -bar.frame))
    candles = {
        wanted: _candles(known[source], source, wanted, many, at, joined) for wanted, (source, many) in sources(known).items()
    }
    frame = next((f for f in LABELLED_BY if candles.get(f)), None)
    labels: MarketLabels | None = None
    move = None
    if frame is not None:
        labels = market_labels(candles[frame])
        if labels.atr and len(candles[frame]) > MOMENTUM_BARS:
            move = (candles[frame][-1].close - candles[frame][-1 - MOMENTUM_BARS].close) / labels.atr
    atr = {wanted: labels.atr if labels and wanted == frame else _atr(some) for wanted, some in candles.items()}
    return MarketState(
        price=latest.close, atr_d1=atr.get(D1), atr_h1=atr.get(H1), atr_m5=atr.get(M5),
        regime=labels.regime if labels else None,
        volatility_regime=labels.volatility_regime if labels and labels.volatility_rank is not None else None,
        move_atr=move, shortest_frame=min(known),
    )  # fmt: skip


def _atr(candles: Sequence[HasPrices] | None) -> float | None:
    return average_true_range(candles)[-1] if candles else None


def _candles(
    bars: Sequence[CompletedBar], source: int, wanted: int, many: int, at: int, joined: _Joined
) -> Sequence[HasPrices]:  # fmt: skip
    """Returns the last completed candles of a length, built from shorter bars if necessary."""
    bars = bars[-many:]
    if source == wanted:
        return bars
    length, per_candle = wanted * 1_000_000, wanted // source
    whole: list[Candle] = []
    first, n = 0, len(bars)
    while first < n:
        start = bars[first].start
        end = (start // length + 1) * length
        # A candle of a market that never closes has all its bars, so the place after its last bar is mostly known at once.
        after = first + per_candle - (start % length) // (source * 1_000_000)
        if after > n or bars[after - 1].start >= end or (after < n and bars[after].start < end):
            after = bisect_left(bars, end, first, key=_start_of)
        if end <= at:
            key = (wanted, source, start, bars[after - 1].end)
            if key not in joined:
                joined[key] = _join(bars[first:after])
            whole.append(joined[key])
        first = after
    # The beginning of the first candle may be missing.
    return whole[1:] if len(bars) == many else whole


_start_of = attrgetter("start")


def _join(bars: Sequence[CompletedBar]) -> Candle:
    return Candle(bars[0].open, max([bar.high for bar in bars]), min([bar.low for bar in bars]), bars[-1].close)
