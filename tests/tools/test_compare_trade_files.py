"""The comparison of files of trades with what they state themselves."""

from __future__ import annotations

from pathlib import Path

from tools.compare_trade_files import compare

HEAD = "symbol,side,entry_time,exit_time,entry_price,exit_price,qty"
SPAN = "2026-06-04T08:00:00Z,2026-06-04T09:00:00Z"


def test_a_profit_that_the_prices_do_not_give_is_named_with_its_symbol(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text(
        "Date,Ticker,Shares Bought,Buy Price,PnL,Shares Sold,Sell Price\n"
        "2026-06-01,A,2,10,0,,\n2026-06-02,A,,,5,2,12\n2026-06-01,B,1,10,0,,\n2026-06-02,B,,,1,1,11\n"
    )
    why = "sum of PnL; by name: A -1.00; 1 rows: the file states a profit of 5 for A, its fills give 4"
    assert compare(path, "UTC") == ("log.csv", "4", "2", "5", "6", "-1", why)


def test_a_file_that_agrees_with_itself_has_no_difference(tmp_path: Path) -> None:
    path = tmp_path / "trades.csv"
    path.write_text(f"{HEAD},pnl\nBTC,long,{SPAN},100,110,2,20\n")
    assert compare(path, "UTC")[1:] == ("1", "1", "20", "20", "0", "sum of pnl")


def test_a_file_of_something_else_is_named_as_such(tmp_path: Path) -> None:
    path = tmp_path / "weather.csv"
    path.write_text("symbol,weather\nBTC,rain\n")
    assert compare(path, "UTC")[6].startswith("not a file of trades: no column was found for")
