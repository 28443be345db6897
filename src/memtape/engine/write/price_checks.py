"""Names prices that can hardly be right: more than ten times above or below the last price known of their symbol.

A price in cents, a wrong symbol or a missing multiplier shows at once in the receipt. Nothing else follows from it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from typing import Literal, NamedTuple

from memtape.core.events import PriceFarOff
from memtape.core.fills import Fill, Split
from memtape.core.items import Item
from memtape.core.observed import Bar, Observed, Tick
from memtape.core.values import MONEY, read
from memtape.store.cutoff import EVERYTHING
from memtape.store.tables import Tables

FAR_OFF = 10


class PricePoint(NamedTuple):
    """A price, and when it was."""

    at: datetime
    price: Decimal


def is_far_off(price: Decimal, compared_with: Decimal) -> bool:
    """True if one of two prices is more than ten times the other. Prices at or below zero cannot be compared so.

    >>> is_far_off(Decimal(1001), Decimal(100)), is_far_off(Decimal(1000), Decimal(100)), is_far_off(Decimal(-40), Decimal(20))
    (True, False, False)
    """
    return price > 0 < compared_with and (price > FAR_OFF * compared_with or compared_with > FAR_OFF * price)


class PriceChecks:
    """The last prices of the symbols of one transaction, and what is far off from them."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables
        self._stored: dict[str, PricePoint | None] = {}  # the last close stored before this transaction, where it was asked for
        self._taken: dict[str, PricePoint] = {}  # the last price in this transaction

    def last_bar_end(self, symbol: str) -> datetime | None:
        """When the last stored bar of a symbol ended. Its close is kept for the comparison: one query answers both."""
        last = self._tables.last_bar(symbol, None, EVERYTHING)
        self._stored[symbol] = None if last is None else PricePoint(last.bar.t1, last.bar.c)
        return None if last is None else last.bar.t1

    def far_off(
        self, value: Observed, items: Sequence[Item], bars: Iterable[Bar], before: Mapping[str, Bar]
    ) -> list[PriceFarOff]:
        """The fills and bars of a value whose price is far off: of each symbol the first fill and the first bar.

        `before` are the bars stored shortly before the new ones; they were read to find which bars are new.
        """
        found: dict[tuple[str, str], PriceFarOff] = {}
        marks = value.marks if isinstance(value, Tick) else {}
        fills = [item.body for item in items if item.kind == "fill"]
        splits = [item.body for item in items if item.kind == "split"]
        for fill in sorted(fills, key=lambda fill: fill.t):
            point = PricePoint(fill.t, fill.px)
            earlier = self._at_hand(fill.symbol, fill.t) or self._before_fill(fill, marks)
            self._compare("fill", fill.symbol, point, earlier, splits, found)
        self._taken |= {symbol: PricePoint(bar.t1, bar.c) for symbol, bar in before.items()}
        for bar in sorted(bars, key=lambda bar: bar.t1):
            earlier = self._at_hand(bar.symbol, bar.t1) or self._before_bar(bar)
            self._compare("bar", bar.symbol, PricePoint(bar.t1, bar.c), earlier, splits, found)
        return list(found.values())

    def _compare(
        self, what: Literal["fill", "bar"], symbol: str, point: PricePoint, earlier: PricePoint | None, splits: Sequence[Split],
        found: dict[tuple[str, str], PriceFarOff],
    ) -> None:  # fmt: skip
        if earlier is not None and is_far_off(point.price, earlier.price):
            expected = self._after_splits(symbol, earlier, point.at, splits)
            if is_far_off(point.price, expected):
                found.setdefault((what, symbol), PriceFarOff(symbol, point.at, point.price, expected, what))
                return
        if point.price > 0:
            self._taken[symbol] = point

    def _at_hand(self, symbol: str, at: datetime) -> PricePoint | None:
        """The last price by a moment among those that were read or taken already."""
        found: PricePoint | None = None
        for point in (self._stored.get(symbol), self._taken.get(symbol)):
            if point is not None and point.at <= at and (found is None or point.at > found.at):
                found = point
        return found

    def _before_fill(self, fill: Fill, marks: Mapping[str, Decimal]) -> PricePoint | None:
        """What a fill is compared with if nothing is at hand: an earlier bar, the mark of its tick, the fill before it."""
        if self._stored.get(fill.symbol) is not None and (last := self._tables.last_bar(fill.symbol, fill.t, EVERYTHING)):
            return PricePoint(last.bar.t1, last.bar.c)
        mark = marks.get(fill.symbol)
        return self._last_fill(fill.symbol, fill.t) if mark is None else PricePoint(fill.t, mark)

    def _before_bar(self, bar: Bar) -> PricePoint | None:
        """What a bar is compared with if nothing is at hand, as after a gap: an earlier bar, else the last fill."""
        last = self._tables.last_bar(bar.symbol, bar.t0, EVERYTHING)
        return self._last_fill(bar.symbol, bar.t1) if last is None else PricePoint(last.bar.t1, last.bar.c)

    def _last_fill(self, symbol: str, by: datetime) -> PricePoint | None:
        found = self._tables.items("fill", EVERYTHING, symbol=symbol, newest=True, limit=1)
        return PricePoint(found[0].at, read(Fill, found[0].body).px) if found and found[0].at <= by else None

    def _after_splits(self, symbol: str, earlier: PricePoint, at: datetime, own: Sequence[Split]) -> Decimal:
        """An earlier price in the units of a moment. Asked only for a price that is far off."""
        stored = self._tables.statements([symbol], EVERYTHING, splits=True)
        splits = [*own, *(read(Split, item.body) for item in stored if item.kind == "split" and item.voided_at is None)]
        price = earlier.price
        for split in {split.id: split for split in splits if split.symbol == symbol and earlier.at < split.t <= at}.values():
            price = MONEY.divide(price, split.ratio)
        return price
