"""Plans that fire together, and what a plan was worth: advice is resolved and shown, then held against what happened.

When several plans fire, the more careful one leads: leaving before not entering, not entering before a smaller size, that
before a larger one or another setting, all before a mere alert. Several smaller sizes are not multiplied: the smallest
counts, and no larger size beats it. Among equals: priority, then the older plan, then its id. Nothing is dropped silently.

A plan not to trade can only be unlearned if the trade that did not happen is followed to its end. `shadow` does that from
later bars, with every doubt decided against the trade: a gap fills at the open, and a bar that touches both stop and
target was stopped first.

>>> skipped = shadow(side=1, entry=100.0, stop=98.0, target=104.0, later=[Candle(100.5, 104.2, 97.9, 103.0)])
>>> skipped, value_of_skipping(skipped)
(-1.0, 1.0)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from memtape.core.situation import Candle
from memtape.errors import Invalid

Action = Literal["force_exit", "skip_trade", "reduce", "adjust_param", "alert"]
CAREFUL_FIRST: tuple[Action, ...] = ("force_exit", "skip_trade", "reduce", "adjust_param", "alert")


@dataclass(frozen=True, slots=True, kw_only=True)
class Fired:
    """A plan whose trigger is true. `size_factor` says by what the size is to be multiplied, where it says so at all."""

    id: str
    action: Action
    priority: float
    created_at: datetime
    size_factor: float | None = None


@dataclass(frozen=True, slots=True)
class Resolved:
    """The plans in the order in which they are heard, the one that leads, the size they agree on, those overruled."""

    in_order: tuple[Fired, ...]
    leads: Fired | None
    size_factor: float
    overruled: tuple[Fired, ...]


def resolve(fired: Sequence[Fired]) -> Resolved:
    """What several plans say together.

    >>> from datetime import UTC
    >>> at = datetime(2026, 1, 1, tzinfo=UTC)
    >>> more = Fired(id="a", action="adjust_param", priority=0.9, created_at=at, size_factor=1.5)
    >>> half = Fired(id="b", action="reduce", priority=0.2, created_at=at, size_factor=0.5)
    >>> less = Fired(id="c", action="reduce", priority=0.1, created_at=at, size_factor=0.4)
    >>> told = resolve([more, half, less])
    >>> told.size_factor, told.leads.id, [plan.id for plan in told.overruled]
    (0.4, 'b', ['b', 'a'])
    """
    ordered = tuple(sorted(fired, key=_place))
    factors = [plan.size_factor for plan in ordered if plan.size_factor is not None]
    factor = min(factors, default=1.0)
    leads = ordered[0] if ordered else None
    if leads is not None and leads.action in ("force_exit", "skip_trade"):
        factor = 0.0
    overruled = tuple(plan for plan in ordered if plan.size_factor is not None and plan.size_factor != factor)
    return Resolved(ordered, leads, factor, overruled)


def _place(plan: Fired) -> tuple[int, float, datetime, str]:
    smaller = plan.size_factor is not None and plan.size_factor < 1.0
    action: Action = "reduce" if plan.action == "adjust_param" and smaller else plan.action
    return CAREFUL_FIRST.index(action), -plan.priority, plan.created_at, plan.id


def shadow(side: int, entry: float, stop: float, target: float | None, later: Sequence[Candle]) -> float | None:
    """The outcome in R of a trade that was not taken, from the bars after it; None without bars.

    >>> shadow(-1, 100.0, 102.0, 96.0, [Candle(103.0, 103.5, 101.0, 101.5)])
    -1.5
    """
    if side not in (1, -1):
        raise Invalid("side", "is neither 1 nor -1", "Give 1 for long, -1 for short")
    if side * (entry - stop) <= 0:
        raise Invalid("stop", "does not lie on the losing side of the entry", "Give the stop that the trade would have had")
    if not later:
        return None
    return side * (_exit_price(side, stop, target, later) - entry) / abs(entry - stop)


def _exit_price(side: int, stop: float, target: float | None, later: Sequence[Candle]) -> float:
    for candle in later:
        worst, best = (candle.low, candle.high) if side > 0 else (candle.high, candle.low)
        if side * (candle.open - stop) <= 0 or (target is not None and side * (candle.open - target) >= 0):
            return candle.open
        if side * (worst - stop) <= 0:
            return stop
        if target is not None and side * (best - target) >= 0:
            return target
    return later[-1].close


def value_of_skipping(shadow_r: float) -> float:
    """What not trading was worth, in R."""
    return -shadow_r


def value_of_sizing(size_factor: float, pnl_r: float) -> float:
    """What another size was worth, in R of the usual size.

    >>> value_of_sizing(0.5, -1.0)
    0.5
    """
    return (size_factor - 1.0) * pnl_r


def value_of_leaving(pnl_r: float, shadow_r: float) -> float:
    """What leaving early was worth, in R, against staying to the end."""
    return pnl_r - shadow_r
