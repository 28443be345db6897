"""Closed trades: what their money columns mean, and which rows are no closed trades."""

from __future__ import annotations

from decimal import Decimal

import pytest

from .desk import TRADES, problem_line, read, read_trade, values_read

HEAD = "symbol,side,entry_time,exit_time,entry_price,exit_price"
SPAN = "2026-06-04T08:00:00Z,2026-06-04T09:00:00Z"


def test_every_column_of_a_rich_file_is_kept() -> None:
    trade = read_trade(
        f"trade_id,{HEAD},qty,pnl,fees,funding,leverage,stop,target,entry_reason,exit_reason,strategy,tags,session,regime",
        f"t1,BTC,long,{SPAN},100,110,2,20,1.5,-0.25,3x,95,120,broke out,target hit,breakout,a; b,LONDON,trending",
    )
    assert (trade.trade_id, trade.qty, trade.pnl, trade.fees, trade.funding) == (
        "t1", Decimal(2), Decimal(20), Decimal("1.5"), Decimal("-0.25"),
    )  # fmt: skip
    assert (trade.leverage, trade.stop, trade.target) == (3, 95, 120)
    assert (trade.entry_reason, trade.exit_reason, trade.strategy, trade.tags) == (
        "broke out",
        "target hit",
        "breakout",
        ("a", "b"),
    )
    assert trade.situation is not None
    assert (trade.situation.session, trade.situation.regime) == ("london", "trending")


def test_a_setup_in_a_few_words_is_a_tag_and_the_reason_where_no_other_is_given() -> None:
    sentence = "waited for the second close above the range before I bought"
    named = read_trade(f"{HEAD},pnl,Setup,Tags", f"BTC,long,{SPAN},100,110,10,Opening range; news,A+")
    assert (named.tags, named.entry_reason) == (("A+", "Opening range", "news"), "Opening range; news")
    told = read_trade(f"{HEAD},pnl,Setup", f"BTC,long,{SPAN},100,110,10,{sentence}")
    assert (told.tags, told.entry_reason) == ((), sentence)
    both = read_trade(f"{HEAD},pnl,Pattern,Thesis", f"BTC,long,{SPAN},100,110,10,flag,rates fall")
    assert (both.tags, both.entry_reason) == (("flag",), "rates fall")


def test_profit_without_quantity_is_enough() -> None:
    trade = read_trade(f"{HEAD},pnl", f"XAUUSD,BUY,{SPAN},1893.9,1899.4,10.54")
    assert (trade.qty, trade.pnl) == (None, Decimal("10.54"))


def test_a_journal_that_states_only_r_is_a_file_of_trades() -> None:
    trade = read_trade(f"{HEAD},R", f"EURUSD,long,{SPAN},1.10,1.11,+1.5")
    assert (trade.qty, trade.pnl, trade.pnl_r) == (None, None, 1.5)
    # The side may be missing: a gain while the price rose was a long.
    sideless = read(f"{HEAD.replace('side,', '')},r multiple\nEURUSD,{SPAN},1.10,1.11,2\nEURUSD,{SPAN},1.11,1.12,-1\n")
    assert [found.value.side for found in sideless.found] == ["long", "short"]  # type: ignore[union-attr]


def test_an_r_against_the_profit_is_left_out_and_told() -> None:
    reading = read(f"{HEAD},pnl,R\nBTC,long,{SPAN},100,110,20,-1\nBTC,long,{SPAN},101,110,20,2\n")
    assert [(f.value.pnl, f.value.pnl_r) for f in reading.found] == [(20, None), (20, 2.0)]  # type: ignore[union-attr]
    assert "R is left out in 1 rows, from line 2: it has the opposite sign of the profit" in reading.notes


def test_a_list_of_ideas_with_their_r_stays_a_list_of_decisions() -> None:
    reading = read("date,symbol,side,entry,exit price,exit time,r,reason\n2026-06-04,BTC,long,100,110,2026-06-05,2,broke out\n")
    assert reading.mapping["kind"] == "decisions"


