"""Price files as people have them."""

from __future__ import annotations

import gzip
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from itertools import pairwise
from pathlib import Path

import pytest

from memtape.core.codec import time_text
from memtape.core.observed import Bar
from memtape.errors import Invalid
from memtape.sim.bars import read_bar_file, read_bars

HEADER = "time,open,high,low,close,volume\n"


def saved(folder: Path, text: str, name: str = "xauusd_h1.csv") -> Path:
    path = folder / name
    path.write_bytes(gzip.compress(text.encode()) if name.endswith(".gz") else text.encode())
    return path


def refused(folder: Path, text: str) -> str:
    with pytest.raises(Invalid) as error:
        read_bars(saved(folder, text), strict=True)
    return str(error.value)


@pytest.mark.parametrize("row", ["2024-01-10,1,,0.5,2,10", "2024-01-10,null,null,null,null,null", "2024-01-10,1,3,0.5,NaN,10", ",1,3,0.5,2,10"])
def test_a_row_with_an_empty_field_is_no_bar_and_is_counted(tmp_path: Path, row: str) -> None:
    good = [f"2024-01-{day:02d},1,3,0.5,2,10" for day in (8, 9, 11)]
    read = read_bar_file(saved(tmp_path, HEADER + "\n".join([*good, row]) + "\n"))
    assert (len(read.bars), read.skipped) == (3, 1)
    assert [bar.t1 - bar.t0 for bar in read.bars] == [timedelta(days=1)] * 3, "the gap is no longer bar"
    assert "line 5" in refused(tmp_path, HEADER + "\n".join([*good, row]) + "\n")


def test_a_bar_without_volume_is_complete(tmp_path: Path) -> None:
    read = read_bar_file(saved(tmp_path, HEADER + "2024-01-08,1,3,0.5,2,\n2024-01-09,1,3,0.5,2,\n"))
    assert (len(read.bars), read.skipped) == (2, 0)


def test_a_file_of_empty_rows_has_no_bars(tmp_path: Path) -> None:
    with pytest.raises(Invalid, match="has no bars"):
        read_bars(saved(tmp_path, HEADER + "2024-01-08,,,,,\n2024-01-09,,,,,\n"))


def test_a_plain_file_becomes_bars_named_after_it(tmp_path: Path) -> None:
    text = HEADER + "2024-01-08T00:00:00Z,1,3,0.5,2,10\n2024-01-08T01:00:00Z,2,4,1,3,\n"
    first, second = read_bars(saved(tmp_path, text))
    t0 = datetime(2024, 1, 8, tzinfo=UTC)
    assert first == Bar(
        symbol="XAUUSD", t0=t0, t1=t0 + timedelta(hours=1), o=Decimal(1), h=Decimal(3), l=Decimal("0.5"), c=Decimal(2),
        v=Decimal(10),
    )  # fmt: skip
    assert (second.frame, second.v) == (3600, None)


def test_a_compressed_file_reads_the_same(tmp_path: Path) -> None:
    text = HEADER + "2024-01-08,1,3,0.5,2,10\n2024-01-09,2,4,1,3,10\n"
    assert read_bars(saved(tmp_path, text)) == read_bars(saved(tmp_path, text, "xauusd.csv.gz"))


def test_the_given_symbol_beats_the_file_name(tmp_path: Path) -> None:
    path = saved(tmp_path, HEADER + "2024-01-08,1,3,0.5,2,10\n2024-01-09,2,4,1,3,10\n")
    assert {bar.symbol for bar in read_bars(path, symbol="GOLD")} == {"GOLD"}
    with pytest.raises(Invalid, match=r"symbol: '<b>' is not a symbol"):
        read_bars(path, symbol="<b>")


@pytest.mark.parametrize(
    "time",
    [
        "2024-01-08T09:30:00Z",
        "2024-01-08 09:30:00",
        "2024-01-08T09:30",
        "2024-01-08 04:30:00-05:00",
        "2024.01.08 09:30",
        "20240108T093000",
        "1704706200",
        "1704706200.0",
        "1704706200000",
        "1704706200000000",
        "1704706200000000000",
    ],
)
def test_a_moment_is_understood_in_every_usual_spelling_and_naive_means_utc(tmp_path: Path, time: str) -> None:
    (bar,) = read_bars(saved(tmp_path, HEADER + f"{time},1,3,0.5,2,10\n"), frame=timedelta(minutes=15))
    assert time_text(bar.t0) == "2024-01-08T09:30:00Z"


