"""Exports of journals, platforms and brokers in several languages: true money, or a question; never a row lost without a word."""

from __future__ import annotations

import json

import pytest

from memtape.brokers.importer import ImportResult, group_problems
from memtape.brokers.totals import file_totals
from memtape.core.codec import decimal_text
from memtape.errors import Invalid
from tests.brokers.desk import read, values_read


def money(reading: ImportResult) -> tuple[str, str, str]:
    """The net, the gross and the fees of a file."""
    totals = file_totals(reading.found)
    return decimal_text(totals.net), decimal_text(totals.gross), decimal_text(totals.fees)


def blocked(reading: ImportResult) -> list[str]:
    """The fields of the problems that stop a commit."""
    return [group.problems[0].field for group in group_problems(reading.problems) if group.blocks]


def test_where_the_side_is_that_of_the_position_closing_it_is_the_opposite_order():
    reading = read(
        "trade_id,event,time,symbol,side,qty,price,fee\n"
        "1,OPEN,2026-06-04T10:00:00Z,BTC,long,0.1,65200,1\n"
        "1,CLOSE,2026-06-04T12:30:00Z,BTC,long,0.1,65940,1\n"
        "2,OPEN,2026-06-05T10:00:00Z,BTC,short,0.1,65900,1\n"
        "2,CLOSE,2026-06-05T12:30:00Z,BTC,short,0.1,66000,1\n"
    )
    assert [line.split(" @")[0] for line in values_read(reading)] == ["buy 0.1 BTC", "sell 0.1 BTC", "sell 0.1 BTC", "buy 0.1 BTC"]
    assert money(reading) == ("60", "64", "4")
    assert "side is the side of the position; event says what opened and closed it" in reading.notes


def test_opening_and_closing_do_not_turn_what_was_bought_and_sold():
    reading = read(
        "time,symbol,side,open/close,qty,price\n2026-06-04T10:00:00Z,BTC,sell,open,0.1,65900\n"
        "2026-06-04T11:00:00Z,BTC,buy,close,0.1,65800\n"
    )
    assert money(reading)[0] == "10"


def test_commissions_and_fees_of_a_journal_are_two_costs():
    reading = read(
        "Account Name,Symbol,Status,Side,Open Date,Open Time,Close Date,Close Time,Entry Price,Exit Price,Quantity,Gross P&L,"
        "Commissions,Fees,Net P&L\n"
        "Main,NVDA,WIN,Long,06/04/2026,09:45:00,06/04/2026,11:30:00,$120.50,$123.00,100,$250.00,$1.00,$0.50,$248.50\n"
        "Main,TSLA,LOSS,Short,06/15/2026,10:00:00,06/15/2026,10:20:00,$250.00,$252.00,50,($100.00),$1.00,$0.50,($101.50)\n"
    )
    assert money(reading) == ("147", "150", "3")


def test_the_sum_at_the_foot_of_a_file_is_no_trade_and_no_problem():
    reading = read(
        '"Date","Action","Symbol","Quantity","Price","Fees & Comm","Amount"\n'
        '"06/15/2026","Sell","AAPL","10","$201.50","$0.02","$2,014.98"\n'
        '"06/04/2026","Buy","AAPL","10","$200.00","","-$2,000.00"\n'
        '"06/01/2026","MoneyLink Transfer","","","","","$5,000.00"\n'
        '"Transactions Total","","","","","","$5,014.98"\n'
    )
    assert money(reading) == ("14.98", "15", "0.02")
    assert blocked(reading) == []
    assert any("MoneyLink Transfer 1" in note and "total 1" in note for note in reading.notes)


def test_a_sum_without_a_name_is_no_open_trade():
    reading = read(
        "Time;Position;Symbol;Type;Volume;Price;S / L;T / P;Time;Price;Commission;Swap;Profit\n"
        "2026.06.04 10:00:00;7001;GBPUSD;sell;0.30;1.27450;1.27800;1.27000;2026.06.04 12:30:00;1.27110;-2.10;0.45;102.00\n"
        ";;;;;;;;;;-2.10;0.45;102.00\n"
    )
    assert money(reading) == ("100.35", "102", "2.1")
    assert [problem.field for problem in reading.problems if problem.line] == []