def test_gross_profit_is_net_plus_fees_less_funding() -> None:
    trade = read_trade(f"{HEAD},qty,net_pnl,fees,funding", f"BTC,long,{SPAN},100,110,2,17,2.5,-0.5")
    assert (trade.pnl, trade.fees, trade.funding) == (Decimal(20), Decimal("2.5"), Decimal("-0.5"))


def test_fees_are_gross_less_net_where_no_column_has_them() -> None:
    assert read_trade(f"{HEAD},qty,gross_pnl,net_pnl", f"BTC,long,{SPAN},100,110,2,20,17").fees == 3


def test_a_gross_that_does_not_fit_net_and_fees_gives_way_and_is_told() -> None:
    reading = read(f"{HEAD},qty,gross_pnl,net_pnl,fees\nBTC,long,{SPAN},100,110,2,20,18,1\n")
    assert reading.found[0].value.pnl == 19  # type: ignore[union-attr]
    assert "the file's own gross differs from that in 1 rows, by -1 in total; net is used" in reading.notes


def test_prices_tell_whether_pnl_is_before_or_after_fees() -> None:
    after = read(f"{HEAD},qty,pnl,fee\nBTC,long,{SPAN},100,110,2,17,3\nETH,short,{SPAN},50,40,1,9,1\n")
    assert [f.value.pnl for f in after.found] == [20, 10]  # type: ignore[union-attr]
    assert after.mapping["net_pnl"] == "pnl"
    before = read(f"{HEAD},qty,pnl,fee\nBTC,long,{SPAN},100,110,2,20,3\nETH,short,{SPAN},50,40,1,10,1\n")
    assert [f.value.pnl for f in before.found] == [20, 10]  # type: ignore[union-attr]
    assert before.mapping["pnl"] == "pnl"


def test_fees_written_with_a_minus_are_costs() -> None:
    reading = read(
        f"{HEAD},qty,commission\nBTC,long,{SPAN},100,110,2,-3\nBTC,long,{SPAN},100,120,2,-3\nETH,long,{SPAN},1,2,2,0.5\n"
    )
    assert [str(f.value.fees) for f in reading.found] == ["3", "3", "-0.5"]  # type: ignore[union-attr]
    assert "fees have a minus sign: read as costs" in reading.notes


def test_lots_become_units_so_that_risk_is_in_dollars() -> None:
    trade = read_trade(f"{HEAD},volume,profit,sl", f"GBPUSD,sell,{SPAN},1.27450,1.27110,0.30,102.00,1.27800")
    assert trade.qty == 30_000
    assert trade.stop is not None
    assert abs(trade.entry_price - trade.stop) * trade.qty == 105


def test_option_contracts_count_a_hundred_shares() -> None:
    text = f"{HEAD},qty,pnl\nSPY250101C1,long,{SPAN},4.65,4.00,1,-65\nSPY250101C1,long,{SPAN},1.25,1.30,2,10\n"
    assert values_read(read(text)) == ["long 100 SPY250101C1 4.65 -> 4", "long 200 SPY250101C1 1.25 -> 1.3"]


def test_a_multiplier_column_is_believed() -> None:
    assert read_trade(f"{HEAD},qty,multiplier", f"ES,long,{SPAN},5000,5010,2,50").qty == 100


def test_quantity_that_fits_no_multiple_is_left_out_rather_than_wrong() -> None:
    rows = [
        f"BTCUSD,long,{SPAN},{p},{p + 100 * n},1000,{round(1000 * 100 * n / p, 6)}"
        for n, p in enumerate((60000, 70000, 50000), 1)
    ]
    reading = read(f"{HEAD},qty,pnl\n" + "\n".join(rows))
    assert [f.value.qty for f in reading.found] == [None, None, None]  # type: ignore[union-attr]
    assert reading.notes == ["qty is left out for BTCUSD: pnl is not a fixed multiple of price move x qty"]


