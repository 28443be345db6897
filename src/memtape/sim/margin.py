"""Margin: the margin of a position, the remaining buying power, and the price of liquidation.

All positions share one account. Its equity must cover the initial margin of new positions, and exceed the maintenance margin of
open positions; both are shares of the positions' value. A bar does not show when a price was reached, nor what other symbols did
then. So all positions move together, from their last price to the worst price of their bar. On that path equity less maintenance
falls in a straight line, and `breach_point` returns the point at which nothing is left.

>>> margin = Margin.at_leverage(Decimal(10))
>>> margin.initial, margin.maintenance
(Decimal('0.1'), Decimal('0.05'))
>>> long = MarginPath(qty=Decimal(10), start=Decimal(100), worst=Decimal(80), maintenance=margin.maintenance)
>>> share = breach_point(Decimal(-900), [long])       # 10 bought at 100 with own money of 100
>>> long.at(share).quantize(Decimal("0.0001"))  # 947.37 less 900 owed: equity 47.37 is 5 % of 947.37
Decimal('94.7368')
>>> breach_point(Decimal(-700), [long]) is None     # with own money of 300 it survives the bar
True
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from decimal import Decimal, localcontext

from memtape.core.values import MONEY, ONE, ZERO
from memtape.errors import Invalid


@dataclass(frozen=True, slots=True, kw_only=True)
class Margin:
    """The shares of a position's value that are needed to open it and to keep it."""

    initial: Decimal
    maintenance: Decimal

    def __post_init__(self) -> None:
        if not ZERO < self.maintenance <= self.initial <= ONE:
            fix = "Give shares of a position's value, 0 < maintenance <= initial <= 1"
            raise Invalid("margin", f"initial {self.initial}, maintenance {self.maintenance}", fix)

    @classmethod
    def at_leverage(cls, leverage: Decimal, maintenance: Decimal | None = None) -> Margin:
        """Returns the margin for a maximum leverage. Maintenance is half of the initial margin, unless given."""
        if not leverage >= ONE:
            raise Invalid(
                "leverage", f"{leverage} is below 1", "Give the largest value of a position as a multiple of its margin"
            )
        with localcontext(MONEY):
            return cls(initial=ONE / leverage, maintenance=ONE / leverage / 2 if maintenance is None else maintenance)

    @property
    def leverage(self) -> Decimal:
        """The largest value of a position as a multiple of its margin."""
        with localcontext(MONEY):
            return (ONE / self.initial).quantize(Decimal("1e-10")).normalize()


@dataclass(frozen=True, slots=True, kw_only=True)
class MarginPath:
    """The path of one position through a bar."""

    qty: Decimal  # signed
    start: Decimal
    worst: Decimal
    maintenance: Decimal

    def at(self, share: Decimal) -> Decimal:
        """Returns the price after this share of the path."""
        return self.start + share * (self.worst - self.start)

    def share_at(self, px: Decimal) -> Decimal:
        """Returns the share of the path to a price. A price behind the start is reached at once."""
        length = self.worst - self.start
        return max(ZERO, (px - self.start) / length) if length else ZERO

    def excess(self, share: Decimal) -> Decimal:
        """Returns the position's value less its maintenance margin."""
        px = self.at(share)
        return self.qty * px - abs(self.qty) * px * self.maintenance


def breach_point(cash: Decimal, paths: Collection[MarginPath]) -> Decimal | None:
    """Returns the share of the path at which equity equals the maintenance margin; None if it never does."""
    begins, ends = (cash + sum((path.excess(share) for path in paths), ZERO) for share in (ZERO, ONE))
    if begins <= 0:
        return ZERO
    return begins / (begins - ends) if ends <= 0 else None


def buying_power(equity: Decimal, elsewhere: Decimal, initial: Decimal, exposure: Decimal) -> Decimal:
    """Returns the value that may still be opened, after the margin of other positions.

    >>> buying_power(Decimal(1000), elsewhere=Decimal(200), initial=Decimal("0.1"), exposure=Decimal(5000))
    Decimal('3000')
    """
    return max(ZERO, (equity - elsewhere) / initial - exposure)
