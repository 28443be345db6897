"""Files that people keep themselves: sizes in dollars, missing prices, convictions of 1 to 10, accounts that nobody described."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from memtape.brokers.totals import file_totals
from memtape.errors import Invalid
from memtape.surfaces.cli.imports import run_import
from memtape.surfaces.cli.main import app

from .desk import TRADES, given_memory, ledger, read, read_fill, read_trade, values_read, write_file

HEAD = "symbol,side,entry_time,exit_time,entry_price,exit_price"
SPAN = "2026-06-04T08:00:00Z,2026-06-04T09:00:00Z"
BTC = f"BTC,long,{SPAN},100,110,2\n"


# ---- amounts of money ----------------------------------------------------------------------------------------------


def test_two_positions_of_6520_dollars_in_bitcoin_earn_170_dollars_not_eleven_million(tmp_path: Path) -> None:
    text = f"{HEAD},size_usd\nBTC,long,{SPAN},65200,66050,6520\nBTC,long,{SPAN},65200,66050,6520\n"
    answer = run_import(given_memory(), write_file(tmp_path, text), agent="desk")
    assert answer["totals"]["net_pnl"] == "170"
    assert answer["mapping"]["columns"]["value"] == "size_usd"
    assert "size_usd is an amount of money: qty is that amount divided by the price" in answer["mapping"]["notes"]


@pytest.mark.parametrize(
    "name", ["size_usd", "notional", "value", "Position Size (USD)", "amount_usdt", "qty $", "Position size (value)", "sizeUsd"]
)
def test_a_column_of_money_is_no_quantity(name: str) -> None:
    assert read_trade(f"{HEAD},{name}", f"BTC,long,{SPAN},50000,50500,1000").qty == Decimal("0.02")


def test_a_quantity_beside_the_money_is_the_quantity() -> None:
    reading = read(f"{HEAD},size_usd,size,notional\nBTC,long,{SPAN},50000,50500,1000,0.02,1000\n")
    assert values_read(reading) == ["long 0.02 BTC 50000 -> 50500"]
    assert "value" not in reading.mapping


def test_fills_with_an_amount_of_money_have_the_quantity_that_it_bought() -> None:
    fill = read_fill("time,symbol,side,price,notional_usd", "2026-06-04T08:00:00Z,BTC,buy,50000,1000")
    assert (fill.qty, fill.px) == (Decimal("0.02"), 50000)


def test_a_percentage_is_no_profit() -> None:
    reading = read(f"{HEAD},qty,P/L %\nBTC,long,{SPAN},100,110,2,10%\n")
    assert values_read(reading) == ["long 2 BTC 100 -> 110"]
    assert "pnl" not in read(f"{HEAD},qty,Profit %\nBTC,long,{SPAN},100,110,2,10\n").mapping


def test_sizes_that_name_a_currency_in_their_cells_are_money() -> None:
    assert read_trade(f"{HEAD},size", f"BTC,long,{SPAN},50000,50500,1000 USDT").qty == Decimal("0.02")
    assert read_trade(f"{HEAD},size", f'BTC,long,{SPAN},50000,50500,"$1,000"').qty == Decimal("0.02")
    assert read_trade(f"{HEAD},size", f"USDJPY,long,{SPAN},150,151,1000 USD").qty == 1000
    assert read_trade(f"{HEAD},size", f"BTCUSDT,long,{SPAN},50000,50500,0.02 BTC").qty == Decimal("0.02")


def test_lots_of_unknown_size_are_asked_for_and_not_taken_for_units() -> None:
    reading = read(f"{HEAD},lots\nEURUSD,long,{SPAN},1.10,1.11,0.1\n")
    (asked,) = [problem for problem in reading.problems if problem.blocks]
    assert asked.problem == "lots are lots, and nothing in the file says how many units one has"
    assert read_trade(f"{HEAD},lots", f"EURUSD,long,{SPAN},1.10,1.11,0.1", mapping={"multiplier": "=100000"}).qty == 10_000


def test_a_profit_in_a_coin_is_not_taken_for_dollars(tmp_path: Path) -> None:
    text = f"{HEAD},contracts,pnl (BTC)\nXBTUSD,long,{SPAN},65000,66000,10000,0.00233100\n"
    answer = run_import(given_memory(), write_file(tmp_path, text), agent="coin")
    assert answer["account"]["currency"] == "BTC"


def test_a_column_of_positions_that_says_long_and_short_is_the_side_and_no_id() -> None:
    head = "ts,closed_at,market,position,size_usd,entry,exit,pnl"
    rows = "".join(f"{SPAN},BTC,{side},1000,100,{exit_},{pnl}\n" for side, exit_, pnl in (("LONG", 110, 100), ("SHORT", "", -20)))
    reading = read(f"{head}\n{rows}")
    assert [(each.value.side, each.value.pnl) for each in reading.found] == [("long", 100), ("short", -20)]  # type: ignore[union-attr]
    assert "id" not in reading.mapping


def test_a_german_list_of_purchases_and_sales_is_read_without_a_mapping() -> None:
    head = "Datum;Kauf/Verkauf;Wertpapier;Stück;Kaufkurs;Verkaufsdatum;Verkaufskurs;Gebühren;Gewinn/Verlust"
    row = "02.06.2025 09:15;Kauf;SAP;1.000;245,50;13.06.2025 17:00;250,25;9,90;4.740,10 €"
    reading = read(f"{head}\n{row}\n;;;;;;;Summe;4.740,10 €\n".encode("cp1252"))
    assert values_read(reading) == ["long 1000 SAP 245.5 -> 250.25"]
    assert file_totals(reading.found).net == Decimal("4740.10")


def test_a_profit_after_costs_is_recognised_where_quantities_are_in_lots() -> None:
    head = "Open Date,Close Date,Symbol,Action,Units/Lots,Open Price,Close Price,Commission,Swap,Profit"
    rows = (
        "05/29/2025 09:15,05/29/2025 11:40,EURUSD,Buy,0.5,1.1350,1.1382,-3.5,0,156.50\n"
        "05/30/2025 09:15,05/30/2025 11:40,EURUSD,Sell,0.5,1.1391,1.1402,-3.5,0,-58.50\n"
    )
    reading = read(f"{head}\n{rows}")
    assert file_totals(reading.found).net == 98
    assert values_read(reading) == ["long 50000 EURUSD 1.135 -> 1.1382", "short 50000 EURUSD 1.1391 -> 1.1402"]


def test_a_clock_before_its_date_is_a_time() -> None:
    head = "Contracts,Closing Direction,Qty,Entry Price,Exit Price,Closed P&L,Filled/Settlement Time(UTC+0),Create Time"
    trade = read_trade(head, "BTCUSDT,Sell,0.01,65000,66000,9.29,10:15 2025-06-02,09:15 2025-06-02")
    assert (trade.side, trade.entry_at.hour, trade.exit_at.hour) == ("long", 9, 10)


def test_a_row_that_repeats_another_one_with_its_id_is_counted_once_in_the_totals() -> None:
    reading = read(f"id,{HEAD},qty\n" + f"1,BTC,long,{SPAN},100,110,2\n" * 2)
    assert (file_totals(reading.found).n, file_totals(reading.found).net) == (1, 20)


def test_negative_money_is_a_short_where_no_column_says_side() -> None:
    text = f"symbol,entry_time,exit_time,entry_price,exit_price,notional\nA,{SPAN},10,11,50\nA,{SPAN},10,9,-50\n"
    assert values_read(read(text)) == ["long 5 A 10 -> 11", "short 5 A 10 -> 9"]


def test_a_mapping_of_an_earlier_version_that_took_money_for_a_quantity_is_corrected() -> None:
    saved = {"kind": "trades", "symbol": "symbol", "side": "side", "entry_at": "entry_time", "exit_at": "exit_time",
             "entry_price": "entry_price", "exit_price": "exit_price", "qty": "size_usd"}  # fmt: skip
    reading = read(f"{HEAD},size_usd\nBTC,long,{SPAN},50000,50500,1000\n", saved=lambda header: saved)
    assert values_read(reading) == ["long 0.02 BTC 50000 -> 50500"]


# ---- closed without a price ------------------------------------------------------------------------------------------


def test_a_trade_with_a_close_time_and_no_exit_price_was_closed_without_a_price(tmp_path: Path) -> None:
    memory = given_memory()
    path = write_file(tmp_path, TRADES + f"ETH,long,{SPAN},100,,2\nSOL,long,{SPAN},100,,2\n" + BTC)
    answer = run_import(memory, path, agent="desk", commit=True)
    assert (answer["trades"], answer["unpriced"], answer["new"], answer["totals"]["net_pnl"]) == (3, 2, 3, "20")
    (problem,) = answer["problems"]
    assert (problem["count"], problem["blocks"], problem["examples"][0]) == (
        2, False, {"line": 2, "problem": "closed without a price: imported as a trade whose outcome is unknown"},
    )  # fmt: skip
    rows = {row["symbol"]: row for row in ledger(memory)}
    assert (rows["ETH"]["status"], rows["ETH"]["exit_price"], rows["ETH"]["net_pnl_usd"]) == ("closed", None, None)
    assert memory.agent("desk").ledger.performance().n_priced == 1
    assert run_import(memory, path, agent="desk", commit=True)["new"] == 0


def test_a_trade_without_an_exit_price_keeps_the_profit_that_its_file_states() -> None:
    reading = read(f"{HEAD},qty,pnl\nBTC,long,{SPAN},100,,2,7\n")
    (found,) = reading.found
    assert (found.value.exit_price, found.value.pnl) == (None, 7)  # type: ignore[union-attr]
    assert (reading.unpriced, reading.problems) == (0, [])
    assert "1 trades have a profit and no exit price: the profit is used as it is" in reading.notes


def test_a_file_without_any_exit_price_is_one_of_closed_trades() -> None:
    reading = read(f"symbol,side,open_time,close_time,open_price,pnl\nBTC,long,{SPAN},100,7\n")
    assert (reading.kind, len(reading.found), reading.found[0].value.pnl) == ("trades", 1, 7)  # type: ignore[union-attr]


def test_an_exit_price_without_a_close_time_is_a_row_to_correct() -> None:
    reading = read(TRADES + "BTC,long,2026-06-04T08:00:00Z,,100,110,2\n" + BTC)
    assert [(p.field, p.problem, p.blocks) for p in reading.problems] == [("exit_at (exit_time)", "is empty", True)]


def test_an_unpriced_trade_comes_with_the_lots_of_its_symbol() -> None:
    text = f"{HEAD},lots,profit\nEURUSD,buy,{SPAN},1.10,1.11,0.5,500\nEURUSD,buy,{SPAN},1.10,,0.2,\n"
    assert [found.value.qty for found in read(text).found] == [50_000, 20_000]


# ---- conviction ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("cells", "expected", "words"),
    [
        (("7", "9.5"), ("0.7", "0.95"), "conviction is on a scale of 10: divided by 10"),
        (("70", "8"), ("0.7", "0.08"), "conviction is on a scale of 100: divided by 100"),
        (("70%", "55 %"), ("0.7", "0.55"), None),
        (("0.7", "1"), ("0.7", "1"), None),
        (("0.7", "70"), (None, None), "conviction is left out: its values go from 0.7 to 70"),
        (("3", "4"), (None, None), "the scale is unclear; if it is 5, give --map confidence_scale=5"),
        (("-1", "7"), (None, None), "conviction is left out: its values go from -1 to 7"),
        (("high", "low"), (None, None), "conviction is left out: its values are not numbers"),
        (("0", "0"), (None, None), "conviction is left out: it is 0 in every row"),
        (("high", "80"), (None, "0.8"), "conviction: 1 values are not numbers and are left out"),
    ],
)
@pytest.mark.parametrize("kind", ["trades", "fills"])
def test_conviction_is_scaled_by_its_column_or_left_out_and_costs_no_row(
    kind: str, cells: tuple[str, ...], expected: tuple[str | None, ...], words: str | None
) -> None:
    head = f"{HEAD},qty,conviction" if kind == "trades" else "time,symbol,side,qty,price,conviction"
    row = f"BTC,long,{SPAN},100,110,2" if kind == "trades" else "2026-06-04T08:00:00Z,BTC,buy,2,100"
    reading = read(f"{head}\n" + "".join(f"{row},{cell}\n" for cell in cells))
    assert (len(reading.found), [p for p in reading.problems if p.blocks]) == (2, [])
    about = [found.value if kind == "trades" else found.decision for found in reading.found]
    assert [each.confidence if each else None for each in about] == [None if e is None else Decimal(e) for e in expected]  # type: ignore[union-attr]
    assert words is None or any(words in note for note in reading.notes)


def test_a_scale_that_the_column_does_not_show_can_be_stated() -> None:
    trade = read_trade(f"{HEAD},qty,conviction", f"BTC,long,{SPAN},100,110,2,4", mapping={"confidence_scale": "5"})
    assert trade.confidence == Decimal("0.8")


def test_the_confidence_of_an_imported_trade_is_remembered(tmp_path: Path) -> None:
    memory = given_memory()
    run_import(memory, write_file(tmp_path, f"{HEAD},qty,conviction\nBTC,long,{SPAN},100,110,2,8\n"), agent="desk", commit=True)
    assert ledger(memory)[0]["confidence"] == Decimal("0.8")


# ---- the account -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("header", "row"),
    [
        (f"{HEAD},qty,currency", f"DAX,long,{SPAN},100,110,2,EUR"),
        (f"{HEAD},qty,pnl_eur", f"DAX,long,{SPAN},100,110,2,20"),
        (f"{HEAD},qty,Profit (EUR)", f"DAX,long,{SPAN},100,110,2,20"),
        (f"{HEAD},qty,pnl", f"DAX,long,{SPAN},100,110,2,€20"),
        (f"{HEAD},qty,pnl", f"DAX,long,{SPAN},100,110,2,20.00 EUR"),
        (f"{HEAD},size_eur", f"DAX,long,{SPAN},100,110,200"),
    ],
)
def test_the_currency_of_a_file_is_read_from_its_columns_and_becomes_that_of_a_new_account(
    tmp_path: Path, header: str, row: str
) -> None:
    memory = given_memory()
    path = write_file(tmp_path, f"{header}\n{row}\n")
    preview = run_import(memory, path, agent="newcomer")
    assert preview["account"] == {"currency": "EUR", "starting_equity": None}
    assert [p["field"] for p in preview["problems"]] == ["starting_equity"]
    run_import(memory, path, agent="newcomer", commit=True)
    assert memory.agent("newcomer").agent.settings.currency == "EUR"


def test_stablecoins_are_dollars() -> None:
    assert read(f"{HEAD},qty,pnl\nBTC,long,{SPAN},100,110,2,20 USDT\n").currency == "USD"
    assert read(f"{HEAD},qty,pnl,currency\nBTC,long,{SPAN},100,110,2,20,USDC\n").currency == "USD"


def test_the_currency_of_prices_says_nothing_about_profits_that_the_file_states() -> None:
    assert read(f"{HEAD},qty\nDAX,long,{SPAN},€100,€110,2\n").currency == "EUR"
    assert read(f"{HEAD},qty,pnl\nDAX,long,{SPAN},€100,€110,2,22\n").currency is None


def test_a_currency_that_the_file_does_not_state_is_asked_for(tmp_path: Path) -> None:
    memory, path = given_memory(), write_file(tmp_path, TRADES + BTC)
    preview = run_import(memory, path, agent="newcomer")
    assert [(p["field"], p["fix"], p["blocks"]) for p in preview["problems"]] == [
        ("currency", "If it is another one, give it, like --currency EUR", False),
        ("starting_equity", "Give it, like --starting-equity 25000", False),
    ]  # fmt: skip
    answer = run_import(memory, path, agent="newcomer", currency="GBP", starting_equity="25000", commit=True)
    assert (answer["problems"], answer["account"]) == ([], {"currency": "GBP", "starting_equity": "25000"})
    settings = memory.agent("newcomer").agent.settings
    assert (settings.currency, settings.starting_equity) == ("GBP", 25000)
    with pytest.raises(Invalid, match="currency"):
        run_import(memory, path, agent="other", currency="pound sterling")


def test_a_file_in_another_currency_than_the_account_is_not_added_to_it(tmp_path: Path) -> None:
    memory, path = given_memory(), write_file(tmp_path, f"{HEAD},qty,pnl_eur\nDAX,long,{SPAN},100,110,2,20\n")
    with pytest.raises(Invalid, match=r"the file is in EUR \(pnl_eur\), the account of the agent is in USD") as error:
        run_import(memory, path, agent="desk", commit=True, skip_bad=True)
    assert "give --currency USD" in str(error.value)
    assert run_import(memory, path, agent="desk", commit=True, currency="USD")["new"] == 1


def test_rows_in_two_currencies_are_not_added_up(tmp_path: Path) -> None:
    text = f"{HEAD},qty,currency\nDAX,long,{SPAN},100,110,2,EUR\nSPY,long,{SPAN},100,110,2,USD\n"
    path = write_file(tmp_path, text)
    assert run_import(given_memory(), path, agent="desk")["problems"][0]["problem"] == "the amounts are in EUR and USD (currency)"
    assert run_import(given_memory(), path, agent="desk", where={"currency": "USD"}, commit=True)["new"] == 1


def test_balances_that_move_by_the_profits_show_what_the_account_started_with(tmp_path: Path) -> None:
    rows = "".join(f"BTC,long,{SPAN},100,110,2,20,{balance}\n" for balance in ("5020", "5040", "5060"))
    memory, path = given_memory(), write_file(tmp_path, f"{HEAD},qty,pnl,balance\n{rows}")
    run_import(memory, path, agent="newcomer", commit=True)
    assert memory.agent("newcomer").agent.settings.starting_equity == 5000
    loose = "".join(f"BTC,long,{SPAN},100,110,2,20,{balance}\n" for balance in ("5020", "5100", "9060"))
    assert read(f"{HEAD},qty,pnl,balance\n{loose}").starting_equity is None


def test_no_percentage_is_given_of_an_equity_that_nobody_stated(tmp_path: Path) -> None:
    losing = write_file(tmp_path, TRADES + f"BTC,short,{SPAN},100,110,2\n")
    for agent, equity, expected in (("unstated", None, None), ("stated", "1000", 2)):
        memory = given_memory()
        run_import(memory, losing, agent=agent, starting_equity=equity, commit=True)
        did = memory.agent(agent).ledger.performance()
        assert (did.max_drawdown_usd, did.max_drawdown_pct) == (20, expected)
        affect = memory.agent(agent).memories.affect()
        assert affect.assumption == ("" if equity else ", assuming 10,000")
        text = memory.agent(agent).briefs.make().brief.text
        assert ("%, assuming 10,000)" in text) is (equity is None)


def test_the_starting_equity_of_an_existing_agent_is_not_changed(tmp_path: Path) -> None:
    memory, path = given_memory(starting_equity="5000"), write_file(tmp_path, TRADES + BTC)
    assert run_import(memory, path, agent="desk", starting_equity="5000")["account"]["starting_equity"] == "5000"
    with pytest.raises(Invalid, match="starting_equity: the agent 'desk' exists with another one"):
        run_import(memory, path, agent="desk", starting_equity="9000")


# ---- absurd totals -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (f"{HEAD},qty,pnl\nBTC,long,{SPAN},100,90,2,-20\nBTC,long,{SPAN},100,90,2,-5000\n" + f"ETH,long,{SPAN},100,90,2,-20\n" * 5,
         "the loss of 5,120.00 is more than ten times the largest position, 200.00"),
        (f"{HEAD},qty\nBTC,long,{SPAN},100,110,2000000000\n", "a quantity of 2,000,000,000 is above 1,000,000,000"),
    ],
)  # fmt: skip
def test_totals_that_cannot_be_right_are_told_in_the_first_line(tmp_path: Path, text: str, words: str) -> None:
    answer = run_import(given_memory(), write_file(tmp_path, text), agent="desk")
    assert next(iter(answer)) == "warning"
    assert words in answer["warning"]
    assert "warning" not in run_import(given_memory(), write_file(tmp_path, TRADES + BTC), agent="desk")


def test_many_small_losses_above_ten_times_the_largest_position_can_be_right(tmp_path: Path) -> None:
    text = f"{HEAD},qty\n" + f"BTC,long,{SPAN},100,50,1\n" * 30
    answer = run_import(given_memory(), write_file(tmp_path, text), agent="desk")
    assert (answer["totals"]["net_pnl"], "warning" in answer) == ("-1500", False)


# ---- rows that are listed twice ----------------------------------------------------------------------------------------


def test_a_sale_that_is_listed_twice_and_leaves_the_position_short_is_told_and_can_be_dropped() -> None:
    text = "date,ticker,action,shares,price\n2026-06-01,A,buy,3,10\n2026-06-02,A,sell,3,12\n2026-06-02,A,sell,3,12\n"
    reading = read(text, zone="UTC")
    assert [(p.line, p.blocks) for p in reading.problems] == [(4, False)]
    assert "give --map repeats=drop" in reading.problems[0].fix
    assert len(values_read(reading)) == 3
    dropped = read(text, zone="UTC", mapping={"repeats": "drop"})
    assert (dropped.problems, len(dropped.found)) == ([], 2)
    assert "1 rows repeat another row exactly: left out" in dropped.notes
    kept = read(text, zone="UTC", mapping={"repeats": "keep"})
    assert (kept.problems, len(kept.found)) == ([], 3)


def test_two_equal_fills_of_one_order_are_two_fills() -> None:
    text = "date,ticker,action,shares,price\n2026-06-01,A,buy,3,10\n2026-06-01,A,buy,3,10\n2026-06-02,A,sell,6,12\n"
    reading = read(text, zone="UTC")
    assert (reading.problems, len(reading.found)) == ([], 3)


# ---- words -------------------------------------------------------------------------------------------------------------


def test_a_comment_is_a_note_and_no_exit_reason(tmp_path: Path) -> None:
    memory = given_memory()
    run_import(memory, write_file(tmp_path, f"{HEAD},qty,comment\nBTC,long,{SPAN},1,2,3,felt rushed\n"), agent="desk", commit=True)
    (row,) = ledger(memory)
    assert (row["exit_reason"], row["entry_reason"], row["reflection"]) == (None, None, "felt rushed")


def test_a_comment_on_a_fill_is_a_note_of_its_decision(tmp_path: Path) -> None:
    text = "id,time,symbol,side,qty,price,comment\n1,2026-06-04T08:00:00Z,A,buy,1,10,in a hurry\n2,2026-06-04T09:00:00Z,A,sell,1,9,[sl]\n"
    reading = read(text)
    first, second = reading.found
    assert first.decision is not None and (first.decision.reason, first.decision.slots) == (None, {"note": "in a hurry"})
    assert (second.decision, second.value.trigger) == (None, "stop")  # type: ignore[union-attr]


def test_a_terminals_own_comment_says_what_set_off_the_exit() -> None:
    trade = read_trade(f"{HEAD},qty,comment", f"BTC,long,{SPAN},1,2,3,my robot[tp]")
    assert (trade.trigger, trade.note, trade.exit_reason) == ("target", "my robot[tp]", None)


def test_a_timestamp_beside_a_close_time_is_the_entry_time() -> None:
    trade = read_trade("timestamp,symbol,side,qty,entry_price,exit_price,close_time",
                       "2026-06-04T08:00:00Z,BTC,long,2,100,110,2026-06-04T09:00:00Z")  # fmt: skip
    assert (trade.entry_at.hour, trade.exit_at.hour) == (8, 9)


def test_labels_of_a_file_are_folded_and_unknown_ones_kept(tmp_path: Path) -> None:
    words = ("Up-Trend,Very High,LDN", "sideways,medium,New York session", "Witching Hour,odd,Night")
    text = f"{HEAD},qty,regime,volatility,session\n" + "".join(f"BTC,Bullish,{SPAN},100,110,2,{each}\n" for each in words)
    memory = given_memory()
    run_import(memory, write_file(tmp_path, text), agent="desk", commit=True)
    rows: list[Any] = [(row["side"], row["entry_regime"], row["entry_volatility"], row["entry_session"]) for row in ledger(memory)]
    assert sorted(rows) == [
        ("long", "Witching Hour", "odd", "Night"), ("long", "ranging", "normal", "newyork"),
        ("long", "trending_up", "extreme", "london"),
    ]  # fmt: skip


# ---- on the command line -----------------------------------------------------------------------------------------------


def test_an_import_is_listed_whole_and_its_undo_says_what_was_taken_back(tmp_path: Path) -> None:
    path = write_file(tmp_path, TRADES + BTC * 3, "a statement with a rather long name for its own good 2026-06.csv")
    db = tmp_path / "memory.db"

    def memtape(*words: str) -> str:
        done = CliRunner().invoke(app, [*words, "--agent", "desk", "--db", str(db)])
        assert done.exit_code == 0, done.output
        return done.stdout

    memtape("import", str(path), "--commit", "--currency", "EUR", "--starting-equity", "5000")

    def listed() -> dict[str, str]:
        heading, row = (line.split("\t") for line in memtape("imports", "list").splitlines() if "\t" in line)
        return dict(zip(heading, row, strict=True))

    found = listed()
    batch = found["batch"]
    assert (found["file"], found["format"], found["new"], found["undone"]) == (path.name, "csv", "3", "false")
    assert memtape("imports", "undo") == (
        f"Took back {path.name} ({batch}): 3 trades. They no longer count; the file can be imported again.\n"
    )
    assert listed() == found | {"undone": "true"}
    assert memtape("imports", "undo", batch) == f"Was taken back before: {path.name} ({batch}): 3 trades.\n"
