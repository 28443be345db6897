"""What memtape concludes from what it observed: told in receipts and kept in the log beside the observation."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Literal


@dataclass(frozen=True, slots=True)
class Discrepancy:
    """The broker shows something else than its fills explain; `price` is what the inferred fill was priced at."""

    symbol: str
    leg: str
    at: datetime
    why: Literal["snapshot", "adopted"]
    ledger_qty: Decimal
    broker_qty: Decimal
    price: Decimal | None