def test_a_row_that_lacks_only_its_time_is_still_reported():
    reading = read("time,symbol,side,qty,price\n,BTC,buy,1,100\n2026-06-04T10:00:00Z,BTC,sell,1,110\n")
    assert blocked(reading) == ["time"]


def test_dividends_and_deposits_among_the_activities_of_an_account_are_counted_and_left_out():
    fill = {"activity_type": "FILL", "type": "fill", "symbol": "AAPL", "qty": "5", "order_status": "filled"}
    reading = read(
        json.dumps([
            {**fill, "id": "1", "transaction_time": "2026-06-04T14:00:00.412Z", "price": "226.10", "side": "buy"},
            {**fill, "id": "2", "transaction_time": "2026-06-04T16:30:00.412Z", "price": "231.42", "side": "sell"},
            {"id": "3", "activity_type": "DIV", "date": "2026-06-05", "net_amount": "1.02", "symbol": "AAPL", "qty": "5"},
            {"id": "4", "activity_type": "CSD", "date": "2026-06-01", "net_amount": "10000"},
        ]),
        "activities.json",
    )
    assert money(reading)[0] == "26.6"
    assert blocked(reading) == []
    assert "2 rows are not executions and were skipped: DIV 1, CSD 1" in reading.notes


@pytest.mark.parametrize(
    ("text", "encoding", "net", "currency"),
    [
        (
            "Datum Eröffnung;Datum Schließung;Instrument;Richtung;Stückzahl;Einstiegskurs;Ausstiegskurs;Gebühren;Gewinn/Verlust (€)\n"
            "04.06.2026 10:00;04.06.2026 12:30;DAX;Long;2;18.500,50;18.560,50;3,00;117,00\n"
            "05.06.2026 09:00;05.06.2026 09:30;DAX;Short;1;18.600,00;18.640,00;1,50;-41,50\n",
            "cp1252", "75.5", "EUR",
        ),
        (
            "Date d'ouverture;Date de clôture;Instrument;Sens;Quantité;Prix d'entrée;Prix de sortie;Frais;Résultat net (€)\n"
            "04/06/2026 10:00;04/06/2026 12:30;CAC40;Achat;2;7 500,50;7 530,50;2,00;58,00\n"
            "25/06/2026 09:00;25/06/2026 09:30;CAC40;Vente;1;7 600,00;7 640,00;1,00;-41,00\n",
            "utf-8", "17", "EUR",
        ),
        (
            "Datum,Uhrzeit,Produkt,ISIN,Anzahl,Kurs,Transaktionsgebühren,Order-ID\n"
            '04-06-2026,09:45,SAP SE,DE0007164600,10,"200,00","-2,00",o1\n25-06-2026,11:30,SAP SE,DE0007164600,-10,"203,50","-2,00",o2\n',
            "utf-8", "31", "USD",
        ),
    ],
    ids=["German journal", "French journal", "German executions"],
)  # fmt: skip
def test_files_in_german_and_french_are_read(text: str, encoding: str, net: str, currency: str):
    reading = read(text.encode(encoding))
    assert blocked(reading) == []
    assert money(reading)[0] == net
    assert (reading.currency or "USD") == currency


def test_times_in_milliseconds_are_named_as_such():
    reading = read(
        "id,coin,direction,opened_ms,closed_ms,size_usd,entry,exit,pnl_usd,conviction\n"
        "1,BTC,long,1780567200000,1780576200000,6520,65200,65940,74,85\n"
        "2,ETH,short,1780567200000,1780576200000,3410,3410,3438.2,-28.2,40\n"
    )
    assert money(reading)[0] == "45.8"


def test_the_closing_direction_is_the_side_of_the_order_that_closed():
    reading = read(
        "Contracts,Closing Direction,Qty,Entry Price,Exit Price,Closed P&L,Created Time,Trade Time(UTC+0)\n"
        "BTCUSDT,Sell,0.010,65200,65940,6.67873,2026-06-04 10:00:00,2026-06-04 12:30:00\n"
        "ETHUSDT,Buy,1,3500,3520,-23.86,2026-06-05 10:00:00,2026-06-05 12:30:00\n",
        mapping={"entry_at": "Created Time", "exit_at": "Trade Time(UTC+0)"}, zone="UTC",
    )  # fmt: skip
    assert values_read(reading) == ["long 0.01 BTCUSDT 65200 -> 65940", "short 1 ETHUSDT 3500 -> 3520"]
    assert money(reading)[0] == "-17.18127"


