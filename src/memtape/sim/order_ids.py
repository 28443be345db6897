"""Ids of orders and executions. A simulation may use the ids of a venue, so that both ledgers agree.

>>> plain = NumberedNaming("p")
>>> plain.order_id(7), plain.exit_id("p-order-000007", 8, "stop"), plain.exit_id("", 9, "liquidation")
('p-order-000007', 'p-order-000007-stop', 'p-liquidation-000009')
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Protocol, runtime_checkable

from memtape.core.codec import time_text
from memtape.core.fills import Fill


class OrderNaming(Protocol):
    """Makes ids. Orders and fills are counted separately, from 1. An id must not repeat."""

    def order_id(self, n: int, /) -> str:
        """Returns the id of the n-th order."""
        ...

    def fill_id(self, n: int, fill: Fill, /) -> str:
        """Returns the id of the n-th execution. `fill` is complete except for its id, which is its number."""
        ...


@runtime_checkable
class ExitNaming(Protocol):
    """A naming with its own ids for the broker's exits: stops, targets, liquidations."""

    def exit_id(self, entry: str, n: int, trigger: str, /) -> str:
        """Returns the id of the n-th exit. `trigger` is stop or target, with the id of its entry, or liquidation without one."""
        ...


@runtime_checkable
class FundingNaming(Protocol):
    """A naming with its own ids for funding payments."""

    def funding_id(self, n: int, symbol: str, t: datetime, /) -> str:
        """Returns the id of the n-th payment."""
        ...


@dataclass(frozen=True, slots=True)
class NumberedNaming:
    """The paper broker's own ids: a prefix and a number."""

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


def exit_name(naming: OrderNaming, entry: str, n: int, trigger: str) -> str:
    """Returns the id of a broker's exit, by the naming's own rule if it has one."""
    if isinstance(naming, ExitNaming):
        return naming.exit_id(entry, n, trigger)
    return f"{entry}-{trigger}" if entry else f"{trigger}-{n:06d}"


def funding_name(naming: OrderNaming, n: int, symbol: str, t: datetime) -> str:
    """Returns the id of a funding payment, by the naming's own rule if it has one."""
    return naming.funding_id(n, symbol, t) if isinstance(naming, FundingNaming) else f"{symbol}-{time_text(t)}-funding"
