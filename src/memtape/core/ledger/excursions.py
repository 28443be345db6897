"""How far a trade ran for it and against it while it was held: MFE and MAE, from bars, claiming only what is certain.

The value of the path at price p is V(p) = realised so far + side * (p - average cost) * open quantity, gross. A bar's
high and low count only where the position was surely there to see them:

- the bar lies inside the holding time and nothing changed in it: V(high) and V(low);
- inside, but the size changed within it: the least of V(favourable extreme) and the most of V(adverse extreme) over the
  states of the bar, since nobody knows which state met the extreme;
- the bar in which the trade was entered: its close; in which it was left: its open.

Mode `close` is the plainer form: V(close) of every bar that ends while the trade is held.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Literal

from memtape.core.observed import Bar

MfeMode = Literal["hl_strict", "close"]


@dataclass(frozen=True, slots=True)
class State:
    """What was held from `at` on: enough to value the path at any price, in the account currency."""

    at: datetime
    realized: Decimal
    cost: Decimal  # account currency paid for what is open, in total
    qty: Decimal
    rate: Decimal
    priced: bool = True  # False once something happened at a price nobody knows

    def value(self, side: int, price: Decimal) -> Decimal:
        """V(price)."""
        return self.realized + side * (price * self.rate * self.qty - self.cost)


def observations(
    side: int, entry_at: datetime, states: Sequence[State], exit_at: datetime | None, bar: Bar, mode: MfeMode
) -> Iterator[Decimal]:
    """The path values that a bar proves for a trade, whose states are given in order and reach back to the bar."""
    times = [state.at for state in states]
    upto = bisect_left(times, bar.t1)
    if not all(state.priced for state in states[:upto]):
        return
    before_close = states[max(upto - 1, 0)]
    if mode == "close":
        if entry_at < bar.t1 and (exit_at is None or bar.t1 <= exit_at):
            yield before_close.value(side, bar.c)
        return
    entered_inside = bar.t0 < entry_at < bar.t1
    left_inside = exit_at is not None and bar.t0 < exit_at < bar.t1
    if entered_inside and not left_inside and (exit_at is None or exit_at >= bar.t1):
        yield before_close.value(side, bar.c)
    elif left_inside and entry_at <= bar.t0:
        yield states[bisect_right(times, bar.t0) - 1].value(side, bar.o)
    elif entry_at <= bar.t0 and (exit_at is None or bar.t1 <= exit_at):
        opening = bisect_right(times, bar.t0) - 1
        during = states[opening : max(upto, opening + 1)]
        best, worst = (bar.h, bar.l) if side > 0 else (bar.l, bar.h)
        yield min(state.value(side, best) for state in during)
        yield max(state.value(side, worst) for state in during)
