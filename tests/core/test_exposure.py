"""What similar events did to the market of an open position."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memtape.core.exposure import Exposure, HeldSide, ScheduledEvent, event_exposure, symbol_currencies
from memtape.core.observed import Bar
from memtape.errors import Invalid
from tests.effort import examples

NOON = datetime(2026, 3, 11, 12, tzinfo=UTC)
NOW = NOON + timedelta(days=30)
DAY = timedelta(days=1)


def event(id: str, t: datetime, kind: str = "cpi", currencies: tuple[str, ...] = ("USD",), symbols: tuple[str, ...] = ()) -> ScheduledEvent:
    return ScheduledEvent(id=id, kind=kind, t=t, currencies=frozenset(currencies), symbols=frozenset(symbols))


AHEAD = event("ahead", NOW + DAY)


def bars(start: datetime, minutes: int, *closes: str, symbol: str = "XAUUSD") -> list[Bar]:
    """Bars one after the other; high and low are open and close."""
    found = []
    frame = timedelta(minutes=minutes)
    for n, (o, c) in enumerate(zip((closes[0], *closes), closes, strict=False)):
        a, b = Decimal(o), Decimal(c)
        found.append(Bar(symbol=symbol, t0=start + n * frame, t1=start + (n + 1) * frame, o=a, h=max(a, b), l=min(a, b), c=b))
    return found


def exposure(past: list[ScheduledEvent], market: list[Bar], side: Any = "long", symbol: str = "XAUUSD", ahead: ScheduledEvent = AHEAD) -> Exposure:
    (row,) = event_exposure(ahead, [HeldSide(symbol, side)], past, {symbol: market}, NOW)
    return row


@pytest.mark.parametrize(
    ("symbol", "currencies"),
    [("EURGBP", "EUR GBP"), ("XAGUSD", "XAG USD"), ("DOGEUSDC", "DOGE USD"), ("BTC", "BTC USD"), ("SOLUSD", "SOL USD"), ("US30", "USD"),
     ("GER40", "EUR"), ("UKOIL", "OIL USD"), ("JP225", "JPY"), ("UK100", "GBP"), ("TSLA", ""), ("EUR/USD", ""), ("BTC-PERP", ""),
     ("eurusd", ""), ("EURSEK", ""), ("USD", ""), ("BTCEUR", ""), ("OIL", "")],
)  # fmt: skip
def test_a_symbol_depends_on_its_currencies(symbol, currencies):
    assert symbol_currencies(symbol) == set(currencies.split())


def test_a_short_fears_the_moves_that_a_long_likes():
    days = [NOON + n * DAY for n in range(3)]
    market = [bar for day in days for bar in bars(day - timedelta(hours=1), 60, "100", "101", "102")]
    past = [event(f"p{n}", day) for n, day in enumerate(days)]
    long, short = exposure(past, market), exposure(past, market, side="short")
    assert (long.worst_move, short.worst_move) == (0.02, -0.02)
    assert long.median_abs_move == short.median_abs_move == 0.02
    assert long.median_range == 0.02


def test_two_events_say_nothing_and_are_still_counted():
    days = [NOON, NOON + DAY]
    market = [bar for day in days for bar in bars(day - timedelta(hours=1), 60, "100", "101", "102")]
    row = exposure([event(f"p{n}", day) for n, day in enumerate(days)], market)
    assert (row.similar_events, row.median_abs_move, row.worst_move, row.median_range) == (2, None, None, None)


def test_an_event_of_another_currency_kind_or_symbol_is_not_alike():
    market = bars(NOON - timedelta(hours=1), 60, "100", "101", "102")
    assert exposure([event("eu", NOON, currencies=("EUR",))], market).similar_events == 0
    assert exposure([event("nfp", NOON, kind="nfp")], market).similar_events == 0
    # It is alike and says nothing of this symbol.
    both = event("ahead", NOW + DAY, currencies=("USD", "EUR"))
    assert exposure([event("eu", NOON, currencies=("EUR",))], market, ahead=both).similar_events == 0
    named = event("ahead", NOW + DAY, currencies=(), symbols=("XAUUSD",))
    assert exposure([event("p", NOON, currencies=(), symbols=("XAUUSD", "TSLA"))], market, ahead=named).similar_events == 1
    assert event_exposure(named, [HeldSide("EURUSD", "long")], [], {}, NOW) == []


def test_rows_stand_by_symbol_and_side_and_a_symbol_without_bars_has_one():
    held = [HeldSide("XAUUSD", "short"), HeldSide("XAUUSD", "long"), HeldSide("TSLA", "long"), HeldSide("BTC", "short")]
    rows = event_exposure(AHEAD, held, [event("p", NOON)], {}, NOW)
    assert [(row.symbol, row.side, row.similar_events) for row in rows] == [("BTC", "short", 0), ("XAUUSD", "long", 0), ("XAUUSD", "short", 0)]


def test_bars_of_an_unsuitable_length_are_refused():
    with pytest.raises(Invalid) as refused:
        exposure([event("p", NOON)], bars(NOON, 240, "100", "101"))
    assert refused.value.field == "frame_minutes"


PRICES = st.lists(st.integers(90, 110).map(str), min_size=400, max_size=400)


@settings(max_examples=examples(30, 500), deadline=None)
@given(PRICES, st.sampled_from([5, 15, 30, 60]), st.lists(st.integers(0, 2_000), max_size=6), st.sets(st.integers(0, 399), max_size=20), st.randoms())
def test_only_whole_windows_count_and_bars_may_come_in_any_order(prices, minutes, offsets, holes, order):
    start, frame = NOON - DAY, timedelta(minutes=minutes)
    market = [bar for n, bar in enumerate(bars(start, minutes, *prices)) if n not in holes]
    order.shuffle(market)
    past = [event(f"p{n}", start + timedelta(minutes=offset)) for n, offset in enumerate(offsets)]
    row = exposure(past, market)
    moves = []
    for moment in {each.t for each in past}:
        # Every close that must exist lies on the grid of bars: the one at or before the event, and each of two hours after it.
        base = start + (moment - start) // frame * frame
        need = [base + n * frame for n in range(timedelta(hours=2) // frame + 1)]
        closes = {bar.t1: bar.c for bar in market}
        if all(close in closes for close in need):
            moves.append(abs(closes[need[-1]] / closes[need[0]] - 1))
    assert row.similar_events == len(moves)
    if len(moves) >= 3:
        moves.sort()
        middle = (moves[(len(moves) - 1) // 2] + moves[len(moves) // 2]) / 2
        assert row.median_abs_move == pytest.approx(float(middle), abs=1e-12)
    else:
        assert row.median_abs_move is None
