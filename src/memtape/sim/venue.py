"""The terms of a venue: margin, liquidation, funding, trading hours, and the share of a bar's volume for one order.

The plain venue has none of them: no margin, no funding, always open, every order fills completely.

>>> stocks = TradingHours(opens=time(14, 30), closes=time(21))
>>> monday = datetime(2024, 1, 8, tzinfo=UTC)
>>> [t.hour for t in stocks.within(monday, monday + timedelta(days=1))], stocks.within(monday, monday + timedelta(hours=9))
([14, 21], None)
>>> Venue(hours={"AAPL": (stocks,)}).trading("BTC", monday, monday + timedelta(hours=1)) is None
False
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from zoneinfo import ZoneInfo

from memtape.core.codec import decimal_text
from memtape.core.values import ONE, ZERO
from memtape.errors import Invalid
from memtape.sim.funding import FundingRates, SteadyFunding
from memtape.sim.margin import Margin

DAY = timedelta(days=1)
WEEKDAYS = (0, 1, 2, 3, 4)
BASIS_POINTS = Decimal(10_000)


@dataclass(frozen=True, slots=True, kw_only=True)
class TradingHours:
    """The trading hours of a symbol in its zone, by the days on which it opens (0 is Monday). Hours may pass midnight.

    >>> new_york = TradingHours(opens=time(9, 30), closes=time(16), zone="America/New_York")
    >>> [new_york.within(day, day + DAY)[0].hour for day in (datetime(2024, 1, 8, tzinfo=UTC), datetime(2024, 7, 8, tzinfo=UTC))]
    [14, 13]
    """

    opens: time
    closes: time
    days: tuple[int, ...] = WEEKDAYS
    zone: str = "UTC"

    def within(self, t0: datetime, t1: datetime) -> tuple[datetime, datetime] | None:
        """Returns start and end of trading between two moments; None if it is closed throughout."""
        stretches = []
        for n in range(-1, (t1.date() - t0.date()).days + 2):
            opens, closes = self._on(t0.date() + n * DAY)
            if (t0.date() + n * DAY).weekday() in self.days and opens < t1 and closes > t0:
                stretches.append((max(opens, t0), min(closes, t1)))
        return (stretches[0][0], stretches[-1][1]) if stretches else None

    def _on(self, day: date) -> tuple[datetime, datetime]:
        ends = day if self.closes > self.opens else day + DAY
        zone = ZoneInfo(self.zone)
        opens, closes = (datetime.combine(on, at, tzinfo=zone) for on, at in ((day, self.opens), (ends, self.closes)))
        return opens.astimezone(UTC), closes.astimezone(UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class Venue:
    """The terms of one account. `margin` applies to every symbol that is not in `margins`."""

    margin: Margin | None = None
    margins: Mapping[str, Margin] = field(default_factory=dict)
    liquidation_fee_bps: Decimal = Decimal(50)  # in addition to the usual fee, limited by the equity
    liquidation_steps: int = 1  # 1: a position is closed at once; n: an nth at a time until the margin suffices
    funding: Mapping[str, FundingRates] = field(default_factory=dict)
    participation: Decimal | None = None  # share of a bar's volume for our orders; None: no limit
    hours: Mapping[str, Sequence[TradingHours]] = field(default_factory=dict)
    dust_qty: Decimal = ZERO  # a position that is not larger is none

    def __post_init__(self) -> None:
        if self.participation is not None and not ZERO < self.participation <= ONE:
            fix = "Give a share of the volume, like 0.1, or leave it out"
            raise Invalid("participation", f"{self.participation} is outside 0 to 1", fix)
        if self.liquidation_steps < 1:
            raise Invalid("liquidation_steps", f"{self.liquidation_steps} is below 1", "1 closes a position at once")
        if not ZERO <= self.liquidation_fee_bps < BASIS_POINTS:
            fix = "Give basis points: 50 means 0.5 %"
            raise Invalid("liquidation_fee_bps", f"{self.liquidation_fee_bps} is outside 0 to 10000", fix)

    def conditions(self) -> list[tuple[str, str]]:
        """Returns the terms in words, for a report.

        >>> Venue(margin=Margin.at_leverage(Decimal(5)), participation=Decimal("0.1")).conditions()[0]
        ('Margin', 'initial 0.2, maintenance 0.1 of the value')
        """
        margins = {"Margin": self.margin, **{f"Margin, {symbol}": margin for symbol, margin in sorted(self.margins.items())}}
        rows = [
            (name, f"initial {decimal_text(m.initial)}, maintenance {decimal_text(m.maintenance)} of the value")
            for name, m in margins.items() if m is not None
        ]  # fmt: skip
        if self.on_margin:
            steps = "at once" if self.liquidation_steps == 1 else f"in {self.liquidation_steps} steps"
            rows.append(("Liquidation", f"{steps}, fee {decimal_text(self.liquidation_fee_bps)} basis points"))
        rows += [(f"Funding, {symbol}", _funding_words(rates)) for symbol, rates in sorted(self.funding.items())]
        if self.participation is not None:
            rows.append(("Participation", f"{decimal_text(self.participation)} of a bar's volume"))
        for symbol, hours in sorted(self.hours.items()):
            words = (f"{h.opens:%H:%M} to {h.closes:%H:%M} {h.zone} on {len(h.days)} days a week" for h in hours)
            rows.append((f"Hours, {symbol}", "; ".join(words)))
        return rows

    @property
    def on_margin(self) -> bool:
        """True if orders can be refused or positions liquidated because of margin."""
        return self.margin is not None or bool(self.margins)

    def margin_of(self, symbol: str) -> Margin | None:
        """Returns the margin of a symbol; None: none is needed."""
        return self.margins.get(symbol, self.margin)

    def trading(self, symbol: str, t0: datetime, t1: datetime) -> tuple[datetime, datetime] | None:
        """Returns start and end of a symbol's trading between two moments; None if it is closed throughout."""
        if symbol not in self.hours:
            return t0, t1
        stretches = [stretch for hours in self.hours[symbol] if (stretch := hours.within(t0, t1)) is not None]
        return (min(begins for begins, _ in stretches), max(ends for _, ends in stretches)) if stretches else None


def _funding_words(rates: FundingRates) -> str:
    if isinstance(rates, SteadyFunding):
        return f"{decimal_text(rates.rate)} every {rates.every / timedelta(hours=1):g} hours"
    return "recorded rates"


PLAIN_VENUE = Venue()
