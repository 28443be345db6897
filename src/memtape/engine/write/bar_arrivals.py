"""Which bars of a delivery are new, and what was stored before them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from memtape.core.events import Event, bar_differs
from memtape.core.observed import Bar
from memtape.store.tables import Tables

BARS_BACK = 4  # bar lengths: of daily bars as far as over a long weekend


class BarArrivals(NamedTuple):
    """The bars of a delivery, compared with those that are stored."""

    new: list[Bar]
    differing: list[Event]  # reports on bars that are stored with other prices
    before: dict[str, Bar]  # by symbol, the stored bar before them


def sort_out_bars(tables: Tables, bars: Sequence[Bar]) -> BarArrivals:
    """Compare bars with those that are stored. A bar that differs from the stored one is reported and ignored."""
    new: list[Bar] = []
    differing: list[Event] = []
    before: dict[str, Bar] = {}
    by_symbol: dict[str, list[Bar]] = {}
    for bar in bars:
        by_symbol.setdefault(bar.symbol, []).append(bar)
    for symbol, own in sorted(by_symbol.items()):
        first = min(own, key=lambda bar: bar.t0)
        # Read a little further back: the prices of new bars are compared with the one before them.
        stored = tables.bars_between(symbol, first.t0 - BARS_BACK * (first.t1 - first.t0), max([b.t0 for b in own]))
        earlier_bars = [bar for bar in stored.values() if bar.t1 <= first.t0]
        if earlier_bars:
            before[symbol] = max(earlier_bars, key=lambda bar: (bar.t1, -bar.frame))
        for bar in own:
            earlier = stored.get((bar.frame, bar.t0))
            if earlier is None:
                stored[bar.frame, bar.t0] = bar
                new.append(bar)
            elif earlier != bar:
                differing.append(bar_differs(earlier, bar))
    return BarArrivals(new, differing, before)
