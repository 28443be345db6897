"""The rates of a symbol over time: account currency per unit of its quote currency, as fills, positions and marks stated them."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from datetime import datetime
from decimal import Decimal

from memtape.core.values import ONE

RatePoint = tuple[datetime, Decimal]


class Rates:
    """Which rate was the last one known at a moment.

    >>> from datetime import UTC
    >>> day = [datetime(2026, 6, n, tzinfo=UTC) for n in range(1, 4)]
    >>> rates = Rates([(day[0], Decimal("1.10"))])
    >>> rates.add(day[2], Decimal("1.12"))
    >>> rates.at(day[1]), rates.at(day[2])
    (Decimal('1.10'), Decimal('1.12'))
    """

    def __init__(self, points: Sequence[RatePoint] = (), before: Decimal | None = None) -> None:
        self._times = [at for at, _ in points]
        self._rates = [rate for _, rate in points]
        self._before = before  # the last rate known before all of these

    def add(self, at: datetime, rate: Decimal) -> None:
        """Take a rate; of two at one moment the one taken later counts."""
        place = bisect_right(self._times, at)
        if place and self._times[place - 1] == at:
            self._rates[place - 1] = rate
        else:
            self._times.insert(place, at)
            self._rates.insert(place, rate)

    def is_last_at(self, moment: datetime) -> bool:
        """Returns True if no rate is known after a moment."""
        return not self._times or self._times[-1] <= moment

    def at(self, moment: datetime) -> Decimal:
        """The last rate known at or before a moment; 1 where none was."""
        place = bisect_right(self._times, moment)
        return self._rates[place - 1] if place else self._before if self._before is not None else ONE

    @property
    def latest(self) -> Decimal:
        """The last rate known; 1 where none was."""
        return self._rates[-1] if self._rates else self._before if self._before is not None else ONE

    def since(self, moment: datetime) -> list[RatePoint]:
        """The rates from a moment on, beginning with the one in force then; those that repeat the one before are left out."""
        after = bisect_right(self._times, moment)
        later = list(zip(self._times[after:], self._rates[after:], strict=True))
        # Points that were stored without the oldest ones do not reach back to the moment: then they are all there is.
        whole = later if not after and later and self._before is None else [(moment, self.at(moment)), *later]
        return [point for n, point in enumerate(whole) if not n or point[1] != whole[n - 1][1]]
