"""Files in every dress that brokers and spreadsheets give them."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from memtape.brokers.files import load_file
from memtape.errors import Invalid

from .desk import TRADES, problem_line, read, values_read, write_file

ROW = "BTC,long,2026-06-04T08:00:00Z,2026-06-04T09:00:00Z,100,110,2\n"
SEEN = ["long 2 BTC 100 -> 110"]


@pytest.mark.parametrize("separator", [",", ";", "\t", "|"])
def test_any_usual_separator_will_do(separator: str) -> None:
    assert values_read(read((TRADES + ROW).replace(",", separator))) == SEEN


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "latin-1", "cp1252"])
def test_any_usual_encoding_will_do(encoding: str) -> None:
    header = TRADES.replace("\n", ",exit_reason\n")
    reading = read((header + ROW.replace("\n", ",Stopp über Kursziel\n")).encode(encoding))
    assert values_read(reading) == SEEN
    assert reading.found[0].value.exit_reason == "Stopp über Kursziel"  # type: ignore[union-attr]


@pytest.mark.parametrize("line_end", ["\n", "\r\n", "\r"])
def test_any_line_end_will_do(line_end: str) -> None:
    assert values_read(read((TRADES + ROW).replace("\n", line_end))) == SEEN


def test_a_compressed_file_reads_the_same(tmp_path: Path) -> None:
    assert (
        load_file(write_file(tmp_path, TRADES + ROW, "a.csv.gz")).text
        == load_file(write_file(tmp_path, TRADES + ROW, "a.csv")).text
    )


def test_excels_separator_hint_and_a_title_above_the_header_are_passed_over() -> None:
    text = "sep=;\n" + "My trades of 2026\n\n" + (TRADES + ROW + ROW.replace("long", "sideways")).replace(",", ";")
    reading = read(text)
    assert values_read(reading) == SEEN
    assert problem_line(reading.problems[0]).startswith("6: side: 'sideways' is neither long nor short")


def test_a_second_column_of_one_name_is_the_exit_as_metatrader_writes_it() -> None:
    text = (
        "Time,Position,Symbol,Type,Volume,Price,S / L,T / P,Time,Price,Commission,Swap,Profit\n"
        "2026.06.04 10:00:00,7001,GBPUSD,sell,0.30,1.27450,1.27800,1.27000,2026.06.04 12:30:00,1.27110,-2.10,0.45,102.00\n"
    )
    assert values_read(read(text)) == ["short 30000 GBPUSD 1.2745 -> 1.2711"]


def test_blank_lines_are_no_rows() -> None:
    reading = read(TRADES + "\n" + ROW + ",,,,,,\n \n" + ROW.replace("BTC", "ETH"))
    assert (reading.rows, [f.line for f in reading.found]) == (2, [3, 6])


def test_a_row_with_too_few_or_too_many_cells_is_told_and_the_rest_is_read() -> None:
    reading = read(TRADES + "BTC,long\n" + ROW + ROW.replace("\n", ",surplus\n"))
    assert values_read(reading) == SEEN
    assert [problem_line(p) for p in reading.problems] == [
        "2: row: has 2 of 7 cells. Complete the row, or delete it",
        "4: row: has 8 cells, the header 7. Put cells that contain ',' in quotation marks",
    ]


def test_a_quotation_mark_that_swallows_lines_is_told() -> None:
    header = TRADES.replace("\n", ",reason\n")
    rows = ROW.replace("\n", ',"broke out\n') + ROW.replace("\n", ",tp\n") + ROW.replace("\n", ',"second"\n')
    reading = read(header + rows + ROW.replace("\n", ",fine\n"))
    assert any("quotation mark is not closed" in p.problem for p in reading.problems)


def test_a_line_break_inside_a_reason_does_not_break_the_row() -> None:
    reading = read(
        TRADES.replace("\n", ",reason\n") + ROW.replace("\n", ',"broke out,\nthen failed"\n') + ROW.replace("\n", ",x\n")
    )
    assert [f.line for f in reading.found] == [2, 4]
    assert reading.found[0].value.exit_reason == "broke out, then failed"  # type: ignore[union-attr]


FILL = {"id": "f1", "time": "2026-06-04T08:00:00Z", "symbol": "BTC", "side": "buy", "qty": 0.1, "price": 65200.5}
BOUGHT = ["buy 0.1 BTC @ 65200.5 2026-06-04T08:00:00Z"]


@pytest.mark.parametrize(
    "text",
    [
        json.dumps(FILL),
        json.dumps(FILL) + "\n\n",
        json.dumps([FILL]),
        json.dumps([FILL], indent=2),
        json.dumps({"retCode": 0, "result": {"list": [FILL], "nextPageCursor": ""}}),
        json.dumps({"trades": [FILL]}),
    ],
)
def test_json_may_be_lines_an_array_or_an_answer_with_an_array_in_it(text: str) -> None:
    assert values_read(read(text, "fills.jsonl")) == BOUGHT


def test_a_number_in_json_keeps_its_digits() -> None:
    text = json.dumps(FILL).replace("65200.5", "0.30000000000000004")
    assert values_read(read(text)) == ["buy 0.1 BTC @ 0.30000000000000004 2026-06-04T08:00:00Z"]


def test_a_fee_inside_an_object_is_found() -> None:
    trade = FILL | {"fee": {"currency": "USDT", "cost": 0.25}, "fees": [{"cost": 0.25}], "info": {"fee": 99}}
    assert str(read(json.dumps([trade])).found[0].value.fee) == "0.25"  # type: ignore[union-attr]


def test_a_broken_line_of_json_is_told_and_the_rest_is_read() -> None:
    reading = read(json.dumps(FILL) + "\n{oops\n[1]\n" + json.dumps(FILL | {"id": "f2"}))
    assert len(reading.found) == 2
    assert [p.line for p in reading.problems] == [2, 3]


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "is empty"),
        (b"\n \n", "is empty"),
        (b"PK\x03\x04rest", "Save the sheet as CSV"),
        (b"SQLite format 3\x00", "is a database"),
        (b"a\x00b\x00\x01,\x00\x00\x00", "is not a text file"),
        (gzip.compress(b"time", mtime=0)[:-4], "damaged .gz"),
        (b"hello\nworld\n", "no header that names columns"),
        (b"[1, 2", "not valid JSON"),
        (b"[]", "has no objects"),
        (b"[" * 100_000, "not valid JSON"),
    ],
)
def test_what_is_no_table_is_refused_in_plain_words(data: bytes, words: str) -> None:
    with pytest.raises(Invalid, match=words):
        read(data)


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    for path in (tmp_path / "none.csv", tmp_path, tmp_path / "a\x00b"):
        with pytest.raises(Invalid, match="cannot be read"):
            load_file(path)


def test_a_small_file_that_unpacks_into_a_huge_one_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("memtape.brokers.files.MAX_BYTES", 2**20)
    with pytest.raises(Invalid, match="is larger than 1 MB"):
        read(gzip.compress(b"x" * 2**22, mtime=0))


def test_too_many_rows_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("memtape.brokers.files.MAX_ROWS", 2)
    for text in (TRADES + ROW * 3, "\n".join([json.dumps(FILL)] * 3)):
        with pytest.raises(Invalid, match="more than 2 rows"):
            read(text)
