"""Numbers, times and side words as files write them."""

from __future__ import annotations

from decimal import Decimal

import pytest

from memtape.brokers.cells import BadCell, TimeReader, date_order, decimal_style, read_numbers, read_zone
from memtape.brokers.sides import SideWords
from memtape.brokers.texts import TextCleaner
from memtape.core.codec import time_text
from memtape.errors import Invalid

from .desk import problem_line, read, values_read


@pytest.mark.parametrize(
    ("cell", "value"),
    [
        ("1,204.50", "1204.5"), ("(320.00)", "-320"), ("$88.10", "88.1"), ("-$3", "-3"), ("$-3", "-3"), ("1.2e3", "1200"),
        ("- 2.50", "-2.5"), ("2.50-", "-2.5"), ("−7", "-7"), ("4 106.170", "4106.17"), ("4\u00a0106.170", "4106.17"),
        ("1'234.5", "1234.5"), ("0.26376000 USDT", "0.26376"), ("USD 12", "12"), ("10x", "10"), ("1,00,000", "100000"),
        ("+5", "5"), (".5", "0.5"), ("($1,234.00)", "-1234"), ("1e-30", "0"),
    ],
)  # fmt: skip
def test_a_number_is_read_however_it_is_dressed(cell: str, value: str) -> None:
    assert read_numbers([cell], "point") == [Decimal(value)]


@pytest.mark.parametrize(
    ("cell", "value"),
    [("1.204,50", "1204.5"), ("88,1", "88.1"), ("1 204,50 €", "1204.5"), ("-0,5", "-0.5"), ("1.234.567", "1234567")],
)
def test_a_decimal_comma_is_read(cell: str, value: str) -> None:
    assert read_numbers([cell], "comma") == [Decimal(value)]


@pytest.mark.parametrize("cell", ["", "-", "--", "nan", "NaN", "None", "null", "N/A"])
def test_nothing_is_written_in_many_ways(cell: str) -> None:
    assert read_numbers([cell], "point") == [None]


@pytest.mark.parametrize(
    "cell", ["abc", "1,2,3", "12,5", "inf", "1e99", "9" * 40, "0x10", ".", "1.2.3", "5%", "1" * 5000, "1 2 3a"]
)
def test_what_is_no_amount_is_told(cell: str) -> None:
    (value,) = read_numbers([cell], "point")
    assert isinstance(value, BadCell)
    assert len(value.problem) < 100


def test_a_percentage_is_a_fraction_where_one_is_wanted() -> None:
    assert read_numbers(["80%"], "point", percent=True) == [Decimal("0.8")]


def test_the_file_decides_what_a_comma_means() -> None:
    assert decimal_style([["1,204", "1,204.50"]], ",")[0] == "point"
    assert decimal_style([["1,204", "88,1"]], ";")[0] == "comma"
    assert decimal_style([["1,234,567"]], ";")[0] == "point"
    assert decimal_style([["1.234.567"]], ";")[0] == "comma"
    assert decimal_style([["0,125"]], "\t")[0] == "comma"


def test_a_comma_that_nothing_explains_is_asked_about_and_can_be_told() -> None:
    text = (
        "symbol;side;entry_time;exit_time;entry_price;exit_price;qty\nX;long;2026-06-04T08:00Z;2026-06-04T09:00Z;1,234;1,235;2\n"
    )
    assert problem_line(read(text).problems[0]) == (
        "2: entry_price: '1,234' is ambiguous: thousands or decimals. Give --map decimal=comma or --map decimal=point"
    )
    assert values_read(read(text, mapping={"decimal": "comma"})) == ["long 2 X 1.234 -> 1.235"]
    assert values_read(read(text, mapping={"decimal": "point"})) == ["long 2 X 1234 -> 1235"]


NOON = "2024-01-31T12:00:00Z"


@pytest.mark.parametrize(
    "cell",
    [
        "2024-01-31T12:00:00Z", "2024-01-31T13:00:00+01:00", "2024-01-31 12:00:00 UTC", "2024-01-31 07:00 EST", "1706702400",
        "1706702400.0", "1706702400000", "1706702400000000", "1706702400000000000", "Jan 31, 2024 12:00 PM GMT",
        "31-Jan-2024 12:00:00Z", "2024-01-31T12:00:00.000000000Z", "31.01.2024 12:00 Z", "1/31/24 12:00 PM UTC",
    ],
)  # fmt: skip
def test_a_time_with_its_zone_is_one_moment_however_written(cell: str) -> None:
    times = TimeReader(dates=None, zone=None)
    assert time_text(times.read(cell)) == NOON  # type: ignore[arg-type]
    assert times.naive == 0


@pytest.mark.parametrize(
    "cell",
    ["2024-01-31 12:00:00", "2024.01.31 12:00:00", "2024/01/31 12:00", "2024-1-31 12:00", "20240131;120000", "20240131120000",
     "2024-01-31, 12:00:00", "31.01.2024 12:00", "1/31/2024 12:00:00 PM", "31 Jan 2024 12:00"],
)  # fmt: skip
def test_a_time_without_zone_is_read_in_the_zone_that_is_given(cell: str) -> None:
    berlin = TimeReader(None, read_zone("Europe/Berlin")[0])
    assert time_text(berlin.read(cell)) == "2024-01-31T11:00:00Z"  # type: ignore[arg-type]
    unsaid = TimeReader(None, None)
    assert time_text(unsaid.read(cell)) == NOON  # type: ignore[arg-type]
    assert unsaid.naive == 1