@pytest.mark.parametrize("time", ["2024-01-08", "20240108", "2024.01.08"])
def test_a_date_alone_is_its_midnight(tmp_path: Path, time: str) -> None:
    (bar,) = read_bars(saved(tmp_path, HEADER + f"{time},1,3,0.5,2,10\n"), frame=timedelta(days=1))
    assert time_text(bar.t0) == "2024-01-08T00:00:00Z"


@pytest.mark.parametrize(
    "header", ["Date,Open,High,Low,Close,Volume", "timestamp,o,h,l,c,v", "OPEN_TIME,OPEN,HIGH,LOW,CLOSE,VOL"]
)
def test_columns_go_by_their_usual_names_in_any_case(tmp_path: Path, header: str) -> None:
    (bar,) = read_bars(saved(tmp_path, f"{header}\n2024-01-08,1,3,0.5,2,10\n"), frame=timedelta(days=1))
    assert (bar.o, bar.h, bar.l, bar.c, bar.v) == (1, 3, Decimal("0.5"), 2, 10)


def test_columns_stand_in_any_order_beside_others(tmp_path: Path) -> None:
    text = ",Close,Adj Close,Low,High,Open,Date\n0,2,1,0.5,3,1,2024-01-08\n1,3,1.5,1,4,2,2024-01-09\n"
    assert [(b.o, b.h, b.l, b.c) for b in read_bars(saved(tmp_path, text))] == [(1, 3, Decimal("0.5"), 2), (2, 4, 1, 3)]


def test_a_metatrader_export_is_read_as_it_is(tmp_path: Path) -> None:
    text = "<DATE>\t<TIME>\t<OPEN>\t<HIGH>\t<LOW>\t<CLOSE>\t<TICKVOL>\t<VOL>\t<SPREAD>\n"
    text += "2024.01.08\t01:00:00\t1\t3\t0.5\t2\t10\t0\t5\n2024.01.08\t02:00:00\t2\t4\t1\t3\t11\t0\t5\n"
    bars = read_bars(saved(tmp_path, text, "XAUUSD_H1_202401080100.csv"))
    assert [time_text(b.t0) for b in bars] == ["2024-01-08T01:00:00Z", "2024-01-08T02:00:00Z"]
    assert [b.v for b in bars] == [10, 11]


def test_semicolons_a_byte_order_mark_windows_line_ends_and_blank_lines_are_no_matter(tmp_path: Path) -> None:
    text = "\ufefftime;open;high;low;close\r\n2024-01-08;1;3;0.5;2\r\n\r\n2024-01-09;2;4;1;3\r\n"
    assert len(read_bars(saved(tmp_path, text))) == 2


def test_newest_first_is_put_in_order(tmp_path: Path) -> None:
    text = HEADER + "2024-01-09,2,4,1,3,10\n2024-01-08,1,3,0.5,2,10\n"
    assert [b.c for b in read_bars(saved(tmp_path, text))] == [2, 3]


def test_several_symbols_are_merged_by_time(tmp_path: Path) -> None:
    text = "symbol,time,open,high,low,close\nMSFT,2024-01-08,1,3,0.5,2\nMSFT,2024-01-09,1,3,0.5,2\n"
    text += "AAPL,2024-01-08,1,3,0.5,2\nAAPL,2024-01-09,1,3,0.5,2\nNEW,2024-01-09,1,3,0.5,2\n"
    bars = read_bars(saved(tmp_path, text))
    assert [(b.t0.day, b.symbol) for b in bars] == [(8, "AAPL"), (8, "MSFT"), (9, "AAPL"), (9, "MSFT"), (9, "NEW")]
    assert {b.frame for b in bars} == {86400}, "a symbol with one bar lasts as long as the others"


def test_the_commonest_distance_is_the_frame_so_a_weekend_is_not_one_long_bar(tmp_path: Path) -> None:
    days = ["2024-01-04", "2024-01-05", "2024-01-08", "2024-01-09"]
    bars = read_bars(saved(tmp_path, HEADER + "".join(f"{d},1,3,0.5,2,10\n" for d in days)))
    assert {b.frame for b in bars} == {86400}


