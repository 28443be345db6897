"""The results of trade decisions: how many won, the sum of their R, and the running total.

Only decisions that were taken and have an outcome in R are counted. A decision not to trade is a shadow: it is listed apart. An
outcome that is marked (its real risk was a small part of the planned one) is listed and enters no figure. A decision whose entry
was never filled has no R.

>>> from datetime import UTC, datetime
>>> def decided(day, status, r=None, **more):
...     at = datetime(2026, 3, day, tzinfo=UTC)
...     return DecisionResult(key=f"d{day}", decided_at=at, status=status, r=None if r is None else Decimal(r), **more)
>>> won, lost, active = decided(1, "resolved", "2"), decided(2, "resolved", "-1"), decided(3, "open")
>>> shadow, marked = decided(4, "resolved", "9", taken=False), decided(5, "expired", "30", counts=False)
>>> figures = result_figures([won, lost, active, shadow, marked])
>>> figures.n, figures.won, figures.total_r, figures.hit_rate, figures.profit_factor, figures.active
(2, 1, Decimal('1'), Decimal('0.5'), Decimal('2'), 1)
>>> [(point.key, str(point.total_r)) for point in running_total([lost, won])]
[('d1', '2'), ('d2', '1')]
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Literal

from memtape.core.decisions.reviews import OutcomeStatus
from memtape.core.values import MONEY, ZERO

ResultGroup = Literal["active", "closed", "without outcome", "not taken"]
ResultWindow = Literal["24h", "7d", "all"]
WINDOWS: dict[ResultWindow, timedelta | None] = {"24h": timedelta(hours=24), "7d": timedelta(days=7), "all": None}


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionResult:
    """A trade decision with what came of it. `key` tells decisions of one moment apart."""

    key: str
    decided_at: datetime
    status: OutcomeStatus | None
    closed_at: datetime | None = None
    r: Decimal | None = None
    counts: bool = True  # False: the outcome enters no figure
    taken: bool = True  # False: it decided against a trade

    @property
    def group(self) -> ResultGroup:
        """Where it is listed."""
        if not self.taken:
            return "not taken"
        if self.status is None:
            return "without outcome"
        return "active" if self.status in ("pending", "open") else "closed"

    @property
    def at(self) -> datetime:
        """When it closed, as far as that is known; else when it was taken."""
        return self.closed_at or self.decided_at

    @property
    def counted_r(self) -> Decimal | None:
        """Its R, if it enters the figures."""
        return self.r if self.group == "closed" and self.counts else None


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultFigures:
    """The figures of a set of decisions. A ratio without anything to divide by is None."""

    active: int  # pending or open
    closed: int  # resolved or expired
    n: int  # closed with an R that counts: all figures below rest on these
    won: int
    lost: int
    flat: int
    total_r: Decimal
    won_r: Decimal  # the sum of what was won
    lost_r: Decimal  # the sum of what was lost, as a positive number
    hit_rate: Decimal | None  # won / n
    profit_factor: Decimal | None  # won_r / lost_r
    not_counted: int  # closed, with an R that enters no figure
    unfilled: int  # closed without R: the entry was never filled


@dataclass(frozen=True, slots=True)
class TotalPoint:
    """The running total of R after one decision."""

    key: str
    at: datetime
    r: Decimal
    total_r: Decimal


def result_figures(results: Iterable[DecisionResult]) -> ResultFigures:
    """Returns the figures of decisions; those not taken and those without outcome are left out."""
    known = list(results)
    closed = [each for each in known if each.group == "closed"]
    counted = [r for each in closed if (r := each.counted_r) is not None]
    won, lost = [r for r in counted if r > 0], [-r for r in counted if r < 0]
    won_r, lost_r = _total(won), _total(lost)
    return ResultFigures(
        active=sum(each.group == "active" for each in known),
        closed=len(closed),
        n=len(counted),
        won=len(won),
        lost=len(lost),
        flat=len(counted) - len(won) - len(lost),
        total_r=MONEY.subtract(won_r, lost_r),
        won_r=won_r,
        lost_r=lost_r,
        hit_rate=MONEY.divide(Decimal(len(won)), Decimal(len(counted))) if counted else None,
        profit_factor=MONEY.divide(won_r, lost_r) if lost else None,
        not_counted=sum(each.r is not None and not each.counts for each in closed),
        unfilled=sum(each.r is None for each in closed),
    )


def running_total(results: Iterable[DecisionResult]) -> list[TotalPoint]:
    """Returns the running total of R over the counted decisions, in the order in which they closed."""
    points: list[TotalPoint] = []
    total = ZERO
    for each in sorted(results, key=lambda result: (result.at, result.key)):
        if (r := each.counted_r) is not None:
            total = MONEY.add(total, r)
            points.append(TotalPoint(each.key, each.at, r, total))
    return points


def in_window(result: DecisionResult, window: ResultWindow, now: datetime) -> bool:
    """Returns True if a decision closed in a window, or was taken in it. What is still active belongs to every window."""
    length = WINDOWS[window]
    return length is None or result.group == "active" or result.at > now - length


def _total(amounts: Iterable[Decimal]) -> Decimal:
    total = ZERO
    for amount in amounts:
        total = MONEY.add(total, amount)
    return total
