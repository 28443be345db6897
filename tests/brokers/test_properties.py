"""Whatever the dress, the trades are the same; and whatever the bytes, there is an answer or a plain refusal."""

from __future__ import annotations

import csv
import gzip
import io
import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from memtape.brokers.files import unpack_file
from memtape.brokers.formats import read_file
from memtape.brokers.importer import ImportOptions, group_problems
from memtape.core.codec import decimal_text, time_text
from memtape.core.observed import ClosedTrade
from memtape.errors import MemtapeError
from memtape.surfaces.cli.imports import run_import
from tests.effort import examples

from .desk import given_memory, ledger

START = datetime(2024, 1, 1, tzinfo=UTC)
prices = st.decimals("0.0001", "99999", places=4).map(lambda d: d.normalize())
amounts = st.decimals("0.001", "5000", places=3).map(lambda d: d.normalize())
reasons = st.text(st.characters(codec="latin-1", exclude_categories=("Cc", "Cs")), max_size=40).map(str.strip)


@st.composite
def trades(draw: st.DrawFn) -> dict[str, Any]:
    entry = START + timedelta(minutes=draw(st.integers(0, 500_000)))
    return {
        "symbol": draw(st.sampled_from(["BTC", "EUR/USD", "XAUUSD.m"])), "side": draw(st.sampled_from(["long", "short"])),
        "entry_at": entry, "exit_at": entry + timedelta(minutes=draw(st.integers(0, 5_000))), "entry_price": draw(prices),
        "exit_price": draw(prices), "qty": draw(amounts), "fees": draw(amounts), "exit_reason": draw(reasons),
    }  # fmt: skip


HEADS = {
    "symbol": ["symbol", "Ticker", "pair"], "side": ["side", "Direction", "Type"], "entry_at": ["entry_time", "Open Time", "open_date"],
    "exit_at": ["exit_time", "Close Time", "closed_at"], "entry_price": ["entry_price", "Open Price", "open_rate"],
    "exit_price": ["exit_price", "Close Price", "close_rate"], "qty": ["qty", "Quantity", "Volume"], "fees": ["fees", "Commission"],
    "exit_reason": ["reason", "closeComment", "exit_reason"],
}  # fmt: skip
SIDES = {"long": ["long", "BUY", "b", "Open Long"], "short": ["short", "Sell", "S", "sell_short"]}
TIMES: list[Callable[[datetime], str]] = [
    time_text, lambda t: str(int(t.timestamp() * 1000)), lambda t: str(int(t.timestamp())), lambda t: t.strftime("%Y.%m.%d %H:%M:%S"),
    lambda t: t.strftime("%Y-%m-%d %H:%M"), lambda t: t.strftime("%b %d, %Y %I:%M %p"),
]  # fmt: skip


def number(value: Decimal, comma: bool, thousands: bool) -> str:
    whole, _, rest = decimal_text(value).partition(".")
    if thousands:
        whole = f"{int(whole):,}".replace(",", "." if comma else ",")
    return whole + (("," if comma else ".") + rest if rest else "")


@st.composite
def dressed(draw: st.DrawFn, listed: list[dict[str, Any]]) -> tuple[bytes, dict[str, str]]:
    """The same trades as a file in some dialect, and what has to be said about it."""
    heads = {field: draw(st.sampled_from(names)) for field, names in HEADS.items()}
    when = draw(st.sampled_from(TIMES))
    comma = draw(st.booleans())
    thousands = draw(st.booleans())
    separator = draw(st.sampled_from([";", "\t"] if comma else [",", ";", "\t", "|"]))
    rows = [
        {"symbol": t["symbol"], "side": draw(st.sampled_from(SIDES[t["side"]])), "exit_reason": t["exit_reason"],
         **{f: when(t[f]) for f in ("entry_at", "exit_at")},
         **{f: number(t[f], comma, thousands) for f in ("entry_price", "exit_price", "qty", "fees")}}
        for t in listed
    ]  # fmt: skip
    said = {"decimal": "comma" if comma else "point"}
    if not comma and not thousands and draw(st.booleans()):
        objects = [{heads[f]: cell for f, cell in row.items()} for row in rows]
        text = "\n".join(map(json.dumps, objects)) if draw(st.booleans()) else json.dumps(objects)
        return text.encode(), said
    columns = draw(st.permutations(list(heads)))
    out = io.StringIO()
    writer = csv.writer(out, delimiter=separator, lineterminator=draw(st.sampled_from(["\n", "\r\n"])))
    writer.writerow([heads[f] for f in columns])
    writer.writerows([[row[f] for f in columns] for row in rows])
    data = out.getvalue().encode(draw(st.sampled_from(["utf-8", "utf-8-sig", "utf-16"])))
    return (gzip.compress(data) if draw(st.booleans()) else data), said


def seen(trade: ClosedTrade) -> dict[str, Any]:
    return {name: getattr(trade, name) for name in HEADS}