def test_a_server_clock_seven_hours_ahead_of_new_york_follows_its_summer_time() -> None:
    zone, ahead = read_zone("America/New_York+7")
    server = TimeReader(None, zone, ahead)
    assert time_text(server.read("2024.01.31 12:00")) == "2024-01-31T10:00:00Z"  # type: ignore[arg-type]
    assert time_text(server.read("2024.06.28 12:00")) == "2024-06-28T09:00:00Z"  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["Mars/Olympus", "America", "", "../x", "+99", "Europe/Berlin\x00", "e" * 500])
def test_a_zone_that_is_none_is_refused(name: str) -> None:
    with pytest.raises(Invalid, match="zone"):
        read_zone(name)


def test_other_dates_of_the_file_tell_day_from_month() -> None:
    assert date_order([["03/04/2024", "13/04/2024"]]) == "dmy"
    assert date_order([["03/04/2024", "04/13/2024"]]) == "mdy"
    assert date_order([["03/04/2024"]]) is None
    assert date_order([["13/04/2024", "04/13/2024"]]) is None


def test_a_date_that_may_be_two_days_is_asked_about_and_can_be_told() -> None:
    text = "symbol,side,entry_time,exit_time,entry_price,exit_price,qty\nX,long,03/04/2024,03/05/2024,1,2,2\n"
    assert problem_line(read(text).problems[0]) == (
        "2: entry_at (entry_time): '03/04/2024' is ambiguous: day/month or month/day. Give --map dates=dmy or --map dates=mdy"
    )
    by_day = read(text, mapping={"dates": "dmy"}).found[0].value
    assert time_text(by_day.entry_at) == "2024-04-03T00:00:00Z"  # type: ignore[union-attr]


@pytest.mark.parametrize(
    "cell", ["yesterday", "12:00", "2024", "2024-13-01", "13/13/2024", "1e9", "2024-01-31T25:00", "5", "-1706702400"]
)
def test_what_is_no_time_is_told(cell: str) -> None:
    assert isinstance(TimeReader(None, None).read(cell), BadCell)


def test_the_hour_of_a_clock_change_is_counted() -> None:
    times = TimeReader(None, read_zone("Europe/Berlin")[0])
    assert time_text(times.read("2024-10-27 02:30:00")) == "2024-10-27T00:30:00Z"  # type: ignore[arg-type]
    assert times.ambiguous == 1


@pytest.mark.parametrize(
    ("cell", "bought", "held"),
    [
        ("BUY", 1, 1), ("sell", -1, -1), ("Long", 1, 1), ("SHORT", -1, -1), ("B", 1, 1), ("A", -1, -1), ("BOT", 1, 1), ("SLD", -1, -1),
        ("sell_short", -1, -1), ("Open Long", 1, 1), ("Close Long", -1, 1), ("Close Short", 1, -1), ("Long > Short", -1, None),
        ("buy to cover", 1, 1), ("Buy Limit", 1, 1), ("MARKET SELL", -1, -1), ("balance", 0, 0), ("no_trade", 0, 0),
        ("BUY (Ca.)", 0, 0), ("maybe", None, None),
    ],
)  # fmt: skip
def test_a_word_for_a_side_is_read_as_what_was_done_or_what_was_held(cell: str, bought: int | None, held: int | None) -> None:
    assert SideWords([cell], held=False).side(cell) == bought
    assert SideWords([cell], held=True).side(cell) == held


def test_numbers_for_sides_are_read_by_the_set_of_them() -> None:
    assert [SideWords(["1", "-1"], held=False).side(n) for n in ("1", "-1")] == [1, -1]
    assert [SideWords(["1", "2"], held=False).side(n) for n in ("1", "2")] == [1, -1]
    assert [SideWords(["0", "1", "2"], held=False, name="type").side(n) for n in ("0", "1", "2")] == [1, -1, 0]
    assert SideWords(["7"], held=False).side("7") is None


@pytest.mark.parametrize(
    "secret",
    ["sk-proj-abcdefghijklmnop1234", "AKIAABCDEFGHIJKLMNOP", "ghp_abcdefghijklmnopqrstuvwxyz012345", "api_key = h7Gk29sLwq",
     "Bearer abcdefghijklmnop.qrst", "0x" + "ab" * 32, "password: hunter22", "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.abc",
     "NhqPtmdSJYdKjVHjA7PZj4Mge3R5YNiP1e3UZjInClVN65XAbvqqM6A7H5fATj0j"],
)  # fmt: skip
def test_a_secret_in_a_reason_is_not_kept(secret: str) -> None:
    texts = TextCleaner()
    kept = texts.line(f"entry by {secret} on breakout", 280)
    assert kept is not None
    assert secret not in kept
    assert kept.startswith("entry by [redacted]")
    assert texts.redacted == 1


def test_an_ordinary_reason_is_kept_word_for_word() -> None:
    texts = TextCleaner()
    for reason in (
        "MANUAL SELL - GAIN CAPITAL FOR ACTU",
        "12H_ML_CUT",
        "RSI(14)=28.5, 20-day low; order 204600432746",
        "key level broke",
    ):
        assert texts.line(reason, 280) == reason
    assert texts.notes() == []
