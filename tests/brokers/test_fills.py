"""Fills: what was done, in which order, on which leg, and why."""

from __future__ import annotations

from decimal import Decimal

import pytest

from memtape.brokers.totals import file_totals
from memtape.core.fills import Fill

from .desk import FILLS, problem_line, read, read_fill, values_read

T = "2026-06-04T08:00:00Z"


def test_bought_and_sold_columns_make_a_fill_of_either_kind() -> None:
    text = (
        "Date,Ticker,Shares Bought,Buy Price,Cost Basis,PnL,Reason,Shares Sold,Sell Price\n"
        "2025-06-30,ABEO,6.0,5.77,34.62,0.0,MANUAL BUY - initial,,\n2025-08-01,ABEO,,,11.54,1.2,MANUAL SELL - trim,2.0,6.37\n"
    )
    reading = read(text)
    assert values_read(reading) == ["buy 6 ABEO @ 5.77 2025-06-30T00:00:00Z", "sell 2 ABEO @ 6.37 2025-08-01T00:00:00Z"]
    decision = reading.found[1].decision
    assert decision is not None
    assert (decision.reason, decision.action) == ("MANUAL SELL - trim", "sell")
    assert reading.found[1].value.decision == decision.id  # type: ignore[union-attr]


def test_a_negative_quantity_is_a_sale_where_no_column_says_side() -> None:
    reading = read(f"time,symbol,qty,price\n{T},MSFT,20,431\n{T},MSFT,-20,432\n")
    assert [line.split(" @")[0] for line in values_read(reading)] == ["buy 20 MSFT", "sell 20 MSFT"]


def test_without_side_and_without_sign_every_row_asks() -> None:
    reading = read(f"time,symbol,qty,price\n{T},MSFT,20,431\n{T},MSFT,20,432\n")
    assert [p.field for p in reading.problems] == ["side", "side"]
    assert len(read(f"time,symbol,qty,price\n{T},MSFT,20,431\n", mapping={"side": "=buy"}).found) == 1


def test_orders_that_came_to_nothing_are_no_fills() -> None:
    reading = read(
        f"time,symbol,side,qty,price,status\n{T},A,buy,1,2,filled\n{T},A,buy,1,2,cancelled\n{T},A,no_trade,0,,\n{T},A,buy,0,2,\n"
    )
    assert len(reading.found) == 1
    assert reading.notes == ["3 rows are not executions and were skipped: no_trade 1, cancelled 1, quantity 0 1"]


def test_a_partly_filled_cancelled_order_counts_what_was_filled() -> None:
    reading = read(f"time,symbol,side,filled_qty,price,status\n{T},A,buy,3,2,canceled\n{T},A,buy,0,2,canceled\n")
    assert values_read(reading) == [f"buy 3 A @ 2 {T}"]


def test_fills_of_one_moment_keep_the_order_of_the_file_also_when_the_newest_stand_on_top() -> None:
    rows = [f"1,{T},A,buy,1,10,0", f"2,{T},A,sell,1,11,0", "3,2026-06-04T09:00:00Z,A,buy,1,12,0"]
    oldest_first = read(FILLS + "\n".join(rows))
    newest_first = read(FILLS + "\n".join(reversed(rows)))
    order = {f.value.id: f.value.seq for f in oldest_first.found}  # type: ignore[union-attr]
    assert order == {"1": 0, "2": 1, "3": 0}
    assert {f.value.id: f.value.seq for f in newest_first.found} == order  # type: ignore[union-attr]


def test_hedge_mode_has_a_leg_for_each_side_and_one_way_mode_has_none() -> None:
    text = f"time,symbol,side,positionSide,qty,price\n{T},BTC,BUY,LONG,1,2\n{T},BTC,SELL,SHORT,1,2\n{T},BTC,SELL,BOTH,1,2\n"
    assert [f.value.leg for f in read(text).found] == ["LONG", "SHORT", ""]  # type: ignore[union-attr]


def test_accounts_in_one_file_are_not_netted_against_each_other() -> None:
    text = f"model,id,time,symbol,side,qty,price\ngpt,1,{T},NVDA,buy,5,10\ngrok,1,{T},NVDA,sell,5,11\ngpt,2,{T},NVDA,sell,5,12\n"
    reading = read(text)
    assert [(f.value.id, f.value.leg) for f in reading.found] == [  # type: ignore[union-attr]
        ("gpt:1", "gpt"), ("grok:1", "grok"), ("gpt:2", "gpt"),
    ]  # fmt: skip
    alone = read(text, where={"model": "gpt"})
    assert [(f.value.id, f.value.leg) for f in alone.found] == [("1", ""), ("2", "")]  # type: ignore[union-attr]


def test_a_fee_in_the_coin_that_was_bought_is_counted_at_its_price() -> None:
    head = "time,symbol,side,qty,price,fee,fee_currency"
    assert str(read_fill(head, f"{T},BTC/USDT,buy,0.5,60000,0.0005,BTC").fee) == "3E+1"
    assert str(read_fill(head, f"{T},BTCUSDT,buy,0.5,60000,0.3,USDT").fee) == "0.3"


