"""Gold at CPI, NFP and FOMC, on real bars and a real calendar where they lie beside the repository.

The figures to meet are those of the data's own description: the median range of the two hours after a release. The absolute move
over the same two hours is smaller, because the market comes back: 0.3 to 0.55 of the range.
"""

from __future__ import annotations

import csv
import gzip
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from functools import cache
from pathlib import Path

import pytest

from memtape.brokers.calendars import read_event_file
from memtape.brokers.files import load_file
from memtape.brokers.importer import ImportOptions
from memtape.core.exposure import Exposure, HeldSide, ScheduledEvent, event_exposure
from memtape.core.observed import Bar

DATA = Path(__file__).parents[3] / "shared" / "data"
pytestmark = pytest.mark.skipif(not DATA.is_dir(), reason=f"{DATA} is not here")
AS_OF = datetime(2025, 6, 30, tzinfo=UTC)
HOURLY_GOLD = ("xauusd_h1_2017_2024.csv.gz", "xauusd_h1_2025-01_2025-06.csv.gz")


@cache
def calendar() -> tuple[ScheduledEvent, ...]:
    _, found = read_event_file(load_file(DATA / "calendar" / "ff_high_impact_2020_2025-06.csv.gz"), ImportOptions())
    return tuple(each.event.scheduled for each in found.found)


@cache
def bars(symbol: str, minutes: int, *files: str) -> tuple[Bar, ...]:
    frame, found = timedelta(minutes=minutes), dict[datetime, Bar]()
    for file in files:
        with gzip.open(DATA / "market" / file, "rt", encoding="utf-8") as rows:
            for row in csv.DictReader(rows):
                t = datetime.fromisoformat(row["time"].replace("Z", "+00:00"))
                prices = {short: Decimal(row[name]) for short, name in zip("ohlc", ("open", "high", "low", "close"), strict=True)}
                found[t] = Bar(symbol=symbol, t0=t, t1=t + frame, **prices)
    return tuple(found.values())


def exposed(kind: str, symbol: str, listed: tuple[Bar, ...], as_of: datetime = AS_OF) -> Exposure:
    ahead = ScheduledEvent(id="ahead", kind=kind, t=as_of + timedelta(hours=1), currencies=frozenset({"USD"}))
    [row] = event_exposure(ahead, [HeldSide(symbol, "long")], calendar(), {symbol: listed}, as_of)
    return row


@pytest.mark.parametrize(
    ("kind", "stated_range", "events", "median_range", "median_move"),
    [("cpi", 0.0113, 67, 0.0100, 0.0033), ("nfp", 0.0106, 64, 0.0103, 0.0037), ("fomc", 0.0122, 44, 0.0110, 0.0057)],
)
def test_gold_ranges_and_moves_after_a_release_as_its_data_says(
    kind: str, stated_range: float, events: int, median_range: float, median_move: float
) -> None:
    row = exposed(kind, "XAUUSD", bars("XAUUSD", 60, *HOURLY_GOLD))
    assert row.similar_events == events and row.median_range is not None and row.median_abs_move is not None
    assert abs(row.median_range / stated_range - 1) <= 0.2, "the two-hour range is that of the description, within 20 %"
    assert 0.3 <= row.median_abs_move / row.median_range <= 0.55, "the move is 0.3 to 0.55 of it"
    assert (row.median_range, row.median_abs_move) == pytest.approx((median_range, median_move), abs=5e-5)


@pytest.mark.parametrize(
    ("minutes", "file"), [(30, "xauusd_m30_2022-02_2025-06.csv.gz"), (15, "xauusd_m15_2024-03_2025-06.csv.gz")]
)
def test_shorter_bars_of_another_source_say_the_same_of_fewer_events(minutes: int, file: str) -> None:
    for kind, stated in (("cpi", 0.0113), ("nfp", 0.0106), ("fomc", 0.0122)):
        row = exposed(kind, "XAUUSD", bars("XAUUSD", minutes, file))
        assert row.similar_events >= 10 and row.median_range is not None
        assert abs(row.median_range / stated - 1) <= 0.2


@pytest.mark.parametrize(
    ("symbol", "minutes", "file", "as_of"),
    [
        ("US500", 60, "us500_h1_2018_2023-09.csv.gz", datetime(2023, 9, 11, tzinfo=UTC)),
        ("BTCUSD", 30, "btcusd_m30_2020_2023-09.csv.gz", datetime(2023, 9, 11, tzinfo=UTC)),
        ("BTCUSDT", 60, "btcusdt_perp_1h_2023-01_2025-06.csv.gz", AS_OF),
    ],
)
def test_other_markets_move_less_than_they_range_too(symbol: str, minutes: int, file: str, as_of: datetime) -> None:
    for kind in ("cpi", "nfp", "fomc"):
        row = exposed(kind, symbol, bars(symbol, minutes, file), as_of)
        assert row.similar_events >= 15 and row.median_range is not None and row.median_abs_move is not None
        assert row.worst_move is not None and row.worst_move < 0 < row.median_abs_move < row.median_range < 0.1
