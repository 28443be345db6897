"""What holding costs: funding by the hour, on what was held, against the trader where a bar leaves it open."""

from __future__ import annotations

import gzip
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from memtape.errors import Invalid
from memtape.sim.bars import read_bars
from memtape.sim.funding import RecordedFunding, SteadyFunding, read_funding
from memtape.sim.margin import Margin

D = Decimal
HOURLY = SteadyFunding(rate=D("0.001"), every=timedelta(hours=1))
MONDAY = datetime(2024, 1, 8, tzinfo=UTC)


def paid(desk: Any) -> list[str]:
    return [f"{payment.t:%d %H:%M} {payment.usd.normalize():f}" for payment in desk.broker.funding]


def holding(words: Any, order: str = "buy 10", **about: Any) -> Any:
    desk = words.Desk(**({"bar_hours": 1, "funding": {"AAPL": HOURLY}} | about))
    desk.order(order)
    desk.day("100 100 100 100")
    return desk


def test_a_long_pays_a_positive_rate_and_a_short_receives_it(words: Any) -> None:
    long, short = holding(words), holding(words, "sell 10")
    assert (paid(long), paid(short)) == (["08 01:00 -1"], ["08 01:00 1"])
    assert long.broker.cash == 10_000 - 1000 - 1
    assert short.broker.cash == 10_000 + 1000 + 1


def test_a_negative_rate_is_received_by_the_long(words: Any) -> None:
    rates = {"AAPL": SteadyFunding(rate=D("-0.001"), every=timedelta(hours=1))}
    assert paid(holding(words, funding=rates)) == ["08 01:00 1"]


def test_funding_at_the_close_is_on_the_close_price(words: Any) -> None:
    desk = holding(words)
    desk.day("100 130 90 110")
    assert paid(desk) == ["08 02:00 -1.1"]


def test_inside_a_bar_who_pays_pays_on_the_high_and_who_receives_on_the_low(words: Any) -> None:
    eight = {"bar_hours": 24, "funding": {"AAPL": SteadyFunding(rate=D("0.001"))}}
    long, short = holding(words, **eight), holding(words, "sell 10", **eight)
    for desk in (long, short):
        desk.day("100 120 80 110")
    assert paid(long) == ["09 08:00 -1.2", "09 16:00 -1.2", "10 00:00 -1.1"]
    assert paid(short) == ["09 08:00 0.8", "09 16:00 0.8", "10 00:00 1.1"]


def test_only_what_was_held_at_the_hour_counts(words: Any) -> None:
    desk = words.Desk(funding={"AAPL": SteadyFunding(rate=D("0.001"), every=timedelta(hours=3))})
    desk.day("100 100 100 100")
    assert paid(desk) == []
    desk.order("buy 10 limit 90 stop 80")
    desk.day("100 100 70 90")
    times = [payment.t.hour for payment in desk.broker.funding]
    assert times == [15, 18], "entered at noon, stopped out at six in the afternoon"


def test_the_fill_of_the_very_hour_does_not_count_yet_as_in_the_ledger(words: Any) -> None:
    desk = words.Desk(funding={"AAPL": SteadyFunding(rate=D("0.001"), every=timedelta(hours=12))})
    desk.order("buy 10 limit 90")
    desk.day("100 100 70 90")
    assert [payment.t.hour for payment in desk.broker.funding] == [0], "bought at noon, not held before it"


def test_hours_without_bars_are_paid_too_on_the_last_price_known_then(words: Any) -> None:
    desk = holding(words)
    desk.days = 4
    desk.day("150 150 150 150")
    assert paid(desk) == ["08 02:00 -1", "08 03:00 -1", "08 04:00 -1", "08 05:00 -1.5"]


def test_payments_have_ids_that_count_up_and_are_those_of_the_last_bars_only(words: Any) -> None:
    desk = holding(words)
    assert [payment.id for payment in desk.broker.funding] == ["p-funding-000001"]
    desk.day("100 100 100 100")
    assert [payment.id for payment in desk.broker.funding] == ["p-funding-000002"]
    desk.order("sell 10 close")
    desk.day("100 100 100 100")
    assert desk.broker.funding == ()


def test_a_fraction_of_a_cent_is_rounded_against_the_trader(words: Any) -> None:
    rates = {"AAPL": SteadyFunding(rate=D("0.0000000000333"), every=timedelta(hours=1))}
    assert paid(holding(words, funding=rates)) == ["08 01:00 -0.00000004"]
    assert paid(holding(words, "sell 10", funding=rates)) == ["08 01:00 0.00000003"]