def test_a_fee_in_a_third_coin_is_named_and_not_taken_for_dollars_and_the_fill_counts() -> None:
    reading = read(f"time,symbol,side,qty,price,fee,fee_currency\n{T},BTCUSDT,buy,0.5,60000,0.0003,BNB\n")
    assert problem_line(reading.problems[0]) == (
        "2: fees (fee): the fee is in BNB, the account is in USD: not counted. To count it, convert it in the file"
    )
    assert not reading.problems[0].blocks
    (found,) = reading.found
    assert isinstance(found.value, Fill)
    assert (found.value.qty, found.value.fee, found.value.fee_currency) == (Decimal("0.5"), Decimal("0.0003"), "BNB")
    assert file_totals(reading.found).fees == 0


def test_a_fee_that_names_its_coin_in_the_cell_is_in_that_coin() -> None:
    head = "Date(UTC),Pair,Side,Price,Executed,Amount,Fee"
    assert read_fill(head, f'{T},BTCUSDT,BUY,"65,000.00",0.01BTC,650USDT,0.00001BTC').fee == Decimal("0.65")
    assert read_fill(head, f'{T},BTCUSDT,SELL,"65,000.00",0.01BTC,650USDT,0.65USDT').fee == Decimal("0.65")
    assert read_fill(head, f'{T},BTCUSDT,SELL,"65,000.00",0.01BTC,650USDT,0.001BNB').fee_currency == "BNB"


def test_of_an_order_that_filled_in_part_the_filled_quantity_counts() -> None:
    head = "id,filled_at,symbol,qty,filled_qty,filled_avg_price,side,status"
    assert read_fill(head, f"1,{T},AAPL,10,6,202,sell,partially_filled").qty == 6


def test_an_exit_that_tradingview_lists_for_an_open_trade_has_not_happened() -> None:
    head = "Trade #,Type,Date and time,Signal,Price USD,Size (qty),Net P&L USD"
    reading = read(f"{head}\n1,Exit long,2026-09-24 14:00,Open,4200,25,0\n1,Entry long,2026-09-24 08:00,LONG,4190,25,0\n", symbol="ES")
    assert reading.found == []
    assert [problem.problem for problem in reading.problems if problem.line] == ["still open, skipped"]


def test_an_export_of_orders_with_payments_between_them_is_read_as_fills() -> None:
    head = "Action,Time,Ticker,No. of shares,Price / share,Currency (Price / share),Exchange rate,Result,Total,Notes,ID"
    rows = f"Market buy,{T},AAPL,10,200,USD,1.14,,1754.39,,E1\nDividend (Dividend),{T},AAPL,10,0.25,USD,1.14,,2.19,,\n"
    assert values_read(read(f"{head}\n{rows}")) == [f"buy 10 AAPL @ 200 {T}"]


def test_stop_strategy_and_confidence_go_into_the_decision_a_fill_names() -> None:
    reading = read(f"id,time,symbol,side,qty,price,reason,strategy,stop,confidence\nf1,{T},BTC,buy,1,100,breakout,trend,95,80%\n")
    decision = reading.found[0].decision
    assert decision is not None
    assert (decision.id, decision.stop, decision.strategy, decision.confidence) == ("f1", 95, "trend", Decimal("0.8"))


def test_a_fill_without_an_id_is_named_by_what_it_says_not_by_where_it_stands() -> None:
    rows = [f"{T},A,buy,1,10", f"{T},A,buy,1,10", f"{T},B,buy,1,10"]
    head = "time,symbol,side,qty,price\n"
    names = [f.value.id for f in read(head + "\n".join(rows)).found]  # type: ignore[union-attr]
    assert names[1] == f"{names[0]}#2"
    other_dress = head.replace(",", ";") + "\n".join(reversed(rows)).replace(",", ";").replace("10", "10,00")
    assert sorted(f.value.id for f in read(other_dress).found) == sorted(names)  # type: ignore[union-attr]


def test_an_id_that_comes_back_with_another_content_is_numbered_in_order_of_time() -> None:
    late = "2026-06-04T10:00:00Z"
    reading = read(FILLS + f"7001,{late},A,sell,2,11,0\n7001,{T},A,sell,1,10,0\n7001,{T},A,sell,1,10,0\n")
    assert [f.value.id for f in reading.found] == ["7001#2", "7001", "7001"]  # type: ignore[union-attr]


def test_ids_that_are_unique_only_within_a_symbol_are_named_with_it() -> None:
    reading = read(FILLS + f"1,{T},BTCUSDT,buy,1,10,0\n1,{T},ETHUSDT,buy,1,10,0\n")
    assert [f.value.id for f in reading.found] == ["BTCUSDT:1", "ETHUSDT:1"]  # type: ignore[union-attr]
    assert reading.mapping["id"] == "symbol+id"


@pytest.mark.parametrize("id_", ["x" * 500, "id\x00with\x01controls".replace("\x00", ""), "\u202eevil"])
def test_any_id_becomes_one_that_can_be_kept(id_: str) -> None:
    (found,) = read(FILLS + f"{id_},{T},A,buy,1,10,0\n").found
    assert 1 <= len(found.value.id) <= 128  # type: ignore[union-attr]
