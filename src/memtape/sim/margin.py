"""Margin: what a position ties up, what the account may still buy, and where it is liquidated.

All positions share one account. Its equity must cover the initial margin of what is opened, and more than the maintenance
margin of what is held; both are shares of the positions' worth. A bar shows neither when nor together with what a price
was reached, so all that is held is taken to move at once from where it stood to the worst price of its bar. On that way
equity less maintenance falls in a straight line, and `breach` finds how far it goes before nothing is left.

>>> margin = Margin.at_leverage(Decimal(10))
>>> margin.initial, margin.maintenance
(Decimal('0.1'), Decimal('0.05'))
>>> long = Stake(qty=Decimal(10), start=Decimal(100), worst=Decimal(80), maintenance=margin.maintenance)
>>> way = breach(Decimal(-900), [long])       # 10 bought at 100 with 100 of one's own
>>> long.at(way).quantize(Decimal("0.0001"))  # 950 tied up less 900 owed: equity 47.37 is 5 % of 947.37
Decimal('94.7368')
>>> breach(Decimal(-700), [long]) is None     # with 300 of one's own it survives the bar
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
    """Shares of a position's worth: needed to open it, and needed to keep it."""

    initial: Decimal
    maintenance: Decimal

    def __post_init__(self) -> None:
        if not ZERO < self.maintenance <= self.initial <= ONE:
            fix = "Give shares of a position's worth, 0 < maintenance <= initial <= 1"
            raise Invalid("margin", f"initial {self.initial}, maintenance {self.maintenance}", fix)

    @classmethod
    def at_leverage(cls, leverage: Decimal, maintenance: Decimal | None = None) -> Margin:
        """The margin of a largest leverage; what keeps a position is half of what opens it, unless given."""
        if not leverage >= ONE:
            raise Invalid("leverage", f"{leverage} is below 1", "Give how many times its margin a position may be worth")
        with localcontext(MONEY):
            return cls(initial=ONE / leverage, maintenance=ONE / leverage / 2 if maintenance is None else maintenance)

    @property
    def leverage(self) -> Decimal:
        """How many times its margin a position may be worth."""
        with localcontext(MONEY):
            return (ONE / self.initial).quantize(Decimal("1e-10")).normalize()


@dataclass(frozen=True, slots=True, kw_only=True)
class Stake:
    """One position on its way through a bar."""

    qty: Decimal  # signed
    start: Decimal
    worst: Decimal
    maintenance: Decimal

    def at(self, way: Decimal) -> Decimal:
        """The price after that share of the way."""
        return self.start + way * (self.worst - self.start)

    def way_to(self, px: Decimal) -> Decimal:
        """What share of the way a price is; a price behind the start is reached at once."""
        length = self.worst - self.start
        return max(ZERO, (px - self.start) / length) if length else ZERO

    def excess(self, way: Decimal) -> Decimal:
        """Its worth less its maintenance margin."""
        px = self.at(way)
        return self.qty * px - abs(self.qty) * px * self.maintenance


def breach(cash: Decimal, stakes: Collection[Stake]) -> Decimal | None:
    """What share of the way is gone when equity is down to the maintenance margin; None when it never is."""
    begins, ends = (cash + sum((stake.excess(way) for stake in stakes), ZERO) for way in (ZERO, ONE))
    if begins <= 0:
        return ZERO
    return begins / (begins - ends) if ends <= 0 else None


def buying_power(equity: Decimal, elsewhere: Decimal, initial: Decimal, exposure: Decimal) -> Decimal:
    """How much more may be opened, by worth: what the equity carries beside the margin needed elsewhere.

    >>> buying_power(Decimal(1000), elsewhere=Decimal(200), initial=Decimal("0.1"), exposure=Decimal(5000))
    Decimal('3000')
    """
    return max(ZERO, (equity - elsewhere) / initial - exposure)
