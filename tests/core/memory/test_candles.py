"""Candles built from shorter bars: whole frames of the clock, whatever bars a closed market leaves out."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from random import Random

import pytest

from memtape.core.ledger.rounds import KnownBar
from memtape.core.memory.market import Market, completed_bar
from memtape.core.memory.situation import Candle, average_true_range
from memtape.core.observed import Bar

START = datetime(2026, 1, 5, 7, 30, tzinfo=UTC)
QUARTER = timedelta(minutes=15)


@pytest.mark.parametrize("missing", [0.0, 0.05, 0.6])
def test_the_hourly_range_of_a_market_with_gaps_is_that_of_its_hours(missing: float) -> None:
    chance, price, bars = Random(3), 100, []
    for n in range(400):
        price += chance.randint(-9, 9)
        if chance.random() >= missing:
            t0, o = START + n * QUARTER, Decimal(price)
            bars.append(
                Bar(symbol="XAU", t0=t0, t1=t0 + QUARTER, o=o, h=o + chance.randint(0, 5), l=o - chance.randint(0, 5), c=o)
            )
    market = Market(completed_bar(KnownBar(bar, bar.t1)) for bar in bars)
    for now in range(40, 400, 7):
        at = START + now * QUARTER
        hours: dict[datetime, list[Bar]] = {}
        for bar in bars:
            hour = bar.t0.replace(minute=0)
            if bar.t1 <= at and hour + timedelta(hours=1) <= at:
                hours.setdefault(hour, []).append(bar)
        whole = [
            Candle(float(some[0].o), float(max(bar.h for bar in some)), float(min(bar.l for bar in some)), float(some[-1].c))
            for some in hours.values()
        ]  # fmt: skip
        assert market.at(at).atr_h1 == average_true_range(whole)[-1]
