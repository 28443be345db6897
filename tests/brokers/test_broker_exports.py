"""Exports as brokers write them: lots, funding among the fills, sums at the end, a zone in the heading, sales before purchases."""

from __future__ import annotations

import json
from decimal import Decimal

import pytest

from memtape.brokers.importer import ImportResult, group_problems
from memtape.brokers.totals import file_totals
from memtape.core.codec import decimal_text, time_text
from memtape.core.observed import ClosedTrade
from tests.brokers.desk import read


def net_of(reading: ImportResult) -> str:
    """What a file made after costs."""
    return decimal_text(file_totals(reading.found).net)


def blocked(reading: ImportResult) -> list[str]:
    """The problems that stop a commit."""
    return [f"{group.problems[0].field}: {group.problems[0].problem}" for group in group_problems(reading.problems) if group.blocks]


METATRADER_DEALS = """\
ticket,order,time,time_msc,type,entry,magic,position_id,reason,volume,price,commission,swap,profit,fee,symbol,comment
9000,0,1780500000,1780500000000,2,0,0,0,0,0,0,0,0,10000,0,,Deposit
9001,7001,1780578000,1780578000412,1,0,501,7001,3,0.3,1.2745,-1.05,0.0,0.0,0.0,GBPUSD,
9002,7002,1780587000,1780587000412,0,1,501,7001,5,0.3,1.2711,-1.05,0.45,102.0,0.0,GBPUSD,tp
"""


def test_the_profit_of_metatraders_deals_shows_the_size_of_a_lot_and_its_swap_is_a_cost():
    reading = read(METATRADER_DEALS)
    assert net_of(reading) == "100.35"
    assert "pnl is 100,000 x price move x qty for GBPUSD: qty is counted in units of 100,000" in reading.notes
    assert [each.decision and each.decision.reason for each in reading.found] == [None, None], "a code is no reason"


def test_the_bybit_list_of_executions_has_funding_among_its_fills():
    row = {"symbol": "BTCUSDT", "execQty": "0.010", "feeCurrency": "USDT"}
    rows = [
        {**row, "side": "Sell", "execId": "3", "execPrice": "65940", "execFee": "0.36267", "execType": "Trade",
         "execTime": "1780576200000"},
        {**row, "side": "Buy", "execId": "2", "execPrice": "65500", "execFee": "0.0655", "execType": "Funding",
         "execTime": "1780572000000"},
        {**row, "side": "Buy", "execId": "1", "execPrice": "65200", "execFee": "0.3586", "execType": "Trade",
         "execTime": "1780569000000"},
    ]  # fmt: skip
    reading = read(json.dumps({"retCode": 0, "result": {"category": "linear", "list": rows}}), "executions.json")
    assert net_of(reading) == "6.67873"
    assert file_totals(reading.found).open == {}
    assert "1 rows are not executions and were skipped: Funding 1" in reading.notes


ACTIVITY_STATEMENT = """\
Statement,Header,Field Name,Field Value
Trades,Header,DataDiscriminator,Asset Category,Currency,Symbol,Date/Time,Quantity,T. Price,C. Price,Proceeds,Comm/Fee,Basis,Realized P/L,Code
Trades,Data,Order,Options,USD,SPY 19JUN26 600 C,"2026-06-03, 09:30:00",2,3.10,3.2,-620,-1.3,621.3,0,O
Trades,Data,Order,Options,USD,SPY 19JUN26 600 C,"2026-06-04, 11:30:00",-2,4.10,4.1,820,-1.3,-621.3,197.4,C
Trades,Data,ClosedLot,Options,USD,SPY 19JUN26 600 C,"2026-06-03, 09:30:00",2,3.10,,,,621.3,197.4,O
Trades,SubTotal,,Options,USD,SPY 19JUN26 600 C,,0,,,200,-2.6,0,197.4,
Trades,Total,,Options,USD,,,,,,200,-2.6,0,197.4,
"""


def test_an_activity_statement_is_read_without_its_lots_and_sums_and_its_options_count_by_the_hundred():
    reading = read(ACTIVITY_STATEMENT, zone="America/New_York")
    assert blocked(reading) == []
    assert net_of(reading) == "197.4"
    assert len(reading.found) == 2
    assert "pnl is 100 x price move x qty for SPY 19JUN26 600 C: qty is counted in units of 100" in reading.notes


@pytest.mark.parametrize(("detail", "n"), [(("EXECUTION", "ORDER"), 2), (("ORDER", "ORDER"), 4)])
def test_a_trade_that_is_listed_at_two_levels_of_detail_counts_once(detail: tuple[str, str], n: int):
    header = "IBExecID,DateTime,Symbol,Buy/Sell,Quantity,TradePrice,LevelOfDetail\n"
    rows = [
        f"{level}{i},2026060{3 + i};093000,MSFT,{side},20,{425 + i},{level}"
        for level in detail for i, side in enumerate(("BUY", "SELL"))
    ]  # fmt: skip
    if detail[0] == detail[1]:
        rows = [row.replace(level, f"{k}{level}", 1) for k, (row, level) in enumerate(zip(rows, ["ORDER"] * 4, strict=True))]
    assert len(read(header + "\n".join(rows) + "\n").found) == n


