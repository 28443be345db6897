"""What a simulated run is judged by: the fields of a trade that a report reads, and the deepest fall of equity at its ticks.

The other figures are those of the track record (`core/ledger/performance_detail`).
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from decimal import Decimal
from typing import Protocol

from memtape.core.ledger.performance import Curve

EquityPath = Sequence[tuple[datetime, Decimal]]


class TradeRow(Protocol):
    """The fields of a trade that a report uses."""

    @property
    def id(self) -> str: ...
    @property
    def symbol(self) -> str: ...
    @property
    def side(self) -> str: ...
    @property
    def status(self) -> str: ...
    @property
    def entry_at(self) -> datetime: ...
    @property
    def exit_at(self) -> datetime | None: ...
    @property
    def entry_price(self) -> Decimal | None: ...
    @property
    def exit_price(self) -> Decimal | None: ...
    @property
    def qty_entered(self) -> Decimal | None: ...
    @property
    def stop_price(self) -> Decimal | None: ...
    @property
    def target_price(self) -> Decimal | None: ...
    @property
    def realized_pnl_usd(self) -> Decimal | None: ...
    @property
    def fees_usd(self) -> Decimal: ...
    @property
    def funding_usd(self) -> Decimal: ...
    @property
    def net_pnl_usd(self) -> Decimal | None: ...
    @property
    def pnl_r(self) -> Decimal | float | None: ...
    @property
    def exit_trigger(self) -> str | None: ...
    @property
    def entry_reason(self) -> str | None: ...
    @property
    def exit_reason(self) -> str | None: ...


def max_drawdown_pct(start: Decimal, path: EquityPath) -> float:
    """Returns the deepest fall of equity from a high, in percent of that high.

    >>> day = datetime(2024, 1, 1)
    >>> max_drawdown_pct(Decimal(100), [(day, Decimal(120)), (day, Decimal(90)), (day, Decimal(130))])
    25.0
    """
    if not path:
        return 0.0
    return float(Curve(((path[0][0], start), *path), "marks").max_drawdown[1])
