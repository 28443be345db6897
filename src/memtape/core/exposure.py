"""Exposure to an event ahead: how the market of an open position moved in the two hours after similar events.

Two events are alike if they are of one kind and have a currency or a symbol in common. The move after an event is measured from
the last close before it to the close two hours later, and counts only if every bar of the window is there. Prices are computed
exactly; the figures become floats at the very end. Fewer than three events say nothing.

>>> sorted(symbol_currencies("XAUUSD")), sorted(symbol_currencies("BTCUSDT")), sorted(symbol_currencies("TSLA"))
(['USD', 'XAU'], ['BTC', 'USD'], [])
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from statistics import median

from memtape.core.observed import Bar, Side
from memtape.core.value_class import dataclass
from memtape.errors import Invalid

REACTION_WINDOW = timedelta(hours=2)
MIN_SIMILAR_EVENTS = 3
REACTION_FRAMES = tuple(timedelta(minutes=n) for n in (5, 15, 30, 60))  # lengths of bars that a reaction is measured with
CURRENCIES = frozenset({"USD", "EUR", "GBP", "JPY", "CHF", "AUD", "NZD", "CAD", "CNY", "XAU", "XAG"})
COINS = ("BTC", "ETH", "SOL", "BNB", "DOGE", "XRP")
COIN_QUOTES = ("", "USD", "USDT", "USDC")
NAMED_SYMBOLS: Mapping[str, frozenset[str]] = {
    "US500": frozenset({"USD"}), "US30": frozenset({"USD"}), "NAS100": frozenset({"USD"}),
    "GER40": frozenset({"EUR"}), "UK100": frozenset({"GBP"}), "JP225": frozenset({"JPY"}),
    "USOIL": frozenset({"OIL", "USD"}), "UKOIL": frozenset({"OIL", "USD"}),
    **{coin + quote: frozenset({coin, "USD"}) for coin in COINS for quote in COIN_QUOTES},
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduledEvent:
    """A release or a meeting, with the currencies and symbols that it concerns."""

    id: str
    kind: str  # cpi, fomc, nfp, ...
    t: datetime
    currencies: frozenset[str] = frozenset()
    symbols: frozenset[str] = frozenset()

    def touches(self, symbol: str) -> bool:
        """Returns True if it names the symbol, or one of the symbol's currencies."""
        return symbol in self.symbols or bool(self.currencies & symbol_currencies(symbol))

    def is_like(self, other: ScheduledEvent) -> bool:
        """Returns True if both are of one kind and have a currency or a symbol in common."""
        return self.kind == other.kind and bool(self.currencies & other.currencies or self.symbols & other.symbols)


@dataclass(frozen=True, slots=True)
class HeldSide:
    """A position that is open: what is held, and in which direction."""

    symbol: str
    side: Side


@dataclass(frozen=True, slots=True)
class BarSeries:
    """Bars of one symbol and one length, by the time of their close."""

    frame: timedelta
    closes: tuple[datetime, ...]  # ascending
    bars: tuple[Bar, ...]


@dataclass(frozen=True, slots=True)
class Reaction:
    """What the market did in the two hours after an event, as fractions of the price before it."""

    move: Fraction  # signed
    range: Fraction


@dataclass(frozen=True, slots=True)
class ReactionSummary:
    """How a market reacted to events of one kind, as fractions of the price before them. None: too few events."""

    n: int
    median_abs_move: float | None
    median_range: float | None

    @classmethod
    def of(cls, reactions: Sequence[Reaction]) -> ReactionSummary:
        """The summary of some reactions."""
        if len(reactions) < MIN_SIMILAR_EVENTS:
            return cls(len(reactions), None, None)
        moves, ranges = median(abs(each.move) for each in reactions), median(each.range for each in reactions)
        return cls(len(reactions), float(moves), float(ranges))


@dataclass(frozen=True, slots=True, kw_only=True)
class Exposure:
    """One position and how its market reacted to events like the one ahead. 0.01 is 1 %. None: too few events."""

    event_id: str
    symbol: str
    side: Side
    similar_events: int
    median_abs_move: float | None
    worst_move: float | None  # seen from the position: negative is bad
    median_range: float | None


@dataclass(frozen=True, slots=True)
class PositionExposure:
    """An exposure with the worth of the position, in the account currency; None: no price is known."""

    exposure: Exposure
    notional_usd: Decimal | None


