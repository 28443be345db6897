"""How far a trade ran for it and against it while it was held: MFE and MAE, from bars, claiming only what is certain.

The value of the path at price p is V(p) = realised so far + the gain from the average cost to p of what is open, in the account
currency at the last rate known at the moment of the state used. A bar's high and low count only where the position was surely
there to see them:

- the bar lies inside the holding time and nothing changed in it: V(high) and V(low);
- inside, but the size changed within it: the least of V(favourable extreme) and the most of V(adverse extreme) over the
  states of the bar, since nobody knows which state met the extreme;
- the bar in which the trade was entered: its close; in which it was left: its open.

A bar with a split inside shows prices in two units and proves nothing (`fold` leaves it out). Mode `close` is the plainer form:
V(close) of every bar that ends while the trade is held.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from decimal import Decimal
from operator import attrgetter
from typing import Literal

from memtape.core.observed import Bar
from memtape.core.value_class import dataclass

MfeMode = Literal["hl_strict", "close"]


@dataclass(frozen=True, slots=True)
class State:
    """What was held from `at` on: enough to value the path at any price and rate."""

    at: datetime
    realized: Decimal
    cost: Decimal  # the weight of what is open, at its average cost
    qty: Decimal
    priced: bool = True  # False once something happened at a price nobody knows
    cost_usd: Decimal | None = None  # of an instrument paid in full: account currency paid for what is open


_at = attrgetter("at")
Value = Callable[[State, Decimal, datetime], Decimal]  # V(price) in a state, at the rate of a moment


def observations(
    side: int, entry_at: datetime, states: Sequence[State], exit_at: datetime | None, bar: Bar, mode: MfeMode, value: Value
) -> Iterator[Decimal]:
    """The path values that a bar proves for a trade, whose states are given in order and reach back to the bar."""
    upto = bisect_left(states, bar.t1, key=_at)
    for state in states[:upto]:
        if not state.priced:
            return
    before_close = states[max(upto - 1, 0)]
    if mode == "close":
        if entry_at < bar.t1 and (exit_at is None or bar.t1 <= exit_at):
            yield value(before_close, bar.c, bar.t1)
        return
    entered_inside = bar.t0 < entry_at < bar.t1
    left_inside = exit_at is not None and bar.t0 < exit_at < bar.t1
    if entered_inside and not left_inside and (exit_at is None or exit_at >= bar.t1):
        yield value(before_close, bar.c, bar.t1)
    elif left_inside and entry_at <= bar.t0:
        yield value(states[bisect_right(states, bar.t0, key=_at) - 1], bar.o, bar.t0)
    elif entry_at <= bar.t0 and (exit_at is None or bar.t1 <= exit_at):
        opening = bisect_right(states, bar.t0, key=_at) - 1
        during = states[opening : max(upto, opening + 1)]
        # Inverse contracts gain with the price as well: a long is who bought contracts.
        best, worst = (bar.h, bar.l) if side > 0 else (bar.l, bar.h)
        yield min([value(state, best, max(state.at, bar.t0)) for state in during])
        yield max([value(state, worst, max(state.at, bar.t0)) for state in during])