@settings(max_examples=examples(40, 1000))
@given(st.lists(trades(), min_size=1, max_size=8), st.data())
def test_a_list_of_trades_reads_the_same_in_every_dialect(listed: list[dict[str, Any]], data: st.DataObject) -> None:
    file, said = data.draw(dressed(listed))
    _, reading = read_file(unpack_file("file", file), ImportOptions(mapping=said, zone="UTC"))
    assert reading.problems == []
    expected = [{**trade, "exit_reason": trade["exit_reason"] or None} for trade in listed]
    kept = [seen(found.value) for found in reading.found if isinstance(found.value, ClosedTrade)]
    for trade in expected:  # a lone dash or "none" is how files write nothing
        if (trade["exit_reason"] or "").lower() in ("-", "--", "nan", "none", "null", "n/a", "na", "nat", "#n/a"):
            trade["exit_reason"] = None
    assert kept == expected


@settings(max_examples=examples(10, 250))
@given(st.lists(trades(), min_size=1, max_size=8), st.data())
def test_twice_is_once_in_any_dialect_and_undo_gives_back_the_same(listed: list[dict[str, Any]], data: st.DataObject) -> None:
    with TemporaryDirectory() as folder:
        twice_is_once(Path(folder), listed, data)


def twice_is_once(folder: Path, listed: list[dict[str, Any]], data: st.DataObject) -> None:
    memory = given_memory()
    path, other = folder / "one", folder / "other"
    file, said = data.draw(dressed(listed))
    path.write_bytes(file)
    first = run_import(memory, path, agent="desk", mapping=said, zone="UTC", commit=True)
    assert first["new"] == len(listed)
    before = ledger(memory)
    cut = data.draw(st.integers(0, len(listed)))
    file, said = data.draw(dressed(listed[cut:] or listed))
    other.write_bytes(file)
    again = run_import(memory, other, agent="desk", mapping=said, zone="UTC", commit=True)
    assert (again["new"], ledger(memory)) == (0, before)
    memory.agent("desk").imports.undo(first["batch"])
    assert ledger(memory) == []
    run_import(
        memory, path, agent="desk", mapping=said | {"decimal": first["mapping"]["columns"]["decimal"]}, zone="UTC", commit=True
    )
    assert ledger(memory) == before


def answered(data: bytes, **options: Any) -> None:
    try:
        _, reading = read_file(unpack_file("file", data), ImportOptions(**options))
    except MemtapeError:
        return
    json.dumps([group.as_dict() for group in group_problems(reading.problems)]).encode()
    # A row may have several problems; a line that is not a row has none.
    assert len({problem.line for problem in reading.problems}) <= reading.rows + 1


@settings(max_examples=examples(80, 2000))
@given(st.binary(max_size=300))
def test_any_bytes_are_answered(data: bytes) -> None:
    answered(data)
    answered(gzip.compress(data))


nasty = st.one_of(
    st.text(max_size=12),
    st.sampled_from(["", "0", "-1", "1e400", "nan", "∞", "٣", "１２", "9" * 60, "2026-06-04", "00/00/0000", "9999-12-31T23:59:59-23:59",
                     "0001-01-01T00:00:00+23:59", "99999999999999999999", "buy", "long", "true", "BTC", "=1+1", "\ud800", "a / b", "()", "%",
                     "1970-01-01", "2262-04-11", "(((", '"', "1E-999999", "1e5", "0x1", "Infinity", "1 / 2"]),
    st.floats().map(str),
    st.integers(-(10**30), 10**30).map(str),
)  # fmt: skip
headings = st.lists(
    st.sampled_from(["time", "date", "symbol", "side", "qty", "price", "fee", "id", "entry_time", "exit_time", "entry_price", "exit_price",
                     "pnl", "net_pnl", "fees", "stop", "reason", "status", "model", "feeCurrency", "Time", "tags", "leverage", "is_short",
                     "Shares Bought", "Buy Price", "Shares Sold", "Sell Price", "multiplier", "funding", "positionSide", "confidence"]),
    min_size=4, max_size=14,
)  # fmt: skip


@settings(max_examples=examples(120, 3000))
@given(headings, st.data())
def test_any_cells_under_known_headings_are_answered(names: list[str], data: st.DataObject) -> None:
    rows = data.draw(st.lists(st.lists(nasty, min_size=len(names), max_size=len(names)), max_size=5))
    if data.draw(st.booleans()):
        text = json.dumps([dict(zip(names, row, strict=True)) for row in rows])
        answered(text.encode())
    else:
        out = io.StringIO()
        csv.writer(out, delimiter=data.draw(st.sampled_from(",;\t"))).writerows([names, *rows])
        answered(out.getvalue().encode("utf-8", "replace"), zone=data.draw(st.sampled_from([None, "Europe/Berlin"])))


@settings(max_examples=examples(40, 1000))
@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
        max_leaves=20,
    )
)
def test_any_json_is_answered(value: Any) -> None:  # fmt: skip
    answered(json.dumps(value).encode())
    answered(
        json.dumps([{"symbol": "BTC", "side": "buy", "qty": 1, "price": 2, "time": "2026-06-04T08:00Z", "fee": value}]).encode()
    )


@settings(max_examples=examples(20, 500))
@given(
    st.dictionaries(
        st.sampled_from(["symbol", "side", "qty", "price", "time", "fees", "id", "kind", "dates", "zone", "nonsense"]),
        st.text(max_size=10),
        max_size=4,
    )
)
def test_any_mapping_is_answered(mapping: dict[str, str]) -> None:  # fmt: skip
    answered(b"id,time,symbol,side,qty,price,fee\n1,2026-06-04T08:00:00Z,BTC,buy,1,2,0\n", mapping=mapping)