def test_costs_inside_the_profit_do_not_make_lots_of_units() -> None:
    reading = read(
        f"{HEAD},qty,pnl\nBTC,long,{SPAN},100,101,2,1.2\nBTC,long,{SPAN},100,100.1,2,-0.6\nBTC,short,{SPAN},100,98,1,1.8\n"
    )
    assert values_read(reading) == ["long 2 BTC 100 -> 101", "long 2 BTC 100 -> 100.1", "short 1 BTC 100 -> 98"]


def test_a_profit_that_contradicts_side_and_prices_is_refused_with_its_line() -> None:
    reading = read(f"{HEAD},qty,pnl\nBTC,long,{SPAN},100,110,2,20\nBTC,long,{SPAN},100,110,2,-20\n")
    assert values_read(reading) == ["long 2 BTC 100 -> 110"]
    assert problem_line(reading.problems[0]).startswith(
        "3: pnl: -20 contradicts a long whose price rose from 100 to 110. Correct side or pnl"
    )


def test_a_small_loss_on_a_small_favourable_move_is_costs() -> None:
    rows = [
        f"XAUUSD,SELL,{SPAN},1912.936,1912.858,-0.60",
        f"XAUUSD,BUY,{SPAN},1893.9,1899.4,5.5",
        f"XAUUSD,BUY,{SPAN},1893.9,1890,-3.9",
    ]
    assert len(read(f"{HEAD},pnl\n" + "\n".join(rows)).found) == 3


def test_sides_of_closing_orders_can_be_turned() -> None:
    text = f"{HEAD},qty,pnl\nBTC,Sell,{SPAN},100,110,2,20\nBTC,Buy,{SPAN},100,90,2,20\n"
    assert len(read(text).problems) == 2
    assert values_read(read(text, mapping={"sides": "exit"})) == ["long 2 BTC 100 -> 110", "short 2 BTC 100 -> 90"]


def test_net_losses_on_favourable_moves_are_believed_when_costs_are_inside() -> None:
    text = f"{HEAD},qty,pnl\nX,long,{SPAN},0.10,0.11,100,-3\nX,long,{SPAN},0.10,0.12,100,2\n"
    assert len(read(text).problems) == 1
    assert len(read(text, mapping={"net_pnl": "pnl"}).found) == 2


def test_without_a_side_column_profit_and_prices_tell_the_side() -> None:
    reading = read(
        "symbol,entry_time,exit_time,entry_price,exit_price,pnl\n" + f"A,{SPAN},10,11,5\nA,{SPAN},10,9,-5\nA,{SPAN},10,10,0\n"
    )
    assert values_read(reading) == ["long A 10 -> 11", "long A 10 -> 9", "long A 10 -> 10"]
    assert reading.notes == ["there is no side column: side follows from prices and pnl (2 long, 0 short)"]
    mixed = read(
        "symbol,entry_time,exit_time,entry_price,exit_price,pnl\n" + f"A,{SPAN},10,11,5\nA,{SPAN},10,9,5\nA,{SPAN},10,10,0\n"
    )
    assert values_read(mixed) == ["long A 10 -> 11", "short A 10 -> 9"]
    assert mixed.problems[0].line == 4


def test_a_negative_quantity_is_a_short_where_no_column_says_side() -> None:
    text = "symbol,entry_time,exit_time,entry_price,exit_price,qty\n" + f"A,{SPAN},10,11,5\nA,{SPAN},10,9,-5\n"
    assert values_read(read(text)) == ["long 5 A 10 -> 11", "short 5 A 10 -> 9"]


@pytest.mark.parametrize(
    ("header", "row"),
    [
        (f"{HEAD},qty", "BTC,long,2026-06-04T08:00Z,,100,,2"),
        (f"{HEAD},qty", "BTC,long,2026-06-04T08:00Z,0,100,0,2"),
        (f"{HEAD},qty,status", f"BTC,long,{SPAN},100,100,2,unclosed"),
        (f"{HEAD},qty,is_open", f"BTC,long,{SPAN},100,100,2,1"),
    ],
)
def test_an_open_trade_is_told_and_never_invented(header: str, row: str) -> None:
    reading = read(f"{header}\n{row}\nETH,long,{SPAN},1,2,3{',' * (header.count(',') - 6)}\n")
    assert values_read(reading) == ["long 3 ETH 1 -> 2"]
    assert [problem_line(p) for p in reading.problems] == ["2: exit_at: still open, skipped. Import again once it is closed"]
    assert not reading.problems[0].blocks