OPTIONS = (
    "Date,Type,Action,Symbol,Value,Quantity,Average Price,Commissions,Fees,Multiplier\n"
    "2026-06-15T11:45:00-0400,Trade,SELL_TO_CLOSE,AAPL  260619C00200000,{sold},1,{px},0.00,-0.14,100\n"
    "2026-06-04T09:45:00-0400,Trade,BUY_TO_OPEN,AAPL  260619C00200000,{bought},1,{paid},-1.00,-0.13,100\n"
    "2026-06-01T09:45:00-0400,Money Movement,,,5000.00,0,--,0.00,,\n"
)


def test_a_price_with_the_sign_of_the_cash_is_a_price_and_counts_its_multiplier_once():
    reading = read(OPTIONS.format(sold="150.00", px="150.00", bought="-125.00", paid="-125.00"))
    assert money(reading) == ("23.73", "25", "1.27")
    assert "Average Price is negative in all purchases and in no sale: the sign is that of the cash" in reading.notes
    assert "Average Price x qty is Value: the price contains the multiplier" in reading.notes


def test_a_price_of_one_share_counts_by_the_multiplier():
    reading = read(OPTIONS.format(sold="150.00", px="1.50", bought="-125.00", paid="1.25"))
    assert money(reading) == ("23.73", "25", "1.27")


def test_a_price_below_zero_stays_below_zero():
    reading = read(
        "time,symbol,side,qty,price\n2020-04-20T18:00:00Z,CL,buy,1,-10\n2020-04-20T19:00:00Z,CL,sell,1,-37\n"
    )
    assert money(reading)[0] == "-27"


# ---- MetaTrader's reports as web pages --------------------------------------------------------------------------------------

STATEMENT = """<html><head><title>Statement: 123 - John</title></head><body><table>
<tr align=left><td colspan=2><b>Account: 123</b></td><td colspan=5><b>Name: John</b></td><td colspan=2><b>Currency: EUR</b></td></tr>
<tr align=left><td colspan=13><b>Closed Transactions:</b></td></tr>
<tr align=center><td>Ticket</td><td>Open Time</td><td>Type</td><td>Size</td><td>Item</td><td>Price</td><td>S / L</td><td>T / P</td>
<td>Close Time</td><td>Price</td><td>Commission</td><td>Taxes</td><td>Swap</td><td>Profit</td></tr>
<tr><td>1</td><td>2026.06.01 00:00:00</td><td>balance</td><td colspan=10 align=left>Deposit</td><td>10 000.00</td></tr>
<tr><td>7001</td><td>2026.06.04 10:00:00</td><td>sell</td><td>0.30</td><td>gbpusd</td><td>1.27450</td><td>1.27800</td><td>1.27000</td>
<td>2026.06.04 12:30:00</td><td>1.27110</td><td>-2.10</td><td>0.00</td><td>0.45</td><td>102.00</td></tr>
<tr><td>7003</td><td>2026.06.05 10:00:00</td><td>buy</td><td>0.10</td><td>eurusd</td><td>1.10000</td><td>0.00000</td><td>0.00000</td>
<td>2026.06.05 12:30:00</td><td>1.09900</td><td>-0.70</td><td>0.00</td><td>0.00</td><td>-10.00</td></tr>
<tr><td colspan=10></td><td>-2.80</td><td>0.00</td><td>0.45</td><td>92.00</td></tr>
<tr><td colspan=14><b>Open Trades:</b></td></tr>
<tr><td>7009</td><td>2026.06.05 10:00:00</td><td>buy</td><td>9.99</td><td>eurusd</td><td>1.10000</td><td>0</td><td>0</td>
<td></td><td>1.09900</td><td>0</td><td>0</td><td>0</td><td>-999.00</td></tr>
</table></body></html>"""