def event_exposure(
    event: ScheduledEvent, positions: Iterable[HeldSide], past_events: Iterable[ScheduledEvent],
    bars: Mapping[str, Sequence[Bar]], as_of: datetime,
) -> list[Exposure]:  # fmt: skip
    """Returns a row for each position that an event touches, by symbol and side. `bars` are by symbol, each of one length."""
    past = [each for each in past_events if each.t + REACTION_WINDOW <= as_of and each.is_like(event)]
    touched = sorted((each for each in positions if event.touches(each.symbol)), key=lambda each: (each.symbol, each.side))
    rows: list[Exposure] = []
    for held in touched:
        # Two releases of one kind at one moment, like CPI m/m and y/y, are one event.
        moments = sorted({each.t for each in past if each.touches(held.symbol)})
        series = bar_series([bar for bar in bars.get(held.symbol, ()) if bar.t1 <= as_of])
        reactions = [found for moment in moments if series and (found := reaction_after(moment, series)) is not None]
        rows.append(_exposure(event, held, reactions))
    return rows


def reaction_text(row: Exposure) -> str:
    """Returns an exposure's figures in words; nothing if too few events were measured."""
    if row.median_range is None or row.median_abs_move is None or row.worst_move is None:
        return ""
    figures = f"range {100 * row.median_range:.2f} %, move {100 * row.median_abs_move:.2f} % (medians)"
    return f"in the 2 h after {row.similar_events} such events: {figures}, worst for it {100 * row.worst_move:+.2f} %"


def bar_series(bars: Iterable[Bar]) -> BarSeries | None:
    """Returns bars of one symbol in order; None if there are none. Raises Invalid if their length does not suit."""
    by_close = {bar.t1: bar for bar in bars}
    frames = {bar.t1 - bar.t0 for bar in by_close.values()}
    if not frames:
        return None
    if len(frames) > 1 or not frames <= set(REACTION_FRAMES):
        raise Invalid("frame_minutes", "the bars are not all of 5, 15, 30 or 60 minutes", "Give bars of one of these lengths")
    closes = tuple(sorted(by_close))
    return BarSeries(frames.pop(), closes, tuple(by_close[close] for close in closes))


def reaction_bars(moments: Sequence[datetime], bars: Iterable[Bar]) -> list[Bar]:
    """Returns bars of one length out of bars of any: the length that measures most of the moments, of equal ones the shortest."""
    by_frame: dict[timedelta, list[Bar]] = {}
    for bar in bars:
        by_frame.setdefault(bar.t1 - bar.t0, []).append(bar)
    best: tuple[int, list[Bar]] = (0, [])
    for frame in REACTION_FRAMES:
        if series := bar_series(by_frame.get(frame, ())):
            measured = sum(reaction_after(moment, series) is not None for moment in moments)
            if measured > best[0]:
                best = measured, by_frame[frame]
    return best[1]


def reaction_window(moment: datetime) -> tuple[datetime, datetime]:
    """Returns the time in which the bars end that a reaction to an event needs, of any length: after the first, by the second."""
    return moment - REACTION_FRAMES[-1], moment + REACTION_WINDOW


def reaction_after(moment: datetime, series: BarSeries) -> Reaction | None:
    """Returns what the market did in the two hours after a moment; None if a bar that is needed is missing."""
    first, end = bisect_right(series.closes, moment), bisect_right(series.closes, moment + REACTION_WINDOW)
    window = series.bars[first:end]
    has_base = first > 0 and series.closes[first - 1] > moment - series.frame
    if not has_base or len(window) != REACTION_WINDOW // series.frame:
        return None
    base = Fraction(series.bars[first - 1].c)
    # A share of a price that is zero or negative, as oil once had, means nothing.
    if base <= 0:
        return None
    highest, lowest = max(Fraction(bar.h) for bar in window), min(Fraction(bar.l) for bar in window)
    return Reaction(Fraction(window[-1].c) / base - 1, (highest - lowest) / base)


def symbol_currencies(symbol: str) -> frozenset[str]:
    """Returns the currencies that a symbol depends on, commodities and coins included; none if the symbol is unknown."""
    halves = frozenset({symbol[:3], symbol[3:]})
    return halves if len(symbol) == 6 and halves <= CURRENCIES else NAMED_SYMBOLS.get(symbol, frozenset())


def _exposure(event: ScheduledEvent, held: HeldSide, reactions: Sequence[Reaction]) -> Exposure:
    summary = ReactionSummary.of(reactions)
    sign = 1 if held.side == "long" else -1
    return Exposure(
        event_id=event.id,
        symbol=held.symbol,
        side=held.side,
        similar_events=summary.n,
        median_abs_move=summary.median_abs_move,
        worst_move=float(min(sign * each.move for each in reactions)) if summary.n >= MIN_SIMILAR_EVENTS else None,
        median_range=summary.median_range,
    )