def test_a_worthless_expiry_closes_at_zero() -> None:
    assert read_trade(f"{HEAD},qty,pnl,status", f"SQ210611P1,long,{SPAN},0.65,0.0,1,-65,expired_worthless").exit_price == 0


def test_a_stop_beyond_the_entry_was_moved_there_and_is_no_risk() -> None:
    reading = read(f"{HEAD},qty,sl\nBTC,long,{SPAN},100,110,2,104\nBTC,short,{SPAN},100,90,2,104\nBTC,long,{SPAN},100,90,2,0\n")
    assert [f.value.stop for f in reading.found] == [None, 104, None]  # type: ignore[union-attr]
    assert reading.notes == ["stops of 1 rows are beyond the entry, so they were moved later: left out"]


def test_deposits_among_the_trades_are_no_trades() -> None:
    reading = read(TRADES + f"BTC,long,{SPAN},1,2,3\n,balance,2026-06-04T08:00Z,,,,\n")
    assert (values_read(reading), reading.problems) == (["long 3 BTC 1 -> 2"], [])
    assert reading.notes == ["1 rows are not executions and were skipped: balance 1"]


@pytest.mark.parametrize(
    ("row", "words"),
    [
        (f",long,{SPAN},1,2,3", "2: symbol: is empty"),
        (f"<b>,long,{SPAN},1,2,3", "2: symbol: should match pattern"),
        (f"BTC,maybe,{SPAN},1,2,3", "2: side: 'maybe' is neither long nor short"),
        (f"BTC,long,{SPAN},x,2,3", "2: entry_price: 'x' is not a number"),
        (f"BTC,long,{SPAN},1,2,", "2: qty: neither qty nor pnl is given"),
        ("BTC,long,soon,2026-06-04T09:00Z,1,2,3", "2: entry_at (entry_time): 'soon' is not a time"),
        ("BTC,long,2026-06-04T10:00Z,2026-06-04T09:00Z,1,2,3", "2: row: exit_at is before entry_at"),
        ("BTC,long,1492-01-01T00:00Z,2026-06-04T09:00Z,1,2,3", "is outside 1971 to 2199"),
    ],
)
def test_a_bad_row_names_its_line_its_field_and_its_fix_and_stops_no_other(row: str, words: str) -> None:
    reading = read(TRADES + row + f"\nETH,long,{SPAN},1,2,3\nETH,short,{SPAN},1,2,3\nETH,long,{SPAN},2,2,3\n")
    assert len(reading.found) == 3
    (problem,) = reading.problems
    assert words in problem_line(problem)
    assert problem.fix


def test_several_models_in_one_file_are_told_apart_by_strategy() -> None:
    reading = read(f"{HEAD},qty,model_id\nBTC,long,{SPAN},1,2,3,gpt\nBTC,long,{SPAN},1,2,3,grok\n")
    assert [f.value.strategy for f in reading.found] == ["gpt", "grok"]  # type: ignore[union-attr]


def test_texts_are_kept_to_one_line_and_their_length() -> None:
    reading = read(f'{HEAD},qty,reason\nBTC,long,{SPAN},1,2,3,"stop\x07ped\tout\n{"x" * 400}"\n')
    reason = reading.found[0].value.exit_reason  # type: ignore[union-attr]
    assert reason is not None
    assert reason.startswith("stopped out xxx")
    assert (len(reason), reason[-1]) == (280, "…")
    assert reading.notes == [
        "control characters were removed from 1 different text",
        "cut to the maximum length: 1 different text",
    ]