def test_a_short_month_ends_where_the_next_begins(tmp_path: Path) -> None:
    months = ["2024-01-01", "2024-02-01", "2024-03-01", "2024-04-01", "2024-05-01", "2024-06-01"]
    bars = read_bars(saved(tmp_path, HEADER + "".join(f"{m},1,3,0.5,2,10\n" for m in months)))
    assert [b.frame // 86400 for b in bars] == [31, 29, 31, 30, 31, 31]


def test_adjusted_prices_know_no_split(tmp_path: Path) -> None:
    text = "date,open,high,low,close,volume,adj_close\n2024-01-08,100,110,90,105,1,52.5\n2024-01-09,52,55,45,53,1,53\n"
    first, second = read_bars(saved(tmp_path, text), adjust=True)
    assert (first.o, first.h, first.l, first.c) == (50, 55, 45, Decimal("52.5"))
    assert second.c == 53


GOOD = "2024-01-08,1,3,0.5,2,10\n"


@pytest.mark.parametrize(
    ("row", "says"),
    [
        ("2024-01-09,1,3,0.5,NaN,10", "xauusd_h1.csv line 3, close: is NaN. Fill in the number"),
        ("2024-01-09,1,inf,0.5,2,10", "line 3, high: is inf"),
        ("2024-01-09,1,3,-0.5,2,10", "line 3, low: -0.5 is not a price above 0"),
        ("2024-01-09,0,3,0.5,2,10", "line 3, open: 0 is not a price above 0"),
        ("2024-01-09,1,0.4,0.5,2,10", "line 3, high: 0.4 is below the low 0.5. Exchange the two"),
        ("2024-01-09,9,3,0.5,2,10", "line 3, open: is outside low 0.5 and high 3"),
        ("2024-01-09,1,3,0.5,4,10", "line 3, close: is outside"),
        ("2024-01-09,1,,0.5,2,10", "line 3, high: is empty. Fill it in, or delete the row"),
        ('2024-01-09,1,3,0.5,"1,234.5",10', "line 3, close: '1,234.5' is not a number"),
        ("2024-01-09,1,3,0.5,2,-1", "line 3, volume: -1 is negative"),
        ("2024-01-09,1,3,0.5,0.1234567890123456789,1", "line 3, close: '0.1234567890123456789' has too many digits"),
        ("2024-01-09,1,3", "line 3, row: has 3 of 6 columns"),
        ("01/09/2024,1,3,0.5,2,10", "line 3, time: '01/09/2024' is not a time. Write ISO 8601"),
        ("45000.5,1,3,0.5,2,10", "line 3, time: '45000.5' is not a time"),
        ("1869-05-10,1,3,0.5,2,10", "line 3, time: '1869-05-10' is outside 1970 to 2200"),
        ("2024-01-08,1,3,0.5,2,10", "line 3, time: XAUUSD at 2024-01-08T00:00:00Z was already given in line 2"),
    ],
)
def test_a_bad_row_is_refused_with_its_place_and_its_fix(tmp_path: Path, row: str, says: str) -> None:
    assert says in refused(tmp_path, HEADER + GOOD + row + "\n")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "line 1: there is no column time, open, high, low, close"),
        ("2024-01-08,1,3,0.5,2,10\n", "The first line must name the columns"),
        ("time,open,high,low\n", "there is no column close"),
        (HEADER, "has no bars"),
        (HEADER + GOOD, "a single bar does not show its length"),
        ("symbol,time,open,high,low,close\n<b>,2024-01-08,1,3,0.5,2\n", "line 2, symbol: '<b>' is not a symbol"),
    ],
)
def test_a_file_that_is_no_price_file_is_refused(tmp_path: Path, text: str, says: str) -> None:
    assert says in refused(tmp_path, text)


def test_what_cannot_be_opened_is_said_plainly(tmp_path: Path) -> None:
    (tmp_path / "broken.csv.gz").write_bytes(b"time,open")
    (tmp_path / "cut.csv.gz").write_bytes(gzip.compress((HEADER + GOOD * 500).encode())[:60])
    (tmp_path / "workbook.csv").write_bytes(b"PK\x03\x04\xff\xfe\x00")
    for name in ("absent.csv", "broken.csv.gz", "cut.csv.gz", "workbook.csv"):
        with pytest.raises(Invalid):
            read_bars(tmp_path / name)


def test_real_files_read_whole(market: Path) -> None:
    gold = read_bars(market / "xauusd_h1_2017_2024.csv.gz")
    coins = read_bars(market / "binance_perp_6coins_1h_2025-10.csv.gz")
    assert (len(gold), gold[0].symbol, gold[0].frame) == (47_302, "XAUUSD", 3600)
    assert len(coins) == 5_184 and len({bar.symbol for bar in coins}) == 6
    assert all(a.t1 <= b.t0 for a, b in pairwise(gold))
