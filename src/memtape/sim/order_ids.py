"""What a broker calls its orders and executions. A simulation may name them as a venue does, so that both ledgers agree.

>>> plain = Numbered("p")
>>> plain.order_id(7), plain.exit_id("p-order-000007", 8, "stop"), plain.exit_id("", 9, "liquidation")
('p-order-000007', 'p-order-000007-stop', 'p-liquidation-000009')
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Protocol, runtime_checkable

from memtape.core.codec import time_text
from memtape.core.observed import Fill


class Naming(Protocol):
    """Gives names. Orders and fills are counted from 1, each for itself; a name must not come back."""

    def order_id(self, n: int, /) -> str:
        """The name of the n-th order that was placed."""
        ...

    def fill_id(self, n: int, fill: Fill, /) -> str:
        """The name of the n-th execution; `fill` is complete but for its id, which is only its number."""
        ...


@runtime_checkable
class NamesExits(Protocol):
    """A naming that also has its own names for the orders that nobody places: stops, targets, liquidations."""

    def exit_id(self, entry: str, n: int, trigger: str, /) -> str:
        """The name of the n-th of them; `trigger` is stop or target of the entry of that id, or liquidation of none."""
        ...


@runtime_checkable
class NamesFunding(Protocol):
    """A naming that also has its own names for payments of funding."""

    def funding_id(self, n: int, symbol: str, t: datetime, /) -> str:
        """The name of the n-th payment."""
        ...


@dataclass(frozen=True, slots=True)
class Numbered:
    """The paper broker's own names: a prefix and a number."""

    prefix: str = "p"

    def order_id(self, n: int, /) -> str:
        """Like p-order-000001."""
        return f"{self.prefix}-order-{n:06d}"

    def fill_id(self, n: int, fill: Fill, /) -> str:
        """Like p-000001."""
        return f"{self.prefix}-{n:06d}"

    def exit_id(self, entry: str, n: int, trigger: str, /) -> str:
        """Like p-order-000001-stop."""
        return f"{entry}-{trigger}" if entry else f"{self.prefix}-{trigger}-{n:06d}"

    def funding_id(self, n: int, symbol: str, t: datetime, /) -> str:
        """Like p-funding-000001."""
        return f"{self.prefix}-funding-{n:06d}"


def exit_name(naming: Naming, entry: str, n: int, trigger: str) -> str:
    """The name of an order that nobody placed, by the naming's own rule where it has one."""
    if isinstance(naming, NamesExits):
        return naming.exit_id(entry, n, trigger)
    return f"{entry}-{trigger}" if entry else f"{trigger}-{n:06d}"


def funding_name(naming: Naming, n: int, symbol: str, t: datetime) -> str:
    """The name of a payment of funding, by the naming's own rule where it has one."""
    return naming.funding_id(n, symbol, t) if isinstance(naming, NamesFunding) else f"{symbol}-{time_text(t)}-funding"
