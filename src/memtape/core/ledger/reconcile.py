"""What a snapshot that contradicts the ledger means, without inventing a price.

A price that we compute counts only inside the range of the bars and marks since the last snapshot, widened by 2 %. Outside of it
the position was closed and reopened in between, if the entry price that the broker shows lies in that range; else the difference
is priced at the mark. The broker's own entry price of a position opened from flat, adopted or turned stands as stated.
"""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal

from memtape.core.ledger.position_events import SnapshotView
from memtape.core.ledger.rounds import Round
from memtape.core.ledger.terms import AccountTerms
from memtape.core.observed import Bar, Decision
from memtape.core.value_class import dataclass

WIDENING = 50  # a range is widened by one part in so many of each bound: 2 %
MOVED = 1000  # an entry price that moved by more than one part in so many is another one: 0.1 %
OPENING_ACTIONS = {
    "buy": 1, "long": 1, "open_long": 1, "enter_long": 1, "go_long": 1,
    "sell": -1, "short": -1, "open_short": -1, "enter_short": -1, "go_short": -1, "sell_short": -1,
    "open": 0, "enter": 0, "add": 0,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Interval:
    """The prices between two looks at a position."""

    bars: tuple[Bar, ...]
    marks: tuple[Decimal, ...]  # stated at the ticks, the present one included
    mark: Decimal | None  # the best price of the present moment
    known_at: datetime  # when all of these were known

    def admits(self, price: Decimal) -> bool:
        """True if a price lies in the range; without bars that is the mark alone."""
        prices = [*self._lows_and_highs(), *self.marks] if self.bars else [self.mark] if self.mark is not None else []
        if not prices:
            return False
        low, high = min(prices), max(prices)
        return low - abs(low) / WIDENING <= price <= high + abs(high) / WIDENING

    def reached(self, price: Decimal, falling: bool) -> bool:
        """True if the prices fell to a level, or rose to it."""
        prices = [*self._lows_and_highs(), *self.marks]
        return bool(prices) and (min(prices) <= price if falling else max(prices) >= price)

    def _lows_and_highs(self) -> list[Decimal]:
        return [price for bar in self.bars for price in (bar.l, bar.h)]


@dataclass(frozen=True, slots=True)
class Traded:
    """One fill explains the difference."""

    price: Decimal | None
    trigger: str | None = None


@dataclass(frozen=True, slots=True)
class Reopened:
    """The position was closed and opened again on the same side."""

    exit: Decimal | None
    trigger: str | None
    entry: Decimal


def explain_difference(
    terms: AccountTerms, round_: Round | None, tick: SnapshotView, shown: Decimal, interval: Interval,
    changed_at: datetime | None, previous: SnapshotView | None,
) -> Traded | Reopened | None:  # fmt: skip
    """What happened between two looks; None if nothing did. `changed_at` is the time of the last fill or split."""
    entry_px = tick.held.entry_px if tick.held else None
    if round_ is None:
        # The broker's own entry price stands as stated.
        return Traded(entry_px if entry_px is not None else interval.mark)
    held = round_.qty * round_.side
    if shown and held * shown < 0:
        return Traded(entry_px if entry_px is not None else interval.mark)
    if not shown:
        if tick.decision is not None:
            return Traded(interval.mark)
        return Traded(*_ending(round_, interval))
    if abs(shown) - abs(held) > terms.dust_qty:
        if entry_px is None:
            return Traded(interval.mark)
        computed = _computed_price(round_, abs(shown), entry_px)
        if computed is not None and (interval.admits(computed) or (not interval.bars and interval.mark is None)):
            return Traded(computed)
        if interval.admits(entry_px):
            return Reopened(*_ending(round_, interval), entry_px)
        return Traded(interval.mark)
    if entry_px is not None and _is_reopened(round_, entry_px, interval, changed_at, previous):
        return Reopened(*_ending(round_, interval), entry_px)
    return None if abs(abs(shown) - abs(held)) <= terms.dust_qty else Traded(interval.mark)


def _computed_price(round_: Round, shown: Decimal, entry_px: Decimal) -> Decimal | None:
    """The price of the quantity that was added, from the broker's average before and after; None where there is none."""
    if round_.cost_unknown or not round_.terms.admits(entry_px):
        return None
    added = round_.terms.weight(entry_px, shown) - round_.cost
    if round_.terms.is_inverse and added <= 0:
        return None
    return round_.terms.average(added, shown - round_.qty)


def _is_reopened(
    round_: Round, entry_px: Decimal, interval: Interval, changed_at: datetime | None, previous: SnapshotView | None
) -> bool:
    """True if a position of equal or smaller size is another one: its entry price moved, and no fill or split says why."""
    if changed_at is not None and (previous is None or changed_at > previous.t):
        return False
    return _moved(round_, entry_px, previous_entry(round_, previous)) and interval.admits(entry_px)


def previous_entry(round_: Round, previous: SnapshotView | None) -> Decimal | None:
    """The entry price of the last snapshot, if it showed the same side."""
    held = previous.held if previous else None
    return held.entry_px if held is not None and held.qty * round_.side > 0 else None


def _moved(round_: Round, entry_px: Decimal, before: Decimal | None) -> bool:
    if round_.cost_unknown or round_.avg_cost is None:
        return False
    return all(abs(entry_px - known) * MOVED > abs(known) for known in (round_.avg_cost, before) if known is not None)


def is_entry_moved(round_: Round, tick: SnapshotView, dust_qty: Decimal) -> bool:
    """True if a snapshot of the same quantity shows an entry price that is neither ours nor that of the snapshot before."""
    held = tick.held
    if held is None or held.entry_px is None or abs(held.qty) <= dust_qty:
        return False
    return _moved(round_, held.entry_px, round_.shown_entry)


def _ending(round_: Round, interval: Interval) -> tuple[Decimal | None, str | None]:
    """The price at which a position ended that vanished: its stop or target if the prices reached it, else the mark."""
    if round_.stop is not None and interval.reached(round_.stop, falling=round_.side > 0):
        return round_.stop, "stop"
    if round_.target is not None and interval.reached(round_.target, falling=round_.side < 0):
        return round_.target, "target"
    return interval.mark, None


def opens_position(decision: Decision | None, side: int) -> bool:
    """True if a decision states that it opens a position of this side; a bare symbol and reason do not."""
    if decision is None or decision.action is None:
        return False
    way = OPENING_ACTIONS.get(decision.action.strip().lower().replace(" ", "_").replace("-", "_"))
    if way is None:
        return False
    stated = {"long": 1, "short": -1}.get(decision.side or "", way)
    return stated == side and way in (0, side)


