"""Funding: payments between holders of positions at fixed hours, at a steady rate or at recorded rates.

>>> rates = RecordedFunding({datetime(2024, 1, 8, 8, tzinfo=UTC): Decimal("0.0003")})
>>> [str(rate) for _, rate in rates.due(datetime(2024, 1, 8, tzinfo=UTC), datetime(2024, 1, 9, tzinfo=UTC))]
['0.0003']
"""

from __future__ import annotations

import csv
import gzip
from bisect import bisect_right
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Protocol

from memtape.core.values import Number, Time, read
from memtape.errors import Invalid

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class FundingRates(Protocol):
    """The times and rates of a symbol's funding. A long pays a positive rate, a short receives it."""

    def due(self, after: datetime, until: datetime, /) -> Iterable[tuple[datetime, Decimal]]:
        """Returns the payments after one moment, up to and including another, in order."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class SteadyFunding:
    """One rate, at fixed hours: every 8 hours means 00:00, 08:00 and 16:00 UTC.

    >>> rates = SteadyFunding(rate=Decimal("0.0001"))
    >>> [t.hour for t, _ in rates.due(datetime(2024, 1, 8, 0, tzinfo=UTC), datetime(2024, 1, 8, 16, tzinfo=UTC))]
    [8, 16]
    """

    rate: Decimal
    every: timedelta = timedelta(hours=8)

    def __post_init__(self) -> None:
        if not self.every > timedelta(0):
            raise Invalid("every", f"{self.every} is not above 0", "Give the time from one payment to the next")

    def due(self, after: datetime, until: datetime, /) -> list[tuple[datetime, Decimal]]:
        """Returns the payments after one moment, up to and including another."""
        first, last = (after - EPOCH) // self.every + 1, (until - EPOCH) // self.every
        return [(EPOCH + n * self.every, self.rate) for n in range(first, last + 1)]


class RecordedFunding:
    """The rates that were paid, by time."""

    def __init__(self, rates: Mapping[datetime, Decimal]) -> None:
        self._rates = sorted(rates.items())
        self._times = [t for t, _ in self._rates]

    def due(self, after: datetime, until: datetime, /) -> list[tuple[datetime, Decimal]]:
        """Returns the payments after one moment, up to and including another."""
        return self._rates[bisect_right(self._times, after) : bisect_right(self._times, until)]


def read_funding(path: str | Path) -> RecordedFunding:
    """Reads a CSV file (or .csv.gz) with the columns time and funding_rate (or rate)."""
    file = Path(path)
    try:
        with gzip.open(file, "rt", encoding="utf-8-sig") if file.suffix == ".gz" else file.open(encoding="utf-8-sig") as text:
            rows = list(csv.DictReader(text))
    except (OSError, EOFError, UnicodeDecodeError, csv.Error) as error:
        raise Invalid(str(file), f"cannot be read ({error})", "Give the path of a readable .csv or .csv.gz file") from None
    rates: dict[datetime, Decimal] = {}
    for line, row in enumerate(rows, start=2):
        rate = read(Number, row.get("funding_rate", row.get("rate")), at=f"{file.name} line {line}, funding_rate")
        rates[read(Time, row.get("time"), at=f"{file.name} line {line}, time")] = rate
    return RecordedFunding(rates)
