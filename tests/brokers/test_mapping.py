"""Which column is what: guessed from the names that brokers use, told by the user, remembered from the last import."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from memtape.errors import Invalid
from memtape.surfaces.cli.imports import option_pairs, run_import

from .desk import FILLS, TRADES, given_memory, read, values_read, write_file

METATRADER = "Time,Deal,Symbol,Type,Direction,Volume,Price,Order,Commission,Fee,Swap,Profit,Balance,Comment"
BINANCE = "symbol,pair,id,orderId,side,positionSide,price,qty,quoteQty,realizedPnl,commission,commissionAsset,buyer,maker,time"
ALPACA = "id,activity_type,transaction_time,type,price,qty,side,symbol,cum_qty,leaves_qty,order_id,order_status"
IBKR = "ClientAccountID,CurrencyPrimary,Symbol,Multiplier,IBExecID,DateTime,Buy/Sell,Quantity,TradePrice,IBCommission,FifoPnlRealized"


@pytest.mark.parametrize(
    ("header", "row", "seen"),
    [
        (METATRADER, "2026.06.04 10:00:00,9001,GBPUSD,sell,in,0.30,1.27450,7001,-1.05,-0.10,0.00,0.00,9998.95,",
         "sell 0.3 GBPUSD @ 1.2745 2026-06-04T10:00:00Z"),
        (BINANCE, "BTCUSDT,BTCUSDT,812345678,45511002233,SELL,LONG,65940.00,0.010,659.40,7.40,0.26376,USDT,false,false,1780576200000",
         "sell 0.01 BTCUSDT @ 65940 2026-06-04T12:30:00Z"),
        (ALPACA, "20260604::1d9f,FILL,2026-06-04T16:30:00.412Z,fill,231.42,5,sell,AAPL,5,0,8d3b,filled",
         "sell 5 AAPL @ 231.42 2026-06-04T16:30:00.412Z"),
        (IBKR, "U1,USD,MSFT,1,0000e1a7,20260604;113000,SELL,-20,431.2,-1.02,121.98",
         "sell 20 MSFT @ 431.2 2026-06-04T11:30:00Z"),
        ("coin,px,sz,side,time,dir,closedPnl,oid,fee,tid,feeToken", "ETH,3438.2,1.5,A,1780576200000,Close Long,42.3,915,2.32,418,USDC",
         "sell 1.5 ETH @ 3438.2 2026-06-04T12:30:00Z"),
        ("symbol,side,orderId,execId,execPrice,execQty,execFee,execTime", "BTCUSDT,Sell,5f0c,e77a,65940,0.010,0.36,1780576200000",
         "sell 0.01 BTCUSDT @ 65940 2026-06-04T12:30:00Z"),
        ("trade_id,instrument_id,order_side,last_qty,last_px,commission,ts_event", "8123,BTCUSDT-PERP.BINANCE,2,0.010,65940.00,0.26 USDT,"
         "1780576200000000000", "sell 0.01 BTCUSDT-PERP.BINANCE @ 65940 2026-06-04T12:30:00Z"),
        ("Date,Time,Ticker,Action,Shares,Price", "2026-06-04,11:30:00,MSFT,BOT,20,431.2", "buy 20 MSFT @ 431.2 2026-06-04T11:30:00Z"),
        ("Date(UTC),Pair,Side,Price,Executed,Fee", "2026-06-04 11:30:00,BTCUSDT,BUY,65000,0.5BTC,0.001BNB", ""),
    ],
)  # fmt: skip
def test_fills_of_each_broker_are_recognised_by_their_columns(header: str, row: str, seen: str) -> None:
    reading = read(f"{header}\n{row}\n")
    assert reading.kind == "fills"
    if seen:
        assert values_read(reading) == [seen]


@pytest.mark.parametrize(
    ("header", "row", "seen"),
    [
        ("id,pair,is_open,is_short,amount,open_rate,close_rate,fee_open,fee_open_cost,fee_close_cost,close_profit_abs,open_date,close_date",
         "41,ETH/USDT:USDT,0,1,0.3,3438.2,3410.0,0.0005,0.5,0.5,7.46,2026-06-04 10:00:00,2026-06-04 12:30:00",
         "short 0.3 ETH/USDT:USDT 3438.2 -> 3410"),
        ("Ticket,Open Time,Type,Size,Item,Price,S/L,T/P,Close Time,Price,Commission,Taxes,Swap,Profit",
         "1,2026.06.04 10:00,buy,1,XAUUSD,2300,2290,2320,2026.06.04 12:00,2310,-3,-1,0,1000", "long 100 XAUUSD 2300 -> 2310"),
        ("Symbol,Buy Date,Buy Price,Sell Date,Sell Price,Quantity,Gain/Loss",
         "AAPL,2026-06-01,200,2026-06-04,210,5,50", "long 5 AAPL 200 -> 210"),
        ("position_id,instrument_id,entry,quantity,avg_px_open,avg_px_close,ts_opened,ts_closed,realized_pnl",
         "P-1,BTC.SIM,SELL,2,100,90,1780576200000000000,1780576300000000000,20 USD", "short 2 BTC.SIM 100 -> 90"),
        ("Instrument;Richtung;Open Time;Close Time;Entry;Exit;Lots",
         "DAX;short;2026-06-04 10:00;2026-06-04 11:00;18.500,5;18.400,5;2", ""),
    ],
)  # fmt: skip
def test_closed_trades_of_each_source_are_recognised_by_their_columns(header: str, row: str, seen: str) -> None:
    reading = read(f"{header}\n{row}\n", mapping={} if seen else {"side": "Richtung"})
    assert (reading.kind, [p for p in reading.problems if p.blocks]) == ("trades", [])
    assert values_read(reading) == [seen or "short 2 DAX 18500.5 -> 18400.5"]


def test_metatraders_commission_and_fee_are_two_costs_of_one_row() -> None:
    row = "2026.06.04 10:00:00,9001,GBPUSD,sell,in,0.30,1.27450,7001,-1.05,-0.10,0.00,0.00,9998.95,"
    assert str(read(f"{METATRADER}\n{row}\n").found[0].value.fee) == "1.15"  # type: ignore[union-attr]


def test_what_was_guessed_is_shown_with_the_columns_left_over() -> None:
    reading = read(FILLS.replace("\n", ",weather\n") + "1,2026-06-04T08:00:00Z,BTC,buy,1,2,0,rain\n")
    assert reading.mapping == {
        "kind": "fills", "id": "id", "time": "time", "price": "price", "symbol": "symbol", "side": "side", "qty": "qty", "fees": "fee",
    }  # fmt: skip
    assert (reading.mapped_by, reading.unused) == ("guessed", ["weather"])


ODD = "what,when in,when out,in,out,how much,which way\nBTC,2026-06-04T08:00:00Z,2026-06-04T09:00:00Z,100,110,2,long\n"
TOLD = {"symbol": "what", "entry_at": "when in", "exit_at": "When_Out", "entry_price": "in", "exit_price": "out", "qty": "how much",
        "side": "which way"}  # fmt: skip


def test_columns_that_nobody_knows_can_be_told() -> None:
    text = "symbol," + ODD.replace("\n", "\nx,", 1)
    assert values_read(read(text, mapping=TOLD)) == ["long 2 BTC 100 -> 110"]


def test_a_constant_stands_for_a_column_and_an_empty_name_leaves_a_field_out() -> None:
    text = "side,entry_time,exit_time,entry_price,exit_price,qty,fee\nlong,2026-06-04T08:00Z,2026-06-04T09:00Z,100,110,2,7\n"
    reading = read(text, mapping={"symbol": "=GOLD", "fees": "", "strategy": "=night shift"})
    trade: Any = reading.found[0].value
    assert (trade.symbol, trade.fees, trade.strategy) == ("GOLD", 0, "night shift")
    assert values_read(read(text, symbol="GOLD")) == values_read(reading)


@pytest.mark.parametrize(
    ("mapping", "words"),
    [
        ({"colour": "side"}, "'colour' is not a field"),
        ({"entry_att": "side"}, "Did you mean entry_at"),
        ({"qty": "sise"}, "there is no column 'sise'. Did you mean 'side'"),
        ({"decimal": "dot"}, "map decimal: 'dot' is not known. Use one of point, comma"),
        ({"kind": "fills", "entry_at": "side"}, "'entry_at' is not a field of fills"),
    ],
)
def test_a_mapping_that_makes_no_sense_is_refused_with_its_fix(mapping: dict[str, str], words: str) -> None:
    with pytest.raises(Invalid) as error:
        read(TRADES + "BTC,long,2026-06-04T08:00Z,2026-06-04T09:00Z,1,2,3\n", mapping=mapping)
    assert words in str(error.value)


def test_a_file_that_lacks_a_column_says_which_and_how_to_name_it() -> None:
    with pytest.raises(Invalid) as error:
        read("symbol,side,price\nBTC,buy,1\n")
    assert str(error.value) == (
        "map: no column was found for time, qty (fills), or for entry_at, exit_at, exit_price, qty or pnl (closed trades). "
        "Give the column, like --map time=COLUMN; "
        "the columns are: symbol, side, price. If the file holds no trades, say what it holds: --kind decisions, --kind equity "
        "or --kind positions"
    )
    with pytest.raises(Invalid, match="Give it with --symbol"):
        read("time,side,qty,price\n2026-06-04T08:00Z,buy,1,1\n")


def test_pairs_are_split_at_the_first_equals_sign() -> None:
    assert option_pairs("map", ["side=a=b", "symbol==X"]) == {"side": "a=b", "symbol": "=X"}
    with pytest.raises(Invalid, match="Write it like --map NAME=VALUE"):
        option_pairs("map", ["side"])


def test_the_next_file_with_the_same_columns_is_read_as_the_last_was_committed(tmp_path: Path) -> None:
    memory = given_memory()
    header = "symbol,what,when in,when out,in,out,how much,which way\n"
    first = write_file(tmp_path, header + "x,BTC,2026-06-04 08:00,2026-06-04 09:00,100,110,2,long\n")
    run_import(memory, first, agent="desk", mapping=TOLD, zone="Europe/Berlin", commit=True)
    second = write_file(tmp_path, header + "x,ETH,2026-06-05 08:00,2026-06-05 09:00,100,90,2,short\n")
    answer = run_import(memory, second, agent="desk")
    assert (answer["mapping"]["by"], answer["trades"], answer["problems"]) == ("saved", 1, [])
    assert answer["totals"]["first"] == "2026-06-05T06:00:00Z"
    with pytest.raises(Invalid):
        run_import(memory, write_file(tmp_path, header.replace("what", "who") + "x,ETH,1,2,3,4,5,long\n"), agent="desk")


def test_a_mapping_survives_the_undo_of_its_import_and_can_be_guessed_again(tmp_path: Path) -> None:
    memory = given_memory()
    path = write_file(tmp_path, FILLS.replace("price", "price,limit") + "1,2026-06-04T08:00:00Z,BTC,buy,1,2,3,0\n")
    first = run_import(memory, path, agent="desk", mapping={"price": "limit"}, commit=True)
    memory.agent("desk").imports.undo(first["batch"])
    answer = run_import(memory, path, agent="desk")
    assert (answer["mapping"]["by"], answer["mapping"]["columns"]["price"]) == ("saved", "limit")
    again = run_import(memory, path, agent="desk", guess=True)
    assert (again["mapping"]["by"], again["mapping"]["columns"]["price"]) == ("guessed", "price")


def test_every_wrong_name_of_a_mapping_is_told_at_once() -> None:
    with pytest.raises(Invalid) as error:
        read(TRADES, mapping={"colour": "side", "qty": "sise", "decimal": "dot"})
    assert [problem.field for problem in error.value.errors] == ["map", "map qty", "map decimal"]


def test_a_column_with_a_plus_in_its_name_is_found_again(tmp_path: Path) -> None:
    memory = given_memory()
    header = "id,time,symbol,side,qty,price,a+b,c\n"
    path = write_file(tmp_path, header + "1,2026-06-04T08:00:00Z,BTC,buy,1,2,3,4\n")
    run_import(memory, path, agent="desk", mapping={"fees": "a+b+c"}, commit=True)
    assert run_import(memory, path, agent="desk")["totals"]["fees"] == "7"


def test_side_words_that_nobody_knows_are_asked_about_not_guessed_from_the_profit() -> None:
    text = TRADES.replace("qty", "pnl") + "DAX,Osto,2026-06-04T08:00Z,2026-06-04T09:00Z,100,110,10\n"
    reading = read(text)
    assert (reading.found, reading.problems[0].problem) == ([], "'Osto' is neither long nor short")