def test_a_profit_that_the_fills_do_not_give_is_reported_and_does_not_stop_a_commit():
    reading = read("""\
Date(UTC),Symbol,Side,Price,Quantity,Fee,Fee Coin,Realized Profit
2026-06-04 10:30:00,BTCUSDT,BUY,65200,0.010,0.26,USDT,0
2026-06-04 12:30:00,BTCUSDT,SELL,65940,0.010,0.26,USDT,157.40
""")
    assert blocked(reading) == []
    assert "the file states a profit of 157.4 for BTCUSDT, its fills give 7.4" in [problem.problem for problem in reading.problems]


def test_a_profit_before_or_after_fees_agrees_with_the_fills():
    for stated in ("7.40", "7.14", "6.88"):
        reading = read(f"""\
Date(UTC),Symbol,Side,Price,Quantity,Fee,Fee Coin,Realized Profit
2026-06-04 10:30:00,BTCUSDT,BUY,65200,0.010,0.26,USDT,0
2026-06-04 12:30:00,BTCUSDT,SELL,65940,0.010,0.26,USDT,{stated}
""")
        assert [problem.field for problem in reading.problems if problem.field == "pnl"] == []


CTRADER = """\
ID,Symbol,Opening Direction,Opening Time (UTC+2),Closing Time (UTC+2),Entry Price,Closing Price,Closing Quantity,Commission,Swap,Gross USD,Net USD,Balance USD,Comment
PID1,EURUSD,Buy,02/03/2026 11:30:00.000,02/03/2026 13:15:20.000,1.08500,1.08750,0.10 Lots,-0.70,0.00,25.00,24.30,10024.30,
PID2,EURUSD,Sell,22/03/2026 11:30:00.000,22/03/2026 13:15:20.000,1.08500,1.08750,0.10 Lots,-0.70,0.00,-25.00,-25.70,9998.60,
"""


def test_the_zone_of_a_heading_is_the_zone_of_its_column():
    reading = read(CTRADER)
    assert blocked(reading) == [] and net_of(reading) == "-1.4"
    first = reading.found[0].value
    assert isinstance(first, ClosedTrade)
    assert (time_text(first.entry_at), first.qty) == ("2026-03-02T09:30:00Z", Decimal(10_000))
    assert reading.starting_equity == 10_000
    assert [problem.field for problem in reading.problems] == []


TRADOVATE = """\
symbol,_priceFormat,_priceFormatType,_tickSize,buyFillId,sellFillId,qty,buyPrice,sellPrice,pnl,boughtTimestamp,soldTimestamp,duration
MNQM6,-2,0,0.25,1,2,1,28331.75,28320.25,$(23.00),05/15/2026 20:11:36,05/15/2026 20:13:52,2min 16sec
MNQM6,-2,0,0.25,3,4,2,28300.00,28320.25,$81.00,05/15/2026 20:16:36,05/15/2026 20:14:52,1min 44sec
"""


def test_what_was_sold_before_it_was_bought_was_short():
    reading = read(TRADOVATE)
    assert blocked(reading) == []
    trades = [each.value for each in reading.found if isinstance(each.value, ClosedTrade)]
    assert [(t.side, decimal_text(t.entry_price), decimal_text(t.pnl or 0)) for t in trades] == [
        ("long", "28331.75", "-23"), ("short", "28320.25", "81"),
    ]  # fmt: skip
    assert all(trade.entry_at < trade.exit_at for trade in trades)


def test_open_and_close_are_prices_where_other_columns_are_the_times():
    reading = read("""\
date opened,date closed,ticker,action,position value,open,close,P/L
10/01/2025 09:30,10/01/2025 15:30,AAPL,Buy,"$25,000.00",250.00,252.00,$200.00
10/17/2025 09:30,10/17/2025 15:30,AAPL,Sell Short,"$25,000.00",250.00,252.00,($200.00)
""")
    assert blocked(reading) == []
    assert [each.value.qty for each in reading.found] == [100, 100]
    assert net_of(reading) == "0"


def test_a_dash_between_date_and_time_is_read():
    reading = read("""\
time,coin,dir,px,sz,ntl,fee,closedPnl
6/14/2026 - 10:30:00,ETH,Open Long,3410.0,1.5,5115.0,2.3,-2.3
6/14/2026 - 12:30:00,ETH,Close Long,3438.2,1.5,5157.3,2.32,39.98
""")
    assert blocked(reading) == []
    assert net_of(reading) == "37.68"


def test_an_entry_price_of_zero_is_refused():
    reading = read("""\
symbol,side,qty,entry_time,entry_price,exit_time,exit_price
EURUSD,buy,1000,2025-10-06 10:00,0,2025-10-06 12:00,1.11
""")
    assert blocked(reading) == ["entry_price: is 0"]