def test_a_position_too_small_to_be_worth_a_payment_is_not_bothered(words: Any) -> None:
    rates = {"AAPL": SteadyFunding(rate=D("0.00000000001"), every=timedelta(hours=1))}
    assert paid(holding(words, "sell 0.001", funding=rates)) == []


def test_funding_can_bring_an_account_to_its_end_at_the_next_open(words: Any) -> None:
    steep = {"AAPL": SteadyFunding(rate=D("0.06"), every=timedelta(hours=1))}
    desk = words.Desk(cash=100, bar_hours=1, margin=Margin.at_leverage(D(10)), funding=steep, liquidation_fee_bps=D(0))
    desk.order("buy 10")
    desk.day("100 100 100 100")
    assert desk.broker.equity == 40
    assert desk.day("100 100 100 100") == ["sell 10 @ 100 (liquidation)"]


def at_tenfold(words: Any, bar_hours: int, rates: dict[datetime, Decimal]) -> Any:
    """1000 worth at 100, with 100 of one's own; 50 must stay."""
    terms = {"margin": Margin.at_leverage(D(10)), "funding": {"AAPL": RecordedFunding(rates)}, "liquidation_fee_bps": D(0)}
    desk = words.Desk(cash=100, bar_hours=bar_hours, **terms)
    desk.order("buy 10")
    desk.day("100 100 100 100")
    return desk


def test_funding_of_hours_without_bars_is_paid_before_the_next_open(words: Any) -> None:
    desk = at_tenfold(words, 1, {MONDAY + timedelta(hours=3): D("0.06")})
    (fill,) = desk.broker.advance([words.day(5, "100 100 100 100", hours=1)])
    assert (fill.liq, fill.t) == (True, MONDAY + timedelta(hours=5, seconds=1))


def test_funding_of_the_morning_brings_the_afternoon_s_liquidation_nearer(words: Any) -> None:
    desk = at_tenfold(words, 24, {MONDAY + timedelta(hours=32): D("0.03")})
    assert desk.day("100 100 97 98") == ["sell 10 @ 97.8947368422 (liquidation)"], "930 owed: 10 p - 930 = 5 % of 10 p"


def test_recorded_rates_are_paid_at_their_times_and_no_others(words: Any) -> None:
    rates = RecordedFunding({MONDAY + timedelta(hours=2): D("0.002"), MONDAY + timedelta(hours=1): D("0.001")})
    desk = holding(words, funding={"AAPL": rates})
    seen = paid(desk)
    for _ in range(3):
        desk.day("100 100 100 100")
        seen += paid(desk)
    assert seen == ["08 01:00 -1", "08 02:00 -2"]


def test_a_file_of_rates_is_read_and_a_bad_line_is_named(tmp_path: Path) -> None:
    good, bad, compressed = tmp_path / "good.csv", tmp_path / "bad.csv", tmp_path / "rates.csv.gz"
    text = "time,funding_rate\n2024-01-08T08:00:00Z,0.0001\n2024-01-08T16:00:00Z,6.9e-06\n"
    good.write_text(text)
    bad.write_text(text + "2024-01-09T00:00:00Z,much\n")
    compressed.write_bytes(gzip.compress(text.encode()))
    for file in (good, compressed):
        assert [str(rate) for _, rate in read_funding(file).due(MONDAY, MONDAY + timedelta(days=1))] == ["0.0001", "0.0000069"]
    with pytest.raises(Invalid, match=r"bad.csv line 4, funding_rate"):
        read_funding(bad)
    with pytest.raises(Invalid, match="cannot be read"):
        read_funding(tmp_path / "absent.csv")


def test_real_rates_over_real_hours_cost_what_a_recount_says(words: Any, market: Path) -> None:
    bars = read_bars(market / "btcusdt_perp_1h_2023-01_2025-06.csv.gz")[:240]
    rates = read_funding(market / "btcusdt_perp_funding_8h_2023-01_2025-06.csv.gz")
    desk = words.Desk(cash=1_000_000, funding={"BTCUSDT": rates})
    desk.order("buy 2", "BTCUSDT")
    payments = []
    for bar in bars:
        desk.broker.advance([bar])
        payments += desk.broker.funding
    closes = {bar.t1: bar.c for bar in bars}
    due = rates.due(bars[0].t0, bars[-1].t1)
    assert [p.t for p in payments] == [t for t, _ in due] and len(due) == 30
    for payment, (t, rate) in zip(payments, due, strict=True):
        assert payment.usd == pytest.approx(-2 * closes[t] * rate, abs=D("1e-8"))