REPORT = """<html><head><meta charset="utf-16"></head><body><table>
<tr><th colspan="14">Trade History Report</th></tr><tr><th>Account:</th><th>12345678 (USD, Broker, demo, Hedge)</th></tr>
<tr><th colspan="14"><b>Positions</b></th></tr>
<tr><td>Time</td><td>Position</td><td>Symbol</td><td>Type</td><td>Volume</td><td>Price</td><td>S / L</td><td>T / P</td><td>Time</td>
<td>Price</td><td>Commission</td><td>Swap</td><td colspan="2">Profit</td></tr>
<tr><td>2026.06.04 10:00:00</td><td>7001</td><td>GBPUSD</td><td>sell</td><td class="hidden" colspan="8">ea</td><td>0.30</td>
<td>1.27450</td><td>1.27800</td><td>1.27000</td><td>2026.06.04 12:30:00</td><td>1.27110</td><td>-2.10</td><td>0.45</td>
<td colspan="2">102.00</td></tr>
<tr><th colspan="14"><b>Deals</b></th></tr>
<tr><td>Time</td><td>Deal</td><td>Symbol</td><td>Type</td><td>Direction</td><td>Volume</td><td>Price</td><td>Order</td>
<td>Commission</td><td>Fee</td><td>Swap</td><td>Profit</td><td>Balance</td><td>Comment</td></tr>
<tr><td>2026.06.04 10:00:00</td><td>9001</td><td>GBPUSD</td><td>sell</td><td>in</td><td>0.30</td><td>1.27450</td><td>7001</td>
<td>-1.05</td><td>0.00</td><td>0.00</td><td>0.00</td><td>9 998.95</td><td></td></tr>
</table></body></html>"""


def test_the_statement_of_metatrader_4_is_read_from_its_page():
    reading = read(STATEMENT, "statement.htm", zone="+03:00")
    assert money(reading) == ("89.65", "92", "2.8")
    assert values_read(reading) == ["short 30000 gbpusd 1.2745 -> 1.2711", "long 10000 eurusd 1.1 -> 1.099"]
    assert reading.currency == "EUR"
    assert "2 rows of sums and cash are left out" in reading.notes


def test_the_report_of_metatrader_5_is_read_from_its_page_and_its_deals_do_not_count_again():
    reading = read(("\ufeff" + REPORT).encode("utf-16-le"), "ReportHistory-12345678.html", zone="+03:00")
    assert money(reading) == ("100.35", "102", "2.1")
    assert reading.currency == "USD"


def test_a_web_page_without_trades_is_refused_as_one():
    with pytest.raises(Invalid, match="is a web page without a table of trades"):
        read("<!DOCTYPE html><html><body><p>Log in</p></body></html>", "report.html")


TRADINGVIEW = """\
\ufeffTrade #,Type,Signal,Date/Time,Price USD,Contracts,Profit USD,Profit %,Cumulative profit USD
2,Exit short,Close,2026-06-05 12:00,612.00,10,-122.00,-2.03,-64.00
2,Entry short,Short,2026-06-05 10:00,600.00,10,-122.00,-2.03,-64.00
1,Exit long,TP,2026-06-04 12:00,606.00,10,58.00,0.97,58.00
1,Entry long,Long,2026-06-04 10:00,600.00,10,58.00,0.97,58.00
"""


def test_the_entry_and_the_exit_of_a_strategy_tester_are_one_trade_whose_result_counts_once():
    reading = read(TRADINGVIEW, symbol="SPY")
    assert sorted(values_read(reading)) == ["long 10 SPY 600 -> 606", "short 10 SPY 600 -> 612"]
    assert money(reading)[0] == "-64"


def test_a_list_of_a_strategy_tester_without_a_symbol_asks_for_it():
    with pytest.raises(Invalid, match="no column was found for symbol"):
        read(TRADINGVIEW)


def test_sections_of_a_statement_without_trades_do_not_stop_the_import():
    reading = read(
        "Trades,Header,DataDiscriminator,Asset Category,Currency,Symbol,Date/Time,Quantity,T. Price,Proceeds,Comm/Fee,Realized P/L\n"
        'Trades,Data,Order,Stocks,USD,MSFT,"2026-06-04, 10:00:00","1,200",425,-510000,-6,0\n'
        'Trades,Data,Order,Stocks,USD,MSFT,"2026-06-04, 11:30:00","-1,200",431.2,517440,-6.5,7427.5\n'
        "Interest,Header,Currency,Date,Description,Amount\nInterest,Data,USD,2026-06-05,USD Credit Interest,1.23\n"
        "Fees,Header,Subtitle,Currency,Date,Description,Amount\n"
        "Fees,Data,Other Fees,USD,2026-06-05,Data,-10\nFees,Data,Other Fees,USD,2026-06-06,Data,-10\n"
    )
    assert blocked(reading) == []
    assert money(reading)[0] == "7427.5"
    left_out = "rows of other sections of the statement are left out, with any money in them: Fees 2, Interest 1"
    assert left_out in reading.notes


def test_fees_and_spread_of_an_exchange_are_costs():
    reading = read(
        "Transactions\nUser,J Doe\n"
        "ID,Timestamp,Transaction Type,Asset,Quantity Transacted,Price Currency,Price at Transaction,Subtotal,"
        "Total (inclusive of fees and/or spread),Fees and/or Spread,Notes\n"
        "a2,2026-06-04 10:00:00 UTC,Buy,BTC,0.01,USD,$65200.00,$652.00,$655.26,$3.26,Bought\n"
        "a4,2026-06-06 10:00:00 UTC,Sell,BTC,0.01,USD,$65940.00,$659.40,$656.10,$3.30,Sold\n"
    )
    assert money(reading) == ("0.84", "7.4", "6.56")


def test_the_profit_of_a_futures_platform_after_commission_shows_its_contract():
    reading = read(
        "Trade number;Instrument;Market pos.;Qty;Entry price;Exit price;Entry time;Exit time;Profit;Commission\n"
        "1;ES 06-26;Long;1;5950,25;5955,25;24.06.2026 09:31:00;24.06.2026 09:40:00;245,44 $;4,56 $\n"
        "2;ES 06-26;Short;2;5960,00;5962,50;25.06.2026 09:31:00;25.06.2026 09:40:00;-259,12 $;9,12 $\n"
    )
    assert money(reading) == ("-13.68", "0", "13.68")
    assert [trade.split(" ES")[0] for trade in values_read(reading)] == ["long 50", "short 100"]


def test_the_quantity_of_contracts_is_not_taken_for_their_name():
    with pytest.raises(Invalid, match="no column was found for symbol"):
        read("Buy/Sell,Contracts,Entry Time,Exit Time,Entry Px,Exit Px,Net P/L\n"
             "B,3,2026-06-04 13:31,2026-06-04 14:00,5950,5940,-1512.60\n")  # fmt: skip


def test_a_column_of_currencies_by_its_short_name_is_the_currency():
    reading = read("Closed,Opened,Market,Size,Opening,Closing,Curr.,P/L\n"
                   "25-06-2026 12:00,25-06-2026 10:00,Germany 40,-1,24100,24150,EUR,-50\n")  # fmt: skip
    assert reading.currency == "EUR"


def test_a_column_that_may_be_a_cost_and_is_not_used_is_named():
    head = "symbol,side,qty,entry_time,exit_time,entry_price,exit_price,broker fee total"
    row = "SPY,long,1,2026-06-04T10:00:00Z,2026-06-04T12:00:00Z,600,602"
    asked = [p for p in read(f"{head}\n{row},1.25\n").problems if p.field == "fees"]
    assert [p.problem for p in asked] == ["'broker fee total' may be a cost and is not counted"]
    assert not asked[0].blocks
    assert money(read(f"{head}\n{row},1.25\n", mapping={"fees": "broker fee total"})) == ("0.75", "2", "1.25")
    assert [p for p in read(f"{head}\n{row},0.00\n").problems if p.field == "fees"] == []


def test_funding_and_deposits_between_the_fills_are_counted_and_do_not_stop_the_import():
    reading = read(
        "time,type,symbol,side,qty,price,fee,amount\n"
        "2026-06-04 08:00:00,trade,BTC-PERP,buy,0.1,65000,3.25,\n"
        "2026-06-04 16:00:00,funding,BTC-PERP,,,,,-0.65\n"
        "2026-06-05 08:00:00,trade,BTC-PERP,sell,0.1,65500,3.275,\n"
        "2026-06-05 09:00:00,deposit,USDC,,,,,500\n"
        "2026-06-05 10:00:00,trade,BTC-PERP,buy,,,,\n"
    )
    assert money(reading)[0] == "43.475"
    assert "2 rows are not executions and were skipped: funding 1, deposit 1" in reading.notes
    assert blocked(reading) == ["qty", "price"], "a trade that lacks its figures is a row to correct"
